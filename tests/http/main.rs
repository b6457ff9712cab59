//! Tests the provider over in-process HTTP requests: with the memory engine, a manual clock and a
//! SoftHSM token for signing.
//!
//! The ids in the tests' names (`auth_09`, `tok_24`, …) refer to the cases in `docs/explanation/protocol.md`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/authenticator.rs"]
mod authenticator;
#[path = "../support/configuration.rs"]
mod configuration;
#[path = "../support/factors.rs"]
mod factors;
#[path = "../support/foreign.rs"]
mod foreign;
#[path = "../support/foreign_hashes.rs"]
mod foreign_hashes;
#[path = "../support/logout_receiver.rs"]
mod logout_receiver;
#[path = "../support/mail_server.rs"]
mod mail_server;
#[path = "../support/meddler.rs"]
mod meddler;
#[path = "../support/openid_provider.rs"]
mod openid_provider;
#[path = "../support/port.rs"]
mod port;
#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/records.rs"]
mod records;
#[path = "../support/softhsm.rs"]
mod softhsm;
mod support;
mod sweep;
#[path = "../support/totp.rs"]
mod totp;

mod mailbox;

mod flow;
mod form_origin;
mod form_post;

mod account;
mod addresses;
mod algorithms;
mod api;
mod app_logins;
mod app_passwords;
mod audit;
mod authorize;
mod authorize_by_post;
mod client_assertions;
mod client_auth;
mod client_credentials;
mod client_documents;
mod client_logout;
mod clock;
mod cluster;
mod cluster_limits;
mod code_ended;
mod code_verifier;
mod console;
mod contention;
mod discovery;
mod flood;
mod groups;
mod home;
mod imported;
mod interaction;
mod interrupted;
mod introspection;
mod invitation_page;
mod invitations;
mod jwks;
mod jwt;
mod keep_signed_in;
mod key_removal;
mod keys;
mod level;
mod linking;
mod lock_out;
mod log_lines;
mod login;
mod logout;
mod looks;
mod names;
mod notices;
mod open_accesses;
mod outbox;
mod pages;
mod pkce;
mod races;
mod rate_limit;
mod redirect_uri;
mod refresh;
mod refresh_nodes;
mod refresh_retry;
mod register;
mod registration;
mod registration_of_people;
mod replaced_cookie;
mod reset;
mod reset_times;
mod resources;
mod revocation_races;
mod revoke;
mod robustness;
mod second_factor;
mod second_factor_attacks;
mod security;
mod session;
mod signed_out_meanwhile;
mod steps;
mod token;
mod token_request;
mod undo;
mod unused;
mod upstream;
mod userinfo;
mod usernames;
mod without_address;
