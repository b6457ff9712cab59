//! The real server on failing tokens: the HTTP responses to clients, and that a failed signature
//! consumes no code or refresh token.

mod answers;
mod outage;
mod remote;
mod tpm;
mod world;
