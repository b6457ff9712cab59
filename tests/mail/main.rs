//! E-mails: their content and their delivery to a relay.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod compose;
#[path = "../support/mail_server.rs"]
mod mail_server;
mod transport;
