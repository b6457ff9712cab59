//! Framing of upstream answers.
//!
//! Refuses framing that two parsers may read differently. Otherwise a proxy in front could take the
//! rest of one answer for the next one, which belongs to another user (RFC 9112 §6.3, §11.1).

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::{Error, ErrorType, Result};

/// Returns whether an answer with this status has no body for every request method.
pub(crate) fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT
}

/// Returns whether the answer has a transfer coding, which must be `chunked`.
///
/// # Errors
/// It has several codings, another one, or one over HTTP/1.0, which does not support them.
pub(crate) fn is_chunked(response: &ResponseHeader) -> Result<bool> {
    let mut codings = response.headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(false) };
    let is_only = codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if is_only && response.version == Version::HTTP_11 {
        return Ok(true);
    }
    Err(Error::explain(ErrorType::HTTPStatus(502), "The application's response has an invalid Transfer-Encoding.")
        .into_up())
}

/// Removes framing fields that the status forbids, and reduces equal lengths to one.
///
/// HTTP/2 clients reset the stream for either (RFC 9113 §8.1.1). Pingora has already refused
/// lengths that differ.
pub(crate) fn settle_framing(fields: &mut HeaderMap, status: StatusCode) {
    if is_bodiless(status) {
        fields.remove(CONTENT_LENGTH);
        fields.remove(TRANSFER_ENCODING);
        return;
    }
    let Some(length) = fields.get(CONTENT_LENGTH) else { return };
    let is_list = length.as_bytes().iter().any(|byte| !byte.is_ascii_digit());
    if is_list || fields.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        let first = length.as_bytes().split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        if let Ok(first) = HeaderValue::from_bytes(first) {
            fields.insert(CONTENT_LENGTH, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, version: Version, fields: &[(&'static str, &'static str)]) -> ResponseHeader {
        let mut response = ResponseHeader::build(status, None).unwrap();
        response.set_version(version);
        for (name, value) in fields {
            response.append_header(*name, *value).unwrap();
        }
        response
    }

    #[test]
    fn chunked_alone_is_a_transfer_coding() {
        let coding = |values: &[&'static str], version| {
            let fields: Vec<_> = values.iter().map(|value| ("transfer-encoding", *value)).collect();
            is_chunked(&response(200, version, &fields)).ok()
        };
        assert_eq!(coding(&[], Version::HTTP_11), Some(false));
        assert_eq!(coding(&["Chunked"], Version::HTTP_11), Some(true));
        for values in
            [&["chunked"; 2][..], &["gzip, chunked"], &["identity"], &["chunked, identity"], &["xchunked"], &[""]]
        {
            assert_eq!(coding(values, Version::HTTP_11), None, "{values:?}");
        }
        assert_eq!(coding(&["chunked"], Version::HTTP_10), None);
    }

    #[test]
    fn lengths_become_one_or_none() {
        let left = |status, lengths: &[&'static str]| {
            let lengths: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
            let mut fields = response(status, Version::HTTP_11, &lengths).headers.clone();
            settle_framing(&mut fields, StatusCode::from_u16(status).unwrap());
            fields.get_all(CONTENT_LENGTH).iter().map(|length| length.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(left(200, &["5"]), ["5"]);
        assert_eq!(left(200, &["5", "5"]), ["5"]);
        assert_eq!(left(200, &["5, 5"]), ["5"]);
        assert_eq!(left(304, &["5"]), ["5"]);
        for status in [103, 204] {
            assert!(left(status, &["5"]).is_empty());
        }
    }
}
