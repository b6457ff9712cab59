//! `sealgate key`: signing keys.
//!
//! These commands access the PKCS#11 token directly, whether a server runs or not. The server
//! manages the key schedule. While no server runs, the commands change the schedule in the store.

pub(super) mod attestation;
pub(super) mod check;
mod tls;

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::{Output, OutputTable};
use sealgate_admin::answer::{KeyAnswer, KeysAnswer};
use sealgate_admin::command::{Command, KeyCommand};
use sealgate_admin::{Answer, arguments, hex};
use sealgate_domain::key_ring::KeyState;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer as signer;
use sealgate_signer::{FirstKeys, KeyReport, KeySize, NewKey, SignerOpenError};
use sealgate_system::clock::{OsEntropy, random};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Generate a signing key in the PKCS#11 token; prints its key ID
    ///
    /// The key pair cannot be extracted. The first call also creates the wrapping key, unless there is one (see
    /// generate-wrapping-key).
    Generate {
        #[command(flatten)]
        new: New,
        /// Generate the next key: published at once, signs when it is activated
        #[arg(long)]
        next: bool,
        /// Create no wrapping key, for a token without AES: authenticator apps and recovery codes are not available
        /// then
        #[arg(long, conflicts_with = "next")]
        without_wrapping_key: bool,
    },
    /// Create the wrapping key in the PKCS#11 token; prints its ID
    ///
    /// For a token that was set up without a wrapping key. The wrapping key is an AES-256 key that
    /// cannot be extracted. It wraps the store's data key, which encrypts the secrets that the
    /// server must read back. A server uses the wrapping key from its next start.
    GenerateWrappingKey,
    /// Generate a key for TLS or for sign-ins at a provider in the PKCS#11 token
    ///
    /// An EC P-256 key that cannot be extracted. server.tls uses it as key = "pkcs11:object=LABEL",
    /// and an upstream provider as its client key.
    GenerateTlsKey {
        /// Label of the new key
        label: String,
    },
    /// Print a certificate signing request for a TLS key in the token
    ///
    /// The request is in PEM and signed by the key. Your certificate authority issues the
    /// certificate from the request. Repeat the command for a renewal.
    RequestCertificate {
        /// Label of the TLS key
        label: String,
        /// Host names and IP addresses of the certificate; the first is also its common name
        #[arg(required = true)]
        hosts: Vec<String>,
    },
    /// List the keys in the token and the published keys with their schedule
    ///
    /// Also lists the TLS keys in the token (EC keys, labelled differently from the signing keys),
    /// with the configured hosts for which their certificates are valid.
    List,
    /// Check that the keys can sign and cannot be extracted
    ///
    /// Each key must have been generated in the token. It must be sensitive, not extractable,
    /// usable only for signing, and present only once. The command signs with each key, and
    /// compares the token with the schedule in the store.
    Check,
    /// Verify the key attestations that a provider publishes
    ///
    /// Checks the attestations up to the root certificate of the HSM vendor. Needs no
    /// configuration. Exit status: 0 all proven, 1 an error was found, 3 no error, but not every
    /// key is proven.
    VerifyAttestation(attestation::Attestation),
    #[command(flatten)]
    Life(KeyCommand),
    /// Rotate the signing key; prints the schedule
    ///
    /// Generates and publishes a key. The new key signs after verifiers have fetched it. The
    /// previous key is then retired, and later removed.
    Rotate {
        #[command(flatten)]
        new: New,
        /// The current key may be compromised: remove it at once, refuse everything that it signed,
        /// and sign with another key
        #[arg(long)]
        emergency: bool,
    },
}

/// Arguments `--algorithm` and `--bits`.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct New {
    /// Algorithm of the key, one of keys.algorithms
    #[arg(long, value_name = "ALG", default_value = "RS256", value_parser = arguments::algorithm)]
    algorithm: Algorithm,
    /// RSA modulus length in bits
    #[arg(long, default_value = "2048", value_parser = sizes())]
    bits: KeySize,
}

