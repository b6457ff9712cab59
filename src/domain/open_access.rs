//! Open accesses of a user, as pages and commands list them. An open access lets a browser, an
//! application or a program act as the user.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::assurance::AuthenticationMethod;
use crate::client_logo::ClientLogo;
use crate::scope::Scope;
use crate::session::SessionId;
use crate::time::UnixTime;

/// Kind of an open access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// Browser session at the provider.
    Session,
    /// Browser session at a protected application. It depends on a session at the provider.
    AppSession,
    /// Access of a client: the user's consent and the client's tokens, or only the tokens.
    Client,
    AppPassword,
    /// Stored name and password of the user at an application with its own login form. It is only
    /// used in sessions at the application.
    AppLogin,
}

impl AccessKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Session, Self::AppSession, Self::Client, Self::AppPassword, Self::AppLogin];

    /// Returns the name of the kind in commands and forms.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::AppSession => "app_session",
            Self::Client => "client",
            Self::AppPassword => "app_password",
            Self::AppLogin => "app_login",
        }
    }

    /// Parses the name of a kind.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Tokens that a client has for a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientTokens {
    /// Access tokens only.
    Access,
    /// A refresh token.
    Refresh,
}

/// Open access of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAccess {
    pub kind: AccessKind,
    /// Id with which the access can be ended: the id of the session, the client or the application
    /// password. For an application login, the name of the application.
    pub id: String,
    /// Name of the application in the configuration, or id of the client. `None` for a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Title of the application, or name of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Logo of the client.
    #[serde(skip)]
    pub logo: Option<ClientLogo>,
    /// Name of the application password, or name of the user at the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub created_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Authentication methods of the sign-in. Empty except for browser sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<AuthenticationMethod>,
    /// Session at the provider: the browser's session, or the session that an application's session
    /// depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<SessionId>,
    /// Time until which the user of a browser session stays signed in on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<UnixTime>,
    /// Permissions of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Identifiers of the resources that a client may use.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
    /// Tokens of a client. `None` if the user has only given consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ClientTokens>,
    /// Whether the gateway keeps a session of the user at the application's own login. That session
    /// ends with this access.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_app_login: bool,
    /// Whether the application has refused the stored name and password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

impl OpenAccess {
    /// Creates an access with only the fields that every kind has.
    pub fn new(kind: AccessKind, id: String, created_at: UnixTime) -> Self {
        Self {
            kind,
            id,
            target: None,
            title: None,
            logo: None,
            name: None,
            created_at,
            last_used_at: None,
            address: None,
            user_agent: None,
            methods: Vec::new(),
            sid: None,
            kept_until: None,
            scope: None,
            resources: BTreeSet::new(),
            tokens: None,
            has_app_login: false,
            is_refused: false,
        }
    }
}
