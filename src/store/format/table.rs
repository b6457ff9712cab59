//! Keys of all records: tables, indexes by user and client, and the expiry index.
//!
//! All tables share one key space. The first byte of a key is its table. Keys contain no secrets,
//! only hashes of secrets.

use crate::certificates::CertificatePart;
use crate::engine::Key;
use crate::subjects::app_credentials::AppSite;
use crate::subjects::sources::UpstreamTokenKind;
use sealgate_domain::answers::ProcessId;
use sealgate_domain::assurance::FactorId;
use sealgate_domain::audit::AuditId;
use sealgate_domain::client::{ClientFeature, ClientId};
use sealgate_domain::client_logout::ClientLogoutId;
use sealgate_domain::grant::GrantId;
use sealgate_domain::mail::MailId;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionId;
use sealgate_domain::source::SourceName;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Table of records. Its byte is part of the file format, so it must never be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Table {
    AppSession = b'a',
    Code = b'c',
    /// Browsers from which users have signed in.
    KnownBrowsers = b'd',
    /// Expiry index of records.
    Expiry = b'e',
    /// Second factors and passkeys of users.
    Factors = b'f',
    Grant = b'g',
    /// Index from credentials (security keys and passkeys) to users.
    Credential = b'h',
    Interaction = b'i',
    AppPasswords = b'k',
    /// Names and passwords of users at applications, with sealed passwords.
    AppCredentials = b'L',
    Audit = b'j',
    Client = b'l',
    /// Metadata of the store, such as the format, the signing keys, wrapped data keys and the seed
    /// of limits.
    Meta = b'm',
    Consent = b'n',
    /// Items that can be used only once, such as logout tokens of providers.
    Once = b'o',
    /// Stored forms, sealed.
    Form = b'p',
    /// Access tokens that were revoked individually.
    RevokedToken = b'r',
    Session = b's',
    SignInAttempt = b't',
    User = b'u',
    /// Index from e-mail addresses to users.
    Email = b'v',
    /// Index from usernames to users.
    Username = b'w',
    /// Index from users at a source to users.
    SourceLink = b'D',
    /// Indexes by user, client and age.
    Index = b'x',
    /// Queued e-mails, sealed, ordered by due time.
    Outbox = b'q',
    /// E-mails that could not be delivered, sealed.
    DeadMail = b'y',
    /// Records of sent e-mails, without their text.
    SentMail = b'z',
    /// Number of notifications sent to a user.
    NoticeCount = b'b',
    /// Hashes of the links and codes that were e-mailed to a user.
    AccountLinks = b'A',
    /// Self-registrations whose e-mail address is not confirmed.
    PendingRegistration = b'R',
    /// Pending revocations.
    Revocation = b'O',
    /// Submitted forms that take effect only once, with their sealed results.
    Submission = b'S',
    /// Queued logouts at clients, ordered by client and due time.
    ClientLogout = b'B',
    /// Tokens for the admin API.
    ApiToken = b'T',
    /// Pictures of clients' logos.
    ClientLogo = b'P',
    /// Initial access tokens, which register clients.
    RegistrationToken = b'I',
}

impl Table {
    pub(crate) const ALL: [Self; 36] = [
        Self::AppSession,
        Self::Code,
        Self::KnownBrowsers,
        Self::Expiry,
        Self::Factors,
        Self::Grant,
        Self::Credential,
        Self::Interaction,
        Self::AppPasswords,
        Self::AppCredentials,
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
        Self::SourceLink,
        Self::Index,
        Self::Outbox,
        Self::DeadMail,
        Self::SentMail,
        Self::NoticeCount,
        Self::AccountLinks,
        Self::PendingRegistration,
        Self::Revocation,
        Self::Submission,
        Self::ClientLogout,
        Self::ApiToken,
        Self::ClientLogo,
        Self::RegistrationToken,
    ];

    /// Returns the name of the table in exports, which is part of their format.
    pub(crate) fn name(self) -> &'static str {
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
            Self::AppCredentials => "app_credentials",
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
            Self::SourceLink => "source_link",
            Self::Index => "index",
            Self::Outbox => "outbox",
            Self::DeadMail => "dead_mail",
            Self::SentMail => "sent_mail",
            Self::NoticeCount => "notice_count",
            Self::AccountLinks => "account_links",
            Self::PendingRegistration => "pending_registration",
            Self::Revocation => "revocation",
            Self::Submission => "submission",
            Self::ClientLogout => "client_logout",
            Self::ApiToken => "api_token",
            Self::ClientLogo => "client_logo",
            Self::RegistrationToken => "registration_token",
        }
    }

    /// Returns the table with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
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

