//! Tests the edge over real sockets, with a test front and real upstreams.
//!
//! Clients are `curl` or write raw bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod admin;
mod authority;
mod client_certificates;
mod compression;
mod event_streams;
mod few_requests;
mod front_tls;
mod greedy;
mod harness;
mod health_checks;
mod hostile;
mod http2;
mod http2_server;
mod http2_upstreams;
mod lasting;
#[path = "../../examples/legacy.rs"]
#[expect(dead_code, reason = "the example's main is not called here")]
mod legacy;
mod limits;
mod load_balancers;
mod local;
mod loops;
#[path = "../support/port.rs"]
mod port;
mod proxying;
mod redirect;
mod refused;
mod reload;
mod request_policy;
mod route_upstreams;
mod self_signed;
mod smuggling;
mod sticky;
mod stop;
mod streams;
mod tls;
mod unfinished;
mod upstreams;
