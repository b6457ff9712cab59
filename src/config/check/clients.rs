//! Checks of `[[client]]`. The rules are the same as those of the command line.

use super::super::file::Section;
use super::{address, factors};
use crate::disk::Files;
use crate::{App, DefinedClient, introspection_problem, service_problem};
use sealgate_domain::assertion_source::{AssertionSource, Workload, check_jwks_uri};
use sealgate_domain::client::{
    ApplicationType, AuthMethod, Client, ClientDetails, ClientId, ClientSecret, ClientState, ClientType, ConsentRule,
    GrantType, MAX_REFRESH_RETRY, MAX_SECRETS,
};
use sealgate_domain::client_logout::BackchannelLogout;
use sealgate_domain::client_rules;
use sealgate_domain::client_rules::MAX_DEFAULT_MAX_AGE;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::rate_limit::{MAX_PER_MINUTE, RateLimit};
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::{SecretHash, from_base64url};
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::time::UnixTime;

/// Maximum number of clients in the file. One commit stores all of them.
const MAX_CLIENTS: usize = 256;

/// Parses all `[[client]]` tables.
pub(super) fn clients(
    root: &mut Section<'_, '_>,
    apps: Option<&[App]>,
    trusted: &[&str],
    files: &Files,
) -> Option<Vec<DefinedClient>> {
    let sections = root.sections("client");
    if sections.len() > MAX_CLIENTS {
        root.fault(
            "client",
            &format!("there are more than {MAX_CLIENTS} clients; register the others with client add"),
        );
    }
    let mut taken = Vec::new();
    // Parse all clients before dropping any with errors, so that all errors are reported.
    let clients: Vec<_> =
        sections.into_iter().map(|section| client(section, apps, trusted, files, &mut taken)).collect();
    clients.into_iter().collect()
}

