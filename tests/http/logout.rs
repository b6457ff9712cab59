//! Tests logout (OpenID Connect RP-Initiated Logout 1.0).

use sealgate_domain::client::{Client, ClientState};
use sealgate_domain::redirect_uri::RedirectUri;
use serde_json::json;

use crate::steps::{altered, assert_code, csrf_of, forged, with_anna, with_anna_and_ben};
use crate::support::{self, Browser, ISSUER, Provider, Reply, SIGNED_OUT_URI, Tokens, form_action, hidden_fields};

const ANNA: &str = "anna@example.test";
const SESSION: &str = "__Host-sealgate";

/// Returns a browser in which Anna is signed in, and `c1`'s tokens.
async fn signed_in(provider: &Provider) -> (Browser<'_>, Tokens) {
    let browser = provider.browser();
    let code = provider.c1().code_in(&browser, &[("scope", "openid offline_access")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    (browser, tokens)
}

/// Returns the URL of a logout with these parameters.
fn logout(fields: &[(&str, &str)]) -> String {
    let query: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!("/oauth/logout?{query}")
}

async fn is_signed_in(provider: &Provider, browser: &Browser<'_>) -> bool {
    let reply = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    reply.returned("code").is_some()
}

/// Returns whether the page asks for confirmation before it signs out.
fn asks(page: &Reply) -> bool {
    page.status == 200 && page.text().contains("id=\"logout-confirm\"")
}

/// Returns whether the page reports that no user is signed in.
fn says_signed_out(page: &Reply) -> bool {
    page.status == 200 && page.text().contains("You are signed out")
}

async fn confirm(browser: &Browser<'_>, page: &Reply) -> Reply {
    assert!(asks(page), "{page:?}");
    browser.submit(page, &[("logout-confirm", "yes")]).await
}

#[tokio::test]
async fn out_01_a_valid_hint_ends_the_session_and_redirects_back() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let old = browser.cookie(SESSION).unwrap();
    let fields =
        [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s 1&2")];
    let reply = browser.get(&logout(&fields)).await;
    assert_eq!((reply.status, reply.location()), (302, "https://rp.test/bye?state=s+1%262"));
    assert!(reply.header("cache-control").unwrap().contains("no-store"));
    let cookie = reply.header("set-cookie").unwrap();
    assert_eq!(cookie, "__Host-sealgate=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0");
    assert_eq!(browser.cookie(SESSION), None);
    // The back button shows no cached page.
    assert_eq!(reply.header("clear-site-data"), Some("\"cache\""));
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    // The session itself is deleted, not only its cookie.
    browser.set_cookie(SESSION, &old);
    assert!(!is_signed_in(&provider, &browser).await);
}

#[tokio::test]
async fn out_02_a_post_works_like_a_get_and_reads_only_its_body() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s1")];
    let reply = browser.post("/oauth/logout?state=x&post_logout_redirect_uri=https://evil.test/", &fields).await;
    assert_eq!((reply.status, reply.location()), (302, "https://rp.test/bye?state=s1"));
    assert!(!is_signed_in(&provider, &browser).await);

    let (browser, tokens) = signed_in(&provider).await;
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
    let page = browser.post(&logout(&fields), &[]).await;
    assert!(asks(&browser.follow(page).await), "the query of a POST says nothing");
    for (content_type, body) in [("application/json", "{}"), ("text/plain", "x")] {
        let reply = provider.request("POST", "/oauth/logout", &[("content-type", content_type)], body).await;
        reply.assert_error_page();
    }
}

#[tokio::test]
async fn out_03_no_state_is_returned_without_one() {
    let provider = Provider::new().await;
    for state in [vec![], vec![("state", "")]] {
        let (browser, tokens) = signed_in(&provider).await;
        let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
        let reply = browser.get(&logout(&[fields.to_vec(), state].concat())).await;
        assert_eq!(reply.location(), SIGNED_OUT_URI);
    }
}

#[tokio::test]
async fn out_04_an_expired_hint_is_accepted() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    provider.wait(10_000);
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
    assert_eq!(browser.get(&logout(&fields)).await.location(), SIGNED_OUT_URI);
    assert!(!is_signed_in(&provider, &browser).await);
}

