//! Console pages about e-mail: the queue, and previews of the messages.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::mail::MailKind;
use sealgate_domain::time::UnixTime;

/// Page of the mail queue.
///
/// The forms send `csrf` and one of these actions as `action`: `test` with `to` and `once`, `retry`
/// and `delete` with `id`.
#[derive(Template)]
#[template(path = "console/mail.html")]
pub struct MailPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Mail server. `None` if no mail is sent.
    pub server: Option<&'a str>,
    /// Recipient of a test message.
    pub to: &'a str,
    /// Answer of the mail server to the test message.
    pub answer: Option<&'a str>,
    /// Reason why the test message was not sent. Empty if the address is invalid.
    pub test_fault: Option<&'a str>,
    pub dead: &'a [MailLine],
    pub waiting: &'a [MailLine],
    /// Whether there are more messages than the page shows.
    pub has_more: bool,
    /// Maximum number of messages in each list.
    pub most: u64,
}

/// Message in the queue, or one that could not be delivered.
#[derive(Debug, Clone)]
pub struct MailLine {
    pub id: String,
    pub kind: MailKind,
    /// `sub` and name of the user whom the message concerns.
    pub user: Option<(String, String)>,
    pub created_at: UnixTime,
    /// Time of the next attempt.
    pub due_at: Option<UnixTime>,
    pub attempts: u64,
    /// Last answer of the mail server.
    pub answer: Option<String>,
}

impl MailPage<'_> {
    /// Returns the lists, each with its title and the text for an empty list.
    fn lists(&self) -> [(Markup, Markup, &[MailLine]); 2] {
        let t = self.inside.frame.t;
        [
            (t.outbox_dead(), t.outbox_dead_none(), self.dead),
            (t.outbox_waiting(), t.outbox_waiting_none(), self.waiting),
        ]
    }

    fn kind(&self, kind: &MailKind) -> Markup {
        self.inside.frame.t.mail_kind(*kind)
    }
}

impl Words {
    pub(super) fn mail_kind(self, kind: MailKind) -> Markup {
        match kind {
            MailKind::ResetWanted | MailKind::Reset => self.outbox_kind_reset(),
            MailKind::AddressWanted | MailKind::VerificationCode => self.outbox_kind_code(),
            MailKind::PasskeysOnly => self.outbox_kind_passkeys(),
            MailKind::PasswordElsewhere => self.outbox_kind_elsewhere(),
            MailKind::Invitation => self.outbox_kind_invitation(),
            MailKind::AccountExists => self.outbox_kind_exists(),
            MailKind::AddressChanged => self.outbox_kind_address(),
            MailKind::Notice => self.outbox_kind_notice(),
            MailKind::Test => self.outbox_test(),
        }
    }
}

/// Page with previews of all messages in one language.
#[derive(Template)]
#[template(path = "console/mail_templates.html")]
pub struct MailTemplatesPage<'a> {
    pub inside: Inside<'a>,
    /// Language tag of the messages.
    pub tag: &'a str,
    /// Subject and text of each message.
    pub mails: &'a [(String, String)],
}
