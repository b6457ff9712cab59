//! Which fields of a client's head go no further to an application, and which may stand once only. Pure.
//!
//! An application that believes one of these names believes it from us, or from nobody. CGI and its heirs (WSGI, PSGI, Rack,
//! PHP) make `HTTP_X_REAL_IP` of `X-Real-IP` and of `X_Real_IP` alike, and some servers fold every character that is no letter
//! or digit. So a name with such characters is compared as they read it, and must not be taken for any name of weight: not
//! for one of these, not for one that steers the exchange (`Transfer_Encoding`), not for another field of the same request.

use std::borrow::Cow;
use std::sync::LazyLock;

use http::HeaderMap;
use http::header::HeaderName;

/// What the names begin with that tell of the way that a request came. Each ends in one dash.
const WAY_PREFIXES: &[&str] = &[
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
    "ssl-client-",
    "wl-proxy-",
];

const WAY: &[&str] = &[
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
    "x-client-dn",
    "x-client-s-dn",
    "x-client-subject",
    "x-client-verify",
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
    "remote-addr",
    "remote-host",
    // The variables of CGI, as names.
    "http-client-ip",
    "http-x-forwarded-for",
    // CGI makes the setting of the same name of it.
    "proxy",
    // RFC 9440.
    "client-cert",
    "client-cert-chain",
];

/// What the names begin with by which an application may be told who somebody is: by other gates and servers, in whose
/// place we are.
const WHO_PREFIXES: &[&str] = &[
    "x-remote-",
    // oauth2-proxy.
    "x-auth-request-",
    "x-auth-user-",
    // Grafana, Gitea.
    "x-webauth-",
    "x-authenticated-",
    "x-user-",
    "x-authentik-",
    "x-authelia-",
    "x-pomerium-",
    "x-vouch-",
    "x-sso-",
    "x-shib-",
    "x-proxy-remote-",
    // Kong.
    "x-consumer-",
    "x-credential-",
    // Google's, Microsoft's and Amazon's.
    "x-goog-authenticated-user-",
    "x-goog-iap-",
    "x-ms-client-principal-",
    "x-ms-token-",
    "x-amzn-oidc-",
    // Authelia, Caddy, Apache's variables.
    "remote-",
    "http-remote-",
    "redirect-remote-",
    "proxy-remote-",
    "authenticated-",
    "cf-access-",
    "tailscale-",
    // mod_auth_openidc, mod_auth_mellon, Shibboleth.
    "oidc-",
    "mellon-",
    "shib-",
    // IBM's WebSEAL, SiteMinder, Oracle's.
    "iv-",
    "sm-",
    "oam-",
    // IIS.
    "ms-aspnetcore-",
];

const WHO: &[&str] = &[
    "x-userid",
    "x-username",
    "x-userinfo",
    "x-email",
    "x-group",
    "x-groups",
    "x-role",
    "x-roles",
    "x-login",
    "x-principal",
    "x-subject",
    "x-auth-username",
    "x-auth-userid",
    "x-auth-email",
    "x-auth-name",
    "x-auth-group",
    "x-auth-groups",
    "x-auth-role",
    "x-auth-roles",
    "x-auth-subject",
    "x-id-token",
    "x-jwt-assertion",
    "x-endpoint-api-userinfo",
    "x-apigateway-api-userinfo",
    "x-anonymous-consumer",
    "x-proxy-user",
    "x-proxyuser",
    "x-iis-windowsauthtoken",
    "user",
    "user-id",
    "user-name",
    "user-email",
    "user-groups",
    "userid",
    "username",
    "auth-user",
    "auth-type",
    "logon-user",
    "proxy-user",
    "eppn",
    "upn",
    "persistent-id",
    "targeted-id",
    "affiliation",
    "unscoped-affiliation",
    "entitlement",
];

/// One that begins like those and says something else.
const NOBODY: &str = "x-user-agent";

/// Names by which some frameworks let a client say which method it means. They go where a rule looks at methods.
const METHOD_OVERRIDES: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];
const SHORTEST_METHOD_OVERRIDE: usize = "x-http-method".len();

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
/// `Authorization` the gate's credentials speak.
static SINGLE: [HeaderName; 14] = [
    http::header::PROXY_AUTHORIZATION,
    http::header::HOST,
    http::header::ORIGIN,
    http::header::UPGRADE,
    http::header::CONTENT_TYPE,
    http::header::ACCESS_CONTROL_REQUEST_METHOD,
    http::header::SEC_WEBSOCKET_KEY,
    http::header::SEC_WEBSOCKET_VERSION,
    HeaderName::from_static("destination"),
    HeaderName::from_static("depth"),
    HeaderName::from_static("sec-fetch-dest"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("x-requested-with"),
];

/// The first of the fields that may stand once only and stands more often.
pub(crate) fn repeated(headers: &HeaderMap) -> Option<&'static HeaderName> {
    // Hardly any request has two fields of one name, and this is known without a look at them.
    if headers.len() == headers.keys_len() {
        return None;
    }
    SINGLE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some())
}

