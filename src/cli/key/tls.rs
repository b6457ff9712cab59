//! `sealgate key generate-tls-key` and `request-certificate`: private keys of TLS certificates in the
//! token.

use serde_json::json;

use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::output::Output;
use sealgate_acme::certificate_request;
use sealgate_config::{CertificateKey, Config, tls_key_label};
use sealgate_edge::check_token_certificate;
use sealgate_signer as signer;
use sealgate_system::clock::{OsEntropy, random};

pub(super) fn generate(label: &str, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let label = tls_key_label(label).map_err(CommandFailure::line)?;
    let id: [u8; 16] = random(&OsEntropy);
    let key = signer::generate_tls_key(&access.config().hsm, &label, &id).map_err(CommandFailure::line)?;
    output.result(&json!({ "label": label, "id": key.id() }), || {
        format!("Created TLS key {label}\nNext: sealgate key request-certificate {label} HOST\n")
    })
}

/// Prints a certificate signing request (RFC 2986) in PEM.
pub(super) fn request(
    label: &str,
    hosts: &[String],
    access: &StoreAccess,
    output: &Output,
) -> Result<(), CommandFailure> {
    let label = tls_key_label(label).map_err(CommandFailure::line)?;
    let request = signer::with_tls_key(&access.config().hsm, &label, |key| {
        certificate_request(hosts, key.key().point(), |message| key.sign(message).ok())
    });
    let pem = request.map_err(CommandFailure::line)?.map_err(CommandFailure::line)?;
    output.result(&json!({ "request": pem }), || pem.clone())
}

/// Returns why a start would refuse the TLS keys in the token that the configuration names.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut faults = Vec::new();
    for certificate in &config.server.tls {
        let CertificateKey::Token(label) = &certificate.key else { continue };
        match signer::with_tls_key(&config.hsm, label, |key| key.key().subject_public_key_info()) {
            Ok(public) => faults.extend(check_token_certificate(&certificate.certificate, label, &public).err()),
            Err(error) => faults.push(error.to_string()),
        }
    }
    faults
}
