//! Tests of the gateway over HTTP requests, in process. They use the real provider, the memory
//! engine, a clock that the test advances and a SoftHSM token.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::large_futures, reason = "each test has one world, with its configuration")]

#[path = "gateway/access.rs"]
mod access;
#[path = "gateway/agents.rs"]
mod agents;
#[path = "gateway/algorithms.rs"]
mod algorithms;
#[path = "gateway/answers.rs"]
mod answers;
#[path = "gateway/app_passwords.rs"]
mod app_passwords;
#[path = "gateway/assertion.rs"]
mod assertion;
#[path = "gateway/browser.rs"]
mod browser;
#[path = "support/configuration.rs"]
mod configuration;
#[path = "gateway/corp.rs"]
mod corp;
#[path = "gateway/cors.rs"]
mod cors;
#[path = "gateway/destination.rs"]
mod destination;
#[path = "support/foreign.rs"]
mod foreign;
#[path = "gateway/foreign_keys.rs"]
mod foreign_keys;
#[path = "gateway/foreign_tokens.rs"]
mod foreign_tokens;
#[path = "gateway/forward_auth.rs"]
mod forward_auth;
#[path = "gateway/forwarding.rs"]
mod forwarding;
#[path = "gateway/head_budget.rs"]
mod head_budget;
#[path = "gateway/identity_headers.rs"]
mod identity_headers;
#[path = "gateway/join.rs"]
mod join;
#[path = "gateway/kept_form.rs"]
mod kept_form;
#[path = "gateway/levels.rs"]
mod levels;
#[path = "gateway/limits.rs"]
mod limits;
#[path = "gateway/maintenance.rs"]
mod maintenance;
#[path = "support/meddler.rs"]
mod meddler;
#[path = "gateway/networks.rs"]
mod networks;
#[path = "gateway/own_paths.rs"]
mod own_paths;
#[path = "gateway/path_characters.rs"]
mod path_characters;
#[path = "gateway/readings.rs"]
mod readings;
#[path = "support/records.rs"]
mod records;
#[path = "gateway/remembering.rs"]
mod remembering;
#[path = "gateway/replaced_cookies.rs"]
mod replaced_cookies;
#[path = "gateway/resources.rs"]
mod resources;
#[path = "gateway/route_upstreams.rs"]
mod route_upstreams;
#[path = "gateway/rules.rs"]
mod rules;
#[path = "gateway/services.rs"]
mod services;
#[path = "gateway/sessions.rs"]
mod sessions;
#[path = "gateway/shared_origin.rs"]
mod shared_origin;
#[path = "gateway/sign_in.rs"]
mod sign_in;
#[path = "support/softhsm.rs"]
mod softhsm;
#[path = "gateway/sticky.rs"]
mod sticky;
#[path = "gateway/subtrees.rs"]
mod subtrees;
#[path = "http/support/token_device.rs"]
mod token_device;
#[path = "support/totp.rs"]
mod totp;
#[path = "gateway/upstream_users.rs"]
mod upstream_users;
#[path = "gateway/wildcards.rs"]
mod wildcards;
#[path = "gateway/world.rs"]
mod world;
