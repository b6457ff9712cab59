//! Compression of responses with gzip, for rules with `compression`.
//!
//! Each part of an upstream's body is compressed and flushed at once, so that event streams and
//! slow pages are not delayed. Memory and time are bounded: one part is compressed at a time, and
//! the next part is read when the client has accepted it.

use std::io;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderName, RANGE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use pingora::http::RequestHeader;
use pingora::{Error, ErrorType, Result};
use sealgate_domain::quality::quality_value;

/// Length from which a body of known length is compressed, in bytes.
const MIN_LENGTH: u64 = 1024;

/// Maximum number of codings that are read from `Accept-Encoding`.
const MAX_CODINGS: usize = 64;

/// Media types that are compressed, in addition to `text/*` and types that end in `+json` or `+xml`.
const TYPES: [&str; 9] = [
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/xml",
    "font/ttf",
    "image/svg+xml",
];

/// Fields with a digest or a signature of the body as the application sent it.
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("signature"),
];

/// Compressor of one response.
pub(crate) struct Compressor(Option<GzEncoder<Vec<u8>>>);

impl Compressor {
    /// Prepares to compress a response, and changes its fields. Returns `None` if the response is
    /// not compressed.
    ///
    /// `length` is the length of the body, if it is known.
    pub(crate) fn for_response(
        request: &RequestHeader,
        status: StatusCode,
        length: Option<u64>,
        fields: &mut HeaderMap,
    ) -> Option<Self> {
        if status == StatusCode::NOT_MODIFIED {
            if accepts_gzip(&request.headers) {
                weaken_tag(fields);
            }
            add_vary(fields);
            return None;
        }
        if !is_eligible(request, status, length, fields) {
            return None;
        }
        // Also without compression, because a cache must distinguish clients.
        add_vary(fields);
        if request.version < Version::HTTP_11 || !accepts_gzip(&request.headers) {
            return None;
        }
        weaken_tag(fields);
        fields.remove(CONTENT_LENGTH);
        // Ranges are those of the uncompressed body.
        fields.remove(ACCEPT_RANGES);
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        Some(Self(Some(GzEncoder::new(Vec::new(), Compression::fast()))))
    }

    /// Compresses a part of the body.
    ///
    /// # Errors
    /// If the encoder fails, which does not happen, because it writes to memory.
    pub(crate) fn compress(&mut self, part: Option<Bytes>, is_last: bool) -> Result<Option<Bytes>> {
        let part = part.unwrap_or_default();
        self.encode(&part, is_last)
            .map_err(|error| Error::because(ErrorType::InternalError, "cannot compress a response", error))
    }

    fn encode(&mut self, part: &[u8], is_last: bool) -> io::Result<Option<Bytes>> {
        if is_last {
            let Some(mut encoder) = self.0.take() else { return Ok(None) };
            encoder.write_all(part)?;
            return Ok(Some(encoder.finish()?.into()));
        }
        let Some(encoder) = self.0.as_mut().filter(|_| !part.is_empty()) else { return Ok(None) };
        encoder.write_all(part)?;
        encoder.flush()?;
        Ok(Some(std::mem::take(encoder.get_mut()).into()))
    }
}

/// Returns whether the response may be compressed for a client that accepts it.
fn is_eligible(request: &RequestHeader, status: StatusCode, length: Option<u64>, fields: &HeaderMap) -> bool {
    let has_body = request.method != Method::HEAD
        && !status.is_informational()
        && !matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT);
    has_body
        && length.is_none_or(|length| length >= MIN_LENGTH)
        && !request.headers.contains_key(RANGE)
        && ![CONTENT_ENCODING, CONTENT_RANGE].iter().chain(&DIGESTS).any(|name| fields.contains_key(name))
        && !forbids_change(&request.headers)
        && !forbids_change(fields)
        && is_compressible(fields)
}

