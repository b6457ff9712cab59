//! Tests tokens of further algorithms: the choice of the client and of the resource, and the check of
//! the algorithm when a token comes back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate_admin::arguments::ClientArgument;
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::oauth::jwk_set::{self, Algorithm};
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::verifying_keys::VerifyingKeys;
use sealgate_domain::time::UnixTime;
use serde_json::{Value, json};

use crate::register::{Registered, metadata, register};
use crate::softhsm;
use crate::support::{Provider, Tokens, jwt_claims, jwt_header, token_device};

const ALL: [Algorithm; 4] = [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];
const SETTINGS: &str = r#"
    [keys]
    algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
    [registration]
    mode = "open"
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    scopes = { "wiki:read" = "Read pages" }
    alg = "ES256"
"#;

/// Runs the test of this name in a separate process, because its token has keys of all algorithms.
fn in_own_process(test: &str, body: impl AsyncFnOnce(Provider)) {
    softhsm::in_own_process(&format!("algorithms::{test}"), token_device::TOKEN_LABEL, |_| {
        token_device::use_all_algorithms();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { body(Provider::with(SETTINGS).await).await });
    });
}

async fn choose(provider: &Provider, algorithm: Algorithm) {
    let change = |client: &mut sealgate_domain::client::Client| {
        client.details.id_token_signed_response_alg = Some(algorithm).filter(|own| *own != Algorithm::Rs256);
    };
    provider.change_client("c1", change).await;
}

fn alg(token: &str) -> Value {
    jwt_header(token)["alg"].clone()
}

/// Verifies a token as a relying party does, with the published keys and the expected algorithm.
async fn verify(provider: &Provider, token: &str, algorithm: Algorithm) {
    let document = provider.get("/oauth/jwks").await.json().to_string();
    let keys = VerifyingKeys::from_jwks(&jwk_set::read(document.as_bytes()).unwrap(), &[algorithm]);
    assert_eq!(keys.len(), 1, "one key for one algorithm");
    let jws = Jws::parse(token, 8192, &[algorithm]).unwrap();
    assert!(keys.find(&jws).unwrap().verifies(&jws), "{token}");
}

#[test]
fn the_client_chooses_the_algorithm_of_its_id_tokens() {
    in_own_process("the_client_chooses_the_algorithm_of_its_id_tokens", async |provider| {
        for algorithm in ALL {
            choose(&provider, algorithm).await;
            let tokens = provider.c1().tokens("openid offline_access").await;
            assert_eq!(alg(&tokens.id), algorithm.name());
            verify(&provider, &tokens.id, algorithm).await;
            assert_eq!(alg(&tokens.access), "RS256", "the issuer is the reader");
            let again = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
            assert_eq!(alg(&again.id), algorithm.name());
            // The token comes back as a hint.
            let browser = provider.browser();
            let reply = browser.get(&format!("/oauth/logout?id_token_hint={}", again.id)).await;
            assert!(reply.status < 400, "{reply:?}");
        }
        let c2 = provider.c2().tokens("openid").await;
        assert_eq!(alg(&c2.id), "RS256", "the default");
    });
}

#[test]
fn the_resource_chooses_the_algorithm_of_its_access_tokens() {
    in_own_process("the_resource_chooses_the_algorithm_of_its_access_tokens", async |provider| {
        let request = [("resource", "https://wiki.test"), ("scope", "openid wiki:read")];
        let code = provider.c1().code(&request).await;
        let tokens = Tokens::of(&provider.c1().redeem(&code).await);
        assert_eq!((alg(&tokens.access), alg(&tokens.id)), ("ES256".into(), "RS256".into()));
        verify(&provider, &tokens.access, Algorithm::Es256).await;
        assert_eq!(jwt_claims(&tokens.access)["aud"][0], "https://wiki.test");
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200, "the server verifies its own token");
        assert_eq!(provider.c1().revoke(&tokens.access).await.status, 200);
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    });
}

/// A signature is valid only with the algorithm of its key, whatever the header says.
#[test]
fn the_key_determines_the_algorithm() {
    in_own_process("the_key_determines_the_algorithm", async |provider| {
        let signer = provider.sealgate.issuer.signer();
        let claims = provider.c1().tokens("openid").await.access;
        let claims = claims.split('.').nth(1).unwrap().to_owned();
        for of_key in ALL {
            let kid = signer.key_set().active_for(of_key).unwrap().kid().clone();
            for (in_header, _) in Algorithm::ALL.into_iter().chain([("none", of_key), ("HS256", of_key)]) {
                let header = json!({"alg": in_header, "typ": "at+jwt", "kid": kid.as_str()}).to_string();
                let input = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header));
                let signature = signer.sign(&kid, vec![input.clone().into_bytes()]).await.unwrap();
                let token = format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature[0].as_bytes()));
                let status = provider.userinfo(&token).await.status;
                let expected = if in_header == of_key.name() { 200 } else { 401 };
                assert_eq!(status, expected, "{in_header} in the header, {of_key} key");
            }
        }
    });
}

