//! A person's factors: what they sign in with beside their password. Authenticator apps, security keys, passkeys, and the
//! recovery codes that stand in for a lost one. Pure: no I/O, no clock, no randomness.
//!
//! All of a person's factors are one record, so that whatever changes them (a code that is used, a guess that is counted, a
//! key that is removed) is one commit that expects the bytes it decided on.

mod record;
mod trial;

pub use record::{
    FactorKind, FactorOrigin, FactorReset, FactorSummary, Factors, KeyFactor, LINK_LIFE, LINK_PATH, PendingFactor,
    PendingKind, TotpFactor, factor_name,
};
pub use trial::{FactorTrial, OpenedTotp};