/// What one application has settled about fields of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a, O> {
    pub methods_ruled: bool,
    /// Whether this name, in lower case, is one under which we tell the application who somebody is.
    pub ours: O,
    /// Names that pass in this very spelling, although they may say who somebody is.
    pub passed: &'a [HeaderName],
}

/// Whether a field names another method than the request's, in a spelling that some framework reads.
pub(crate) fn override_method(headers: &HeaderMap) -> bool {
    // Folding never lengthens a name.
    let names_method = |name: &str| {
        name.len() >= SHORTEST_METHOD_OVERRIDE && !is_everyday(name) && METHOD_OVERRIDES.contains(&&*folded(name))
    };
    headers.keys().any(|name| names_method(name.as_str()))
}

/// Whether a field of a client goes no further.
pub(crate) fn goes(name: &HeaderName, headers: &HeaderMap, terms: &Terms<'_, impl Fn(&str) -> bool>) -> bool {
    let listed = |name: &str| {
        tells_of_the_way(name)
            || tells_who(name)
            || (terms.ours)(name)
            || (terms.methods_ruled && METHOD_OVERRIDES.contains(&name))
    };
    if is_everyday(name.as_str()) {
        return (terms.ours)(name.as_str()) && !terms.passed.contains(name);
    }
    match folded(name.as_str()) {
        Cow::Borrowed(plain) => listed(plain) && !terms.passed.contains(name),
        // Either is taken for the other, and this is the one with the strange name.
        Cow::Owned(folded) => {
            folded.is_empty() || listed(&folded) || is_standard(&folded) || headers.contains_key(folded.as_str())
        }
    }
}

/// Makes the list and the look into it of the same names: the look is a comparison by length and bytes, without a search.
macro_rules! everyday {
    ($($name:literal)|+) => {
        #[cfg(test)]
        const EVERYDAY: &[&str] = &[$($name),+];

        /// Whether a name is one of those that every browser sends. None of them is on a list of those that go: so much need not be
        /// found out for each field of each request.
        fn is_everyday(name: &str) -> bool {
            matches!(name, $($name)|+)
        }
    };
}

everyday!(
    "accept"
        | "accept-encoding"
        | "accept-language"
        | "authorization"
        | "cache-control"
        | "connection"
        | "content-length"
        | "content-type"
        | "cookie"
        | "host"
        | "if-modified-since"
        | "if-none-match"
        | "origin"
        | "pragma"
        | "priority"
        | "referer"
        | "sec-ch-ua"
        | "sec-ch-ua-mobile"
        | "sec-ch-ua-platform"
        | "sec-fetch-dest"
        | "sec-fetch-mode"
        | "sec-fetch-site"
        | "sec-fetch-user"
        | "upgrade-insecure-requests"
        | "user-agent"
);

/// Whether a name, in lower case, tells of the way that a request came: nobody but us knows that.
pub(crate) fn tells_of_the_way(name: &str) -> bool {
    static NAMES: LazyLock<Names> = LazyLock::new(|| Names::of(WAY, WAY_PREFIXES));
    NAMES.contains(name)
}

/// Whether a name, in lower case, is one by which some application is told who somebody is.
pub(crate) fn tells_who(name: &str) -> bool {
    static NAMES: LazyLock<Names> = LazyLock::new(|| Names::of(WHO, WHO_PREFIXES));
    name != NOBODY && NAMES.contains(name)
}

/// Whether a name, in lower case, steers an exchange, or is the credential or the browser's own word.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || STANDARD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a name has no character that some servers fold into another one.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && matches!(folded(name), Cow::Borrowed(_))
}

/// Names, and all that begin with certain words. Every field of every request is looked up here, and hardly any is found.
struct Names {
    /// Of each first letter, the second ones that any of them has, as bits. A letter stands for its last five bits, so that
    /// what is no letter may pass for one; none is left out.
    beginnings: [u32; 32],
    /// Sorted.
    whole: Vec<&'static str>,
    /// Sorted, without the dash. None begins with another word and a dash, so that the last word before a name is the only one
    /// that the name may begin with.
    words: Vec<&'static str>,
}

