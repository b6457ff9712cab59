//! How records are laid out in the engine: the tables' keys, the indexes by person and client, the expiry index.
//!
//! One key space, one leading byte a table. Secrets never stand here in clear, only their hashes.

use crate::domain::answers::ProcessId;
use crate::domain::assurance::FactorId;
use crate::domain::audit::AuditId;
use crate::domain::client::ClientId;
use crate::domain::grant::GrantId;
use crate::domain::mail::MailId;
use crate::domain::secret::SecretHash;
use crate::domain::session::SessionId;
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;
use crate::store::engine::Key;

/// The tables. The byte is part of the file format: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Table {
    AppSession = b'a',
    Code = b'c',
    /// Browsers that people have signed in from.
    KnownBrowsers = b'd',
    /// Which record expires when.
    Expiry = b'e',
    /// What people sign in with beside their passwords.
    Factors = b'f',
    Grant = b'g',
    /// Whose security key or passkey is whose.
    Credential = b'h',
    Interaction = b'i',
    AppPasswords = b'k',
    Audit = b'j',
    Client = b'l',
    /// What the store says about itself, signing keys' times, wrapped data keys, and the seed of limits.
    Meta = b'm',
    Consent = b'n',
    /// What may be used once, such as initial access tokens.
    Once = b'o',
    /// Kept forms, sealed.
    Form = b'p',
    /// Access tokens that were revoked by themselves.
    RevokedToken = b'r',
    Session = b's',
    SignInAttempt = b't',
    User = b'u',
    /// Whose address is whose.
    Email = b'v',
    /// Whose username is whose.
    Username = b'w',
    /// Lists by person, client and age.
    Index = b'x',
    /// Mails that wait to be sent, sealed; the one that is due first comes first.
    Outbox = b'q',
    /// Mails that were given up, sealed.
    DeadMail = b'y',
    /// That mails were sent, without what they said.
    SentMail = b'z',
    /// How often a person was told of something.
    NoticeCount = b'b',
    /// What was mailed to a person that opens something, as hashes.
    AccountLinks = b'A',
    /// Accounts that strangers have asked for and not proven an address for.
    PendingRegistration = b'R',
    /// Revocations that are to be carried out.
    Revocation = b'O',
    /// Submitted forms that must take effect once, with their sealed results.
    Submission = b'S',
}

impl Table {
    pub(super) const ALL: [Self; 30] = [
        Self::AppSession,
        Self::Code,
        Self::KnownBrowsers,
        Self::Expiry,
        Self::Factors,
        Self::Grant,
        Self::Credential,
        Self::Interaction,
        Self::AppPasswords,
        Self::Audit,
        Self::Client,
        Self::Meta,
        Self::Consent,
        Self::Once,
        Self::Form,
        Self::RevokedToken,
        Self::Session,
        Self::SignInAttempt,
        Self::User,
        Self::Email,
        Self::Username,
        Self::Index,
        Self::Outbox,
        Self::DeadMail,
        Self::SentMail,
        Self::NoticeCount,
        Self::AccountLinks,
        Self::PendingRegistration,
        Self::Revocation,
        Self::Submission,
    ];

    /// The name in exports. Part of their format.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AppSession => "app_session",
            Self::Code => "code",
            Self::KnownBrowsers => "known_browsers",
            Self::Expiry => "expiry",
            Self::Factors => "factors",
            Self::Grant => "grant",
            Self::Credential => "credential",
            Self::Interaction => "interaction",
            Self::AppPasswords => "app_passwords",
            Self::Audit => "audit",
            Self::Client => "client",
            Self::Meta => "meta",
            Self::Consent => "consent",
            Self::Once => "once",
            Self::Form => "form",
            Self::RevokedToken => "revoked_token",
            Self::Session => "session",
            Self::SignInAttempt => "sign_in_attempt",
            Self::User => "user",
            Self::Email => "email",
            Self::Username => "username",
            Self::Index => "index",
            Self::Outbox => "outbox",
            Self::DeadMail => "dead_mail",
            Self::SentMail => "sent_mail",
            Self::NoticeCount => "notice_count",
            Self::AccountLinks => "account_links",
            Self::PendingRegistration => "pending_registration",
            Self::Revocation => "revocation",
            Self::Submission => "submission",
        }
    }

    /// The table of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&table| table as u8 == byte)
    }
}

