//! Tests that open streams end within a second of the command that revokes access.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{Browser, Instance, Settings};

const SOON: Duration = Duration::from_secs(1);

/// Starts an application with an event stream (ten events a second) and a WebSocket that echoes.
pub(crate) fn streams() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(&stream));
        }
    });
    address
}

fn serve(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut out) = (String::new(), stream);
    while !head.ends_with("\r\n\r\n") {
        // A health check sends no request.
        if !reader.read_line(&mut head).is_ok_and(|length| length > 0) {
            return;
        }
    }
    if head.starts_with("GET /ws") {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let _ = out.write_all(answer.as_bytes());
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            if out.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    } else if head.contains("/events") {
        let _ = out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        while out.write_all(b"data: x\n\n").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    } else {
        let _ = out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
}

fn instance() -> Instance {
    Instance::prepare(&Settings { upstream: Some(format!("http://{}", streams())), ..Settings::default() })
}

pub(crate) async fn websocket(instance: &Instance, browser: &Browser) -> reqwest::Upgraded {
    handshaken(upgrade(instance, browser)).await
}

fn upgrade(instance: &Instance, browser: &Browser) -> RequestBuilder {
    upgrade_at(&instance.app_url(""), browser)
}

/// Opens a WebSocket at the application with this origin.
pub(crate) async fn websocket_at(origin: &str, browser: &Browser) -> reqwest::Upgraded {
    handshaken(upgrade_at(origin, browser)).await
}

fn upgrade_at(origin: &str, browser: &Browser) -> RequestBuilder {
    let request = browser.client().get(format!("{origin}/ws")).header("Connection", "Upgrade");
    let request = request.header("Upgrade", "websocket").header("Origin", origin);
    request.header("Sec-WebSocket-Version", "13").header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

async fn handshaken(request: RequestBuilder) -> reqwest::Upgraded {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 101);
    let mut socket = answer.upgrade().await.unwrap();
    socket.write_all(b"ping").await.unwrap();
    socket.read_exact(&mut [0; 4]).await.unwrap();
    socket
}

async fn events(request: RequestBuilder) -> reqwest::Response {
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.chunk().await.unwrap().is_some());
    answer
}

async fn ends(mut stream: reqwest::Response) {
    while let Ok(Some(_)) = stream.chunk().await {}
}

pub(crate) async fn closes(mut socket: reqwest::Upgraded) {
    while socket.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
}

