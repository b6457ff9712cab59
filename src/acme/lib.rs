//! Certificates from an ACME certificate authority (RFC 8555): account, orders, challenges and the times of
//! renewals.
//!
//! It opens no listener and has no task of its own: `app` decides when to order, and the edge answers the
//! challenges. Requests are sent with the HTTP client of the system crate.

mod authority;
mod fault;
mod files;
mod issue;
mod renewal;
mod state;
mod transport;

pub use authority::{AcmeAuthority, CertificateOrder, RenewalWindow};
pub use fault::{AcmeFault, AcmeFaultKind};
pub use files::{AcmeFiles, prepare};
pub use instant_acme::Account as AuthorityAccount;
pub use issue::{PendingChallenge, challenge_certificate};
pub use renewal::{CertificateValidity, pause_after, renew_at};
pub use state::{AcmeState, HostState};