#[expect(clippy::too_many_lines, reason = "one statement for each key of a client")]
fn client(
    mut section: Section<'_, '_>,
    apps: Option<&[App]>,
    trusted: &[&str],
    files: &Files,
    taken: &mut Vec<ClientId>,
) -> Option<DefinedClient> {
    let id = section.required_text("id", "write the client's ID, such as \"wiki\"", |text| {
        let id = ClientId::try_from(text.to_owned()).map_err(|rule| format!("{text:?} is not a client ID; {rule}"))?;
        client_rules::check_id(&id)?;
        if taken.contains(&id) {
            return Err(format!("{text:?} is the ID of another [[client]]; use a different ID"));
        }
        taken.push(id.clone());
        Ok(id)
    });
    let name = section.required_text("name", "write the name that users see, such as \"Wiki\"", |text| {
        client_rules::check_name(text).map(|()| text.to_owned())
    });
    let types = [("public", ClientType::Public), ("confidential", ClientType::Confidential)];
    let client_type = section.required_choice("type", &types);
    let methods =
        [AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost, AuthMethod::None, AuthMethod::PrivateKeyJwt];
    let method = section.choice("auth_method", &methods.map(|method| (method.as_str(), method)));
    let assertion_source = assertion_source(&mut section, trusted, files);
    let keys = KEYS.into_iter().find(|key| section.has(key));
    // The keys imply the method.
    let method = method.or(keys.map(|_| AuthMethod::PrivateKeyJwt));
    let auth_method = client_type.and_then(|client_type| {
        client_rules::auth_method(client_type, method).map_err(|problem| section.fault("auth_method", &problem)).ok()
    });
    let secrets = secrets(&mut section, files, auth_method);
    match (auth_method, keys) {
        (Some(AuthMethod::PrivateKeyJwt), None) => {
            section.fault("auth_method", "private_key_jwt needs keys; write jwks_file, jwks_uri or workload");
        }
        (Some(AuthMethod::PrivateKeyJwt) | None, _) | (_, None) => {}
        (Some(method), Some(key)) => {
            let problem = format!("needs auth_method = \"private_key_jwt\", not {:?}; remove one", method.as_str());
            section.fault(key, &problem);
        }
    }
    let kind = "redirect URI";
    let allowed = "write a list such as [\"https://wiki.example.com/callback\"]";
    let service = service(&mut section, apps);
    if let (Some(_), Some(id), Some(client_type)) = (&service, &id, client_type)
        && let Err(problem) = client_rules::check_service(id, client_type)
    {
        section.fault("service", &problem);
    }
    let uri = |text: &str| client_rules::redirect_uri(kind, text);
    let redirect_uris = if service.is_some() {
        section.some_texts("redirect_uris", allowed, uri).unwrap_or_default()
    } else {
        section.required_texts("redirect_uris", allowed, uri)
    };
    let redirect_uris = distinct(&section, "redirect_uris", kind, redirect_uris);
    let kind = "post-logout redirect URI";
    let allowed = "write a list such as [\"https://wiki.example.com/\"]";
    let logout_uris =
        section.texts("post_logout_redirect_uris", allowed, |text| client_rules::redirect_uri(kind, text));
    let logout_uris = distinct(&section, "post_logout_redirect_uris", kind, logout_uris.unwrap_or_default());
    let words = "write scopes such as \"openid profile email\"";
    let scope = section.text("scope", words, client_rules::scope).unwrap_or_else(Scope::all);
    let default_scope = section.text("default_scope", words, |text| client_rules::default_scope(text, scope));
    let known = [GrantType::AuthorizationCode, GrantType::RefreshToken];
    let grant_types = section.texts("grant_types", "write [\"authorization_code\"]", |text| {
        let grant_type = known.into_iter().find(|grant| grant.as_str() == text);
        grant_type.ok_or_else(|| format!("{text:?} is not known; write \"authorization_code\" or \"refresh_token\""))
    });
    // Without a redirect URI, there are no codes.
    let grant_types = if redirect_uris.is_empty() && grant_types.is_none() {
        Vec::new()
    } else {
        client_rules::grant_types(&grant_types.unwrap_or_else(|| known.into())).unwrap_or_else(|problem| {
            section.fault("grant_types", &format!("{problem}; write it too"));
            Vec::new()
        })
    };
    let consents = [("ask", ConsentRule::Ask), ("implied", ConsentRule::Implied)];
    let consent = section.choice("consent", &consents).unwrap_or(ConsentRule::Ask);
    let description = section.text("description", "write one sentence", |text| {
        client_rules::check_description(text).map(|()| text.to_owned())
    });
    let mut page = |key, what| {
        let read = |text: &str| client_rules::check_page(what, text).map(|()| text.to_owned());
        section.text(key, "write an https URL", read)
    };
    let client_uri = page("client_uri", "home page");
    let initiate_login_uri = page("initiate_login_uri", "URL that starts a sign-in");
    let tos_uri = page("tos_uri", "URL of the terms of use");
    let policy_uri = page("policy_uri", "URL of the privacy policy");
    let default_max_age = section.optional_seconds("default_max_age_seconds", 0..=MAX_DEFAULT_MAX_AGE);
    let refresh_retry = section.optional_seconds("refresh_retry_seconds", 0..=MAX_REFRESH_RETRY);
    let requests = section.number_or("none", "token_limit", MAX_PER_MINUTE, 1..=MAX_PER_MINUTE);
    let limit = requests.map_or(RateLimit::Unlimited, RateLimit::PerMinute);
    let token_limit = section.has("token_limit").then_some(limit);
    let level = section.text("level", factors::LEVELS, factors::level);
    let words = "write an algorithm such as \"ES256\"";
    let id_token_alg = section.text("id_token_signed_response_alg", words, address::algorithm);
    let visible_groups = visible_groups(&mut section);
    let backchannel_logout = backchannel_logout(&mut section);
    let introspection = introspection(&mut section, apps, client_type);
    let adopt = section.flag("adopt", false);
    let client = Client {
        id: id?,
        name: name?,
        client_type: client_type?,
        auth_method: auth_method?,
        secrets,
        assertion_source,
        redirect_uris,
        post_logout_redirect_uris: logout_uris,
        scope,
        grant_types,
        consent,
        state: ClientState::Enabled,
        created_at: UnixTime::from_seconds(0),
        incarnation: 0,
        details: ClientDetails {
            description,
            client_uri,
            initiate_login_uri,
            tos_uri,
            policy_uri,
            default_max_age: default_max_age.map(|age| age.as_secs()),
            default_scope,
            application_type: ApplicationType::Web,
            id_token_signed_response_alg: id_token_alg.filter(|algorithm| *algorithm != Algorithm::Rs256),
        },
        owner: None,
        registration: None,
        refresh_retry_seconds: refresh_retry.map(|retry| retry.as_secs()),
        token_limit,
        level,
        service,
        visible_groups,
        backchannel_logout,
        introspection,
        approval: None,
        disabled: None,
        logo: None,
        from_configuration: true,
    };
    Some(DefinedClient { client, adopt })
}

