//! Security keys and passkeys: the relying party's side of both ceremonies of Web Authentication
//! Level 3 (W3C).
//!
//! The code has no I/O. It compares a browser's answer with the expected values, and returns a
//! credential or an error. The store keeps the challenge and accepts one answer to it.
//!
//! Attestation is neither requested nor read. It would prove the model of an authenticator, but no
//! rule depends on the model. The model that a credential names (its AAGUID) is only a hint.

mod assertion;
mod authenticator_data;
mod cbor;
mod credential;
mod credential_key;
mod error;
mod model;
mod options;
mod registration;
mod response;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::{Host, Url};

use crate::secret::{base64url, base64url_bytes, from_base64url};

pub use assertion::{AssertionPurpose, AssertionResponse, AssertionTerms, CredentialOwner, VerifiedAssertion};
pub use cbor::CborFault;
pub use credential::{BackupState, CredentialId, CredentialKind, CredentialRecord, UserHandle};
pub use credential_key::{CredentialKey, KeyAlgorithm};
pub use error::{CeremonyBlame, CeremonyError};
pub use options::{CreationOptions, RequestOptions, UserEntity};
pub use registration::{RegistrationResponse, RegistrationTerms, VerifiedRegistration};

/// Maximum length of a browser's answer, in bytes of JSON.
///
/// Some browsers send the attestation statement of a TPM, although it was not requested. Such a
/// statement has a few thousand bytes.
pub(crate) const MAX_CEREMONY_RESPONSE_LENGTH: usize = 16 * 1024;

/// Relying party: the host that credentials are bound to, and the origin that uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelyingParty {
    id: String,
    origin: String,
    id_hash: [u8; 32],
}

impl RelyingParty {
    /// Creates the relying party of an issuer. Returns `None` if browsers support no credentials
    /// for the issuer: if its host is an IP address, or if it uses http and is not on the local
    /// device.
    ///
    /// `id` is the RP ID, if it is not the issuer's host. If the RP ID is a parent domain, each
    /// application behind the gateway can request assertions.
    pub fn new(issuer: &Url, id: Option<&str>) -> Option<Self> {
        let Some(Host::Domain(host)) = issuer.host() else { return None };
        let on_this_device = host == "localhost" || host.ends_with(".localhost");
        if issuer.scheme() != "https" && !(issuer.scheme() == "http" && on_this_device) {
            return None;
        }
        let origin = issuer.origin().ascii_serialization();
        let id = id.unwrap_or(host);
        Some(Self { id: id.to_owned(), origin, id_hash: Sha256::digest(id).into() })
    }

    /// Returns the RP ID, to which credentials are bound permanently.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the only origin (scheme, host, port) whose pages may perform a ceremony.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// Challenge that an authenticator signs, so that an answer is valid for one ceremony only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CeremonyChallenge(#[serde(with = "base64url_bytes")] [u8; 32]);

impl CeremonyChallenge {
    /// Creates the challenge from random bytes.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// Returns whether client data contain this challenge.
    fn is(&self, text: &str) -> bool {
        self.to_string().as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl std::fmt::Display for CeremonyChallenge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relying_party_is_the_issuers_host_at_the_issuers_origin() {
        for (issuer, id, origin) in [
            ("https://id.example.test", "id.example.test", "https://id.example.test"),
            ("https://ID.Example.test:8443/", "id.example.test", "https://id.example.test:8443"),
            ("https://bücher.example:443", "xn--bcher-kva.example", "https://xn--bcher-kva.example"),
            ("http://localhost:8080", "localhost", "http://localhost:8080"),
            ("http://id.localhost", "id.localhost", "http://id.localhost"),
        ] {
            let party = RelyingParty::new(&Url::parse(issuer).unwrap(), None).unwrap();
            assert_eq!((party.id(), party.origin()), (id, origin));
        }
        for none in [
            "http://id.example.test",
            "http://notlocalhost",
            "https://127.0.0.1",
            "https://[::1]",
            "ftp://localhost",
            "unix:/x",
        ] {
            assert_eq!(RelyingParty::new(&Url::parse(none).unwrap(), None), None, "{none}");
        }
    }

    #[test]
    fn a_moved_issuer_keeps_its_earlier_host_as_rp_id() {
        let party =
            RelyingParty::new(&Url::parse("https://id.example.test").unwrap(), Some("old.example.test")).unwrap();
        assert_eq!((party.id(), party.origin()), ("old.example.test", "https://id.example.test"));
        assert_eq!(party.id_hash, *Sha256::digest("old.example.test"));
    }

    #[test]
    fn a_written_challenge_can_be_parsed() {
        let challenge = CeremonyChallenge::from_random([9; 32]);
        assert_eq!(CeremonyChallenge::parse(&challenge.to_string()), Some(challenge));
        assert!(challenge.is(&challenge.to_string()));
        assert!(!challenge.is(&CeremonyChallenge::from_random([8; 32]).to_string()));
        assert!(!challenge.is("") && !challenge.is(&format!("{challenge}=")));
        assert_eq!(CeremonyChallenge::parse(&base64url(&[9; 31])), None);
    }
}
