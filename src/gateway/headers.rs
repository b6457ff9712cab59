//! What an application sees of a request: identity headers that only we can have written, no cookie and no token of
//! ours, and the client's address as far as we know it. Pure.
//!
//! Applications read `X_Forwarded_User` where CGI does, and some servers fold every character that is no letter into an
//! underscore. So a client's header goes when its name equals one of ours with all such characters taken as equal.

use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};

use crate::cookie;
use crate::origin::Origin;
use crate::protocol::user::User;

const USER: HeaderName = HeaderName::from_static("x-forwarded-user");
const EMAIL: HeaderName = HeaderName::from_static("x-forwarded-email");
const NAME: HeaderName = HeaderName::from_static("x-forwarded-name");
const GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names that say who somebody is or where they come from. An application that believes one of them believes it from us.
const OURS: [&str; 14] = [
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-name",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-access-token",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-server",
    "forwarded",
    "x-real-ip",
    "x-request-id",
];

/// Names by which some applications let a client say which path it means, after the rules were applied to another one.
/// And `Proxy`, which CGI turns into the setting of the same name. Nobody has them to say; they only go.
const NOBODYS: [&str; 8] = [
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-forwarded-uri",
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-script-name",
    "proxy",
];

/// All names that begin so are ours too.
const OUR_PREFIX: &str = "x-sealgate-";

/// The longest list of groups that is sent, bytes: most servers take 8 KiB for all headers together.
const LONGEST_GROUPS: usize = 4096;

/// How a request is changed on its way to the application.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// Headers to remove, first.
    pub remove: Vec<HeaderName>,
    /// Headers to set then, each in place of all of its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// The target that was judged, byte for byte.
    pub path_and_query: PathAndQuery,
}

/// The headers that tell an application who somebody is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity(Vec<(HeaderName, HeaderValue)>);

/// A person is in more groups than fit into a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyGroups;

impl Identity {
    /// Of this person. What they do not have (a name, groups) has no header.
    ///
    /// # Errors
    /// [`TooManyGroups`]: leaving some out would quietly change what the person may do.
    pub(super) fn of(user: &User) -> Result<Self, TooManyGroups> {
        let groups = user.groups.iter().map(|group| encode(group, b",%")).collect::<Vec<_>>().join(",");
        if groups.len() > LONGEST_GROUPS {
            return Err(TooManyGroups);
        }
        let values = [
            (USER, user.sub.to_string()),
            (EMAIL, encode(user.email.as_str(), b"%")),
            (NAME, encode(user.name.trim(), b"%")),
            (GROUPS, groups),
        ];
        let written = values.into_iter().filter(|(_, value)| !value.is_empty()).filter_map(|(name, value)| {
            // `encode` leaves visible ASCII and spaces, which every header may have.
            HeaderValue::try_from(value).ok().map(|value| (name, value))
        });
        Ok(Self(written.collect()))
    }
}

/// Percent-encodes (RFC 3986 §2.1, UTF-8) all but visible ASCII and the space, and the given characters too: headers have
/// no encoding of their own, and half of the servers would read `ş` as two other letters. The percent sign is always
/// among them, so that two names never become one.
fn encode(text: &str, special: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (byte.is_ascii_graphic() || byte == b' ') && !special.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(percent_encoding::percent_encode_byte(byte));
        }
    }
    encoded
}

/// The changes to a request. `identity` is empty when nobody is known; `spent` says that the bearer token was ours and
/// has done its work.
pub(super) fn rewrite(
    head: &Parts,
    origin: &Origin,
    path_and_query: &PathAndQuery,
    identity: &Identity,
    spent: bool,
) -> Rewrite {
    let headers = &head.headers;
    let mut remove: Vec<HeaderName> = headers.keys().filter(|name| is_ours(name.as_str())).cloned().collect();
    let mut set = identity.0.clone();
    if spent {
        remove.push(AUTHORIZATION);
    }
    match cookies(headers) {
        Cookies::Theirs => {}
        Cookies::Mixed(theirs) => set.push((COOKIE, theirs)),
        Cookies::Ours => remove.push(COOKIE),
    }
    if let Ok(address) = HeaderValue::try_from(origin.address.to_string()) {
        set.push((FOR, address));
    }
    if let Some(host) = headers.get(HOST) {
        set.push((FORWARDED_HOST, host.clone()));
    }
    set.push((PROTO, HeaderValue::from_static(if origin.secure { "https" } else { "http" })));
    if let Ok(id) = HeaderValue::try_from(origin.request_id.as_str()) {
        set.push((REQUEST_ID, id));
    }
    Rewrite { remove, set, path_and_query: path_and_query.clone() }
}

