//! Decides which header fields of a client's request are removed before the request is forwarded to
//! the application, and which fields may occur only once.
//!
//! Applications trust the removed fields, so only the gateway may set them.
//!
//! Servers change the names of fields. CGI, WSGI, PSGI, Rack and PHP map both `X-Real-IP` and
//! `X_Real_IP` to `HTTP_X_REAL_IP`. Some servers replace every character except letters and digits.
//! So the gateway folds a name: it replaces such characters with dashes.
//!
//! A field is removed if its name is in one of the lists below. If folding changes the name, the
//! field is also removed in each of these cases:
//!
//! - The folded name is in one of the lists below.
//! - A field with the folded name controls the exchange. An example is `Transfer_Encoding`.
//! - The request has another field with the folded name.

use std::borrow::Cow;
use std::sync::LazyLock;

use http::HeaderMap;
use http::header::HeaderName;

/// Prefixes of fields that describe how a request was received. Each ends with one dash.
const ORIGIN_PREFIXES: &[&str] = &[
    // Of Sealgate.
    "x-sealgate-",
    // User, client address and requested URL: `-User`, `-For`, `-Scheme`, `-Ssl`, `-Uri`,
    // `-Client-Cert`, `-Tls-Client-Cert` and so on.
    "x-forwarded-",
    // Original values of a request that a proxy in front of the server has changed.
    "x-original-",
    "x-rewrite-",
    "x-envoy-",
    // TLS connections that another server has terminated, and the client certificates of these
    // connections.
    "x-ssl-",
    "x-arr-",
    "x-tls-client-",
    "ssl-client-",
    "wl-proxy-",
];

/// Fields that describe how a request was received.
const ORIGIN_FIELDS: &[&str] = &[
    "x-request-id",
    // Address of the client.
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
    // Requested scheme, host and path.
    "x-scheme",
    "x-url-scheme",
    "x-host",
    "x-http-host-override",
    "x-script-name",
    "x-proxy-url",
    // Client certificates.
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
    // Names of CGI variables.
    "http-client-ip",
    "http-x-forwarded-for",
    // CGI passes this field to programs as the environment variable `HTTP_PROXY`, which many HTTP
    // clients use as a proxy setting.
    "proxy",
    // Client certificates (RFC 9440).
    "client-cert",
    "client-cert-chain",
];

/// Prefixes of fields that other gateways and servers use to send a user's identity to an
/// application.
const IDENTITY_PREFIXES: &[&str] = &[
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
    // Google, Microsoft and Amazon.
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
    // IBM WebSEAL, SiteMinder, Oracle.
    "iv-",
    "sm-",
    "oam-",
    // IIS.
    "ms-aspnetcore-",
];

/// Fields that other gateways and servers use to send a user's identity to an application.
const IDENTITY_FIELDS: &[&str] = &[
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

/// Field that has an identity prefix, but contains no identity.
const NOT_AN_IDENTITY: &str = "x-user-agent";

/// Fields that override the request method in some frameworks. The fields are removed if any rule
/// depends on methods.
const METHOD_OVERRIDES: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];
const MIN_METHOD_OVERRIDE_LENGTH: usize = "x-http-method".len();

/// Fields that control an exchange or carry credentials. These fields are forwarded only under
/// exactly these names.
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

/// Prefixes of further standard fields.
const STANDARD_PREFIXES: &[&str] = &["accept-", "access-control-", "content-", "if-", "sec-", "trace", "x-csrf"];

/// Fields that must occur only once. If such a field were repeated, the gateway could read one
/// value and the application another value.
///
/// `Authorization` is not in this list, because the gateway checks that field when it reads
/// credentials.
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

/// Returns the first field that violates [`SINGLE`].
pub fn repeated(headers: &HeaderMap) -> Option<&'static HeaderName> {
    // Fast path: few requests have two fields of the same name.
    if headers.len() == headers.keys_len() {
        return None;
    }
    SINGLE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some())
}

/// Settings of an application that determine which fields are removed.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a, O> {
    /// Whether a rule of the application depends on the method.
    pub methods_ruled: bool,
    /// Returns whether the gateway sends an identity in the field with this lower-case name.
    /// Clients cannot send such a field.
    pub ours: O,
    /// Fields that clients may send under these exact names, although they may contain an identity.
    pub passed: &'a [HeaderName],
}

