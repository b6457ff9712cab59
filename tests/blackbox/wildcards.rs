//! Tests an application with a wildcard in its host in a running server: what the application receives,
//! its redirects, its health check and the metrics.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Browser, Instance, Settings, until};

/// Path and `Host` of each request that an application received.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Starts an application that redirects to its own address, and records `Host` of each path.
fn application() -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let records = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
            let host = head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
            let status = if path == "/health" { "200 OK" } else { "302 Found" };
            records.lock().unwrap().push((path, host.unwrap_or_default()));
            let fields = format!("Location: http://{address}/next\r\nContent-Length: 0\r\nConnection: close");
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{fields}\r\n\r\n");
        }
    });
    (address, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_and_its_redirects_name_the_requested_host() {
    let ((kept, seen_kept), (own, seen_own)) = (application(), application());
    let app = |name: &str, address: SocketAddr, keys: &str| {
        format!(
            "[[app]]\nname = \"{name}\"\nhost = \"*.{name}.localhost\"\nupstreams = [\"http://{address}\"]\n{keys}\
             health_check = {{ path = \"/health\", interval_seconds = 1 }}\n\
             [[app.route]]\npath = \"/\"\naccess = \"public\"\n"
        )
    };
    let sections = app("kept", kept, "") + &app("own", own, "preserve_host = false\n");
    let instance = Instance::started(&Settings { sections, ..Settings::default() });
    let (browser, port) = (Browser::new(&instance), instance.port);
    let location = async |host: &str| {
        let request = browser.client().get(instance.url("/page")).header("host", format!("{host}:{port}"));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned()))
    };
    // With `preserve_host`, the application knows its address, and redirects are not changed.
    assert_eq!(location("a.kept.localhost").await, (302, Some(format!("http://{kept}/next"))));
    for label in ["a", "b-1"] {
        let host = format!("{label}.own.localhost");
        assert_eq!(location(&host).await, (302, Some(format!("http://{host}:{port}/next"))));
    }
    for host in ["own.localhost", "a.b.own.localhost", "*.own.localhost"] {
        assert_eq!(location(host).await, (421, None), "{host}");
    }
    let has = |seen: &Seen, path: &str, host: &str| seen.lock().unwrap().contains(&(path.to_owned(), host.to_owned()));
    assert!(has(&seen_kept, "/page", &format!("a.kept.localhost:{port}")), "{seen_kept:?}");
    assert!(has(&seen_own, "/page", &own.to_string()), "{seen_own:?}");
    // Without a client, there is no requested host.
    until("health checks", || async { has(&seen_kept, "/health", &kept.to_string()) }).await;
    assert!(!seen_kept.lock().unwrap().iter().any(|(_, host)| host.contains('*')), "{seen_kept:?}");
    let metrics = browser.client().get(instance.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("app=\"kept\"") && metrics.contains("app=\"own\""), "{metrics}");
    assert!(!metrics.contains("kept.localhost") && !metrics.contains("own.localhost"), "{metrics}");
}