pub(crate) fn all(table: Table) -> Key {
    key(table, &[])
}

pub(crate) fn code(hash: &SecretHash) -> Key {
    key(Table::Code, &[hash.as_bytes()])
}

pub(crate) fn grant(id: GrantId) -> Key {
    key(Table::Grant, &[id.as_bytes()])
}

pub(crate) fn session(id: SessionId) -> Key {
    key(Table::Session, &[id.as_bytes()])
}

pub(crate) fn app_session(id: SessionId) -> Key {
    key(Table::AppSession, &[id.as_bytes()])
}

/// Prefix of all interactions of a browser.
pub(crate) fn interactions(browser: &SecretHash) -> Key {
    key(Table::Interaction, &[&browser.as_bytes()[..16]])
}

pub(crate) fn interaction(browser: &SecretHash, id: &SecretHash) -> Key {
    key(Table::Interaction, &[&browser.as_bytes()[..16], &id.as_bytes()[..16]])
}

/// Prefix of all sign-ins that the gateway has started for a browser.
pub(crate) fn sign_in_attempts(browser: &SecretHash) -> Key {
    key(Table::SignInAttempt, &[&browser.as_bytes()[..16]])
}

pub(crate) fn sign_in_attempt(browser: &SecretHash, state: &SecretHash) -> Key {
    key(Table::SignInAttempt, &[&browser.as_bytes()[..16], &state.as_bytes()[..16]])
}

pub(crate) fn client(id: &ClientId) -> Key {
    key(Table::Client, &[id.as_str().as_bytes()])
}

/// Key of an initial access token.
pub(crate) fn registration_token(hash: &SecretHash) -> Key {
    key(Table::RegistrationToken, &[hash.as_bytes()])
}

/// Key of the picture of a client's logo.
pub(crate) fn client_logo(id: &ClientId) -> Key {
    key(Table::ClientLogo, &[id.as_str().as_bytes()])
}

pub(crate) fn user(subject: Subject) -> Key {
    key(Table::User, &[subject.as_bytes()])
}

/// Returns whether this is the key of a user's record.
pub(crate) fn is_user(key: &[u8]) -> bool {
    key.first() == Some(&(Table::User as u8))
}

pub(crate) fn email(lookup: &SecretHash) -> Key {
    key(Table::Email, &[lookup.as_bytes()])
}

pub(crate) fn username(lookup: &SecretHash) -> Key {
    key(Table::Username, &[lookup.as_bytes()])
}

/// Key of the index entry of a user at a source.
pub(crate) fn source_link(lookup: &SecretHash) -> Key {
    key(Table::SourceLink, &[lookup.as_bytes()])
}

/// Key of the browsers from which a user has signed in.
pub(crate) fn known_browsers(subject: Subject) -> Key {
    key(Table::KnownBrowsers, &[subject.as_bytes()])
}

/// Context that the sealed secret of a factor is bound to. No record has this key.
pub(crate) fn factor_secret(subject: Subject, factor: FactorId) -> Key {
    key(Table::Factors, &[subject.as_bytes(), factor.as_bytes()])
}

/// Key of a user's application passwords.
pub(crate) fn app_passwords(subject: Subject) -> Key {
    key(Table::AppPasswords, &[subject.as_bytes()])
}

/// Key of a user's names and passwords at applications.
pub(crate) fn app_credentials(subject: Subject) -> Key {
    key(Table::AppCredentials, &[subject.as_bytes()])
}

/// Context that a user's sealed password at an application is bound to. No record has this key. The
/// name of an application contains no zero byte, so the parts are unambiguous.
pub(crate) fn app_credential_secret(subject: Subject, app: AppSite<'_>) -> Key {
    key(Table::AppCredentials, &[subject.as_bytes(), app.name.as_bytes(), &[0], app.host.as_bytes()])
}

/// Context that a sealed token of a user's OpenID provider is bound to. No record has this key.
pub(crate) fn upstream_token(subject: Subject, source: &SourceName, kind: UpstreamTokenKind) -> Key {
    let parts = [subject.as_bytes().as_slice(), source.as_str().as_bytes(), &[0], kind.as_str().as_bytes()];
    key(Table::SourceLink, &parts)
}

