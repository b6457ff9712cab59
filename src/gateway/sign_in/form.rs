//! Forms that a user submits after the session has expired.
//!
//! The form is stored encrypted while the user signs in. Then a page shows the form and the
//! account. Its button submits the form to its target as an ordinary request. The form is never
//! submitted automatically, because another user may have signed in, or too much time may have
//! passed.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode};

use crate::policy::Credential;
use crate::request::{AppRequest, Sessions};
use crate::session;
use crate::sign_in::login::{Purpose, SignInRequest};
use crate::sign_in::replay::Replay;
use crate::sign_in::return_path::ReturnPath;
use crate::sign_in::{login, replay};
use sealgate_core::web::context::Body;
use sealgate_core::web::cookie::SignedOutMarker;
use sealgate_core::web::response::Response;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionCookie;
use sealgate_domain::user::Subject;
use sealgate_edge::navigation;
use sealgate_pages::{KeptFormPage, Problem, SendAgainPage, html};
use sealgate_store::{Form, MAX_FORM_BYTES, StoreError};

/// Returns whether the form can be stored, according to the head of the request.
///
/// The form must be short. A page of the same host must submit it by navigation, so that the
/// browser shows the response as a page.
pub(crate) fn is_keepable(ctx: &AppRequest<'_>) -> bool {
    let head = ctx.head;
    let own = ctx.public_origin();
    !matches!(ctx.body, Body::Away)
        && ctx.sealgate.store.keeps_forms()
        && is_urlencoded(head)
        && navigation::is_own_form(head, &own)
}

fn is_urlencoded(head: &Parts) -> bool {
    let one = |name| {
        let mut values = head.headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
    };
    let kind = one(CONTENT_TYPE).and_then(|kind| kind.split(|byte| *byte == b';').next()).unwrap_or_default();
    let length = one(CONTENT_LENGTH).and_then(|length| str::from_utf8(length).ok()?.parse::<usize>().ok());
    kind.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
        && length.is_some_and(|length| length <= MAX_FORM_BYTES)
        && !head.headers.contains_key(CONTENT_ENCODING)
        && !head.headers.contains_key(TRANSFER_ENCODING)
}

/// Stores the form and redirects its user to sign in. `None` if the form cannot be stored.
///
/// # Errors
/// If the store fails, or if too many sign-ins are pending.
pub(crate) async fn keep_and_sign_in(
    ctx: &AppRequest<'_>,
    target: &PathAndQuery,
    body: &[u8],
    credential: &Credential,
    demand: SignInRequest<'_>,
) -> Result<Option<Response>, StoreError> {
    let whose = match credential.user() {
        Some(user) => Some(user.sub),
        None => match form_owner(ctx).await? {
            FormOwner::Of(subject) => Some(subject),
            FormOwner::NoUser => None,
            FormOwner::Unknown => return Ok(None),
        },
    };
    match form(ctx, target, body, whose) {
        Some(form) => login::begin_for(ctx, Purpose::NewForm(form), demand).await.map(Some),
        None => Ok(None),
    }
}

/// Stores a form whose user has signed in again in another tab in the meantime. Redirects to the
/// page that shows the form.
///
/// The body has already been read, so the request can no longer be forwarded.
pub(crate) async fn keep_and_show(
    ctx: &AppRequest<'_>,
    target: &PathAndQuery,
    body: &[u8],
    credential: &Credential,
) -> Result<Response, StoreError> {
    let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    let form = form(ctx, target, body, credential.user().map(|user| user.sub));
    let kept = match form {
        Some(form) => replay::keep(ctx, &browser, &form).await?,
        None => None,
    };
    let Some(id) = kept else { return Ok(ctx.problem(StatusCode::CONFLICT, Problem::FormNotKept)) };
    let answer = Response::redirect(StatusCode::SEE_OTHER, &replay::address(id.expose()));
    Ok(match new_cookie {
        Some(cookie) => answer.with_cookie(cookie),
        None => answer,
    })
}

