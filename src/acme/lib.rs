//! Certificates from an ACME certificate authority (RFC 8555): account, orders, challenges and the
//! times of renewals.
//!
//! This crate opens no listener and starts no task: `app` decides when to order a certificate, and
//! `edge` responds to the challenges. Requests use the HTTP client of `sealgate_system`.

mod authority;
mod fault;
mod files;
mod issue;
mod renewal;
mod request;
mod state;
mod transport;

pub use authority::{AcmeAuthority, CertificateOrder, RenewalWindow};
pub use fault::{AcmeFault, AcmeFaultKind};
pub use files::{AcmeFiles, prepare};
pub use instant_acme::Account as AuthorityAccount;
pub use issue::{PendingChallenge, challenge_certificate};
pub use renewal::{CertificateValidity, pause_after, renew_at};
pub use request::certificate_request;
pub use state::{AcmeState, HostState};
