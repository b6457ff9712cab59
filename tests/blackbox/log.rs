//! Tests that a stalled reader of the log blocks no request, and that the journal gets the severity
//! of lines.

use std::fs;
use std::io::{BufRead, BufReader, Write, pipe};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::support::load::application_saying;
use crate::support::{Browser, Instance, Settings, Upstream, wait_until};

/// Number of requests whose lines fill the pipe's 64 KiB and the program's own buffer several
/// times.
const REQUESTS: usize = 400;
/// Bytes of the path in each request's line.
const PATH: usize = 8000;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_log_does_not_block_and_reports_dropped_lines() {
    let upstream = Upstream::start();
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let (reader, writer) = pipe().unwrap();
    instance.start_logging_to(writer);
    let browser = Browser::new(&instance);
    let long = "a".repeat(PATH);
    for count in 0..REQUESTS {
        let answer = browser.client().get(instance.app_url(&format!("/public/{count}/{long}"))).send().await.unwrap();
        assert!(answer.status().as_u16() < 500, "request {count}: {}", answer.status());
    }
    let metrics = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("sealgate_log_lines_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 0, "{dropped:?}");

    let (told, gap) = channel();
    let reading = thread::spawn(move || {
        for line in BufReader::new(reader).lines().map(Result::unwrap) {
            if line.contains("lines were dropped") || line.contains("/after") {
                told.send(line).unwrap();
            }
        }
    });
    let gap_told = gap.recv_timeout(PATIENCE).unwrap();
    assert!(gap_told.contains("WARN") && gap_told.contains("dropped"), "{gap_told}");
    browser.client().get(instance.app_url("/public/after")).send().await.unwrap();
    assert!(gap.recv_timeout(PATIENCE).unwrap().contains("/after"), "the lines after the gap are there");
    assert_eq!(instance.stop(), Some(0));
    reading.join().unwrap();
}

#[test]
fn a_stop_waits_for_the_last_lines_but_not_for_a_reader_that_stalls() {
    let mut instance = Instance::prepare(&Settings::default());
    let (reader, writer) = pipe().unwrap();
    instance.start_logging_to(writer);
    assert_eq!(instance.stop(), Some(0));
    drop(reader);
}

#[test]
fn the_journal_receives_the_severity_of_each_line() {
    let mut instance = Instance::prepare(&Settings::default());
    let status = instance.open_log().metadata().unwrap();
    instance.environment.push(("JOURNAL_STREAM", format!("{}:{}", status.dev(), status.ino())));
    instance.start();
    let good = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), format!("{good}\nnonsense")).unwrap();
    instance.signal("HUP");
    wait_until("the reload is refused", || instance.log().contains("ERROR"));
    assert_eq!(instance.stop(), Some(0));
    let log = instance.log();
    for line in log.lines() {
        let severity = if line.contains("ERROR") { "<3>" } else { "<6>" };
        assert!(line.starts_with(severity), "{line}");
    }

    // A failing start writes its error directly, not through the log.
    instance.launch();
    assert_eq!(instance.wait_for_end(), Some(1));
    assert!(instance.log().lines().any(|line| line.starts_with("<3>error: ")), "{}", instance.log());
}

#[test]
fn a_stream_other_than_the_journals_has_no_prefixes() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.environment.push(("JOURNAL_STREAM", "1:2".to_owned()));
    instance.start();
    assert_eq!(instance.stop(), Some(0));
    assert!(instance.log().lines().all(|line| !line.starts_with('<')), "{}", instance.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_at_the_most_detailed_level_contains_no_secret() {
    let settings = Settings {
        upstream: Some(application_saying("hello")),
        sections: "[log]\nfilter = \"trace\"".into(),
        node: None,
    };
    let mut instance = Instance::prepare(&settings);
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/last-of-the-browser")).await.status, 200);
    let cookies = [browser.cookies(&instance.app_url("/")), browser.cookies(&instance.url("/"))].join("; ");
    let token = crate::gate::access_token(&instance, &secret, "openid profile").await;
    let request = browser.client().post(instance.app_url("/api/last?code=s3cr3t-c0de")).bearer_auth(&token);
    let answer = request.header("cookie", "own=s3cr3t-c00kie").body("s3cr3t-b0dy").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    wait_until("the last line", || instance.log().contains("/api/last"));
    assert_eq!(instance.stop(), Some(0));
    let log = instance.log();
    let values = cookies.split("; ").map(|cookie| cookie.split_once('=').unwrap().1);
    for held in values.chain([token.as_str(), secret.as_str(), crate::support::PASSWORD, "s3cr3t-"]) {
        assert!(held.len() > 5, "{held}");
        assert!(!log.contains(held), "{held} in {:?}", log.lines().find(|line| line.contains(held)));
    }
}

/// A client chooses the content of its handshake, and the number of its connections. Only requests
/// are worth a line.
#[test]
fn tls_handshakes_of_clients_write_no_log_lines() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.speak_tls();
    instance.start();
    // An IP address instead of a name (RFC 6066 §3): the library warns of it.
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-servername", "127.0.0.1", "-connect", &format!("127.0.0.1:{}", instance.port)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let mut request = client.stdin.take().unwrap();
    write!(request, "GET /no-such HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    instance.tells("/no-such");
    drop(request);
    client.wait().unwrap();
    assert_eq!(instance.stop(), Some(0));
    let log = instance.log();
    assert!(!log.contains("rustls") && !log.contains("SNI"), "{log}");
}
