//! Which fields of a client's head go no further, and which may stand once only. Pure.
//!
//! An application that believes one of these names believes it from us, or from nobody. CGI and its heirs (WSGI, PSGI, Rack,
//! PHP) make `HTTP_X_REAL_IP` of `X-Real-IP` and of `X_Real_IP` alike, and some servers fold every character that is no letter
//! or digit. So a name with such characters is compared as they read it, and must not be taken for any name of weight: not
//! for one of these, not for one that steers the exchange (`Transfer_Encoding`), not for another field of the same request.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::HeaderName;

/// What the names begin with that are ours or another proxy's to say, of those that begin with `x-`.
const PREFIXES: &[&str] = &[
    // Ours.
    "x-sealgate-",
    // Who somebody is, where they come from, and which address they asked for: `-User`, `-For`, `-Scheme`, `-Ssl`, `-Uri`,
    // `-Client-Cert`, `-Tls-Client-Cert` and so on.
    "x-forwarded-",
    // The request as it was before a proxy changed it.
    "x-original-",
    "x-rewrite-",
    "x-envoy-",
    // TLS that another server has ended, and the certificate that it was shown.
    "x-ssl-",
    "x-arr-",
    "x-tls-client-",
];

/// The like of those that do not.
const OTHER_PREFIXES: &[&str] = &["ssl-client-", "wl-proxy-"];

/// Further ones, whole.
const EXTENSIONS: &[&str] = &[
    "x-request-id",
    // The client's address.
    "x-real-ip",
    "x-real-port",
    "x-client-ip",
    "x-client-port",
    "x-cluster-client-ip",
    "x-originating-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-proxyuser-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-appengine-user-ip",
    "x-proxy-user-ip",
    // The scheme, the host and the path that were asked for.
    "x-scheme",
    "x-url-scheme",
    "x-host",
    "x-http-host-override",
    "x-script-name",
    "x-proxy-url",
    // Certificates.
    "x-client-cert",
    "x-client-certificate",
];

/// Those that do not.
const OTHERS: &[&str] = &[
    "forwarded",
    "forwarded-for",
    "client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-visitor",
    "fastly-client-ip",
    "fastly-ssl",
    "cloudfront-forwarded-proto",
    "proxy-client-ip",
    "front-end-https",
    // The variables of CGI, as names.
    "http-client-ip",
    "http-x-forwarded-for",
    // CGI makes the setting of the same name of it.
    "proxy",
    // RFC 9440.
    "client-cert",
    "client-cert-chain",
];

/// Names by which some frameworks let a client say which method it means. They go where a rule looks at methods.
const METHOD_OVERRIDES: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];

/// Fields that steer an exchange or say who asks: they pass as they are, and in no other spelling.
const STANDARD: &[&str] = &[
    "accept",
    "authorization",
    "connection",
    "cookie",
    "cookie2",
    "date",
    "expect",
    "from",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-requested-with",
];

/// What further ones begin with.
const STANDARD_PREFIXES: &[&str] = &["accept-", "access-control-", "content-", "if-", "sec-", "trace", "x-csrf"];

/// Fields of which two would be two requests in one: we judge by one of them, and the application may read the other. Of
/// `Authorization` the credentials speak ([`crate::gateway::credential`]).
static SINGLE: [HeaderName; 12] = [
    http::header::PROXY_AUTHORIZATION,
    http::header::HOST,
    http::header::ORIGIN,
    http::header::UPGRADE,
    http::header::CONTENT_TYPE,
    http::header::ACCESS_CONTROL_REQUEST_METHOD,
    http::header::SEC_WEBSOCKET_KEY,
    http::header::SEC_WEBSOCKET_VERSION,
    HeaderName::from_static("sec-fetch-dest"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("x-requested-with"),
];

/// The first of the fields that may stand once only and stands more often.
pub(super) fn repeated(headers: &HeaderMap) -> Option<&'static HeaderName> {
    // Hardly any request has two fields of one name, and this is known without a look at them.
    if headers.len() == headers.keys_len() {
        return None;
    }
    SINGLE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some())
}