#[test]
fn a_registration_may_choose_a_configured_algorithm() {
    in_own_process("a_registration_may_choose_a_configured_algorithm", async |provider| {
        let member = "id_token_signed_response_alg";
        for (algorithm, stored) in [("ES256", "ES256"), ("RS256", "RS256"), ("Ed25519", "EdDSA")] {
            let client = Registered::new(&provider, &json!({ member: algorithm })).await;
            assert_eq!(client.body[member], stored);
            let read = client.manage(&provider, "GET", "").await.json();
            assert_eq!(read[member], stored);
        }
        for algorithm in ["ES384", "none", "HS256", "es256"] {
            let reply = register(&provider, &metadata(&json!({ member: algorithm }))).await;
            reply.assert_error(400, "invalid_client_metadata");
        }
        let document = provider.get("/.well-known/openid-configuration").await.json();
        let listed = json!(["RS256", "PS256", "ES256", "EdDSA"]);
        assert_eq!(document["id_token_signing_alg_values_supported"], listed);
        // The same records without further algorithms.
        let only_rs256 = Provider::with("[registration]\nmode = \"open\"").await;
        let reply = register(&only_rs256, &metadata(&json!({ member: "ES256" }))).await;
        reply.assert_error(400, "invalid_client_metadata");
    });
}

#[test]
fn an_operator_chooses_a_configured_algorithm() {
    in_own_process("an_operator_chooses_a_configured_algorithm", async |provider| {
        let set = async |provider: &Provider, algorithm: &str| {
            let settings = serde_json::from_value(json!({ "id_token_alg": algorithm })).unwrap();
            let client = sealgate_domain::client::ClientId::parse("c1").unwrap();
            let command = Command::Client(ClientCommand::Set { client: ClientArgument { client }, settings });
            execute(&CommandContext::new(&provider.sealgate), command).await
        };
        let shown = serde_json::to_value(set(&provider, "EdDSA").await.unwrap()).unwrap();
        assert!(shown.to_string().contains(r#""id_token_signed_response_alg":"EdDSA""#), "{shown}");
        assert_eq!(alg(&provider.c1().tokens("openid").await.id), "EdDSA");
        set(&provider, "RS256").await.unwrap();
        assert_eq!(alg(&provider.c1().tokens("openid").await.id), "RS256");
        let only_rs256 = Provider::new().await;
        let refused = set(&only_rs256, "ES256").await.unwrap_err().to_string();
        assert!(refused.contains("add ES256 to keys.algorithms"), "{refused}");
    });
}

/// A key of a further algorithm that was announced later signs after verifiers have fetched it. Until
/// then a token of the algorithm is refused, and never signed with another algorithm.
#[test]
fn no_token_is_signed_with_another_algorithm_than_the_chosen_one() {
    in_own_process("no_token_is_signed_with_another_algorithm_than_the_chosen_one", async |provider| {
        choose(&provider, Algorithm::Es256).await;
        let set = provider.sealgate.issuer.signer().key_set();
        let es256 = set.active_for(Algorithm::Es256).unwrap().kid().to_string();
        let changed = provider.sealgate.store.change_key_ring(|ring| {
            let mut json = serde_json::to_value(ring.further()).unwrap();
            for key in json["keys"].as_array_mut().unwrap() {
                if key["kid"] == es256.as_str() {
                    key["activate_at"] = Value::Null;
                }
            }
            let further = serde_json::from_value(json).unwrap();
            *ring = ring.clone().without_further().with_further(further);
            ring.select(Algorithm::Es256);
            ring.activate(&es256, Some(UnixTime::from_seconds(1_800_001_000)), true, at_start(), TIMES)
        });
        let ring = changed.await.unwrap().unwrap();
        provider.sealgate.set_key_ring(ring);
        let code = provider.c1().code(&[]).await;
        assert_eq!(provider.c1().redeem(&code).await.status, 503);
        provider.wait(1001);
        assert_eq!(alg(&provider.c1().tokens("openid").await.id), "ES256");
    });
}

const TIMES: sealgate_domain::key_ring::KeyTimes = sealgate_domain::key_ring::KeyTimes {
    publish: std::time::Duration::from_secs(100),
    keep: std::time::Duration::from_secs(50),
};

fn at_start() -> UnixTime {
    UnixTime::from_seconds(1_800_000_000)
}
