//! How else a server may read a path than as the bytes that it is: names as Windows opens them, letters as databases, file
//! systems and character sets fold them, a script's name with more behind it. Pure.
//!
//! None of these readings is wrong to refuse everywhere: `/sayfa/Ayşe%20ı` is a page like any other. So each is held against
//! the rules, and a path is refused when one of them comes to another rule. Rules are written in ASCII, so that only what
//! folds to ASCII matters. An ordinary path has no other reading, and is looked at once to see that.

use std::borrow::Cow;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ambiguous {
    /// It does not start with a slash.
    NotAbsolute,
    /// A byte that no path has raw: a control, a space, a backslash, a semicolon, or one outside ASCII.
    Character,
    /// A percent sign that is not followed by two hexadecimal digits.
    Escape,
    /// An escaped slash, backslash, semicolon or control.
    Hidden,
    /// An escape of an escape: it means something else to a server that decodes twice.
    Twice,
    /// A byte sequence that a careless UTF-8 decoder takes for an ASCII character (RFC 3629 §10).
    Overlong,
    EmptySegment,
    /// A segment `.` or `..`, or one that may be taken for it.
    DotSegment,
    /// Some servers read it as a path that another rule is for: one that is blind to the case of letters, or folds them, or
    /// leaves something out.
    Spelling,
}

impl Ambiguous {
    /// A word for the log.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::NotAbsolute => "not_absolute",
            Self::Character => "character",
            Self::Escape => "escape",
            Self::Hidden => "hidden_separator",
            Self::Twice => "double_encoding",
            Self::Overlong => "overlong_utf8",
            Self::EmptySegment => "empty_segment",
            Self::DotSegment => "dot_segment",
            Self::Spelling => "spelling",
        }
    }

    /// The same in a sentence for whoever sent the request.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::NotAbsolute => "The target is not a path on this host.",
            Self::Character => {
                "The path has a character that some servers read as a separator, such as ; or a backslash, or that must be escaped."
            }
            Self::Escape => "The path has a percent sign without two hexadecimal digits.",
            Self::Hidden => {
                "The path has an escaped separator or control character, such as %2F, that the rule of the path does not admit."
            }
            Self::Twice => {
                "The path has an escape of an escape, such as %252F, that the rule of the path does not admit."
            }
            Self::Overlong => "The path has an overlong UTF-8 sequence.",
            Self::EmptySegment => "The path has an empty segment.",
            Self::DotSegment => "The path has a segment that some servers read as . or ..",
            Self::Spelling => "Some servers read the path as one that another rule is for.",
        }
    }
}

/// Whether a path has any reading but the plain one, letter case aside.
pub(super) fn is_odd(path: &[u8]) -> bool {
    let mut before = b'/';
    let odd = path.iter().any(|byte| {
        let ends_oddly = *byte == b'/' && matches!(before, b'.' | b' ');
        before = *byte;
        ends_oddly || !byte.is_ascii() || matches!(byte, b':' | b'?' | b'#' | b'~')
    });
    odd || matches!(before, b'.' | b' ')
}

/// The other readings of a path, decoded. Letter case counts in none of them.
///
/// # Errors
/// When one of them walks up, or is to be decoded once more.
pub(super) fn readings(path: &[u8]) -> Result<Vec<Vec<u8>>, Ambiguous> {
    let mut texts = vec![Cow::Borrowed(path)];
    if !path.is_ascii() {
        for folded in folded(path) {
            if has_escape(&folded) {
                return Err(Ambiguous::Twice);
            }
            texts.push(Cow::Owned(folded));
        }
    }
    let mut found = Vec::new();
    for text in texts {
        // A server that decodes first cuts the query and the fragment off then, or a path's parameters.
        let cut = text.iter().position(|byte| matches!(byte, b'?' | b'#' | b';'));
        let cut = cut.and_then(|end| text.get(..end)).map(|text| Cow::Owned(text.to_vec()));
        for text in [Some(text), cut].into_iter().flatten() {
            found.push(as_windows_reads(&text));
            found.push(text.into_owned());
        }
    }
    // Most names are the same to Windows.
    found.dedup();
    found.into_iter().map(|reading| tidied(&reading)).collect()
}

/// The path as a server on Windows may open it: dots and spaces at the end of a name count for nothing, and what follows a
/// colon names a stream of the same file. So `/admin./` is `/admin/` there.
pub(super) fn as_windows_reads(path: &[u8]) -> Vec<u8> {
    let mut read = Vec::with_capacity(path.len());
    for (index, name) in path.split(|byte| is_slash(*byte)).enumerate() {
        if index > 0 {
            read.push(b'/');
        }
        read.extend_from_slice(windows_name(name));
    }
    read
}

fn windows_name(name: &[u8]) -> &[u8] {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    // One of nothing else is left to be looked at: it may walk up.
    if end == 0 { name } else { name.get(..end).unwrap_or_default() }
}

/// Whether a name may be taken for `.` or `..`: some servers drop blanks and dots at its end, and what follows a colon.
pub(super) fn may_walk(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    !name.is_empty() && name.iter().all(|byte| matches!(byte, b'.' | b' '))
}

