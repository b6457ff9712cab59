//! Signing keys after a restore or an import.
//!
//! The restored store may be older than the token. It lacks keys that were removed as compromised
//! or created since. The token decides on removed keys. The operator decides on new keys, because
//! an attacker who can add a key to the token must not thereby choose the signing key.

use serde_json::{Value, json};

use sealgate_config as config;
use sealgate_domain::key_ring::{KeyFault, KeyState};
use sealgate_domain::time::UnixTime;
use sealgate_signer as signer;
use sealgate_store::{Store, StoreError};

/// Result of comparing the keys.
pub(super) struct KeysReport {
    /// Each key with its state and its presence in the token; empty if the token could not be read.
    pub(super) keys: Vec<Value>,
    /// Notes and necessary actions, one line each.
    pub(super) lines: Vec<String>,
}

/// Compares a store that is not served yet with the token, and removes the keys that the token
/// marks as compromised.
///
/// # Errors
/// If the store fails. An unreadable token becomes a line of the report; the start reads it again.
pub(super) async fn settle(store: &Store, hsm: &config::Hsm, now: UnixTime) -> Result<KeysReport, StoreError> {
    let found = match signer::list(hsm) {
        Ok(found) => found,
        Err(error) => {
            let line = format!(
                "the keys were not compared with the token ({error}); before you start the server, run: sealgate check"
            );
            return Ok(KeysReport { keys: Vec::new(), lines: vec![line] });
        }
    };
    let removed_label = signer::removed_label(hsm);
    let with_label = |label: &str| {
        let kids = found.iter().filter(|key| key.label == label).map(|key| key.kid.to_string());
        kids.collect::<Vec<_>>()
    };
    let removed = with_label(&removed_label);
    let present: Vec<_> = with_label(&hsm.key_label).into_iter().filter(|kid| !removed.contains(kid)).collect();

    let mut lines = Vec::new();
    let before = store.key_ring().await?;
    let alive = before.keys().iter().filter(|key| before.state(key, now) != KeyState::Removed);
    let mut revived: Vec<&str> =
        alive.map(|key| key.kid.as_str()).filter(|kid| removed.iter().any(|own| own == kid)).collect();
    // The signing key is last, so that none of the others can take over from it.
    let active = before.active(now, |_| true).map(|key| key.kid.as_str());
    revived.sort_by_key(|kid| active == Some(*kid));
    for kid in revived {
        let usable = |kid: &str| present.iter().any(|own| own == kid);
        lines.push(match store.change_key_ring(|ring| ring.remove_now(kid, now, usable)).await? {
            Ok(_) => format!("the key {kid} was removed with --now or --emergency after the backup was made; it stays removed"),
            Err(KeyFault::NoSuccessor(_)) => format!(
                "the key {kid} was removed with --now or --emergency after the backup was made, and the store has no other \
                 key that can sign, so the server will not start. Announce a key of the token, then run: \
                 sealgate key remove --now {kid}"
            ),
            Err(fault) => fault.to_string(),
        });
    }

    let ring = store.key_ring().await?;
    let mut keys = Vec::new();
    let is_own = |kid: &String| ring.own().any(|own| own.kid == *kid);
    for key in ring.keys() {
        let state = ring.state(key, now);
        let token = match &key.kid {
            kid if removed.contains(kid) => "removed",
            kid if present.contains(kid) => "present",
            // The key is in the token of another node, which compares it at its start.
            kid if key.holder.is_some() && !is_own(kid) => continue,
            _ => "absent",
        };
        if token == "absent" && state == KeyState::Active {
            let kid = &key.kid;
            lines.push(format!("{}; until then the server will not start", KeyFault::Missing(kid.clone())));
        } else if token == "absent" && state != KeyState::Removed {
            lines.push(format!("the key {} is announced, but not in the token; it is not published", key.kid));
        }
        keys.push(json!({ "kid": key.kid, "state": state, "token": token }));
    }
    let new = ring.keys().is_empty() && present.len() == 1;
    for key in found.iter().filter(|key| present.contains(&key.kid.to_string())) {
        let kid = key.kid.to_string();
        if ring.find(&kid).is_none() && !new && !ring.began(&key.id) {
            lines.push(format!(
                "the key {kid} is in the token, but not in the restored store; the server will not start \
                 until you announce it (sealgate key announce {kid}), if it is yours, or delete it from the \
                 token"
            ));
            keys.push(json!({ "kid": kid, "state": "unannounced", "token": "present" }));
        }
    }
    Ok(KeysReport { keys, lines })
}

pub(super) fn said(report: &KeysReport) -> String {
    let word = |key: &Value, name: &str| key[name].as_str().unwrap_or_default().to_owned();
    let keys = report
        .keys
        .iter()
        .map(|key| format!("key {}: {}, {} in the token\n", word(key, "kid"), word(key, "state"), word(key, "token")));
    keys.chain(report.lines.iter().map(|line| format!("{line}\n"))).collect()
}
