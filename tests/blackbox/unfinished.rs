//! Tests requests whose body is incomplete when a command revokes their access.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Browser, Instance, Settings, wait_until};

/// Starts an application that answers GET requests. It records all other requests and never answers
/// them. Each end of a connection is recorded as `<end>`.
fn application() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let read: Arc<Mutex<String>> = Arc::default();
    let kept = Arc::clone(&read);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let read = Arc::clone(&kept);
            thread::spawn(move || {
                let (mut buffer, mut end) = ([0; 4096], "");
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if buffer.starts_with(b"GET ") {
                        let _ =
                            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                        break;
                    }
                    read.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
                    end = "<end>";
                }
                // Health checks send no request.
                read.lock().unwrap().push_str(end);
            });
        }
    });
    (url, read)
}

/// Sends a head and half a body, revokes access, sends the rest, and checks the bytes that the
/// application received.
fn halfway(instance: &Instance, read: &Mutex<String>, path: &str, credential: &str, take_away: impl FnOnce()) {
    let address = SocketAddr::from(([127, 0, 0, 1], instance.port));
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let host = format!("app.localhost:{}", instance.port);
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{credential}\r\nContent-Length: 10\r\n\r\nhello");
    client.write_all(head.as_bytes()).unwrap();
    wait_until("half of the body", || read.lock().unwrap().ends_with("hello"));
    take_away();
    let begun = Instant::now();
    wait_until("the end of the connection", || read.lock().unwrap().ends_with("<end>"));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let _ = client.write_all(b"world");
    while client.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {}
    assert!(!read.lock().unwrap().contains("world"));
    read.lock().unwrap().clear();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_received_request_ends_with_its_access() {
    let (upstream, read) = application();
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let token = || crate::gate::access_token(&instance, &secret, "openid profile");
    let bearer = |token: &str| format!("Authorization: Bearer {token}");

    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let cookie = format!("Cookie: {}", browser.cookies(&instance.app_url("/")));
    halfway(&instance, &read, "/x", &cookie, || {
        drop(instance.run(&["session", "revoke-all", "--user", "anna@example.test"]));
    });

    let revoked = token().await;
    let form = [("token", revoked.clone())];
    let request = browser.client().post(instance.url("/oauth/revoke")).basic_auth("web", Some(&secret)).form(&form);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        halfway(&instance, &read, "/api/x", &bearer(&revoked), || {
            assert_eq!(runtime.block_on(request.send()).unwrap().status(), 200);
        });
    });

    let held = token().await;
    halfway(&instance, &read, "/api/x", &bearer(&held), || drop(instance.run(&["client", "disable", "web"])));
    instance.run(&["client", "enable", "web"]);

    halfway(&instance, &read, "/public/x", "X-Nobody: 1", || {
        let text = fs::read_to_string(instance.config()).unwrap();
        fs::write(instance.config(), text.replace("\"/public/\"", "\"/elsewhere/\"")).unwrap();
        instance.run(&["reload"]);
    });

    let held = token().await;
    halfway(&instance, &read, "/api/x", &bearer(&held), || {
        drop(instance.run(&["user", "disable", "anna@example.test"]));
    });
}
