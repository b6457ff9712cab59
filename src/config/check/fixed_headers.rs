//! Checks of an application's fixed headers.

use http::HeaderValue;
use http::header::{self, HeaderName};

use super::identity::header_name;
use crate::disk::Files;
use crate::file::Section;
use crate::request_fields;
use crate::{AuthorizationHeader, FixedHeaders, IdentityHeaders};

/// Maximum number of fields in each list, because servers limit the number of headers.
const MAX_HEADERS: usize = 16;

const REQUEST: &str = "write, for example, { X-Script-Name = \"/wiki\" }";
const FILES: &str = "write, for example, { Authorization = \"/etc/sealgate/wiki.authorization\" }";
const RESPONSE: &str = "write, for example, { X-Frame-Options = \"DENY\", Server = \"\" }; \"\" removes the header";

/// Standard request fields that may have a fixed value. The others control the exchange.
const PLAIN_STANDARD: &[HeaderName] = &[header::ACCEPT_LANGUAGE, header::AUTHORIZATION, header::USER_AGENT];

/// Request fields that the gateway sets itself.
const OWN_REQUEST: &[&str] =
    &["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id", "client-cert"];

/// Response fields that control the exchange, or that the gateway sets or translates.
const OWN_RESPONSE: &[&str] = &[
    "age",
    "connection",
    "date",
    "keep-alive",
    "location",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-request-id",
];

const OWN_RESPONSE_PREFIXES: &[&str] = &["access-control-", "content-range", "sec-websocket-", "x-sealgate-"];

/// Response fields about the body, which a fixed value would contradict.
const BODY_RESPONSE: &[HeaderName] =
    &[header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::CONTENT_TYPE, header::ETAG, header::LAST_MODIFIED];

/// Parses the fixed headers of an application.
pub(super) fn fixed_headers(app: &mut Section<'_, '_>, identity: &IdentityHeaders, files: &Files) -> FixedHeaders {
    let request =
        app.named_texts("request_headers", REQUEST, |name, text| Ok((request_header(name, identity)?, value(text)?)));
    let request_files = app.named_texts("request_header_files", FILES, |name, text| {
        Ok((request_header(name, identity)?, files.header_value(text)?))
    });
    let response = app.named_texts("response_headers", RESPONSE, |name, text| {
        let value = if text.is_empty() { None } else { Some(value(text)?) };
        Ok((response_header(name)?, value))
    });
    let mut fixed = FixedHeaders {
        request: request.unwrap_or_default(),
        request_files: request_files.unwrap_or_default(),
        response: response.unwrap_or_default(),
    };
    fixed.request.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    fixed.request_files.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    fixed.response.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    let key = if fixed.request_files.is_empty() { "request_headers" } else { "request_header_files" };
    check_names(app, key, fixed.request_names().collect());
    check_names(app, "response_headers", fixed.response.iter().map(|(name, _)| name).collect());
    fixed
}

/// Reports repeated names and too many names.
fn check_names(app: &mut Section<'_, '_>, key: &'static str, mut names: Vec<&HeaderName>) {
    names.sort_by_key(|name| name.as_str());
    if let Some([name, _]) = names.array_windows().find(|[one, other]| one == other) {
        app.fault(key, &format!("sets {:?} a second time; write each header once", name.as_str()));
    }
    if names.len() > MAX_HEADERS {
        app.fault(key, &format!("has {} headers; set at most {MAX_HEADERS}", names.len()));
    }
}

fn request_header(text: &str, identity: &IdentityHeaders) -> Result<HeaderName, String> {
    let name = header_name(text)?;
    let is_own = OWN_REQUEST.contains(&name.as_str())
        || ["x-sealgate-", "trace"].iter().any(|prefix| name.as_str().starts_with(prefix));
    if is_own || (request_fields::is_standard(name.as_str()) && !PLAIN_STANDARD.contains(&name)) {
        return Err(format!("{text:?} is set by the gateway or has another meaning in HTTP; write another header"));
    }
    if name == header::AUTHORIZATION && identity.authorization == AuthorizationHeader::Replace {
        return Err(
            "\"Authorization\" is replaced by the signed assertion; change authorization, or leave it out".into()
        );
    }
    let is_identity = identity.headers.iter().any(|(own, _)| *own == name);
    if is_identity || identity.pass.contains(&name) || identity.app_password_header.as_ref() == Some(&name) {
        return Err(format!(
            "{text:?} is in identity_headers, pass_headers or app_password_header too; write each header once"
        ));
    }
    Ok(name)
}

fn response_header(text: &str) -> Result<HeaderName, String> {
    let name = header_name(text)?;
    let is_own = OWN_RESPONSE.contains(&name.as_str())
        || OWN_RESPONSE_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    if is_own || BODY_RESPONSE.contains(&name) {
        return Err(format!("{text:?} is set by the gateway or describes the body; write another header"));
    }
    Ok(name)
}

fn value(text: &str) -> Result<HeaderValue, String> {
    let problem = || format!("{text:?} is not a header value; write visible ASCII characters in one line");
    let is_plain = text.trim() == text && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !text.is_empty();
    is_plain.then(|| HeaderValue::from_str(text).ok()).flatten().ok_or_else(problem)
}
