//! Answers of commands.
//!
//! Members are named as in OAuth and OpenID Connect. Answers never contain hashes of passwords,
//! secrets or cookies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use zeroize::Zeroize;

use crate::schema;
use crate::schema::Described;
use sealgate_core::password::foreign_scheme;
use sealgate_domain::account_links::InvitationState;
use sealgate_domain::api_token::{ApiScope, ApiToken, ApiTokenId};
use sealgate_domain::app_credential::AppCredential;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assertion_source::{AssertionSource, Workload};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{AuditId, AuditKind};
use sealgate_domain::client::{
    AuthMethod, Client, ClientDecision, ClientId, ClientSecret, ClientState, ClientType, ConsentRule, GrantType,
};
use sealgate_domain::consent::{Consent, ResourceConsent};
use sealgate_domain::factor_failures::{FactorFailures, TryVerdict};
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::grant::{Grant, GrantId};
use sealgate_domain::key_ring::{KeyLife, KeyState};
use sealgate_domain::language::Language;
use sealgate_domain::mail::{DeadMail, DeadReason, MailId, MailKind, SentMail, WaitingMail};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::open_access::OpenAccess;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::registration_token::RegistrationToken;
use sealgate_domain::resource::ResourceAccess;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::Secret;
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::session::{Session, SessionId, SignIn};
use sealgate_domain::source::{SourceName, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role, Subject, User, UserState};
use sealgate_domain::username::Username;
use sealgate_store::AuditRecord;

/// Answer to a command.
///
/// A secret in the answer is zeroized when it is dropped, and `Debug` never prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Box<ServerStatus>),
    Reloaded(ReloadAnswer),
    Backup(BackupAnswer),
    LossAccepted(LossAccepted),
    /// A user, and the effects of the command.
    User(Box<UserAnswer>),
    Imported(ImportAnswer),
    Invited(InvitedAnswer),
    /// A client, and the effects of the command.
    Client(Box<ClientAnswer>),
    InitialToken(InitialToken),
    Keys(KeysAnswer),
    /// Name of a user at an application.
    AppLogin(AppLoginAnswer),
    /// A token for the admin API, and the effects of the command.
    ApiToken(Box<ApiTokenAnswer>),
    Ended(Box<EndedAnswer>),
    Page(ListPage),
}

impl Answer {
    /// Returns the answer as one JSON object, as it is printed.
    pub fn members(&self) -> Members {
        match serde_json::to_value(self) {
            // Serde writes the enum as an object with one member: the name of the variant, with its
            // content.
            Ok(Value::Object(tagged)) => match tagged.into_iter().next() {
                Some((_, Value::Object(members))) => Members(members),
                _ => Members(Map::new()),
            },
            _ => Members(Map::new()),
        }
    }
}

/// The members of an answer. Strings may be secrets and are wiped when they are dropped.
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

/// State of the store, and of the server if one runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerStatus {
    pub version: String,
    pub(super) store: String,
    pub(super) open_interactions: usize,
    /// Facts about the process. `None` if no server runs.
    #[serde(flatten)]
    pub server: Option<RunningServer>,
    /// Host to which users' security keys and passkeys are bound. `None` if no user has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_of: Option<String>,
    #[serde(flatten)]
    pub rotation: Rotation,
}

/// Process and configuration of a running server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningServer {
    pub(super) started_at: UnixTime,
    /// Addresses of all listeners, also of those for redirects to HTTPS.
    pub(super) listen: Vec<SocketAddr>,
    /// Configuration file.
    pub(super) config: PathBuf,
    pub config_loaded_at: UnixTime,
    /// `None` in the answer of an older server.
    #[serde(flatten)]
    pub work: Option<ServerWork>,
}

/// Measurements of a running server, since its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerWork {
    pub process_id: u32,
    /// Whether the PKCS#11 token signs.
    pub token_ready: bool,
    pub signatures: u64,
    pub signatures_failed: u64,
    /// Mean duration of a signature in the token.
    pub signature_milliseconds: f64,
    /// Mean duration of a batch of commits, with its disk barrier.
    pub commit_milliseconds: f64,
    /// Whether the last reload was refused, so that the file differs from the running configuration.
    pub reload_refused: bool,
    /// Logout tokens that this node has to send. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_logouts: Option<WaitingLogouts>,
}

