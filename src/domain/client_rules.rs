//! Rules for clients that operators define, on the command line or in the configuration file.
//!
//! Errors are sentences without a final period, for the operator.

use std::collections::BTreeSet;
use std::fmt::Display;

use crate::assertion_source::AssertionSource;
use crate::client::{AuthMethod, Client, ClientId, ClientType, GrantType, INTERNAL_CLIENT, MAX_REFRESH_RETRY};
use crate::profile::{MAX_NAME_LENGTH, is_line};
use crate::redirect_uri::RedirectUri;
use crate::scope::{Scope, ScopeValue};
use crate::user::Subject;

/// Maximum number of URIs of each kind.
const MAX_URIS: usize = 100;
/// Maximum length of a description in characters, as in the console.
const MAX_DESCRIPTION_LENGTH: usize = 500;
/// Maximum `default_max_age` in seconds: a year, the maximum lifetime of a session.
pub const MAX_DEFAULT_MAX_AGE: u64 = 366 * 24 * 60 * 60;

/// Error text: the client has no redirect URI.
pub const NO_REDIRECT_URI: &str = "a client needs at least one redirect URI";

/// Checks the id of a new client.
///
/// # Errors
/// Returns an error if the id is reserved for protected applications, or is a URL.
pub fn check_id(id: &ClientId) -> Result<(), String> {
    if id.document_host().is_some() {
        return Err("a client whose ID is a URL registers itself by its document; list the host in \
                    registration.document_hosts"
            .to_owned());
    }
    if matches!(id.as_str(), "." | "..") {
        return Err(
            "an ID of dots has no page in the console, because browsers remove it from the path; choose another"
                .to_owned(),
        );
    }
    if id.as_str().starts_with(INTERNAL_CLIENT) {
        return Err(format!(
            "IDs that start with {INTERNAL_CLIENT} are reserved for protected applications; choose another"
        ));
    }
    Ok(())
}

/// Checks a name.
///
/// # Errors
/// Returns an error if the name is empty, too long or has invisible characters.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_line(name, MAX_NAME_LENGTH) {
        return Ok(());
    }
    Err(format!("a client's name has 1 to {MAX_NAME_LENGTH} visible characters and no line breaks"))
}

/// Checks a description.
///
/// # Errors
/// Returns an error if the text is empty, too long or has invisible characters.
pub fn check_description(text: &str) -> Result<(), String> {
    if is_line(text, MAX_DESCRIPTION_LENGTH) {
        return Ok(());
    }
    Err(format!("a description has 1 to {MAX_DESCRIPTION_LENGTH} visible characters and no line breaks"))
}

/// Checks the address of a page about the client. `what` names the page in the error.
///
/// # Errors
/// Returns an error if the address is not an https URL.
pub fn check_page(what: &str, text: &str) -> Result<(), String> {
    if text.starts_with("https://") && RedirectUri::parse(text).is_ok() {
        return Ok(());
    }
    Err(format!("the {what} {text:?} is invalid; write an https URL without a fragment"))
}

/// Checks the time in which a client may repeat a refresh.
///
/// # Errors
/// Returns an error if it exceeds the maximum.
pub fn check_refresh_retry(seconds: Option<u64>) -> Result<(), String> {
    if seconds.is_none_or(|seconds| seconds <= MAX_REFRESH_RETRY) {
        return Ok(());
    }
    Err(format!("a refresh token can be retried for at most {MAX_REFRESH_RETRY} seconds"))
}

/// Checks whether a client may get tokens in its own name.
///
/// # Errors
/// Returns an error if the client is public, or if its id could be the `sub` of a user.
pub fn check_service(id: &ClientId, client_type: ClientType) -> Result<(), String> {
    if client_type == ClientType::Public {
        return Err("only a confidential client can get tokens in its own name, because it needs a secret".to_owned());
    }
    // The `sub` of the tokens is the client's id (RFC 9068 §5).
    if Subject::parse(id.as_str()).is_some() {
        return Err("a client whose ID is a UUID cannot get tokens in its own name; use another ID".to_owned());
    }
    Ok(())
}

