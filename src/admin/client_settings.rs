//! Settings of clients, changes to the settings, and their validation.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::arguments;
use super::arguments::Setting;
use crate::users::Person;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{
    AuthMethod, Client, ClientDecision, ClientId, ClientSecret, ClientType, ConsentRule, GrantType, MAX_REFRESH_RETRY,
};
use sealgate_domain::profile::is_line;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum length of a client's name, in characters.
const MAX_NAME_LENGTH: usize = 200;
/// Maximum number of URIs of each kind.
const MAX_URIS: usize = 100;
/// Maximum length of a description, characters, as in the console.
const MAX_DESCRIPTION_LENGTH: usize = 500;
/// Maximum `default_max_age`, seconds: the maximum lifetime of a session, a year.
const MAX_AGE_LIMIT: u64 = 366 * 24 * 60 * 60;

/// A new client.
///
/// URIs and scope are checked when it is added, so that every error is reported at once.
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
    /// Redirect URI: https, or http on localhost; compared byte for byte; can be repeated
    #[arg(long = "redirect-uri", value_name = "URI", required = true)]
    pub redirect_uris: Vec<String>,
    /// Post-logout redirect URI; can be repeated
    #[arg(long = "post-logout-redirect-uri", value_name = "URI")]
    pub post_logout_redirect_uris: Vec<String>,
    /// Allowed scopes, such as "openid profile"; can be repeated [default: all]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Scope of authorization requests that name none, such as "openid profile email" [default: refuse them]
    #[arg(long, value_name = "SCOPE")]
    #[serde(default)]
    pub default_scope: Option<String>,
    /// Client authentication at the token endpoint [default: by type]
    #[arg(long, value_name = "METHOD", value_parser = arguments::auth_method())]
    pub auth_method: Option<AuthMethod>,
    /// Ask users for consent
    #[arg(long, value_name = "RULE", default_value = "ask", value_parser = arguments::consent_rule())]
    pub consent: ConsentRule,
    /// Seconds for which a rotated refresh token still returns the same new one, 0 to 300 [default: from the
    /// configuration]
    #[arg(long, value_name = "SECONDS")]
    pub refresh_retry_seconds: Option<u64>,
    /// Requests per minute at the token endpoint, 1 to 1000000, or "none" [default: from the configuration]
    #[arg(long, value_name = "N|none", value_parser = arguments::rate_limit)]
    pub token_limit: Option<RateLimit>,
    /// Required authentication level: 1 password, 2 two-factor method, 3 passkey or security key [default: any]
    #[arg(long, value_name = "LEVEL", value_parser = arguments::level)]
    #[serde(default)]
    pub level: Option<AssuranceLevel>,
}

