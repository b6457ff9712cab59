//! Files that a configuration refers to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use sealgate_config::{Config, ConfigFault};

use super::{REQUIRED, lines, starts, warnings};

/// A directory with a configuration and the files it refers to.
struct Installed {
    directory: tempfile::TempDir,
    text: String,
}

impl Installed {
    fn new() -> Self {
        let installed = Self { directory: tempfile::tempdir().unwrap(), text: REQUIRED.to_owned() };
        installed.write("module.so", "a library");
        installed.write("pin", "123456\n");
        installed.permit("pin", 0o600);
        installed
    }

    fn with_tls() -> Self {
        let mut installed = Self::new();
        installed.text += "server.tls = { certificate = \"certificate.pem\", key = \"key.pem\" }";
        installed.write("certificate.pem", include_str!("wiki.certificate.pem"));
        installed.write("key.pem", include_str!("wiki.key.pem"));
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn permit(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self) -> Result<Config, Vec<ConfigFault>> {
        self.write("sealgate.toml", &self.text);
        Config::load(&self.path("sealgate.toml"))
    }

    fn fault(&self) -> String {
        let faults = lines(&self.load().unwrap_err());
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults.into_iter().next().unwrap()
    }
}

#[test]
fn a_file_whose_files_are_all_valid_loads() {
    let installed = Installed::with_tls();
    let config = installed.load().unwrap();
    assert_eq!(config.hsm.pin_file, installed.path("pin"));
    assert_eq!(config.server.tls[0].certificate, installed.path("certificate.pem"));
}

#[test]
fn a_pin_file_that_group_or_others_can_read_is_an_error() {
    let installed = Installed::new();
    for mode in [0o640, 0o604, 0o620, 0o601, 0o644] {
        installed.permit("pin", mode);
        let path = installed.path("pin").display().to_string();
        let expected =
            format!("hsm.pin_file: {path} can be accessed by other users (mode {mode:04o}); run: chmod 600 {path}");
        starts(&installed.fault(), &expected);
    }
    installed.permit("pin", 0o400);
    installed.load().unwrap();
}

#[test]
fn pin_file_that_is_absent_empty_or_a_directory_is_a_fault() {
    let installed = Installed::new();
    installed.write("pin", "");
    assert!(installed.fault().contains("is empty; write the token's user PIN into it"));
    fs::remove_file(installed.path("pin")).unwrap();
    starts(&installed.fault(), &format!("hsm.pin_file: {} cannot be read (", installed.path("pin").display()));
    fs::create_dir(installed.path("pin")).unwrap();
    assert!(installed.fault().contains("is not a file"));
}

#[test]
fn module_that_is_absent_is_a_fault() {
    let installed = Installed::new();
    fs::remove_file(installed.path("module.so")).unwrap();
    starts(&installed.fault(), &format!("hsm.module: {} cannot be read (", installed.path("module.so").display()));
}

#[test]
fn a_certificate_that_has_expired_or_soon_will_is_a_warning() {
    // Expiry of the certificate: 1 February 2024, 00:00:00 UTC.
    const END: i64 = 1_706_745_600;
    let mut installed = Installed::with_tls();
    installed.text = installed.text.replace("https://id.example.com", "https://wiki.example.com");
    assert_eq!(installed.load().unwrap().expiring(1_800_000_000), []);
    installed.text = installed.text.replace("https://wiki.example.com", "https://id.example.com");
    installed.write("certificate.pem", include_str!("expired.certificate.pem"));
    installed.write("key.pem", include_str!("expired.key.pem"));
    let config = installed.load().unwrap();
    let said = |before: i64| lines(&config.expiring(END - before));
    let line = |what: &str| [format!("server.tls.certificate: {} {what}", installed.path("certificate.pem").display())];
    assert_eq!(said(14 * 86_400), [""; 0]);
    assert_eq!(said(14 * 86_400 - 1), line("expires in 13 days; renew it"));
    assert_eq!(said(0), line("expires in 0 days; renew it"));
    assert_eq!(said(-1), line("has expired, and browsers reject it; renew it"));
}

#[test]
fn several_sessions_through_p11_kits_client_are_a_warning() {
    let mut installed = Installed::new();
    installed.write("p11-kit-client.so", "a library");
    installed.text = installed.text.replace("module.so", "p11-kit-client.so");
    let found = warnings(&installed.load().unwrap());
    assert_eq!(found.len(), 1, "{found:?}");
    starts(&found[0], "hsm.sessions: p11-kit's client can hang permanently if its server exits");
    installed.text += "hsm.sessions = 1";
    assert_eq!(warnings(&installed.load().unwrap()), [""; 0]);
}

#[test]
fn store_path_that_is_a_file_is_a_fault() {
    let installed = Installed::new();
    installed.write("store", "");
    assert!(installed.fault().contains("store is not a directory; "));
}

#[test]
fn admin_socket_never_replaces_a_file() {
    let mut installed = Installed::new();
    installed.text += "admin.socket = \"notes.txt\"";
    installed.write("notes.txt", "keep me");
    assert!(installed.fault().contains("notes.txt exists and is not a socket; "));
    fs::remove_file(installed.path("notes.txt")).unwrap();
    let _left_behind = UnixListener::bind(installed.path("notes.txt")).unwrap();
    installed.load().unwrap();
}

#[test]
fn an_unusable_certificate_is_reported_with_its_file() {
    let installed = Installed::with_tls();
    let damaged = include_str!("wiki.certificate.pem").replace("MII", "!!!");
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for content in ["", "not PEM", include_str!("wiki.key.pem"), &damaged, no_certificate] {
        installed.write("certificate.pem", content);
        let path = installed.path("certificate.pem");
        starts(&installed.fault(), &format!("server.tls.certificate: {} ", path.display()));
    }
    fs::remove_file(installed.path("certificate.pem")).unwrap();
    assert!(
        installed.fault().starts_with("server.tls.certificate: ") && installed.fault().contains("cannot be read (")
    );
}

#[test]
fn an_unusable_private_key_is_reported_with_its_file() {
    let installed = Installed::with_tls();
    let encrypted = include_str!("wiki.key.pem").replace("PRIVATE", "ENCRYPTED PRIVATE");
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for content in ["", "not PEM", include_str!("wiki.certificate.pem"), &encrypted, no_key] {
        installed.write("key.pem", content);
        starts(&installed.fault(), &format!("server.tls.key: {} ", installed.path("key.pem").display()));
    }
}

#[test]
fn private_key_of_another_certificate_is_a_fault() {
    let installed = Installed::with_tls();
    installed.write("key.pem", include_str!("other.key.pem"));
    let fault = installed.fault();
    assert!(
        fault.starts_with("server.tls.key: ") && fault.contains("is not the key of the first certificate in"),
        "{fault}"
    );
}

#[test]
fn faults_of_the_text_and_of_the_files_are_reported_together() {
    let mut installed = Installed::with_tls();
    installed.text = installed.text.replace("https://id.example.com", "nowhere") + "\ncolour = 1";
    installed.permit("pin", 0o644);
    installed.write("key.pem", include_str!("other.key.pem"));
    let paths: Vec<_> = installed.load().unwrap_err().iter().map(|fault| fault.path().to_owned()).collect();
    assert_eq!(paths, ["issuer", "hsm.pin_file", "server.tls.key", "colour"]);
}

#[test]
fn reading_the_configuration_alone_reads_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealgate.toml");
    fs::write(&path, REQUIRED).unwrap();
    assert_eq!(Config::read(&path).unwrap().hsm.pin_file, directory.path().join("pin"));
    let paths: Vec<_> = Config::load(&path).unwrap_err().iter().map(|fault| fault.path().to_owned()).collect();
    assert_eq!(paths, ["hsm.module", "hsm.pin_file"]);
}

