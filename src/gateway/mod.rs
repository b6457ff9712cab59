//! The gate in front of the applications: decides on a request from its head alone, and lets none through without a
//! [`Permit`]. Knows the `http` crate and no proxy; how a request travels is the edge's business.
//!
//! The order of the decision: which application, one reading of the path, our own paths, the rule, the credential, the
//! policy. What no rule opens is closed, and nothing is ever decided on the query or the fragment.

mod answer;
mod browser_login;
mod credential;
mod headers;
mod navigation;
mod own;
mod path;
mod policy;
mod rounds;
mod route;
mod session;
mod visit;
mod wanted;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode};

pub use headers::Rewrite;
pub use policy::Permit;

use crate::bearer::{self, BearerFault};
use crate::config::{Access, App, Config};
use crate::cookie;
use crate::page::Problem;
use crate::protocol::error::{ErrorCode, Refusal};
use crate::sealgate::Sealgate;
use crate::store::StoreError;
use answer::Answer;
use browser_login::First;
use credential::Presented;
use path::{Ambiguous, CanonicalPath};
use policy::{Refused, Visitor, Wish};
use route::Routes;
use session::Uses;
use visit::{Sessions, Visit};
use wanted::Wanted;

/// What becomes of a request.
#[derive(Debug)]
pub enum Decision {
    /// This is the answer.
    Answer(Response<Bytes>),
    /// It may go to the application.
    Forward(Permit),
}

/// The gate, for all applications.
pub struct Gateway {
    /// In the configuration's order.
    gates: Vec<Gate>,
    uses: Uses,
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
        let gate = |app: &App| Gate {
            routes: Routes::of(app),
            sessions: if host_name(&app.host) == config.issuer.host() { Sessions::OfProvider } else { Sessions::OfApp },
            app: app.clone(),
        };
        Self { gates: config.apps.iter().map(gate).collect(), uses: Uses::default() }
    }

    /// The application that a `Host` header names, an index into the configured ones.
    pub fn app_of(&self, host: &str) -> Option<usize> {
        // Host names have no case (RFC 9110 §4.2.3). ASCII only: `İ` never becomes an `i`.
        let upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) };
        self.gates.iter().position(|gate| gate.app.answers_to(&host))
    }

    /// Decides on a request to an application's host, the issuer's included where an application shares it. `head` has
    /// exactly one `Host`, and the [`crate::origin::Origin`] among its extensions.
    pub async fn admit(&self, sealgate: &Sealgate, head: &Parts) -> Decision {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let Some((index, gate)) = self.app_of(host).and_then(|index| Some((index, self.gates.get(index)?))) else {
            let refusal = Refusal::invalid_request("This host is not served here.");
            return Decision::Answer(Answer::error(StatusCode::MISDIRECTED_REQUEST, &refusal).into_response());
        };
        let visit = Visit::new(sealgate, head, &gate.app, gate.sessions);
        let (word, decision) = match self.judge(index, gate, &visit, host).await {
            Ok(Ok(permit)) => ("forwarded", Decision::Forward(permit)),
            Ok(Err((word, answer))) => (word, Decision::Answer(answer.into_response())),
            Err(error) => ("failed", Decision::Answer(visit.failed(&error).into_response())),
        };
        if !visit.is_again() {
            sealgate.metrics.decided(&gate.app.name, word);
        }
        decision
    }

    /// A page for a person in the place of what an application did not answer. None for programs, and where the host is no
    /// application's.
    pub fn unanswered(&self, sealgate: &Sealgate, head: &Parts, status: StatusCode) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let gate = self.app_of(host).and_then(|index| self.gates.get(index))?;
        Visit::new(sealgate, head, &gate.app, gate.sessions).unanswered(status).map(Answer::into_response)
    }

    /// Notes in the store which sessions were used since the last call: to be called every few seconds, or people are
    /// signed out while they work.
    pub async fn note_uses(&self, sealgate: &Sealgate) {
        self.uses.write(sealgate).await;
    }

    async fn judge(
        &self,
        index: usize,
        gate: &Gate,
        visit: &Visit<'_>,
        host: &str,
    ) -> Result<Result<Permit, Halt>, StoreError> {
        let (target, path) = match read_target(visit.head, host) {
            Ok(read) => read,
            Err(ambiguous) => return Ok(Err(refuse_path(visit, ambiguous))),
        };
        if wanted::is_own(&path) {
            return Ok(Err(("own", own::answer(visit, &path).await?)));
        }
        let rule = match gate.routes.find(&path) {
            Ok(Some(rule)) => rule,
            Ok(None) => return Ok(Err(refuse_unopened(visit))),
            Err(ambiguous) => return Ok(Err(refuse_path(visit, ambiguous))),
        };
        let issuer = visit.sealgate.config.issuer.as_str();
        let audience = gate.app.audience.as_deref().unwrap_or(issuer);
        let wish = Wish { app: index, audience, clients: gate.app.clients.as_deref(), rule, path_and_query: target };
        let visitor = match self.visitor(visit, rule.access).await? {
            Ok(visitor) => visitor,
            Err(halt) => return Ok(Err(halt)),
        };
        match policy::decide(&wish, &visitor) {
            Ok(permit) => Ok(Ok(permit)),
            Err(refused) => Ok(Err(refuse(visit, &wish, &visitor, refused).await?)),
        }
    }

    /// Who asks.
    async fn visitor(&self, visit: &Visit<'_>, access: Access) -> Result<Result<Visitor, Halt>, StoreError> {
        if access == Access::Public {
            return Ok(Ok(Visitor::Nobody));
        }
        let token = match Presented::read(&visit.head.headers) {
            Presented::Nothing if access == Access::Bearer => return Ok(Ok(Visitor::Nobody)),
            Presented::Nothing => return self.browser(visit).await,
            Presented::Malformed => return Ok(Err(refuse_token(visit))),
            Presented::Bearer(token) => token,
        };
        match bearer::verify(visit.sealgate, token, visit.now).await {
            Ok(bearer) => Ok(Ok(Visitor::Bearer(bearer))),
            Err(BearerFault::Invalid) => Ok(Err(refuse_token(visit))),
            Err(BearerFault::Store(error)) => Err(error),
        }
    }

    async fn browser(&self, visit: &Visit<'_>) -> Result<Result<Visitor, Halt>, StoreError> {
        let Some(signed_in) = session::find(visit).await? else { return Ok(Ok(Visitor::Nobody)) };
        let own = visit.app.origin(&visit.sealgate.config.issuer);
        if navigation::is_foreign_websocket(&visit.head.headers, &own) {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The page of another origin may not open this.");
            return Ok(Err(("foreign_origin", Answer::error(StatusCode::FORBIDDEN, &refusal))));
        }
        if !visit.is_again() {
            self.uses.note(&signed_in.parent, visit.now);
        }
        Ok(Ok(Visitor::Browser(Arc::new(signed_in.user))))
    }
}

