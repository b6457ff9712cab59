//! Tests Sealgate with a proxy that sends it a forward-auth request before each request: nginx,
//! Caddy and Traefik, as conf/proxies configures them.
//!
//! The tests of Traefik need its program (`make test-traefik`); `tests/gateway/forward_auth.rs`
//! sends the same requests.

mod site;
mod traffic;

use serde_json::Value;

use crate::reload::edit;
use crate::support::{Browser, Instance, Settings, Upstream};
use site::{Kind, Site, exchange, raw, status};

pub(crate) use site::{cache, nginx};

/// Headers that reach no application from a client, also in spellings that fold to one another.
const FORGED: [&str; 47] = [
    "X-Forwarded-User",
    "X-Forwarded-Email",
    "X-Forwarded-Name",
    "X-Forwarded-Groups",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-Access-Token",
    "X-Sealgate-Assertion",
    "X-Sealgate-Client-Subject",
    "X-Sealgate-Client-Fingerprint",
    "X-Sealgate-Cookie",
    "X-Sealgate-Authorization",
    "X_Forwarded_User",
    "x_forwarded-groups",
    "X.Forwarded.Email",
    "X_Sealgate_Client_Subject",
    "X.Sealgate_Assertion",
    "X~Forwarded~User",
    "X'Forwarded|Groups",
    "X!Sealgate~Assertion",
    "X_Original_URL",
    "Content_Length",
    "Transfer_Encoding",
    "Host_",
    "Client-Cert",
    "Client_Cert",
    "X-Forwarded-Client-Cert",
    "Forwarded",
    "X-Real-IP",
    "X_Real_IP",
    "True-Client-IP",
    "X-Client-IP",
    "X-Forwarded-For",
    "X-Forwarded-Scheme",
    "X-Forwarded-Prefix",
    "X-Rewrite-URL",
    "Proxy",
    "Remote-User",
    "Remote-Groups",
    "X-Remote-User",
    "X-Auth-Request-User",
    "X-Auth-Request-Email",
    "X-WEBAUTH-USER",
    "X-WEBAUTH-ROLE",
    "X-Authenticated-User",
    "X-User",
    "X-User-Id",
    "SSL-Client-S-DN",
];

/// Returns the header values that the application received under this name, in any case.
fn received<'a>(body: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = body["headers"].as_array().unwrap().iter();
    let named = headers.filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}

async fn people_are_sent_to_sign_in_and_come_back(kind: Kind) {
    let site = Site::start(kind);
    let (browser, end) = site.signed_in("/reports/a%2Cb?q=%C5%9Fubat&x=a+b").await;
    assert_eq!(end, site.url("/reports/a%2Cb?q=%C5%9Fubat&x=a+b"));
    let answer = browser.client().get(site.url("/json")).header("Authorization", "Basic dTpw").send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(received(&body, "x-forwarded-email"), ["anna@example.test"]);
    assert_eq!(received(&body, "x-forwarded-groups"), ["staff"]);
    assert_eq!(received(&body, "x-forwarded-user").len(), 1);
    assert_eq!(received(&body, "x-sealgate-assertion")[0].split('.').count(), 3);
    assert_eq!(received(&body, "authorization"), ["Basic dTpw"]);
    let cookies = received(&body, "cookie").concat();
    assert!(!cookies.contains("sealgate"), "our cookie reached the application: {cookies}");
    // Signing out ends access at once.
    let page = browser.open(&site.instance.url("/oauth/logout")).await;
    browser.submit(&page, &[]).await;
    assert_eq!(browser.client().get(site.url("/json")).send().await.unwrap().status(), 401);
}

