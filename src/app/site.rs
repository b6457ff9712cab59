//! Request handling behind the edge: the provider on the issuer's host, the gateway on the
//! applications' hosts.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Response, StatusCode, request};
use tokio::time::MissedTickBehavior;

use crate::app::notices;
use crate::app::server::Stop;
use crate::app::shared_origin;
use sealgate_config::{Config, host_name};
use sealgate_core::expiry::Expiry;
use sealgate_core::state::Sealgate;
use sealgate_core::web::response::Response as PageResponse;
use sealgate_core::web::server_cookie;
use sealgate_domain::answers::HEARTBEAT_INTERVAL;
use sealgate_domain::error::Refusal;
use sealgate_edge::{
    AnswerReason, AnsweredBy, ConnectionEvent, EdgeObserver, Finished, Forward, Front, Health, Policy, Reauthorization,
    RouteDecision,
};
use sealgate_gateway as gateway;
use sealgate_gateway::{GateOutcome, Gateway};
use sealgate_provider as provider;

/// Interval of checks whether the store accepts writes.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of reports about responses to refresh requests. Without new responses, there is no
/// report.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Local route of a form that a user submitted to an application, if the user must sign in first.
/// The gateway stores the form.
struct Form;

/// Provider and gateway under one configuration. A reload builds another site: see [`Site::with`].
pub struct Site {
    sealgate: Arc<Sealgate>,
    gateway: Gateway,
    /// The issuer's authority, as in a Host header.
    authority: String,
    store_writable: Arc<AtomicBool>,
    expiry: Arc<Mutex<Expiry>>,
}

impl Site {
    /// Creates the site for this state.
    pub fn new(sealgate: Arc<Sealgate>) -> Self {
        let gateway = Gateway::new(&sealgate.config);
        let authority = sealgate.config.issuer.authority();
        Self { sealgate, gateway, authority, store_writable: Arc::new(AtomicBool::new(true)), expiry: Arc::default() }
    }

    /// Returns the site under another configuration. The new site shares all long-lived state with
    /// this site.
    #[must_use]
    pub fn with(&self, config: Config) -> Self {
        let sealgate = Arc::new(self.sealgate.with(config));
        let gateway = self.gateway.with(&sealgate.config);
        let authority = sealgate.config.issuer.authority();
        Self {
            sealgate,
            gateway,
            authority,
            store_writable: Arc::clone(&self.store_writable),
            expiry: Arc::clone(&self.expiry),
        }
    }

    /// Puts a site of [`Site::with`] into effect.
    pub fn take_effect(&self) {
        self.gateway.take_effect();
    }

    /// Returns the shared state.
    pub fn sealgate(&self) -> &Arc<Sealgate> {
        &self.sealgate
    }

    /// Returns whether a Host header names the issuer, ignoring case and the scheme's default port.
    fn is_issuer(&self, host: &str) -> bool {
        let default_port = if self.sealgate.config.issuer.is_https() { ":443" } else { ":80" };
        let bare = host.strip_suffix(default_port).unwrap_or(host);
        bare.eq_ignore_ascii_case(&self.authority)
    }

    /// Decides on a request to an application.
    ///
    /// `shares_origin` is true if the application is on the issuer's origin.
    async fn gate(&self, app: usize, head: &request::Parts, shares_origin: bool) -> RouteDecision {
        let config = &self.sealgate.config;
        if let Some(refusal) = shares_origin.then(|| shared_origin::refuse_worker(config, head)).flatten() {
            return RouteDecision::Answer(refusal.finish());
        }
        match self.gateway.admit(&self.sealgate, app, head).await {
            GateOutcome::Respond(reply) => RouteDecision::Answer(reply.response.finish()),
            GateOutcome::ReadForm => RouteDecision::Local { body_limit: gateway::MAX_FORM_BYTES, route: &Form },
            GateOutcome::Forward(permit) => {
                if let Some(place) = permit.redirect() {
                    return RouteDecision::Answer(
                        PageResponse::redirect(StatusCode::PERMANENT_REDIRECT, place).finish(),
                    );
                }
                let (app, upstreams, allow_get_body) = (permit.app(), permit.upstreams(), permit.allows_get_body());
                let (limits, session, compression) = (permit.limits(), permit.session(), permit.compression());
                let affinity = permit.affinity(config, &head.headers);
                let mut rewrite = permit.rewrite(head);
                if shares_origin {
                    shared_origin::restrict(config, head, &mut rewrite.answer);
                }
                RouteDecision::Forward(Forward {
                    app,
                    upstreams,
                    affinity,
                    allow_get_body,
                    limits,
                    compression,
                    rewrite,
                    session,
                })
            }
        }
    }

    /// Records in the store which sessions and application passwords were used since the last call.
    pub async fn note_uses(&self) {
        self.gateway.note_uses(&self.sealgate).await;
        self.gateway.end_sessions_at_apps(&self.sealgate).await;
    }

    /// Records a heartbeat periodically until `stop`, so that a suspension of the process is
    /// detected.
    pub async fn run_heartbeat(self: Arc<Self>, mut stop: Stop) {
        loop {
            self.sealgate.answers.heartbeat();
            tokio::select! {
                _ = stop.changed() => break,
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            }
        }
        self.sealgate.answers.rest();
    }

