//! Tests revocations that a crash interrupts: the cause is written, but the sessions and tokens are
//! not ended yet. The next start ends them, or the garbage collection of a running process.

use std::sync::Arc;
use std::time::Duration;

use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::{CommandContext, UserRef, execute};
use sealgate_domain::secret::Secret;
use sealgate_store::engine::{Changes, Engine, Outcome};
use sealgate_system::clock::Clock as _;

use crate::meddler::Meddler;
use crate::steps::with_anna;
use crate::support::{PASSWORD, Provider, Tokens, is_login, token_device};

const SESSION: u8 = b's';
const GRANT: u8 = b'g';
const NEW: &str = "a longer password than before";

/// Starts another process on the same store.
async fn start_again(provider: &Provider, meddler: &Arc<Meddler>) {
    meddler.fail(None);
    provider.again(Arc::clone(meddler) as Arc<dyn Engine>, token_device::signer()).await;
}

async fn open_revocations(provider: &Provider) -> usize {
    provider.sealgate.store.carry_out_open_revocations(provider.clock.now()).await.unwrap()
}

/// Runs the command while no session can be ended, and starts again.
async fn interrupted(command: impl FnOnce(UserRef) -> UserCommand) -> (Provider, Arc<Meddler>) {
    let (provider, meddler) = Provider::meddled().await;
    {
        let thief = with_anna(&provider).await;
        meddler.fail(Some(SESSION));
        let command = Command::User(command(UserRef::Sub(provider.anna.sub)));
        assert!(execute(&CommandContext::new(&provider.sealgate), command).await.is_err());
        start_again(&provider, &meddler).await;
        let enable = Command::User(UserCommand::Enable(UserRef::Sub(provider.anna.sub)));
        execute(&CommandContext::new(&provider.sealgate), enable).await.unwrap();
        assert!(is_login(&thief.open("/account").await), "the session goes on");
    }
    (provider, meddler)
}

#[tokio::test]
async fn an_interrupted_password_reset_by_an_administrator_is_completed() {
    interrupted(|user| UserCommand::SetPassword { user, password: Secret::new(NEW).into() }).await;
}

#[tokio::test]
async fn an_interrupted_disabling_is_completed() {
    interrupted(|user| UserCommand::Disable(user.into())).await;
}

#[tokio::test]
async fn an_interrupted_factor_reset_is_completed() {
    interrupted(UserCommand::ResetFactors).await;
}

#[tokio::test]
async fn an_interrupted_revocation_is_completed() {
    let (provider, _) = interrupted(|user| UserCommand::Revoke(user.into())).await;
    assert_eq!(open_revocations(&provider).await, 0, "completed work is not repeated at each startup");
}

#[tokio::test]
async fn an_interrupted_password_change_is_completed() {
    let (provider, meddler) = Provider::meddled().await;
    let (thief, owner) = (with_anna(&provider).await, with_anna(&provider).await);
    let page = owner.get("/account/password").await;
    meddler.fail(Some(SESSION));
    let failed = owner.submit(&page, &[("current", PASSWORD), ("new", NEW), ("again", NEW)]).await;
    assert!(failed.status >= 500, "{failed:?}");
    start_again(&provider, &meddler).await;
    assert!(is_login(&thief.open("/account").await));
}

/// The process stops when the sessions have ended and the grants have not. The cookie of the session
/// that stays was not sent, so that session ends too.
#[tokio::test]
async fn an_interrupted_sign_out_everywhere_is_completed() {
    let (provider, meddler) = Provider::meddled().await;
    let (thief, owner) = (with_anna(&provider).await, with_anna(&provider).await);
    let client = provider.c1();
    let code = client.code_in(&thief, &[("scope", "openid offline_access")]).await;
    let tokens = Tokens::of(&client.redeem(&code).await);
    let page = owner.get("/account/sessions").await;
    meddler.fail(Some(GRANT));
    let failed = owner.submit(&page, &[("others", "yes")]).await;
    assert!(failed.status >= 500, "{failed:?}");
    start_again(&provider, &meddler).await;
    assert!(is_login(&thief.open("/account").await));
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(open_revocations(&provider).await, 0);
}

#[tokio::test]
async fn a_completed_sign_out_everywhere_leaves_no_pending_revocation() {
    let provider = Provider::new().await;
    let (owner, other) = (with_anna(&provider).await, with_anna(&provider).await);
    let page = owner.get("/account/sessions").await;
    owner.submit(&page, &[("others", "yes")]).await;
    assert_eq!(open_revocations(&provider).await, 0);
    assert_eq!(owner.get("/account").await.status, 200);
    assert!(is_login(&other.open("/account").await));
}

