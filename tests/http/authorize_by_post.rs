//! Tests authorization requests by POST (OpenID Connect Core §3.1.2.1 requires both methods).

use crate::steps::{assert_code, assert_login, open_by_post, with_anna};
use crate::support::Provider;

#[tokio::test]
async fn auth_02_a_post_is_the_same_as_a_get() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let browser = provider.browser();
    let page = open_by_post(&browser, &client.authorize(&[])).await;
    assert_login(&page);
    let page = browser.sign_in(&page, "anna@example.test").await;
    assert_code(&browser.allow(&page).await);
    // The user is already signed in.
    assert_code(&open_by_post(&browser, &client.authorize(&[])).await);
    open_by_post(&browser, &client.authorize(&[("scope", "profile")])).await.assert_error_redirect("invalid_scope");
    let reply = open_by_post(&browser, &client.authorize(&[("redirect_uri", "https://evil.test/")])).await;
    reply.assert_error_page();
}

#[tokio::test]
async fn a_post_is_read_from_its_body_alone() {
    let provider = Provider::new().await;
    let request = provider.c1().authorize(&[]);
    let query = request.split_once('?').unwrap().1;
    let post = async |query: &str, content_type: &str, body: &str| {
        let path = format!("/oauth/authorize?{query}");
        provider.request("POST", &path, &[("content-type", content_type)], body).await
    };
    let form = "application/x-www-form-urlencoded";
    for reply in [
        post(query, form, "").await,
        post("", "application/json", r#"{"client_id":"c1"}"#).await,
        post("", "text/plain", query).await,
        post("", "", query).await,
        post("", "multipart/form-data; boundary=x", query).await,
    ] {
        reply.assert_error_page();
    }
    for content_type in [form, "application/x-www-form-urlencoded; charset=UTF-8", "Application/X-WWW-Form-Urlencoded"]
    {
        let reply = post("redirect_uri=https://evil.test/cb&prompt=none&state=x", content_type, query).await;
        assert_eq!(reply.status, 303, "{content_type}");
        assert!(reply.location().starts_with("/oauth/resume?interaction="));
    }
}

/// `SameSite=Lax` withholds the cookies from a cross-site form, but not from the GET that follows a
/// 303.
#[tokio::test]
async fn a_cross_site_form_is_repeated_with_the_browsers_cookies() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let request = provider.c1().authorize(&[("state", "a b&\"ş")]);
    let query = request.split_once('?').unwrap().1;
    let post = async |headers: &[(&str, &str)], body: &str| {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        provider.request("POST", "/oauth/authorize", &[&form, headers].concat(), body).await
    };
    let across = ("sec-fetch-site", "cross-site");
    let reply = post(&[across], query).await;
    assert_eq!((reply.status, reply.location()), (303, request.as_str()));
    assert_eq!(reply.headers("set-cookie").count(), 0, "the binding cookie of other tabs stays");
    let reply = browser.get(&request).await;
    assert_eq!(reply.returned("state").as_deref(), Some("a b&\"ş"));
    assert_code(&reply);

    // Requests with a session cookie and same-site requests are answered at once.
    let cookie = format!("__Host-sealgate={}", browser.cookie("__Host-sealgate").unwrap());
    for headers in [&[across, ("cookie", &cookie)][..], &[("sec-fetch-site", "same-site")], &[]] {
        assert!(!post(headers, query).await.location().starts_with("/oauth/authorize"));
    }
    // Requests that do not fit into a redirect URL are stored too.
    for body in [format!("{query}&x={}", "x".repeat(9000)), format!("{query}&x=\r\nX: y"), format!("{query}&x=ş")] {
        let reply = post(&[across], &body).await;
        assert!(reply.location().starts_with("/oauth/resume?"));
        assert_eq!(reply.headers("set-cookie").count(), 0, "the binding cookie of other tabs stays");
        assert_code(&browser.follow(reply).await);
    }
    let headers = [across, ("content-type", "text/plain")];
    provider.request("POST", "/oauth/authorize", &headers, query).await.assert_error_page();
    let headers = [across, ("content-type", "application/x-www-form-urlencoded")];
    let reply = provider.request("GET", &request, &headers, "").await;
    assert!(reply.location().starts_with("/oauth/login?"));
}

/// A form that is too long for a URL is stored until the browser returns by GET. Pending requests
/// in other tabs continue.
#[tokio::test]
async fn a_long_cross_site_form_does_not_affect_other_tabs() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let tab = browser.open(&provider.c1().authorize(&[("state", "tab")])).await;
    let request = provider.c2().authorize(&[("state", "long")]);
    let body = format!("{}&x={}", request.split_once('?').unwrap().1, "x".repeat(9000));
    for across in [&[("sec-fetch-site", "cross-site")][..], &[]] {
        let headers = [&[("content-type", "application/x-www-form-urlencoded")], across].concat();
        let reply = provider.request("POST", "/oauth/authorize", &headers, &body).await;
        assert_eq!(reply.headers("set-cookie").count(), 0);
        let once = reply.location().to_owned();
        assert_login(&browser.follow(reply).await);
        // The URL works in one browser only.
        provider.browser().get(&once).await.assert_error_page();
    }
    let page = browser.sign_in(&tab, "anna@example.test").await;
    let reply = browser.allow(&page).await;
    assert_eq!(reply.returned("state").as_deref(), Some("tab"));
}
