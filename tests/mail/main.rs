//! Mails: what each says, and how it is handed over.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod compose;
#[path = "../support/mail_server.rs"]
mod mail_server;
mod transport;
