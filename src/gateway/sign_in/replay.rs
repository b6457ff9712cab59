//! Storage of a submitted form until its user has signed in, and the fields that make a browser
//! submit the form again.
//!
//! The fields are written into a page. The browser parses the page, and serializes the fields again
//! (URL Standard §5, HTML Standard §4.10.22). This changes some bodies. A body that would change is
//! not stored, because the application must not receive data that the user did not type.

use std::time::Duration;

use url::form_urlencoded::byte_serialize;

use crate::request::{AppRequest, own_path};
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_store::{Form, StoreError};

/// Maximum number of fields of a form. Forms of legacy applications have dozens.
const MAX_FIELDS: usize = 1000;

/// Characters of windows-1252 for the bytes 0x80 to 0x9F (Encoding Standard §9).
///
/// A body that is not UTF-8 is written as windows-1252, which has a character for every byte. The
/// application may read the bytes in another encoding.
const HIGH_CONTROLS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}',
    '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}',
    '\u{17e}', '\u{178}',
];

/// Form that a page submits again.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Encoding in which the browser must serialize the fields.
    pub charset: &'static str,
    /// Names and values, in the order of the body.
    pub fields: Vec<(String, String)>,
}

impl Replay {
    /// Parses a body. `None` if a browser would not submit exactly the same bytes again.
    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        if body.is_empty() {
            return Some(Self { charset: "utf-8", fields: Vec::new() });
        }
        let mut pairs = Vec::new();
        for pair in body.split(|&byte| byte == b'&') {
            let at = pair.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (decoded(&pair[..at])?, decoded(&pair[at + 1..])?);
            pairs.push((name, value));
        }
        let names_itself = |name: &[u8]| name.eq_ignore_ascii_case(b"_charset_");
        // Browsers replace the value of `_charset_` with the name of the encoding, and omit fields
        // without a name.
        let unfit = |(name, value): &(Vec<u8>, Vec<u8>)| {
            name.is_empty() || names_itself(name) || !is_preserved(name) || !is_preserved(value)
        };
        if pairs.len() > MAX_FIELDS || pairs.iter().any(unfit) || encode_form(&pairs) != body {
            return None;
        }
        let utf8 = pairs.iter().all(|(name, value)| str::from_utf8(name).is_ok() && str::from_utf8(value).is_ok());
        let text: fn(&[u8]) -> String =
            if utf8 { |bytes| String::from_utf8_lossy(bytes).into_owned() } else { windows_1252 };
        let fields = pairs.iter().map(|(name, value)| (text(name), text(value))).collect();
        Some(Self { charset: if utf8 { "utf-8" } else { "windows-1252" }, fields })
    }
}

/// Returns whether HTML parsing preserves the text. Parsing replaces NUL, and changes a single CR
/// or LF to CRLF.
fn is_preserved(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        let Some(after) = rest[at..].strip_prefix(b"\r\n") else { return false };
        rest = after;
    }
    true
}

/// Decodes a name or a value. `None` if a percent sign is not followed by two hexadecimal digits.
fn decoded(part: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                rest = after;
                u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(bytes)
}

/// Returns the body that a browser would submit.
fn encode_form(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut body = String::new();
    for (name, value) in pairs {
        if !body.is_empty() {
            body.push('&');
        }
        body.extend(byte_serialize(name));
        body.push('=');
        body.extend(byte_serialize(value));
    }
    body.into_bytes()
}

fn windows_1252(bytes: &[u8]) -> String {
    let character = |&byte: &u8| match byte {
        0x80..=0x9f => HIGH_CONTROLS.get(usize::from(byte & 0x1f)).copied().unwrap_or(char::REPLACEMENT_CHARACTER),
        byte => char::from(byte),
    };
    bytes.iter().map(character).collect()
}

/// Lifetime of a stored form.
const LIFETIME: Duration = Duration::from_mins(15);