/// Whether an application may set this cookie, the value of a `Set-Cookie`: any but ours. One that was broken into must not
/// sign people in as somebody else, nor take part in a sign-in.
pub fn may_set_cookie(line: &HeaderValue) -> bool {
    !cookie::sets_ours(line.as_bytes())
}

/// The host of an authority without its port; the colons inside an IPv6 address are none.
fn host_name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The target that will be forwarded, and the one reading of its path.
fn read_target<'h>(head: &'h Parts, host: &str) -> Result<(&'h PathAndQuery, CanonicalPath<'h>), Ambiguous> {
    // A target that names another host than `Host` does (RFC 9112 §3.2.2) would be one application to us and another to
    // the next server.
    let other_host = head.uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host));
    let target = head.uri.path_and_query().filter(|_| !other_host).ok_or(Ambiguous::NotAbsolute)?;
    Ok((target, CanonicalPath::of(target)?))
}

fn refuse_path(visit: &Visit<'_>, ambiguous: Ambiguous) -> Halt {
    let (request_id, app) = (&visit.origin.request_id, &visit.app.name);
    tracing::info!(request_id, app, reason = ambiguous.as_str(), "refused an ambiguous path");
    let refusal = Refusal::invalid_request("The path can be read in more than one way.");
    ("ambiguous", visit.refuse(StatusCode::BAD_REQUEST, &refusal, Problem::InvalidRequest))
}

fn refuse_unopened(visit: &Visit<'_>) -> Halt {
    tracing::info!(request_id = visit.origin.request_id, app = visit.app.name, "refused: no rule is for the path");
    let refusal = Refusal::new(ErrorCode::AccessDenied, "No rule opens this path.");
    ("unopened", visit.refuse(StatusCode::FORBIDDEN, &refusal, Problem::NotFound))
}

/// A token that does not stand. One answer for forged, expired and revoked ones, and never a redirect: whoever sends a
/// token is a program.
fn refuse_token(visit: &Visit<'_>) -> Halt {
    const INVALID: Refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is invalid or has expired.");
    ("invalid_token", Answer::challenge(&visit.app.name, Some(&INVALID), &[]))
}

async fn refuse(
    visit: &Visit<'_>,
    wish: &Wish<'_>,
    visitor: &Visitor,
    refused: Refused<'_>,
) -> Result<Halt, StoreError> {
    let subject = match visitor {
        Visitor::Nobody => None,
        Visitor::Bearer(bearer) => Some(&bearer.user),
        Visitor::Browser(user) => Some(user),
    };
    if let Some(user) = subject {
        tracing::info!(
            request_id = visit.origin.request_id,
            app = visit.app.name,
            rule = wish.rule.path,
            reason = refused.as_str(),
            subject = %user.sub,
            "refused"
        );
    }
    let answer = match (refused, subject) {
        (Refused::Unknown, _) if wish.rule.access == Access::SignedIn && navigation::is_navigation(visit.head) => {
            return Ok(("signing_in", sign_in(visit, wish.path_and_query).await?));
        }
        (Refused::Audience, _) => return Ok(refuse_token(visit)),
        // Another token would not help a client, nor another sign-in: it is the client that is refused.
        (Refused::Client, _) => {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The application does not take this client's tokens.");
            Answer::error(StatusCode::FORBIDDEN, &refusal)
        }
        (Refused::Scope(scopes), _) => {
            let refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks a scope.");
            Answer::challenge(&visit.app.name, Some(&refusal), scopes)
        }
        (Refused::Group, Some(user)) => visit.forbidden(user),
        (Refused::TooManyGroups, Some(user)) => {
            tracing::error!(subject = %user.sub, "the person's groups do not fit into a header; take them out of some");
            let refusal = Refusal::new(ErrorCode::ServerError, "The groups of this account do not fit into a header.");
            visit.refuse(StatusCode::INTERNAL_SERVER_ERROR, &refusal, Problem::Internal)
        }
        (Refused::Unknown | Refused::Group | Refused::TooManyGroups, _) => {
            Answer::challenge(&visit.app.name, None, &[])
        }
    };
    Ok((refused.as_str(), answer))
}

/// Sends a person to sign in and back to this very page.
async fn sign_in(visit: &Visit<'_>, target: &PathAndQuery) -> Result<Answer, StoreError> {
    match Wanted::parse(target.as_str()) {
        Some(wanted) => browser_login::begin(visit, &wanted, First::Needed).await,
        // Sending them back to another page than they wanted would be worse than saying so.
        None => Ok(visit.problem(StatusCode::URI_TOO_LONG, Problem::InvalidRequest)),
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
