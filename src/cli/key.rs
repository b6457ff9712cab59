//! `sealgate key`: signing keys in the PKCS#11 token. These commands talk to the token themselves, server or not.

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::Output;
use crate::ambient::{OsEntropy, random};
use crate::config::Config;
use crate::signer::{self, Check, KeyReport, KeySize};

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Verb {
    /// Make a key pair that signs tokens and cannot leave the PKCS#11 token; prints its kid
    Generate {
        /// The modulus's length
        #[arg(long, default_value = "2048", value_parser = sizes())]
        bits: KeySize,
    },
    /// List the RSA private keys in the token
    List,
    /// Check that a server would start with the key: exactly one, sensitive, never extractable, and it signs
    Check,
}

fn sizes() -> impl TypedValueParser<Value = KeySize> {
    let sizes = PossibleValuesParser::new(["2048", "3072", "4096"]);
    sizes.try_map(|text| text.parse().ok().and_then(KeySize::from_bits).ok_or("not a size"))
}

pub(super) fn run(verb: Verb, config: &Config, output: &Output) -> Result<(), Failure> {
    match verb {
        Verb::Generate { bits } => {
            let id: [u8; 16] = random(&OsEntropy);
            let key = signer::generate(&config.hsm, bits, &id).map_err(Failure::line)?;
            output.result(&key, || format!("{}\n", key.kid.as_str()))
        }
        Verb::List => {
            let keys = signer::list(&config.hsm).map_err(Failure::line)?;
            let rows = keys.iter().map(row).collect::<Result<Vec<_>, _>>()?;
            output.list("keys", &rows, &["kid", "label", "bits", "id"])
        }
        Verb::Check => check(&signer::check(&config.hsm).map_err(Failure::line)?, output),
    }
}

fn row(key: &KeyReport) -> Result<Value, Failure> {
    serde_json::to_value(key).map_err(Failure::line)
}

fn check(check: &Check, output: &Output) -> Result<(), Failure> {
    if !check.ok {
        let keys = check.keys.iter().filter(|key| !key.faults.is_empty()).map(|key| {
            let KeyReport { kid, label, id, .. } = &key.report;
            format!("key {} (label \"{label}\", CKA_ID {id}): {}", kid.as_str(), key.faults.join(", "))
        });
        return Err(Failure::Failed(check.faults.iter().cloned().chain(keys).collect()));
    }
    let keys = check.keys.iter().map(|key| row(&key.report)).collect::<Result<Vec<_>, _>>()?;
    output.result(&json!({ "ok": true, "keys": keys }), || {
        let lines: Vec<_> = check.keys.iter().map(|key| format!("{}: ok\n", key.report.kid.as_str())).collect();
        lines.concat()
    })
}
