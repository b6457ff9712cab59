//! `/oauth/invitation`: an invited user takes over their account.
//!
//! The user chooses a password or a passkey. A mailed link proves the e-mail address; for a printed
//! link, the operator vouches for the address. The page does not sign the user in. The user then
//! signs in with the new credential, and that sign-in applies all further requirements.

use http::{Method, StatusCode};

use crate::links;
use crate::links::{LinkOpened, LinkPage, MailedLink};
use crate::request::ProviderRequest as _;
use crate::sign_in::enrolment::{Enrolling, new_factor_name};
use crate::sign_in::passkey::relying_party;
use crate::visitor::has_home;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{AccountLinks, Invitation};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::{FactorKind, FactorOrigin, Factors};
use sealgate_domain::mail::partly_hidden_name;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::password_rules::Owner;
use sealgate_domain::secret::base64url;
use sealgate_domain::user::{PasswordHash, User};
use sealgate_domain::webauthn::CredentialKind;
use sealgate_pages::{CredentialChoice, EnrolProblem, InvitationPage, NewPasswordProblem, Problem, html};
use sealgate_store::{Committed, Loaded, Store, StoreError};

static PAGE: LinkPage = LinkPage { name: "invitation", path: "/oauth/invitation", over: Problem::InvitationLink };

/// Maximum attempts to update an account that other requests change at the same time.
const MAX_TRIES: usize = 8;

/// Account whose invitation has not been accepted.
struct Invited {
    user: Loaded<User>,
    links: Loaded<AccountLinks>,
    invitation: Invitation,
    factors: Option<Loaded<Factors>>,
}

/// Credential that the user has chosen.
enum Chosen {
    Password(PasswordHash),
    /// Factors with the new passkey, and the detail text for the audit log.
    Passkey(Box<Factors>, String),
}

pub(crate) async fn invitation_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let link = match PAGE.open(ctx)? {
        LinkOpened::Link(response) => return Ok(response),
        LinkOpened::Page(link) => link,
    };
    if ctx.head.method != Method::POST {
        let invited = find(ctx, &link).await?;
        return show_password(ctx, &link, &invited, StatusCode::OK, None).await;
    }
    let form = link.form(ctx)?;
    let invited = find(ctx, &link).await?;
    if form.has("choose") || form.has("with") {
        return passkey(ctx, &link, &invited, &form).await;
    }
    password(ctx, &link, &invited, &form).await
}

/// Returns the account if the invitation is valid for it.
async fn find(ctx: &RequestContext<'_>, link: &MailedLink) -> Result<Invited, Failure> {
    let (user, links) = link.account(ctx).await?;
    let invitation = links.value.open_invitation(link.link.hash, &user.value, ctx.now).cloned();
    let invitation = invitation.ok_or_else(|| link.over())?;
    let factors = ctx.sealgate.store.factors(user.value.sub).await?;
    // An account with a credential is no longer open to an invitation.
    if user.value.password.is_some() || factors.as_ref().is_some_and(|factors| !factors.value.keys.is_empty()) {
        return Err(link.over());
    }
    Ok(Invited { user, links, invitation, factors })
}

async fn password(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    invited: &Invited,
    form: &Params,
) -> Result<Response, Failure> {
    let user = &invited.user.value;
    let owner = Owner::of(user);
    match links::hash_new_password(ctx, form.one("new-password")?.unwrap_or_default(), &owner).await {
        Ok(hash) => {
            let accepted = accept(ctx, link, |_| Some(Chosen::Password(hash.clone()))).await?;
            accepted.ok_or(Failure::Internal)
        }
        Err(problem @ NewPasswordProblem::Busy) => {
            let page = show_password(ctx, link, invited, StatusCode::SERVICE_UNAVAILABLE, Some(problem)).await?;
            Ok(page.retry_after(1))
        }
        Err(problem) => show_password(ctx, link, invited, StatusCode::OK, Some(problem)).await,
    }
}

