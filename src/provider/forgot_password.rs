//! `/oauth/forgot-password`: a user requests a link to set a new password.
//!
//! The response and the work are the same for every address: one sealed mail is committed. Whether
//! an account has the address is checked when the mail is sent (`app::reset_lookup`).

use http::{HeaderValue, Method, StatusCode};

use crate::interaction;
use crate::interaction::{PARAMETER, RESUME, Waiting};
use crate::request::ProviderRequest as _;
use crate::sign_in::SIGN_IN;
use crate::visitor::has_home;
use crate::{known_browser, mailing};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::client::ClientId;
use sealgate_domain::mail::Mail;
use sealgate_domain::user::sign_in_key;
use sealgate_pages::{ForgotPasswordPage, Problem, html};
use sealgate_system::metrics::MailOutcome;

/// Name of the page, below `/oauth/`.
const PAGE: &str = "forgot-password";

/// Query parameter that selects the confirmation text.
const ASKED: &str = "asked";

/// Lifetime of the cookie that names the sign-in in which the link was requested, seconds. Covers
/// the delivery of the mail and the lifetime of the link.
const KNOWN_SECONDS: u64 = 60 * 60;

/// Returns the page's address, if the server sends mail.
pub(super) fn address(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<String> {
    ctx.sealgate.sends_mail().then(|| waiting.address(ctx, PAGE))
}

pub(super) async fn forgot_password_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if !ctx.sealgate.sends_mail() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method == Method::POST {
        return ask(ctx).await;
    }
    let query = ctx.query()?;
    if query.one(PARAMETER)?.is_none() {
        // The user opened the page without a sign-in, for instance from a bookmark.
        return Err(Failure::Elsewhere(ctx.sign_in_address("/account", &[])));
    }
    let waiting = Waiting::find(ctx).await?;
    let page = ForgotPasswordPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        asked: query.has(ASKED),
        sign_in: &waiting.address(ctx, SIGN_IN),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Queues a reset mail. The typed name is not parsed as an address; the lookup later finds an
/// account or none.
async fn ask(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find_at_any_time(ctx).await?;
    let form = waiting.form(ctx, PAGE)?;
    let waiting = waiting.in_time(ctx).await?;
    let account = sign_in_key(form.one("email")?.unwrap_or_default());
    let allowed = mailing::reset_may(ctx, &account, &known_browser::marks(ctx)).await;
    let (is_allowed, browser) = (allowed.is_some(), allowed.unwrap_or_default());
    let mail = mailing::new_mail(ctx, None, None, Mail::ResetWanted { account, browser })?;
    let store = &ctx.sealgate.store;
    if !is_allowed {
        store.add_no_mail(&mail).await?;
    } else if !store.add_mail(std::slice::from_ref(&mail)).await? {
        tracing::debug!("the outbox is full; dropped a password reset");
        ctx.sealgate.metrics.mail(mail.kind, MailOutcome::Dropped);
        store.add_no_mail(&mail).await?;
    }
    let next = format!("{}&{ASKED}=yes", waiting.address(ctx, PAGE));
    Ok(Response::see_other(&next).with_cookie(remember(ctx, &waiting)))
}

/// Returns the cookie that lets this browser return to the sign-in after opening the link.
fn remember(ctx: &RequestContext<'_>, waiting: &Waiting) -> HeaderValue {
    let value = format!("{}.{}", waiting.id, waiting.client.id);
    cookie::set_for(ctx.cookies.back, &value, ctx.cookies.secure, KNOWN_SECONDS)
}

/// Returns the address of the sign-in after a reset: the one in which the link was requested if
/// this browser has its cookie, otherwise a new one.
pub(super) fn way_back(ctx: &RequestContext<'_>) -> String {
    let known = ctx.cookie(ctx.cookies.back).and_then(|value| {
        let (id, client) = interaction::named(value);
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_id.then_some(id).zip(client)
    });
    let back = |(id, client): (&str, ClientId)| interaction::address(ctx, RESUME, id, &client);
    let page = if has_home(&ctx.sealgate.config) { "/" } else { "/account" };
    known.map_or_else(|| ctx.sign_in_address(page, &[]), back)
}
