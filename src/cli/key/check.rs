//! `sealgate key check`: what the token states and does, and whether it agrees with the times in the store.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{lives, row};
use crate::admin::command::KeyCommand;
use crate::cli::access::Access;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::signer::{self, Check, KeyReport};

pub(super) fn run(access: &mut Access, output: &Output) -> Result<(), Failure> {
    let check = signer::check(&access.config().hsm).map_err(Failure::line)?;
    let lives = lives(&KeyCommand::List, access)?;
    let mut faults = check.faults.clone();
    faults.extend(check.keys.iter().filter(|key| !key.faults.is_empty()).map(|key| {
        let KeyReport { kid, label, id, .. } = &key.report;
        format!("key {kid} (label \"{label}\", CKA_ID {id}): {}", key.faults.join(", "))
    }));
    faults.extend(disagreements(&check, &lives));
    if !faults.is_empty() {
        return Err(Failure::Failed(faults));
    }
    for key in &check.keys {
        if state(&lives, key.report.kid.as_str()) == Some("removed") {
            // Where nobody reads, nobody is told.
            let kid = &key.report.kid;
            let _ = writeln!(io::stderr(), "warning: key {kid} was removed and is still in the token; delete it there");
        }
    }
    let keys = check.keys.iter().map(|key| row(&key.report)).collect::<Result<Vec<_>, _>>()?;
    output.result(&json!({ "ok": true, "keys": keys }), || {
        check.keys.iter().map(|key| format!("{}: ok\n", key.report.kid)).collect::<Vec<_>>().concat()
    })
}

/// What a server that starts now would refuse, or publish less than it announced.
fn disagreements(check: &Check, lives: &[Value]) -> Vec<String> {
    let in_token = |kid: &str| check.keys.iter().any(|key| key.report.kid.as_str() == kid);
    let mut faults = Vec::new();
    // The only key of a token that was never used needs no announcement.
    if !lives.is_empty() || check.keys.len() > 1 {
        for key in check.keys.iter().filter(|key| state(lives, key.report.kid.as_str()).is_none()) {
            let (kid, id) = (&key.report.kid, &key.report.id);
            faults.push(format!(
                "key {kid} (CKA_ID {id}) is in the token and not announced; announce it with `sealgate key announce --kid {kid}`, or delete it from the token"
            ));
        }
    }
    for life in lives {
        let (kid, state) = (text(life, "kid"), text(life, "state"));
        if state != "removed" && !in_token(kid) {
            faults.push(format!(
                "key {kid} is announced ({state}) and not in the token; bring it back, or see docs/hsm.md"
            ));
        }
    }
    if !lives.is_empty() && !lives.iter().any(|life| text(life, "state") == "active") {
        faults.push("no key signs by the times in the store; `sealgate key list` shows them".into());
    }
    faults
}

fn state<'a>(lives: &'a [Value], kid: &str) -> Option<&'a str> {
    lives.iter().find(|life| text(life, "kid") == kid).map(|life| text(life, "state"))
}

fn text<'a>(life: &'a Value, name: &str) -> &'a str {
    life[name].as_str().unwrap_or_default()
}
