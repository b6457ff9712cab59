//! Authentication of this server at a provider's token endpoint (RFC 6749 §2.3.1, RFC 7523).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use url::form_urlencoded;

use crate::fault::{UpstreamFault, UpstreamFaultKind};
use sealgate_config::{UpstreamCredential, UpstreamSettings, read_longer_secret_file};
use sealgate_domain::oauth::upstream_metadata::ClientAuthentication;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::{OsEntropy, random};
use zeroize::Zeroizing;

/// Value of `client_assertion_type` (RFC 7523 §2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Time for which a client assertion is valid.
const ASSERTION_LIFETIME: Duration = Duration::from_mins(1);

/// Maximum length of a client secret in bytes.
const MAX_SECRET_LENGTH: usize = 1024;

/// Length of an uncompressed P-256 point in bytes.
const POINT_LENGTH: usize = 65;

/// Signs client assertions with EC P-256 keys in the PKCS#11 token. Both functions block.
pub trait AssertionSigner: Send + Sync {
    /// Returns the public key with this label as an uncompressed point (SEC 1 §2.3.3), 65 bytes.
    ///
    /// # Errors
    /// One line that names the key and says what to do.
    fn public_point(&self, label: &str) -> Result<Vec<u8>, String>;

    /// Signs a message with ECDSA and SHA-256. Returns r and s, 32 bytes each (RFC 7518 §3.4).
    ///
    /// # Errors
    /// One line that names the key and says what to do.
    fn sign(&self, label: &str, message: &[u8]) -> Result<Vec<u8>, String>;
}

/// Credential of this server at one provider.
pub(crate) struct ProviderCredential {
    client_id: String,
    issuer: String,
    kind: CredentialKind,
}

enum CredentialKind {
    SecretFile(PathBuf),
    Key { label: String, signer: Arc<dyn AssertionSigner> },
}

impl ProviderCredential {
    pub(crate) fn new(settings: &UpstreamSettings, signer: Arc<dyn AssertionSigner>) -> Self {
        let kind = match &settings.credential {
            UpstreamCredential::SecretFile(path) => CredentialKind::SecretFile(path.clone()),
            UpstreamCredential::Key(label) => CredentialKind::Key { label: label.clone(), signer },
        };
        Self { client_id: settings.client_id.clone(), issuer: settings.issuer.clone(), kind }
    }

    /// Checks the secret file. Blocking.
    pub(crate) fn check_file(&self) -> Result<(), UpstreamFault> {
        match &self.kind {
            CredentialKind::SecretFile(path) => read_secret(path).map(|_| ()),
            CredentialKind::Key { .. } => Ok(()),
        }
    }

