//! Gateway in front of the applications. It decides on each request from its head alone.
//!
//! The gateway depends on the `http` crate and not on the proxy. A request is forwarded only with a
//! [`policy::Permit`]. The steps of a decision are: application, canonical path, Sealgate's own
//! paths, rule, credential, policy. A path without a rule is refused. The query never affects the
//! decision.

mod app_login;
mod app_password;
mod assertion;
mod characters;
mod cors;
mod credential;
mod decide;
mod destination;
mod encoding;
mod explain;
pub mod explained;
mod explained_token;
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
mod sign_out;
mod upstream_session;
mod upstream_target;
mod work;

use http::HeaderValue;

pub use decide::GateOutcome;
pub use decide::Gateway;
pub use explain::{Asker, ExplainedUpstream, Explanation, IdentityHeader, explain};
pub use explained_token::{ClientToken, ExplainedToken, OwnToken};
pub use upstream_session::max_login_threads;
pub use work::take as take_work;

use sealgate_core::web::cookie;

/// Maximum length of a form's body that the gateway reads, in bytes.
pub const MAX_FORM_BYTES: usize = sealgate_store::MAX_FORM_BYTES;

/// Returns whether an application may set this cookie. `line` is the value of its `Set-Cookie`.
///
/// Cookies with Sealgate's names are refused: a compromised application could otherwise sign users
/// in as another user, or interfere with a sign-in.
pub fn may_set_cookie(line: &HeaderValue) -> bool {
    !cookie::sets_ours(line.as_bytes())
}
