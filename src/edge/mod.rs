//! edge/mod.
