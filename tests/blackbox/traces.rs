//! Tests the export of traces to a receiver of the test and to a real OpenTelemetry collector.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gate::access_token;
use crate::program::program;
use crate::support::{Browser, Instance, Settings, Upstream, free_port, until, wait_until};

/// Receiver of exports. Answers the first ones as prepared, and later ones with an empty success.
#[derive(Clone, Default)]
struct Receiver {
    exports: Arc<Mutex<Vec<String>>>,
    times: Arc<Mutex<Vec<Instant>>>,
    /// Status line with further fields, and body, of the next answers.
    answers: Arc<Mutex<VecDeque<(&'static str, &'static str)>>>,
}

impl Receiver {
    /// Starts the receiver and returns its URL.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let receiver = self.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let receiver = receiver.clone();
                thread::spawn(move || receiver.serve(connection));
            }
        });
        url
    }

    fn serve(&self, mut connection: TcpStream) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                length = last.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
            }
            if head.is_empty() {
                return;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            self.times.lock().unwrap().push(Instant::now());
            self.exports.lock().unwrap().push(head + str::from_utf8(&body).unwrap());
            let (head, body) = self.answers.lock().unwrap().pop_front().unwrap_or(("200 OK", "{}"));
            let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            connection.write_all(answer.as_bytes()).unwrap();
        }
    }

    /// Returns everything that was received.
    fn text(&self) -> String {
        self.exports.lock().unwrap().join("\n")
    }

    fn spans(&self) -> Vec<Value> {
        let bodies = self.exports.lock().unwrap().clone();
        let spans = bodies.iter().flat_map(|export| {
            let body: Value = serde_json::from_str(export.split_once("\r\n\r\n").unwrap().1).unwrap();
            body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        });
        spans.collect()
    }
}

fn settings(url: &str, upstream: &Upstream) -> Settings {
    let sections = format!("[telemetry]\notlp = \"{url}\"\n");
    Settings { sections, upstream: Some(upstream.url()), ..Settings::default() }
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let attributes = span["attributes"].as_array().unwrap();
    attributes.iter().find(|attribute| attribute["key"] == name).map(|attribute| &attribute["value"])
}

