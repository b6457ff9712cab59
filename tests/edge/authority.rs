//! A certificate authority for the tests, created with `openssl`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sealgate_config::TlsConfig;
use tempfile::TempDir;

/// A certificate authority. Its directory holds its own files and the issued certificates.
pub(crate) struct Authority {
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { directory: tempfile::tempdir().unwrap() };
        let constraints = "basicConstraints=critical,CA:TRUE";
        let own = ["-subj", "/O=Tests/CN=An authority", "-addext", constraints];
        authority.openssl("ca", &[&own[..], &EC].concat());
        authority
    }

    /// Returns the path of the authority's own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Issues a certificate in `NAME.pem` and its key.
    ///
    /// `names` are subject alternative names such as `DNS:localhost,IP:127.0.0.1`.
    pub(crate) fn issue(&self, name: &str, names: &str) -> TlsConfig {
        self.issue_to(name, &format!("/O=Tests/CN={name}"), names)
    }

    /// Issues a certificate with this subject. See [`Self::issue`].
    pub(crate) fn issue_to(&self, name: &str, subject: &str, names: &str) -> TlsConfig {
        self.issued(name, subject, names, &EC)
    }

    /// Issues a certificate with an RSA key. See [`Self::issue`].
    pub(crate) fn issue_rsa(&self, name: &str, names: &str) -> TlsConfig {
        self.issued(name, &format!("/O=Tests/CN={name}"), names, &["-newkey", "rsa:2048"])
    }

    fn issued(&self, name: &str, subject: &str, names: &str, key: &[&str]) -> TlsConfig {
        let (ca, ca_key) = (self.file(), self.path("ca.key"));
        let by = ["-CA", ca.to_str().unwrap(), "-CAkey", ca_key.to_str().unwrap()];
        let names = format!("subjectAltName={names}");
        let own = ["-utf8", "-subj", subject, "-addext", &names, "-addext", "basicConstraints=critical,CA:FALSE"];
        self.openssl(name, &[&by[..], &own, key].concat());
        TlsConfig { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) }
    }

    /// Issues a certificate that expires at the end of second `end` since 1970. See
    /// [`Self::issue`].
    pub(crate) fn issue_until(&self, name: &str, end: u64) -> TlsConfig {
        let end = chrono::DateTime::from_timestamp(end.cast_signed(), 0).unwrap().format("%Y%m%d%H%M%SZ").to_string();
        let settings = "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nrand_serial = yes\nnew_certs_dir = .\n\
                        default_md = sha256\npolicy = any\nunique_subject = no\nx509_extensions = leaf\n[any]\n\
                        commonName = supplied\n[leaf]\nbasicConstraints = critical,CA:FALSE\n";
        std::fs::write(self.path("ca.conf"), settings).unwrap();
        std::fs::write(self.path("index"), "").unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            let status = command.current_dir(self.directory.path()).args(arguments).stderr(Stdio::null()).status();
            assert!(status.expect("openssl").success(), "{arguments:?}");
        };
        let files = ["csr", "key", "pem"].map(|ending| format!("{name}.{ending}"));
        let [request, key, certificate] = files.each_ref().map(String::as_str);
        let subject = format!("/CN={name}");
        let new = ["req", "-new", "-nodes", "-subj", &subject, "-out", request, "-keyout", key];
        run(&[&new[..], &EC].concat());
        run(&[
            "ca",
            "-batch",
            "-notext",
            "-config",
            "ca.conf",
            "-cert",
            "ca.pem",
            "-keyfile",
            "ca.key",
            "-startdate",
            "20200101000000Z",
            "-enddate",
            &end,
            "-in",
            request,
            "-out",
            certificate,
        ]);
        TlsConfig { certificate: self.path(certificate), key: self.path(key) }
    }

    fn openssl(&self, name: &str, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2"])
            .args(arguments)
            .arg("-out")
            .arg(self.path(&format!("{name}.pem")))
            .arg("-keyout")
            .arg(self.path(&format!("{name}.key")))
            .stderr(Stdio::null())
            .status()
            .expect("openssl");
        assert!(made.success());
    }
}

const EC: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
