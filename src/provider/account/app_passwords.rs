//! `/account/app-passwords`: passwords for programs that support only HTTP Basic authentication.
//! Each password is valid for one protected application.
//!
//! An app password outlasts the session in which it was created. The page therefore requires a
//! recent sign-in: an attacker at an open browser must not create one. To create an app password,
//! the sign-in must also reach the level that `[factors]` demands for applications. This level is
//! not required to revoke one.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use crate::submission;
use crate::submission::{Effect, ShownResult};
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_config::App;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::app_password::{AppPassword, MAX_APP_PASSWORD_NAME_LENGTH};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::profile::is_line;
use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_pages::{AppPasswordFault, AppPasswordsPage, Done, NewAppPassword, Problem, html};
use sealgate_store::AppPasswordAdded;

const PAGE: &str = "/account/app-passwords";

/// Maximum age of the sign-in when the user opens the form.
const MAX_AGE_TO_OPEN: Duration = Duration::from_mins(15);
/// Maximum age of the sign-in when the user sends the form.
///
/// This limit is longer than [`MAX_AGE_TO_OPEN`], so that a user who opened the form in time does
/// not lose the input.
const MAX_AGE_TO_SEND: Duration = Duration::from_mins(30);

pub(super) async fn app_passwords_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        // A form that was sent in time redirects here. The page must then show the new password,
        // even if the sign-in has become older than `MAX_AGE_TO_OPEN`.
        let most = if submission::is_awaited(ctx) { MAX_AGE_TO_SEND } else { MAX_AGE_TO_OPEN };
        let visitor = Visitor::recent(ctx, PAGE, most).await?;
        let result = submission::take_result(ctx, &visitor, PAGE).await?;
        return show(ctx, &visitor, &Typed::default(), None, Some(&result)).await;
    }
    let visitor = Visitor::recent(ctx, PAGE, MAX_AGE_TO_SEND).await?;
    let form = visitor.form(ctx, PAGE)?;
    if let Some(id) = form.one("revoke")? {
        revoke(ctx, &visitor, id).await?;
        return Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::AppPassword)));
    }
    if visitor.unmet_level(ctx).await?.is_some() {
        return show(ctx, &visitor, &Typed::default(), None, None).await;
    }
    let app = form.one("app")?.and_then(|name| accepting(ctx, &visitor.user).find(|app| app.name == name));
    let app = app.ok_or(Failure::page(Problem::InvalidRequest))?;
    let typed = Typed { app: app.name.clone(), name: form.one("name")?.unwrap_or_default().trim().to_owned() };
    if !is_line(&typed.name, MAX_APP_PASSWORD_NAME_LENGTH) {
        return show(ctx, &visitor, &typed, Some(AppPasswordFault::Name), None).await;
    }
    submission::once(ctx, &visitor, &form, Box::pin(add(ctx, &visitor, app, &typed))).await
}

async fn add(ctx: &RequestContext<'_>, visitor: &Visitor, app: &App, typed: &Typed) -> Result<Effect, Failure> {
    let level = visitor.sign_in.level();
    let (password, secret) = AppPassword::new(&app.name, &typed.name, level, &ctx.random(), ctx.now);
    match ctx.sealgate.store.add_app_password(visitor.user.sub, &password).await? {
        AppPasswordAdded::Full => {
            Ok(Effect::Refused(show(ctx, visitor, typed, Some(AppPasswordFault::Full), None).await?))
        }
        AppPasswordAdded::Yes => {
            let event = visitor.event(ctx, AuditKind::AppPasswordCreated).in_app(&app.name);
            ctx.sealgate.audit.note(event.with_detail(password.id()));
            let page = format!("{PAGE}?id={}", password.id());
            Ok(Effect::Done { page, secret: Some(secret) })
        }
    }
}

/// Revokes the user's app password with this id. Also succeeds if the password is already revoked.
pub(super) async fn revoke(ctx: &RequestContext<'_>, visitor: &Visitor, id: &str) -> Result<(), Failure> {
    if let Some(removed) = ctx.sealgate.store.revoke_app_password(visitor.user.sub, id).await? {
        let event = visitor.event(ctx, AuditKind::AppPasswordRevoked).in_app(&removed.app);
        ctx.sealgate.audit.note(event.with_detail(removed.id()));
    }
    Ok(())
}

/// Returns the applications that accept app passwords from the user.
fn accepting<'c>(ctx: &'c RequestContext<'_>, user: &'c User) -> impl Iterator<Item = &'c App> {
    ctx.sealgate.config.apps.iter().filter(|app| app.takes_app_passwords_of(user))
}

/// Returns the title of the application that an app password is for.
///
/// A password whose application was removed from the configuration is useless, but is still listed
/// so that the user can revoke it.
fn title<'a>(ctx: &'a RequestContext<'_>, password: &'a AppPassword) -> &'a str {
    let app = ctx.sealgate.config.apps.iter().find(|app| app.name == password.app);
    app.map_or(&password.app, |app| app.called())
}

/// Input of the form for a new app password.
#[derive(Default)]
struct Typed {
    app: String,
    name: String,
}

async fn show(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    typed: &Typed,
    fault: Option<AppPasswordFault>,
    result: Option<&ShownResult>,
) -> Result<Response, Failure> {
    let passwords = ctx.sealgate.store.app_passwords(visitor.user.sub).await?.passwords;
    let passwords: Vec<_> = passwords.iter().rev().map(|one| (one, title(ctx, one))).collect();
    let apps: Vec<_> = accepting(ctx, &visitor.user).map(|app| (app.name.as_str(), app.called())).collect();
    let user = visitor.user.username.as_ref().map_or(visitor.user.sign_in_name(), Username::as_str);
    let query = ctx.query()?;
    let id = query.one("id")?;
    let newest = passwords.iter().find(|(one, _)| id == Some(one.id().as_str()));
    let header_of = |password: &AppPassword| {
        let app = ctx.sealgate.config.apps.iter().find(|app| app.name == password.app)?;
        app.identity.app_password_header.as_ref().map(HeaderName::as_str)
    };
    let made = result.and_then(ShownResult::secret);
    let page = AppPasswordsPage {
        inside: submission::with_hint(visitor.inside(ctx), result),
        csrf: &visitor.csrf(ctx, PAGE),
        apps: &apps,
        app: &typed.app,
        passwords: &passwords,
        name: &typed.name,
        fault,
        needed: visitor.unmet_level(ctx).await?,
        made: made.zip(newest).map(|(secret, (password, app))| NewAppPassword {
            password: secret.expose(),
            user,
            app,
            header: header_of(password),
        }),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
