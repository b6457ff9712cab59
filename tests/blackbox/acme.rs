//! Certificates from an ACME server: pebble, the test server of Let's Encrypt. Pebble validates
//! hosts, rejects nonces and loses its state; some tests stop it. A proxy in front of it reports
//! exceeded rate limits and suggests unusable renewal windows.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use sealgate_domain::secret::from_base64url;
use sealgate_system::tls::provider;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::init;
use crate::postgres_server::PostgresServer;
use crate::program::program;
use crate::reload::{edit, refused};
use crate::support::{Instance, Node, Settings, free_port, wait_until};

/// Ports that the authority uses and validates.
#[derive(Clone, Copy)]
struct Ports {
    directory: u16,
    management: u16,
    dns: u16,
    /// Port at which the authority validates the hosts by HTTP.
    http: u16,
    tls: u16,
}

/// Certificate authority with its own name server, which resolves every name to 127.0.0.1.
struct Pebble {
    files: TempDir,
    ports: Ports,
    names: Child,
    authority: Option<Child>,
    /// Port of the proxy in front of the authority, if there is one.
    proxy: Option<u16>,
}

impl Pebble {
    /// Prepares the authority, which does not run yet.
    fn prepare(tls: u16, http: u16, lifetime: u64) -> Self {
        let files = tempfile::tempdir().unwrap();
        let ports = Ports { directory: free_port(), management: free_port(), dns: free_port(), http, tls };
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out", "ca.pem", "-keyout", "ca.key"])
            .current_dir(files.path())
            .output()
            .expect("openssl");
        assert!(made.status.success());
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", ports.directory),
            "managementListenAddress": format!("127.0.0.1:{}", ports.management),
            "certificate": files.path().join("ca.pem"),
            "privateKey": files.path().join("ca.key"),
            "httpPort": ports.http,
            "tlsPort": ports.tls,
            "domainBlocklist": ["blocked.test"],
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "test": { "description": "test", "validityPeriod": lifetime } },
            "externalAccountMACKeys": { "kid-1": MAC_KEY },
        }});
        fs::write(files.path().join("pebble.json"), config.to_string()).unwrap();
        let names = Command::new(program("pebble-challtestsrv"))
            .args(["-defaultIPv6", "", "-defaultIPv4", "127.0.0.1", "-http01", "", "-https01", "", "-tlsalpn01", ""])
            .args(["-doh", "", "-dnsserver", &format!("127.0.0.1:{}", ports.dns)])
            .args(["-management", &format!("127.0.0.1:{}", free_port())])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { files, ports, names, authority: None, proxy: None }
    }

    /// Makes the authority refuse accounts that are not bound to an account of its operator.
    fn require_external_account(&self) {
        let file = self.files.path().join("pebble.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        config["pebble"]["externalAccountBindingRequired"] = true.into();
        fs::write(file, config.to_string()).unwrap();
    }

    /// Starts the authority with an empty state.
    fn start(&mut self) {
        let log = fs::File::create(self.files.path().join("log")).unwrap();
        let child = Command::new(program("pebble"))
            .args(["-config", "pebble.json", "-dnsserver", &format!("127.0.0.1:{}", self.ports.dns)])
            .current_dir(self.files.path())
            // One nonce in seven is rejected, and no validation is skipped.
            .envs([("PEBBLE_WFE_NONCEREJECT", "15"), ("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_AUTHZREUSE", "0")])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.authority = Some(child);
    }

    fn stop(&mut self) {
        if let Some(mut authority) = self.authority.take() {
            authority.kill().unwrap();
            authority.wait().unwrap();
        }
    }

    /// Writes the authority's root certificate to `root.pem`, for clients.
    fn root(&self) -> String {
        let file = self.files.path().join("root.pem");
        let url = format!("https://localhost:{}/roots/0", self.ports.management);
        wait_until("the authority runs", || {
            let made = Command::new("curl").args(["-sfk", "-o"]).arg(&file).arg(&url).status();
            made.expect("curl").success()
        });
        file.to_str().unwrap().to_owned()
    }

    /// Returns the URL of the authority's directory.
    fn url(&self) -> String {
        format!("https://localhost:{}/dir", self.proxy.unwrap_or(self.ports.directory))
    }

    /// Returns the file of the CA that signed the certificate of the directory's server.
    fn ca(&self) -> String {
        self.files.path().join("ca.pem").display().to_string()
    }

    /// Returns the section of the configuration.
    fn section(&self, more: &str) -> String {
        let (url, ca) = (self.url(), self.ca());
        format!("[acme]\ndirectory = \"{url}\"\nca_file = \"{ca}\"\nagree_to_terms = true\n{more}\n")
    }
}

