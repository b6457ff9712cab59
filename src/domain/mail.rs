//! Mails: what each says, and how long and how often it is tried. Who sends one commits it to the outbox together with its
//! cause; what it says lies there sealed, because links and codes open something.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::id::Id;
use crate::domain::language::Language;
use crate::domain::sealed::Sealed;
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Subject};

/// Names a mail. Its `Message-ID` is made of it, so that one that was sent twice is recognised.
pub type MailId = Id<'q'>;

/// Where a reset link leads, under the issuer, with `?token=`.
pub const RESET_PATH: &str = "/oauth/reset";

/// Where the link of an invitation leads, under the issuer, with `?token=`.
pub const INVITATION_PATH: &str = "/oauth/invitation";

/// Where the link "this was not me" leads, under the issuer, with `?token=`.
pub const UNDO_PATH: &str = "/oauth/undo";

/// The wait after the first failure. It doubles with each that follows.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The longest answer of a mail server that is kept, in characters.
const MOST_ANSWER: usize = 200;

/// What a mail is about. The names are part of the file format, of metrics and of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailKind {
    /// Somebody asked for a reset of an account that may not exist. It is looked up when its turn comes, so that the request
    /// takes the same time for all addresses; nothing is sent under this kind.
    ResetWanted,
    /// An address is to be proven that may be somebody else's. It is looked up when its turn comes, for the same reason.
    AddressWanted,
    Reset,
    PasskeysOnly,
    Invitation,
    VerificationCode,
    AccountExists,
    AddressChanged,
    Notice,
    Test,
}

impl MailKind {
    pub const ALL: [Self; 10] = [
        Self::ResetWanted,
        Self::AddressWanted,
        Self::Reset,
        Self::PasskeysOnly,
        Self::Invitation,
        Self::VerificationCode,
        Self::AccountExists,
        Self::AddressChanged,
        Self::Notice,
        Self::Test,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResetWanted => "reset_wanted",
            Self::AddressWanted => "address_wanted",
            Self::Reset => "reset",
            Self::PasskeysOnly => "passkeys_only",
            Self::Invitation => "invitation",
            Self::VerificationCode => "verification_code",
            Self::AccountExists => "account_exists",
            Self::AddressChanged => "address_changed",
            Self::Notice => "notice",
            Self::Test => "test",
        }
    }

    /// Whether somebody sits before a page and waits for it.
    pub const fn is_awaited(self) -> bool {
        match self {
            Self::ResetWanted
            | Self::AddressWanted
            | Self::Reset
            | Self::PasskeysOnly
            | Self::VerificationCode
            | Self::AccountExists
            | Self::Test => true,
            Self::Invitation | Self::AddressChanged | Self::Notice => false,
        }
    }

    /// For how long a mail of this kind is tried: no longer than what it carries is good.
    pub const fn tried_for(self) -> Duration {
        match self {
            Self::ResetWanted | Self::Reset => Duration::from_mins(30),
            Self::AddressWanted | Self::VerificationCode | Self::Test => Duration::from_mins(15),
            Self::PasskeysOnly | Self::AccountExists => Duration::from_hours(1),
            Self::Invitation => Duration::from_hours(48),
            Self::AddressChanged | Self::Notice => Duration::from_hours(72),
        }
    }
}

/// What a mail says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mail {
    /// `account`: the lookup key of the address or username that was typed. Itself it is not kept. `browser`: marks of which the
    /// account must know one; none where anybody may ask.
    ResetWanted {
        account: SecretHash,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        browser: Vec<SecretHash>,
    },
    /// `code`: for the one to whom this is sent, where nobody else has the address.
    AddressWanted {
        code: String,
        purpose: CodePurpose,
    },
    /// `token`: of the link.
    Reset {
        token: String,
    },
    /// A reset was asked for, and there is no password to reset.
    PasskeysOnly,
    /// `inviter`: name of the administrator. `app`: name of the application that the invitation leads to.
    Invitation {
        token: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inviter: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<String>,
    },
    /// Digits that are typed in the browser that began.
    VerificationCode {
        code: String,
        purpose: CodePurpose,
    },
    /// Somebody wanted to prove an address that has an account.
    AccountExists {
        #[serde(default)]
        purpose: CodePurpose,
    },
    /// To the old address. `token`: of the link that takes it back. `new_address`: partly hidden.
    AddressChanged {
        token: String,
        new_address: String,
    },
    /// `count`: how often it happened since the last mail about it.
    Notice {
        notice: Notice,
        count: u32,
    },
    Test,
}