async fn programs_and_strangers_are_told_why(kind: Kind) {
    let site = Site::start(kind);
    let (browser, _) = site.signed_in("/").await;
    let stranger = Browser::new(&site.instance);
    let answer = stranger.client().get(site.url("/")).header("Accept", "*/*").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    assert!(answer.headers()["www-authenticate"].to_str().unwrap().contains("resource_metadata="));
    assert_eq!(answer.json::<Value>().await.unwrap()["error"], "login_required");
    let wrong = stranger.client().get(site.url("/")).bearer_auth("x").send().await.unwrap();
    assert_eq!(wrong.json::<Value>().await.unwrap()["error"], "invalid_token");
    let forbidden = browser.get(&site.url("/admins/")).await;
    assert_eq!(forbidden.status, 403);
    assert!(forbidden.body.contains("anna@example.test"), "{}", forbidden.body);
    assert_eq!(browser.client().get(site.url("/readings/1")).send().await.unwrap().status(), 200);
    let posted = browser.client().post(site.url("/readings/1")).body("x").send().await.unwrap();
    assert_eq!(posted.status(), 405);
    assert_eq!(browser.client().post(site.url("/x")).body("x").send().await.unwrap().status(), 200);
    // The proxy never treats Sealgate's own answers as permission to continue.
    let preflight = stranger.client().request(reqwest::Method::OPTIONS, site.url("/x"));
    let preflight = preflight.header("Origin", "https://www.test").header("Access-Control-Request-Method", "PUT");
    let status = preflight.send().await.unwrap().status();
    assert_eq!(status, if kind.sends_refused_requests() { 204 } else { 403 });
}

async fn an_application_in_maintenance_is_answered_with_503(kind: Kind) {
    let site = Site::start(kind);
    edit(&site.instance, "name = \"wiki\"\n", "name = \"wiki\"\nmaintenance = { message = \"Moving.\" }\n");
    site.instance.run(&["reload"]);
    let browser = Browser::new(&site.instance);
    let page = browser.get(&site.url("/")).await;
    assert_eq!(page.status, 503);
    assert!(page.body.contains("Moving."), "{}", page.body);
    let program = browser.client().get(site.url("/")).header("Accept", "*/*").send().await.unwrap();
    assert_eq!((program.status().as_u16(), program.headers()["retry-after"].to_str().unwrap()), (503, "300"));
    assert_eq!(program.json::<Value>().await.unwrap()["error"], "temporarily_unavailable");
}

async fn nothing_that_a_client_forges_gets_by(kind: Kind) {
    let site = Site::start(kind);
    let (browser, _) = site.signed_in("/").await;
    for path in ["/json", "/public/x"] {
        // All headers at once would be too long. Similar names are in the same request.
        for names in FORGED.chunks(11) {
            let mut request = browser.client().get(site.url(path));
            for name in names {
                request = request.header(*name, "forged").header(*name, "forged");
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 200, "{names:?}");
            let body = answer.text().await.unwrap();
            assert!(!body.contains("forged"), "{path}: {body}");
        }
    }
    let answer = browser.client().get(site.url("/json")).header("X-Forwarded-User", "forged").send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(received(&body, "x-forwarded-user").len(), 1);
    assert_eq!(received(&body, "host"), ["app.localhost"]);
    // The proxy asks about exactly the request that it forwards.
    let stranger = Browser::new(&site.instance);
    let elsewhere = site.url("/public/x");
    for (name, value) in [
        ("X-Original-URL", elsewhere.as_str()),
        ("X-Original-URI", "/public/x"),
        ("X-Forwarded-Uri", "/public/x"),
        ("X-Forwarded-Host", "other.test"),
        ("X-Forwarded-Host", "www.localhost"),
        ("X-Original-Method", "OPTIONS"),
        ("X-Forwarded-Method", "OPTIONS"),
        ("X-Rewrite-URL", "/public/x"),
    ] {
        let answer = stranger.client().get(site.url("/json")).header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), 401, "{name}");
    }
    // Rules of this application depend on the method.
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let answer = browser.client().post(site.url("/json")).header(name, "DELETE").send().await.unwrap();
        // Sealgate removes the header from a refused request that the proxy sends to it.
        assert_eq!(answer.status(), if kind.sends_refused_requests() { 200 } else { 403 }, "{name}");
        assert!(!answer.text().await.unwrap().contains("DELETE"), "{name}");
    }
    let asked = browser.client().get(site.url("/.sealgate/auth")).send().await.unwrap();
    assert_eq!(asked.status(), 404);
}

