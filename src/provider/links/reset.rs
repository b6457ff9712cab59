//! Pages to reset a forgotten password.
//!
//! On `/oauth/forgot-password` a user requests a mailed link. The response and the work are the
//! same for every address: one sealed mail is committed. Whether an account has the address is
//! checked only when the mail is sent (`app::mail_lookup`).
//!
//! On `/oauth/reset` the link sets a new password. The link proves only access to the user's
//! mailbox. It does not sign the user in, and the next sign-in still requires the second step. All
//! other access to the account is revoked.

use http::{HeaderValue, Method, StatusCode};

use crate::links;
use crate::links::{LinkOpened, LinkPage, MailedLink, mailing};
use crate::request::ProviderRequest as _;
use crate::sign_in::interaction::{PARAMETER, RESUME, Waiting};
use crate::sign_in::{SIGN_IN, guesses, interaction};
use crate::visitor::has_home;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{AccountLinks, AccountMark, LinkToken, RESET_LIFE, ResetLink};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, WaitingMail, partly_hidden_name};
use sealgate_domain::password_rules::Owner;
use sealgate_domain::user::{PasswordHash, User, sign_in_key};
use sealgate_pages::{ForgotPasswordPage, NewPasswordPage, NewPasswordProblem, Problem, ResetDonePage, html};
use sealgate_store::{Committed, Ended, Loaded, Revocation, Store, StoreError};
use sealgate_system::metrics::MailOutcome;

static PAGE: LinkPage = LinkPage { name: "reset", path: "/oauth/reset", over: Problem::ResetLink };

/// Path of the page shown after the reset.
const DONE: &str = "/oauth/reset/done";

/// Maximum attempts to update an account that other requests change at the same time.
const MAX_TRIES: usize = 8;

/// Account whose password the link may set.
struct Resettable {
    user: Loaded<User>,
    links: Loaded<AccountLinks>,
}

pub(crate) async fn reset_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let link = match PAGE.open(ctx)? {
        LinkOpened::Link(response) => return Ok(response),
        LinkOpened::Page(link) => link,
    };
    if ctx.head.method != Method::POST {
        let opened = find(ctx, &link).await?;
        return Ok(show(ctx, &link, &opened.user.value, StatusCode::OK, None));
    }
    let form = link.form(ctx)?;
    let opened = find(ctx, &link).await?;
    let user = &opened.user.value;
    let owner = Owner::of(user);
    let hash = match links::hash_new_password(ctx, form.one("new-password")?.unwrap_or_default(), &owner).await {
        Ok(hash) => hash,
        Err(NewPasswordProblem::Busy) => {
            let page = show(ctx, &link, user, StatusCode::SERVICE_UNAVAILABLE, Some(NewPasswordProblem::Busy));
            return Ok(page.retry_after(1));
        }
        Err(problem) => return Ok(show(ctx, &link, user, StatusCode::OK, Some(problem))),
    };
    set(ctx, &link, &hash).await?;
    let marked = guesses::learn_browser(ctx, link.link.subject, None).await;
    let response = Response::see_other(&ctx.path(DONE)).with_cookie(links::expired_link_cookie(ctx));
    Ok(marked.into_iter().map(|marked| marked.cookie).fold(response, Response::with_cookie))
}

/// Returns the account if the link is valid for it.
async fn find(ctx: &RequestContext<'_>, link: &MailedLink) -> Result<Resettable, Failure> {
    let (user, links) = link.account(ctx).await?;
    let is_good = links.value.reset(link.link.hash, &user.value, ctx.now).is_some();
    // The address was verified when the link was mailed. It must still be verified.
    if is_good && user.value.email_verified { Ok(Resettable { user, links }) } else { Err(link.over()) }
}

