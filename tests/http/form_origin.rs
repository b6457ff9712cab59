//! Forms that a browser sends from a page of another origin, with the right token.

use http::Request;

use crate::steps::{assert_login, csrf_of, with_anna};
use crate::support::{Browser, PASSWORD, Provider, Reply, encode};

/// Fields of a browser that sends a form from a page of this server. Its pages send no referrer,
/// and so no origin.
const OWN: [&[(&str, &str)]; 6] = [
    &[("sec-fetch-site", "same-origin"), ("origin", "null")],
    &[("sec-fetch-site", "same-origin"), ("origin", "https://id.test")],
    // The user repeats the request, for instance after a restart of the browser.
    &[("sec-fetch-site", "none")],
    // Without Fetch Metadata.
    &[("origin", "null")],
    &[("origin", "https://id.test")],
    &[],
];

const OTHER: [&[(&str, &str)]; 6] = [
    &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.test")],
    &[("sec-fetch-site", "cross-site"), ("origin", "null")],
    &[("sec-fetch-site", "same-site"), ("origin", "null")],
    &[("origin", "https://evil.test")],
    &[("origin", "http://id.test")],
    &[("origin", "https://wiki.id.test")],
];

/// Sends the form with these fields of a browser.
async fn send(browser: &Browser<'_>, path: &str, form: &[(&str, &str)], fields: &[(&str, &str)]) -> Reply {
    let request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    browser.send(request, encode(form)).await
}

fn is_refused(reply: &Reply) -> bool {
    reply.status == 400 && reply.text().contains("This page has expired")
}

#[tokio::test]
async fn a_form_of_another_origin_is_refused_like_one_without_a_token() {
    let provider = Provider::with(crate::mailbox::MAIL).await;
    let browser = with_anna(&provider).await;
    for path in ["/account", "/account/password", "/account/sessions", "/oauth/logout/confirm"] {
        let csrf = csrf_of(&browser.get(path).await);
        for fields in OTHER {
            let reply = send(&browser, path, &[("csrf", &csrf)], fields).await;
            assert!(is_refused(&reply), "{path} {fields:?}: {reply:?}");
        }
        for fields in OWN.iter().filter(|_| path == "/account") {
            let reply = send(&browser, path, &[("csrf", &csrf), ("name", "Anna")], fields).await;
            assert!(!is_refused(&reply), "{fields:?}: {reply:?}");
        }
    }
    assert_eq!(browser.get("/account").await.status, 200, "the sign-out was refused too");
}

#[tokio::test]
async fn a_sign_in_form_of_another_origin_signs_no_one_in() {
    let provider = Provider::new().await;
    for fields in OTHER.iter().chain(&OWN) {
        let browser = provider.browser();
        let page = browser.open("/account").await;
        assert_login(&page);
        let action = crate::support::form_action(page.text());
        let form = [("csrf", &*csrf_of(&page)), ("email", "anna@example.test"), ("password", PASSWORD)];
        let reply = send(&browser, &action, &form, fields).await;
        assert_eq!(is_refused(&reply), OTHER.contains(fields), "{fields:?}: {reply:?}");
        let end = browser.open("/account").await;
        assert_eq!(crate::support::is_login(&end), OTHER.contains(fields), "{fields:?}");
    }
}
