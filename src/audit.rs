//! ./audit.
