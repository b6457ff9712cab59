//! Classification and sanitizing of mail server replies.

use std::error::Error as _;

use lettre::transport::smtp::Error as SmtpError;

use sealgate_domain::mail_address::MailAddress;

/// Maximum length of a stored reply in characters.
const MAX_ANSWER_LENGTH: usize = 200;

/// Step of the delivery at which the server replied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// `MAIL`. The server has received the sender address, but no part of this message.
    Sender,
    /// `RCPT`, `DATA` and the end of the message. The reply may concern this recipient or the
    /// content.
    Mail,
}

/// Cause of a failed delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// Sealgate or its configuration. No message can be sent until the operator fixes the cause.
    Configuration,
    /// The server refuses this message or its recipient. It would refuse a retry too.
    Mail,
    /// A temporary failure. A retry may succeed.
    Temporary,
    /// Sealgate or this message. The reply does not distinguish the two.
    Unclear,
}

/// Returns the cause of a failure after the sign-in at the mail server. Sealgate or its
/// configuration is the cause of every earlier failure (greeting, EHLO, TLS, sign-in).
///
/// | step | reply | cause | action |
/// |---|---|---|---|
/// | any | 530, 534, 535, 538; x.7.8 to x.7.11: authentication required or insufficient | Sealgate | the message waits, and sending pauses |
/// | `MAIL` | 421, 5xx: sender refused, or no messages accepted now | Sealgate | the message waits, and sending pauses |
/// | `RCPT` or later | 421: connection closed | unclear | retried with growing waits; sending pauses after several recipients in a row |
/// | `RCPT` or later | 5xx with x.7.0 or x.7.1, or a text about relaying: a policy | unclear | as for 421; refused when the message's lifetime ends |
/// | `RCPT` or later | any other 5xx | this message | refused |
/// | any | any other 4xx, no reply, a broken connection | temporary | retried with growing waits; other messages are sent meanwhile |
///
/// A policy may forbid relaying, this recipient, or content that looks like spam. One reply does
/// not distinguish these three. If this function always blamed Sealgate, one recipient could stop
/// all mail. If it always blamed the message, all messages would be lost while the configuration is
/// wrong.
pub(super) fn blame(step: Step, code: u16, text: &str) -> Blame {
    let status = enhanced(text);
    let policy = status.filter(|(subject, _)| *subject == 7).map(|(_, detail)| detail);
    // If the status code is about an address or a mailbox, the text is ignored, because it may be a
    // quotation from another server.
    let is_about_relaying = (status.is_none() || policy.is_some()) && speaks_of_relaying(text);
    match (code, step) {
        (530 | 534 | 535 | 538, _) => Blame::Configuration,
        (400.., _) if matches!(policy, Some(8..=11)) => Blame::Configuration,
        (421 | 500.., Step::Sender) => Blame::Configuration,
        (421, Step::Mail) => Blame::Unclear,
        (500.., Step::Mail) if matches!(policy, Some(0 | 1)) || is_about_relaying => Blame::Unclear,
        (500.., Step::Mail) => Blame::Mail,
        _ => Blame::Temporary,
    }
}

/// Parses the subject and detail of an enhanced status code (RFC 3463) at the start of a reply.
fn enhanced(text: &str) -> Option<(u16, u16)> {
    let mut parts = text.split_whitespace().next()?.split('.');
    let class = parts.next()?;
    let (subject, detail) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (matches!(class, "4" | "5") && parts.next().is_none()).then_some((subject, detail))
}

/// Returns whether the text is about relaying. Some servers state the reason in words only: `550
/// relay not permitted`.
fn speaks_of_relaying(text: &str) -> bool {
    let words = text.split(|char: char| !char.is_ascii_alphabetic());
    words.map(str::to_ascii_lowercase).any(|word| matches!(word.as_str(), "relay" | "relaying" | "relayed"))
}

/// Returns the sanitized server reply, or the connection error, from an error of the library.
pub(super) fn reply(error: &SmtpError) -> String {
    let source = words(error);
    let text = error.status().map_or(source.clone(), |code| format!("{code} {source}"));
    sanitized(&text, None)
}

/// Returns the server's words after the code. Sanitize them with [`sanitized`] before showing them.
pub(super) fn words(error: &SmtpError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Sanitizes the text of a server for storage and display: one line of limited length without
/// addresses and links. Servers repeat the recipient, and filters repeat content.
pub(super) fn sanitized(text: &str, to: Option<&MailAddress>) -> String {
    let local = |word: &str| {
        let bare = word.trim_matches(|char: char| !char.is_alphanumeric());
        to.is_some_and(|to| !bare.is_empty() && bare.eq_ignore_ascii_case(to.local()))
    };
    let secret = |word: &&str| word.contains('@') || word.contains("://") || word.contains("token=") || local(word);
    let words = text.split_whitespace().map(|word| if secret(&word) { "…" } else { word });
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).take(MAX_ANSWER_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_domain::user::Email;

    #[test]
    fn a_reply_blames_the_server_the_message_or_nothing() {
        use Blame::{Configuration, Mail, Temporary, Unclear};
        for (code, text, of_sender, of_mail) in [
            (530, "5.7.0 sign in first", Configuration, Configuration),
            (535, "no", Configuration, Configuration),
            (550, "5.7.8 who are you", Configuration, Configuration),
            (454, "4.7.9 weak mechanism", Configuration, Configuration),
            (421, "4.3.2 later", Configuration, Unclear),
            (550, "5.7.1 no", Configuration, Unclear),
            (554, "5.7.0 no", Configuration, Unclear),
            (554, "5.7.1 <…>: Relay access denied", Configuration, Unclear),
            (550, "relay not permitted", Configuration, Unclear),
            (551, "Relaying denied", Configuration, Unclear),
            (550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain", Configuration, Unclear),
            (550, "5.1.1 unknown", Configuration, Mail),
            (550, "5.1.1 unknown, says the relay behind", Configuration, Mail),
            (550, "5.7.26 not signed as its sender asks", Configuration, Mail),
            (550, "no such user at relayhost", Configuration, Mail),
            (552, "5.3.4 too big", Configuration, Mail),
            (550, "5.7 no code", Configuration, Mail),
            (550, "", Configuration, Mail),
            (450, "4.2.0 grey", Temporary, Temporary),
            (451, "4.7.1 grey", Temporary, Temporary),
            (452, "4.3.1 full", Temporary, Temporary),
            (250, "2.0.0 ok", Temporary, Temporary),
        ] {
            let blames = (blame(Step::Sender, code, text), blame(Step::Mail, code, text));
            assert_eq!(blames, (of_sender, of_mail), "{code} {text}");
        }
    }

    #[test]
    fn replies_are_stored_without_recipient_and_content() {
        let anna = MailAddress::from_email(&Email::parse("anna@example.com").unwrap()).unwrap();
        for (said, kept) in [
            ("550 5.1.1 <anna@example.com>: Recipient rejected", "550 5.1.1 … Recipient rejected"),
            ("550 no such user 'anna'\r\nX: y", "550 no such user … X: y"),
            ("554 blocked: https://id.example.com/oauth/reset?token=abc", "554 blocked: …"),
            ("554 token=abc is bad", "554 … is bad"),
            ("250 2.0.0 Ok: queued as 1A2B", "250 2.0.0 Ok: queued as 1A2B"),
        ] {
            assert_eq!(sanitized(said, Some(&anna)), kept);
        }
        assert_eq!(sanitized(&"x".repeat(1000), None).len(), MAX_ANSWER_LENGTH);
    }
}
