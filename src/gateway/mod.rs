//! The gate in front of the applications: decides on a request from its head alone, and lets none through without a
//! [`Permit`]. Knows the `http` crate and no proxy; how a request travels is the edge's business.
//!
//! The order of the decision: which application, one reading of the path, our own paths, the rule, the credential, the
//! policy. What no rule opens is closed, and nothing is ever decided on the query or the fragment.

mod answer;
mod app_password;
mod assertion;
mod characters;
mod context;
mod cors;
mod credential;
mod destination;
mod encoding;
mod explain;
mod foreign_token;
mod forward_auth;
mod headers;
mod navigation;
mod own;
mod path;
mod policy;
mod principal;
mod reading;
mod refusal;
mod remembered;
mod resource;
mod route;
mod session;
mod sign_in;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode};

pub use cors::AnswerRewrite;
pub use explain::{Asker, Explanation, IdentityHeader, explain};
pub use headers::Rewrite;
pub use policy::Permit;

use self::sign_in::login::{First, SignInRequest};
use crate::app::state::Sealgate;
use crate::config::{Access, App, Config};
use crate::domain::error::{ErrorCode, Refusal};
use crate::store::{self, StoreError};
use crate::tokens::bearer::BearerFault;
use crate::web::cookie;
use crate::web::request_fields;
use answer::Answer;
use assertion::Assertions;
use characters::Characters;
use context::{Body, RequestContext, Sessions};
use cors::Cors;
use credential::Presented;
use path::{Ambiguous, CanonicalPath};
use policy::{AccessRequest, Credential, Refused};
use refusal::{
    refuse, refuse_method, refuse_path, refuse_repeated, refuse_spelled_method, refuse_token, refuse_unopened,
};
use remembered::Remembered;
use route::Routes;
use session::Uses;

/// What becomes of a request.
#[derive(Debug)]
pub enum Decision {
    /// This is the answer.
    Answer(Response<Bytes>),
    /// It may go to the application.
    Forward(Permit),
    /// It is a form whose person has to sign in first: it is wanted here, see [`Gateway::take_form`].
    ReadForm,
}

/// What may become of a request that no refusal answers.
enum Passage {
    /// It may go to the application.
    Forward(Permit),
    /// Its body is needed here.
    ReadForm,
}

/// The longest body of a form that is read, bytes.
pub const MAX_FORM_BYTES: usize = store::MAX_FORM_BYTES;

/// The gate, for all applications.
pub struct Gateway {
    /// In the configuration's order.
    gates: Vec<Gate>,
    uses: Arc<Uses>,
    password_uses: Arc<app_password::Uses>,
    /// By the places that the applications have in this configuration.
    remembered: Remembered,
    assertions: Arc<Assertions>,
}

/// The gate of one application.
struct Gate {
    app: App,
    routes: Routes,
    sessions: Sessions,
}

