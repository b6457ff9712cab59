//! Tests the gateway in front of the sample application: access and headers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Browser, Instance, REDIRECT_URI, Settings, Upstream};

/// Returns an access token for Anna with this scope.
pub(crate) async fn access_token(instance: &Instance, secret: &str, scope: &str) -> String {
    let browser = Browser::new(instance);
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("client_id", "web")
        .append_pair("response_type", "code")
        .append_pair("redirect_uri", REDIRECT_URI)
        .append_pair("scope", scope);
    let end = browser.go(&instance.url(&format!("/oauth/authorize?{}", query.finish()))).await;
    let code = end.returned("code").unwrap();
    let fields = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", REDIRECT_URI)];
    let request = browser.client().post(instance.url("/oauth/token")).basic_auth("web", Some(secret)).form(&fields);
    let tokens: Value = request.send().await.unwrap().json().await.unwrap();
    tokens["access_token"].as_str().unwrap().to_owned()
}

/// Returns the header values that the application received under this name.
fn received<'a>(body: &'a Value, name: &str) -> Vec<&'a str> {
    body["headers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pair| pair[0].as_str().unwrap().replace('_', "-").eq_ignore_ascii_case(name))
        .map(|pair| pair[1].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_and_returns_to_the_requested_page() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    let wanted = instance.app_url("/reports/2026?q=%C5%9Fubat&x=a+b");
    let page = browser.go(&wanted).await;
    assert_eq!((page.status, page.url.as_str()), (200, wanted.as_str()), "{page:?}");
    assert!(page.body.contains("anna@example.test"), "{}", page.body);
    assert!(!page.body.contains("sealgate="), "our cookie reached the application: {}", page.body);

    let body: Value = browser.client().get(instance.app_url("/json")).send().await.unwrap().json().await.unwrap();
    assert_eq!(received(&body, "x-forwarded-email"), ["anna@example.test"]);
    assert_eq!(received(&body, "x-forwarded-groups"), ["staff"]);
    assert_eq!(received(&body, "x-forwarded-user").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_reach_the_application_only_with_a_valid_token() {
    let upstream = Upstream::start();
    let settings = Settings { upstream: Some(upstream.url()), ..Settings::default() };
    let mut instance = Instance::prepare(&settings);
    let secret = instance.add_confidential_client("web");
    instance.start();
    let token = access_token(&instance, &secret, "openid profile").await;
    let narrow = access_token(&instance, &secret, "openid").await;
    let client = Browser::new(&instance);
    let client = client.client();
    let api = instance.app_url("/api/data");

    let answer = client.get(&api).bearer_auth(&token).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(received(&body, "x-forwarded-email"), ["anna@example.test"]);
    assert_eq!(received(&body, "authorization"), Vec::<&str>::new());
    assert_eq!(client.get(instance.app_url("/json")).bearer_auth(&token).send().await.unwrap().status(), 200);

    let none = client.get(&api).send().await.unwrap();
    assert_eq!(none.status(), 401);
    assert!(none.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    let scope = client.get(&api).bearer_auth(&narrow).send().await.unwrap();
    assert_eq!(scope.status(), 403);
    assert!(scope.headers()["www-authenticate"].to_str().unwrap().contains("insufficient_scope"));
    let (input, signature) = token.rsplit_once('.').unwrap();
    let flipped = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{input}.{flipped}{}", &signature[1..]);
    assert_eq!(client.get(&api).bearer_auth(forged).send().await.unwrap().status(), 401);

    instance.stop();
    instance.configure(&Settings { sections: "[tokens]\naccess_token_seconds = 1".into(), ..settings });
    instance.start();
    assert_eq!(client.get(&api).bearer_auth(&token).send().await.unwrap().status(), 200, "it lives on");
    let short = access_token(&instance, &secret, "openid profile").await;
    let expired = async || client.get(&api).bearer_auth(&short).send().await.unwrap().status() == 401;
    let end = Instant::now() + Duration::from_secs(20);
    while !expired().await {
        assert!(Instant::now() < end, "a token of one second goes on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_identity_headers_never_reach_the_application() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    for path in ["/json", "/public/json"] {
        let mut request = browser.client().get(instance.app_url(path));
        for name in [
            "X-Forwarded-User",
            "x_forwarded_user",
            "X-Forwarded_Email",
            "X-FORWARDED-GROUPS",
            "X-Sealgate-Assertion",
            "X-Forwarded-Name",
            "X-Real-IP",
            "Forwarded",
        ] {
            request = request.header(name, "forged");
        }
        let answer = request.header("Connection", "close, X-Forwarded-User").send().await.unwrap();
        if answer.status() == 400 {
            continue;
        }
        let body = answer.text().await.unwrap();
        assert!(!body.contains("forged"), "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_get_a_readable_401_and_public_paths_are_open() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    let answer = browser.client().get(instance.app_url("/")).header("Accept", "*/*").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    let body: Value = answer.json().await.unwrap();
    assert!(body["error"].is_string(), "{body}");
    let open = browser.client().get(instance.app_url("/public/x")).send().await.unwrap();
    assert_eq!(open.status(), 200);
    for trick in ["/public/../secret", "/public/%2e%2e/secret", "/public/..%2fsecret", "//public/x", "/public;/x"] {
        let raw = raw_get(instance.port, trick);
        assert!(!raw.starts_with("HTTP/1.1 200"), "{trick}: {raw}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_cannot_set_cookies_of_sealgate() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                if stream.read(&mut head).is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nSet-Cookie: sealgate=x; Path=/\r\n\
                          set-cookie:  sealgate-browser =x\r\nSet-Cookie: =__Host-sealgate=x\r\n\
                          Set-Cookie: sealgate-theme=dark\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    );
                }
            });
        }
    });
    let instance = Instance::started(&Settings { upstream: Some(upstream), ..Settings::default() });
    let answer = raw_get(instance.port, "/public/x");
    let cookies: Vec<_> = answer.lines().filter(|line| line.to_ascii_lowercase().starts_with("set-cookie:")).collect();
    assert_eq!(cookies, ["Set-Cookie: own=1", "Set-Cookie: sealgate-theme=dark"], "{answer}");
}

/// Sends a request with an unnormalized path.
fn raw_get(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: app.localhost:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_or_a_disabled_account_ends_the_session_at_the_application() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let json = instance.app_url("/json");

    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    assert_eq!(browser.client().get(&json).send().await.unwrap().status(), 200);
    let page = browser.open(&instance.url("/oauth/logout")).await;
    browser.submit(&page, &[]).await;
    assert_eq!(browser.client().get(&json).send().await.unwrap().status(), 401);

    browser.go(&instance.app_url("/")).await;
    assert_eq!(browser.client().get(&json).send().await.unwrap().status(), 200);
    let sub = instance.json(&["user", "list"])["users"][0]["sub"].as_str().unwrap().to_owned();
    instance.run(&["user", "disable", &sub]);
    assert_eq!(browser.client().get(&json).send().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_of_the_provider_has_the_rate_limit_headers() {
    let instance = Instance::started(&Settings::default());
    let browser = Browser::new(&instance);
    let too_long = browser.client().post(instance.url("/oauth/token")).body("x".repeat(1 << 20)).send().await.unwrap();
    assert_eq!(too_long.status(), 413);
    let nowhere = browser.client().get(instance.url("/nope")).send().await.unwrap();
    assert_eq!(nowhere.status(), 404);
    let elsewhere =
        browser.client().get(instance.url("/oauth/userinfo")).header("Host", "evil.test").send().await.unwrap();
    assert_eq!(elsewhere.status(), 421);
    for answer in [too_long, nowhere, elsewhere] {
        for name in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert!(answer.headers().contains_key(name), "{name} {answer:?}");
        }
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["error", "error_description"]);
    }
}

/// `/api/` requires a token with a scope, and rejects browsers.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_part_is_not_deleted_or_listed_with_its_parent() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    let ask = async |method: &str, path: &str, fields: &[(&str, &str)]| {
        let mut request = browser.client().request(method.parse().unwrap(), instance.app_url(path));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    for (method, fields) in [
        ("DELETE", &[][..]),
        ("PROPFIND", &[]),
        ("PROPFIND", &[("depth", "2")]),
        // Headers named in `Connection` do not reach the application.
        ("PROPFIND", &[("depth", "0"), ("connection", "depth")]),
        ("COPY", &[("destination", "/copied/")]),
    ] {
        assert_eq!(ask(method, "/", fields).await, 403, "{method} {fields:?}");
    }
    assert_eq!(ask("COPY", "/x", &[("destination", "/api"), ("depth", "0")]).await, 403);
    assert_eq!(ask("PROPFIND", "/", &[("depth", "0"), ("depth", "0")]).await, 400);
    for (method, path, fields) in [
        ("PROPFIND", "/", &[("depth", "0")][..]),
        ("PROPFIND", "/", &[("depth", "1")]),
        ("DELETE", "/x/", &[]),
        ("PROPFIND", "/public/", &[]),
    ] {
        let status = ask(method, path, fields).await;
        assert!(![400, 401, 403].contains(&status), "{method} {path}: {status}");
    }
}