fn no_path_leads_around_the_rules(kind: Kind) {
    let site = Site::start(kind);
    let host = format!("app.localhost:{}", site.port);
    assert_eq!(status(&raw(site.port, "/public/x", &host)), 200);
    for trick in [
        "/public/..%2fjson",
        "/public/%2e%2e/json",
        "/public/../json",
        "/public/./../json",
        "/public;/json",
        "/public/..;/json",
        "/public/..%20/json",
        "/public/%252e%252e/json",
        "/public\\..\\json",
        "/public/%5c..%5cjson",
        "/PUBLIC/x",
        "/publ%C4%B1c/x",
        "/public%EF%BC%8Fx",
        "//public/x",
        "//app.localhost/public/x",
        "/public%00/../json",
        "/.sealgate/../json",
        "/.sealgate/..%2fjson",
        "/.sealgate/%2e%2e/json",
        "/.sealgate/auth?app=www",
        "/.sealgate/%61uth?app=www",
        "/.sealgate//auth?app=www",
        "//.sealgate/auth?app=www",
        "/x/../.sealgate/auth?app=www",
        "/sealgate-auth?app=www",
        "/sealgate-auth",
        "*",
        "json",
        "http:/json",
        "?/public/",
        "/public/x#/../json",
        "/json#/public/x",
    ] {
        let answer = raw(site.port, trick, &host);
        // A proxy may normalize a path if the application receives the path that Sealgate has
        // checked.
        let is_open = status(&answer) == 200 && answer.contains(">GET /public/x<");
        assert!(is_open || status(&answer) != 200, "{trick}: {answer}");
    }
}

/// Combines the host of one application with the rules of another.
fn no_host_leads_around_the_rules(kind: Kind) {
    let site = Site::start(kind);
    let port = site.port;
    let (wiki, www) = (format!("app.localhost:{port}"), format!("www.localhost:{port}"));
    // The application shows the `Host` that it received, as JSON or on a page.
    let shows = |answer: &str, host: &str| {
        [format!("\"{host}"), format!("<td>{host}")].iter().any(|text| answer.contains(text))
    };
    let carried_to = |answer: &str| shows(answer, "app.localhost");
    assert!(status(&raw(port, "/json", &www)) == 200 && !carried_to(&raw(port, "/json", &www)));
    assert_eq!(status(&raw(port, "/json", &wiki)), 401);
    let absolute = |host: &str| format!("http://{host}/json");
    for (target, hosts) in [
        // The host of the target differs from the host of the header.
        (absolute(&wiki), vec![www.as_str()]),
        (absolute("app.localhost"), vec!["www.localhost"]),
        (absolute(&wiki), vec!["elsewhere.test"]),
        (absolute(&wiki), vec![]),
        (absolute(&www), vec![wiki.as_str()]),
        (absolute(&format!("www.localhost@{wiki}")), vec![www.as_str()]),
        (format!("http:{wiki}/json"), vec![www.as_str()]),
        ("http:json".into(), vec![wiki.as_str()]),
        ("http:/json".into(), vec![wiki.as_str()]),
        (format!("{wiki}/json"), vec![www.as_str()]),
        ("/json".into(), vec![wiki.as_str(), www.as_str()]),
        ("/json".into(), vec![www.as_str(), wiki.as_str()]),
        ("/json".into(), vec!["APP.localhost"]),
        ("/json".into(), vec!["app.localhost."]),
        ("/json".into(), vec!["app.localhost:99"]),
        ("/json".into(), vec!["www.localhost, app.localhost"]),
        ("/json".into(), vec!["www.localhost@app.localhost"]),
        ("/json".into(), vec![]),
        ("/json".into(), vec![""]),
        ("/json".into(), vec!["127.0.0.1"]),
    ] {
        for version in ["1.1", "1.0"] {
            let fields = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect::<Vec<_>>().concat();
            let answer = exchange(port, &format!("GET {target} HTTP/{version}\r\n{fields}Connection: close\r\n\r\n"));
            assert!(!carried_to(&answer), "{target} {hosts:?}: {answer}");
            // Caddy sends an empty answer for unknown hosts.
            let is_empty = answer.contains("Content-Length: 0\r\n");
            assert!(
                status(&answer) != 200 || is_empty || shows(&answer, "www.localhost"),
                "{target} {hosts:?}: {answer}"
            );
        }
    }
    // An identity at the open application is not accepted by the closed one.
    let forged = format!(
        "GET {} HTTP/1.1\r\nHost: {www}\r\nX-Forwarded-Host: {www}\r\nConnection: close\r\n\r\n",
        absolute(&wiki)
    );
    assert!(!carried_to(&exchange(port, &forged)));
}

