//! Server certificate that is reloaded when its files change.
//!
//! If the new files cannot be used, the current certificate stays in use. For example, a file may
//! be only partly written.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use pingora::tls::load_certs_and_key_files;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use super::token_key::{TokenKeys, TokenTlsKey};
use sealgate_config::{CertificateKey, ListenerCertificate, TlsConfig, not_after};
use sealgate_system::file_version::FileVersion;
use sealgate_system::tls;

/// Certificate in use, with its files.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: ListenerCertificate,
    /// The key, if it is in the token.
    token_key: Option<TokenTlsKey>,
    current: RwLock<Arc<LoadedCertificate>>,
    /// Versions of both files, taken before the last time that the files were read.
    last_versions: RwLock<[Option<FileVersion>; 2]>,
}

/// Certificate chain with its key and the names for which it is valid.
#[derive(Debug)]
pub(crate) struct LoadedCertificate {
    pub(crate) key: Arc<CertifiedKey>,
    /// Whether the key is in the token.
    pub(super) is_in_token: bool,
    names: Vec<String>,
    /// Expiry, in seconds since 1970.
    expires_at: i64,
}

impl LoadedCertificate {
    /// Reads the files. `token_key` is required if the key is in the token.
    fn read(files: &ListenerCertificate, token_key: Option<&TokenTlsKey>) -> Result<Self, String> {
        let certificate = files.certificate.clone();
        let key = match (&files.key, token_key) {
            (CertificateKey::File(key), _) => read_certified_key(&TlsConfig { certificate, key: key.clone() })?,
            (CertificateKey::Token(label), Some(key)) => {
                let chain = read_chain(&certificate)?;
                check_key_matches(&chain, &certificate, label, &key.subject_public_key_info())?;
                CertifiedKey::new(chain, Arc::new(key.clone()))
            }
            (CertificateKey::Token(label), None) => return Err(format!("TLS key \"{label}\" was not opened")),
        };
        let names = key.cert.first().map(|leaf| dns_names(leaf)).unwrap_or_default();
        // Only the expiry of the leaf matters. If an intermediate certificate has expired, browsers may
        // know a newer intermediate certificate.
        let expires_at = key.cert.first().and_then(|leaf| not_after(leaf)).unwrap_or(i64::MAX);
        Ok(Self { key: Arc::new(key), is_in_token: token_key.is_some(), names, expires_at })
    }

    /// Returns whether the certificate contains this exact name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|certified| certified.eq_ignore_ascii_case(name))
    }

    /// Returns whether a wildcard of the certificate matches the name. A wildcard matches exactly
    /// the first label (RFC 6125 §6.4.3).
    pub(crate) fn matches_wildcard(&self, name: &str) -> bool {
        let Some((_, parent)) = name.split_once('.') else { return false };
        let mut wildcards = self.names.iter().filter_map(|certified| certified.strip_prefix("*."));
        wildcards.any(|wildcard| wildcard.eq_ignore_ascii_case(parent))
    }
}

impl Certificate {
    /// Reads the files, and finds the key in the token. Blocking.
    ///
    /// # Errors
    /// One line that names the file or the key, and the error.
    pub(super) fn load(files: &ListenerCertificate, token: Option<&Arc<TokenKeys>>) -> Result<Self, String> {
        let versions = file_versions(files);
        let token_key = match &files.key {
            CertificateKey::File(_) => None,
            CertificateKey::Token(label) => {
                let token = token.ok_or_else(|| format!("TLS key \"{label}\": this server has no token"))?;
                Some(token.find(label)?)
            }
        };
        let current = RwLock::new(Arc::new(LoadedCertificate::read(files, token_key.as_ref())?));
        Ok(Self { files: files.clone(), token_key, current, last_versions: RwLock::new(versions) })
    }

    pub(crate) fn current(&self) -> Arc<LoadedCertificate> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the certificate's file and its expiry, in seconds since 1970.
    pub(crate) fn file_and_expiry(&self) -> (&Path, i64) {
        (&self.files.certificate, self.current().expires_at)
    }

    /// Reloads the files if they changed. Blocking I/O.
    pub(crate) fn reload_if_changed(&self) {
        let versions = file_versions(&self.files);
        if *self.last_versions.read().unwrap_or_else(PoisonError::into_inner) == versions {
            return;
        }
        *self.last_versions.write().unwrap_or_else(PoisonError::into_inner) = versions;
        match LoadedCertificate::read(&self.files, self.token_key.as_ref()) {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(certificate = %self.files.certificate.display(), "loaded a new certificate");
            }
            Err(why) => {
                tracing::warn!("the new certificate files cannot be used; the current certificate stays in use: {why}");
            }
        }
    }
}

