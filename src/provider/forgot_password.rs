//! `/oauth/forgot-password`: somebody asks for a link by which they set another password. The answer is the same for everybody,
//! and so is the work: one mail is committed, sealed, and whose address it is, if anybody's, is looked up when its turn comes
//! (`app::reset_lookup`).

use http::{HeaderValue, Method, StatusCode};

use crate::domain::client::ClientId;
use crate::domain::mail::Mail;
use crate::domain::user::sign_in_key;
use crate::metrics::MailOutcome;
use crate::page::{ForgotPasswordPage, Problem, html};
use crate::provider::interaction::{self, PARAMETER, RESUME, Waiting};
use crate::provider::sign_in::SIGN_IN;
use crate::provider::visitor::has_home;
use crate::provider::{known_browser, mailing};
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;
use crate::web::response::Response;

/// The page, as the addresses of the sign-in name it.
const PAGE: &str = "forgot-password";

/// The parameter of the page that says what to do next.
const ASKED: &str = "asked";

/// How long a browser knows the sign-in in which the link was asked for, seconds: as long as the mail may take and the link is
/// good.
const KNOWN_SECONDS: u64 = 60 * 60;

/// The page's address, where there is one.
pub(super) fn address(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<String> {
    ctx.sealgate.sends_mail().then(|| waiting.address(ctx, PAGE))
}

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if !ctx.sealgate.sends_mail() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method == Method::POST {
        return ask(ctx).await;
    }
    let query = ctx.query()?;
    if query.one(PARAMETER)?.is_none() {
        // A bookmark, for instance.
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

/// What was typed is not even read as an address: it is an account's, or nobody's.
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
        tracing::warn!("the outbox is full: a reset that was asked for is dropped");
        ctx.sealgate.metrics.mail(mail.kind, MailOutcome::Dropped);
        store.add_no_mail(&mail).await?;
    }
    let next = format!("{}&{ASKED}=yes", waiting.address(ctx, PAGE));
    Ok(Response::see_other(&next).with_cookie(remember(ctx, &waiting)))
}

/// The cookie by which this browser finds back to the sign-in, if the link is opened in it.
fn remember(ctx: &RequestContext<'_>, waiting: &Waiting) -> HeaderValue {
    let value = format!("{}.{}", waiting.id, waiting.client.id);
    cookie::set_for(ctx.cookies.back, &value, ctx.cookies.secure, KNOWN_SECONDS)
}

/// Where to sign in after a reset: in the sign-in in which it was asked for, where this browser knows it.
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
