//! Tests the discovery document (OpenID Connect Discovery 1.0 §3, §4; RFC 8414).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{ISSUER, Provider, Tokens, jwt_claims};

const ADDRESS: &str = "/.well-known/openid-configuration";

async fn document(provider: &Provider) -> Value {
    let reply = provider.get(ADDRESS).await;
    assert_eq!(reply.status, 200);
    reply.json()
}

#[tokio::test]
async fn disc_01_the_document_has_every_field_of_the_specification() {
    let provider = Provider::new().await;
    let document = document(&provider).await;
    let mut seen = BTreeSet::new();
    for (field, path) in [
        ("issuer", ""),
        ("authorization_endpoint", "/oauth/authorize"),
        ("token_endpoint", "/oauth/token"),
        ("userinfo_endpoint", "/oauth/userinfo"),
        ("jwks_uri", "/oauth/jwks"),
        ("registration_endpoint", "/oauth/register"),
        ("revocation_endpoint", "/oauth/revoke"),
        ("end_session_endpoint", "/oauth/logout"),
    ] {
        assert_eq!(document[field], format!("{ISSUER}{path}"), "{field}");
        seen.insert(field);
    }
    for (field, values) in [
        ("scopes_supported", "openid profile email phone offline_access"),
        ("response_types_supported", "code"),
        ("response_modes_supported", "query fragment"),
        ("grant_types_supported", "authorization_code refresh_token"),
        ("subject_types_supported", "public"),
        ("id_token_signing_alg_values_supported", "RS256"),
        ("token_endpoint_auth_methods_supported", "none client_secret_basic client_secret_post"),
        ("revocation_endpoint_auth_methods_supported", "none client_secret_basic client_secret_post"),
        ("code_challenge_methods_supported", "S256 plain"),
        ("prompt_values_supported", "none login consent select_account"),
        ("acr_values_supported", "1 2 3 phr"),
        ("ui_locales_supported", "tr en"),
        (
            "claims_supported",
            "sub name email email_verified phone_number phone_number_verified picture updated_at iss aud exp iat auth_time nonce acr amr",
        ),
    ] {
        let found: Vec<&str> = document[field].as_array().expect(field).iter().map(|v| v.as_str().unwrap()).collect();
        let expected: BTreeSet<&str> = values.split(' ').collect();
        assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected, "{field}");
        assert_eq!(found.len(), expected.len(), "{field} repeats a value");
        seen.insert(field);
    }
    for (field, value) in [
        ("claims_parameter_supported", false),
        ("request_parameter_supported", false),
        ("request_uri_parameter_supported", false),
        ("authorization_response_iss_parameter_supported", true),
    ] {
        assert_eq!(document[field], value, "{field}");
        seen.insert(field);
    }
    assert_eq!(document.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>(), seen);
}

#[tokio::test]
async fn disc_02_the_issuer_is_the_same_everywhere_byte_for_byte() {
    let provider = Provider::new().await;
    assert_eq!(document(&provider).await["issuer"], ISSUER);
    let client = provider.c1();
    let reply = provider.browser().authorize(&client.authorize(&[]), "anna@example.test").await;
    assert_eq!(reply.returned("iss").as_deref(), Some(ISSUER));
    let tokens = Tokens::of(&client.redeem(&reply.returned("code").unwrap()).await);
    assert_eq!(jwt_claims(&tokens.id)["iss"], ISSUER);
    assert_eq!(jwt_claims(&tokens.access)["iss"], ISSUER);
}

#[tokio::test]
async fn disc_03_no_header_of_a_request_changes_the_document() {
    let provider = Provider::new().await;
    let plain = document(&provider).await;
    for (name, value) in [
        ("host", "evil.test"),
        ("x-forwarded-host", "evil.test"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-prefix", "/evil"),
        ("forwarded", "host=evil.test;proto=http"),
        ("x-original-url", "/evil"),
    ] {
        let reply = provider.request("GET", ADDRESS, &[(name, value)], "").await;
        assert_eq!(reply.json(), plain, "{name}");
    }
}

#[tokio::test]
async fn disc_06_every_url_is_https_below_the_issuer() {
    let provider = Provider::new().await;
    let document = document(&provider).await;
    let addresses = document
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| name.ends_with("_endpoint") || name.ends_with("_uri") || name.as_str() == "issuer");
    let mut count = 0;
    for (name, address) in addresses {
        let url = url::Url::parse(address.as_str().unwrap()).unwrap();
        assert_eq!((url.scheme(), url.host_str()), ("https", Some("id.test")), "{name}");
        assert_eq!((url.query(), url.fragment(), url.username()), (None, None, ""), "{name}");
        count += 1;
    }
    assert_eq!(count, 8);
}

