//! `/account/app-logins`: the user's names and passwords at applications with their own login form.
//!
//! The gateway uses these credentials to sign the user in to the applications. A stored password
//! outlasts the session in which it was entered, and determines the account at the application. The
//! page therefore requires a recent sign-in. To store a password, the sign-in must also reach the
//! level that `[factors]` demands for applications. This level is not required to remove a
//! password.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::request::ProviderRequest as _;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_config::App;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::app_credential::{AppCredentials, is_app_credential_password, is_app_username};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::User;
use sealgate_pages::{AppLoginFault, AppLoginForm, AppLoginLine, AppLoginsPage, Done, HomeAppLogin, Problem, html};
use sealgate_store::{AppCredentialSet, AppSite};

pub(crate) const PAGE: &str = "/account/app-logins";

/// Maximum age of the sign-in when the user opens the page.
const MAX_AGE_TO_OPEN: Duration = Duration::from_mins(15);
/// Maximum age of the sign-in when the user sends the form, and when the page confirms that the
/// password was stored.
///
/// This limit is longer than [`MAX_AGE_TO_OPEN`], so that a user who opened the form in time does
/// not lose the input.
const MAX_AGE_TO_SEND: Duration = Duration::from_mins(30);

pub(super) async fn app_logins_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        let query = ctx.query()?;
        let name = query.one("app")?;
        let most = if query.one("done")?.is_some() { MAX_AGE_TO_SEND } else { MAX_AGE_TO_OPEN };
        let page = name.map_or_else(|| PAGE.to_owned(), visitor::app_login_page);
        let visitor = Visitor::recent(ctx, &page, most).await?;
        let app = name.and_then(|name| taking(ctx, &visitor.user).find(|app| app.name == name));
        return show(ctx, &visitor, app, None).await;
    }
    let visitor = Visitor::recent(ctx, PAGE, MAX_AGE_TO_SEND).await?;
    let form = visitor.form(ctx, PAGE)?;
    if let Some(app) = form.one("remove")? {
        remove(ctx, &visitor, app).await?;
        return Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::AppLoginRemoved)));
    }
    let app = form.one("app")?.and_then(|name| taking(ctx, &visitor.user).find(|app| app.name == name));
    let app = app.ok_or(Failure::page(Problem::InvalidRequest))?;
    if !ctx.sealgate.store.can_encrypt() || visitor.unmet_level(ctx).await?.is_some() {
        return show(ctx, &visitor, None, None).await;
    }
    set(ctx, &visitor, app, &form).await
}

async fn set(ctx: &RequestContext<'_>, visitor: &Visitor, app: &App, form: &Params) -> Result<Response, Failure> {
    let username = form.one("app_username")?.unwrap_or_default().trim();
    let password = Secret::new(form.one("app_password")?.unwrap_or_default());
    let wrong = async |fault| show(ctx, visitor, Some(app), Some((username, fault))).await;
    if !is_app_username(username) {
        return wrong(AppLoginFault::Username).await;
    }
    if !is_app_credential_password(password.expose()) {
        return wrong(AppLoginFault::Password).await;
    }
    let store = &ctx.sealgate.store;
    let site = AppSite { name: &app.name, host: &app.host };
    match store.set_app_credential(visitor.user.sub, site, username, &password, ctx.now).await? {
        AppCredentialSet::Yes => {}
        AppCredentialSet::Full => return wrong(AppLoginFault::Full).await,
        AppCredentialSet::NoUser => return Err(Failure::page(Problem::InvalidRequest)),
    }
    ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::AppCredentialSet).in_app(&app.name));
    let saved = format!("{}&done={}", visitor::app_login_page(&app.name), Done::AppLogin.as_str());
    Ok(Response::see_other(&ctx.path(&saved)))
}

