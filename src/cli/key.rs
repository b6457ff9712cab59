//! `sealgate key`: signing keys. What is in the PKCS#11 token these commands ask the token themselves, server or not; the
//! keys' times are the server's matter, or the store's while none runs.

pub(super) mod attestation;
pub(super) mod check;

use std::io::{self, Write};

use chrono::DateTime;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::Access;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::command::{Command, KeyCommand};
use crate::admin::{Answer, hex};
use crate::clock::{OsEntropy, random};
use crate::domain::time::UnixTime;
use crate::signer::{self, KeyReport, KeySize};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a key pair that signs tokens and cannot leave the PKCS#11 token; prints its kid
    Generate {
        #[command(flatten)]
        size: Size,
        /// A further key, beside the one that signs: it is published at once, and signs when it is activated
        #[arg(long)]
        next: bool,
    },
    /// Make the key in the PKCS#11 token under which the store's data key is wrapped, so that what must be read back lies
    /// on the disk sealed; prints its id. AES-256, not extractable; a server takes it into use when it starts
    WrapInit,
    /// List the RSA private keys in the token and the keys that were announced, with their states and times
    List,
    /// Check that a server can sign with the keys: made on the token, never readable, never extractable, fit for nothing
    /// but signing, each there once; that each signs; and that the token agrees with the times in the store
    Check,
    /// Verify from outside what a provider publishes about its keys, up to the root of the device's vendor; needs no
    /// configuration. Exit status: 0 proven, 1 something is wrong, 3 nothing is wrong but not every key is proven
    Attestation(attestation::Attestation),
    /// Publish a key that was put into the token by other means than `generate --next`
    Announce(Which),
    /// Let a published key sign, once verifiers know it; the one that signs until then is retired, and removed later
    Activate {
        #[command(flatten)]
        which: Which,
        /// From when on, such as 2027-01-31T08:00:00Z; as early as verifiers know it when left out
        #[arg(long, value_name = "RFC3339", value_parser = instant)]
        at: Option<UnixTime>,
        /// Even if verifiers may not know the key yet and refuse its tokens until they fetch the keys again
        #[arg(long)]
        early: bool,
    },
    /// Take back a published key that does not sign yet
    Retire(Which),
    /// Publish a retired key no more, once nothing that it signed is valid
    Remove {
        #[command(flatten)]
        which: Which,
        /// At once, whatever it signed: for a key that others may be using. Another key takes over at once
        #[arg(long)]
        now: bool,
    },
    /// Make a key, publish it, let it sign once verifiers know it, and retire and remove the one before; prints the plan
    Rotate {
        #[command(flatten)]
        size: Size,
        /// The key that signs may be in other hands: it is removed at once, whatever it signed, and another one signs
        #[arg(long)]
        emergency: bool,
    },
}

/// `--bits`.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Size {
    /// The modulus's length
    #[arg(long, default_value = "2048", value_parser = sizes())]
    bits: KeySize,
}

/// `--kid`.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The key's kid, as `sealgate key list` shows it
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    kid: String,
}

/// What tables about keys show.
const COLUMNS: [&str; 6] = ["kid", "state", "published_at", "activate_at", "retire_at", "remove_at"];

fn sizes() -> impl TypedValueParser<Value = KeySize> {
    let sizes = PossibleValuesParser::new(["2048", "3072", "4096"]);
    sizes.try_map(|text| text.parse().ok().and_then(KeySize::from_bits).ok_or("not a size"))
}

