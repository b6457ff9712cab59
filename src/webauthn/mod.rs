//! Security keys and passkeys: both ceremonies of Web Authentication Level 3 (W3C), from the relying party's side. Pure: what
//! a browser sent and what was expected go in, a credential or the reason of a refusal comes out. The store keeps the
//! challenge and lets each be answered once.
//!
//! Attestation is not asked for and its statement not read: it would prove an authenticator's model, and no rule here asks
//! for one. So the model that a credential names (its AAGUID) is a hint and no fact.

mod assertion;
mod authenticator_data;
mod cbor;
mod client_data;
mod credential;
mod credential_key;
mod error;
mod options;
mod registration;
mod response;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::{Host, Url};

use crate::domain::secret::{base64url, base64url_bytes, from_base64url};

pub use assertion::{AssertionPurpose, AssertionResponse, AssertionTerms, CredentialOwner, VerifiedAssertion};
pub use cbor::CborFault;
pub use credential::{BackupState, CredentialId, CredentialKind, CredentialRecord, UserHandle};
pub use credential_key::{CredentialKey, KeyAlgorithm};
pub use error::{CeremonyBlame, CeremonyError};
pub use options::{CreationOptions, RequestOptions, UserEntity};
pub use registration::{RegistrationResponse, RegistrationTerms, VerifiedRegistration};

/// The longest answer of a browser that is read, bytes of JSON. A TPM's attestation statement, which some browsers send though
/// nobody asked, takes a few thousand.
pub const LONGEST_CEREMONY_RESPONSE: usize = 16 * 1024;

/// Whose credentials they are: one host, at one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelyingParty {
    id: String,
    origin: String,
    id_hash: [u8; 32],
}

impl RelyingParty {
    /// The relying party that an issuer is. Its id is the host itself and no parent domain, by which every application behind
    /// the gate could ask for assertions. `None` where browsers have no credentials: at an address without a name, and over
    /// plain HTTP other than on this device.
    pub fn of_issuer(issuer: &Url) -> Option<Self> {
        let Some(Host::Domain(host)) = issuer.host() else { return None };
        let on_this_device = host == "localhost" || host.ends_with(".localhost");
        if issuer.scheme() != "https" && !(issuer.scheme() == "http" && on_this_device) {
            return None;
        }
        let origin = issuer.origin().ascii_serialization();
        Some(Self { id: host.to_owned(), origin, id_hash: Sha256::digest(host).into() })
    }

    /// The RP ID. Credentials are bound to it for good.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The only origin (scheme, host, port) whose pages may run a ceremony.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// What an authenticator signs, so that its answer is good for one ceremony.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CeremonyChallenge(#[serde(with = "base64url_bytes")] [u8; 32]);

impl CeremonyChallenge {
    /// The challenge made of these random bytes.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// Whether client data name this challenge.
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
            let party = RelyingParty::of_issuer(&Url::parse(issuer).unwrap()).unwrap();
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
            assert_eq!(RelyingParty::of_issuer(&Url::parse(none).unwrap()), None, "{none}");
        }
    }

    #[test]
    fn a_challenge_is_read_as_it_was_written() {
        let challenge = CeremonyChallenge::from_random([9; 32]);
        assert_eq!(CeremonyChallenge::parse(&challenge.to_string()), Some(challenge));
        assert!(challenge.is(&challenge.to_string()));
        assert!(!challenge.is(&CeremonyChallenge::from_random([8; 32]).to_string()));
        assert!(!challenge.is("") && !challenge.is(&format!("{challenge}=")));
        assert_eq!(CeremonyChallenge::parse(&base64url(&[9; 31])), None);
    }
}
