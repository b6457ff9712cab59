//! Headers of a request to an upstream. Pure.
//!
//! Only the gateway sets identity headers. Cookies and tokens of Sealgate are removed. The client
//! address comes from the connection or from a trusted proxy.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};

use crate::cors::Cors;
use crate::encoding::{encode_group, encode_text};
use crate::principal::Principal;
use sealgate_config as config;
use sealgate_config::request_fields;
use sealgate_config::{Access, AuthorizationHeader, Caching, IdentityValue, Route};
use sealgate_core::web::cookie;
use sealgate_edge::origin::Origin;
use sealgate_edge::rewrite::{AnswerRewrite, Rewrite};
use sealgate_system::read_mostly::LocalRef;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Header with the signed assertion.
pub(super) const ASSERTION: HeaderName = HeaderName::from_static("x-sealgate-assertion");

/// Number of headers that [`rewrite`] sets in addition to identity headers: cookies, address, host,
/// scheme.
const OTHER_HEADERS: usize = 4;

/// Maximum length of the groups header, in bytes. Most servers accept 8 KiB for all headers
/// together.
const MAX_GROUPS_LENGTH: usize = 4096;

/// Identity headers of a request, with the settings that [`rewrite`] needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    headers: Vec<(HeaderName, HeaderValue)>,
    format: LocalRef<Arc<config::IdentityHeaders>>,
    /// Whether `Authorization` is removed, because it contains the credential that proved the
    /// identity, or an access token of Sealgate.
    strips_authorization: bool,
    /// Whether rules of the application name methods. If they do, headers that override the method
    /// are removed.
    methods_ruled: bool,
    /// Whether shared caches must not store the response.
    private: bool,
}

/// Reason why the groups of the user cannot be sent in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnwritableGroups {
    TooLong,
    /// The encoding cannot represent a group's name, or the name contains the delimiter.
    Letters,
}

impl Identity {
    pub(super) fn nobody(format: &LocalRef<Arc<config::IdentityHeaders>>) -> Self {
        Self {
            headers: Vec::new(),
            format: format.clone(),
            strips_authorization: false,
            methods_ruled: false,
            private: false,
        }
    }

    /// Creates the identity headers of an authenticated user. There is no header for an attribute
    /// that the user lacks.
    ///
    /// # Errors
    /// [`UnwritableGroups`] if the groups cannot be sent exactly. If a group were missing or
    /// misread, the application would grant the wrong rights.
    pub(super) fn for_principal(
        who: Principal<'_>,
        format: &LocalRef<Arc<config::IdentityHeaders>>,
    ) -> Result<Self, UnwritableGroups> {
        let headers =
            identity_headers(who, format)?.into_iter().filter_map(|header| Some((header.name, header.value?)));
        // Capacity for the headers that an assertion and `rewrite` add.
        let mut all = Vec::with_capacity(format.headers.len() + OTHER_HEADERS + 2);
        all.extend(headers);
        Ok(Self { headers: all, ..Self::nobody(format) })
    }

    /// Records that the credential in `Authorization` proved the identity.
    #[must_use]
    pub(super) fn by_token(self) -> Self {
        Self { strips_authorization: true, ..self }
    }

    /// Adds the properties of the request and its rule.
    ///
    /// `methods_ruled` is true if rules of the application name methods.
    ///
    /// `holds_token` is true if `Authorization` contains a token or password of Sealgate. The
    /// header is then removed, even on public paths: there the gateway does not verify the
    /// credential, but the application could use it to access other applications.
    ///
    /// The response is private unless the rule is public for all networks, or allows shared
    /// caching.
    #[must_use]
    pub(super) fn for_request(self, methods_ruled: bool, holds_token: bool, rule: &Route, is_by_network: bool) -> Self {
        let private = (rule.access != Access::Public || is_by_network) && rule.caching == Caching::Private;
        Self { methods_ruled, strips_authorization: self.strips_authorization || holds_token, private, ..self }
    }

    /// Adds a signed assertion.
    #[must_use]
    pub(super) fn with_assertion(mut self, assertion: &str) -> Self {
        // A compact JWT has only base64url characters and dots, which are valid in every header
        // value.
        if let Ok(value) = HeaderValue::from_str(assertion) {
            self.headers.push((ASSERTION, value));
        }
        if self.format.authorization == AuthorizationHeader::Replace
            && let Ok(value) = HeaderValue::try_from(format!("Bearer {assertion}"))
        {
            self.headers.push((AUTHORIZATION, value));
        }
        self
    }
}

