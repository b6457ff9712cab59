//! The access decision on a request.
//!
//! The steps are, in this order: application, canonical path, Sealgate's own paths, rule,
//! credential, policy.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};

use crate::assertion::Assertions;
use crate::characters::Characters;
use crate::cors::Cors;
use crate::credential::Presented;
use crate::path::CanonicalPath;
use crate::place_index::{RequestDepth, Subtree};
use crate::policy::{AccessRequest, Credential, Permit, Refused};
use crate::reading::Ambiguous;
use crate::refusal::{
    refuse, refuse_method, refuse_network, refuse_path, refuse_repeated, refuse_spelled_method, refuse_token,
    refuse_without_rule,
};
use crate::request::{AppRequest, Sessions};
use crate::route::{NoRule, Routes, Rule};
use crate::session::{SessionCache, SessionUses};
use crate::sign_in::login::{First, SignInRequest};
use crate::upstream_session::{CurrentSessions, UpstreamSessions};
use crate::upstream_target::UpstreamTarget;
use crate::{app_login, app_password, cors, credential, destination, own, policy, resource, sign_in};
use sealgate_config::{Access, App, AppHosts, Config, IdentityHeaders, host_name, request_fields};
use sealgate_core::state::Sealgate;
use sealgate_core::tokens::bearer::BearerFault;
use sealgate_core::web::context::Body;
use sealgate_core::web::failure::{Failure, error};
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_edge::navigation;
use sealgate_system::read_mostly::ReadMostly;

/// Gateway for all applications.
pub struct Gateway {
    /// Gateways of the applications, in the order of the configuration.
    pub(super) gates: Vec<AppGate>,
    hosts: AppHosts,
    uses: Arc<SessionUses>,
    password_uses: Arc<app_password::AppPasswordUses>,
    /// Cached sessions. Each configuration has its own cache, because a cache key contains the
    /// index of the application in the configuration.
    session_cache: SessionCache,
    /// Sessions at applications that belong to the configuration in effect.
    sessions_at_apps: Arc<CurrentSessions>,
    assertions: Arc<Assertions>,
}

/// Gateway of one application.
pub(super) struct AppGate {
    pub(super) app: App,
    /// Settings of identity headers, with a reference for each thread.
    identity: ReadMostly<Arc<IdentityHeaders>>,
    routes: Routes,
    sessions: Sessions,
    /// Scopes that a client must request, so that the application accepts its token.
    scopes: Vec<String>,
    takes_app_passwords: bool,
    /// Identifier of the application as a resource. `None` if it is not a resource, or if it has a
    /// wildcard, and therefore a resource for each host.
    resource: Option<String>,
    /// Sessions at the application, if the gateway signs users in by its login form.
    pub(super) sessions_at_app: Option<Arc<UpstreamSessions>>,
}

impl AppGate {
    /// Returns whether any rule of the application names methods.
    pub(super) fn has_method_rules(&self) -> bool {
        self.routes.have_method_rules()
    }

    /// Returns the identifier of the application as a resource, at the host of the request.
    fn resource<'a>(&'a self, ctx: &AppRequest<'_>) -> Option<Cow<'a, str>> {
        if self.app.is_wildcard() {
            return self.app.is_resource().then(|| Cow::Owned(ctx.public_origin()));
        }
        self.resource.as_deref().map(Cow::Borrowed)
    }

    fn request<'a>(&'a self, sealgate: &'a Sealgate, head: &'a Parts, body: Body) -> AppRequest<'a> {
        AppRequest::new(sealgate, head, body, &self.app, &self.scopes, self.sessions)
    }

    /// Returns the depth of the request: only its path, or also everything below its path.
    fn depth(&self, head: &Parts) -> RequestDepth {
        let method = head.method.as_str();
        // If rules name methods, headers that override the method are not forwarded.
        if self.has_method_rules() {
            RequestDepth::from_request(method, &head.headers)
        } else {
            RequestDepth::of_any_method(method, &head.headers)
        }
    }
}

