//! Users of upstream OpenID providers: the client side of OpenID Connect.
//!
//! [`OpenIdProvider`] sends browsers to a provider, exchanges the code that they return with, and
//! validates the answer. This crate does not access the store, and does not keep sessions. A provider
//! either gives a complete and valid answer, or the answer is an [`UpstreamRefusal`].
//!
//! Requests block, so each runs on a thread that may block. A provider has a fixed number of these
//! threads ([`MAX_THREADS`]), so a provider that does not answer delays only its own users.

mod check;
mod credential;
mod discovery;
mod fault;
mod github;
mod outcome;
mod provider;
mod requests;
mod token;

pub use check::{UpstreamCheck, UpstreamUrls};
pub use credential::AssertionSigner;
pub use fault::{UpstreamFault, UpstreamFaultKind};
pub use outcome::{
    CallbackAnswer, Trip, TripPrompt, UpstreamInvalid, UpstreamLogoutToken, UpstreamRefresh, UpstreamRefusal,
    UpstreamSignIn,
};
pub use provider::OpenIdProvider;
pub use requests::MAX_THREADS;
