//! Error responses of the edge: JSON for programs, and a short page in Turkish and English for
//! browsers.
//!
//! The responses contain the request id, but nothing about upstreams.

use std::io;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use pingora::{Error, ErrorSource, ErrorType, ImmutStr};
use sha2::{Digest, Sha256};

use super::listen::chunks::MalformedChunk;
use super::listen::head::HeadFault;
use crate::navigation::Requester;

const MALFORMED_CHUNK: &str = HeadFault::Chunk.reason().1;

/// Returns the bytes of an error response, for failures before a request was parsed.
pub(crate) fn raw_refusal(status: StatusCode, why: Option<&'static str>, request_id: &str) -> String {
    let (error, sentence) = wording(status);
    let sentence = why.unwrap_or(sentence);
    let body = format!(r#"{{"error":"{error}","error_description":"{sentence}","request_id":"{request_id}"}}"#);
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\
         Connection: close\r\nX-Request-Id: {request_id}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns an error response. `why` replaces the sentence that belongs to the status.
pub(crate) fn refusal(
    status: StatusCode,
    why: Option<&'static str>,
    request: &HeaderMap,
    request_id: &str,
) -> Response<Bytes> {
    let (error, sentence) = wording(status);
    let sentence = why.unwrap_or(sentence);
    let mut response = if Requester::from_headers(request).reads_pages() {
        let mut response = Response::new(Bytes::from(page(status, sentence, request_id)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
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

/// Returns the page for browsers. The page has both languages, because the user's language is not
/// known here.
///
/// The parts need no escaping: the texts are fixed, and the request id has only letters, digits and
/// `._-`.
fn page(status: StatusCode, english: &str, request_id: &str) -> String {
    let turkish = turkish(status);
    format!(
        "<!doctype html>\n<html lang=\"tr\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>İstek yerine getirilemedi</title>\
         <style>{STYLE}</style></head><body><main><h1>İstek yerine getirilemedi</h1><p>{turkish}</p>\
         <div lang=\"en\"><h2>The request could not be completed</h2><p>{english}</p></div>\
         <p class=\"reference\">Başvuru kodu <span lang=\"en\">/ Reference</span> <code>{request_id}</code></p>\
         </main></body></html>\n"
    )
}

/// Style of this page, copied from the stylesheet of the pages. It is inline because the requested
/// host may not serve the stylesheet.
const STYLE: &str = ":root{color-scheme:light dark;--page:#edf1f0;--card:#fff;--text:#15211f;--quiet:#4f5d5a;--line:#d8dfdd}\
    @media(prefers-color-scheme:dark){:root{--page:#0e1514;--card:#17201e;--text:#e7edeb;--quiet:#a6b4b0;--line:#2c3936}}\
    body{display:grid;align-content:center;min-height:100vh;margin:0;background:var(--page);color:var(--text);\
    font:1rem/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif;overflow-wrap:anywhere}\
    main{box-sizing:border-box;width:100%;max-width:27rem;margin:auto;padding:2rem;border:1px solid var(--line);\
    border-radius:1rem;background:var(--card)}h1,h2{margin:0 0 .5rem;line-height:1.25}h1{font-size:1.5rem}\
    h2{font-size:1.125rem}p{margin:0 0 1.5rem}.reference{margin:0;padding-top:1rem;border-top:1px solid var(--line);\
    color:var(--quiet);font-size:.875rem}code{display:block;color:var(--text)}";

/// Content security policy that allows only this inline style (CSP level 2, hash source).
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
});

/// Returns the sentence that tells the client why its request was refused. The sentence is always a
/// fixed text.
pub(crate) fn why(error: &Error) -> Option<&'static str> {
    match (error.esource(), error.etype(), &error.context) {
        (ErrorSource::Downstream, ErrorType::HTTPStatus(_), Some(ImmutStr::Static(why))) => Some(why),
        _ => is_malformed_chunk(error).then_some(MALFORMED_CHUNK),
    }
}

/// Returns the reason of an error response for the access log.
pub(crate) fn reason(error: &Error, status: StatusCode) -> &'static str {
    match (&error.context, error.etype()) {
        (Some(ImmutStr::Static(why)), ErrorType::HTTPStatus(_)) => why,
        _ if is_malformed_chunk(error) => MALFORMED_CHUNK,
        _ => wording(status).1,
    }
}

/// Returns whether reading the request body failed at a malformed chunk.
fn is_malformed_chunk(error: &Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    cause.and_then(|cause| cause.downcast_ref::<MalformedChunk>()).is_some()
}

/// Returns the status of the error response. `None` if the client has disconnected.
pub(crate) fn status_of(error: &Error) -> Option<StatusCode> {
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
        (ErrorSource::Downstream, ReadError) if is_malformed_chunk(error) => Some(StatusCode::BAD_REQUEST),
        (ErrorSource::Downstream, ReadError | WriteError | WriteTimedout | ConnectionClosed) => None,
        (ErrorSource::Downstream, ReadTimedout) => Some(StatusCode::REQUEST_TIMEOUT),
        (ErrorSource::Downstream, _) => Some(StatusCode::BAD_REQUEST),
        (ErrorSource::Internal | ErrorSource::Unset, _) => Some(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn wording(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::UNAUTHORIZED => ("access_ended", "Access was revoked during the request."),
        StatusCode::METHOD_NOT_ALLOWED => ("invalid_request", "This method is not supported."),
        StatusCode::CONFLICT => ("session_renewed", "The session was renewed. Repeat the action."),
        StatusCode::REQUEST_TIMEOUT => ("request_timeout", "The request took too long to arrive."),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ("request_header_too_large", "The request's header section is too long.")
        }
        StatusCode::MISDIRECTED_REQUEST => ("invalid_request", "There is no application at this address."),
        StatusCode::PAYLOAD_TOO_LARGE => ("request_too_large", "The request's body is too long."),
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            ("not_implemented", "The application does not support this kind of request.")
        }
        StatusCode::BAD_GATEWAY => ("bad_gateway", "The application cannot be reached. Try again in a moment."),
        StatusCode::SERVICE_UNAVAILABLE => {
            ("temporarily_unavailable", "The service is not available right now. Try again in a moment.")
        }
        StatusCode::GATEWAY_TIMEOUT => {
            ("gateway_timeout", "The application took too long to respond. Try again in a moment.")
        }
        StatusCode::LOOP_DETECTED => ("loop_detected", "The application's server leads back to this proxy."),
        status if status.is_client_error() => ("invalid_request", "The request is not valid HTTP."),
        _ => ("server_error", "The request failed."),
    }
}

fn turkish(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "İstek sürerken erişiminiz sona erdi.",
        StatusCode::METHOD_NOT_ALLOWED => "Bu yöntem burada desteklenmiyor.",
        StatusCode::CONFLICT => {
            "Uygulamadaki oturum sona ermişti ve yenilendi. Sayfayı yeniden açıp işlemi tekrarlayın."
        }
        StatusCode::REQUEST_TIMEOUT => "İsteğin gelmesi çok uzun sürdü.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "İsteğin başlığı çok uzun.",
        StatusCode::MISDIRECTED_REQUEST => "Bu adreste bir uygulama yok.",
        StatusCode::PAYLOAD_TOO_LARGE => "Gönderilen veri çok büyük.",
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            "Uygulama bu tür istekleri desteklemiyor."
        }
        StatusCode::BAD_GATEWAY => "Uygulamaya ulaşılamıyor. Birazdan yeniden deneyin.",
        StatusCode::SERVICE_UNAVAILABLE => "Hizmet şu anda kullanılamıyor. Birazdan yeniden deneyin.",
        StatusCode::GATEWAY_TIMEOUT => "Uygulama zamanında yanıt vermedi. Birazdan yeniden deneyin.",
        StatusCode::LOOP_DETECTED => "Uygulamanın sunucu adresi yine bu sunucuya yönleniyor. Yöneticinize bildirin.",
        status if status.is_client_error() => "İstek geçerli değil.",
        _ => "İstek işlenirken bir hata oluştu.",
    }
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;

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
    fn browsers_get_a_page_with_the_request_id() {
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*"))]);
        let response = refusal(StatusCode::GATEWAY_TIMEOUT, None, &accept, "abc-1");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let page = str::from_utf8(response.body()).unwrap();
        for part in [
            "<code>abc-1</code>",
            "Uygulama zamanında yanıt vermedi.",
            "The application took too long to respond. Try again in a moment.",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let style = page.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).unwrap().0;
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().contains(&format!("'sha256-{hash}'")));
    }
}
