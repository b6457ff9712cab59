//! Tests PKCE at the token endpoint (RFC 7636 §4.5, §4.6).

use crate::support::{Provider, Tokens, VERIFIER, challenge, redemption};

#[tokio::test]
async fn tok_23_a_public_client_with_the_right_verifier_gets_tokens() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    Tokens::of(&provider.p1().redeem(&code).await);
}

#[tokio::test]
async fn tok_24_a_wrong_verifier_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let s256 = challenge(VERIFIER);
    for client in [provider.p1(), provider.c1()] {
        let code = client.code(&[("code_challenge", &s256), ("code_challenge_method", "S256")]).await;
        // The challenge itself is not a valid verifier: S256 must not fall back to plain.
        for wrong in ["a".repeat(43), VERIFIER.to_lowercase(), format!("{VERIFIER}a"), s256.clone()] {
            let reply = client.token(&redemption(&code, &[("code_verifier", &wrong)])).await;
            reply.assert_error(400, "invalid_grant");
        }
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}

#[tokio::test]
async fn tok_25_a_missing_verifier_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let s256 = challenge(VERIFIER);
    for client in [provider.p1(), provider.c1()] {
        let code = client.code(&[("code_challenge", &s256), ("code_challenge_method", "S256")]).await;
        for missing in ["-", ""] {
            let reply = client.token(&redemption(&code, &[("code_verifier", missing)])).await;
            reply.assert_error(400, "invalid_request");
        }
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}

/// RFC 9700 §4.8.2: a verifier for a code without a challenge shows that an attacker removed the
/// challenge.
#[tokio::test]
async fn tok_25_a_verifier_without_a_challenge_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let reply = provider.c1().token(&redemption(&code, &[("code_verifier", VERIFIER)])).await;
    reply.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_26_a_malformed_verifier_is_invalid_request_and_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    let base = "a".repeat(43);
    for wrong in [
        "a".repeat(42),
        "a".repeat(129),
        format!("{base}!"),
        format!("{base} "),
        format!("{base}+"),
        format!("{base}/"),
        format!("{base}="),
        format!("{base}ı"),
        format!("{base}\0"),
    ] {
        let reply = provider.p1().token(&redemption(&code, &[("code_verifier", &wrong)])).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.p1().redeem(&code).await);
}

#[tokio::test]
async fn tok_26_verifiers_of_43_and_128_characters_work() {
    let provider = Provider::new().await;
    for verifier in ["a".repeat(43), "Z9-._~".repeat(22)[..128].to_owned()] {
        let code = provider.p1().code(&[("code_challenge", &challenge(&verifier))]).await;
        Tokens::of(&provider.p1().token(&redemption(&code, &[("code_verifier", &verifier)])).await);
    }
}

#[tokio::test]
async fn tok_30_a_plain_challenge_is_its_own_verifier() {
    let provider = Provider::new().await;
    for client in [provider.p1(), provider.c1()] {
        let plain = [("code_challenge", VERIFIER), ("code_challenge_method", "plain")];
        let code = client.code(&plain).await;
        let wrong = VERIFIER.replace('0', "1");
        let reply = client.token(&redemption(&code, &[("code_verifier", &wrong)])).await;
        reply.assert_error(400, "invalid_grant");
        Tokens::of(&client.token(&redemption(&code, &[("code_verifier", VERIFIER)])).await);
    }
}
