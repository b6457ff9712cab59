//! Signed-in users of account and console pages.
//!
//! Without a session, [`Visitor::find`] redirects the browser to the sign-in and back. The sign-in
//! request names the page to open afterwards: [`request_for`] encodes the page and [`requested`]
//! decodes it. The redirect URI must be exactly one of `OWN_PAGES`. For the page of one user,
//! client or application, the redirect URI is the page with the list, and `state` is the
//! identifier, with the section of the page if it is not the first.

use std::time::Duration;

use http::HeaderValue;

use crate::account::app_logins;
use crate::request::ProviderRequest as _;
use crate::sign_in;
use sealgate_config::{App, Config};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::assurance::{AssuranceLevel, AssuranceRequirement, RecoveryCodeWorth};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::session::{Session, SessionCookie, SessionId, SignIn};
use sealgate_domain::user::{Subject, User};
use sealgate_pages::console::{AppSection, ClientSection, UserSection};
use sealgate_pages::{Done, Inside, Problem};
use sealgate_store::{Loaded, Revocation, Store};

/// Signed-in user with their session.
pub(super) struct Visitor {
    pub(super) session: Loaded<Session>,
    pub(super) sign_in: SignIn,
    pub(super) user: User,
}

impl Visitor {
    /// Returns the user who is active in this browser. `page` is the page to open after a sign-in.
    ///
    /// # Errors
    /// [`Failure::Redirect`] when no user is signed in; when the store fails.
    pub(super) async fn find(ctx: &RequestContext<'_>, page: &str) -> Result<Self, Failure> {
        if let Some(session) = ctx.session().await? {
            let mut away = None;
            for sign_in in &session.value.sign_ins {
                let user = match ctx.sealgate.active_user(sign_in.subject).await {
                    Ok(user) => user,
                    // Another user of the session may be active.
                    Err(failure) => {
                        away = Some(failure);
                        continue;
                    }
                };
                if let Some(user) = user {
                    // A route that is not marked `is_for_signed_in` could write after the session
                    // has ended.
                    if !ctx.sealgate.store.act_for(user.sub) {
                        tracing::error!(page, "the route is not marked as a route of signed-in users");
                        return Err(Failure::Internal);
                    }
                    ctx.sealgate.store.touch_session(&session, ctx.now).await;
                    return Ok(Self { sign_in: sign_in.clone(), session, user });
                }
            }
            if let Some(failure) = away {
                return Err(failure);
            }
        }
        Err(Failure::Redirect(ctx.sign_in_address(page, &[])))
    }

