//! `/console`: the state of the installation. Developers are led to their clients, and user managers to
//! their users.

use std::path::PathBuf;

use http::StatusCode;

use crate::console::{ConsoleUser, user_list};
use crate::request::ProviderRequest as _;
use sealgate_config::{EXPIRES_SOON, StoreConfig, days_left};
use sealgate_core::overview::{OverviewFigures, SignInCount};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::console_role::ConsoleRole;
use sealgate_domain::key_ring::KeyRing;
use sealgate_domain::time::UnixTime;
use sealgate_pages::console::{CountedFigures, OverviewPage, OverviewWarning, SignInChart};
use sealgate_pages::html;

/// Maximum number of warnings about the configuration, and of certificates.
const MAX_SHOWN: usize = 20;

const MEBIBYTE: u64 = 1 << 20;

pub(super) async fn overview_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if !console_user.roles.reads_everything() {
        let is_manager = console_user.roles.has(ConsoleRole::UserManager);
        return Err(Failure::Redirect(ctx.path(if is_manager { user_list::PAGE } else { "/console/clients" })));
    }
    let (sealgate, config) = (ctx.sealgate, &ctx.sealgate.config);
    let figures = sealgate.overview.current(sealgate).await;
    let ring = sealgate.store.key_ring().await?;
    let servers = servers(ctx);
    let mut certificates: Vec<(String, UnixTime)> = sealgate.certificates.all().into_iter().map(certificate).collect();
    certificates.sort_by_key(|(_, ends)| *ends);
    certificates.truncate(MAX_SHOWN);
    let shown = figures.as_deref().map(|figures| counted(figures, ctx.now));
    let page = OverviewPage {
        inside: console_user.inside(ctx),
        warnings: &warnings(ctx, figures.as_deref(), &ring, servers.1 - servers.0),
        figures: shown.as_ref(),
        servers,
        apps: config.apps.len() as u64,
        active_key: ring.active(ctx.now, |_| true).map(|key| key.kid.as_str()),
        is_token_ready: sealgate.issuer.signer().ready(),
        next_change: ring.next_change(ctx.now),
        certificates: &certificates,
        mail_server: config.mail.as_ref().map(|mail| mail.host.as_str()),
        is_database: matches!(config.store, StoreConfig::Postgres(_)),
        version: env!("CARGO_PKG_VERSION"),
        loaded_at: UnixTime::from_seconds(sealgate.metrics.configured_at()),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

fn certificate((file, ends): (PathBuf, i64)) -> (String, UnixTime) {
    (file.display().to_string(), UnixTime::from_seconds(u64::try_from(ends).unwrap_or_default()))
}

/// Returns the warning about a certificate that has expired or expires soon.
fn expiring((file, ends): &(PathBuf, i64), now: UnixTime) -> Option<OverviewWarning> {
    let now = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
    let file = file.display().to_string();
    match days_left(*ends, now) {
        EXPIRES_SOON.. => None,
        ..0 => Some(OverviewWarning::CertificateExpired(file)),
        days => Some(OverviewWarning::CertificateExpires(file, days.unsigned_abs())),
    }
}

/// Returns the numbers of servers that pass their health checks, and of all checked servers.
fn servers(ctx: &RequestContext<'_>) -> (u64, u64) {
    let states = ctx.sealgate.config.apps.iter().flat_map(|app| ctx.sealgate.upstreams.for_app(&app.name));
    states.fold((0, 0), |(up, all), (_, alive)| (up + u64::from(alive), all + 1))
}

fn warnings(
    ctx: &RequestContext<'_>,
    figures: Option<&OverviewFigures>,
    ring: &KeyRing,
    servers_down: u64,
) -> Vec<OverviewWarning> {
    let (sealgate, config) = (ctx.sealgate, &ctx.sealgate.config);
    let counts = figures.map(|figures| &figures.counts);
    let some = |count: Option<u64>, warning: fn(u64) -> OverviewWarning| count.filter(|count| *count > 0).map(warning);
    let certificates = sealgate.certificates.all();
    let of_certificates = certificates.iter().filter_map(|served| expiring(served, ctx.now)).take(MAX_SHOWN);
    let of_keys = [
        (!sealgate.issuer.signer().ready()).then_some(OverviewWarning::TokenNotReady),
        ring.active(ctx.now, |_| true).is_none().then_some(OverviewWarning::NoActiveKey),
        sealgate.rotation.fault().map(OverviewWarning::RotationFails),
        sealgate.rotation.warning().map(OverviewWarning::UntrustedKeys),
    ];
    let of_counts = [
        some(Some(servers_down), OverviewWarning::ServersDown),
        some(counts.map(|counts| counts.unapproved as u64), OverviewWarning::Unapproved),
        some(counts.map(|counts| counts.mails_undeliverable as u64), OverviewWarning::MailsUndeliverable),
        sealgate.metrics.measurements().reload_refused.then_some(OverviewWarning::ReloadRefused),
    ];
    let texts = config.warnings.iter().take(MAX_SHOWN).map(ToString::to_string);
    let of_configuration = texts.map(OverviewWarning::Configuration);
    let of_machine = figures.map_or(&[][..], |figures| &figures.machine.1).iter().cloned();
    let of_machine = of_machine.chain(sealgate.probes.current(sealgate)).map(OverviewWarning::Machine);
    let of_parts = of_keys.into_iter().chain(of_counts).flatten();
    of_parts.chain(of_certificates).chain(of_machine).chain(of_configuration).collect()
}

fn counted(figures: &OverviewFigures, now: UnixTime) -> CountedFigures {
    let counts = &figures.counts;
    let chart = |periods: Vec<(UnixTime, SignInCount)>| SignInChart {
        periods: periods.into_iter().map(|(at, count)| (at, count.signed_in, count.failed)).collect(),
    };
    CountedFigures {
        at: figures.at,
        users: counts.users as u64,
        sessions: counts.sessions as u64,
        clients: counts.clients as u64,
        mails_waiting: counts.mails_waiting as u64,
        mails_undeliverable: counts.mails_undeliverable as u64,
        store_mebibytes: figures.store_bytes.map(|bytes| bytes.div_ceil(MEBIBYTE)),
        hours: chart(figures.by_hour(now)),
        days: chart(figures.by_day(now)),
    }
}
