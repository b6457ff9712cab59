//! Audit events: the action, the actor, the user, client and objects concerned, the origin, the
//! time and the request.
//!
//! Events contain only identifiers and values that the server creates. They do not contain typed
//! text, because users often type a password into the wrong field. The only exceptions are names of
//! security keys, because users need them to distinguish their keys, and names of groups, because
//! they give access. If a failed sign-in names an
//! existing account, the event contains the account's `sub`, but not the typed name.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::api_token::ApiTokenId;
use crate::client::{Authority, ClientId};
use crate::grant::GrantId;
use crate::id::Id;
use crate::language::Language;
use crate::mail::Notice;
use crate::session::SessionId;
use crate::time::UnixTime;
use crate::user::Subject;

/// Kind of an event. Its name is part of the file format and of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    SignedIn,
    /// An authentication failed.
    SignInFailed,
    /// A protected application started a session for a user who is signed in.
    AppSignedIn,
    /// The user signed out.
    SignedOut,
    ConsentGiven,
    ConsentWithdrawn,
    TokensIssued,
    TokensRefreshed,
    /// A redeemed code or a rotated refresh token was presented again. The grant has ended.
    ReuseDetected,
    TokenRevoked,
    GrantsEnded,
    SessionsEnded,
    /// All sessions and grants of a user ended.
    #[serde(rename = "person_revoked")]
    UserRevoked,
    ClientRegistered,
    ClientChanged,
    ClientDeleted,
    UserCreated,
    /// A user registered an account. The detail gives the sign-in method.
    SelfRegistered,
    UserChanged,
    /// A user was blocked from signing in.
    UserDisabled,
    UserEnabled,
    UserDeleted,
    PasswordChanged,
    /// A password reset was requested. The detail gives the sent message, or the reason why no
    /// message was sent.
    PasswordResetAsked,
    /// The password was set with a link from an e-mail.
    PasswordReset,
    /// A user proved that they receive e-mail at the account's address.
    AddressVerified,
    /// A user proved that they receive e-mail at a new address, which replaces the account's
    /// address.
    AddressChanged,
    /// A change of the address was undone with the link sent to the old address.
    AddressRestored,
    AppPasswordCreated,
    AppPasswordRevoked,
    /// The name and password of a user at an application were stored or replaced.
    AppCredentialSet,
    AppCredentialRemoved,
    /// A user added an authenticator app, a security key or a passkey. The detail gives its name.
    FactorAdded,
    FactorRemoved,
    FactorRenamed,
    RecoveryCodesMade,
    RecoveryCodeUsed,
    /// The second factor was wrong, after the correct password.
    FactorFailed,
    /// The factors of one kind are blocked after too many consecutive failures, until an
    /// administrator or another factor unblocks them.
    FactorBlocked,
    /// The signature counter of a key did not increase, so the key may have been copied.
    KeyMayBeCopied,
    /// An administrator removed all factors of a user.
    FactorsReset,
    /// A local user was linked to an account of a directory or an OpenID provider.
    AccountLinked,
    /// The link of a user was removed. The user is local.
    AccountUnlinked,
    /// An invitation link was sent. With the link, a user accepts an account that an administrator
    /// or operator created.
    InvitationSent,
    InvitationAccepted,
    InvitationWithdrawn,
    /// The schedule of the signing keys changed.
    KeysChanged,
    /// An administrator accepted that many accounts of a directory are gone.
    DirectoryLossAccepted,
    /// A queued message was retried or deleted, or a test message was sent.
    MailChanged,
    /// A client did not accept the logout token of an ended session.
    LogoutNotAccepted,
    /// A running server loaded another configuration.
    ConfigurationReloaded,
    /// A token for the admin API was created. The detail gives its id and scopes.
    ApiTokenCreated,
    ApiTokenRevoked,
    /// An initial access token was created. The detail gives its id, the number of clients and its end.
    RegistrationTokenCreated,
    RegistrationTokenRevoked,
    /// An administrator changed an application in the console.
    AppChanged,
    /// A user of the console exported events of the audit log.
    AuditExported,
    /// A user of the console exported users.
    UsersExported,
}

