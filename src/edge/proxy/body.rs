//! Reading and writing of bodies, and checks of the framing of upstream responses.
//!
//! Responses whose framing two parsers may read differently are refused. A proxy in front of
//! Sealgate could otherwise parse the rest of one response as the next response, and send it to
//! another user (RFC 9112 §6.3, §11.1).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, response};
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use crate::body_stream::{BodyStream, Incomplete};
use crate::proxy::fields::refused;
use crate::request_id::REQUEST_ID;

/// Maximum number of bytes of an unwanted body that are read in order to keep the connection.
const DISCARD_BYTES: u64 = 64 * 1024;
/// Maximum time for reading such a body.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum number of bytes of a body that are read after the response was sent over HTTP/2.
const LINGER_BYTES: usize = 1024 * 1024;
/// Maximum time for reading the rest of such a body.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of empty pieces that are read while waiting for the end of a body.
const MAX_EMPTY_PIECES: usize = 8;

/// Error of a response whose streamed body was not completed. The connection must end without the end
/// of the body.
pub(crate) const INCOMPLETE_BODY: ErrorType = ErrorType::Custom("IncompleteBody");

/// Reason why the body of a request could not be read.
#[derive(Debug)]
pub(crate) enum BodyFault {
    TooLarge,
    /// The body was not complete before the deadline.
    TooSlow,
    /// The client disconnected, or the framing is wrong.
    Broken(Box<Error>),
}

/// Reads the whole body of a request: at most `limit` bytes, in at most `within`.
///
/// Sends `100 Continue` to a client that expects it (RFC 9110 §10.1.1), unless the announced
/// length exceeds the limit.
///
/// # Errors
/// See [`BodyFault`]. The connection cannot be reused then.
pub(crate) async fn read_body(session: &mut ServerSession, limit: usize, within: Duration) -> Result<Bytes, BodyFault> {
    if announced_length(session).is_some_and(|length| length > limit as u64) {
        return Err(BodyFault::TooLarge);
    }
    if expects_continue(session) {
        session.write_continue_response().await.map_err(|error| BodyFault::Broken(error.into_down()))?;
    }
    match timeout(within, read_pieces(session, limit)).await {
        Ok(body) => body,
        Err(_) => Err(BodyFault::TooSlow),
    }
}

async fn read_pieces(session: &mut ServerSession, limit: usize) -> Result<Bytes, BodyFault> {
    let mut next = async || match session.read_request_body().await {
        Ok(piece) => Ok(piece),
        Err(error) if *error.etype() == ErrorType::ReadTimedout => Err(BodyFault::TooSlow),
        Err(error) => Err(BodyFault::Broken(error.into_down())),
    };
    // Most bodies arrive in one piece, which is returned without a copy.
    let Some(first) = next().await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(BodyFault::TooLarge);
    }
    let Some(mut piece) = next().await? else { return Ok(first) };
    let mut body = BytesMut::from(&first[..]);
    loop {
        if body.len() + piece.len() > limit {
            return Err(BodyFault::TooLarge);
        }
        body.extend_from_slice(&piece);
        match next().await? {
            Some(more) => piece = more,
            None => return Ok(body.freeze()),
        }
    }
}

/// Reads and drops the rest of a short body.
///
/// An HTTP/1.1 connection can be reused only after the end of the body. Some HTTP/2 clients drop
/// the response if their stream is reset (curl 7.88).
pub(crate) async fn discard_short_body(session: &mut ServerSession) {
    let short = announced_length(session).is_some_and(|length| length <= DISCARD_BYTES);
    if short && !session.is_body_done() && !expects_continue(session) {
        let _ = timeout(DISCARD_TIMEOUT, session.drain_request_body()).await;
    }
}

/// Ends a complete HTTP/2 response, then reads a limited part of the remaining request body.
///
/// Without reading, the stream would be reset, and some clients drop the response then (curl 7.88).
/// Most clients stop sending when they have the response.
pub(crate) async fn linger(session: &mut ServerSession) {
    if session.is_body_done() || session.finish_body().await.is_err() {
        return;
    }
    let rest = async {
        let mut read = 0;
        while read < LINGER_BYTES
            && let Ok(Some(piece)) = session.read_request_body().await
        {
            read += piece.len();
        }
    };
    let _ = timeout(LINGER_TIMEOUT, rest).await;
}

/// Closes an HTTP/1 connection after a complete error response.
///
/// Pingora itself drops the connection without a `close_notify`. Over TLS, that means a truncated
/// response (RFC 8446 §6.1): clients report an error and discard the TLS session.
pub(crate) async fn close_http1(session: &mut ServerSession) {
    if let ServerSession::H1(session) = session
        && session.finish_body().await.is_ok()
    {
        session.shutdown().await;
    }
}

