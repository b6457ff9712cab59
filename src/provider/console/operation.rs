//! `/console/keys`, `/console/applications` and `/console/settings`: what an administrator looks at, and changes elsewhere.

use http::StatusCode;

use super::ConsoleUser;
use crate::config::Upstream;
use crate::domain::key_ring;
use crate::domain::rate_limit::RateLimit;
use crate::domain::time::UnixTime;
use crate::page::console::{AppLine, KeyLine, KeyState, Keys, LimitLine, Limits, ServerLine};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

pub(super) async fn keys(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let ring = ctx.sealgate.store.key_ring().await?;
    let line = |key: &'_ key_ring::KeyLife| {
        let state = match ring.state(key, ctx.now) {
            key_ring::KeyState::PrePublished => KeyState::PrePublished,
            key_ring::KeyState::Active => KeyState::Active,
            key_ring::KeyState::Retired => KeyState::Retired,
            key_ring::KeyState::Removed => KeyState::Removed,
        };
        let seconds = |at: Option<UnixTime>| at.map(UnixTime::seconds);
        (state, key.published_at.seconds(), seconds(key.activate_at), seconds(key.retire_at), seconds(key.remove_at))
    };
    let mut lines = Vec::with_capacity(ring.keys().len());
    for key in ring.keys().iter().rev() {
        let (state, published_at, activate_at, retire_at, remove_at) = line(key);
        lines.push(KeyLine { kid: &key.kid, state, published_at, activate_at, retire_at, remove_at });
    }
    let content = Keys { keys: &lines, next_change: ring.next_change(ctx.now).map(UnixTime::seconds) };
    let pages = &ctx.sealgate.pages;
    Ok(console_user.page(ctx, StatusCode::OK, |chrome, shell| pages.console_keys(chrome, shell, &content)))
}

/// The applications behind the gate, and whether their servers take connections.
pub(super) fn apps(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Response {
    let config = &ctx.sealgate.config;
    let texts: Vec<(String, Vec<ServerLine>)> = config
        .apps
        .iter()
        .map(|app| {
            let known = ctx.sealgate.upstreams.of(&app.name);
            let servers = if known.is_empty() {
                app.upstreams.iter().map(|one| ServerLine { address: configured(one), alive: None }).collect()
            } else {
                known.into_iter().map(|(address, alive)| ServerLine { address, alive: Some(alive) }).collect()
            };
            (app.origin(&config.issuer), servers)
        })
        .collect();
    let mut lines = Vec::with_capacity(texts.len());
    for (app, (address, servers)) in config.apps.iter().zip(&texts) {
        lines.push(AppLine { name: app.called(), address, servers });
    }
    let pages = &ctx.sealgate.pages;
    console_user.page(ctx, StatusCode::OK, |chrome, shell| pages.console_apps(chrome, shell, &lines))
}

/// What the configuration calls a server.
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
    let content = Limits {
        issuer: config.issuer.as_str(),
        limits: &lines,
        sign_ins: requests(limits.sign_ins),
        failures_per_account: config.login.failures_per_account.into(),
        failures_per_address: config.login.failures_per_address.into(),
        window_minutes: config.login.window.as_secs().div_ceil(60),
    };
    let pages = &ctx.sealgate.pages;
    console_user.page(ctx, StatusCode::OK, |chrome, shell| pages.console_settings(chrome, shell, &content))
}