impl AuditKind {
    /// All kinds, in the order of the variants.
    pub const ALL: [Self; 58] = [
        Self::SignedIn,
        Self::SignInFailed,
        Self::AppSignedIn,
        Self::SignedOut,
        Self::ConsentGiven,
        Self::ConsentWithdrawn,
        Self::TokensIssued,
        Self::TokensRefreshed,
        Self::ReuseDetected,
        Self::TokenRevoked,
        Self::GrantsEnded,
        Self::SessionsEnded,
        Self::UserRevoked,
        Self::ClientRegistered,
        Self::ClientChanged,
        Self::ClientDeleted,
        Self::UserCreated,
        Self::SelfRegistered,
        Self::UserChanged,
        Self::UserDisabled,
        Self::UserEnabled,
        Self::UserDeleted,
        Self::PasswordChanged,
        Self::PasswordResetAsked,
        Self::PasswordReset,
        Self::AddressVerified,
        Self::AddressChanged,
        Self::AddressRestored,
        Self::AppPasswordCreated,
        Self::AppPasswordRevoked,
        Self::AppCredentialSet,
        Self::AppCredentialRemoved,
        Self::FactorAdded,
        Self::FactorRemoved,
        Self::FactorRenamed,
        Self::RecoveryCodesMade,
        Self::RecoveryCodeUsed,
        Self::FactorFailed,
        Self::FactorBlocked,
        Self::KeyMayBeCopied,
        Self::FactorsReset,
        Self::AccountLinked,
        Self::AccountUnlinked,
        Self::InvitationSent,
        Self::InvitationAccepted,
        Self::InvitationWithdrawn,
        Self::KeysChanged,
        Self::DirectoryLossAccepted,
        Self::MailChanged,
        Self::LogoutNotAccepted,
        Self::ConfigurationReloaded,
        Self::ApiTokenCreated,
        Self::ApiTokenRevoked,
        Self::RegistrationTokenCreated,
        Self::RegistrationTokenRevoked,
        Self::AppChanged,
        Self::AuditExported,
        Self::UsersExported,
    ];

    /// Returns the name of the kind in records, in the log and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SignedIn => "signed_in",
            Self::SignInFailed => "sign_in_failed",
            Self::AppSignedIn => "app_signed_in",
            Self::SignedOut => "signed_out",
            Self::ConsentGiven => "consent_given",
            Self::ConsentWithdrawn => "consent_withdrawn",
            Self::TokensIssued => "tokens_issued",
            Self::TokensRefreshed => "tokens_refreshed",
            Self::ReuseDetected => "reuse_detected",
            Self::TokenRevoked => "token_revoked",
            Self::GrantsEnded => "grants_ended",
            Self::SessionsEnded => "sessions_ended",
            Self::UserRevoked => "person_revoked",
            Self::ClientRegistered => "client_registered",
            Self::ClientChanged => "client_changed",
            Self::ClientDeleted => "client_deleted",
            Self::UserCreated => "user_created",
            Self::SelfRegistered => "self_registered",
            Self::UserChanged => "user_changed",
            Self::UserDisabled => "user_disabled",
            Self::UserEnabled => "user_enabled",
            Self::UserDeleted => "user_deleted",
            Self::PasswordChanged => "password_changed",
            Self::PasswordResetAsked => "password_reset_asked",
            Self::PasswordReset => "password_reset",
            Self::AddressVerified => "address_verified",
            Self::AddressChanged => "address_changed",
            Self::AddressRestored => "address_restored",
            Self::AppPasswordCreated => "app_password_created",
            Self::AppPasswordRevoked => "app_password_revoked",
            Self::AppCredentialSet => "app_credential_set",
            Self::AppCredentialRemoved => "app_credential_removed",
            Self::FactorAdded => "factor_added",
            Self::FactorRemoved => "factor_removed",
            Self::FactorRenamed => "factor_renamed",
            Self::RecoveryCodesMade => "recovery_codes_made",
            Self::RecoveryCodeUsed => "recovery_code_used",
            Self::FactorFailed => "factor_failed",
            Self::FactorBlocked => "factor_blocked",
            Self::KeyMayBeCopied => "key_may_be_copied",
            Self::FactorsReset => "factors_reset",
            Self::AccountLinked => "account_linked",
            Self::AccountUnlinked => "account_unlinked",
            Self::InvitationSent => "invitation_sent",
            Self::InvitationAccepted => "invitation_accepted",
            Self::InvitationWithdrawn => "invitation_withdrawn",
            Self::KeysChanged => "keys_changed",
            Self::DirectoryLossAccepted => "directory_loss_accepted",
            Self::MailChanged => "mail_changed",
            Self::LogoutNotAccepted => "logout_not_accepted",
            Self::ConfigurationReloaded => "configuration_reloaded",
            Self::ApiTokenCreated => "api_token_created",
            Self::ApiTokenRevoked => "api_token_revoked",
            Self::RegistrationTokenCreated => "registration_token_created",
            Self::RegistrationTokenRevoked => "registration_token_revoked",
            Self::AppChanged => "app_changed",
            Self::AuditExported => "audit_exported",
            Self::UsersExported => "users_exported",
        }
    }

    /// Returns whether the event is a failed authentication, or a credential that was refused because
    /// it may have been stolen.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::SignInFailed | Self::FactorFailed | Self::FactorBlocked | Self::ReuseDetected | Self::KeyMayBeCopied
        )
    }

    /// Returns the kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Who performed an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "RecordedActor", into = "RecordedActor")]