/// Shows a stored form, once.
///
/// A request that may not come from the user, such as the request of a link scanner, gets a page
/// with a button. So such a request does not use up the form.
///
/// # Errors
/// If the store fails, or if too many sign-ins are pending.
pub(crate) async fn show(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    let query = ctx.query().unwrap_or_default();
    let gone = || ctx.problem(StatusCode::GONE, Problem::FormNotKept);
    let (Some(id), Some(browser)) = (query.one("id").ok().flatten(), ctx.cookie(ctx.cookies.browser)) else {
        return Ok(gone());
    };
    if !navigation::is_act_of_user(ctx.head) {
        let page = KeptFormPage { frame: ctx.frame(), app: ctx.app.called(), action: &replay::address(id) };
        return Ok(Response::html(StatusCode::OK, html(&page), Some("'self'")));
    }
    let Some(signed_in) = session::find(ctx).await? else {
        return login::begin_for(ctx, Purpose::KeptForm(id), SignInRequest::any(login::First::Needed)).await;
    };
    let (browser, id) = (SecretHash::for_secret(browser.as_bytes()), SecretHash::for_secret(id.as_bytes()));
    let taken = match ctx.sealgate.store.take_form(&browser, &id, ctx.now).await {
        Err(StoreError::Sealed(error)) => {
            tracing::warn!(request_id = ctx.origin.request_id, %error, "cannot decrypt a saved form");
            None
        }
        taken => taken?,
    };
    let Some(form) = taken.filter(|form| form.app == ctx.app.name) else { return Ok(gone()) };
    if form.user.is_some_and(|user| user != signed_in.user.sub) {
        return Ok(ctx.problem(StatusCode::FORBIDDEN, Problem::FormOfAnother));
    }
    let Some(replay) = Replay::from_body(&form.body) else { return Ok(gone()) };
    let home = ReturnPath::home();
    let page = SendAgainPage {
        frame: ctx.frame(),
        app: &form.app,
        account: signed_in.user.sign_in_name(),
        target: &form.target,
        charset: replay.charset,
        fields: &replay.fields,
        instead: home.as_str(),
    };
    Ok(AppRequest::page_with_form(html(&page)))
}

/// Returns the form to store. `None` if a browser would not submit exactly the same bytes again.
fn form(ctx: &AppRequest<'_>, target: &PathAndQuery, body: &[u8], user: Option<Subject>) -> Option<Form> {
    let wanted = ReturnPath::parse(target.as_str())?;
    // A form submits to a URL, so URL parsing must not change the target.
    let base = url::Url::parse("https://application.invalid/").ok()?;
    let read = base.join(wanted.as_str()).ok()?;
    let exact = &read[url::Position::BeforePath..] == wanted.as_str();
    Replay::from_body(body).filter(|_| exact && body.len() <= MAX_FORM_BYTES)?;
    Some(Form { user, app: ctx.app.name.clone(), target: wanted.as_str().to_owned(), body: body.to_vec() })
}

/// Owner of a form: the user whose session has ended.
enum FormOwner {
    Of(Subject),
    /// No user was signed in.
    NoUser,
    /// The user cannot be determined.
    Unknown,
}

async fn form_owner(ctx: &AppRequest<'_>) -> Result<FormOwner, StoreError> {
    let Some(cookie) = ctx.cookie(ctx.cookies.session) else {
        // If a page was still open when its user signed out, the form of the page belongs to that
        // user.
        return Ok(match ctx.cookies.signed_out_marker(&ctx.head.headers) {
            SignedOutMarker::NoUser => FormOwner::NoUser,
            SignedOutMarker::User(subject) => FormOwner::Of(subject),
            SignedOutMarker::Unknown => FormOwner::Unknown,
        });
    };
    let Some(cookie) = SessionCookie::parse(cookie) else { return Ok(FormOwner::Unknown) };
    let store = &ctx.sealgate.store;
    let subject = match ctx.sessions {
        Sessions::OfApp => {
            let own = store.app_session(cookie.id).await?.map(|found| found.value);
            own.filter(|own| session::is_of_cookie(ctx, own, &cookie)).map(|own| own.subject)
        }
        Sessions::OfProvider => {
            let session = store.session(cookie.id).await?.map(|found| found.value);
            let session = session.filter(|session| session.accepts(&cookie) || session.has_replaced(&cookie, ctx.now));
            session.and_then(|session| session.current().map(|sign_in| sign_in.subject))
        }
    };
    Ok(subject.map_or(FormOwner::Unknown, FormOwner::Of))
}
