//! Requests to upstreams over HTTP/2, and gRPC.
//!
//! Each upstream connection has one stream at a time. So closing a connection, for example at a
//! timeout, ends only the exchange that uses it, and an upstream that closes the connection of one
//! user affects no other user.

use http::header::{CONTENT_TYPE, EXPECT, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};

use super::body::expects_continue;
use super::exchange::Exchange;
use super::fields::{is_of_one_connection, refused};

/// Maximum length of the part of a response that an upstream may send before Pingora has read it, in
/// bytes. With Pingora's queue of four parts, it bounds the memory of an exchange whose client is slow.
const WINDOW: u32 = 256 * 1024;

const NO_WEBSOCKETS: &str = "The application uses HTTP/2 and does not support WebSockets.";
const NO_HTTP_10: &str = "The application does not support HTTP/1.0 clients.";
const NO_HTTP_2: &str = "The upstream does not accept HTTP/2, which upstream_protocol requires.";

/// Changes a peer so that its connections use HTTP/2 only.
///
/// Over TLS, the connection offers only `h2`. Without TLS, it begins with HTTP/2.
pub(crate) fn require_http2(peer: &mut HttpPeer) {
    peer.options.set_http_version(2, 2);
    peer.options.max_h2_streams = 1;
    peer.options.h2_stream_window_size = Some(WINDOW);
    peer.options.h2_connection_window_size = Some(WINDOW);
}

/// Prepares a request to an upstream that uses HTTP/2. Must be called before an upstream is selected.
///
/// Sends `100 Continue` to a client that expects it: the HTTP/2 library drops that of the upstream.
///
/// # Errors
/// If the request cannot be sent over HTTP/2, or the client has disconnected.
pub(crate) async fn prepare(session: &mut ServerSession, exchange: &mut Exchange) -> Result<()> {
    if session.is_upgrade_req() {
        return Err(refused(501, NO_WEBSOCKETS));
    }
    // Pingora sends each response without a length in chunks, which HTTP/1.0 does not have.
    if session.req_header().version == Version::HTTP_10 {
        return Err(refused(505, NO_HTTP_10));
    }
    exchange.is_grpc = session.is_http2() && is_grpc(&session.req_header().headers);
    if expects_continue(session) {
        session.write_continue_response().await.map_err(Error::into_down)?;
    }
    session.req_header_mut().remove_header(&EXPECT);
    Ok(())
}

/// Returns whether the message has the media type of gRPC, with or without a suffix.
fn is_grpc(fields: &HeaderMap) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let rest = fields.get(CONTENT_TYPE).and_then(|kind| {
        let (kind, rest) = kind.as_bytes().split_at_checked(TYPE.len())?;
        kind.eq_ignore_ascii_case(TYPE).then_some(rest)
    });
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// Checks that the connection has the protocol of the configuration. Must be called before the head is
/// sent.
///
/// A server that does not select `h2` by ALPN gets an HTTP/1.1 connection from Pingora.
///
/// # Errors
/// 502 if the connection is not HTTP/2.
pub(crate) fn check_version(request: &RequestHeader) -> Result<()> {
    if request.version == Version::HTTP_2 {
        return Ok(());
    }
    Err(Error::explain(ErrorType::HTTPStatus(502), NO_HTTP_2).into_up())
}

/// Removes the fields of the client's connection, as Pingora does for HTTP/1.1. Only `TE: trailers`
/// remains, which gRPC servers require (RFC 9113 §8.2.2).
pub(crate) fn strip_connection_fields(fields: &mut HeaderMap) {
    let takes_trailers = fields.get_all(TE).iter().any(|line| line.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let going: Vec<HeaderName> = fields.keys().filter(|name| is_of_one_connection(name)).cloned().collect();
    for name in &going {
        fields.remove(name);
    }
    if takes_trailers {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Adds a hint to an error that an upstream with HTTP/1.1 only causes too.
#[expect(clippy::unnecessary_box_returns, reason = "Pingora passes errors boxed")]
pub(crate) fn with_hint(error: Box<Error>) -> Box<Error> {
    match error.etype() {
        ErrorType::H2Error | ErrorType::InvalidH2 | ErrorType::H2Downgrade => {
            error.more_context("check that the upstream supports HTTP/2, as upstream_protocol requires")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_of_grpc_is_recognised() {
        for (kind, expected) in [
            ("application/grpc", true),
            ("Application/GRPC+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/json", false),
            ("", false),
        ] {
            let fields = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            assert_eq!(is_grpc(&fields), expected, "{kind:?}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