/// Parses the access of a client to one application: `APP`, or `APP=SCOPE SCOPE`.
///
/// # Errors
/// Returns an error if the name is missing.
pub fn service(text: &str) -> Result<(String, BTreeSet<String>), String> {
    let (app, scopes) = text.split_once('=').unwrap_or((text, ""));
    if app.is_empty() || app.contains(char::is_whitespace) {
        return Err(format!("{text:?} names no application; write \"wiki=wiki:read wiki:write\""));
    }
    let scopes = scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    Ok((app.to_owned(), scopes))
}

/// Parses a redirect URI. `kind` names it in the error.
///
/// # Errors
/// Returns the rule that the URI violates.
pub fn redirect_uri(kind: &str, text: &str) -> Result<RedirectUri, String> {
    RedirectUri::parse(text).map_err(|fault| format!("the {kind} {text:?} is invalid: {fault}"))
}

/// Checks the number of URIs of this kind.
///
/// # Errors
/// Returns an error if there are too many.
pub fn check_uri_count(kind: &str, count: usize) -> Result<(), String> {
    if count > MAX_URIS { Err(format!("a client has at most {MAX_URIS} {kind}s")) } else { Ok(()) }
}

/// Parses the scopes that a client may request.
///
/// # Errors
/// Returns an error if a scope is unknown, or if the text has no scope.
pub fn scope(text: &str) -> Result<Scope, String> {
    let scope = Scope::parse(text).map_err(|unknown| format!("the scope {text:?} is invalid: {unknown}"))?;
    if scope.is_empty() { Err("the scope is empty; leave it out to allow all scopes".to_owned()) } else { Ok(scope) }
}

/// Parses the default scope of a client that may request `allowed`.
///
/// # Errors
/// Returns an error if a scope is unknown or not allowed, or if `openid` is missing.
pub fn default_scope(text: &str, allowed: Scope) -> Result<Scope, String> {
    let refused = |why: &dyn Display| format!("the default scope {text:?} is invalid: {why}");
    let scope = Scope::parse(text).map_err(|unknown| refused(&unknown))?;
    if !scope.contains(ScopeValue::OpenId) {
        return Err(refused(&"it must include openid"));
    }
    if !scope.is_subset_of(allowed) {
        return Err(refused(&format!("the client may only ask for {allowed}")));
    }
    Ok(scope)
}

/// Returns the grant types in the order that records use.
///
/// # Errors
/// Returns an error if `authorization_code` is missing.
pub fn grant_types(requested_types: &[GrantType]) -> Result<Vec<GrantType>, String> {
    let grant_types = [GrantType::AuthorizationCode, GrantType::RefreshToken];
    if !requested_types.contains(&GrantType::AuthorizationCode) {
        return Err(
            "a client needs the grant type authorization_code, because a refresh token starts with a code".to_owned()
        );
    }
    Ok(grant_types.into_iter().filter(|grant| requested_types.contains(grant)).collect())
}

/// Returns `requested_method`, or the default authentication method of a client of this type.
///
/// # Errors
/// Returns an error if the method contradicts the type.
pub fn auth_method(client_type: ClientType, requested_method: Option<AuthMethod>) -> Result<AuthMethod, String> {
    match (client_type, requested_method) {
        (ClientType::Public, None | Some(AuthMethod::None)) => Ok(AuthMethod::None),
        (ClientType::Public, Some(method)) => {
            Err(format!("a public client has no secret, so its authentication method is none, not {}", method.as_str()))
        }
        (ClientType::Confidential, None) => Ok(AuthMethod::ClientSecretBasic),
        (ClientType::Confidential, Some(AuthMethod::None)) => {
            Err("a confidential client authenticates with client_secret_basic, client_secret_post or \
                 private_key_jwt, not none"
                .to_owned())
        }
        (ClientType::Confidential, Some(method)) => Ok(method),
    }
}

