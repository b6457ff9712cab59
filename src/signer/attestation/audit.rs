//! External audit of a provider's keys.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use serde_json::Value;

use super::chain::{self, End};
use super::statement::{self, Attested};
use sealgate_config::IssuerUrl;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::Web;

/// Path of the key statements below the issuer.
const STATEMENTS: &str = "/.well-known/sealgate/keys";
/// Path of the provider metadata, which names the key set (OpenID Connect Discovery §4).
const METADATA: &str = "/.well-known/openid-configuration";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    pub issuer: String,
    pub keys: Vec<KeyVerdict>,
    /// Errors beyond a single key.
    pub faults: Vec<String>,
}

impl Audit {
    /// Returns all errors, one line each.
    pub fn all_faults(&self) -> Vec<String> {
        let of_key =
            |key: &KeyVerdict| key.faults.iter().map(|why| format!("key {}: {why}", key.kid)).collect::<Vec<_>>();
        self.faults.iter().cloned().chain(self.keys.iter().flat_map(of_key)).collect()
    }

    /// Whether a configured vendor root attests every key.
    pub fn is_proven(&self) -> bool {
        self.all_faults().is_empty() && self.keys.iter().all(|key| key.outcome == CheckOutcome::Attested)
    }
}

/// Result for one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyVerdict {
    pub kid: String,
    /// The key's state according to the provider.
    pub state: String,
    /// The modulus's length, bits.
    pub bits: usize,
    pub outcome: CheckOutcome,
    /// The subject of the certificate that the chain ends in.
    pub root: Option<String>,
    pub faults: Vec<String>,
}

/// Proof level of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Attested by a root that the verifier configured.
    Attested,
    /// The chain is consistent, but the verifier has not configured its root.
    RootNotNamed,
    NotAttested,
    Refused,
}

/// Fetches the provider's documents and checks each key. `roots` are the certificates that the
/// verifier trusts.
///
/// # Errors
/// One line, if the documents cannot be fetched.
pub fn audit(web: &Web, issuer: &IssuerUrl, roots: &[CertificateDer<'_>], now: UnixTime) -> Result<Audit, String> {
    let name = issuer.as_str();
    let metadata = web.json(&format!("{name}{METADATA}"))?;
    if metadata["issuer"].as_str() != Some(name) {
        return Err(format!("{name} has the issuer {}; enter the issuer exactly as in its tokens", metadata["issuer"]));
    }
    let jwks_uri = metadata["jwks_uri"].as_str().ok_or_else(|| format!("{name} has no jwks_uri"))?;
    if !jwks_uri.starts_with(&format!("{}://", issuer.scheme())) {
        return Err(format!("the key set is at {jwks_uri}, which is not read over {}", issuer.scheme()));
    }
    // Fetch the set last: a key added between the two requests then causes an error that a retry
    // resolves, not a silent gap.
    let document = web.json(&format!("{name}{STATEMENTS}"))?;
    judge(&document, &web.json(jwks_uri)?, name, roots, now)
}

fn judge(
    document: &Value,
    jwks: &Value,
    issuer: &str,
    roots: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<Audit, String> {
    let (statements, faults) = statement::read(document, jwks, issuer)?;
    let keys = statements.into_iter().map(|statement| {
        let mut faults = statement.faults;
        let (mut outcome, root) = match statement.chain {
            Attested::Not => (CheckOutcome::NotAttested, None),
            Attested::Unreadable(what) => {
                faults.push(format!("its attestation is neither certificates nor \"not attested\": {what}"));
                (CheckOutcome::Refused, None)
            }
            Attested::By(certificates) => match chain::verify(&certificates, &statement.key, roots, now) {
                Ok(End::Named(root)) => (CheckOutcome::Attested, Some(root)),
                Ok(End::Elsewhere(root)) => (CheckOutcome::RootNotNamed, Some(root)),
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
/// A sentence that says what is missing.
pub fn roots(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    const NONE: &str = "contains no certificate in PEM or DER";
    if content.first() == Some(&0x30) {
        return Ok(vec![CertificateDer::from(content.to_vec())]);
    }
    let roots: Vec<_> = CertificateDer::pem_slice_iter(content).collect::<Result<_, _>>().map_err(|_| NONE)?;
    if roots.is_empty() { Err(NONE) } else { Ok(roots) }
}
