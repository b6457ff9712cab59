//! CORS (Fetch Standard, CORS protocol): the pages of other origins that may call an application
//! from a browser. Pure.
//!
//! The gateway answers preflights itself, because browsers send them without credentials. It also
//! adds the CORS headers to its own refusals. Without these headers, a page could not read a 401.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::route::{RoutePlace, Rule};
use sealgate_core::web::response::Response;
use sealgate_edge::rewrite::AnswerRewrite;

/// Seconds for which a browser may cache a preflight response.
const PREFLIGHT_MAX_AGE: &str = "600";
/// Maximum length of the `Access-Control-Request-Headers` value of a preflight, in bytes.
const MAX_LIST_LENGTH: usize = 1024;
/// Headers of the gateway's own responses that a page of another origin may read.
const EXPOSED_HEADERS: &str = "WWW-Authenticate, Retry-After, X-Request-Id";

/// CORS headers of a response, according to the rule and the request's `Origin`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Cors {
    /// The rule lists no origins. The application sets the CORS headers itself.
    #[default]
    Unmanaged,
    /// The rule lists the origin of the request.
    Listed(HeaderValue),
    /// The rule lists origins, but not the origin of the request. Also used for requests with no
    /// `Origin` or several `Origin` headers.
    Unlisted,
}

impl Cors {
    /// Returns the CORS headers for a request under this rule.
    pub(super) fn for_request(rule: &Rule, headers: &HeaderMap) -> Self {
        if rule.cors_origins.is_empty() {
            return Self::Unmanaged;
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(only), None) if rule.cors_origins.iter().any(|known| known.as_bytes() == only.as_bytes()) => {
                Self::Listed(only.clone())
            }
            _ => Self::Unlisted,
        }
    }

    /// Adds the CORS headers to a response of the gateway.
    pub(super) fn add_to(&self, answer: Response) -> Response {
        match self {
            Self::Unmanaged => answer,
            Self::Unlisted => answer.and(VARY, HeaderValue::from_static("Origin")),
            Self::Listed(origin) => answer
                .and(VARY, HeaderValue::from_static("Origin"))
                .and(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone())
                .with(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")
                .with(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS),
        }
    }

    /// Returns the changes to the application's response.
    ///
    /// If the rule lists origins, the gateway replaces the CORS headers of the application. So the
    /// application cannot allow more origins by sending `*` or by copying the origin of the
    /// request.
    pub(super) fn rewrite(&self) -> AnswerRewrite {
        let set = match self {
            Self::Unmanaged => return AnswerRewrite::default(),
            Self::Unlisted => Vec::new(),
            Self::Listed(origin) => vec![
                (ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
                (ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")),
            ],
        };
        AnswerRewrite {
            remove: vec![ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_CREDENTIALS],
            set,
            append: vec![(VARY, HeaderValue::from_static("Origin"))],
            private: false,
        }
    }
}

/// Returns the response to a preflight (Fetch Standard, CORS-preflight request).
///
/// `None` if the request is not a preflight, or if the rule of the requested method lists no
/// origins.
pub(super) fn preflight(place: &RoutePlace, address: Option<IpAddr>, head: &Parts) -> Option<Response> {
    if head.method != Method::OPTIONS || !head.headers.contains_key(ORIGIN) {
        return None;
    }
    let method = head.headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    let rule = place.rule(Method::from_bytes(method.as_bytes()).ok()?.as_str(), address).ok()?;
    let cors = Cors::for_request(rule, &head.headers);
    let vary = HeaderValue::from_static("Access-Control-Request-Method, Access-Control-Request-Headers");
    match cors {
        Cors::Unmanaged => None,
        // Without `Access-Control-Allow-Origin`, the browser does not send the actual request.
        Cors::Unlisted => Some(cors.add_to(Response::empty(StatusCode::FORBIDDEN)).and(VARY, vary)),
        Cors::Listed(_) => {
            let answer = cors
                .add_to(Response::empty(StatusCode::NO_CONTENT))
                .and(VARY, vary)
                .and(ACCESS_CONTROL_ALLOW_METHODS, method.clone())
                .with(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
            // Lists the requested headers instead of a wildcard: `*` does not apply to requests
            // with credentials and never includes `Authorization`.
            let asked = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|asked| is_list(asked.as_bytes()));
            Some(match asked {
                Some(asked) => answer.and(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone()),
                None => answer,
            })
        }
    }
}

/// Returns whether the text has only characters of a list of header names.
fn is_list(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_, ".contains(byte);
    !text.is_empty() && text.len() <= MAX_LIST_LENGTH && text.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_config::Access;

    fn rule() -> Rule {
        Rule { cors_origins: vec!["https://www.test".into()], ..Rule::plain("/", Access::SignedIn) }
    }

    fn from(origins: &[&'static str]) -> HeaderMap {
        origins.iter().map(|origin| (ORIGIN, HeaderValue::from_static(origin))).collect()
    }

    #[test]
    fn origins_are_compared_byte_for_byte() {
        let listed = Cors::Listed(HeaderValue::from_static("https://www.test"));
        assert_eq!(Cors::for_request(&rule(), &from(&["https://www.test"])), listed);
        for origins in [
            vec![],
            vec!["null"],
            vec!["https://WWW.test"],
            vec!["https://www.test:443"],
            vec!["http://www.test"],
            vec!["https://www.test.evil.test"],
            vec!["https://evil.test", "https://www.test"],
            vec!["https://www.test", "https://www.test"],
        ] {
            assert_eq!(Cors::for_request(&rule(), &from(&origins)), Cors::Unlisted, "{origins:?}");
        }
        let silent = Rule::plain("/", Access::SignedIn);
        assert_eq!(Cors::for_request(&silent, &from(&["https://www.test"])), Cors::Unmanaged);
    }

    #[test]
    fn an_application_cannot_allow_more_origins() {
        let rewrite = Cors::Unlisted.rewrite();
        assert!(rewrite.remove.contains(&ACCESS_CONTROL_ALLOW_ORIGIN) && rewrite.set.is_empty());
        assert_eq!(Cors::Unmanaged.rewrite(), AnswerRewrite::default());
    }

    #[test]
    fn invalid_header_lists_are_not_echoed() {
        assert!(is_list(b"authorization, x-a_b"));
        for text in [b"".as_slice(), b"a:b", b"a\"b", &[b'a'; 1025]] {
            assert!(!is_list(text));
        }
    }
}