#[tokio::test]
async fn out_05_foreign_id_tokens_are_not_accepted_as_a_hint() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let stranger = provider.browser();
    for hint in [
        forged(&tokens.id, "none", |_| {}),
        forged(&tokens.id, "RS256", |_| {}),
        altered(&tokens.id, |claims| claims["aud"] = json!("c2")),
        altered(&tokens.id, |claims| claims["exp"] = json!(9_000_000_000_u64)),
        tokens.access.clone(),
        tokens.refresh.clone(),
        "garbage".to_owned(),
        "..".to_owned(),
    ] {
        for client in [None, Some(("client_id", "c1"))] {
            let mut fields = vec![("id_token_hint", hint.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
            fields.extend(client);
            let page = browser.open(&logout(&fields)).await;
            assert!(asks(&page), "{page:?}");
            let page = stranger.open(&logout(&fields)).await;
            assert!(says_signed_out(&page), "{page:?}");
        }
    }
    assert!(is_signed_in(&provider, &browser).await);
}

#[tokio::test]
async fn out_06_an_unregistered_uri_is_never_redirected_to() {
    let provider = Provider::new().await;
    let elsewhere = vec![RedirectUri::parse("https://other.test/bye").unwrap()];
    provider.add_client(Client { post_logout_redirect_uris: elsewhere, ..provider.confidential("other") }).await;
    let (browser, tokens) = signed_in(&provider).await;
    let stranger = provider.browser();
    for uri in [
        "https://evil.test/",
        "https://rp.test/bye?foo=bar",
        "https://rp.test/bye/",
        "https://rp.test/bye#f",
        "https://rp.test:443/bye",
        "HTTPS://rp.test/bye",
        "https://rp.test/cb",
        "https://other.test/bye",
        "//rp.test/bye",
        "javascript:alert(1)",
        "https://rp.test/bye\r\nX: y",
    ] {
        for browser in [&browser, &stranger] {
            for with in [("id_token_hint", tokens.id.as_str()), ("client_id", "c1")] {
                let reply = browser.open(&logout(&[with, ("post_logout_redirect_uri", uri)])).await;
                reply.assert_error_page();
            }
        }
    }
    assert!(is_signed_in(&provider, &browser).await, "a refused request changes nothing");
}

#[tokio::test]
async fn out_07_a_uri_without_a_client_is_never_redirected_to() {
    let provider = Provider::new().await;
    let (browser, _) = signed_in(&provider).await;
    for uri in [SIGNED_OUT_URI, "https://evil.test/"] {
        let page = browser.open(&logout(&[("post_logout_redirect_uri", uri), ("state", "s1")])).await;
        assert!(asks(&page));
        let after = confirm(&browser, &page).await;
        assert!(says_signed_out(&after), "{after:?}");
        provider.c1().code_in(&browser, &[]).await;
    }
}

#[tokio::test]
async fn out_08_without_a_hint_the_redirect_follows_a_confirmation() {
    let provider = Provider::new().await;
    let (browser, _) = signed_in(&provider).await;
    let fields = [("client_id", "c1"), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s\"1")];
    let reply = browser.get(&logout(&fields)).await;
    assert_eq!(reply.status, 302);
    assert!(reply.location().starts_with("/oauth/logout/confirm?"));
    let page = browser.follow(reply).await;
    assert!(page.text().contains("Client c1") && page.text().contains(ANNA));
    assert!(is_signed_in(&provider, &browser).await, "not before the answer");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("form-action 'self' https://rp.test"), "{policy}");
    let reply = confirm(&browser, &page).await;
    assert_eq!((reply.status, reply.location()), (302, "https://rp.test/bye?state=s%221"));
    assert!(!is_signed_in(&provider, &browser).await);
}

#[tokio::test]
async fn out_10_without_parameters_the_user_is_asked() {
    let provider = Provider::new().await;
    let (browser, _) = signed_in(&provider).await;
    for page in [browser.open("/oauth/logout").await, {
        let reply = browser.post("/oauth/logout", &[]).await;
        browser.follow(reply).await
    }] {
        assert!(asks(&page));
    }
    let page = browser.open("/oauth/logout").await;
    let after = confirm(&browser, &page).await;
    assert!(says_signed_out(&after));
    assert!(!is_signed_in(&provider, &browser).await);
    assert!(says_signed_out(&browser.open("/oauth/logout").await), "no session is left to confirm for");
}