/// Queue of logout tokens to clients, as last counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct WaitingLogouts {
    pub waiting: u64,
    /// Time since the first attempt of the oldest one.
    pub oldest_seconds: u64,
}

/// Schedule of automatic rotation, and the error that prevents the rotation. All members are `None`
/// if rotation is not configured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rotation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_key_at: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_rotation_at: Option<UnixTime>,
    #[serde(rename = "rotation_fault", skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Answer to a reload of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReloadAnswer {
    pub config: PathBuf,
    /// Changed settings, such as `rate_limits.token` or `app wiki: route`.
    pub changed: Vec<String>,
}

/// Answer to `sealgate backup`: a verified copy of the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupAnswer {
    pub(super) directory: PathBuf,
    pub(super) records: usize,
}

/// Answer to `sealgate directory revoke-gone`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LossAccepted {
    pub(super) directory: SourceName,
}

/// Defines the visible form of a record and its JSON Schema: each member with its type and value.
/// Absent optional members are omitted.
macro_rules! shown {
    ($(#[$about:meta])* $vis:vis $name:ident of $record:ident: $kept:ty {
        $($(#[doc = $doc:literal])* $member:ident: $type:ty = $value:expr;)*
    } optional {
        $($(#[doc = $option_doc:literal])* $option:ident: $option_type:ty = $option_value:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        $vis struct $name {
            $($(#[doc = $doc])* pub $member: $type,)*
            $(
                $(#[doc = $option_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $option: Option<$option_type>,
            )*
        }

        impl From<$kept> for $name {
            fn from($record: $kept) -> Self {
                Self { $($member: $value,)* $($option: $option_value,)* }
            }
        }

        impl Described for $name {
            fn schema() -> Value {
                schema::object(vec![
                    $((stringify!($member), <$type>::schema(), true, concat!($($doc),*)),)*
                    $((stringify!($option), <$option_type>::schema(), false, concat!($($option_doc),*)),)*
                ])
            }
        }
    };
}

shown! {
    /// A user, and the effects of the command.
    pub UserAnswer of user: User {
        sub: Subject = user.sub;
        email_verified: bool = user.email_verified;
        name: String = user.name;
        roles: BTreeSet<Role> = user.roles;
        groups: BTreeSet<String> = user.groups;
        state: UserState = user.state;
        created_at: UnixTime = user.created_at;
        updated_at: UnixTime = user.updated_at;
    } optional {
        email: Email = user.email;
        username: Username = user.username;
        phone_number: String = user.phone_number;
        picture: String = user.picture;
        /// Directory of the account, with its last report.
        source: UserSource = user.source;
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
        /// Application that the invitation leads to, by its name in the configuration.
        invitation_app: String = None;
        invitation_link: ShownSecret = None;
        invitation_withdrawn: bool = None;
        /// Scheme of an imported hash that no sign-in has replaced yet.
        imported_hash: String = user.password.as_ref().and_then(foreign_scheme).map(ToOwned::to_owned);
    }
}

/// Result of an import, or of its dry run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImportAnswer {
    pub(super) dry_run: bool,
    pub(super) people: usize,
    pub without_password: usize,
    /// Number of users who are locked, disabled or expired in the other system. The import adds
    /// these users as disabled.
    pub disabled: usize,
    /// Number of entries that are not users.
    pub(super) skipped: usize,
    /// Number of users by hash scheme.
    pub(super) hashes: BTreeMap<String, usize>,
    /// Number of users by group.
    pub groups: BTreeMap<String, usize>,
}

/// Result of inviting the users in a file, or of its dry run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InvitedAnswer {
    pub(super) dry_run: bool,
    pub(super) people: usize,
    /// Number of users by group.
    pub(super) groups: BTreeMap<String, usize>,
    /// Number of users by application.
    pub(super) apps: BTreeMap<String, usize>,
    /// Number of mails by language.
    pub(super) languages: BTreeMap<Language, usize>,
    /// Time until the last mail is sent, provided that the mail server accepts all.
    pub(super) mailed_within_minutes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invitation_expires_at: Option<UnixTime>,
}

/// A factor of a user, with the times of its addition and use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FactorAnswer {
    pub kind: FactorKind,
    /// Name that the user chose for the factor. Recovery codes have no name.
    pub name: Option<String>,
    pub added: UnixTime,
    pub last_used: Option<UnixTime>,
    /// Number of unused recovery codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<usize>,
    /// Whether the factor is blocked after too many wrong codes in a row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
}

impl FactorAnswer {
    /// Returns all factors of a user.
    pub fn from_factors(factors: &Factors, now: UnixTime) -> Vec<Self> {
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
            left: Some(codes.unused()),
            blocked: blocked(&factors.recovery_failures),
        });
        apps.chain(keys).chain(codes).collect()
    }
}

shown! {
    /// A client, and the effects of the command.
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
        /// Whether applications without a list of clients accept the client's tokens.
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
        id_token_signed_response_alg: Algorithm = client.details.id_token_signed_response_alg;
        level: AssuranceLevel = client.level;
        /// Media type of the logo.
        logo: String = client.logo.as_ref().map(|logo| logo.format.media_type().to_owned());
        /// Public keys of the client.
        jwks: Value = match &client.assertion_source {
            Some(AssertionSource::Jwks(jwks)) => Some(jwks.as_value().clone()),
            _ => None,
        };
        jwks_uri: String = match &client.assertion_source {
            Some(AssertionSource::JwksUri(uri)) => Some(uri.clone()),
            _ => None,
        };
        workload: Workload = match &client.assertion_source {
            Some(AssertionSource::Workload(workload)) => Some(workload.clone()),
            _ => None,
        };
        /// Access in the client's own name.
        service: ServiceAccess = client.service.clone();
        /// Groups of users that the client sees.
        visible_groups: BTreeSet<String> =
            Some(client.visible_groups.entries()).filter(|groups| !groups.is_empty()).cloned();
        /// Whether the client may introspect tokens.
        introspection: bool = client.introspection.as_ref().map(|_| true);
        /// Applications whose access tokens the client may introspect.
        introspection_apps: BTreeSet<String> =
            client.introspection.as_ref().map(|own| own.apps.clone()).filter(|apps| !apps.is_empty());
        /// Where the client receives logout tokens.
        backchannel_logout_uri: RedirectUri = client.backchannel_logout.as_ref().map(|logout| logout.uri.clone());
        backchannel_logout_session_required: bool =
            client.backchannel_logout.as_ref().filter(|logout| logout.session_required).map(|_| true);
        /// Whether the configuration file defines the client. Commands cannot change such a client.
        from_configuration: bool = client.from_configuration.then_some(true);
        grants_ended: usize = None;
        client_secret: ShownSecret = None;
    }
}

shown! {
    /// Lifetime of one of a client's secrets.
    pub SecretTimes of secret: &ClientSecret {
        id: String = secret.id();
        created_at: UnixTime = secret.created_at;
        expires_at: Option<UnixTime> = secret.expires_at;
    } optional {}
}

shown! {
    /// Revoked or deleted objects: their owner and their number.
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

/// A secret that is shown once, to the user who requested it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShownSecret(#[serde(serialize_with = "in_clear")] pub Secret);

/// An initial access token, which registers clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InitialToken {
    pub(super) id: String,
    pub(super) expires_at: UnixTime,
    pub initial_access_token: ShownSecret,
}

/// Signing keys with their times, and the state of the automatic rotation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct KeysAnswer {
    pub keys: Vec<KeyAnswer>,
    /// Hexadecimal `CKA_ID`s of keys whose generation was recorded, but that are not announced yet.
    #[serde(rename = "begun", default, skip_serializing_if = "Vec::is_empty")]
    pub unannounced_ids: Vec<String>,
    #[serde(flatten)]
    pub rotation: Rotation,
}

