//! Canonical path of a request. Pure.
//!
//! A rule has no effect if the application reads the path differently from the gateway. For
//! example, `/public/..%2fadmin` begins with `/public/`, but a server that decodes first reads
//! `/admin`. So a path that servers may read differently is refused, whichever rule the path
//! matches. The bytes of the forwarded path are exactly those that were checked.

use std::borrow::Cow;
use std::sync::OnceLock;

use http::uri::PathAndQuery;

use crate::characters;
use crate::characters::Characters;
use crate::reading;
use crate::reading::{Ambiguous, ReadingBudget};

/// Path with one meaning: every escape was decoded once, and no segment is empty or a dot segment.
///
/// An application may read some separators as data, see [`Characters`]. A path with such characters
/// has other readings, which [`CanonicalPath::interpretations`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CanonicalPath<'a> {
    text: Cow<'a, [u8]>,
    /// The path, with placeholders for escaped characters that are data. Empty if the path has no
    /// such characters.
    with_placeholders: Vec<u8>,
    /// Readings of the path, computed at most once, because several checks of a request need them.
    readings: OnceLock<Result<Readings, Ambiguous>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Readings {
    /// Readings in which characters that are data to the application are separators.
    separator_readings: Vec<Vec<u8>>,
    /// Readings by servers that fold letters or open files by Windows names. The first element has
    /// the readings of the path itself. The following elements have the readings of each element of
    /// `separator_readings`. Missing elements count as empty.
    name_readings: Vec<Vec<Vec<u8>>>,
}

impl<'a> CanonicalPath<'a> {
    /// Parses the path of a request target. The application reads the characters in `data` as data.
    ///
    /// # Errors
    /// The reason why the path is ambiguous.
    pub(super) fn from_target(target: &'a PathAndQuery, data: Characters) -> Result<Self, Ambiguous> {
        // `target.path()` would return `/` for a target that begins with its query.
        Self::parse_with(target.as_str().split('?').next().unwrap_or_default(), data)
    }

    /// Parses a path of an application that reads no separators as data.
    ///
    /// # Errors
    /// The reason why the path is ambiguous.
    pub(super) fn parse(raw: &'a str) -> Result<Self, Ambiguous> {
        Self::parse_with(raw, Characters::default())
    }

    /// Parses the path of a request target, without its query. The application reads the characters
    /// in `data` as data.
    ///
    /// # Errors
    /// The reason why the path is ambiguous.
    pub(super) fn parse_with(raw: &'a str, data: Characters) -> Result<Self, Ambiguous> {
        let is_allowed = |byte: u8| !is_separator(byte) || (byte == b';' && data.semicolon);
        let raw = raw.as_bytes();
        if raw.first() != Some(&b'/') {
            return Err(Ambiguous::NotAbsolute);
        }
        if !raw.iter().all(|byte| byte.is_ascii_graphic() && is_allowed(*byte) && !matches!(byte, b'?' | b'#')) {
            return Err(Ambiguous::Character);
        }
        let with_placeholders = if raw.contains(&b'%') { Cow::Owned(decode(raw, data)?) } else { Cow::Borrowed(raw) };
        check_segments(&with_placeholders)?;
        if !Characters::from_decoded(&with_placeholders).is_any() {
            return Ok(Self { text: with_placeholders, with_placeholders: Vec::new(), readings: OnceLock::new() });
        }
        if characters::begins_with_two_slashes(&with_placeholders) {
            return Err(Ambiguous::EmptySegment);
        }
        let text = Cow::Owned(characters::as_data(&with_placeholders));
        Ok(Self { text, with_placeholders: with_placeholders.into_owned(), readings: OnceLock::new() })
    }

    /// Returns the path, decoded once.
    ///
    /// Placeholders, which are control characters, replace escaped slashes and backslashes that are
    /// data. The path need not be UTF-8, because old applications use other encodings.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns the separators in the path that the application reads as data.
    pub(super) fn characters(&self) -> Characters {
        Characters::from_decoded(&self.with_placeholders)
    }

    /// Returns every form in which a server may read this path. A server may treat some escaped
    /// characters as separators: it may read `/a%2fb` as `/a/b`.
    ///
    /// Each form comes with its readings by servers that fold letters or open files by Windows
    /// names. Most paths have no such readings.
    ///
    /// # Errors
    /// If a reading contains a dot segment or could be decoded again, or if the readings exceed
    /// their [`ReadingBudget`].
    pub(super) fn interpretations(&self) -> Result<impl Iterator<Item = (&[u8], &[Vec<u8>])>, Ambiguous> {
        let Readings { separator_readings, name_readings } =
            self.readings.get_or_init(|| self.read()).as_ref().map_err(|why| *why)?;
        let separator_readings = std::iter::once(self.as_bytes()).chain(separator_readings.iter().map(Vec::as_slice));
        Ok(separator_readings.zip(name_readings.iter().map(Vec::as_slice).chain(std::iter::repeat(&[] as &[_]))))
    }