/// Maximum time for which the removal of a signing key waits until the nodes accept the next
/// signing key.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Columns of tables about keys.
const COLUMNS: [&str; 6] = ["kid", "state", "published_at", "activate_at", "retire_at", "remove_at"];

impl New {
    fn key(self) -> NewKey {
        NewKey { algorithm: self.algorithm, size: self.bits }
    }

    /// Returns an error if the configuration does not name the algorithm.
    fn check(self, access: &StoreAccess) -> Result<(), CommandFailure> {
        let algorithm = self.algorithm;
        if access.config().keys.algorithms.contains(&algorithm) {
            return Ok(());
        }
        Err(CommandFailure::line(format_args!(
            "keys.algorithms lacks {algorithm}; add it to the configuration first, so that the server looks for its keys"
        )))
    }
}

fn sizes() -> impl TypedValueParser<Value = KeySize> {
    let sizes = PossibleValuesParser::new(["2048", "3072", "4096"]);
    sizes.try_map(|text| text.parse().ok().and_then(KeySize::from_bits).ok_or("not a size"))
}

pub(super) fn run(verb: Verb, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::Generate { new, next: false, without_wrapping_key } if new.algorithm == Algorithm::Rs256 => {
            let keys = generate_first(new.bits, !without_wrapping_key, access)?;
            output.result(&keys, || {
                let wrapping = keys.wrapping_key.as_ref().map(|id| format!(" and wrapping key {id}"));
                let further = keys.further.iter().map(|key| format!("Created {} key {}\n", key.alg, key.kid));
                let further: String = further.collect();
                format!("Created signing key {}{}\n{further}", keys.signing.kid, wrapping.unwrap_or_default())
            })
        }
        Verb::Generate { new, next, .. } => {
            new.check(access)?;
            // Before the first start, the store has no keys. The first start publishes all keys.
            if !next && access.key_times()?.keys.is_empty() {
                let key = generate_apart(new, access)?;
                return output.result(&key, || format!("Created {} key {}\n", key.alg, key.kid));
            }
            if !next && keys_in_token(access)?.iter().any(|key| key.alg == new.algorithm) {
                return Err(CommandFailure::line(format_args!(
                    "the token already has a key for {0}; nothing was generated. For a further key: sealgate key \
                     generate --next --algorithm {0}",
                    new.algorithm
                )));
            }
            let key = generate_next(new, access)?;
            output.result(&key, || format!("Created and published signing key {}\n", key.kid))
        }
        Verb::GenerateWrappingKey => {
            let id: [u8; 16] = random(&OsEntropy);
            let id = signer::wrap_init(&access.config().hsm, &id).map_err(CommandFailure::line)?;
            output.result(&json!({ "id": id }), || format!("Created wrapping key {id}\n"))
        }
        Verb::GenerateTlsKey { label } => tls::generate(&label, access, output),
        Verb::RequestCertificate { label, hosts } => tls::request(&label, &hosts, access, output),
        Verb::List => list(access, output),
        Verb::Check => check::run(access, output),
        Verb::VerifyAttestation(arguments) => attestation::run(&arguments, output),
        Verb::Life(KeyCommand::Announce { kid, .. }) => {
            let keys = keys_in_token(access)?;
            let Some(key) = keys.iter().find(|key| key.kid.as_str() == kid) else {
                return Err(CommandFailure::line(format_args!(
                    "the token has no key {kid} with the label in hsm.key_label"
                )));
            };
            change(announcing(key, &keys), access, output, &format!("Published key {kid}"))
        }
        Verb::Life(KeyCommand::Remove { kid, at_once: true, .. }) => remove_now(&kid, access, output),
        Verb::Life(command) => {
            let sentence = match &command {
                KeyCommand::Activate { kid, .. } => format!("Scheduled key {kid} to sign"),
                KeyCommand::Retire { kid } => format!("Retired key {kid}"),
                KeyCommand::Remove { kid, .. } => format!("Removed key {kid}"),
                _ => String::new(),
            };
            change(command, access, output, &sentence)
        }
        Verb::Rotate { new, emergency: false } => rotate(new, access, output),
        Verb::Rotate { new, emergency: true } => replace_at_once(new, access, output),
    }
}

