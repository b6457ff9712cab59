//! The gate in front of the applications: decides on a request from its head alone, and lets none through without a
//! [`policy::Permit`]. Knows the `http` crate and no proxy; how a request travels is the edge's business.
//!
//! The order of the decision: which application, one reading of the path, our own paths, the rule, the credential, the
//! policy. What no rule opens is closed, and nothing is ever decided on the query or the fragment.

mod app_password;
mod assertion;
mod characters;
mod cors;
mod credential;
mod decide;
mod depth;
mod destination;
mod encoding;
mod explain;
mod foreign_token;
mod forward_auth;
mod headers;
mod outcome;
mod own;
mod path;
mod place_index;
mod policy;
mod principal;
mod reading;
mod refusal;
mod remembered;
mod request;
mod resource;
mod route;
mod session;
mod sign_in;
mod subtree;
mod work;

use http::HeaderValue;

pub(crate) use decide::Gateway;
pub(crate) use explain::{Asker, Explanation, IdentityHeader, explain};
pub(crate) use outcome::GateOutcome;
pub use work::take as take_work;

use crate::web::cookie;

/// The longest body of a form that is read, bytes.
pub(crate) const MAX_FORM_BYTES: usize = crate::store::MAX_FORM_BYTES;

/// Whether an application may set this cookie, the value of a `Set-Cookie`: any but ours. One that was broken into must not
/// sign people in as somebody else, nor take part in a sign-in.
pub(crate) fn may_set_cookie(line: &HeaderValue) -> bool {
    !cookie::sets_ours(line.as_bytes())
}