/// Sets the password and revokes all other access to the account.
///
/// One commit uses up the link, sets the password and opens the revocation. If the server crashes
/// before the commit, the link is still valid. If the server crashes after the commit, the store
/// finishes the revocation.
async fn set(ctx: &RequestContext<'_>, link: &MailedLink, hash: &PasswordHash) -> Result<(), Failure> {
    let subject = link.link.subject;
    let store = &ctx.sealgate.store;
    let revocation = store.new_revocation(subject, EndReason::PasswordChanged, ctx.now);
    for _ in 0..MAX_TRIES {
        let Resettable { user, links } = find(ctx, link).await?;
        let mut next_user = user.value.clone();
        // A user manager who chose the address may receive the link.
        next_user.set_password(hash.clone(), user.value.by_manager.email);
        let mut next_links = links.value.clone();
        next_links.take_back();
        let notice = notice(ctx, &next_user);
        let (people, links) = ((&user, &next_user), (Some(&links), &next_links));
        let written = store.put_user_and_links(people, links, notice.as_slice(), Some(&revocation)).await?;
        if written == Committed::Yes {
            let ended = end_the_rest(ctx, &revocation).await.unwrap_or_else(|error| {
                tracing::error!(%error, %subject, "cannot revoke everything after a password reset; the \
                    sweeper continues");
                Ended::default()
            });
            let event = ctx.event(AuditKind::PasswordReset, Actor::User).for_subject(subject);
            ctx.sealgate.audit.note(event.with_detail(ended.to_string()));
            return Ok(());
        }
    }
    Err(Failure::Unavailable)
}

/// Returns whether a link to set a new password would work for this user and can be mailed.
pub(crate) fn may_be_mailed(ctx: &RequestContext<'_>, user: &User) -> bool {
    ctx.sealgate.sends_mail() && user.is_enabled() && user.email_verified && user.password.is_some()
}

/// Mails the user a link to set a new password, on behalf of an administrator.
///
/// The mail is in the language of the user's invitation, or in the default language.
///
/// Returns whether the mail is queued: not if the outbox is full. The commit obeys the rules of `store`.
///
/// # Errors
/// When the store fails or refuses the commit.
pub(crate) async fn mail_link(ctx: &RequestContext<'_>, store: &Store, user: &User) -> Result<bool, StoreError> {
    if !ctx.sealgate.has_room_for(MailKind::Reset) {
        return Ok(false);
    }
    let links = store.account_links(user.sub).await?;
    let invitation = links.and_then(|links| links.value.invitation);
    let language = invitation.and_then(|invitation| invitation.language);
    let (link, token) = LinkToken::new(user.sub, ctx.random());
    let message = MailMessage {
        to: user.email.clone(),
        language: language.unwrap_or(ctx.sealgate.config.pages.default_language),
        at: ctx.now,
        // The user must not see the administrator's browser and network.
        origin: None,
        mail: Mail::Reset { token: token.expose().to_owned() },
    };
    let id = MailId::from_bytes(ctx.random());
    let mail = store.new_mail((id, ctx.random()), Some(user.sub), &message, ctx.now).map_err(StoreError::from)?;
    let link =
        ResetLink { hash: link.hash, account: AccountMark::from_user(user), expires_at: ctx.now.plus(RESET_LIFE) };
    store.change_account_links(user.sub, &[mail], |links| links.add_reset(link.clone(), ctx.now)).await?;
    Ok(true)
}

async fn end_the_rest(ctx: &RequestContext<'_>, revocation: &Revocation) -> Result<Ended, StoreError> {
    ctx.sealgate.store.forget_browsers(revocation.subject, None).await?;
    ctx.sealgate.store.carry_out(revocation).await
}

/// Returns the mail that notifies the user, or `None` if it cannot be sent. The password is set in
/// both cases.
fn notice(ctx: &RequestContext<'_>, user: &User) -> Option<WaitingMail> {
    let email = user.email.as_ref()?;
    let mail = Mail::Notice { notice: Notice::PasswordReset, count: 1 };
    if !ctx.sealgate.sends_mail() || !ctx.sealgate.has_room_for(MailKind::Notice) {
        tracing::warn!(subject = %user.sub, "a user is not notified of a password reset: mail is off, or too \
            many messages are queued");
        return None;
    }
    mailing::new_mail(ctx, Some(user.sub), Some(email), mail).ok()
}

