//! Header fields that must have one form, whatever the client's HTTP version and the upstream's manners.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHENTICATE, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::{Error, ErrorType, Result};

use super::AnswerFields;

/// A refusal that is the client's doing.
#[expect(clippy::unnecessary_box_returns, reason = "Pingora passes errors boxed")]
pub(super) fn refused(status: u16, why: &'static str) -> Box<Error> {
    Error::explain(ErrorType::HTTPStatus(status), why).into_down()
}

/// No tunnel, and no head that is longer than `limit`, counted as HTTP/2 does (RFC 9113 §6.5.2).
pub(super) fn check_head(request: &RequestHeader, limit: Option<usize>) -> Result<()> {
    if request.method == Method::CONNECT {
        return Err(refused(405, "no tunnels here"));
    }
    let Some(limit) = limit else { return Ok(()) };
    let fields = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
    let length = fields.sum::<usize>() + request.raw_path().len();
    if length > limit { Err(refused(431, "the request's head is too long")) } else { Ok(()) }
}

/// Exactly one `Host`, and a valid one; HTTP/2's `:authority` becomes one.
pub(super) fn settle_host(request: &mut RequestHeader) -> Result<()> {
    if !request.headers.contains_key(HOST)
        && let Some(authority) = request.uri.authority()
    {
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| refused(400, "invalid :authority"))?;
        request.insert_header(HOST, authority)?;
    }
    let mut hosts = request.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        _ => Err(refused(400, "not exactly one valid Host")),
    }
}

fn is_host(host: &[u8]) -> bool {
    !host.contains(&b'@') && Authority::try_from(host).is_ok_and(|authority| !authority.host().is_empty())
}

/// RFC 9113 §8.2.3: HTTP/2 may cut the cookies into several fields; everything behind us expects one.
pub(super) fn join_cookies(request: &mut RequestHeader) -> Result<()> {
    let mut cookies = request.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let (Some(first), Some(second)) = (cookies.next(), cookies.next()) else { return Ok(()) };
    let joined = cookies.fold([first, second].join(&b"; "[..]), |joined, cookie| [&joined, cookie].join(&b"; "[..]));
    let joined = HeaderValue::from_bytes(&joined).map_err(|_| refused(400, "invalid Cookie"))?;
    request.insert_header(COOKIE, joined)
}

/// Takes out every `Set-Cookie` that may not pass.
pub(super) fn sift_cookies(response: &mut ResponseHeader, may_pass: impl Fn(&HeaderValue) -> bool) -> Result<()> {
    if response.headers.get_all(SET_COOKIE).iter().all(&may_pass) {
        return Ok(());
    }
    let passing: Vec<_> = response.headers.get_all(SET_COOKIE).iter().filter(|line| may_pass(line)).cloned().collect();
    response.remove_header(&SET_COOKIE);
    passing.into_iter().try_for_each(|line| response.append_header(SET_COOKIE, line).map(|_| ()))
}

/// RFC 9110 §7.6.1: what concerns one connection only goes no further. Framing fields stay, whatever `Connection`
/// names: how the body ends is between us and the client, and Pingora sees to that.
pub(super) fn strip_hop_by_hop(response: &mut ResponseHeader) {
    const HOP_BY_HOP: [HeaderName; 8] = [
        CONNECTION,
        UPGRADE,
        TE,
        TRAILER,
        PROXY_AUTHENTICATE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("proxy-authentication-info"),
    ];
    let nominated = nominated(&response.headers);
    let framing = |name: &HeaderName| [CONTENT_LENGTH, TRANSFER_ENCODING].contains(name);
    let goes = |name: &&HeaderName| HOP_BY_HOP.contains(name) || (nominated.contains(name) && !framing(name));
    // Most answers have none of these, and to look is cheaper than to take out what is not there.
    let going: Vec<HeaderName> = response.headers.keys().filter(goes).cloned().collect();
    for name in &going {
        response.remove_header(name);
    }
}

fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

/// Changes an upstream's answer as the front has said.
///
/// # Errors
/// When a field cannot be written.
pub(super) fn change_answer(response: &mut ResponseHeader, answer: &AnswerFields) -> Result<()> {
    for name in &answer.remove {
        response.remove_header(name);
    }
    for (name, value) in &answer.set {
        response.insert_header(name, value)?;
    }
    for (name, value) in &answer.append {
        response.append_header(name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        for (name, value) in fields {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    #[test]
    fn one_valid_host_passes() {
        for host in ["app.example", "app.example:8080", "127.0.0.1:1", "[::1]:8080"] {
            settle_host(&mut request(&[("host", host)])).unwrap();
        }
    }

    #[test]
    fn no_host_two_hosts_and_bad_hosts_are_refused() {
        let cases: [&[_]; 6] = [
            &[],
            &[("host", "a"), ("host", "a")],
            &[("host", "")],
            &[("host", "user@a")],
            &[("host", "a/b")],
            &[("host", "a b")],
        ];
        for fields in cases {
            assert!(settle_host(&mut request(fields)).is_err(), "{fields:?}");
        }
    }

    #[test]
    fn an_authority_becomes_the_host() {
        let mut request = request(&[]);
        request.set_uri("https://app.example:8443/x".parse().unwrap());
        settle_host(&mut request).unwrap();
        assert_eq!(request.headers[HOST], "app.example:8443");
    }

    #[test]
    fn cookie_fields_become_one_in_their_order() {
        let mut request = request(&[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3; d=4")]);
        join_cookies(&mut request).unwrap();
        let cookies: Vec<_> = request.headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3; d=4"]);
    }

    #[test]
    fn hop_by_hop_fields_of_a_response_go_no_further() {
        let mut response = ResponseHeader::build(200, None).unwrap();
        for (name, value) in [
            ("connection", "X-Hop, Content-Length, keep-alive"),
            ("x-hop", "1"),
            ("x-end", "2"),
            ("content-length", "3"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("trailer", "x-t"),
            ("upgrade", "h2c"),
        ] {
            response.append_header(name, value).unwrap();
        }
        strip_hop_by_hop(&mut response);
        let mut left: Vec<_> = response.headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-end"]);
    }
}
