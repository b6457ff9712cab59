//! Tests the published keys (RFC 7517).

use std::collections::BTreeSet;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::support::{Provider, jwt_header};

async fn keys(provider: &Provider) -> Vec<Value> {
    provider.get("/oauth/jwks").await.json()["keys"].as_array().unwrap().clone()
}

#[tokio::test]
async fn jwks_01_every_key_is_an_rsa_key_for_rs256_signatures() {
    let provider = Provider::new().await;
    let keys = keys(&provider).await;
    assert!(!keys.is_empty());
    for key in keys {
        let fields: BTreeSet<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
        // No other members: d, p, q and the like belong to a private key.
        assert_eq!(fields, ["alg", "e", "kid", "kty", "n", "use"].into());
        assert_eq!((&key["kty"], &key["use"], &key["alg"]), (&"RSA".into(), &"sig".into(), &"RS256".into()));
        assert!(!key["kid"].as_str().unwrap().is_empty());
        let modulus = URL_SAFE_NO_PAD.decode(key["n"].as_str().unwrap()).unwrap();
        assert!(modulus.len() >= 256 && modulus[0] != 0, "RFC 7518 §6.3.1.1: no leading zero");
        assert_eq!(URL_SAFE_NO_PAD.decode(key["e"].as_str().unwrap()).unwrap(), [1, 0, 1]);
    }
}

#[tokio::test]
async fn jwks_03_the_keys_of_fresh_tokens_are_in_the_set_once() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let keys = keys(&provider).await;
    for token in [&tokens.id, &tokens.access] {
        let kid = &jwt_header(token)["kid"];
        assert_eq!(keys.iter().filter(|key| key["kid"] == *kid).count(), 1);
    }
    let kids: BTreeSet<&str> = keys.iter().map(|key| key["kid"].as_str().unwrap()).collect();
    assert_eq!(kids.len(), keys.len());
}

#[tokio::test]
async fn a_client_verifies_tokens_with_the_published_key_alone() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let keys = keys(&provider).await;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    for token in [&tokens.id, &tokens.access] {
        let key = keys.iter().find(|key| key["kid"] == jwt_header(token)["kid"]).unwrap();
        let (n, e) = (decode(key["n"].as_str().unwrap()), decode(key["e"].as_str().unwrap()));
        let (input, signature) = token.rsplit_once('.').unwrap();
        let key = RsaPublicKeyComponents { n, e };
        let verify = |input: &str| key.verify(&RSA_PKCS1_2048_8192_SHA256, input.as_bytes(), &decode(signature));
        assert!(verify(input).is_ok());
        assert!(verify(&format!("{input}x")).is_err());
    }
}

#[tokio::test]
async fn jwks_04_the_set_may_be_kept_for_a_day_by_scripts_too() {
    let provider = Provider::new().await;
    let reply = provider.request("GET", "/oauth/jwks", &[("origin", "https://spa.test")], "").await;
    assert_eq!(reply.header("cache-control"), Some("public, max-age=86400"));
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
    assert_eq!(reply.header("set-cookie"), None);
}

#[tokio::test]
async fn jwks_06_credentials_are_ignored() {
    let provider = Provider::new().await;
    for authorization in ["Bearer junk", "Basic !!!", "x"] {
        let reply = provider.request("GET", "/oauth/jwks", &[("authorization", authorization)], "").await;
        assert_eq!(reply.status, 200, "{authorization}");
        assert_eq!(reply.header("www-authenticate"), None);
    }
}

#[tokio::test]
async fn other_methods_are_refused() {
    let provider = Provider::new().await;
    for method in ["POST", "PUT", "DELETE"] {
        let reply = provider.request(method, "/oauth/jwks", &[], "").await;
        reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    }
    assert_eq!(provider.request("HEAD", "/oauth/jwks", &[], "").await.status, 200);
}
