//! A provider: its settings, and the operations at it.

use std::sync::Arc;

use secrecy::SecretString;

use crate::fault::{UpstreamFault, UpstreamFaultKind};
use crate::outcome::{CallbackAnswer, Trip, UpstreamLogoutToken, UpstreamRefresh, UpstreamRefusal, UpstreamSignIn};
use sealgate_config::UpstreamSettings;
use sealgate_domain::secret::Secret;
use sealgate_domain::source::SourceLink;
use sealgate_system::clock::Clock;

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

/// An OpenID provider whose users can sign in.
pub struct OpenIdProvider {
    settings: UpstreamSettings,
    _signer: Arc<dyn AssertionSigner>,
    _clock: Arc<dyn Clock>,
}

impl OpenIdProvider {
    /// Prepares a provider. Does not connect to it.
    ///
    /// # Errors
    /// If the CA file or the secret file cannot be read.
    pub fn open(
        settings: &UpstreamSettings,
        signer: Arc<dyn AssertionSigner>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UpstreamFault> {
        Ok(Self { settings: settings.clone(), _signer: signer, _clock: clock })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// Returns the URL at the provider to which the browser is redirected. Reads the metadata if
    /// needed.
    ///
    /// # Errors
    /// If the metadata cannot be read.
    pub async fn authorization_url(&self, _trip: &Trip<'_>) -> Result<String, UpstreamFault> {
        Err(self.unfinished())
    }

    /// Exchanges the code of a browser that has returned, and validates the answer.
    ///
    /// The caller has compared `state`, and `trip` is the trip of this browser.
    ///
    /// # Errors
    /// [`UpstreamRefusal`].
    pub async fn sign_in(
        &self,
        _answer: &CallbackAnswer<'_>,
        _trip: &Trip<'_>,
    ) -> Result<UpstreamSignIn, UpstreamRefusal> {
        Err(self.unfinished().into())
    }

    /// Reads a user again with a refresh token. The user must be the one of `link`.
    ///
    /// # Errors
    /// [`UpstreamRefusal::Ended`] if the provider has ended the user's access.
    pub async fn refresh(
        &self,
        _refresh_token: &SecretString,
        _link: &SourceLink,
    ) -> Result<UpstreamRefresh, UpstreamRefusal> {
        Err(self.unfinished().into())
    }

    /// Returns the URL that ends the session at the provider. `None` if the provider has none, or its
    /// metadata were not read.
    pub fn end_session_url(
        &self,
        _id_token: Option<&SecretString>,
        _return_to: &str,
        _state: Option<&Secret>,
    ) -> Option<String> {
        None
    }

    /// Verifies a logout token (OpenID Connect Back-Channel Logout 1.0 §2.6).
    ///
    /// # Errors
    /// [`UpstreamRefusal::Invalid`], or [`UpstreamRefusal::Unavailable`] if the keys cannot be read.
    pub async fn verify_logout_token(&self, _token: &str) -> Result<UpstreamLogoutToken, UpstreamRefusal> {
        Err(self.unfinished().into())
    }

    fn unfinished(&self) -> UpstreamFault {
        let name = &self.settings.name;
        UpstreamFault::new(UpstreamFaultKind::Metadata, format!("upstream {name}: not supported by this version yet"))
    }
}
