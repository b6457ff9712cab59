//! Attestation files that the operator installed: one file `KID.pem` for each signing key.
//!
//! The files are read at start and when they change, never during a request.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use sealgate_system::file_version::FileVersion;

/// Maximum size of an attestation file in bytes. A chain has a few certificates. A larger file is
/// rejected.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Certificate chains that attest the signing keys, by kid.
#[derive(Debug)]
pub struct Attestations {
    directory: Option<PathBuf>,
    files: RwLock<BTreeMap<String, Entry>>,
}

/// State of an attestation file when it was last read.
#[derive(Debug, Clone)]
struct Entry {
    /// `None` if the file does not exist.
    version: Option<FileVersion>,
    /// Certificates in the form of `x5c` (RFC 7517 §4.7): base64 of DER, the leaf first. `None` if
    /// the file is absent or unusable.
    chain: Option<Arc<[String]>>,
}

impl Attestations {
    /// Creates an empty set of chains. Without a configured directory, the set stays empty.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, files: RwLock::default() }
    }

    /// Returns the chain of a key in the form of `x5c` (RFC 7517 §4.7), or `None` if the key is not
    /// attested.
    pub fn get(&self, kid: &str) -> Option<Arc<[String]>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(kid).and_then(|entry| entry.chain.clone())
    }

    /// Returns whether an attestation directory is configured.
    pub fn has_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// Reads the changed files of these keys, and drops the chains of all other keys. Blocking I/O.
    ///
    /// Each kid must be a thumbprint that the server computed (letters, digits, `-`, `_`), because
    /// it becomes part of a path.
    pub fn refresh(&self, kids: &[String]) {
        let Some(directory) = &self.directory else { return };
        let previous = self.files.read().unwrap_or_else(PoisonError::into_inner).clone();
        let entry = |kid: &String| {
            let path = directory.join(format!("{kid}.pem"));
            let version = FileVersion::of(&path);
            match previous.get(kid) {
                Some(entry) if entry.version == version => entry.clone(),
                _ => Entry { version, chain: read_chain(&path) },
            }
        };
        let files = kids.iter().map(|kid| (kid.clone(), entry(kid))).collect();
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = files;
    }
}

/// Reads the certificates in a file. The caller reads a file once for each change, so an unusable
/// file causes one log line for each change.
fn read_chain(path: &Path) -> Option<Arc<[String]>> {
    let pem = match read_file(path) {
        Ok(pem) => pem,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "cannot read the attestation file");
            return None;
        }
    };
    let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Some(chain.iter().map(|certificate| STANDARD.encode(certificate)).collect()),
        _ => {
            tracing::warn!(file = %path.display(), "the attestation file contains no PEM certificates");
            None
        }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK, opening a pipe without a writer would hang.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut content = Vec::new();
    // Read one byte more than allowed, because the file may grow while it is read.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES / 1024;
        return Err(io::Error::other(format!("the file is larger than {limit} KiB; write only the certificate chain")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = include_str!("../../../tests/config/wiki.certificate.pem");

    #[test]
    fn a_file_is_read_again_only_after_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let kids = ["one".to_owned()];
        let attestations = Attestations::new(Some(directory.path().to_owned()));
        attestations.refresh(&kids);
        assert_eq!(attestations.get("one"), None);
        let file = directory.path().join("one.pem");
        std::fs::write(&file, CERTIFICATE).unwrap();
        attestations.refresh(&kids);
        let first = attestations.get("one").unwrap();
        assert_eq!(first.len(), 1);
        attestations.refresh(&kids);
        assert!(Arc::ptr_eq(&first, &attestations.get("one").unwrap()), "not read again");
        std::fs::write(&file, [CERTIFICATE, CERTIFICATE].concat()).unwrap();
        attestations.refresh(&kids);
        assert_eq!(attestations.get("one").unwrap().len(), 2);
        std::fs::remove_file(&file).unwrap();
        attestations.refresh(&kids);
        assert_eq!(attestations.get("one"), None);
    }

    #[test]
    fn pipes_directories_and_other_content_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(format!("{name}.pem"));
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("text"), "no certificate").unwrap();
        let long = usize::try_from(MAX_FILE_BYTES).unwrap();
        std::fs::write(at("long"), [CERTIFICATE, " ".repeat(long).as_str()].concat()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        let kids = ["directory", "text", "long", "pipe"].map(str::to_owned);
        let attestations = Attestations::new(Some(directory.path().to_owned()));
        attestations.refresh(&kids);
        assert!(kids.iter().all(|kid| attestations.get(kid).is_none()));
    }
}
