//! Tests that a code is invalid once the user, the consent or the session behind it has ended.

use sealgate_domain::client::ClientId;
use sealgate_domain::grant::EndReason;
use sealgate_domain::user::UserState;
use sealgate_system::clock::Clock;

use crate::support::{Provider, Tokens};

#[tokio::test]
async fn tok_12_a_code_of_a_disabled_user_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await;
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_12_a_code_ends_with_its_consent() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let client = ClientId::parse("c1").unwrap();
    let now = Clock::now(provider.clock.as_ref());
    provider.sealgate.store.withdraw_consent(provider.anna.sub, &client, now).await.unwrap();
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_12_a_code_ends_with_its_session() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
    let code = provider.c1().code_in(&browser, &[]).await;
    browser.get(&format!("/oauth/logout?id_token_hint={}", first.id)).await;
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    // The operator signs the user out everywhere.
    let code = provider.c1().code(&[]).await;
    provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
}

#[tokio::test]
async fn tok_12_a_revocation_during_signing_is_kept() {
    let provider = Provider::new().await;
    let (store, anna) = (&provider.sealgate.store, provider.anna.sub);
    let client = ClientId::parse("c1").unwrap();
    let now = Clock::now(provider.clock.as_ref());
    let why = EndReason::Administrator;
    // No tokens may be left, whichever request commits first. Repeated, because only some
    // interleavings show the race.
    for taken in ["everything", "the consent", "the client"].repeat(4) {
        let (c1, code) = (provider.c1(), provider.c1().code(&[("scope", "openid offline_access")]).await);
        let take_away = async {
            match taken {
                "everything" => {
                    store.end_sessions_of_user(anna).await.unwrap();
                    store.end_grants_of_user(anna, why, now).await.unwrap();
                }
                "the consent" => drop(store.withdraw_consent(anna, &client, now).await.unwrap()),
                _ => assert!(store.delete_client(&client, now).await.unwrap()),
            }
        };
        let (reply, ()) = tokio::join!(c1.redeem(&code), take_away);
        assert!(reply.status == 200 || reply.json()["error"] == "invalid_grant", "{reply:?}");
        assert_eq!(store.end_grants_of_user(anna, why, now).await.unwrap(), 0, "{taken}: a grant is left");
        if taken == "the client" {
            provider.add_client(provider.confidential("c1")).await;
        }
    }
}