/// Schedule and state of a signing key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyAnswer {
    #[serde(flatten)]
    pub life: KeyLife,
    pub state: KeyState,
    /// Running nodes that do not trust the key. They would refuse tokens that it signs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distrusted_by: Vec<String>,
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
    /// Cursor of the next page, if more rows may follow.
    pub next: Option<String>,
}

impl ListPage {
    pub(super) fn answer(rows: Rows, next: Option<impl ToString>) -> Answer {
        Answer::Page(Self { rows, next: next.map(|next| next.to_string()) })
    }
}

/// Rows of a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    Users(Vec<UserAnswer>),
    Clients(Vec<ClientAnswer>),
    Secrets(Vec<SecretTimes>),
    Sessions(Vec<SessionAnswer>),
    Grants(Vec<GrantAnswer>),
    Consents(Vec<ConsentAnswer>),
    AppPasswords(Vec<AppPasswordAnswer>),
    AppLogins(Vec<AppLoginAnswer>),
    ApiTokens(Vec<ApiTokenAnswer>),
    RegistrationTokens(Vec<RegistrationTokenAnswer>),
    Factors(Vec<FactorAnswer>),
    OpenAccesses(Vec<OpenAccess>),
    Mails(Vec<MailAnswer>),
    Events(Vec<EventAnswer>),
}

