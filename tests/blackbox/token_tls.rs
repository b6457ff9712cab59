//! TLS with a private key in the PKCS#11 token.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sealgate_system::tls::provider;
use serde_json::json;
use tokio_rustls::TlsConnector;

use crate::shim::{Call, FOREVER, Shim};
use crate::support::{Instance, Settings, wait_until};
use crate::token_certificate::{configure_tls, issue, make_authority, openssl, serial, table};

/// Puts a module with injected faults between the instance and its token. `more` is added to `[hsm]`.
pub(crate) fn use_shim(instance: &Instance, more: &str) -> Shim {
    let shim = Shim::build(instance.directory.path());
    let text = fs::read_to_string(instance.config()).unwrap();
    let (before, after) = text.split_once("module = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    fs::write(instance.config(), format!("{before}module = \"{}\"\n{more}{after}", shim.module().display())).unwrap();
    shim
}

/// Prepares an instance whose certificate for localhost has the key `tls` in the token.
fn prepared() -> Instance {
    let instance = Instance::prepare(&Settings::default());
    make_authority(instance.directory.path());
    instance.run(&["key", "generate-tls-key", "tls"]);
    issue(&instance, "tls", "localhost", "server.pem");
    instance
}

fn serial_of(instance: &Instance, file: &str) -> String {
    openssl(instance.directory.path(), &["x509", "-in", file, "-noout", "-serial"])
}

async fn metric(instance: &Instance, series: &str) -> f64 {
    let text = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}: {text}")).parse().unwrap()
}

/// Performs a handshake that offers the hybrid group first.
async fn handshake_with_rustls(instance: &Instance) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(instance.directory.path().join("ca.pem")).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", instance.port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, socket).await.unwrap();
}

