//! Tests the tokens as a client and a resource server verify them: signatures against the published
//! keys (RFC 7515, RFC 7519, RFC 9068; OpenID Connect Core §2; cases JWT).

use std::collections::BTreeSet;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate_domain::secret::base64url;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::{ISSUER, Provider, Tokens, jwt_claims, jwt_header};

/// Returns whether a published key verifies the token's signature.
async fn is_signed(provider: &Provider, token: &str) -> bool {
    let header = jwt_header(token);
    assert_eq!(header["alg"], "RS256");
    let keys = provider.get("/oauth/jwks").await.json();
    let keys: Vec<&Value> = keys["keys"].as_array().unwrap().iter().filter(|key| key["kid"] == header["kid"]).collect();
    assert_eq!(keys.len(), 1, "the key of {header} is published once");
    let number = |name: &str| URL_SAFE_NO_PAD.decode(keys[0][name].as_str().unwrap()).unwrap();
    let key = RsaPublicKeyComponents { n: number("n"), e: number("e") };
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).is_ok()
}

fn members(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn jwt_01_an_id_token_is_signed_with_a_published_key() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    let renewed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    for id_token in [&tokens.id, &renewed.id] {
        assert!(is_signed(&provider, id_token).await);
        let header = jwt_header(id_token);
        assert_eq!((header["typ"].as_str(), members(&header)), (Some("JWT"), ["alg", "kid", "typ"].into()));
    }
}

#[tokio::test]
async fn jwt_01_a_changed_token_is_not_signed() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let mut claims = jwt_claims(&tokens.id);
    claims["sub"] = Value::from(provider.ben.sub.to_string());
    let parts: Vec<&str> = tokens.id.split('.').collect();
    let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2]);
    assert!(!is_signed(&provider, &forged).await);
}

#[tokio::test]
async fn jwt_02_an_id_token_has_the_claims_of_the_standard_in_their_types() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let claims = jwt_claims(&tokens.id);
    assert_eq!(claims["iss"], ISSUER);
    assert_eq!(claims["aud"], "c1");
    let sub = claims["sub"].as_str().unwrap();
    assert_eq!(uuid::Uuid::parse_str(sub).unwrap().hyphenated().to_string(), sub);
    for claim in ["iat", "exp", "auth_time"] {
        assert!(claims[claim].is_u64(), "{claim}: {}", claims[claim]);
    }
    let lifetime = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
    assert_eq!((claims["iat"].as_u64(), lifetime), (Some(1_800_000_000), 900));
}

#[tokio::test]
async fn jwt_03_auth_time_is_the_time_of_the_sign_in() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = provider.c1().code_in(&browser, &[("max_age", "10000")]).await;
    let signed_in = jwt_claims(&Tokens::of(&provider.c1().redeem(&first).await).id);
    provider.wait(500);
    let second = provider.c1().code_in(&browser, &[("max_age", "10000")]).await;
    let later = jwt_claims(&Tokens::of(&provider.c1().redeem(&second).await).id);
    assert_eq!(signed_in["auth_time"].as_u64(), Some(1_800_000_000));
    assert_eq!(later["auth_time"], signed_in["auth_time"]);
    assert_eq!(later["iat"].as_u64(), Some(1_800_000_500));
}

#[tokio::test]
async fn jwt_04_the_nonce_is_returned_unchanged() {
    let provider = Provider::new().await;
    for nonce in ["n-0S6_WzA2Mj", "\"quoted\\ & <ş> 100%+", &"x".repeat(500)] {
        let code = provider.c1().code(&[("nonce", nonce)]).await;
        let tokens = Tokens::of(&provider.c1().redeem(&code).await);
        assert_eq!(jwt_claims(&tokens.id)["nonce"], nonce);
    }
    let code = provider.c1().code(&[("nonce", "-")]).await;
    assert_eq!(jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id).get("nonce"), None);
}

#[tokio::test]
async fn jwt_06_acr_and_amr_describe_the_sign_in() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("acr_values", "1 2")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    for token in [&tokens.id, &tokens.access] {
        let claims = jwt_claims(token);
        assert_eq!((&claims["acr"], &claims["amr"]), (&"1".into(), &serde_json::json!(["pwd"])));
    }
    let discovery = provider.get("/.well-known/openid-configuration").await.json();
    assert!(discovery["acr_values_supported"].as_array().unwrap().contains(&"1".into()));
}