async fn passkey(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    invited: &Invited,
    form: &Params,
) -> Result<Response, Failure> {
    if relying_party(ctx).is_none() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let typed = form.one("name")?.unwrap_or_default();
    let Some(credential_json) = form.one("credential")? else {
        return show_passkey(ctx, link, invited, typed, None).await;
    };
    let enrolling = enrolling(ctx, link, &invited.user.value);
    let verified = match enrolling.verify_key(CredentialKind::Passkey, credential_json).await? {
        Ok(verified) => verified,
        Err(problem) => return show_passkey(ctx, link, invited, typed, Some(problem)).await,
    };
    if ctx.sealgate.store.owner_of_credential(&verified.credential.id).await?.is_some() {
        return show_passkey(ctx, link, invited, typed, Some(EnrolProblem::KeyKnown)).await;
    }
    let with_key = |now: &Invited| {
        let factors = now.factors.as_ref().map(|loaded| &loaded.value)?;
        // The pending enrolment has ended if the factors were reset, or if a factor was added or
        // removed, after the enrolment began.
        if factors.generation != verified.generation {
            return None;
        }
        let mut next = factors.clone();
        let name = new_factor_name(ctx, &next, Some(&verified.credential), typed);
        let _ = next.add_key(&name, verified.credential.clone(), ctx.now);
        Some(Chosen::Passkey(Box::new(next), format!("{} {name}", FactorKind::Passkey.as_str())))
    };
    match accept(ctx, link, with_key).await? {
        Some(response) => Ok(response),
        None => show_passkey(ctx, link, invited, typed, Some(EnrolProblem::Expired)).await,
    }
}

/// Accepts the invitation in one commit, so that concurrent requests cannot use the link twice.
///
/// Returns `None` if `choose` returns `None`.
async fn accept(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    choose: impl Fn(&Invited) -> Option<Chosen> + Send,
) -> Result<Option<Response>, Failure> {
    for _ in 0..MAX_TRIES {
        let invited = find(ctx, link).await?;
        let Some(chosen) = choose(&invited) else { return Ok(None) };
        if put(ctx, &invited, &chosen).await? == Committed::Yes {
            return accepted(ctx, &invited, &chosen).await.map(Some);
        }
    }
    Err(Failure::Unavailable)
}

async fn put(ctx: &RequestContext<'_>, invited: &Invited, chosen: &Chosen) -> Result<Committed, StoreError> {
    let email_verified = invited.user.value.email.is_some();
    let mut user = User { email_verified, updated_at: ctx.now, ..invited.user.value.clone() };
    let mut links = invited.links.value.clone();
    links.invitation = Some(Invitation { accepted_at: Some(ctx.now), ..invited.invitation.clone() });
    let factors = match chosen {
        Chosen::Password(hash) => {
            // A user manager who chose the address may receive the link.
            user.set_password(hash.clone(), user.by_manager.email);
            None
        }
        Chosen::Passkey(factors, _) => Some((invited.factors.as_ref(), &**factors)),
    };
    let (user, links) = ((&invited.user, &user), (&invited.links, &links));
    ctx.sealgate.store.accept_invitation(user, links, factors).await
}

/// Records the acceptance and redirects to the sign-in, if possible at the application that the
/// administrator chose.
async fn accepted(ctx: &RequestContext<'_>, invited: &Invited, chosen: &Chosen) -> Result<Response, Failure> {
    let user = &invited.user.value;
    let event = ctx.event(AuditKind::InvitationAccepted, Actor::User).for_subject(user.sub);
    ctx.sealgate.audit.note(match chosen {
        Chosen::Password(_) => event.with_detail("password"),
        Chosen::Passkey(_, named) => event.with_detail(named),
    });
    let is_shared = is_shared(ctx, user).await?;
    let next = match destination(ctx, invited).filter(|_| !is_shared) {
        Some(Destination { address, .. }) => address,
        None => sign_in(ctx, user, is_shared),
    };
    Ok(Response::see_other(&next).with_cookie(links::expired_link_cookie(ctx)))
}

