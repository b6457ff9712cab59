//! Encodings of non-ASCII text in header values. HTTP defines no encoding for such text. Pure.

use sealgate_config::Names;
use sealgate_domain::secret::base64url;

/// Encodes a text.
///
/// Control characters become blanks. A character that the encoding lacks becomes `missing`. If
/// `missing` is `None`, returns `None` for a text with such a character.
pub(super) fn encode_text(text: &str, names: Names, missing: Option<u8>) -> Option<Vec<u8>> {
    let instead = |char: char| missing.map(|missing| if char.is_control() { b' ' } else { missing });
    match names {
        Names::AsciiPercent => Some(encode(text, b"%").into_bytes()),
        Names::Base64url => Some(base64url(text.as_bytes()).into_bytes()),
        Names::Iso8859_9 => text.chars().map(|char| latin_5(char).or_else(|| instead(char))).collect(),
        Names::Utf8 => {
            let mut bytes = Vec::with_capacity(text.len());
            for char in text.chars() {
                if char.is_control() {
                    bytes.push(instead(char)?);
                } else {
                    bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            Some(bytes)
        }
    }
}

/// Encodes a group name so that applications can split the list and decode the exact name.
///
/// Percent-encodes the delimiter. Also percent-encodes blanks at the start and end of the name,
/// because HTTP parsers remove such blanks. Returns `None` if the encoding cannot represent these
/// characters.
pub(super) fn encode_group(group: &str, names: Names, delimiter: char) -> Option<Vec<u8>> {
    let blank = group.starts_with(' ') || group.ends_with(' ');
    match names {
        Names::AsciiPercent => {
            let special: &[u8] = if blank { &[delimiter as u8, b'%', b' '] } else { &[delimiter as u8, b'%'] };
            Some(encode(group, special).into_bytes())
        }
        Names::Utf8 | Names::Iso8859_9 if blank || group.contains(delimiter) => None,
        Names::Utf8 | Names::Iso8859_9 | Names::Base64url => encode_text(group, names, None),
    }
}

/// Returns the byte of a character in ISO-8859-9. ISO-8859-9 is Latin-1 with six Turkish letters in
/// place of six Icelandic letters.
fn latin_5(char: char) -> Option<u8> {
    match char {
        'Ğ' => Some(0xD0),
        'İ' => Some(0xDD),
        'Ş' => Some(0xDE),
        'ğ' => Some(0xF0),
        'ı' => Some(0xFD),
        'ş' => Some(0xFE),
        'Ð' | 'Ý' | 'Þ' | 'ð' | 'ý' | 'þ' => None,
        char if char.is_control() => None,
        char => u8::try_from(u32::from(char)).ok(),
    }
}

/// Percent-encodes (RFC 3986 §2.1, UTF-8) every byte except visible ASCII and the space, and also
/// the `special` bytes.
///
/// Many servers would read the UTF-8 bytes of `ş` as two other letters. Callers always include the
/// percent sign in `special`, so that different names have different encodings.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percent_encoded_text_decodes_to_itself(text in "\\PC{0,40}") {
            let encoded = encode(&text, b",%");
            prop_assert!(encoded.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b','));
            let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
            prop_assert_eq!(decoded, text);
        }
    }
}