/// Returns why `sealgate check` and a start refuse the configuration.
fn refusal(instance: &Instance) -> String {
    let checked = instance.try_run(&["check"], "");
    assert!(!checked.status.success());
    let started = instance.try_run(&["serve"], "");
    assert!(!started.status.success());
    let lines = [checked.stderr, started.stderr].map(|line| String::from_utf8(line).unwrap());
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_are_signed_by_the_key_in_the_token() {
    let mut instance = prepared();
    configure_tls(&instance, &table("server.pem", "pkcs11:object=tls"));
    instance.run(&["check"]);
    instance.start();

    assert_eq!(serial(&instance, "localhost").unwrap(), serial_of(&instance, "server.pem"));
    let address = format!("https://localhost:{}/", instance.port);
    let resolve = format!("localhost:{}:127.0.0.1", instance.port);
    for version in [&["--tlsv1.3"][..], &["--tlsv1.2", "--tls-max", "1.2"]] {
        let curl = ["-sS", "--cacert", "ca.pem", "--resolve", &resolve, "-o", "/dev/null", "-w", "%{http_code}"];
        let mut client = Command::new("curl");
        client.args(version).args(curl).arg(&address).current_dir(instance.directory.path());
        let output = client.output().expect("curl");
        assert!(output.status.success(), "{version:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    handshake_with_rustls(&instance).await;
    let hybrid = "sealgate_tls_key_exchanges_total{group=\"X25519MLKEM768\",peer=\"client\"}";
    assert!(metric(&instance, hybrid).await >= 1.0);
    assert!(metric(&instance, "sealgate_tls_sign_seconds_count").await >= 4.0);
}

#[test]
fn a_renewed_certificate_and_another_label_are_used_without_a_restart() {
    let mut instance = prepared();
    instance.make_certificate(20);
    instance.run(&["key", "generate-tls-key", "other"]);
    issue(&instance, "other", "localhost", "other.pem");
    fs::rename(instance.directory.path().join("server.key"), instance.directory.path().join("file.key")).unwrap();
    fs::rename(instance.directory.path().join("server.pem"), instance.directory.path().join("file.pem")).unwrap();
    issue(&instance, "tls", "localhost", "server.pem");
    // The file certificate is for both hosts, the one of the token for localhost only.
    let file = table("file.pem", "file.key");
    configure_tls(&instance, &format!("{}, {file}", table("server.pem", "pkcs11:object=tls")));
    instance.start();
    let first = serial_of(&instance, "server.pem");
    assert_eq!(serial(&instance, "localhost").unwrap(), first);
    let refused = serial(&instance, "app.localhost").unwrap_err();
    assert!(refused.contains("CN = localhost") && refused.contains("self-signed"), "{refused}");

    issue(&instance, "tls", "localhost", "server.pem");
    let renewed = serial_of(&instance, "server.pem");
    assert_ne!(renewed, first);
    wait_until("the renewed certificate is used", || serial(&instance, "localhost").unwrap() == renewed);

    // The certificate of another key changes nothing.
    fs::copy(instance.directory.path().join("other.pem"), instance.directory.path().join("server.pem")).unwrap();
    instance.tells("is not the key \"tls\" of the token");
    assert_eq!(serial(&instance, "localhost").unwrap(), renewed);

    let text = fs::read_to_string(instance.config()).unwrap().replace("object=tls", "object=other");
    fs::write(instance.config(), text).unwrap();
    instance.run(&["reload"]);
    assert_eq!(serial(&instance, "localhost").unwrap(), serial_of(&instance, "other.pem"));
}

#[test]
fn the_list_of_keys_shows_tls_keys_and_the_hosts_that_use_them() {
    let mut instance = prepared();
    let make = ["--keypairgen", "--usage-sign", "--key-type"];
    instance.softhsm.pkcs11_tool("sealgate", &[&make[..], &["EC:secp384r1", "--label", "large"]].concat());
    instance.run(&["key", "generate-tls-key", "idle"]);
    configure_tls(&instance, &table("server.pem", "pkcs11:object=tls"));
    let list = instance.json(&["key", "list"]);
    assert_eq!(list["keys"].as_array().unwrap().len(), 1, "only signing keys: {list}");
    let rows = list["tls_keys"].as_array().unwrap();
    let summary: Vec<_> =
        rows.iter().map(|row| ["label", "algorithm", "purpose", "state", "hosts"].map(|name| &row[name])).collect();
    let none = json!([]);
    let (missing, p256, tls) = (json!(null), json!("EC P-256"), json!("tls"));
    let expected = [
        [&json!("idle"), &p256, &tls, &json!("unused"), &none],
        [&json!("large"), &missing, &tls, &json!("refused"), &none],
        [&json!("tls"), &p256, &tls, &json!("used"), &json!(["localhost"])],
    ];
    assert_eq!(summary, expected);
    assert!(rows[1]["problem"].as_str().unwrap().contains("an EC key on another curve"), "{list}");
    assert_eq!(rows[2]["certificates"].as_array().unwrap().len(), 1, "{list}");
    assert!(rows[2]["id"].as_str().unwrap().len() == 32 && rows[2]["problem"].is_null(), "{list}");

    // The running server uses the same token.
    instance.start();
    let text = instance.run(&["key", "list"]);
    let (_, table) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
    let words: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["LABEL", "ALGORITHM", "PURPOSE", "STATE", "ID", "HOSTS", "PROBLEM"]);
    let id = rows[2]["id"].as_str().unwrap();
    assert_eq!(words[3], ["tls", "EC", "P-256", "tls", "used", id, "localhost"], "{text}");
}

#[test]
fn the_list_of_keys_shows_a_configured_tls_key_that_is_missing() {
    let instance = prepared();
    configure_tls(&instance, &table("server.pem", "pkcs11:object=absent"));
    let list = instance.json(&["key", "list"]);
    let states: Vec<_> =
        list["tls_keys"].as_array().unwrap().iter().map(|row| [&row["label"], &row["state"]]).collect();
    assert_eq!(states, [[&json!("absent"), &json!("not_in_token")], [&json!("tls"), &json!("unused")]]);
    assert_eq!(list["tls_keys"][0]["hosts"], json!(["localhost"]));
}

#[test]
fn a_start_refuses_the_certificate_of_another_key() {
    let instance = prepared();
    instance.run(&["key", "generate-tls-key", "other"]);
    configure_tls(&instance, &table("server.pem", "pkcs11:object=other"));
    let refused = refusal(&instance);
    assert_eq!(refused.matches("is not the key \"other\" of the token; write the certificate").count(), 2, "{refused}");
}

#[test]
fn a_start_refuses_keys_that_are_missing_rsa_or_extractable() {
    let instance = prepared();
    configure_tls(&instance, &table("server.pem", "pkcs11:object=absent"));
    let refused = refusal(&instance);
    assert_eq!(refused.matches("run: sealgate key generate-tls-key absent").count(), 2, "{refused}");

    let with = |label: &str| {
        let text = fs::read_to_string(instance.config()).unwrap();
        let (before, after) = text.split_once("pkcs11:object=").unwrap();
        let (_, after) = after.split_once('"').unwrap();
        fs::write(instance.config(), format!("{before}pkcs11:object={label}\"{after}")).unwrap();
        refusal(&instance)
    };
    let make = ["--keypairgen", "--usage-sign", "--key-type"];
    instance.softhsm.pkcs11_tool("sealgate", &[&make[..], &["rsa:2048", "--label", "rsa", "--id", "d1"]].concat());
    let refused = with("rsa");
    assert_eq!(
        refused.matches("it is an RSA key; TLS keys in a token must be EC keys on P-256").count(),
        2,
        "{refused}"
    );
    let extractable = ["EC:prime256v1", "--label", "soft", "--id", "d2", "--extractable"];
    instance.softhsm.pkcs11_tool("sealgate", &[&make[..], &extractable].concat());
    let refused = with("soft");
    assert_eq!(refused.matches("CKA_EXTRACTABLE is true").count(), 2, "{refused}");
    let curve = ["EC:secp384r1", "--label", "large", "--id", "d3"];
    instance.softhsm.pkcs11_tool("sealgate", &[&make[..], &curve].concat());
    let refused = with("large");
    assert_eq!(refused.matches("it is an EC key on another curve").count(), 2, "{refused}");
}

#[test]
fn labels_of_signing_and_wrapping_keys_are_refused() {
    let instance = prepared();
    for label in ["sealgate", "sealgate-wrap", "sealgate-removed", "sealgate-enrolment"] {
        let output = instance.try_run(&["key", "generate-tls-key", label], "");
        let refused = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && refused.contains("is reserved"), "{refused}");
    }
    configure_tls(&instance, &table("server.pem", "pkcs11:object=sealgate-wrap"));
    let refused = refusal(&instance);
    assert_eq!(refused.matches("\"sealgate-wrap\" is reserved").count(), 2, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_token_fails_handshakes_and_recovers_without_a_restart() {
    let mut instance = prepared();
    instance.make_certificate(20);
    let directory = instance.directory.path().to_owned();
    fs::rename(directory.join("server.key"), directory.join("file.key")).unwrap();
    fs::rename(directory.join("server.pem"), directory.join("file.pem")).unwrap();
    issue(&instance, "tls", "id.localhost", "server.pem");
    let shim = use_shim(&instance, "sign_timeout_seconds = 1\n");
    configure_tls(
        &instance,
        &format!("{}, {}", table("file.pem", "file.key"), table("server.pem", "pkcs11:object=tls")),
    );
    instance.start();
    serial(&instance, "id.localhost").unwrap();

    shim.sign_wrongly(1);
    serial(&instance, "id.localhost").unwrap();
    assert!(metric(&instance, "sealgate_sign_errors_total{class=\"wrong_signature\"}").await >= 1.0);

    // Clients that send a part of a hello take no turn.
    let silent: Vec<_> = (0..8)
        .map(|_| {
            let mut client = TcpStream::connect(("127.0.0.1", instance.port)).unwrap();
            client.write_all(&[0x16, 3, 1]).unwrap();
            client
        })
        .collect();
    serial(&instance, "id.localhost").unwrap();
    drop(silent);

    shim.hang(Call::SignInit, FOREVER);
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let (port, directory) = (instance.port, directory.clone());
            std::thread::spawn(move || {
                let address = format!("127.0.0.1:{port}");
                let mut client = Command::new("openssl");
                client.args(["s_client", "-connect", &address, "-servername", "id.localhost"]);
                client.current_dir(directory).stdin(Stdio::null()).output().unwrap().status.success()
            })
        })
        .collect();
    wait_until("calls hang", || shim.hanging() > 0);
    // A certificate with a file key needs no token.
    let file = Command::new("curl")
        .args(["-sS", "-k", "-o", "/dev/null", "--max-time", "3"])
        .arg(format!("https://localhost:{}/", instance.port))
        .output()
        .unwrap();
    assert!(file.status.success(), "{}", String::from_utf8_lossy(&file.stderr));
    for client in clients {
        assert!(!client.join().unwrap(), "a handshake succeeded without a token");
    }
    instance.tells("TLS handshakes fail, because the token does not sign");
    let lines = instance.log().matches("TLS handshakes fail").count();
    assert_eq!(lines, 1, "{}", instance.log());
    assert!(metric(&instance, "sealgate_tls_sign_errors_total{class=\"timeout\"}").await >= 1.0);
    // The other handshakes waited for their turn.
    assert!(metric(&instance, "sealgate_tls_sign_errors_total{class=\"busy\"}").await < 1.0);
    wait_until("the server is not ready", || {
        let url = instance.admin_url("/readyz");
        let shown = Command::new("curl").args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]).output().unwrap();
        shown.stdout == b"503"
    });
    let doctor = instance.try_run(&["doctor"], "");
    assert!(!doctor.status.success());

    shim.release();
    wait_until("handshakes succeed again", || serial(&instance, "id.localhost").is_ok());
    shim.assert_well_used();
}
