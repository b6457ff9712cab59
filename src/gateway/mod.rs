//! gateway/mod.
