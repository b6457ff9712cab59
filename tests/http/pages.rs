//! Tests every redirect, page and cookie of the sign-in (RFC 6749 §4.1.2, RFC 9207, RFC 9700 §4.12,
//! §4.16).

use sealgate_domain::client::{Client, ClientDetails};
use sealgate_domain::redirect_uri::RedirectUri;

use crate::steps::{answer, assert_consent, assert_login, names, with_anna, with_anna_and_ben};
use crate::support::{self, ISSUER, Provider, REDIRECT_URI, Reply};

const ANNA: &str = "anna@example.test";

/// Returns redirects to the client, of every kind.
async fn redirects(provider: &Provider) -> Vec<Reply> {
    let browser = with_anna(provider).await;
    let mut all = Vec::new();
    for change in [
        ("prompt", "-"),
        ("prompt", "none"),
        ("prompt", "none login"),
        ("scope", "-"),
        ("scope", "profile"),
        ("scope", "openid x"),
        ("response_type", "-"),
        ("response_type", "token"),
        ("response_mode", "form_post"),
        ("request", "x"),
        ("request_uri", "https://x"),
        ("registration", "x"),
        ("max_age", "x"),
        ("id_token_hint", "x"),
        ("code_challenge_method", "x"),
        ("code_challenge", "x"),
        ("nonce", &"x".repeat(3000)),
    ] {
        all.push(browser.open(&provider.c1().authorize(&[change])).await);
    }
    let silent = provider.browser().open(&provider.c1().authorize(&[("prompt", "none")])).await;
    let wider = browser.open(&provider.c1().authorize(&[("prompt", "none"), ("scope", "openid email")])).await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let denied = browser.submit(&page, &[("consent-deny", "yes")]).await;
    all.extend([silent, wider, denied]);
    all
}

#[tokio::test]
async fn resp_01_redirects_to_clients_are_302_and_not_cached() {
    let provider = Provider::new().await;
    for reply in redirects(&provider).await {
        assert_eq!((reply.status, reply.text()), (302, ""));
        assert!(reply.header("cache-control").unwrap().contains("no-store"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
    }
}

/// RFC 9700 §4.12: a 307 would forward the password.
#[tokio::test]
async fn our_own_forms_are_answered_with_303() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let fields = [("email", ANNA), ("password", support::PASSWORD)];
    let signed_in = browser.submit_only(&page, &fields).await;
    assert_eq!(signed_in.status, 303);
    let consent = browser.follow(signed_in).await;
    assert_eq!(browser.submit_only(&consent, &[("consent-allow", "yes")]).await.status, 303);
}

#[tokio::test]
async fn resp_02_every_redirect_names_the_issuer_once() {
    let provider = Provider::new().await;
    for reply in redirects(&provider).await {
        assert_eq!(reply.returned("iss").as_deref(), Some(ISSUER), "{}", reply.location());
        assert!(reply.location().starts_with(REDIRECT_URI));
    }
}

#[tokio::test]
async fn resp_03_an_error_has_its_own_parameters_and_no_code() {
    let provider = Provider::new().await;
    let mut errors = 0;
    for reply in redirects(&provider).await.iter().filter(|reply| reply.returned("code").is_none()) {
        assert_eq!(names(reply), ["error", "error_description", "state", "iss"]);
        errors += 1;
    }
    assert_eq!(errors, 18);
}

/// RFC 6749 §4.1.2.1: %x20-21 / %x23-5B / %x5D-7E.
#[tokio::test]
async fn error_descriptions_are_fixed_sentences_in_the_permitted_characters() {
    let provider = Provider::new().await;
    for reply in redirects(&provider).await {
        for (name, value) in answer(&reply).iter().filter(|(name, _)| name.starts_with("error")) {
            assert!(
                value.bytes().all(|byte| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e)),
                "{name}: {value}"
            );
            assert!(!value.is_empty());
        }
    }
    // The description repeats no input.
    for name in ["prompt", "response_type", "max_age", "id_token_hint", "code_challenge_method"] {
        let reply = provider.get(&provider.c1().authorize(&[(name, "evil-7f3a <script>")])).await;
        assert!(!reply.location().contains("evil"), "{name}: {}", reply.location());
    }
}

