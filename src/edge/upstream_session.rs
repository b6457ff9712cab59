//! Sessions of users at applications. The front keeps the application's cookies, so that the
//! browsers do not need them.

use std::fmt;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Session of one user at one application. The front signs the user in and keeps the cookies.
///
/// While requests are in progress, another sign-in may renew the session. So each request has the
/// number of the sign-in whose cookies it sends.
#[async_trait]
pub trait UpstreamSession: fmt::Debug + Send + Sync {
    /// Returns the number of the current sign-in, and the value of `Cookie` for a request of this
    /// path. The value is `None` if there are no cookies for the path.
    fn cookies(&self, path: &str) -> (u64, Option<HeaderValue>);

    /// Stores the `Set-Cookie` fields of a response, unless they belong to an earlier sign-in.
    /// Returns the values of `Set-Cookie` for the browser.
    ///
    /// `request` has the header fields of the browser's request for `path`.
    fn store_cookies(&self, sign_in: u64, path: &str, request: &HeaderMap, response: &HeaderMap) -> Vec<HeaderValue>;

    /// Returns whether the head of a response suggests that the session has ended at the
    /// application.
    fn end_sign(&self, status: StatusCode, response: &HeaderMap) -> Option<EndSign>;

    /// Asks the application whether the session of this sign-in has ended. If the session has
    /// ended, signs the user in again.
    async fn renew(&self, sign_in: u64, sign: EndSign) -> SessionState;
}

/// Indication that a session has ended at the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSign {
    /// The response is typical of an ended session, such as a redirect to the login page.
    Clear,
    /// Responses of an open session may have the same head. An example is a page with the status
    /// 200.
    Vague,
}

/// State of a session at an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The session has not ended, or the application's answer does not show whether it has ended.
    Open,
    /// The session had ended, and the user is signed in again.
    Renewed,
    /// The session has ended, and the user cannot be signed in.
    Ended,
}
