//! `/account/address`: verification of the account's e-mail address. `/account/address/new`: change
//! of the address, or addition of one to an account without an address.
//!
//! The server mails a code to the address. The user types the code in the browser that requested
//! it. The address changes only after the new one is verified in this way.
//!
//! The page does not reveal whether another account has the new address. The request does not look
//! up the address, and the response is the same in both cases. Only the e-mail differs.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::links::mailing;
use crate::links::mailing::AddressFault;
use crate::request::ProviderRequest as _;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{
    AccountLinks, AccountMark, AddressUndo, CODE_LIFE, CodeVerdict, LinkToken, PendingVerification,
};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::limiter::{LimitKey, Rule};
use sealgate_domain::mail::{CodePurpose, Mail, MailKind, Notice, WaitingMail, partly_hidden};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::{Email, User};
use sealgate_pages::{
    AddressPage, AddressProblem, Done, NewAddressPage, NewAddressProblem, Problem, WaitingCode, html,
};
use sealgate_store::Committed;

const PAGE: &str = "/account/address";
const NEW: &str = "/account/address/new";

/// Maximum age of the sign-in when the user opens the form.
const MAX_AGE_TO_OPEN: Duration = Duration::from_mins(15);
/// Maximum age of the sign-in when the user sends the form.
///
/// This limit is longer than [`MAX_AGE_TO_OPEN`], so that a user who opened the form in time does
/// not lose the input.
const MAX_AGE_TO_SEND: Duration = Duration::from_mins(30);

/// Limits on the codes that one account may request.
///
/// Each code allows five attempts, so an attacker cannot guess one in practice.
const CODES: [(&str, Rule); 2] = [
    ("code_quarter", Rule { limit: 3, window: Duration::from_mins(15) }),
    ("code_day", Rule { limit: 10, window: Duration::from_hours(24) }),
];

/// Maximum number of attempts to commit a code, if other requests change the account at the same
/// time.
const MAX_CONFLICTS: usize = 8;

pub(super) async fn address_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_mail(ctx)?;
    let visitor = Visitor::with_factor(ctx, PAGE).await?;
    require_local(&visitor)?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor, None).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    if form.has("verify") {
        return match send_to_own(ctx, &visitor).await? {
            Ok(()) => Ok(Response::see_other(&ctx.path(PAGE))),
            Err(problem) => show(ctx, &visitor, Some(problem)).await,
        };
    }
    if form.has("cancel") {
        ctx.sealgate.store.change_account_links(visitor.user.sub, &[], |links| links.verification = None).await?;
        return Ok(Response::see_other(&ctx.path(PAGE)));
    }
    match take_code(ctx, &visitor, form.one("code")?.unwrap_or_default()).await? {
        Ok(done) => Ok(Response::see_other(&visitor::done(ctx, PAGE, done))),
        Err(problem) => {
            // Reload the account, because another request may have changed it.
            let visitor = Visitor::with_factor(ctx, PAGE).await?;
            show(ctx, &visitor, Some(problem)).await
        }
    }
}

/// Handles `/account/address/new`.
pub(super) async fn change(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_mail(ctx)?;
    if ctx.head.method != Method::POST {
        let visitor = Visitor::recent(ctx, NEW, MAX_AGE_TO_OPEN).await?;
        require_local(&visitor)?;
        return Ok(show_change(ctx, &visitor, "", None));
    }
    let visitor = Visitor::recent(ctx, NEW, MAX_AGE_TO_SEND).await?;
    require_local(&visitor)?;
    let form = visitor.form(ctx, NEW)?;
    let typed = form.one("address")?.unwrap_or_default().trim();
    let outcome = match new_address(ctx, typed, &visitor.user) {
        Ok(address) => send_to_new(ctx, &visitor, address).await?,
        Err(problem) => Err(problem),
    };
    Ok(match outcome {
        Ok(()) => Response::see_other(&ctx.path(PAGE)),
        Err(problem) => show_change(ctx, &visitor, typed, Some(problem)),
    })
}

/// Returns 404 if the server sends no mail. In that case, only an administrator can change
/// addresses.
fn require_mail(ctx: &RequestContext<'_>) -> Result<(), Failure> {
    if ctx.sealgate.sends_mail() { Ok(()) } else { Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound)) }
}

/// Returns 404 for a user whose address a directory keeps.
fn require_local(visitor: &Visitor) -> Result<(), Failure> {
    if visitor.user.source.is_none() { Ok(()) } else { Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound)) }
}

/// Returns the typed address if mail can be sent to it, if it differs from the current address, and
/// if its domain is allowed.
///
/// The allowed domains for registration also apply here. Otherwise a user could register with an
/// allowed domain and change the address afterwards.
fn new_address(ctx: &RequestContext<'_>, typed: &str, user: &User) -> Result<Email, NewAddressProblem> {
    let address = mailing::mailable(typed).map_err(|fault| match fault {
        AddressFault::NotAscii => NewAddressProblem::NotAscii,
        AddressFault::Malformed => NewAddressProblem::Malformed,
    })?;
    let registration = &ctx.sealgate.config.registration_of_people;
    match () {
        () if user.email.as_ref() == Some(&address) => Err(NewAddressProblem::Unchanged),
        () if registration.is_open() && !registration.takes(&address) => Err(NewAddressProblem::Domain),
        () => Ok(address),
    }
}

