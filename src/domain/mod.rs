//! What Sealgate keeps and decides on: people, clients, sessions, codes, grants, keys, events. Pure values and functions: no
//! I/O, no clock, no randomness, no logging, no HTTP types. Raw strings stop here: a [`redirect_uri::RedirectUri`], a
//! [`scope::Scope`], a [`pkce::CodeVerifier`] exists only when it is valid.

pub mod account_links;
pub mod admission;
pub mod answers;
pub mod app_password;
pub mod assurance;
pub mod audit;
pub mod client;
pub mod code;
pub mod consent;
pub mod error;
pub mod factor_failures;
pub mod grant;
pub mod id;
pub mod key_ring;
pub mod known_browser;
pub mod language;
pub mod mail;
pub mod mail_address;
pub mod pace;
pub mod pending_registration;
pub mod pkce;
pub mod profile;
pub mod rate_limit;
pub mod recovery_code;
pub mod redirect_uri;
pub mod scope;
pub mod sealed;
pub mod secret;
pub mod session;
pub mod time;
pub mod totp;
pub mod user;
pub mod username;
