//! `/console/users/{sub}` and its sections: profile, groups, roles, sessions, second factors and access of one
//! user.

use http::{Method, StatusCode};

use crate::accesses;
use crate::accesses::AccessRows;
use crate::account::security::factor_lines;
use crate::console::actions::{Action, UserAction};
use crate::console::client::execute;
use crate::console::confirmation::{Question, Target};
use crate::console::membership::Membership;
use crate::console::user_profile::Profile;
use crate::console::users::new_password;
use crate::console::{
    ConsoleUser, confirmation, kept_form, last_segment, membership, owners, segment_before_last, user_list,
    user_profile,
};
use crate::links::reset;
use crate::request::ProviderRequest as _;
use crate::submission::{Effect, ShownResult};
use crate::{submission, visitor};
use sealgate_admin::answer::ShownSecret;
use sealgate_admin::command::{
    AppLoginCommand, AppPasswordCommand, Command, ConsentCommand, SessionCommand, UserCommand,
};
use sealgate_admin::{Answer, UserRef, open_accesses};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::Invitation;
use sealgate_domain::app_credential::{MAX_APP_CREDENTIALS, is_app_credential_password, is_app_username};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_domain::factor_failures::{FactorFailures, TryVerdict};
use sealgate_domain::factors::Factors;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::open_access::AccessKind;
use sealgate_domain::secret::Secret;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_pages::console::{
    GuardedChange, ResetState, UserAppLogins, UserFactors, UserField, UserInvitation, UserPage, UserSection,
};
use sealgate_pages::{AppLoginFault, Done, Problem, html};

pub(super) async fn user_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let user = console_user.user(ctx, last_segment(ctx)).await?;
    let Some(user) = user else { return absent(ctx, console_user).await };
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, &page_of(user.sub)).await? {
            return resume(ctx, console_user, &user, &form).await;
        }
        return show_section(ctx, console_user, &user, UserSection::Profile).await;
    }
    if !console_user.may_change_user(ctx, &user) {
        return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    ctx.sealgate.store.act_on(user.sub);
    let form = console_user.form(ctx)?;
    let user_ref = UserRef::Sub(user.sub);
    let action = UserAction::read(&form)?;
    if action.is_for_others() && is_own(console_user, &user) {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    if let Some(change) = simple_change(action)
        && !confirmation::is_confirmed(&form)
    {
        let question = question(ctx, console_user, &user, change, action.section()).await?;
        return Ok(confirmation::page(ctx, console_user, &form, &question));
    }
    match action {
        UserAction::Save => membership::save(ctx, console_user, &user, &form).await,
        UserAction::SaveProfile => user_profile::save(ctx, console_user, &user, &form).await,
        UserAction::EndAccess => match accesses::chosen(&form)? {
            Some((kind, id)) => end_access(ctx, console_user, &user, kind, id).await,
            None => Err(Failure::page(Problem::InvalidRequest)),
        },
        UserAction::Delete => delete(ctx, console_user, &user, &form).await,
        UserAction::Disable => {
            owners::disable_if_chosen(ctx, console_user, user.sub, &form).await?;
            run(ctx, console_user, &user, action, UserCommand::Disable(user_ref.into()), Done::User).await
        }
        UserAction::Revoke => {
            run(ctx, console_user, &user, action, UserCommand::Revoke(user_ref.into()), Done::UserRevoked).await
        }
        UserAction::Enable => run(ctx, console_user, &user, action, UserCommand::Enable(user_ref), Done::User).await,
        UserAction::ResetPassword => reset_password(ctx, console_user, &user, &form).await,
        UserAction::SendResetLink => send_reset_link(ctx, console_user, &user).await,
        UserAction::ResendInvitation => {
            let resend = UserCommand::ResendInvitation { user: user_ref, print_link: false };
            run(ctx, console_user, &user, action, resend, Done::UserInvited).await
        }
        UserAction::WithdrawInvitation => {
            let withdraw = UserCommand::RevokeInvitation(user_ref);
            run(ctx, console_user, &user, action, withdraw, Done::InvitationWithdrawn).await
        }
        UserAction::UnblockFactors => {
            let unblock = UserCommand::UnblockFactors(user_ref);
            run(ctx, console_user, &user, action, unblock, Done::User).await
        }
        UserAction::SetAppLogin => set_app_login(ctx, console_user, &user, &form).await,
        UserAction::ResetFactors => {
            let work = Box::pin(async {
                let link = reset_factors(ctx, console_user, user.sub).await?;
                Ok(Effect::Done { page: UserSection::Security.page(user.sub), secret: Some(link) })
            });
            submission::once(ctx, &console_user.visitor, &form, work).await
        }
    }
}

/// Shows a section of the user's page other than the first. Its forms go to the user's own URL.
pub(super) async fn section_page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    section: UserSection,
) -> Result<Response, Failure> {
    let user = console_user.user(ctx, segment_before_last(ctx)).await?;
    let user = user.filter(|user| section != UserSection::Danger || console_user.may_change_user(ctx, user));
    let user = user.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    show_section(ctx, console_user, &user, section).await
}