#[tokio::test]
async fn out_11_without_a_session_a_hint_still_redirects_back() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s1")];
    for browser in [&browser, &browser, &provider.browser()] {
        assert_eq!(browser.get(&logout(&fields)).await.location(), "https://rp.test/bye?state=s1");
    }
}

#[tokio::test]
async fn logout_without_a_session_and_a_hint_does_not_redirect() {
    let provider = Provider::new().await;
    let fields = [("client_id", "c1"), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s1")];
    assert!(says_signed_out(&provider.browser().open(&logout(&fields)).await));
    let direct = logout(&fields).replace("/oauth/logout?", "/oauth/logout/confirm?");
    assert!(says_signed_out(&provider.browser().open(&direct).await));
}

#[tokio::test]
async fn out_15_a_registered_query_is_kept() {
    let provider = Provider::new().await;
    let uris = vec![RedirectUri::parse("https://rp.test/bye?a=b").unwrap()];
    provider.add_client(Client { post_logout_redirect_uris: uris, ..provider.confidential("q") }).await;
    let tokens = support::Client::confidential(&provider, "q").tokens("openid").await;
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", "https://rp.test/bye?a=b")];
    let browser = provider.browser();
    assert_eq!(browser.get(&logout(&fields)).await.location(), "https://rp.test/bye?a=b");
    let fields = [fields.to_vec(), vec![("state", "s1")]].concat();
    assert_eq!(browser.get(&logout(&fields)).await.location(), "https://rp.test/bye?a=b&state=s1");
}

#[tokio::test]
async fn out_17_tokens_outlive_the_session() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let other = provider.c2().code_in(&browser, &[("scope", "openid offline_access")]).await;
    let other = Tokens::of(&provider.c2().redeem(&other).await);
    browser.get(&logout(&[("id_token_hint", &tokens.id)])).await;
    assert!(!is_signed_in(&provider, &browser).await);
    for (client, tokens) in [(provider.c1(), tokens), (provider.c2(), other)] {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
        assert_eq!(client.refresh(&tokens.refresh).await.status, 200);
    }
}

#[tokio::test]
async fn a_session_of_another_browser_continues() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let other = with_anna(&provider).await;
    browser.get(&logout(&[("id_token_hint", &tokens.id)])).await;
    assert!(is_signed_in(&provider, &other).await);
}

#[tokio::test]
async fn out_18_languages_apply_and_unknown_parameters_are_ignored() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let page = browser.open(&logout(&[("ui_locales", "tr"), ("x", "1"), ("x", "2")])).await;
    assert!(asks(&page) && page.text().contains("<html lang=\"tr\">"));
    let fields = [
        ("id_token_hint", tokens.id.as_str()),
        ("post_logout_redirect_uri", SIGNED_OUT_URI),
        ("ui_locales", "tr"),
        ("logout_hint", "anna"),
        ("x", "1"),
        ("x", "2"),
    ];
    let reply = browser.get(&format!("{}&y=%FF", logout(&fields))).await;
    assert_eq!(reply.location(), SIGNED_OUT_URI);
}

#[tokio::test]
async fn out_18_a_repeated_known_parameter_is_a_page() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let fields = [
        ("id_token_hint", tokens.id.as_str()),
        ("client_id", "c1"),
        ("post_logout_redirect_uri", SIGNED_OUT_URI),
        ("state", "s1"),
        ("ui_locales", "en"),
    ];
    for field in fields {
        for second in [field.1, "", "x"] {
            let address = logout(&[fields.to_vec(), vec![(field.0, second)]].concat());
            browser.get(&address).await.assert_error_page();
            let confirm = address.replace("/oauth/logout?", "/oauth/logout/confirm?");
            if field.0 != "id_token_hint" {
                browser.get(&confirm).await.assert_error_page();
            }
        }
    }
    browser.get(&format!("{}&state=%FF", logout(&fields[..3]))).await.assert_error_page();
    browser.get(&logout(&[("client_id", "<x>")])).await.assert_error_page();
    assert!(is_signed_in(&provider, &browser).await);
}

/// RP-Initiated Logout §2: the client and the hint must match.
#[tokio::test]
async fn a_client_other_than_the_hints_audience_is_refused() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    for client in ["c2", "unknown"] {
        let fields = [("id_token_hint", tokens.id.as_str()), ("client_id", client)];
        browser.get(&logout(&fields)).await.assert_error_page();
    }
    assert!(is_signed_in(&provider, &browser).await);
    let fields = [("id_token_hint", tokens.id.as_str()), ("client_id", "c1")];
    assert_eq!(browser.get(&logout(&fields)).await.location(), "/oauth/signed-out");
}

