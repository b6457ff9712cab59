//! A certificate authority of the tests' own, by openssl.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sealgate::config::Tls;
use tempfile::TempDir;

/// An authority; the directory holds its files and those of all that it issued.
pub(crate) struct Authority {
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { directory: tempfile::tempdir().unwrap() };
        let constraints = "basicConstraints=critical,CA:TRUE";
        authority.openssl("ca", &["-subj", "/O=Tests/CN=An authority", "-addext", constraints]);
        authority
    }

    /// Its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate in `NAME.pem`, for these names such as `DNS:localhost,IP:127.0.0.1`, and its key.
    pub(crate) fn issue(&self, name: &str, names: &str) -> Tls {
        let (ca, key) = (self.file(), self.path("ca.key"));
        let by = ["-CA", ca.to_str().unwrap(), "-CAkey", key.to_str().unwrap()];
        let (subject, names) = (format!("/O=Tests/CN={name}"), format!("subjectAltName={names}"));
        let own = ["-subj", &subject, "-addext", &names, "-addext", "basicConstraints=critical,CA:FALSE"];
        self.openssl(name, &[&by[..], &own].concat());
        Tls { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) }
    }

    fn openssl(&self, name: &str, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
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
