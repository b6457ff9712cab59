//! What several nodes on one store share: leases and counts.

pub(crate) mod counts;
pub(crate) mod leases;
pub mod shared_counts;
