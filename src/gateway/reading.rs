//! Readings of a path by servers that do not use its decoded bytes as they are. Pure.
//!
//! Windows opens several names as the same file. Databases, file systems and character sets fold
//! letters. Some servers pass the rest of a path to a script. Paths with such readings cannot be
//! refused in general: `/sayfa/Ayşe%20ı`, for example, is an ordinary page. So each reading is
//! compared with the rules, and the path is refused if a reading leads to other rules.
//!
//! Rules are written in ASCII, so only foldings to ASCII matter. One pass over the bytes detects
//! the common path that has no other reading.

use std::borrow::Cow;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

use crate::work;

/// Reason to refuse a path as ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ambiguous {
    /// The path does not start with a slash.
    NotAbsolute,
    /// An unescaped byte that a path must not have: a control character, a space, a backslash, a
    /// semicolon, or a byte outside ASCII.
    Character,
    /// A percent sign that is not followed by two hexadecimal digits.
    Escape,
    /// An escaped slash, backslash, semicolon or control character.
    Hidden,
    /// An escape that decodes to an escape. A server that decodes twice reads another path.
    Twice,
    /// A byte sequence that a lax UTF-8 decoder reads as an ASCII character (RFC 3629 §10).
    Overlong,
    EmptySegment,
    /// A segment `.` or `..`, or a segment that servers may read as one of them.
    DotSegment,
    /// Some servers read the path as one with other rules, because they ignore letter case, fold
    /// letters or omit characters.
    Spelling,
    /// The readings of the path take too much work to compare all of them with the rules.
    Readings,
}

impl Ambiguous {
    /// Returns the reason as one word for the log.
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
            Self::Readings => "too_many_readings",
        }
    }

    /// Returns the reason as a sentence for the client.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::NotAbsolute => "The target is not a path on this host.",
            Self::Character => {
                "The path has a character that must be escaped, or that some servers read as a separator, such as ; or a backslash."
            }
            Self::Escape => "The path has a percent sign without two hexadecimal digits.",
            Self::Hidden => {
                "The path has an escaped separator or control character, such as %2F, that its rule does not allow."
            }
            Self::Twice => "The path has a double escape, such as %252F, that its rule does not allow.",
            Self::Overlong => "The path has an overlong UTF-8 sequence.",
            Self::EmptySegment => "The path has an empty segment.",
            Self::DotSegment => "The path has a segment that some servers read as . or ..",
            Self::Spelling => "Some servers read the path as one that belongs to another rule.",
            Self::Readings => "The path is too long for its number of ambiguous characters.",
        }
    }
}

/// Amount of work that may still be spent on the readings of one path. Copying a byte is one unit.
///
/// The readings together can be much longer than the path: some letters fold to 18 letters, and
/// characters that the application reads as data give up to 40 readings. The budget keeps the cost
/// of every request close to that of an ordinary request.
#[derive(Debug)]
pub(super) struct ReadingBudget(usize);

impl ReadingBudget {
    const FOR_PATH: usize = 64 * 1024;
    /// Units for each folded letter.
    const LETTER_COST: usize = 12;
    /// Units for each place that a short name may mean.
    pub(super) const VISIT_COST: usize = 128;

    pub(super) const fn for_path() -> Self {
        Self(Self::FOR_PATH)
    }

    /// Subtracts these units from the remaining budget.
    ///
    /// # Errors
    /// [`Ambiguous::Readings`] if too few units remain.
    pub(super) fn spend(&mut self, units: usize) -> Result<(), Ambiguous> {
        self.0 = self.0.checked_sub(units).ok_or(Ambiguous::Readings)?;
        work::count(units);
        Ok(())
    }
}

/// Returns whether a path has other readings, apart from letter case.
pub(super) fn has_other_readings(path: &[u8]) -> bool {
    let mut before = b'/';
    let odd = path.iter().any(|byte| {
        let ends_oddly = *byte == b'/' && matches!(before, b'.' | b' ');
        before = *byte;
        ends_oddly || !byte.is_ascii() || matches!(byte, b':' | b'?' | b'#' | b'~')
    });
    odd || matches!(before, b'.' | b' ')
}