    /// Returns the name for users of the OpenID provider that keeps the user's account.
    pub(super) fn upstream_label<'c>(&self, ctx: &RequestContext<'c>) -> Option<&'c str> {
        let source = &self.user.source.as_ref()?.link.source;
        ctx.sealgate.sources.upstream(source).map(|upstream| upstream.settings().label.as_str())
    }

    /// Like [`Visitor::find`], but a user who has a factor must have used it in this session, at
    /// any time.
    ///
    /// An attacker who stole the password may have a session from before the factor was added.
    ///
    /// # Errors
    /// As [`Visitor::find`], and when the user has not used a factor.
    pub(super) async fn with_factor(ctx: &RequestContext<'_>, page: &str) -> Result<Self, Failure> {
        let required = |reachable: AssuranceLevel| (reachable.min(AssuranceLevel::Two), None);
        Self::meeting(ctx, page, required).await
    }

    /// Like [`Visitor::find`], but the user must have authenticated within `max_age`, at the
    /// highest level that their factors allow.
    ///
    /// Otherwise an attacker with only the password could add a key of their own.
    ///
    /// # Errors
    /// As [`Visitor::find`], and when the authentication is older or weaker.
    pub(super) async fn recent(ctx: &RequestContext<'_>, page: &str, max_age: Duration) -> Result<Self, Failure> {
        Self::meeting(ctx, page, |reachable| (reachable, Some(max_age))).await
    }

    /// Returns the active user if their sign-in meets the requirement. Otherwise redirects to a
    /// sign-in with that requirement.
    ///
    /// `required` maps the highest level that the user can reach to a level and a maximum age. A
    /// recovery code counts as the factor that the user has lost.
    async fn meeting(
        ctx: &RequestContext<'_>,
        page: &str,
        required: impl FnOnce(AssuranceLevel) -> (AssuranceLevel, Option<Duration>) + Send,
    ) -> Result<Self, Failure> {
        let visitor = Self::find(ctx, page).await?;
        let factors = ctx.sealgate.store.factors(visitor.user.sub).await?;
        let reachable = sign_in::summary(factors.as_ref().map(|factors| &factors.value), &visitor.user).reachable;
        let (level, max_age) = required(reachable);
        let required = AssuranceRequirement { level, max_age, recovery_codes: RecoveryCodeWorth::LostFactor };
        if required.judge(&visitor.sign_in.steps, ctx.now).is_ok() {
            return Ok(visitor);
        }
        let seconds = max_age.map(|max_age| max_age.as_secs().to_string());
        let age = seconds.as_deref().map(|seconds| ("max_age", seconds));
        let parameters: Vec<_> = age.into_iter().chain([("acr_values", level.as_str())]).collect();
        Err(Failure::Redirect(ctx.sign_in_address(page, &parameters)))
    }

    /// Returns the level that `[factors]` demands, if this sign-in is below it.
    ///
    /// Such a sign-in only opens the user's account pages, where the user can add a stronger
    /// factor.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn unmet_level(&self, ctx: &RequestContext<'_>) -> Result<Option<AssuranceLevel>, Failure> {
        let level = ctx.level_in_force(&self.user).await?;
        let judged = AssuranceRequirement::level(level).judge(&self.sign_in.steps, ctx.now);
        Ok(judged.is_err().then_some(level))
    }

    /// Ends the user's other sessions and moves this browser's session to a new id and cookie.
    ///
    /// An attacker may have the old cookie, and sessions at applications are tied to the old id.
    /// Other users who are signed in in this browser remain signed in.
    ///
    /// The commit that moves the session also applies `change`, and opens the revocation if there
    /// is one.
    ///
    /// Returns the new cookie. Returns `None` if another request has changed the session's cookie
    /// in the meantime. In this case, the session is ended too.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub(super) async fn keep_this_session_only(
        &self,
        ctx: &RequestContext<'_>,
        store: &Store,
        revocation: Option<&Revocation>,
        change: impl Fn(&mut Session) + Send + Sync,
    ) -> Result<Option<HeaderValue>, Failure> {
        let id = self.session.value.id;
        // End the other sessions first. A live session could create a new grant while the old
        // grants are being ended.
        store.end_other_sessions_of_user(self.user.sub, id).await?;
        let cookie = SessionCookie::new(SessionId::from_bytes(ctx.random()), ctx.random());
        let next = |session: &Session| {
            let mut next = session.clone();
            change(&mut next);
            (next.id, next.cookie, next.previous) = (cookie.id, cookie.hash(), None);
            // If another request has changed the cookie, that request may be an attacker's.
            (session.cookie == self.session.value.cookie).then_some(next)
        };
        if store.move_session(id, revocation, next).await? {
            let kept_until = self.session.value.effective_kept_until(ctx.sealgate.config.sessions.keep_signed_in);
            return Ok(Some(sign_in::session_cookie(ctx, &cookie, kept_until)));
        }
        // The session may still exist under another id.
        store.for_server().end_sessions_of_user(self.user.sub).await?;
        Ok(None)
    }

    /// Returns the user's roles in the console. Empty if the console is disabled.
    pub(super) fn console_roles(&self, ctx: &RequestContext<'_>) -> ConsoleRoles {
        ctx.sealgate.config.console.roles_of(&self.user)
    }

    /// Returns the CSRF token of a form on an account or console page. It is bound to the user, the
    /// form and the session's cookie, which no other site can read.
    pub(super) fn csrf(&self, ctx: &RequestContext<'_>, form: &str) -> String {
        let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
        let text = format!("csrf own {form} {} {cookie}", self.user.sub);
        base64url(SecretHash::for_secret(text.as_bytes()).as_bytes())
    }

    /// Reads a form.
    ///
    /// # Errors
    /// An error page if the CSRF token is wrong.
    pub(super) fn form(&self, ctx: &RequestContext<'_>, form: &str) -> Result<Params, Failure> {
        let params = ctx.form()?;
        if ctx.is_own_form(&params, &self.csrf(ctx, form))? {
            Ok(params)
        } else {
            Err(Failure::page(Problem::ExpiredForm))
        }
    }

    /// Returns an audit event caused by the user, to which the caller adds details.
    pub(super) fn event(&self, ctx: &RequestContext<'_>, kind: AuditKind) -> AuditEvent {
        ctx.event(kind, Actor::User).for_subject(self.user.sub).in_session(self.session.value.id)
    }

    /// Returns the layout of a page for a signed-in user.
    pub(super) fn inside<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Inside<'a> {
        let config = &ctx.sealgate.config;
        Inside {
            frame: ctx.frame(),
            prefix: config.issuer.path_prefix(),
            account: self.user.sign_in_name(),
            console: self.console_roles(ctx),
            home: has_home(config),
            app_passwords: config.apps.iter().any(App::takes_app_passwords),
            app_logins: config.apps.iter().any(App::takes_user_credentials),
            api: config.api.enabled,
            once: base64url(&ctx.random::<16>()),
            done: ctx.query().ok().and_then(|query| query.one("done").ok().flatten().and_then(Done::parse)),
        }
    }
}