/// Refuses a request with a body if its method gives a body no meaning (RFC 9110 §9.3.1).
///
/// Applications that do not read such a body parse it as the next request. An empty body is
/// accepted. With HTTP/2 or chunks, it must be read to its end to see that it is empty.
///
/// # Errors
/// If the body is not empty, or does not end in time.
pub(crate) async fn refuse_body(session: &mut ServerSession, within: Duration) -> Result<()> {
    const UNWANTED: &str = "A request with this method may not have a body.";
    if announced_length(session).is_some() || expects_continue(session) {
        return Err(refused(400, UNWANTED));
    }
    let end = async {
        for _ in 0..MAX_EMPTY_PIECES {
            match session.read_request_body().await.map_err(Error::into_down)? {
                None => return Ok(()),
                Some(piece) if piece.is_empty() => {}
                Some(_) => break,
            }
        }
        Err(refused(400, UNWANTED))
    };
    timeout(within, end).await.unwrap_or_else(|_| Err(refused(408, "The request's body did not arrive.")))
}

/// Returns the value of `Content-Length`, if the request has one.
pub(crate) fn announced_length(session: &ServerSession) -> Option<u64> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether an HTTP/1.1 client waits for `100 Continue` (RFC 9110 §10.1.1).
pub(crate) fn expects_continue(session: &ServerSession) -> bool {
    !session.is_http2()
        && session.req_header().version == Version::HTTP_11
        && session.get_header_bytes(EXPECT).eq_ignore_ascii_case(b"100-continue")
}

/// Writes a complete response.
///
/// Sends `Content-Length`, so that the connection can be reused, unless the extensions have a
/// [`BodyStream`]. Ignores the framing fields of `response`.
///
/// # Errors
/// If the client has disconnected, or the front has not completed a streamed body.
pub(crate) async fn respond(
    session: &mut ServerSession,
    response: Response<Bytes>,
    request_id: Option<&HeaderValue>,
) -> Result<()> {
    let (mut parts, body) = response.into_parts();
    if let Some(stream) = parts.extensions.remove::<BodyStream>() {
        return Box::pin(respond_in_parts(session, parts, &stream, request_id)).await;
    }
    let mut head = ResponseHeader::build_no_case(parts.status, Some(parts.headers.len() + 2))?;
    for (name, value) in &parts.headers {
        if ![CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH].contains(name) {
            head.append_header(name, value)?;
        }
    }
    let has_body = !matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if has_body {
        head.insert_header(CONTENT_LENGTH, body.len())?;
    }
    if let Some(id) = request_id {
        head.insert_header(REQUEST_ID, id)?;
    }
    session.write_response_header(Box::new(head)).await.map_err(Error::into_down)?;
    let sent = if has_body && session.req_header().method != Method::HEAD { body } else { Bytes::new() };
    session.write_response_body(sent, true).await.map_err(Error::into_down)
}

/// Writes a response whose body comes in parts.
async fn respond_in_parts(
    session: &mut ServerSession,
    parts: response::Parts,
    stream: &BodyStream,
    request_id: Option<&HeaderValue>,
) -> Result<()> {
    let mut head = ResponseHeader::build_no_case(parts.status, Some(parts.headers.len() + 2))?;
    for (name, value) in &parts.headers {
        if ![CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH].contains(name) {
            head.append_header(name, value)?;
        }
    }
    match session.req_header().version {
        Version::HTTP_11 => head.insert_header(TRANSFER_ENCODING, "chunked")?,
        // The end of the connection is the end of the body.
        version if version < Version::HTTP_11 => session.set_keepalive(None),
        _ => {}
    }
    if let Some(id) = request_id {
        head.insert_header(REQUEST_ID, id)?;
    }
    let is_head = session.req_header().method == Method::HEAD;
    session.write_response_header(Box::new(head)).await.map_err(Error::into_down)?;
    let Some(mut body) = stream.take().filter(|_| !is_head) else {
        return session.write_response_body(Bytes::new(), true).await.map_err(Error::into_down);
    };
    loop {
        match body.next().await {
            Ok(Some(part)) => session.write_response_body(part, false).await.map_err(Error::into_down)?,
            Ok(None) => return session.write_response_body(Bytes::new(), true).await.map_err(Error::into_down),
            Err(Incomplete) => {
                // Without the last chunk, the client knows that the body is incomplete.
                session.set_keepalive(None);
                return Err(Error::new_down(INCOMPLETE_BODY));
            }
        }
    }
}

/// Returns whether responses with this status never have a body, for every method.
pub(crate) fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT
}

/// Returns whether the response has the transfer coding `chunked`.
///
/// # Errors
/// If it has another coding or several, or is HTTP/1.0, which has no transfer codings.
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

/// Removes framing fields that the status forbids, and reduces repeated equal lengths to one.
///
/// HTTP/2 clients reset the stream for either (RFC 9113 §8.1.1). Pingora has already refused
/// responses with different lengths.
pub(crate) fn normalize_framing(fields: &mut HeaderMap, status: StatusCode) {
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
    fn only_chunked_is_accepted_as_transfer_coding() {
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
    fn content_length_is_reduced_to_one_or_none() {
        let left = |status, lengths: &[&'static str]| {
            let lengths: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
            let mut fields = response(status, Version::HTTP_11, &lengths).headers.clone();
            normalize_framing(&mut fields, StatusCode::from_u16(status).unwrap());
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
