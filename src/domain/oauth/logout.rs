//! Logout request (OpenID Connect RP-Initiated Logout 1.0 §2, §3).

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::error::Refusal;
use crate::oauth::params::Params;

/// Well-formed logout request, not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutRequest {
    /// ID token of the user, as sent.
    pub id_token_hint: Option<String>,
    pub client: Option<ClientId>,
    /// URI to open after the logout.
    pub post_logout_redirect_uri: Option<String>,
    pub state: Option<String>,
    pub ui_locales: Option<String>,
}

impl LogoutRequest {
    /// Parses the request.
    ///
    /// # Errors
    /// `invalid_request` if a parameter is repeated or the client id is invalid.
    pub fn parse(params: &Params) -> Result<Self, Refusal> {
        let owned = |name: &str| params.one(name).map(|value| value.map(str::to_owned));
        let client = match params.one("client_id")? {
            Some(text) => Some(ClientId::parse(text).ok_or(Refusal::invalid_request("The client_id is malformed."))?),
            None => None,
        };
        Ok(Self {
            id_token_hint: owned("id_token_hint")?,
            client,
            post_logout_redirect_uri: owned("post_logout_redirect_uri")?,
            state: owned("state")?,
            ui_locales: owned("ui_locales")?,
        })
    }
}

/// Return URL after a logout. Exists only for a URI that the client has registered for that
/// purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterLogout {
    uri: String,
    state: Option<String>,
}

impl AfterLogout {
    /// Returns the return URL of this client. Returns `None` if the client has not registered the
    /// URI.
    pub fn resolve(uri: &str, state: Option<&str>, client: &Client) -> Option<Self> {
        client.logs_out_to(uri).then(|| Self { uri: uri.to_owned(), state: state.map(str::to_owned) })
    }

    /// Returns the URI without the state.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the state for the client.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the URL to redirect to, with the state.
    pub fn location(&self) -> String {
        let Some(state) = &self.state else { return self.uri.clone() };
        let written: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("state", state).finish();
        let separator = if self.uri.contains('?') { '&' } else { '?' };
        format!("{}{separator}{written}", self.uri)
    }
}
