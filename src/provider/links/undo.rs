//! `/oauth/undo`: page of the link "this was not me". The old e-mail address gets the link when the
//! address of an account changes.
//!
//! The link restores the old address and revokes all other access: sessions, grants, links and the
//! password, which the attacker may know. A reset link is sent to the restored address.
//!
//! The link proves access only to the old mailbox, so second steps remain. If a passkey was added
//! after the change, the server cannot tell whether the reader of the mail or the holder of the
//! passkey owns the account. The server then disables the account until an administrator has
//! decided. The server also disables the account if another account has the old address.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::links;
use crate::links::{LinkOpened, LinkPage, MailedLink, mailing};
use crate::request::ProviderRequest as _;
use sealgate_core::password;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{AccountLinks, AccountMark, AddressUndo, LinkToken, RESET_LIFE, ResetLink};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, MailKind, UNDO_PATH, partly_hidden, partly_hidden_name};
use sealgate_domain::user::{User, UserState};
use sealgate_pages::{Problem, UndoOutcome, UndoPage, UndonePage, html};
use sealgate_store::{Committed, Loaded, Revocation};

static PAGE: LinkPage = LinkPage { name: "undo", path: UNDO_PATH, over: Problem::UndoLink };

/// Period before the change of address in which an added passkey is suspect. An attacker may add a
/// passkey before changing the address.
const SUSPECT_PERIOD: Duration = Duration::from_hours(24);

/// Maximum attempts to update an account that other requests change at the same time.
const MAX_TRIES: usize = 8;

/// Account whose change of address the link can undo.
struct Undoable {
    user: Loaded<User>,
    links: Loaded<AccountLinks>,
    undo: AddressUndo,
}

pub(crate) async fn undo_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let link = match PAGE.open(ctx)? {
        LinkOpened::Link(response) => return Ok(response),
        LinkOpened::Page(link) => link,
    };
    if ctx.head.method != Method::POST {
        let offer = find(ctx, &link).await?;
        let page = UndoPage {
            frame: ctx.frame(),
            action: &PAGE.address(ctx),
            csrf: &link.csrf(),
            old: &partly_hidden(&offer.undo.address),
            new: &partly_hidden_name(&offer.user.value),
        };
        return Ok(Response::page(StatusCode::OK, html(&page), None));
    }
    link.form(ctx)?;
    let (outcome, added) = undo(ctx, &link).await?;
    let page = UndonePage { frame: ctx.frame(), outcome, added: &added, sign_in: &ctx.path("/account/security") };
    Ok(Response::page(StatusCode::OK, html(&page), None).with_cookie(links::expired_link_cookie(ctx)))
}

/// Returns the account if the link is valid.
async fn find(ctx: &RequestContext<'_>, link: &MailedLink) -> Result<Undoable, Failure> {
    let (user, links) = link.account(ctx).await?;
    let undo = links.value.undo(link.link.hash, ctx.now).cloned().ok_or_else(|| link.over())?;
    Ok(Undoable { user, links, undo })
}

/// Restores the account. Returns the outcome and the names of the second steps added since the
/// change or shortly before it.
///
/// The commit that restores the account removes all other undo links. The used link is removed
/// last, so that the user can open it again after a crash.
async fn undo(ctx: &RequestContext<'_>, link: &MailedLink) -> Result<(UndoOutcome, Vec<String>), Failure> {
    let (store, subject) = (&ctx.sealgate.store, link.link.subject);
    let revocation = store.new_revocation(subject, EndReason::PasswordChanged, ctx.now);
    let Restored { user, is_taken, added } = restore(ctx, link, &revocation).await?;
    let ended = store.carry_out(&revocation).await?;
    let event = |kind| ctx.event(kind, Actor::User).for_subject(subject);
    ctx.sealgate.audit.note(event(AuditKind::AddressRestored).with_detail(ended.to_string()));
    let has_reset = user.is_enabled() && user.password.is_some() && user.email_verified && !is_taken;
    let is_sent = has_reset && ctx.sealgate.sends_mail() && ctx.sealgate.has_room_for(MailKind::Reset);
    let (reset, mails) = if let Some(email) = user.email.as_ref().filter(|_| is_sent) {
        let (reset_link, token) = LinkToken::new(subject, ctx.random());
        let reset = ResetLink {
            hash: reset_link.hash,
            account: AccountMark::from_user(&user),
            expires_at: ctx.now.plus(RESET_LIFE),
        };
        let mail = Mail::Reset { token: token.expose().to_owned() };
        (Some(reset), vec![mailing::new_mail(ctx, Some(subject), Some(email), mail)?])
    } else {
        (None, Vec::new())
    };
    let change = |links: &mut AccountLinks| {
        links.undos.retain(|undo| undo.hash != link.link.hash);
        if let Some(reset) = &reset {
            links.add_reset(reset.clone(), ctx.now);
        }
    };
    store.change_account_links(subject, &mails, change).await?;
    let outcome = match () {
        () if is_taken => UndoOutcome::Taken,
        () if !user.is_enabled() => UndoOutcome::Closed,
        () if reset.is_some() => UndoOutcome::ResetMailed,
        () if user.password.is_none() => UndoOutcome::Passkey,
        () => UndoOutcome::AskAdministrator,
    };
    Ok((outcome, added))
}