/// Returns the address of a page that shows a confirmation.
pub(super) fn done(ctx: &RequestContext<'_>, page: &str, done: Done) -> String {
    ctx.path(&format!("{page}?done={}", done.as_str()))
}

/// Returns whether the home page exists. If an application shares the issuer's host, the root path
/// belongs to the application.
pub(super) fn has_home(config: &Config) -> bool {
    let authority = config.issuer.authority();
    !config.apps.iter().any(|app| app.matches_host(&authority))
}

const USERS: &str = "/console/users";
const CLIENTS: &str = "/console/clients";
const APPS: &str = "/console/apps";

/// Query parameter that names an application, on the page of names and passwords at applications.
const APP: &str = "app";

/// Query parameter that names a kept form, on the page that shows the form.
pub(super) const FORM: &str = "form";

/// Separator between an identifier and the name of a kept form in `state`. No identifier contains
/// it.
const SEPARATOR: char = '!';

/// Length of the name of a kept form, in characters.
const FORM_LENGTH: usize = 43;

/// Returns the address of a page with the name of a kept form.
pub(super) fn with_form(page: &str, form: &str) -> String {
    format!("{page}?{FORM}={form}")
}

/// Returns the address of the form for the name and password at this application.
pub(super) fn app_login_page(app: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair(APP, app).finish();
    format!("{}?{query}", app_logins::PAGE)
}

/// Returns the path of the redirect URI and the `state` of a sign-in request, so that `page` opens
/// after the sign-in. The query of `page` may name a kept form, or an application.
pub(super) fn request_for(page: &str) -> (&str, Option<String>) {
    let (page, form) = match page.split_once('?') {
        Some((app_logins::PAGE, query)) => {
            let app = query.strip_prefix(APP).and_then(|rest| rest.strip_prefix('='));
            return (app_logins::PAGE, app.filter(|app| is_app_name(app)).map(str::to_owned));
        }
        Some((page, query)) => (page, query.strip_prefix(FORM).and_then(|rest| rest.strip_prefix('='))),
        None => (page, None),
    };
    let (object, section) = match page.rsplit_once('/') {
        Some((object, name)) if is_section(object, name) => (object, Some(name)),
        _ => (page, None),
    };
    let (page, item) = match object.rsplit_once('/') {
        Some((USERS, id)) if Subject::parse(id).is_some() => (USERS, Some(id)),
        Some((CLIENTS, id)) if id != "new" && ClientId::from_path_segment(id).is_some() => (CLIENTS, Some(id)),
        Some((APPS, name)) if is_app_name(name) => (APPS, Some(name)),
        _ => (page, None),
    };
    let item = item.map(|item| match section {
        Some(section) => format!("{item}/{section}"),
        None => item.to_owned(),
    });
    let state = match form {
        Some(form) => Some(format!("{}{SEPARATOR}{form}", item.unwrap_or_default())),
        None => item,
    };
    (page, state)
}