impl Names {
    fn of(whole: &[&'static str], prefixes: &[&'static str]) -> Self {
        let mut whole = whole.to_vec();
        whole.sort_unstable();
        let mut words: Vec<_> = prefixes.iter().map(|prefix| prefix.trim_end_matches('-')).collect();
        words.sort_unstable();
        words.dedup_by(|later, earlier| begins(later, earlier));
        let mut beginnings = [0; 32];
        for (first, second) in whole.iter().chain(&words).filter_map(|name| beginning(name)) {
            if let Some(seconds) = beginnings.get_mut(first) {
                *seconds |= second;
            }
        }
        Self { beginnings, whole, words }
    }

    fn contains(&self, name: &str) -> bool {
        // No listed name has fewer than two letters.
        let Some((first, second)) = beginning(name) else { return false };
        if self.beginnings.get(first).is_none_or(|seconds| seconds & second == 0) {
            return false;
        }
        let before = self.words.partition_point(|word| *word <= name).checked_sub(1);
        before.and_then(|at| self.words.get(at)).is_some_and(|word| begins(name, word))
            || self.whole.binary_search(&name).is_ok()
    }
}

/// The first letter of a name as a number below 32, and the second as one bit.
fn beginning(name: &str) -> Option<(usize, u32)> {
    let [first, second, ..] = name.as_bytes() else { return None };
    Some((usize::from(first & 31), 1 << (second & 31)))
}

/// Whether a name is this word, or begins with it and a dash.
fn begins(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
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
        !goes(&HeaderName::from_bytes(name.as_bytes()).unwrap(), &HeaderMap::new(), &terms(&[]))
    }

    /// Of an application that is told of people under a name of its own.
    fn terms(passed: &[HeaderName]) -> Terms<'_, fn(&str) -> bool> {
        Terms { methods_ruled: false, ours: |name| name == "x-staff", passed }
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
        assert!(goes(&HeaderName::from_static("x_custom"), &both, &terms(&[])));
        assert!(!goes(&HeaderName::from_static("x-custom"), &both, &terms(&[])));
    }

    #[test]
    fn everyday_names_are_on_no_list() {
        for name in EVERYDAY {
            assert!(is_plain(name) && !tells_of_the_way(name) && !tells_who(name), "{name}");
            assert!(!METHOD_OVERRIDES.contains(name), "{name}");
            // But for an application that is told of people under that name.
            let told = Terms { methods_ruled: true, ours: |ours: &str| ours == *name, passed: &[] };
            assert!(goes(&HeaderName::from_static(name), &HeaderMap::new(), &told), "{name}");
        }
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

    #[test]
    fn what_is_named_passes_in_its_own_spelling_only() {
        let passed = [HeaderName::from_static("x-user-token"), HeaderName::from_static("x-staff-room")];
        let goes = |name: &'static str| goes(&HeaderName::from_static(name), &HeaderMap::new(), &terms(&passed));
        assert!(!goes("x-user-token"));
        for name in ["x_user_token", "x-user_token", "x.user.token", "x-user-tokens", "x-staff", "x_staff"] {
            assert!(goes(name), "{name}");
        }
        assert!(!goes("x-staff-room") && !goes("x-user-agent") && !goes("x-users"));
    }

    #[test]
    fn the_documentation_has_the_whole_list() {
        let docs = include_str!("../../docs/gateway.md").to_ascii_lowercase();
        for name in listed() {
            let written = if name.ends_with('-') { format!("`{name}…`") } else { format!("`{name}`") };
            assert!(docs.contains(&written), "docs/gateway.md does not name {written}");
        }
    }

    fn listed() -> Vec<&'static str> {
        [WAY_PREFIXES, WAY, WHO_PREFIXES, WHO].concat()
    }

    proptest! {
        /// Names near those of the lists: cut, longer, and with something behind a dash.
        #[test]
        fn a_name_is_found_as_by_a_look_at_every_one(
            index in 0..listed().len(), cut in 0..4_usize, tail in "(-|-?[a-z]{0,3}|s-x)",
        ) {
            let listed = listed()[index];
            let name = format!("{}{tail}", &listed[..listed.len().saturating_sub(cut)]);
            let among = |whole: &[&str], prefixes: &[&str]| {
                let starts = |prefix: &&str| name == prefix[..prefix.len() - 1] || name.starts_with(prefix);
                whole.contains(&name.as_str()) || prefixes.iter().any(starts)
            };
            prop_assert_eq!(tells_of_the_way(&name), among(WAY, WAY_PREFIXES));
            prop_assert_eq!(tells_who(&name), name != NOBODY && among(WHO, WHO_PREFIXES));
        }

        #[test]
        fn no_client_can_name_a_field_of_ours(
            index in 0..listed().len(), marks in proptest::collection::vec(0..5_usize, 40),
        ) {
            let name = format!("{}{}", listed()[index], if listed()[index].ends_with('-') { "user" } else { "" });
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
