//! Explanation of an access decision, for `sealgate explain`.
//!
//! Uses the rules, the policy and the reasons of the gateway, but needs no server, store or
//! signature.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};

use crate::cors::Cors;
use crate::destination::Destination;
use crate::headers::{ASSERTION, IdentityHeaderSet};
use crate::path::CanonicalPath;
use crate::place_index::{RequestDepth, Subtree};
use crate::policy::{AccessRequest, Credential, Refused, SignedIn};
use crate::principal::Principal;
use crate::route::{NoRule, Routes, Rule};
use crate::sign_in::return_path;
use crate::upstream_target::UpstreamTarget;
use crate::{headers, policy, resource};
use sealgate_config as config;
use sealgate_config::{Access, App, AppHosts, AuthorizationHeader, Config, LoginAccount, UpstreamProtocol};
use sealgate_core::tokens::bearer::{Bearer, BearerHolder};
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps};
use sealgate_domain::client::ClientId;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::claims::AccessTokenClaims;
use sealgate_domain::oauth::trusted_token::Foreign;
use sealgate_domain::scope::Scope;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;

/// Client for which a request is explained.
#[derive(Debug, Clone)]
pub enum Asker {
    /// A client without credentials.
    Anonymous,
    /// A client with a valid access token that has these claims.
    Token {
        claims: Box<AccessTokenClaims>,
        holder: BearerHolder,
        /// Whether an operator created the token's client, or an administrator approved the client.
        vouched_for: bool,
    },
    /// A client with a valid token of another issuer.
    Foreign(Box<Foreign>),
    /// A user who has just signed in with a browser at this level. `None` means the level that
    /// `[factors]` requires.
    User(Box<User>, Option<AssuranceLevel>),
}

/// Result of an access decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Name of the application. `None` if no application has the host.
    pub app: Option<String>,
    /// Text of the rule. `None` if no rule decided.
    pub rule: Option<String>,
    /// Whether the request would be forwarded.
    pub forwarded: bool,
    /// HTTP status of the refusal. `None` if the request is forwarded or Sealgate responds itself.
    pub status: Option<u16>,
    /// Reason of the decision: the same word as in the log.
    pub reason: &'static str,
    pub claim: Option<&'static str>,
    /// Audience of the token for which the rule accepts it. `None` for requests without a token of
    /// this issuer, and for tokens with other audiences.
    pub audience: Option<String>,
    /// Identity headers of a forwarded request. Empty for a refused request.
    pub headers: Vec<IdentityHeader>,
    /// Account with which the gateway signs in to the application before it forwards the request.
    pub login: Option<LoginAccount>,
    /// Upstreams of a forwarded request.
    pub upstream: Option<ExplainedUpstream>,
}

/// Upstreams of a request, and the path that they receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedUpstream {
    /// Servers, as the configuration writes them.
    pub servers: Vec<String>,
    pub protocol: UpstreamProtocol,
    pub path: String,
}

impl ExplainedUpstream {
    fn new(app: &App, rule: &Rule, path: &str) -> Self {
        let servers = rule.upstream.servers.as_deref().unwrap_or(&app.upstreams);
        Self {
            servers: servers.iter().map(ToString::to_string).collect(),
            protocol: rule.upstream.protocol.unwrap_or(app.upstream_protocol),
            path: path.to_owned(),
        }
    }
}

/// Identity header, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityHeader {
    pub name: String,
    /// Attribute that the value comes from, such as `email`, or `assertion`.
    pub from: &'static str,
    /// Whether the header is sent. A header is omitted if the user lacks the attribute.
    pub sent: bool,
    /// Value of the header. Bytes that are not UTF-8 are escaped. `None` if the header is omitted,
    /// or if its value is signed for each request.
    pub value: Option<String>,
}

/// Explains the decision on a request.
///
/// `url` is absolute, and its path is not normalized. `address` is the client's address. If
/// `address` is `None`, rules that are limited to networks do not apply.
///
/// # Errors
/// If `url` is not an absolute HTTP or HTTPS URL, the method is invalid, or a claim of the token
/// cannot be parsed.
pub fn explain(
    config: &Config,
    method: &str,
    url: &str,
    asker: &Asker,
    address: Option<IpAddr>,
    now: UnixTime,
) -> Result<Explanation, &'static str> {
    let explanation = decide(config, method, url, asker, address, now)?;
    let is_browser = matches!(asker, Asker::Anonymous | Asker::User(..)) && ["GET", "HEAD"].contains(&method);
    Ok(Explanation { status: explanation.status(is_browser), ..explanation })
}

impl Explanation {
    /// Returns the HTTP status of the refusal. `is_browser` is true if the client can be redirected
    /// to sign in.
    pub fn status(&self, is_browser: bool) -> Option<u16> {
        let can_sign_in = is_browser && self.rule.as_deref().is_some_and(|rule| rule.contains(" signed_in"));
        Some(match self.reason {
            "forwarded" | "own" => return None,
            "no_application" => 421,
            "unauthenticated" | "acr" | "max_age" if can_sign_in => 302,
            "unauthenticated" | "acr" | "max_age" | "invalid_token" | "audience" => 401,
            "method" => 405,
            "unopened" | "network" | "client" | "unapproved_client" | "read_only" | "scope" | "user" | "group"
            | "destination" | "below" => 403,
            "too_many_groups" | "unwritable_group" => 500,
            "maintenance" => 503,
            // All other reasons mean that the path or the method is ambiguous.
            _ => 400,
        })
    }
}

