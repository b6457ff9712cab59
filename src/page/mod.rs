//! page/mod.
