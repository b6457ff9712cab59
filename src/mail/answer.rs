//! A mail server's words, as they may be kept and shown.

use std::error::Error as _;

use lettre::transport::smtp::Error as SmtpError;

use crate::domain::mail_address::MailAddress;

/// The longest answer that is told, characters.
const LONGEST_ANSWER: usize = 200;

/// What a server said in an error of the library, or what came between.
pub(super) fn reply(error: &SmtpError) -> String {
    let source = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let text = error.status().map_or(source.clone(), |code| format!("{code} {source}"));
    told(&text, None)
}

/// A server's words as they may be kept and shown: one line, not long, without addresses and links. Servers repeat whom a mail
/// is for, and filters what is in it.
pub(super) fn told(text: &str, to: Option<&MailAddress>) -> String {
    let local = |word: &str| {
        let bare = word.trim_matches(|char: char| !char.is_alphanumeric());
        to.is_some_and(|to| !bare.is_empty() && bare.eq_ignore_ascii_case(to.local()))
    };
    let secret = |word: &&str| word.contains('@') || word.contains("://") || word.contains("token=") || local(word);
    let words = text.split_whitespace().map(|word| if secret(&word) { "…" } else { word });
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).take(LONGEST_ANSWER).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::user::Email;

    #[test]
    fn answers_are_told_without_whom_and_what_they_are_about() {
        let anna = MailAddress::of(&Email::parse("anna@example.com").unwrap()).unwrap();
        for (said, kept) in [
            ("550 5.1.1 <anna@example.com>: Recipient rejected", "550 5.1.1 … Recipient rejected"),
            ("550 no such user 'anna'\r\nX: y", "550 no such user … X: y"),
            ("554 blocked: https://id.example.com/oauth/reset?token=abc", "554 blocked: …"),
            ("554 token=abc is bad", "554 … is bad"),
            ("250 2.0.0 Ok: queued as 1A2B", "250 2.0.0 Ok: queued as 1A2B"),
        ] {
            assert_eq!(told(said, Some(&anna)), kept);
        }
        assert_eq!(told(&"x".repeat(1000), None).len(), LONGEST_ANSWER);
    }
}
