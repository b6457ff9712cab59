//! Code that all request handlers share: the state of a running node, HTTP, tokens, rate limits,
//! the audit log and password checks.

pub mod answers;
pub mod audit;
pub mod client_keys;
pub mod endorsing;
pub mod expiry;
pub mod exports;
pub mod health;
pub mod limits;
pub mod local_cache;
pub mod overview;
pub mod password;
pub mod probes;
pub mod refusals;
pub mod reload;
pub mod sources;
pub mod state;
pub mod status;
pub mod tokens;
pub mod user_list;
pub mod web;