/// Changes to a client's settings. Settings that are not given stay.
///
/// They are checked when they are written, so that every error is reported at once.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[group(id = "settings", required = true, multiple = true)]
#[serde(default, deny_unknown_fields)]
pub struct ClientSettings {
    /// Client name; users see it on the consent page
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Whether the client can keep a secret: changing to confidential generates one and prints it once; changing to
    /// public removes it
    #[arg(long = "type", value_name = "TYPE", value_parser = arguments::client_type())]
    pub(super) client_type: Option<ClientType>,
    /// Redirect URI, replacing all current ones; can be repeated
    #[arg(long = "redirect-uri", value_name = "URI")]
    pub(super) redirect_uris: Option<Vec<String>>,
    /// Post-logout redirect URI, replacing all current ones; can be repeated; '' for none
    #[arg(long = "post-logout-redirect-uri", value_name = "URI")]
    pub(super) post_logout_redirect_uris: Option<Vec<String>>,
    /// Allowed scopes, replacing all current ones, such as "openid profile"; can be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(super) scopes: Option<Vec<String>>,
    /// Scope of authorization requests that name none, such as "openid profile email"; '' to refuse them
    #[arg(long, value_name = "SCOPE", value_parser = arguments::some_text)]
    pub(super) default_scope: Option<Setting<String>>,
    /// Allowed grant types, replacing all current ones; can be repeated
    #[arg(long = "grant-type", value_name = "GRANT", value_parser = arguments::grant_type())]
    pub(super) grant_types: Option<Vec<GrantType>>,
    /// Client authentication at the token endpoint
    #[arg(long, value_name = "METHOD", value_parser = arguments::auth_method())]
    pub(super) auth_method: Option<AuthMethod>,
    /// Ask users for consent
    #[arg(long, value_name = "RULE", value_parser = arguments::consent_rule())]
    pub(super) consent: Option<ConsentRule>,
    /// Description in one sentence; '' for none
    #[arg(long, value_name = "TEXT", value_parser = arguments::some_text)]
    pub(super) description: Option<Setting<String>>,
    /// Home page, https; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::some_text)]
    pub(super) client_uri: Option<Setting<String>>,
    /// URL that starts a sign-in (OpenID Connect Core, section 4), https; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::some_text)]
    pub(super) initiate_login_uri: Option<Setting<String>>,
    /// Terms of use, https, linked from the consent page; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::some_text)]
    pub(super) tos_uri: Option<Setting<String>>,
    /// Privacy policy, https, linked from the consent page; '' for none
    #[arg(long, value_name = "URL", value_parser = arguments::some_text)]
    pub(super) policy_uri: Option<Setting<String>>,
    /// Default `max_age` in seconds, or "none"
    #[arg(long, value_name = "SECONDS|none", value_parser = arguments::some_seconds)]
    pub(super) default_max_age: Option<Setting<u64>>,
    /// Seconds for which a rotated refresh token still returns the same new one, 0 to 300, or "default"
    #[arg(long, value_name = "SECONDS|default", value_parser = arguments::own_seconds)]
    pub(super) refresh_retry_seconds: Option<Setting<u64>>,
    /// Requests per minute at the token endpoint, 1 to 1000000, "none" or "default"
    #[arg(long, value_name = "N|none|default", value_parser = arguments::own_rate_limit)]
    pub(super) token_limit: Option<Setting<RateLimit>>,
    /// Required authentication level, also at each refresh: 1 password, 2 two-factor method, 3 passkey or security key,
    /// or "none"
    #[arg(long, value_name = "LEVEL|none", value_parser = arguments::some_level)]
    pub(super) level: Option<Setting<AssuranceLevel>>,
    /// Owning developer, or "none" for the operator
    #[arg(long, value_name = "SUB|EMAIL|none", value_parser = arguments::some_person)]
    pub(super) owner: Option<Setting<Person>>,
}

