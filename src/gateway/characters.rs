//! Characters that the application reads as part of a name, but other servers read as the end of a
//! name or a segment: `;`, `%2F`, `%5C` and `%252F`. Pure.
//!
//! The gateway finds the rule of a request by the path as the application reads it. A framework or
//! a proxy in front of the application may read the same path differently. So the rule of every
//! other reading must have the same requirements as the rule of the application's reading.
//!
//! In a decoded path, a placeholder (a control character) replaces each escaped character that is
//! data.

use crate::reading;
use crate::reading::{Ambiguous, ReadingBudget};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent flags, one for each character")]
pub(super) struct Characters {
    /// `;` and `%3B`.
    pub semicolon: bool,
    /// `%2F`.
    pub slash: bool,
    /// `%5C`.
    pub backslash: bool,
    /// `%252F`. A server that decodes twice reads it as a slash.
    pub double_slash: bool,
}

/// Placeholders for escaped characters in a decoded path. A path from a client never contains these
/// bytes, because paths with control characters are refused.
const SLASH: u8 = 1;
const BACKSLASH: u8 = 2;
const SEMICOLON: u8 = 3;
const DOUBLE_SLASH: u8 = 4;

impl Characters {
    pub(super) const ALL: Self = Self { semicolon: true, slash: true, backslash: true, double_slash: true };