pub enum Actor {
    Stranger,
    /// User who acts on their own account.
    User,
    /// Administrator who acts on another user or on an object.
    Administrator(Subject),
    /// Developer who acts on their own client.
    Developer(Subject),
    /// User manager who acts on a user of the managed groups.
    UserManager(Subject),
    /// Auditor who exports the audit log.
    Auditor(Subject),
    Client,
    /// Operator, who can run commands on the server's machine.
    Operator,
    /// The server itself, following its configuration.
    Server,
    /// The configuration file, applied by a start or a reload.
    Configuration,
    /// Program with a token for the admin API. `creator` is the administrator who created the token,
    /// or `None` for an operator.
    ApiToken {
        token: ApiTokenId,
        creator: Option<Subject>,
    },
}

/// Serialized form of [`Actor`] in records.
///
/// Older versions must be able to read the record. Therefore a developer, a user manager and an auditor
/// are stored as an administrator with a flag, the configuration file as the server with a flag, and a
/// token as its creator with the token's id.
#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "older versions skip a flag that they do not know")]
struct RecordedActor {
    actor: ActorName,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_developer: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_user_manager: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_auditor: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_configuration: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_token: Option<ApiTokenId>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActorName {
    Stranger,
    #[serde(rename = "person")]
    User,
    Administrator(Subject),
    Client,
    Operator,
    Server,
}

impl From<RecordedActor> for Actor {
    fn from(recorded: RecordedActor) -> Self {
        if let Some(token) = recorded.api_token {
            let creator = if let ActorName::Administrator(subject) = recorded.actor { Some(subject) } else { None };
            return Self::ApiToken { token, creator };
        }
        match recorded.actor {
            ActorName::Stranger => Self::Stranger,
            ActorName::User => Self::User,
            ActorName::Administrator(subject) if recorded.is_developer => Self::Developer(subject),
            ActorName::Administrator(subject) if recorded.is_user_manager => Self::UserManager(subject),
            ActorName::Administrator(subject) if recorded.is_auditor => Self::Auditor(subject),
            ActorName::Administrator(subject) => Self::Administrator(subject),
            ActorName::Client => Self::Client,
            ActorName::Operator => Self::Operator,
            ActorName::Server if recorded.is_configuration => Self::Configuration,
            ActorName::Server => Self::Server,
        }
    }
}

impl From<Actor> for RecordedActor {
    fn from(actor: Actor) -> Self {
        let is_developer = matches!(actor, Actor::Developer(_));
        let is_user_manager = matches!(actor, Actor::UserManager(_));
        let is_auditor = matches!(actor, Actor::Auditor(_));
        let is_configuration = actor == Actor::Configuration;
        let api_token = if let Actor::ApiToken { token, .. } = actor { Some(token) } else { None };
        let actor = match actor {
            Actor::Stranger => ActorName::Stranger,
            Actor::User => ActorName::User,
            Actor::Administrator(subject)
            | Actor::Developer(subject)
            | Actor::UserManager(subject)
            | Actor::Auditor(subject)
            | Actor::ApiToken { creator: Some(subject), .. } => ActorName::Administrator(subject),
            Actor::Client => ActorName::Client,
            Actor::Operator | Actor::ApiToken { creator: None, .. } => ActorName::Operator,
            Actor::Server | Actor::Configuration => ActorName::Server,
        };
        Self { actor, is_developer, is_user_manager, is_auditor, is_configuration, api_token }
    }
}

impl From<Authority> for Actor {
    fn from(authority: Authority) -> Self {
        match authority {
            Authority::Owner(subject) => Self::Developer(subject),
            Authority::Administrator(subject) => Self::Administrator(subject),
            Authority::Operator => Self::Operator,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stranger => f.write_str("stranger"),
            Self::User => f.write_str("person"),
            Self::Administrator(subject) => write!(f, "administrator {subject}"),
            Self::Developer(subject) => write!(f, "developer {subject}"),
            Self::UserManager(subject) => write!(f, "user_manager {subject}"),
            Self::Auditor(subject) => write!(f, "auditor {subject}"),
            Self::Client => f.write_str("client"),
            Self::Operator => f.write_str("operator"),
            Self::Server => f.write_str("server"),
            Self::Configuration => f.write_str("configuration"),
            Self::ApiToken { token, creator: Some(subject) } => {
                write!(f, "api token {token} of administrator {subject}")
            }
            Self::ApiToken { token, creator: None } => write!(f, "api token {token} of operator"),
        }
    }
}

/// Event of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Time of the event, or of the first event if the record represents several.
    pub at: UnixTime,
    pub kind: AuditKind,
    #[serde(flatten)]
    pub actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Client that performed the action, or that the event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Number of identical events that the record represents.
    pub count: u64,
    /// Notice to send to the user by e-mail. It is not stored with the event.
    #[serde(skip)]
    pub notice_context: Option<NoticeContext>,
}

