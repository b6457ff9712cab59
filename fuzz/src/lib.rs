//! The program's pure modules, and helpers of the targets. No code here uses a network, a disk or a token.

#![allow(unfulfilled_lint_expectations, reason = "what the program does not use yet is public here")]

#[path = "../../src/domain/lib.rs"]
pub mod domain;
#[path = "../../src/domain/factors/mod.rs"]
pub mod factors;
#[path = "../../src/domain/oauth/mod.rs"]
pub mod oauth;
#[path = "../../src/domain/webauthn/mod.rs"]
pub mod webauthn;

mod gateway;

use domain::client::{AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType};
use domain::redirect_uri::RedirectUri;
use domain::scope::Scope;
use domain::time::UnixTime;
pub use gateway::{canonical, readings};

/// The redirect URIs of [`client`]: one plain, one with a query, one that matches any port.
pub const REDIRECT_URIS: [&str; 3] = ["https://rp.test/cb", "https://rp.test/cb?a=b", "http://127.0.0.1/cb"];

/// A client with all permissions.
pub fn client(client_type: ClientType) -> Client {
    Client {
        id: ClientId::parse("c1").expect("a valid id"),
        name: "Client".into(),
        client_type,
        auth_method: if client_type == ClientType::Public { AuthMethod::None } else { AuthMethod::ClientSecretBasic },
        secrets: Vec::new(),
        redirect_uris: REDIRECT_URIS.iter().map(|uri| RedirectUri::parse(uri).expect("a valid URI")).collect(),
        post_logout_redirect_uris: Vec::new(),
        scope: Scope::all(),
        grant_types: vec![GrantType::AuthorizationCode, GrantType::RefreshToken],
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: UnixTime::from_seconds(0),
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        approval: None,
        disabled: None,
        incarnation: 0,
    }
}

/// Splits an input into two texts at its first line break.
pub fn two(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