/// A reading whose slashes are one each.
pub(super) fn tidied(reading: &[u8]) -> Result<Vec<u8>, Ambiguous> {
    let mut tidy = Vec::with_capacity(reading.len());
    for name in reading.split(|byte| is_slash(*byte)).filter(|name| !name.is_empty()) {
        if may_walk(name) {
            return Err(Ambiguous::DotSegment);
        }
        tidy.push(b'/');
        tidy.extend_from_slice(name);
    }
    if tidy.is_empty() || reading.last().is_some_and(|last| is_slash(*last)) {
        tidy.push(b'/');
    }
    Ok(tidy)
}

const fn is_slash(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

fn has_escape(text: &[u8]) -> bool {
    text.windows(3)
        .any(|window| matches!(window, [b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()))
}

/// The path in the letters that it may be folded to: compatible forms (NFKC: `／`, `Ａ`, the Kelvin sign, the long s), letters
/// without their marks (`ş`, `İ`: the nearest ones of another character set, and equal to them in many a database), the
/// letter that upper case makes of another (`ı` is an I), and nothing of what cannot be seen. A path that is not UTF-8 is read as
/// ISO-8859-9, and once more with its parts that are UTF-8 read as that: many servers decode each name, or each letter, alone.
fn folded(path: &[u8]) -> Vec<Vec<u8>> {
    if let Ok(text) = str::from_utf8(path) {
        return vec![folded_text(text)];
    }
    let latin: String = path.iter().map(|byte| latin_5(*byte)).collect();
    let mut mixed = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        mixed.push_str(chunk.valid());
        mixed.extend(chunk.invalid().iter().map(|byte| latin_5(*byte)));
    }
    vec![folded_text(&latin), folded_text(&mixed)]
}

fn folded_text(text: &str) -> Vec<u8> {
    let apart = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let mut folded = String::with_capacity(apart.len());
    for letter in apart.chars() {
        if letter.is_ascii() {
            folded.push(letter.to_ascii_lowercase());
        } else if !is_left_out(letter) {
            folded.extend(nearest(letter).to_uppercase().flat_map(char::to_lowercase));
        }
    }
    folded.into_bytes()
}

/// ISO-8859-9, in which old Turkish applications write, with the dots of its Windows kin.
fn latin_5(byte: u8) -> char {
    match byte {
        0x85 => '…',
        0xd0 => 'Ğ',
        0xdd => 'İ',
        0xde => 'Ş',
        0xf0 => 'ğ',
        0xfd => 'ı',
        0xfe => 'ş',
        other => char::from(other),
    }
}

/// Whether file systems, databases and collations leave this character out of names: marks, and what is ignorable or only controls
/// how text is shown.
fn is_left_out(letter: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(letter);
    matches!(category, GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark | GeneralCategory::Format)
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter)
}

/// What character sets without a letter write for it, where Unicode does not say it.
const fn nearest(letter: char) -> char {
    match letter {
        'đ' | 'Đ' | 'ð' | 'Ð' => 'd',
        'ħ' | 'Ħ' => 'h',
        'ł' | 'Ł' => 'l',
        'ŧ' | 'Ŧ' => 't',
        'ø' | 'Ø' => 'o',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => '/',
        '\u{2216}' | '\u{29f5}' | '\u{29f9}' | '\u{a5}' | '\u{20a9}' => '\\',
        '\u{b7}' | '\u{2219}' | '\u{22c5}' => '.',
        '\u{2236}' | '\u{a789}' => ':',
        other => other,
    }
}

/// The path with its short names (`ADMINI~1`) written out where they may be those of this rule's path; none where none is.
pub(super) fn written_out(path: &[u8], rule: &[u8]) -> Option<Vec<u8>> {
    let segments = |path| <[u8]>::split(path, |byte: &u8| *byte == b'/');
    // Most rules have no such segment: nothing is allocated for them.
    if !segments(path).zip(segments(rule)).any(|(short, name)| is_short_for(short, name)) {
        return None;
    }
    let mut names = segments(rule);
    let written: Vec<&[u8]> =
        segments(path).map(|short| names.next().filter(|name| is_short_for(short, name)).unwrap_or(short)).collect();
    Some(written.join(&b'/'))
}

/// Whether any segment of a path looks like a short name.
pub(super) fn has_short_name(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| stem(segment).is_some())
}

/// Number of bytes of a segment that decide whether it is a short name: six letters, `~` and a digit.
pub(super) const SHORT_NAME_BYTES: usize = 8;

/// The letters of a short name before its `~` and number; none where it is none.
fn stem(segment: &[u8]) -> Option<&[u8]> {
    let tilde = segment.iter().take(SHORT_NAME_BYTES).position(|byte| *byte == b'~')?;
    let (stem, rest) = segment.split_at_checked(tilde)?;
    ((1..=6).contains(&tilde) && rest.get(1).is_some_and(u8::is_ascii_digit)).then_some(stem)
}