fn show(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    user: &User,
    status: StatusCode,
    problem: Option<NewPasswordProblem>,
) -> Response {
    let page = NewPasswordPage {
        frame: ctx.frame(),
        action: &PAGE.address(ctx),
        csrf: &link.csrf(),
        account: &partly_hidden_name(user),
        username: user.sign_in_name(),
        problem,
    };
    Response::page(status, html(&page), None)
}

/// Handles the page that explains how to continue. The page is the same for every account.
pub(crate) fn done(ctx: &RequestContext<'_>) -> Response {
    let page = ResetDonePage { frame: ctx.frame(), sign_in: &sign_in_after_reset(ctx) };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Name of the page for a forgotten password, below `/oauth/`.
const FORGOT_PASSWORD: &str = "forgot-password";

/// Query parameter of the page that confirms the request for a link.
const ASKED: &str = "asked";

/// Lifetime of the cookie that names the sign-in in which the link was requested, in seconds. It
/// covers the delivery of the mail and the lifetime of the link.
const RETURN_COOKIE_SECONDS: u64 = 60 * 60;

/// Returns the address of the page for a forgotten password, if the server sends mail.
pub(crate) fn address(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<String> {
    ctx.sealgate.sends_mail().then(|| waiting.address(ctx, FORGOT_PASSWORD))
}

pub(crate) async fn forgot_password_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if !ctx.sealgate.sends_mail() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method == Method::POST {
        return ask(ctx).await;
    }
    let query = ctx.query()?;
    if query.one(PARAMETER)?.is_none() {
        // The user opened the page without a sign-in, for instance from a bookmark.
        return Err(Failure::Redirect(ctx.sign_in_address("/account", &[])));
    }
    let waiting = Waiting::find(ctx).await?;
    let page = ForgotPasswordPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, FORGOT_PASSWORD),
        csrf: &waiting.csrf(FORGOT_PASSWORD),
        is_requested: query.has(ASKED),
        sign_in: &waiting.address(ctx, SIGN_IN),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Queues a reset mail.
///
/// The typed name is not parsed. The account is looked up by the hash of this name when the mail is
/// sent.
async fn ask(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find_at_any_time(ctx).await?;
    let form = waiting.form(ctx, FORGOT_PASSWORD)?;
    let waiting = waiting.in_time(ctx).await?;
    let account = sign_in_key(form.one("email")?.unwrap_or_default());
    let allowed = mailing::charge_reset_mail(ctx, &account, &guesses::browser_marks(ctx)).await;
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
    let next = format!("{}&{ASKED}=yes", waiting.address(ctx, FORGOT_PASSWORD));
    Ok(Response::see_other(&next).with_cookie(remember(ctx, &waiting)))
}

/// Returns the cookie that lets this browser return to the sign-in after opening the link.
fn remember(ctx: &RequestContext<'_>, waiting: &Waiting) -> HeaderValue {
    let value = format!("{}.{}", waiting.id, waiting.client.id);
    cookie::set_for(ctx.cookies.back, &value, ctx.cookies.secure, RETURN_COOKIE_SECONDS)
}

/// Returns the address of the sign-in after a reset.
///
/// If this browser requested the link during a sign-in and still has the cookie, that sign-in
/// continues. Otherwise a new sign-in begins.
pub(crate) fn sign_in_after_reset(ctx: &RequestContext<'_>) -> String {
    let known = ctx.cookie(ctx.cookies.back).and_then(|value| {
        let (id, client) = interaction::split_parameter(value);
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_id.then_some(id).zip(client)
    });
    let back = |(id, client): (&str, ClientId)| interaction::address(ctx, RESUME, id, &client);
    let page = if has_home(&ctx.sealgate.config) { "/" } else { "/account" };
    known.map_or_else(|| ctx.sign_in_address(page, &[]), back)
}