/// Removes the user's name and password at an application. Also succeeds if none are stored.
pub(super) async fn remove(ctx: &RequestContext<'_>, visitor: &Visitor, app: &str) -> Result<(), Failure> {
    if ctx.sealgate.store.remove_app_credential(visitor.user.sub, app).await? {
        ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::AppCredentialRemoved).in_app(app));
    }
    Ok(())
}

/// Returns the applications that take the user's own name and password, and that the user can open.
fn taking<'c>(ctx: &'c RequestContext<'_>, user: &'c User) -> impl Iterator<Item = &'c App> {
    ctx.sealgate.config.apps.iter().filter(|app| app.takes_credentials_of(user) && app.entry_path(user).is_some())
}

/// Returns the user's stored names and passwords. Reads nothing if no application takes them.
pub(super) async fn stored(ctx: &RequestContext<'_>, user: &User) -> Result<AppCredentials, Failure> {
    if ctx.sealgate.config.apps.iter().any(App::takes_user_credentials) {
        Ok(ctx.sealgate.store.app_credentials(user.sub).await?)
    } else {
        Ok(AppCredentials::none(user.sub))
    }
}

/// Returns the credentials that the user must enter before the gateway can sign in to this
/// application, if any.
pub(super) fn to_enter(
    ctx: &RequestContext<'_>,
    app: &App,
    user: &User,
    credentials: &AppCredentials,
) -> Option<HomeAppLogin> {
    if !app.takes_credentials_of(user) {
        return None;
    }
    let form = || ctx.path(&visitor::app_login_page(&app.name));
    match credentials.find(&app.name) {
        None => Some(HomeAppLogin::Missing(form())),
        Some(stored) if stored.is_refused => Some(HomeAppLogin::Refused(form())),
        Some(_) => None,
    }
}

/// Shows the page with the form of `app`, or with a link to `app` if its form was just saved.
///
/// `typed` is the name from a rejected form, and the fault. The user must type the password again.
async fn show(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    app: Option<&App>,
    typed: Option<(&str, AppLoginFault)>,
) -> Result<Response, Failure> {
    let config = &ctx.sealgate.config;
    let known = ctx.sealgate.store.app_credentials(visitor.user.sub).await?;
    let apps: Vec<_> = taking(ctx, &visitor.user).collect();
    let mut lines: Vec<_> = apps
        .iter()
        .map(|app| AppLoginLine { app: &app.name, title: app.called(), takes: true, stored: known.find(&app.name) })
        .collect();
    // List the other stored passwords too. Their application may have been removed from the
    // configuration, or the user may no longer open it.
    for stored in known.credentials.iter().filter(|one| apps.iter().all(|app| app.name != one.app)) {
        let title = config.apps.iter().find(|app| app.name == stored.app).map_or(&*stored.app, App::called);
        lines.push(AppLoginLine { app: &stored.app, title, takes: false, stored: Some(stored) });
    }
    let inside = visitor.inside(ctx);
    let is_saved = typed.is_none() && inside.done == Some(Done::AppLogin);
    let stored_name = |app: &App| known.find(&app.name).map_or("", |stored| stored.username.as_str());
    let form = app.filter(|_| !is_saved).map(|app| AppLoginForm {
        app: &app.name,
        title: app.called(),
        username: typed.map_or_else(|| stored_name(app), |(username, _)| username),
    });
    // Build the address only from configured values, so that a crafted link cannot lead to another
    // site.
    let address = |app: &App| Some(format!("{}{}", app.origin(&config.issuer)?, app.entry_path(&visitor.user)?));
    let saved = app.filter(|app| is_saved && known.find(&app.name).is_some());
    let saved = saved.and_then(|app| Some((app.called(), address(app)?)));
    let page = AppLoginsPage {
        inside,
        csrf: &visitor.csrf(ctx, PAGE),
        lines: &lines,
        form,
        fault: typed.map(|(_, fault)| fault),
        saved: saved.as_ref().map(|(title, address)| (*title, address.as_str())),
        can_store: ctx.sealgate.store.can_encrypt(),
        needed: visitor.unmet_level(ctx).await?,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
