//! Ids of requests, for the log, for clients and for upstreams.

use http::{HeaderMap, HeaderName, HeaderValue};
use sealgate_system::clock::{OsEntropy, random};
use sealgate_system::unique::UniqueNumbers;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Generator of unique request ids of 16 bytes, in hexadecimal.
///
/// Request ids are not secret, but their order reveals nothing about the amount of traffic.
pub struct RequestIds {
    process: u64,
    numbers: UniqueNumbers,
}

impl RequestIds {
    /// Creates a generator. `seed` must be random for each generator.
    pub const fn new(seed: [u64; 2]) -> Self {
        Self { process: seed[0], numbers: UniqueNumbers::new(seed[1]) }
    }

    /// Creates a generator with a random seed.
    pub fn random() -> Self {
        Self::new([0; 2].map(|_| u64::from_ne_bytes(random(&OsEntropy))))
    }

    /// Returns an id that no other request has.
    pub(crate) fn next(&self) -> String {
        let mut name = String::with_capacity(32);
        self.write(&mut name);
        name
    }

    fn write(&self, name: &mut String) {
        push_hex(name, self.process);
        push_hex(name, self.numbers.next());
    }

    /// Sets the request id and the trace context for an upstream.
    ///
    /// A `traceparent` of a trusted proxy is forwarded. A `traceparent` of another client is
    /// replaced by that of a new trace, and `tracestate` is removed. The reason is that a client
    /// must not choose the trace of an application's spans, or whether the spans are recorded. If
    /// the trace is recorded, `recorded` has the span of the request to the upstream.
    pub(crate) fn set_fields(
        &self,
        fields: &mut HeaderMap,
        request_id: &str,
        is_trusted: bool,
        recorded: Option<TraceParent>,
    ) {
        if let Ok(id) = HeaderValue::from_str(request_id) {
            fields.insert(REQUEST_ID, id);
        }
        let received = TraceParent::received(fields, is_trusted);
        if received.is_none() {
            fields.remove(TRACESTATE);
        }
        let trace = recorded.or(received).map_or_else(|| self.traceparent(), TraceParent::to_text);
        if let Ok(trace) = HeaderValue::try_from(trace) {
            fields.insert(TRACEPARENT, trace);
        }
    }

    /// Returns the id of a new trace: the request id, if it has the form of a trace id.
    pub(crate) fn trace_id(&self, request_id: &str) -> u128 {
        let is_trace_id = request_id.len() == 32 && is_hex(request_id);
        let id = is_trace_id.then(|| u128::from_str_radix(request_id, 16).ok()).flatten();
        id.filter(|id| *id != 0)
            .unwrap_or_else(|| u128::from(self.process) << 64 | u128::from(self.numbers.next().max(1)))
    }

    /// Returns the `traceparent` of a new trace, without the sampled flag (W3C Trace Context).
    fn traceparent(&self) -> String {
        let mut trace = String::with_capacity(55);
        trace.push_str("00-");
        self.write(&mut trace);
        trace.push('-');
        // A parent id of all zeros would be invalid.
        push_hex(&mut trace, self.numbers.next().max(1));
        trace.push_str("-00");
        trace
    }
}

/// Appends a number as 16 hexadecimal digits. The standard formatter takes longer than the access
/// decision.
fn push_hex(text: &mut String, number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 16];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    text.push_str(str::from_utf8(&digits).unwrap_or_default());
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Trace, parent span and flags of a `traceparent` field (W3C Trace Context §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: u128,
    pub(crate) parent: u64,
    pub(crate) flags: u8,
}

impl TraceParent {
    /// Length of the fields of version 00, in bytes.
    const LENGTH: usize = 55;

    /// Returns the span of a recorded trace.
    pub(crate) fn recorded(trace: u128, parent: u64) -> Self {
        Self { trace, parent, flags: SAMPLED }
    }

    /// Returns the trace context of a request, if a trusted proxy sent it.
    pub(crate) fn received(fields: &HeaderMap, is_trusted: bool) -> Option<Self> {
        is_trusted.then(|| Self::from_fields(fields)).flatten()
    }

    /// Returns the trace context of a request, if there is exactly one and it is valid.
    fn from_fields(fields: &HeaderMap) -> Option<Self> {
        let mut lines = fields.get_all(TRACEPARENT).iter();
        match (lines.next(), lines.next()) {
            (Some(only), None) => Self::parse(only.to_str().ok()?),
            _ => None,
        }
    }

    /// Parses a `traceparent`. Later versions may append fields, which are ignored (§3.2.4).
    fn parse(text: &str) -> Option<Self> {
        let (known, further) = text.split_at_checked(Self::LENGTH)?;
        let mut parts = known.split('-');
        let [version, trace, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let lengths = [version, trace, parent, flags].map(str::len);
        if parts.next().is_some()
            || lengths != [2, 32, 16, 2]
            || ![version, trace, parent, flags].into_iter().all(is_hex)
        {
            return None;
        }
        let is_complete = match version {
            "ff" => false,
            "00" => further.is_empty(),
            _ => further.is_empty() || further.starts_with('-'),
        };
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let parent = u64::from_str_radix(parent, 16).ok().filter(|parent| *parent != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        is_complete.then_some(Self { trace, parent, flags })
    }

    /// Returns the field in version 00. In this version, only two flags have a meaning.
    pub(crate) fn to_text(self) -> String {
        let mut text = String::with_capacity(Self::LENGTH);
        text.push_str("00-");
        push_hex(&mut text, u64::try_from(self.trace >> 64).unwrap_or_default());
        push_hex(&mut text, u64::try_from(self.trace & u128::from(u64::MAX)).unwrap_or_default());
        text.push('-');
        push_hex(&mut text, self.parent);
        text.push_str(["-00", "-01", "-02", "-03"][usize::from(self.flags & (SAMPLED | RANDOM))]);
        text
    }
}

/// Flag of a trace whose spans are recorded.
pub(crate) const SAMPLED: u8 = 1;
/// Flag of a trace id whose last seven bytes are random (W3C Trace Context Level 2).
const RANDOM: u8 = 2;

/// Returns whether the `X-Request-Id` of a trusted proxy can be written unescaped to logs, pages
/// and header fields.
pub(crate) fn is_request_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (8..=64).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn request_ids_do_not_repeat() {
        let ids = RequestIds::new([1, 2]);
        let names: HashSet<String> = (0..10_000).map(|_| ids.next()).collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|name| is_request_id(name)));
    }

    #[test]
    fn traceparents_of_every_version_but_ff_are_accepted() {
        let known = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let passed = Some(format!("00-{known}"));
        let read = |text: &str| TraceParent::parse(text).map(TraceParent::to_text);
        assert!(read(&RequestIds::new([1, 2]).traceparent()).is_some());
        for version in ["00", "01", "0a", "fe"] {
            assert_eq!(read(&format!("{version}-{known}")), passed, "{version}");
        }
        assert_eq!(read(&format!("01-{known}-what-the-future-brings")), passed);
        assert_eq!(read("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff").unwrap().get(52..), Some("-03"));
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            &format!("ff-{known}"),
            &format!("0-{known}0"),
            &format!("0A-{known}"),
            &format!("01-{known}.more"),
            &format!("01-{known}0"),
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319cb7ad6b7169203331-0-1",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_plain_request_ids_are_accepted() {
        assert!(is_request_id("0af7651916cd43dd-8448.eb_1"));
        for name in ["", "short", "with space here", "<script>alert(1)</script>", "line\nbreak-line", &"a".repeat(65)] {
            assert!(!is_request_id(name), "{name:?}");
        }
    }
}
