//! The program's pure modules, and helpers of the targets. No code here uses a network, a disk or a token.

pub use sealgate_domain as domain;
pub use sealgate_domain::{factors, oauth, webauthn};

// The gateway's interpretation of paths, from the program's own files.
#[path = "../../src/gateway/characters.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod characters;
#[path = "../../src/gateway/path.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod path;
#[path = "../../src/gateway/reading.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod reading;
#[path = "../../src/gateway/work.rs"]
#[allow(dead_code, reason = "the gate's other files use the rest")]
mod work;

use domain::client::{AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType};
use domain::redirect_uri::RedirectUri;
use domain::scope::Scope;
use domain::time::UnixTime;

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
        service: None,
        approval: None,
        disabled: None,
        from_configuration: false,
        incarnation: 0,
    }
}

/// Splits an input into two texts at its first line break.
pub fn two(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Returns the path of a request as the gateway interprets it, or `None` if it is ambiguous.
pub fn canonical(raw: &str) -> Option<Vec<u8>> {
    let path = path::CanonicalPath::parse(raw).ok()?;
    // No other interpretation may panic, for any path.
    let _ = path.interpretations().map(Iterator::count);
    let path = path.as_bytes().to_vec();
    let _ = reading::has_short_name(&path);
    Some(path)
}

/// Returns every interpretation of a path in which `;`, `%2F` and `%5C` are data, or `None` if it is
/// ambiguous or contains none of them.
pub fn readings(raw: &str) -> Option<Vec<Vec<u8>>> {
    let path = path::CanonicalPath::parse_with(raw, characters::Characters::ALL).ok()?;
    if !path.characters().is_any() {
        return None;
    }
    Some(path.interpretations().ok()?.map(|(text, _)| text.to_vec()).collect())
}
