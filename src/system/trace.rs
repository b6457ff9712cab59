//! Spans of requests, recorded while a request is processed and exported by a background task.
//!
//! A request never waits for the export: its spans are dropped if the queue is full.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::clock::wall_clock_seconds;
use crate::metrics::Metrics;
use crate::unique::UniqueNumbers;

/// Maximum number of ended requests whose spans wait for the export.
const MAX_QUEUED_TRACES: usize = 1024;
/// Maximum number of spans of one request. An import commits thousands of times.
const MAX_SPANS: usize = 32;
/// Maximum length of an attribute's text, in bytes. Clients send paths of many kilobytes.
const MAX_TEXT_BYTES: usize = 512;
/// Value of `sample` at which every new trace is recorded.
pub const SAMPLE_ALL: u32 = 1_000_000;

tokio::task_local! {
    static CURRENT: (Arc<Trace>, u64);
}

/// Starts traces and queues them for the export.
pub struct Tracer {
    /// Proportion of new traces to record, in millionths.
    sample: u32,
    numbers: UniqueNumbers,
    queue: mpsc::Sender<EndedTrace>,
    metrics: Arc<Metrics>,
}

impl Tracer {
    /// Creates a tracer and the queue of its ended traces.
    ///
    /// `sample` is in millionths, `seed` a random number.
    pub fn new(sample: u32, seed: u64, metrics: Arc<Metrics>) -> (Arc<Self>, mpsc::Receiver<EndedTrace>) {
        let (queue, ended) = mpsc::channel(MAX_QUEUED_TRACES);
        (Arc::new(Self { sample, numbers: UniqueNumbers::new(seed), queue, metrics }), ended)
    }

    /// Starts the trace of a request, or returns `None` if it is not sampled.
    ///
    /// `parent` is the span of a trusted proxy, and whether the proxy records its trace.
    pub fn begin(self: &Arc<Self>, id: u128, parent: Option<(u64, bool)>) -> Option<Arc<Trace>> {
        let is_sampled = match parent {
            Some((_, is_sampled)) => is_sampled,
            None => self.sample >= SAMPLE_ALL || self.numbers.next() % u64::from(SAMPLE_ALL) < u64::from(self.sample),
        };
        is_sampled.then(|| {
            let root = self.span_id();
            Arc::new(Trace {
                tracer: Arc::clone(self),
                id,
                parent: parent.map(|(parent, _)| parent),
                root,
                began: Instant::now(),
                began_at: Duration::try_from_secs_f64(wall_clock_seconds()).unwrap_or_default(),
                spans: Mutex::new(Some(Vec::new())),
            })
        })
    }

    /// Returns the id of a new span. Zero would be invalid.
    fn span_id(&self) -> u64 {
        self.numbers.next().max(1)
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tracer").field("sample", &self.sample).finish_non_exhaustive()
    }
}

/// Recorded trace of a request in progress.
#[derive(Debug)]
pub struct Trace {
    tracer: Arc<Tracer>,
    id: u128,
    parent: Option<u64>,
    root: u64,
    began: Instant,
    /// Wall-clock time of `began`, since 1970.
    began_at: Duration,
    /// `None` after the end of the request.
    spans: Mutex<Option<Vec<Span>>>,
}

/// Trace of a request that has ended.
#[derive(Debug)]
pub struct EndedTrace {
    pub id: u128,
    pub spans: Vec<Span>,
}

/// Kind of a span (OpenTelemetry `SpanKind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Server,
    Client,
}

/// Value of a span's attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    Text(Cow<'static, str>),
    Integer(i64),
}

/// Name and value of a span's attribute.
pub type Attribute = (&'static str, AttributeValue);

/// Returns an attribute with a text, which is shortened to [`MAX_TEXT_BYTES`].
pub fn text(name: &'static str, value: impl Into<Cow<'static, str>>) -> Attribute {
    let mut value = value.into();
    if value.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|end| value.is_char_boundary(*end)).unwrap_or_default();
        value.to_mut().truncate(end);
    }
    (name, AttributeValue::Text(value))
}

/// Returns an attribute with a number.
pub fn integer(name: &'static str, value: impl Into<i64>) -> Attribute {
    (name, AttributeValue::Integer(value.into()))
}

/// Ended span.
#[derive(Debug)]
pub struct Span {
    pub name: &'static str,
    pub kind: SpanKind,
    pub id: u64,
    pub parent: Option<u64>,
    /// Times since 1970.
    pub start: Duration,
    pub end: Duration,
    pub attributes: Vec<Attribute>,
    pub failed: bool,
}

/// Id and start of a span that has not ended.
#[derive(Debug, Clone, Copy)]
pub struct OpenSpan {
    pub id: u64,
    started: Instant,
}

impl Trace {
    /// Returns the trace id, which all spans of the request have in common.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Starts a span. [`Trace::end_span`] records it.
    pub fn start_span(&self) -> OpenSpan {
        OpenSpan { id: self.tracer.span_id(), started: Instant::now() }
    }