/// Application that opens after the invitation is accepted.
struct Destination<'a> {
    title: &'a str,
    origin: String,
    address: String,
}

/// Returns the application of the invitation.
///
/// Returns `None` if the invitation names no application, if the application was removed, or if the
/// application refuses this user.
fn destination<'a>(ctx: &'a RequestContext<'_>, invited: &Invited) -> Option<Destination<'a>> {
    let config = &ctx.sealgate.config;
    let app = config.apps.iter().find(|app| Some(&app.name) == invited.invitation.app.as_ref())?;
    let (path, origin) = (app.entry_path(&invited.user.value)?, app.origin(&config.issuer)?);
    Some(Destination { title: app.called(), address: format!("{origin}{path}"), origin })
}

/// Returns the address of a sign-in after which one of the provider's pages opens. If another user
/// is signed in (`is_shared`), the address forces a new sign-in.
fn sign_in(ctx: &RequestContext<'_>, user: &User, is_shared: bool) -> String {
    let page = if has_home(&ctx.sealgate.config) { "/" } else { "/account" };
    let hint = ("login_hint", user.sign_in_name());
    let parameters: &[(&str, &str)] = if is_shared { &[hint, ("prompt", "login")] } else { &[hint] };
    ctx.sign_in_address(page, parameters)
}

/// Returns whether another user is signed in in this browser. An application would then open with
/// that user's session.
async fn is_shared(ctx: &RequestContext<'_>, user: &User) -> Result<bool, Failure> {
    let session = ctx.session().await?;
    Ok(session.is_some_and(|session| session.value.sign_ins.iter().any(|sign_in| sign_in.subject != user.sub)))
}

fn enrolling<'a, 'c>(ctx: &'a RequestContext<'c>, link: &MailedLink, user: &'a User) -> Enrolling<'a, 'c> {
    let origin = FactorOrigin::from_text(&format!("invitation {}", base64url(link.link.hash.as_bytes())));
    Enrolling { ctx, store: Store::clone(&ctx.sealgate.store), user, origin }
}

async fn show_password(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    invited: &Invited,
    status: StatusCode,
    problem: Option<NewPasswordProblem>,
) -> Result<Response, Failure> {
    let or_passkey = relying_party(ctx).is_some();
    show(ctx, link, invited, status, CredentialChoice::Password { or_passkey, has_focus: true, problem }).await
}

/// Shows the page and begins a WebAuthn ceremony.
///
/// This function writes to the store, so call it only for a request that sent a form.
async fn show_passkey(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    invited: &Invited,
    name: &str,
    problem: Option<EnrolProblem>,
) -> Result<Response, Failure> {
    let options = enrolling(ctx, link, &invited.user.value).key().await?.passkey;
    let choice = CredentialChoice::Passkey { options: &options, name, problem };
    show(ctx, link, invited, StatusCode::OK, choice).await
}

async fn show(
    ctx: &RequestContext<'_>,
    link: &MailedLink,
    invited: &Invited,
    status: StatusCode,
    choice: CredentialChoice<'_>,
) -> Result<Response, Failure> {
    let user = &invited.user.value;
    let administrator = match invited.invitation.inviter {
        Some(subject) => ctx.sealgate.store.user(subject).await?.map(|user| user.name),
        None => None,
    };
    let is_shared = is_shared(ctx, user).await?;
    let destination = destination(ctx, invited).filter(|_| !is_shared);
    let page = InvitationPage {
        frame: ctx.frame(),
        action: &PAGE.address(ctx),
        csrf: &link.csrf(),
        account: &partly_hidden_name(user),
        username: user.sign_in_name(),
        inviter: administrator.as_deref(),
        app: destination.as_ref().map(|destination| destination.title),
        is_shared,
        choice,
    };
    let then = destination.map(|destination| destination.origin);
    Ok(Response::page(status, html(&page), then.as_deref()))
}