impl Mail {
    pub const fn kind(&self) -> MailKind {
        match self {
            Self::ResetWanted { .. } => MailKind::ResetWanted,
            Self::AddressWanted { .. } => MailKind::AddressWanted,
            Self::Reset { .. } => MailKind::Reset,
            Self::PasskeysOnly => MailKind::PasskeysOnly,
            Self::Invitation { .. } => MailKind::Invitation,
            Self::VerificationCode { .. } => MailKind::VerificationCode,
            Self::AccountExists { .. } => MailKind::AccountExists,
            Self::AddressChanged { .. } => MailKind::AddressChanged,
            Self::Notice { .. } => MailKind::Notice,
            Self::Test => MailKind::Test,
        }
    }
}

/// Tokens and codes open something.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mail({})", self.kind().as_str())
    }
}

/// What a verification code proves the address for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodePurpose {
    /// The address that the account has.
    Address,
    /// An address that the account is to have.
    NewAddress,
    /// An account that is to be made.
    #[default]
    Registration,
}

/// What a person is told of, because a thief would do it. The names are part of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    PasswordChanged,
    PasswordReset,
    FactorAdded,
    FactorRemoved,
    /// Too many wrong second steps: that kind opens nothing any more.
    FactorBlocked,
    /// Several wrong second steps after the right password.
    FactorFailed,
    RecoveryCodeUsed,
    RecoveryCodesMade,
    /// A key was refused, since its count went back: somebody may have copied it.
    KeyMayBeCopied,
    AppPasswordCreated,
    /// To the new address.
    AddressChanged,
    /// To the address that was replaced, where nothing undoes the change.
    AddressReplaced,
    /// An administrator changed the account.
    AdministratorActed,
    /// An administrator removed all second steps.
    FactorsReset,
    /// To administrators: a client that registered itself is in use and needs an approval.
    ClientNeedsApproval,
}

impl Notice {
    pub const ALL: [Self; 15] = [
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
        Self::AddressChanged,
        Self::AddressReplaced,
        Self::AdministratorActed,
        Self::FactorsReset,
        Self::ClientNeedsApproval,
    ];
}

/// From where something was asked for or done, as far as the request told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    pub address: IpAddr,
    /// Browser and system, in words of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// A mail with all that its text is made of. The outbox holds it sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailMessage {
    /// Nobody yet for what is looked up later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Email>,
    pub language: Language,
    /// When it happened.
    pub at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RequestOrigin>,
    pub mail: Mail,
}

/// A mail that waits in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMail {
    pub id: MailId,
    pub kind: MailKind,
    /// Whose it is, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub created_at: UnixTime,
    /// When it is tried next. Who takes it to send it moves this on, so that another one tries it if they never return.
    pub due_at: UnixTime,
    /// It is of no use later.
    pub not_after: UnixTime,
    /// Tries that failed and were the mail's own fault or nobody's.
    pub attempts: u32,
    /// What the mail server said to the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    pub message: Sealed,
}

impl WaitingMail {
    /// A mail that is due at once.
    pub fn new(id: MailId, kind: MailKind, subject: Option<Subject>, message: Sealed, now: UnixTime) -> Self {
        let not_after = now.plus(kind.tried_for());
        Self { id, kind, subject, created_at: now, due_at: now, not_after, attempts: 0, last_answer: None, message }
    }

    /// The same while somebody tries to send it, for at most so long.
    #[must_use]
    pub fn taken(&self, now: UnixTime, lease: Duration) -> Self {
        Self { due_at: now.plus(lease), ..self.clone() }
    }

    /// The same after a try that failed and may succeed later. `jitter`: random; it moves the wait by a fifth at most. The last
    /// try is made shortly before the mail is of no use, however long the wait before it would be.
    ///
    /// # Errors
    /// When that was the last one: the mail is dead.
    pub fn postponed(&self, answer: &str, now: UnixTime, jitter: u8) -> Result<Self, DeadReason> {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.attempts.min(16)).min(LONGEST_WAIT);
        let wait = doubled.mul_f64(0.8 + 0.4 * f64::from(jitter) / 255.0);
        let left = self.not_after.since(now).saturating_sub(FIRST_WAIT);
        if left.is_zero() {
            return Err(DeadReason::Expired);
        }
        let due_at = now.plus(wait.min(left));
        Ok(Self { due_at, attempts: self.attempts + 1, last_answer: Some(cut(answer)), ..self.clone() })
    }

    /// The same at another time, without having been tried: the mail server is at fault, not the mail.
    ///
    /// # Errors
    /// As [`Self::postponed`].
    pub fn moved(&self, due_at: UnixTime) -> Result<Self, DeadReason> {
        if due_at > self.not_after { Err(DeadReason::Expired) } else { Ok(Self { due_at, ..self.clone() }) }
    }
}

/// Why a mail will not be tried again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// Its time was over before a mail server took it.
    Expired,
    /// The mail server refused it for good.
    Refused,
    /// No mail can be made of it: its address is none that mail servers take, or it does not open.
    Unsendable,
    /// The program failed on it.
    Failed,
}

