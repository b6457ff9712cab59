//! Tests state that changes while a request is processed: a session in another tab, a client's
//! scope, a user's password.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::{CommandContext, UserRef, execute};
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::secret::Secret;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Expect, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;

use crate::steps::{assert_code, assert_consent, with_anna};
use crate::support::{PASSWORD, Provider, Tokens, token_device};

/// Engine that changes a session just before a commit that depends on it, this many times.
struct Meddled {
    engine: Arc<MemoryEngine>,
    times: Arc<AtomicUsize>,
}

#[async_trait]
impl Engine for Meddled {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.engine.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        let session = changes.expect.iter().find_map(|expect| match expect {
            Expect::Value(key, value) if key.starts_with(b"s") && !changes.put.is_empty() => Some((key, value)),
            _ => None,
        });
        if let Some((key, value)) = session
            && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        {
            let mut other: serde_json::Value = serde_json::from_slice(&value[1..]).unwrap();
            other["user_agent"] = format!("another {}", self.times.load(Ordering::SeqCst)).into();
            let other = [&value[..1], &serde_json::to_vec(&other).unwrap()].concat();
            self.engine.commit(Changes { put: vec![(key.clone(), other)], ..Changes::default() }).await?;
        }
        self.engine.commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.engine.ping().await
    }
}

/// Returns a provider whose sessions are changed concurrently once the number is set.
async fn meddled() -> (Provider, Arc<AtomicUsize>) {
    let provider = Provider::new().await;
    let times = Arc::new(AtomicUsize::new(0));
    let engine = Arc::new(Meddled { engine: Arc::clone(&provider.engine), times: Arc::clone(&times) });
    let sealgate = provider.again(engine, token_device::signer()).await;
    (Provider { sealgate, ..provider }, times)
}

/// The old cookie is signed out even if the session changes several times during the sign-in. No
/// session without a browser remains.
#[tokio::test]
async fn a_sign_in_concurrent_with_a_session_change_leaves_no_old_session() {
    for times in [1, 3, 100] {
        let (provider, meddle) = meddled().await;
        let browser = with_anna(&provider).await;
        let old = browser.cookie("__Host-sealgate").unwrap();
        let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
        meddle.store(times, Ordering::SeqCst);
        let page = browser.sign_in(&page, "ben@example.test").await;
        meddle.store(0, Ordering::SeqCst);
        assert_consent(&page);
        let new = browser.cookie("__Host-sealgate").unwrap();
        assert_ne!(new, old);
        let store = &provider.sealgate.store;
        let of_ben = store.sessions_of_user(provider.ben.sub, None, 10).await.unwrap().sessions;
        let of_anna = store.sessions_of_user(provider.anna.sub, None, 10).await.unwrap().sessions;
        assert_eq!(of_ben.len(), 1);
        assert!(of_anna.iter().all(|session| session.id == of_ben[0].id), "{times}: {of_anna:?}");
        let thief = provider.browser();
        thief.set_cookie("__Host-sealgate", &old);
        let silent = thief.open(&provider.c1().authorize(&[("prompt", "none")])).await;
        silent.assert_error_redirect("login_required");
    }
}

#[tokio::test]
async fn a_removed_scope_is_not_granted_to_pending_requests() {
    let provider = Provider::new().await;
    let (client, browser) = (provider.c1(), provider.browser());
    let page = browser.open(&client.authorize(&[("scope", "openid email")])).await;
    let consent = browser.sign_in(&page, "anna@example.test").await;
    assert_consent(&consent);
    let code = client.code(&[("scope", "openid email")]).await;
    provider.change_client("c1", |client| client.scope = client.scope.without(ScopeValue::Email)).await;
    browser.allow(&consent).await.assert_error_redirect("invalid_scope");
    client.redeem(&code).await.assert_error(400, "invalid_grant");
    let code = client.code(&[("scope", "openid")]).await;
    assert_eq!(client.redeem(&code).await.status, 200);
}

/// A refresh token obtained with the old password stays invalid, even after a disabled user is
/// enabled again.
#[tokio::test]
async fn a_new_password_and_a_disabled_account_end_refresh_tokens_for_good() {
    let provider = Provider::new().await;
    let named = || UserRef::Sub(provider.anna.sub);
    let run = async |command| {
        let answer = execute(&CommandContext::new(&provider.sealgate), Command::User(command)).await.unwrap();
        answer.members()["grants_ended"].clone()
    };
    let tokens = provider.c1().tokens("openid offline_access").await;
    let password = Secret::new(format!("{PASSWORD} II")).into();
    assert_eq!(run(UserCommand::SetPassword { user: named(), password }).await, 1);
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);

    let password = Secret::new(PASSWORD).into();
    run(UserCommand::SetPassword { user: named(), password }).await;
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    assert_eq!(run(UserCommand::Disable(named().into())).await, 1);
    execute(&CommandContext::new(&provider.sealgate), Command::User(UserCommand::Enable(named()))).await.unwrap();
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
}

/// A consent that is submitted after its request has expired shows the consent page again.
#[tokio::test]
async fn an_expired_consent_form_shows_the_consent_page_again() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = browser.open(&provider.c2().authorize(&[("state", "late")])).await;
    assert_consent(&page);
    provider.wait(901);
    let again = browser.allow(&page).await;
    assert_consent(&again);
    let reply = browser.allow(&again).await;
    assert_code(&reply);
    assert_eq!(reply.returned("state").as_deref(), Some("late"));
}
