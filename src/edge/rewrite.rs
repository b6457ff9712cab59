//! Changes to a request on its way to an application and to the response, decided by the gateway
//! and applied by the edge.

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

/// Changes to a request's head. Fields are removed first, then set.
#[derive(Debug, Clone)]
pub struct Rewrite {
    pub remove: Vec<HeaderName>,
    /// Each value replaces all fields of its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Target that the decision was made for; the upstream receives exactly this.
    pub path_and_query: PathAndQuery,
    /// Changes to the response, including one that the edge creates instead of the upstream.
    pub answer: AnswerRewrite,
}

/// Changes to a response's head. Fields are removed first, then set, then appended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerRewrite {
    pub remove: Vec<HeaderName>,
    /// Each value replaces all fields of its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    pub append: Vec<(HeaderName, HeaderValue)>,
    /// Whether the response is specific to one user, so that shared caches must not store it.
    pub private: bool,
}