    /// Returns which of these characters a decoded path contains. In the path, placeholders replace
    /// the escaped characters.
    pub(super) fn from_decoded(path: &[u8]) -> Self {
        // Common case: the path has no such characters.
        if !path.iter().any(|byte| matches!(*byte, b';' | SLASH..=DOUBLE_SLASH)) {
            return Self::default();
        }
        let has = |wanted: &[u8]| path.iter().any(|byte| wanted.contains(byte));
        Self {
            semicolon: has(&[b';', SEMICOLON]),
            slash: has(&[SLASH]),
            backslash: has(&[BACKSLASH]),
            double_slash: has(&[DOUBLE_SLASH]),
        }
    }

    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }

    /// Returns whether this set contains all of `others`.
    pub(super) const fn contains_all(self, others: Self) -> bool {
        (self.semicolon || !others.semicolon)
            && (self.slash || !others.slash)
            && (self.backslash || !others.backslash)
            && (self.double_slash || !others.double_slash)
    }

    pub(super) const fn union(self, others: Self) -> Self {
        Self {
            semicolon: self.semicolon || others.semicolon,
            slash: self.slash || others.slash,
            backslash: self.backslash || others.backslash,
            double_slash: self.double_slash || others.double_slash,
        }
    }

    /// Returns the placeholder for this escaped byte, if it is in this set.
    pub(super) const fn placeholder(self, byte: u8) -> Option<u8> {
        match byte {
            b'/' if self.slash => Some(SLASH),
            b'\\' if self.backslash => Some(BACKSLASH),
            b';' if self.semicolon => Some(SEMICOLON),
            _ => None,
        }
    }

    /// Returns the placeholder for `%252F` and the rest of the path, if this set has
    /// `double_slash`. `rest` is the text after the escaped percent sign.
    pub(super) const fn double_slash_placeholder(self, rest: &[u8]) -> Option<(u8, &[u8])> {
        match rest {
            [b'2', b'F' | b'f', rest @ ..] if self.double_slash => Some((DOUBLE_SLASH, rest)),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Nothing,
    /// Removes the text from the semicolon to the end of the segment. Java servers and many proxies
    /// treat it as parameters (RFC 3986 §3.3).
    Parameters,
    /// Removes the text from the semicolon to the end of the path.
    Rest,
}

/// Returns whether a server that decodes before it splits would see two slashes at the start of the
/// path. Such a server may read the following text as a host.
pub(super) fn begins_with_two_slashes(path: &[u8]) -> bool {
    matches!(path, [_, SLASH | BACKSLASH | DOUBLE_SLASH, ..])
}

/// Returns the path as the application reads it.
///
/// Placeholders of slashes and backslashes remain: if they were escapes such as `%2F`, a later
/// check would refuse the path because of a double escape.
pub(super) fn as_data(path: &[u8]) -> Vec<u8> {
    read_as(path, [false; 3], (Cut::Nothing, false))
}

/// Returns every reading of a path other than [`as_data`]. In each reading, repeated slashes are
/// merged.
///
/// # Errors
/// If a reading contains a dot segment, or if the readings exceed the budget.
pub(super) fn readings(path: &[u8], budget: &mut ReadingBudget) -> Result<Vec<Vec<u8>>, Ambiguous> {
    let has = Characters::from_decoded(path);
    let both = |has: bool| if has { &[false, true][..] } else { &[false][..] };
    let cuts = [
        (Cut::Nothing, false),
        // Servers that decode before they cut also remove the text after an escaped semicolon.
        // Servers that cut before they decode keep that text.
        (Cut::Parameters, false),
        (Cut::Parameters, true),
        (Cut::Rest, false),
        (Cut::Rest, true),
    ];
    let cuts = cuts.get(..if has.semicolon { cuts.len() } else { 1 }).unwrap_or_default();
    let mut found: Vec<Vec<u8>> = vec![as_data(path)];
    for slash in both(has.slash) {
        for double_slash in both(has.double_slash) {
            for backslash in both(has.backslash) {
                for cut in cuts {
                    budget.spend(path.len())?;
                    let read = reading::merge_slashes(&read_as(path, [*slash, *double_slash, *backslash], *cut))?;
                    if !found.contains(&read) {
                        found.push(read);
                    }
                }
            }
        }
    }
    Ok(found.split_off(1))
}

/// Returns one reading of a path.
///
/// The array says whether the escaped slash, the doubly escaped slash and the escaped backslash are
/// separators. The tuple says which text a semicolon removes, and whether an escaped semicolon
/// removes text too.
fn read_as(path: &[u8], [slash, double_slash, backslash]: [bool; 3], (cut, escaped): (Cut, bool)) -> Vec<u8> {
    let mut read = Vec::with_capacity(path.len());
    let mut skipping = false;
    for byte in path {
        let (text, separates): (&[u8], bool) = match *byte {
            b'/' => (b"/", true),
            SLASH if slash => (b"/", true),
            DOUBLE_SLASH if double_slash => (b"/", true),
            BACKSLASH if backslash => (b"/", true),
            SEMICOLON => (b";", false),
            ref other => (std::slice::from_ref(other), false),
        };
        let cuts = *byte == b';' || (escaped && *byte == SEMICOLON);
        match cut {
            Cut::Rest if cuts => break,
            Cut::Parameters if separates => skipping = false,
            Cut::Parameters if cuts => skipping = true,
            _ => {}
        }
        if !skipping {
            read.extend_from_slice(text);
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::CanonicalPath;

    fn all(raw: &str) -> Result<Vec<String>, Ambiguous> {
        let path = CanonicalPath::parse_with(raw, Characters::ALL)?;
        if !path.characters().is_any() {
            return Ok(Vec::new());
        }
        let texts = path.interpretations()?.map(|(text, _)| String::from_utf8(text.to_vec()).unwrap());
        Ok(texts.map(|text| text.replace('\u{1}', "%2F").replace('\u{2}', "%5C").replace('\u{4}', "%252F")).collect())
    }

    fn sorted(raw: &str) -> Vec<String> {
        let mut all = all(raw).unwrap();
        all.sort();
        all
    }

    #[test]
    fn a_path_has_the_readings_of_every_server() {
        assert_eq!(sorted("/files/a;b.txt"), ["/files/a", "/files/a;b.txt"]);
        assert_eq!(sorted("/a;b/c"), ["/a", "/a/c", "/a;b/c"]);
        assert_eq!(sorted("/api/x%2Fy/z"), ["/api/x%2Fy/z", "/api/x/y/z"]);
        assert_eq!(sorted("/api/x%5cy"), ["/api/x%5Cy", "/api/x/y"]);
        assert_eq!(sorted("/a%3Bb;c/d"), ["/a", "/a/d", "/a;b", "/a;b/d", "/a;b;c/d"]);
        assert_eq!(sorted("/a;x%2Fb"), ["/a", "/a/b", "/a;x%2Fb", "/a;x/b"]);
        assert_eq!(sorted("/x/https%3A%2F%2Fy"), ["/x/https:%2F%2Fy", "/x/https:/y"]);
        assert_eq!(
            sorted("/job/feature%252Fx%2Fy"),
            ["/job/feature%252Fx%2Fy", "/job/feature%252Fx/y", "/job/feature/x%2Fy", "/job/feature/x/y"]
        );
        assert_eq!(all("/plain").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn readings_with_dot_segments_or_a_host_are_refused() {
        for raw in [
            "/a/..%2Fb",
            "/a%2F..%2Fb",
            "/a/..%5Cb",
            "/a/..;/b",
            "/a/..;x/b",
            "/a/..%3B/b",
            "/a/.;/b",
            "/a/%2e%2e%2Fb",
            "/a/..%20%2Fb",
            "/a%2F.../b",
            "/a%2F..:x/b",
            "/a/..%252Fb",
            "/a%252f..%252fb",
            "/a/..%252F%2Fb",
        ] {
            assert_eq!(all(raw), Err(Ambiguous::DotSegment), "{raw}");
        }
        for raw in ["/%2Fevil.test/", "/%5Cevil.test/", "/%2F", "/%252Fevil.test/"] {
            assert_eq!(all(raw), Err(Ambiguous::EmptySegment), "{raw}");
        }
        // These paths are refused even if the characters are data.
        for (raw, why) in [
            ("/a%255Cb", Ambiguous::Twice),
            ("/a%253Bb", Ambiguous::Twice),
            ("/a%252e%252eb", Ambiguous::Twice),
            ("/a%25252Fb", Ambiguous::Twice),
            ("/a%25%32Fb", Ambiguous::Twice),
            ("/a%252%46b", Ambiguous::Twice),
            ("/a\\b", Ambiguous::Character),
            ("/a%01", Ambiguous::Hidden),
            ("/a%02b", Ambiguous::Hidden),
            ("/a%03b", Ambiguous::Hidden),
            ("/a%04b", Ambiguous::Hidden),
            ("/a//b", Ambiguous::EmptySegment),
        ] {
            assert_eq!(all(raw), Err(why), "{raw}");
        }
    }

    #[test]
    fn a_listed_character_does_not_allow_the_others() {
        let parsed = |raw: &str, characters| CanonicalPath::parse_with(raw, characters).map(|path| path.characters());
        let semicolon = Characters { semicolon: true, ..Characters::default() };
        let slash = Characters { slash: true, ..Characters::default() };
        assert_eq!(parsed("/a;b%3Bc", semicolon), Ok(semicolon));
        assert_eq!(parsed("/a%2fb", slash), Ok(slash));
        assert_eq!(parsed("/a;b", slash), Err(Ambiguous::Character));
        assert_eq!(parsed("/a%3Bb", slash), Err(Ambiguous::Hidden));
        assert_eq!(parsed("/a%2Fb", semicolon), Err(Ambiguous::Hidden));
        assert_eq!(parsed("/a%5Cb", semicolon.union(slash)), Err(Ambiguous::Hidden));
        assert_eq!(parsed("/a%252Fb", semicolon.union(slash)), Err(Ambiguous::Twice));
        assert!(
            semicolon.union(slash).contains_all(slash)
                && !slash.contains_all(semicolon)
                && slash.contains_all(Characters::default())
        );
    }

    /// Returns the path as a server may read it: decodes it, splits it at separators and drops
    /// empty names. If `cut` is 1, names are cut at semicolons before decoding. If `cut` is 2,
    /// names are cut after decoding.
    fn as_some_server_reads(raw: &str, decodings: usize, backslash: bool, cut: usize) -> Vec<u8> {
        let cut_off = |path: &[u8]| -> Vec<u8> {
            let segments = path.split(|byte| *byte == b'/' || (backslash && *byte == b'\\'));
            let cut: Vec<&[u8]> =
                segments.map(|name| name.split(|byte| *byte == b';').next().unwrap_or_default()).collect();
            cut.join(&b'/')
        };
        let mut path = raw.as_bytes().to_vec();
        if cut == 1 {
            path = cut_off(&path);
        }
        for _ in 0..decodings {
            path = percent_encoding::percent_decode(&path).collect();
        }
        if cut == 2 {
            path = cut_off(&path);
        }
        let names = path.split(|byte| *byte == b'/' || (backslash && *byte == b'\\')).filter(|name| !name.is_empty());
        names.map(<[u8]>::to_vec).collect::<Vec<_>>().join(&b'/')
    }

    fn tricky() -> impl Strategy<Value = String> {
        const PIECES: &[&str] = &["/", "/", "a", "b", "..", ".", ";", "%3B", "%2F", "%5c", "%2e", "%252F", "x=1"];
        proptest::collection::vec(proptest::sample::select(PIECES), 0..10)
            .prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_reading_of_every_server_is_returned(
            raw in tricky(), decodings in 0..3_usize, backslash: bool, cut in 0..3_usize,
        ) {
            let Ok(path) = CanonicalPath::parse_with(&raw, Characters::ALL) else { return Ok(()) };
            // `prop_assume` would reject one path in five, more than proptest permits.
            if !path.characters().is_any() { return Ok(()) }
            let Ok(readings) = path.interpretations() else { return Ok(()) };
            let readings: Vec<&[u8]> = readings.map(|(text, _)| text).collect();
            let theirs = as_some_server_reads(&raw, decodings, backslash, cut);
            let plain = |text: &[u8]| -> Vec<u8> {
                // Decodes twice, because a doubly escaped slash remains data for most servers.
                let text: Vec<u8> = percent_encoding::percent_decode(text).collect();
                let text: Vec<u8> = percent_encoding::percent_decode(&text).collect();
                text.split(|byte| matches!(*byte, b'/' | b'\\' | SLASH | BACKSLASH | DOUBLE_SLASH)).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(&b'/')
            };
            // The server may read a separator as data. So separators are decoded in both paths
            // before the paths are compared.
            let known = readings.iter().any(|read| plain(read) == plain(&theirs));
            prop_assert!(known, "{} is read as {:?}, none of {:?}", raw, String::from_utf8_lossy(&theirs), readings);
        }
    }
}
