//! Authorization request (OpenID Connect Core §3.1.2.1; RFC 6749 §4.1.1).
//!
//! Client and redirect URI are validated first. A [`ReturnTo`] exists only if both are valid.
//! Earlier errors are never redirected (RFC 6749 §4.1.2.1), because the server would otherwise be
//! an open redirector. Later errors are returned to the client by redirect.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId, GrantType};
use crate::error::{ErrorCode, Refusal};
use crate::oauth::params::Params;
use crate::pkce::{ChallengeMethod, CodeChallenge};
use crate::resource::{self, DeclaredResource, ResourceAccess, Resources};
use crate::scope::{Scope, ScopeValue, UnknownScope};

/// Maximum length of `state` and `nonce` in bytes.
const MAX_VALUE_LENGTH: usize = 2048;

/// Maximum length of a stored request in bytes.
///
/// Unauthenticated clients can start requests. A request may have several long parameters, and JSON
/// escapes some characters with six bytes.
const MAX_STORED_LENGTH: usize = 6144;

/// Known parameters. Repeating a known parameter is an error (RFC 6749 §3.1). Unknown parameters
/// may be repeated.
const KNOWN: [&str; 21] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "response_mode",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "prompt",
    "max_age",
    "display",
    "ui_locales",
    "claims_locales",
    "id_token_hint",
    "login_hint",
    "acr_values",
    "claims",
    "request",
    "request_uri",
    "registration",
];

/// How the response is returned to the redirect URI (OAuth 2.0 Multiple Response Type Encoding
/// Practices §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseMode {
    Query,
    Fragment,
    /// Fields of a form that the browser posts (OAuth 2.0 Form Post Response Mode).
    FormPost,
}

/// Response to the client, sent through the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizationRedirect {
    Redirect(String),
    /// Form that the browser posts to the client.
    Form {
        action: String,
        fields: Vec<(&'static str, String)>,
    },
}

/// Where to return the response. Exists only for a redirect URI that the client has registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnTo {
    redirect_uri: String,
    mode: ResponseMode,
    state: Option<String>,
}

/// Reason why no response can be returned to the client. The user sees an error page instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnredirectableError {
    /// `client_id` is missing, repeated, unknown or disabled.
    Client,
    /// `redirect_uri` is missing.
    NoRedirectUri,
    /// `redirect_uri` is repeated.
    Repeated,
    /// `redirect_uri` is not registered.
    RedirectUri,
}

impl ReturnTo {
    /// Returns the id of the client that the request names.
    ///
    /// # Errors
    /// [`UnredirectableError::Client`] if the request names no client, or more than one.
    pub fn client_id(params: &Params) -> Result<ClientId, UnredirectableError> {
        params.one("client_id").ok().flatten().and_then(ClientId::parse).ok_or(UnredirectableError::Client)
    }

    /// Resolves where to return the response for this client. If `form_post` is true, the operator
    /// permits `response_mode=form_post`.
    ///
    /// # Errors
    /// Returns the reason if the request does not name a registered URI of the client.
    pub fn resolve(params: &Params, client: &Client, form_post: bool) -> Result<Self, UnredirectableError> {
        let uri = params.one("redirect_uri").map_err(|_| UnredirectableError::Repeated)?;
        let uri = uri.filter(|uri| !uri.is_empty()).ok_or(UnredirectableError::NoRedirectUri)?;
        if !client.redirects_to(uri) {
            return Err(UnredirectableError::RedirectUri);
        }
        let mode = match params.one("response_mode") {
            // Browsers keep a fragment across redirects. The callback redirects to the
            // application's pages, so their scripts could read a code in a fragment.
            _ if client.is_of_gateway() => ResponseMode::Query,
            Ok(Some("fragment")) => ResponseMode::Fragment,
            Ok(Some("form_post")) if form_post => ResponseMode::FormPost,
            _ => ResponseMode::Query,
        };
        let state = params.one("state").ok().flatten().filter(|state| state.len() <= MAX_VALUE_LENGTH);
        Ok(Self { redirect_uri: uri.to_owned(), mode, state: state.map(str::to_owned) })
    }

    /// Returns the redirect URI exactly as in the request, because the code is bound to it.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Returns the `state` of the request, to be returned to the client.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the response with a code (RFC 6749 §4.1.2, RFC 9207 §2).
    pub fn with_code(&self, code: &str, issuer: &str) -> AuthorizationRedirect {
        self.with(vec![("code", code.to_owned())], issuer)
    }

    /// Returns the response with an error (RFC 6749 §4.1.2.1).
    pub fn with_refusal(&self, refusal: &Refusal, issuer: &str) -> AuthorizationRedirect {
        let error = ("error", refusal.code.as_str().to_owned());
        self.with(vec![error, ("error_description", refusal.description.clone().into_owned())], issuer)
    }