/// Returns whether a field overrides the request method. Considers all spellings that frameworks
/// accept.
pub fn override_method(headers: &HeaderMap) -> bool {
    // A folded name is never longer than the original.
    let names_method = |name: &str| {
        name.len() >= MIN_METHOD_OVERRIDE_LENGTH && !is_everyday(name) && METHOD_OVERRIDES.contains(&&*folded(name))
    };
    headers.keys().any(|name| names_method(name.as_str()))
}

/// Returns whether a client's field is removed from the request.
pub fn is_removed(name: &HeaderName, headers: &HeaderMap, terms: &Terms<'_, impl Fn(&str) -> bool>) -> bool {
    let listed = |name: &str| {
        describes_origin(name)
            || names_identity(name)
            || (terms.ours)(name)
            || (terms.methods_ruled && METHOD_OVERRIDES.contains(&name))
    };
    if is_everyday(name.as_str()) {
        return (terms.ours)(name.as_str()) && !terms.passed.contains(name);
    }
    match folded(name.as_str()) {
        Cow::Borrowed(plain) => listed(plain) && !terms.passed.contains(name),
        // A server could confuse this field with the field that has the folded name. So this field
        // is removed.
        Cow::Owned(folded) => {
            folded.is_empty() || listed(&folded) || is_standard(&folded) || headers.contains_key(folded.as_str())
        }
    }
}

