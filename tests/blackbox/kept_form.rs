//! Tests that a form submitted after the end of the session reaches the application unchanged, once
//! the user submits it again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};

use crate::support::{Browser, Instance, Settings};

/// Request at the application: request line, header lines, body.
type Posted = (String, Vec<String>, Vec<u8>);

/// Starts an application that records every form. Returns its URL and the forms.
fn application() -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, posted) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = Vec::new();
            let mut reader = BufReader::new(&stream);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                lines.push(line.trim_end().to_ascii_lowercase());
            }
            let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() || lines.is_empty() {
                continue;
            }
            let first = lines.remove(0);
            if first.starts_with("post ") && sender.send((first, lines, body)).is_err() {
                return;
            }
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    (address, posted)
}

fn sent_by_a_page(instance: &Instance) -> HeaderMap {
    let fields = [
        ("sec-fetch-site", "same-origin".to_owned()),
        ("sec-fetch-mode", "navigate".to_owned()),
        ("sec-fetch-dest", "document".to_owned()),
        ("accept", "text/html".to_owned()),
        ("origin", format!("http://app.localhost:{}", instance.port)),
        ("content-type", "application/x-www-form-urlencoded".to_owned()),
    ];
    fields.into_iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::try_from(value).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_survives_its_session_and_a_killed_server() {
    let (address, posted) = application();
    let mut instance = Instance::prepare(&Settings { upstream: Some(address), ..Settings::default() });
    instance.start();
    let browser = Browser::new(&instance);
    let home = browser.go(&instance.app_url("/")).await;
    assert_eq!((home.status, home.body.as_str()), (200, "ok"));
    instance.run(&["session", "revoke-all", "--user", "anna@example.test"]);

    let target = instance.app_url("/petition?draft=1");
    let body = format!("ad=%C5%9Eirin+I%C5%9F%C4%B1k&note=bir%0D%0Aiki&long={}", "x".repeat(40_000));
    let request = browser.client().post(&target).headers(sent_by_a_page(&instance)).body(body.clone());
    let refused = request.send().await.unwrap();
    assert_eq!(refused.status(), 303);
    let authorize = refused.headers()["location"].to_str().unwrap().to_owned();
    assert!(posted.try_recv().is_err(), "nothing reaches the application before the sign-in");

    // The stored form is encrypted on disk.
    instance.kill();
    for entry in std::fs::read_dir(instance.store()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(8).any(|window| window == b"xxxxxxxx"), "{}", path.display());
    }
    instance.start();

    let page = browser.open(&authorize).await;
    let page = browser.sign_in(&page).await;
    assert_eq!(page.status, 200);
    assert!(page.url.contains("/.sealgate/form?id="), "{}", page.url);
    assert!(page.body.contains("anna@example.test") && page.body.contains("accept-charset=\"utf-8\""));
    let fields: Vec<(String, String)> = page.hidden_fields();
    let again = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
    let action = url::Url::parse(&page.url).unwrap().join(&page.form_action()).unwrap();
    assert_eq!(action.as_str(), target);
    let request = browser.client().post(action).headers(sent_by_a_page(&instance)).body(again);
    assert_eq!(request.send().await.unwrap().status(), 200);

    let (first, head, got) = posted.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(first, "post /petition?draft=1 http/1.1");
    assert!(got == body.as_bytes(), "the body came through changed");
    assert!(head.contains(&"x-forwarded-email: anna@example.test".to_owned()), "{head:?}");
    assert!(posted.try_recv().is_err(), "it was sent twice");
    assert_eq!(browser.get(&page.url).await.status, 410);
}