/// Generates a key of a further algorithm before the first start.
fn generate_apart(new: New, access: &StoreAccess) -> Result<KeyReport, CommandFailure> {
    let id: [u8; 16] = random(&OsEntropy);
    signer::generate(&access.config().hsm, new.key(), &id, false).map_err(CommandFailure::line)
}

fn generate_first(size: KeySize, with_wrapping: bool, access: &StoreAccess) -> Result<FirstKeys, CommandFailure> {
    let (id, wrapping): ([u8; 16], [u8; 16]) = (random(&OsEntropy), random(&OsEntropy));
    let wrapping = with_wrapping.then_some(&wrapping[..]);
    signer::generate_first(&access.config().hsm, size, &id, wrapping).map_err(|error| match error {
        SignerOpenError::WrappingKey { .. } => CommandFailure::Failed(vec![
            error.to_string(),
            "no key was generated; to generate only the signing key: sealgate key generate --without-wrapping-key"
                .to_owned(),
        ]),
        error => CommandFailure::line(error),
    })
}

/// Generates the first signing key and the wrapping key, unless the token or the store has a
/// signing key. Returns whether it generated them.
pub(super) fn generate_if_none(access: &StoreAccess) -> Result<bool, CommandFailure> {
    if !keys_in_token(access)?.is_empty() || !access.key_times()?.keys.is_empty() {
        return Ok(false);
    }
    generate_first(KeySize::Rsa2048, true, access)?;
    Ok(true)
}

fn remove_now(kid: &str, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let cache = access.config().keys.cache.as_secs();
    let in_token = keys_in_token(access).ok();
    let removed = in_token.iter().flatten().find(|key| key.kid.as_str() == kid);
    let algorithm = removed.map(|key| key.alg).unwrap_or_default();
    let warning = format!(
        "warning: Sealgate now refuses tokens signed with the key {kid}. Applications that cache the key set \
         accept them, and may refuse tokens of the new key, for up to {cache} seconds; make them fetch the \
         keys again. The key is still in the token, with the label {}; delete it there",
        access.config().hsm.removed_label(algorithm)
    );
    // If the token is unreadable, the removal does not wait. Any published key can then become the
    // signing key.
    let in_token = in_token.map(|keys| keys.iter().map(|key| key.kid.to_string()).collect());
    let keys = lives(KeyCommand::Remove { kid: kid.to_owned(), at_once: true, in_token }, access)?.keys;
    // The token keeps the mark, even if an older backup is restored.
    let marked = signer::mark_removed(&access.config().hsm, kid);
    show(&keys, output, &format!("Removed key {kid}"))?;
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{warning}");
    if let Err(error) = marked {
        let _ = writeln!(
            io::stderr(),
            "warning: cannot mark the key {kid} as removed in the token ({error}). Delete it there now: \
             otherwise a restored backup would use it again"
        );
    }
    Ok(())
}

/// Returns the keys in the token that have the label of a configured algorithm.
fn keys_in_token(access: &StoreAccess) -> Result<Vec<KeyReport>, CommandFailure> {
    let hsm = &access.config().hsm;
    let mut keys = signer::list(hsm).map_err(CommandFailure::line)?;
    keys.retain(|key| hsm.algorithms.contains(&key.alg) && key.label == hsm.key_label_of(key.alg));
    Ok(keys)
}

fn kids_in_token(access: &StoreAccess) -> Result<Vec<String>, CommandFailure> {
    Ok(keys_in_token(access)?.iter().map(|key| key.kid.to_string()).collect())
}

/// Creates the command that announces a key of the token.
fn announcing(key: &KeyReport, key_reports: &[KeyReport]) -> KeyCommand {
    let others = key_reports.iter().filter(|other| other.alg == key.alg && other.kid != key.kid);
    let other_kids = others.map(|other| other.kid.to_string()).collect();
    KeyCommand::Announce { kid: key.kid.to_string(), id: key.id.clone(), other_kids, algorithm: key.alg }
}

