//! Tests sticky upstreams in a running server: the cookie of a server, and the servers of a user.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::support::{Browser, Instance, Settings};

/// Starts an application that answers with its name and the request's `Cookie` field.
fn application(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let cookie = head.iter().find(|line| line.to_ascii_lowercase().starts_with("cookie:"));
            let body = format!("{name} {}", cookie.map_or("none", String::as_str));
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nCache-Control: public\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// Starts an instance with three servers of the application.
fn started(sticky: &str) -> Instance {
    let urls = ["one", "two", "three"].map(|name| format!("http://{}", application(name)));
    let mut instance = Instance::prepare(&Settings { upstream: Some(urls[0].clone()), ..Settings::default() });
    let text = fs::read_to_string(instance.config()).unwrap();
    let listed = format!("upstreams = [\"{}\"]", urls[0]);
    assert!(text.contains(&listed));
    fs::write(instance.config(), text.replace(&listed, &format!("sticky = \"{sticky}\"\nupstreams = {urls:?}")))
        .unwrap();
    instance.start();
    instance
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_the_server_of_its_first_request() {
    let instance = started("cookie");
    let url = instance.app_url("/public/x");
    let mut servers = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let browser = Browser::new(&instance);
        let first = browser.client().get(&url).send().await.unwrap();
        let cookie = first.headers()["set-cookie"].to_str().unwrap().to_owned();
        let (value, attributes) = cookie.strip_prefix("sealgate-server=").unwrap().split_once("; ").unwrap();
        assert!(value.len() == 16 && attributes == "Path=/; HttpOnly; SameSite=Lax", "{cookie}");
        assert_eq!(first.headers()["cache-control"], "private");
        // The application receives no cookie, so the same text means the same server.
        let server = first.text().await.unwrap();
        assert!(server.ends_with(" none"), "{server}");
        for _ in 0..4 {
            let next = browser.client().get(&url).send().await.unwrap();
            assert!(!next.headers().contains_key("set-cookie"));
            assert_eq!(next.headers()["cache-control"], "public");
            assert_eq!(next.text().await.unwrap(), server);
        }
        servers.insert(server);
    }
    assert_eq!(servers.len(), 3, "new browsers are distributed in turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_browsers_of_a_user_reach_one_server() {
    let instance = started("user");
    let (first, second) = (Browser::new(&instance), Browser::new(&instance));
    let server = first.go(&instance.app_url("/")).await.body;
    assert_eq!(second.go(&instance.app_url("/")).await.body, server);
    for _ in 0..4 {
        assert_eq!(first.get(&instance.app_url("/page")).await.body, server);
    }
    assert!(!first.get(&instance.app_url("/page")).await.headers.contains_key("set-cookie"));
}