/// Returns every page that a user can see, with its name.
async fn pages(provider: &Provider) -> Vec<(&'static str, Reply)> {
    let client = provider.c1();
    let browser = provider.browser();
    let login = browser.open(&client.authorize(&[])).await;
    let wrong = browser.submit(&login, &[("email", ANNA), ("password", "wrong")]).await;
    let consent = browser.sign_in(&login, ANNA).await;
    let expired = browser.post(&support::form_action(consent.text()), &[("consent-allow", "yes")]).await;
    let both = with_anna_and_ben(provider).await;
    let chooser = both.open(&client.authorize(&[("prompt", "select_account")])).await;
    let confirm = both.open("/oauth/logout").await;
    let signed_out = both.open("/oauth/signed-out").await;
    let unknown = provider.get("/oauth/authorize?client_id=x").await;
    let uri = provider.get(&client.authorize(&[("redirect_uri", "x")])).await;
    let nothing = browser.get("/oauth/login").await;
    let cookie = provider.get("/oauth/login?interaction=x").await;
    let malformed = provider.get("/oauth/logout?state=1&state=2").await;
    vec![
        ("login", login),
        ("wrong password", wrong),
        ("consent", consent),
        ("expired form", expired),
        ("chooser", chooser),
        ("confirm logout", confirm),
        ("signed out", signed_out),
        ("unknown client", unknown),
        ("redirect URI", uri),
        ("nothing to do", nothing),
        ("cookie missing", cookie),
        ("malformed", malformed),
    ]
}

#[tokio::test]
async fn resp_05_no_page_is_cached_or_framed() {
    let provider = Provider::new().await;
    for (name, page) in Box::pin(pages(&provider)).await {
        assert_eq!(page.header("location"), None, "{name}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{name}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"), "{name}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{name}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{name}");
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"), "{name}");
        let policy: Vec<&str> = page.header("content-security-policy").unwrap().split("; ").collect();
        for part in ["default-src 'none'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(&part), "{name}: {policy:?}");
        }
        assert!(policy.contains(&"script-src 'self'") && !policy.iter().any(|part| part.contains("unsafe")), "{name}");
        let html = page.text();
        assert!(!html.contains("<script>") && !html.contains(" style=") && !html.contains(" onclick="), "{name}");
        // Except the link back to the application of the request.
        let html = html.replace("id=\"way\" href=\"https://rp.test/\"", "");
        assert!(!html.contains("://"), "{name} names a foreign address");
    }
}

/// Chromium applies `form-action` to every redirect after a form: to the client, and to the
/// client's next redirect.
#[tokio::test]
async fn form_action_permits_the_client_and_its_redirects() {
    let provider = Provider::new().await;
    for (name, page) in Box::pin(pages(&provider)).await {
        let policy = page.header("content-security-policy").unwrap();
        let targets: Vec<&str> = policy.split("; ").filter(|part| part.starts_with("form-action")).collect();
        let expected = match name {
            "login" | "wrong password" | "consent" | "chooser" => "form-action 'self' https://rp.test https:",
            _ => "form-action 'self'",
        };
        assert_eq!(targets, [expected], "{name}");
    }
}

/// CSP Level 3 §2.3.1 has no syntax for IPv6 addresses: browsers would drop the source and block
/// the sign-in.
#[tokio::test]
async fn form_action_names_a_loopback_client_in_a_supported_form() {
    let provider = Provider::new().await;
    let redirect_uris =
        ["http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost:3000/cb", "https://rp.test:8443/cb"]
            .map(|uri| RedirectUri::parse(uri).unwrap());
    provider.add_client(Client { redirect_uris: redirect_uris.into(), ..provider.public("native") }).await;
    for (uri, source) in [
        ("http://127.0.0.1:4000/cb", "http://127.0.0.1:4000 http:"),
        ("http://[::1]:4000/cb", "http:"),
        ("http://localhost:3000/cb", "http://localhost:3000 http:"),
        ("https://rp.test:8443/cb", "https://rp.test:8443 https:"),
    ] {
        let client = support::Client::public(&provider, "native");
        let page = provider.browser().open(&client.authorize(&[("redirect_uri", uri)])).await;
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.ends_with(&format!("; form-action 'self' {source}")), "{policy}");
    }
}

#[tokio::test]
async fn resp_07_cookies_are_bound_to_the_host_and_hidden_from_scripts() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let begun = browser.get(&provider.c1().authorize(&[])).await;
    let page = browser.follow(begun).await;
    let switched = browser.get(&format!("{}&lang=tr", support::form_action(page.text()))).await;
    let fields = [("email", ANNA), ("password", support::PASSWORD)];
    let signed_in = browser.submit_only(&page, &fields).await;
    let mut names = Vec::new();
    let fresh = provider.get(&provider.c1().authorize(&[])).await;
    for cookie in [&fresh, &switched, &signed_in].into_iter().flat_map(|reply| reply.headers("set-cookie")) {
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        names.push(pair.split('=').next().unwrap());
        let attributes: Vec<&str> = attributes.split("; ").filter(|part| !part.starts_with("Max-Age=")).collect();
        assert_eq!(attributes, ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"], "{cookie}");
    }
    let [browser, language, session] = ["__Host-sealgate-browser", "__Host-sealgate-language", "__Host-sealgate"];
    assert_eq!(names, [browser, language, session, "__Host-sealgate-known"]);
}