    fn with(&self, mut fields: Vec<(&'static str, String)>, issuer: &str) -> AuthorizationRedirect {
        fields.extend(self.state.clone().map(|state| ("state", state)));
        fields.push(("iss", issuer.to_owned()));
        let separator = match self.mode {
            ResponseMode::FormPost => return AuthorizationRedirect::Form { action: self.redirect_uri.clone(), fields },
            ResponseMode::Fragment => '#',
            ResponseMode::Query if self.redirect_uri.contains('?') => '&',
            ResponseMode::Query => '?',
        };
        let written = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        AuthorizationRedirect::Redirect(format!("{}{separator}{written}", self.redirect_uri))
    }
}

/// Parsed `prompt` (OpenID Connect Core §3.1.2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the parameter is a set of four independent values")]
pub struct Prompt {
    /// Whether the client requests that no page be shown.
    pub none: bool,
    pub login: bool,
    pub consent: bool,
    pub select_account: bool,
}

impl Prompt {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let mut prompt = Self::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word {
                "none" => prompt.none = true,
                "login" => prompt.login = true,
                "consent" => prompt.consent = true,
                "select_account" => prompt.select_account = true,
                _ => {
                    return Err(Refusal::invalid_request("The prompt must be none, login, consent or select_account."));
                }
            }
        }
        if prompt.none && (prompt.login || prompt.consent || prompt.select_account) {
            return Err(Refusal::invalid_request("The prompt value none cannot be combined with others."));
        }
        Ok(prompt)
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            ("none", self.none),
            ("login", self.login),
            ("consent", self.consent),
            ("select_account", self.select_account),
        ];
        let words: Vec<&str> = words.into_iter().filter(|(_, is_set)| *is_set).map(|(word, _)| word).collect();
        f.write_str(&words.join(" "))
    }
}

/// Well-formed authorization request of a known client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRequest {
    pub client: ClientId,
    pub return_to: ReturnTo,
    pub scope: Scope,
    /// Requested resource and scopes of it. `None` if the issuer is the audience of the tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceAccess>,
    pub nonce: Option<String>,
    /// Code challenge, which binds the code to the holder of the verifier.
    pub challenge: Option<CodeChallenge>,
    /// Pages that the client requests or excludes.
    pub prompt: Prompt,
    /// Maximum age of the sign-in in seconds.
    pub max_age: Option<u64>,
    /// Requested context classes in order of preference, space-separated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acr_values: Option<String>,
    pub ui_locales: Option<String>,
    /// User whom the client expects, to pre-fill the form.
    pub login_hint: Option<String>,
    /// ID token of the user whom the client expects, not verified. The endpoint verifies it,
    /// because this module has no keys.
    pub id_token_hint: Option<String>,
}

impl AuthorizationRequest {
    /// Parses the request of a client with a valid return URL.
    ///
    /// # Errors
    /// Returns the error to return to the client.
    pub fn parse(
        params: &Params,
        client: &Client,
        return_to: ReturnTo,
        resources: &dyn Resources,
    ) -> Result<Self, Refusal> {
        if params.repeats_any(&KNOWN) {
            return Err(Refusal::invalid_request("A parameter is repeated."));
        }
        if !client.may_use(GrantType::AuthorizationCode) {
            return Err(Refusal::new(ErrorCode::UnauthorizedClient, "The client may not request a code."));
        }
        refuse_unsupported(params)?;
        match params.one("response_type")? {
            Some("code") => {}
            Some(_) => {
                return Err(Refusal::new(ErrorCode::UnsupportedResponseType, "The response_type must be code."));
            }
            None => return Err(Refusal::invalid_request("The parameter response_type is missing.")),
        }
        match params.one("response_mode")? {
            None | Some("query") => {}
            Some("fragment") if return_to.mode == ResponseMode::Fragment => {}
            Some("fragment") => return Err(Refusal::invalid_request("The response mode of this client is query.")),
            Some("form_post") if return_to.mode == ResponseMode::FormPost => {}
            Some("form_post") => {
                return Err(Refusal::invalid_request("The response_mode form_post is not enabled for this client."));
            }
            Some(_) => return Err(Refusal::invalid_request("The response_mode must be query or fragment.")),
        }
        let resource = resource::requested(params, &client.id, resources)?;
        let (scope, resource) = scope(params, client, resource, resources)?;
        let challenge = challenge(params, client)?;
        let prompt = params.one("prompt")?.map(Prompt::parse).transpose()?.unwrap_or_default();
        let max_age = params.one("max_age")?.map(max_age).transpose()?.or(client.details.default_max_age);
        let text = |name: &str| -> Result<Option<String>, Refusal> {
            let value = params.one(name)?;
            if value.is_some_and(|value| value.len() > MAX_VALUE_LENGTH) {
                return Err(Refusal::invalid_request("A parameter is longer than 2048 bytes."));
            }
            Ok(value.map(str::to_owned))
        };
        text("state")?;
        let request = Self {
            client: client.id.clone(),
            return_to,
            scope,
            resource,
            nonce: text("nonce")?,
            challenge,
            prompt,
            max_age,
            acr_values: text("acr_values")?,
            ui_locales: text("ui_locales")?,
            login_hint: text("login_hint")?,
            // An ID token may exceed the length of other parameters, because it contains a nonce.
            // Tokens that are too long are rejected later.
            id_token_hint: params.one("id_token_hint")?.map(str::to_owned),
        };
        // The ID token hint does not count, because it is not stored.
        let stored = serde_json::to_vec(&Self { id_token_hint: None, ..request.clone() });
        if stored.is_ok_and(|stored| stored.len() <= MAX_STORED_LENGTH) {
            Ok(request)
        } else {
            Err(Refusal::invalid_request("The parameters are together too long."))
        }
    }
}