/// Returns the other readings of a decoded path. The caller must compare the readings without
/// regard to letter case.
///
/// # Errors
/// If a reading contains a dot segment or could be decoded again, or if the readings exceed the
/// budget.
pub(super) fn readings(path: &[u8], budget: &mut ReadingBudget) -> Result<Vec<Vec<u8>>, Ambiguous> {
    let mut texts = vec![Cow::Borrowed(path)];
    if !path.is_ascii() {
        for folded in folded(path, budget)? {
            if has_escape(&folded) {
                return Err(Ambiguous::Twice);
            }
            texts.push(Cow::Owned(folded));
        }
    }
    let mut found = Vec::new();
    for text in texts {
        // A server that decodes the target before it splits the target ends the path at a decoded
        // `?`, `#` or `;`.
        let cut = text.iter().position(|byte| matches!(byte, b'?' | b'#' | b';'));
        let cut = cut.and_then(|end| text.get(..end)).map(|text| Cow::Owned(text.to_vec()));
        for text in [Some(text), cut].into_iter().flatten() {
            budget.spend(text.len())?;
            found.push(as_windows_reads(&text));
            found.push(text.into_owned());
        }
    }
    // Most names have no other reading on Windows, and both entries are then equal.
    found.dedup();
    found.into_iter().map(|reading| merge_slashes(&reading)).collect()
}

/// Returns the path as a server on Windows may open it, for example `/admin/` for `/admin./`.
///
/// Windows ignores dots and spaces at the end of a name. A colon separates the name of a file from
/// the name of a stream in it.
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

pub(super) fn windows_name(name: &[u8]) -> &[u8] {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    // A name of only dots and spaces is kept, so that the check of dot segments refuses the path.
    if end == 0 { name } else { name.get(..end).unwrap_or_default() }
}

/// Returns whether servers may read a name as `.` or `..`. Some servers ignore blanks and dots at
/// the end of a name, and the text after a colon.
pub(super) fn may_be_dot_segment(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    !name.is_empty() && name.iter().all(|byte| matches!(byte, b'.' | b' '))
}

