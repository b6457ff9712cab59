//! A user's sign-in factors other than the password: authenticator apps, security keys, passkeys
//! and recovery codes.
//!
//! The code is pure: no I/O, clock or randomness. All factors of a user are one record, so that
//! each change (a used code, a counted guess, a removed key) is one commit that is conditional on
//! the bytes it was based on.

mod record;
mod trial;

pub use record::{
    FactorKind, FactorOrigin, FactorReset, FactorSummary, Factors, KeyFactor, LINK_LIFE, LINK_PATH, PendingFactor,
    PendingKind, TotpFactor, factor_name,
};
pub use trial::{FactorTrial, OpenedTotp};