/// A hint for another user does not prove that this user wants to sign out.
#[tokio::test]
async fn a_logout_hint_for_another_user_asks_for_confirmation() {
    let provider = Provider::new().await;
    let (_, tokens) = signed_in(&provider).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, "ben@example.test").await;
    browser.allow(&page).await;
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s1")];
    let page = browser.open(&logout(&fields)).await;
    assert!(asks(&page) && page.text().contains("ben@example.test"));
    assert!(is_signed_in(&provider, &browser).await);
    assert_eq!(confirm(&browser, &page).await.location(), "https://rp.test/bye?state=s1");
}

#[tokio::test]
async fn a_logout_ends_all_sign_ins_of_the_browser() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let browser = with_anna_and_ben(&provider).await;
    let reply = browser.get(&logout(&[("id_token_hint", &tokens.id)])).await;
    assert_eq!(reply.location(), "/oauth/signed-out");
    let page = browser.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    assert!(!page.text().contains(ANNA) && !page.text().contains("ben@example.test"));
}

#[tokio::test]
async fn the_confirmation_needs_the_token_of_its_page() {
    let provider = Provider::new().await;
    let (browser, _) = signed_in(&provider).await;
    let page = browser.open("/oauth/logout").await;
    let other = with_anna(&provider).await;
    let of_another_browser = csrf_of(&other.open("/oauth/logout").await);
    for csrf in ["", "x", of_another_browser.as_str()] {
        let fields = [("csrf", csrf), ("logout-confirm", "yes")];
        browser.post("/oauth/logout/confirm", &fields).await.assert_error_page();
    }
    browser.post("/oauth/logout/confirm", &[("logout-confirm", "yes")]).await.assert_error_page();
    let in_query = format!("/oauth/logout/confirm?csrf={}", csrf_of(&page));
    browser.post(&in_query, &[("logout-confirm", "yes")]).await.assert_error_page();
    assert!(is_signed_in(&provider, &browser).await);
    // The values in the form are validated again.
    let changed = [
        ("csrf", &*csrf_of(&page)),
        ("client_id", "c1"),
        ("post_logout_redirect_uri", "https://evil.test/"),
        ("logout-confirm", "yes"),
    ];
    browser.post(&form_action(page.text()), &changed).await.assert_error_page();
    assert!(is_signed_in(&provider, &browser).await);
    assert!(says_signed_out(&confirm(&browser, &page).await));
}

#[tokio::test]
async fn the_confirmation_page_contains_only_registered_uris() {
    let provider = Provider::new().await;
    let (browser, _) = signed_in(&provider).await;
    let fields = [("post_logout_redirect_uri", "https://evil.test/\"><script>"), ("state", "\"><script>")];
    let page = browser.open(&logout(&fields)).await;
    let names: Vec<String> = hidden_fields(page.text()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["csrf"]);
    let fields = [("client_id", "c1"), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "\"><script>")];
    let page = browser.open(&logout(&fields)).await;
    assert!(!page.text().contains("<script>"));
    assert_eq!(hidden_fields(page.text()).len(), 4);
}

#[tokio::test]
async fn a_disabled_client_gets_no_redirect_but_the_session_ends() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let id = "c1".to_owned().try_into().unwrap();
    provider.sealgate.store.change_client(&id, |client| client.state = ClientState::Disabled).await.unwrap();
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
    assert_eq!(browser.get(&logout(&fields)).await.location(), "/oauth/signed-out");
    assert_eq!(browser.cookie(SESSION), None);
}

#[tokio::test]
async fn a_pending_request_ends_with_the_logout() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    browser.get(&logout(&[("id_token_hint", &tokens.id)])).await;
    crate::steps::assert_login(&browser.allow(&consent).await);
}

#[tokio::test]
async fn other_methods_are_refused() {
    let provider = Provider::new().await;
    for path in ["/oauth/logout", "/oauth/logout/confirm"] {
        for method in ["PUT", "DELETE", "OPTIONS"] {
            let reply = provider.request(method, path, &[], "").await;
            reply.assert_error(405, "method_not_allowed");
            assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"));
        }
    }
}

