//! Checks of `[hsm]`.

use super::address;
use super::address::{HOUR, MINUTE};
use crate::disk::Files;
use crate::file::Section;
use crate::{ConfigFault, Hsm, Mechanism};
use sealgate_domain::oauth::jwk_set::Algorithm;

pub(super) fn hsm(mut section: Section<'_, '_>, files: &Files) -> Option<Hsm> {
    let module =
        section.required_text("module", "write the path of the token's PKCS#11 module", |text| files.module(text));
    let token_label = section.required_text("token_label", "write the token's label", address::token_label);
    let pin_file = section.required_text("pin_file", "write the path of the file with the PIN", |text| {
        files.secret_file(text, "the token's user PIN")
    });
    let softhsm_conf =
        section.text("softhsm_conf", "write SoftHSM's configuration file", |text| files.softhsm_conf(text));
    let key_label = section.text("key_label", "write the label of the signing keys", address::name);
    let attestation =
        section.text("attestation", "write the directory of the attestations", |text| files.directory(text));
    let sessions = section.number("sessions", 2, 1..=256);
    let sign_timeout = section.seconds("sign_timeout_seconds", 5, 1..=MINUTE);
    let queue = section.number("queue", 256, 1..=65_536);
    let hang_abort = section.seconds("hang_abort_seconds", 30, 5..=HOUR);
    let mechanisms = [("rsa-pkcs", Mechanism::RsaPkcs), ("sha256-rsa-pkcs", Mechanism::Sha256RsaPkcs)];
    let mechanism = section.choice("mechanism", &mechanisms).unwrap_or(Mechanism::RsaPkcs);
    let require_local = section.flag("require_local", true);
    let shared = section.flag("shared", false);
    Some(Hsm {
        module: module?,
        token_label: token_label?,
        pin_file: pin_file?,
        softhsm_conf,
        key_label: key_label.unwrap_or_else(|| "sealgate".to_owned()),
        // From `keys.algorithms`, which is read later.
        algorithms: vec![Algorithm::Rs256],
        attestation,
        sessions,
        sign_timeout,
        queue,
        hang_abort,
        mechanism,
        require_local,
        shared,
    })
}

/// Returns a warning if the module is p11-kit's client and is configured for concurrent calls: see
/// docs/how-to/pkcs11-token.md.
///
/// The client is recognized by its file name, because `C_GetInfo` returns the name of the module
/// behind it.
pub(super) fn one_call_at_a_time(hsm: &Hsm) -> Option<ConfigFault> {
    let is_client = hsm.module.file_name().is_some_and(|name| name == "p11-kit-client.so");
    (is_client && hsm.sessions > 1).then(|| {
        let problem = "p11-kit's client can hang permanently if its server exits during two concurrent calls; write 1";
        ConfigFault::new("hsm.sessions".to_owned(), None, problem.to_owned())
    })
}