fn decide(
    config: &Config,
    method: &str,
    url: &str,
    asker: &Asker,
    address: Option<IpAddr>,
    now: UnixTime,
) -> Result<Explanation, &'static str> {
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "the method is invalid")?;
    let (host, target) =
        split(url).ok_or("the URL is not absolute; write, for example, https://wiki.example.com/path")?;
    let mut explanation = Explanation {
        app: None,
        rule: None,
        forwarded: false,
        status: None,
        reason: "no_application",
        claim: None,
        audience: None,
        headers: Vec::new(),
        login: None,
        upstream: None,
    };
    let served = AppHosts::from_config(config).app(host).and_then(|index| Some((index, config.apps.get(index)?)));
    let Some((index, app)) = served else { return Ok(explanation) };
    explanation.app = Some(app.name.clone());
    let target = PathAndQuery::try_from(target)
        .map_err(|_| "the URL's path has invalid characters; percent-encode non-ASCII characters")?;
    let refused = |explanation: Explanation, reason| Ok(Explanation { reason, ..explanation });
    let routes = Routes::from_app(app);
    let path = match CanonicalPath::from_target(&target, routes.characters()) {
        Ok(path) => path,
        Err(ambiguous) => return refused(explanation, ambiguous.as_str()),
    };
    if return_path::is_own(&path) || resource::metadata_of(app, &path).is_some() {
        return refused(explanation, "own");
    }
    let place = match routes.find(&path) {
        Ok(Some(place)) => place,
        Ok(None) => return refused(explanation, "unopened"),
        Err(ambiguous) => return refused(explanation, ambiguous.as_str()),
    };
    if routes.is_respelled(&method) {
        return refused(explanation, "method_case");
    }
    let rule = match place.rule(method.as_str(), address) {
        Ok(rule) => rule,
        Err(NoRule::Method) => {
            explanation.rule = Some(format!("{} for {}", place.path, place.methods(address).join(", ")));
            return refused(explanation, "method");
        }
        Err(NoRule::Network) => {
            explanation.rule = Some(place.path.clone());
            return refused(explanation, "network");
        }
    };
    explanation.rule = Some(in_words(rule));
    let mut below = Subtree::new(method.as_str(), address);
    let added = below.add(&routes, &path, place, RequestDepth::from_request(method.as_str(), &HeaderMap::new()));
    if let Err(ambiguous) = added {
        return refused(explanation, ambiguous.as_str());
    }
    let upstream_target = match UpstreamTarget::new(rule, &target, &HeaderMap::new(), routes.characters()) {
        Ok(upstream_target) => upstream_target,
        Err(ambiguous) => return refused(explanation, ambiguous.as_str()),
    };
    let access_request = AccessRequest {
        index,
        app,
        identity: Arc::clone(&app.identity).into(),
        issuer: config.issuer.as_str(),
        resource: app.is_resource().then(|| Cow::Owned(app.origin_at(&config.issuer, app.covered_host(host).as_ref()))),
        rule,
        is_by_network: place.has_networks(),
        destination: Destination::None,
        below,
        path_and_query: &target,
        upstream_target,
        cors: Cors::for_request(rule, &HeaderMap::new()),
        now,
        in_progress: false,
        only_reads: method.is_safe() && method != Method::TRACE,
    };
    let credential = credential(config, asker, now).ok_or("the token's client_id cannot be read")?;
    explanation.audience = audience(&access_request, &credential);
    match policy::decide(&access_request, &credential) {
        Ok(permit) => {
            let upstream = Some(ExplainedUpstream::new(app, rule, permit.path_and_query.path()));
            let who = credential.who().filter(|_| rule.access != Access::Public);
            let headers = who.map(|who| identity_headers(who, &app.identity)).unwrap_or_default();
            // Tokens and application passwords get no session at the application.
            let is_session = matches!(credential, Credential::Browser(_)) && rule.access != Access::Public;
            let login = app.login.as_ref().filter(|_| is_session).map(|login| match who {
                Some(Principal::Local(user)) => login.account_of(user).clone(),
                Some(Principal::Foreign(_) | Principal::Client(_)) | None => login.account.clone(),
            });
            Ok(Explanation { forwarded: true, reason: "forwarded", headers, login, upstream, ..explanation })
        }
        // If the application does not trust the issuer of a token, the gateway refuses the token
        // before it checks rules.
        Err(Refused::Unknown) if matches!(credential, Credential::Foreign(_)) => {
            Ok(Explanation { reason: "invalid_token", claim: Some("iss"), ..explanation })
        }
        Err(refused @ Refused::Unknown) => Ok(Explanation { reason: refused.as_str(), ..explanation }),
        Err(refused) => Ok(Explanation { reason: refused.as_str(), claim: refused.claim(), ..explanation }),
    }
}

