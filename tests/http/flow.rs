//! The main path, end to end.

use crate::support::{Provider, Tokens, jwt_claims};

#[tokio::test]
async fn a_person_signs_in_and_the_client_gets_working_tokens() {
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