/// Returns whether `Cache-Control` has `no-transform` (RFC 9111 §5.2.1.6, §5.2.2.6).
fn forbids_change(fields: &HeaderMap) -> bool {
    elements(fields, &CACHE_CONTROL).any(|element| element.eq_ignore_ascii_case(b"no-transform"))
}

fn is_compressible(fields: &HeaderMap) -> bool {
    let mut types = fields.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return false };
    let Ok(text) = only.to_str() else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || TYPES.contains(&essence.as_str())
}

/// Returns whether the client accepts gzip and does not prefer the unchanged body (RFC 9110
/// §12.5.3).
fn accepts_gzip(fields: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for coding in elements(fields, &ACCEPT_ENCODING).take(MAX_CODINGS) {
        let mut parts = coding.splitn(2, |byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let Some(weight) = str::from_utf8(parts.next().unwrap_or_default()).ok().and_then(quality_value) else {
            continue;
        };
        let slot = match name {
            name if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => &mut gzip,
            name if name.eq_ignore_ascii_case(b"identity") => &mut identity,
            b"*" => &mut any,
            _ => continue,
        };
        *slot = (*slot).max(Some(weight));
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && identity.is_none_or(|identity| identity <= gzip)
}

/// Makes a strong entity tag weak. The compressed body has other bytes than the body that the tag
/// identifies (RFC 9110 §8.8.1).
fn weaken_tag(fields: &mut HeaderMap) {
    let Some(tag) = fields.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")) else { return };
    if let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()) {
        fields.insert(ETAG, weak);
    }
}

fn add_vary(fields: &mut HeaderMap) {
    let is_listed = |element: &[u8]| element == b"*" || element.eq_ignore_ascii_case(b"accept-encoding");
    if !elements(fields, &VARY).any(is_listed) {
        fields.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// Returns the elements of a list in one or several fields.
fn elements<'f>(fields: &'f HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'f [u8]> {
    let lines = fields.get_all(name).into_iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn the_weights_of_accept_encoding_are_applied() {
        for (value, accepts) in [
            ("gzip", true),
            ("GZIP", true),
            ("x-gzip", true),
            ("br, gzip;q=0.1", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip ; q=1.000", true),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity, gzip;q=0.5", false),
            ("identity;q=0.5, gzip", true),
            ("identity;q=0, *;q=0.1", true),
            ("br", false),
            ("", false),
            ("gzip;q=2", false),
            ("gzip;q=0.1234", false),
            ("gzip;level=1", false),
            ("gzipped", false),
        ] {
            assert_eq!(accepts_gzip(&map(&[(ACCEPT_ENCODING, value)])), accepts, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
        assert!(accepts_gzip(&map(&[(ACCEPT_ENCODING, "br"), (ACCEPT_ENCODING, "gzip")])));
        let many = format!("{}gzip", "br,".repeat(MAX_CODINGS));
        assert!(!accepts_gzip(&map(&[(ACCEPT_ENCODING, &many)])));
    }

    #[test]
    fn text_formats_are_compressible() {
        for (value, expected) in [
            ("text/html; charset=utf-8", true),
            ("Text/CSS", true),
            ("text/event-stream", true),
            ("application/json", true),
            ("application/problem+json", true),
            ("image/svg+xml;charset=utf-8", true),
            ("application/octet-stream", false),
            ("image/png", false),
            ("video/mp4", false),
            ("application/gzip", false),
            ("", false),
        ] {
            assert_eq!(is_compressible(&map(&[(CONTENT_TYPE, value)])), expected, "{value:?}");
        }
        assert!(!is_compressible(&HeaderMap::new()));
    }

    #[test]
    fn weak_tags_and_complete_vary_fields_are_kept() {
        let mut fields = map(&[(ETAG, "W/\"a\""), (VARY, "Cookie, accept-encoding")]);
        let before = fields.clone();
        weaken_tag(&mut fields);
        add_vary(&mut fields);
        assert_eq!(fields, before);
    }
}
