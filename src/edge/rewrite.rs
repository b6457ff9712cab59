//! Changes to a request and to its response. The gateway determines the changes, and the edge
//! applies them.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

use sealgate_config::PathPrefix;

/// Changes to the head of a request. Fields are removed first, then set.
#[derive(Debug, Clone)]
pub struct Rewrite {
    pub remove: Vec<HeaderName>,
    /// Each value replaces all fields with its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Target for the upstream: exactly the target for which the gateway made the decision.
    pub path_and_query: PathAndQuery,
    /// Prefix that was replaced in the target. The edge reverses the replacement in the paths of
    /// the response.
    pub prefix: Option<Arc<PathPrefix>>,
    /// Changes to the response. They also apply to the error response that the edge creates if the
    /// upstream does not answer.
    pub answer: AnswerRewrite,
}

/// Changes to the head of a response. Fields are removed first, then set, then appended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerRewrite {
    pub remove: Vec<HeaderName>,
    /// Each value replaces all fields with its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    pub append: Vec<(HeaderName, HeaderValue)>,
    /// Whether the response is personal, so that shared caches must not store it.
    pub private: bool,
}
