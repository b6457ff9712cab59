//! Endpoints for monitoring: `/metrics`, `/healthz` and `/readyz`.
//!
//! The endpoints have a separate listener. Only the operator should be able to reach it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::sync::watch;

use super::Health;
use super::probe::Probe;
use super::proxy::body::respond;
use super::proxy::loop_mark::LoopMark;

/// Phase of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Some listeners do not accept connections yet, and stop signals are not handled yet.
    Starting,
    Serving,
    /// Requests in progress are completed. New requests are not accepted.
    Stopping,
}

/// Creates the application of the monitoring listener.
///
/// `/readyz` reports ready if the phase is [`Phase::Serving`], `health` reports ready, and the
/// probe succeeds. Requests that the gateway has forwarded are refused, by whatever name or address they
/// came: users of an application must not read the metrics.
pub const fn admin_service(
    health: Arc<dyn Health>,
    phase: watch::Receiver<Phase>,
    probe: Arc<Probe>,
    loop_mark: LoopMark,
) -> MonitoringService {
    MonitoringService { health, phase, probe, loop_mark }
}

/// HTTP service of `admin.listen`, without TLS.
pub struct MonitoringService {
    health: Arc<dyn Health>,
    phase: watch::Receiver<Phase>,
    probe: Arc<Probe>,
    loop_mark: LoopMark,
}

impl MonitoringService {
    async fn answer(&self, method: &Method, path: &str, is_forwarded: bool) -> Response<Bytes> {
        if is_forwarded {
            return fault(
                StatusCode::LOOP_DETECTED,
                "loop_detected",
                "This listener does not serve requests that Sealgate has forwarded.",
            );
        }
        if !matches!(path, "/metrics" | "/healthz" | "/readyz") {
            return fault(
                StatusCode::NOT_FOUND,
                "not_found",
                "This listener only serves /metrics, /healthz and /readyz.",
            );
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = fault(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Use GET.");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            "/metrics" => text("text/plain; version=0.0.4; charset=utf-8", self.health.metrics()),
            "/healthz" => text("text/plain; charset=utf-8", "alive\n".to_owned()),
            _ => match self.ready().await {
                Ok(()) => {
                    let warnings = self.health.warnings().into_iter().map(|line| format!("warning: {line}\n"));
                    text("text/plain; charset=utf-8", std::iter::once("ready\n".to_owned()).chain(warnings).collect())
                }
                Err(why) => fault(StatusCode::SERVICE_UNAVAILABLE, "not_ready", &why),
            },
        }
    }

    async fn ready(&self) -> Result<(), String> {
        let phase = *self.phase.borrow();
        match phase {
            Phase::Starting => Err("The server is starting.".to_owned()),
            Phase::Serving => {
                self.health.ready()?;
                self.probe.ask().await
            }
            Phase::Stopping => Err("The server is stopping.".to_owned()),
        }
    }
}

#[async_trait]
impl HttpServerApp for MonitoringService {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        _shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        match session.read_request().await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(_) => {
                let _ = session.respond_error(400).await;
                return None;
            }
        }
        let head = session.req_header();
        let (method, path) = (head.method.clone(), head.uri.path().to_owned());
        let is_forwarded = self.loop_mark.is_in(&head.headers);
        let response = self.answer(&method, &path, is_forwarded).await;
        respond(&mut session, response, None).await.ok()?;
        let settings = HttpPersistentSettings::for_session(&session);
        let reusable = session.finish().await.ok()??;
        Some(ReusedHttpStream::from_reusable_stream(reusable, settings))
    }
}

fn text(content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn fault(status: StatusCode, error: &str, sentence: &str) -> Response<Bytes> {
    let body = serde_json::json!({ "error": error, "error_description": sentence });
    let mut response = text("application/json", body.to_string());
    *response.status_mut() = status;
    response
}