impl AuthorizationRequest {
    /// Returns this request as a query. Parsing the query results in the same request.
    pub fn to_query(&self) -> String {
        let ReturnTo { redirect_uri, mode, state } = &self.return_to;
        let mode = match mode {
            ResponseMode::Query => "query",
            ResponseMode::Fragment => "fragment",
            ResponseMode::FormPost => "form_post",
        };
        let scope = resource::whole_scope(self.scope, self.resource.as_ref());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs([
            ("client_id", self.client.as_str()),
            ("redirect_uri", redirect_uri),
            ("response_type", "code"),
            ("response_mode", mode),
            ("scope", &scope),
        ]);
        let challenge = self.challenge.as_ref().map(CodeChallenge::parameters);
        let (prompt, max_age) = (self.prompt.to_string(), self.max_age.map(|seconds| seconds.to_string()));
        let optional = [
            ("resource", self.resource.as_ref().map(|resource| resource.id.as_str())),
            ("state", state.as_deref()),
            ("nonce", self.nonce.as_deref()),
            ("code_challenge", challenge.map(|(value, _)| value)),
            ("code_challenge_method", challenge.map(|(_, method)| method.as_str())),
            ("prompt", Some(prompt.as_str()).filter(|prompt| !prompt.is_empty())),
            ("max_age", max_age.as_deref()),
            ("acr_values", self.acr_values.as_deref()),
            ("ui_locales", self.ui_locales.as_deref()),
            ("login_hint", self.login_hint.as_deref()),
            ("id_token_hint", self.id_token_hint.as_deref()),
        ];
        query.extend_pairs(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        query.finish()
    }
}

/// Rejects unsupported parameters that would change the meaning of the request (OpenID Connect Core
/// §6, §7.2.1).
fn refuse_unsupported(params: &Params) -> Result<(), Refusal> {
    if params.one("request")?.is_some() {
        return Err(Refusal::new(ErrorCode::RequestNotSupported, "The parameter request is not supported."));
    }
    if params.one("request_uri")?.is_some() {
        return Err(Refusal::new(ErrorCode::RequestUriNotSupported, "The parameter request_uri is not supported."));
    }
    if params.one("registration")?.is_some() {
        return Err(Refusal::new(ErrorCode::RegistrationNotSupported, "The parameter registration is not supported."));
    }
    Ok(())
}

const NO_SCOPE: Refusal = Refusal::invalid_request(
    "The parameter scope is missing, and the client has no default scope (sealgate client set --default-scope).",
);

fn scope(
    params: &Params,
    client: &Client,
    resource: Option<DeclaredResource>,
    resources: &dyn Resources,
) -> Result<(Scope, Option<ResourceAccess>), Refusal> {
    let usable = |scope: Scope| {
        // A client without the grant type `refresh_token` does not get `offline_access`. The
        // `scope` of the token response shows that.
        if client.may_use(GrantType::RefreshToken) { scope } else { scope.without(ScopeValue::OfflineAccess) }
    };
    // Some clients of the Model Context Protocol send only spaces if they know no scope.
    let all_by_default = resource.as_ref().is_some_and(|resource| resource.all_by_default);
    let is_named = |text: &&str| !all_by_default || !text.trim_matches(' ').is_empty();
    let Some(text) = params.one("scope")?.filter(is_named) else {
        let scope = client.default_scope().map(usable);
        return match resource {
            // A resource may have no scopes (RFC 6749 §3.3 makes the parameter optional).
            Some(resource) => {
                let scopes = if resource.all_by_default { resource.scopes } else { BTreeSet::new() };
                let access = ResourceAccess { id: resource.id, scopes };
                Ok((scope.unwrap_or_default(), Some(access)))
            }
            None => Ok((scope.ok_or(NO_SCOPE)?, None)),
        };
    };
    let refused = |description| Refusal::new(ErrorCode::InvalidScope, description);
    let (scope, others) = Scope::with_others(text);
    let is_declared = |value: &&&str| resource.as_ref().is_some_and(|resource| resource.scopes.contains(**value));
    if let Some(unknown) = others.iter().find(|value| !is_declared(value)) {
        if resources.declare_scope(unknown) {
            return Err(refused("The scope has a value of another resource. Name it in the parameter resource."));
        }
        return Err(Refusal::unknown_scope(&UnknownScope::from_value(unknown)));
    }
    if !scope.contains(ScopeValue::OpenId) {
        if resource.is_none() {
            return Err(refused("The scope must include openid."));
        }
        // Without `openid`, no token or response has the user's data.
        if !scope.without(ScopeValue::OfflineAccess).is_empty() {
            return Err(refused("The scopes profile, email, phone and groups require openid."));
        }
    }
    if !scope.is_subset_of(client.scope) {
        return Err(refused("The client may not request this scope."));
    }
    let scopes = others.into_iter().map(str::to_owned).collect();
    let resource = resource.map(|resource| ResourceAccess { id: resource.id, scopes });
    Ok((usable(scope), resource))
}

fn challenge(params: &Params, client: &Client) -> Result<Option<CodeChallenge>, Refusal> {
    let method = match params.one("code_challenge_method")? {
        Some(name) => Some(
            ChallengeMethod::parse(name)
                .ok_or(Refusal::invalid_request("The code_challenge_method must be S256 or plain."))?,
        ),
        // An empty method must not count as absent: the client might have meant S256, and would get
        // plain.
        None if params.has("code_challenge_method") => {
            return Err(Refusal::invalid_request("The code_challenge_method must be S256 or plain."));
        }
        None => None,
    };
    let Some(value) = params.one("code_challenge")? else {
        if client.is_public() {
            return Err(Refusal::invalid_request("The parameter code_challenge is missing."));
        }
        if method.is_some() {
            return Err(Refusal::invalid_request("A code_challenge_method requires a code_challenge."));
        }
        return Ok(None);
    };
    let method = match method {
        Some(method) => method,
        None if client.is_public() => {
            return Err(Refusal::invalid_request("The parameter code_challenge_method is missing."));
        }
        // RFC 7636 §4.3 defines the default.
        None => ChallengeMethod::Plain,
    };
    // The document of a client is public, so its id proves nothing.
    if method == ChallengeMethod::Plain && client.id.document_host().is_some() {
        return Err(Refusal::invalid_request("The code_challenge_method of this client must be S256."));
    }
    CodeChallenge::parse(value, method).map(Some).ok_or(Refusal::invalid_request("The code_challenge is malformed."))
}

/// Parses `max_age` in seconds. A number that needs more than 64 bits sets no limit.
fn max_age(text: &str) -> Result<u64, Refusal> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::invalid_request("The parameter max_age must be a number of seconds."));
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let record = r#"{"id":"c","name":"C","client_type":"confidential","auth_method":"client_secret_basic",
            "redirect_uris":["https://rp.test/cb?a=b"],"scope":"openid email","grant_types":["authorization_code"],
            "consent":"ask","state":"enabled","created_at":0}"#;
        serde_json::from_str(record).unwrap()
    }

    fn parse(query: &str) -> AuthorizationRequest {
        let (params, client) = (Params::parse(query.as_bytes()).unwrap(), client());
        let return_to = ReturnTo::resolve(&params, &client, true).unwrap();
        AuthorizationRequest::parse(&params, &client, return_to, &()).unwrap()
    }

    #[test]
    fn a_request_is_unchanged_after_writing_and_parsing_its_query() {
        let least = "client_id=c&redirect_uri=https://rp.test/cb?a%3Db&response_type=code&scope=openid";
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        for more in [
            String::new(),
            "&state=s%26+%0A%C5%9F&nonce=n&scope_=x&response_mode=fragment&max_age=0".to_owned(),
            "&response_mode=form_post&prompt=login+consent+select_account&max_age=99999999999999999999".to_owned(),
            format!("&code_challenge={challenge}&code_challenge_method=S256&acr_values=2+1&ui_locales=tr"),
            format!("&code_challenge={challenge}&login_hint=a%40b&id_token_hint=e.e.e&prompt=none"),
        ] {
            let request = parse(&format!("{least}{more}"));
            assert_eq!(parse(&request.to_query()), request, "{more}");
        }
    }
}
