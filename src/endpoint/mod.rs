//! endpoint/mod.
