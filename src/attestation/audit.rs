//! The whole examination of a provider's keys from outside.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use serde_json::Value;

use super::chain::{self, End};
use super::statement::{self, Attested};
use crate::config::IssuerUrl;
use crate::domain::time::UnixTime;
use crate::fetch::Web;

/// The statements' place below the issuer.
const STATEMENTS: &str = "/.well-known/sealgate/keys";
/// The provider's metadata, which names the key set (OpenID Connect Discovery §4).
const METADATA: &str = "/.well-known/openid-configuration";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Audit {
    pub issuer: String,
    pub keys: Vec<KeyVerdict>,
    /// What is wrong beyond a single key.
    pub faults: Vec<String>,
}

impl Audit {
    /// Everything that is wrong, one line each.
    pub(crate) fn all_faults(&self) -> Vec<String> {
        let of_key =
            |key: &KeyVerdict| key.faults.iter().map(|why| format!("key {}: {why}", key.kid)).collect::<Vec<_>>();
        self.faults.iter().cloned().chain(self.keys.iter().flat_map(of_key)).collect()
    }

    /// Whether a vendor whose root was named vouches for every key.
    pub(crate) fn is_proven(&self) -> bool {
        self.all_faults().is_empty() && self.keys.iter().all(|key| key.outcome == CheckOutcome::Attested)
    }
}

/// What is to be thought of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct KeyVerdict {
    pub kid: String,
    /// What the provider says that it does.
    pub state: String,
    /// The modulus's length, bits.
    pub bits: usize,
    pub outcome: CheckOutcome,
    /// The subject of the certificate that the chain ends in.
    pub root: Option<String>,
    pub faults: Vec<String>,
}

/// What is proven about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckOutcome {
    /// A root that the verifier named vouches for it.
    Attested,
    /// The chain is consistent, but its root is not one that the verifier named.
    RootNotNamed,
    NotAttested,
    Refused,
}

/// Reads the provider's documents and judges each key. `roots`: certificates that the verifier trusts.
///
/// # Errors
/// One line, where the documents cannot be read at all.
pub(crate) fn audit(
    web: &Web,
    issuer: &IssuerUrl,
    roots: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<Audit, String> {
    let name = issuer.as_str();
    let metadata = web.json(&format!("{name}{METADATA}"))?;
    if metadata["issuer"].as_str() != Some(name) {
        return Err(format!("{name} calls itself {}; give the issuer as it stands in its tokens", metadata["issuer"]));
    }
    let jwks_uri = metadata["jwks_uri"].as_str().ok_or_else(|| format!("{name} names no jwks_uri"))?;
    if !jwks_uri.starts_with(&format!("{}://", issuer.scheme())) {
        return Err(format!("the key set is at {jwks_uri}, which is not read over {}", issuer.scheme()));
    }
    // The set last: a key that comes between the two readings is then a fault for a second try, not a silent gap.
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

/// The certificates in a file: PEM, any number, or one in DER.
///
/// # Errors
/// A sentence that says what it is not.
pub(crate) fn roots(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    const NONE: &str = "holds no certificate, PEM or DER";
    if content.first() == Some(&0x30) {
        return Ok(vec![CertificateDer::from(content.to_vec())]);
    }
    let roots: Vec<_> = CertificateDer::pem_slice_iter(content).collect::<Result<_, _>>().map_err(|_| NONE)?;
    if roots.is_empty() { Err(NONE) } else { Ok(roots) }
}
