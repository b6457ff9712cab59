//! Reads and writes bodies: converts between Pingora's session and the `http` crate's types.
//!
//! Framing of upstream answers.
//!
//! Refuses framing that two parsers may read differently. Otherwise a proxy in front could take the
//! rest of one answer for the next one, which belongs to another user (RFC 9112 §6.3, §11.1).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use crate::proxy::fields::refused;
use crate::request_id::REQUEST_ID;

/// Maximum length of an unwanted body that is read to keep the connection, and maximum time for it.
const DISCARD_BYTES: u64 = 64 * 1024;
const DISCARD_WAIT: Duration = Duration::from_millis(250);

/// Limits for reading the rest of a body after an answer over HTTP/2 that did not wait for it.
const LINGER_BYTES: usize = 1024 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of empty pieces to read while waiting for the end of a body.
const MAX_EMPTY_PIECES: usize = 8;

/// Reason why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyFault {
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The client disconnected, or the framing is wrong.
    Broken(Box<Error>),
}

/// Reads the whole request body: at most `limit` bytes, in at most `within`.
///
/// Sends `100 Continue` to a client that expects it (RFC 9110 §10.1.1), unless the announced length
/// exceeds the limit.
///
/// # Errors
/// See [`BodyFault`]. The connection is not reusable afterwards.
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

/// Reads and drops a short body in transit.
///
/// An HTTP/1.1 connection can only be kept after the end of the body. Some HTTP/2 clients drop an
/// answer if their request stream is reset (curl 7.88).
pub(crate) async fn discard_short_body(session: &mut ServerSession) {
    let short = announced_length(session).is_some_and(|length| length <= DISCARD_BYTES);
    if short && !session.is_body_done() && !expects_continue(session) {
        let _ = timeout(DISCARD_WAIT, session.drain_request_body()).await;
    }
}

/// Ends a complete HTTP/2 answer and reads a limited part of the rest of the request body.
///
/// Otherwise the stream is reset, and some clients drop the answer then (curl 7.88). Most clients
/// stop sending once they have the answer.
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
    let _ = timeout(LINGER, rest).await;
}

/// Closes an HTTP/1 connection properly after a complete error answer.
///
/// Pingora drops it without a `close_notify`. Over TLS that signals a truncated answer (RFC 8446
/// §6.1): clients report an error and discard the session.
pub(crate) async fn end(session: &mut ServerSession) {
    if let ServerSession::H1(session) = session
        && session.finish_body().await.is_ok()
    {
        session.shutdown().await;
    }
}

/// Refuses a body in a request whose method gives it no meaning (RFC 9110 §9.3.1).
///
/// Applications leave such a body unread and parse it as the next request. An empty body is
/// accepted. Over HTTP/2 and in chunks, only reading to its end shows that it is empty.
///
/// # Errors
/// The body is not empty, or does not end in time.
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

fn announced_length(session: &ServerSession) -> Option<u64> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn expects_continue(session: &ServerSession) -> bool {
    !session.is_http2()
        && session.req_header().version == Version::HTTP_11
        && session.get_header_bytes(EXPECT).eq_ignore_ascii_case(b"100-continue")
}

/// Writes a complete response.
///
/// It always sends a `Content-Length`, which allows the connection to be kept, and replaces the
/// response's own framing fields.
///
/// # Errors
/// The client disconnected.
pub(crate) async fn respond(
    session: &mut ServerSession,
    response: Response<Bytes>,
    request_id: Option<&HeaderValue>,
) -> Result<()> {
    let (parts, body) = response.into_parts();
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