/// Shows a section with the result of the form that redirected to it, if there is one.
async fn show_section(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    section: UserSection,
) -> Result<Response, Failure> {
    let result = submission::take_result(ctx, &console_user.visitor, &section.page(user.sub)).await?;
    show(ctx, console_user, user, &UserNotes { result: Some(&result), section, ..UserNotes::default() }).await
}

/// Returns the change that an action makes and that is always confirmed. The forms with groups, roles
/// and the profile ask for a confirmation of their own.
fn simple_change(action: UserAction) -> Option<GuardedChange> {
    match action {
        UserAction::Delete => Some(GuardedChange::DeleteUser),
        UserAction::Revoke => Some(GuardedChange::RevokeAccess),
        UserAction::Disable => Some(GuardedChange::DisableUser),
        UserAction::Enable => Some(GuardedChange::EnableUser),
        UserAction::ResetPassword => Some(GuardedChange::ResetPassword),
        UserAction::UnblockFactors => Some(GuardedChange::UnblockFactors),
        UserAction::ResetFactors => Some(GuardedChange::ResetFactors),
        UserAction::Save
        | UserAction::SaveProfile
        | UserAction::SendResetLink
        | UserAction::ResendInvitation
        | UserAction::WithdrawInvitation
        | UserAction::SetAppLogin
        | UserAction::EndAccess => None,
    }
}

async fn question<'a>(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &'a User,
    change: GuardedChange,
    section: UserSection,
) -> Result<Question<'a>, Failure> {
    let target = Target::user(user, page_of(user.sub)).of_section(section.page(user.sub));
    let question = Question::new(change, target);
    Ok(match change {
        GuardedChange::DeleteUser | GuardedChange::DisableUser => {
            Question { clients: owners::clients_of(ctx, console_user, user.sub).await?, ..question }
        }
        _ => question,
    })
}

/// Answers a request for a user who does not exist.
///
/// If the request repeats the form that deleted the user, redirects to the page that reports the
/// deletion.
async fn absent(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let not_found = || Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound);
    if ctx.head.method != Method::POST {
        return Err(not_found());
    }
    let form = console_user.form(ctx)?;
    submission::once(ctx, &console_user.visitor, &form, async { Err(not_found()) }).await
}

