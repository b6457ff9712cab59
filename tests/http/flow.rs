//! Tests the main path, end to end.

use crate::support::{Provider, Tokens, jwt_claims};

#[tokio::test]
async fn a_user_signs_in_and_the_client_gets_valid_tokens() {
    let provider = Provider::new().await;
    for client in [provider.c1(), provider.p1()] {
        let code = client.code(&[("scope", "openid profile email offline_access")]).await;
        let tokens = Tokens::of(&client.redeem(&code).await);
        assert_eq!(jwt_claims(&tokens.id)["nonce"], "n1");
        let info = provider.userinfo(&tokens.access).await.json();
        assert_eq!(info["email"], "anna@example.test");
        let renewed = Tokens::of(&client.refresh(&tokens.refresh).await);
        assert_eq!(provider.userinfo(&renewed.access).await.status, 200);
        client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
        client.refresh(&renewed.refresh).await.assert_error(400, "invalid_grant");
        assert_eq!(provider.userinfo(&renewed.access).await.status, 401);
    }
}

#[tokio::test]
async fn a_cross_site_post_of_a_signed_in_user_needs_no_new_sign_in() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let browser = provider.browser();
    client.code_in(&browser, &[]).await;
    let address = client.authorize(&[]);
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(address.split_once('?').unwrap().1.as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // The browser withholds its `Lax` cookies from the POST, and sends them with the redirect that
    // follows.
    let posted = provider.post("/oauth/authorize", &[], &fields).await;
    assert_eq!(posted.status, 303);
    assert_eq!(posted.headers("set-cookie").count(), 0, "it would take the place of one that the browser kept back");
    let end = browser.follow(posted).await;
    assert!(end.returned("code").is_some(), "{end:?}");
}

#[tokio::test]
async fn a_code_is_refused_after_a_sign_out_everywhere() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let code = client.code(&[("scope", "openid offline_access")]).await;
    assert_eq!(provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap(), 1);
    client.redeem(&code).await.assert_error(400, "invalid_grant");
}
