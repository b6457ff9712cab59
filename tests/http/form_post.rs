//! Tests `response_mode=form_post` (OAuth 2.0 Form Post Response Mode), which the operator can
//! enable.

use crate::steps::names;
use crate::support::{ISSUER, Provider, REDIRECT_URI, Reply, Tokens, hidden_fields};

const FOR_C1: &str = "[form_post]\nclients = [\"c1\"]";
const FOR_ALL: &str = "[form_post]\nenabled = true";

const MODE: (&str, &str) = ("response_mode", "form_post");

/// Returns the fields of the form that carries the answer to the client, and checks the page.
#[track_caller]
fn form(reply: &Reply) -> Vec<(String, String)> {
    assert_eq!((reply.status, reply.header("location")), (200, None), "{reply:?}");
    let html = reply.text();
    assert!(html.contains(&format!("<form method=\"post\" action=\"{REDIRECT_URI}\" data-sends-itself>")), "{html}");
    assert!(html.contains("<script src=\"/oauth/return.js?v=") && !html.contains("/oauth/script.js"), "{html}");
    assert!(html.contains("id=\"return-submit\""), "a button for those without scripts");
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.ends_with("form-action 'self' https://rp.test https:"), "{policy}");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
    hidden_fields(html)
}

fn field<'f>(fields: &'f [(String, String)], name: &str) -> &'f str {
    &fields.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}: {fields:?}")).1
}

#[tokio::test]
async fn form_post_returns_the_response_in_a_form() {
    for settings in [FOR_C1, FOR_ALL] {
        let provider = Provider::with(settings).await;
        let client = provider.c1();
        let browser = provider.browser();
        let state = "a\"><script>&' ş";
        let reply = browser.authorize(&client.authorize(&[MODE, ("state", state)]), "anna@example.test").await;
        let fields = form(&reply);
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["code", "state", "iss"]);
        assert_eq!((field(&fields, "state"), field(&fields, "iss")), (state, ISSUER));
        assert!(!reply.text().contains("<script>"));
        Tokens::of(&client.redeem(field(&fields, "code")).await);
    }
}

#[tokio::test]
async fn the_form_post_script_is_a_separate_file() {
    let provider = Provider::with(FOR_ALL).await;
    let reply = provider.get("/oauth/return.js").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    assert!(reply.text().ends_with("if (form) form.submit();\n") && !reply.text().contains("//"), "{reply:?}");
    assert!(reply.header("cache-control").unwrap().contains("immutable"));
}

#[tokio::test]
async fn form_post_returns_errors_in_a_form() {
    let provider = Provider::with(FOR_C1).await;
    let browser = provider.browser();
    for (changes, error) in [
        (vec![MODE, ("prompt", "none")], "login_required"),
        (vec![MODE, ("scope", "openid nothing")], "invalid_scope"),
        (vec![MODE, ("response_type", "token")], "unsupported_response_type"),
    ] {
        let fields = form(&browser.open(&provider.c1().authorize(&changes)).await);
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((field(&fields, "error"), names), (error, vec!["error", "error_description", "state", "iss"]));
    }
}

#[tokio::test]
async fn the_form_post_page_exists_in_both_languages() {
    let provider = Provider::with(FOR_ALL).await;
    for (language, words) in [("tr", "Devam et"), ("en", "Continue")] {
        let changes = [MODE, ("prompt", "none"), ("ui_locales", language)];
        let reply = provider.browser().open(&provider.c1().authorize(&changes)).await;
        form(&reply);
        assert!(reply.text().contains(&format!("<html lang=\"{language}\">")) && reply.text().contains(words));
    }
}

#[tokio::test]
async fn form_post_without_permission_is_an_error_redirect() {
    let modes = async |provider: &Provider| {
        let document = provider.get("/.well-known/openid-configuration").await.json();
        let modes = document["response_modes_supported"].as_array().unwrap().clone();
        modes.iter().map(|mode| mode.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let off = Provider::new().await;
    let some = Provider::with(FOR_C1).await;
    for (provider, client) in [(&off, off.c1()), (&some, some.c2())] {
        let reply = provider.browser().open(&client.authorize(&[MODE])).await;
        reply.assert_error_redirect("invalid_request");
        assert_eq!(names(&reply), ["error", "error_description", "state", "iss"]);
        assert!(reply.returned("error_description").unwrap().contains("form_post"), "{reply:?}");
    }
    assert_eq!(modes(&off).await, ["query", "fragment"]);
    for provider in [some, Provider::with(FOR_ALL).await] {
        assert_eq!(modes(&provider).await, ["query", "fragment", "form_post"]);
    }
}

#[tokio::test]
async fn an_unregistered_redirect_uri_gets_no_form() {
    let provider = Provider::with(FOR_ALL).await;
    let changes = [MODE, ("redirect_uri", "https://evil.test/cb")];
    let reply = provider.browser().open(&provider.c1().authorize(&changes)).await;
    assert_eq!(reply.status, 400);
    assert!(!reply.text().contains("<form"), "{reply:?}");
}