/// Generates a further key and announces it, because servers refuse an unknown key.
///
/// The `CKA_ID` of the key is recorded first. If the announcement fails, the next start repeats the
/// announcement.
fn generate_next(new: New, access: &mut StoreAccess) -> Result<KeyReport, CommandFailure> {
    new.check(access)?;
    let algorithm = new.algorithm;
    let mut keys = keys_in_token(access)?;
    keys.retain(|key| key.alg == algorithm);
    let id: [u8; 16] = random(&OsEntropy);
    let other_kids = keys.iter().map(|key| key.kid.to_string()).collect();
    access.ask(&Command::Key(KeyCommand::Begin { id: hex(&id), other_kids, algorithm }))?;
    let key = signer::generate(&access.config().hsm, new.key(), &id, true).map_err(CommandFailure::line)?;
    keys.push(key.clone());
    announce(&key, &keys, access)?;
    Ok(key)
}

fn announce(key: &KeyReport, key_reports: &[KeyReport], access: &mut StoreAccess) -> Result<(), CommandFailure> {
    let announced = access.ask(&Command::Key(announcing(key, key_reports)));
    announced.map(drop).map_err(|failure| match failure {
        CommandFailure::Failed(mut lines) => {
            let kid = &key.kid;
            lines.push(format!(
                "the key {kid} is in the token, but not announced; repeat this command, or run `sealgate key \
                 announce {kid}`; the next start announces it too"
            ));
            CommandFailure::Failed(lines)
        }
        other => other,
    })
}

/// Returns a further key for a rotation: an earlier key that was not announced, or a new one.
fn next_key(new: New, access: &mut StoreAccess) -> Result<String, CommandFailure> {
    let unannounced_ids = lives(KeyCommand::List, access)?.unannounced_ids;
    if !unannounced_ids.is_empty() {
        let keys = keys_in_token(access)?;
        if let Some(key) = keys.iter().find(|key| key.alg == new.algorithm && unannounced_ids.contains(&key.id)) {
            announce(key, &keys, access)?;
            return Ok(key.kid.to_string());
        }
    }
    Ok(generate_next(new, access)?.kid.to_string())
}

/// Executes a change. Prints a sentence about it, and the resulting keys.
fn change(
    command: KeyCommand,
    access: &mut StoreAccess,
    output: &Output,
    sentence: &str,
) -> Result<(), CommandFailure> {
    show(&lives(command, access)?.keys, output, sentence)
}

fn show(keys: &[KeyAnswer], output: &Output, sentence: &str) -> Result<(), CommandFailure> {
    let present: Vec<_> = keys.iter().filter(|key| key.state != KeyState::Removed).collect();
    output.sentence(sentence)?;
    output.list("keys", &present, &COLUMNS)
}

fn lives(command: KeyCommand, access: &mut StoreAccess) -> Result<KeysAnswer, CommandFailure> {
    match access.ask(&Command::Key(command))? {
        Answer::Keys(keys) => Ok(keys),
        _ => Err(CommandFailure::other_answer()),
    }
}

fn rotate(new: New, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    new.check(access)?;
    let keys = lives(KeyCommand::List, access)?.keys;
    let node = access.config().token_holder().map(|holder| holder.node);
    let own = keys.iter().filter(|key| key.life.holder == node && key.life.is_for(new.algorithm));
    let waiting: Vec<&KeyAnswer> = own.filter(|key| key.state == KeyState::PrePublished).collect();
    if let Some(planned) = waiting.iter().find(|key| key.life.activate_at.is_some()) {
        let kid = &planned.life.kid;
        return Err(CommandFailure::line(format_args!(
            "a rotation is in progress: the published key {kid} signs next; `sealgate key list` shows when"
        )));
    }
    // A published key without a schedule was generated for the next rotation.
    let kid = match waiting.first() {
        Some(key) => key.life.kid.clone(),
        None => next_key(new, access)?,
    };
    await_taken(&kid, access)?;
    let sentence = format!("Published key {kid}, which will sign");
    change(KeyCommand::Activate { kid, at: None, early: false }, access, output, &sentence)
}

