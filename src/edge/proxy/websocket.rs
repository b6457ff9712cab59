//! Recognition of valid `WebSocket` handshakes.
//!
//! By default, an upgraded connection has a timeout of an hour instead of a minute. It also has an
//! upstream connection of its own. A mere `Upgrade` field must not suffice for that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, Method, Version, request};

/// Returns whether this head is a client's handshake according to RFC 6455 §4.1.
pub(crate) fn is_handshake(head: &request::Parts) -> bool {
    let headers = &head.headers;
    head.method == Method::GET
        && head.version == Version::HTTP_11
        && only(headers, &UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
        && names(headers, &CONNECTION, b"upgrade")
        && only(headers, &SEC_WEBSOCKET_VERSION) == Some(b"13")
        && only(headers, &SEC_WEBSOCKET_KEY).is_some_and(is_key)
}

/// Returns whether the value is 16 bytes in base64.
fn is_key(value: &[u8]) -> bool {
    STANDARD.decode(value).is_ok_and(|bytes| bytes.len() == 16)
}

/// Returns a field's value if the field is present exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    values.next().is_none().then(|| first.as_bytes().trim_ascii())
}

/// Returns whether a list field contains this member.
fn names(headers: &HeaderMap, name: &HeaderName, member: &[u8]) -> bool {
    let lines = headers.get_all(name).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(member))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const SOUND: [(&str, &str); 4] = [
        ("upgrade", "websocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn head(method: &str, version: Version, fields: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).version(version).uri("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_handshake_of_the_rfc_is_one() {
        assert!(is_handshake(&head("GET", Version::HTTP_11, &SOUND)));
        let mut shouted = SOUND;
        shouted[0].1 = "WebSocket";
        assert!(is_handshake(&head("GET", Version::HTTP_11, &shouted)));
    }

    #[test]
    fn missing_or_repeated_fields_are_no_handshake() {
        for left_out in 0..SOUND.len() {
            let fields: Vec<_> =
                SOUND.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, field)| *field).collect();
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{fields:?}");
        }
        for more in [("upgrade", "h2c"), ("sec-websocket-key", SOUND[3].1), ("sec-websocket-version", "13")] {
            let fields = [&SOUND[..], &[more]].concat();
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{more:?}");
        }
    }

    #[test]
    fn another_method_version_or_value_makes_it_none() {
        assert!(!is_handshake(&head("POST", Version::HTTP_11, &SOUND)));
        assert!(!is_handshake(&head("GET", Version::HTTP_10, &SOUND)));
        assert!(!is_handshake(&head("GET", Version::HTTP_2, &SOUND)));
        for (index, value) in [
            (0, "anything"),
            (0, "websocket, h2c"),
            (1, "keep-alive"),
            (1, "x-upgrade"),
            (2, "12"),
            (3, "dGhlIHNhbXBsZSBub25jZQ"),
            (3, "c2hvcnQ="),
            (3, ""),
        ] {
            let mut fields = SOUND;
            fields[index].1 = value;
            assert!(!is_handshake(&head("GET", Version::HTTP_11, &fields)), "{value:?}");
        }
    }
}