#[tokio::test]
async fn resp_07_endpoints_for_programs_set_no_cookies() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let tokens = client.tokens("openid offline_access").await;
    for reply in [
        client.refresh(&tokens.refresh).await,
        client.token(&[("grant_type", "x")]).await,
        provider.userinfo(&tokens.access).await,
        provider.userinfo("x").await,
        provider.get("/oauth/jwks?lang=tr").await,
        provider.get("/.well-known/openid-configuration?lang=tr").await,
        client.revoke("x").await,
    ] {
        assert_eq!(reply.headers("set-cookie").count(), 0, "{reply:?}");
    }
}

#[tokio::test]
async fn resp_14_a_sign_in_page_without_a_request_is_an_error() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for page in ["login", "consent", "select-account", "resume"] {
        for name in ["next", "return_to", "returnTo", "redirect", "redirect_uri", "url", "continue", "interaction"] {
            for target in
                ["//evil.test", "https:evil.test", "/\\evil.test", "https://evil.test/", "javascript:alert(1)"]
            {
                let reply = provider.browser().get(&format!("/oauth/{page}?{name}={target}")).await;
                assert_eq!((reply.status, reply.header("location")), (400, None));
                provider.wait(1);
            }
            let reply = browser.get(&format!("/oauth/{page}?{name}=//evil.test")).await;
            assert_eq!((reply.status, reply.header("location")), (400, None), "{page} {name}");
        }
    }
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login"), ("next", "//evil.test")])).await;
    let action = support::form_action(page.text());
    let fields = [
        ("csrf", &*crate::steps::csrf_of(&page)),
        ("email", ANNA),
        ("password", support::PASSWORD),
        ("next", "//evil.test"),
        ("return_to", "https://evil.test"),
    ];
    let reply = browser.post(&format!("{action}&next=//evil.test&return_to=//evil.test"), &fields).await;
    assert!(reply.location().starts_with("/oauth/resume?interaction="), "{}", reply.location());
}

#[tokio::test]
async fn resp_15_names_are_escaped_and_client_uris_are_not_links() {
    let provider = Provider::new().await;
    let evil = Client {
        name: "<script>alert(1)</script>\"'&{{7*7}}".into(),
        details: ClientDetails {
            description: Some("<img src=x onerror=alert(1)>".into()),
            client_uri: Some("javascript:alert(1)".into()),
            initiate_login_uri: Some("javascript:alert(1)".into()),
            tos_uri: Some("javascript:alert(1)".into()),
            policy_uri: Some("javascript:alert(1)".into()),
            ..ClientDetails::default()
        },
        ..provider.confidential("evil")
    };
    provider.add_client(evil).await;
    let client = support::Client::confidential(&provider, "evil");
    let browser = with_anna_and_ben(&provider).await;
    let chooser = browser.open(&client.authorize(&[("prompt", "select_account")])).await;
    let login = browser.open(&client.authorize(&[("prompt", "login")])).await;
    let consent = browser.open(&client.authorize(&[])).await;
    let tokens = provider.c1().tokens("openid").await;
    let logout = browser.open(&format!("/oauth/logout?client_id=evil&id_token_hint=x{}", tokens.id)).await;
    assert_login(&login);
    assert_consent(&consent);
    for page in [chooser, login, consent, logout] {
        let html = page.text();
        assert!(html.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{html}");
        assert!(!html.contains("<script>") && !html.contains("javascript:") && !html.contains("<img"));
        assert!(html.contains("{{7*7}}"));
    }
}

/// Values that users enter about themselves are escaped too.
#[tokio::test]
async fn resp_15_a_users_own_values_are_escaped() {
    let provider = Provider::new().await;
    let rename = |user: &mut sealgate_domain::user::User| {
        user.name = "<b>Anna</b>".into();
        user.picture = Some("javascript:alert(1)".into());
    };
    provider.sealgate.store.change_user(provider.anna.sub, rename).await.unwrap();
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("scope", "openid profile")])).await;
    assert!(consent.text().contains("&#60;b&#62;Anna"));
    assert!(!consent.text().contains("<b>") && !consent.text().contains("=\"javascript:"));
    let chooser = browser.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    assert!(chooser.text().contains("&#60;b&#62;Anna") && !chooser.text().contains("<b>"));
}

