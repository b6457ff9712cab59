//! Tests the gateway with further algorithms: access tokens and assertions by the choice of the
//! application.

use sealgate_domain::oauth::jwt::Unverified;

use crate::browser::Browser;
use crate::softhsm;
use crate::token_device;
use crate::world::{ANNA, World};

#[test]
fn tokens_and_assertions_have_the_algorithm_of_the_application() {
    let test = "algorithms::tokens_and_assertions_have_the_algorithm_of_the_application";
    softhsm::in_own_process(test, token_device::TOKEN_LABEL, |_| {
        token_device::use_all_algorithms();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for algorithm in ["RS256", "PS256", "ES256", "EdDSA"] {
                check(algorithm).await;
            }
        });
    });
}

async fn check(algorithm: &str) {
    let settings = format!(
        r#"
        [keys]
        algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
        [[app]]
        name = "ledger"
        host = "ledger.test"
        upstreams = ["http://127.0.0.1:8089"]
        assertion = true
        issuer_audience = false
        alg = "{algorithm}"
        [[app.route]]
        path = "/"
        access = "signed_in"
        "#
    );
    let world = World::with(&settings).await;
    let browser = Browser::new(&world);
    let reply = browser.sign_in_at("https://ledger.test/", ANNA).await;
    let assertion = reply.header("x-sealgate-assertion").unwrap().to_owned();
    let token = Unverified::parse(&assertion).unwrap();
    assert_eq!(token.algorithm.name(), algorithm);
    let keys = world.sealgate.issuer.signer().key_set();
    let key = keys.find(&token.kid).unwrap();
    assert_eq!(key.algorithm(), token.algorithm);
    assert!(key.verify(token.signing_input.as_bytes(), &token.signature));

    let token = world.resource_token("https://ledger.test", "openid").await;
    assert_eq!(Unverified::parse(&token).unwrap().algorithm.name(), algorithm);
    let bearer = format!("Bearer {token}");
    let reply = world.call("GET", "https://ledger.test/", &[("authorization", &bearer)]).await;
    reply.arrived();
    assert!(reply.header("authorization").is_none(), "an own token does not reach the application");
    // Another token of this server, whose header names another algorithm than its key has.
    let (_, rest) = token.split_once('.').unwrap();
    let other = if algorithm == "RS256" { "PS256" } else { "RS256" };
    let header = serde_json::json!({"alg": other, "typ": "at+jwt", "kid": Unverified::parse(&token).unwrap().kid});
    let forged = format!("{}.{rest}", sealgate_domain::secret::base64url(header.to_string().as_bytes()));
    let bearer = format!("Bearer {forged}");
    let reply = world.call("GET", "https://ledger.test/", &[("authorization", &bearer)]).await;
    assert_eq!(reply.answered_with(), 401);
}