/// Checks that a client has a secret exactly if its authentication method needs one.
///
/// # Errors
/// Returns an error if the secret contradicts the method.
pub fn check_has_secret(method: AuthMethod, has_secret: bool) -> Result<(), &'static str> {
    match (method, has_secret) {
        (AuthMethod::None, true) => Err("a public client has no secret; leave it out, or make the client confidential"),
        (AuthMethod::PrivateKeyJwt, true) => {
            Err("a client with the method private_key_jwt has no secret; leave it out, or change the method")
        }
        (AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost, false) => {
            Err("a confidential client needs a secret, or make the client public")
        }
        _ => Ok(()),
    }
}

/// Checks that a client has the keys of its assertions exactly if its authentication method needs them.
/// `is_operators_own` is whether the client has no owner and did not register itself.
///
/// # Errors
/// Returns an error if the keys contradict the method, or if this server would fetch keys for another
/// client than one of the operator.
pub fn check_assertion_source(
    method: AuthMethod,
    source: Option<&AssertionSource>,
    is_operators_own: bool,
) -> Result<(), &'static str> {
    match (method, source) {
        (AuthMethod::PrivateKeyJwt, None) => {
            Err("the authentication method private_key_jwt needs jwks, jwks_uri or workload")
        }
        (AuthMethod::PrivateKeyJwt, Some(AssertionSource::JwksUri(_))) if !is_operators_own => {
            Err("only a client of the operator can have a jwks_uri, because this server fetches it; use jwks")
        }
        (AuthMethod::None | AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost, Some(_)) => {
            Err("jwks, jwks_uri and workload need the authentication method private_key_jwt")
        }
        _ => Ok(()),
    }
}

/// Minimum length in characters of a secret that the operator chooses. Its stored SHA-256 protects
/// only secrets that cannot be guessed.
const MIN_SECRET_LENGTH: usize = 32;

/// Checks a secret that the operator chooses.
///
/// # Errors
/// Returns an error, without the secret, if the secret is too short or has characters that
/// libraries encode in different ways.
pub fn check_secret(secret: &str) -> Result<(), String> {
    if secret.len() >= MIN_SECRET_LENGTH && secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(format!(
        "a client secret has at least {MIN_SECRET_LENGTH} visible ASCII characters and no spaces; generate one with: \
         openssl rand -hex 32"
    ))
}

/// Checks whether a client may introspect tokens.
///
/// # Errors
/// Returns an error if the client is public.
pub fn check_introspection(client_type: ClientType) -> Result<(), &'static str> {
    match client_type {
        ClientType::Public => Err("only a confidential client can introspect tokens, because it needs a secret"),
        ClientType::Confidential => Ok(()),
    }
}

/// Error text: a client names applications, but may not introspect tokens.
pub const NO_INTROSPECTION: &str = "has no effect without introspection; set both, or leave both out";

/// Parses the URI that receives logout tokens.
///
/// # Errors
/// Returns the rule that the URI violates.
pub fn logout_uri(text: &str) -> Result<RedirectUri, String> {
    redirect_uri("back-channel logout URI", text)
}

/// Error text: a client has no URI for logout tokens.
pub const NO_LOGOUT_URI: &str = "has no effect without backchannel_logout_uri; set both, or leave both out";

