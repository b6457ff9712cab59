//! The rules of OAuth 2.0 and OpenID Connect as pure values and functions: no I/O, clock, randomness or HTTP types.

pub mod time;