pub(super) struct IdentityHeaderSet {
    pub(super) name: HeaderName,
    /// Attribute that the value comes from. Differs from the configured attribute only if the
    /// configuration names the username and the user has no username.
    pub(super) from: IdentityValue,
    /// `None` if the user lacks the attribute.
    pub(super) value: Option<HeaderValue>,
}

/// Returns the identity headers of a user, in the order of the configuration.
pub(super) fn identity_headers(
    who: Principal<'_>,
    format: &config::IdentityHeaders,
) -> Result<Vec<IdentityHeaderSet>, UnwritableGroups> {
    let one = |(name, wanted): &(HeaderName, IdentityValue)| {
        let (from, value) = value_of(who, *wanted, format)?;
        // The conversion cannot fail: no encoding produces control characters, and all other bytes
        // are valid in header values.
        let value = HeaderValue::from_bytes(&value).ok().filter(|value| !value.is_empty());
        Ok(IdentityHeaderSet { name: name.clone(), from, value })
    };
    format.headers.iter().map(one).collect()
}

/// Returns the value of an identity header, and the attribute that it comes from.
///
/// An address that the user's source, or the user after a user manager chose it, has not verified counts as
/// missing.
///
/// The value is empty if the user lacks the attribute, or if the encoding cannot represent the
/// username or the e-mail address.
fn value_of(
    who: Principal<'_>,
    wanted: IdentityValue,
    format: &config::IdentityHeaders,
) -> Result<(IdentityValue, Vec<u8>), UnwritableGroups> {
    // Applications identify users by it.
    let address = || who.identifying_email().and_then(|email| encode_text(email, format.names, None));
    let value = match wanted {
        IdentityValue::Sub => who.name().into_bytes(),
        IdentityValue::Email => address().unwrap_or_default(),
        // The fallbacks cannot be confused with usernames: e-mail addresses contain `@`, and names
        // of users of other issuers contain a colon.
        IdentityValue::Username => {
            let username = who.username().and_then(|username| encode_text(username, format.names, None));
            return Ok(match (username, address()) {
                (Some(username), _) => (IdentityValue::Username, username),
                (None, Some(address)) => (IdentityValue::Email, address),
                (None, None) => (IdentityValue::Sub, encode_text(&who.name(), format.names, None).unwrap_or_default()),
            });
        }
        IdentityValue::Name => encode_text(who.full_name(), format.names, Some(b'?')).unwrap_or_default(),
        IdentityValue::Groups => groups_of(who, format)?,
    };
    Ok((wanted, value))
}

fn groups_of(who: Principal<'_>, format: &config::IdentityHeaders) -> Result<Vec<u8>, UnwritableGroups> {
    let delimiter = format.groups_delimiter.as_char();
    let groups: Option<Vec<Vec<u8>>> = who.groups().map(|group| encode_group(group, format.names, delimiter)).collect();
    let groups = groups.ok_or(UnwritableGroups::Letters)?.join([delimiter as u8].as_slice());
    if groups.len() > MAX_GROUPS_LENGTH { Err(UnwritableGroups::TooLong) } else { Ok(groups) }
}

/// Returns the changes to a request and to its response.
pub(super) fn rewrite(
    head: &Parts,
    origin: &Origin,
    path_and_query: PathAndQuery,
    identity: Identity,
    cors: &Cors,
) -> Rewrite {
    let headers = &head.headers;
    let format = &**identity.format;
    // All names are in lower case.
    let ours = |name: &str| {
        let is_name = |own: &HeaderName| own.as_str() == name;
        format.headers.iter().any(|(own, _)| is_name(own))
            || format.app_password_header.as_ref().is_some_and(is_name)
            || format.fixed.iter().any(is_name)
    };
    let terms = request_fields::Terms { methods_ruled: identity.methods_ruled, ours, passed: &format.pass };
    let is_removed = |name: &&HeaderName| request_fields::is_removed(name, headers, &terms);
    let mut remove: Vec<HeaderName> = headers.keys().filter(is_removed).cloned().collect();
    let mut set = identity.headers;
    set.reserve(OTHER_HEADERS);
    if identity.strips_authorization || format.authorization != AuthorizationHeader::Pass {
        remove.push(AUTHORIZATION);
    }
    match cookies(headers) {
        Cookies::Theirs => {}
        Cookies::Mixed(theirs) => set.push((COOKIE, theirs)),
        Cookies::Ours => remove.push(COOKIE),
    }
    if let Ok(address) = HeaderValue::try_from(origin.address_text()) {
        set.push((FORWARDED_FOR, address));
    }
    if let Some(host) = headers.get(HOST) {
        set.push((FORWARDED_HOST, host.clone()));
    }
    set.push((FORWARDED_PROTO, HeaderValue::from_static(if origin.secure { "https" } else { "http" })));
    let answer = AnswerRewrite { private: identity.private, ..cors.rewrite() };
    Rewrite { remove, set, path_and_query, prefix: None, answer }
}