    /// Records a child of the request's span.
    pub fn end_span(&self, span: OpenSpan, name: &'static str, kind: SpanKind, description: SpanDescription) {
        self.record(span, self.root, name, kind, description);
    }

    fn record(
        &self,
        span: OpenSpan,
        parent: u64,
        name: &'static str,
        kind: SpanKind,
        SpanDescription { attributes, failed }: SpanDescription,
    ) {
        let start = self.began_at + span.started.saturating_duration_since(self.began);
        let end = self.began_at + self.began.elapsed();
        let span = Span { name, kind, id: span.id, parent: Some(parent), start, end, attributes, failed };
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        match spans.as_mut() {
            // One place is reserved for the request's span.
            Some(spans) if spans.len() < MAX_SPANS - 1 => spans.push(span),
            _ => self.tracer.metrics.spans_dropped(1),
        }
    }

    /// Runs a step of the request. Its spans become children of the request's span.
    pub async fn within<F: Future>(self: &Arc<Self>, step: F) -> F::Output {
        CURRENT.scope((Arc::clone(self), self.root), step).await
    }

    /// Records the request's span and queues the trace for the export. Later spans are dropped.
    pub fn end(&self, name: &'static str, SpanDescription { attributes, failed }: SpanDescription) {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut spans) = spans else { return };
        let (start, end) = (self.began_at, self.began_at + self.began.elapsed());
        let (id, parent) = (self.root, self.parent);
        spans.push(Span { name, kind: SpanKind::Server, id, parent, start, end, attributes, failed });
        let count = spans.len();
        if self.tracer.queue.try_send(EndedTrace { id: self.id, spans }).is_err() {
            self.tracer.metrics.spans_dropped(count);
        }
    }
}

/// Attributes of a span, and whether its operation failed.
#[derive(Debug, Default)]
pub struct SpanDescription {
    pub attributes: Vec<Attribute>,
    pub failed: bool,
}

/// Runs a step in a span of the current trace, if there is one. `describe` gets the step's result.
pub async fn span<F: Future>(
    name: &'static str,
    step: F,
    describe: impl FnOnce(&F::Output) -> SpanDescription,
) -> F::Output {
    let Ok((trace, parent)) = CURRENT.try_with(Clone::clone) else { return step.await };
    let open = trace.start_span();
    let result = CURRENT.scope((Arc::clone(&trace), open.id), step).await;
    trace.record(open, parent, name, SpanKind::Internal, describe(&result));
    result
}

/// Returns a future that belongs to the current trace even if another task runs it.
pub fn inherit<F: Future>(step: F) -> impl Future<Output = F::Output> {
    let current = CURRENT.try_with(Clone::clone).ok();
    async move {
        match current {
            Some(current) => CURRENT.scope(current, step).await,
            None => step.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(sample: u32) -> (Arc<Tracer>, mpsc::Receiver<EndedTrace>) {
        Tracer::new(sample, 1, Arc::new(Metrics::new().unwrap()))
    }

    #[test]
    fn the_ratio_applies_to_new_traces_only() {
        let count = |sample, parent| {
            let (tracer, _queue) = tracer(sample);
            (0..10_000).filter(|_| tracer.begin(1, parent).is_some()).count()
        };
        assert_eq!(count(SAMPLE_ALL, None), 10_000);
        assert_eq!(count(0, None), 0);
        assert!((800..1200).contains(&count(SAMPLE_ALL / 10, None)));
        assert_eq!(count(0, Some((1, true))), 10_000);
        assert_eq!(count(SAMPLE_ALL, Some((1, false))), 0);
    }

    #[test]
    fn queue_spans_and_texts_are_bounded() {
        let (tracer, mut queue) = tracer(SAMPLE_ALL);
        for _ in 0..MAX_QUEUED_TRACES + 10 {
            let trace = tracer.begin(1, None).unwrap();
            for _ in 0..100 {
                let description = SpanDescription { attributes: vec![text("path", "ş".repeat(9000))], failed: false };
                trace.end_span(trace.start_span(), "commit", SpanKind::Internal, description);
            }
            trace.end("edge", SpanDescription::default());
        }
        let mut left = 0;
        while let Ok(ended) = queue.try_recv() {
            assert_eq!(ended.spans.len(), MAX_SPANS);
            let AttributeValue::Text(path) = &ended.spans[0].attributes[0].1 else { panic!("a text") };
            assert_eq!(path.len(), MAX_TEXT_BYTES);
            left += 1;
        }
        assert_eq!(left, MAX_QUEUED_TRACES);
        let dropped = (MAX_QUEUED_TRACES + 10) * (101 - MAX_SPANS) + 10 * MAX_SPANS;
        let line = format!("sealgate_trace_spans_total{{outcome=\"dropped\"}} {dropped}\n");
        assert!(tracer.metrics.text().contains(&line), "{line}");
    }
}