/// Returns a reading with repeated slashes merged.
///
/// # Errors
/// If the reading contains a dot segment.
pub(super) fn merge_slashes(reading: &[u8]) -> Result<Vec<u8>, Ambiguous> {
    let mut tidy = Vec::with_capacity(reading.len());
    for name in reading.split(|byte| is_slash(*byte)).filter(|name| !name.is_empty()) {
        if may_be_dot_segment(name) {
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

/// Returns the forms to which servers may fold a path.
///
/// - Compatibility forms (NFKC) are replaced: `／`, `Ａ`, the Kelvin sign, the long s.
/// - Marks are removed from letters (`ş`, `İ`). Conversions between character sets remove them, and
///   many databases treat such letters as equal.
/// - Letters with the same upper case are merged: `ı` becomes `i`.
/// - Invisible characters are removed.
///
/// A path that is not UTF-8 has two forms. In the first form, all bytes are read as ISO-8859-9. In
/// the second form, only the invalid parts are read as ISO-8859-9, because many servers decode each
/// name or each letter separately.
fn folded(path: &[u8], budget: &mut ReadingBudget) -> Result<Vec<Vec<u8>>, Ambiguous> {
    if let Ok(text) = str::from_utf8(path) {
        return Ok(vec![folded_text(text, budget)?]);
    }
    let latin: String = path.iter().map(|byte| latin_5(*byte)).collect();
    let mut mixed = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        mixed.push_str(chunk.valid());
        mixed.extend(chunk.invalid().iter().map(|byte| latin_5(*byte)));
    }
    Ok(vec![folded_text(&latin, budget)?, folded_text(&mixed, budget)?])
}

fn folded_text(text: &str, budget: &mut ReadingBudget) -> Result<Vec<u8>, Ambiguous> {
    let mut folded = String::with_capacity(text.len());
    for letter in DecomposingNormalizerBorrowed::new_nfkd().normalize_iter(text.chars()) {
        budget.spend(ReadingBudget::LETTER_COST)?;
        if letter.is_ascii() {
            folded.push(letter.to_ascii_lowercase());
        } else if !is_ignored_in_names(letter) {
            folded.extend(ascii_substitute(letter).to_uppercase().flat_map(char::to_lowercase));
        }
    }
    Ok(folded.into_bytes())
}

/// Decodes a byte of ISO-8859-9, which old Turkish applications use. The byte 0x85 is decoded as an
/// ellipsis, as in windows-1254.
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

/// Returns whether file systems, databases or collations ignore this character in names: marks,
/// ignorable characters and format controls.
fn is_ignored_in_names(letter: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(letter);
    matches!(category, GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark | GeneralCategory::Format)
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter)
}

/// Returns the ASCII character that replaces this letter in character sets without the letter. Only
/// for letters that Unicode does not decompose.
const fn ascii_substitute(letter: char) -> char {
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

/// Returns whether any segment of a path looks like a short name.
pub(super) fn has_short_name(path: &[u8]) -> bool {
    memchr::memchr(b'~', path).is_some()
        && path.split(|byte| *byte == b'/').any(|segment| short_name_stem(segment).is_some())
}

/// Number of bytes at the start of a segment that decide whether the segment is a short name: six
/// letters, `~` and a digit.
const SHORT_NAME_BYTES: usize = 8;

/// Returns the text before the `~` of a short name. `None` if the segment is not a short name.
pub(super) fn short_name_stem(segment: &[u8]) -> Option<&[u8]> {
    let tilde = segment.iter().take(SHORT_NAME_BYTES).position(|byte| *byte == b'~')?;
    let (short_name_stem, rest) = segment.split_at_checked(tilde)?;
    ((1..=6).contains(&tilde) && rest.get(1).is_some_and(u8::is_ascii_digit)).then_some(short_name_stem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn readings(path: &[u8]) -> Result<Vec<Vec<u8>>, Ambiguous> {
        super::readings(path, &mut ReadingBudget::for_path())
    }

    fn read(path: &str) -> Vec<String> {
        let readings = readings(path.as_bytes()).unwrap();
        readings.into_iter().map(|reading| String::from_utf8(reading).unwrap()).collect()
    }

    #[test]
    fn an_ordinary_path_has_no_other_reading() {
        for path in ["/", "/a/b.c/D-e_f", "/.well-known/x", "/a..b/", "/a b/c", "/50%"] {
            assert!(!has_other_readings(path.as_bytes()), "{path}");
        }
        for path in ["/a.", "/a./b", "/a /", "/a:b", "/a?b", "/a#b", "/a~1", "/ş", "/a\u{feff}"] {
            assert!(has_other_readings(path.as_bytes()), "{path}");
        }
        assert!(has_other_readings(b"/adm\xfdn"));
    }

    #[test]
    fn letters_fold_to_their_ascii_forms() {
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
        // An invalid UTF-8 byte elsewhere in the path does not prevent the folding.
        assert!(readings(b"/adm\xc4\xb1n/\xff").unwrap().contains(&b"/admin/y".to_vec()));
    }

    #[test]
    fn readings_with_dot_segments_are_refused() {
        for path in ["/a/．．/b", "/a/‥/b", "/a/․․／b", "/a/.\u{200b}./b", "/a/·./b", "/a/…", "/a/．", "/a/．．：x/b"]
        {
            assert_eq!(readings(path.as_bytes()), Err(Ambiguous::DotSegment), "{path}");
        }
        assert_eq!(readings("/a/％2e％2e/".as_bytes()), Err(Ambiguous::Twice));
        for name in [&b"."[..], b"..", b"...", b".. ", b" ", b". .", b"..::$DATA", b"..:x"] {
            assert!(may_be_dot_segment(name), "{name:?}");
        }
        for name in [&b"..a"[..], b"a..", b".a", b":x", b"", b"a ."] {
            assert!(!may_be_dot_segment(name), "{name:?}");
        }
    }

    #[test]
    fn windows_ignores_trailing_characters_of_a_name() {
        assert_eq!(as_windows_reads(b"/a. ./b:c/d::$DATA"), b"/a/b/d");
        assert!(read("/admin.php?x").contains(&"/admin.php".to_owned()));
        assert!(read("/admin. ?x").contains(&"/admin".to_owned()));
    }

    #[test]
    fn readings_that_take_too_much_work_are_refused() {
        // U+FDFA folds to 18 letters.
        for (letter, most) in [("\u{fdfa}", 200), ("ş", 2_000), ("ı", 3_000), ("가", 1_000)] {
            let path = |count: usize| format!("/{}", letter.repeat(count));
            assert!(readings(path(most).as_bytes()).is_ok(), "{letter}");
            assert!(readings(path(5_500).as_bytes()) == Err(Ambiguous::Readings), "{letter}");
        }
        assert!(readings(format!("/a:?{}", "x".repeat(28_000)).as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(path in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = readings(&path);
            let _ = has_short_name(&path);
        }

        #[test]
        fn readings_have_no_repeated_slashes(path in "(/[a-zA-Z.:?#~ ışİ／．]{0,6}){1,4}") {
            for reading in readings(path.as_bytes()).unwrap_or_default() {
                prop_assert!(reading.starts_with(b"/") && !reading.windows(2).any(|two| two == b"//"), "{:?}", reading);
            }
        }
    }
}