impl Gateway {
    /// Creates the gateway for this configuration.
    pub fn new(config: &Config) -> Self {
        let session_cache = SessionCache::new(config.server.threads);
        let gateway = Self {
            gates: gates(config, &[]),
            hosts: AppHosts::from_config(config),
            uses: Arc::default(),
            password_uses: Arc::default(),
            session_cache,
            sessions_at_apps: Arc::default(),
            assertions: Arc::default(),
        };
        gateway.take_effect();
        gateway
    }

    /// Ends the sessions at applications whose settings this configuration changes. The caller must
    /// call this function only when the reload can no longer fail.
    pub fn take_effect(&self) {
        self.sessions_at_apps.replace(self.gates.iter().filter_map(|gate| gate.sessions_at_app.as_ref()));
    }

    /// Creates the gateway of a new configuration. The new gateway shares the queued uses and the
    /// cached assertions with this gateway. It also shares the sessions at applications whose
    /// settings have not changed.
    #[must_use]
    pub fn with(&self, config: &Config) -> Self {
        let (uses, assertions) = (Arc::clone(&self.uses), Arc::clone(&self.assertions));
        let password_uses = Arc::clone(&self.password_uses);
        let hosts = AppHosts::from_config(config);
        let gates = gates(config, &self.gates);
        let sessions_at_apps = Arc::clone(&self.sessions_at_apps);
        let session_cache = SessionCache::new(config.server.threads);
        Self { gates, hosts, uses, password_uses, session_cache, sessions_at_apps, assertions }
    }

    /// Returns the index of the application for a `Host` header.
    pub fn app_of(&self, host: &str) -> Option<usize> {
        self.hosts.app(host)
    }

    /// Decides on a request to an application.
    ///
    /// `app` is the index that [`Gateway::app_of`] returned. The application may have the issuer's
    /// host. `head` must have exactly one `Host`, and its extensions must contain a
    /// [`sealgate_edge::origin::Origin`].
    pub async fn admit(&self, sealgate: &Sealgate, app: usize, head: &Parts) -> GateOutcome {
        self.admit_to(sealgate, Some(app), head, Body::Unread).await
    }

    /// Responds to a request for which [`Gateway::admit`] returned [`GateOutcome::ReadForm`].
    /// `body` is the body of the request.
    pub async fn take_form(&self, sealgate: &Sealgate, head: &Parts, body: Bytes) -> Response {
        self.admit_with(sealgate, head, Body::Read(body)).await.into_response()
    }

    /// Decides on a request to the application that its `Host` names.
    pub(super) async fn admit_with(&self, sealgate: &Sealgate, head: &Parts, body: Body) -> GateOutcome {
        self.admit_to(sealgate, self.app_of(host(head)), head, body).await
    }

    async fn admit_to(&self, sealgate: &Sealgate, app: Option<usize>, head: &Parts, body: Body) -> GateOutcome {
        let Some((index, gate)) = app.and_then(|index| Some((index, self.gates.get(index)?))) else {
            let refusal = Refusal::invalid_request("There is no application at this address.");
            return GateOutcome::Respond(GateReply::new(
                "misdirected",
                error(StatusCode::MISDIRECTED_REQUEST, &refusal),
            ));
        };
        let ctx = gate.request(sealgate, head, body);
        let outcome = self.decide(index, gate, &ctx).await.unwrap_or_else(GateOutcome::Respond);
        if let Some(label) = outcome.label().filter(|_| !ctx.is_again()) {
            sealgate.metrics.decided(&gate.app.name, label);
        }
        outcome
    }

    /// Returns an error page for a request that the application did not answer. `None` if the
    /// client does not show pages, or if no application has the host.
    pub fn unanswered(&self, sealgate: &Sealgate, head: &Parts, status: StatusCode) -> Option<http::Response<Bytes>> {
        let gate = self.app_of(host(head)).and_then(|index| self.gates.get(index))?;
        gate.request(sealgate, head, Body::Away).unanswered(status).map(Response::finish)
    }

    /// Writes to the store which sessions and application passwords were used since the previous
    /// call.
    ///
    /// The caller must call this function every few seconds. Otherwise sessions that are in use
    /// expire as idle.
    pub async fn note_uses(&self, sealgate: &Sealgate) {
        self.uses.write(sealgate).await;
        self.password_uses.write(sealgate).await;
    }