/// Defines the list of names that browsers send in most requests, and a lookup function that
/// compiles to comparisons of lengths and bytes.
macro_rules! everyday {
    ($($name:literal)|+) => {
        #[cfg(test)]
        const EVERYDAY: &[&str] = &[$($name),+];

        /// Returns whether browsers send a field with this name in most requests.
        ///
        /// Such a field is never removed, unless it is an identity header of the application.
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

/// Returns whether a field with this lower-case name describes how a request was received. Only the
/// gateway may set such fields.
pub(crate) fn describes_origin(name: &str) -> bool {
    static NAMES: LazyLock<Names> = LazyLock::new(|| Names::new(ORIGIN_FIELDS, ORIGIN_PREFIXES));
    NAMES.contains(name)
}

/// Returns whether some applications read an identity from the field with this lower-case name.
pub(crate) fn names_identity(name: &str) -> bool {
    static NAMES: LazyLock<Names> = LazyLock::new(|| Names::new(IDENTITY_FIELDS, IDENTITY_PREFIXES));
    name != NOT_AN_IDENTITY && NAMES.contains(name)
}

/// Returns whether a field with this lower-case name controls an exchange, carries credentials, or
/// is reserved for browsers.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || STANDARD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether a name only has characters that no server replaces.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty() && matches!(folded(name), Cow::Borrowed(_))
}

/// Set of names and prefixes.
///
/// Optimised for names that are not in the set, because every field of every request is looked up,
/// and few names are in the set.
struct Names {
    /// Bit sets that exclude most names by their first two characters. There is a set for each
    /// first character, with a bit for each second character.
    ///
    /// A character is reduced to its lower five bits, so different characters may share a bit.
    beginnings: [u32; 32],
    /// Complete names, sorted.
    whole: Vec<&'static str>,
    /// Prefixes without the dash, sorted.
    ///
    /// No prefix begins with another prefix. Therefore only the last prefix that sorts before a
    /// name can match the name.
    words: Vec<&'static str>,
}

impl Names {
    fn new(whole: &[&'static str], prefixes: &[&'static str]) -> Self {
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
        // All names in the set have at least two characters.
        let Some((first, second)) = beginning(name) else { return false };
        if self.beginnings.get(first).is_none_or(|seconds| seconds & second == 0) {
            return false;
        }
        let before = self.words.partition_point(|word| *word <= name).checked_sub(1);
        before.and_then(|at| self.words.get(at)).is_some_and(|word| begins(name, word))
            || self.whole.binary_search(&name).is_ok()
    }
}

/// Returns the lower five bits of a name's first character, and the bit that represents its second
/// character.
fn beginning(name: &str) -> Option<(usize, u32)> {
    let [first, second, ..] = name.as_bytes() else { return None };
    Some((usize::from(first & 31), 1 << (second & 31)))
}

/// Returns whether a name equals a word, or begins with the word and a dash.
fn begins(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Folds a name as some servers do: replaces every character except letters and digits with a dash.
/// Also removes dashes at both ends.
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
        !is_removed(&HeaderName::from_bytes(name.as_bytes()).unwrap(), &HeaderMap::new(), &terms(&[]))
    }

    /// Returns settings of an application with the identity header `X-Staff`.
    fn terms(passed: &[HeaderName]) -> Terms<'_, fn(&str) -> bool> {
        Terms { methods_ruled: false, ours: |name| name == "x-staff", passed }
    }

    #[test]
    fn ambiguous_field_names_are_removed() {
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
        // `x_custom` folds to the name of the other field.
        let both = HeaderMap::from_iter([(HeaderName::from_static("x-custom"), HeaderValue::from_static("1"))]);
        assert!(is_removed(&HeaderName::from_static("x_custom"), &both, &terms(&[])));
        assert!(!is_removed(&HeaderName::from_static("x-custom"), &both, &terms(&[])));
    }

    #[test]
    fn common_header_names_are_on_no_list() {
        for name in EVERYDAY {
            assert!(is_plain(name) && !describes_origin(name) && !names_identity(name), "{name}");
            assert!(!METHOD_OVERRIDES.contains(name), "{name}");
            // The gateway sends identities in this field.
            let terms_with_header = Terms { methods_ruled: true, ours: |ours: &str| ours == *name, passed: &[] };
            assert!(is_removed(&HeaderName::from_static(name), &HeaderMap::new(), &terms_with_header), "{name}");
        }
    }

    #[test]
    fn standard_fields_pass_only_in_their_exact_spelling() {
        for name in STANDARD.iter().chain(&["accept-language", "content-length", "sec-fetch-mode", "traceparent"]) {
            assert!(passes(name), "{name}");
        }
    }

    #[test]
    fn a_repeated_single_field_is_refused() {
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
    fn configured_headers_pass_in_their_exact_spelling() {
        let passed = [HeaderName::from_static("x-user-token"), HeaderName::from_static("x-staff-room")];
        let is_removed =
            |name: &'static str| is_removed(&HeaderName::from_static(name), &HeaderMap::new(), &terms(&passed));
        assert!(!is_removed("x-user-token"));
        for name in ["x_user_token", "x-user_token", "x.user.token", "x-user-tokens", "x-staff", "x_staff"] {
            assert!(is_removed(name), "{name}");
        }
        assert!(!is_removed("x-staff-room") && !is_removed("x-user-agent") && !is_removed("x-users"));
    }

    #[test]
    fn the_documentation_has_the_whole_list() {
        let docs = include_str!("../../docs/reference/identity-headers.md").to_ascii_lowercase();
        for name in listed() {
            let written = if name.ends_with('-') { format!("`{name}…`") } else { format!("`{name}`") };
            assert!(docs.contains(&written), "docs/reference/identity-headers.md does not name {written}");
        }
    }

    fn listed() -> Vec<&'static str> {
        [ORIGIN_PREFIXES, ORIGIN_FIELDS, IDENTITY_PREFIXES, IDENTITY_FIELDS].concat()
    }

    proptest! {
        /// Compares the lookup with a linear search, for names that resemble the listed ones.
        #[test]
        fn the_lookup_finds_the_same_names_as_a_linear_search(
            index in 0..listed().len(), cut in 0..4_usize, tail in "(-|-?[a-z]{0,3}|s-x)",
        ) {
            let listed = listed()[index];
            let name = format!("{}{tail}", &listed[..listed.len().saturating_sub(cut)]);
            let among = |whole: &[&str], prefixes: &[&str]| {
                let starts = |prefix: &&str| name == prefix[..prefix.len() - 1] || name.starts_with(prefix);
                whole.contains(&name.as_str()) || prefixes.iter().any(starts)
            };
            prop_assert_eq!(describes_origin(&name), among(ORIGIN_FIELDS, ORIGIN_PREFIXES));
            prop_assert_eq!(names_identity(&name), name != NOT_AN_IDENTITY && among(IDENTITY_FIELDS, IDENTITY_PREFIXES));
        }

        #[test]
        fn respelled_identity_fields_of_clients_are_removed(
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
