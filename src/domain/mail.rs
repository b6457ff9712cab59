//! E-mails: their contents, lifetimes and retries.
//!
//! An e-mail is committed to the outbox together with its cause. Its contents are encrypted in the
//! outbox, because links and codes grant access.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::language::Language;
use crate::secret::{Sealed, SecretHash};
use crate::time::UnixTime;
use crate::user::{Email, Subject, User};

/// Id of an e-mail. It is part of the `Message-ID`, so that receivers can detect duplicates.
pub type MailId = Id<'q'>;

/// Path of reset links below the issuer. The query is `?token=…`.
pub const RESET_PATH: &str = "/oauth/reset";

/// Path of invitation links below the issuer. The query is `?token=…`.
pub const INVITATION_PATH: &str = "/oauth/invitation";

/// Path of undo links ("this was not me") below the issuer. The query is `?token=…`.
pub const UNDO_PATH: &str = "/oauth/undo";

/// Delay after the first failure. Doubles with each further failure.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// Maximum delay between two attempts.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// Maximum length of a stored answer of a mail server, in characters.
const MAX_ANSWER: usize = 200;

/// Kind of an e-mail. Its name is part of the file format, of metrics and of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailKind {
    /// Queued request for a password reset. It is never sent: when the queue is processed, the
    /// account is read, and an e-mail of another kind replaces the request.
    ///
    /// Therefore the HTTP request takes the same time for all addresses, with or without an
    /// account.
    ResetWanted,
    /// Queued request to verify an address, which may belong to another account. Like
    /// `ResetWanted`, it is never sent.
    AddressWanted,
    Reset,
    PasskeysOnly,
    PasswordElsewhere,
    Invitation,
    VerificationCode,
    AccountExists,
    AddressChanged,
    Notice,
    Test,
}

impl MailKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [Self; 11] = [
        Self::ResetWanted,
        Self::AddressWanted,
        Self::Reset,
        Self::PasskeysOnly,
        Self::PasswordElsewhere,
        Self::Invitation,
        Self::VerificationCode,
        Self::AccountExists,
        Self::AddressChanged,
        Self::Notice,
        Self::Test,
    ];

    /// Returns the name in records, in metrics and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResetWanted => "reset_wanted",
            Self::AddressWanted => "address_wanted",
            Self::Reset => "reset",
            Self::PasskeysOnly => "passkeys_only",
            Self::PasswordElsewhere => "password_elsewhere",
            Self::Invitation => "invitation",
            Self::VerificationCode => "verification_code",
            Self::AccountExists => "account_exists",
            Self::AddressChanged => "address_changed",
            Self::Notice => "notice",
            Self::Test => "test",
        }
    }

    /// Returns whether a user waits for the e-mail on a page.
    pub const fn is_awaited(self) -> bool {
        match self {
            Self::ResetWanted
            | Self::AddressWanted
            | Self::Reset
            | Self::PasskeysOnly
            | Self::PasswordElsewhere
            | Self::VerificationCode
            | Self::AccountExists
            | Self::Test => true,
            Self::Invitation | Self::AddressChanged | Self::Notice => false,
        }
    }

    /// Returns the time for which delivery is attempted. It does not exceed the validity of the
    /// link or code.
    pub const fn tried_for(self) -> Duration {
        match self {
            Self::ResetWanted | Self::Reset => Duration::from_mins(30),
            Self::AddressWanted | Self::VerificationCode | Self::Test => Duration::from_mins(15),
            Self::PasskeysOnly | Self::PasswordElsewhere | Self::AccountExists => Duration::from_hours(1),
            Self::Invitation => Duration::from_hours(48),
            Self::AddressChanged | Self::Notice => Duration::from_hours(72),
        }
    }
}

