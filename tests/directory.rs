//! Tests of directories against OpenLDAP: sign-in, groups, states, TLS and failures.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod directory {
    mod active_directory;
    mod check;
    mod failures;
    mod harness;
    mod reads;
    mod sign_in;
    mod tls;
}
#[path = "support/port.rs"]
mod port;
#[path = "support/program.rs"]
mod program;
#[path = "support/scripted.rs"]
mod scripted;
#[path = "support/slapd.rs"]
mod slapd;
