//! Gateway in front of the applications: decides on a request from its head alone, and forwards
//! none without a [`policy::Permit`]. Depends on the `http` crate, not on the proxy.
//!
//! Order of the decision: application, canonical path, own paths, rule, credential, policy. A path
//! without a rule is refused. The query and the fragment are never part of the decision.

mod app_password;
mod assertion;
mod characters;
mod cors;
mod credential;
mod decide;
mod destination;
mod encoding;
mod explain;
mod forward_auth;
mod headers;
mod own;
mod path;
mod place_index;
mod place_tree;
mod policy;
mod principal;
mod reading;
mod refusal;
mod request;
mod resource;
mod route;
mod session;
mod sign_in;
mod work;

use http::HeaderValue;

pub use decide::GateOutcome;
pub use decide::Gateway;
pub use explain::{Asker, Explanation, IdentityHeader, explain};
pub use work::take as take_work;

use sealgate_core::web::cookie;

/// Maximum length of the body of a form that is read, in bytes.
pub const MAX_FORM_BYTES: usize = sealgate_store::MAX_FORM_BYTES;

/// Returns whether an application may set this cookie, the value of a `Set-Cookie`.
///
/// Sealgate's own cookies are refused. A compromised application must not sign users in as another
/// user, nor interfere with a sign-in.
pub fn may_set_cookie(line: &HeaderValue) -> bool {
    !cookie::sets_ours(line.as_bytes())
}