/// Executes an emergency rotation: a published or new key signs immediately, and the previous
/// signing key is removed.
fn replace_at_once(new: New, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    new.check(access)?;
    let keys = lives(KeyCommand::List, access)?.keys;
    let node = access.config().token_holder().map(|holder| holder.node);
    let is_alike = |key: &KeyAnswer| key.life.holder == node && key.life.is_for(new.algorithm);
    let keys: Vec<_> = keys.into_iter().filter(is_alike).collect();
    let Some(active) = keys.iter().find(|key| key.state == KeyState::Active) else {
        let line = "no key signs yet; delete the key in the token and run: sealgate key generate";
        return Err(CommandFailure::line(line));
    };
    let in_token = kids_in_token(access)?;
    let waits = keys.iter().find(|key| key.state == KeyState::PrePublished && in_token.contains(&key.life.kid));
    let next = match waits {
        Some(key) => key.life.kid.clone(),
        None => next_key(new, access)?,
    };
    await_taken(&next, access)?;
    remove_now(&active.life.kid, access, output)
}

/// Waits until the other serving nodes accept the key. They accept it because the current signing
/// key vouches for it.
///
/// After the removal of the current key, no key could vouch for the next key. If a node does not
/// accept the key in time, a warning names the node, and the removal continues.
fn await_taken(kid: &str, access: &mut StoreAccess) -> Result<(), CommandFailure> {
    let started = Instant::now();
    loop {
        let keys = lives(KeyCommand::List, access)?.keys;
        let distrusting = keys.iter().find(|key| key.life.kid == kid).map_or(&[][..], |key| &key.distrusted_by);
        if distrusting.is_empty() {
            return Ok(());
        }
        if started.elapsed() > TAKEN_TIMEOUT {
            let nodes = distrusting.join(", ");
            let _ = writeln!(io::stderr(), "warning: {nodes} does not trust the key {kid}; admit this node again");
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Lists the signing keys of the token with their schedule, then known signing keys that are missing
/// in the token, and the TLS keys.
fn list(access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let key_reports = signer::list(&access.config().hsm).map_err(CommandFailure::line)?;
    let KeysAnswer { keys: mut lives, unannounced_ids, rotation } = lives(KeyCommand::List, access)?;
    let hsm = access.config().hsm.clone();
    let state_of_strangers = if lives.is_empty() { "new" } else { "unannounced" };
    let mut rows = Vec::new();
    for key in &key_reports {
        let mut row = json!(key);
        let at = lives.iter().position(|one| one.life.kid == key.kid.as_str());
        let life = match at {
            Some(at) => json!(lives.remove(at)),
            None if key.label == hsm.key_label_of(key.alg) && unannounced_ids.contains(&key.id) => {
                json!({ "state": "begun" })
            }
            None if key.label == hsm.key_label_of(key.alg) => json!({ "state": state_of_strangers }),
            None => json!({ "state": "not_ours" }),
        };
        if let (Value::Object(row), Value::Object(life)) = (&mut row, life) {
            row.extend(life);
        }
        rows.push(row);
    }
    let own = access.config().token_holder().map(|holder| holder.node);
    rows.extend(lives.iter().map(|life| {
        let mut row = json!(life);
        // An attacker who can write to the database could add an entry that claims to be a key of
        // this node.
        if own.is_some() && life.life.holder == own && life.state != KeyState::Removed {
            row["state"] = json!("not_in_token");
        }
        row
    }));
    let mut columns = vec!["kid", "state", "label", "bits", "id", "activate_at", "retire_at", "remove_at"];
    if rows.iter().any(|row| row.get("holder").is_some()) {
        columns.insert(2, "holder");
    }
    if access.config().keys.algorithms.len() > 1 {
        columns.insert(1, "alg");
        for row in &mut rows {
            if row.get("alg").is_none() {
                row["alg"] = json!(Algorithm::Rs256);
            }
        }
    }
    output.tables(&[OutputTable { name: "keys", rows, columns }, tls::list(access.config())?], &rotation)
}
