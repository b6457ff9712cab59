//! What the edge itself answers when it cannot do what was asked: JSON for programs, a short page for people, the
//! request's id and nothing of what lies behind.

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use pingora::{Error, ErrorSource, ErrorType, ImmutStr};

/// The doorway's answer with this status, on the wire: there is no request yet to speak of.
pub(super) fn raw_refusal(status: StatusCode, request_id: &str) -> String {
    let (error, sentence) = wording(status);
    let body = format!(r#"{{"error":"{error}","error_description":"{sentence}","request_id":"{request_id}"}}"#);
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\
         Connection: close\r\nX-Request-Id: {request_id}\r\n\r\n{body}",
        body.len()
    )
}

/// The edge's answer with this status, and with this sentence where there is a better one than the status's own.
pub(super) fn refusal(
    status: StatusCode,
    why: Option<&'static str>,
    request: &HeaderMap,
    request_id: &str,
) -> Response<Bytes> {
    let (error, sentence) = wording(status);
    let sentence = why.unwrap_or(sentence);
    let mut response = if prefers_page(request) {
        let reason = status.canonical_reason().unwrap_or_default();
        // Every piece is our own: a status, fixed text, and an id of letters, digits and `._-`.
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>{reason}</title><h1>{reason}</h1><p>{sentence}</p>\
             <p>Request: <code>{request_id}</code></p></html>\n"
        );
        let mut response = Response::new(Bytes::from(page));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    } else {
        let body = format!(r#"{{"error":"{error}","error_description":"{sentence}","request_id":"{request_id}"}}"#);
        let mut response = Response::new(Bytes::from(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    };
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What a client is told of a refusal that is its own doing: our own fixed text only.
pub(super) fn why(error: &Error) -> Option<&'static str> {
    match (error.esource(), error.etype(), &error.context) {
        (ErrorSource::Downstream, ErrorType::HTTPStatus(_), Some(ImmutStr::Static(why))) => Some(why),
        _ => None,
    }
}

/// What to answer to a failure; nothing when the client is the one that is gone.
pub(super) fn status_of(error: &Error) -> Option<StatusCode> {
    use ErrorType::{
        ConnectTimedout, ConnectionClosed, HTTPStatus, ReadError, ReadTimedout, TLSHandshakeTimedout, WriteError,
        WriteTimedout,
    };
    match (error.esource(), error.etype()) {
        (_, HTTPStatus(code)) => StatusCode::from_u16(*code).ok(),
        (ErrorSource::Upstream, ConnectTimedout | TLSHandshakeTimedout | ReadTimedout | WriteTimedout) => {
            Some(StatusCode::GATEWAY_TIMEOUT)
        }
        (ErrorSource::Upstream, _) => Some(StatusCode::BAD_GATEWAY),
        (ErrorSource::Downstream, ReadError | WriteError | WriteTimedout | ConnectionClosed) => None,
        (ErrorSource::Downstream, ReadTimedout) => Some(StatusCode::REQUEST_TIMEOUT),
        (ErrorSource::Downstream, _) => Some(StatusCode::BAD_REQUEST),
        (ErrorSource::Internal | ErrorSource::Unset, _) => Some(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn wording(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::UNAUTHORIZED => ("access_ended", "Access has ended while the request was under way."),
        StatusCode::METHOD_NOT_ALLOWED => ("invalid_request", "This method is not served here."),
        StatusCode::REQUEST_TIMEOUT => ("request_timeout", "The request took too long to come."),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ("request_header_too_large", "The request's head is too long."),
        StatusCode::MISDIRECTED_REQUEST => ("invalid_request", "This host is not served here."),
        StatusCode::PAYLOAD_TOO_LARGE => ("request_too_large", "The request's body is too long."),
        StatusCode::BAD_GATEWAY => ("bad_gateway", "The application cannot be reached."),
        StatusCode::SERVICE_UNAVAILABLE => ("temporarily_unavailable", "The service is not available right now."),
        StatusCode::GATEWAY_TIMEOUT => ("gateway_timeout", "The application took too long to answer."),
        status if status.is_client_error() => ("invalid_request", "The request is not valid HTTP."),
        _ => ("server_error", "The request failed."),
    }
}

/// Whether a person is looking: programs rarely name text/html.
fn prefers_page(request: &HeaderMap) -> bool {
    request.get_all(ACCEPT).iter().any(|value| memchr::memmem::find(value.as_bytes(), b"text/html").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_json_with_the_request_id() {
        let response = refusal(StatusCode::BAD_GATEWAY, None, &HeaderMap::new(), "abc-1");
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["error"], "bad_gateway");
        assert_eq!(body["request_id"], "abc-1");
    }

    #[test]
    fn people_get_a_page_with_the_request_id() {
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*"))]);
        let response = refusal(StatusCode::GATEWAY_TIMEOUT, None, &accept, "abc-1");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        assert!(str::from_utf8(response.body()).unwrap().contains("<code>abc-1</code>"));
    }
}