/// Returns the names of settings with different values.
pub fn changes(before: &Client, after: &Client) -> Vec<&'static str> {
    let (old, new) = (&before.details, &after.details);
    let uri = |client: &Client| client.backchannel_logout.as_ref().map(|logout| logout.uri.clone());
    let requires_sid = |client: &Client| client.backchannel_logout.as_ref().is_some_and(|own| own.session_required);
    let apps = |client: &Client| client.introspection.as_ref().map(|own| own.apps.clone()).unwrap_or_default();
    let settings = [
        ("name", before.name != after.name),
        ("type", before.client_type != after.client_type),
        ("redirect_uris", before.redirect_uris != after.redirect_uris),
        ("post_logout_redirect_uris", before.post_logout_redirect_uris != after.post_logout_redirect_uris),
        ("scope", before.scope != after.scope),
        ("default_scope", old.default_scope != new.default_scope),
        ("grant_types", before.grant_types != after.grant_types),
        ("auth_method", before.auth_method != after.auth_method),
        ("assertion_keys", before.assertion_source != after.assertion_source),
        ("consent", before.consent != after.consent),
        ("description", old.description != new.description),
        ("logo", before.logo != after.logo),
        ("client_uri", old.client_uri != new.client_uri),
        ("initiate_login_uri", old.initiate_login_uri != new.initiate_login_uri),
        ("tos_uri", old.tos_uri != new.tos_uri),
        ("policy_uri", old.policy_uri != new.policy_uri),
        ("id_token_signed_response_alg", old.id_token_signed_response_alg != new.id_token_signed_response_alg),
        ("default_max_age", old.default_max_age != new.default_max_age),
        ("refresh_retry_seconds", before.refresh_retry_seconds != after.refresh_retry_seconds),
        ("token_limit", before.token_limit != after.token_limit),
        ("level", before.level != after.level),
        ("service", before.service != after.service),
        ("visible_groups", before.visible_groups != after.visible_groups),
        ("introspection", before.introspection.is_some() != after.introspection.is_some()),
        ("introspection_apps", apps(before) != apps(after)),
        ("backchannel_logout_uri", uri(before) != uri(after)),
        ("backchannel_logout_session_required", requires_sid(before) != requires_sid(after)),
        ("owner", before.owner != after.owner),
    ];
    settings.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}

/// Returns the names of settings in the configuration file with different values. Secrets are
/// compared by their hashes.
pub fn definition_changes(before: &Client, after: &Client) -> Vec<&'static str> {
    let hashes = |client: &Client| client.secrets.iter().map(|secret| secret.hash).collect::<Vec<_>>();
    let secret = (hashes(before) != hashes(after)).then_some("secret");
    changes(before, after).into_iter().chain(secret).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_and_a_method_that_contradict_each_other_are_refused() {
        use {AuthMethod as Method, ClientType as Type};
        assert_eq!(auth_method(Type::Public, None), Ok(Method::None));
        assert_eq!(auth_method(Type::Confidential, None), Ok(Method::ClientSecretBasic));
        assert_eq!(auth_method(Type::Confidential, Some(Method::ClientSecretPost)), Ok(Method::ClientSecretPost));
        assert!(auth_method(Type::Public, Some(Method::ClientSecretBasic)).is_err());
        assert_eq!(auth_method(Type::Confidential, Some(Method::PrivateKeyJwt)), Ok(Method::PrivateKeyJwt));
        assert!(auth_method(Type::Confidential, Some(Method::None)).is_err());
        assert!(auth_method(Type::Public, Some(Method::PrivateKeyJwt)).is_err());
    }

    #[test]
    fn each_method_has_its_own_credential() {
        use AuthMethod as Method;
        let uri = AssertionSource::JwksUri("https://keys.test/jwks".to_owned());
        for (method, has_secret, has_keys) in [
            (Method::None, false, false),
            (Method::ClientSecretBasic, true, false),
            (Method::ClientSecretPost, true, false),
            (Method::PrivateKeyJwt, false, true),
        ] {
            for wrong in [false, true] {
                assert_eq!(check_has_secret(method, has_secret != wrong).is_err(), wrong, "{method:?}");
                let source = Some(&uri).filter(|_| has_keys != wrong);
                assert_eq!(check_assertion_source(method, source, true).is_err(), wrong, "{method:?}");
            }
        }
        assert!(check_assertion_source(Method::PrivateKeyJwt, Some(&uri), false).is_err());
    }
}
