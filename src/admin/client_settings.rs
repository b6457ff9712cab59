//! Settings of clients, changes to the settings, and their validation.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::arguments;
use super::arguments::Setting;
use crate::users::UserRef;
use sealgate_config::{App, TrustedIssuer, introspection_problem, service_problem};
use sealgate_domain::assertion_source::{AssertionSource, ClientJwks, Workload, check_jwks_uri};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{
    AuthMethod, Client, ClientDecision, ClientId, ClientSecret, ClientType, ConsentRule, GrantType,
};
use sealgate_domain::client_logo::LogoPicture;
use sealgate_domain::client_logout::BackchannelLogout;
use sealgate_domain::client_rules;
use sealgate_domain::client_rules::MAX_DEFAULT_MAX_AGE;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::profile::is_group;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::Secret;
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// New client.
///
/// URIs and scope are checked when the client is added, so that every error is reported at once.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClient {
    /// Client ID: letters, digits, '-', '.', '_', '~'
    #[arg(value_name = "CLIENT", value_parser = arguments::client_id)]
    pub id: ClientId,
    /// Client name; users see it on the consent page
    #[arg(long)]
    pub name: String,
    /// Whether the client can keep a secret
    #[arg(long = "type", value_name = "TYPE", value_parser = arguments::client_type())]
    pub client_type: ClientType,
    /// Redirect URI: https, or http on localhost; compared byte for byte; can be repeated; required without --service
    #[arg(long = "redirect-uri", value_name = "URI", required_unless_present = "services")]
    pub redirect_uris: Vec<String>,
    /// Post-logout redirect URI; can be repeated
    #[arg(long = "post-logout-redirect-uri", value_name = "URI")]
    pub post_logout_redirect_uris: Vec<String>,
    /// Allowed scopes, such as "openid profile"; can be repeated [default: all]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Scope of authorization requests without a scope, such as "openid profile email" [default:
    /// refuse such requests]
    #[arg(long, value_name = "SCOPE")]
    #[serde(default)]
    pub default_scope: Option<String>,
    /// Client authentication at the token endpoint [default: by type]
    #[arg(long, value_name = "METHOD", value_parser = arguments::auth_method())]
    pub auth_method: Option<AuthMethod>,
    /// File with the client's public keys: a JWK set, a JWK, or a public key in PEM form. The client then authenticates
    /// with `private_key_jwt` and has no secret
    #[arg(long, value_name = "FILE", value_parser = arguments::jwks_file, conflicts_with_all = ["jwks_uri", "workload"])]
    #[serde(default)]
    pub jwks: Option<ClientJwks>,
    /// https URL of the client's key set, on a public address, instead of --jwks
    #[arg(long, value_name = "URL", conflicts_with = "workload")]
    #[serde(default)]
    pub jwks_uri: Option<String>,
    /// The client authenticates with tokens of a trusted issuer with this subject, such as
    /// k8s=system:serviceaccount:jobs:backup, instead of --jwks
    #[arg(long, value_name = "ISSUER=SUBJECT", value_parser = arguments::workload)]
    #[serde(default)]
    pub workload: Option<Workload>,
    /// Ask users for consent
    #[arg(long, value_name = "RULE", default_value = "ask", value_parser = arguments::consent_rule())]
    pub consent: ConsentRule,
    /// Seconds for which a rotated refresh token still returns the same new token, 0 to 300
    /// [default: from the configuration]
    #[arg(long, value_name = "SECONDS")]
    pub refresh_retry_seconds: Option<u64>,
    /// Requests per minute at the token endpoint, 1 to 1000000, or "none" [default: from the configuration]
    #[arg(long, value_name = "N|none", value_parser = arguments::rate_limit)]
    pub token_limit: Option<RateLimit>,
    /// Algorithm of the client's ID tokens, one of keys.algorithms [default: RS256]
    #[arg(long = "id-token-signed-response-alg", value_name = "ALG", value_parser = arguments::algorithm)]
    #[serde(default)]
    pub id_token_alg: Option<Algorithm>,
    /// Required authentication level: 1 password, 2 two-factor method, 3 passkey or security key [default: any]
    #[arg(long, value_name = "LEVEL", value_parser = arguments::level)]
    #[serde(default)]
    pub level: Option<AssuranceLevel>,
    /// Application for which the client gets tokens in its own name, without a user, and the scopes that it may
    /// request, such as "wiki=wiki:read wiki:write"; can be repeated
    #[arg(id = "services", long = "service", value_name = "APP=SCOPES")]
    #[serde(default)]
    pub services: Vec<String>,
    /// Group of the client in requests in its own name; can be repeated
    #[arg(long = "service-group", value_name = "GROUP", requires = "services")]
    #[serde(default)]
    pub service_groups: Vec<String>,
    /// Group that the client sees with the scope groups, such as "staff" or "wiki-*"; can be repeated [default: all]
    #[arg(long = "visible-group", value_name = "GROUP")]
    #[serde(default)]
    pub visible_groups: Vec<String>,
    /// The client may introspect its own tokens (confidential clients only)
    #[arg(long)]
    #[serde(default)]
    pub introspection: bool,
    /// Application whose access tokens the client may introspect too; can be repeated
    #[arg(long = "introspection-app", value_name = "APP", requires = "introspection")]
    #[serde(default)]
    pub introspection_apps: Vec<String>,
    /// URI that receives logout tokens when a session ends: https, or http on localhost
    #[arg(long, value_name = "URI")]
    #[serde(default)]
    pub backchannel_logout_uri: Option<String>,
    /// The client needs "sid" in logout tokens; they always have it
    #[arg(long, requires = "backchannel_logout_uri")]
    #[serde(default)]
    pub backchannel_logout_session_required: bool,
    /// Further settings, which only the admin API gives.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<ClientSettings>>,
}

