//! A client that demands a level gets tokens only of sign-ins that have reached it, whatever its requests ask for.

use sealgate::facade::domain::assurance::AssuranceLevel;

use crate::support::{Provider, Reply, Tokens};

const OFFLINE: &str = "openid offline_access";

async fn demand(provider: &Provider, level: Option<AssuranceLevel>) {
    provider.change_client("c1", |client| client.level = level).await;
}

fn assert_too_weak(reply: &Reply) {
    reply.assert_error(400, "invalid_grant");
    let description = &reply.json()["error_description"];
    assert!(description.as_str().unwrap().ends_with("Sign in again."), "{description}");
}

#[tokio::test]
async fn a_code_of_a_weaker_sign_in_gives_nothing() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    demand(&provider, Some(AssuranceLevel::Two)).await;
    assert_too_weak(&provider.c1().redeem(&code).await);
    // Another client demands nothing, and this one gets what it demands.
    Tokens::of(&provider.p1().redeem(&provider.p1().code(&[]).await).await);
    demand(&provider, Some(AssuranceLevel::One)).await;
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn a_level_that_rises_holds_at_the_next_refresh() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    for level in [AssuranceLevel::Two, AssuranceLevel::PhishingResistant] {
        demand(&provider, Some(level)).await;
        assert_too_weak(&provider.c1().refresh(&second.refresh).await);
    }
    // Nothing was used up: whoever has demanded it by mistake takes it back.
    demand(&provider, None).await;
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}
