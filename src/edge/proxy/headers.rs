//! Heads on their way through: a request's to the upstream, an answer's to the client.
//!
//! Pingora keeps the names of HTTP/1 fields as the sender has spelled them, in a second map: a field that is set costs four
//! allocations and two parses, and six are set. So heads are changed as plain maps, and go on with names as HTTP/2 and other
//! proxies write them: in lower case, but for a dozen that Pingora writes as `Content-Type` (RFC 9110 §5.1: spelling means
//! nothing).

use std::mem;

use http::header::{CONNECTION, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request};
use pingora::Result;
use pingora::http::{RequestHeader, ResponseHeader};

use super::caching::keep_private;
use crate::edge::AnswerRewrite;

/// Changes a request's head. Of its target the path and the query stay: a caller that takes others has read it before.
pub(in crate::edge) fn change_request(request: &mut RequestHeader, change: impl FnOnce(&mut request::Parts)) {
    let (blank, ()) = Request::new(()).into_parts();
    let mut parts = request::Parts::from(mem::replace(request, RequestHeader::from(blank)));
    change(&mut parts);
    *request = RequestHeader::from(parts);
}

/// Changes the fields of an answer's head.
///
/// # Errors
/// Never in fact: the reason that came with the status is put back as it was.
pub(in crate::edge) fn change_fields(response: &mut ResponseHeader, change: impl FnOnce(&mut HeaderMap)) -> Result<()> {
    let reason = response.get_reason_phrase().filter(|reason| Some(*reason) != response.status.canonical_reason());
    let reason = reason.map(str::to_owned);
    let (blank, ()) = Response::new(()).into_parts();
    let mut parts = http::response::Parts::from(mem::replace(response, ResponseHeader::from(blank)));
    change(&mut parts.headers);
    *response = ResponseHeader::from(parts);
    if reason.is_some() { response.set_reason_phrase(reason.as_deref()) } else { Ok(()) }
}

/// Takes out every `Set-Cookie` that may not pass.
pub(in crate::edge) fn sift_cookies(fields: &mut HeaderMap, may_pass: impl Fn(&HeaderValue) -> bool) {
    if fields.get_all(SET_COOKIE).iter().all(&may_pass) {
        return;
    }
    let passing: Vec<_> = fields.get_all(SET_COOKIE).iter().filter(|line| may_pass(line)).cloned().collect();
    fields.remove(SET_COOKIE);
    fields.extend(passing.into_iter().map(|line| (SET_COOKIE, line)));
}

/// RFC 9110 §7.6.1: what concerns one connection only goes no further. Framing fields stay, whatever `Connection`
/// names: how the body ends is between us and the client, and Pingora sees to that.
pub(in crate::edge) fn strip_hop_by_hop(fields: &mut HeaderMap) {
    let nominated = nominated(fields);
    let framing = |name: &HeaderName| [CONTENT_LENGTH, TRANSFER_ENCODING].contains(name);
    let goes = |name: &&HeaderName| is_hop_by_hop(name) || (nominated.contains(name) && !framing(name));
    // Most answers have none of these, and to look is cheaper than to take out what is not there.
    let going: Vec<HeaderName> = fields.keys().filter(goes).cloned().collect();
    for name in &going {
        fields.remove(name);
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
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

/// Changes an upstream's answer as the front has said.
pub(in crate::edge) fn change_answer(fields: &mut HeaderMap, answer: &AnswerRewrite) {
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
    fn hop_by_hop_fields_of_an_answer_go_no_further() {
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
    fn a_changed_request_is_otherwise_the_same() {
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
    fn a_changed_answer_keeps_its_status_and_its_words() {
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