async fn metric(instance: &Instance, series: &str) -> u64 {
    let text = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_five_kinds_of_spans_without_secrets() {
    let (upstream, receiver) = (Upstream::start(), Receiver::default());
    let mut instance = Instance::prepare(&settings(&receiver.start(), &upstream));
    let secret = instance.add_confidential_client("web");
    instance.start();
    let token = access_token(&instance, &secret, "openid profile").await;
    let browser = Browser::new(&instance);
    let url = instance.app_url("/reports/2026?code=in-the-query");
    assert_eq!(browser.go(&url).await.status, 200);
    let url = instance.app_url("/api/data?access_token=also-in-the-query");
    let request = browser
        .client()
        .get(url)
        .bearer_auth(&token)
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
    let body: Value = answer.json().await.unwrap();

    let of_request =
        || -> Vec<Value> { receiver.spans().into_iter().filter(|span| span["traceId"] == id.as_str()).collect() };
    wait_until("the spans of the request are exported", || of_request().len() >= 3);
    let spans = of_request();
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (edge, decision, upstream) = (named("edge"), named("decision"), named("upstream"));
    assert_eq!((&edge["kind"], &edge["parentSpanId"]), (&2.into(), &"".into()));
    assert_eq!((&decision["kind"], &decision["parentSpanId"]), (&1.into(), &edge["spanId"]));
    assert_eq!((&upstream["kind"], &upstream["parentSpanId"]), (&3.into(), &edge["spanId"]));
    let headers = body["headers"].as_array().unwrap();
    let passed = headers.iter().find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case("traceparent")).unwrap();
    assert_eq!(passed[1], format!("00-{id}-{}-01", upstream["spanId"].as_str().unwrap()));
    assert_eq!(attribute(edge, "url.path").unwrap()["stringValue"], "/api/data");
    assert_eq!(attribute(edge, "http.request.method").unwrap()["stringValue"], "GET");
    assert_eq!(attribute(edge, "http.response.status_code").unwrap()["intValue"], "200");
    assert_eq!(attribute(edge, "sealgate.app").unwrap()["stringValue"], "legacy");
    instance.tells(&format!("trace_id=\"{id}\""));

    // The token endpoint signs and commits.
    let recorded = receiver.spans();
    let signature = recorded.iter().find(|span| span["name"] == "signature").unwrap();
    let same =
        |name: &str| recorded.iter().find(|span| span["name"] == name && span["traceId"] == signature["traceId"]);
    let edge = same("edge").unwrap();
    assert_eq!(attribute(edge, "url.path").unwrap()["stringValue"], "/oauth/token");
    assert_eq!(signature["parentSpanId"], edge["spanId"]);
    assert_eq!(same("commit").unwrap()["parentSpanId"], edge["spanId"]);
    let kinds: BTreeSet<_> = recorded.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["commit", "decision", "edge", "signature", "upstream"]));

    let exported = receiver.text();
    let cookies = [browser.cookies(&instance.url("/")), browser.cookies(&instance.app_url("/"))].join("; ");
    let cookies = cookies.split("; ").filter_map(|cookie| cookie.split_once('=')).map(|(_, value)| value);
    let secrets: Vec<&str> = cookies.filter(|value| value.len() > 8).chain([token.as_str(), &secret]).collect();
    assert!(secrets.len() > 2, "{secrets:?}");
    for secret in
        secrets.into_iter().chain(["in-the-query", "code=", "state=", "anna@example.test", "0af7651916cd43dd"])
    {
        assert!(!exported.contains(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_waits_for_a_collector_that_does_not_answer() {
    let upstream = Upstream::start();
    // The backlog of this listener accepts connections, and nothing reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let instance = Instance::started(&settings(&format!("http://{}", silent.local_addr().unwrap()), &upstream));
    let client = Browser::new(&instance);
    // More traces than the queue and the batch hold.
    for _ in 0..1400 {
        assert_eq!(client.client().get(instance.app_url("/public/x")).send().await.unwrap().status(), 200);
    }
    assert!(metric(&instance, "sealgate_trace_spans_total{outcome=\"dropped\"}").await > 0);
    assert_eq!(metric(&instance, "sealgate_trace_spans_total{outcome=\"exported\"}").await, 0);
    instance.tells("cannot export traces");
    let failures = metric(&instance, "sealgate_trace_export_failures_total").await;
    assert!((1..10).contains(&failures), "{failures}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_may_delay_reject_and_refuse_exports() {
    let (upstream, receiver) = (Upstream::start(), Receiver::default());
    let answers = [
        ("503 Service Unavailable\r\nRetry-After: 3", ""),
        ("200 OK", "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"too old\"}}"),
        ("400 Bad Request", "not JSON"),
    ];
    receiver.answers.lock().unwrap().extend(answers);
    let instance = Instance::started(&settings(&receiver.start(), &upstream));
    let client = Browser::new(&instance);
    let counts = async || {
        let series = |outcome| format!("sealgate_trace_spans_total{{outcome=\"{outcome}\"}}");
        (metric(&instance, &series("exported")).await, metric(&instance, &series("dropped")).await)
    };
    let visit = async || {
        let request = client.client().get(instance.app_url("/public/x"));
        assert_eq!(request.send().await.unwrap().status(), 200);
    };
    let exports = || receiver.exports.lock().unwrap().len();

    // The batch is kept and repeated once the requested time has passed. Two spans are rejected.
    visit().await;
    wait_until("the export is repeated", || exports() == 2);
    let spans = receiver.spans().len() as u64 / 2;
    {
        let (bodies, times) = (receiver.exports.lock().unwrap(), receiver.times.lock().unwrap());
        assert_eq!(bodies[0].split_once("\r\n\r\n").unwrap().1, bodies[1].split_once("\r\n\r\n").unwrap().1);
        let pause = times[1] - times[0];
        assert!(pause >= Duration::from_secs(3), "{pause:?}");
    }
    until("the spans are counted", || async { counts().await == (spans - 2, 2) }).await;

    // A refused batch is dropped, and the next one is exported.
    visit().await;
    until("the spans are dropped", || async { counts().await.1 == 2 + spans }).await;
    visit().await;
    until("the next spans are exported", || async { counts().await.0 == 2 * spans - 2 }).await;
    assert_eq!(exports(), 4);
    assert_eq!(metric(&instance, "sealgate_trace_export_failures_total").await, 2);
}

/// OpenTelemetry collector that prints what it receives.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opentelemetry_collector_accepts_the_spans_also_at_a_stop() {
    let (upstream, port) = (Upstream::start(), free_port());
    let mut instance = Instance::prepare(&settings(&format!("http://127.0.0.1:{port}"), &upstream));
    let directory = instance.directory.path();
    let (config, printed) = (directory.join("collector.yaml"), directory.join("printed"));
    let text = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
         exporters: {{debug: {{verbosity: detailed}}}}\n\
         service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}}}\n"
    );
    fs::write(&config, text).unwrap();
    let output = fs::File::create(&printed).unwrap();
    let mut command = Command::new(program("otel-collector"));
    command.arg(&config).stdout(output.try_clone().unwrap()).stderr(output);
    let _collector = Collector(command.spawn().unwrap());
    wait_until("the collector listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let text = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), text.replace("[server]\n", "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n")).unwrap();
    instance.start();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let client = Browser::new(&instance);
    let request = client.client().get(instance.app_url("/public/x")).header("traceparent", parent);
    assert_eq!(request.send().await.unwrap().status(), 200);
    instance.signal("TERM");
    assert_eq!(instance.wait_for_end(), Some(0));
    let read = || fs::read_to_string(&printed).unwrap();
    wait_until("the collector prints the spans", || read().contains("Name           : edge"));
    let printed = read();
    assert!(printed.contains("Trace ID       : 0af7651916cd43dd8448eb211c80319c"), "{printed}");
    for line in [
        "Parent ID      : b7ad6b7169203331",
        "Name           : upstream",
        "Kind           : Client",
        "Kind           : Server",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(printed.contains("service.name: Str(sealgate)"), "{printed}");
}