fn key(table: Table, parts: &[&[u8]]) -> Key {
    let mut key = vec![table as u8];
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

pub(super) fn all(table: Table) -> Key {
    key(table, &[])
}

pub(super) fn code(hash: &SecretHash) -> Key {
    key(Table::Code, &[hash.as_bytes()])
}

pub(super) fn grant(id: GrantId) -> Key {
    key(Table::Grant, &[id.as_bytes()])
}

pub(super) fn session(id: SessionId) -> Key {
    key(Table::Session, &[id.as_bytes()])
}

pub(super) fn app_session(id: SessionId) -> Key {
    key(Table::AppSession, &[id.as_bytes()])
}

/// All interactions of a browser.
pub(super) fn interactions(browser: &SecretHash) -> Key {
    key(Table::Interaction, &[&browser.as_bytes()[..16]])
}

pub(super) fn interaction(browser: &SecretHash, id: &SecretHash) -> Key {
    key(Table::Interaction, &[&browser.as_bytes()[..16], &id.as_bytes()[..16]])
}

/// All sign-ins that the gate has started for a browser.
pub(super) fn sign_in_attempts(browser: &SecretHash) -> Key {
    key(Table::SignInAttempt, &[&browser.as_bytes()[..16]])
}

pub(super) fn sign_in_attempt(browser: &SecretHash, state: &SecretHash) -> Key {
    key(Table::SignInAttempt, &[&browser.as_bytes()[..16], &state.as_bytes()[..16]])
}

pub(super) fn client(id: &ClientId) -> Key {
    key(Table::Client, &[id.as_str().as_bytes()])
}

pub(super) fn user(subject: Subject) -> Key {
    key(Table::User, &[subject.as_bytes()])
}

pub(super) fn email(lookup: &SecretHash) -> Key {
    key(Table::Email, &[lookup.as_bytes()])
}

pub(super) fn username(lookup: &SecretHash) -> Key {
    key(Table::Username, &[lookup.as_bytes()])
}

/// The browsers that a person has signed in from.
pub(super) fn known_browsers(subject: Subject) -> Key {
    key(Table::KnownBrowsers, &[subject.as_bytes()])
}

/// What the sealed secret of one factor is bound to: the person's record of factors, and the factor in it.
pub(super) fn factor_secret(subject: Subject, factor: FactorId) -> Key {
    key(Table::Factors, &[subject.as_bytes(), factor.as_bytes()])
}

/// The application passwords of a person.
pub(super) fn app_passwords(subject: Subject) -> Key {
    key(Table::AppPasswords, &[subject.as_bytes()])
}

/// What a person signs in with beside their password.
pub(super) fn factors(subject: Subject) -> Key {
    key(Table::Factors, &[subject.as_bytes()])
}

/// Whose credential has the id of this hash.
pub(super) fn credential(id: &SecretHash) -> Key {
    key(Table::Credential, &[id.as_bytes()])
}

/// All consents of a person.
pub(super) fn consents(subject: Subject) -> Key {
    key(Table::Consent, &[subject.as_bytes()])
}

pub(super) fn consent(subject: Subject, client: &ClientId) -> Key {
    key(Table::Consent, &[subject.as_bytes(), client.as_str().as_bytes()])
}

pub(super) fn revoked_token(jti: &str) -> Key {
    key(Table::RevokedToken, &[SecretHash::of(jti.as_bytes()).as_bytes()])
}

/// Something that may happen once, such as the use of an initial access token.
pub(super) fn once(hash: &SecretHash) -> Key {
    key(Table::Once, &[hash.as_bytes()])
}

/// An event of the audit trail; the newest comes first.
pub(super) fn audit(id: AuditId) -> Key {
    key(Table::Audit, &[id.as_bytes()])
}

/// The events of the audit trail by age, the oldest first: index 1 has those that anybody can cause.
pub(super) fn audit_ages(index: usize) -> Key {
    key(Table::Index, &[b"a", if index == 0 { b"p" } else { b"s" }])
}

/// The version of the store.
pub(super) fn format() -> Key {
    key(Table::Meta, &[b"format"])
}

/// What one node has counted for all.
pub(super) fn counts() -> Key {
    key(Table::Meta, &[b"counts"])
}

/// Who has which factor, as one node has counted it for all.
pub(super) fn people_count() -> Key {
    key(Table::Meta, &[b"people_count"])
}

/// What a process reports about its answers to refreshes.
pub(super) fn answers(process: ProcessId) -> Key {
    key(Table::Meta, &[b"answers/", process.as_bytes()])
}

/// Which node does this work.
pub(super) fn lease(name: &str) -> Key {
    key(Table::Meta, &[b"lease/", name.as_bytes()])
}

pub(super) fn key_ring() -> Key {
    key(Table::Meta, &[b"keys"])
}

/// The host that keys are registered for.
pub(super) fn relying_party() -> Key {
    key(Table::Meta, &[b"relying_party"])
}

/// What the keys of limits are hashed with.
pub(super) fn limit_seed() -> Key {
    key(Table::Meta, &[b"limit_seed"])
}

/// Which data key the nodes of a fleet seal with.
pub(super) fn data_key_id() -> Key {
    key(Table::Meta, &[b"data_key_id"])
}

/// What a new node asks for.
pub(super) fn node_request(node: &str) -> Key {
    key(Table::Meta, &[b"node_request/", node.as_bytes()])
}

/// What a new node is sent.
pub(super) fn data_key_envelope(node: &str) -> Key {
    key(Table::Meta, &[b"node_data_key/", node.as_bytes()])
}

pub(super) fn data_keys() -> Key {
    key(Table::Meta, &[b"data_key/"])
}

/// The data key that this wrapping key wrapped.
pub(super) fn data_key(wrapping_id: &str) -> Key {
    key(Table::Meta, &[b"data_key/", wrapping_id.as_bytes()])
}

/// Of what the store knows of itself: the states of the signing keys, without which a token with several keys opens nothing; the
/// data keys, without which the same token opens no secret of an app; the host that people's keys are registered for.
pub(super) fn is_meta_that_travels(key: &[u8]) -> bool {
    key == key_ring() || key == relying_party() || key.starts_with(&data_keys())
}

/// All forms that are kept for a browser.
pub(super) fn forms(browser: &SecretHash) -> Key {
    key(Table::Form, &[&browser.as_bytes()[..16]])
}

pub(super) fn form(browser: &SecretHash, id: &SecretHash) -> Key {
    key(Table::Form, &[&browser.as_bytes()[..16], &id.as_bytes()[..16]])
}

/// The kept forms by age, the oldest first.
pub(super) fn form_ages() -> Key {
    key(Table::Index, &[b"f"])
}

pub(super) fn form_age(expires_at: UnixTime, form: &[u8]) -> Key {
    key(Table::Index, &[b"f", &expires_at.seconds().to_be_bytes(), form])
}

/// The form that an entry of its age leads to, and when it expires.
pub(super) fn form_of_age(entry: &[u8]) -> Option<(Key, UnixTime)> {
    let (seconds, form) = entry.get(2..)?.split_first_chunk()?;
    Some((form.to_vec(), UnixTime::from_seconds(u64::from_be_bytes(*seconds))))
}

/// An account that a stranger has asked for.
pub(super) fn pending_registration(id: &SecretHash) -> Key {
    key(Table::PendingRegistration, &[id.as_bytes()])
}

/// What was mailed to a person that opens something.
pub(super) fn account_links(subject: Subject) -> Key {
    key(Table::AccountLinks, &[subject.as_bytes()])
}

/// All open revocations of a user.
pub(super) fn revocations(subject: Subject) -> Key {
    key(Table::Revocation, &[subject.as_bytes()])
}

/// A revocation that is to be carried out.
pub(super) fn revocation(subject: Subject, at: UnixTime, number: u64) -> Key {
    key(Table::Revocation, &[subject.as_bytes(), &at.seconds().to_be_bytes(), &number.to_be_bytes()])
}

/// A submitted form.
pub(super) fn submission(id: &SecretHash) -> Key {
    key(Table::Submission, &[id.as_bytes()])
}

/// How often a person was told of something.
pub(super) fn notice_count(subject: Subject, notice: &str) -> Key {
    key(Table::NoticeCount, &[subject.as_bytes(), notice.as_bytes()])
}

/// A mail in the outbox. It sorts by when it is due.
pub(super) fn waiting_mail(due_at: UnixTime, id: MailId) -> Key {
    key(Table::Outbox, &[&due_at.seconds().to_be_bytes(), id.as_bytes()])
}

/// When the mail with this key is due.
pub(super) fn mail_due_at(waiting: &[u8]) -> Option<UnixTime> {
    Some(UnixTime::from_seconds(u64::from_be_bytes(*waiting.get(1..)?.first_chunk()?)))
}

/// What the sealed text of a mail is bound to, wherever the mail lies.
pub(super) fn mail_text(id: MailId) -> Key {
    key(Table::Outbox, &[id.as_bytes()])
}

pub(super) fn dead_mail(at: UnixTime, id: MailId) -> Key {
    key(Table::DeadMail, &[&at.seconds().to_be_bytes(), id.as_bytes()])
}

/// That a mail was sent; the newest comes first.
pub(super) fn sent_mail(at: UnixTime, id: MailId) -> Key {
    key(Table::SentMail, &[&(!at.seconds()).to_be_bytes(), id.as_bytes()])
}

/// What an index leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Indexed {
    Audit = b'j',
    Grant = b'g',
    Session = b's',
}

