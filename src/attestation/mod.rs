//! What outsiders can know of the signing keys: the vendor's certificates that the operator laid down (`attestations`, in the
//! server), and their verification from outside (`audit`, on anybody's machine): `statement` compares what the provider publishes
//! with itself, `chain` verifies certificates.
//!
//! Knows no token: an auditor has none, and believes only what is published and what a root of their choice certifies.

mod attestations;
mod audit;
mod chain;
mod statement;

pub(crate) use attestations::Attestations;
pub(crate) use audit::{Audit, CheckOutcome, KeyVerdict, audit, roots};
