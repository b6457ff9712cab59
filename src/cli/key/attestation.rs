//! `sealgate key verify-attestation`: verifies the published attestations of a provider's keys. Needs no
//! configuration.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::cli::failure::CommandFailure;
use crate::cli::output::{Output, printable};
use sealgate_config::IssuerUrl;
use sealgate_signer::attestation;
use sealgate_signer::attestation::{Audit, CheckOutcome, KeyVerdict};
use sealgate_system::clock::{Clock, SystemClock};
use sealgate_system::fetch::Web;

/// Timeout for fetching one document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a document, in bytes. A key set with chains has a few kilobytes per key.
const MAX_DOCUMENT_LENGTH: u64 = 2 << 20;

/// Maximum size of a file of root certificates, in bytes.
const MAX_ROOTS_BYTES: u64 = 1 << 20;

/// Provider to examine.
#[derive(Debug, Args)]
pub(crate) struct Attestation {
    /// Issuer URL of the provider
    #[arg(long, value_name = "URL", value_parser = IssuerUrl::parse)]
    issuer: IssuerUrl,
    /// Trusted root certificate of the HSM vendor, PEM or DER; can be repeated
    #[arg(long, value_name = "FILE")]
    root: Vec<PathBuf>,
}

/// Examines the provider. Fails if an error was found, or with [`CommandFailure::Unproven`] if the
/// proof is incomplete.
pub(crate) fn run(arguments: &Attestation, output: &Output) -> Result<(), CommandFailure> {
    let mut roots = Vec::new();
    for file in &arguments.root {
        let fault =
            |why: &dyn std::fmt::Display| CommandFailure::line(format_args!("--root: {} {why}", file.display()));
        let content = read(file).map_err(|error| fault(&format_args!("cannot be read ({error})")))?;
        roots.extend(attestation::roots(&content).map_err(|why| fault(&why))?);
    }
    let web = Web::new(FETCH_TIMEOUT, MAX_DOCUMENT_LENGTH).map_err(CommandFailure::line)?;
    let audit = attestation::audit(&web, &arguments.issuer, &roots, SystemClock.now()).map_err(CommandFailure::line)?;
    output.result(&audit, || audit.keys.iter().map(line).collect())?;
    verdict(&audit)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?.take(MAX_ROOTS_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

fn line(key: &KeyVerdict) -> String {
    let root = printable(key.root.as_deref().unwrap_or_default());
    let (kid, state) = (printable(&key.kid), printable(&key.state));
    let outcome = match key.outcome {
        CheckOutcome::Attested => format!("attested, up to the root that you named: {root}"),
        CheckOutcome::RootNotNamed => format!("the chain is consistent, but its root is not one you named: {root}"),
        CheckOutcome::NotAttested => "not attested".to_owned(),
        CheckOutcome::Refused => "refused".to_owned(),
    };
    format!("{kid} ({state}, {} bits): {outcome}\n", key.bits)
}

fn verdict(audit: &Audit) -> Result<(), CommandFailure> {
    let faults = audit.all_faults();
    if !faults.is_empty() {
        return Err(CommandFailure::Failed(faults));
    }
    if audit.is_proven() {
        return Ok(());
    }
    Err(CommandFailure::Unproven("there are no errors, but not every key is proven to be in a vendor's device".into()))
}