#[tokio::test]
async fn a_completed_or_refused_password_change_leaves_no_pending_revocation() {
    let provider = Provider::new().await;
    let owner = with_anna(&provider).await;
    for current in ["wrong", PASSWORD] {
        let page = owner.get("/account/password").await;
        owner.submit(&page, &[("current", current), ("new", NEW), ("again", NEW)]).await;
        assert_eq!(open_revocations(&provider).await, 0);
        assert_eq!(owner.get("/account").await.status, 200);
    }
}

#[tokio::test]
async fn the_sweeper_completes_an_interrupted_revocation() {
    let (provider, meddler) = Provider::meddled().await;
    let thief = with_anna(&provider).await;
    meddler.fail(Some(SESSION));
    let user = UserRef::Sub(provider.anna.sub);
    let command = Command::User(UserCommand::SetPassword { user, password: Secret::new(NEW).into() });
    assert!(execute(&CommandContext::new(&provider.sealgate), command).await.is_err());
    meddler.fail(None);
    let sweep = async || provider.sealgate.store.sweep(provider.clock.now(), 64).await.unwrap();
    sweep().await;
    assert_eq!(thief.get("/account").await.status, 200, "the process that started it has some time");
    provider.wait(Duration::from_mins(2).as_secs());
    sweep().await;
    assert!(is_login(&thief.open("/account").await));
    assert_eq!(open_revocations(&provider).await, 0);
}

/// An unreadable revocation does not block a start or the garbage collection of other revocations.
#[tokio::test]
async fn a_damaged_record_does_not_block_other_revocations() {
    let (provider, meddler) = Provider::meddled().await;
    let thief = with_anna(&provider).await;
    meddler.fail(Some(SESSION));
    let user = UserRef::Sub(provider.anna.sub);
    let command = Command::User(UserCommand::SetPassword { user, password: Secret::new(NEW).into() });
    assert!(execute(&CommandContext::new(&provider.sealgate), command).await.is_err());
    meddler.fail(None);
    let open = provider.engine.scan(b"O", None, 9).await.unwrap();
    let [(key, _)] = open.as_slice() else { panic!("{open:?}") };
    // The key of the damaged record sorts before all others.
    let mut damaged = key.clone();
    damaged[1..17].fill(0);
    let put = |key: &[u8], value: &[u8]| Changes { put: vec![(key.to_vec(), value.to_vec())], ..Changes::default() };
    let due_then = [b"e", &0_u32.to_be_bytes()[..], &damaged].concat();
    for changes in [put(&damaged, b"?"), put(&due_then, b"")] {
        assert_eq!(provider.engine.commit(changes).await.unwrap(), Outcome::Committed);
    }
    let swept = provider.sealgate.store.sweep(provider.clock.now(), 64).await;
    assert!(swept.is_ok(), "{swept:?}");
    start_again(&provider, &meddler).await;
    assert!(is_login(&thief.open("/account").await));
    assert_eq!(provider.engine.scan(b"O", None, 9).await.unwrap(), [(damaged, b"?".to_vec())]);
}

/// A session that cannot be read opens nothing, and does not prevent startup.
#[tokio::test]
async fn a_damaged_session_does_not_prevent_the_start() {
    let (provider, meddler) = Provider::meddled().await;
    with_anna(&provider).await;
    meddler.fail(Some(SESSION));
    let command = Command::User(UserCommand::Revoke(UserRef::Sub(provider.anna.sub).into()));
    assert!(execute(&CommandContext::new(&provider.sealgate), command).await.is_err());
    meddler.fail(None);
    let sessions = provider.engine.scan(&[SESSION], None, 9).await.unwrap();
    let [(key, _)] = sessions.as_slice() else { panic!("{sessions:?}") };
    let damage = Changes { put: vec![(key.clone(), b"?".to_vec())], ..Changes::default() };
    assert_eq!(provider.engine.commit(damage).await.unwrap(), Outcome::Committed);
    provider.wait(Duration::from_mins(2).as_secs());
    let swept = provider.sealgate.store.sweep(provider.clock.now(), 64).await;
    assert!(swept.is_ok(), "{swept:?}");
    start_again(&provider, &meddler).await;
}