/// Whether Windows may have made this short name for a long one: six letters of it, or two and a hash, `~` and a number.
fn is_short_for(short: &[u8], name: &[u8]) -> bool {
    let Some(stem) = stem(short) else { return false };
    let letters = |count: usize| {
        let mut long = name.iter().filter(|byte| !matches!(byte, b'.' | b' '));
        stem.iter().take(count).all(|letter| long.next().is_some_and(|long| long.eq_ignore_ascii_case(letter)))
    };
    name.len() > stem.len() && (letters(stem.len()) || letters(2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> Vec<String> {
        let readings = readings(path.as_bytes()).unwrap();
        readings.into_iter().map(|reading| String::from_utf8(reading).unwrap()).collect()
    }

    #[test]
    fn an_ordinary_path_has_no_other_reading() {
        for path in ["/", "/a/b.c/D-e_f", "/.well-known/x", "/a..b/", "/a b/c", "/50%"] {
            assert!(!is_odd(path.as_bytes()), "{path}");
        }
        for path in ["/a.", "/a./b", "/a /", "/a:b", "/a?b", "/a#b", "/a~1", "/ş", "/a\u{feff}"] {
            assert!(is_odd(path.as_bytes()), "{path}");
        }
        assert!(is_odd(b"/adm\xfdn"));
    }

    #[test]
    fn letters_fold_to_those_that_servers_take_them_for() {
        for path in [
            "/admın/x",
            "/ADMİN/x",
            "/adm\u{131}n/x",
            "/ａｄｍｉｎ/x",
            "/ⓐdmin/x",
            "/ádmin/x",
            "/ad\u{200b}min/x",
            "/ad\u{ad}min/x",
            "/ad\u{20dd}min/x",
            "/ad\u{1dc0}m\u{1ab0}in/x",
            "/ad\u{5b0}min/x",
            "/ad\u{115f}min/x",
            "/ad\u{fff9}min/x",
            "/ad\u{e0100}min/x",
            "/ad\u{1d173}min/x",
            "/admin／x",
            "/admin∕x",
            "/adm\u{131}n\u{ff3c}x",
            "/ﬀ/../x",
            "/admin；a/x",
        ] {
            let readings = readings(path.as_bytes());
            if path.contains("..") {
                assert_eq!(readings, Err(Ambiguous::DotSegment));
            } else {
                let wanted = if path.contains('；') { "/admin" } else { "/admin/x" };
                assert!(read(path).iter().any(|read| read == wanted), "{path} {:?}", read(path));
            }
        }
        assert!(read("/o\u{17f}/\u{212a}ey").contains(&"/os/key".to_owned()));
        assert!(readings(b"/adm\xfdn/").unwrap().contains(&b"/admin/".to_vec()));
        assert!(readings(b"/adm\xddn").unwrap().contains(&b"/admin".to_vec()));
        // A byte elsewhere that is not UTF-8 hides nothing.
        assert!(readings(b"/adm\xc4\xb1n/\xff").unwrap().contains(&b"/admin/y".to_vec()));
    }

    #[test]
    fn no_reading_walks_up() {
        for path in ["/a/．．/b", "/a/‥/b", "/a/․․／b", "/a/.\u{200b}./b", "/a/·./b", "/a/…", "/a/．", "/a/．．：x/b"]
        {
            assert_eq!(readings(path.as_bytes()), Err(Ambiguous::DotSegment), "{path}");
        }
        assert_eq!(readings("/a/％2e％2e/".as_bytes()), Err(Ambiguous::Twice));
        for name in [&b"."[..], b"..", b"...", b".. ", b" ", b". .", b"..::$DATA", b"..:x"] {
            assert!(may_walk(name), "{name:?}");
        }
        for name in [&b"..a"[..], b"a..", b".a", b":x", b"", b"a ."] {
            assert!(!may_walk(name), "{name:?}");
        }
    }

    #[test]
    fn windows_drops_what_ends_a_name() {
        assert_eq!(as_windows_reads(b"/a. ./b:c/d::$DATA"), b"/a/b/d");
        assert!(read("/admin.php?x").contains(&"/admin.php".to_owned()));
        assert!(read("/admin. ?x").contains(&"/admin".to_owned()));
    }

    #[test]
    fn a_short_name_is_written_out() {
        for short in ["/ADMINI~1/x", "/admini~2", "/ad1a2b~5/x", "/admini~1.php", "/a~1"] {
            let written = written_out(short.as_bytes(), b"/administration/");
            assert!(written.is_some_and(|path| path.starts_with(b"/administration")), "{short}");
        }
        for other in ["/~anna/x", "/admini~", "/other~1", "/administration~1", "/x/admini~1", "/admini~x"] {
            assert_eq!(written_out(other.as_bytes(), b"/administration/"), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(path in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = readings(&path);
            let _ = written_out(&path, &path);
        }

        #[test]
        fn a_reading_is_a_tidy_path(path in "(/[a-zA-Z.:?#~ ışİ／．]{0,6}){1,4}") {
            for reading in readings(path.as_bytes()).unwrap_or_default() {
                prop_assert!(reading.starts_with(b"/") && !reading.windows(2).any(|two| two == b"//"), "{:?}", reading);
            }
        }
    }
}