    fn read(&self) -> Result<Readings, Ambiguous> {
        // Common case: the path has only one reading, and nothing is allocated.
        if self.with_placeholders.is_empty() && !reading::has_other_readings(self.as_bytes()) {
            return Ok(Readings { separator_readings: Vec::new(), name_readings: Vec::new() });
        }
        let mut budget = ReadingBudget::for_path();
        let separator_readings = if self.with_placeholders.is_empty() {
            Vec::new()
        } else {
            characters::readings(&self.with_placeholders, &mut budget)?
        };
        let all = std::iter::once(self.as_bytes()).chain(separator_readings.iter().map(Vec::as_slice));
        let name_readings = all.map(|text| {
            if reading::has_other_readings(text) { reading::readings(text, &mut budget) } else { Ok(Vec::new()) }
        });
        let name_readings = name_readings.collect::<Result<_, _>>()?;
        Ok(Readings { separator_readings, name_readings })
    }
}

/// Returns whether some servers end a segment at this byte. The slash is not included.
const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'\\' | b';')
}

fn decode(raw: &[u8], data: Characters) -> Result<Vec<u8>, Ambiguous> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            decoded.push(byte);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_first_chunk::<2>().ok_or(Ambiguous::Escape)?;
        let byte = escaped(*digits).ok_or(Ambiguous::Escape)?;
        if byte == b'%'
            && let Some((placeholder, tail)) = data.double_slash_placeholder(tail)
        {
            decoded.push(placeholder);
            rest = tail;
            continue;
        }
        if let Some(placeholder) = data.placeholder(byte) {
            decoded.push(placeholder);
        } else if byte == b'/' || byte.is_ascii_control() || is_separator(byte) {
            return Err(Ambiguous::Hidden);
        } else {
            decoded.push(byte);
        }
        rest = tail;
    }
    if decoded.windows(3).any(|window| matches!(window, [b'%', high, low] if escaped([*high, *low]).is_some())) {
        return Err(Ambiguous::Twice);
    }
    // An overlong sequence has the lead byte C0 or C1, or its second byte is too small for its lead
    // byte.
    let overlong =
        |window: &[u8]| matches!(window, [0xc0 | 0xc1, 0x80..=0xbf] | [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]);
    if decoded.windows(2).any(overlong) {
        return Err(Ambiguous::Overlong);
    }
    Ok(decoded)
}

