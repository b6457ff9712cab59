//! Error codes of OAuth 2.0 and OpenID Connect. A [`Refusal`] is an error code with a description
//! for developers.

use std::borrow::Cow;

use crate::scope::UnknownScope;

/// Error code as sent to clients.
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
    /// RFC 8707 §2.
    InvalidTarget,
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
    /// OpenID Connect Core Error Code `unmet_authentication_requirements` 1.0.
    UnmetAuthenticationRequirements,
    /// OpenID Connect Core §3.1.2.6.
    ConsentRequired,
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
    /// Defined by this server. The HTTP status is 429.
    RateLimitExceeded,
    /// Defined by this server. The HTTP status is 404.
    NotFound,
    /// Defined by this server. The HTTP status is 405.
    MethodNotAllowed,
}

impl ErrorCode {
    /// Returns the code as sent to clients.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::ServerError => "server_error",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::LoginRequired => "login_required",
            Self::UnmetAuthenticationRequirements => "unmet_authentication_requirements",
            Self::ConsentRequired => "consent_required",
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

/// Reason to reject a request: an error code and a description for developers.
///
/// The description has only characters that RFC 6749 §5.2 permits: ASCII without quotation mark and
/// backslash. It does not repeat input, except the name of an unknown scope value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Error code as sent to clients.
    pub code: ErrorCode,
    /// Description as sent to clients.
    pub description: Cow<'static, str>,
}

impl Refusal {
    /// Creates an error with this code and description.
    pub const fn new(code: ErrorCode, description: &'static str) -> Self {
        Self { code, description: Cow::Borrowed(description) }
    }

    /// Creates an `invalid_scope` error that names the unsupported value.
    pub(crate) fn unknown_scope(unknown: &UnknownScope) -> Self {
        let description = match unknown.value() {
            Some(value) => Cow::Owned(format!("The scope has an unknown value: {value}")),
            None => Cow::Borrowed("The scope has an unknown value."),
        };
        Self { code: ErrorCode::InvalidScope, description }
    }

    /// Creates an `invalid_request` error with this description.
    pub const fn invalid_request(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidRequest, description)
    }

    /// Creates an `invalid_grant` error with this description.
    pub const fn invalid_grant(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidGrant, description)
    }
}
