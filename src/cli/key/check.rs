//! Checks of the keys in the token, and their comparison with the schedule in the store.
//!
//! Both `sealgate key check` and `sealgate check` run these checks. `sealgate check` reports the
//! errors that would prevent startup.

use std::io::{self, Write};

use serde_json::json;

use crate::app::sealing;
use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::key::tls;
use crate::cli::output::Output;
use sealgate_admin::answer::{KeyAnswer, KeysAnswer};
use sealgate_domain::key_ring::KeyState;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer as signer;
use sealgate_signer::{KeyReport, TokenCheck};

pub(crate) struct Findings {
    check: TokenCheck,
    /// Errors that would prevent startup, or that would prevent the publication of a key.
    pub(crate) faults: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Findings {
    /// Returns the key ids of the signing keys in the token.
    pub(crate) fn signing(&self) -> impl Iterator<Item = &str> {
        self.check.keys.iter().map(|key| key.report.kid.as_str())
    }
}

pub(super) fn run(access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let Findings { check, faults, warnings } = find(access)?;
    if !faults.is_empty() {
        return Err(CommandFailure::Failed(faults));
    }
    for warning in warnings {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    let keys = check.keys.iter().map(|key| &key.report).collect::<Vec<_>>();
    output.result(&json!({ "ok": true, "keys": keys, "wrapping_keys": check.wrapping_keys }), || {
        check.keys.iter().map(|key| format!("{}: ok\n", key.report.kid)).collect::<Vec<_>>().concat()
    })
}

/// Checks the token and the schedule of the server or the store.
///
/// # Errors
/// If the token or the store cannot be read.
pub(crate) fn find(access: &StoreAccess) -> Result<Findings, CommandFailure> {
    let check = signer::check(&access.config().hsm).map_err(CommandFailure::line)?;
    let KeysAnswer { keys: lives, unannounced_ids, .. } = access.key_times()?;
    let mut faults = check.faults.clone();
    faults.extend(check.keys.iter().filter(|key| !key.faults.is_empty()).map(|key| {
        let KeyReport { kid, label, id, .. } = &key.report;
        format!("key {kid} (label \"{label}\", CKA_ID {id}): {}", key.faults.join(", "))
    }));
    faults.extend(tls::faults(access.config()));
    let mut warnings = Vec::new();
    if check.wrapping_keys.is_empty() {
        warnings.push(sealing::NO_WRAPPING_KEY.to_owned());
        if access.config().mail.is_some() {
            warnings.push(sealing::NO_MAIL.to_owned());
        }
        faults.extend(access.config().registration_of_people.fault_without_sealing());
    }
    let holder = access.config().token_holder();
    compare(
        &check,
        &lives,
        &unannounced_ids,
        holder.as_ref().map(|holder| holder.node.as_str()),
        &access.config().keys.algorithms,
        &mut faults,
        &mut warnings,
    );
    Ok(Findings { check, faults, warnings })
}

/// Reports keys that a starting server would refuse, and announced keys that it could not publish.
fn compare(
    check: &TokenCheck,
    lives: &[KeyAnswer],
    unannounced_ids: &[String],
    node: Option<&str>,
    algorithms: &[Algorithm],
    faults: &mut Vec<String>,
    warnings: &mut Vec<String>,
) {
    let in_token = |kid: &str| check.keys.iter().any(|key| key.report.kid.as_str() == kid);
    let marked = |kid: &str| check.removed.iter().any(|key| key.kid.as_str() == kid);
    for key in check.keys.iter().map(|key| &key.report) {
        let KeyReport { kid, id, .. } = key;
        match lives.iter().find(|one| one.life.kid == kid.as_str()).map(|one| one.state) {
            _ if lives.iter().any(|one| one.life.kid == kid.as_str() && !one.life.is_for(key.alg)) => {
                faults.push(format!(
                    "key {kid} has the label of {} keys in the token, but is announced for another algorithm; change \
                     its label back",
                    key.alg
                ));
            }
            Some(KeyState::Removed) => {
                warnings.push(format!("key {kid} was removed, but is still in the token; delete it there"));
            }
            Some(_) => {}
            // The only key of an algorithm in a token that was never used needs no announcement.
            None if lives.is_empty() && check.keys.iter().filter(|other| other.report.alg == key.alg).count() == 1 => {}
            None if unannounced_ids.contains(id) => warnings.push(format!(
                "key {kid} was generated here, but is not announced; the next start announces it, or run \
                 `sealgate key announce {kid}`"
            )),
            None => faults.push(format!(
                "key {kid} (CKA_ID {id}) is in the token, but not announced; announce it with `sealgate key \
                 announce {kid}`, or delete it from the token"
            )),
        }
    }
    for key in &check.removed {
        warnings.push(format!(
            "key {} was removed with --now or --emergency, but is still in the token; delete it there",
            key.kid
        ));
    }
    let is_own = |key: &&KeyAnswer| key.life.holder.as_deref() == node;
    let is_configured = |key: &&KeyAnswer| algorithms.iter().any(|algorithm| key.life.is_for(*algorithm));
    for KeyAnswer { life, state, .. } in lives.iter().filter(is_own).filter(is_configured) {
        let (kid, state_name) = (&life.kid, json!(state));
        let state_name = state_name.as_str().unwrap_or_default();
        if *state == KeyState::Removed || in_token(kid) {
        } else if marked(kid) {
            faults.push(format!(
                "key {kid} is announced ({state_name}), but marked as removed in the token; announce another key \
                 that can sign, then run `sealgate key remove --now {kid}`"
            ));
        } else {
            faults.push(format!(
                "key {kid} is announced ({state_name}), but not in the token; restore it, or see \
                 docs/how-to/signing-keys.md"
            ));
        }
    }
    let signs = |algorithm: Algorithm| {
        lives.iter().filter(is_own).any(|key| key.life.is_for(algorithm) && key.state == KeyState::Active)
    };
    if !lives.is_empty() && !signs(Algorithm::Rs256) {
        faults.push("no key is due to sign; `sealgate key list` shows the schedule".into());
    }
    // The server starts before the first key of a further algorithm is active.
    for algorithm in algorithms.iter().filter(|algorithm| **algorithm != Algorithm::Rs256) {
        if !lives.is_empty() && !signs(*algorithm) {
            warnings.push(format!(
                "no {algorithm} key signs yet, so clients and applications that use {algorithm} get no tokens; \
                 `sealgate key list` shows the schedule"
            ));
        }
    }
}
