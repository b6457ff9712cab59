//! The rules of OAuth 2.0 and OpenID Connect as pure values and functions: no I/O, no clock, no randomness, no logging,
//! no HTTP types. Raw strings stop here: a [`redirect_uri::RedirectUri`], a [`scope::Scope`], a [`pkce::CodeVerifier`]
//! exists only when it is valid.

pub mod algorithm;
pub mod app_password;
pub mod audit;
pub mod authorize;
pub mod claims;
pub mod client;
pub mod code;
pub mod consent;
pub mod credentials;
pub mod error;
pub mod foreign;
pub mod grant;
pub mod jwk_set;
pub mod jwt;
pub mod key_life;
pub mod known_browser;
pub mod logout;
pub mod metadata;
pub mod next_step;
pub mod params;
pub mod pkce;
pub mod profile;
pub mod rate_limit;
pub mod redirect_uri;
pub mod registration;
pub mod scope;
pub mod secret;
pub mod session;
pub mod strict_json;
pub mod time;
pub mod token;
pub mod user;
pub mod username;
