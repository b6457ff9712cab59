//! Sign-outs of users of OpenID providers, in both directions.
//!
//! `POST /oauth/upstream/NAME/logout` (OpenID Connect Back-Channel Logout 1.0 §2.5–2.8): a provider
//! ends sign-ins of its users. The token authenticates the provider. Only refused tokens are charged
//! to the sender, so that a provider can end any number of sessions at once.
//!
//! After a sign-out here, the browser visits the provider (OpenID Connect RP-Initiated Logout 1.0) and
//! returns to `/oauth/upstream/NAME/signed-out`. A cookie keeps where the sign-out then continues. It
//! may be forged, so the destination is validated again.

use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::protocol::logout;
use sealgate_core::password::QueueKey;
use sealgate_core::sources::OpenIdSource;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::Actor;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::oauth::logout::AfterLogout;
use sealgate_domain::secret::{Secret, base64url, constant_time_eq, from_base64url};
use sealgate_domain::session::Session;
use sealgate_domain::source::SourceName;
use sealgate_pages::{LeavePage, Problem, html};

const BUCKET: Bucket = Bucket::Revoke;

/// Time in which the browser must return from the provider, in seconds.
const DEPARTURE_SECONDS: u64 = 600;

/// Maximum length of the cookie with the destination. Browsers ignore longer cookies.
const MAX_DEPARTURE_LENGTH: usize = 3500;

/// Continuation of a sign-out after the provider. Kept in a cookie.
#[derive(Serialize, Deserialize)]
struct Departure {
    /// Parameter `state` of the request to the provider.
    state: String,
    client: Option<ClientId>,
    after: Option<AfterLogout>,
}

/// What remains of a sign-out after the session here has ended.
pub(crate) enum Onward {
    /// The browser signs out at the provider.
    Provider { page: Response, cookie: Option<HeaderValue> },
    /// The user is still signed in at this provider.
    StillSignedIn(SourceName),
    /// There is no session at a provider.
    Nothing,
}

/// Returns where the users of an ended session sign out at their provider. If the users of several
/// providers were signed in, only the selected user's session ends there.
pub(crate) async fn onward(
    ctx: &RequestContext<'_>,
    session: &Session,
    client: Option<&Client>,
    after: Option<&AfterLogout>,
) -> Onward {
    let sources = &ctx.sealgate.sources;
    let found = session.sign_ins.iter().find_map(|sign_in| {
        let source = sources.upstream(&sign_in.upstream.as_ref()?.source)?;
        Some((sign_in, source))
    });
    let Some((sign_in, source)) = found else { return Onward::Nothing };
    let state = base64url(&ctx.random::<32>());
    let return_to = format!("{}{}", ctx.sealgate.config.issuer.as_str(), source.settings().signed_out_path());
    let secret = Secret::new(state.as_str());
    let Some(url) = ctx.sealgate.upstream_sign_out_url(source, sign_in, &return_to, &secret).await else {
        return Onward::StillSignedIn(source.name().clone());
    };
    let label = &source.settings().label;
    let page = LeavePage { frame: ctx.frame(), label, url: &url, is_sign_out: true };
    let page = Response::page(StatusCode::OK, html(&page), None);
    let departure = Departure { state, client: client.map(|client| client.id.clone()), after: after.cloned() };
    let value = serde_json::to_vec(&departure).map(|bytes| base64url(&bytes)).unwrap_or_default();
    // Without the cookie, the sign-out ends at the page of this server.
    let cookie = (1..=MAX_DEPARTURE_LENGTH)
        .contains(&value.len())
        .then(|| cookie::set_for(ctx.cookies.departure, &value, ctx.cookies.secure, DEPARTURE_SECONDS));
    Onward::Provider { page, cookie }
}

/// Handles the return of a browser from a provider after a sign-out.
pub(crate) async fn returned(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if source(ctx).is_none() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    let query = ctx.query()?;
    let state = query.one("state")?.unwrap_or_default();
    let departure = ctx.cookie(ctx.cookies.departure).and_then(from_base64url);
    let departure = departure.and_then(|bytes| serde_json::from_slice::<Departure>(&bytes).ok());
    let Some(departure) = departure.filter(|known| constant_time_eq(&known.state, state)) else {
        return Ok(Response::redirect(StatusCode::FOUND, &logout::signed_out_address(ctx, None)));
    };
    let client = logout::client(ctx, departure.client.as_ref()).await?;
    let after = departure.after.as_ref().zip(client.as_ref());
    let after = after.and_then(|(after, client)| AfterLogout::resolve(after.uri(), after.state(), client));
    let location = after.map_or_else(|| logout::signed_out_address(ctx, client.as_ref()), |after| after.location());
    let response = Response::redirect(StatusCode::FOUND, &location);
    Ok(response.with_cookie(cookie::expire(ctx.cookies.departure, ctx.cookies.secure)))
}

/// Handles a logout token.
pub(crate) async fn backchannel(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let key = LimitKey::address(BUCKET.name(), ctx.origin.address);
    ctx.require_within(ctx.limit(BUCKET), BUCKET, &key)?;
    let Some(source) = source(ctx) else {
        ctx.charge_address(BUCKET).await?;
        let refusal = Refusal::new(ErrorCode::NotFound, "There is no upstream with this name.");
        return Err(Failure::json(StatusCode::NOT_FOUND, refusal));
    };
    let accepted = match token(ctx) {
        Ok(token) => {
            let sender = QueueKey::for_address(ctx.origin.address);
            let event = |kind| ctx.event(kind, Actor::Server);
            let ended = ctx.sealgate.end_by_logout_token(source, sender, &token, event).await?;
            ended.map_err(|_| Refusal::invalid_request("The logout token was not accepted."))
        }
        Err(refusal) => Err(refusal),
    };
    match accepted {
        Ok(()) => Ok(Response::empty(StatusCode::OK)),
        Err(refusal) => {
            ctx.charge_address(BUCKET).await?;
            Err(Failure::json(StatusCode::BAD_REQUEST, refusal))
        }
    }
}

fn token(ctx: &RequestContext<'_>) -> Result<String, Refusal> {
    let form = ctx.form()?;
    let missing = Refusal::invalid_request("The parameter logout_token is missing.");
    form.required("logout_token", missing).map(str::to_owned)
}

/// Returns the provider that the path names.
pub(crate) fn source<'c>(ctx: &'c RequestContext<'_>) -> Option<&'c OpenIdSource> {
    let name = ctx.head.uri.path().rsplit('/').nth(1).and_then(SourceName::parse)?;
    ctx.sealgate.sources.upstream(&name).map(|source| &**source)
}