/// Contents of an e-mail.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mail {
    /// Request to reset a password. `account` is the lookup key of the typed address or username,
    /// because the typed text is not stored. If the request came from a known browser, `browser`
    /// has its marks, and one of them must belong to the account.
    ResetWanted {
        account: SecretHash,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        browser: Vec<SecretHash>,
    },
    /// Request to verify an address. `code` is sent unless the address belongs to another account.
    AddressWanted {
        code: String,
        purpose: CodePurpose,
    },
    /// Link to set a new password. `token` is the token of the link.
    Reset {
        token: String,
    },
    /// Answer to a reset request for an account that has passkeys and no password.
    PasskeysOnly,
    /// Answer to a reset request for an account whose password a directory keeps.
    PasswordElsewhere,
    /// Invitation. `inviter` is the name of the administrator, and `app` the name of the
    /// application to open afterwards.
    Invitation {
        token: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inviter: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<String>,
    },
    /// Code to type in the browser that began the verification.
    VerificationCode {
        code: String,
        purpose: CodePurpose,
    },
    /// Notification that someone tried to verify an address that already belongs to an account.
    AccountExists {
        #[serde(default)]
        purpose: CodePurpose,
    },
    /// Notification of a changed address, sent to the address that can undo the change. `token` is
    /// the token of the undo link, and `new_address` is the partly hidden new address.
    AddressChanged {
        token: String,
        new_address: String,
    },
    /// Notice of a security-relevant change. `count` is the number of such changes since the last
    /// notice.
    Notice {
        notice: Notice,
        count: u32,
    },
    Test,
}

impl Mail {
    /// Returns the kind of the e-mail.
    pub const fn kind(&self) -> MailKind {
        match self {
            Self::ResetWanted { .. } => MailKind::ResetWanted,
            Self::AddressWanted { .. } => MailKind::AddressWanted,
            Self::Reset { .. } => MailKind::Reset,
            Self::PasskeysOnly => MailKind::PasskeysOnly,
            Self::PasswordElsewhere => MailKind::PasswordElsewhere,
            Self::Invitation { .. } => MailKind::Invitation,
            Self::VerificationCode { .. } => MailKind::VerificationCode,
            Self::AccountExists { .. } => MailKind::AccountExists,
            Self::AddressChanged { .. } => MailKind::AddressChanged,
            Self::Notice { .. } => MailKind::Notice,
            Self::Test => MailKind::Test,
        }
    }
}

/// Prints only the kind, because tokens and codes are secret.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mail({})", self.kind().as_str())
    }
}

/// Purpose of a verification code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodePurpose {
    /// Verify the account's address.
    Address,
    /// Verify a new address for the account.
    NewAddress,
    /// Verify the address of a new account.
    #[default]
    Registration,
}

/// Notice of a change that an attacker could have made. Its name is part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    PasswordChanged,
    PasswordReset,
    FactorAdded,
    FactorRemoved,
    /// The factors of a kind were blocked after too many failures.
    FactorBlocked,
    /// Several wrong second factors were typed after the correct password.
    FactorFailed,
    RecoveryCodeUsed,
    RecoveryCodesMade,
    /// A key was rejected because its signature counter did not increase, so it may have been
    /// copied.
    KeyMayBeCopied,
    AppPasswordCreated,
    AppCredentialSet,
    /// The address was changed. Sent to the new address.
    AddressChanged,
    /// The address was changed. Sent to the replaced address, if that address cannot undo the
    /// change.
    AddressReplaced,
    /// The account was linked to an account at a directory or an OpenID provider. Sent to the
    /// address before the change.
    AccountLinked,
    /// The link of the account was removed.
    AccountUnlinked,
    /// An administrator changed the account.
    AdministratorActed,
    /// An administrator removed all second factors.
    FactorsReset,
    /// A client that registered itself is in use and needs approval. Sent to administrators.
    ClientNeedsApproval,
}

impl Notice {
    /// All notices, in the order of the variants.
    pub const ALL: [Self; 18] = [
        Self::PasswordChanged,
        Self::PasswordReset,
        Self::FactorAdded,
        Self::FactorRemoved,
        Self::FactorBlocked,
        Self::FactorFailed,
        Self::RecoveryCodeUsed,
        Self::RecoveryCodesMade,
        Self::KeyMayBeCopied,
        Self::AppPasswordCreated,
        Self::AppCredentialSet,
        Self::AddressChanged,
        Self::AddressReplaced,
        Self::AccountLinked,
        Self::AccountUnlinked,
        Self::AdministratorActed,
        Self::FactorsReset,
        Self::ClientNeedsApproval,
    ];
}

/// Origin of a request or an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    pub address: IpAddr,
    /// Display name of the browser. Chosen by the server, not copied from the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// Display name of the operating system, also chosen by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// E-mail with the data for its text, as encrypted in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailMessage {
    /// Recipient. `None` if the account is read when the queue is processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Email>,
    pub language: Language,
    /// Time of the event.
    pub at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RequestOrigin>,
    pub mail: Mail,
}