/// Opens both kinds of stream, runs a command, and asserts that both end within a second.
async fn both_end_after(command: impl FnOnce(&Instance)) {
    let mut instance = instance();
    instance.start();
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let socket = websocket(&instance, &browser).await;
    let stream = events(browser.client().get(instance.app_url("/events"))).await;
    // Both streams then count as long-lived, so their access is checked periodically.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    tokio::task::block_in_place(|| command(&instance));
    let begun = Instant::now();
    timeout(SOON, async { tokio::join!(closes(socket), ends(stream)) }).await.unwrap();
    assert!(begun.elapsed() < SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_disabled_user_end() {
    both_end_after(|instance| drop(instance.run(&["user", "disable", "anna@example.test"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_an_ended_session_end() {
    both_end_after(|instance| drop(instance.run(&["session", "revoke-all", "--user", "anna@example.test"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_a_browser_that_signs_out_end() {
    let mut instance = instance();
    instance.start();
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let socket = websocket(&instance, &browser).await;
    let page = browser.open(&instance.url("/oauth/logout")).await;
    browser.submit(&page, &[]).await;
    timeout(SOON, closes(socket)).await.unwrap();
}

/// Submits a form on Anna's page of application passwords, and returns the answer.
async fn on_account_page(browser: &Browser, instance: &Instance, fields: &[(&str, &str)]) -> String {
    let url = instance.url("/account/app-passwords");
    let page = browser.go(&url).await;
    let token = page.hidden_fields().swap_remove(0).1;
    let fields = [&[("csrf", token.as_str())], fields].concat();
    let answer = browser.client().post(&url).form(&fields).send().await.unwrap();
    assert_eq!(answer.status(), 303, "{answer:?}");
    let next = answer.headers()["location"].to_str().unwrap().to_owned();
    browser.go(&instance.url(&next)).await.body
}

/// Creates an application password for Anna.
pub(crate) async fn app_password(browser: &Browser, instance: &Instance, app: &str, name: &str) -> String {
    let page = on_account_page(browser, instance, &[("app", app), ("name", name)]).await;
    let (_, rest) = page.split_once("id=\"new-app-password\">").expect("a new one is shown");
    rest.split('<').next().unwrap().to_owned()
}

/// Opens both kinds of stream with one application password and an event stream with a second
/// password, and revokes the first password. Asserts that the streams of the first end within a
/// second and the stream of the second continues.
async fn both_end_when_revoked(revoke: impl AsyncFnOnce(&Instance, &Browser, &str)) {
    let mut instance = instance();
    let text = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), format!("{text}\napp_passwords = true\n")).unwrap();
    instance.start();
    let browser = Browser::new(&instance);
    let other = app_password(&browser, &instance, "legacy", "stays").await;
    let revoked = app_password(&browser, &instance, "legacy", "goes").await;
    let listed = instance.json(&["app-password", "list", "anna@example.test"]);
    let rows = listed["app_passwords"].as_array().unwrap();
    let id = rows.iter().find(|row| row["name"] == "goes").unwrap()["id"].as_str().unwrap().to_owned();
    // A client without the browser's cookies.
    let program = Browser::new(&instance);
    let open = |request: RequestBuilder, password: &str| request.basic_auth("anna@example.test", Some(password));
    let mut stays = events(open(program.client().get(instance.app_url("/events")), &other)).await;
    let goes = events(open(program.client().get(instance.app_url("/events")), &revoked)).await;
    let socket = handshaken(open(upgrade(&instance, &program), &revoked)).await;
    // Both streams then count as long-lived, so their access is checked periodically.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    revoke(&instance, &browser, &id).await;
    timeout(SOON, async { tokio::join!(closes(socket), ends(goes)) }).await.unwrap();
    let again = open(program.client().get(instance.app_url("/events")), &revoked).send().await.unwrap();
    assert_eq!(again.status(), 401);
    for _ in 0..5 {
        assert!(stays.chunk().await.unwrap().is_some(), "another password's stream goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_an_application_password_that_an_operator_revokes_end() {
    both_end_when_revoked(async |instance, _, id| {
        let revoke = ["app-password", "revoke", "anna@example.test", id];
        tokio::task::block_in_place(|| drop(instance.run(&revoke)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_an_application_password_that_its_owner_revokes_end() {
    both_end_when_revoked(async |instance, browser, id| {
        on_account_page(browser, instance, &[("revoke", id)]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_revoked_and_expired_tokens_end() {
    let sections = "[tokens]\naccess_token_seconds = 6";
    let upstream = Some(format!("http://{}", streams()));
    let mut instance = Instance::prepare(&Settings { upstream, sections: sections.into(), node: None });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    for revoked in [true, false] {
        let token = crate::gate::access_token(&instance, &secret, "openid profile").await;
        let issued = Instant::now();
        let stream = events(browser.client().get(instance.app_url("/api/events")).bearer_auth(&token)).await;
        if revoked {
            let form = [("token", token.as_str())];
            let request = browser.client().post(instance.url("/oauth/revoke")).basic_auth("web", Some(&secret));
            assert_eq!(request.form(&form).send().await.unwrap().status(), 200);
            timeout(SOON, ends(stream)).await.unwrap();
        } else {
            timeout(Duration::from_secs(8), ends(stream)).await.unwrap();
            assert!(issued.elapsed() > Duration::from_secs(4), "not before its time");
        }
    }
}