/// Changes to a client's settings. Settings that are not given stay unchanged.
///
/// The changes are checked when they are written, so that every error is reported at once.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[group(id = "settings", required = true, multiple = true)]
#[serde(default, deny_unknown_fields)]
pub struct ClientSettings {
    /// Client name; users see it on the consent page
    #[arg(long)]
    pub name: Option<String>,
    /// Whether the client can keep a secret. Changing to confidential generates a secret and prints
    /// it once; changing to public removes all secrets
    #[arg(long = "type", value_name = "TYPE", value_parser = arguments::client_type())]
    pub client_type: Option<ClientType>,
    /// Redirect URI, replacing all current ones; can be repeated
    #[arg(long = "redirect-uri", value_name = "URI")]
    pub redirect_uris: Option<Vec<String>>,
    /// Post-logout redirect URI, replacing all current ones; can be repeated; '' for none
    #[arg(long = "post-logout-redirect-uri", value_name = "URI")]
    pub post_logout_redirect_uris: Option<Vec<String>>,
    /// Allowed scopes, replacing all current ones, such as "openid profile"; can be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Option<Vec<String>>,
    /// Scope of authorization requests without a scope, such as "openid profile email"; '' to
    /// refuse such requests
    #[arg(long, value_name = "SCOPE", value_parser = arguments::text_or_empty)]
    pub default_scope: Option<Setting<String>>,
    /// Allowed grant types, replacing all current ones; can be repeated
    #[arg(long = "grant-type", value_name = "GRANT", value_parser = arguments::grant_type())]
    pub grant_types: Option<Vec<GrantType>>,
    /// Client authentication at the token endpoint. Changing from `private_key_jwt` to a secret generates a secret and
    /// prints it once
    #[arg(long, value_name = "METHOD", value_parser = arguments::auth_method())]
    pub auth_method: Option<AuthMethod>,
    /// File with the client's public keys: a JWK set, a JWK, or a public key in PEM form. Changes the method to
    /// `private_key_jwt` and removes all secrets
    #[arg(long, value_name = "FILE", value_parser = arguments::jwks_file, conflicts_with_all = ["jwks_uri", "workload"])]
    pub jwks: Option<ClientJwks>,
    /// https URL of the client's key set, on a public address, instead of --jwks
    #[arg(long, value_name = "URL", conflicts_with = "workload")]
    pub jwks_uri: Option<String>,
    /// The client authenticates with tokens of a trusted issuer with this subject, such as
    /// k8s=system:serviceaccount:jobs:backup, instead of --jwks
    #[arg(long, value_name = "ISSUER=SUBJECT", value_parser = arguments::workload)]
    pub workload: Option<Workload>,
    /// Ask users for consent
    #[arg(long, value_name = "RULE", value_parser = arguments::consent_rule())]
    pub consent: Option<ConsentRule>,
    /// Description in one sentence; '' for none
    #[arg(long, value_name = "TEXT", value_parser = arguments::text_or_empty)]
    pub description: Option<Setting<String>>,
    /// Home page, https; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::text_or_empty)]
    pub client_uri: Option<Setting<String>>,
    /// URL that starts a sign-in (OpenID Connect Core, section 4), https; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::text_or_empty)]
    pub initiate_login_uri: Option<Setting<String>>,
    /// Terms of use, https, linked from the consent page; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::text_or_empty)]
    pub tos_uri: Option<Setting<String>>,
    /// Privacy policy, https, linked from the consent page; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::text_or_empty)]
    pub policy_uri: Option<Setting<String>>,
    /// Default `max_age` in seconds, or "none"
    #[arg(long, value_name = "SECONDS|none", value_parser = arguments::seconds_or_none)]
    pub default_max_age: Option<Setting<u64>>,
    /// Seconds for which a rotated refresh token still returns the same new token, 0 to 300, or
    /// "default"
    #[arg(long, value_name = "SECONDS|default", value_parser = arguments::seconds_or_default)]
    pub refresh_retry_seconds: Option<Setting<u64>>,
    /// Requests per minute at the token endpoint, 1 to 1000000, "none" or "default"
    #[arg(long, value_name = "N|none|default", value_parser = arguments::rate_limit_or_default)]
    pub token_limit: Option<Setting<RateLimit>>,
    /// Algorithm of the client's ID tokens, one of keys.algorithms
    #[arg(long = "id-token-signed-response-alg", value_name = "ALG", value_parser = arguments::algorithm)]
    pub id_token_alg: Option<Algorithm>,
    /// Required authentication level, also at each refresh: 1 password, 2 two-factor method, 3 passkey or security key,
    /// or "none"
    #[arg(long, value_name = "LEVEL|none", value_parser = arguments::level_or_none)]
    pub level: Option<Setting<AssuranceLevel>>,
    /// Application for which the client gets tokens in its own name, without a user, and the scopes that it may
    /// request, such as "wiki=wiki:read wiki:write", replacing all current ones; can be repeated; '' for none
    #[arg(long = "service", value_name = "APP=SCOPES")]
    pub services: Option<Vec<String>>,
    /// Group of the client in requests in its own name, replacing all current ones; can be repeated; '' for none
    #[arg(long = "service-group", value_name = "GROUP")]
    pub service_groups: Option<Vec<String>>,
    /// Group that the client sees with the scope groups, such as "staff" or "wiki-*", replacing all current ones; can
    /// be repeated; '' for all
    #[arg(long = "visible-group", value_name = "GROUP")]
    pub visible_groups: Option<Vec<String>>,
    /// Whether the client may introspect its own tokens (confidential clients only)
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub introspection: Option<bool>,
    /// Application whose access tokens the client may introspect too, replacing all current ones; can be repeated; ''
    /// for none
    #[arg(long = "introspection-app", value_name = "APP")]
    pub introspection_apps: Option<Vec<String>>,
    /// URI that receives logout tokens when a session ends: https, or http on localhost; '' for none
    #[arg(long, value_name = "URI", value_parser = arguments::text_or_empty)]
    pub backchannel_logout_uri: Option<Setting<String>>,
    /// Whether the client needs "sid" in logout tokens; they always have it
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub backchannel_logout_session_required: Option<bool>,
    /// File with the logo, which the consent page shows: PNG, JPEG or WebP, at most 32 KiB, 16 to 1024 pixels wide and
    /// high; '' for none
    #[arg(long, value_name = "FILE", value_parser = arguments::logo_file)]
    pub logo: Option<Setting<LogoPicture>>,
    /// Owning developer, or "none" for the operator
    #[arg(long, value_name = "SUB|EMAIL|none", value_parser = arguments::user_or_none)]
    pub owner: Option<Setting<UserRef>>,
}

