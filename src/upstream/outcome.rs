//! Requests to a provider and their outcomes.

use std::time::Duration;

use secrecy::SecretString;

use crate::fault::UpstreamFault;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::oauth::id_token::IdTokenFault;
use sealgate_domain::oauth::jws::JwsFault;
use sealgate_domain::oauth::upstream_claims::ClaimsRefusal;
use sealgate_domain::oauth::upstream_logout::LogoutTokenFault;
use sealgate_domain::secret::Secret;
use sealgate_domain::source::{SourceEntry, SourceId};
use sealgate_domain::time::UnixTime;

/// Sign-in of one browser at a provider. The same values are used when the browser leaves and when it
/// returns.
pub struct Trip<'a> {
    /// URL to which the provider returns the browser.
    pub redirect_uri: &'a str,
    pub state: &'a Secret,
    pub nonce: &'a Secret,
    /// PKCE code verifier (RFC 7636 §4.1), 43 to 128 characters.
    pub code_verifier: &'a Secret,
    pub prompt: Option<TripPrompt>,
    /// Maximum age of the sign-in at the provider. The provider must prove it with `auth_time`.
    pub max_age: Option<Duration>,
    pub login_hint: Option<&'a str>,
    /// Values of `acr_values`, separated by spaces.
    pub acr_values: Option<&'a str>,
}

/// What the provider shows the user (OpenID Connect Core §3.1.2.1, `prompt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TripPrompt {
    /// Nothing. If the user must do something, the outcome is
    /// [`UpstreamRefusal::InteractionRequired`].
    None,
    /// The sign-in, even if the user is signed in.
    Login,
    /// The choice of an account.
    SelectAccount,
}

/// Query of the request with which a browser returns. The caller compares `state`.
pub struct CallbackAnswer<'a> {
    pub code: Option<&'a str>,
    pub error: Option<&'a str>,
    /// Issuer that the answer names (RFC 9207).
    pub iss: Option<&'a str>,
}

/// User who has signed in at a provider.
#[derive(Debug)]
pub struct UpstreamSignIn {
    pub entry: SourceEntry,
    /// Time at which the provider has authenticated the user. `None` if the provider does not say.
    pub auth_time: Option<UnixTime>,
    /// Assurance level by the table `acr`. `None` if the table has no row for the sign-in.
    pub level: Option<AssuranceLevel>,
    /// Methods of the authentication, only values of RFC 8176.
    pub amr: Vec<String>,
    /// Claim `sub` of the ID token and session at the provider, for logout tokens. `None` for GitHub.
    pub sub: Option<String>,
    pub sid: Option<String>,
    /// ID token, for the end of the session at the provider. `None` for GitHub.
    pub id_token: Option<SecretString>,
    pub refresh_token: Option<SecretString>,
}

/// Answer of a provider to a refresh token.
#[derive(Debug)]
pub struct UpstreamRefresh {
    /// The user, or the reason why the answer does not describe them: the refresh token is valid in
    /// either case.
    pub user: Result<SourceEntry, UpstreamRefusal>,
    /// New ID token, if the provider has issued one. Valid only if there is a user.
    pub id_token: Option<SecretString>,
    /// New refresh token, if the provider has issued one. The previous one is then no longer valid.
    pub refresh_token: Option<SecretString>,
}

/// Sign-ins that a provider has ended (OpenID Connect Back-Channel Logout 1.0 §2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamLogoutToken {
    /// Value of the claim `sub`. It is the user's id only if `subject_claim` is `sub`.
    pub sub: Option<SourceId>,
    /// Session at the provider. `None` if all sessions of the user have ended.
    pub sid: Option<String>,
    /// Id of the token. The caller accepts each id once.
    pub jti: String,
    /// Time until which the id must be remembered.
    pub ends_at: UnixTime,
}