/// Key of a user's factors.
pub(crate) fn factors(subject: Subject) -> Key {
    key(Table::Factors, &[subject.as_bytes()])
}

/// Index key of the credential whose ID has this hash.
pub(crate) fn credential(id: &SecretHash) -> Key {
    key(Table::Credential, &[id.as_bytes()])
}

/// Prefix of a user's consents.
pub(crate) fn consents(subject: Subject) -> Key {
    key(Table::Consent, &[subject.as_bytes()])
}

pub(crate) fn consent(subject: Subject, client: &ClientId) -> Key {
    key(Table::Consent, &[subject.as_bytes(), client.as_str().as_bytes()])
}

pub(crate) fn revoked_token(jti: &str) -> Key {
    key(Table::RevokedToken, &[SecretHash::for_secret(jti.as_bytes()).as_bytes()])
}

/// Key of a one-time item, such as a logout token.
pub(crate) fn once(hash: &SecretHash) -> Key {
    key(Table::Once, &[hash.as_bytes()])
}

/// Key of the id (`jti`) of a logout token that an OpenID provider has sent.
///
/// The id is hashed twice, so that the hash of no other text, such as a token, is the key.
pub(crate) fn logout_token(source: &SourceName, jti: &str) -> Key {
    let hash = SecretHash::for_secret(&[b"logout ", source.as_str().as_bytes(), &[0], jti.as_bytes()].concat());
    once(&SecretHash::for_secret(hash.as_bytes()))
}

/// Key of the time at which an OpenID provider has ended a session. No `jti` contains a zero byte before
/// it.
pub(crate) fn ended_upstream_session(source: &SourceName, sid: &str) -> Key {
    logout_token(source, &format!("\0sid {sid}"))
}

/// Key of the id (`jti`) of an assertion that a client has used. It is hashed twice, as in
/// [`logout_token`]. No client id contains a zero byte, so the parts are unambiguous.
pub(crate) fn client_assertion(client: &ClientId, jti: &str) -> Key {
    let hash = SecretHash::for_secret(&[b"assertion ", client.as_str().as_bytes(), &[0], jti.as_bytes()].concat());
    once(&SecretHash::for_secret(hash.as_bytes()))
}

/// Key of an audit event. The newest sorts first.
pub(crate) fn audit(id: AuditId) -> Key {
    key(Table::Audit, &[id.as_bytes()])
}

/// Prefix of the audit events by age, oldest first. Index 1 has the events that unauthenticated
/// clients can cause, and index 0 all others.
pub(crate) fn audit_ages(index: usize) -> Key {
    key(Table::Index, &[b"a", if index == 0 { b"p" } else { b"s" }])
}

/// Key of the store's format.
pub(crate) fn format() -> Key {
    key(Table::Meta, &[b"format"])
}

/// Key of the totals that one node publishes for all.
pub(crate) fn counts() -> Key {
    key(Table::Meta, &[b"counts"])
}

/// Key of the number of users by factor that one node publishes for all.
pub(crate) fn user_counts() -> Key {
    key(Table::Meta, &[b"people_count"])
}

/// Prefix of the reports of all processes on their answers to refresh requests.
pub(crate) fn all_answers() -> Key {
    key(Table::Meta, &[b"answers/"])
}

/// Key of a process's report on its answers to refresh requests.
pub(crate) fn answers(process: ProcessId) -> Key {
    key(Table::Meta, &[b"answers/", process.as_bytes()])
}

/// Key of the time at which an administrator accepted the loss of many accounts at a source.
pub(crate) fn accepted_loss(source: &SourceName) -> Key {
    key(Table::Meta, &[b"accepted_loss/", source.as_str().as_bytes()])
}

/// Key of the time since which a source has not been read.
pub(crate) fn unread_since(source: &SourceName) -> Key {
    key(Table::Meta, &[b"unread_since/", source.as_str().as_bytes()])
}

/// Key of the time at which an OpenID provider last answered a background read of any node.
pub(crate) fn upstream_answer(source: &SourceName) -> Key {
    key(Table::Meta, &[b"upstream_answer/", source.as_str().as_bytes()])
}

/// Key of a lease.
pub(crate) fn lease(name: &str) -> Key {
    key(Table::Meta, &[b"lease/", name.as_bytes()])
}

