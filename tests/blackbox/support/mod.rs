//! The real program: the binary on free ports, a SoftHSM token of its own, sled on disk, a real upstream behind it.

mod browser;
mod instance;
#[allow(dead_code, reason = "the tests of crashes share this folder and do not use it")]
pub(crate) mod load;
#[path = "../../support/port.rs"]
pub(crate) mod port;
mod upstream;

pub(crate) use browser::Browser;
pub(crate) use instance::{Instance, Node, Settings, preloaded, sealgate, wait_until};
pub(crate) use port::free_port;
pub(crate) use upstream::Upstream;

/// The password of every person here.
pub(crate) const PASSWORD: &str = "correct horse battery staple";
/// Where codes are sent; nobody listens there, the tests read the redirect.
pub(crate) const REDIRECT_URI: &str = "http://localhost:3999/cb";
/// Where browsers are sent after a logout.
pub(crate) const SIGNED_OUT_URI: &str = "http://localhost:3999/bye";