/// Deletes the user, and returns to the list.
async fn delete(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    let work = Box::pin(async {
        owners::disable_if_chosen(ctx, console_user, user.sub, form).await?;
        let delete = UserCommand::Delete(UserRef::Sub(user.sub).into());
        execute(ctx, console_user, Command::User(delete)).await?;
        Ok(Effect::Done { page: format!("{}?done={}", user_list::PAGE, Done::UserDeleted.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

fn is_own(console_user: &ConsoleUser, user: &User) -> bool {
    user.sub == console_user.visitor.user.sub
}

/// Shows a form that was kept while the user signed in again.
///
/// The page asks for the confirmation of a guarded change, or shows the typed values.
async fn resume(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    let action = UserAction::read(form)?;
    let may_act = console_user.roles.has_any(Action::User(action).roles()) && console_user.may_change_user(ctx, user);
    if !may_act {
        return show(ctx, console_user, user, &UserNotes::default()).await;
    }
    let (profile, typed) = (Profile::read(form)?, Membership::read(form)?);
    let question = match action {
        UserAction::Save => membership::question(ctx, console_user, user, &typed).await?,
        UserAction::SaveProfile => profile.question(user),
        action if action.is_for_others() && is_own(console_user, user) => None,
        action => match simple_change(action) {
            Some(change) => Some(question(ctx, console_user, user, change, action.section()).await?),
            None => None,
        },
    };
    if let Some(question) = question {
        return Ok(confirmation::page(ctx, console_user, form, &question));
    }
    let notes = UserNotes {
        typed: (action == UserAction::Save).then_some(&typed),
        profile: (action == UserAction::SaveProfile).then_some(&profile),
        section: action.section(),
        ..UserNotes::default()
    };
    show(ctx, console_user, user, &notes).await
}

/// Ends an access of the user. Also succeeds if the access has already ended.
///
/// Ignores an id that belongs to another user's access.
async fn end_access(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    kind: AccessKind,
    id: &str,
) -> Result<Response, Failure> {
    let (store, user_ref, id) = (&ctx.sealgate.store, UserRef::Sub(user.sub), id.to_owned());
    let invalid = || Failure::page(Problem::InvalidRequest);
    let (is_theirs, command, done) = match kind {
        AccessKind::Session => {
            let sid = SessionId::parse(&id).ok_or_else(invalid)?;
            let session = store.session(sid).await?;
            let is_theirs = session.is_some_and(|session| session.value.sign_in_of(user.sub).is_some());
            // A user manager does not sign out other users of the browser.
            let revoke = if console_user.is_administrator() {
                SessionCommand::Revoke { sid }
            } else {
                SessionCommand::RevokeSignIn { sid, user: user.sub }
            };
            (is_theirs, Command::Session(revoke), Done::Session)
        }
        AccessKind::AppSession => {
            let sid = SessionId::parse(&id).ok_or_else(invalid)?;
            let is_theirs = store.app_session(sid).await?.is_some_and(|session| session.value.subject == user.sub);
            (is_theirs, Command::Session(SessionCommand::Revoke { sid }), Done::Session)
        }
        AccessKind::Client => {
            let client = ClientId::parse(&id).ok_or_else(invalid)?;
            let known = open_accesses::of_clients(store, user.sub, ctx.now).await?;
            let revoke = ConsentCommand::Revoke { user: user_ref, client: client.into() };
            (known.iter().any(|access| access.id == id), Command::Consent(revoke), Done::Withdrawn)
        }
        AccessKind::AppPassword => {
            let passwords = store.app_passwords(user.sub).await?.passwords;
            let is_theirs = passwords.iter().any(|password| password.id() == id);
            let revoke = AppPasswordCommand::Revoke { user: user_ref, id, wait: false };
            (is_theirs, Command::AppPassword(revoke), Done::AppPassword)
        }
        AccessKind::AppLogin => {
            let is_theirs = store.app_credentials(user.sub).await?.find(&id).is_some();
            let remove = AppLoginCommand::Remove { user: user_ref, app: id };
            (is_theirs, Command::AppLogin(remove), Done::User)
        }
    };
    if is_theirs {
        execute(ctx, console_user, command).await?;
    }
    let section = match kind {
        AccessKind::Session | AccessKind::AppSession => UserSection::Sessions,
        AccessKind::Client | AccessKind::AppPassword | AccessKind::AppLogin => UserSection::Applications,
    };
    Ok(back(ctx, user, section, done))
}

/// Sets the user's name and password at an application.
async fn set_app_login(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    let app = form.one("app")?.unwrap_or_default();
    let username = form.one("app_username")?.unwrap_or_default().trim();
    let password = Secret::new(form.one("app_password")?.unwrap_or_default());
    let known = ctx.sealgate.store.app_credentials(user.sub).await?;
    let is_full = known.find(app).is_none() && known.credentials.len() >= MAX_APP_CREDENTIALS;
    let fault = match () {
        () if !is_app_username(username) => Some(AppLoginFault::Username),
        () if !is_app_credential_password(password.expose()) => Some(AppLoginFault::Password),
        () if is_full => Some(AppLoginFault::Full),
        () => None,
    };
    if let Some(fault) = fault {
        let typed = TypedAppLogin { app, username, fault: Some(fault) };
        let section = UserSection::Applications;
        return show(ctx, console_user, user, &UserNotes { app_login: typed, section, ..UserNotes::default() }).await;
    }
    let (user_ref, app, username) = (UserRef::Sub(user.sub), app.to_owned(), username.to_owned());
    let set = AppLoginCommand::Set { user: user_ref, app, username, password: password.into() };
    execute(ctx, console_user, Command::AppLogin(set)).await?;
    Ok(back(ctx, user, UserSection::Applications, Done::User))
}

async fn run(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    action: UserAction,
    command: UserCommand,
    done: Done,
) -> Result<Response, Failure> {
    execute(ctx, console_user, Command::User(command)).await?;
    Ok(back(ctx, user, action.section(), done))
}

async fn reset_password(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    let work = Box::pin(async {
        let password = new_password(ctx);
        let set = UserCommand::SetPassword { user: UserRef::Sub(user.sub), password: password.clone().into() };
        execute(ctx, console_user, Command::User(set)).await?;
        Ok(Effect::Done { page: UserSection::Security.page(user.sub), secret: Some(password) })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

/// Mails the user a link to set a new password.
///
/// No recent sign-in is needed: only the user receives the link, as on the page for a forgotten
/// password.
async fn send_reset_link(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
) -> Result<Response, Failure> {
    if !reset::may_be_mailed(ctx, user) {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    if !reset::mail_link(ctx, &ctx.sealgate.store, user).await? {
        return Err(Failure::Unavailable);
    }
    let event = console_user.event(ctx, AuditKind::PasswordResetAsked).for_subject(user.sub);
    ctx.sealgate.audit.note(event.with_detail("link mailed"));
    Ok(back(ctx, user, UserSection::Security, Done::ResetLinkSent))
}

/// Returns the path of a user's page, which receives the forms of all sections.
pub(super) fn page_of(user: Subject) -> String {
    UserSection::Profile.page(user)
}

fn back(ctx: &RequestContext<'_>, user: &User, section: UserSection, done: Done) -> Response {
    Response::see_other(&visitor::done(ctx, &section.page(user.sub), done))
}

/// Content of a user's page in addition to the stored user.
#[derive(Default)]
pub(super) struct UserNotes<'a> {
    /// Section to show.
    pub(super) section: UserSection,
    /// Result of the form that redirected to this page.
    pub(super) result: Option<&'a ShownResult>,
    /// Input of the form, shown instead of the stored groups and roles.
    pub(super) typed: Option<&'a Membership>,
    /// Input of the form, shown instead of the stored profile.
    pub(super) profile: Option<&'a Profile>,
    pub(super) faults: &'a [UserField],
    /// Input of the form for a name and password at an application, without the password.
    pub(super) app_login: TypedAppLogin<'a>,
}

#[derive(Default, Clone, Copy)]
pub(super) struct TypedAppLogin<'a> {
    app: &'a str,
    username: &'a str,
    fault: Option<AppLoginFault>,
}

pub(super) async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    notes: &UserNotes<'_>,
) -> Result<Response, Failure> {
    let factors = ctx.sealgate.store.factors(user.sub).await?.map(|loaded| loaded.value);
    let factors = factors.as_ref();
    let links = ctx.sealgate.store.account_links(user.sub).await?;
    let secret = notes.result.and_then(ShownResult::secret).map(Secret::expose);
    // The secret is a new password or an enrolment link. Only a link contains `://`.
    let is_link = |secret: &&str| secret.contains("://");
    let own_session = is_own(console_user, user).then_some(console_user.visitor.session.value.id);
    let section = notes.section;
    let accesses = AccessRows::find(ctx, user.sub, &section.page(user.sub), own_session, kinds(section)).await?;
    let may_set_login =
        section == UserSection::Applications && console_user.is_administrator() && !is_own(console_user, user);
    let apps = if may_set_login { apps_with_login(ctx, user) } else { Vec::new() };
    let managed: Vec<&str> = console_user.managed.iter().map(String::as_str).collect();
    let app_logins = UserAppLogins {
        apps: &apps,
        app: notes.app_login.app,
        username: notes.app_login.username,
        fault: notes.app_login.fault,
    };
    let page = UserPage {
        inside: submission::with_hint(console_user.inside(ctx), notes.result),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&page_of(user.sub))),
        user,
        section,
        own: is_own(console_user, user),
        may_change: console_user.may_change_user(ctx, user),
        managed: &managed,
        typed: notes.typed.map(Membership::typed),
        profile: notes.profile.map(Profile::typed),
        accesses: accesses.table(),
        own_session,
        factors: UserFactors {
            lines: &factor_lines(factors),
            recovery_left: factors.and_then(|factors| factors.recovery.as_ref()).map(|codes| codes.unused() as u64),
            blocked: factors.is_some_and(|factors| is_blocked(factors, ctx.now)),
            reset: factors.and_then(|factors| reset_state(factors, ctx.now)),
        },
        may_send_reset_link: reset::may_be_mailed(ctx, user),
        invitation: invitation(ctx, user, factors, links.and_then(|links| links.value.invitation).as_ref()),
        app_logins: Some(app_logins).filter(|logins| !logins.apps.is_empty()),
        password: secret.filter(|secret| !is_link(secret)),
        link: secret.filter(|secret| is_link(secret)),
        faults: notes.faults,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the kinds of open accesses that the section shows.
fn kinds(section: UserSection) -> &'static [AccessKind] {
    match section {
        UserSection::Sessions => &[AccessKind::Session, AccessKind::AppSession],
        UserSection::Applications => &[AccessKind::Client, AccessKind::AppPassword, AccessKind::AppLogin],
        UserSection::Profile | UserSection::Security | UserSection::Danger => &[],
    }
}

/// Returns the name and title of each application for which a username and password can be stored.
fn apps_with_login<'a>(ctx: &'a RequestContext<'_>, user: &User) -> Vec<(&'a str, &'a str)> {
    if !ctx.sealgate.store.can_encrypt() {
        return Vec::new();
    }
    let apps = ctx.sealgate.config.apps.iter().filter(|app| app.takes_credentials_of(user));
    apps.map(|app| (app.name.as_str(), app.called())).collect()
}

fn invitation(
    ctx: &RequestContext<'_>,
    user: &User,
    factors: Option<&Factors>,
    invitation: Option<&Invitation>,
) -> UserInvitation {
    let is_used = user.has_password() || factors.is_some_and(|factors| !factors.keys.is_empty());
    UserInvitation {
        state: invitation.map(|known| (known.state(ctx.now), known.accepted_at.unwrap_or(known.sent_at))),
        until: invitation.map(|known| known.expires_at),
        may_send: !is_used && user.is_enabled() && user.email.is_some() && ctx.sealgate.sends_mail(),
    }
}

/// Removes all factors of a user. Returns an enrolment link, which lets the user add a new one.
pub(super) async fn reset_factors(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    subject: Subject,
) -> Result<Secret, Failure> {
    let command = UserCommand::ResetFactors(UserRef::Sub(subject));
    let Answer::User(reset) = execute(ctx, console_user, Command::User(command)).await? else {
        return Err(Failure::Internal);
    };
    let ShownSecret(link) = reset.enrolment_link.ok_or(Failure::Internal)?;
    Ok(link)
}

/// Returns whether the user's one-time or recovery codes are blocked after too many failures.
pub(super) fn is_blocked(factors: &Factors, now: UnixTime) -> bool {
    let blocked = |failures: &FactorFailures| failures.verdict(now) == TryVerdict::Blocked;
    (blocked(&factors.totp_failures) && !factors.totp.is_empty())
        || (blocked(&factors.recovery_failures) && factors.recovery.is_some())
}

/// Returns the state of a factor reset, if the user has not enrolled a new factor since.
pub(super) fn reset_state(factors: &Factors, now: UnixTime) -> Option<ResetState> {
    let reset = factors.reset.as_ref()?;
    Some(if now < reset.until { ResetState::Open { until: reset.until } } else { ResetState::Late })
}