    /// Ends the sessions at applications that belong to ended browser sessions. The caller must
    /// call this function every few seconds.
    pub async fn end_sessions_at_apps(&self, sealgate: &Sealgate) {
        for sessions in self.sessions_at_apps.all() {
            sessions.end_orphans(sealgate).await;
        }
    }

    async fn decide(&self, index: usize, gate: &AppGate, ctx: &AppRequest<'_>) -> Result<GateOutcome, GateReply> {
        if let Some(field) = request_fields::repeated(&ctx.head.headers) {
            return Err(refuse_repeated(ctx, field));
        }
        let read = read_target(ctx.head, gate.routes.characters());
        let (target, path) = read.map_err(|ambiguous| refuse_path(ctx, ambiguous))?;
        if sign_in::return_path::is_own(&path) {
            let answer = Box::pin(own::answer(ctx, &path)).await.unwrap_or_else(|error| ctx.failed(&error).response);
            return Err(GateReply::new("own", answer));
        }
        if let Some(of) = resource::metadata_of(ctx.app, &path) {
            return Err(GateReply::new("own", resource::metadata(ctx, of)));
        }
        let place = gate.routes.find(&path).map_err(|ambiguous| refuse_path(ctx, ambiguous))?;
        let place = place.ok_or_else(|| refuse_without_rule(ctx))?;
        if gate.routes.is_respelled(&ctx.head.method) {
            return Err(refuse_spelled_method(ctx));
        }
        let address = ctx.origin.known_address();
        if let Some(answer) = cors::preflight(place, address, ctx.head) {
            return Err(GateReply::new("preflight", answer));
        }
        let method = ctx.head.method.as_str();
        let rule = place.rule(method, address).map_err(|reason| match reason {
            NoRule::Method => refuse_method(ctx, place),
            NoRule::Network => refuse_network(ctx, place),
        })?;
        let mut below = Subtree::new(method, address);
        let added = below.add(&gate.routes, &path, place, gate.depth(ctx.head));
        added.map_err(|ambiguous| refuse_path(ctx, ambiguous))?;
        let destination = destination::destination(&ctx.head.headers, &gate.routes, rule, &mut below);
        let upstream_target = UpstreamTarget::new(rule, target, &ctx.head.headers, gate.routes.characters());
        let cors = Cors::for_request(rule, &ctx.head.headers);
        let asked = AccessRequest {
            index,
            app: &gate.app,
            identity: gate.identity.get(),
            issuer: ctx.sealgate.config.issuer.as_str(),
            resource: gate.resource(ctx),
            rule,
            is_by_network: place.has_networks(),
            destination: destination.map_err(|ambiguous| refuse_path(ctx, ambiguous))?,
            below,
            path_and_query: target,
            upstream_target: upstream_target.map_err(|ambiguous| refuse_path(ctx, ambiguous))?,
            cors: cors.clone(),
            now: ctx.now,
            in_progress: ctx.is_again(),
            only_reads: ctx.head.method.is_safe()
                && ctx.head.method != Method::TRACE
                && !opens_channel(&ctx.head.headers),
        };
        let judged = self.judge(gate, ctx, &asked).await;
        judged.map_err(|GateReply { label, response }| GateReply { label, response: cors.add_to(response) })
    }