/// Reason why a user is not signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamRefusal {
    /// The provider did not decide. The sign-in can be repeated.
    Unavailable(UpstreamFault),
    /// The provider has answered this request with an error. The request may be the reason, so this says
    /// nothing about other users.
    Refused(UpstreamFault),
    /// The user or the provider has declined.
    Denied,
    /// The user must do something at the provider, but [`TripPrompt::None`] was requested.
    InteractionRequired,
    /// The answer or a token is not valid. It may be an attack.
    Invalid(UpstreamInvalid),
    /// The user is in so many groups that the provider sends a reference instead of the groups.
    GroupsOverage,
    /// The user lacks the value of this required claim.
    NotAllowed(String),
    /// The answer has no usable id of the user: the claim `subject_claim` is missing.
    NoSubject,
    /// The refresh token is no longer valid: the provider has ended the user's access.
    Ended,
}

/// Reason why an answer or a token of a provider is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamInvalid {
    /// The answer has neither a code nor an error.
    NoCode,
    /// The answer names another issuer (RFC 9207).
    ForeignIssuer,
    /// The answer names no issuer, although the provider always does.
    NoIssuer,
    /// The code is not valid: it was used before, has expired, or is of another sign-in.
    Code,
    /// The provider has sent no ID token.
    NoIdToken,
    /// A token is not a JWS with permitted header and algorithm.
    Token(JwsFault),
    IdToken(IdTokenFault),
    LogoutToken(LogoutTokenFault),
    /// The provider has no key with the token's `kid`.
    UnknownKey,
    /// The signature is not valid under the key.
    Signature,
    /// The UserInfo response is about another user.
    UserInfoSubject,
    /// The answer to a refresh is about another user.
    OtherUser,
}

impl UpstreamInvalid {
    /// Returns the name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCode => "no_code",
            Self::ForeignIssuer => "foreign_iss",
            Self::NoIssuer => "no_iss",
            Self::Code => "code",
            Self::NoIdToken => "no_id_token",
            Self::Token(JwsFault::TooLong) => "too_long",
            Self::Token(JwsFault::Malformed) => "malformed",
            Self::Token(JwsFault::Critical) => "critical",
            Self::Token(JwsFault::Algorithm) => "algorithm",
            Self::Token(JwsFault::KeyId) | Self::UnknownKey => "unknown_key",
            Self::IdToken(fault) => fault.as_str(),
            Self::LogoutToken(fault) => fault.as_str(),
            Self::Signature => "signature",
            Self::UserInfoSubject => "userinfo_subject",
            Self::OtherUser => "other_user",
        }
    }
}

impl UpstreamRefusal {
    /// Returns the name in logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unavailable(fault) | Self::Refused(fault) => fault.kind().as_str(),
            Self::Denied => "denied",
            Self::InteractionRequired => "interaction_required",
            Self::Invalid(reason) => reason.as_str(),
            Self::GroupsOverage => "groups_overage",
            Self::NotAllowed(_) => "not_allowed",
            Self::NoSubject => "no_subject",
            Self::Ended => "ended",
        }
    }
}

impl From<UpstreamFault> for UpstreamRefusal {
    fn from(fault: UpstreamFault) -> Self {
        Self::Unavailable(fault)
    }
}

impl From<UpstreamInvalid> for UpstreamRefusal {
    fn from(reason: UpstreamInvalid) -> Self {
        Self::Invalid(reason)
    }
}

impl From<JwsFault> for UpstreamRefusal {
    fn from(fault: JwsFault) -> Self {
        Self::Invalid(UpstreamInvalid::Token(fault))
    }
}

impl From<IdTokenFault> for UpstreamRefusal {
    fn from(fault: IdTokenFault) -> Self {
        Self::Invalid(UpstreamInvalid::IdToken(fault))
    }
}

impl From<LogoutTokenFault> for UpstreamRefusal {
    fn from(fault: LogoutTokenFault) -> Self {
        Self::Invalid(UpstreamInvalid::LogoutToken(fault))
    }
}

impl From<ClaimsRefusal> for UpstreamRefusal {
    fn from(refusal: ClaimsRefusal) -> Self {
        match refusal {
            ClaimsRefusal::GroupsOverage => Self::GroupsOverage,
            ClaimsRefusal::NotAllowed(claim) => Self::NotAllowed(claim),
            ClaimsRefusal::NoSubject => Self::NoSubject,
        }
    }
}
