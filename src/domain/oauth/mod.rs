//! Requests and responses of OAuth 2.0 and OpenID Connect, as pure values and functions.
//!
//! This module has no I/O, clock, randomness, logging or HTTP types. Other modules of [`crate`]
//! compare the requests with stored data.

pub mod authorize;
pub mod claims;
pub mod client_assertion;
pub mod client_document;
pub mod credentials;
pub mod id_token;
pub mod introspection;
pub mod jwk_set;
pub mod jws;
pub mod jwt;
pub mod logout;
pub mod metadata;
pub mod next_step;
pub mod params;
pub mod registration;
pub mod strict_json;
pub mod token;
pub mod trusted_token;
pub mod upstream_claims;
pub mod upstream_logout;
pub mod upstream_metadata;
pub mod verifying_keys;
