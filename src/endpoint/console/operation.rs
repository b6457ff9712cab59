//! `/console/keys` and `/console/limits`: what an administrator looks at, and changes elsewhere.

use http::StatusCode;

use super::Worker;
use crate::endpoint::call::Call;
use crate::endpoint::failure::Failure;
use crate::endpoint::response::Response;
use crate::page::console::{KeyLine, KeyState, Keys, LimitLine, Limits};
use crate::protocol::key_life;
use crate::protocol::rate_limit::RateLimit;
use crate::protocol::time::UnixTime;

pub(super) async fn keys(call: &Call<'_>, worker: &Worker) -> Result<Response, Failure> {
    let ring = call.sealgate.store.key_ring().await?;
    let line = |key: &'_ key_life::KeyLife| {
        let state = match ring.state(key, call.now) {
            key_life::KeyState::PrePublished => KeyState::PrePublished,
            key_life::KeyState::Active => KeyState::Active,
            key_life::KeyState::Retired => KeyState::Retired,
            key_life::KeyState::Removed => KeyState::Removed,
        };
        let seconds = |at: Option<UnixTime>| at.map(UnixTime::seconds);
        (state, key.published_at.seconds(), seconds(key.activate_at), seconds(key.retire_at), seconds(key.remove_at))
    };
    let mut lines = Vec::with_capacity(ring.keys().len());
    for key in ring.keys().iter().rev() {
        let (state, published_at, activate_at, retire_at, remove_at) = line(key);
        lines.push(KeyLine { kid: &key.kid, state, published_at, activate_at, retire_at, remove_at });
    }
    let content = Keys { keys: &lines, next_change: ring.next_change(call.now).map(UnixTime::seconds) };
    let pages = &call.sealgate.pages;
    Ok(worker.page(call, StatusCode::OK, |chrome, shell| pages.console_keys(chrome, shell, &content)))
}

pub(super) fn limits(call: &Call<'_>, worker: &Worker) -> Response {
    let config = &call.sealgate.config;
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
        limits: &lines,
        sign_ins: requests(limits.sign_ins),
        failures_per_account: config.login.failures_per_account.into(),
        failures_per_address: config.login.failures_per_address.into(),
        window_minutes: config.login.window.as_secs().div_ceil(60),
    };
    let pages = &call.sealgate.pages;
    worker.page(call, StatusCode::OK, |chrome, shell| pages.console_limits(chrome, shell, &content))
}