shown! {
    /// A session, and the sign-ins in it.
    pub SessionAnswer of session: Session {
        sid: SessionId = session.id;
        sign_ins: Vec<SignInAnswer> = session.sign_ins.iter().cloned().map(SignInAnswer::from).collect();
        address: IpAddr = session.address;
        user_agent: String = session.user_agent.clone();
        created_at: UnixTime = session.created_at;
        last_seen_at: UnixTime = session.last_seen_at;
        expires_at: UnixTime = session.ends_at_latest();
    } optional {}
}

shown! {
    /// A sign-in of a user in a browser.
    pub SignInAnswer of sign_in: SignIn {
        sub: Subject = sign_in.subject;
        auth_time: UnixTime = sign_in.at();
        amr: Vec<String> = sign_in.amr();
    } optional {}
}

shown! {
    /// A grant of a client, without its tokens.
    pub GrantAnswer of grant: Grant {
        grant: GrantId = grant.id;
        client_id: ClientId = grant.client;
        scope: Scope = grant.scope;
        created_at: UnixTime = grant.created_at;
        expires_at: UnixTime = grant.expires_at;
        refreshed: Option<u32> = grant.refresh.map(|refresh| refresh.generation);
    } optional {
        /// User of the grant. Absent if the client gets tokens in its own name.
        sub: Subject = Some(grant.subject).filter(|_| !grant.is_service);
        sid: SessionId = Some(grant.session).filter(|_| !grant.is_service);
        auth_time: UnixTime = Some(grant.auth_time).filter(|_| !grant.is_service);
        /// Resource of the tokens.
        resource: ResourceAccess = grant.resource;
    }
}

shown! {
    /// A user's consent to a client.
    pub ConsentAnswer of consent: Consent {
        sub: Subject = consent.subject;
        client_id: ClientId = consent.client;
        scope: Scope = consent.scope;
        given_at: UnixTime = consent.at;
    } optional {
        /// Consent to tokens for resources, by identifier.
        resources: BTreeMap<String, ResourceConsent> = Some(consent.resources).filter(|resources| !resources.is_empty());
    }
}

shown! {
    /// An application password, without its secret.
    pub AppPasswordAnswer of password: AppPassword {
        id: String = password.id();
        app: String = password.app;
        name: String = password.name;
        created_at: UnixTime = password.created_at;
        last_used_at: Option<UnixTime> = password.last_used_at;
    } optional {}
}

shown! {
    /// Name of a user at an application, without the password.
    pub AppLoginAnswer of credential: AppCredential {
        app: String = credential.app;
        username: String = credential.username;
        changed_at: UnixTime = credential.changed_at;
        /// Whether the application has reported a wrong name or password.
        refused: bool = credential.is_refused;
    } optional {
        sub: Subject = None;
    }
}

shown! {
    /// A token for the admin API, without its secret.
    pub ApiTokenAnswer of token: ApiToken {
        id: ApiTokenId = token.id();
        name: String = token.name.clone();
        scopes: BTreeSet<ApiScope> = token.scopes.clone();
        /// Administrator who created the token. An operator created a token without a creator.
        creator: Option<Subject> = token.creator;
        created_at: UnixTime = token.created_at;
        expires_at: UnixTime = token.expires_at;
        last_used_at: Option<UnixTime> = token.last_used_at;
    } optional {
        /// The token itself, shown once.
        token: ShownSecret = None;
    }
}

