//! Result of the access decision on a request.

use http::StatusCode;

use crate::policy::Permit;
use sealgate_core::web::response::Response;

/// Result of the access decision.
#[derive(Debug)]
pub enum GateOutcome {
    Forward(Permit),
    Respond(GateReply),
    /// A form whose user must sign in first. The caller must read its body.
    ReadForm,
}

/// Response of the gateway, with its label in metrics.
#[derive(Debug)]
pub struct GateReply {
    pub label: &'static str,
    pub response: Response,
}

impl GateReply {
    pub fn new(label: &'static str, response: Response) -> Self {
        Self { label, response }
    }
}

impl GateOutcome {
    /// Returns the label in metrics; `None` while the decision is pending.
    pub(super) const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Forward(_) => Some("forwarded"),
            Self::Respond(reply) => Some(reply.label),
            Self::ReadForm => None,
        }
    }

    /// Returns the response to a request whose body was read. Other outcomes cannot occur then.
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Respond(reply) => reply.response,
            Self::Forward(_) | Self::ReadForm => Response::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}