    /// Adds the authentication to a form, and returns the `Authorization` header, if there is one.
    /// Blocking.
    ///
    /// The secret is read from its file for each request, so a changed secret needs no restart.
    pub(crate) fn authenticate(
        &self,
        form: &mut Vec<(&'static str, Secret)>,
        methods: ClientAuthentication,
        now: UnixTime,
    ) -> Result<Option<Secret>, UpstreamFault> {
        match &self.kind {
            CredentialKind::SecretFile(path) => {
                let secret = read_secret(path)?;
                if methods.post && !methods.basic {
                    form.push(("client_id", Secret::new(&self.client_id)));
                    form.push(("client_secret", Secret::new(secret.as_str())));
                    return Ok(None);
                }
                Ok(Some(basic(&self.client_id, &secret)))
            }
            CredentialKind::Key { label, signer } => {
                form.push(("client_id", Secret::new(&self.client_id)));
                form.push(("client_assertion_type", Secret::new(ASSERTION_TYPE)));
                form.push(("client_assertion", self.assertion(label, signer.as_ref(), now)?));
                Ok(None)
            }
        }
    }

    /// Returns the key set with the public key of the client key. `None` if the credential is a
    /// secret. Blocking.
    pub(crate) fn jwks(&self) -> Result<Option<String>, UpstreamFault> {
        let CredentialKind::Key { label, signer } = &self.kind else { return Ok(None) };
        let key = PublicJwk::of(&signer.public_point(label).map_err(key_fault)?)?;
        let PublicJwk { x, y, kid } = key;
        let jwk = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": kid, "use": "sig", "alg": "ES256" });
        Ok(Some(json!({ "keys": [jwk] }).to_string()))
    }

    /// Returns a client assertion (RFC 7523 §3).
    ///
    /// The audience is the issuer alone. With the token endpoint as audience, a malicious provider
    /// could use the assertion at another provider (CVE-2025-27370).
    fn assertion(&self, label: &str, signer: &dyn AssertionSigner, now: UnixTime) -> Result<Secret, UpstreamFault> {
        let key = PublicJwk::of(&signer.public_point(label).map_err(key_fault)?)?;
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": key.kid });
        let claims = json!({
            "iss": self.client_id, "sub": self.client_id, "aud": self.issuer, "iat": now.seconds(),
            "exp": now.plus(ASSERTION_LIFETIME).seconds(), "jti": base64url(&random::<16>(&OsEntropy)),
        });
        let part = |value: &serde_json::Value| base64url(value.to_string().as_bytes());
        let input = format!("{}.{}", part(&header), part(&claims));
        let signature = signer.sign(label, input.as_bytes()).map_err(key_fault)?;
        Ok(Secret::new(format!("{input}.{}", base64url(&signature))))
    }
}

/// Public key as a JWK (RFC 7517), with its thumbprint as key id.
struct PublicJwk {
    x: String,
    y: String,
    kid: String,
}

impl PublicJwk {
    fn of(point: &[u8]) -> Result<Self, UpstreamFault> {
        let coordinates = point.strip_prefix(&[4]).filter(|_| point.len() == POINT_LENGTH);
        let unusable = || key_fault("the token returned no point on P-256".to_owned());
        let (x, y) = coordinates.ok_or_else(unusable)?.split_at(POINT_LENGTH / 2);
        let (x, y) = (base64url(x), base64url(y));
        // RFC 7638 §3.2: the required members in lexicographic order, without blanks.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let kid = base64url(SecretHash::for_secret(canonical.as_bytes()).as_bytes());
        Ok(Self { x, y, kid })
    }
}

/// Returns the `Authorization` header of `client_secret_basic`. Both values are form-encoded before
/// they are joined (RFC 6749 §2.3.1).
fn basic(client_id: &str, secret: &str) -> Secret {
    let encoded = |text: &str| Zeroizing::new(form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>());
    let pair = Zeroizing::new(format!("{}:{}", *encoded(client_id), *encoded(secret)));
    Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))))
}

fn read_secret(path: &std::path::Path) -> Result<Zeroizing<String>, UpstreamFault> {
    read_longer_secret_file(path, "the client secret", MAX_SECRET_LENGTH)
        .map_err(|fault| UpstreamFault::new(UpstreamFaultKind::Settings, format!("{} {fault}", path.display())))
}

fn key_fault(text: String) -> UpstreamFault {
    UpstreamFault::new(UpstreamFaultKind::Settings, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_id_and_secret_are_form_encoded_before_base64() {
        // "a b:c" and "p%q+r/ş" with application/x-www-form-urlencoded.
        let header = basic("a b:c", "p%q+r/\u{15f}");
        let plain = "a+b%3Ac:p%25q%2Br%2F%C5%9F";
        assert_eq!(header.expose(), format!("Basic {}", STANDARD.encode(plain)));
        assert_eq!(basic("client", "secret").expose(), "Basic Y2xpZW50OnNlY3JldA==");
    }

    #[test]
    fn a_key_id_is_the_thumbprint_of_the_key() {
        // The key of RFC 7515 appendix A.3. Its thumbprint was computed with another program.
        let point = |text| sealgate_domain::secret::from_base64url(text).unwrap();
        let x = point("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU");
        let y = point("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
        let key = PublicJwk::of(&[vec![4], x, y].concat()).unwrap();
        assert_eq!(key.kid, "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U");
        assert!(PublicJwk::of(&[4; 64]).is_err() && PublicJwk::of(&[2; 65]).is_err());
    }
}