pub(crate) fn key_ring() -> Key {
    key(Table::Meta, &[b"keys"])
}

/// Key of the record with the keys of other algorithms than RS256, which belong to the key ring.
pub(crate) fn further_keys() -> Key {
    key(Table::Meta, &[b"further_keys"])
}

/// Key of the host (relying party ID) for which security keys are registered.
pub(crate) fn relying_party() -> Key {
    key(Table::Meta, &[b"relying_party"])
}

/// Key of the seed with which keys of rate limits are hashed.
pub(crate) fn limit_seed() -> Key {
    key(Table::Meta, &[b"limit_seed"])
}

/// Key of the record with the id of the data key that all nodes use.
pub(crate) fn data_key_id() -> Key {
    key(Table::Meta, &[b"data_key_id"])
}

/// Key of a part of the cluster's ACME data.
pub(crate) fn certificate_part(part: CertificatePart<'_>) -> Key {
    match part {
        CertificatePart::Orders => key(Table::Meta, &[b"certificates/orders"]),
        CertificatePart::Host(host) => key(Table::Meta, &[b"certificates/host/", host.as_bytes()]),
    }
}

/// Key of a new node's request for the data key.
pub(crate) fn node_request(node: &str) -> Key {
    key(Table::Meta, &[b"node_request/", node.as_bytes()])
}

/// Key of the record with the data key, encrypted for a new node.
pub(crate) fn data_key_envelope(node: &str) -> Key {
    key(Table::Meta, &[b"node_data_key/", node.as_bytes()])
}

pub(crate) fn data_keys() -> Key {
    key(Table::Meta, &[b"data_key/"])
}

/// Key of the record with the data key, wrapped by this wrapping key.
pub(crate) fn data_key(wrapping_id: &str) -> Key {
    key(Table::Meta, &[b"data_key/", wrapping_id.as_bytes()])
}

/// Returns whether a metadata record is exported. These records are:
///
/// - The key ring, in two records. Without it, a token with several signing keys cannot be used.
/// - Wrapped data keys. Without them, the same token cannot unseal the secrets of authenticator
///   apps.
/// - The relying party: the host for which security keys are registered.
/// - Reports on answers to refresh requests. Without them, a rotated refresh token would be
///   accepted for a while.
pub(crate) fn is_meta_that_travels(key: &[u8]) -> bool {
    key == key_ring()
        || key == further_keys()
        || key == relying_party()
        || [data_keys(), all_answers()].iter().any(|prefix| key.starts_with(prefix))
}

/// Prefix of all stored forms of a browser.
pub(crate) fn forms(browser: &SecretHash) -> Key {
    key(Table::Form, &[&browser.as_bytes()[..16]])
}

pub(crate) fn form(browser: &SecretHash, id: &SecretHash) -> Key {
    key(Table::Form, &[&browser.as_bytes()[..16], &id.as_bytes()[..16]])
}

/// Prefix of the stored forms by age, oldest first.
pub(crate) fn form_ages() -> Key {
    key(Table::Index, &[b"f"])
}

pub(crate) fn form_age(expires_at: UnixTime, form: &[u8]) -> Key {
    key(Table::Index, &[b"f", &expires_at.seconds().to_be_bytes(), form])
}

/// Returns a form's key and expiry from an entry of the index of form ages.
pub(crate) fn form_of_age(entry: &[u8]) -> Option<(Key, UnixTime)> {
    let (seconds, form) = entry.get(2..)?.split_first_chunk()?;
    Some((form.to_vec(), UnixTime::from_seconds(u64::from_be_bytes(*seconds))))
}

/// Key of a pending self-registration.
pub(crate) fn pending_registration(id: &SecretHash) -> Key {
    key(Table::PendingRegistration, &[id.as_bytes()])
}

/// Key of the links and codes that were e-mailed to a user.
pub(crate) fn account_links(subject: Subject) -> Key {
    key(Table::AccountLinks, &[subject.as_bytes()])
}

/// Prefix of a user's pending revocations.
pub(crate) fn revocations(subject: Subject) -> Key {
    key(Table::Revocation, &[subject.as_bytes()])
}

/// Key of a pending revocation.
pub(crate) fn revocation(subject: Subject, at: UnixTime, number: u64) -> Key {
    key(Table::Revocation, &[subject.as_bytes(), &at.seconds().to_be_bytes(), &number.to_be_bytes()])
}

