//! `sealgate upstream`: checks of OpenID providers.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;

use super::failure::CommandFailure;
use super::output::Output;
use super::source_check::CheckedSource;
use sealgate_config::{Config, Hsm, UpstreamSettings};
use sealgate_domain::oauth::strict_json;
use sealgate_domain::secret::from_base64url;
use sealgate_domain::source_check::{CheckStep, CheckStepOutcome};
use sealgate_signer::with_tls_key;
use sealgate_system::clock::SystemClock;
use sealgate_upstream::{AssertionSigner, OpenIdProvider, UpstreamCheck, UpstreamUrls};

/// Maximum length of a file with claims in bytes.
const MAX_CLAIMS_LENGTH: u64 = 256 * 1024;

#[derive(Debug, Subcommand)]
pub(super) enum UpstreamVerb {
    /// Check the providers and the credentials, and show what to register there
    ///
    /// Does not need a running server and stores nothing. With the claims of an ID token, shows what would be stored of
    /// the user, or why the sign-in would be refused. Exits with status 1 if a step failed.
    Check(UpstreamCheckArguments),
}

#[derive(Debug, Args)]
pub(super) struct UpstreamCheckArguments {
    /// Name of an upstream [default: all upstreams]
    #[arg(value_name = "NAME")]
    upstream: Option<String>,
    /// File with an ID token, or with its claims as JSON; "-" reads standard input
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
}

pub(super) fn run(verb: &UpstreamVerb, config: &Config, output: &Output) -> Result<(), CommandFailure> {
    let UpstreamVerb::Check(UpstreamCheckArguments { upstream, claims }) = verb;
    let is_wanted = |settings: &&UpstreamSettings| upstream.as_ref().is_none_or(|name| settings.name.as_str() == name);
    let wanted: Vec<_> = config.upstreams.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        let names: Vec<_> = config.upstreams.iter().map(|settings| settings.name.as_str()).collect();
        return Err(CommandFailure::line(match (upstream, names.as_slice()) {
            (_, []) => "no upstream is configured; write [[upstream]] into the configuration".to_owned(),
            (name, names) => {
                let name = name.as_deref().unwrap_or_default();
                format!("no upstream is named {name}; the names are {}", names.join(", "))
            }
        }));
    }
    let claims = claims.as_deref().map(read_claims).transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
    let checked: Vec<_> =
        wanted.into_iter().map(|settings| runtime.block_on(check(settings, claims.as_ref(), config))).collect();
    output.result(&json!({ "upstreams": checked.iter().map(CheckedSource::as_json).collect::<Vec<_>>() }), || {
        checked.iter().map(CheckedSource::as_text).collect()
    })?;
    if checked.iter().all(CheckedSource::has_passed) { Ok(()) } else { Err(CommandFailure::Reported(1)) }
}

async fn check(settings: &UpstreamSettings, claims: Option<&Map<String, Value>>, config: &Config) -> CheckedSource {
    let name = settings.name.to_string();
    let signer = Arc::new(CommandSigner(config.hsm.clone()));
    let provider = match OpenIdProvider::open(settings, signer, Arc::new(SystemClock)) {
        Ok(provider) => provider,
        Err(fault) => {
            let step =
                CheckStep { subject: "files".to_owned(), outcome: CheckStepOutcome::Failed, text: fault.to_string() };
            return CheckedSource { name, steps: vec![step], user: None };
        }
    };
    let at = |path: String| format!("{}{path}", config.issuer.as_str());
    let urls = UpstreamUrls {
        redirect_uri: at(settings.callback_path()),
        logout_uri: at(settings.logout_path()),
        signed_out_uri: at(settings.signed_out_path()),
        jwks_uri: at(settings.jwks_path()),
    };
    let UpstreamCheck { steps, user } = provider.check(&urls, claims).await;
    let user = user.map(|user| (String::from_utf8_lossy(user.id.as_bytes()).into_owned(), user));
    CheckedSource { name, steps, user }
}

/// Reads claims from a file: JSON, or a token, whose signature is not checked.
fn read_claims(file: &Path) -> Result<Map<String, Value>, CommandFailure> {
    let name = file.display();
    let cannot = |error: io::Error| CommandFailure::line(format_args!("{name} cannot be read ({error})"));
    let source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(cannot)?) };
    let mut text = String::new();
    source.take(MAX_CLAIMS_LENGTH).read_to_string(&mut text).map_err(cannot)?;
    let text = text.trim();
    let mut parts = text.split('.');
    let claims = match (text.starts_with('{'), parts.next(), parts.next(), parts.next()) {
        (true, ..) => strict_json::object(text.as_bytes()),
        (false, Some(_), Some(claims), Some(_)) => {
            from_base64url(claims).and_then(|claims| strict_json::object(&claims))
        }
        _ => None,
    };
    let problem = || {
        CommandFailure::line(format_args!(
            "{name} has neither the JSON object of claims nor a token, or repeats a member; write the claims of one ID \
             token"
        ))
    };
    claims.ok_or_else(problem)
}

/// Signs with a key in the token, which it opens for each signature. For processes without a signer.
struct CommandSigner(Hsm);

impl AssertionSigner for CommandSigner {
    fn public_point(&self, label: &str) -> Result<Vec<u8>, String> {
        with_tls_key(&self.0, label, |key| key.key().point().to_vec()).map_err(|error| error.to_string())
    }

    fn sign(&self, label: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        let signed = with_tls_key(&self.0, label, |key| key.sign_raw(message)).map_err(|error| error.to_string())?;
        signed.map_err(|error| format!("client key \"{label}\": {error}"))
    }
}