/// Whether a header of the client might be taken for one of ours.
fn is_ours(name: &str) -> bool {
    let starts = name.split_at_checked(OUR_PREFIX.len()).is_some_and(|(start, _)| folds_to(start, OUR_PREFIX));
    starts || OURS.iter().chain(&NOBODYS).any(|ours| folds_to(name, ours))
}

fn folds_to(name: &str, ours: &str) -> bool {
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() == ours.len() && name.bytes().zip(ours.bytes()).all(|(one, other)| fold(one) == other)
}

enum Cookies {
    /// None of ours among them: they stay byte for byte.
    Theirs,
    /// What is left without ours.
    Mixed(HeaderValue),
    /// None but ours.
    Ours,
}

fn cookies(headers: &HeaderMap) -> Cookies {
    let mut fields = headers.get_all(COOKIE).iter();
    let (first, second) = (fields.next(), fields.next());
    let Some(first) = first else { return Cookies::Theirs };
    match cookie::without_ours(headers) {
        // The same bytes but for blanks between the pairs: then nothing was taken out.
        Some(theirs) if second.is_none() && pairs(&theirs) == pairs(first) => Cookies::Theirs,
        Some(theirs) => Cookies::Mixed(theirs),
        None if second.is_none() && first.as_bytes().iter().all(|byte| matches!(byte, b' ' | b'\t' | b';')) => {
            Cookies::Theirs
        }
        None => Cookies::Ours,
    }
}