#[tokio::test]
async fn no_path_makes_a_page_link_to_another_host() {
    let provider = Provider::new().await;
    let here = url::Url::parse("https://id.test//evil.test/a").unwrap();
    for path in ["//evil.test/a", "//evil.test/a?b=c&lang=de", "///evil.test", "//evil.test%2f..", "/\\\\evil.test"] {
        let page = provider.request("GET", path, &[("accept", "text/html")], "").await;
        assert_eq!(page.status, 404, "{path}");
        let links: Vec<&str> =
            [" href=\"", " src=\"", " action=\""].iter().flat_map(|start| page.text().split(start).skip(1)).collect();
        assert!(links.len() > 2, "{path}: {links:?}");
        for link in links.into_iter().filter(|link| !link.starts_with("data:")) {
            let link = link.split('"').next().unwrap().replace("&#38;", "&");
            assert_eq!(here.join(&link).unwrap().origin(), here.origin(), "{path}: {link}");
        }
    }
}

#[tokio::test]
async fn the_language_switch_stays_on_the_page_and_is_saved() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let turkish = browser.get(&format!("{}&lang=tr", support::form_action(page.text()))).await;
    assert_login(&turkish);
    assert!(turkish.text().contains("<html lang=\"tr\">"));
    let consent = browser.sign_in(&turkish, ANNA).await;
    assert!(consent.text().contains("<html lang=\"tr\">"));
    for odd in ["x", "", "%FF", "tr%0d%0aSet-Cookie:a=b"] {
        let reply = provider.get(&format!("/oauth/signed-out?lang={odd}")).await;
        assert_eq!((reply.status, reply.headers("set-cookie").count()), (200, 0), "{odd}");
    }
}

#[tokio::test]
async fn pages_load_only_stylesheet_and_script_which_are_cacheable() {
    let provider = Provider::new().await;
    for (name, page) in Box::pin(pages(&provider)).await {
        let links: Vec<&str> = page.text().split('<').filter(|tag| tag.starts_with("link ")).collect();
        assert_eq!(links.len(), 2, "{name}");
        assert!(links[0].contains("href=\"data:image/svg+xml,"), "{name}");
        let address = links[1].split("href=\"").nth(1).unwrap().split('"').next().unwrap();
        let sheet = provider.get(address).await;
        assert_eq!((sheet.status, sheet.header("content-type")), (200, Some("text/css; charset=utf-8")));
        assert!(sheet.header("cache-control").unwrap().contains("immutable"));
        assert!(!sheet.text().contains("url(") && !sheet.text().contains("@import"));
        for script in page.text().split("<script src=\"").skip(1) {
            let script = provider.get(script.split('"').next().unwrap()).await;
            assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
            assert!(script.header("cache-control").unwrap().contains("immutable"));
        }
    }
}

#[tokio::test]
async fn an_unknown_path_returns_a_page_to_browsers_and_json_to_programs() {
    let provider = Provider::new().await;
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8"), ("accept-language", "tr")];
    let page = provider.request("GET", "/nowhere", &accept, "").await;
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("<html lang=\"tr\">") && page.text().contains("Sayfa bulunamadı"));
    provider.request("GET", "/nowhere", &[("accept", "*/*")], "").await.assert_error(404, "not_found");
    provider.request("POST", "/nowhere", &accept, "").await.assert_error(404, "not_found");
    for wrong in ["/oauth", "/oauth/", "/oauth/nothing", "/.well-known/openid", "/console"] {
        let page = provider.request("GET", wrong, &accept, "").await;
        assert!(page.status == 404 && page.text().contains("Sayfa bulunamadı"), "{wrong}: {page:?}");
    }
    // Endpoints for programs explain that on a page.
    let page = provider.request("GET", "/oauth/token", &accept, "").await;
    assert!(page.status == 405 && page.header("allow") == Some("POST"), "{page:?}");
    assert!(page.text().contains("Bu adres uygulamalar içindir"), "{page:?}");
    provider.request("GET", "/oauth/token", &[], "").await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn the_first_64_ranges_of_accept_language_decide() {
    let provider = Provider::new().await;
    for (others, language) in [(63, "tr"), (64, "en"), (5_000, "en")] {
        let accepted = format!("{}tr", "de, ".repeat(others));
        let fields = [("accept", "text/html"), ("accept-language", accepted.as_str())];
        let page = provider.request("GET", "/oauth/signed-out", &fields, "").await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains(&format!("<html lang=\"{language}\">")), "{others}");
    }
}

#[tokio::test]
async fn browsers_get_a_page_for_too_many_requests() {
    let provider = Provider::with("[rate_limits]\npages = 1").await;
    provider.get("/oauth/signed-out").await;
    let page = provider.request("GET", "/oauth/signed-out", &[("accept", "text/html")], "").await;
    assert!(page.status == 429 && page.header("retry-after").is_some(), "{page:?}");
    assert!(page.text().contains("Too many requests"), "{page:?}");
    provider.get("/oauth/signed-out").await.assert_error(429, "rate_limit_exceeded");
}
