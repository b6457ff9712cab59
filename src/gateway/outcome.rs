//! What becomes of a request to an application.

use http::StatusCode;

use crate::gateway::policy::Permit;
use crate::web::response::Response;

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum GateOutcome {
    Forward(Permit),
    Respond(GateReply),
    /// It is a form whose person has to sign in first: its body is needed here.
    ReadForm,
}

/// The gate's own answer, and a word for it in metrics.
#[derive(Debug)]
pub(crate) struct GateReply {
    pub(crate) label: &'static str,
    pub(crate) response: Response,
}

impl GateReply {
    pub(crate) fn new(label: &'static str, response: Response) -> Self {
        Self { label, response }
    }
}

impl GateOutcome {
    /// The word for it in metrics; none while nothing is decided.
    pub(super) const fn label(&self) -> Option<&'static str> {
        match self {
            Self::Forward(_) => Some("forwarded"),
            Self::Respond(reply) => Some(reply.label),
            Self::ReadForm => None,
        }
    }

    /// The answer where the body was read, and where no other decision can come.
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Respond(reply) => reply.response,
            Self::Forward(_) | Self::ReadForm => Response::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}