impl<T: Clone> Setting<T> {
    /// Applies the change to a stored value.
    fn apply(this: Option<&Self>, kept: &mut Option<T>) {
        if let Some(setting) = this {
            *kept = setting.value().cloned();
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
pub(super) struct SettingsInput {
    /// Secret for a client that becomes confidential.
    pub(super) secret: ClientSecret,
    pub(super) owner: Option<Subject>,
    /// Approver to record if the client is transferred to a developer.
    pub(super) decision: ClientDecision,
}

impl ClientSettings {
    /// Creates a change of the level; `None` removes it.
    pub fn of_level(level: Option<AssuranceLevel>) -> Self {
        Self { level: Some(level.map_or(Setting::Removed, Setting::Set)), ..Self::default() }
    }

    /// Applies the changes to a client, or returns every error.
    pub(super) fn apply(&self, client: &mut Client, means: &SettingsInput) -> Result<(), Vec<String>> {
        let mut faults = Vec::new();
        if let Some(name) = &self.name {
            faults.extend(name_fault(name));
            client.name.clone_from(name);
        }
        // An empty string removes the list.
        let some =
            |written: &[String]| -> Vec<String> { written.iter().filter(|text| !text.is_empty()).cloned().collect() };
        if let Some(written) = self.redirect_uris.as_deref().map(some) {
            client.redirect_uris = uris("redirect URI", &written, &mut faults);
            if written.is_empty() {
                faults.push("a client needs at least one redirect URI".to_owned());
            }
        }
        if let Some(written) = self.post_logout_redirect_uris.as_deref().map(some) {
            client.post_logout_redirect_uris = uris("post-logout redirect URI", &written, &mut faults);
        }
        if let Some(written) = &self.scopes {
            match scope(written) {
                Ok(scope) => client.scope = scope,
                Err(fault) => faults.push(fault),
            }
        }
        if let Some(setting) = &self.default_scope {
            match setting.value().map(|text| default_scope(text, client.scope)).transpose() {
                Ok(scope) => client.details.default_scope = scope,
                Err(fault) => faults.push(fault),
            }
        }
        if let Some(grants) = &self.grant_types {
            client.grant_types = [GrantType::AuthorizationCode, GrantType::RefreshToken]
                .into_iter()
                .filter(|grant| grants.contains(grant))
                .collect();
            if !client.may_use(GrantType::AuthorizationCode) {
                faults.push(
                    "a client needs the grant type authorization_code, because a refresh token starts with a code"
                        .to_owned(),
                );
            }
        }
        self.authenticate(client, means).unwrap_or_else(|fault| faults.push(fault));
        client.consent = self.consent.unwrap_or(client.consent);
        self.detail(client, &mut faults);
        faults.extend(retry_fault(self.refresh_retry_seconds.as_ref().and_then(Setting::value).copied()));
        Setting::apply(self.refresh_retry_seconds.as_ref(), &mut client.refresh_retry_seconds);
        Setting::apply(self.token_limit.as_ref(), &mut client.token_limit);
        Setting::apply(self.level.as_ref(), &mut client.level);
        self.hand_over(client, means);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn authenticate(&self, client: &mut Client, means: &SettingsInput) -> Result<(), String> {
        let client_type = self.client_type.unwrap_or(client.client_type);
        if client_type != client.client_type {
            client.client_type = client_type;
            client.auth_method = auth_method(client_type, self.auth_method)?;
            client.secrets = (!client.is_public()).then(|| means.secret.clone()).into_iter().collect();
        } else if self.auth_method.is_some() {
            client.auth_method = auth_method(client_type, self.auth_method)?;
        }
        Ok(())
    }

    fn detail(&self, client: &mut Client, faults: &mut Vec<String>) {
        let details = &mut client.details;
        Setting::apply(self.description.as_ref(), &mut details.description);
        if self.description.as_ref().and_then(Setting::value).is_some_and(|text| !is_line(text, MAX_DESCRIPTION_LENGTH))
        {
            faults
                .push(format!("a description has 1 to {MAX_DESCRIPTION_LENGTH} visible characters and no line breaks"));
        }
        for (what, setting, kept) in [
            ("home page", &self.client_uri, &mut details.client_uri),
            ("URL that starts a sign-in", &self.initiate_login_uri, &mut details.initiate_login_uri),
            ("URL of the terms of use", &self.tos_uri, &mut details.tos_uri),
            ("URL of the privacy policy", &self.policy_uri, &mut details.policy_uri),
        ] {
            Setting::apply(setting.as_ref(), kept);
            let is_https = |text: &String| text.starts_with("https://") && RedirectUri::parse(text).is_ok();
            if let Some(text) = setting.as_ref().and_then(Setting::value).filter(|text| !is_https(text)) {
                faults.push(format!("the {what} {text:?} is invalid; write an https URL without a fragment"));
            }
        }
        Setting::apply(self.default_max_age.as_ref(), &mut details.default_max_age);
        if self.default_max_age.as_ref().and_then(Setting::value).is_some_and(|seconds| *seconds > MAX_AGE_LIMIT) {
            faults.push(format!("a default max_age is at most {MAX_AGE_LIMIT} seconds"));
        }
    }

    /// Transfers a client. An approved client stays approved under a developer, until that
    /// developer changes it.
    fn hand_over(&self, client: &mut Client, means: &SettingsInput) {
        if self.owner.is_none() {
            return;
        }
        let was_vouched_for = client.is_vouched_for();
        client.owner = means.owner;
        if was_vouched_for && !client.is_vouched_for() {
            client.approval = Some(means.decision);
        }
    }
}

/// Returns the names of the settings that differ.
pub(super) fn changes(before: &Client, after: &Client) -> Vec<&'static str> {
    let (old, new) = (&before.details, &after.details);
    let settings = [
        ("name", before.name != after.name),
        ("type", before.client_type != after.client_type),
        ("redirect_uris", before.redirect_uris != after.redirect_uris),
        ("post_logout_redirect_uris", before.post_logout_redirect_uris != after.post_logout_redirect_uris),
        ("scope", before.scope != after.scope),
        ("default_scope", old.default_scope != new.default_scope),
        ("grant_types", before.grant_types != after.grant_types),
        ("auth_method", before.auth_method != after.auth_method),
        ("consent", before.consent != after.consent),
        ("description", old.description != new.description),
        ("client_uri", old.client_uri != new.client_uri),
        ("initiate_login_uri", old.initiate_login_uri != new.initiate_login_uri),
        ("tos_uri", old.tos_uri != new.tos_uri),
        ("policy_uri", old.policy_uri != new.policy_uri),
        ("default_max_age", old.default_max_age != new.default_max_age),
        ("refresh_retry_seconds", before.refresh_retry_seconds != after.refresh_retry_seconds),
        ("token_limit", before.token_limit != after.token_limit),
        ("level", before.level != after.level),
        ("owner", before.owner != after.owner),
    ];
    settings.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}

pub(super) fn name_fault(name: &str) -> Option<String> {
    let fault = || format!("a client's name has 1 to {MAX_NAME_LENGTH} visible characters and no line breaks");
    (!is_line(name, MAX_NAME_LENGTH)).then(fault)
}

pub(super) fn retry_fault(seconds: Option<u64>) -> Option<String> {
    let too_long = seconds.is_some_and(|seconds| seconds > MAX_REFRESH_RETRY);
    too_long.then(|| format!("a refresh token can be retried for at most {MAX_REFRESH_RETRY} seconds"))
}

pub(super) fn uris(kind: &str, written: &[String], faults: &mut Vec<String>) -> Vec<RedirectUri> {
    if written.len() > MAX_URIS {
        faults.push(format!("a client has at most {MAX_URIS} {kind}s"));
    }
    let mut uris = Vec::new();
    for text in written {
        match RedirectUri::parse(text) {
            Ok(uri) if uris.contains(&uri) => {}
            Ok(uri) => uris.push(uri),
            Err(fault) => faults.push(format!("the {kind} {text:?} is invalid: {fault}")),
        }
    }
    uris
}

pub(super) fn scope(written: &[String]) -> Result<Scope, String> {
    let text = written.join(" ");
    let scope = Scope::parse(&text).map_err(|unknown| format!("the scope {text:?} is invalid: {unknown}"))?;
    if scope.is_empty() { Err("the scope is empty; leave it out to allow all scopes".to_owned()) } else { Ok(scope) }
}

/// Parses the default scope of a client with the scopes `allowed`.
pub(super) fn default_scope(text: &str, allowed: Scope) -> Result<Scope, String> {
    let refused = |why: &str| format!("the default scope {text:?} is invalid: {why}");
    let scope = Scope::parse(text).map_err(|unknown| refused(&unknown.to_string()))?;
    if !scope.contains(ScopeValue::OpenId) {
        return Err(refused("it must include openid"));
    }
    if !scope.is_subset_of(allowed) {
        return Err(refused(&format!("the client may only ask for {allowed}")));
    }
    Ok(scope)
}

pub(super) fn auth_method(client_type: ClientType, asked: Option<AuthMethod>) -> Result<AuthMethod, String> {
    match (client_type, asked) {
        (ClientType::Public, None | Some(AuthMethod::None)) => Ok(AuthMethod::None),
        (ClientType::Public, Some(method)) => {
            Err(format!("a public client has no secret, so its authentication method is none, not {}", method.as_str()))
        }
        (ClientType::Confidential, None) => Ok(AuthMethod::ClientSecretBasic),
        (ClientType::Confidential, Some(AuthMethod::None)) => {
            Err("a confidential client authenticates with client_secret_basic or client_secret_post, not none"
                .to_owned())
        }
        (ClientType::Confidential, Some(method)) => Ok(method),
    }
}

pub(super) fn kept(secret: &Secret, now: UnixTime) -> ClientSecret {
    ClientSecret { hash: secret.hash(), created_at: now, expires_at: None }
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
        assert!(auth_method(Type::Confidential, Some(Method::None)).is_err());
    }
}