/// Returns the audience for which the rule accepts the token.
fn audience(asked: &AccessRequest<'_>, credential: &Credential) -> Option<String> {
    match credential {
        Credential::Bearer(bearer, _) if asked.rule.access != Access::Public => {
            policy::matching_audience(asked, asked.rule, &bearer.claims.aud).map(str::to_owned)
        }
        _ => None,
    }
}

/// Returns the host and the target of an absolute URL. URL libraries would normalize the path.
pub(super) fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let rest = rest.split('#').next()?;
    let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    (!host.is_empty()).then_some((host, if target.is_empty() { "/" } else { target }))
}

fn credential(config: &Config, asker: &Asker, now: UnixTime) -> Option<Credential> {
    Some(match asker {
        Asker::Anonymous => Credential::Anonymous,
        Asker::Token { claims, holder, vouched_for } => {
            let required = match holder {
                BearerHolder::User(user) => {
                    let policy = config.factors.policy_for(user, now);
                    policy.in_force(AssuranceLevel::parse(&claims.acr) != Some(AssuranceLevel::One))
                }
                BearerHolder::Client(_) => AssuranceLevel::One,
            };
            let bearer = Bearer {
                scope: Scope::known_in(&claims.scope),
                client: ClientId::parse(&claims.client_id)?,
                claims: claims.as_ref().clone(),
                holder: holder.clone(),
                vouched_for: *vouched_for,
                visible_groups: GroupFilter::default(),
            };
            Credential::Bearer(bearer.into(), required)
        }
        Asker::Foreign(foreign) => Credential::Foreign(Arc::new(foreign.as_ref().clone())),
        Asker::User(user, level) => {
            let policy = config.factors.policy_for(user, now);
            let signed_in = SignedIn {
                user: user.as_ref().clone(),
                session: SessionId::from_bytes([0; 16]),
                app_session: None,
                steps: steps_of(level.unwrap_or(policy.level), now),
                // A user with a second factor always uses it in a sign-in. So a sign-in at level 1
                // implies a user without a second factor.
                required: policy.in_force(*level != Some(AssuranceLevel::One)),
            };
            Credential::Browser(signed_in.into())
        }
    })
}

/// Returns authentication steps that reach exactly this level.
fn steps_of(level: AssuranceLevel, at: UnixTime) -> AuthenticationSteps {
    let methods: &[AuthenticationMethod] = match level {
        AssuranceLevel::One => &[AuthenticationMethod::Password],
        AssuranceLevel::Two => &[AuthenticationMethod::Password, AuthenticationMethod::Totp],
        AssuranceLevel::PhishingResistant => &[AuthenticationMethod::Passkey],
    };
    let mut steps = AuthenticationSteps::default();
    for method in methods {
        steps.add(AuthenticationStep::new(*method, at));
    }
    steps
}

fn identity_headers(who: Principal<'_>, format: &config::IdentityHeaders) -> Vec<IdentityHeader> {
    // The policy has already refused users whose headers cannot be written.
    let mut headers: Vec<_> = headers::identity_headers(who, format).unwrap_or_default().iter().map(shown).collect();
    let mut add_signed = |name: &HeaderName| {
        headers.push(IdentityHeader { name: name.to_string(), from: "assertion", sent: true, value: None });
    };
    if format.assertion {
        add_signed(&ASSERTION);
    }
    if format.authorization == AuthorizationHeader::Replace {
        add_signed(&AUTHORIZATION);
    }
    headers
}

fn shown(explanation: &IdentityHeaderSet) -> IdentityHeader {
    let text = |value: &HeaderValue| match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().escape_ascii().to_string(),
    };
    IdentityHeader {
        name: explanation.name.to_string(),
        from: explanation.from.as_str(),
        sent: explanation.value.is_some(),
        value: explanation.value.as_ref().map(text),
    }
}

/// Returns a rule as a line of text for operators.
fn in_words(rule: &Rule) -> String {
    let access = match rule.access {
        Access::Public => "public",
        Access::Bearer => "bearer",
        Access::SignedIn => "signed_in",
    };
    let mut words = format!("{} {access}", rule.path);
    let mut add = |name: &str, list: &[String]| {
        if !list.is_empty() {
            words.extend([", ", name, " ", &list.join(" ")]);
        }
    };
    add("methods", &rule.methods);
    add("networks", &rule.networks.iter().map(ToString::to_string).collect::<Vec<_>>());
    add("path_characters", &rule.path_characters.words());
    add("audience", rule.audience.as_slice());
    add("scopes", &rule.scopes);
    add("groups", &rule.groups);
    add("users", &rule.users.iter().map(config::RuleUser::text).collect::<Vec<_>>());
    add("acr", &rule.acr);
    add("max_age_seconds", &rule.max_age.map(|most| most.as_secs().to_string()).into_iter().collect::<Vec<_>>());
    words
}