impl<T: Clone> Setting<T> {
    /// Applies the change to a stored value.
    fn apply(this: Option<&Self>, value: &mut Option<T>) {
        if let Some(setting) = this {
            *value = setting.value().cloned();
        }
    }

    /// Returns the new value, if one is set.
    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Removed => None,
        }
    }
}

/// Values from the server that a change of settings needs.
pub(super) struct SettingsInput<'a> {
    /// Protected applications.
    pub(super) apps: &'a [App],
    /// Issuers that can vouch for workloads.
    pub(super) trusted_issuers: &'a [TrustedIssuer],
    /// Algorithms with keys.
    pub(super) algorithms: &'a [Algorithm],
    /// Secret for a client that becomes confidential.
    pub(super) secret: ClientSecret,
    pub(super) owner: Option<Subject>,
    /// Approver to record if the client is transferred to a developer.
    pub(super) decision: ClientDecision,
}

impl ClientSettings {
    /// Creates a change of the level. `None` removes the level.
    pub fn of_level(level: Option<AssuranceLevel>) -> Self {
        Self { level: Some(level.map_or(Setting::Removed, Setting::Set)), ..Self::default() }
    }

    /// Creates a change of the consent rule and of the limit at the token endpoint (`None` for the
    /// default), and of the owner unless `owner` is `None`.
    pub fn of_rules(consent: ConsentRule, token_limit: Option<RateLimit>, owner: Option<Setting<UserRef>>) -> Self {
        let token_limit = Some(token_limit.map_or(Setting::Removed, Setting::Set));
        Self { consent: Some(consent), token_limit, owner, ..Self::default() }
    }