/// Parses the access of a client in its own name.
fn service(client: &mut Section<'_, '_>, apps: Option<&[App]>) -> Option<ServiceAccess> {
    let groups = client.texts("service_groups", "write a list of group names", address::name);
    let sections = client
        .one_or_more_sections("service", "write { app = \"wiki\", scopes = [\"wiki:read\"] }, or a list of these");
    let mut service = ServiceAccess { groups: groups.into_iter().flatten().collect(), ..ServiceAccess::default() };
    for mut section in sections {
        let app = section.required_text("app", "write the name of an [[app]]", address::app_name);
        let scopes = section.texts("scopes", "write a list of scopes of the application", address::name);
        let Some(app) = app else { continue };
        if service.apps.insert(app.clone(), scopes.into_iter().flatten().collect()).is_some() {
            section.fault("app", &format!("{app:?} is repeated; write each application once"));
        }
    }
    if !client.has("service") {
        if client.has("service_groups") {
            client.fault("service_groups", "has no effect without service; set both, or leave both out");
        }
        return None;
    }
    if let Some(problem) = apps.and_then(|apps| service_problem(apps, &service)) {
        client.fault("service", &problem);
    }
    Some(service)
}

/// Keys of a client with the origin of its assertions' keys. A client has at most one of them.
const KEYS: [&str; 3] = ["jwks_file", "jwks_uri", "workload"];

/// Reads the keys that verify a client's assertions.
fn assertion_source(section: &mut Section<'_, '_>, trusted: &[&str], files: &Files) -> Option<AssertionSource> {
    let allowed = "write the path of a file with the client's public keys: a JWK set, a JWK, or PEM";
    let jwks = section.text("jwks_file", allowed, |text| files.client_jwks(text));
    let uri = section.text("jwks_uri", "write the https URL of the client's key set", |text| {
        check_jwks_uri(text).map(|()| text.to_owned())
    });
    let allowed = "write { issuer = \"k8s\", subject = \"system:serviceaccount:jobs:backup\" }";
    let workload = section.optional_section("workload", allowed).and_then(|mut section| {
        let issuer = section.required_text("issuer", "write the name of a [[trusted_issuer]]", |text| {
            let problem = format!("{text:?} is not the name of a [[trusted_issuer]]; add it, or correct the name");
            if trusted.contains(&text) { Ok(text.to_owned()) } else { Err(problem) }
        });
        section
            .required_text("subject", "write the claim sub of its tokens", |text| Workload::new("", text))
            .zip(issuer)
            .map(|(workload, issuer)| Workload { issuer, ..workload })
    });
    let written: Vec<_> = KEYS.into_iter().filter(|key| section.has(key)).collect();
    if let [first, second, ..] = written.as_slice() {
        section.fault(second, &format!("cannot be used together with {first}; remove one"));
    }
    let jwks = jwks.flatten().map(AssertionSource::Jwks);
    jwks.or(uri.map(AssertionSource::JwksUri)).or(workload.map(AssertionSource::Workload))
}

/// Parses the groups that a client sees.
fn visible_groups(client: &mut Section<'_, '_>) -> GroupFilter {
    let entries = client.some_texts("visible_groups", "write a list such as [\"wiki-*\"]", |text| Ok(text.to_owned()));
    let entries = entries.unwrap_or_default();
    GroupFilter::parse(entries.iter().map(String::as_str)).unwrap_or_else(|problem| {
        client.fault("visible_groups", &problem);
        GroupFilter::default()
    })
}