impl Drop for Pebble {
    #[expect(clippy::print_stderr, reason = "the log says why a test failed")]
    fn drop(&mut self) {
        self.stop();
        let _ = self.names.kill();
        let _ = self.names.wait();
        if thread::panicking() {
            eprintln!("--- log of pebble\n{}", fs::read_to_string(self.files.path().join("log")).unwrap_or_default());
        }
    }
}

/// MAC key of the external account "kid-1", in base64url.
const MAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// Returns the proxy's own answer to a request, given its method and path; `None` to forward it.
type AnswerTo = dyn Fn(&str) -> Option<String> + Send + Sync;

/// TLS proxy in front of the authority, which answers some requests itself.
#[derive(Clone)]
struct Interceptor {
    files: PathBuf,
    authority: u16,
    /// Requests in the order of their arrival: method and path.
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
    answer: Arc<AnswerTo>,
}

impl Interceptor {
    /// Starts the proxy in front of an authority. `answer` gets the method and path of a request.
    fn start(
        pebble: &mut Pebble,
        answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Arc<Mutex<Vec<(Instant, String)>>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        pebble.proxy = Some(listener.local_addr().unwrap().port());
        let (files, authority) = (pebble.files.path().to_owned(), pebble.ports.directory);
        let interceptor = Self { files, authority, requests: Arc::default(), answer: Arc::new(answer) };
        let requests = Arc::clone(&interceptor.requests);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let interceptor = interceptor.clone();
                // A client that gives up ends its thread only.
                thread::spawn(move || interceptor.serve(connection));
            }
        });
        requests
    }

    fn serve(&self, connection: TcpStream) -> Option<()> {
        let certificate = CertificateDer::from_pem_file(self.files.join("ca.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.files.join("ca.key")).unwrap();
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key);
        let server = ServerConnection::new(Arc::new(server.unwrap())).unwrap();
        let mut client = StreamOwned::new(server, connection);
        let request = read_message(&mut client)?;
        let line = request.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned() + &payload(&request);
        self.requests.lock().unwrap().push((Instant::now(), line.clone()));
        let answer = if let Some(answer) = (self.answer)(&line) {
            answer.into_bytes()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add(certificate).unwrap();
            let config = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from("localhost").unwrap();
            let upstream = ClientConnection::new(Arc::new(config), name).unwrap();
            let upstream_socket = TcpStream::connect(("127.0.0.1", self.authority)).ok()?;
            let mut upstream = StreamOwned::new(upstream, upstream_socket);
            let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            upstream.write_all(request.as_bytes()).ok()?;
            let mut answer = Vec::new();
            let _ = upstream.read_to_end(&mut answer);
            answer
        };
        client.write_all(&answer).ok()?;
        client.conn.send_close_notify();
        client.flush().ok()
    }
}

/// Returns the signed text of a request, after a space.
fn payload(request: &str) -> String {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let Ok(Value::Object(signed)) = serde_json::from_str(body) else { return String::new() };
    let text = signed["payload"].as_str().and_then(from_base64url).unwrap_or_default();
    format!(" {}", String::from_utf8_lossy(&text))
}

/// Reads a request with its body.
fn read_message(stream: &mut impl Read) -> Option<String> {
    let mut message = Vec::new();
    let mut byte = [0];
    while !message.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        message.push(byte[0]);
    }
    let head = String::from_utf8(message).unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head + str::from_utf8(&body).unwrap())
}

/// Returns an answer of the proxy.
fn answer(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Prepares an instance and its authority. Certificates are valid for `lifetime` seconds.
fn instance(lifetime: u64, redirects: bool, more: &str) -> (Instance, Pebble) {
    let instance = Instance::prepare(&Settings::default());
    let plain = free_port();
    let pebble = Pebble::prepare(instance.port, plain, lifetime);
    let redirect = if redirects { format!("redirect_listen = [\"127.0.0.1:{plain}\"]\n") } else { String::new() };
    let section = pebble.section(more);
    configure(&instance, &format!("{section}[server]\n{redirect}"));
    (instance, pebble)
}

/// Adds the section of an authority with its proxy to the configuration.
fn with_authority(instance: Instance, pebble: &Pebble, more: &str) -> Instance {
    configure(&instance, &format!("{}[server]\n", pebble.section(more)));
    instance
}

/// Replaces the line `[server]` of the configuration, and makes the issuer https.
fn configure(instance: &Instance, server: &str) {
    let text = fs::read_to_string(instance.config()).unwrap().replace("issuer = \"http://", "issuer = \"https://");
    fs::write(instance.config(), text.replace("[server]\n", server)).unwrap();
}

/// Returns the certificate that a client receives for a host, as PEM.
fn shown(instance: &Instance, host: &str) -> String {
    let address = format!("127.0.0.1:{}", instance.port);
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address, "-servername", host]);
    let output = client.stdin(Stdio::null()).output().expect("openssl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = text.find("-----BEGIN CERTIFICATE-----").unwrap_or(0);
    text.get(start..).and_then(|text| text.split_once("-----END")).map_or_else(String::new, |(pem, _)| pem.to_owned())
}