/// Result of restoring an account.
struct Restored {
    user: User,
    /// Whether another account has the old address. The address is then not restored.
    is_taken: bool,
    /// Names of the second steps that were added since the change or shortly before it.
    added: Vec<String>,
}

/// Writes the restored account.
///
/// The commit fails if the factors have changed since they were read. Otherwise an attacker who
/// adds a passkey at the same moment would keep access.
async fn restore(ctx: &RequestContext<'_>, link: &MailedLink, revocation: &Revocation) -> Result<Restored, Failure> {
    let store = &ctx.sealgate.store;
    let password = password::unknown_hash(ctx.random(), ctx.random());
    for _ in 0..MAX_TRIES {
        let Undoable { user, links, undo } = find(ctx, link).await?;
        let factors = store.factors(user.value.sub).await?;
        let (added, has_new_passkey) =
            factors.as_ref().map(|factors| added_since(&factors.value, &undo)).unwrap_or_default();
        let owner = store.user_by_email(&undo.address).await?;
        let is_taken = owner.is_some_and(|owner| owner.sub != user.value.sub);
        let mut next = User { updated_at: ctx.now, ..user.value.clone() };
        if !is_taken {
            (next.email, next.email_verified) = (Some(undo.address.clone()), undo.verified);
        }
        let linked = user.value.source.as_ref().and_then(|source| source.linked);
        let has_new_link = linked.is_some_and(|linked| linked.by_user && undo.is_after(linked.at, SUSPECT_PERIOD));
        // A passkey or a linked account of an attacker would open the account again.
        if is_taken || has_new_passkey || has_new_link {
            next.state = UserState::Disabled;
        }
        // Replace the password instead of removing it: reset links are only sent to accounts that
        // have one.
        if next.password.is_some() {
            next.set_password(password.clone(), false);
        }
        let mut next_links = links.value.clone();
        next_links.take_back();
        next_links.keep_only_undo(link.link.hash);
        let written = store
            .put_user_and_links_beside(factors.as_ref(), (&user, &next), (Some(&links), &next_links), revocation)
            .await?;
        if written == Committed::Yes {
            if user.value.is_enabled() && !next.is_enabled() {
                ctx.sealgate.audit.note(ctx.event(AuditKind::UserDisabled, Actor::Server).for_subject(next.sub));
            }
            return Ok(Restored { user: next, is_taken, added });
        }
    }
    Err(Failure::Unavailable)
}

/// Returns the names of the second steps added since the change or shortly before it, and whether a
/// passkey is among them.
fn added_since(factors: &Factors, undo: &AddressUndo) -> (Vec<String>, bool) {
    let apps = factors.totp.iter().map(|app| (app.added_at, FactorKind::Totp, &app.name));
    let keys = factors.keys.iter().map(|key| (key.added_at, key.kind(), &key.name));
    let recent: Vec<_> = apps.chain(keys).filter(|(at, ..)| undo.is_after(*at, SUSPECT_PERIOD)).collect();
    let has_passkey = recent.iter().any(|(_, kind, _)| *kind == FactorKind::Passkey);
    (recent.into_iter().map(|(_, _, name)| name.clone()).collect(), has_passkey)
}