#[tokio::test]
async fn the_longest_id_token_that_we_issue_is_accepted_as_a_logout_hint() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let code = provider.c1().code_in(&browser, &[("nonce", &"n".repeat(2048))]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let fields = [("id_token_hint", tokens.id.as_str()), ("post_logout_redirect_uri", SIGNED_OUT_URI)];
    assert_eq!(browser.get(&logout(&fields)).await.location(), SIGNED_OUT_URI);
    assert!(support::jwt_claims(&tokens.id)["iss"] == ISSUER);
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_code(&browser.sign_in(&page, ANNA).await);
}

/// A client's page submits the form, so the browser withholds the `SameSite=Lax` cookie. The GET
/// after the 303 has it.
#[tokio::test]
async fn a_cross_site_form_ends_the_session() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let address = logout(&[("id_token_hint", &tokens.id), ("post_logout_redirect_uri", SIGNED_OUT_URI)]);
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")];
    let body = address.split_once('?').unwrap().1;
    let reply = provider.request("POST", "/oauth/logout", &headers, body).await;
    assert_eq!((reply.status, reply.location()), (303, address.as_str()));
    assert_eq!(browser.get(&address).await.location(), SIGNED_OUT_URI);
    assert!(!is_signed_in(&provider, &browser).await);
}

/// Images, frames, scripts, programs and link scanners send GET requests too. None of them ends a
/// session: the user must confirm.
#[tokio::test]
async fn only_a_page_that_its_user_opens_ends_the_session_by_a_link() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let address =
        logout(&[("id_token_hint", &tokens.id), ("post_logout_redirect_uri", SIGNED_OUT_URI), ("state", "s1")]);
    let html = ("accept", "text/html,*/*;q=0.8");
    for fields in [
        vec![],
        vec![html],
        vec![("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
        vec![("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty"), html],
        vec![("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"), html],
        vec![("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "empty"), html],
    ] {
        let reply = browser.get_with(&address, &fields).await;
        assert_eq!((reply.status, reply.header("set-cookie")), (302, None), "{fields:?}");
        assert!(reply.location().starts_with("/oauth/logout/confirm?"), "{fields:?}");
    }
    let head = http::Request::head(&address).header("sec-fetch-mode", "navigate").header("sec-fetch-dest", "document");
    assert!(browser.send(head, String::new()).await.location().starts_with("/oauth/logout/confirm?"));
    assert!(is_signed_in(&provider, &browser).await);
    // The return URL is kept through the confirmation.
    let page = browser.get_with(&address, &[]).await;
    let reply = confirm(&browser, &browser.follow(page).await).await;
    assert_eq!(reply.location(), "https://rp.test/bye?state=s1");
    assert!(!is_signed_in(&provider, &browser).await);
}

/// A prefetch is rejected, so that the browser requests the page again when the user opens the
/// link.
#[tokio::test]
async fn prefetches_neither_sign_in_nor_out() {
    let provider = Provider::new().await;
    let (browser, tokens) = signed_in(&provider).await;
    let sign_out = logout(&[("id_token_hint", &tokens.id)]);
    let sign_in = provider.c1().authorize(&[]);
    let opened = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("accept", "text/html")];
    for purpose in [
        ("sec-purpose", "prefetch"),
        ("sec-purpose", "prefetch;prerender"),
        ("sec-purpose", "prefetch;anonymous-client-ip"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        for address in [&sign_out, &sign_in] {
            let reply = browser.get_with(address, &[&opened[..], &[purpose]].concat()).await;
            assert_eq!((reply.status, reply.header("location"), reply.header("set-cookie")), (403, None, None));
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
    }
    assert!(is_signed_in(&provider, &browser).await);
    assert_eq!(browser.get_with(&sign_out, &opened).await.location(), "/oauth/signed-out");
    assert!(!is_signed_in(&provider, &browser).await);
}

#[tokio::test]
async fn a_cross_site_form_deletes_no_cookie() {
    let provider = Provider::new().await;
    // `SameSite=Lax` withholds the cookie from this form, and it is too long to be repeated as a
    // query.
    let form = format!("x={}", "x".repeat(9000));
    let fields = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")];
    for fields in [&fields[..], &fields[..1]] {
        let reply = provider.request("POST", "/oauth/logout", fields, &form).await;
        assert_eq!((reply.status, reply.header("set-cookie"), reply.header("clear-site-data")), (302, None, None));
    }
}
