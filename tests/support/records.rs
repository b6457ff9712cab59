//! Minimal client and user records. Each test changes the fields that it is about.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use std::sync::OnceLock;

use sealgate_core::password::hash_blocking;
use sealgate_domain::client::{AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType};
use sealgate_domain::client::{ConsentRule, GrantType};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::base64url;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, ManagerDecisions, PasswordHash, Subject, User, UserState};
use secrecy::SecretString;

/// Password of every user who has one.
pub(crate) const PASSWORD: &str = "correct horse battery staple";
/// Redirect URI of the clients.
pub(crate) const REDIRECT_URI: &str = "https://rp.test/cb";

/// Returns a public client that may use authorization codes and asks for consent.
pub(crate) fn client(id: &str, now: UnixTime) -> Client {
    Client {
        id: ClientId::parse(id).unwrap(),
        name: id.to_owned(),
        client_type: ClientType::Public,
        auth_method: AuthMethod::None,
        secrets: Vec::new(),
        assertion_source: None,
        redirect_uris: vec![RedirectUri::parse(REDIRECT_URI).unwrap()],
        post_logout_redirect_uris: Vec::new(),
        scope: Scope::all(),
        grant_types: vec![GrantType::AuthorizationCode],
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: now,
        incarnation: 7,
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        service: None,
        logo: None,
        visible_groups: GroupFilter::default(),
        backchannel_logout: None,
        introspection: None,
        approval: None,
        disabled: None,
        from_configuration: false,
    }
}

/// Returns a user without a password, whose `sub` is derived from this number.
pub(crate) fn person(number: u8, email: &str, name: &str, now: UnixTime) -> User {
    User {
        sub: Subject::from_random([number; 16]),
        email: Some(Email::parse(email).unwrap()),
        username: None,
        email_verified: false,
        name: name.into(),
        phone_number: None,
        picture: None,
        roles: [].into(),
        groups: [].into(),
        password: None,
        source: None,
        state: UserState::Enabled,
        created_at: now,
        updated_at: now,
        audit_filters: Vec::new(),
        by_manager: ManagerDecisions::default(),
    }
}

/// Returns the hash of [`PASSWORD`]. It is computed once, because hashing is slow.
pub(crate) fn password_hash() -> PasswordHash {
    static HASH: OnceLock<PasswordHash> = OnceLock::new();
    HASH.get_or_init(|| hash_blocking(&SecretString::from(PASSWORD), [9; 16]).unwrap()).clone()
}

/// Returns the forms in which a record or file could contain this text without encryption: itself,
/// and in base64url at every position within a longer value.
pub(crate) fn readable_forms(text: &str) -> [String; 4] {
    let encoded = |skipped: usize| {
        let encoded = base64url(&[&vec![0; skipped], text.as_bytes()].concat());
        // The first and last characters depend on the neighbouring bytes, too.
        encoded[skipped + usize::from(skipped > 0)..encoded.len() - 2].to_owned()
    };
    [text.to_owned(), encoded(0), encoded(1), encoded(2)]
}
