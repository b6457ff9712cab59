//! Tests that requests of strangers and of ordinary users write no warnings or errors to the log.
//! Otherwise a stranger could fill the log and trigger the operator's alarms.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::mailbox::{self, MAIL};
use crate::register::{Registered, metadata, register};
use crate::registration_of_people;
use crate::reset::forgot_page;
use crate::steps::with_anna;
use crate::support::{PASSWORD, Provider, Reply};

const ANNA: &str = "anna@example.test";
const NEW: &str = "purple lantern under seven bridges";
const SCARCE: &str = "[login]\nfailures_per_account = 100\npassword_threads = 1\npassword_queue = 1\n";

/// Warnings and errors that this test's thread has logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn capture() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_max_level(Level::WARN).with_ansi(false);
        let guard = tracing::subscriber::set_default(log.with_writer(move || writer.clone()).finish());
        (lines, guard)
    }

    /// Asserts that nothing was logged since startup.
    #[track_caller]
    fn assert_none(&self) {
        let text = || String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text(), "");
        tracing::warn!("a line of the test");
        assert!(text().contains("a line of the test"), "the log is not captured");
    }
}

fn assert_some_busy(replies: [Reply; 8]) {
    let statuses = replies.map(|reply| reply.status);
    assert!(statuses.contains(&503), "the queue was full: {statuses:?}");
}

#[tokio::test]
async fn wrong_secrets_and_assertions_write_no_warnings() {
    let provider = Provider::new().await;
    let (lines, _guard) = Lines::capture();
    let wrong = [("authorization", crate::support::basic("c1", "wrong"))];
    let wrong: Vec<_> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    provider.post("/oauth/token", &wrong, &[]).await.assert_unauthenticated();
    for assertion in ["x", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjMSJ9."] {
        let fields = [
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", assertion),
        ];
        provider.post("/oauth/token", &[], &fields).await.assert_unauthenticated();
    }
    lines.assert_none();
}

/// Only the holder of the secret causes the warning.
#[tokio::test]
async fn an_expired_secret_is_named_in_the_log_but_not_in_the_answer() {
    let provider = Provider::new().await;
    let end = sealgate_system::clock::Clock::now(provider.clock.as_ref());
    provider.change_client("c1", |client| client.secrets[0].expires_at = Some(end)).await;
    let id = provider.confidential("c1").secrets[0].id();
    let (lines, _guard) = Lines::capture();
    let reply = provider.c1().refresh("RT_x").await;
    reply.assert_unauthenticated();
    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("refused an expired client secret") && logged.contains(&id), "{logged}");
    assert!(!logged.contains("secret of c1") && !reply.text().contains(&id), "{logged}");
}

#[tokio::test]
async fn sign_ins_refused_by_a_full_queue_write_no_warnings() {
    let provider = Provider::with(SCARCE).await;
    let (lines, _guard) = Lines::capture();
    let stranger = provider.browser();
    let page = stranger.open(&provider.c1().authorize(&[])).await;
    let attempt = || stranger.submit(&page, &[("email", ANNA), ("password", "wrong")]);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    assert_some_busy(replies.into());
    lines.assert_none();
}

#[tokio::test]
async fn new_passwords_refused_by_a_full_queue_write_no_warnings() {
    let provider = Provider::with(&format!("{MAIL}{SCARCE}")).await;
    let anna = with_anna(&provider).await;
    let page = anna.open("/account/password").await;
    let owner = provider.browser();
    let token = crate::reset::link_of(&provider, ANNA).await;
    let reset = owner.open(&format!("/oauth/reset?token={token}")).await;
    let (lines, _guard) = Lines::capture();
    let common = "passwordpassword";
    let fields = [("current", PASSWORD), ("new", common), ("again", common)];
    let attempt = || anna.submit(&page, &fields);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    assert_some_busy(replies.into());
    let fields = [("new-password", common)];
    let attempt = || owner.submit(&reset, &fields);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    assert_some_busy(replies.into());
    assert!(owner.submit(&reset, &[("new-password", NEW)]).await.text().contains("Your password was changed"));
    lines.assert_none();
}

#[tokio::test]
async fn mails_refused_by_a_full_outbox_write_no_warnings() {
    let provider = registration_of_people::open().await;
    let (forgetful, newcomer) = (provider.browser(), provider.browser());
    let forgot = forgot_page(&provider, &forgetful).await;
    let create = registration_of_people::begin(&provider, &newcomer).await;
    mailbox::fill(&provider.sealgate).await;
    let (lines, _guard) = Lines::capture();
    assert_eq!(forgetful.submit(&forgot, &[("email", ANNA)]).await.status, 200);
    assert_eq!(newcomer.submit(&create, &[("email", "ceren@example.test")]).await.status, 503);
    assert_eq!(mailbox::dropped(&provider.sealgate, "reset_wanted"), 1);
    assert_eq!(mailbox::dropped(&provider.sealgate, "address_wanted"), 1);
    lines.assert_none();
}

#[tokio::test]
async fn client_registrations_over_the_limit_write_no_warnings() {
    let provider = Provider::with("[registration]\nmode = \"open\"\nmax_clients = 1").await;
    Registered::new(&provider, &json!({})).await;
    let (lines, _guard) = Lines::capture();
    register(&provider, &metadata(&json!({}))).await.assert_error(503, "temporarily_unavailable");
    lines.assert_none();
}

#[tokio::test]
async fn sign_ins_over_the_limit_write_no_warnings() {
    let provider = Provider::changed("", |config| config.sessions.max_interactions = 0).await;
    let (lines, _guard) = Lines::capture();
    provider.browser().open(&provider.c1().authorize(&[])).await.assert_error_redirect("temporarily_unavailable");
    lines.assert_none();
}

#[tokio::test]
async fn an_invalid_passkey_response_writes_no_warnings() {
    let provider = Provider::new().await;
    let anna = with_anna(&provider).await;
    let page = anna.open("/account/security/key").await;
    let (lines, _guard) = Lines::capture();
    let fields = [("name", "key"), ("kind", "passkey"), ("credential", "{}")];
    let refused = crate::security::send(&anna, "/account/security/key", &page, &fields).await;
    assert!(refused.text().contains("role=\"alert\""), "{refused:?}");
    lines.assert_none();
}
