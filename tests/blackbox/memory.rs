//! Tests the program's memory when idle, and the memory that one peer can make it use over HTTP/2.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::support::{Instance, Settings, wait_until};

/// Number of connections of the peer, with a hundred requests on each.
const CONNECTIONS: usize = 40;
/// Size of each request's head in bytes.
const HEAD: usize = 27 * 1024;
/// Maximum of the additional memory for all of them, in MiB; their heads alone are 105 MiB.
const MOST: u64 = 64;

/// Maximum of the idle program's anonymous resident memory, in MiB.
///
/// It uses about half of it, and twice as much where sled's histograms are filled.
const AT_REST: u64 = 24;
/// The same with huge pages.
const WITH_HUGE_PAGES: u64 = 96;

#[test]
fn an_idle_process_uses_little_memory() {
    let mut instance = Instance::prepare(&Settings::default());
    for (setting, enabled, most) in [("", "1", WITH_HUGE_PAGES), ("huge_pages = false", "0", AT_REST)] {
        let config = fs::read_to_string(instance.config()).unwrap();
        fs::write(instance.config(), config.replace("[server]", &format!("[server]\n{setting}"))).unwrap();
        instance.start();
        let taken = instance.own_memory();
        println!("{taken} MiB without the program's files, {setting}");
        assert_eq!(instance.process_status("THP_enabled:"), enabled, "{setting}");
        assert!(taken < most, "{taken} MiB, {setting}");
        instance.stop();
    }
}

/// Starts a program with TLS, in front of an application that accepts connections and answers none.
fn instance() -> Instance {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Some(format!("http://{}", listener.local_addr().unwrap()));
    thread::spawn(move || {
        let open: Vec<_> = listener.incoming().collect();
        drop(open);
    });
    let mut instance = Instance::prepare(&Settings { upstream, ..Settings::default() });
    instance.speak_tls();
    instance.start();
    instance
}

async fn connect(instance: &Instance) -> SendRequest<Bytes> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(instance.directory.path().join("server.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", instance.port)).await.unwrap();
    let name = ServerName::try_from("app.localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    // The largest possible windows: the server may send everything, and the client reads nothing.
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size((1 << 31) - 1).initial_connection_window_size((1 << 31) - 1);
    let (requests, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    requests.ready().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_is_limited_to_its_share_of_memory_over_http_2() {
    let instance = instance();
    let url = format!("https://app.localhost:{}/public/x", instance.port);
    let long = "x".repeat(HEAD);
    // The memory for a few requests is allocated first.
    let mut first = connect(&instance).await;
    let _open: Vec<_> = (0..8).map(|_| send(&mut first, &url, &long)).collect();
    let metrics = || {
        let output = Command::new("curl").args(["-s", &instance.admin_url("/metrics")]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("the program tells of itself", || metrics().contains("sealgate_connections"));
    let before = instance.peak_memory();
    let mut responses = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut requests = connect(&instance).await;
        for _ in 0..100 {
            responses.spawn(send(&mut requests, &url, &long));
        }
        connections.push(requests);
    }
    // Rejected requests are answered. The others wait for the application, some of them for
    // capacity. On a slow machine that wait ends before the last ones are rejected.
    let mut refused = 0;
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    while refused + 400 < CONNECTIONS * 100 {
        let outcome = tokio::time::timeout_at(end, responses.join_next()).await.expect("refusals").unwrap().unwrap();
        match outcome {
            Ok(response) => assert_eq!(response.status(), http::StatusCode::SERVICE_UNAVAILABLE),
            Err(error) => assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM)),
        }
        refused += 1;
    }
    assert!(metrics().contains("reason=\"too_many_streams\""));
    let taken = instance.peak_memory() - before;
    println!("{refused} of {} requests were refused; {taken} MiB were taken", CONNECTIONS * 100);
    assert!(taken < MOST, "{taken} MiB");
}

fn send(requests: &mut SendRequest<Bytes>, url: &str, long: &str) -> h2::client::ResponseFuture {
    let request = Request::builder().uri(url).header("x-long", long).body(()).unwrap();
    requests.send_request(request, true).unwrap().0
}
