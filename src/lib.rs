//! Sealgate: an identity-aware proxy and OpenID Connect provider in one process.
//!
//! From the bottom to the top; a part names parts above its own line only (docs/architecture.md, held by
//! `tests/architecture.rs`):
//!
//! ```text
//! domain                 people, clients, sessions, codes, grants, keys: pure
//! oauth                  requests and answers of OAuth 2.0 and OpenID Connect: pure
//! webauthn               security keys and passkeys: pure
//! config log clock fetch metrics limiter password page, and the lower half of web: cookie, origin, rewrite, request_fields
//! store audit            what is kept, and what happened
//! signer attestation     the PKCS#11 token, and what its vendor says of it
//! tokens                 issuer, clients, bearer, trusted
//! app::state             what each request gets
//! admin web              commands; what provider and gate share: request, response, failure, limits
//! provider gateway edge  who answers: the identity provider, the gate; and the sockets before both
//! app                    site, server, rotation, reload, start
//! cli                    the command line
//! ```
//!
//! A request comes in at `edge::proxy::service` and asks `app::site` whose it is. `POST /oauth/token` goes on to
//! `provider::token`, `oauth::token`, `domain::code`, `tokens::issuer` and `store::grants`; a request for an application to
//! `gateway`, `tokens::bearer` and `gateway::policy`, and by `edge::upstream` out again; `GET /oauth/authorize` to
//! `provider::authorize`, `oauth::next_step` and the pages of the sign-in.

pub mod admin;
pub mod app;
pub mod attestation;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod edge;
pub mod fetch;
pub mod gateway;
pub mod limiter;
pub mod log;
pub mod metrics;
pub mod oauth;
pub mod page;
pub mod password;
pub mod provider;
pub mod signer;
pub mod store;
pub mod tokens;
pub mod web;
pub mod webauthn;
