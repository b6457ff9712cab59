//! Audit of a provider's signing keys from outside, by the documents that the provider publishes.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use serde_json::Value;

use super::chain::{self, ChainRoot};
use super::statement::{self, PublishedAttestation};
use sealgate_config::IssuerUrl;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::Web;

/// Path of the key statements, relative to the issuer URL.
const STATEMENTS: &str = "/.well-known/sealgate/keys";
/// Path of the provider metadata, relative to the issuer URL (OpenID Connect Discovery §4).
const METADATA: &str = "/.well-known/openid-configuration";

/// Result of [`audit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    pub issuer: String,
    pub keys: Vec<KeyVerdict>,
    /// Errors that do not concern a single key in the key set.
    pub faults: Vec<String>,
}

impl Audit {
    /// Returns all errors, including errors of single keys, one line each.
    pub fn all_faults(&self) -> Vec<String> {
        let of_key =
            |key: &KeyVerdict| key.faults.iter().map(|why| format!("key {}: {why}", key.kid)).collect::<Vec<_>>();
        self.faults.iter().cloned().chain(self.keys.iter().flat_map(of_key)).collect()
    }

    /// Returns whether a configured vendor root attests every key and no error was found.
    pub fn is_proven(&self) -> bool {
        self.all_faults().is_empty() && self.keys.iter().all(|key| key.outcome == CheckOutcome::Attested)
    }
}

/// Result of the audit for one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyVerdict {
    pub kid: String,
    /// State of the key according to the provider's statement.
    pub state: String,
    /// Length of the modulus in bits.
    pub bits: usize,
    pub outcome: CheckOutcome,
    /// Subject of the root certificate, or of the last certificate of the chain.
    pub root: Option<String>,
    pub faults: Vec<String>,
}

/// Result of verifying a key's attestation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// A root that the auditor trusts attests the key.
    Attested,
    /// The chain is valid, but the auditor does not trust its last certificate.
    RootNotNamed,
    /// The provider publishes no attestation.
    NotAttested,
    /// The attestation or the statement about the key is wrong.
    Refused,
}

/// Fetches the provider's documents and checks each key. Blocking I/O.
///
/// `roots` are the certificates that the auditor trusts.
///
/// # Errors
/// One line, if a document cannot be fetched or is malformed.
pub fn audit(web: &Web, issuer: &IssuerUrl, roots: &[CertificateDer<'_>], now: UnixTime) -> Result<Audit, String> {
    let name = issuer.as_str();
    let metadata = web.json(&format!("{name}{METADATA}"))?;
    if metadata["issuer"].as_str() != Some(name) {
        return Err(format!("{name} has the issuer {}; enter the issuer exactly as in its tokens", metadata["issuer"]));
    }
    let jwks_uri = metadata["jwks_uri"].as_str().ok_or_else(|| format!("{name} has no jwks_uri"))?;
    if !jwks_uri.starts_with(&format!("{}://", issuer.scheme())) {
        return Err(format!("the key set is at {jwks_uri}, but must be at a URL with the scheme {}", issuer.scheme()));
    }
    // Fetch the key set last. If a key is published between the two requests, the audit reports an
    // error, and a retry succeeds. In the other order, the audit would overlook the key.
    let document = web.json(&format!("{name}{STATEMENTS}"))?;
    check_statements(&document, &web.json(jwks_uri)?, name, roots, now)
}

fn check_statements(
    document: &Value,
    jwks: &Value,
    issuer: &str,
    roots: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<Audit, String> {
    let (statements, faults) = statement::parse(document, jwks, issuer)?;
    let keys = statements.into_iter().map(|statement| {
        let mut faults = statement.faults;
        let (mut outcome, root) = match statement.attestation {
            PublishedAttestation::NotAttested => (CheckOutcome::NotAttested, None),
            PublishedAttestation::Unreadable(what) => {
                faults.push(format!("its attestation is neither certificates nor \"not attested\": {what}"));
                (CheckOutcome::Refused, None)
            }
            PublishedAttestation::Chain(certificates) => match chain::verify(&certificates, &statement.key, roots, now)
            {
                Ok(ChainRoot::Trusted(root)) => (CheckOutcome::Attested, Some(root)),
                Ok(ChainRoot::NotTrusted(root)) => (CheckOutcome::RootNotNamed, Some(root)),
                Err(why) => {
                    faults.extend(why);
                    (CheckOutcome::Refused, None)
                }
            },
        };
        if !faults.is_empty() {
            outcome = CheckOutcome::Refused;
        }
        let (kid, bits) = (statement.key.kid().to_string(), statement.key.bits());
        KeyVerdict { kid, state: statement.state, bits, outcome, root, faults }
    });
    Ok(Audit { issuer: issuer.to_owned(), keys: keys.collect(), faults })
}

/// Parses the certificates in a file: any number in PEM, or one in DER.
///
/// # Errors
/// A phrase that says why the file has no certificates.
pub fn roots(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    const NONE: &str = "contains no certificate in PEM or DER";
    if content.first() == Some(&0x30) {
        return Ok(vec![CertificateDer::from(content.to_vec())]);
    }
    let roots: Vec<_> = CertificateDer::pem_slice_iter(content).collect::<Result<_, _>>().map_err(|_| NONE)?;
    if roots.is_empty() { Err(NONE) } else { Ok(roots) }
}