/// Returns whether a client that trusts the root reaches the host.
fn is_trusted(port: u16, root: &str, host: &str) -> bool {
    let mut client = Command::new("curl");
    client.args(["-sS", "--max-time", "10", "--cacert", root, "-o", "/dev/null"]);
    client.args(["--resolve", &format!("{host}:{port}:127.0.0.1"), &format!("https://{host}:{port}/")]);
    client.stderr(Stdio::null()).status().expect("curl").success()
}

fn metrics(instance: &Instance) -> String {
    let output = Command::new("curl").args(["-sf", &instance.admin_url("/metrics")]).output().expect("curl");
    String::from_utf8(output.stdout).unwrap()
}

fn value(instance: &Instance, series: &str) -> u64 {
    let metrics = metrics(instance);
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series}:\n{metrics}")).parse().unwrap()
}

fn orders(instance: &Instance, result: &str) -> u64 {
    value(instance, &format!("sealgate_acme_orders_total{{result=\"{result}\"}}"))
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn each_host_gets_a_certificate_when_the_authority_becomes_reachable() {
    // Clients that connect to an address name no host, so they get the first certificate.
    let hosts = "hosts = [\"127.0.0.1\", \"blocked.test\", \"id.test\", \"app.test\"]";
    let (mut instance, mut pebble) = instance(7_776_000, false, hosts);
    assert!(instance.run(&["check"]).contains("ok"));
    instance.start();
    wait_until("an order fails while the authority is down", || orders(&instance, "unreachable") > 0);
    assert!(!shown(&instance, "id.test").is_empty());

    pebble.start();
    let root = pebble.root();
    for host in ["id.test", "app.test", "127.0.0.1"] {
        wait_until("the host has a certificate", || is_trusted(instance.port, &root, host));
    }
    wait_until("the authority refuses a host", || orders(&instance, "rejected") > 0);
    instance.tells("no certificate was issued");
    assert!(!is_trusted(instance.port, &root, "blocked.test"));
    assert_eq!((orders(&instance, "issued"), value(&instance, "sealgate_acme_failing_hosts")), (3, 1));
    // Pebble is a Go program: its library is independent of ours.
    for peer in ["client", "server"] {
        let series = format!("sealgate_tls_key_exchanges_total{{group=\"X25519MLKEM768\",peer=\"{peer}\"}}");
        assert!(value(&instance, &series) > 0, "{series}");
    }
    let directory = instance.directory.path().join("acme");
    for file in fs::read_dir(&directory).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    assert_eq!(mode(&directory), 0o700);

    // A restart orders nothing, and does not ask again for the refused host before its time.
    let before = shown(&instance, "id.test");
    assert_eq!(instance.stop(), Some(0));
    instance.start();
    wait_until("it has looked at the certificates", || value(&instance, "sealgate_acme_failing_hosts") == 1);
    assert_eq!(shown(&instance, "id.test"), before);
    assert_eq!((orders(&instance, "issued"), orders(&instance, "rejected")), (0, 0));
}

#[test]
fn a_validation_over_plain_http_is_answered() {
    let (mut instance, mut pebble) =
        instance(7_776_000, true, "hosts = [\"id.test\"]\nchallenge = \"http-01\"\nprofile = \"test\"");
    pebble.start();
    let root = pebble.root();
    instance.start();
    wait_until("the host has a certificate", || is_trusted(instance.port, &root, "id.test"));
    assert_eq!((orders(&instance, "issued"), orders(&instance, "rejected")), (1, 0));
}

#[test]
fn a_certificate_is_renewed_under_load_and_after_an_outage_of_the_authority() {
    let (mut instance, mut pebble) = instance(20, false, "hosts = [\"id.test\"]");
    pebble.start();
    instance.start();
    let root = pebble.root();
    wait_until("the host has a certificate", || is_trusted(instance.port, &root, "id.test"));

    let (stop, failed, done) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let instance = Arc::new(instance);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let count = if shown(&instance, "id.test").is_empty() { &failed } else { &done };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let first = shown(&instance, "id.test");
        wait_until("the certificate is renewed", || orders(&instance, "issued") > 1);
        wait_until("the new certificate is shown", || shown(&instance, "id.test") != first);

        // The account and the certificate's record are lost with the authority's state.
        pebble.stop();
        let old = shown(&instance, "id.test");
        let failures = orders(&instance, "unreachable");
        wait_until("renewals fail", || orders(&instance, "unreachable") > failures + 1);
        wait_until("the certificate expires", || {
            let mut client = Command::new("openssl");
            client.args(["s_client", "-connect", &format!("127.0.0.1:{}", instance.port), "-servername", "id.test"]);
            let output = client.stdin(Stdio::null()).output().expect("openssl");
            String::from_utf8_lossy(&output.stdout).contains("certificate has expired")
        });
        assert_eq!(shown(&instance, "id.test"), old);
        pebble.start();
        let root = pebble.root();
        wait_until("the host has a certificate of the new authority", || is_trusted(instance.port, &root, "id.test"));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    assert!(done.load(Ordering::Relaxed) > 20);
}

#[test]
fn no_request_is_sent_until_the_time_that_a_rate_limit_names() {
    let instance = Instance::prepare(&Settings::default());
    let mut pebble = Pebble::prepare(instance.port, free_port(), 7_776_000);
    let refused = Arc::new(Mutex::new(None));
    let requests = Interceptor::start(&mut pebble, {
        let refused = Arc::clone(&refused);
        move |request| {
            let mut refused = refused.lock().unwrap();
            if refused.is_some() || !request.starts_with("POST /order") {
                return None;
            }
            *refused = Some(Instant::now());
            let problem = json!({
                "type": "urn:ietf:params:acme:error:rateLimited",
                "detail": "too many certificates already issued for id.test",
                "status": 429,
            });
            let fields = "Content-Type: application/problem+json\r\nRetry-After: 6\r\n";
            Some(answer("429 Too Many Requests", fields, &problem.to_string()))
        }
    });
    let mut instance = with_authority(instance, &pebble, "hosts = [\"id.test\", \"app.test\"]");
    pebble.start();
    let root = pebble.root();
    instance.start();
    for host in ["id.test", "app.test"] {
        wait_until("the host has a certificate", || is_trusted(instance.port, &root, host));
    }
    instance.tells("too many certificates already issued for id.test");
    assert_eq!((orders(&instance, "limited"), orders(&instance, "issued")), (1, 2));
    let refused = refused.lock().unwrap().unwrap();
    let next = requests.lock().unwrap().iter().map(|(at, _)| *at).find(|at| *at > refused).unwrap();
    assert!(next - refused >= Duration::from_secs(6), "{:?}", next - refused);
}

#[test]
fn certificates_are_renewed_in_time_without_a_usable_suggestion() {
    let instance = Instance::prepare(&Settings::default());
    let mut pebble = Pebble::prepare(instance.port, free_port(), 12);
    let count = AtomicUsize::new(0);
    let requests = Interceptor::start(&mut pebble, move |request| {
        if request.contains("\"replaces\"") {
            // Some authorities fail if they do not find the certificate.
            let problem = json!({ "type": "urn:ietf:params:acme:error:serverInternal", "detail": "no such order" });
            let json = "Content-Type: application/problem+json\r\n";
            return Some(answer("500 Internal Server Error", json, &problem.to_string()));
        }
        if !request.contains("renewalInfo") {
            return None;
        }
        let json = "Content-Type: application/json\r\nRetry-After: 1\r\n";
        let window = |start: &str, end: &str| json!({ "suggestedWindow": { "start": start, "end": end } }).to_string();
        Some(match count.fetch_add(1, Ordering::Relaxed) % 5 {
            0 => answer("200 OK", json, "{\"suggestedWindow\": {\"start\": \"yester"),
            1 => answer("200 OK", json, &window("2099-01-02T00:00:00Z", "2099-01-01T00:00:00Z")),
            2 => answer("500 Internal Server Error", json, ""),
            3 => answer("200 OK", json, &window("9999-01-01T00:00:00Z", "9999-12-31T23:59:59Z")),
            _ => answer("200 OK", "Content-Type: text/html\r\n", &"<p>".repeat(200_000)),
        })
    });
    let mut instance = with_authority(instance, &pebble, "hosts = [\"id.test\"]");
    pebble.start();
    instance.start();
    let root = pebble.root();
    wait_until("the host has a certificate", || is_trusted(instance.port, &root, "id.test"));
    for issued in 2..=6 {
        wait_until("the certificate is renewed", || orders(&instance, "issued") >= issued);
    }
    wait_until("the host is trusted", || is_trusted(instance.port, &root, "id.test"));
    let suggestions = requests.lock().unwrap().iter().filter(|(_, request)| request.contains("renewalInfo")).count();
    assert!(suggestions >= 5, "{suggestions}");
    assert_eq!((orders(&instance, "unreachable"), orders(&instance, "rejected")), (0, 0));
}

#[test]
fn an_authority_may_require_an_external_account() {
    let (mut instance, mut pebble) = instance(7_776_000, false, "hosts = [\"id.test\"]");
    pebble.require_external_account();
    pebble.start();
    let root = pebble.root();
    instance.start();
    wait_until("the authority refuses the account", || orders(&instance, "rejected") > 0);
    instance.tells("write acme.external_account_id and acme.external_account_key_file");

    let file = instance.directory.path().join("eab");
    let written = "external_account_id = \"kid-1\"\nexternal_account_key_file = \"eab\"\nhosts = ";
    edit(&instance, "hosts = ", written);
    fs::write(&file, "not a key").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&instance).contains("contains no MAC key"));
    fs::write(&file, format!("{MAC_KEY}\n")).unwrap();
    assert!(instance.run(&["check"]).contains("ok"));
    // The refused order is repeated at once, because the configuration changed.
    instance.run(&["reload"]);
    wait_until("the host has a certificate", || is_trusted(instance.port, &root, "id.test"));
    assert!(!instance.log().contains(MAC_KEY));
}

