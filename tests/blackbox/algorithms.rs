//! Tests keys of a further algorithm on a running installation: from the command line to the token.

use serde_json::Value;
use tokio::task::block_in_place;

use crate::support::{Browser, Instance, REDIRECT_URI, Settings, wait_until};

const TIMES: &str = "[tokens]\naccess_token_seconds = 4\n[keys]\npublish_seconds = 2\nkeep_seconds = 6\n";

fn settings(algorithms: &str) -> Settings {
    Settings { sections: format!("{TIMES}{algorithms}"), ..Settings::default() }
}

/// Returns the header of the ID token that the client `web` gets.
async fn id_token_header(instance: &Instance, secret: &str) -> Value {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut url = url::Url::parse(&instance.url("/oauth/authorize")).unwrap();
    url.query_pairs_mut().extend_pairs([
        ("client_id", "web"),
        ("response_type", "code"),
        ("redirect_uri", REDIRECT_URI),
        ("scope", "openid"),
    ]);
    let code = Browser::new(instance).go(url.as_str()).await.returned("code").unwrap();
    let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", REDIRECT_URI)];
    let request = http.post(instance.url("/oauth/token")).basic_auth("web", Some(secret)).form(&form);
    let body: Value = request.send().await.unwrap().json().await.unwrap();
    let token = body["id_token"].as_str().unwrap_or_else(|| panic!("{body}"));
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap()
}

async fn json(url: String) -> Value {
    reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap().json().await.unwrap()
}

/// Returns the keys of an algorithm in this state.
fn keys(instance: &Instance, algorithm: &str, state: &str) -> Vec<Value> {
    let listed = instance.json(&["key", "list"]);
    let is_wanted = |key: &&Value| key["alg"] == algorithm && key["state"] == state;
    listed["keys"].as_array().unwrap().iter().filter(is_wanted).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_algorithm_is_added_to_a_running_installation() {
    let mut instance = Instance::prepare(&settings(""));
    let secret = instance.add_confidential_client("web");
    instance.start();
    let metadata = json(instance.url("/.well-known/openid-configuration")).await;
    assert_eq!(metadata["id_token_signing_alg_values_supported"], serde_json::json!(["RS256"]));

    block_in_place(|| {
        let refused = instance.try_run(&["key", "generate", "--algorithm", "ES256"], "");
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && error.contains("keys.algorithms lacks ES256"), "{error}");
        instance.configure(&settings("algorithms = [\"RS256\", \"ES256\"]\n"));
        let check = instance.try_run(&["key", "check"], "");
        let error = String::from_utf8(check.stderr).unwrap();
        assert!(error.contains("run: sealgate key generate --algorithm ES256"), "{error}");
        // The server still runs with the old configuration.
        instance.run(&["key", "generate", "--algorithm", "ES256"]);
        let again = instance.try_run(&["key", "generate", "--algorithm", "ES256"], "");
        assert!(!again.status.success(), "one first key");
        assert_eq!(keys(&instance, "ES256", "pre_published").len(), 1);
        instance.stop();
        instance.start();
        wait_until("the first key signs", || keys(&instance, "ES256", "active").len() == 1);
        instance.run(&["client", "set", "web", "--id-token-signed-response-alg", "ES256"]);
    });
    let active = block_in_place(|| keys(&instance, "ES256", "active"))[0]["kid"].clone();
    let header = id_token_header(&instance, &secret).await;
    assert_eq!((&header["alg"], &header["kid"]), (&"ES256".into(), &active));
    let metadata = json(instance.url("/.well-known/openid-configuration")).await;
    assert_eq!(metadata["id_token_signing_alg_values_supported"], serde_json::json!(["RS256", "ES256"]));
    let metrics = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("sealgate_signatures_total{alg=\"ES256\"} 1\n"), "{metrics}");

    block_in_place(|| {
        instance.run(&["key", "check"]);
        let rs256 = keys(&instance, "RS256", "active");
        instance.run(&["key", "rotate", "--algorithm", "ES256"]);
        let is_rotated = || keys(&instance, "ES256", "active").first().is_some_and(|key| key["kid"] != active);
        wait_until("the next key signs", is_rotated);
        assert_eq!(keys(&instance, "RS256", "active"), rs256);
        let second = keys(&instance, "ES256", "active")[0]["kid"].clone();
        instance.run(&["key", "rotate", "--emergency", "--algorithm", "ES256"]);
        assert_ne!(keys(&instance, "ES256", "active")[0]["kid"], second);
        let removed = instance.json(&["key", "list"])["keys"].as_array().unwrap().clone();
        let removed = removed.into_iter().find(|key| key["kid"] == second).unwrap();
        assert_eq!((&removed["state"], &removed["label"]), (&"removed".into(), &"sealgate-es256-removed".into()));
        // An RS256-only configuration starts with the same store and token.
        instance.stop();
        instance.configure(&settings(""));
        instance.start();
    });
    let jwks = json(instance.url("/oauth/jwks")).await;
    assert!(jwks["keys"].as_array().unwrap().iter().all(|key| key["alg"] == "RS256"), "{jwks}");
}