/// The entries of one kind for a person.
pub(super) fn of_user(subject: Subject, kind: Indexed) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), &[kind as u8]])
}

/// Sign-ins of a user that are pending.
pub(super) fn pending_sign_ins(subject: Subject) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), b"i"])
}

/// The entry of one of them. The oldest sorts first.
pub(super) fn pending_sign_in(subject: Subject, created_at: UnixTime, interaction: &[u8]) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), b"i", &created_at.seconds().to_be_bytes(), interaction])
}

/// The interaction that an entry of a pending sign-in leads to.
pub(super) fn interaction_of_pending(entry: &[u8]) -> Option<Key> {
    // Behind the table, the kind of index, the user, the kind of record and the time.
    entry.get(1 + 1 + 16 + 1 + 8..).map(<[u8]>::to_vec)
}

/// The entries of one kind for a client. The zero byte ends the id, so that `wiki` does not match `wiki2`.
pub(super) fn of_client(client: &ClientId, kind: Indexed) -> Key {
    key(Table::Index, &[b"c", client.as_str().as_bytes(), &[0, kind as u8]])
}

/// An index entry: the prefix of its person or client, and the id it leads to.
pub(super) fn entry(mut prefix: Key, id: &[u8; 16]) -> Key {
    prefix.extend_from_slice(id);
    prefix
}

