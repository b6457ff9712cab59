//! What a command yields. Names are those that stand on the wire of OAuth and OpenID Connect; no hash of a password, secret
//! or cookie is ever among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use zeroize::Zeroize;

use crate::domain::account_links::InvitationState;
use crate::domain::app_password::AppPassword;
use crate::domain::assurance::AssuranceLevel;
use crate::domain::audit::{AuditId, AuditKind};
use crate::domain::client::{
    AuthMethod, Client, ClientDecision, ClientId, ClientSecret, ClientState, ClientType, ConsentRule, GrantType,
};
use crate::domain::consent::Consent;
use crate::domain::factor_failures::{FactorFailures, TryVerdict};
use crate::domain::grant::{Grant, GrantId};
use crate::domain::key_ring::{KeyLife, KeyState};
use crate::domain::language::Language;
use crate::domain::mail::{DeadMail, DeadReason, MailId, MailKind, SentMail, WaitingMail};
use crate::domain::rate_limit::RateLimit;
use crate::domain::redirect_uri::RedirectUri;
use crate::domain::scope::Scope;
use crate::domain::secret::Secret;
use crate::domain::session::{Session, SessionId, SignIn};
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Role, Subject, User, UserState};
use crate::domain::username::Username;
use crate::factors::{FactorKind, Factors};
use crate::password::foreign_scheme;
use crate::store::AuditRecord;

/// The answer to a command. A secret in it is wiped when it is dropped and never printed by `Debug`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(ServerStatus),
    Reloaded(Reloaded),
    Backup(BackupMade),
    /// A person, and what was done to them.
    User(Box<UserAnswer>),
    Imported(ImportAnswer),
    Invited(InvitedAnswer),
    /// A client, and what was done to it.
    Client(Box<ClientAnswer>),
    InitialToken(InitialToken),
    Keys(KeysAnswer),
    Ended(Box<EndedAnswer>),
    Page(ListPage),
}

impl Answer {
    /// The answer as one JSON object, which is how it is printed.
    pub fn members(&self) -> Members {
        match serde_json::to_value(self) {
            // One member: the kind of answer, with the answer.
            Ok(Value::Object(tagged)) => match tagged.into_iter().next() {
                Some((_, Value::Object(members))) => Members(members),
                _ => Members(Map::new()),
            },
            _ => Members(Map::new()),
        }
    }
}

/// The members of an answer. Texts are wiped when they are dropped: one may be a secret.
#[derive(Serialize)]
pub struct Members(Map<String, Value>);

