//! Sealgate beside a proxy that asks it before each request: nginx and Caddy, as the documentation configures them.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Browser, Instance, Settings, Upstream, free_port, wait_until};

const NGINX: &str = include_str!("forward_auth/nginx.conf");
const CADDY: &str = include_str!("forward_auth/Caddyfile");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nginx,
    Caddy,
}

/// A proxy in front of the sample application, and Sealgate beside it. Stops when dropped.
struct Site {
    instance: Instance,
    port: u16,
    child: Child,
    _upstream: Upstream,
    directory: TempDir,
}

impl Site {
    fn start(kind: Kind) -> Self {
        let (upstream, port) = (Upstream::start(), free_port());
        let instance = Instance::started(&Settings { sections: sections(port, &upstream), ..Settings::default() });
        let directory = tempfile::Builder::new().prefix("proxy-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = |text: &str| {
            let (host, own) = (format!("app.localhost:{port}"), format!("127.0.0.1:{port};"));
            text.replace("wiki.example.com:80", &host)
                .replace("wiki.example.com", "app.localhost")
                .replace("127.0.0.1:80;", &own)
                .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", instance.port))
                .replace("http://127.0.0.1:8081", &upstream.url())
                .replace("127.0.0.1:8081", upstream.url().trim_start_matches("http://"))
        };
        let mut command = match kind {
            // With a cache for all that does not refuse it, whatever the answers say.
            Kind::Nginx => {
                let cache = cache(directory.path()) + "proxy_ignore_headers Cache-Control Set-Cookie Vary;\n";
                nginx(directory.path(), &(cache + &place(NGINX)))
            }
            Kind::Caddy => caddy(directory.path(), &place(CADDY)),
        };
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let spawned = command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn();
        let child = spawned.expect("the proxy is installed: .ci/install test");
        let mut site = Self { instance, port, child, _upstream: upstream, directory };
        wait_until("the proxy listens", || {
            let ended = site.child.try_wait().unwrap();
            let log = fs::read_to_string(site.directory.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "{kind:?} ended: {ended:?}\n{log}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        site
    }

    fn url(&self, path: &str) -> String {
        format!("http://app.localhost:{}{path}", self.port)
    }

    /// A browser in which Anna has signed in on her way to this page, and the address where she ended.
    async fn signed_in(&self, path: &str) -> (Browser, String) {
        let browser = Browser::new(&self.instance);
        let sent = browser.get(&self.url(path)).await;
        assert_eq!(sent.status, 302, "{sent:?}");
        let page = browser.open(&sent.location().unwrap()).await;
        let back = browser.sign_in(&page).await;
        let end = browser.open(&back.location().unwrap()).await;
        assert_eq!(end.status, 200, "{end:?}");
        (browser, end.url)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sections(port: u16, upstream: &Upstream) -> String {
    format!(
        r#"
        [forward_auth]
        trusted = ["127.0.0.1"]
        [[app]]
        name = "legacy"
        host = "app.localhost"
        url = "http://app.localhost:{port}"
        upstreams = ["{}"]
        assertion = true
        [[app.route]]
        path = "/public/"
        access = "public"
        [[app.route]]
        path = "/readings/"
        methods = ["GET"]
        access = "signed_in"
        [[app.route]]
        path = "/admins/"
        access = "signed_in"
        groups = ["admins"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        cors_origins = ["https://www.test"]
        "#,
        upstream.url()
    )
}

/// A cache of nginx's, for all that is proxied.
pub(crate) fn cache(directory: &Path) -> String {
    format!(
        "proxy_cache_path {}/cache keys_zone=all:1m;\nproxy_cache all;\nproxy_cache_valid any 10m;\n\
         proxy_cache_key $scheme$http_host$request_uri;\nadd_header X-Cache $upstream_cache_status always;\n",
        directory.display()
    )
}

/// nginx in the foreground, one process, with all its files in the directory.
pub(crate) fn nginx(directory: &Path, server: &str) -> Command {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", directory.display()))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{server}}}\n",
        directory.display()
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-p").arg(directory).arg("-c").arg(file).args(["-e", "stderr"]);
    command
}

fn caddy(directory: &Path, site: &str) -> Command {
    let file = directory.join("Caddyfile");
    fs::write(&file, format!("{{\n\tadmin off\n\tauto_https off\n}}\n{site}")).unwrap();
    let mut command = Command::new("/usr/bin/caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    command.env("XDG_DATA_HOME", directory).env("XDG_CONFIG_HOME", directory).env("HOME", directory);
    command
}

/// What the application received under this name, in any spelling.
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
    // Signing out ends it at once.
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
    // What Sealgate answers itself is never taken for leave to go on.
    let preflight = stranger.client().request(reqwest::Method::OPTIONS, site.url("/x"));
    let preflight = preflight.header("Origin", "https://www.test").header("Access-Control-Request-Method", "PUT");
    let status = preflight.send().await.unwrap().status();
    assert_eq!(status, if kind == Kind::Nginx { 204 } else { 403 });
}

async fn nothing_that_a_client_forges_gets_by(kind: Kind) {
    let site = Site::start(kind);
    let (browser, _) = site.signed_in("/").await;
    let names =
        ["X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Name", "X-Forwarded-Groups", "X-Sealgate-Assertion"];
    for path in ["/json", "/public/x"] {
        let mut request = browser.client().get(site.url(path));
        for name in names {
            request = request.header(name, "forged");
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.text().await.unwrap();
        assert!(!body.contains("forged"), "{path}: {body}");
    }
    // Nor is Sealgate asked about another request than the one that is made.
    let stranger = Browser::new(&site.instance);
    let elsewhere = site.url("/public/x");
    for (name, value) in [
        ("X-Original-URL", elsewhere.as_str()),
        ("X-Original-URI", "/public/x"),
        ("X-Forwarded-Uri", "/public/x"),
        ("X-Forwarded-Host", "other.test"),
        ("X-Original-Method", "OPTIONS"),
        ("X-Forwarded-Method", "OPTIONS"),
        ("X-Rewrite-URL", "/public/x"),
    ] {
        let answer = stranger.client().get(site.url("/json")).header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), 401, "{name}");
    }
    for trick in ["/public/..%2fjson", "/public/%2e%2e/json", "/public;/json", "//public/x"] {
        let answer = raw_get(site.port, trick);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{trick}: {answer}");
    }
    let asked = browser.client().get(site.url("/.sealgate/auth")).send().await.unwrap();
    assert_eq!(asked.status(), 404);
}

/// A request whose path no URL library has tidied.
fn raw_get(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: app.localhost:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_people_are_sent_to_sign_in_and_come_back() {
    people_are_sent_to_sign_in_and_come_back(Kind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_caddy_people_are_sent_to_sign_in_and_come_back() {
    people_are_sent_to_sign_in_and_come_back(Kind::Caddy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_programs_and_strangers_are_told_why() {
    programs_and_strangers_are_told_why(Kind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_caddy_programs_and_strangers_are_told_why() {
    programs_and_strangers_are_told_why(Kind::Caddy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_nothing_that_a_client_forges_gets_by() {
    nothing_that_a_client_forges_gets_by(Kind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_caddy_nothing_that_a_client_forges_gets_by() {
    nothing_that_a_client_forges_gets_by(Kind::Caddy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_with_a_cache_nobody_gets_what_another_got() {
    let site = Site::start(Kind::Nginx);
    let (browser, _) = site.signed_in("/").await;
    for probe in ["first", "second"] {
        let answer = browser.client().get(site.url("/json")).header("X-Probe", probe).send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        assert_eq!(received(&body, "x-probe"), [probe]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_anything_who_may_not_ask() {
    let upstream = Upstream::start();
    let instance = Instance::started(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let browser = Browser::new(&instance);
    browser.go(&instance.app_url("/")).await;
    let asked = browser
        .client()
        .get(instance.app_url("/.sealgate/auth"))
        .header("X-Forwarded-Method", "GET")
        .header("X-Forwarded-Host", format!("app.localhost:{}", instance.port))
        .header("X-Forwarded-Uri", "/");
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(!answer.headers().contains_key("x-forwarded-user"));
}
