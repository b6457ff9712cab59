//! Tests a shared nginx cache between browsers and the gateway.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::forward_auth::{cache, nginx};
use crate::support::{Browser, Instance, Settings, free_port, wait_until};

/// Headers of an application that requests caching.
const EAGER: &str = "Cache-Control: public, max-age=600, s-maxage=600\r\nExpires: Thu, 31 Dec 2099 00:00:00 GMT\r\n\
    Surrogate-Control: max-age=600\r\nCDN-Cache-Control: max-age=600\r\nX-Accel-Expires: 600\r\nVary: Accept-Encoding\r\n";

/// Starts an application that shows the user's identity and asks every cache to store it. Below
/// `/plain/` it sends no cache headers.
fn application() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    read.extend_from_slice(&buffer[..length]);
                    let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
                    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
                    read.clear();
                    let email = head.lines().find_map(|line| line.strip_prefix("x-forwarded-email: "));
                    let body = format!("for {}", email.unwrap_or("nobody"));
                    let fields = if head.contains(" /plain/") { "" } else { EAGER };
                    let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    url
}

/// nginx with a cache in front of the program. Stopped on drop.
struct Site {
    instance: Instance,
    port: u16,
    child: Child,
    _directory: TempDir,
}

impl Site {
    fn start() -> Self {
        let (upstream, port) = (application(), free_port());
        let sections = format!(
            r#"
            [[app]]
            name = "legacy"
            host = "app.localhost"
            url = "http://app.localhost:{port}"
            upstreams = ["{upstream}"]
            [[app.route]]
            path = "/public/"
            access = "public"
            [[app.route]]
            path = "/alike/"
            access = "signed_in"
            caching = "application"
            [[app.route]]
            path = "/"
            access = "signed_in"
            "#
        );
        let instance = Instance::started(&Settings { sections, ..Settings::default() });
        let directory = tempfile::Builder::new().prefix("nginx-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = format!(
            "{}server {{\nlisten 127.0.0.1:{port};\nserver_name app.localhost;\nlocation / {{\n\
             proxy_set_header Host $http_host;\nproxy_pass http://127.0.0.1:{};\n}}\n}}\n",
            cache(directory.path()),
            instance.port
        );
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = nginx(directory.path(), &server);
        let spawned = command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null()).spawn();
        let child = spawned.expect("nginx is installed: .ci/install test");
        let site = Self { instance, port, child, _directory: directory };
        wait_until("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        site
    }

    fn url(&self, path: &str) -> String {
        format!("http://app.localhost:{}{path}", self.port)
    }

    /// Returns Anna's browser, signed in, and a browser without a session.
    async fn people(&self) -> (Browser, Browser) {
        let anna = Browser::new(&self.instance);
        let sent = anna.get(&self.url("/plain/first")).await;
        let page = anna.open(&sent.location().unwrap()).await;
        let back = anna.sign_in(&page).await;
        let end = anna.open(&back.location().unwrap()).await;
        assert_eq!((end.status, end.body.as_str()), (200, "for anna@example.test"));
        (anna, Browser::new(&self.instance))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_cache_does_not_mix_users() {
    let site = Site::start();
    let (anna, stranger) = site.people().await;
    for path in ["/page", "/plain/page"] {
        for _ in 0..2 {
            let page = anna.get(&site.url(path)).await;
            assert_eq!((page.status, page.body.as_str()), (200, "for anna@example.test"), "{path}");
            assert_ne!(page.headers["x-cache"], "HIT", "{path}");
        }
        let page = stranger.get(&site.url(path)).await;
        assert_eq!(page.status, 302, "{path}: {page:?}");
        // She gets neither the rejection of a program nor the redirect.
        let page = anna.get(&site.url(path)).await;
        assert_eq!(page.body, "for anna@example.test", "{path}");
    }
    let page = anna.get(&site.url("/page")).await;
    let said = |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(said("cache-control").unwrap(), "private, max-age=600");
    assert_eq!(said("vary").unwrap(), "Accept-Encoding, Cookie, Authorization");
    for name in ["expires", "surrogate-control", "cdn-cache-control", "x-accel-expires"] {
        assert_eq!(said(name), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn public_responses_are_cached_by_the_applications_headers() {
    let site = Site::start();
    let (anna, stranger) = site.people().await;
    assert_eq!(stranger.get(&site.url("/public/page")).await.body, "for nobody");
    let page = anna.get(&site.url("/public/page")).await;
    assert_eq!((page.body.as_str(), &page.headers["x-cache"]), ("for nobody", &"HIT".parse().unwrap()));
    anna.get(&site.url("/alike/page")).await;
    let page = anna.get(&site.url("/alike/page")).await;
    assert_eq!(page.headers["x-cache"], "HIT");
    assert_eq!(page.headers["cache-control"], "public, max-age=600, s-maxage=600");
}
