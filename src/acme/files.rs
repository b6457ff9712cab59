//! Files of certificates and of the ACME account, in one directory with mode 0700.
//!
//! The file of a host contains the private key and the certificate chain, so that one rename
//! replaces both.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use zeroize::Zeroizing;

use sealgate_config::AcmeConfig;

use crate::fault::AcmeFault;
use crate::issue::placeholder;
use crate::renewal::CertificateValidity;
use crate::state::AcmeState;

/// Name of the file with the ACME account and the state of each host.
const STATE: &str = "state.json";

/// Creates the directory, and a placeholder certificate for each host that has no file.
///
/// The placeholders are self-signed. With them, listeners can be opened before the first
/// certificate is issued.
///
/// # Errors
/// One line that names the file.
pub fn prepare(config: &AcmeConfig) -> Result<(), String> {
    let fault = |error: io::Error| format!("acme.path: {}: {error}", config.path.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&config.path).map_err(fault)?;
    for host in &config.hosts {
        let file = config.file(host);
        if !file.exists() {
            let pem = placeholder(host).map_err(|fault| format!("{}: {fault}", file.display()))?;
            write(&file, pem.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}

/// Directory with the ACME account and the certificates of one installation.
#[derive(Debug, Clone)]
pub struct AcmeFiles {
    directory: PathBuf,
}

impl AcmeFiles {
    /// Creates a value for the directory of `[acme] path`. Does not read the directory.
    pub fn new(config: &AcmeConfig) -> Self {
        Self { directory: config.path.clone() }
    }

    /// Reads the state. Returns an empty state if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read or parsed. With an empty state instead of the error, each start
    /// would register a new account.
    pub fn load(&self) -> Result<AcmeState, AcmeFault> {
        let file = self.directory.join(STATE);
        let fault = |error: &dyn std::fmt::Display| AcmeFault::local(format_args!("{}: {error}", file.display()));
        match fs::read(&file).map(Zeroizing::new) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| fault(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(AcmeState::default()),
            Err(error) => Err(fault(&error)),
        }
    }

    /// Writes the state durably.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, state: &AcmeState) -> Result<(), AcmeFault> {
        let bytes = serde_json::to_vec(state).map(Zeroizing::new).map_err(AcmeFault::local)?;
        self.write(STATE.as_ref(), &bytes)
    }

    /// Replaces the certificate of a host. The listeners load it within a second.
    ///
    /// # Errors
    /// If the file cannot be written. The previous file remains.
    pub fn replace(&self, config: &AcmeConfig, host: &str, pem: &str) -> Result<(), AcmeFault> {
        self.write(&config.file(host), pem.as_bytes())
    }

    fn write(&self, name: &Path, bytes: &[u8]) -> Result<(), AcmeFault> {
        let file = self.directory.join(name);
        write(&file, bytes).map_err(|error| AcmeFault::local(format_args!("{}: {error}", file.display())))
    }
}

/// Reads the leaf certificate of a file and its validity. Returns `None` if the file is unusable.
pub(crate) fn leaf(file: &Path) -> Option<(CertificateDer<'static>, CertificateValidity)> {
    let leaf = CertificateDer::pem_file_iter(file).ok()?.next()?.ok()?;
    let validity = validity(&leaf)?;
    Some((leaf, validity))
}

pub(crate) fn validity(leaf: &[u8]) -> Option<CertificateValidity> {
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).ok()?;
    let validity = parsed.validity();
    Some(CertificateValidity { starts: validity.not_before.timestamp(), ends: validity.not_after.timestamp() })
}

/// Replaces a file atomically and durably, with mode 0600.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    // A process that was killed may have left the new file.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_atomically_with_mode_0600() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pem");
        fs::write(directory.path().join("a.pem.new"), "left behind").unwrap();
        for content in ["first", "second"] {
            write(&file, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
