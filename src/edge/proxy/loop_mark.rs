//! Detection of requests that return to the installation that has forwarded them.
//!
//! Each forwarded request gets an element of `CDN-Loop` (RFC 8586), which other proxies must not
//! change. `Via` has the same purpose, but some servers behave differently for requests with it: nginx
//! sends them no compressed responses by default.

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use sha2::{Digest, Sha256};

const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Number of times that a request may be forwarded. An application can legitimately be a proxy for
/// another application, or for a path of its own.
const MAX_PASSES: usize = 4;

/// Element of `CDN-Loop` for an installation.
///
/// All nodes of a cluster have the same one, because a loop may lead through several nodes. It is not
/// secret: a client that sends it gets an error response to its own request only.
#[derive(Debug, Clone)]
pub struct LoopMark(HeaderValue);

impl LoopMark {
    /// Creates the element for the installation with this issuer.
    pub fn new(issuer: &str) -> Self {
        let digest = Sha256::digest(issuer);
        let mark = digest.iter().take(8).fold("sealgate-".to_owned(), |mark, byte| format!("{mark}{byte:02x}"));
        // The characters are valid in a field.
        Self(HeaderValue::try_from(mark).unwrap_or(HeaderValue::from_static("sealgate")))
    }

    /// Returns the element for another thread. Copies of one value would count their uses together.
    pub(crate) fn for_thread(&self) -> Self {
        Self(HeaderValue::from_bytes(self.0.as_bytes()).unwrap_or(HeaderValue::from_static("sealgate")))
    }

    /// Returns how often this installation has forwarded a request.
    fn passes(&self, request: &HeaderMap) -> usize {
        let lines = request.get_all(CDN_LOOP).iter();
        lines.map(|line| memmem::find_iter(line.as_bytes(), self.0.as_bytes()).count()).sum()
    }

    /// Returns whether this installation has already forwarded a request [`MAX_PASSES`] times.
    pub(crate) fn shows_loop(&self, request: &HeaderMap) -> bool {
        self.passes(request) >= MAX_PASSES
    }

    /// Returns whether this installation has forwarded a request.
    pub(crate) fn is_in(&self, request: &HeaderMap) -> bool {
        self.passes(request) > 0
    }

    /// Adds the element to a request to an upstream, after those of other proxies.
    pub(crate) fn add(&self, request: &mut HeaderMap) {
        request.append(CDN_LOOP, self.0.clone());
    }
}