/// Returns the page to open after a sign-in request with this redirect URI's path and `state`.
///
/// Ignores parts of `state` that are neither an identifier nor the name of a kept form.
pub(super) fn requested(path: &str, state: Option<&str>) -> String {
    let (item, form) = match state.and_then(|state| state.split_once(SEPARATOR)) {
        Some((item, form)) => (Some(item), Some(form)),
        None => (state, None),
    };
    let page = match path {
        USERS => item.map(with_section).and_then(|(id, section)| {
            let section = UserSection::ALL.into_iter().find(|known| known.segment() == section).unwrap_or_default();
            Subject::parse(id).map(|subject| section.page(subject))
        }),
        app_logins::PAGE => item.filter(|app| form.is_none() && is_app_name(app)).map(app_login_page),
        CLIENTS => item.map(with_section).and_then(|(id, section)| {
            let section = ClientSection::ALL.into_iter().find(|known| known.segment() == section).unwrap_or_default();
            ClientId::from_path_segment(id).map(|id| section.page(id.path_segment()))
        }),
        APPS => item.map(with_section).filter(|(name, _)| is_app_name(name)).map(|(name, section)| {
            AppSection::ALL.into_iter().find(|known| known.segment() == section).unwrap_or_default().page(name)
        }),
        _ => None,
    };
    let page = page.unwrap_or_else(|| path.to_owned());
    match form.filter(|form| is_form(form)) {
        Some(form) => with_form(&page, form),
        None => page,
    }
}

/// Returns whether this is the last segment of a section of the page of one user, client or application.
fn is_section(object: &str, name: &str) -> bool {
    !name.is_empty()
        && match object.rsplit_once('/') {
            Some((USERS, _)) => UserSection::ALL.iter().any(|section| section.segment() == name),
            Some((CLIENTS, _)) => ClientSection::ALL.iter().any(|section| section.segment() == name),
            Some((APPS, _)) => AppSection::ALL.iter().any(|section| section.segment() == name),
            _ => false,
        }
}

/// Splits an identifier from the last segment of a section, which may be absent. No identifier of a
/// user, and no path segment of a client, contains a slash.
fn with_section(item: &str) -> (&str, &str) {
    item.split_once('/').unwrap_or((item, ""))
}

/// Returns whether the configuration accepts this name of an application.
fn is_app_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.bytes().all(allowed)
}

fn is_form(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() == FORM_LENGTH && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_returns_to_the_page_with_its_id_and_form() {
        let (user, form) = (Subject::from_random([1; 16]), "f".repeat(FORM_LENGTH));
        let pages = [
            format!("{USERS}/{user}"),
            format!("{USERS}/{user}/security"),
            format!("{CLIENTS}/c1"),
            format!("{CLIENTS}/c1/secrets"),
            format!("{APPS}/wiki"),
            format!("{APPS}/wiki/sessions"),
            format!("{USERS}/new"),
            "/account".to_owned(),
        ];
        for page in pages.iter().flat_map(|page| [page.clone(), with_form(page, &form)]) {
            let (path, state) = request_for(&page);
            assert_eq!(requested(path, state.as_deref()), page);
        }
    }

    #[test]
    fn sign_in_returns_to_the_form_of_an_application() {
        let (path, state) = request_for("/account/app-logins?app=wiki_2");
        assert_eq!((path, state.as_deref()), (app_logins::PAGE, Some("wiki_2")));
        assert_eq!(requested(path, state.as_deref()), "/account/app-logins?app=wiki_2");
        for other in ["/account/app-logins?app=", "/account/app-logins?app=a%26b", "/account/app-logins?x=1"] {
            assert_eq!(request_for(other), (app_logins::PAGE, None), "{other}");
        }
        for state in ["", "a&done=app-login", "//evil.test", "A", "a!b"] {
            assert_eq!(requested(app_logins::PAGE, Some(state)), app_logins::PAGE, "{state}");
        }
    }

    #[test]
    fn an_invalid_state_leads_to_the_list() {
        for state in ["x", "!", "!x", "../..", "x/security", "!../../../../../../../../../../../../../oauth/logout"] {
            assert_eq!(requested(USERS, Some(state)), USERS, "{state}");
        }
        assert_eq!(requested("/account", Some("c1")), "/account");
    }
}
