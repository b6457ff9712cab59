//! Normalization of a client's request head. Afterwards, the rest of the edge need not distinguish
//! HTTP versions.

use http::header::{COOKIE, HOST};
use http::uri::Authority;
use http::{HeaderName, HeaderValue, Method};
use pingora::http::RequestHeader;
use pingora::{Error, ErrorType, Result};

/// Returns the error for a refused request. The client receives `why`, which is a sentence.
#[expect(clippy::unnecessary_box_returns, reason = "Pingora passes errors boxed")]
pub(crate) fn refused(status: u16, why: &'static str) -> Box<Error> {
    Error::explain(ErrorType::HTTPStatus(status), why).into_down()
}

/// Returns the length of a head as HTTP/2 counts it, in bytes (RFC 9113 §6.5.2).
pub(crate) fn head_length(request: &RequestHeader) -> usize {
    let fields = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
    fields.sum::<usize>() + request.raw_path().len()
}

/// Refuses CONNECT, TRACE and heads longer than `limit` bytes, counted as in HTTP/2.
///
/// The response to TRACE would reveal cookies and the fields that proxies have added (RFC 9110
/// §9.3.8).
pub(crate) fn check_head(request: &RequestHeader, limit: Option<usize>) -> Result<()> {
    if matches!(request.method, Method::CONNECT | Method::TRACE) {
        return Err(refused(405, "This method is not supported."));
    }
    let Some(limit) = limit else { return Ok(()) };
    if head_length(request) > limit { Err(refused(431, "The request's header section is too long.")) } else { Ok(()) }
}

/// Returns whether a field of a request is connection-specific or lists such fields (RFC 9110
/// §7.6.1).
///
/// These are all fields that Pingora's policy for upstream requests reads.
pub(crate) fn is_of_one_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Checks that there is exactly one valid `Host`. Over HTTP/2, creates it from `:authority`.
pub(crate) fn normalize_host(request: &mut RequestHeader) -> Result<()> {
    if !request.headers.contains_key(HOST)
        && let Some(authority) = request.uri.authority()
    {
        let authority = HeaderValue::from_str(authority.as_str())
            .map_err(|_| refused(400, "The request does not name a valid host."))?;
        request.insert_header(HOST, authority)?;
    }
    let mut hosts = request.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        _ => Err(refused(400, "The request does not name exactly one valid host.")),
    }
}

fn is_host(host: &[u8]) -> bool {
    // Nearly every request has a plain name, which needs no parser.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !host.is_empty() && host.iter().all(is_plain) {
        return true;
    }
    let Some(authority) = Authority::try_from(host).ok().filter(|_| !host.contains(&b'@')) else { return false };
    let port = authority.as_str().strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':'));
    !authority.host().is_empty() && port.is_none_or(is_port)
}

/// Returns whether every server reads this port alike: 1 to 65535, without leading zeros.
fn is_port(text: &str) -> bool {
    !text.starts_with(['0', '+']) && text.parse::<u16>().is_ok()
}

/// Joins several `Cookie` fields, which HTTP/2 allows (RFC 9113 §8.2.3), into one. Later code
/// expects at most one.
pub(crate) fn join_cookies(request: &mut RequestHeader) -> Result<()> {
    let mut cookies = request.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let (Some(first), Some(second)) = (cookies.next(), cookies.next()) else { return Ok(()) };
    let joined = cookies.fold([first, second].join(&b"; "[..]), |joined, cookie| [&joined, cookie].join(&b"; "[..]));
    let joined = HeaderValue::from_bytes(&joined).map_err(|_| refused(400, "The Cookie field is not valid."))?;
    request.insert_header(COOKIE, joined)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        for host in ["app.example", "app.example:8080", "127.0.0.1:1", "[::1]:8080", "[::1]", "a:65535"] {
            normalize_host(&mut request(&[("host", host)])).unwrap();
        }
    }

    proptest! {
        #[test]
        fn the_parser_accepts_every_plain_host(host in "[a-zA-Z0-9.-]{1,40}") {
            prop_assert!(is_host(host.as_bytes()));
            let authority = Authority::try_from(host.as_bytes()).unwrap();
            prop_assert_eq!(authority.host(), host);
        }
    }

    #[test]
    fn missing_repeated_and_invalid_hosts_are_refused() {
        let cases: [&[_]; 12] = [
            &[],
            &[("host", "a"), ("host", "a")],
            &[("host", "")],
            &[("host", "user@a")],
            &[("host", "a/b")],
            &[("host", "a b")],
            &[("host", "a:99999")],
            &[("host", "a:0")],
            &[("host", "a:080")],
            &[("host", "a:")],
            &[("host", "[::1]:65536")],
            &[("host", "a:+80")],
        ];
        for fields in cases {
            assert!(normalize_host(&mut request(fields)).is_err(), "{fields:?}");
        }
    }

    #[test]
    fn an_authority_becomes_the_host() {
        let mut request = request(&[]);
        request.set_uri("https://app.example:8443/x".parse().unwrap());
        normalize_host(&mut request).unwrap();
        assert_eq!(request.headers[HOST], "app.example:8443");
    }

    #[test]
    fn cookie_fields_are_joined_in_order() {
        let mut request = request(&[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3; d=4")]);
        join_cookies(&mut request).unwrap();
        let cookies: Vec<_> = request.headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3; d=4"]);
    }
}