fn escaped([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

fn check_segments(path: &[u8]) -> Result<(), Ambiguous> {
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment.first() {
            None if segments.peek().is_some() => return Err(Ambiguous::EmptySegment),
            Some(b'.' | b' ') if reading::may_be_dot_segment(segment) => return Err(Ambiguous::DotSegment),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(raw: &str) -> Result<String, Ambiguous> {
        CanonicalPath::parse(raw).map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned())
    }

    #[test]
    fn ordinary_paths_are_decoded_once() {
        for (raw, path) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("/a%20b", "/a b"),
            ("/%41dmin/", "/Admin/"),
            ("/ge%C3%A7mi%C5%9F", "/geçmiş"),
            ("/50%25", "/50%"),
            ("/50%25/x", "/50%/x"),
            ("/what%3Fnow%23", "/what?now#"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b/c.", "/a..b/c."),
            ("/~user/!$&'()*+,=:@", "/~user/!$&'()*+,=:@"),
        ] {
            assert_eq!(parsed(raw).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn escapes_of_other_encodings_are_accepted() {
        // "ş" and "ğ" in ISO-8859-9, as old Turkish applications send them.
        assert_eq!(CanonicalPath::parse("/%FE%F0").unwrap().as_bytes(), b"/\xfe\xf0");
    }

    #[test]
    fn a_target_is_read_up_to_its_query() {
        let of = |text: &'static str| {
            CanonicalPath::from_target(&PathAndQuery::from_static(text), Characters::default())
                .map(|path| path.as_bytes().to_vec())
        };
        assert_eq!(of("/a?/../b//;%2f"), Ok(b"/a".to_vec()));
        assert_eq!(of("/a??b"), Ok(b"/a".to_vec()));
        assert_eq!(of("?a"), Err(Ambiguous::NotAbsolute));
        assert_eq!(of("*"), Err(Ambiguous::NotAbsolute));
    }

    #[test]
    fn hidden_separators_are_refused() {
        for raw in ["/a%2fb", "/a%2Fb", "/a%5cb", "/a%5C..", "/a%00", "/a%0d%0a", "/a%7f", "/a%3bb", "/%1f", "/a%09"] {
            assert_eq!(parsed(raw), Err(Ambiguous::Hidden), "{raw}");
        }
        for raw in ["/a\\b", "/a;b", "/a;jsessionid=1/b", "/a b", "/a\tb", "/a\0", "/ş", "/a\u{7f}", "/a?b", "/a#b"] {
            assert_eq!(parsed(raw), Err(Ambiguous::Character), "{raw:?}");
        }
    }

    #[test]
    fn dot_segments_are_refused_in_every_spelling() {
        for raw in [
            "/.",
            "/..",
            "/a/..",
            "/a/../b",
            "/./a",
            "/a/./b",
            "/a/.",
            "/%2e",
            "/%2E%2e/a",
            "/.%2e/a",
            "/a/%2e%2e/b",
            "/public/%2e%2E/admin",
            "/a/%2e/",
            "/a/..%20/b",
            "/a/..%20",
            "/a/%20/b",
            "/a/.%20.",
            "/...",
            "/a/..::$DATA/b",
            "/a/..:x",
            "/a/.:/b",
        ] {
            assert_eq!(parsed(raw), Err(Ambiguous::DotSegment), "{raw}");
        }
    }

    #[test]
    fn escapes_of_escapes_are_refused() {
        for raw in ["/%252e%252e/a", "/%2541", "/a%252fb", "/%25%34%31", "/%252541", "/%%34%31", "/a%25c0%25af"] {
            assert!(matches!(parsed(raw), Err(Ambiguous::Twice | Ambiguous::Escape)), "{raw} {:?}", parsed(raw));
        }
        assert_eq!(parsed("/%25%34%31"), Err(Ambiguous::Twice));
    }

    #[test]
    fn overlong_spellings_are_refused() {
        for raw in ["/%c0%af", "/%c0%ae%c0%ae/a", "/%c1%9c", "/%e0%80%af", "/%e0%9f%bf", "/%f0%80%80%af"] {
            assert_eq!(parsed(raw), Err(Ambiguous::Overlong), "{raw}");
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for raw in ["/%", "/%a", "/%zz", "/%2", "/a%u002f", "/%+1", "/% 1"] {
            assert!(matches!(parsed(raw), Err(Ambiguous::Escape | Ambiguous::Character)), "{raw}");
        }
    }

    #[test]
    fn empty_segments_and_relative_paths_are_refused() {
        for raw in ["//", "//evil.test/", "/a//b", "/a//", "/proxy/https://x"] {
            assert_eq!(parsed(raw), Err(Ambiguous::EmptySegment), "{raw}");
        }
        for raw in ["", "*", "a/b", "https://x/"] {
            assert_eq!(parsed(raw), Err(Ambiguous::NotAbsolute), "{raw}");
        }
    }

    /// Returns the segments of the path as a lax server may read it: decodes it several times,
    /// splits it at every separator of any server, drops empty and dot segments, and resolves `..`.
    fn as_a_careless_server_reads(raw: &[u8], decodings: usize) -> Vec<Vec<u8>> {
        let mut path = raw.to_vec();
        for _ in 0..decodings {
            path = percent_encoding::percent_decode(&path).collect();
        }
        let mut walked: Vec<Vec<u8>> = Vec::new();
        for segment in path.split(|byte| matches!(byte, b'/' | b'\\')) {
            let segment = segment.split(|byte| matches!(byte, b';' | 0)).next().unwrap_or_default();
            match segment {
                b"" | b"." => {}
                b".." => {
                    walked.pop();
                }
                _ => walked.push(segment.to_vec()),
            }
        }
        walked
    }

    fn tricky_path() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/".to_owned()),
            Just("..".to_owned()),
            Just(".".to_owned()),
            Just("%2e".to_owned()),
            Just("%2f".to_owned()),
            Just("%5C".to_owned()),
            Just("%25".to_owned()),
            Just("%252e".to_owned()),
            Just("%00".to_owned()),
            Just(";x".to_owned()),
            Just("%3b".to_owned()),
            Just("\\".to_owned()),
            Just("%c0%af".to_owned()),
            "[a-zA-Z0-9%]{0,3}",
            "%[0-9a-fA-F]{2}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn every_server_reads_an_accepted_path_as_we_do(raw in tricky_path()) {
            if let Ok(path) = CanonicalPath::parse(&raw) {
                let ours: Vec<Vec<u8>> = path
                    .as_bytes()
                    .split(|byte| *byte == b'/')
                    .filter(|segment| !segment.is_empty())
                    .map(<[u8]>::to_vec)
                    .collect();
                for decodings in 1..4 {
                    prop_assert_eq!(&as_a_careless_server_reads(raw.as_bytes(), decodings), &ours, "{}", raw);
                }
            }
        }

        #[test]
        fn an_accepted_path_stays_below_each_of_its_prefixes(raw in tricky_path()) {
            if let Ok(path) = CanonicalPath::parse(&raw) {
                let resolved = url::Url::parse("http://a").unwrap().join(&raw).unwrap();
                let resolved: Vec<u8> = percent_encoding::percent_decode_str(resolved.path()).collect();
                prop_assert_eq!(resolved.as_slice(), path.as_bytes());
            }
        }

        #[test]
        fn any_text_is_survived(raw in ".{0,60}") {
            let _ = CanonicalPath::parse(&raw);
        }

        #[test]
        fn plain_paths_are_never_refused(raw in "(/[a-zA-Z0-9_-]{1,8}){0,6}/?") {
            prop_assume!(!raw.is_empty());
            prop_assert_eq!(parsed(&raw), Ok(raw.clone()));
        }
    }
}
