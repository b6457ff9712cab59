//! The error codes of OAuth 2.0 and OpenID Connect, and a refusal: a code with a sentence for the developer.

use std::borrow::Cow;

use crate::domain::scope::UnknownScope;

/// An error code as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// RFC 6749 §4.1.2.1, §5.2.
    InvalidRequest,
    /// RFC 6749 §5.2.
    InvalidClient,
    /// RFC 6749 §5.2.
    InvalidGrant,
    /// RFC 6749 §4.1.2.1, §5.2.
    UnauthorizedClient,
    /// RFC 6749 §5.2.
    UnsupportedGrantType,
    /// RFC 6749 §4.1.2.1, §5.2.
    InvalidScope,
    /// RFC 6749 §4.1.2.1.
    AccessDenied,
    /// RFC 6749 §4.1.2.1.
    UnsupportedResponseType,
    /// RFC 6749 §4.1.2.1.
    ServerError,
    /// RFC 6749 §4.1.2.1.
    TemporarilyUnavailable,
    /// OpenID Connect Core §3.1.2.6.
    LoginRequired,
    /// OpenID Connect Core §3.1.2.6.
    InteractionRequired,
    /// OpenID Connect Core Error Code `unmet_authentication_requirements` 1.0.
    UnmetAuthenticationRequirements,
    /// OpenID Connect Core §3.1.2.6.
    ConsentRequired,
    /// OpenID Connect Core §3.1.2.6.
    AccountSelectionRequired,
    /// OpenID Connect Core §3.1.2.6.
    RequestNotSupported,
    /// OpenID Connect Core §3.1.2.6.
    RequestUriNotSupported,
    /// OpenID Connect Core §3.1.2.6.
    RegistrationNotSupported,
    /// RFC 6750 §3.1.
    InvalidToken,
    /// RFC 6750 §3.1.
    InsufficientScope,
    /// RFC 9470 §3.
    InsufficientUserAuthentication,
    /// RFC 7591 §3.2.2.
    InvalidRedirectUri,
    /// RFC 7591 §3.2.2.
    InvalidClientMetadata,
    /// RFC 7591 §3.2.2.
    UnapprovedSoftwareStatement,
    /// The specification's own, with status 429.
    RateLimitExceeded,
    /// Our own, with status 404.
    NotFound,
    /// Our own, with status 405.
    MethodNotAllowed,
}

impl ErrorCode {
    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::InvalidScope => "invalid_scope",
            Self::AccessDenied => "access_denied",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::ServerError => "server_error",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::LoginRequired => "login_required",
            Self::InteractionRequired => "interaction_required",
            Self::UnmetAuthenticationRequirements => "unmet_authentication_requirements",
            Self::ConsentRequired => "consent_required",
            Self::AccountSelectionRequired => "account_selection_required",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::RegistrationNotSupported => "registration_not_supported",
            Self::InvalidToken => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
            Self::InsufficientUserAuthentication => "insufficient_user_authentication",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::UnapprovedSoftwareStatement => "unapproved_software_statement",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
        }
    }
}

/// Why a request is refused: a code, and a sentence for the developer that stays within the characters that RFC 6749 §5.2
/// permits (no quotation mark, no backslash, ASCII). It echoes nothing of what was sent but the name of an unknown scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code on the wire.
    pub code: ErrorCode,
    /// The sentence on the wire.
    pub description: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with this code and sentence.
    pub const fn new(code: ErrorCode, description: &'static str) -> Self {
        Self { code, description: Cow::Borrowed(description) }
    }

    /// `invalid_scope` that names the value which the provider does not know.
    pub fn unknown_scope(unknown: &UnknownScope) -> Self {
        let description = match unknown.value() {
            Some(value) => Cow::Owned(format!("The scope names a value that is not known here: {value}")),
            None => Cow::Borrowed("The scope names a value that is not known here."),
        };
        Self { code: ErrorCode::InvalidScope, description }
    }

    /// `invalid_request` with this sentence.
    pub const fn invalid_request(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidRequest, description)
    }

    /// `invalid_grant` with this sentence.
    pub const fn invalid_grant(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidGrant, description)
    }
}