    /// Records in the store which responses to refresh requests were ready in time, until `stop`.
    pub async fn report_answers(self: Arc<Self>, mut stop: Stop) {
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                () = tokio::time::sleep(REPORT_INTERVAL) => {}
            }
            let Sealgate { answers, store, clock, .. } = self.sealgate.as_ref();
            if let Err(error) = answers.report(store, clock.now()).await {
                tracing::warn!(%error, "cannot report the answers to refresh requests; the next report includes them");
            }
        }
    }

    /// Reports the last responses to refresh requests, before the store is closed.
    pub async fn report_last_answers(&self) {
        let Sealgate { answers, store, clock, .. } = self.sealgate.as_ref();
        if let Err(error) = answers.report_last(store, clock.now()).await {
            tracing::warn!(%error, "the last answers to refresh requests were not reported");
        }
    }

    /// Monitors the store, and writes queued records to it, until `stop`.
    pub async fn run(self: Arc<Self>, mut stop: Stop) {
        let mut pulse = tokio::time::interval(CHECK_INTERVAL);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pulse.tick().await;
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = pulse.tick() => {}
                () = self.sealgate.audit.write_requested() => {
                    if self.sealgate.store.basis().is_ok() {
                        self.write_audit().await;
                    }
                    continue;
                }
            }
            self.sealgate.audit.collect(self.sealgate.clock.now());
            // Queued records can wait while the store cannot acknowledge commits.
            if self.sealgate.store.basis().is_ok() {
                self.note_uses().await;
                self.write_audit().await;
            }
            if let Err(error) = self.sealgate.reload_key_ring().await {
                tracing::warn!(%error, "cannot read the schedule of the signing keys; the last known one \
                    stays in use");
            }
            self.sealgate.read_attestations().await;
            let writable = self.sealgate.store.ping().await;
            if let Err(error) = &writable
                && self.store_writable.load(Ordering::Relaxed)
            {
                tracing::error!(%error, "the store accepts no writes; requests that need one are answered with 503");
            }
            self.store_writable.store(writable.is_ok(), Ordering::Relaxed);
            let open = i64::try_from(self.sealgate.store.open_interactions()).unwrap_or(i64::MAX);
            self.sealgate.metrics.interactions.set(open);
        }
    }

    /// Writes queued audit events to the store, and queues notices to users about them.
    async fn write_audit(&self) {
        if let Err(error) = self.sealgate.audit.write(&self.sealgate.store).await {
            tracing::warn!(%error, "audit records are waiting for the store");
        }
        notices::queue_notices(&self.sealgate).await;
    }

    /// Writes all queued and counted audit events, before the store is closed.
    pub async fn write_last_audit(&self) {
        self.sealgate.audit.collect_all();
        self.write_audit().await;
    }
}

#[async_trait]
impl Front for Site {
    async fn decide(&self, head: &request::Parts) -> RouteDecision {
        let host = host(&head.headers);
        let config = &self.sealgate.config;
        if Gateway::is_asked_by_proxy(config, head) {
            return RouteDecision::Answer(Box::pin(self.gateway.answer_proxy(&self.sealgate, head)).await.finish());
        }
        let app = self.gateway.app_of(host);
        let is_issuer = self.is_issuer(host);
        if is_issuer && (app.is_none() || provider::owns(config, head.uri.path())) {
            let route = provider::route(config, head.uri.path());
            let body_limit = route.body_limit(&self.sealgate, head).await;
            return RouteDecision::Local { body_limit, route };
        }
        if let Some(app) = app {
            return self.gate(app, head, is_issuer).await;
        }
        // An unknown host name: serve only public documents that are the same for everyone.
        let route = provider::route(config, head.uri.path());
        if route.is_public_document() {
            return RouteDecision::Local { body_limit: 0, route };
        }
        if head.extensions.get::<Reauthorization>().is_some() {
            // The response is discarded, so it must not count against a rate limit.
            return RouteDecision::Answer(Response::default());
        }
        RouteDecision::Answer(provider::misdirected(&self.sealgate, head).finish())
    }

    async fn answer(&self, head: &request::Parts, occasion: AnswerReason) -> Option<Response<Bytes>> {
        let sealgate = &self.sealgate;
        match occasion {
            AnswerReason::Local(route, body) => Some(match route.downcast_ref::<provider::ProviderRoute>() {
                Some(route) => provider::dispatch(sealgate, route, head, body).await,
                None => self.gateway.take_form(sealgate, head, body).await.finish(),
            }),
            AnswerReason::NoBody(status) => {
                let refusal = Refusal::invalid_request("The body is too long or arrived too slowly.");
                Some(provider::refuse(sealgate, head, status, refusal).finish())
            }
            AnswerReason::Unanswered(status) => self.gateway.unanswered(sealgate, head, status),
        }
    }
}

impl Policy for Site {
    fn epoch(&self) -> u64 {
        // Both numbers only grow, so their sum changes when one of them changes.
        self.sealgate.store.epoch().wrapping_add(self.sealgate.issuer.signer().generation())
    }