shown! {
    /// An initial access token, without its secret.
    pub RegistrationTokenAnswer of token: RegistrationToken {
        id: String = token.id().to_string();
        name: String = token.name.clone();
        /// Number of clients that the token registers.
        registrations: u32 = token.registrations;
        /// Number of clients that the token still registers.
        left: u32 = token.left();
        /// Clients that were registered with the token.
        clients: Vec<ClientId> = token.clients.clone();
        /// Administrator who created the token. An operator created a token without a creator.
        creator: Option<Subject> = token.creator;
        created_at: UnixTime = token.created_at;
        expires_at: UnixTime = token.expires_at;
    } optional {}
}

/// A mail, without its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MailAnswer {
    pub id: MailId,
    pub kind: MailKind,
    /// `waiting`, `given_up` or `sent`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<Subject>,
    pub created_at: UnixTime,
    /// Time of the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<UnixTime>,
    /// Reason for giving up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DeadReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Last response of the mail server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
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
    /// An event of the audit log.
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

impl Described for FactorAnswer {
    fn schema() -> Value {
        schema::object(vec![
            ("kind", String::schema(), true, ""),
            ("name", <Option<String>>::schema(), true, "Name that the user chose for the factor"),
            ("added", UnixTime::schema(), true, ""),
            ("last_used", <Option<UnixTime>>::schema(), true, ""),
            ("left", usize::schema(), false, "Number of unused recovery codes"),
            ("blocked", bool::schema(), false, "Whether the factor is blocked after too many wrong codes in a row"),
        ])
    }
}

impl Described for MailAnswer {
    fn schema() -> Value {
        schema::object(vec![
            ("id", String::schema(), true, ""),
            ("kind", String::schema(), true, ""),
            ("state", String::schema(), true, "waiting, given_up or sent"),
            ("sub", Subject::schema(), false, ""),
            ("created_at", UnixTime::schema(), true, ""),
            ("due_at", UnixTime::schema(), false, "Time of the next attempt"),
            ("reason", String::schema(), false, "Reason for giving up"),
            ("attempts", u32::schema(), false, ""),
            ("answer", String::schema(), false, "Last response of the mail server"),
        ])
    }
}

impl Described for KeyAnswer {
    fn schema() -> Value {
        schema::object(vec![
            ("kid", String::schema(), true, "RFC 7638 thumbprint of the key"),
            ("state", String::schema(), true, ""),
            ("created_at", UnixTime::schema(), true, ""),
            ("published_at", UnixTime::schema(), true, ""),
            ("activate_at", <Option<UnixTime>>::schema(), true, "Time at which the key begins to sign"),
            ("retire_at", <Option<UnixTime>>::schema(), true, "Time at which another key begins to sign instead"),
            ("remove_at", <Option<UnixTime>>::schema(), true, "Time at which the key is no longer published"),
            ("alg", String::schema(), false, "Only algorithm of the key; absent for RS256"),
            ("holder", String::schema(), false, "Node whose own token contains the key"),
            ("jwk", Value::schema(), false, "Public parameters of the key"),
            ("endorsed", <Vec<Value>>::schema(), false, "Endorsements by other keys of the cluster"),
            ("distrusted_by", <Vec<String>>::schema(), false, "Running nodes that do not trust the key"),
        ])
    }
}

impl Described for KeysAnswer {
    fn schema() -> Value {
        schema::object(vec![
            ("keys", <Vec<KeyAnswer>>::schema(), true, "Keys, oldest first"),
            ("begun", <Vec<String>>::schema(), false, "CKA_IDs of keys that are being generated"),
            ("next_key_at", UnixTime::schema(), false, "Time of the next automatic key generation"),
            ("next_rotation_at", UnixTime::schema(), false, "Time of the next automatic rotation"),
            ("rotation_fault", String::schema(), false, "Error that prevents the automatic rotation"),
        ])
    }
}

/// Serialises a secret in clear.
///
/// Used on the socket, which only the server's own user and root can open, and for the output to
/// the user who requested the secret.
pub(super) fn in_clear<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}