/// Adds the section and an https issuer to the configuration of a node.
fn with_acme(node: &Instance, pebble: &Pebble) {
    let path = node.directory.path().join("acme");
    let section = pebble.section(&format!("hosts = [\"id.test\"]\npath = \"{}\"", path.display()));
    configure(node, &format!("{section}[server]\n"));
}

#[test]
fn one_node_of_a_cluster_orders_and_every_node_serves() {
    let database = PostgresServer::start(&[]);
    let node = |name, issuer_port| Settings {
        node: Some(Node { name, database: database.url(""), issuer_port }),
        ..Settings::default()
    };
    let mut first = Instance::bare(&node("a", None));
    first.run(&["store", "init"]);
    first.run(&["key", "generate"]);
    let mut second = Instance::beside(&first, &node("b", Some(first.port)));
    // The authority reaches the second node only, and the first one orders.
    let mut pebble = Pebble::prepare(second.port, free_port(), 20);
    with_acme(&first, &pebble);
    with_acme(&second, &pebble);
    first.start();
    let lease = "sealgate_cluster_lease_held{name=\"certificates\"} 1";
    wait_until("the first node has the lease", || metrics(&first).contains(lease));
    second.start();
    pebble.start();
    let root = pebble.root();
    for node in [&first, &second] {
        wait_until("the node has a certificate", || is_trusted(node.port, &root, "id.test"));
    }
    assert!(orders(&first, "issued") > 0);
    assert_eq!(orders(&second, "issued"), 0);

    // The second node continues with the account and the certificates of the first.
    first.kill();
    wait_until("the second node orders", || orders(&second, "issued") > 0);
    wait_until("the second node has a certificate", || is_trusted(second.port, &root, "id.test"));
}

#[test]
fn init_sets_up_a_server_that_obtains_its_certificates() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let port = free_port();
    let mut pebble = Pebble::prepare(port, free_port(), 7_776_000);
    pebble.start();
    let root = pebble.root();
    let (issuer, listen) = (format!("https://id.test:{port}"), format!("127.0.0.1:{port}"));
    let (authority, ca) = (format!("--acme={}", pebble.url()), pebble.ca());
    let mut init = vec!["init", "--state", "state", "--issuer", &issuer, "--listen", &listen, &authority];
    init.extend(["--acme-ca", &ca, "--protect", "app.test=http://127.0.0.1:9", "--admin", "anna@example.test"]);
    let made = init::json(directory.path(), &init);
    let state = "ordered by the server, which logs each result";
    let certificates = json!({"step": "certificates", "object": "id.test, app.test", "state": state});
    assert!(made["steps"].as_array().unwrap().contains(&certificates), "{made}");

    let server = init::Server::start(directory.path());
    for host in ["id.test", "app.test"] {
        wait_until("the host has a certificate", || is_trusted(port, &root, host));
    }
    drop(server);
}
