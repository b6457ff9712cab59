//! Several server certificates, client certificates, and HSTS.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sealgate_config::{ClientCertificates, Presence, TlsConfig};

use crate::authority::Authority;
use crate::harness::{Edge, curl, legacy, nobody, soon, upstream};
use crate::tls::shown_for;

fn serial(tls: &TlsConfig) -> String {
    let file = tls.certificate.to_str().unwrap();
    let output = Command::new("openssl").args(["x509", "-noout", "-serial", "-in", file]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_host_has_its_own_certificate() {
    let authority = Authority::new();
    let first = authority.issue("first", "DNS:id.example,IP:127.0.0.1");
    let wildcard = authority.issue("wildcard", "DNS:*.apps.example");
    let exact = authority.issue("exact", "DNS:wiki.apps.example,DNS:blog.example");
    let all = [&first, &wildcard, &exact].map(serial);
    let files = [first, wildcard, exact];
    let edge = Edge::with(&[legacy()], |parts| parts.server.tls = files.iter().cloned().map(Into::into).collect());
    let shown = |name: &str| {
        let serial = shown_for(&edge, &["-servername", name]);
        all.iter().position(|own| *own == serial).unwrap()
    };
    for (name, expected) in [
        ("id.example", 0),
        ("wiki.apps.example", 2),
        ("WIKI.apps.example", 2),
        ("blog.example", 2),
        ("news.apps.example", 1),
        ("a.news.apps.example", 0),
        ("apps.example", 0),
        ("stranger.example", 0),
    ] {
        assert_eq!(shown(name), expected, "{name}");
    }
    assert_eq!(shown_for(&edge, &["-noservername"]), all[0]);
    // Each certificate is renewed independently.
    authority.issue("exact", "DNS:wiki.apps.example");
    let renewed = serial(&files[2]);
    soon(|| (shown_for(&edge, &["-servername", "wiki.apps.example"]) == renewed).then_some(()));
    assert_eq!((shown("id.example"), shown("news.apps.example"), shown("blog.example")), (0, 1, 0));
}

#[test]
fn a_client_gets_a_certificate_with_a_supported_key_type() {
    let authority = Authority::new();
    let (ec, rsa) = (authority.issue("ec", "DNS:id.example"), authority.issue_rsa("rsa", "DNS:id.example"));
    let serials = [&ec, &rsa].map(serial);
    let edge = Edge::with(&[legacy()], |parts| parts.server.tls = vec![ec.into(), rsa.into()]);
    let shown = |kind| shown_for(&edge, &["-servername", "id.example", "-tls1_2", "-sigalgs", kind]);
    assert_eq!(shown("ECDSA+SHA256"), serials[0]);
    assert_eq!(shown("RSA+SHA256"), serials[1]);
}

/// An edge that requests certificates from this authority, and the authority.
struct Asking {
    edge: Edge,
    authority: Authority,
}

impl Asking {
    fn with(demand: Presence) -> Self {
        let authority = Authority::new();
        let server = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
        let edge = Edge::with(&[legacy()], |parts| {
            parts.server.tls = vec![server.into()];
            parts.server.client_certificates = Some(ClientCertificates { ca: authority.file(), demand });
        });
        Self { edge, authority }
    }

    /// Returns the certificate headers that the application receives, or `None` without a
    /// connection.
    ///
    /// `options` are passed to `curl`.
    fn received(&self, options: &[&str]) -> Option<Vec<(String, String)>> {
        let url = format!("https://{}/json", self.edge.address);
        let ca = self.authority.file();
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "10", "--cacert", ca.to_str().unwrap()])
            .args(options)
            .arg(url)
            .output()
            .expect("curl");
        let body: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let pairs = body["headers"].as_array().unwrap().iter();
        let pairs = pairs.map(|pair| (pair[0].as_str().unwrap().to_lowercase(), pair[1].as_str().unwrap().to_owned()));
        Some(pairs.filter(|(name, _)| name.starts_with("x-sealgate-client")).collect())
    }
}

fn showing(tls: &TlsConfig) -> [&str; 4] {
    ["--cert", tls.certificate.to_str().unwrap(), "--key", tls.key.to_str().unwrap()]
}

fn fingerprint(file: &Path) -> String {
    let arguments = ["x509", "-noout", "-fingerprint", "-sha256", "-in", file.to_str().unwrap()];
    let output = Command::new("openssl").args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().split_once('=').unwrap().1.replace(':', "").to_lowercase()
}

const FORGED: [&str; 4] = ["-H", "X-Sealgate-Client-Subject: CN=root", "-H", "X-Sealgate-Client-Fingerprint: 00"];

