//! `/account`: pages where users view and change their own account.
//!
//! Each change is a form with a CSRF token. The response redirects to a page that confirms the
//! change.
//!
//! The module also serves the home page `/`, which lists the applications that the user may open.
//! Without a session, all pages redirect to the sign-in page.

pub(crate) mod activity;
mod address;
pub(crate) mod app_logins;
mod app_passwords;
mod applications;
pub(crate) mod linking;
mod password;
mod profile;
pub(crate) mod security;
mod sessions;

use http::StatusCode;
use serde_json::json;

use crate::request::ProviderRequest as _;
use crate::sign_in::passkey::relying_party;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::user::plain_letters;
use sealgate_pages::{Asset, HomeApp, HomePage, html};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountSection {
    Profile,
    Address,
    NewAddress,
    Password,
    Security,
    AddApp,
    AddKey,
    Factor,
    RecoveryCodes,
    Link,
    ConfirmLink,
    Unlink,
    Sessions,
    Applications,
    AppPasswords,
    AppLogins,
    Activity,
}

/// Redirects from the well-known URL that password managers open to change a password ("A
/// Well-Known URL for Changing Passwords", W3C).
pub(super) fn change_password(ctx: &RequestContext<'_>) -> Response {
    Response::see_other(&ctx.path("/account/password"))
}

/// Returns the addresses of the pages on which a user adds and manages passkeys, for password
/// managers ("A Well-Known URL for Relying Party Passkey Endpoints", W3C). Empty if this issuer's
/// host supports no passkeys.
pub(super) fn passkey_endpoints(ctx: &RequestContext<'_>) -> Response {
    let page = |path| format!("{}{path}", ctx.sealgate.config.issuer.as_str());
    let document = match relying_party(ctx) {
        Some(_) => json!({ "enroll": page("/account/security/key"), "manage": page("/account/security") }),
        None => json!({}),
    };
    Response::public_json(&document, 3600)
}

/// Permits the issuer's pages to use passkeys that were registered for `factors.rp_id`, an earlier
/// host of the issuer (WebAuthn Level 3 §5.11.1).
pub(super) fn related_origins(ctx: &RequestContext<'_>) -> Response {
    let origins: Vec<_> = relying_party(ctx).iter().map(|party| party.origin().to_owned()).collect();
    Response::public_json(&json!({ "origins": origins }), 3600)
}

pub(super) async fn account_page(ctx: &RequestContext<'_>, section: AccountSection) -> Result<Response, Failure> {
    match section {
        AccountSection::Profile => profile::profile_page(ctx).await,
        AccountSection::Address => address::address_page(ctx).await,
        AccountSection::NewAddress => address::change(ctx).await,
        AccountSection::Password => password::password_page(ctx).await,
        AccountSection::Security => security::security_page(ctx).await,
        AccountSection::AddApp => security::add_app(ctx).await,
        AccountSection::AddKey => security::add_key(ctx).await,
        AccountSection::Factor => security::settings(ctx).await,
        AccountSection::RecoveryCodes => security::codes(ctx).await,
        AccountSection::Link => linking::link_page(ctx).await,
        AccountSection::ConfirmLink => linking::confirm_page(ctx).await,
        AccountSection::Unlink => linking::unlink_page(ctx).await,
        AccountSection::Sessions => sessions::sessions_page(ctx).await,
        AccountSection::Applications => applications::applications_page(ctx).await,
        AccountSection::AppPasswords => app_passwords::app_passwords_page(ctx).await,
        AccountSection::AppLogins => app_logins::app_logins_page(ctx).await,
        AccountSection::Activity => activity::activity_page(ctx).await,
    }
}

const PAGE: &str = "/";

/// Number of applications above which the home page has a search.
const MOST_WITHOUT_SEARCH: usize = 8;

/// Maximum length of a search in characters.
const MAX_SEARCH_LENGTH: usize = 100;

pub(super) async fn home_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    let config = &ctx.sealgate.config;
    let credentials = app_logins::stored(ctx, &visitor.user).await?;
    let open = config.apps.iter().filter_map(|app| {
        let path = app.entry_path(&visitor.user)?;
        let icon = app.icon.as_ref().map(|icon| {
            let version = Asset::logo(icon).version;
            ctx.path(&format!("/oauth/icons/{}?v={version}", app.name))
        });
        // A wildcard has no address of its own.
        let address = format!("{}{path}", app.origin(&config.issuer)?);
        let login = app_logins::to_enter(ctx, app, &visitor.user, &credentials);
        let servers = ctx.sealgate.upstreams.for_app(&app.name);
        Some(HomeApp {
            address,
            title: app.called(),
            description: app.description.as_deref(),
            icon,
            in_maintenance: app.maintenance.is_some(),
            is_unavailable: !servers.is_empty() && servers.iter().all(|(_, is_alive)| !is_alive),
            login,
        })
    });
    let mut apps: Vec<_> = open.collect();
    let query = ctx.query()?;
    let search = (apps.len() > MOST_WITHOUT_SEARCH).then(|| {
        let text = query.one("q").ok().flatten().unwrap_or_default();
        text.trim().chars().take(MAX_SEARCH_LENGTH).collect::<String>()
    });
    if let Some(text) = &search {
        let wanted = plain_letters(text);
        apps.retain(|app| {
            [Some(app.title), app.description].into_iter().flatten().any(|text| plain_letters(text).contains(&wanted))
        });
    }
    let offers_passkey = security::offers_passkey(ctx, &visitor.user).await?;
    let page = HomePage { inside: visitor.inside(ctx), apps: &apps, search: search.as_deref(), offers_passkey };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
