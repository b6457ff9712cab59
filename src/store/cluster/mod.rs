//! Leases and counts that several nodes on one store share.

pub(crate) mod counts;
pub(crate) mod leases;
pub mod shared_counts;
