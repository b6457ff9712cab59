//! Tests access tokens of another issuer at the gateway: which are accepted, and the application's
//! identity headers.

use aws_lc_rs::hmac;
use sealgate_domain::secret::base64url;
use serde_json::{Value, json};

use crate::corp::{AUDIENCE, Corp, ISSUER};
use crate::foreign::{Answer, Key, key_set};
use crate::world::ANNA;

#[tokio::test]
async fn a_token_of_a_trusted_issuer_identifies_a_user_with_the_issuers_prefix() {
    let corp = Corp::new("").await;
    for path in ["/", "/api/x?y"] {
        let reply = corp.send(path, &corp.token()).await;
        assert_eq!(reply.arrived(), ("partner", path));
        assert_eq!(reply.header("x-forwarded-user"), Some("corp:auth0|17"));
        for absent in ["x-forwarded-email", "x-forwarded-name", "x-forwarded-groups", "authorization"] {
            assert_eq!(reply.header(absent), None, "{absent}");
        }
    }
    let reply = corp.send("/open/", &corp.token()).await;
    assert_eq!((reply.arrived().1, reply.header("x-forwarded-user")), ("/open/", None));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="taken"}"#));
    assert!(corp.metric(r#"sealgate_foreign_key_reads_total{issuer="corp",outcome="read"} 1"#));
    assert!(corp.metric(r#"sealgate_foreign_keys{issuer="corp"} 1"#));
    assert!(corp.metric(r#"sealgate_foreign_keys_read_timestamp_seconds{issuer="corp"} 1800000000"#));
}

#[tokio::test]
async fn only_an_application_that_lists_the_issuer_accepts_its_tokens() {
    let corp = Corp::new("").await;
    for (host, path) in [("wiki.test", "/"), ("wiki.test", "/api/x"), ("desk.test", "/"), ("id.test", "/dashboard")] {
        corp.send_to(host, path, &corp.token()).await.assert_refused(401, "invalid_token");
    }
    let userinfo = [("authorization", format!("Bearer {}", corp.token()))];
    let fields = [(userinfo[0].0, userinfo[0].1.as_str())];
    let reply = corp.world.call("GET", "https://id.test/oauth/userinfo", &fields).await;
    assert_eq!(reply.answered_with(), 401);
}

#[tokio::test]
async fn own_tokens_are_unaffected_by_trusted_issuers() {
    let corp = Corp::new("").await;
    let token = corp.world.access_token("openid profile").await;
    let reply = corp.send("/profiles/", &token).await;
    assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
    corp.send("/staff/", &token).await.arrived();
    corp.send("/narrow/", &token).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn only_allowed_algorithms_verify() {
    let (rsa, ec, ed) = (Key::rsa("r"), Key::p256("e"), Key::ed25519("o"));
    let all = key_set(&[&rsa, &ec, &ed]).to_string().into_bytes();
    let publish = |_: &Key| Answer::Bytes(String::new(), all.clone());
    let every = r#"algorithms = ["RS256", "PS256", "ES256", "EdDSA"]"#;
    let corp = Corp::with(every, Key::rsa("unused"), publish).await;
    corp.has_keys().await;
    let claims = corp.claims();
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid, "typ": "at+jwt" });
    for token in [
        rsa.token(&claims),
        rsa.token_with(&header("PS256", "r"), &claims),
        ec.token(&claims),
        ed.token(&claims),
        ed.token_with(&header("Ed25519", "o"), &claims),
        // A token without a kid must be unambiguous: there is one key of each type.
        ec.token_with(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims),
    ] {
        corp.send("/api/", &token).await.arrived();
    }
    for token in [
        // The header of another algorithm with a valid signature.
        rsa.token_of(&header("PS256", "r").to_string(), &claims.to_string(), false),
        rsa.token_of(&header("RS256", "r").to_string(), &claims.to_string(), true),
        ed.token_with(&header("ES256", "o"), &claims),
        ec.token_with(&header("EdDSA", "e"), &claims),
        // The kid of another key.
        rsa.token_with(&header("RS256", "e"), &claims),
        ec.token_with(&header("ES256", "r"), &claims),
    ] {
        corp.send("/api/", &token).await.assert_refused(401, "invalid_token");
    }
    let narrow = Corp::with(r#"algorithms = ["ES256"]"#, Key::rsa("unused"), publish).await;
    narrow.has_keys().await;
    narrow.send("/api/", &ec.token(&claims)).await.arrived();
    narrow.send("/api/", &rsa.token(&claims)).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn no_confusion_of_algorithms_and_keys_forges_a_token() {
    let corp = Corp::new(r#"algorithms = ["RS256", "ES256"]"#).await;
    let claims = corp.claims().to_string();
    let input =
        |header: &Value| format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.as_bytes()));
    let hs256 = |secret: &[u8]| {
        let input = input(&json!({ "alg": "HS256", "kid": "k1", "typ": "at+jwt" }));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), input.as_bytes());
        format!("{input}.{}", base64url(tag.as_ref()))
    };
    let stranger = Key::rsa("k1");
    let header = |further: Value| {
        let mut header = json!({ "alg": "RS256", "kid": "k1", "typ": "at+jwt" });
        header.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        header
    };
    let stranger_jwk = stranger.jwk();
    let good = corp.token();
    let (signed, signature) = good.rsplit_once('.').unwrap();
    for (what, token) in [
        ("none", format!("{}.", input(&json!({ "alg": "none", "kid": "k1", "typ": "at+jwt" })))),
        ("none, signed", format!("{}.{signature}", input(&json!({ "alg": "none", "kid": "k1", "typ": "at+jwt" })))),
        ("no signature", format!("{signed}.")),
        ("two parts", signed.to_owned()),
        ("HS256 with the public key", hs256(&corp.key.public_bytes())),
        ("HS256 with the published text", hs256(corp.key.jwk().to_string().as_bytes())),
        ("HS256 with nothing", hs256(b"")),
        ("a stranger's key", stranger.token(&corp.claims())),
        ("jwk", stranger.token_with(&header(json!({ "jwk": stranger_jwk })), &corp.claims())),
        ("jku", stranger.token_with(&header(json!({ "jku": corp.publisher.url("/evil") })), &corp.claims())),
        ("x5u", stranger.token_with(&header(json!({ "x5u": corp.publisher.url("/evil") })), &corp.claims())),
        ("crit", corp.key.token_with(&header(json!({ "crit": ["exp"] })), &corp.claims())),
        ("unknown kid", corp.key.token_with(&header(json!({ "kid": "k2" })), &corp.claims())),
        ("kid as a path", corp.key.token_with(&header(json!({ "kid": "../../k1" })), &corp.claims())),
        ("another kind", corp.key.token_with(&header(json!({ "typ": "logout+jwt" })), &corp.claims())),
        ("an ID token", corp.key.token_with(&header(json!({ "typ": "JWT" })), &corp.claims())),
        ("two algs", corp.key.token_of(r#"{"alg":"none","alg":"RS256","kid":"k1","typ":"at+jwt"}"#, &claims, false)),
        (
            "two subs",
            corp.key.token_of(&header(json!({})).to_string(), &claims.replacen('{', r#"{"sub":"x","#, 1), false),
        ),
    ] {
        for path in ["/", "/api/"] {
            let reply = corp.send(path, &token).await;
            assert_eq!(reply.status, 401, "{what}: {reply:?}");
            reply.assert_refused(401, "invalid_token");
        }
    }
    assert_eq!(corp.publisher.asked(), 1, "nothing in a header makes the gate ask anywhere");
    corp.send("/api/", &good).await.arrived();
}

#[tokio::test]
async fn each_claim_of_a_foreign_token_is_validated() {
    let corp = Corp::new(r#"clients = ["cron"]"#).await;
    let now = corp.world.sealgate.clock.now().seconds();
    let of_cron = |mut claims: Value| {
        claims["client_id"] = json!("cron");
        claims
    };
    let sent = async |claims: &Value| corp.send("/api/", &corp.key.token(claims)).await.status;
    assert_eq!(sent(&of_cron(corp.claims())).await, 200);
    assert_eq!(sent(&of_cron(corp.changed("aud", json!(["https://x.test", AUDIENCE])))).await, 200);
    let without = |name: &str| {
        let mut claims = of_cron(corp.claims());
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    for claims in [
        without("aud"),
        without("exp"),
        without("sub"),
        without("client_id"),
        of_cron(corp.changed("aud", "https://other.test")),
        of_cron(corp.changed("aud", json!([]))),
        of_cron(corp.changed("exp", now - 60)),
        of_cron(corp.changed("exp", "9999999999")),
        of_cron(corp.changed("nbf", now + 61)),
        of_cron(corp.changed("iat", now + 61)),
        of_cron(corp.changed("cnf", json!({ "jkt": "x" }))),
        of_cron(corp.changed("iss", "https://login.corp.test")),
        of_cron(corp.changed("iss", "https://id.test")),
        of_cron(corp.changed("sub", "a b")),
        of_cron(corp.changed("padding", "x".repeat(8192))),
        corp.changed("client_id", "other"),
    ] {
        corp.send("/api/", &corp.key.token(&claims)).await.assert_refused(401, "invalid_token");
    }
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="audience"} 3"#));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="expired"} 2"#));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="too_long"} 1"#));
}

#[tokio::test]
async fn a_foreign_name_matches_no_local_name_unless_mapped() {
    let corp = Corp::new("").await;
    let mut claims = corp.claims();
    let ours = json!({
        "sub": corp.world.anna.sub.to_string(), "email": ANNA, "email_verified": true, "groups": ["staff", "corp:staff"],
        "scope": "openid profile", "acr": "1", "name": "Anna",
    });
    claims.as_object_mut().unwrap().extend(ours.as_object().unwrap().clone());
    let token = corp.key.token(&claims);
    for path in ["/staff/", "/corp-staff/", "/annas/", "/seventeens/"] {
        corp.send(path, &token).await.assert_refused(403, "access_denied");
    }
    corp.send("/profiles/", &token).await.assert_refused(403, "insufficient_scope");
    corp.send("/strong/", &token).await.assert_refused(401, "insufficient_user_authentication");
    corp.send("/fresh/", &token).await.assert_refused(401, "insufficient_user_authentication");
    let reply = corp.send("/", &token).await;
    assert_eq!(reply.header("x-forwarded-user"), Some(format!("corp:{}", corp.world.anna.sub).as_str()));
    assert_eq!((reply.header("x-forwarded-email"), reply.header("x-forwarded-groups")), (None, None));
    corp.send("/seventeens/", &corp.token()).await.arrived();
}

#[tokio::test]
async fn mapped_claims_of_foreign_tokens_apply() {
    let corp = Corp::new(
        r#"
        groups_claim = "groups"
        scope_claim = "scope"
        email_claim = "email"
        acr_claim = "acr"
        "#,
    )
    .await;
    let mut claims = corp.claims();
    let said = json!({
        "email": "ANNA@example.test", "email_verified": true, "groups": ["staff"], "scope": "openid profile", "acr": "1",
        "auth_time": claims["iat"],
    });
    claims.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    let token = corp.key.token(&claims);
    for path in ["/corp-staff/", "/annas/", "/profiles/", "/strong/", "/fresh/"] {
        let reply = corp.send(path, &token).await;
        assert_eq!(reply.arrived().1, path);
        assert_eq!(reply.header("x-forwarded-groups"), Some("corp:staff"));
        assert_eq!(reply.header("x-forwarded-email"), Some("ANNA@example.test"));
    }
    corp.send("/staff/", &token).await.assert_refused(403, "access_denied");
    // Levels that are higher here have no meaning at the other issuer.
    for acr in ["2", "3", "phr", "11", ""] {
        let other = claims.as_object_mut().unwrap().insert("acr".to_owned(), json!(acr));
        let refused = corp.send("/strong/", &corp.key.token(&claims)).await;
        refused.assert_refused(401, "insufficient_user_authentication");
        claims.as_object_mut().unwrap().insert("acr".to_owned(), other.unwrap());
    }
    corp.send("/strong/", &corp.key.token(&claims)).await.arrived();
    corp.world.wait(301);
    corp.send("/fresh/", &token).await.assert_refused(401, "insufficient_user_authentication");
    claims["email_verified"] = json!(false);
    corp.send("/annas/", &corp.key.token(&claims)).await.assert_refused(403, "access_denied");

    let merged = Corp::new("groups_claim = \"groups\"\ngroup_prefix = \"\"").await;
    let token = merged.key.token(&merged.changed("groups", json!(["staff"])));
    merged.send("/staff/", &token).await.arrived();
    merged.send("/corp-staff/", &token).await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_rules_audience_restricts_foreign_tokens() {
    let corp = Corp::new("").await;
    corp.send("/narrow/", &corp.token()).await.assert_refused(401, "invalid_token");
    corp.send("/narrow/", &corp.key.token(&corp.changed("aud", "https://narrow.test"))).await.arrived();
}

#[tokio::test]
async fn assertion_and_metadata_name_the_foreign_issuer() {
    let corp = Corp::new("").await;
    let reply = corp.send("/", &corp.token()).await;
    let assertion = reply.header("x-sealgate-assertion").unwrap().split('.').nth(1).unwrap();
    let said: Value = serde_json::from_slice(&sealgate_domain::secret::from_base64url(assertion).unwrap()).unwrap();
    assert_eq!((&said["sub"], &said["iss"]), (&json!("corp:auth0|17"), &json!("https://id.test")));
    assert!(said.get("email").is_none() && said.get("sid").is_none(), "{said}");
    let path = "/.well-known/oauth-protected-resource";
    let metadata = corp.world.call("GET", &format!("https://partner.test{path}"), &[]).await.json();
    assert_eq!(metadata["authorization_servers"], json!(["https://id.test", ISSUER]));
    let other = corp.world.call("GET", &format!("https://wiki.test{path}"), &[]).await.json();
    assert_eq!(other["authorization_servers"], json!(["https://id.test"]));
}