/// Why a request is answered here, in a word for logs and metrics, and the answer.
type Halt = (&'static str, Answer);

impl Gateway {
    /// The gate that this configuration asks for.
    pub fn new(config: &Config) -> Self {
        let remembered = Remembered::default();
        Self {
            gates: gates(config),
            uses: Arc::default(),
            password_uses: Arc::default(),
            remembered,
            assertions: Arc::default(),
        }
    }

    /// The gate that another configuration asks for. It goes on with what this one has noted and signed.
    #[must_use]
    pub fn with(&self, config: &Config) -> Self {
        let (uses, assertions) = (Arc::clone(&self.uses), Arc::clone(&self.assertions));
        let password_uses = Arc::clone(&self.password_uses);
        Self { gates: gates(config), uses, password_uses, remembered: Remembered::default(), assertions }
    }

    /// The application that a `Host` header names, an index into the configured ones.
    pub fn app_of(&self, host: &str) -> Option<usize> {
        host_app(self.gates.iter().map(|gate| &gate.app), host).map(|(index, _)| index)
    }

    /// Whether another proxy asks with this request for a decision about its client's, and may: see
    /// [`Gateway::answer_proxy`].
    pub fn is_asked_by_proxy(&self, config: &Config, head: &Parts) -> bool {
        forward_auth::is_asked(config, head)
    }

    /// Decides on the request that another proxy describes with this one: 200 with the identity in headers, or a refusal.
    pub async fn answer_proxy(&self, sealgate: &Sealgate, head: &Parts) -> Response<Bytes> {
        forward_auth::answer(self, sealgate, head).await
    }

    /// Decides on a request to an application's host, the issuer's included where an application shares it. `head` has
    /// exactly one `Host`, and the [`crate::web::origin::Origin`] among its extensions.
    pub async fn admit(&self, sealgate: &Sealgate, head: &Parts) -> Decision {
        self.admit_with(sealgate, head, Body::Unread).await
    }

    /// Answers a request on which [`Gateway::admit`] decided [`Decision::ReadForm`].
    pub async fn take_form(&self, sealgate: &Sealgate, head: &Parts, body: Bytes) -> Response<Bytes> {
        match self.admit_with(sealgate, head, Body::Read(body)).await {
            Decision::Answer(response) => response,
            // Nothing else is decided on a body that was read.
            Decision::Forward(_) | Decision::ReadForm => {
                Answer::empty(StatusCode::INTERNAL_SERVER_ERROR).into_response()
            }
        }
    }

    async fn admit_with(&self, sealgate: &Sealgate, head: &Parts, body: Body) -> Decision {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let Some((index, gate)) = self.app_of(host).and_then(|index| Some((index, self.gates.get(index)?))) else {
            let refusal = Refusal::invalid_request("This host is not served here.");
            return Decision::Answer(Answer::error(StatusCode::MISDIRECTED_REQUEST, &refusal).into_response());
        };
        let ctx = RequestContext::new(sealgate, head, &gate.app, gate.sessions).with_body(body);
        let (word, decision) = self.decide(index, gate, &ctx, host).await;
        if !ctx.is_again() && !matches!(decision, Ok(Passage::ReadForm)) {
            sealgate.metrics.decided(&gate.app.name, word);
        }
        match decision {
            Ok(Passage::Forward(permit)) => Decision::Forward(permit),
            Ok(Passage::ReadForm) => Decision::ReadForm,
            Err(answer) => Decision::Answer(answer.into_response()),
        }
    }

    /// A page for a person in the place of what an application did not answer. None for programs, and where the host is no
    /// application's.
    pub fn unanswered(&self, sealgate: &Sealgate, head: &Parts, status: StatusCode) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let gate = self.app_of(host).and_then(|index| self.gates.get(index))?;
        RequestContext::new(sealgate, head, &gate.app, gate.sessions).unanswered(status).map(Answer::into_response)
    }

    /// Notes in the store which sessions and application passwords were used since the last call: to be called every few seconds, or people are
    /// signed out while they work.
    pub async fn note_uses(&self, sealgate: &Sealgate) {
        self.uses.write(sealgate).await;
        self.password_uses.write(sealgate).await;
    }

    /// The decision, and a word for it.
    async fn decide(
        &self,
        index: usize,
        gate: &Gate,
        ctx: &RequestContext<'_>,
        host: &str,
    ) -> (&'static str, Result<Passage, Answer>) {
        if let Some(field) = request_fields::repeated(&ctx.head.headers) {
            return refused(refuse_repeated(ctx, field));
        }
        let (target, path) = match read_target(ctx.head, host, gate.routes.characters()) {
            Ok(read) => read,
            Err(ambiguous) => return refused(refuse_path(ctx, ambiguous)),
        };
        if sign_in::return_path::is_own(&path) {
            return ("own", Err(own::answer(ctx, &path).await.unwrap_or_else(|error| ctx.failed(&error))));
        }
        if resource::is_metadata(&path) {
            return ("own", Err(resource::metadata(ctx)));
        }
        let place = match gate.routes.find(&path) {
            Ok(Some(place)) => place,
            Ok(None) => return refused(refuse_unopened(ctx)),
            Err(ambiguous) => return refused(refuse_path(ctx, ambiguous)),
        };
        if gate.routes.respells(&ctx.head.method) {
            return refused(refuse_spelled_method(ctx));
        }
        if let Some(answer) = cors::preflight(place, ctx.head) {
            return ("preflight", Err(answer));
        }
        let Some(rule) = place.rule(ctx.head.method.as_str()) else { return refused(refuse_method(ctx, place)) };
        let destination = match destination::destination(&ctx.head.headers, ctx.head.method.as_str(), &gate.routes) {
            Ok(destination) => destination,
            Err(ambiguous) => return refused(refuse_path(ctx, ambiguous)),
        };
        let cors = Cors::of(rule, &ctx.head.headers);
        let asked = AccessRequest {
            index,
            app: &gate.app,
            issuer: ctx.sealgate.config.issuer.as_str(),
            rule,
            destination,
            path_and_query: target,
            cors: cors.clone(),
            now: ctx.now,
        };
        match self.judge(gate, ctx, &asked).await {
            Ok(Ok(passage)) => ("forwarded", Ok(passage)),
            Ok(Err((word, answer))) => (word, Err(cors.on(answer))),
            Err(error) => ("failed", Err(cors.on(ctx.failed(&error)))),
        }
    }

    async fn judge(
        &self,
        gate: &Gate,
        ctx: &RequestContext<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<Result<Passage, Halt>, StoreError> {
        let credential = match self.credential(ctx, asked).await? {
            Ok(credential) => credential,
            Err(halt) => return Ok(Err(halt)),
        };
        let permit = match policy::decide(asked, &credential) {
            Ok(permit) => {
                let issuer = &ctx.sealgate.issuer;
                let headers = &ctx.head.headers;
                // Programs send their application password ahead to every path of an application that takes some.
                let holds_token = credential::holds(headers, |token| issuer.is_own_access_token(token))
                    || (gate.app.takes_app_passwords() && app_password::is_presented(headers));
                permit.for_request(gate.routes.look_at_methods(), holds_token, asked.rule)
            }
            Err(refused) if is_form_to_keep(ctx, asked, &credential, refused) => match &ctx.body {
                Body::Read(body) => return Ok(Err(keep_form(ctx, asked, &credential, refused, body).await?)),
                _ => return Ok(Ok(Passage::ReadForm)),
            },
            Err(refused) => return Ok(Err(refuse(ctx, asked, &credential, refused).await?)),
        };
        if let Body::Read(body) = &ctx.body {
            let shown = sign_in::saved_form::keep_and_show(ctx, asked.path_and_query, body, &credential).await?;
            return Ok(Err(("keeping_form", shown)));
        }
        // An exchange that is open already has its assertion: a token device that fails now must not cut it off.
        let asserted = gate.app.identity.assertion && !ctx.is_again();
        let Some(who) = credential.who().filter(|_| asserted) else { return Ok(Ok(Passage::Forward(permit))) };
        let made = self.assertions.about(ctx.sealgate, &gate.app, who, credential.session(), ctx.now).await;
        Ok(match made {
            Some(assertion) => Ok(Passage::Forward(permit.with_assertion(&assertion))),
            None => Err(("unsigned", ctx.overloaded())),
        })
    }

    /// Who asks.
    async fn credential(
        &self,
        ctx: &RequestContext<'_>,
        asked: &AccessRequest<'_>,
    ) -> Result<Result<Credential, Halt>, StoreError> {
        let access = asked.rule.access;
        if access == Access::Public {
            let repeated = credential::is_repeated(&ctx.head.headers);
            return Ok(if repeated { Err(refuse_repeated(ctx, &AUTHORIZATION)) } else { Ok(Credential::Nobody) });
        }
        if asked.rule.basic && app_password::is_presented(&ctx.head.headers) {
            return app_password::credential(ctx, &self.password_uses).await;
        }
        let token = match Presented::read(&ctx.head.headers) {
            Presented::Nothing if access == Access::Bearer => return Ok(Ok(Credential::Nobody)),
            Presented::Nothing => return self.browser(ctx, asked.index, &asked.cors).await,
            Presented::Malformed => return Ok(Err(refuse_token(ctx))),
            Presented::Bearer(token) => token,
        };
        if let Some(source) = ctx.sealgate.trust.claimed(token, &ctx.app.trusted_issuers) {
            return Ok(foreign_token::credential(ctx, source, token).await);
        }
        match ctx.sealgate.bearer(token, ctx.now).await {
            Ok(bearer) => Ok(Ok(Credential::Bearer(bearer))),
            Err(BearerFault::Invalid) => Ok(Err(refuse_token(ctx))),
            Err(BearerFault::Store(error)) => Err(error),
        }
    }

    async fn browser(
        &self,
        ctx: &RequestContext<'_>,
        app: usize,
        cors: &Cors,
    ) -> Result<Result<Credential, Halt>, StoreError> {
        let Some(known) = self.remembered.find(ctx, app).await? else { return Ok(Ok(Credential::Nobody)) };
        let own = ctx.app.origin(&ctx.sealgate.config.issuer);
        let listed = matches!(cors, Cors::Listed(_));
        if !listed && navigation::is_foreign_websocket(&ctx.head.headers, &own) {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The page of another origin may not open this.");
            return Ok(Err(("foreign_origin", Answer::error(StatusCode::FORBIDDEN, &refusal))));
        }
        if !ctx.is_again() {
            self.uses.note(known.signed_in.session, known.last_seen_at, ctx.now);
        }
        Ok(Ok(Credential::Browser(Arc::clone(&known.signed_in))))
    }
}

fn gates(config: &Config) -> Vec<Gate> {
    let gate = |app: &App| Gate {
        routes: Routes::of(app),
        sessions: if host_name(&app.host) == config.issuer.host() { Sessions::OfProvider } else { Sessions::OfApp },
        app: app.clone(),
    };
    config.apps.iter().map(gate).collect()
}

/// Whether an application may set this cookie, the value of a `Set-Cookie`: any but ours. One that was broken into must not
/// sign people in as somebody else, nor take part in a sign-in.
pub fn may_set_cookie(line: &HeaderValue) -> bool {
    !cookie::sets_ours(line.as_bytes())
}

/// The application that a `Host` header names, and where among these it stands.
fn host_app<'a>(apps: impl IntoIterator<Item = &'a App>, host: &str) -> Option<(usize, &'a App)> {
    // Host names have no case (RFC 9110 §4.2.3). ASCII only: `İ` never becomes an `i`.
    let upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
    let host = if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) };
    apps.into_iter().enumerate().find(|(_, app)| app.answers_to(&host))
}

