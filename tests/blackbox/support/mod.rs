//! Real program: the binary on free ports, its own SoftHSM token, sled on disk, a real upstream.

mod browser;
mod instance;
#[allow(dead_code, reason = "the tests of crashes share this folder and do not use it")]
pub(crate) mod load;
#[allow(dead_code, reason = "the tests of crashes share this folder and do not use it")]
pub(crate) mod login_app;
#[path = "../../support/port.rs"]
pub(crate) mod port;
mod upstream;

pub(crate) use browser::{Browser, Page};
pub(crate) use instance::{Instance, Node, Settings, preloaded, sealgate, until, wait_until};
pub(crate) use port::free_port;
pub(crate) use upstream::Upstream;

/// Password of every user here.
pub(crate) const PASSWORD: &str = "correct horse battery staple";
/// Redirect URI of the clients. It has no listener; the tests read the redirect.
pub(crate) const REDIRECT_URI: &str = "http://localhost:3999/cb";
/// Redirect URI after a logout.
pub(crate) const SIGNED_OUT_URI: &str = "http://localhost:3999/bye";
