//! Domain model: users, clients, sessions, codes, grants, keys and events.
//!
//! Contains only values and functions: no I/O, clock, randomness, logging or HTTP types. Raw text
//! is parsed here, so a [`redirect_uri::RedirectUri`], a [`scope::Scope`] or a
//! [`pkce::CodeVerifier`] is always valid.

pub mod account_links;
pub mod admission;
pub mod amr;
pub mod answers;
pub mod api_token;
pub mod app_credential;
pub mod app_password;
pub mod assertion_source;
pub mod assurance;
pub mod audit;
pub mod client;
pub mod client_logo;
pub mod client_logout;
pub mod client_rules;
pub mod code;
pub mod consent;
pub mod console_role;
pub mod error;
pub mod factor_failures;
pub mod factors;
pub mod grant;
pub mod group_filter;
pub mod id;
pub mod key_ring;
pub mod known_browser;
pub mod language;
pub mod limiter;
pub mod line_fault;
pub mod machine_warning;
pub mod mail;
pub mod mail_address;
pub mod oauth;
pub mod open_access;
pub mod pace;
pub mod password_rules;
pub mod pending_link;
pub mod pending_registration;
pub mod pkce;
pub mod profile;
pub mod quality;
pub mod rate_limit;
pub mod recovery_code;
pub mod redirect_uri;
pub mod registration_token;
pub mod resource;
pub mod scope;
pub mod search_filter;
pub mod secret;
pub mod service;
pub mod session;
pub mod shown_client;
pub mod shown_sign_in_data;
pub mod source;
pub mod source_check;
pub mod time;
pub mod totp;
pub mod upstream_trip;
pub mod user;
pub mod user_list;
pub mod username;
pub mod webauthn;
