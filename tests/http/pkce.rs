//! Tests PKCE at the authorization endpoint (RFC 7636 §4.3, §4.4.1).

use crate::steps::{assert_code, assert_login, with_anna};
use crate::support::{Provider, REDIRECT_URI, VERIFIER, challenge};

#[tokio::test]
async fn pkce_01_a_public_client_must_send_a_challenge() {
    let provider = Provider::new().await;
    for value in ["-", ""] {
        for method in ["-", "S256", "plain"] {
            let request = provider.p1().authorize(&[("code_challenge", value), ("code_challenge_method", method)]);
            provider.browser().open(&request).await.assert_error_redirect("invalid_request");
        }
    }
}

#[tokio::test]
async fn pkce_02_a_public_client_must_name_the_method() {
    let provider = Provider::new().await;
    let request = provider.p1().authorize(&[("code_challenge_method", "-")]);
    provider.browser().open(&request).await.assert_error_redirect("invalid_request");
}

#[tokio::test]
async fn pkce_03_without_a_method_a_confidential_clients_challenge_is_plain() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let code = client.code(&[("code_challenge", VERIFIER)]).await;
    let redeem = async |verifier: &str| {
        client
            .token(&[
                ("grant_type", "authorization_code"),
                ("code", &code),
                ("redirect_uri", REDIRECT_URI),
                ("code_verifier", verifier),
            ])
            .await
    };
    redeem(&VERIFIER.replace('0', "9")).await.assert_error(400, "invalid_grant");
    assert_eq!(redeem(VERIFIER).await.status, 200);
}

#[tokio::test]
async fn pkce_04_unknown_methods_are_refused() {
    let provider = Provider::new().await;
    for method in ["S512", "s256", "", "PLAIN", "none", "S256 plain", "S256\0"] {
        for client in [provider.p1(), provider.c1()] {
            let challenge = challenge(VERIFIER);
            let request = client.authorize(&[("code_challenge", &challenge), ("code_challenge_method", method)]);
            provider.browser().open(&request).await.assert_error_redirect("invalid_request");
        }
    }
}

#[tokio::test]
async fn pkce_06_a_challenge_that_is_not_a_sha_256_is_refused() {
    let provider = Provider::new().await;
    let sound = challenge(VERIFIER);
    assert_eq!(sound.len(), 43);
    for wrong in [
        sound[..42].to_owned(),
        format!("{sound}A"),
        format!("{sound}="),
        format!("{}+", &sound[..42]),
        format!("{}/", &sound[..42]),
        format!("{}~", &sound[..42]),
        format!(" {}", &sound[1..]),
        format!("{}\0", &sound[..42]),
        // The last character carries two bits that no encoder sets.
        format!("{}B", "A".repeat(42)),
        "ş".repeat(43),
    ] {
        let request = provider.p1().authorize(&[("code_challenge", &wrong)]);
        provider.browser().open(&request).await.assert_error_redirect("invalid_request");
    }
    assert_login(&provider.browser().open(&provider.p1().authorize(&[])).await);
}

#[tokio::test]
async fn pkce_07_a_plain_challenge_has_the_form_of_a_verifier() {
    let provider = Provider::new().await;
    let open = async |value: &str| {
        let request = provider.p1().authorize(&[("code_challenge", value), ("code_challenge_method", "plain")]);
        provider.browser().open(&request).await
    };
    for wrong in ["a".repeat(42), "a".repeat(129), format!("{}!", "a".repeat(43)), format!("{} ", "a".repeat(43))] {
        open(&wrong).await.assert_error_redirect("invalid_request");
    }
    for sound in ["a".repeat(43), "-._~".repeat(32)] {
        assert_login(&open(&sound).await);
    }
}

#[tokio::test]
async fn pkce_08_a_confidential_client_may_omit_pkce() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    assert_eq!(provider.c1().redeem(&code).await.status, 200);
}

#[tokio::test]
async fn a_method_without_a_challenge_is_refused_for_every_client() {
    let provider = Provider::new().await;
    for client in [provider.c1(), provider.p1()] {
        let request = client.authorize(&[("code_challenge", "-"), ("code_challenge_method", "S256")]);
        provider.browser().open(&request).await.assert_error_redirect("invalid_request");
    }
}

/// RFC 9700 §2.1.1: an attacker who removes the challenge from a request must not get a code that
/// works with a verifier.
#[tokio::test]
async fn a_removed_challenge_is_detected_at_the_token_endpoint() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let code = assert_code(&browser.open(&provider.c1().authorize(&[])).await);
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", REDIRECT_URI),
        ("code_verifier", VERIFIER),
    ];
    provider.c1().token(&fields).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn both_methods_work_for_both_kinds_of_client() {
    let provider = Provider::new().await;
    let hashed = challenge(VERIFIER);
    for client in [provider.p1(), provider.c1()] {
        for (method, value) in [("S256", hashed.as_str()), ("plain", VERIFIER)] {
            let code = client.code(&[("code_challenge", value), ("code_challenge_method", method)]).await;
            let fields = [
                ("grant_type", "authorization_code"),
                ("code", code.as_str()),
                ("redirect_uri", REDIRECT_URI),
                ("code_verifier", VERIFIER),
            ];
            assert_eq!(client.token(&fields).await.status, 200, "{method}");
        }
    }
}