fn instant(text: &str) -> Result<UnixTime, &'static str> {
    let at = DateTime::parse_from_rfc3339(text).ok().and_then(|at| u64::try_from(at.timestamp()).ok());
    at.map(UnixTime::from_seconds).ok_or("write date, time and zone, such as 2027-01-31T08:00:00Z")
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::Generate { size, next: false } => {
            let id: [u8; 16] = random(&OsEntropy);
            let key = signer::generate(&access.config().hsm, size.bits, &id, false).map_err(CommandFailure::line)?;
            output.result(&key, || format!("{}\n", key.kid.as_str()))
        }
        Verb::Generate { size, next: true } => {
            let key = generate_next(size, access)?;
            output.result(&key, || format!("{}\n", key.kid.as_str()))
        }
        Verb::WrapInit => {
            let id: [u8; 16] = random(&OsEntropy);
            let id = signer::wrap_init(&access.config().hsm, &id).map_err(CommandFailure::line)?;
            output.result(&json!({ "id": id }), || format!("{id}\n"))
        }
        Verb::List => list(access, output),
        Verb::Check => check::run(access, output),
        Verb::Attestation(arguments) => attestation::run(&arguments, output),
        Verb::Announce(Which { kid }) => {
            let found = keys_in_token(access)?;
            let Some(key) = found.iter().find(|key| key.kid.as_str() == kid) else {
                return Err(CommandFailure::line(format_args!(
                    "the token has no key {kid} with the label in hsm.key_label"
                )));
            };
            change(&announcing(key, &found), access, output)
        }
        Verb::Activate { which: Which { kid }, at, early } => {
            change(&KeyCommand::Activate { kid, at, early }, access, output)
        }
        Verb::Retire(Which { kid }) => change(&KeyCommand::Retire { kid }, access, output),
        Verb::Remove { which: Which { kid }, now: false } => change(&KeyCommand::Remove { kid }, access, output),
        Verb::Remove { which: Which { kid }, now: true } => remove_now(&kid, access, output),
        Verb::Rotate { size, emergency: false } => rotate(size, access, output),
        Verb::Rotate { size, emergency: true } => replace_at_once(size, access, output),
    }
}

fn remove_now(kid: &str, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let cache = access.config().keys.cache.as_secs();
    let warning = format!(
        "warning: tokens of the key {kid} are refused here from now on. Others who keep the key set accept them, and may \
         refuse the new key's, for up to {cache} seconds: have them fetch the keys again. The key is still in the token, \
         with the label {}: delete it there",
        signer::removed_label(&access.config().hsm)
    );
    // A token that cannot be looked at is no reason to wait: any key that waits will do then.
    let in_token = kids_in_token(access).ok();
    let keys = lives(&KeyCommand::RemoveNow { kid: kid.to_owned(), in_token }, access)?;
    // The token remembers it: a backup that is restored does not.
    let marked = signer::mark_removed(&access.config().hsm, kid);
    show(&keys, output)?;
    // Where nobody reads, nobody is told.
    let _ = writeln!(io::stderr(), "{warning}");
    if let Err(error) = marked {
        let _ = writeln!(
            io::stderr(),
            "warning: the token does not let the key {kid} be marked as removed ({error}). Delete it there now: a backup \
             that is restored would bring it back"
        );
    }
    Ok(())
}

/// What the token states of the keys with the configured label.
fn keys_in_token(access: &Access) -> Result<Vec<KeyReport>, CommandFailure> {
    let hsm = &access.config().hsm;
    let mut keys = signer::list(hsm).map_err(CommandFailure::line)?;
    keys.retain(|key| key.label == hsm.key_label);
    Ok(keys)
}

fn kids_in_token(access: &Access) -> Result<Vec<String>, CommandFailure> {
    Ok(keys_in_token(access)?.iter().map(|key| key.kid.to_string()).collect())
}

/// Announces one of the token's keys.
fn announcing(key: &KeyReport, found: &[KeyReport]) -> KeyCommand {
    let others = found.iter().filter(|other| other.kid != key.kid).map(|other| other.kid.to_string()).collect();
    KeyCommand::Announce { kid: key.kid.to_string(), id: key.id.clone(), others }
}

/// Makes a key beside others and announces it, so that no server refuses it as a stranger's. Its `CKA_ID` is written down
/// first: where the announcement fails, the next start makes up for it.
fn generate_next(size: Size, access: &mut Access) -> Result<KeyReport, CommandFailure> {
    let mut found = keys_in_token(access)?;
    let id: [u8; 16] = random(&OsEntropy);
    let others = found.iter().map(|key| key.kid.to_string()).collect();
    access.ask(&Command::Key(KeyCommand::Begin { id: hex(&id), others }))?;
    let key = signer::generate(&access.config().hsm, size.bits, &id, true).map_err(CommandFailure::line)?;
    found.push(key.clone());
    announce(&key, &found, access)?;
    Ok(key)
}

fn announce(key: &KeyReport, found: &[KeyReport], access: &mut Access) -> Result<(), CommandFailure> {
    let announced = access.ask(&Command::Key(announcing(key, found)));
    announced.map(drop).map_err(|failure| match failure {
        CommandFailure::Failed(mut lines) => {
            let kid = &key.kid;
            lines.push(format!(
                "the key {kid} is in the token and not announced; nothing is lost: run this again, or sealgate key announce \
                 --kid {kid}; the next start announces it too"
            ));
            CommandFailure::Failed(lines)
        }
        other => other,
    })
}

