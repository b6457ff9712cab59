//! Errors of the admin API: problem details (RFC 9457).

use http::StatusCode;
use http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::{Value, json};

use sealgate_admin::CommandError;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Exceeded;
use sealgate_core::web::response::Response;
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::error::Refusal;
use sealgate_store::StoreError;

/// Realm of the challenges.
const REALM: &str = "Bearer realm=\"sealgate-api\"";

/// Reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiProblem {
    status: StatusCode,
    /// Word for programs.
    code: &'static str,
    /// Reasons, for people. There is at least one.
    reasons: Vec<String>,
    /// Challenge of `WWW-Authenticate`.
    challenge: Option<String>,
    /// Methods that the path supports.
    allow: Option<String>,
    /// Seconds after which a retry may succeed.
    wait: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    code: &'static str,
    detail: String,
    errors: &'a [String],
}

impl ApiProblem {
    pub(super) fn new(status: StatusCode, code: &'static str, reason: impl Into<String>) -> Self {
        Self { status, code, reasons: vec![reason.into()], challenge: None, allow: None, wait: None }
    }

    /// Returns the error for a malformed request.
    pub(super) fn malformed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", reason)
    }

    /// Returns the error for a well-formed request with invalid values.
    pub(super) fn invalid(reasons: Vec<String>) -> Self {
        Self { reasons, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "") }
    }

    pub(super) fn not_found(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", reason)
    }

    /// Returns the error for a request whose `If-Match` or `If-None-Match` does not hold.
    pub(super) fn precondition_failed() -> Self {
        let reason = "If-Match or If-None-Match does not hold: another request has changed the object. Read it again.";
        Self::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", reason)
    }

    /// Returns the error for a path that does not support the method.
    pub(super) fn method(allow: String) -> Self {
        let reason = format!("This path supports {allow}.");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", reason) }
    }

    /// Returns the error for a request without a token.
    pub(super) fn no_token() -> Self {
        let reason = "Send a token in the Authorization header: Authorization: Bearer TOKEN.";
        Self { challenge: Some(REALM.to_owned()), ..Self::new(StatusCode::UNAUTHORIZED, "no_token", reason) }
    }

    /// Returns the error for a token that does not work. The reason is the same in all cases.
    pub(super) fn invalid_token() -> Self {
        let reason = "The token is unknown, removed or expired, or its creator is no longer an administrator.";
        let challenge = format!("{REALM}, error=\"invalid_token\", error_description=\"{reason}\"");
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, "invalid_token", reason) }
    }

    /// Returns the error for a token without this scope.
    pub(super) fn insufficient_scope(scope: ApiScope) -> Self {
        let reason = format!("The token lacks the scope {scope}.");
        let challenge = format!("{REALM}, error=\"insufficient_scope\", scope=\"{scope}\"");
        Self { challenge: Some(challenge), ..Self::new(StatusCode::FORBIDDEN, "insufficient_scope", reason) }
    }

    /// Returns the error for a client that must wait.
    pub(super) fn too_many(seconds: u64, reason: &str) -> Self {
        Self { wait: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", reason) }
    }

    pub(super) fn unavailable() -> Self {
        let reason = "The service is overloaded. Try again later.";
        Self { wait: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", reason) }
    }

    fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The service failed. Its log has the cause.")
    }

    /// Returns the response.
    pub(super) fn into_response(self) -> Response {
        let document = Document {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            code: self.code,
            detail: self.reasons.join("; "),
            errors: &self.reasons,
        };
        let mut response = Response::json(self.status, &document).with(CONTENT_TYPE, "application/problem+json");
        if let Some(challenge) = &self.challenge {
            response = response.with(WWW_AUTHENTICATE, challenge);
        }
        if let Some(allow) = &self.allow {
            response = response.with(ALLOW, allow);
        }
        match self.wait {
            Some(seconds) => response.retry_after(seconds),
            None => response,
        }
    }

    /// Returns the JSON Schema of the errors.
    pub(super) fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "type": { "type": "string" },
                "title": { "type": "string" },
                "status": { "type": "integer" },
                "code": { "type": "string", "description": "Word for programs, such as not_found" },
                "detail": { "type": "string", "description": "All reasons, in English" },
                "errors": { "type": "array", "items": { "type": "string" }, "description": "The reasons, one by one" },
            },
            "required": ["type", "title", "status", "code", "detail", "errors"],
        })
    }
}

impl From<CommandError> for ApiProblem {
    fn from(error: CommandError) -> Self {
        match error {
            error @ (CommandError::Invalid(_) | CommandError::File(_)) => Self::invalid(error.into_lines()),
            CommandError::Absent(reason) => Self::not_found(reason),
            CommandError::Exists(reason) => Self::new(StatusCode::CONFLICT, "exists", reason),
            CommandError::Cursor => Self::malformed(CommandError::Cursor.to_string()),
            // The API shows no sign-in data that a request could confirm.
            CommandError::SignInDataChanged => Self::precondition_failed(),
            CommandError::Forbidden(reason) => Self::new(StatusCode::FORBIDDEN, "forbidden", reason),
            CommandError::Store(error) => error.into(),
            CommandError::Password(error) => {
                error.log("cannot hash a password");
                Self::unavailable()
            }
        }
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::SignedOut => Self::invalid_token(),
            StoreError::PreconditionFailed => Self::precondition_failed(),
            // `Call::failed` names the missing scope.
            StoreError::NotPermitted => Self::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "The change would take the administrator role from the creator of the token.",
            ),
            StoreError::Contended => Self::new(
                StatusCode::CONFLICT,
                "contended",
                "The object is being changed by other requests. Try again.",
            ),
            error => match Failure::from(error) {
                Failure::Internal => Self::internal(),
                _ => Self::unavailable(),
            },
        }
    }
}

impl From<Exceeded> for ApiProblem {
    fn from(Exceeded(seconds): Exceeded) -> Self {
        Self::too_many(seconds, "Too many requests came from this address.")
    }
}

impl From<Refusal> for ApiProblem {
    fn from(refusal: Refusal) -> Self {
        Self::malformed(refusal.description)
    }
}