/// Notice of an event and the data for its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeContext {
    pub notice: Notice,
    /// Language of the user's browser. `None` if the user did not perform the action. The e-mail
    /// is then in the operator's default language.
    pub language: Option<Language>,
    /// Display name of the browser. Like `system`, it is chosen by the server.
    pub browser: Option<String>,
    pub system: Option<String>,
}

impl AuditEvent {
    /// Creates an event without optional fields.
    pub fn new(at: UnixTime, kind: AuditKind, actor: Actor) -> Self {
        Self {
            at,
            kind,
            actor,
            subject: None,
            client: None,
            app: None,
            session: None,
            grant: None,
            address: None,
            request_id: None,
            detail: None,
            count: 1,
            notice_context: None,
        }
    }

    /// Returns whether unauthenticated clients can cause the event.
    ///
    /// These are failed sign-ins, registrations and changes by clients that register themselves,
    /// and deletions of unused clients.
    pub fn is_unauthenticated(&self) -> bool {
        let of_client =
            matches!(self.kind, AuditKind::ClientRegistered | AuditKind::ClientChanged | AuditKind::ClientDeleted);
        self.kind == AuditKind::SignInFailed || (of_client && matches!(self.actor, Actor::Client | Actor::Server))
    }

    /// Returns the notice that the user receives by e-mail, which depends on the actor.
    pub fn notice(&self) -> Option<Notice> {
        let by_another = matches!(
            self.actor,
            Actor::Administrator(_)
                | Actor::Developer(_)
                | Actor::UserManager(_)
                | Actor::Operator
                | Actor::ApiToken { .. }
        );
        match self.kind {
            AuditKind::PasswordChanged
            | AuditKind::UserChanged
            | AuditKind::UserEnabled
            | AuditKind::UserDisabled
            | AuditKind::UserRevoked
            | AuditKind::AppPasswordRevoked
            | AuditKind::AppCredentialSet
            | AuditKind::AppCredentialRemoved
            | AuditKind::AccountLinked
            | AuditKind::AccountUnlinked
                if by_another =>
            {
                Some(Notice::AdministratorActed)
            }
            AuditKind::PasswordChanged => Some(Notice::PasswordChanged),
            AuditKind::FactorAdded => Some(Notice::FactorAdded),
            AuditKind::FactorRemoved => Some(Notice::FactorRemoved),
            AuditKind::FactorBlocked => Some(Notice::FactorBlocked),
            AuditKind::RecoveryCodesMade => Some(Notice::RecoveryCodesMade),
            AuditKind::RecoveryCodeUsed => Some(Notice::RecoveryCodeUsed),
            AuditKind::KeyMayBeCopied => Some(Notice::KeyMayBeCopied),
            AuditKind::AppPasswordCreated => Some(Notice::AppPasswordCreated),
            AuditKind::AppCredentialSet => Some(Notice::AppCredentialSet),
            AuditKind::FactorsReset => Some(Notice::FactorsReset),
            AuditKind::AccountUnlinked => Some(Notice::AccountUnlinked),
            _ => None,
        }
    }

