//! Tests HTTP health checks of upstreams in a running server: metric, log lines and readiness.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{Browser, Instance, Settings, wait_until};

/// Starts an application that answers health checks with 500 if `is_healthy` is false.
fn application(name: &'static str, is_healthy: &Arc<AtomicBool>) -> SocketAddr {
    let is_healthy = Arc::clone(is_healthy);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let Some(first) = head.first() else { continue };
            let fails = first.starts_with("GET /health ") && !is_healthy.load(Ordering::SeqCst);
            let status = if fails { "500 Error" } else { "200 OK" };
            let length = name.len();
            let fields = format!("Content-Length: {length}\r\nConnection: close");
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{fields}\r\n\r\n{name}");
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_server_is_reported_and_gets_no_requests() {
    let (healthy, failing) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let (one, other) = (application("one", &healthy), application("other", &failing));
    let url = format!("http://{one}");
    let mut instance = Instance::prepare(&Settings { upstream: Some(url.clone()), ..Settings::default() });
    let check = "health_check = { path = \"/health\", interval_seconds = 1, failures = 1, successes = 1 }";
    let listed = format!("upstreams = [\"{url}\"]");
    let text = fs::read_to_string(instance.config()).unwrap();
    assert!(text.contains(&listed));
    fs::write(
        instance.config(),
        text.replace(&listed, &format!("{check}\nupstreams = [\"{url}\", \"http://{other}\"]")),
    )
    .unwrap();
    instance.start();

    let browser = Browser::new(&instance);
    let get = async |url: String| browser.client().get(url).send().await.unwrap();
    let up = async |server: SocketAddr, value: u8| {
        let line = format!("sealgate_upstream_up{{app=\"legacy\",server=\"{server}\"}} {value}\n");
        crate::support::until(&line, || async {
            get(instance.admin_url("/metrics")).await.text().await.unwrap().contains(&line)
        })
        .await;
    };
    up(other, 1).await;
    failing.store(false, Ordering::SeqCst);
    up(other, 0).await;
    up(one, 1).await;
    for _ in 0..4 {
        assert_eq!(get(instance.app_url("/public/x")).await.text().await.unwrap(), "one");
    }
    instance.tells("the upstream fails its health check");
    instance.tells("/health answers 500");
    assert_eq!(get(instance.admin_url("/readyz")).await.status(), 200);

    // Every server fails, and the application is reached all the same.
    healthy.store(false, Ordering::SeqCst);
    up(one, 0).await;
    assert_eq!(get(instance.app_url("/public/x")).await.status(), 200);
    assert_eq!(get(instance.admin_url("/readyz")).await.status(), 200);

    failing.store(true, Ordering::SeqCst);
    up(other, 1).await;
    instance.tells("the upstream passes its health check again");
    // A removed server has no series.
    let with_one = fs::read_to_string(instance.config()).unwrap().replace(&format!(", \"http://{other}\""), "");
    fs::write(instance.config(), with_one).unwrap();
    instance.run(&["reload"]);
    let label = format!("server=\"{other}\"");
    wait_until("the series is gone", || !curl(&instance.admin_url("/metrics")).contains(&label));
}

fn curl(url: &str) -> String {
    let output = std::process::Command::new("curl").args(["-s", "--max-time", "10", url]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
