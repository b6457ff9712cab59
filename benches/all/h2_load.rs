//! Load generator for HTTP/2 over TLS in which each request has a random token of a file.
//!
//!     h2_load ADDRESS CERTIFICATE HOST PATH TOKENS CONNECTIONS STREAMS SECONDS
//!
//! h2load sends the same header fields in each request of a run. Prints the number of responses with
//! status 200 and of others. The cipher is `TLS_AES_128_GCM_SHA256` with every server.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on ends")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use h2::client::SendRequest;
use http::{Request, StatusCode};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use sealgate_system::named_certificate::NamedOrIssued;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

struct Load {
    address: String,
    host: String,
    url: String,
    tokens: Vec<String>,
    until: Instant,
    accepted: AtomicU64,
    others: AtomicU64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, certificate, host, path, tokens, connections, streams, seconds] = &*arguments else {
        panic!("usage: h2_load ADDRESS CERTIFICATE HOST PATH TOKENS CONNECTIONS STREAMS SECONDS");
    };
    let number = |text: &String| text.parse::<u64>().unwrap();
    let load = Arc::new(Load {
        address: address.clone(),
        host: host.clone(),
        url: format!("https://{host}{path}"),
        tokens: fs::read_to_string(tokens).unwrap().lines().map(|token| format!("Bearer {token}")).collect(),
        until: Instant::now() + Duration::from_secs(number(seconds)),
        accepted: AtomicU64::new(0),
        others: AtomicU64::new(0),
    });
    let tls = TlsConnector::from(Arc::new(client(certificate)));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut running = JoinSet::new();
        for connection in 0..number(connections) {
            running.spawn(connect(Arc::clone(&load), tls.clone(), connection, number(streams)));
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    });
    println!("{} {}", load.accepted.load(Ordering::Relaxed), load.others.load(Ordering::Relaxed));
}

/// Returns a client that trusts one certificate and offers one cipher.
fn client(certificate: &str) -> ClientConfig {
    let provider = CryptoProvider { cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256], ..default_provider() };
    let provider = Arc::new(provider);
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let verifier = NamedOrIssued::new(roots, vec![certificate], Arc::clone(&provider)).unwrap();
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Opens a connection and sends requests on it with this number of concurrent streams.
async fn connect(load: Arc<Load>, tls: TlsConnector, number: u64, streams: u64) {
    let socket = TcpStream::connect(&load.address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let name = ServerName::try_from(load.host.clone()).unwrap();
    let (client, connection) = h2::client::handshake(tls.connect(name, socket).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut running = JoinSet::new();
    for stream in 0..streams {
        running.spawn(send(Arc::clone(&load), client.clone(), number * streams + stream));
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    drop(client);
    connection.abort();
}

async fn send(load: Arc<Load>, client: SendRequest<bytes::Bytes>, seed: u64) {
    let mut state = seed;
    while Instant::now() < load.until {
        // A linear congruential generator (Knuth's MMIX) suffices to choose a token.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).unwrap() % load.tokens.len();
        let request = Request::get(&load.url).header("authorization", &load.tokens[at]).body(()).unwrap();
        let (response, _) = client.clone().ready().await.unwrap().send_request(request, true).unwrap();
        let mut response = response.await.unwrap();
        let counter = if response.status() == StatusCode::OK { &load.accepted } else { &load.others };
        while let Some(data) = response.body_mut().data().await {
            let length = data.unwrap().len();
            response.body_mut().flow_control().release_capacity(length).unwrap();
        }
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
