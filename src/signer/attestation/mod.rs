//! Public evidence that the signing keys are in a hardware token.
//!
//! `attestations` holds the vendor certificates that the operator installed on the server. `audit`
//! verifies a provider from any machine: `statement` compares the provider's documents with each
//! other, and `chain` verifies certificates. An auditor needs no token, and trusts only the roots
//! that the auditor chose.

mod attestations;
mod audit;
mod chain;
mod statement;

pub use attestations::Attestations;
pub use audit::{Audit, CheckOutcome, KeyVerdict, audit, roots};