    /// Reads the credential and decides. Refuses the request if access may have been revoked during
    /// the decision.
    ///
    /// A decision without a credential, such as on a public path, uses no stored data, so a revocation
    /// cannot affect it.
    async fn judge(
        &self,
        gate: &AppGate,
        ctx: &AppRequest<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<GateOutcome, GateReply> {
        if !asked.needs_credential() {
            return Ok(self.judge_credential(gate, ctx, asked).await?.0);
        }
        let store = &ctx.sealgate.store;
        let basis = store.basis().map_err(|error| ctx.failed(&error))?;
        let (outcome, credential) = self.judge_credential(gate, ctx, asked).await?;
        store.ensure_current(&basis).map_err(|error| ctx.failed(&error))?;
        match (outcome, &gate.sessions_at_app, &credential) {
            // An exchange in progress already has its cookies. Public paths get no session. A
            // sign-in to the application takes time. So the edge asks for another decision after
            // the sign-in, before it sends the request to the application.
            (GateOutcome::Forward(permit), Some(sessions), Credential::Browser(signed_in))
                if !ctx.is_again() && asked.rule.access != Access::Public =>
            {
                let permit = Box::pin(app_login::add_session(ctx, asked, sessions, signed_in, permit)).await?;
                Ok(GateOutcome::Forward(permit))
            }
            (outcome, ..) => Ok(outcome),
        }
    }

    /// Returns the decision and the credential on which it is based.
    async fn judge_credential(
        &self,
        gate: &AppGate,
        ctx: &AppRequest<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<(GateOutcome, Credential), GateReply> {
        let mut credential = self.credential(gate, ctx, asked).await?;
        // The user must sign in at their OpenID provider again.
        if credential.user().is_some_and(|user| ctx.sealgate.sources.needs_sign_in(user, ctx.now)) {
            credential = Credential::Anonymous;
        }
        let permit = match policy::decide(asked, &credential) {
            Ok(permit) => {
                if !asked.is_public() && credential.user().is_some_and(|user| ctx.is_unknown(user)) {
                    return Err(ctx.directory_away());
                }
                // On a public path, the credential only shows whether the client may use the
                // application during its maintenance.
                if asked.is_public() {
                    credential = Credential::Anonymous;
                }
                let issuer = &ctx.sealgate.issuer;
                let headers = &ctx.head.headers;
                // Programs send their application password to every path of an application,
                // including public paths. `is_in_authorization` is checked first, because it avoids
                // parsing a verified token a second time.
                let identity = &gate.app.identity;
                let holds_token = credential.is_in_authorization(identity)
                    || credential::holds(headers, |token| issuer.is_own_access_token(token))
                    || credential::holds_api_token(headers)
                    || (gate.takes_app_passwords && app_password::is_in_authorization(headers, identity));
                permit.for_request(gate.routes.have_method_rules(), holds_token, asked)
            }
            Err(refused) if is_form_to_keep(ctx, asked, &credential, refused) => match &ctx.body {
                Body::Read(body) => return Err(Box::pin(keep_form(ctx, asked, &credential, refused, body)).await),
                _ => return Ok((GateOutcome::ReadForm, Credential::Anonymous)),
            },
            Err(refused) => return Err(Box::pin(refuse(ctx, asked, &credential, refused)).await),
        };
        if let Body::Read(body) = &ctx.body {
            let shown = Box::pin(sign_in::form::keep_and_show(ctx, asked.path_and_query, body, &credential)).await;
            return Err(GateReply::new("keeping_form", shown.map_err(|error| ctx.failed(&error))?));
        }
        // An exchange in progress already has its assertion. A failure of the PKCS#11 token must
        // not end the exchange.
        let asserted = gate.app.identity.assertion && !ctx.is_again() && asked.rule.access != Access::Public;
        let Some(who) = credential.who().filter(|_| asserted) else {
            return Ok((GateOutcome::Forward(permit), credential));
        };
        let about = self.assertions.about(ctx, who, credential.session());
        let made = Box::pin(about).await;
        let unsigned = || GateReply::new("unsigned", Failure::Unavailable.into_response(ctx));
        let permit = permit.with_assertion(&made.ok_or_else(unsigned)?);
        Ok((GateOutcome::Forward(permit), credential))
    }

    async fn credential(
        &self,
        gate: &AppGate,
        ctx: &AppRequest<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<Credential, GateReply> {
        let access = asked.rule.access;
        if asked.is_closed() {
            return Ok(Credential::Anonymous);
        }
        if asked.is_public() {
            if credential::is_repeated(&ctx.head.headers) {
                return Err(refuse_repeated(ctx, &AUTHORIZATION));
            }
            if asked.needs_credential() {
                return Box::pin(self.optional_credential(gate, ctx, asked)).await;
            }
            return Ok(Credential::Anonymous);
        }
        // Even if the path is public, a rule of the destination or of a path below may accept HTTP
        // Basic.
        let takes_app_passwords =
            || asked.rule.app_passwords || (access == Access::Public && asked.rules().any(|rule| rule.app_passwords));
        if gate.takes_app_passwords
            && app_password::is_presented(&ctx.head.headers, &gate.app.identity)
            && takes_app_passwords()
        {
            return Box::pin(app_password::credential(ctx, &self.password_uses)).await;
        }
        let token = match Presented::read(&ctx.head.headers) {
            Presented::Nothing if access == Access::Bearer => return Ok(Credential::Anonymous),
            Presented::Nothing => return self.browser(ctx, asked.index, &asked.cors).await,
            Presented::Bearer(token) if asked.rule.application_tokens && !is_known_token(ctx, token) => {
                return self.browser(ctx, asked.index, &asked.cors).await;
            }
            Presented::Malformed if asked.rule.application_tokens && !credential::is_repeated(&ctx.head.headers) => {
                return self.browser(ctx, asked.index, &asked.cors).await;
            }
            Presented::Malformed => return Err(refuse_token(ctx, asked.rule)),
            Presented::Bearer(token) => token,
        };
        self.token(ctx, asked.rule, token).await
    }

    /// Verifies a bearer token of this issuer or of an issuer that the application trusts.
    async fn token(&self, ctx: &AppRequest<'_>, rule: &Rule, token: &str) -> Result<Credential, GateReply> {
        if let Some(source) = ctx.sealgate.trust.claimed(token, &ctx.app.trusted_issuers) {
            return Box::pin(credential::credential(ctx, rule, source, token)).await;
        }
        match ctx.sealgate.bearer(token, ctx.now).await {
            Ok(bearer) => {
                let required = match bearer.user() {
                    Some(user) => ctx.level_in_force(user).await.map_err(|error| ctx.failed(&error))?,
                    None => AssuranceLevel::One,
                };
                Ok(Credential::Bearer(bearer, required))
            }
            Err(BearerFault::Invalid) => Err(refuse_token(ctx, rule)),
            Err(BearerFault::Store(error)) => Err(ctx.failed(&error)),
        }
    }

    /// Reads the credential of a request on a public path of an application in maintenance.
    ///
    /// An invalid credential is not refused, because the application may use its own credentials on
    /// a public path.
    async fn optional_credential(
        &self,
        gate: &AppGate,
        ctx: &AppRequest<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<Credential, GateReply> {
        let headers = &ctx.head.headers;
        let read = match Presented::read(headers) {
            _ if gate.takes_app_passwords && app_password::is_presented(headers, &gate.app.identity) => {
                app_password::credential(ctx, &self.password_uses).await
            }
            Presented::Bearer(token) if is_known_token(ctx, token) => self.token(ctx, asked.rule, token).await,
            _ => {
                let known = self.session_cache.find(ctx, asked.index).await.map_err(|error| ctx.failed(&error))?;
                return Ok(known.map_or(Credential::Anonymous, |known| Credential::Browser(known.signed_in.clone())));
            }
        };
        match read {
            Err(reply) if reply.response.status().is_client_error() => Ok(Credential::Anonymous),
            read => read,
        }
    }

    async fn browser(&self, ctx: &AppRequest<'_>, app: usize, cors: &Cors) -> Result<Credential, GateReply> {
        let known = self.session_cache.find(ctx, app).await.map_err(|error| ctx.failed(&error))?;
        let Some(known) = known else { return Ok(Credential::Anonymous) };
        let own = || ctx.public_origin();
        let listed = matches!(cors, Cors::Listed(_));
        if !listed && navigation::is_foreign_websocket(&ctx.head.headers, own) {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "Requests from this origin are not allowed.");
            return Err(GateReply::new("foreign_origin", error(StatusCode::FORBIDDEN, &refusal)));
        }
        if !ctx.is_again() {
            self.uses.note(known.signed_in.session, known.last_seen_at, ctx.now);
        }
        Ok(Credential::Browser(known.signed_in.clone()))
    }
}

/// Returns whether the request may change the protocol of the connection, for example to a
/// WebSocket. The client can then send any message.
fn opens_channel(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) || headers.contains_key(SEC_WEBSOCKET_VERSION)
}

/// Returns whether this issuer or an issuer that the application trusts has issued the token.
fn is_known_token(ctx: &AppRequest<'_>, token: &str) -> bool {
    ctx.sealgate.issuer.is_own_access_token(token)
        || ctx.sealgate.trust.claimed(token, &ctx.app.trusted_issuers).is_some()
}

/// Creates the gateways of the applications. A new gateway takes over the sessions at the
/// application from `old`, if they are usable with the new configuration.
fn gates(config: &Config, old: &[AppGate]) -> Vec<AppGate> {
    let remaining = |app: &App| {
        let mut remaining = old.iter().filter_map(|gate| gate.sessions_at_app.as_ref());
        remaining.find(|sessions| sessions.fits(app, &config.issuer)).map(Arc::clone)
    };
    let gate = |app: &App| AppGate {
        sessions_at_app: remaining(app).or_else(|| UpstreamSessions::of_app(app, &config.issuer)),
        routes: Routes::from_app(app),
        scopes: resource::scopes(app, &app.routes).into_iter().map(str::to_owned).collect(),
        resource: app.origin(&config.issuer).filter(|_| app.is_resource()),
        takes_app_passwords: app.takes_app_passwords(),
        sessions: if host_name(&app.host) == config.issuer.host() { Sessions::OfProvider } else { Sessions::OfApp },
        identity: ReadMostly::new(Arc::clone(&app.identity)),
        app: app.clone(),
    };
    config.apps.iter().map(gate).collect()
}

/// Returns the value of the only `Host` header.
pub(super) fn host(head: &Parts) -> &str {
    head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Returns the target to forward and its canonical path.
fn read_target(head: &Parts, characters: Characters) -> Result<(&PathAndQuery, CanonicalPath<'_>), Ambiguous> {
    // The target and `Host` must name the same host (RFC 9112 §3.2.2), because the upstream might
    // use either.
    let other_host = head.uri.authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host(head)));
    let target = head.uri.path_and_query().filter(|_| !other_host).ok_or(Ambiguous::NotAbsolute)?;
    Ok((target, CanonicalPath::from_target(target, characters)?))
}

/// Returns whether the gateway should store the form of the refused request during a sign-in: the
/// request could be accepted after the sign-in, and the form can be stored.
fn is_form_to_keep(
    ctx: &AppRequest<'_>,
    asked: &AccessRequest<'_>,
    credential: &Credential,
    refused: Refused<'_>,
) -> bool {
    let would_help = match refused {
        Refused::Unknown => asked.rule.access == Access::SignedIn,
        Refused::Acr(_) | Refused::TooOld(_) => true,
        _ => false,
    };
    would_help && !credential.is_by_token() && sign_in::form::is_keepable(ctx)
}

async fn keep_form(
    ctx: &AppRequest<'_>,
    asked: &AccessRequest<'_>,
    credential: &Credential,
    refused: Refused<'_>,
    body: &Bytes,
) -> GateReply {
    let acr = &refused.demanded(asked.rule);
    let demand = SignInRequest { first: First::Needed, acr, max_age: asked.rule.max_age };
    match sign_in::form::keep_and_sign_in(ctx, asked.path_and_query, body, credential, demand).await {
        Ok(Some(answer)) => GateReply::new("keeping_form", answer),
        Ok(None) => refuse(ctx, asked, credential, refused).await,
        Err(error) => ctx.failed(&error),
    }
}

/// Result of the access decision.
#[derive(Debug)]
pub enum GateOutcome {
    Forward(Permit),
    Respond(GateReply),
    /// The user who submitted the form must sign in first. The caller must read the body and call
    /// [`Gateway::take_form`].
    ReadForm,
}

/// Response of the gateway, with the label of the decision in metrics.
#[derive(Debug)]
pub struct GateReply {
    pub label: &'static str,
    pub response: Response,
}

impl GateReply {
    /// Creates a reply with the label of the decision in metrics.
    pub fn new(label: &'static str, response: Response) -> Self {
        Self { label, response }
    }
}

impl GateOutcome {
    /// Returns the label in metrics. `None` while the decision is pending.
    pub(super) const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Forward(_) => Some("forwarded"),
            Self::Respond(reply) => Some(reply.label),
            Self::ReadForm => None,
        }
    }

    /// Returns the response for a request whose body was read. Such a request is never forwarded,
    /// so the other outcomes cannot occur.
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Respond(reply) => reply.response,
            Self::Forward(_) | Self::ReadForm => Response::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}