/// Key of a token for the admin API.
pub(crate) fn api_token(hash: &SecretHash) -> Key {
    key(Table::ApiToken, &[hash.as_bytes()])
}

/// Key of a submitted form that takes effect only once.
pub(crate) fn submission(id: &SecretHash) -> Key {
    key(Table::Submission, &[id.as_bytes()])
}

/// Key of the number of notifications of one kind to a user.
pub(crate) fn notice_counts(subject: Subject) -> Key {
    key(Table::NoticeCount, &[subject.as_bytes()])
}

pub(crate) fn notice_count(subject: Subject, notice: &str) -> Key {
    key(Table::NoticeCount, &[subject.as_bytes(), notice.as_bytes()])
}

/// Key of a queued e-mail. E-mails are ordered by due time.
pub(crate) fn waiting_mail(due_at: UnixTime, id: MailId) -> Key {
    key(Table::Outbox, &[&due_at.seconds().to_be_bytes(), id.as_bytes()])
}

/// Returns when the queued e-mail with this key is due.
pub(crate) fn mail_due_at(waiting: &[u8]) -> Option<UnixTime> {
    Some(UnixTime::from_seconds(u64::from_be_bytes(*waiting.get(1..)?.first_chunk()?)))
}

/// Context that the sealed text of an e-mail is bound to, in all tables. No record has this key.
pub(crate) fn mail_text(id: MailId) -> Key {
    key(Table::Outbox, &[id.as_bytes()])
}

pub(crate) fn dead_mail(at: UnixTime, id: MailId) -> Key {
    key(Table::DeadMail, &[&at.seconds().to_be_bytes(), id.as_bytes()])
}

/// Key of the record of a sent e-mail. The newest e-mail sorts first.
pub(crate) fn sent_mail(at: UnixTime, id: MailId) -> Key {
    key(Table::SentMail, &[&(!at.seconds()).to_be_bytes(), id.as_bytes()])
}

/// Prefix of the queued logouts of a client. It contains a hash, because an id may be the start of
/// another one.
pub(crate) fn client_logouts(client: &ClientId) -> Key {
    let hash = SecretHash::for_secret(client.as_str().as_bytes());
    key(Table::ClientLogout, &[&hash.as_bytes()[..16]])
}

/// Key of a queued logout. The logouts of a client are ordered by due time.
pub(crate) fn client_logout(client: &ClientId, due_at: UnixTime, id: ClientLogoutId) -> Key {
    [client_logouts(client).as_slice(), &due_at.seconds().to_be_bytes(), id.as_bytes()].concat()
}

/// Returns a key after all queued logouts of a client, and before those of the next client.
pub(crate) fn end_of_client_logouts(client: &ClientId) -> Key {
    [client_logouts(client).as_slice(), &[u8::MAX; 25]].concat()
}

/// Prefix of the index entries of the clients that need a feature.
pub(crate) fn clients_with(feature: ClientFeature) -> Key {
    let feature = match feature {
        ClientFeature::BackchannelLogout => b"l",
        ClientFeature::Introspection => b"i",
        ClientFeature::Assertions => b"a",
    };
    key(Table::Index, &[b"w", feature])
}

/// Returns whether this is an index entry of a client that needs a feature.
pub(crate) fn is_of_client_features(entry: &[u8]) -> bool {
    entry.starts_with(&[Table::Index as u8, b'w'])
}

/// Index key of a client that needs a feature.
pub(crate) fn client_with(feature: ClientFeature, client: &ClientId) -> Key {
    [clients_with(feature).as_slice(), client.as_str().as_bytes()].concat()
}

/// Table that an index refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Indexed {
    Audit = b'j',
    Grant = b'g',
    Session = b's',
}

/// Prefix of a user's index entries of one kind.
pub(crate) fn of_user(subject: Subject, kind: Indexed) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), &[kind as u8]])
}

/// Prefix of a user's pending sign-ins.
pub(crate) fn pending_sign_ins(subject: Subject) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), b"i"])
}

/// Index key of a pending sign-in. The oldest sign-in sorts first.
pub(crate) fn pending_sign_in(subject: Subject, created_at: UnixTime, interaction: &[u8]) -> Key {
    key(Table::Index, &[b"u", subject.as_bytes(), b"i", &created_at.seconds().to_be_bytes(), interaction])
}

