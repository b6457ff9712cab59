//! Tests that readiness sends a real request through the public listener, and never reports a
//! server that answers no requests as ready.

use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Instance, Settings, preloaded, wait_until};

/// Returns status and body of `/readyz`.
pub(crate) fn readiness(instance: &Instance) -> (u16, String) {
    let url = instance.admin_url("/readyz");
    let answer =
        std::process::Command::new("curl").args(["-s", "-m", "20", "-w", "%{stderr}%{http_code}", &url]).output();
    let answer = answer.expect("curl");
    let status = String::from_utf8(answer.stderr).unwrap().parse().unwrap();
    (status, String::from_utf8(answer.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_no_requests_is_not_ready() {
    let mut instance = Instance::prepare(&Settings::default());
    let library = preloaded(instance.directory.path(), "stuck.c");
    let sign = instance.directory.path().join("stuck");
    instance.environment = vec![
        ("LD_PRELOAD", library.to_str().unwrap().to_owned()),
        ("STUCK_PORT", instance.port.to_string()),
        ("STUCK_WHILE", sign.to_str().unwrap().to_owned()),
    ];
    instance.start();
    assert_eq!(readiness(&instance), (200, "ready\n".to_owned()));

    fs::write(&sign, "").unwrap();
    let _held_up = TcpStream::connect(("127.0.0.1", instance.port)).unwrap();
    let mut said = String::new();
    wait_until("/readyz answers 503", || {
        let (status, body) = readiness(&instance);
        said = body;
        status == 503
    });
    let why = format!("the listener on 127.0.0.1:{} does not answer requests: no response within 2s", instance.port);
    assert!(said.contains("\"not_ready\"") && said.contains(&why), "{said}");
    instance.tells(&format!("not ready: {why}"));

    fs::remove_file(&sign).unwrap();
    wait_until("the server is ready again", || readiness(&instance).0 == 200);
    instance.tells("the listeners answer requests again");
    // However often it is requested, the public listener gets one request a second, which is not
    // logged.
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).no_proxy().build().unwrap();
    for _ in 0..50 {
        assert_eq!(client.get(instance.admin_url("/readyz")).send().await.unwrap().status(), 200);
    }
    let metrics = client.get(instance.admin_url("/metrics")).send().await.unwrap().text().await.unwrap();
    let asked = metrics.lines().find(|line| line.contains("endpoint=\"discovery\"") && line.contains("allowed"));
    let asked: f64 = asked.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(asked < 40.0, "{asked} requests of its own");
    assert_eq!(instance.stop(), Some(0));
    assert!(!instance.log().contains("openid-configuration"));
}