#[tokio::test]
async fn disc_07_scripts_of_every_origin_may_read_the_document_without_cookies() {
    let provider = Provider::new().await;
    let reply = provider.request("GET", ADDRESS, &[("origin", "https://spa.test")], "").await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
    assert_eq!(reply.header("set-cookie"), None);
    let preflight = [("origin", "https://spa.test"), ("access-control-request-method", "GET")];
    let reply = provider.request("OPTIONS", ADDRESS, &preflight, "").await;
    assert_eq!(reply.status, 204);
    assert!(reply.header("access-control-allow-methods").unwrap().contains("GET"));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn disc_08_other_methods_are_refused_with_the_allowed_ones() {
    let provider = Provider::new().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "get"] {
        let reply = provider.request(method, ADDRESS, &[], "").await;
        reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD"), "{method}");
    }
}

/// The tests of the connection check that no body follows.
#[tokio::test]
async fn disc_09_head_has_the_headers_of_get() {
    let provider = Provider::new().await;
    let (head, get) = (provider.request("HEAD", ADDRESS, &[], "").await, provider.get(ADDRESS).await);
    assert_eq!(head.status, 200);
    for name in ["content-type", "cache-control", "access-control-allow-origin", "x-content-type-options"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    assert!(head.header("content-type").is_some());
}

#[tokio::test]
async fn disc_11_an_unknown_path_is_a_404_in_json() {
    let provider = Provider::new().await;
    for path in [
        "/nope",
        "/oauth",
        "/oauth/",
        "/oauth/authorize/",
        "/oauth/Authorize",
        "//oauth/authorize",
        "/oauth/%61uthorize",
        "/.well-known/openid-configuration/",
        "/.well-known/webfinger",
    ] {
        let reply = provider.get(path).await;
        reply.assert_error(404, "not_found");
        for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert!(reply.header(name).is_some_and(|value| value.parse::<u64>().is_ok()), "{path} {name}");
        }
    }
}

/// Discovery 1.0 §3: omitted members have defaults, and the default of
/// `request_uri_parameter_supported` is true.
#[tokio::test]
async fn unsupported_parameters_are_in_the_discovery_document() {
    let provider = Provider::new().await;
    let document = document(&provider).await;
    for field in ["request_parameter_supported", "request_uri_parameter_supported", "claims_parameter_supported"] {
        assert_eq!(document[field], false, "{field}");
    }
    assert_eq!(document["authorization_response_iss_parameter_supported"], true);
}

#[tokio::test]
async fn the_discovery_document_matches_the_tokens() {
    let provider = Provider::new().await;
    let document = document(&provider).await;
    let tokens = provider.c1().tokens("openid profile email phone").await;
    let claims = jwt_claims(&tokens.id);
    let supported: Vec<&str> =
        document["claims_supported"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    // The list is fixed (docs/explanation/protocol.md) and omits claims that bind one token to another.
    for claim in claims.as_object().unwrap().keys().filter(|claim| *claim != "at_hash") {
        assert!(supported.contains(&claim.as_str()), "{claim} is not in claims_supported");
    }
    assert!(document["acr_values_supported"].as_array().unwrap().contains(&claims["acr"]));
}

/// RFC 8414 §3: OAuth clients without OpenID Connect read this path.
#[tokio::test]
async fn the_oauth_metadata_is_the_same_document() {
    let provider = Provider::new().await;
    let reply = provider.get("/.well-known/oauth-authorization-server").await;
    assert_eq!(reply.json(), document(&provider).await);
}

#[tokio::test]
async fn the_document_may_be_kept_and_ignores_queries() {
    let provider = Provider::new().await;
    let reply = provider.get(&format!("{ADDRESS}?issuer=https://evil.test&x=%ff")).await;
    assert_eq!(reply.json(), document(&provider).await);
    assert_eq!(reply.header("cache-control"), Some("public, max-age=3600"));
    assert_eq!(reply.header("pragma"), None);
}

#[tokio::test]
async fn browsers_find_the_issuer_as_related_origin_of_its_earlier_host() {
    const PATH: &str = "/.well-known/webauthn";
    let provider = Provider::with("[factors]\nrp_id = \"login.test\"\n").await;
    let reply = provider.get(PATH).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.json(), serde_json::json!({ "origins": [ISSUER] }));
    assert_eq!(Provider::new().await.get(PATH).await.status, 404, "not without rp_id");
}

#[tokio::test]
async fn password_managers_find_the_pages_for_passkeys() {
    let provider = Provider::new().await;
    let reply = provider.get("/.well-known/passkey-endpoints").await;
    assert_eq!(reply.status, 200);
    let document = reply.json();
    for (member, path) in [("enroll", "/account/security/key"), ("manage", "/account/security")] {
        assert_eq!(document[member], format!("{ISSUER}{path}"));
        // The page exists: without a session it leads to the sign-in.
        assert_eq!(provider.get(path).await.status, 303, "{path}");
    }
}