    fn public_origin(&self, host: &str) -> Option<String> {
        let (issuer, name) = (&self.sealgate.config.issuer, host_name(host));
        if issuer.host() == name {
            return Some(format!("{}://{}", issuer.scheme(), issuer.authority()));
        }
        let apps = &self.sealgate.config.apps;
        if let Some(app) = apps.iter().find(|app| host_name(&app.host) == name) {
            return app.origin(issuer);
        }
        let app = apps.get(self.gateway.app_of(host)?)?;
        Some(app.origin_at(issuer, app.covered_host(host).as_ref()))
    }

    fn server_cookie(&self, list: usize, number: u64) -> Option<HeaderValue> {
        Some(server_cookie::set(list, number, self.sealgate.config.issuer.is_https()))
    }

    fn may_set_cookie(&self, line: &HeaderValue) -> bool {
        gateway::may_set_cookie(line)
    }
}

impl EdgeObserver for Site {
    fn finished(&self, exchange: &Finished<'_>) {
        let app = exchange.app.and_then(|index| self.sealgate.config.apps.get(index));
        let status = exchange.status.map_or(0, |status| status.as_u16());
        if let Some(app) = app {
            self.sealgate.metrics.proxied(&app.name, status, exchange.duration.as_secs_f64());
        }
        let by = match exchange.answered_by {
            AnsweredBy::Edge => "edge",
            AnsweredBy::Front => "sealgate",
            AnsweredBy::Upstream => "upstream",
        };
        // Never log the query: it contains codes and tokens.
        tracing::info!(
            target: "sealgate::access",
            request_id = %exchange.origin.request_id,
            address = %exchange.origin.address_text(),
            method = %exchange.method,
            host = exchange.host,
            path = exchange.path,
            status,
            by,
            app = app.map(|app| app.name.as_str()),
            milliseconds = (exchange.duration.as_secs_f64() * 1e6).round() / 1000.0,
            request_bytes = exchange.request_bytes,
            response_bytes = exchange.response_bytes,
            reason = exchange.reason,
            trace_id = exchange.trace.map(|id| format!("{id:032x}")),
        );
    }

    fn certificates(&self, served: &[(&Path, i64)]) {
        let now = i64::try_from(self.sealgate.clock.now().seconds()).unwrap_or(i64::MAX);
        let removed_files = self.expiry.lock().unwrap_or_else(PoisonError::into_inner).update(served, now);
        for file in removed_files {
            self.sealgate.metrics.forget_certificate(&file);
        }
        for (file, ends) in served {
            self.sealgate.metrics.certificate(file, *ends);
        }
        self.sealgate.certificates.set(served.iter().map(|(file, ends)| ((*file).to_owned(), *ends)).collect());
    }

    fn upstreams(&self, states: Vec<(String, String, bool)>) {
        self.sealgate.metrics.upstreams(&states);
        self.sealgate.upstreams.set(states);
    }

    fn connection(&self, event: ConnectionEvent) {
        let metrics = &self.sealgate.metrics;
        match event {
            ConnectionEvent::Opened => metrics.connections.inc(),
            ConnectionEvent::Closed => metrics.connections.dec(),
            ConnectionEvent::TooManyFromPeer => metrics.turned_away("too_many_from_peer"),
            ConnectionEvent::TooManyStreams => metrics.turned_away("too_many_streams"),
            ConnectionEvent::ProxyHeaderInvalid => metrics.turned_away("proxy_header_invalid"),
            ConnectionEvent::HandshakeFailed => metrics.turned_away("handshake_failed"),
            ConnectionEvent::HeadTooSlow => metrics.turned_away("head_too_slow"),
            ConnectionEvent::HeadTooLarge => metrics.turned_away("head_too_large"),
            ConnectionEvent::HeadMalformed => metrics.turned_away("head_malformed"),
            ConnectionEvent::AccessEnded => metrics.turned_away("access_ended"),
            ConnectionEvent::CertificateEnded => metrics.turned_away("certificate_ended"),
        }
    }
}

impl Health for Site {
    fn metrics(&self) -> String {
        self.sealgate.metrics.text()
    }

    fn ready(&self) -> Result<(), String> {
        if !self.sealgate.issuer.signer().ready() {
            return Err("the PKCS#11 token does not sign".to_owned());
        }
        // The error names the cause, such as a missing heartbeat, a wrong clock or a removed node.
        self.sealgate.store.basis().map(drop).map_err(|error| error.to_string())?;
        if !self.store_writable.load(Ordering::Relaxed) {
            return Err("the store accepts no writes".to_owned());
        }
        Ok(())
    }

    fn probe(&self) -> Option<(String, String)> {
        let issuer = &self.sealgate.config.issuer;
        Some((issuer.authority(), format!("{}/.well-known/openid-configuration", issuer.path_prefix())))
    }

    fn warnings(&self) -> Vec<String> {
        let keys = [self.sealgate.rotation.fault(), self.sealgate.rotation.warning()];
        keys.into_iter().flatten().chain(self.sealgate.trust.warnings()).collect()
    }
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
