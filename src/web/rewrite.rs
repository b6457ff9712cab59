//! How the gate has the edge change a request on its way to an application, and the answer on its way back.

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

/// The changes to a request's head: first those fields go that the application may not see, then others are set.
#[derive(Debug, Clone)]
pub struct Rewrite {
    pub remove: Vec<HeaderName>,
    /// Each in place of all of its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// The target that was decided on; the upstream gets exactly this.
    pub path_and_query: PathAndQuery,
    /// How the answer is changed on its way back, one that the edge itself makes in the upstream's place included.
    pub answer: AnswerRewrite,
}

/// The changes to an answer's head: first fields go, then others are set, then others are added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerRewrite {
    pub remove: Vec<HeaderName>,
    /// Each in place of all of its name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    pub append: Vec<(HeaderName, HeaderValue)>,
    /// Whether it is one person's: no cache that serves several may keep it.
    pub private: bool,
}