/// Anna has no access to `/admins/`.
async fn a_closed_part_is_not_reached_through_its_parent(kind: Kind) {
    let site = Site::start(kind);
    let (browser, _) = site.signed_in("/").await;
    let ask = async |method: &str, path: &str, fields: &[(&str, &str)]| {
        let mut request = browser.client().request(method.parse().unwrap(), site.url(path));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    for (method, fields) in [
        ("PROPFIND", &[][..]),
        ("PROPFIND", &[("Depth", "infinity")]),
        ("DELETE", &[("Depth", "0")]),
        ("LOCK", &[]),
        ("COPY", &[("Destination", "/elsewhere/"), ("Depth", "0")]),
        ("MOVE", &[("Destination", "/elsewhere/"), ("Depth", "0")]),
    ] {
        assert_eq!(ask(method, "/", fields).await, 403, "{method} {fields:?}");
    }
    // The application may use the first or the last of two headers.
    let two = browser.client().request("COPY".parse().unwrap(), site.url("/json")).header("Depth", "0");
    let two = two.header("Destination", "/y").header("Destination", "/admins/z").send().await.unwrap();
    let (status, body) = (two.status(), two.text().await.unwrap());
    assert!(!body.contains("/admins/z") && !body.contains("/y\"],[\"destination"), "{status}: {body}");
    for destination in ["/admins/x", "/admins", "/", "http://elsewhere.test/admins/"] {
        let fields = [("Destination", destination), ("Depth", "0")];
        assert_eq!(ask("COPY", "/x", &fields).await, 403, "{destination}");
    }
    // The application does not implement these methods, or ignores them.
    for (method, path, fields) in [
        ("PROPFIND", "/", &[("Depth", "0")][..]),
        ("PROPFIND", "/", &[("Depth", "1")]),
        ("PROPFIND", "/x/", &[]),
        ("COPY", "/x", &[("Destination", "/y"), ("Depth", "0")]),
        ("DELETE", "/x", &[]),
    ] {
        let status = ask(method, path, fields).await;
        assert!(![401, 403, 500, 502].contains(&status), "{method} {path}: {status}");
    }
}

/// Runs a blocking check.
async fn blocking(check: fn(Kind), kind: Kind) {
    tokio::task::spawn_blocking(move || check(kind)).await.unwrap();
}

macro_rules! behind_each_proxy {
    ($($nginx:ident $caddy:ident $haproxy:ident $traefik:ident $envoy:ident: $check:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $nginx() {
            ($check)(Kind::Nginx).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $caddy() {
            ($check)(Kind::Caddy).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $haproxy() {
            ($check)(Kind::Haproxy).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs Traefik, whose build takes minutes: make test-traefik"]
        async fn $traefik() {
            ($check)(Kind::Traefik).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs Envoy, a download of 40 MB: make test-envoy"]
        async fn $envoy() {
            ($check)(Kind::Envoy).await;
        }
    )*};
}

behind_each_proxy! {
    behind_nginx_people_are_sent_to_sign_in_and_come_back
    behind_caddy_people_are_sent_to_sign_in_and_come_back
    behind_haproxy_people_are_sent_to_sign_in_and_come_back
    behind_traefik_people_are_sent_to_sign_in_and_come_back
    behind_envoy_people_are_sent_to_sign_in_and_come_back: people_are_sent_to_sign_in_and_come_back;
    behind_nginx_programs_and_strangers_are_told_why
    behind_caddy_programs_and_strangers_are_told_why
    behind_haproxy_programs_and_strangers_are_told_why
    behind_traefik_programs_and_strangers_are_told_why
    behind_envoy_programs_and_strangers_are_told_why: programs_and_strangers_are_told_why;
    behind_nginx_an_application_in_maintenance_is_answered_with_503
    behind_caddy_an_application_in_maintenance_is_answered_with_503
    behind_haproxy_an_application_in_maintenance_is_answered_with_503
    behind_traefik_an_application_in_maintenance_is_answered_with_503
    behind_envoy_an_application_in_maintenance_is_answered_with_503: an_application_in_maintenance_is_answered_with_503;
    behind_nginx_nothing_that_a_client_forges_gets_by
    behind_caddy_nothing_that_a_client_forges_gets_by
    behind_haproxy_nothing_that_a_client_forges_gets_by
    behind_traefik_nothing_that_a_client_forges_gets_by
    behind_envoy_nothing_that_a_client_forges_gets_by: nothing_that_a_client_forges_gets_by;
    behind_nginx_no_path_leads_around_the_rules
    behind_caddy_no_path_leads_around_the_rules
    behind_haproxy_no_path_leads_around_the_rules
    behind_traefik_no_path_leads_around_the_rules
    behind_envoy_no_path_leads_around_the_rules: |kind| blocking(no_path_leads_around_the_rules, kind);
    behind_nginx_a_closed_part_is_not_reached_through_its_parent
    behind_caddy_a_closed_part_is_not_reached_through_its_parent
    behind_haproxy_a_closed_part_is_not_reached_through_its_parent
    behind_traefik_a_closed_part_is_not_reached_through_its_parent
    behind_envoy_a_closed_part_is_not_reached_through_its_parent: a_closed_part_is_not_reached_through_its_parent;
    behind_nginx_what_applications_send_passes
    behind_caddy_what_applications_send_passes
    behind_haproxy_what_applications_send_passes
    behind_traefik_what_applications_send_passes
    behind_envoy_what_applications_send_passes: traffic::passes;
    behind_nginx_no_host_leads_around_the_rules
    behind_caddy_no_host_leads_around_the_rules
    behind_haproxy_no_host_leads_around_the_rules
    behind_traefik_no_host_leads_around_the_rules
    behind_envoy_no_host_leads_around_the_rules: |kind| blocking(no_host_leads_around_the_rules, kind);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_in_nginx_does_not_mix_users() {
    let site = Site::start(Kind::Nginx);
    let (browser, _) = site.signed_in("/").await;
    for probe in ["first", "second"] {
        let answer = browser.client().get(site.url("/json")).header("X-Probe", probe).send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        assert_eq!(received(&body, "x-probe"), [probe]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_proxies_receive_decisions() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    let asked = browser
        .client()
        .get(instance.app_url("/.sealgate/auth?app=legacy"))
        .header("X-Forwarded-Method", "GET")
        .header("X-Forwarded-Host", format!("app.localhost:{}", instance.port))
        .header("X-Forwarded-Uri", "/");
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(!answer.headers().contains_key("x-forwarded-user"));
}