    /// Returns the event with a notice by e-mail.
    #[must_use]
    pub fn notice_context(self, notice_context: NoticeContext) -> Self {
        Self { notice_context: Some(notice_context), ..self }
    }

    /// Returns the event with its user.
    #[must_use]
    pub fn for_subject(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// Returns the event with its client.
    #[must_use]
    pub fn with_client(self, client: &ClientId) -> Self {
        Self { client: Some(client.clone()), ..self }
    }

    /// Returns the event with its application.
    #[must_use]
    pub fn in_app(self, app: &str) -> Self {
        Self { app: Some(app.to_owned()), ..self }
    }

    /// Returns the event with its session.
    #[must_use]
    pub fn in_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Returns the event with its grant.
    #[must_use]
    pub fn with_grant(self, grant: GrantId) -> Self {
        Self { grant: Some(grant), ..self }
    }

    /// Returns the event with the client's IP address and the request id.
    #[must_use]
    pub fn from_request(self, address: IpAddr, request_id: &str) -> Self {
        let request_id = (!request_id.is_empty()).then(|| request_id.to_owned());
        Self { address: Some(address), request_id, ..self }
    }

    /// Returns the event with a detail, which must be worded by the server. Text that a user typed
    /// or a client sent is not permitted.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// Id of a stored event. Ids sort by time, newest first.
pub type AuditId = Id<'j'>;

impl AuditId {
    /// Creates the id of the event with this time and number. Events of one second sort by number.
    pub fn new(at: UnixTime, number: u64) -> Self {
        let newest_first = !((u128::from(at.seconds()) << 64) | u128::from(number));
        Self::from_bytes(newest_first.to_be_bytes())
    }

    /// Returns bytes that sort by time, oldest first.
    #[must_use]
    pub fn reversed(self) -> [u8; 16] {
        (!u128::from_be_bytes(*self.as_bytes())).to_be_bytes()
    }

    /// Returns the time of the event, from its id.
    pub fn at(self) -> UnixTime {
        let seconds = (!u128::from_be_bytes(*self.as_bytes())) >> 64;
        UnixTime::from_seconds(u64::try_from(seconds).unwrap_or(u64::MAX))
    }
}

/// Filter for events. An event must match all criteria that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditFilter {
    #[serde(default)]
    pub subject: Option<Subject>,
    #[serde(default)]
    pub client: Option<ClientId>,
    /// Kinds of events. If empty, all kinds match.
    #[serde(default)]
    pub kinds: Vec<AuditKind>,
    #[serde(default)]
    pub since: Option<UnixTime>,
    /// Only events before this time match.
    #[serde(default)]
    pub until: Option<UnixTime>,
    /// Client address of the request.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

impl AuditFilter {
    /// Returns whether the event matches.
    pub fn matches(&self, event: &AuditEvent) -> bool {
        self.subject.is_none_or(|subject| event.subject == Some(subject))
            && self.client.as_ref().is_none_or(|client| event.client.as_ref() == Some(client))
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
            && self.address.is_none_or(|address| event.address == Some(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_that_can_be_parsed() {
        for kind in AuditKind::ALL {
            assert_eq!(AuditKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn ids_sort_by_time_and_number_the_newest_first() {
        let at = UnixTime::from_seconds;
        let ids = [AuditId::new(at(9), 7), AuditId::new(at(9), 6), AuditId::new(at(8), 9)];
        assert!(ids.is_sorted() && !ids.map(AuditId::reversed).is_sorted());
        assert_eq!(ids.map(AuditId::at), [at(9), at(9), at(8)]);
    }
}