/// The id at the end of an index entry.
pub(super) fn entry_id(entry: &[u8]) -> Option<[u8; 16]> {
    entry.get(entry.len().checked_sub(16)?..)?.try_into().ok()
}

/// The expiry index: the minute after which the record may go, and its key. Written once, when the record is made; a
/// record that lives longer by then is entered again by the sweeper, so that rotations rewrite no index.
pub(super) fn expiry(at: UnixTime, record: &[u8]) -> Key {
    let minute = u32::try_from(at.seconds() / 60 + grace_minutes(record)).unwrap_or(u32::MAX);
    key(Table::Expiry, &[&minute.to_be_bytes(), record])
}

/// How long an expired record is kept: clocks differ, and a replay of a code is worth seeing a little longer. What
/// strangers can make goes at once: it takes up the place of others. A revocation that is due is work, and waits for nothing.
fn grace_minutes(record: &[u8]) -> u64 {
    match record.first().copied().and_then(Table::from_byte) {
        Some(
            Table::Interaction | Table::SignInAttempt | Table::Form | Table::PendingRegistration | Table::Revocation,
        ) => 0,
        _ => 10,
    }
}

/// After which to look in the expiry index for requests that wait for a person, past one of another table.
pub(super) fn expiry_skip(minute: u32, record: &[u8]) -> Key {
    let here = record.first().copied().unwrap_or_default();
    let waiting = [Table::Interaction as u8, Table::SignInAttempt as u8];
    // No record's key has the table's byte alone, so the bare byte sorts before all of the table.
    let next = waiting.into_iter().find(|table| *table > here).unwrap_or(u8::MAX);
    key(Table::Expiry, &[&minute.to_be_bytes(), &[next]])
}

/// Minute and record of an expiry entry.
pub(super) fn expiry_of(entry: &[u8]) -> Option<(u32, &[u8])> {
    let (minute, record) = entry.get(1..)?.split_at_checked(4)?;
    Some((u32::from_be_bytes(minute.try_into().ok()?), record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_index_does_not_cover_a_longer_name() {
        let short = of_client(&ClientId::parse("wiki").unwrap(), Indexed::Grant);
        let long = entry(of_client(&ClientId::parse("wiki2").unwrap(), Indexed::Grant), &[1; 16]);
        assert!(!long.starts_with(&short));
    }

    #[test]
    fn expiry_entries_sort_by_time() {
        let soon = expiry(UnixTime::from_seconds(120), b"z");
        let late = expiry(UnixTime::from_seconds(180), b"a");
        assert!(soon < late);
        assert_eq!(expiry_of(&soon), Some((12, b"z".as_slice())));
        // What strangers can make is kept no minute longer.
        let interaction = [Table::Interaction as u8, 1];
        let entry = expiry(UnixTime::from_seconds(120), &interaction);
        assert_eq!(expiry_of(&entry), Some((2, interaction.as_slice())));
    }
}