impl Deref for Members {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for value in self.0.values_mut() {
            if let Value::String(text) = value {
                text.zeroize();
            }
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerStatus {
    pub(super) version: String,
    pub(super) store: String,
    pub(super) open_interactions: usize,
    /// The host that people's security keys and passkeys are for, where anybody has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_of: Option<String>,
    #[serde(flatten)]
    pub(super) rotation: Rotation,
}

/// When the server rotates its keys by itself, and why it does not; nothing where it is not told to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rotation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_key_at: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_rotation_at: Option<UnixTime>,
    #[serde(rename = "rotation_fault", skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reloaded {
    pub config: PathBuf,
    /// What has changed, such as `rate_limits.token` or `app wiki: route`.
    pub changed: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupMade {
    pub(super) directory: PathBuf,
    pub(super) records: usize,
}

/// A record as it is shown: each member with its type and what it is. The optional ones are left out where they are absent.
macro_rules! shown {
    ($(#[$about:meta])* $vis:vis $name:ident of $record:ident: $kept:ty {
        $($(#[$doc:meta])* $member:ident: $type:ty = $value:expr;)*
    } optional {
        $($(#[$option_doc:meta])* $option:ident: $option_type:ty = $option_value:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        $vis struct $name {
            $($(#[$doc])* pub(crate) $member: $type,)*
            $(
                $(#[$option_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(crate) $option: Option<$option_type>,
            )*
        }

        impl From<$kept> for $name {
            fn from($record: $kept) -> Self {
                Self { $($member: $value,)* $($option: $option_value,)* }
            }
        }
    };
}

shown! {
    /// A person, and what was done to them.
    pub UserAnswer of user: User {
        sub: Subject = user.sub;
        email: Email = user.email;
        email_verified: bool = user.email_verified;
        name: String = user.name;
        roles: BTreeSet<Role> = user.roles;
        groups: BTreeSet<String> = user.groups;
        state: UserState = user.state;
        created_at: UnixTime = user.created_at;
        updated_at: UnixTime = user.updated_at;
    } optional {
        username: Username = user.username;
        phone_number: String = user.phone_number;
        picture: String = user.picture;
        sessions_ended: usize = None;
        grants_ended: usize = None;
        deleted: bool = None;
        factors_removed: usize = None;
        enrolment_link: ShownSecret = None;
        link_expires_at: UnixTime = None;
        unblocked: bool = None;
        invitation: InvitationState = None;
        invitation_sent_at: UnixTime = None;
        invitation_expires_at: UnixTime = None;
        invitation_accepted_at: UnixTime = None;
        /// The application to which the invitation leads, by its name in the configuration.
        invitation_app: String = None;
        invitation_withdrawn: bool = None;
        /// The scheme of a hash that an import brought and no sign-in has replaced yet.
        imported_hash: String = user.password.as_ref().and_then(foreign_scheme).map(ToOwned::to_owned);
    }
}

/// Who was imported, or would be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImportAnswer {
    pub(super) dry_run: bool,
    pub(super) people: usize,
    pub(super) without_password: usize,
    /// Users who are locked, disabled or expired in the other system, and are added disabled.
    pub(super) disabled: usize,
    /// Entries that are no people.
    pub(super) skipped: usize,
    /// How many have a hash of each scheme.
    pub(super) hashes: BTreeMap<String, usize>,
    /// How many are in each group.
    pub(super) groups: BTreeMap<String, usize>,
}

/// Who was invited from a file, or would be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InvitedAnswer {
    pub(super) dry_run: bool,
    pub(super) people: usize,
    /// How many are in each group.
    pub(super) groups: BTreeMap<String, usize>,
    /// How many go to each application afterwards.
    pub(super) apps: BTreeMap<String, usize>,
    /// How many get a mail in each language.
    pub(super) languages: BTreeMap<Language, usize>,
    /// Until the last of them has left, where the mail server takes them.
    pub(super) mailed_within_minutes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invitation_expires_at: Option<UnixTime>,
}

/// Something that a person signs in with, and when it was used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FactorAnswer {
    pub(crate) kind: FactorKind,
    /// As its owner calls it. Recovery codes have none.
    pub(crate) name: Option<String>,
    pub(crate) added: UnixTime,
    pub(crate) last_used: Option<UnixTime>,
    /// Recovery codes that were not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<usize>,
    /// Whether it is blocked after too many wrong ones in a row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) blocked: bool,
}

impl FactorAnswer {
    /// All that somebody has.
    pub(crate) fn of(factors: &Factors, now: UnixTime) -> Vec<Self> {
        let blocked = |failures: &FactorFailures| failures.verdict(now) == TryVerdict::Blocked;
        let apps = factors.totp.iter().map(|app| Self {
            kind: FactorKind::Totp,
            name: Some(app.name.clone()),
            added: app.added_at,
            last_used: app.last_used_at,
            left: None,
            blocked: blocked(&factors.totp_failures),
        });
        let keys = factors.keys.iter().map(|key| Self {
            kind: key.kind(),
            name: Some(key.name.clone()),
            added: key.added_at,
            last_used: key.last_used_at,
            left: None,
            blocked: false,
        });
        let codes = factors.recovery.iter().map(|codes| Self {
            kind: FactorKind::RecoveryCodes,
            name: None,
            added: codes.created_at,
            last_used: factors.recovery_used_at,
            left: Some(codes.left()),
            blocked: blocked(&factors.recovery_failures),
        });
        apps.chain(keys).chain(codes).collect()
    }
}

shown! {
    /// A client, and what was done to it.
    pub ClientAnswer of client: &Client {
        client_id: ClientId = client.id.clone();
        client_name: String = client.name.clone();
        client_type: ClientType = client.client_type;
        token_endpoint_auth_method: AuthMethod = client.auth_method;
        redirect_uris: Vec<RedirectUri> = client.redirect_uris.clone();
        post_logout_redirect_uris: Vec<RedirectUri> = client.post_logout_redirect_uris.clone();
        scope: Scope = client.scope;
        grant_types: Vec<GrantType> = client.grant_types.clone();
        consent: ConsentRule = client.consent;
        state: ClientState = client.state;
        created_at: UnixTime = client.created_at;
        refresh_retry_seconds: Option<u64> = client.refresh_retry_seconds;
        token_limit: Option<RateLimit> = client.token_limit;
        self_registered: bool = client.registration.is_some();
        /// Whether its tokens open the applications that name no clients.
        vouched_for: bool = client.is_vouched_for();
        client_secrets: Vec<SecretTimes> = client.secrets.iter().map(SecretTimes::from).collect();
    } optional {
        approval: ClientDecision = client.approval;
        disabled: ClientDecision = client.disabled;
        owner: Subject = client.owner;
        description: String = client.details.description.clone();
        client_uri: String = client.details.client_uri.clone();
        initiate_login_uri: String = client.details.initiate_login_uri.clone();
        tos_uri: String = client.details.tos_uri.clone();
        policy_uri: String = client.details.policy_uri.clone();
        default_max_age: u64 = client.details.default_max_age;
        default_scope: Scope = client.details.default_scope;
        level: AssuranceLevel = client.level;
        grants_ended: usize = None;
        client_secret: ShownSecret = None;
    }
}

shown! {
    /// The life of one of a client's secrets.
    pub(crate) SecretTimes of secret: &ClientSecret {
        created_at: UnixTime = secret.created_at;
        expires_at: Option<UnixTime> = secret.expires_at;
    } optional {}
}

shown! {
    /// What came to its end, of whom, and how much with it.
    pub EndedAnswer of _nothing: () {} optional {
        sub: Subject = None;
        client_id: ClientId = None;
        sid: SessionId = None;
        grant: GrantId = None;
        id: String = None;
        app: String = None;
        name: String = None;
        deleted: bool = None;
        retried: bool = None;
        revoked: bool = None;
        withdrawn: bool = None;
        sessions_ended: usize = None;
        grants_ended: usize = None;
    }
}

/// A secret that is shown once, to whoever asked for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ShownSecret(#[serde(serialize_with = "in_clear")] pub Secret);

/// A token that registers one client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InitialToken {
    pub(super) expires_at: UnixTime,
    pub(super) initial_access_token: ShownSecret,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct KeysAnswer {
    pub keys: Vec<KeyAnswer>,
    /// The `CKA_ID`s of those that were begun and not announced, hexadecimal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    #[serde(flatten)]
    pub rotation: Rotation,
}

/// A signing key's times, and what it may do by them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyAnswer {
    #[serde(flatten)]
    pub life: KeyLife,
    pub state: KeyState,
    /// The nodes that serve and would refuse its tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaken_by: Vec<String>,
}

impl From<UserAnswer> for Answer {
    fn from(user: UserAnswer) -> Self {
        Self::User(Box::new(user))
    }
}

impl From<ClientAnswer> for Answer {
    fn from(client: ClientAnswer) -> Self {
        Self::Client(Box::new(client))
    }
}

impl From<EndedAnswer> for Answer {
    fn from(ended: EndedAnswer) -> Self {
        Self::Ended(Box::new(ended))
    }
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListPage {
    pub rows: Rows,
    /// After what the next one begins, when more may follow.
    pub next: Option<String>,
}

impl ListPage {
    pub(super) fn answer(rows: Rows, next: Option<impl ToString>) -> Answer {
        Answer::Page(Self { rows, next: next.map(|next| next.to_string()) })
    }
}

/// What stands on a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    Users(Vec<UserAnswer>),
    Clients(Vec<ClientAnswer>),
    Sessions(Vec<SessionAnswer>),
    Grants(Vec<GrantAnswer>),
    Consents(Vec<ConsentAnswer>),
    AppPasswords(Vec<AppPasswordAnswer>),
    Factors(Vec<FactorAnswer>),
    Mails(Vec<MailAnswer>),
    Events(Vec<EventAnswer>),
}

shown! {
    pub SessionAnswer of session: Session {
        sid: SessionId = session.id;
        sign_ins: Vec<SignInAnswer> = session.sign_ins.into_iter().map(SignInAnswer::from).collect();
        address: IpAddr = session.address;
        user_agent: String = session.user_agent;
        created_at: UnixTime = session.created_at;
        last_seen_at: UnixTime = session.last_seen_at;
        expires_at: UnixTime = session.expires_at;
    } optional {}
}

shown! {
    /// A person who is signed in to a browser.
    pub(crate) SignInAnswer of sign_in: SignIn {
        sub: Subject = sign_in.subject;
        auth_time: UnixTime = sign_in.at();
        amr: Vec<String> = sign_in.amr();
    } optional {}
}

shown! {
    pub GrantAnswer of grant: Grant {
        grant: GrantId = grant.id;
        sub: Subject = grant.subject;
        client_id: ClientId = grant.client;
        sid: SessionId = grant.session;
        scope: Scope = grant.scope;
        auth_time: UnixTime = grant.auth_time;
        created_at: UnixTime = grant.created_at;
        expires_at: UnixTime = grant.expires_at;
        refreshed: Option<u32> = grant.refresh.map(|refresh| refresh.generation);
    } optional {}
}

shown! {
    pub ConsentAnswer of consent: Consent {
        sub: Subject = consent.subject;
        client_id: ClientId = consent.client;
        scope: Scope = consent.scope;
        given_at: UnixTime = consent.at;
    } optional {}
}

shown! {
    pub AppPasswordAnswer of password: AppPassword {
        id: String = password.id();
        app: String = password.app;
        name: String = password.name;
        created_at: UnixTime = password.created_at;
        last_used_at: Option<UnixTime> = password.last_used_at;
    } optional {}
}

/// A mail, without what it says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MailAnswer {
    pub(crate) id: MailId,
    pub(crate) kind: MailKind,
    /// `waiting`, `given_up` or `sent`.
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sub: Option<Subject>,
    pub(crate) created_at: UnixTime,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<UnixTime>,
    /// Why it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<DeadReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<u32>,
    /// What the mail server said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
}

impl MailAnswer {
    pub(super) fn waiting(mail: WaitingMail) -> Self {
        Self {
            id: mail.id,
            kind: mail.kind,
            state: "waiting".to_owned(),
            sub: mail.subject,
            created_at: mail.created_at,
            due_at: Some(mail.due_at),
            reason: None,
            attempts: Some(mail.attempts),
            answer: mail.last_answer,
        }
    }

    pub(super) fn given_up(dead: DeadMail) -> Self {
        let mail = Self::waiting(dead.mail);
        Self { state: "given_up".to_owned(), due_at: None, reason: Some(dead.reason), ..mail }
    }

    pub(super) fn sent(sent: SentMail) -> Self {
        Self {
            id: sent.id,
            kind: sent.kind,
            state: "sent".to_owned(),
            sub: sent.subject,
            created_at: sent.at,
            due_at: None,
            reason: None,
            attempts: None,
            answer: Some(sent.answer),
        }
    }
}

shown! {
    pub EventAnswer of record: AuditRecord {
        id: AuditId = record.id;
        happened_at: UnixTime = record.event.at;
        kind: AuditKind = record.event.kind;
        actor: String = record.event.actor.to_string();
        sub: Option<Subject> = record.event.subject;
        client_id: Option<ClientId> = record.event.client;
        app: Option<String> = record.event.app;
        sid: Option<SessionId> = record.event.session;
        grant: Option<GrantId> = record.event.grant;
        address: Option<IpAddr> = record.event.address;
        request_id: Option<String> = record.event.request_id;
        detail: Option<String> = record.event.detail;
        count: u64 = record.event.count;
    } optional {}
}

/// A secret as it is: for the socket, which only the server's own user and root can open, and for whoever asked for it.
pub(super) fn in_clear<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}