/// E-mail in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMail {
    pub id: MailId,
    pub kind: MailKind,
    /// User concerned, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub created_at: UnixTime,
    /// Time of the next attempt. A node advances it before it sends the e-mail, so that another
    /// node retries if the first one fails.
    pub due_at: UnixTime,
    /// Time after which the e-mail is useless.
    pub not_after: UnixTime,
    /// Number of failed attempts. Failures of the mail server itself do not count.
    pub attempts: u32,
    /// The mail server's answer to the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    pub message: Sealed,
}

impl WaitingMail {
    /// Creates a queued e-mail that is due at once.
    pub fn new(id: MailId, kind: MailKind, subject: Option<Subject>, message: Sealed, now: UnixTime) -> Self {
        let not_after = now.plus(kind.tried_for());
        Self { id, kind, subject, created_at: now, due_at: now, not_after, attempts: 0, last_answer: None, message }
    }

    /// Returns the e-mail for the node that attempts to send it. Other nodes wait until `lease` has
    /// passed.
    #[must_use]
    pub fn leased(&self, now: UnixTime, lease: Duration) -> Self {
        Self { due_at: now.plus(lease), ..self.clone() }
    }

    /// Returns the e-mail after a temporary failure, with the time of the next attempt.
    ///
    /// `jitter`, a random number, changes the delay by up to a fifth. The last attempt takes place
    /// shortly before `not_after`, even if the delay would be longer.
    ///
    /// # Errors
    /// Returns the reason to give up, if this was the last attempt.
    pub fn postponed(&self, answer: &str, now: UnixTime, jitter: u8) -> Result<Self, DeadReason> {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.attempts.min(16)).min(MAX_WAIT);
        let wait = doubled.mul_f64(0.8 + 0.4 * f64::from(jitter) / 255.0);
        let left = self.not_after.since(now).saturating_sub(FIRST_WAIT);
        if left.is_zero() {
            return Err(DeadReason::Expired);
        }
        let due_at = now.plus(wait.min(left));
        Ok(Self { due_at, attempts: self.attempts + 1, last_answer: Some(cut(answer)), ..self.clone() })
    }

    /// Returns the e-mail with a new time for the next attempt. No attempt is counted, because the
    /// mail server itself failed.
    ///
    /// # Errors
    /// Returns the reason to give up, as [`Self::postponed`] does.
    pub fn moved(&self, due_at: UnixTime) -> Result<Self, DeadReason> {
        if due_at > self.not_after { Err(DeadReason::Expired) } else { Ok(Self { due_at, ..self.clone() }) }
    }
}

/// Reason to give up an e-mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// The e-mail expired before a mail server accepted it.
    Expired,
    /// The mail server rejected the e-mail permanently.
    Refused,
    /// The message cannot be built: mail servers do not accept its address, or decryption failed.
    Unsendable,
    /// An internal error prevented its delivery.
    Failed,
}

impl DeadReason {
    /// All reasons, in the order of the variants.
    pub const ALL: [Self; 4] = [Self::Expired, Self::Refused, Self::Unsendable, Self::Failed];

    /// Returns the name in records, in metrics and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Unsendable => "unsendable",
            Self::Failed => "failed",
        }
    }
}

/// E-mail that was given up and is kept for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadMail {
    pub mail: WaitingMail,
    pub reason: DeadReason,
    pub at: UnixTime,
    pub expires_at: UnixTime,
}

/// Record of a sent e-mail, for operators. It contains no part of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMail {
    pub id: MailId,
    pub kind: MailKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub at: UnixTime,
    pub answer: String,
    pub expires_at: UnixTime,
}

/// Time for which records of sent and given-up e-mails are kept.
pub(crate) const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

impl SentMail {
    /// Creates the record of a sent e-mail. Truncates the mail server's answer.
    pub fn new(mail: &WaitingMail, answer: &str, now: UnixTime) -> Self {
        let expires_at = now.plus(KEPT_FOR);
        Self { id: mail.id, kind: mail.kind, subject: mail.subject, at: now, answer: cut(answer), expires_at }
    }
}

impl DeadMail {
    /// Creates the record of an e-mail that is not sent again. `answer` is the last answer of the
    /// mail server.
    pub fn new(mail: WaitingMail, reason: DeadReason, answer: Option<&str>, now: UnixTime) -> Self {
        let last_answer = answer.map(cut).or_else(|| mail.last_answer.clone());
        Self { mail: WaitingMail { last_answer, ..mail }, reason, at: now, expires_at: now.plus(KEPT_FOR) }
    }