async fn send_to_own(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Result<(), AddressProblem>, Failure> {
    let user = &visitor.user;
    // The page offers this only to a user with an address. An administrator may have removed it.
    let Some(email) = &user.email else { return Ok(Err(AddressProblem::Over)) };
    if MailAddress::from_email(email).is_none() {
        return Ok(Err(AddressProblem::Undeliverable));
    }
    // The user has already verified the address in another tab.
    if user.email_verified {
        return Ok(Ok(()));
    }
    if !may_send(ctx, user).await {
        return Ok(Err(AddressProblem::TooMany));
    }
    if !ctx.sealgate.has_room_for(MailKind::VerificationCode) {
        return Ok(Err(AddressProblem::Busy));
    }
    let code = mailing::new_code(ctx);
    let pending = pending(ctx, visitor, &code, (email, None))?;
    let mail = Mail::VerificationCode { code, purpose: CodePurpose::Address };
    begin(ctx, user, pending, mailing::new_mail(ctx, Some(user.sub), Some(email), mail)?).await?;
    Ok(Ok(()))
}

/// Queues the e-mail with the code for a new address.
///
/// The outbox looks up the address when it sends the e-mail. If another account has the address,
/// its user receives a notification instead of the code. The response does not reveal that.
async fn send_to_new(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    address: Email,
) -> Result<Result<(), NewAddressProblem>, Failure> {
    let user = &visitor.user;
    // The address may belong to anyone, so the limits on e-mail to strangers apply as well.
    if !may_send(ctx, user).await || !mailing::allows_unauthenticated_mail(ctx, &address).await {
        return Ok(Err(NewAddressProblem::TooMany));
    }
    if !ctx.sealgate.has_room_for(MailKind::AddressWanted) {
        return Ok(Err(NewAddressProblem::Busy));
    }
    let code = mailing::new_code(ctx);
    let pending = pending(ctx, visitor, &code, (&address, Some(&address)))?;
    let mail = Mail::AddressWanted { code, purpose: CodePurpose::NewAddress };
    begin(ctx, user, pending, mailing::new_mail(ctx, Some(user.sub), Some(&address), mail)?).await?;
    Ok(Ok(()))
}

async fn may_send(ctx: &RequestContext<'_>, user: &User) -> bool {
    for (bucket, rule) in CODES {
        if !mailing::allows(ctx, &LimitKey::text(bucket, user.sub.as_bytes()), rule).await {
            return false;
        }
    }
    true
}

/// Creates a verification. `to` is the address that receives the code.
fn pending(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    code: &str,
    (to, new_address): (&Email, Option<&Email>),
) -> Result<PendingVerification, Failure> {
    let user = &visitor.user;
    Ok(PendingVerification {
        code: code_hash(ctx, user, to, code)?,
        session: session_of(visitor),
        new_address: new_address.cloned(),
        account: AccountMark::from_user(user),
        failures: 0,
        expires_at: ctx.now.plus(CODE_LIFE),
    })
}

/// Stores the verification and queues its e-mail. A new verification replaces the pending one.
async fn begin(
    ctx: &RequestContext<'_>,
    user: &User,
    pending: PendingVerification,
    mail: WaitingMail,
) -> Result<(), Failure> {
    let change = |links: &mut AccountLinks| links.verification = Some(pending.clone());
    Ok(ctx.sealgate.store.change_account_links(user.sub, &[mail], change).await?)
}

/// Returns the hash of a code, bound to one user and one address.
fn code_hash(ctx: &RequestContext<'_>, user: &User, address: &Email, code: &str) -> Result<SecretHash, Failure> {
    let bound_to = [b"address", &user.sub.as_bytes()[..], address.lookup_key().as_bytes()].concat();
    mailing::code_hash(ctx, &bound_to, code)
}

fn session_of(visitor: &Visitor) -> SecretHash {
    visitor.session.value.under_its_cookie()
}

async fn take_code(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    typed: &str,
) -> Result<Result<Done, AddressProblem>, Failure> {
    // Malformed input does not count as an attempt.
    let Some(typed) = mailing::digits(typed) else { return Ok(Err(AddressProblem::WrongCode)) };
    let (store, session) = (&ctx.sealgate.store, session_of(visitor));
    for _ in 0..MAX_CONFLICTS {
        let Some(user) = store.user_record(visitor.user.sub).await? else { break };
        let links = store.account_links(user.value.sub).await?;
        let mut next_links =
            links.as_ref().map_or_else(|| AccountLinks::none(user.value.sub), |links| links.value.clone());
        let Some(pending) = next_links.open_verification(session, &user.value, ctx.now) else { break };
        let Some(address) = pending.new_address.clone().or_else(|| user.value.email.clone()) else { break };
        let code = code_hash(ctx, &user.value, &address, &typed)?;
        let verdict = next_links.take_code(code, session, &user.value, ctx.now);
        let mut next = user.value.clone();
        let (mails, done) = match verdict {
            CodeVerdict::Right { new_address: None } => {
                (next.email_verified, next.updated_at) = (true, ctx.now);
                (Vec::new(), Ok(Done::AddressVerified))
            }
            CodeVerdict::Right { new_address: Some(new) } => {
                let (mails, done) = move_to(ctx, &mut next, &mut next_links, new)?;
                (mails, Ok(done))
            }
            CodeVerdict::Wrong => (Vec::new(), Err(AddressProblem::WrongCode)),
            CodeVerdict::Over => (Vec::new(), Err(AddressProblem::Over)),
        };
        let written = store.put_user_and_links((&user, &next), (links.as_ref(), &next_links), &mails, None).await?;
        if written == Committed::Yes {
            if let Ok(done) = done {
                let kind =
                    if done == Done::AddressVerified { AuditKind::AddressVerified } else { AuditKind::AddressChanged };
                ctx.sealgate.audit.note(visitor.event(ctx, kind));
            }
            return Ok(done);
        }
        // The commit failed. If another account has the address, tell the user. The right code has
        // proven that the user receives mail at this address; without this proof, the page must not
        // reveal that the address is taken.
        if done.is_ok() && store.user_by_email(&address).await?.is_some_and(|owner| owner.sub != user.value.sub) {
            store.change_account_links(user.value.sub, &[], |links| links.verification = None).await?;
            return Ok(Err(AddressProblem::Taken));
        }
    }
    Ok(Err(AddressProblem::Over))
}

/// Replaces or adds the account's address and returns the e-mails that notify the old and the new
/// one.
///
/// Sessions remain valid, because no session depends on the address. The user has just verified a
/// code in one of the sessions.
///
/// The old address receives a link that undoes the change, with three exceptions:
///
/// - The account returns to an earlier address. The replaced address may belong to an attacker.
///
/// - The old address is unverified: the user has not proven that they own it.
///
/// - An earlier change of address can still be undone. The old address may then belong to an
///   attacker, so the new link goes to the address before that earlier change. Both links expire at
///   the same time.
fn move_to(
    ctx: &RequestContext<'_>,
    user: &mut User,
    links: &mut AccountLinks,
    new: Email,
) -> Result<(Vec<WaitingMail>, Done), Failure> {
    let notice = |notice| Mail::Notice { notice, count: 1 };
    let is_return = links.return_to(&new, ctx.now);
    let is_first = links.first_undo(ctx.now).is_none();
    let mut mails = Vec::new();
    let (link, token) = LinkToken::new(user.sub, ctx.random());
    let undo = AddressUndo::new(link.hash, user, ctx.now).filter(|_| !is_return && (user.email_verified || !is_first));
    if let Some(undo) = undo {
        let address = links.add_undo(undo, ctx.now);
        let mail = Mail::AddressChanged { token: token.expose().to_owned(), new_address: partly_hidden(&new) };
        mails.push(mailing::new_mail(ctx, Some(user.sub), Some(&address), mail)?);
    }
    let done = match &user.email {
        None => Done::AddressAdded,
        Some(_) if is_first && !mails.is_empty() => Done::AddressChanged,
        Some(old) => {
            mails.push(mailing::new_mail(ctx, Some(user.sub), Some(old), notice(Notice::AddressReplaced))?);
            Done::AddressReturned
        }
    };
    mails.push(mailing::new_mail(ctx, Some(user.sub), Some(&new), notice(Notice::AddressChanged))?);
    // Invalidate the links that were mailed to the old address.
    links.take_back();
    (user.email, user.email_verified, user.updated_at) = (Some(new), true, ctx.now);
    // A user manager who set the password can make this change too.
    user.by_manager.email |= user.by_manager.password;
    Ok((mails, done))
}

async fn show(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    problem: Option<AddressProblem>,
) -> Result<Response, Failure> {
    let user = &visitor.user;
    let links = ctx.sealgate.store.account_links(user.sub).await?;
    let pending = links.as_ref().and_then(|links| links.value.open_verification(session_of(visitor), user, ctx.now));
    let waiting = pending.and_then(|pending| match (&pending.new_address, &user.email) {
        (Some(new), _) => Some(WaitingCode::OfNewAddress(new.as_str())),
        (None, Some(own)) => Some(WaitingCode::OfAddress(own.as_str())),
        (None, None) => None,
    });
    let page = AddressPage {
        inside: visitor.inside(ctx),
        csrf: &visitor.csrf(ctx, PAGE),
        address: user.email.as_ref().map(Email::as_str),
        verified: user.email_verified,
        waiting,
        problem,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

fn show_change(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    typed: &str,
    problem: Option<NewAddressProblem>,
) -> Response {
    let (csrf, address) = (&visitor.csrf(ctx, NEW), visitor.user.email.as_ref().map(Email::as_str));
    let domains = &ctx.sealgate.config.registration_of_people.domains.join(", ");
    let page = NewAddressPage { inside: visitor.inside(ctx), csrf, address, typed, domains, problem };
    Response::page(StatusCode::OK, html(&page), None)
}
