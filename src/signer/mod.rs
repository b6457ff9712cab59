//! signer/mod.