fn file_versions(files: &ListenerCertificate) -> [Option<FileVersion>; 2] {
    let key = match &files.key {
        CertificateKey::File(key) => FileVersion::of(key),
        CertificateKey::Token(_) => None,
    };
    [FileVersion::of(&files.certificate), key]
}

/// Reads a certificate chain and its key, and checks that the key belongs to the chain.
pub(crate) fn read_certified_key(files: &TlsConfig) -> Result<CertifiedKey, String> {
    let (certificates, key) = read_pair(files)?;
    let (certificate, key_file) = (files.certificate.display(), files.key.display());
    CertifiedKey::from_der(certificates, key, &tls::provider())
        .map_err(|error| format!("cannot use certificate {certificate} with key {key_file}: {error}"))
}

/// Checks that a file contains the certificate of a TLS key in the token.
///
/// `key` is the public key as a DER `SubjectPublicKeyInfo`.
///
/// # Errors
/// One line that names the file, the key and the error.
pub fn check_token_certificate(certificate: &Path, label: &str, key: &[u8]) -> Result<(), String> {
    check_key_matches(&read_chain(certificate)?, certificate, label, key)
}

fn check_key_matches(chain: &[CertificateDer<'_>], file: &Path, label: &str, key: &[u8]) -> Result<(), String> {
    let file = file.display();
    let leaf = chain.first().ok_or_else(|| format!("{file} contains no certificate; write the chain in PEM"))?;
    let leaf = ParsedCertificate::try_from(leaf)
        .map_err(|error| format!("{file} cannot be used ({error}); write an X.509 version 3 chain, leaf first"))?;
    if leaf.subject_public_key_info().as_ref() == key {
        return Ok(());
    }
    Err(format!(
        "the certificate's public key in {file} is not the key \"{label}\" of the token; write the certificate that \
         was issued for this key, or correct the label"
    ))
}

fn read_chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let content = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    CertificateDer::pem_slice_iter(&content)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} is damaged ({error}); write the chain in PEM", file.display()))
}

/// Returns the DNS names of a certificate. The list is empty if the certificate cannot be parsed.
fn dns_names(leaf: &[u8]) -> Vec<String> {
    let Ok((_, leaf)) = x509_parser::parse_x509_certificate(leaf) else { return Vec::new() };
    let Ok(Some(names)) = leaf.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).collect()
}

/// Reads a certificate chain, leaf first, and a key. Does not check whether the key belongs to the
/// chain.
///
/// # Errors
/// One line that names the file and the error.
pub(crate) fn read_pair(files: &TlsConfig) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    for file in [&files.certificate, &files.key] {
        fs::File::open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    }
    let (certificate, key) = (files.certificate.display(), files.key.display());
    load_certs_and_key_files(utf8_path(&files.certificate)?, utf8_path(&files.key)?).ok().flatten().ok_or_else(|| {
        format!(
            "{certificate} must contain a certificate chain and {key} its private key, \
            both in PEM"
        )
    })
}

/// Reads the CA certificates in a file, which must contain at least one.
///
/// # Errors
/// One line that names the file and the error.
pub(crate) fn read_ca_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let name = file.display();
    let content = fs::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    let certificates = CertificateDer::pem_slice_iter(&content)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{name} is damaged ({error}); write PEM"))?;
    if certificates.is_empty() {
        return Err(format!("{name} contains no certificate; write CA certificates in PEM"));
    }
    let mut roots = rustls::RootCertStore::empty();
    for certificate in &certificates {
        let unusable = |why: String| format!("{name} contains something other than a CA certificate: {why}");
        check_parses(certificate).map_err(unusable)?;
        roots.add(certificate.clone()).map_err(|error| unusable(error.to_string()))?;
    }
    Ok(certificates)
}

/// Checks that Pingora can parse the certificate. Pingora panics if it cannot parse a certificate.
pub(crate) fn check_parses(certificate: &[u8]) -> Result<(), String> {
    x509_parser::parse_x509_certificate(certificate).map(|_| ()).map_err(|error| {
        format!(
            "not a certificate \
        ({error})"
        )
    })
}

fn utf8_path(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: write the file's name in UTF-8", path.display()))
}