/// Returns the interaction's key from an entry of the index of pending sign-ins.
pub(crate) fn interaction_of_pending(entry: &[u8]) -> Option<Key> {
    // Skip the table, the kind of index, the user, the kind of record, and the time.
    entry.get(1 + 1 + 16 + 1 + 8..).map(<[u8]>::to_vec)
}

/// Prefix of the index entries of the sessions with a sign-in that has this `sid` at an OpenID
/// provider. The name of a provider contains no zero byte, so the parts are unambiguous.
pub(crate) fn of_upstream_session(source: &SourceName, sid: &str) -> Key {
    let hash = SecretHash::for_secret(&[source.as_str().as_bytes(), &[0], sid.as_bytes()].concat());
    key(Table::Index, &[b"o", hash.as_bytes()])
}

/// Prefix of the index entries of the sessions with a sign-in that has this `sub` at an OpenID provider,
/// where the id of the user is another claim. No `sid` contains a zero byte before it.
pub(crate) fn of_upstream_subject(source: &SourceName, sub: &str) -> Key {
    of_upstream_session(source, &format!("\0sub {sub}"))
}

/// Prefix of the index entries of the application sessions that depend on a session.
pub(crate) fn app_sessions_of(parent: SessionId) -> Key {
    key(Table::Index, &[b"s", parent.as_bytes()])
}

/// Prefix of a client's index entries of one kind. A zero byte follows the id, so that the entries
/// of `wiki2` do not match `wiki`.
pub(crate) fn of_client(client: &ClientId, kind: Indexed) -> Key {
    key(Table::Index, &[b"c", client.as_str().as_bytes(), &[0, kind as u8]])
}

/// Returns an index entry: the prefix of the user or client, and the id of the record.
pub(crate) fn entry(mut prefix: Key, id: &[u8; 16]) -> Key {
    prefix.extend_from_slice(id);
    prefix
}

/// Returns the record ID at the end of an index entry.
pub(crate) fn entry_id(entry: &[u8]) -> Option<[u8; 16]> {
    entry.get(entry.len().checked_sub(16)?..)?.try_into().ok()
}

/// Key in the expiry index: the minute after which the record may be deleted, and the key of the
/// record.
///
/// The entry is written only when the record is created. If the record has got a later expiry when
/// the entry is due, garbage collection adds a new entry. Therefore the rotation of a refresh token
/// need not change the index.
pub(crate) fn expiry(at: UnixTime, record: &[u8]) -> Key {
    let minute = u32::try_from(at.seconds() / 60 + grace_minutes(record)).unwrap_or(u32::MAX);
    key(Table::Expiry, &[&minute.to_be_bytes(), record])
}

/// Returns the number of minutes for which an expired record is kept.
///
/// Records are kept because clocks differ, and so that a replayed code is detected. Records that
/// unauthenticated clients can create are deleted at once, because they use up a limit. A due
/// revocation is not delayed either.
fn grace_minutes(record: &[u8]) -> u64 {
    match record.first().copied().and_then(Table::from_byte) {
        Some(
            Table::Interaction | Table::SignInAttempt | Table::Form | Table::PendingRegistration | Table::Revocation,
        ) => 0,
        _ => 10,
    }
}

/// Returns where to continue a search of the expiry index for interactions and sign-in attempts.
/// `minute` and `record` are from the previous entry.
pub(crate) fn expiry_skip(minute: u32, record: &[u8]) -> Key {
    let here = record.first().copied().unwrap_or_default();
    let waiting = [Table::Interaction as u8, Table::SignInAttempt as u8];
    // No record has only the table byte as its key. That byte sorts before all keys of the table.
    let next = waiting.into_iter().find(|table| *table > here).unwrap_or(u8::MAX);
    key(Table::Expiry, &[&minute.to_be_bytes(), &[next]])
}

/// Returns the minute and the record's key from an entry of the expiry index.
pub(crate) fn expiry_of(entry: &[u8]) -> Option<(u32, &[u8])> {
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
        // Records that unauthenticated clients can create are deleted at once.
        let interaction = [Table::Interaction as u8, 1];
        let entry = expiry(UnixTime::from_seconds(120), &interaction);
        assert_eq!(expiry_of(&entry), Some((2, interaction.as_slice())));
    }
}
