//! Tests request bodies over sockets: too long ones, and ones for unknown paths (cases TOK-22,
//! REG-12, MISC-04).

use reqwest::{Client, Response};
use serde_json::Value;

use crate::support::{Instance, Settings};

async fn post(instance: &Instance, path: &str, media_type: &str, body: String) -> Response {
    let request = Client::new().post(instance.url(path)).header("content-type", media_type);
    request.body(body).send().await.unwrap()
}

/// Asserts a JSON error of the provider with rate limit headers.
async fn assert_error(response: Response, status: u16, error: &str) {
    assert_eq!(response.status().as_u16(), status, "{response:?}");
    for header in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
        let value = response.headers().get(header).unwrap_or_else(|| panic!("no {header}: {response:?}"));
        value.to_str().unwrap().parse::<u64>().unwrap();
    }
    let body: Value = response.json().await.unwrap();
    let members: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((body["error"].as_str(), members), (Some(error), vec!["error", "error_description"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn misc_04_a_form_for_another_spelling_of_a_path_is_404() {
    let instance = Instance::started(&Settings::default());
    for path in ["/oauth/token/", "/OAuth/Token", "/oauth//token", "/oauth/revoke/", "/nope"] {
        let form = "grant_type=authorization_code&code=x".to_owned();
        let response = post(&instance, path, "application/x-www-form-urlencoded", form).await;
        assert_error(response, 404, "not_found").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tok_22_a_body_beyond_the_limit_is_413() {
    let instance = Instance::started(&Settings::default());
    for (path, media_type) in [
        ("/oauth/token", "application/x-www-form-urlencoded"),
        ("/oauth/revoke", "application/x-www-form-urlencoded"),
        ("/oauth/register", "application/json"),
    ] {
        let response = post(&instance, path, media_type, "x".repeat(1 << 20)).await;
        assert_error(response, 413, "invalid_request").await;
    }
}
