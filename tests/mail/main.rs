//! Mails: what each says.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod compose;