/// The host of an authority without its port; the colons inside an IPv6 address are none.
fn host_name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The target that will be forwarded, and the one reading of its path.
fn read_target<'h>(
    head: &'h Parts,
    host: &str,
    characters: Characters,
) -> Result<(&'h PathAndQuery, CanonicalPath<'h>), Ambiguous> {
    // A target that names another host than `Host` does (RFC 9112 §3.2.2) would be one application to us and another to
    // the next server.
    let other_host = head.uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host));
    let target = head.uri.path_and_query().filter(|_| !other_host).ok_or(Ambiguous::NotAbsolute)?;
    Ok((target, CanonicalPath::of(target, characters)?))
}

fn refused((word, answer): Halt) -> (&'static str, Result<Passage, Answer>) {
    (word, Err(answer))
}

/// Whether this is a person's form that a sign-in would let through, and that can be kept until then.
fn is_form_to_keep(
    ctx: &RequestContext<'_>,
    asked: &AccessRequest<'_>,
    credential: &Credential,
    refused: Refused<'_>,
) -> bool {
    let would_help = match refused {
        Refused::Unknown => asked.rule.access == Access::SignedIn,
        Refused::Acr(_) | Refused::TooOld(_) => true,
        _ => false,
    };
    would_help && !credential.is_by_token() && sign_in::saved_form::is_keepable(ctx)
}

async fn keep_form(
    ctx: &RequestContext<'_>,
    asked: &AccessRequest<'_>,
    credential: &Credential,
    refused: Refused<'_>,
    body: &Bytes,
) -> Result<Halt, StoreError> {
    let demand = SignInRequest { first: First::Needed, acr: &asked.rule.acr, max_age: asked.rule.max_age };
    match sign_in::saved_form::keep_and_sign_in(ctx, asked.path_and_query, body, credential, demand).await? {
        Some(answer) => Ok(("keeping_form", answer)),
        None => refuse(ctx, asked, credential, refused).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_an_address() {
        for (authority, host) in
            [("wiki.test", "wiki.test"), ("wiki.test:8443", "wiki.test"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")]
        {
            assert_eq!(host_name(authority), host);
        }
    }
}
