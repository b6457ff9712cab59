//! `/oauth/reset`: sets a new password with a mailed link.
//!
//! The link proves only access to the user's mailbox. It does not sign the user in, and the second
//! step is still required at the next sign-in. Everything else that opens the account ends.

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};

use crate::mailed_link;
use crate::mailed_link::{LinkOpened, LinkPage, MailedLink};
use crate::request::ProviderRequest as _;
use crate::{forgot_password, known_browser, mailing, new_password};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{AccountLinks, AccountMark, LinkToken, RESET_LIFE, ResetLink};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, WaitingMail, partly_hidden};
use sealgate_domain::password_rules::Owner;
use sealgate_domain::user::{PasswordHash, User};
use sealgate_pages::{NewPasswordPage, NewPasswordProblem, Problem, ResetDonePage, html};
use sealgate_store::{Committed, Ended, Loaded, Revocation, StoreError};

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

pub(super) async fn reset_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let link = match PAGE.open(ctx)? {
        LinkOpened::Link(response) => return Ok(response),
        LinkOpened::Page(link) => link,
    };
    if ctx.head.method != Method::POST {
        let found = find(ctx, &link).await?;
        return Ok(show(ctx, &link, &found.user.value, StatusCode::OK, None));
    }
    let form = link.form(ctx)?;
    let found = find(ctx, &link).await?;
    let user = &found.user.value;
    let owner = Owner { email: &user.email, username: user.username.as_ref(), name: &user.name };
    let hash = match new_password::hashed(ctx, form.one("new-password")?.unwrap_or_default(), &owner).await {
        Ok(hash) => hash,
        Err(NewPasswordProblem::Busy) => {
            let page = show(ctx, &link, user, StatusCode::SERVICE_UNAVAILABLE, Some(NewPasswordProblem::Busy));
            return Ok(page.with(RETRY_AFTER, "1"));
        }
        Err(problem) => return Ok(show(ctx, &link, user, StatusCode::OK, Some(problem))),
    };
    set(ctx, &link, &hash).await?;
    let marked = known_browser::learn(ctx, link.link.subject, None).await;
    let response = Response::see_other(&ctx.path(DONE)).with_cookie(mailed_link::used(ctx));
    Ok(marked.into_iter().map(|marked| marked.cookie).fold(response, Response::with_cookie))
}

/// Returns the account if the link is valid for it.
async fn find(ctx: &RequestContext<'_>, link: &MailedLink) -> Result<Resettable, Failure> {
    let (user, links) = link.account(ctx).await?;
    let is_good = links.value.reset(link.link.hash, &user.value, ctx.now).is_some();
    // The link was sent to this address while it was verified.
    if is_good && user.value.email_verified { Ok(Resettable { user, links }) } else { Err(link.over()) }
}

/// Sets the password and ends everything else that opens the account.
///
/// One commit uses the link up, sets the password and opens the revocation. A crash before it
/// leaves the link valid; after it, no old access remains.
async fn set(ctx: &RequestContext<'_>, link: &MailedLink, hash: &PasswordHash) -> Result<(), Failure> {
    let subject = link.link.subject;
    let store = &ctx.sealgate.store;
    let revocation = store.new_revocation(subject, EndReason::PasswordChanged, ctx.now);
    for _ in 0..MAX_TRIES {
        let Resettable { user, links } = find(ctx, link).await?;
        let next_user = User { password: Some(hash.clone()), ..user.value.clone() };
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
            let event = ctx.event(AuditKind::PasswordReset, Actor::Person).of(subject);
            ctx.sealgate.audit.note(event.with_detail(ended.to_string()));
            return Ok(());
        }
    }
    Err(Failure::Unavailable)
}

/// Returns whether a link to set a new password would work for this user and can be mailed.
pub(super) fn may_be_mailed(ctx: &RequestContext<'_>, user: &User) -> bool {
    ctx.sealgate.sends_mail() && user.is_enabled() && user.email_verified && user.password.is_some()
}

/// Mails the user a link to set a new password, on behalf of an administrator.
///
/// The language is that of the user's invitation, or the default one.
///
/// # Errors
/// [`Failure::Unavailable`] when the outbox is full; when the store fails.
pub(super) async fn mail_link(ctx: &RequestContext<'_>, user: &User) -> Result<(), Failure> {
    let store = &ctx.sealgate.store;
    if !ctx.sealgate.has_room_for(MailKind::Reset) {
        return Err(Failure::Unavailable);
    }
    let links = store.account_links(user.sub).await?;
    let invitation = links.and_then(|links| links.value.invitation);
    let language = invitation.and_then(|invitation| invitation.language);
    let (link, token) = LinkToken::new(user.sub, ctx.random());
    let message = MailMessage {
        to: Some(user.email.clone()),
        language: language.unwrap_or(ctx.sealgate.config.pages.default_language),
        at: ctx.now,
        // The administrator's browser and network are not for the user.
        origin: None,
        mail: Mail::Reset { token: token.expose().to_owned() },
    };
    let id = MailId::from_bytes(ctx.random());
    let mail = store.new_mail((id, ctx.random()), Some(user.sub), &message, ctx.now).map_err(StoreError::from)?;
    let link = ResetLink { hash: link.hash, account: AccountMark::of(user), expires_at: ctx.now.plus(RESET_LIFE) };
    store.change_account_links(user.sub, &[mail], |links| links.add_reset(link.clone(), ctx.now)).await?;
    Ok(())
}

async fn end_the_rest(ctx: &RequestContext<'_>, revocation: &Revocation) -> Result<Ended, StoreError> {
    ctx.sealgate.store.forget_browsers(revocation.subject, None).await?;
    ctx.sealgate.store.carry_out(revocation).await
}

/// Returns the notification mail to the user. The password is set even if none can be sent.
fn notice(ctx: &RequestContext<'_>, user: &User) -> Option<WaitingMail> {
    let mail = Mail::Notice { notice: Notice::PasswordReset, count: 1 };
    if !ctx.sealgate.sends_mail() || !ctx.sealgate.has_room_for(MailKind::Notice) {
        tracing::warn!(subject = %user.sub, "a user is not notified of a password reset: mail is off, or too \
            many messages are queued");
        return None;
    }
    mailing::new_mail(ctx, Some(user.sub), Some(&user.email), mail).ok()
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
        account: &partly_hidden(&user.email),
        username: user.email.as_str(),
        problem,
    };
    Response::page(status, html(&page), None)
}

/// Answers the page that explains how to continue. It is the same for every account.
pub(super) fn done(ctx: &RequestContext<'_>) -> Response {
    let page = ResetDonePage { frame: ctx.frame(), sign_in: &forgot_password::way_back(ctx) };
    Response::page(StatusCode::OK, html(&page), None)
}
