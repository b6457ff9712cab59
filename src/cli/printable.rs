//! Untrusted text on a terminal.

/// Escapes a text for a terminal.
///
/// Attackers can choose the names of clients and browsers. A control character could rewrite the
/// operator's output, and a bidirectional one could disguise it.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for char in text.chars() {
        let turns =
            matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if char.is_control() || turns {
            printable.extend(char.escape_unicode());
        } else {
            printable.push(char);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\\u{a}");
        assert_eq!(printable("Şule 😀"), "Şule 😀");
    }
}