fn pairs(field: &HeaderValue) -> usize {
    field.as_bytes().split(|byte| *byte == b';').filter(|pair| !pair.trim_ascii().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::Request;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::time::UnixTime;
    use crate::protocol::user::{Email, Subject, UserState};

    fn user(name: &str, email: &str, groups: &[&str]) -> User {
        User {
            sub: Subject::from_random([1; 16]),
            email: Email::parse(email).unwrap(),
            email_verified: true,
            name: name.to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            password: None,
            state: UserState::Enabled,
            created_at: UnixTime::from_seconds(0),
            updated_at: UnixTime::from_seconds(0),
        }
    }

    fn origin() -> Origin {
        Origin { address: "192.0.2.7".parse().unwrap(), secure: true, request_id: "r1".into() }
    }

    /// The headers that arrive after the edge has applied the changes.
    fn arrive(fields: &[(&str, &[u8])], identity: &Identity, spent: bool) -> HeaderMap {
        let mut request = Request::builder().uri("/a?b=c").header("host", "wiki.test");
        for (name, value) in fields {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let head = request.body(()).unwrap().into_parts().0;
        let target = head.uri.path_and_query().unwrap().clone();
        let rewrite = rewrite(&head, &origin(), &target, identity, spent);
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

    fn anna() -> Identity {
        Identity::of(&user("Ayşe Yılmaz", "ayse@example.test", &["staff", "yazı,işleri"])).unwrap()
    }

    #[test]
    fn identity_is_written_in_ascii_and_can_be_read_back() {
        let headers = arrive(&[], &anna(), false);
        assert_eq!(headers["x-forwarded-user"], Subject::from_random([1; 16]).to_string());
        assert_eq!(headers["x-forwarded-email"], "ayse@example.test");
        assert_eq!(headers["x-forwarded-name"], "Ay%C5%9Fe Y%C4%B1lmaz");
        assert_eq!(headers["x-forwarded-groups"], "staff,yaz%C4%B1%2Ci%C5%9Fleri");
        let plain = Identity::of(&user("Ada Lovelace", "100%@example.test", &[])).unwrap();
        let headers = arrive(&[], &plain, false);
        assert_eq!(headers["x-forwarded-name"], "Ada Lovelace");
        assert_eq!(headers["x-forwarded-email"], "100%25@example.test");
        assert!(!headers.contains_key("x-forwarded-groups"));
    }

    #[test]
    fn a_name_cannot_start_another_header() {
        let identity = Identity::of(&user("a\r\nX-Forwarded-User: root\u{85}.", "a@b.test", &["x\ny"])).unwrap();
        let headers = arrive(&[], &identity, false);
        assert_eq!(headers["x-forwarded-name"], "a%0D%0AX-Forwarded-User: root%C2%85.");
        assert_eq!(headers["x-forwarded-groups"], "x%0Ay");
    }

    #[test]
    fn more_groups_than_fit_are_an_error() {
        let names: Vec<String> = (0..600).map(|number| format!("group-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(Identity::of(&user("", "a@b.test", &names)), Err(TooManyGroups));
    }

    #[test]
    fn forged_headers_go_in_every_spelling() {
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
            "X.Sealgate.Anything",
            "forwarded",
            "x_real_ip",
            "x-forwarded-port",
            "x_forwarded_for",
            "x_request_id",
        ];
        let fields: Vec<(&str, &[u8])> = spellings.iter().map(|name| (*name, b"forged".as_slice())).collect();
        let headers = arrive(&fields, &Identity::default(), false);
        assert!(headers.values().all(|value| value != "forged"), "{headers:?}");
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 5, "{names:?}");
    }

    #[test]
    fn the_headers_of_the_way_are_set_once() {
        let twice: [(&str, &[u8]); 2] = [("x-forwarded-for", b"1.1.1.1"), ("x-forwarded-for", b"2.2.2.2")];
        let headers = arrive(&twice, &anna(), false);
        for (name, value) in [
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-host", "wiki.test"),
            ("x-forwarded-proto", "https"),
            ("x-request-id", "r1"),
        ] {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
    }

    #[test]
    fn other_headers_stay() {
        let fields: [(&str, &[u8]); 4] =
            [("x-forwarded-user-agent", b"a"), ("x-forwarded", b"b"), ("x-users", b"c"), ("accept", b"d")];
        let headers = arrive(&fields, &anna(), false);
        for (name, value) in fields {
            assert_eq!(headers[name].as_bytes(), value);
        }
    }

    #[test]
    fn only_a_token_that_we_took_goes() {
        let basic: [(&str, &[u8]); 1] = [("authorization", b"Basic dTpw")];
        assert_eq!(arrive(&basic, &anna(), false)["authorization"], "Basic dTpw");
        assert!(!arrive(&[("authorization", b"Bearer x")], &anna(), true).contains_key("authorization"));
    }

    #[test]
    fn our_cookies_go_and_theirs_stay_byte_for_byte() {
        for (sent, arrives) in [
            (b"a=1;b=\"x y\" ;  c=\xc3\xa7".as_slice(), Some(b"a=1;b=\"x y\" ;  c=\xc3\xa7".as_slice())),
            (b"a=1; __Host-sealgate=x; b=2", Some(b"a=1; b=2")),
            (b"sealgate=x; __Host-sealgate-browser=y", None),
            (b"__Host-sealgate-rounds=1-1; a=b=c", Some(b"a=b=c")),
            (b"mysealgate=1", Some(b"mysealgate=1")),
            (b"; ;", Some(b"; ;")),
        ] {
            let headers = arrive(&[("cookie", sent)], &anna(), false);
            assert_eq!(headers.get("cookie").map(HeaderValue::as_bytes), arrives, "{sent:?}");
        }
    }

    proptest! {
        #[test]
        fn no_client_can_name_a_header_of_ours(index in 0..OURS.len(), marks in proptest::collection::vec(0..5_usize, 40)) {
            let spelled: String = OURS[index]
                .chars()
                .zip(marks.iter().cycle())
                .map(|(char, mark)| match (char, mark) {
                    ('-', mark) => ['-', '_', '.', '!', '~'][*mark],
                    (char, 0 | 1) => char.to_ascii_uppercase(),
                    (char, _) => char,
                })
                .collect();
            prop_assert!(is_ours(&spelled), "{}", spelled);
        }

        #[test]
        fn every_name_reads_back(text in "\\PC{0,40}") {
            let encoded = encode(&text, b",%");
            prop_assert!(encoded.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b','));
            let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
            prop_assert_eq!(decoded, text);
        }
    }
}
