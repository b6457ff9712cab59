//! Tests the real binary, started as an operator starts it: SoftHSM, sled or PostgreSQL, free
//! ports, a real application behind the gateway.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/authenticator.rs"]
mod authenticator;
#[allow(clippy::print_stdout, reason = "the seed")]
#[path = "../faults/chance.rs"]
mod chance;
#[path = "../support/configuration.rs"]
mod configuration;
#[path = "../support/factors.rs"]
mod factors;
#[path = "../support/foreign.rs"]
mod foreign;
#[path = "../support/logout_receiver.rs"]
mod logout_receiver;
#[path = "../support/mail_server.rs"]
mod mail_server;
#[path = "../support/openid_provider.rs"]
mod openid_provider;
#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/program.rs"]
mod program;
#[allow(dead_code, reason = "the tests of engines use the rest")]
#[path = "../support/relay.rs"]
mod relay;
#[path = "../support/shim.rs"]
mod shim;
#[path = "../support/slapd.rs"]
mod slapd;
#[path = "../support/softhsm.rs"]
mod softhsm;
mod support;
#[path = "../support/token_certificate.rs"]
mod token_certificate;

mod acme;
mod active_directory;
mod algorithms;
mod attestation;
mod backup;
mod bodies;
mod client_logout;
mod cluster;
mod cluster_check;
mod cluster_keys;
mod damage;
mod defined_clients;
mod demo;
mod directory;
mod directory_outage;
mod directory_rounds;
mod directory_users;
mod disk;
mod doctor;
mod enrolment;
mod failover;
mod flow;
mod form_login;
mod forward_auth;
mod front;
mod gate;
mod health_checks;
mod icons;
mod init;
mod kept_form;
mod keys;
mod lasting;
mod leaving;
mod load_balancer;
mod log;
mod mails;
mod maintenance;
mod memory;
mod monitoring;
mod moving;
mod older;
mod open_accesses;
mod openidconnect;
mod own_logins;
mod ready;
mod reload;
mod resources;
mod restart;
mod rotation;
mod route_upstreams;
mod shared_cache;
mod shared_origin;
#[cfg(target_arch = "x86_64")]
mod shared_writes;
mod start;
mod sticky;
mod stopped;
mod streaming;
mod sync;
mod threads;
mod token_tls;
mod traces;
mod transfer;
mod trusted_issuer;
mod unfinished;
mod upstream;
mod wildcards;
mod workers;

use support::port;
