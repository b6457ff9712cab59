//! Tests of upstream OpenID providers against a provider whose answers each test determines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod upstream {
    mod check;
    mod client;
    mod discovery;
    mod github;
    mod harness;
    mod keys;
    mod limits;
    mod logout;
    mod refresh;
    mod sign_in;
    mod user_info;
}