    /// Returns the e-mail as due immediately, with a new lifetime. The link or code in it may have
    /// expired.
    pub fn revived(&self, now: UnixTime) -> WaitingMail {
        let mail = self.mail.clone();
        WaitingMail { due_at: now, not_after: now.plus(mail.kind.tried_for()), attempts: 0, ..mail }
    }
}

/// Shortens a server's answer to one line, to store and display it.
fn cut(answer: &str) -> String {
    answer.chars().filter(|char| !char.is_control()).take(MAX_ANSWER).collect()
}

/// Returns the first letter and the domain of an address, for readers who may not know the whole
/// address.
pub fn partly_hidden(address: &Email) -> String {
    let (local, domain) = address.as_str().split_once('@').unwrap_or_default();
    format!("{}@{domain}", first_letter(local))
}

/// Returns the name of an account for readers who may not know the whole name: the address as
/// [`partly_hidden`] shows it, or the first letter of the username.
pub fn partly_hidden_name(user: &User) -> String {
    user.email.as_ref().map_or_else(|| first_letter(user.sign_in_name()), partly_hidden)
}

fn first_letter(name: &str) -> String {
    name.chars().take(1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(kind: MailKind) -> WaitingMail {
        let now = UnixTime::from_seconds(1000);
        WaitingMail::new(MailId::from_bytes([1; 16]), kind, None, Sealed::from_bytes(vec![1]), now)
    }

    #[test]
    fn waits_double_up_to_an_hour_until_the_mail_expires() {
        let mut mail = waiting(MailKind::Notice);
        let (mut waits, mut now) = (Vec::new(), mail.created_at);
        let reason = loop {
            match mail.postponed("451 later", now, 128) {
                Ok(next) => {
                    waits.push(next.due_at.seconds() - now.seconds());
                    (now, mail) = (next.due_at, next);
                }
                Err(reason) => break reason,
            }
        };
        assert_eq!(waits[..9], [30, 60, 120, 240, 480, 960, 1921, 3602, 3602]);
        assert_eq!(reason, DeadReason::Expired);
        assert_eq!(mail.last_answer.as_deref(), Some("451 later"));
        assert!(waiting(MailKind::Reset).moved(UnixTime::from_seconds(1000 + 1801)).is_err());
        // The jitter changes the delay by up to a fifth in both directions.
        let wait =
            |jitter| waiting(MailKind::Notice).postponed("", UnixTime::from_seconds(1000), jitter).unwrap().due_at;
        assert_eq!((wait(0), wait(255)), (UnixTime::from_seconds(1024), UnixTime::from_seconds(1036)));
    }

    #[test]
    fn an_answer_is_kept_as_one_short_line() {
        let mail = waiting(MailKind::Test);
        let sent_mail = SentMail::new(&mail, &format!("250 ok\r\nX: {}", "x".repeat(1000)), mail.created_at);
        assert!(sent_mail.answer.starts_with("250 okX: xx") && sent_mail.answer.len() == MAX_ANSWER);
    }

    #[test]
    fn a_hidden_address_has_its_first_letter_and_its_domain() {
        assert_eq!(partly_hidden(&Email::parse("şule@example.test").unwrap()), "ş…@example.test");
    }

    #[test]
    fn the_last_attempt_is_made_before_the_mail_expires() {
        for jitter in [0, 128, 255] {
            let mut mail = waiting(MailKind::Reset);
            let end = mail.not_after;
            let (mut tries, mut now) = (Vec::new(), mail.created_at);
            while let Ok(next) = mail.postponed("451 later", now, jitter) {
                assert!(next.due_at > now && next.due_at < end, "{jitter}: {tries:?}");
                tries.push(next.due_at.seconds() - 1000);
                (now, mail) = (next.due_at, next);
            }
            // The regular delay would exceed the lifetime of the e-mail.
            assert_eq!(tries.last(), Some(&(30 * 60 - 30)), "{jitter}: {tries:?}");
            assert!((6..=7).contains(&tries.len()), "{jitter}: {tries:?}");
        }
        // Shortly before the end of the lifetime, no further attempt is scheduled.
        let mail = waiting(MailKind::Reset);
        assert_eq!(mail.postponed("", UnixTime::from_seconds(1000 + 1770), 0), Err(DeadReason::Expired));
        assert_eq!(mail.postponed("", UnixTime::from_seconds(1000 + 9000), 0), Err(DeadReason::Expired));
    }

    #[test]
    fn no_credential_is_printed() {
        let mail = Mail::Reset { token: "hunter2".to_owned() };
        assert_eq!(format!("{mail:?}"), "Mail(reset)");
    }
}