    /// Creates a change of the public keys. The client then has no secret.
    pub fn of_jwks(jwks: ClientJwks) -> Self {
        Self { jwks: Some(jwks), ..Self::default() }
    }

    /// Creates a change to a secret instead of public keys.
    pub fn of_secret() -> Self {
        Self { auth_method: Some(AuthMethod::ClientSecretBasic), ..Self::default() }
    }

    /// Creates a change of where the client receives logout tokens. `None` ends them.
    pub fn of_backchannel_logout(uri: Option<String>, session_required: bool) -> Self {
        let session_required = uri.is_some().then_some(session_required);
        let uri = Some(uri.map_or(Setting::Removed, Setting::Set));
        Self { backchannel_logout_uri: uri, backchannel_logout_session_required: session_required, ..Self::default() }
    }

    /// Creates a change of the logo. `None` removes it.
    pub fn of_logo(picture: Option<LogoPicture>) -> Self {
        Self { logo: Some(picture.map_or(Setting::Removed, Setting::Set)), ..Self::default() }
    }

    /// Returns the picture of the new logo, if one is set.
    pub(super) fn picture(&self) -> Option<&LogoPicture> {
        self.logo.as_ref().and_then(Setting::value)
    }

    /// Applies the changes to a client, or returns every error.
    pub(super) fn apply(&self, client: &mut Client, input: &SettingsInput<'_>) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if let Some(name) = &self.name {
            faults.extend(client_rules::check_name(name).err());
            client.name.clone_from(name);
        }
        // An empty string removes the list.
        let some =
            |written: &[String]| -> Vec<String> { written.iter().filter(|text| !text.is_empty()).cloned().collect() };
        if let Some(written) = self.redirect_uris.as_deref().map(some) {
            client.redirect_uris = uris("redirect URI", &written, &mut faults);
        }
        if client.redirect_uris.is_empty() && !self.leaves_service(client) {
            faults.push(client_rules::NO_REDIRECT_URI.to_owned());
        }
        if let Some(written) = self.post_logout_redirect_uris.as_deref().map(some) {
            client.post_logout_redirect_uris = uris("post-logout redirect URI", &written, &mut faults);
        }
        if let Some(written) = &self.scopes {
            match client_rules::scope(&written.join(" ")) {
                Ok(scope) => client.scope = scope,
                Err(fault) => faults.push(fault),
            }
        }
        if let Some(setting) = &self.default_scope {
            match setting.value().map(|text| client_rules::default_scope(text, client.scope)).transpose() {
                Ok(scope) => client.details.default_scope = scope,
                Err(fault) => faults.push(fault),
            }
        }
        if let Some(grants) = &self.grant_types {
            match client_rules::grant_types(grants) {
                Ok(grants) => client.grant_types = grants,
                Err(fault) => faults.push(fault),
            }
        }
        self.apply_auth_method(client, input, &mut faults);
        self.apply_service(client, input, &mut faults);
        client.consent = self.consent.unwrap_or(client.consent);
        self.apply_details(client, &mut faults);
        let retry = self.refresh_retry_seconds.as_ref().and_then(Setting::value).copied();
        faults.extend(client_rules::check_refresh_retry(retry).err());
        Setting::apply(self.refresh_retry_seconds.as_ref(), &mut client.refresh_retry_seconds);
        Setting::apply(self.token_limit.as_ref(), &mut client.token_limit);
        Setting::apply(self.level.as_ref(), &mut client.level);
        if let Some(algorithm) = self.id_token_alg {
            faults.extend(check_algorithm(algorithm, input.algorithms).err());
            client.details.id_token_signed_response_alg = Some(algorithm).filter(|own| *own != Algorithm::Rs256);
        }
        if let Some(written) = &self.visible_groups {
            client.visible_groups = visible_groups(written, &mut faults);
        }
        if let Some(setting) = &self.logo {
            client.logo = setting.value().map(LogoPicture::describe);
        }
        self.apply_introspection(client, input, &mut faults);
        self.apply_backchannel_logout(client, &mut faults);
        self.transfer(client, input);
        let (source, is_operators_own) = (client.assertion_source.as_ref(), client.is_operators_own());
        let problem = client_rules::check_assertion_source(client.auth_method, source, is_operators_own).err();
        faults.extend(problem.map(str::to_owned));
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn apply_auth_method(&self, client: &mut Client, input: &SettingsInput<'_>, faults: &mut Vec<String>) {
        let client_type = self.client_type.unwrap_or(client.client_type);
        let changes_type = client_type != client.client_type;
        let source = (self.jwks.as_ref(), self.jwks_uri.as_deref(), self.workload.as_ref());
        let source = assertion_source(source, input.trusted_issuers, faults);
        // The keys imply the method.
        let requested = self.auth_method.or(source.as_ref().map(|_| AuthMethod::PrivateKeyJwt));
        if !changes_type && requested.is_none() {
            return;
        }
        let method = match client_rules::auth_method(client_type, requested) {
            Ok(method) => method,
            Err(fault) => return faults.push(fault),
        };
        client.client_type = client_type;
        client.set_auth_method(method);
        client.assertion_source = source.or(client.assertion_source.take());
        if client.is_public() {
            client.secrets.clear();
        } else if !client.uses_assertions() && (changes_type || client.secrets.is_empty()) {
            client.secrets = vec![input.secret.clone()];
        }
    }