#[tokio::test]
async fn jwt_07_an_id_token_has_only_the_claims_of_the_granted_scopes() {
    let provider = Provider::new().await;
    let always: BTreeSet<&str> =
        ["iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash"].into();
    for (scope, more) in [
        ("openid", &[][..]),
        ("openid email", &["email", "email_verified"]),
        ("openid phone", &["phone_number", "phone_number_verified"]),
        ("openid profile", &["name", "picture", "updated_at"]),
    ] {
        let tokens = provider.c1().tokens(scope).await;
        let claims = jwt_claims(&tokens.id);
        let expected: BTreeSet<&str> = always.iter().chain(more).copied().collect();
        assert_eq!(members(&claims), expected, "{scope}");
        // Access tokens contain no user claims, because resource servers read them too.
        for claim in more {
            assert_eq!(jwt_claims(&tokens.access).get(claim), None);
        }
    }
}

/// OpenID Connect Core §3.1.3.6.
#[tokio::test]
async fn an_id_token_contains_the_hash_of_its_access_token() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    let renewed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    for tokens in [tokens, renewed] {
        let digest = Sha256::digest(tokens.access.as_bytes());
        assert_eq!(jwt_claims(&tokens.id)["at_hash"], base64url(&digest[..16]));
    }
}

#[tokio::test]
async fn jwt_09_an_access_token_follows_rfc_9068() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid email offline_access").await;
    let renewed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    for token in [&tokens.access, &renewed.access] {
        assert!(is_signed(&provider, token).await);
        assert_eq!(jwt_header(token)["typ"], "at+jwt");
        let claims = jwt_claims(token);
        assert_eq!(
            (&claims["iss"], &claims["aud"], &claims["client_id"]),
            (&ISSUER.into(), &ISSUER.into(), &"c1".into())
        );
        assert_eq!(claims["sub"], provider.anna.sub.to_string());
        assert_eq!(claims["scope"], "openid email offline_access");
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 900);
        assert!(claims["auth_time"].is_u64());
        assert_eq!(claims.get("nonce"), None);
    }
    let (one, other) = (jwt_claims(&tokens.access), jwt_claims(&renewed.access));
    assert!(one["jti"].as_str().unwrap().len() >= 22, "128 bits");
    assert_ne!(one["jti"], other["jti"]);
}

/// RFC 9068 §4: an ID token is not accepted as an access token, and the reverse.
#[tokio::test]
async fn jwt_09_an_id_token_is_refused_as_an_access_token() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    provider.userinfo(&tokens.id).await.assert_bearer_error(401, "invalid_token");
    let logout =
        format!("/oauth/logout?id_token_hint={}&post_logout_redirect_uri=https%3A%2F%2Frp.test%2Fbye", tokens.access);
    assert!(!provider.get(&logout).await.location().starts_with("https://rp.test"));
}

/// Two issuers may share a token device, or an issuer may have been renamed. Neither issuer accepts
/// tokens with the name of the other.
#[tokio::test]
async fn jwt_09_a_token_of_another_issuer_with_our_key_and_grant_is_refused() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let other = provider.restarted_as("https://other.test").await;
    let ours = other.c1().tokens("openid").await;
    assert_eq!(other.userinfo(&ours.access).await.status, 200);
    other.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    assert_eq!(other.c1().revoke(&tokens.access).await.status, 200);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200, "it was revoked by an issuer that it is not of");
    let logout =
        |hint: &str| format!("/oauth/logout?id_token_hint={hint}&post_logout_redirect_uri=https%3A%2F%2Frp.test%2Fbye");
    assert_eq!(other.get(&logout(&tokens.id)).await.header("location").filter(|to| to.contains("rp.test")), None);
    assert!(other.get(&logout(&ours.id)).await.location().starts_with("https://rp.test/bye"));
    // As a hint at the authorization endpoint, it names no expected user.
    let browser = other.browser();
    other.c1().code_in(&browser, &[]).await;
    let silent = |hint: &str| other.c1().authorize(&[("prompt", "none"), ("id_token_hint", hint)]);
    assert!(browser.open(&silent(&ours.id)).await.returned("code").is_some());
    assert_eq!(browser.open(&silent(&tokens.id)).await.returned("code"), None);
}

#[tokio::test]
async fn jwt_12_a_sub_is_the_same_everywhere_and_always() {
    let provider = Provider::new().await;
    let expected = provider.anna.sub.to_string();
    for client in [provider.c1(), provider.c2(), provider.p1()] {
        assert_eq!(jwt_claims(&client.tokens("openid").await.id)["sub"], expected.as_str());
    }
    provider.change_user(provider.anna.sub, |user| user.name = "Anna Yılmaz".into()).await;
    let again = provider.restarted().await;
    assert_eq!(jwt_claims(&again.c1().tokens("openid").await.id)["sub"], expected.as_str());
}