/// A further key for a rotation: one that was begun earlier and could not be announced, or a new one.
fn next_key(size: Size, access: &mut Access) -> Result<String, CommandFailure> {
    let begun = begun(&mut access.ask(&Command::Key(KeyCommand::List))?);
    if !begun.is_empty() {
        let found = keys_in_token(access)?;
        if let Some(key) = found.iter().find(|key| begun.contains(&key.id)) {
            announce(key, &found, access)?;
            return Ok(key.kid.to_string());
        }
    }
    Ok(generate_next(size, access)?.kid.to_string())
}

/// The `CKA_ID`s of keys that were begun and not announced.
fn begun(answer: &mut Answer) -> Vec<String> {
    let begun = answer.take("begun").and_then(|ids| serde_json::from_value(ids).ok());
    begun.unwrap_or_default()
}

/// Carries a change out and shows the keys as they then are.
fn change(command: &KeyCommand, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    show(&lives(command, access)?, output)
}

fn show(keys: &[Value], output: &Output) -> Result<(), CommandFailure> {
    let present: Vec<Value> = keys.iter().filter(|key| key["state"] != "removed").cloned().collect();
    output.list("keys", &present, &COLUMNS)
}

fn lives(command: &KeyCommand, access: &mut Access) -> Result<Vec<Value>, CommandFailure> {
    Ok(keys_of(&mut access.ask(&Command::Key(command.clone()))?))
}

fn keys_of(answer: &mut Answer) -> Vec<Value> {
    match answer.take("keys") {
        Some(Value::Array(keys)) => keys,
        _ => Vec::new(),
    }
}

fn rotate(size: Size, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let keys = lives(&KeyCommand::List, access)?;
    let waiting: Vec<&Value> = keys.iter().filter(|key| key["state"] == "pre_published").collect();
    if let Some(planned) = waiting.iter().find(|key| !key["activate_at"].is_null()) {
        let kid = planned["kid"].as_str().unwrap_or_default();
        return Err(CommandFailure::line(format_args!(
            "a rotation is under way: the key {kid} is published and will sign; `sealgate key list` shows when"
        )));
    }
    // A key that waits was made for this.
    let kid = match waiting.first().and_then(|key| key["kid"].as_str()) {
        Some(kid) => kid.to_owned(),
        None => next_key(size, access)?,
    };
    change(&KeyCommand::Activate { kid, at: None, early: false }, access, output)
}

/// The emergency: a key that waits, or a new one, signs from now on, and the one that signed is removed.
fn replace_at_once(size: Size, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let keys = lives(&KeyCommand::List, access)?;
    let in_state = |state: &str| keys.iter().find(|key| key["state"] == state).and_then(|key| key["kid"].as_str());
    let Some(active) = in_state("active") else {
        let line = "no key signs yet: delete the one in the token, and run sealgate key generate";
        return Err(CommandFailure::line(line));
    };
    let in_token = kids_in_token(access)?;
    let waits = keys.iter().any(|key| {
        let kid = key["kid"].as_str().unwrap_or_default();
        key["state"] == "pre_published" && in_token.iter().any(|found| found == kid)
    });
    if !waits {
        next_key(size, access)?;
    }
    remove_now(active, access, output)
}

/// Keys of the token with their times, then keys that are known and not there.
fn list(access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let found = signer::list(&access.config().hsm).map_err(CommandFailure::line)?;
    let mut answer = access.ask(&Command::Key(KeyCommand::List))?;
    let mut lives = keys_of(&mut answer);
    let begun = begun(&mut answer);
    let label = access.config().hsm.key_label.clone();
    let state_of_strangers = if lives.is_empty() { "new" } else { "unannounced" };
    let mut rows = Vec::new();
    for key in &found {
        let mut row = row(key)?;
        let at = lives.iter().position(|life| life["kid"] == row["kid"]);
        let life = match at {
            Some(at) => lives.remove(at),
            None if key.label == label && begun.contains(&key.id) => json!({ "state": "begun" }),
            None if key.label == label => json!({ "state": state_of_strangers }),
            None => json!({ "state": "not_ours" }),
        };
        if let (Value::Object(row), Value::Object(life)) = (&mut row, life) {
            row.extend(life);
        }
        rows.push(row);
    }
    rows.extend(lives);
    let columns = ["kid", "state", "label", "bits", "id", "activate_at", "retire_at", "remove_at"];
    output.list_with("keys", &rows, &columns, answer.members())
}

fn row(key: &KeyReport) -> Result<Value, CommandFailure> {
    serde_json::to_value(key).map_err(CommandFailure::line)
}
