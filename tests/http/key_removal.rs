//! Tests the immediate removal of a compromised signing key while its tokens are in use.

use std::sync::Arc;

use sealgate_admin::command::{Command, KeyCommand};
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer::{KeySize, Pkcs11Signer, Signer};

use crate::meddler::{At, Meddler};
use crate::softhsm;
use crate::support::{Provider, Tokens, jwt_header, token_device};

/// Key of the key ring's record in the store.
const KEY_RING: &[u8] = b"mkeys";

/// Runs the test of this name in a separate process, because it generates keys: see
/// [`token_device::own_signer`].
fn in_own_process(test: &str, body: impl AsyncFnOnce()) {
    softhsm::in_own_process(&format!("key_removal::{test}"), token_device::TOKEN_LABEL, |_| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(body());
    });
}

/// Returns a provider with one key of its own.
async fn with_own_key(label: &str) -> (Provider, Arc<Meddler>, Arc<Pkcs11Signer>) {
    let provider = Provider::new().await;
    // The key ring in the store names the key of the shared signer.
    let forget = sealgate_store::engine::Changes { delete: vec![KEY_RING.to_vec()], ..Default::default() };
    sealgate_store::engine::Engine::commit(&*provider.engine, forget).await.unwrap();
    let meddler = Meddler::over(Arc::clone(&provider.engine));
    let signer = token_device::own_signer(label);
    let sealgate = provider.again(Arc::clone(&meddler) as _, Arc::clone(&signer) as Arc<dyn Signer>).await;
    (Provider { sealgate, ..provider }, meddler, signer)
}

/// Returns the same provider with a second key, which is published and not yet active.
async fn with_two_keys(label: &str) -> (Provider, Arc<Meddler>, Arc<Pkcs11Signer>) {
    let (provider, meddler, signer) = with_own_key(label).await;
    let made = signer.make(KeySize::Rsa2048.into(), format!("{label} 2").into_bytes()).await.unwrap();
    run(
        &provider,
        KeyCommand::Announce {
            kid: made.kid.to_string(),
            id: made.id.clone(),
            other_kids: vec![],
            algorithm: Algorithm::Rs256,
        },
    )
    .await;
    (provider, meddler, signer)
}

async fn run(provider: &Provider, command: KeyCommand) {
    execute(&CommandContext::new(&provider.sealgate), Command::Key(command)).await.unwrap();
}

async fn remove_now(provider: &Provider, kid: &str) {
    run(provider, KeyCommand::Remove { kid: kid.to_owned(), at_once: true, in_token: None }).await;
}

async fn published(provider: &Provider) -> Vec<String> {
    let jwks = provider.get("/oauth/jwks").await.json();
    jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn kid(token: &str) -> String {
    jwt_header(token)["kid"].as_str().unwrap().to_owned()
}

/// The removal is committed, and its audit record is being written. The token is used at this time
/// and afterwards.
#[test]
fn a_cached_token_ends_with_the_removal_of_its_key() {
    in_own_process("a_cached_token_ends_with_the_removal_of_its_key", async || {
        let (provider, meddler, _signer) = with_two_keys("in use").await;
        let tokens = provider.c1().tokens("openid").await;
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
        let kid = kid(&tokens.access);
        // The removal is committed but not loaded yet: a request now may be answered with the old key
        // set, and cache the result.
        let stop = meddler.stop(At::AfterCommit, b'm');
        let ((), _) = tokio::join!(remove_now(&provider, &kid), stop.meanwhile(provider.userinfo(&tokens.access)));
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
        assert!(!published(&provider).await.contains(&kid));
    });
}

/// The key is removed after the token's signature was checked and before the result is cached.
/// Covers a first verification and a repeated one.
#[test]
fn a_token_verified_during_a_key_removal_is_not_cached() {
    in_own_process("a_token_verified_during_a_key_removal_is_not_cached", async || {
        for again in [false, true] {
            let (provider, meddler, _signer) = with_two_keys(if again { "again" } else { "first" }).await;
            let tokens = provider.c1().tokens("openid").await;
            if again {
                assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
                provider.sealgate.store.change_user(provider.anna.sub, |_| {}).await.unwrap();
            }
            let stop = meddler.stop(At::AfterGet, b'r');
            let kid = kid(&tokens.access);
            let removing = stop.meanwhile(remove_now(&provider, &kid));
            let (first, ()) = tokio::join!(provider.userinfo(&tokens.access), removing);
            assert_eq!(first.status, 200, "it was verified before");
            for _ in 0..2 {
                provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
            }
        }
    });
}

/// The commit times out and is applied afterwards. No node has loaded it; the next decision finds
/// the changed key ring.
#[test]
fn a_key_removal_that_timed_out_takes_effect_when_the_store_is_read() {
    in_own_process("a_key_removal_that_timed_out_takes_effect_when_the_store_is_read", async || {
        let (provider, meddler, _signer) = with_two_keys("timed out").await;
        let tokens = provider.c1().tokens("openid").await;
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
        meddler.lose_answer(KEY_RING);
        let command = KeyCommand::Remove { kid: kid(&tokens.access), at_once: true, in_token: None };
        assert!(execute(&CommandContext::new(&provider.sealgate), Command::Key(command)).await.is_err());
        meddler.apply_late().await;
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    });
}

/// The clock is set back to before the removal, which remains in force. The active key continues to
/// sign, and tokens can be issued.
#[test]
fn a_clock_set_back_restores_no_removed_key() {
    in_own_process("a_clock_set_back_restores_no_removed_key", async || {
        let (provider, _, signer) = with_two_keys("clock").await;
        provider.wait(600);
        let old = provider.c1().tokens("openid").await;
        remove_now(&provider, &kid(&old.access)).await;
        let new = provider.c1().tokens("openid").await;
        assert_ne!(kid(&new.access), kid(&old.access));
        back(&provider, 300);
        let start_again = provider.again(Arc::clone(&provider.engine) as _, signer as Arc<dyn Signer>).await;
        let restarted = Provider { sealgate: start_again, ..provider };
        restarted.userinfo(&old.access).await.assert_bearer_error(401, "invalid_token");
        assert_eq!(published(&restarted).await, [kid(&new.access)]);
        let later = Tokens::of(&restarted.c1().redeem(&restarted.c1().code(&[]).await).await);
        assert_eq!(kid(&later.access), kid(&new.access));
        assert_eq!(restarted.userinfo(&later.access).await.status, 200);
    });
}

/// On a first start, the only key signs, regardless of the clock.
#[test]
fn a_clock_set_back_keeps_the_active_key() {
    in_own_process("a_clock_set_back_keeps_the_active_key", async || {
        let (provider, _, _signer) = with_own_key("first start").await;
        let before = published(&provider).await;
        back(&provider, 120);
        provider.sealgate.reload_key_ring().await.unwrap();
        assert_eq!(published(&provider).await, before);
        let states = provider.get("/.well-known/sealgate/keys").await.json();
        assert_eq!(states["keys"][0]["state"], "active");
        let tokens = provider.c1().tokens("openid").await;
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    });
}

fn back(provider: &Provider, seconds: u64) {
    let now = provider.sealgate.clock.now().seconds();
    provider.clock.set(UnixTime::from_seconds(now - seconds));
}