/// Parses where a client receives logout tokens.
fn backchannel_logout(client: &mut Section<'_, '_>) -> Option<BackchannelLogout> {
    let allowed = "write an https URL, or http on localhost";
    let uri = client.text("backchannel_logout_uri", allowed, client_rules::logout_uri);
    let session_required = client.flag("backchannel_logout_session_required", false);
    if session_required && !client.has("backchannel_logout_uri") {
        client.fault("backchannel_logout_session_required", client_rules::NO_LOGOUT_URI);
    }
    Some(BackchannelLogout { uri: uri?, session_required })
}

/// Parses the permission of a client to introspect tokens.
fn introspection(
    client: &mut Section<'_, '_>,
    apps: Option<&[App]>,
    client_type: Option<ClientType>,
) -> Option<IntrospectionAccess> {
    let is_on = client.flag("introspection", false);
    let listed = client.texts("introspection_apps", "write a list such as [\"wiki\"]", address::app_name);
    let access = IntrospectionAccess { apps: listed.into_iter().flatten().collect() };
    if !is_on {
        if client.has("introspection_apps") {
            client.fault("introspection_apps", client_rules::NO_INTROSPECTION);
        }
        return None;
    }
    if let Some(Err(problem)) = client_type.map(client_rules::check_introspection) {
        client.fault("introspection", problem);
    }
    if let Some(problem) = apps.and_then(|apps| introspection_problem(apps, &access)) {
        client.fault("introspection_apps", &problem);
    }
    Some(access)
}

/// Reads the secrets. A client may use each of them until it is removed from the file.
fn secrets(section: &mut Section<'_, '_>, files: &Files, method: Option<AuthMethod>) -> Vec<ClientSecret> {
    let allowed = "write the path of a file with the secret, or a list of such files";
    let of_files = section.one_or_more_texts("secret_file", allowed, |text| files.client_secret(text));
    let allowed = "write the hash that `sealgate client hash-secret` prints, or a list of such hashes";
    let hashes = section.one_or_more_texts("secret_hash", allowed, |text| {
        let hash = from_base64url(text).and_then(|bytes| bytes.try_into().ok()).map(SecretHash::from_bytes);
        // Do not show the text, because it may be the secret itself.
        hash.ok_or_else(|| "is not a hash of a secret; write what `sealgate client hash-secret` prints".to_owned())
    });
    let written = ["secret_file", "secret_hash"].into_iter().find(|key| section.has(key));
    let key = written.unwrap_or("secret_file");
    if let Some(method) = method
        && let Err(problem) = client_rules::check_has_secret(method, written.is_some())
    {
        let remedy = if written.is_some() { "" } else { "; write secret_file or secret_hash" };
        section.fault(key, &format!("{problem}{remedy}"));
    }
    let mut secrets: Vec<ClientSecret> = Vec::new();
    for hash in of_files.into_iter().flatten().flatten().chain(hashes.into_iter().flatten()) {
        if secrets.iter().all(|secret| secret.hash != hash) {
            secrets.push(ClientSecret { hash, created_at: UnixTime::from_seconds(0), expires_at: None });
        }
    }
    if secrets.len() > MAX_SECRETS {
        section.fault(key, &format!("a client has at most {MAX_SECRETS} valid secrets; remove old ones"));
    }
    secrets
}

/// Removes duplicate URIs, and reports an error if there are too many of this kind.
fn distinct(section: &Section<'_, '_>, key: &'static str, kind: &str, uris: Vec<RedirectUri>) -> Vec<RedirectUri> {
    if let Err(problem) = client_rules::check_uri_count(kind, uris.len()) {
        section.fault(key, &format!("{problem}; remove some"));
    }
    let mut distinct = Vec::new();
    for uri in uris {
        if !distinct.contains(&uri) {
            distinct.push(uri);
        }
    }
    distinct
}
