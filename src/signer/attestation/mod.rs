//! Public evidence about the signing keys: vendor certificates installed by the operator
//! (`attestations`, in the server), and their verification from outside (`audit`, on any machine).
//! `statement` compares the provider's documents with each other; `chain` verifies certificates.
//!
//! Uses no token: an auditor has none, and trusts only roots of their choice.

mod attestations;
mod audit;
mod chain;
mod statement;

pub use attestations::Attestations;
pub use audit::{Audit, CheckOutcome, KeyVerdict, audit, roots};