impl DeadReason {
    pub const ALL: [Self; 4] = [Self::Expired, Self::Refused, Self::Unsendable, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Unsendable => "unsendable",
            Self::Failed => "failed",
        }
    }
}

/// A mail that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadMail {
    pub mail: WaitingMail,
    pub reason: DeadReason,
    pub at: UnixTime,
    pub expires_at: UnixTime,
}

/// That a mail was sent: for whoever asks whether it was. It has nothing of what the mail said.
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

/// How long it is known that a mail was sent, and how long one that was given up is kept.
pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

impl SentMail {
    pub fn new(mail: &WaitingMail, answer: &str, now: UnixTime) -> Self {
        let expires_at = now.plus(KEPT_FOR);
        Self { id: mail.id, kind: mail.kind, subject: mail.subject, at: now, answer: cut(answer), expires_at }
    }
}

impl DeadMail {
    pub fn new(mail: WaitingMail, reason: DeadReason, answer: Option<&str>, now: UnixTime) -> Self {
        let last_answer = answer.map(cut).or_else(|| mail.last_answer.clone());
        Self { mail: WaitingMail { last_answer, ..mail }, reason, at: now, expires_at: now.plus(KEPT_FOR) }
    }

    /// The mail as one that is due now, with the time of a new one. What it carries may have expired all the same.
    pub fn revived(&self, now: UnixTime) -> WaitingMail {
        let mail = self.mail.clone();
        WaitingMail { due_at: now, not_after: now.plus(mail.kind.tried_for()), attempts: 0, ..mail }
    }
}

/// A server's answer as it may be kept and shown: one line, not long.
fn cut(answer: &str) -> String {
    answer.chars().filter(|char| !char.is_control()).take(MOST_ANSWER).collect()
}

/// An address as it is shown to somebody who need not know it: the first letter and the domain.
pub fn partly_hidden(address: &Email) -> String {
    let (local, domain) = address.as_str().split_once('@').unwrap_or_default();
    let first = local.chars().next().map(String::from).unwrap_or_default();
    format!("{first}…@{domain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(kind: MailKind) -> WaitingMail {
        let now = UnixTime::from_seconds(1000);
        WaitingMail::new(MailId::from_bytes([1; 16]), kind, None, Sealed::from_bytes(vec![1]), now)
    }

    #[test]
    fn waits_double_up_to_an_hour_and_end_when_the_mail_is_of_no_use() {
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
        // A fifth to both sides.
        let wait =
            |jitter| waiting(MailKind::Notice).postponed("", UnixTime::from_seconds(1000), jitter).unwrap().due_at;
        assert_eq!((wait(0), wait(255)), (UnixTime::from_seconds(1024), UnixTime::from_seconds(1036)));
    }

    #[test]
    fn an_answer_is_kept_as_one_short_line() {
        let mail = waiting(MailKind::Test);
        let sent = SentMail::new(&mail, &format!("250 ok\r\nX: {}", "x".repeat(1000)), mail.created_at);
        assert!(sent.answer.starts_with("250 okX: xx") && sent.answer.len() == MOST_ANSWER);
    }

    #[test]
    fn a_hidden_address_has_its_first_letter_and_its_domain() {
        assert_eq!(partly_hidden(&Email::parse("şule@example.test").unwrap()), "ş…@example.test");
    }

    #[test]
    fn the_last_try_is_made_while_the_mail_is_of_use() {
        for jitter in [0, 128, 255] {
            let mut mail = waiting(MailKind::Reset);
            let end = mail.not_after;
            let (mut tries, mut now) = (Vec::new(), mail.created_at);
            while let Ok(next) = mail.postponed("451 later", now, jitter) {
                assert!(next.due_at > now && next.due_at < end, "{jitter}: {tries:?}");
                tries.push(next.due_at.seconds() - 1000);
                (now, mail) = (next.due_at, next);
            }
            // The wait before it would have ended after the mail's time.
            assert_eq!(tries.last(), Some(&(30 * 60 - 30)), "{jitter}: {tries:?}");
            assert!((6..=7).contains(&tries.len()), "{jitter}: {tries:?}");
        }
        // Between the last two is no wait of its own.
        let mail = waiting(MailKind::Reset);
        assert_eq!(mail.postponed("", UnixTime::from_seconds(1000 + 1770), 0), Err(DeadReason::Expired));
        assert_eq!(mail.postponed("", UnixTime::from_seconds(1000 + 9000), 0), Err(DeadReason::Expired));
    }

    #[test]
    fn nothing_that_opens_something_is_printed() {
        let mail = Mail::Reset { token: "hunter2".to_owned() };
        assert_eq!(format!("{mail:?}"), "Mail(reset)");
    }
}