    /// Returns whether the client has access in its own name after the changes.
    fn leaves_service(&self, client: &Client) -> bool {
        match &self.services {
            Some(written) => written.iter().any(|text| !text.is_empty()),
            None => client.service.is_some(),
        }
    }

    fn apply_service(&self, client: &mut Client, input: &SettingsInput<'_>, faults: &mut Vec<String>) {
        let before = client.service.clone().unwrap_or_default();
        let apps = self.services.as_ref().map(|written| services(written, faults)).unwrap_or(before.apps);
        let groups = self.service_groups.as_ref().map(|written| service_groups(written, faults));
        let service = ServiceAccess { groups: groups.unwrap_or(before.groups), apps };
        if service.apps.is_empty() {
            if self.service_groups.as_ref().is_some_and(|groups| groups.iter().any(|group| !group.is_empty())) {
                faults.push(NO_SERVICE.to_owned());
            }
            client.service = None;
            return;
        }
        if client.service.as_ref() != Some(&service) || self.client_type.is_some() {
            check_service(&client.id, client.client_type, &service, input.apps, faults);
        }
        client.service = Some(service);
    }

    fn apply_introspection(&self, client: &mut Client, input: &SettingsInput<'_>, faults: &mut Vec<String>) {
        let before = client.introspection.clone();
        if !self.introspection.unwrap_or(before.is_some()) {
            if self.introspection_apps.as_ref().is_some_and(|apps| apps.iter().any(|app| !app.is_empty())) {
                faults.push(format!("introspection_apps {}", client_rules::NO_INTROSPECTION));
            }
            client.introspection = None;
            return;
        }
        let listed = self.introspection_apps.as_ref().map(|apps| introspection(apps));
        let access = listed.or(before.clone()).unwrap_or_default();
        if before.as_ref() != Some(&access) || self.client_type.is_some() {
            check_introspection(client.client_type, &access, input.apps, faults);
        }
        client.introspection = Some(access);
    }

