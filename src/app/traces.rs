//! Export of traces to a collector (OTLP 1 over HTTP, JSON).

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::app::server::Stop;
use sealgate_config::{Config, TelemetryConfig, read_export_headers};
use sealgate_system::clock::{OsEntropy, random};
use sealgate_system::fetch::Web;
use sealgate_system::metrics::Metrics;
use sealgate_system::trace::{AttributeValue, EndedTrace, Span, SpanKind, Tracer};

/// Maximum number of traces in one export.
const MAX_BATCH: usize = 128;
/// Maximum time for which a trace waits for further traces.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Timeout of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(4);
/// Pause after the first failed export. It doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Minimum time between two log lines about failed exports.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum time for the last exports at a stop.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_RESPONSE_BYTES: u64 = 64 * 1024;

/// Exporter of traces. The background task and the stop hook share it.
pub(crate) struct Exporter(Mutex<State>);

struct State {
    queue: mpsc::Receiver<EndedTrace>,
    /// Traces that the collector has not accepted yet.
    batch: Vec<EndedTrace>,
    collector: Arc<Collector>,
    metrics: Arc<Metrics>,
    pause: Option<Duration>,
    reported: Option<Instant>,
}

struct Collector {
    url: String,
    headers: HeaderMap,
    resource: Value,
    web: Web,
}

/// Reason why the collector did not accept a batch.
enum ExportError {
    /// A later attempt may succeed. Contains the pause that the collector demands, if any.
    Later(String, Option<Duration>),
    Refused(String),
}

/// Recorder and exporter of traces.
pub(crate) type Telemetry = (Arc<Tracer>, Arc<Exporter>);

