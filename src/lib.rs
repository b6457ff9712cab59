//! Sealgate: an identity-aware proxy and OpenID Connect provider in one process.

pub mod admin;
pub mod ambient;
pub mod attestation;
pub mod audit;
pub mod bearer;
pub mod cli;
pub mod compose;
pub mod config;
pub mod cookie;
pub mod edge;
pub mod endpoint;
pub mod gateway;
pub mod house;
pub mod issuer;
pub mod limiter;
pub mod metrics;
pub mod origin;
pub mod page;
pub mod password;
pub mod protocol;
pub mod rotation;
pub mod sealgate;
pub mod sealing;
pub mod server;
pub mod signer;
pub mod store;