    fn apply_backchannel_logout(&self, client: &mut Client, faults: &mut Vec<String>) {
        let before = client.backchannel_logout.take();
        let session_required = self
            .backchannel_logout_session_required
            .or(before.as_ref().map(|before| before.session_required))
            .unwrap_or(false);
        let uri = match &self.backchannel_logout_uri {
            None => before.map(|before| before.uri),
            Some(setting) => {
                setting.value().and_then(|text| client_rules::logout_uri(text).map_err(|fault| faults.push(fault)).ok())
            }
        };
        if uri.is_none() && self.backchannel_logout_session_required == Some(true) && faults.is_empty() {
            faults.push(format!("backchannel_logout_session_required {}", client_rules::NO_LOGOUT_URI));
        }
        client.backchannel_logout = uri.map(|uri| BackchannelLogout { uri, session_required });
    }

    fn apply_details(&self, client: &mut Client, faults: &mut Vec<String>) {
        let details = &mut client.details;
        Setting::apply(self.description.as_ref(), &mut details.description);
        let description = self.description.as_ref().and_then(Setting::value);
        faults.extend(description.and_then(|text| client_rules::check_description(text).err()));
        for (what, setting, value) in [
            ("home page", &self.client_uri, &mut details.client_uri),
            ("URL that starts a sign-in", &self.initiate_login_uri, &mut details.initiate_login_uri),
            ("URL of the terms of use", &self.tos_uri, &mut details.tos_uri),
            ("URL of the privacy policy", &self.policy_uri, &mut details.policy_uri),
        ] {
            Setting::apply(setting.as_ref(), value);
            let page = setting.as_ref().and_then(Setting::value);
            faults.extend(page.and_then(|text| client_rules::check_page(what, text).err()));
        }
        Setting::apply(self.default_max_age.as_ref(), &mut details.default_max_age);
        if self.default_max_age.as_ref().and_then(Setting::value).is_some_and(|seconds| *seconds > MAX_DEFAULT_MAX_AGE)
        {
            faults.push(format!("a default max_age is at most {MAX_DEFAULT_MAX_AGE} seconds"));
        }
    }

    /// Transfers a client to another owner. If the client was vouched for and the new owner is a
    /// developer, the client stays approved until the developer changes it.
    fn transfer(&self, client: &mut Client, input: &SettingsInput<'_>) {
        if self.owner.is_none() {
            return;
        }
        let was_vouched_for = client.is_vouched_for();
        client.owner = input.owner;
        if was_vouched_for && !client.is_vouched_for() {
            client.approval = Some(input.decision);
        }
    }
}

const NO_SERVICE: &str =
    "groups of a client need access to an application (service), because users have their own groups";

/// Parses the access of a client in its own name. Empty texts remove all.
pub(super) fn services(written: &[String], faults: &mut Vec<String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut apps = BTreeMap::new();
    for text in written.iter().filter(|text| !text.is_empty()) {
        match client_rules::service(text) {
            Ok((app, scopes)) => {
                if apps.insert(app.clone(), scopes).is_some() {
                    faults.push(format!("the application {app} is repeated"));
                }
            }
            Err(fault) => faults.push(fault),
        }
    }
    apps
}