/// Creates the recorder and the exporter that `[telemetry]` configures. Returns `None` without that
/// section.
///
/// # Errors
/// One line, if a file cannot be read.
pub(crate) fn prepare(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<Telemetry>, String> {
    let Some(telemetry) = &config.telemetry else { return Ok(None) };
    let node = config.cluster.as_ref().map(|cluster| cluster.node.as_str());
    let collector = Arc::new(Collector::new(telemetry, node)?);
    let seed = u64::from_ne_bytes(random(&OsEntropy));
    let (tracer, queue) = Tracer::new(telemetry.sample, seed, Arc::clone(metrics));
    let state =
        State { queue, batch: Vec::new(), collector, metrics: Arc::clone(metrics), pause: None, reported: None };
    Ok(Some((tracer, Arc::new(Exporter(Mutex::new(state))))))
}

impl Exporter {
    /// Exports traces until `stop`.
    pub(crate) async fn run(self: Arc<Self>, mut stop: Stop) {
        let mut state = self.0.lock().await;
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                () = state.gather() => {}
            }
            state.export().await;
            if let Some(pause) = state.pause {
                tokio::select! {
                    _ = stop.changed() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    /// Exports the remaining traces within a deadline, without retries. Call it after all requests
    /// have ended.
    pub(crate) async fn flush(&self) {
        let flushed = timeout(FLUSH_TIMEOUT, async {
            let mut state = self.0.lock().await;
            state.pause = None;
            while state.pause.is_none() && state.take_queued() {
                state.export().await;
            }
            state.pause.is_none()
        });
        if flushed.await != Ok(true) {
            tracing::warn!("the last traces were not exported: the collector did not accept them in time");
        }
    }
}

impl State {
    /// Waits for a batch. Cancellation loses nothing.
    async fn gather(&mut self) {
        if self.batch.is_empty() {
            match self.queue.recv().await {
                Some(ended) => self.batch.push(ended),
                None => std::future::pending().await,
            }
        }
        let full = async {
            while self.batch.len() < MAX_BATCH {
                match self.queue.recv().await {
                    Some(ended) => self.batch.push(ended),
                    None => return,
                }
            }
        };
        let _ = timeout(MAX_DELAY, full).await;
    }

    /// Fills the batch without waiting. Returns whether there is something to export.
    fn take_queued(&mut self) -> bool {
        while self.batch.len() < MAX_BATCH
            && let Ok(ended) = self.queue.try_recv()
        {
            self.batch.push(ended);
        }
        !self.batch.is_empty()
    }

    /// Exports the batch. If that fails but a later attempt may succeed, keeps the batch and sets a
    /// pause.
    async fn export(&mut self) {
        let spans: usize = self.batch.iter().map(|ended| ended.spans.len()).sum();
        let body = self.collector.body(&self.batch);
        let collector = Arc::clone(&self.collector);
        let posted = spawn_blocking(move || collector.post(body)).await;
        let lost = |error| Err(ExportError::Refused(format!("the export failed: {error}")));
        match posted.unwrap_or_else(lost) {
            Ok(rejected) => {
                if self.pause.take().is_some() {
                    tracing::info!("the collector of traces accepts spans again");
                }
                self.metrics.spans_exported(spans.saturating_sub(rejected));
                self.metrics.spans_dropped(rejected.min(spans));
                self.batch.clear();
            }
            Err(ExportError::Later(error, wish)) => {
                let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(MAX_PAUSE));
                self.pause = Some(wish.map_or(pause, |wish| wish.clamp(FIRST_PAUSE, MAX_PAUSE)));
                self.report(&error);
            }
            Err(ExportError::Refused(error)) => {
                self.metrics.spans_dropped(spans);
                self.batch.clear();
                self.report(&error);
            }
        }
    }

    fn report(&mut self, error: &str) {
        self.metrics.trace_export_failed();
        if self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL) {
            self.reported = Some(Instant::now());
            tracing::warn!(
                error,
                "cannot export traces; requests are not affected. Check telemetry.otlp and the collector"
            );
        }
    }
}

impl Collector {
    fn new(telemetry: &TelemetryConfig, node: Option<&str>) -> Result<Self, String> {
        let headers = telemetry.headers_file.as_deref().map(read_export_headers).transpose();
        let mut headers = headers.map_err(|fault| format!("telemetry.headers_file: {fault}"))?.unwrap_or_default();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let attributes = [
            ("service.name", Some(telemetry.service_name.as_str())),
            ("service.version", Some(env!("CARGO_PKG_VERSION"))),
            ("service.instance.id", node),
        ];
        let attributes = attributes
            .into_iter()
            .filter_map(|(key, value)| Some(json!({ "key": key, "value": { "stringValue": value? } })));
        let web = Web::new(EXPORT_TIMEOUT, MAX_RESPONSE_BYTES)?;
        let resource = json!({ "attributes": attributes.collect::<Vec<_>>() });
        Ok(Self { url: telemetry.otlp.clone(), headers, resource, web })
    }

    /// Returns the traces as an `ExportTraceServiceRequest` in OTLP's form of JSON.
    fn body(&self, batch: &[EndedTrace]) -> Vec<u8> {
        let spans = batch.iter().flat_map(|ended| ended.spans.iter().map(|span| span_json(ended.id, span)));
        let spans: Vec<_> = spans.collect();
        let body = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": { "name": "sealgate" }, "spans": spans }],
        }]});
        body.to_string().into_bytes()
    }

    /// Posts a batch and returns the number of spans that the collector rejected. Blocking.
    fn post(&self, body: Vec<u8>) -> Result<usize, ExportError> {
        let mut request = Request::post(&self.url).body(body);
        if let Ok(request) = &mut request {
            request.headers_mut().extend(self.headers.clone());
        }
        let request = request.map_err(|error| ExportError::Refused(error.to_string()))?;
        let response = self.web.exchange(request).map_err(|error| ExportError::Later(error, None))?;
        let status = response.status();
        let line = || format!("{}: status {status}", self.url);
        match status.as_u16() {
            200..=299 => Ok(rejected(&response)),
            429 | 502 | 503 | 504 => Err(ExportError::Later(line(), retry_after(&response))),
            _ => Err(ExportError::Refused(line())),
        }
    }
}

/// Returns the number of rejected spans in a response. OTLP writes 64-bit numbers as text.
fn rejected(response: &Response<Vec<u8>>) -> usize {
    let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    let count = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default();
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn retry_after(response: &Response<Vec<u8>>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn span_json(trace: u128, span: &Span) -> Value {
    let Span { name, kind, id, parent, start, end, attributes, failed } = span;
    let attributes = attributes.iter().map(|(key, value)| {
        let value = match value {
            AttributeValue::Text(text) => json!({ "stringValue": text }),
            AttributeValue::Integer(number) => json!({ "intValue": number.to_string() }),
        };
        json!({ "key": key, "value": value })
    });
    json!({
        "traceId": format!("{trace:032x}"),
        "spanId": format!("{id:016x}"),
        "parentSpanId": parent.map(|parent| format!("{parent:016x}")).unwrap_or_default(),
        "name": name,
        "kind": match kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": start.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": if *failed { json!({ "code": 2 }) } else { json!({}) },
    })
}
