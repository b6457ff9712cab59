//! Validation of profile fields, for the account page, the console and the command line.

use icu_properties::CodePointMapData;
use icu_properties::props::{CanonicalCombiningClass, JoiningType};
use url::{Host, Url};

/// Maximum length of a password in bytes.
pub const MAX_PASSWORD_LENGTH: usize = 1024;
/// Maximum length of a name in characters.
pub const MAX_NAME_LENGTH: usize = 200;
const MAX_PHONE_NUMBER_LENGTH: usize = 32;
const MAX_PICTURE_LENGTH: usize = 2000;
const MAX_GROUP_LENGTH: usize = 100;
/// Maximum number of groups of a user. Applications receive all groups in one header.
pub const MAX_GROUPS: usize = 100;

/// Characters that are invisible or change how other characters are displayed (Unicode 16). A name
/// with such characters could look like another name.
///
/// The table has format characters including bidirectional controls (Cf), line and paragraph
/// separators (Zl, Zp), characters that displays may ignore (`Default_Ignorable_Code_Point`), the
/// empty Braille pattern, private-use characters and noncharacters.
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{10ffff}'),
];

/// Returns whether all characters of a text are visible: see [`INVISIBLE`]. Joiners are permitted
/// where they change how letters join.
pub fn is_visible(text: &str) -> bool {
    let invisible =
        |letter: char| letter.is_control() || INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&letter));
    text.char_indices().all(|(at, letter)| !invisible(letter) || is_joiner_in_place(text, at, letter))
}

/// Returns whether the letter is a joiner or non-joiner where its script needs it (RFC 5892
/// appendix A.1 and A.2).
///
/// A non-joiner is permitted between two letters that would join, as in Persian (`می‌خواهم`). Both
/// are permitted after a virama.
fn is_joiner_in_place(text: &str, at: usize, letter: char) -> bool {
    const NON_JOINER: char = '\u{200c}';
    const JOINER: char = '\u{200d}';
    let (before, after) = text.split_at(at);
    let after = &after[letter.len_utf8()..];
    let class = |letter| CodePointMapData::<CanonicalCombiningClass>::new().get(letter);
    let is_after_virama =
        || before.chars().next_back().is_some_and(|last| class(last) == CanonicalCombiningClass::Virama);
    let joining = |letter: &char| CodePointMapData::<JoiningType>::new().get(*letter);
    let is_letter = |letter: &char| joining(letter) != JoiningType::Transparent;
    let is_between_joining_letters = || {
        let left = before.chars().rev().find(is_letter).map(|letter| joining(&letter));
        let right = after.chars().find(is_letter).map(|letter| joining(&letter));
        matches!(left, Some(JoiningType::LeftJoining | JoiningType::DualJoining))
            && matches!(right, Some(JoiningType::RightJoining | JoiningType::DualJoining))
    };
    match letter {
        NON_JOINER => is_after_virama() || is_between_joining_letters(),
        JOINER => is_after_virama(),
        _ => false,
    }
}

/// Returns whether a text is visible, fits on one line, and has at most `longest` characters.
pub fn is_line(text: &str, longest: usize) -> bool {
    !text.trim().is_empty() && text.chars().count() <= longest && is_visible(text)
}

/// Returns whether a text is a phone number in international format (E.164): a plus sign and 6 to
/// 15 digits, with any grouping.
pub fn is_phone_number(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let allowed = |byte: u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'-' | b'.' | b'(' | b')');
    text.len() <= MAX_PHONE_NUMBER_LENGTH
        && (6..=15).contains(&digits)
        && text.strip_prefix('+').is_some_and(|rest| rest.bytes().all(allowed))
}

/// Returns the text without the characters that [`is_visible`] rejects.
pub fn visible_part(text: &str) -> String {
    let is_visible_at =
        |at, letter: char| is_visible(letter.encode_utf8(&mut [0; 4])) || is_joiner_in_place(text, at, letter);
    let visible: String =
        text.char_indices().filter(|(at, letter)| is_visible_at(*at, *letter)).map(|(_, letter)| letter).collect();
    // The removal may have left a joiner where it is not permitted.
    if is_visible(&visible) { visible } else { visible.replace(['\u{200c}', '\u{200d}'], "") }
}

/// Returns whether a text is the https URL of an image. The server never fetches it.
pub fn is_picture(text: &str) -> bool {
    is_line(text, MAX_PICTURE_LENGTH) && picture_origin(text).is_some()
}