/// Returns the keys of a client's assertions, if any of the three settings is given.
pub(super) fn assertion_source(
    (jwks, jwks_uri, workload): (Option<&ClientJwks>, Option<&str>, Option<&Workload>),
    trusted_issuers: &[TrustedIssuer],
    faults: &mut Vec<String>,
) -> Option<AssertionSource> {
    if let Some(uri) = jwks_uri {
        faults.extend(check_jwks_uri(uri).err());
        return Some(AssertionSource::JwksUri(uri.to_owned()));
    }
    if let Some(workload) = workload {
        let is_known = |issuer: &TrustedIssuer| issuer.terms.name == workload.issuer;
        if !trusted_issuers.iter().any(is_known) {
            faults.push(format!("{:?} is not the name of a [[trusted_issuer]] in the configuration", workload.issuer));
        }
        return Some(AssertionSource::Workload(workload.clone()));
    }
    jwks.cloned().map(AssertionSource::Jwks)
}

/// Parses the groups of a client. Empty texts remove all.
pub(super) fn service_groups(written: &[String], faults: &mut Vec<String>) -> BTreeSet<String> {
    let mut groups = BTreeSet::new();
    for group in written.iter().filter(|group| !group.is_empty()) {
        if is_group(group) {
            groups.insert(group.clone());
        } else {
            faults.push(format!("the group {group:?} is invalid; write 1 to 100 visible characters"));
        }
    }
    groups
}

/// Checks whether a client may have this access in its own name.
pub(super) fn check_service(
    id: &ClientId,
    client_type: ClientType,
    service: &ServiceAccess,
    apps: &[App],
    faults: &mut Vec<String>,
) {
    faults.extend(client_rules::check_service(id, client_type).err());
    faults.extend(service_problem(apps, service));
}

/// Parses the groups that a client sees. Empty texts are left out.
pub(super) fn visible_groups(written: &[String], faults: &mut Vec<String>) -> GroupFilter {
    GroupFilter::parse(written.iter().map(String::as_str).filter(|text| !text.is_empty())).unwrap_or_else(|fault| {
        faults.push(format!("a visible group is invalid: {fault}"));
        GroupFilter::default()
    })
}

/// Returns the access to tokens of these applications. Empty texts are left out.
pub(super) fn introspection(apps: &[String]) -> IntrospectionAccess {
    IntrospectionAccess { apps: apps.iter().filter(|app| !app.is_empty()).cloned().collect() }
}

/// Checks whether a client may introspect tokens of these applications.
pub(super) fn check_introspection(
    client_type: ClientType,
    access: &IntrospectionAccess,
    apps: &[App],
    faults: &mut Vec<String>,
) {
    faults.extend(client_rules::check_introspection(client_type).err().map(str::to_owned));
    faults.extend(introspection_problem(apps, access));
}

/// Checks that the server has keys of this algorithm.
pub(super) fn check_algorithm(algorithm: Algorithm, known: &[Algorithm]) -> Result<(), String> {
    if known.contains(&algorithm) {
        return Ok(());
    }
    Err(format!("there are no {algorithm} keys; add {algorithm} to keys.algorithms in the configuration"))
}

/// Parses URIs of this kind, without duplicates.
pub(super) fn uris(kind: &str, written: &[String], faults: &mut Vec<String>) -> Vec<RedirectUri> {
    faults.extend(client_rules::check_uri_count(kind, written.len()).err());
    let mut uris = Vec::new();
    for text in written {
        match client_rules::redirect_uri(kind, text) {
            Ok(uri) if uris.contains(&uri) => {}
            Ok(uri) => uris.push(uri),
            Err(fault) => faults.push(fault),
        }
    }
    uris
}

pub(super) fn client_secret(secret: &Secret, now: UnixTime) -> ClientSecret {
    ClientSecret { hash: secret.hash(), created_at: now, expires_at: None }
}
