//! Sessions of users at applications, which the front holds in place of browsers.

use std::fmt;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Session of one user at one application. The front signs the user in and keeps the cookies.
///
/// A session may be renewed by another sign-in while requests are in progress. So each request has
/// the number of the sign-in whose cookies it sends.
#[async_trait]
pub trait UpstreamSession: fmt::Debug + Send + Sync {
    /// Returns the number of the current sign-in, and its cookies for a request of this path: the
    /// value of `Cookie`, or `None` without cookies.
    fn cookies(&self, path: &str) -> (u64, Option<HeaderValue>);

    /// Stores the `Set-Cookie` fields of a response, unless they belong to an earlier sign-in.
    /// Returns the values of `Set-Cookie` for the browser.
    ///
    /// `request` are the fields of the browser's request for `path`.
    fn store_cookies(&self, sign_in: u64, path: &str, request: &HeaderMap, response: &HeaderMap) -> Vec<HeaderValue>;

    /// Returns whether the head of a response suggests that the session has ended at the
    /// application.
    fn end_sign(&self, status: StatusCode, response: &HeaderMap) -> Option<EndSign>;

    /// Asks the application whether the session of this sign-in has ended. If so, signs the user in
    /// again.
    async fn renew(&self, sign_in: u64, sign: EndSign) -> SessionState;
}

/// Sign that a session has ended at the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSign {
    /// The response is typical of an ended session, such as a redirect to the login page.
    Clear,
    /// Other responses may have the same head, such as any page with the status 200.
    Vague,
}

/// State of a session at an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The session has not ended, or the application does not tell.
    Open,
    /// The session had ended, and the user is signed in again.
    Renewed,
    /// The session has ended, and the user cannot be signed in.
    Ended,
}
