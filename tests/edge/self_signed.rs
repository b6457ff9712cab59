//! Upstreams whose own certificate is listed in `upstream_tls.ca`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sealgate_config::{TlsConfig, UpstreamTls};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::harness::{Edge, nobody, soon};
use crate::upstreams::{https, says_back, serve_tls, tls_server};

const CA: &str = "basicConstraints=critical,CA:TRUE";
const NO_CA: &str = "basicConstraints=critical,CA:FALSE";

struct SelfSigned(TempDir);

impl SelfSigned {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn files(&self, name: &str) -> TlsConfig {
        let path = |ending: &str| self.0.path().join(format!("{name}.{ending}"));
        TlsConfig { certificate: path("pem"), key: path("key") }
    }

    /// Issues a self-signed certificate for these names with `openssl req -x509`.
    fn issue(&self, name: &str, names: &str, extensions: &[&str]) -> TlsConfig {
        let files = self.files(name);
        let names = format!("subjectAltName={names}");
        let mut arguments = vec!["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-subj", "/CN=wiki"];
        arguments.extend(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext", &names]);
        arguments.extend(extensions.iter().flat_map(|extension| ["-addext", extension]));
        arguments.extend(["-out", text(&files.certificate), "-keyout", text(&files.key)]);
        self.openssl(&arguments);
        files
    }

    /// Issues a self-signed certificate that is valid between these times.
    fn issue_between(&self, name: &str, start: &str, end: &str) -> TlsConfig {
        let files = self.files(name);
        let settings = "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nrand_serial = yes\nnew_certs_dir = .\n\
                        default_md = sha256\npolicy = any\nunique_subject = no\nx509_extensions = own_extensions\n\
                        [any]\ncommonName = supplied\n[own_extensions]\nbasicConstraints = critical,CA:TRUE\n\
                        subjectAltName = IP:127.0.0.1\n";
        fs::write(self.0.path().join("ca.conf"), settings).unwrap();
        fs::write(self.0.path().join("index"), "").unwrap();
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", text(&files.key)];
        self.openssl(&[&["req", "-new", "-nodes", "-subj", "/CN=wiki", "-out", "csr"][..], &key].concat());
        let own = ["ca", "-batch", "-notext", "-config", "ca.conf", "-selfsign", "-keyfile", text(&files.key)];
        let times = ["-startdate", start, "-enddate", end, "-in", "csr", "-out", text(&files.certificate)];
        self.openssl(&[&own[..], &times].concat());
        files
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        let status = command.current_dir(self.0.path()).args(arguments).stderr(Stdio::null()).status();
        assert!(status.expect("openssl").success(), "{arguments:?}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn naming(certificate: PathBuf) -> UpstreamTls {
    UpstreamTls { ca: Some(certificate), ..UpstreamTls::default() }
}

fn statuses(edge: &Edge, apps: usize) -> Vec<u16> {
    (0..apps).map(|app| edge.ask(&format!("GET /{app} HTTP/1.1\r\nHost: a\r\n\r\n")).status).collect()
}

/// Presents the certificate that is currently set.
#[derive(Debug)]
struct Presented(Arc<Mutex<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Presented {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap()))
    }
}

/// Combines a certificate with a key, which may belong to another certificate.
fn certified(certificate: &TlsConfig, key: &TlsConfig) -> Arc<CertifiedKey> {
    let chain = CertificateDer::pem_file_iter(&certificate.certificate).unwrap().map(Result::unwrap).collect();
    let key = any_supported_type(&PrivateKeyDer::from_pem_file(&key.key).unwrap()).unwrap();
    Arc::new(CertifiedKey::new(chain, key))
}

fn presenting(first: Arc<CertifiedKey>) -> (SocketAddr, Arc<Mutex<Arc<CertifiedKey>>>) {
    let presented = Arc::new(Mutex::new(first));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let resolver = Arc::new(Presented(Arc::clone(&presented)));
    (serve_tls(config.with_no_client_auth().with_cert_resolver(resolver)), presented)
}

#[test]
fn a_self_signed_certificate_that_is_named_is_accepted() {
    let own = SelfSigned::new();
    let authority = Authority::new();
    let issued = authority.issue("issued", "IP:127.0.0.1");
    let named = [
        own.issue("authority", "IP:127.0.0.1", &[CA]),
        own.issue("no-authority", "IP:127.0.0.1", &[NO_CA]),
        own.issue("default", "IP:127.0.0.1,DNS:wiki.internal", &[]),
        // The certificate itself, without the authority that signed it.
        issued,
    ];
    let apps = named.len();
    let edge = Edge::with(&[nobody(); 4], |parts| {
        for (app, files) in named.iter().enumerate() {
            https(parts, app, tls_server(files, None), naming(files.certificate.clone()));
        }
    });
    for _ in 0..2 {
        assert_eq!(statuses(&edge, apps), [200; 4]);
    }
    let edge = Edge::with(&[nobody()], |parts| {
        https(parts, 0, tls_server(&named[0], None), naming(named[0].certificate.clone()));
    });
    says_back(&edge);
    let post = "POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(edge.ask(post).status, 200);
}

#[test]
fn a_named_certificate_must_be_for_the_name_and_in_its_time() {
    let own = SelfSigned::new();
    let misnamed = own.issue("misnamed", "DNS:other.internal,IP:127.0.0.2", &[CA]);
    let expired = own.issue_between("expired", "20200101000000Z", "20210101000000Z");
    let future = own.issue_between("future", "20900101000000Z", "20910101000000Z");
    let current = own.issue_between("current", "20200101000000Z", "20910101000000Z");
    let edge = Edge::with(&[nobody(); 5], |parts| {
        for (app, files) in [&misnamed, &expired, &future, &current].into_iter().enumerate() {
            https(parts, app, tls_server(files, None), naming(files.certificate.clone()));
        }
        let tls =
            UpstreamTls { server_name: Some("other.internal".to_owned()), ..naming(misnamed.certificate.clone()) };
        https(parts, 4, tls_server(&misnamed, None), tls);
    });
    for _ in 0..2 {
        assert_eq!(statuses(&edge, 5), [502, 502, 502, 200, 200]);
    }
}

#[test]
fn a_pinned_certificate_cannot_be_replaced() {
    let own = SelfSigned::new();
    let named = own.issue("named", "IP:127.0.0.1", &[CA]);
    let other = own.issue("other", "IP:127.0.0.1", &[CA]);
    let plain = own.issue("plain", "IP:127.0.0.1", &[NO_CA]);
    let (right, _) = presenting(certified(&named, &named));
    // The named certificate with another key.
    let (stolen, _) = presenting(certified(&named, &other));
    let edge = Edge::with(&[nobody(); 5], |parts| {
        https(parts, 0, right, naming(named.certificate.clone()));
        https(parts, 1, tls_server(&other, None), naming(named.certificate.clone()));
        https(parts, 2, tls_server(&plain, None), naming(named.certificate.clone()));
        https(parts, 3, stolen, naming(named.certificate.clone()));
        // An upstream with the same server, without the setting.
        https(parts, 4, right, UpstreamTls::default());
    });
    for _ in 0..3 {
        assert_eq!(statuses(&edge, 5), [200, 502, 502, 502, 502]);
    }
}

#[test]
fn an_upstream_may_change_between_a_named_and_an_issued_certificate() {
    let (own, authority) = (SelfSigned::new(), Authority::new());
    let named = own.issue("named", "IP:127.0.0.1", &[CA]);
    let other = own.issue("other", "IP:127.0.0.1", &[CA]);
    let issued = authority.issue("issued", "IP:127.0.0.1");
    let both = own.0.path().join("both.pem");
    fs::write(&both, [fs::read(&named.certificate).unwrap(), fs::read(authority.file()).unwrap()].concat()).unwrap();
    let (address, presented) = presenting(certified(&named, &named));
    let edge = Edge::with(&[nobody()], |parts| https(parts, 0, address, naming(both)));
    // The edge closes the upstream connection after a body, so each request opens a new one.
    let post = "POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..2 {
        for (files, expected) in [(&named, 200), (&issued, 200), (&other, 502)] {
            *presented.lock().unwrap() = certified(files, files);
            soon(|| (edge.ask(post).status == expected).then_some(()));
            assert_eq!(edge.ask(post).status, expected);
        }
    }
}
