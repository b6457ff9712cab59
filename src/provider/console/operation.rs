//! `/console/keys`, `/console/applications` and `/console/settings`: read-only pages for
//! administrators.

use http::StatusCode;

use super::console_user::ConsoleUser;
use sealgate_config::Upstream;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_pages::console::{AppLine, AppsPage, KeysPage, LimitLine, SettingsPage};
use sealgate_pages::html;

pub(super) async fn keys(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let ring = ctx.sealgate.store.key_ring().await?;
    let page = KeysPage { inside: console_user.inside(ctx), ring: &ring, now: ctx.now };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Shows the protected applications, and whether their upstreams accept connections.
pub(super) fn apps(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Response {
    let config = &ctx.sealgate.config;
    let apps: Vec<AppLine<'_>> = config
        .apps
        .iter()
        .map(|app| {
            let known = ctx.sealgate.upstreams.of(&app.name);
            let servers = if known.is_empty() {
                app.upstreams.iter().map(|one| (configured(one), None)).collect()
            } else {
                known.into_iter().map(|(address, alive)| (address, Some(alive))).collect()
            };
            AppLine { name: app.called(), address: app.origin(&config.issuer), servers }
        })
        .collect();
    let page = AppsPage { inside: console_user.inside(ctx), apps: &apps };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns an upstream as the configuration file writes it.
fn configured(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Url(url) => url.to_string(),
        Upstream::Socket(path) => format!("unix:{}", path.display()),
    }
}

pub(super) fn settings(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Response {
    let config = &ctx.sealgate.config;
    let limits = &config.rate_limits;
    let requests = |limit: RateLimit| limit.requests().map(u64::from);
    let line = |path, limit, by_credential| LimitLine { path, limit: requests(limit), by_credential };
    let lines = [
        line(Some("/oauth/authorize"), limits.authorize, false),
        line(Some("/oauth/token"), limits.token, true),
        line(Some("/oauth/userinfo"), limits.userinfo, true),
        line(Some("/oauth/revoke"), limits.revoke, true),
        line(Some("/.well-known/openid-configuration"), limits.discovery, false),
        line(Some("/oauth/jwks"), limits.jwks, false),
        line(Some("/oauth/logout"), limits.logout, false),
        line(Some("/oauth/register"), limits.register, false),
        line(None, limits.pages, false),
    ];
    let page = SettingsPage {
        inside: console_user.inside(ctx),
        issuer: config.issuer.as_str(),
        limits: &lines,
        sign_ins: requests(limits.sign_ins),
        failures_per_account: config.login.failures_per_account.into(),
        failures_per_address: config.login.failures_per_address.into(),
        window_minutes: config.login.window.as_secs().div_ceil(60),
    };
    Response::page(StatusCode::OK, html(&page), None)
}