/// Stores a form for this browser. Returns its id, or `None` if the store has no room.
pub(crate) async fn keep(ctx: &AppRequest<'_>, browser: &str, form: &Form) -> Result<Option<Secret>, StoreError> {
    let id = Secret::from_random(&ctx.random::<32>());
    let store = &ctx.sealgate.store;
    let browser = SecretHash::for_secret(browser.as_bytes());
    let kept = store.keep_form(&browser, &id.hash(), form, ctx.now.plus(LIFETIME), ctx.random()).await;
    let kept = match kept {
        Err(StoreError::TooManyForms) => false,
        kept => kept?,
    };
    let (request_id, app) = (&ctx.origin.request_id, &ctx.app.name);
    if !kept {
        tracing::debug!(request_id, app, "too many saved forms; dropped a form");
        return Ok(None);
    }
    tracing::info!(request_id, app, "saved a form until its user signs in again");
    Ok(Some(id))
}

/// Returns the path and query of the page that shows a stored form.
pub(crate) fn address(id: &str) -> String {
    own_path("form", &[("id", id)])
}

/// Returns whether a text is the [`address`] of a stored form.
pub(crate) fn is_address(text: &str) -> bool {
    let id = text.strip_prefix(&address("")).unwrap_or_default();
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(body: &str) -> Option<(&'static str, Vec<(String, String)>)> {
        Replay::from_body(body.as_bytes()).map(|replay| (replay.charset, replay.fields))
    }

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_browsers_form_is_read_field_by_field() {
        assert_eq!(
            fields("title=A+%26+B&note=bir%0D%0Aiki&x=&title=%C5%9F"),
            Some(("utf-8", pairs(&[("title", "A & B"), ("note", "bir\r\niki"), ("x", ""), ("title", "ş")])))
        );
        assert_eq!(fields(""), Some(("utf-8", vec![])));
    }

    #[test]
    fn a_form_in_a_turkish_codepage_keeps_its_bytes() {
        // The bytes of ş and ı in ISO-8859-9 are þ and ý in windows-1252. The browser submits the
        // same bytes.
        assert_eq!(fields("ad=%FEirin+%FD%80"), Some(("windows-1252", pairs(&[("ad", "þirin ý€")]))));
    }

    #[test]
    fn bodies_that_browsers_encode_differently_are_refused() {
        for body in [
            "a",
            "a=1&",
            "&a=1",
            "a=1&b",
            "a=%41",
            "a=%c5%9f",
            "a= ",
            "a=%20",
            "a=\"",
            "a=%0A",
            "a=%0D",
            "a=%0D%0D%0A",
            "a=%00",
            "a=%",
            "a=%4",
            "a=%zz",
            "a=%+1",
            "=1",
            "_charset_=UTF-8",
            "_CharSet_=",
            "a=b=c",
            "{\"a\":1}",
        ] {
            assert!(fields(body).is_none(), "{body}");
        }
        assert!(Replay::from_body(b"a=\xff").is_none());
        assert!(fields(&["a="; MAX_FIELDS].join("&")).is_some());
        assert!(fields(&["a="; MAX_FIELDS + 1].join("&")).is_none());
    }

    /// The map from bytes to characters is injective, and some of its values are checked.
    #[test]
    fn every_byte_has_its_own_character() {
        let all: Vec<u8> = (0..=255).collect();
        let text = windows_1252(&all);
        let characters: std::collections::BTreeSet<char> = text.chars().collect();
        assert_eq!(characters.len(), 256);
        for (byte, character) in [(0x80, '€'), (0x8a, 'Š'), (0x92, '’'), (0x99, '™'), (0x9f, 'Ÿ'), (0xfe, 'þ')]
        {
            assert_eq!(text.chars().nth(byte), Some(character));
        }
    }

    proptest! {
        #[test]
        fn an_accepted_body_is_reproduced_exactly(values in prop::collection::vec(("[a-z]{1,4}", prop::collection::vec(any::<u8>(), 0..12)), 1..5)) {
            let values: Vec<_> = values.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
            let body = encode_form(&values);
            if let Some(replay) = Replay::from_body(&body) {
                let bytes = |text: &String| -> Vec<u8> {
                    if replay.charset == "utf-8" {
                        return text.clone().into_bytes();
                    }
                    let all: Vec<char> = windows_1252(&(0..=255).collect::<Vec<u8>>()).chars().collect();
                    text.chars().map(|c| u8::try_from(all.iter().position(|known| *known == c).unwrap()).unwrap()).collect()
                };
                let again: Vec<_> = replay.fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
                prop_assert_eq!(again, values);
            }
        }
    }
}
