//! The section `[acme]`: certificates that the server obtains itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sealgate_config::{AcmeChallenge, AcmeConfig, Config};

use super::{APP, REQUIRED, base, fault, faults, lines, parse, starts, warnings, with};

const AGREED: &str = "[acme]\nagree_to_terms = true\n";

fn config(more: &str) -> Config {
    parse(&format!("{REQUIRED}{AGREED}{more}"))
}

fn acme(more: &str) -> AcmeConfig {
    config(more).acme.unwrap()
}

fn acme_fault(more: &str) -> String {
    fault(&format!("{REQUIRED}{AGREED}{more}"))
}

#[test]
fn the_acme_section_is_optional_and_needs_one_key() {
    assert_eq!(parse(REQUIRED).acme, None);
    let acme = acme(APP);
    assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!(acme.hosts, ["id.example.com", "wiki.example.com"]);
    assert_eq!(
        (acme.challenge, acme.profile, acme.contact, acme.ca_file),
        (AcmeChallenge::TlsAlpn01, None, None, None)
    );
    assert_eq!(acme.path, base().join("acme"));
}

#[test]
fn the_listeners_use_the_certificates_after_those_of_the_file() {
    let text = format!(
        "{REQUIRED} server.tls = {{ certificate = \"c\", key = \"k\" }}\n{AGREED}hosts = [\"ID.example.com\", \"192.0.2.1\"]"
    );
    let files = |config: &Config| config.server.tls.iter().map(|pair| pair.certificate.clone()).collect::<Vec<_>>();
    let ordered = base().join("acme");
    let expected = [base().join("c"), ordered.join("id.example.com.acme.pem"), ordered.join("192.0.2.1.acme.pem")];
    assert_eq!(files(&parse(&text)), expected);
    assert_eq!(files(&config("path = \"/srv/acme\"\n")), [Path::new("/srv/acme/id.example.com.acme.pem")]);
    // TLS needs no other certificate, and a proxy is not missing.
    assert!(warnings(&config("")).is_empty() && config("").warnings.is_empty());
}

#[test]
fn the_terms_are_accepted_by_a_key() {
    starts(
        &fault(&format!("{REQUIRED}[acme]\n")),
        "acme.agree_to_terms: is missing; read the authority's terms of service",
    );
    let refused = fault(&format!("{REQUIRED}[acme]\nagree_to_terms = false\n"));
    starts(&refused, "acme.agree_to_terms: is false; read the authority's terms of service");
}

#[test]
fn acme_settings_that_cannot_work_are_errors() {
    for (more, start) in [
        ("directory = \"http://ca.test/dir\"", "acme.directory: \"http://ca.test/dir\" is not an https URL"),
        (
            "hosts = [\"*.example.com\"]",
            "acme.hosts[0]: \"*.example.com\" is a wildcard, which needs a certificate from files",
        ),
        ("hosts = [\"a/../../b\"]", "acme.hosts[0]: \"a/../../b\" cannot be in a certificate"),
        ("hosts = []", "acme.hosts: is empty"),
        ("contact = \"ops\"", "acme.contact: \"ops\" is not an e-mail address"),
        ("external_account_id = \"kid-1\"", "acme.external_account_id: requires external_account_key_file"),
        ("external_account_key_file = \"k\"", "acme.external_account_key_file: requires external_account_id"),
        (
            "external_account_id = \"a b\"\nexternal_account_key_file = \"k\"",
            "acme.external_account_id: \"a b\" is not",
        ),
        ("profile = \"a b\"", "acme.profile: \"a b\" is not the name of a profile"),
        ("challenge = \"dns-01\"", "acme.challenge: "),
        ("challenge = \"http-01\"", "acme.challenge: is \"http-01\", which is answered at port 80"),
    ] {
        starts(&acme_fault(more), start);
    }
    let required = "server.client_ca = \"ca\"\nserver.client_certificates = \"required\"\n";
    starts(&fault(&format!("{REQUIRED}{required}{AGREED}")), "acme.challenge: the authority has no client certificate");
    let plain = with("issuer", "\"http://localhost\"");
    starts(&fault(&format!("{plain}\n{AGREED}")), "acme.directory: the issuer says http");
    let cluster =
        "store.engine = \"postgres\"\nstore.url_file = \"u\"\nadmin.socket = \"a\"\ncluster.node = \"id-1\"\n";
    let cluster = REQUIRED.replace("store.path = \"store\"\n", cluster);
    let faults = faults(&format!("{cluster}{AGREED}"));
    assert!(faults.iter().any(|fault| fault.starts_with("acme.path: is missing")), "{faults:?}");
}

#[test]
fn the_mac_key_of_an_external_account_is_read_by_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let key_file = directory.path().join("eab");
    let read = |content: &str| {
        fs::write(&key_file, content).unwrap();
        fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
        let path = directory.path().join("sealgate.toml");
        let account = format!("external_account_id = \"k\"\nexternal_account_key_file = \"{}\"\n", key_file.display());
        fs::write(&path, format!("{REQUIRED}{AGREED}{account}")).unwrap();
        let faults = lines(&Config::load(&path).err().unwrap_or_default());
        faults.into_iter().find(|fault| fault.starts_with("acme.external_account_key_file"))
    };
    for key in ["AAECAwQFBgcICQoLDA0ODxAREhM-_w", "AAECAwQFBgcICQoLDA0ODxAREhM+/w==\n"] {
        assert_eq!(read(key), None, "{key}");
    }
    for key in ["", "c2hvcnQ", "not base64 at all, but long enough"] {
        let fault = read(key).unwrap();
        assert!(fault.contains(&key_file.display().to_string()) && !fault.contains("at all"), "{fault}");
    }
}