#[test]
fn logo_is_a_small_png_or_svg_file() {
    let mut installed = Installed::new();
    installed.text += "pages.logo = \"logo\"\n";
    starts(&installed.fault(), "pages.logo");
    installed.write("logo", "<html>");
    assert!(installed.fault().contains("is neither a PNG nor an SVG file"), "{}", installed.fault());
    installed.write("logo", &format!("<svg>{}</svg>", "x".repeat(64 * 1024)));
    assert!(installed.fault().contains("at most 65536"), "{}", installed.fault());
    installed.write("logo", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
    assert!(installed.load().unwrap().pages.logo.is_some());
}

#[test]
fn the_admin_socket_is_no_upstream_by_another_path() {
    let mut installed = Installed::new();
    fs::create_dir_all(installed.path("run/other")).unwrap();
    symlink(installed.path("run"), installed.path("var")).unwrap();
    installed.text += "admin.socket = \"run/admin.sock\"\n";
    let text = installed.text.clone();
    // Before and after the server has created the socket.
    for exists in [false, true] {
        let _left_behind = exists.then(|| UnixListener::bind(installed.path("run/admin.sock")).unwrap());
        for path in ["run/admin.sock", "run/./admin.sock", "run/other/../admin.sock", "var/admin.sock"] {
            installed.text = text.clone() + &super::APP.replace("http://127.0.0.1:8081", &format!("unix:{path}"));
            assert!(installed.fault().contains("is Sealgate's own socket"), "{path}: {}", installed.fault());
        }
    }
    installed.text = text + &super::APP.replace("http://127.0.0.1:8081", "unix:run/app.sock");
    installed.load().unwrap();
}

#[test]
fn unusable_authorities_of_upstreams_are_reported_with_their_file() {
    let mut installed = Installed::new();
    installed.text += &super::APP
        .replace("http://127.0.0.1:8081\"]", "https://127.0.0.1:8443\"]\nupstream_tls = { ca = \"ca.pem\" }");
    starts(&installed.fault(), "app[0].upstream_tls.ca: ");
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for content in ["", "not PEM", include_str!("wiki.key.pem"), no_certificate] {
        installed.write("ca.pem", content);
        starts(&installed.fault(), &format!("app[0].upstream_tls.ca: {} ", installed.path("ca.pem").display()));
    }
    installed.write("ca.pem", include_str!("wiki.certificate.pem"));
    installed.load().unwrap();
}

#[test]
fn hosts_without_a_certificate_and_certificates_without_a_host_are_warnings() {
    let mut installed = Installed::with_tls();
    installed.text = installed.text.replace("https://id.example.com", "https://wiki.example.com");
    assert_eq!(warnings(&installed.load().unwrap()), [""; 0]);
    installed.text += &super::APP.replace("host = \"wiki.", "host = \"blog.");
    let found = warnings(&installed.load().unwrap());
    assert_eq!(
        found,
        ["server.tls: no certificate is valid for blog.example.com, so browsers cannot connect; add one"]
    );
    installed.text = installed.text.replace("https://wiki.example.com", "https://id.example.com");
    let found = warnings(&installed.load().unwrap());
    assert_eq!(found.len(), 3, "{found:#?}");
    let path = installed.path("certificate.pem");
    starts(
        &found[0],
        &format!(
            "server.tls.certificate: {} is not valid for any of id.example.com, blog.example.com; ",
            path.display()
        ),
    );
}
