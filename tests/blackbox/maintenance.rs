//! Tests maintenance of an application in a running server, which a reload switches on and off.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::lasting::{streams, websocket};
use crate::reload::edit;
use crate::support::{Browser, Instance, Settings, wait_until};

const LINE: &str = "maintenance = { message = \"Moving <b>today</b>.\", until = \"2020-01-01T00:00:00Z\" }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_switches_maintenance_and_leaves_open_streams() {
    let upstream = Some(format!("http://{}", streams()));
    let instance = Instance::started(&Settings { upstream, ..Settings::default() });
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let mut socket = websocket(&instance, &browser).await;
    let mut stream = browser.client().get(instance.app_url("/events")).send().await.unwrap();
    assert!(stream.chunk().await.unwrap().is_some());

    edit(&instance, "name = \"legacy\"\n", &format!("name = \"legacy\"\n{LINE}"));
    let warnings = instance.run(&["check", "--file-only"]);
    assert!(warnings.contains("maintenance.until: has passed, but legacy stays in maintenance"), "{warnings}");
    assert!(instance.run(&["reload"]).contains("app legacy: maintenance"));
    for path in ["/", "/public/x"] {
        let page = browser.get(&instance.app_url(path)).await;
        assert_eq!(page.status, 503);
        assert!(page.body.contains("Moving &#60;b&#62;today&#60;/b&#62;."), "{}", page.body);
        let program = browser.client().get(instance.app_url(path)).header("Accept", "*/*").send().await.unwrap();
        assert_eq!((program.status().as_u16(), program.headers()["retry-after"].to_str().unwrap()), (503, "300"));
        let body: serde_json::Value = program.json().await.unwrap();
        assert_eq!(body["error"], "temporarily_unavailable");
    }
    let head = browser.client().head(instance.app_url("/public/x")).send().await.unwrap();
    assert_eq!(head.status(), 503);
    let handshake = browser.client().get(instance.app_url("/ws")).header("Connection", "Upgrade");
    assert_eq!(handshake.header("Upgrade", "websocket").send().await.unwrap().status(), 503);
    let posted = browser.client().post(instance.app_url("/public/x")).body(vec![b'x'; 1 << 20]).send().await.unwrap();
    assert_eq!(posted.status(), 503);
    wait_until("the access log has the reason", || {
        instance.log().lines().any(|line| line.contains("sealgate::access") && line.contains("reason=\"maintenance\""))
    });
    let metrics = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("sealgate_gate_decisions_total{app=\"legacy\",decision=\"maintenance\"} 7"), "{metrics}");

    // Open streams are checked every second. These checks must not end them.
    let until = tokio::time::Instant::now() + Duration::from_millis(2500);
    while tokio::time::Instant::now() < until {
        let chunk = timeout(Duration::from_secs(10), stream.chunk()).await.unwrap();
        assert!(chunk.unwrap().is_some(), "the event stream ended");
        socket.write_all(b"ping").await.unwrap();
        timeout(Duration::from_secs(10), socket.read_exact(&mut [0; 4])).await.unwrap().unwrap();
    }
    // A revocation ends them.
    instance.run(&["user", "disable", "anna@example.test"]);
    timeout(Duration::from_secs(10), crate::lasting::closes(socket)).await.unwrap();

    edit(&instance, LINE, "");
    assert!(instance.run(&["reload"]).contains("app legacy: maintenance"));
    assert_eq!(browser.get(&instance.app_url("/public/x")).await.status, 200);
}