/// Returns the origin of an image's https URL, as a source for a Content-Security-Policy.
///
/// Returns `None` unless the host is a DNS name or an IPv4 address. URL parsers accept
/// `p.test;sandbox` and `p.test,x` as hosts, which would add a directive or a policy. CSP Level 3
/// §2.3.1 does not support IPv6 addresses.
pub fn picture_origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    match url.host()? {
        Host::Domain(name) => name.bytes().all(is_name),
        Host::Ipv4(_) => true,
        Host::Ipv6(_) => false,
    }
    .then(|| url.origin().ascii_serialization())
}

/// Returns whether a text is a valid group name. A comma is not permitted, because commas separate
/// the groups in the header for applications.
pub fn is_group(text: &str) -> bool {
    is_line(text, MAX_GROUP_LENGTH) && !text.contains(',') && text.trim() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phone_numbers_are_international() {
        assert!(is_phone_number("+905551112233") && is_phone_number("+1 (425) 555-1212"));
        for wrong in ["", "+", "905551112233", "+90 555", "+1234567890123456", "+٠١٢٣٤٥٦", "+90 555 111\n22 33"]
        {
            assert!(!is_phone_number(wrong), "{wrong}");
        }
    }

    #[test]
    fn lines_are_classified() {
        for name in ["Ayşe Yılmaz", "İSTANBUL Işık", "José", "محمد", "שלום", "王小明", "Zoë’s Wiki – 2", "🙂"]
        {
            assert!(is_line(name, MAX_NAME_LENGTH), "{name}");
        }
        let invisible = "\u{0}\u{1f}\u{7f}\u{85}\u{9f}\u{ad}\u{34f}\u{61c}\u{115f}\u{180e}\u{200b}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\
                      \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{206f}\u{2800}\u{3164}\u{e000}\
                      \u{fe0f}\u{feff}\u{ffa0}\u{fffb}\u{fffe}\u{e0001}\u{e0041}\u{e01ef}\u{f0000}\u{10ffff}";
        for letter in invisible.chars() {
            assert!(!is_line(&format!("Wi{letter}ki"), MAX_NAME_LENGTH), "{}", letter.escape_unicode());
        }
        for name in ["می\u{200c}خواهم", "علی\u{200c}نیا", "क्\u{200d}ष", "ක්\u{200d}ර"] {
            assert!(is_line(name, MAX_NAME_LENGTH), "{name}");
        }
        // Between letters that do not join, a joiner would be invisible.
        for name in [
            "Wi\u{200c}ki",
            "دار\u{200c}ا",
            "\u{200c}می",
            "می\u{200c}",
            "م\u{200c}\u{200c}ی",
            "می\u{200d}خ",
            "م\u{200c}W",
        ] {
            assert!(!is_line(name, MAX_NAME_LENGTH), "{}", name.escape_unicode());
        }
        assert!(INVISIBLE.is_sorted() && INVISIBLE.iter().all(|(first, last)| first <= last));
    }

    #[test]
    fn only_visible_characters_remain() {
        for (typed, kept) in [
            ("iş \u{7}tele\u{202e}fonu\u{2028}", "iş telefonu"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("Wi\u{200c}\u{200b}ki", "Wiki"),
            ("\u{200b}", ""),
            ("م\u{200c}\u{200c}ی", "می"),
        ] {
            assert_eq!(visible_part(typed), kept, "{}", typed.escape_unicode());
            assert!(is_visible(&visible_part(typed)));
        }
    }

    #[test]
    fn the_host_of_a_picture_is_a_name_or_an_address() {
        for (text, origin) in [
            ("https://p.test/a.png", "https://p.test"),
            ("https://p.test:8443/a;b,c", "https://p.test:8443"),
            ("https://192.0.2.1/a", "https://192.0.2.1"),
            ("https://çiçek.test/a", "https://xn--iek-1lab.test"),
        ] {
            assert!(is_picture(text), "{text}");
            assert_eq!(picture_origin(text).as_deref(), Some(origin));
        }
        for wrong in [
            "https://evil.test;sandbox/",
            "https://evil.test,x/",
            "https://*/",
            "https://*.test/",
            "https://evil.test'/",
            "https://[2001:db8::1]/",
            "http://p.test/",
            "data:image/png,x",
        ] {
            assert!(!is_picture(wrong) && picture_origin(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_group_name_contains_no_separator() {
        assert!(is_group("staff") && is_group("Muhasebe Ekibi"));
        for wrong in ["", "a,b", " a", "a ", "a\nb", &"x".repeat(101)] {
            assert!(!is_group(wrong), "{wrong:?}");
        }
    }
}