enum Cookies {
    /// There is no cookie of Sealgate. The header is forwarded byte for byte.
    Theirs,
    /// There are cookies of the application and of Sealgate. The value contains only the
    /// application's cookies.
    Mixed(HeaderValue),
    /// There are only cookies of Sealgate.
    Ours,
}

fn cookies(headers: &HeaderMap) -> Cookies {
    let mut fields = headers.get_all(COOKIE).iter();
    let (first, second) = (fields.next(), fields.next());
    let Some(first) = first else { return Cookies::Theirs };
    match cookie::without_ours(headers) {
        // If the number of pairs is the same, no cookie was removed. The values differ only in
        // blanks between pairs, so the original is kept.
        Some(theirs) if second.is_none() && pairs(&theirs) == pairs(first) => Cookies::Theirs,
        Some(theirs) => Cookies::Mixed(theirs),
        None if second.is_none() && first.as_bytes().iter().all(|byte| matches!(byte, b' ' | b'\t' | b';')) => {
            Cookies::Theirs
        }
        None => Cookies::Ours,
    }
}

fn pairs(field: &HeaderValue) -> usize {
    field.as_bytes().split(|byte| *byte == b';').filter(|pair| !cookie::trimmed(pair).is_empty()).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::Request;

    use super::*;
    use sealgate_config::{GroupsDelimiter, Names};
    use sealgate_domain::time::UnixTime;
    use sealgate_domain::user::{Email, ManagerDecisions, Subject, User, UserState};

    fn user(name: &str, email: &str, groups: &[&str]) -> User {
        User {
            sub: Subject::from_random([1; 16]),
            email: Some(Email::parse(email).unwrap()),
            username: None,
            email_verified: true,
            name: name.to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            password: None,
            source: None,
            state: UserState::Enabled,
            created_at: UnixTime::from_seconds(0),
            updated_at: UnixTime::from_seconds(0),
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    fn origin() -> Origin {
        Origin { address: "192.0.2.7".parse().unwrap(), secure: true, request_id: "r1".into(), ..Origin::unknown() }
    }

    /// Returns the request headers that the application receives.
    fn arrive(fields: &[(&str, &[u8])], identity: &Identity) -> HeaderMap {
        let mut request = Request::builder().uri("/a?b=c").header("host", "wiki.test");
        for (name, value) in fields {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let head = request.body(()).unwrap().into_parts().0;
        let target = head.uri.path_and_query().unwrap().clone();
        let rewrite = rewrite(&head, &origin(), target, identity.clone(), &Cors::default());
        assert_eq!(rewrite.path_and_query.as_str(), "/a?b=c");
        let mut headers = head.headers;
        for name in &rewrite.remove {
            headers.remove(name);
        }
        for (name, value) in rewrite.set {
            headers.insert(name, value);
        }
        headers
    }

    fn of(user: &User) -> Result<Identity, UnwritableGroups> {
        Identity::for_principal(Principal::Local(user), &LocalRef::from(Arc::default()))
    }

    /// Returns the headers that the application receives for this user with another encoding.
    fn in_encoding(names: Names, delimiter: GroupsDelimiter, user: &User) -> Result<HeaderMap, UnwritableGroups> {
        let format =
            config::IdentityHeaders { names, groups_delimiter: delimiter, ..config::IdentityHeaders::default() };
        Ok(arrive(&[], &Identity::for_principal(Principal::Local(user), &LocalRef::from(Arc::new(format)))?))
    }

    fn anna() -> Identity {
        of(&user("Ayşe Yılmaz", "ayse@example.test", &["staff", "yazı,işleri"])).unwrap()
    }

    #[test]
    fn identity_is_written_in_ascii_and_can_be_read_back() {
        let headers = arrive(&[], &anna());
        assert_eq!(headers["x-forwarded-user"], Subject::from_random([1; 16]).to_string());
        assert_eq!(headers["x-forwarded-email"], "ayse@example.test");
        assert_eq!(headers["x-forwarded-name"], "Ay%C5%9Fe Y%C4%B1lmaz");
        assert_eq!(headers["x-forwarded-groups"], "staff,yaz%C4%B1%2Ci%C5%9Fleri");
        let plain = of(&user("Ada Lovelace", "100%@example.test", &[])).unwrap();
        let headers = arrive(&[], &plain);
        assert_eq!(headers["x-forwarded-name"], "Ada Lovelace");
        assert_eq!(headers["x-forwarded-email"], "100%25@example.test");
        assert!(!headers.contains_key("x-forwarded-groups"));
    }

    #[test]
    fn names_are_written_in_the_encoding_that_the_application_reads() {
        let ayse = user("Ayşe ĞÜİŞÖÇ ığ", "ayşe@example.test", &["yazı", "staff"]);
        let utf8 = in_encoding(Names::Utf8, GroupsDelimiter::Bar, &ayse).unwrap();
        assert_eq!(utf8["x-forwarded-name"].as_bytes(), "Ayşe ĞÜİŞÖÇ ığ".as_bytes());
        assert_eq!(utf8["x-forwarded-groups"].as_bytes(), "staff|yazı".as_bytes());
        let latin_5 = in_encoding(Names::Iso8859_9, GroupsDelimiter::Semicolon, &ayse).unwrap();
        assert_eq!(latin_5["x-forwarded-name"].as_bytes(), b"Ay\xFEe \xD0\xDC\xDD\xDE\xD6\xC7 \xFD\xF0");
        assert_eq!(latin_5["x-forwarded-groups"].as_bytes(), b"staff;yaz\xFD");
        assert_eq!(latin_5["x-forwarded-email"].as_bytes(), b"ay\xFEe@example.test");
        let base64url = in_encoding(Names::Base64url, GroupsDelimiter::Space, &ayse).unwrap();
        assert_eq!(base64url["x-forwarded-groups"], "c3RhZmY eWF6xLE");
        assert_eq!(base64url["x-forwarded-email"], "YXnFn2VAZXhhbXBsZS50ZXN0");
    }

    #[test]
    fn unencodable_letters_never_change_a_group_or_address() {
        let of = |names, name: &str, email: &str, groups: &[&str]| {
            in_encoding(names, GroupsDelimiter::Comma, &user(name, email, groups))
        };
        let named = of(Names::Iso8859_9, "Ольга\u{7}þ", "ольга@example.test", &[]).unwrap();
        assert_eq!(named["x-forwarded-name"], "????? ?");
        assert!(!named.contains_key("x-forwarded-email"));
        for (names, group) in [
            (Names::Iso8859_9, "Ольга"),
            (Names::Iso8859_9, "þ"),
            (Names::Iso8859_9, "a,b"),
            (Names::Utf8, "a,b"),
            (Names::Utf8, " a"),
            (Names::Utf8, "a\nb"),
        ] {
            assert_eq!(of(names, "", "a@b.test", &[group]), Err(UnwritableGroups::Letters), "{names:?} {group:?}");
        }
        let blanks = of(Names::AsciiPercent, "", "a@b.test", &[" staff"]).unwrap();
        assert_eq!(blanks["x-forwarded-groups"], "%20staff");
    }

    #[test]
    fn method_overrides_are_removed_if_rules_name_methods() {
        let fields: [(&str, &[u8]); 2] = [("x_http_method-override", b"DELETE"), ("x-http-method", b"DELETE")];
        assert_eq!(arrive(&fields, &anna())["x-http-method"], "DELETE");
        let headers = arrive(&fields, &anna().for_request(true, false, &Route::plain("/", Access::SignedIn), false));
        assert!(headers.values().all(|value| value != "DELETE"), "{headers:?}");
    }

    #[test]
    fn authorization_is_passed_removed_or_replaced() {
        let basic: [(&str, &[u8]); 1] = [("authorization", b"Basic dTpw")];
        let format = |authorization| {
            LocalRef::from(Arc::new(config::IdentityHeaders { authorization, ..config::IdentityHeaders::default() }))
        };
        let anna = user("Anna", "anna@example.test", &[]);
        let stripped = Identity::for_principal(Principal::Local(&anna), &format(AuthorizationHeader::Strip)).unwrap();
        assert!(!arrive(&basic, &stripped).contains_key("authorization"));
        let replaced = Identity::for_principal(Principal::Local(&anna), &format(AuthorizationHeader::Replace))
            .unwrap()
            .with_assertion("a.b.c");
        let headers = arrive(&basic, &replaced);
        assert_eq!(
            (&headers["authorization"], &headers["x-sealgate-assertion"]),
            (&HeaderValue::from_static("Bearer a.b.c"), &HeaderValue::from_static("a.b.c"))
        );
        // The application expects only the gateway's `Authorization`, so it must not receive the
        // client's `Authorization`.
        let nobody = Identity::nobody(&format(AuthorizationHeader::Replace));
        assert!(!arrive(&basic, &nobody).contains_key("authorization"));
    }

    #[test]
    fn a_name_cannot_start_another_header() {
        let identity = of(&user("a\r\nX-Forwarded-User: root\u{85}.", "a@b.test", &["x\ny"])).unwrap();
        let headers = arrive(&[], &identity);
        assert_eq!(headers["x-forwarded-name"], "a%0D%0AX-Forwarded-User: root%C2%85.");
        assert_eq!(headers["x-forwarded-groups"], "x%0Ay");
    }

    #[test]
    fn more_groups_than_fit_are_an_error() {
        let names: Vec<String> = (0..600).map(|number| format!("group-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(of(&user("", "a@b.test", &names)), Err(UnwritableGroups::TooLong));
    }

    #[test]
    fn forged_headers_are_removed_in_every_spelling() {
        let spellings = [
            "x-forwarded-user",
            "X_Forwarded_User",
            "x_forwarded-user",
            "x.forwarded.user",
            "X-FORWARDED_EMAIL",
            "x-forwarded-name",
            "x_forwarded_groups",
            "X-Forwarded-Preferred_Username",
            "x-forwarded-access-token",
            "x_sealgate_assertion",
            "x-sealgate-",
            "x-forwarded",
            "http_client_ip",
            "Ssl_Client_Cert",
            "front-end-https",
            "x_url_scheme",
            "true-client-ip",
            "x-cluster-client-ip",
            "x-forwarded-scheme",
            "x-forwarded-ssl",
            "X.Sealgate.Anything",
            "forwarded",
            "x_real_ip",
            "x-forwarded-port",
            "x_forwarded_for",
            "x_request_id",
        ];
        let fields: Vec<(&str, &[u8])> = spellings.iter().map(|name| (*name, b"forged".as_slice())).collect();
        let headers = arrive(&fields, &Identity::nobody(&LocalRef::from(Arc::default())));
        assert!(headers.values().all(|value| value != "forged"), "{headers:?}");
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 4, "{names:?}");
    }

    #[test]
    fn forwarding_headers_are_set_once() {
        let twice: [(&str, &[u8]); 2] = [("x-forwarded-for", b"1.1.1.1"), ("x-forwarded-for", b"2.2.2.2")];
        let headers = arrive(&twice, &anna());
        for (name, value) in
            [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-host", "wiki.test"), ("x-forwarded-proto", "https")]
        {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
    }

    #[test]
    fn other_headers_stay() {
        let fields: [(&str, &[u8]); 4] =
            [("x-user-agent", b"a"), ("x_custom", b"b"), ("x-users", b"c"), ("accept", b"d")];
        let headers = arrive(&fields, &anna());
        for (name, value) in fields {
            assert_eq!(headers[name].as_bytes(), value);
        }
    }

    #[test]
    fn only_a_token_of_sealgate_is_removed() {
        let basic: [(&str, &[u8]); 1] = [("authorization", b"Basic dTpw")];
        assert_eq!(arrive(&basic, &anna())["authorization"], "Basic dTpw");
        assert!(!arrive(&[("authorization", b"Bearer x")], &anna().by_token()).contains_key("authorization"));
    }

    #[test]
    fn application_cookies_are_forwarded_byte_for_byte() {
        for (sent, arrives) in [
            (b"a=1;b=\"x y\" ;  c=\xc3\xa7".as_slice(), Some(b"a=1;b=\"x y\" ;  c=\xc3\xa7".as_slice())),
            (b"a=1; __Host-sealgate=x; b=2", Some(b"a=1; b=2")),
            (b"sealgate=x; __Host-sealgate-browser=y", None),
            (b"__Host-sealgate-rounds=1-1; a=b=c", Some(b"a=b=c")),
            (b"__Host-sealgate-last=s.L2E; a=b=c", Some(b"a=b=c")),
            (b"mysealgate=1", Some(b"mysealgate=1")),
            (b"; ;", Some(b"; ;")),
        ] {
            let headers = arrive(&[("cookie", sent)], &anna());
            assert_eq!(headers.get("cookie").map(HeaderValue::as_bytes), arrives, "{sent:?}");
        }
    }
}