#[test]
fn a_client_certificate_is_forwarded_to_the_application() {
    let asking = Asking::with(Presence::Optional);
    let anna = asking.authority.issue_to("anna", "/O=A,CN=admin/OU=B\\+C/CN=Anna Şahin", "email:anna@example.com");
    let told = [
        ("x-sealgate-client-fingerprint".to_owned(), fingerprint(&anna.certificate)),
        ("x-sealgate-client-subject".to_owned(), "CN=Anna \\c5\\9eahin,OU=B\\+C,O=A\\,CN\\=admin".to_owned()),
    ];
    for version in ["--http1.1", "--http2"] {
        for tls in ["1.2", "1.3"] {
            let options = [&[version, "--tls-max", tls][..], &showing(&anna), &FORGED].concat();
            let mut received = asking.received(&options).unwrap();
            received.sort();
            assert_eq!(received, told, "{version} {tls}");
        }
        let nobody = asking.received(&[&[version][..], &FORGED].concat()).unwrap();
        assert!(nobody.is_empty(), "{nobody:?}");
    }
}

#[test]
fn a_client_certificate_of_another_authority_is_refused() {
    let stranger = Authority::new();
    let forged = stranger.issue("anna", "DNS:anna");
    for demand in [Presence::Optional, Presence::Required] {
        let asking = Asking::with(demand);
        for tls in ["1.2", "1.3"] {
            let options = [&["--tls-max", tls][..], &showing(&forged)].concat();
            assert!(asking.received(&options).is_none(), "{demand:?} {tls}");
        }
    }
}

#[test]
fn connections_without_a_required_certificate_are_refused() {
    let asking = Asking::with(Presence::Required);
    let anna = asking.authority.issue("anna", "DNS:anna");
    assert!(asking.received(&[]).is_none() && asking.received(&["--http2"]).is_none());
    assert_eq!(asking.received(&showing(&anna)).unwrap().len(), 2);
}

#[test]
fn authorities_of_clients_change_without_a_restart() {
    let asking = Asking::with(Presence::Required);
    let anna = asking.authority.issue("anna", "DNS:anna");
    let next = Authority::new();
    let bert = next.issue("bert", "DNS:bert");
    let ca = std::fs::read(asking.authority.file()).unwrap();
    // `curl` uses the same file to trust the server, so the file must contain both authorities.
    let both = [ca, std::fs::read(next.file()).unwrap()].concat();
    assert!(asking.received(&showing(&bert)).is_none());
    std::fs::write(asking.authority.file(), both).unwrap();
    soon(|| asking.received(&showing(&bert)));
    assert!(asking.received(&showing(&anna)).is_some());
}

#[test]
fn a_load_balancers_certificate_is_not_forwarded_as_the_clients() {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[legacy()], |parts| {
        parts.server.tls = vec![files.clone().into()];
        parts.server.client_certificates =
            Some(ClientCertificates { ca: authority.file(), demand: Presence::Required });
        parts.server.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    });
    let asking = Asking { edge, authority };
    assert_eq!(asking.received(&showing(&files)).unwrap(), []);
}

#[test]
fn unreadable_client_authorities_are_reported_on_one_line() {
    let authority = Authority::new();
    let mut parts = crate::harness::parts(std::sync::Arc::default(), &[]);
    parts.server.tls = vec![authority.issue("server", "DNS:localhost").into()];
    let ca = authority.path("nowhere.pem");
    parts.server.client_certificates = Some(ClientCertificates { ca, demand: Presence::Required });
    let faults = sealgate::app::server::Server::prepare(parts).err().unwrap();
    assert!(faults.len() == 1 && faults[0].contains("nowhere.pem"), "{faults:?}");
}

/// Returns the `Strict-Transport-Security` header of the answer.
fn security(edge: &Edge, path: &str) -> Option<String> {
    edge.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).headers.get("strict-transport-security").cloned()
}

#[test]
fn every_response_has_hsts() {
    let strong = upstream(|_, stream| {
        let answer = "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=2000; preload\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let weak = upstream(|_, stream| {
        let answer = "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=0\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let edge = Edge::with(&[legacy(), strong, weak, nobody()], |parts| parts.https = true);
    for path in ["/answer", "/local/a", "/json", "/2", "/3", "/page"] {
        assert_eq!(security(&edge, path).as_deref(), Some("max-age=1000"), "{path}");
    }
    assert_eq!(security(&edge, "/1").as_deref(), Some("max-age=2000; preload"));
}

#[test]
fn hsts_is_only_sent_with_https_and_if_enabled() {
    let plain = Edge::before(&[legacy()]);
    let off = Edge::with(&[legacy()], |parts| {
        parts.https = true;
        parts.server.hsts = Duration::ZERO;
    });
    for edge in [&plain, &off] {
        for path in ["/answer", "/local/a", "/json"] {
            assert_eq!(security(edge, path), None, "{path}");
        }
    }
}

#[test]
fn a_request_to_an_ip_address_is_served() {
    let authority = Authority::new();
    let files = vec![authority.issue("wiki", "DNS:wiki.example"), authority.issue("address", "IP:127.0.0.1")];
    let edge = Edge::with(&[legacy()], |parts| parts.server.tls = files.into_iter().map(Into::into).collect());
    // A client that sends no server name receives the first certificate.
    assert!(curl(&["-k", &format!("https://{}/local/a", edge.address)]).contains("secure"));
}
