//! `sealgate key generate-tls-key` and `request-certificate`, and the TLS keys of `key list`: private
//! keys of TLS certificates in the token, and client keys for upstream providers.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::output::{Output, OutputTable};
use sealgate_acme::certificate_request;
use sealgate_config::{CertificateKey, Config, UpstreamCredential, tls_key_label};
use sealgate_domain::source::SourceName;
use sealgate_edge::check_token_certificate;
use sealgate_signer as signer;
use sealgate_signer::TlsKeyReport;
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

/// Columns of the table of TLS keys. `problem` is shown only if a key has one.
const COLUMNS: [&str; 7] = ["label", "algorithm", "purpose", "state", "id", "hosts", "problem"];

/// Lists the TLS keys in the token with the hosts that use them, and configured keys that are missing.
pub(super) fn list(config: &Config) -> Result<OutputTable<'static>, CommandFailure> {
    let uses = &config.token_key_uses;
    let expected = uses.iter().map(|used| used.label.clone());
    let expected: Vec<String> = expected.chain(client_keys(config).map(|(_, label)| label.to_owned())).collect();
    let keys = signer::list_tls_keys(&config.hsm, &expected).map_err(CommandFailure::line)?;
    let has_problem = keys.iter().any(|key| key.problem.is_some());
    let row = |key: TlsKeyReport| {
        let own: Vec<_> = uses.iter().filter(|used| used.label == key.label).collect();
        let upstreams: Vec<_> =
            client_keys(config).filter(|(_, label)| *label == key.label).map(|(name, _)| name.as_str()).collect();
        let state = match &key {
            TlsKeyReport { is_missing: true, .. } => "not_in_token",
            TlsKeyReport { problem: Some(_), .. } => "refused",
            _ if own.is_empty() && upstreams.is_empty() => "unused",
            _ => "used",
        };
        let mut row = json!(key);
        row["purpose"] = json!(if upstreams.is_empty() { "tls" } else { "client" });
        row["state"] = json!(state);
        row["hosts"] = json!(own.iter().flat_map(|used| &used.hosts).collect::<BTreeSet<_>>());
        if !upstreams.is_empty() {
            row["upstreams"] = json!(upstreams);
        }
        row["certificates"] = own.iter().map(|used| used.certificate.display().to_string()).collect();
        row
    };
    let columns = if has_problem { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    Ok(OutputTable { name: "tls_keys", rows: keys.into_iter().map(row).collect(), columns: columns.to_vec() })
}

/// Returns the upstreams whose client key is in the token, with the label of the key.
fn client_keys(config: &Config) -> impl Iterator<Item = (&SourceName, &str)> {
    config.upstreams.iter().filter_map(|upstream| match &upstream.credential {
        UpstreamCredential::Key(label) => Some((&upstream.name, label.as_str())),
        UpstreamCredential::SecretFile(_) => None,
    })
}

/// Returns the reasons why a server would not start with the keys that the configuration names.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut faults = Vec::new();
    for certificate in &config.server.tls {
        let CertificateKey::Token(label) = &certificate.key else { continue };
        match signer::with_tls_key(&config.hsm, label, |key| key.key().subject_public_key_info()) {
            Ok(public) => faults.extend(check_token_certificate(&certificate.certificate, label, &public).err()),
            Err(error) => faults.push(error.to_string()),
        }
    }
    for (upstream, label) in client_keys(config) {
        if let Err(error) = signer::with_tls_key(&config.hsm, label, |_| ()) {
            faults.push(format!("upstream {upstream}: client_key: {error}"));
        }
    }
    faults
}
