//! Changes to forwarded heads: requests to an upstream and responses to a client.
//!
//! Pingora keeps the original spelling of HTTP/1 field names in a second map. Setting a field
//! through Pingora costs four allocations and two parses, and the proxy sets six fields. So heads
//! are changed as plain maps, and field names are forwarded in lower case. Names are
//! case-insensitive (RFC 9110 §5.1). Pingora still capitalizes a dozen common names such as
//! `Content-Type`.

use std::mem;

use http::header::{CONNECTION, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};

use super::caching::keep_private;
use crate::AnswerRewrite;

/// Changes the head of a request.
///
/// Only path and query of the target remain. Other parts of the target must be read before this
/// call.
pub(crate) fn change_request(request: &mut RequestHeader, change: impl FnOnce(&mut request::Parts)) {
    let (blank, ()) = Request::new(()).into_parts();
    let mut parts = request::Parts::from(mem::replace(request, RequestHeader::from(blank)));
    change(&mut parts);
    *request = RequestHeader::from(parts);
}

/// Changes the fields of a response.
///
/// # Errors
/// Only if the reason phrase of the response cannot be set again, which does not happen.
pub(crate) fn change_fields(response: &mut ResponseHeader, change: impl FnOnce(&mut HeaderMap)) -> Result<()> {
    let reason = response.get_reason_phrase().filter(|reason| Some(*reason) != response.status.canonical_reason());
    let reason = reason.map(str::to_owned);
    let (blank, ()) = Response::new(()).into_parts();
    let mut parts = http::response::Parts::from(mem::replace(response, ResponseHeader::from(blank)));
    change(&mut parts.headers);
    *response = ResponseHeader::from(parts);
    if reason.is_some() { response.set_reason_phrase(reason.as_deref()) } else { Ok(()) }
}

/// Removes every `Set-Cookie` line that `is_allowed` rejects.
pub(crate) fn sift_cookies(fields: &mut HeaderMap, is_allowed: impl Fn(&HeaderValue) -> bool) {
    if fields.get_all(SET_COOKIE).iter().all(&is_allowed) {
        return;
    }
    let passing: Vec<_> = fields.get_all(SET_COOKIE).iter().filter(|line| is_allowed(line)).cloned().collect();
    fields.remove(SET_COOKIE);
    fields.extend(passing.into_iter().map(|line| (SET_COOKIE, line)));
}

/// Removes the hop-by-hop fields (RFC 9110 §7.6.1).
///
/// `Content-Length` and `Transfer-Encoding` remain even if `Connection` lists them: Pingora uses
/// them to frame the body for the client.
pub(crate) fn strip_hop_by_hop(fields: &mut HeaderMap) {
    let nominated = nominated(fields);
    let framing = |name: &HeaderName| [CONTENT_LENGTH, TRANSFER_ENCODING].contains(name);
    let goes = |name: &&HeaderName| is_hop_by_hop(name) || (nominated.contains(name) && !framing(name));
    // Most responses have none of these fields, and searching is cheaper than removing absent ones.
    let going: Vec<HeaderName> = fields.keys().filter(goes).cloned().collect();
    for name in &going {
        fields.remove(name);
    }
}

pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "upgrade"
            | "te"
            | "trailer"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "keep-alive"
            | "proxy-connection"
    )
}

fn nominated(fields: &HeaderMap) -> Vec<HeaderName> {
    let names = fields.get_all(CONNECTION).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// Applies the changes that the front has decided to an upstream's response.
pub(crate) fn change_answer(fields: &mut HeaderMap, answer: &AnswerRewrite) {
    for name in &answer.remove {
        fields.remove(name);
    }
    for (name, value) in &answer.set {
        fields.insert(name, value.clone());
    }
    for (name, value) in &answer.append {
        fields.append(name, value.clone());
    }
    if answer.private {
        keep_private(fields);
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    #[test]
    fn hop_by_hop_fields_of_a_response_are_removed() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("connection", "X-Hop, Content-Length, keep-alive"),
            ("connection", "ş, x-second"),
            ("x-second", "1"),
            ("x-hop", "1"),
            ("x-end", "2"),
            ("content-length", "3"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("trailer", "x-t"),
            ("upgrade", "h2c"),
        ] {
            fields.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        strip_hop_by_hop(&mut fields);
        let mut left: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-end"]);
    }

    #[test]
    fn changing_a_request_keeps_its_other_parts() {
        let mut request = RequestHeader::build("PATCH", b"/a?b=c", None).unwrap();
        request.append_header("X-Own", "1").unwrap();
        request.append_header("x-own", "2").unwrap();
        change_request(&mut request, |parts| _ = parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("a/b")));
        assert_eq!((request.method.as_str(), request.raw_path()), ("PATCH", &b"/a?b=c"[..]));
        let own: Vec<_> = request.headers.get_all("x-own").iter().collect();
        assert_eq!(own, ["1", "2"]);
        let mut wire = Vec::new();
        request.header_to_h1_wire(&mut wire);
        assert_eq!(wire, b"x-own: 1\r\nx-own: 2\r\nContent-Type: a/b\r\n");
    }

    #[test]
    fn a_changed_response_keeps_its_status_and_reason() {
        for reason in [None, Some("Quite Fine")] {
            let mut response = ResponseHeader::build(201, None).unwrap();
            response.set_reason_phrase(reason).unwrap();
            let before = response.get_reason_phrase().map(str::to_owned);
            change_fields(&mut response, |fields| {
                fields.insert(CONTENT_TYPE, HeaderValue::from_static("a/b"));
            })
            .unwrap();
            assert_eq!((response.status.as_u16(), response.get_reason_phrase()), (201, before.as_deref()));
            assert_eq!(response.headers[CONTENT_TYPE], "a/b");
        }
    }
}
