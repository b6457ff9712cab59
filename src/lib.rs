//! Sealgate: an identity-aware proxy and OpenID Connect provider in one process.
//!
//! From the bottom to the top; a part names parts above its own line only (docs/explanation/architecture.md, held by
//! `tests/architecture.rs`):
//!
//! ```text
//! domain                 people, clients, sessions, codes, grants, keys: pure
//! webauthn factors       security keys and passkeys; what people have beside their passwords: pure
//! oauth                  requests and answers of OAuth 2.0 and OpenID Connect: pure
//! config log clock fetch metrics limiter password page mail, and the lower half of web: cookie, origin, rewrite, request_fields
//! oaep                   encrypting to a node's public key
//! store audit            what is kept, and what happened
//! limits                 requests and guesses, counted here or with other nodes
//! signer attestation     the PKCS#11 token, and what its vendor says of it
//! tokens                 issuer, clients, bearer, trusted
//! app::state             what each request gets
//! admin web              commands; what provider and gate share: request, response, failure, limits
//! provider gateway edge  who answers: the identity provider, the gate; and the sockets before both
//! app                    site, server, rotation, reload, start
//! cli                    the command line
//! ```
//!
//! Everything is the crate's own, but for [`main`] and what tests and benches take by [`facade`].
//!
//! A request comes in at `edge::proxy::service` and asks `app::site` whose it is. `POST /oauth/token` goes on to
//! `provider::token`, `oauth::token`, `domain::code`, `tokens::issuer` and `store::grants`; a request for an application to
//! `gateway`, `tokens::bearer` and `gateway::policy`, and by `edge::upstream` out again; `GET /oauth/authorize` to
//! `provider::authorize`, `oauth::next_step` and the pages of the sign-in.

mod admin;
mod app;
mod attestation;
mod audit;
mod cli;
mod clock;
mod config;
#[expect(unreachable_pub, reason = "the fuzz targets take these files as a crate of their own")]
mod domain;
mod edge;
pub mod facade;
#[expect(unreachable_pub, reason = "a pure part, as domain and webauthn are")]
mod factors;
mod fetch;
mod gateway;
mod limiter;
mod limits;
mod log;
mod mail;
mod metrics;
mod named_certificate;
mod oaep;
#[expect(unreachable_pub, reason = "the fuzz targets take these files as a crate of their own")]
mod oauth;
mod page;
mod password;
mod provider;
mod signer;
mod store;
mod tokens;
mod web;
#[expect(unreachable_pub, reason = "the fuzz targets take these files as a crate of their own")]
mod webauthn;

pub use app::memory::Allocator;
pub use cli::main;