/// Whether a field of a client goes no further. With `methods_ruled` a rule of the application looks at methods.
pub(super) fn goes(name: &HeaderName, headers: &HeaderMap, methods_ruled: bool) -> bool {
    let name = name.as_str();
    let listed = |name: &str| is_listed(name) || (methods_ruled && METHOD_OVERRIDES.contains(&name));
    match folded(name) {
        Cow::Borrowed(name) => listed(name),
        // Either is taken for the other, and this is the one with the strange name.
        Cow::Owned(folded) => {
            folded.is_empty() || listed(&folded) || is_standard(&folded) || headers.contains_key(folded.as_str())
        }
    }
}

fn is_listed(name: &str) -> bool {
    let begins = |prefix: &&str| name.strip_prefix(prefix.trim_end_matches('-')).is_some_and(ends_word);
    // Most fields begin otherwise, and are compared with a few names only.
    let (prefixes, names) = if name.starts_with("x-") { (PREFIXES, EXTENSIONS) } else { (OTHER_PREFIXES, OTHERS) };
    names.contains(&name) || prefixes.iter().any(begins)
}

fn ends_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('-')
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || STANDARD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A name as servers read it that fold all but letters and digits: each into a dash, and none at either end.
fn folded(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.bytes().all(is_plain) && !name.starts_with('-') && !name.ends_with('-') {
        return Cow::Borrowed(name);
    }
    let dashed: String = name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    Cow::Owned(dashed.trim_matches('-').to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn passes(name: &str) -> bool {
        !goes(&HeaderName::from_bytes(name.as_bytes()).unwrap(), &HeaderMap::new(), false)
    }

    #[test]
    fn what_an_application_may_take_for_another_field_goes() {
        for name in [
            "Transfer_Encoding",
            "Content_Length",
            "Content_Type",
            "Host_",
            "Host-",
            "-Host",
            "_host_",
            "Cookie_",
            "Up_grade_",
            "sec_websocket-key",
            "Accept_Language",
            "X_Requested_With",
            "Expect_",
            "If_None_Match",
            "_",
            "--",
        ] {
            assert!(passes(name) == (name == "Up_grade_"), "{name}");
        }
        for name in ["api_key", "X_Custom", "x-custom", "SOAPAction", "x.y"] {
            assert!(passes(name), "{name}");
        }
        // Nothing but its spelling tells it from the other one.
        let both = HeaderMap::from_iter([(HeaderName::from_static("x-custom"), HeaderValue::from_static("1"))]);
        assert!(goes(&HeaderName::from_static("x_custom"), &both, false));
        assert!(!goes(&HeaderName::from_static("x-custom"), &both, false));
    }

    #[test]
    fn fields_that_steer_an_exchange_pass_in_their_own_spelling() {
        for name in STANDARD.iter().chain(&["accept-language", "content-length", "sec-fetch-mode", "traceparent"]) {
            assert!(passes(name), "{name}");
        }
    }

    #[test]
    fn a_field_that_may_stand_once_stands_once() {
        let headers = |names: &[&'static str]| -> HeaderMap {
            names.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("a"))).collect()
        };
        assert_eq!(repeated(&headers(&["origin", "accept", "accept"])), None);
        for name in &SINGLE {
            let twice = headers(&[name.as_str(), "accept", name.as_str()]);
            assert_eq!(repeated(&twice), Some(name));
        }
    }

    proptest! {
        #[test]
        fn no_client_can_name_a_field_of_ours(
            index in 0..EXTENSIONS.len() + OTHERS.len(), marks in proptest::collection::vec(0..5_usize, 40),
        ) {
            let name = EXTENSIONS.iter().chain(OTHERS).nth(index).unwrap();
            let spelled: String = name
                .chars()
                .zip(marks.iter().cycle())
                .map(|(char, mark)| match (char, mark) {
                    ('-', mark) => ['-', '_', '.', '!', '~'][*mark],
                    (char, 0 | 1) => char.to_ascii_uppercase(),
                    (char, _) => char,
                })
                .collect();
            prop_assert!(!passes(&spelled), "{}", spelled);
        }
    }
}
