//! Ids of requests, for the log, for clients and for upstreams.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Generator of unique request ids of 16 bytes, in hexadecimal.
///
/// Request ids are not secret, but their order reveals nothing about the amount of traffic.
pub struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// Creates a generator. `seed` must be random for each process.
    pub const fn new(seed: [u64; 2]) -> Self {
        Self { process: seed[0], next: AtomicU64::new(seed[1]) }
    }

    /// Returns an id that no other request has.
    pub(crate) fn next(&self) -> String {
        let mut name = String::with_capacity(32);
        self.write(&mut name);
        name
    }

    fn write(&self, name: &mut String) {
        push_hex(name, self.process);
        push_hex(name, self.number());
    }

    /// Returns a number that was not returned before.
    fn number(&self) -> u64 {
        // The finalizer of SplitMix64 is a bijection. So the numbers are as distinct as the values
        // of the counter.
        let mut mixed = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Sets the request id and the trace context for an upstream.
    ///
    /// The client's `traceparent` is forwarded if there is exactly one and it is valid. Otherwise a
    /// new trace replaces it.
    pub(crate) fn set_fields(&self, fields: &mut HeaderMap, request_id: &str) {
        if let Ok(id) = HeaderValue::from_str(request_id) {
            fields.insert(REQUEST_ID, id);
        }
        let mut traces = fields.get_all(TRACEPARENT).iter();
        let passes = match (traces.next(), traces.next()) {
            (Some(only), None) => only.to_str().is_ok_and(is_traceparent),
            _ => false,
        };
        if !passes && let Ok(trace) = HeaderValue::try_from(self.traceparent()) {
            fields.remove(TRACESTATE);
            fields.insert(TRACEPARENT, trace);
        }
    }

    /// Returns the `traceparent` of a new trace, without the sampled flag (W3C Trace Context).
    fn traceparent(&self) -> String {
        let mut trace = String::with_capacity(55);
        trace.push_str("00-");
        self.write(&mut trace);
        trace.push('-');
        // A parent id of all zeros would be invalid.
        push_hex(&mut trace, self.number().max(1));
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

/// Returns whether a `traceparent` is valid: version 00, trace id, parent id and flags (W3C Trace
/// Context §3.2.2).
fn is_traceparent(text: &str) -> bool {
    let hex =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let some = |part: &str, length| hex(part, length) && part.bytes().any(|byte| byte != b'0');
    let parts: Vec<_> = text.split('-').take(5).collect();
    matches!(parts.as_slice(), ["00", trace, parent, flags] if some(trace, 32) && some(parent, 16) && hex(flags, 2))
}

/// Returns whether the `X-Request-Id` of a trusted proxy is safe in logs, pages and header fields.
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
    fn generated_and_valid_traceparents_are_accepted() {
        let ids = RequestIds::new([1, 2]);
        assert!(is_traceparent(&ids.traceparent()));
        assert!(is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert!(!is_traceparent(text), "{text:?}");
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
