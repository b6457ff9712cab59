//! Paths and files of a configuration: resolves paths, checks files, and reads secrets.
//!
//! A check before the start gives one clear error. Without the check, a library would report an
//! obscure error later. Each file is checked again when it is used.

use std::borrow::Cow;
use std::fs;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};
use x509_parser::extensions::GeneralName;
use zeroize::Zeroizing;

use crate::acme::read_mac_key;
use crate::app_hosts::WILDCARD;
use crate::appearance::{Logo, MAX_LOGO_BYTES};
use crate::fixed_headers::read_header_file;
use crate::login::{RecipeFile, read_login_password};
use crate::telemetry::read_export_headers;
use sealgate_domain::assertion_source::{ClientJwks, MAX_JWKS_LENGTH};
use sealgate_domain::client_rules;
use sealgate_domain::oauth::jwk_set;
use sealgate_domain::secret::SecretHash;

/// Placeholder in paths for the directory of systemd credentials. Each unit has a different
/// directory.
const CREDENTIALS_VARIABLE: &str = "$CREDENTIALS_DIRECTORY/";

/// Directory of the systemd credential directories.
///
/// systemd grants access to the unit's user with an access control list. `stat` shows the mask of
/// that list as the permissions of the group, although the group has no access.
const SYSTEMD_CREDENTIALS: &str = "/run/credentials/";

/// Maximum length of a Unix socket's path in bytes: `sun_path` without its final NUL (unix(7)).
const MAX_SOCKET_PATH_LENGTH: usize = 107;

/// Resolver for paths in a configuration. It can also check the files.
pub(super) struct Files {
    base: PathBuf,
    checks: FileChecks,
}

enum FileChecks {
    No,
    Yes { credentials: Option<PathBuf> },
}

impl Files {
    /// Creates a resolver that does not access files. Relative paths start at `base`.
    pub(super) fn unchecked(base: PathBuf) -> Self {
        Self { base, checks: FileChecks::No }
    }

    /// Creates a resolver that checks files. Relative paths start at `base`. `credentials` is the
    /// systemd credential directory of the unit, if any.
    pub(super) fn checked(base: PathBuf, credentials: Option<PathBuf>) -> Self {
        Self { base, checks: FileChecks::Yes { credentials } }
    }

    /// Makes a path absolute, and expands the placeholder for the credential directory.
    pub(super) fn path(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() || text.contains('\0') {
            return Err("is not a path; use an absolute path, or a path relative to this file's directory".into());
        }
        match (&self.checks, text.strip_prefix(CREDENTIALS_VARIABLE)) {
            (FileChecks::Yes { credentials: Some(directory) }, Some(name)) => Ok(directory.join(name)),
            (FileChecks::Yes { credentials: None }, Some(name)) => Err(format!(
                "$CREDENTIALS_DIRECTORY is only set by systemd; run the command with sealgate_do instead of \
                 sealgate, use a unit with LoadCredential={name}:FILE, or write the file's path"
            )),
            _ => Ok(self.base.join(text)),
        }
    }

    /// Checks a file with a secret. `what` names the secret in errors, for instance `the token's
    /// user PIN`.
    pub(super) fn secret_file(&self, text: &str, what: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        let metadata = readable(&path)?;
        let name = path.display();
        check_mode(&path, &metadata).map_err(|reason| format!("{name} {reason}"))?;
        if metadata.len() == 0 {
            return Err(format!("{name} is empty; write {what} into it"));
        }
        Ok(path)
    }

    /// Reads the secret of a client and returns its hash. Returns `None` if files are not checked.
    pub(super) fn client_secret(&self, text: &str) -> Result<Option<SecretHash>, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(None) };
        let name = path.display();
        let secret = read_secret_file(&path, "the client's secret").map_err(|reason| format!("{name} {reason}"))?;
        client_rules::check_secret(&secret).map_err(|reason| format!("{name} contains no usable secret: {reason}"))?;
        Ok(Some(SecretHash::for_secret(secret.as_bytes())))
    }

    /// Reads the public keys of a client. Returns `None` if files are not checked.
    pub(super) fn client_jwks(&self, text: &str) -> Result<Option<ClientJwks>, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(None) };
        let name = path.display();
        let size = readable(&path)?.len();
        if size > MAX_JWKS_LENGTH as u64 {
            return Err(format!("{name} has {size} bytes; a client's keys have at most {MAX_JWKS_LENGTH} bytes"));
        }
        let content = fs::read_to_string(&path).map_err(|error| format!("{name} cannot be read ({error})"))?;
        ClientJwks::parse(&content).map(Some).map_err(|problem| format!("{name}: {problem}"))
    }

    /// Checks the file with the MAC key of an external ACME account.
    pub(super) fn mac_key(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        read_mac_key(&path)?;
        Ok(path)
    }

    /// Checks the file with header fields for the collector of traces.
    pub(super) fn export_headers(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        read_export_headers(&path)?;
        Ok(path)
    }

    /// Checks the file with the value of a header.
    pub(super) fn header_value(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        read_header_file(&path)?;
        Ok(path)
    }

    /// Checks the file with the password of a service account.
    pub(super) fn login_password(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        read_login_password(&path)?;
        Ok(path)
    }

    /// Reads the recipe for a login form. Returns `None` if files are not checked.
    pub(super) fn login_recipe(&self, text: &str) -> Result<Option<RecipeFile>, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(None) };
        readable(&path)?;
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name} cannot be read ({error})"))?;
        RecipeFile::parse(path, text).map(Some).map_err(|problem| format!("{name}: {problem}"))
    }

    pub(super) fn module(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        let hint = "install the token's PKCS#11 module, or correct its path";
        readable(&path).map_err(|problem| format!("{problem}; {hint}"))?;
        Ok(path)
    }

    /// Checks that SoftHSM's configuration file can be read. If the file were unreadable, SoftHSM
    /// would only report a missing token.
    pub(super) fn softhsm_conf(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        readable(&path)?;
        Ok(path)
    }

    /// Checks the store's directory. The directory may be absent, because the server creates it.
    pub(super) fn store(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_dir() => Err(format!(
                "{} is not a directory; use the path of a directory (it is created if absent)",
                path.display()
            )),
            _ => Ok(path),
        }
    }

    /// Checks the path at which a Unix socket will be created.
    pub(super) fn socket(&self, path: PathBuf) -> Result<PathBuf, String> {
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH_LENGTH {
            return Err(format!(
                "{} has {length} bytes; a Unix socket's path has at most {MAX_SOCKET_PATH_LENGTH} bytes; use a shorter path",
                path.display()
            ));
        }
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        match fs::symlink_metadata(&path) {
            // The server replaces a socket that a killed process left behind. It must not delete
            // any other file.
            Ok(metadata) if !metadata.file_type().is_socket() => {
                Err(format!("{} exists and is not a socket; use another path", path.display()))
            }
            _ => Ok(path),
        }
    }

    /// Returns whether two paths lead to the same Unix socket, also through `..` and symbolic links to
    /// directories. The sockets may be absent. A symbolic link to a socket is refused elsewhere.
    pub(super) fn are_same_socket(&self, one: &Path, other: &Path) -> bool {
        let real = |path: &Path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let FileChecks::Yes { .. } = self.checks else { return one == other };
        one == other || real(one).is_some_and(|one| Some(one) == real(other))
    }

    /// Reads a certificate chain. Use [`belong_together`] to compare it with its private key.
    pub(super) fn certificate(&self, text: &str) -> Result<Chain, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(Chain { path, certificates: Vec::new() }) };
        readable(&path)?;
        let name = path.display();
        let content = fs::read(&path).map_err(|error| format!("{name} cannot be read ({error})"))?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&content)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{name} is damaged ({error}); use a PEM file with the chain, leaf first"))?;
        if certificates.is_empty() {
            return Err(format!("{name} contains no certificate; use a PEM file with the chain, leaf first"));
        }
        Ok(Chain { path, certificates })
    }

    /// Checks a file of CA certificates.
    pub(super) fn authorities(&self, text: &str) -> Result<PathBuf, String> {
        let chain = self.certificate(text)?;
        let name = chain.path.display();
        let mut roots = RootCertStore::empty();
        for certificate in chain.certificates {
            roots.add(certificate).map_err(|error| {
                format!(
                    "{name} contains something other than a CA certificate ({error}); write X.509 certificates in PEM"
                )
            })?;
        }
        Ok(chain.path)
    }

    /// Reads a logo. Returns `None` if files are not checked.
    pub(super) fn logo(&self, text: &str) -> Result<Option<Logo>, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(None) };
        let size = readable(&path)?.len();
        let name = path.display();
        if size > MAX_LOGO_BYTES {
            return Err(format!(
                "{name} has {size} bytes; a logo has at most {MAX_LOGO_BYTES} bytes; use a smaller file"
            ));
        }
        let content = fs::read(&path).map_err(|error| format!("{name} cannot be read ({error})"))?;
        Logo::read(content).map(Some).map_err(|problem| format!("{name} {problem}"))
    }

    /// Checks that a file contains a JWK set with a usable key, for a trusted issuer.
    pub(super) fn key_set(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(path) };
        let size = readable(&path)?.len();
        let name = path.display();
        if size > jwk_set::MAX_SET_LENGTH as u64 {
            return Err(format!("{name} has {size} bytes; a key set has at most {} bytes", jwk_set::MAX_SET_LENGTH));
        }
        let content = fs::read(&path).map_err(|error| format!("{name} cannot be read ({error})"))?;
        match jwk_set::read(&content) {
            Ok(keys) if keys.is_empty() => Err(format!(
                "{name} contains no usable key; use a JWK set with public RSA (2048 to 8192 bits), P-256 \
                 or Ed25519 keys"
            )),
            Ok(_) => Ok(path),
            Err(fault) => Err(format!("{name} is not a JWK set: {fault}")),
        }
    }

    /// Checks that a directory exists.
    pub(super) fn directory(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.path(text)?;
        if matches!(self.checks, FileChecks::Yes { .. }) && !path.is_dir() {
            return Err(format!("{} is not a directory; create it, or correct the path", path.display()));
        }
        Ok(path)
    }

    /// Reads the private key of a certificate.
    pub(super) fn key(&self, text: &str) -> Result<PrivateKey, String> {
        let path = self.path(text)?;
        let FileChecks::Yes { .. } = self.checks else { return Ok(PrivateKey { path, key: None }) };
        readable(&path)?;
        let name = path.display();
        let content =
            fs::read(&path).map(Zeroizing::new).map_err(|error| format!("{name} cannot be read ({error})"))?;
        let key = PrivateKeyDer::from_pem_slice(&content).map_err(|error| {
            format!("{name} contains no usable private key ({error}); use a PEM file without a passphrase")
        })?;
        Ok(PrivateKey { path, key: Some(key) })
    }
}

/// Certificate chain. Empty if the file was not read.
pub(super) struct Chain {
    pub(super) path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}

impl Chain {
    /// Returns whether the file was read.
    pub(super) fn was_read(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Returns when the leaf certificate expires, in seconds since 1970. Returns `None` if the
    /// chain is empty or cannot be parsed.
    pub(super) fn ends(&self) -> Option<i64> {
        not_after(self.certificates.first()?)
    }

    /// Returns whether the leaf certificate is valid for this host name or IP address. An IPv6
    /// address has brackets, as in a URL. The first label of the host may be `*`.
    pub(super) fn is_for(&self, host: &str) -> bool {
        // A certificate for any label is a certificate for the wildcard.
        let host = host.strip_prefix(WILDCARD).map_or(Cow::Borrowed(host), |rest| format!("any-label.{rest}").into());
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let (Some(leaf), Ok(name)) = (self.certificates.first(), ServerName::try_from(bare)) else { return false };
        ParsedCertificate::try_from(leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }

    /// Returns whether the leaf certificate names at least one host that the wildcard covers.
    pub(super) fn is_for_part_of(&self, wildcard: &str) -> bool {
        let (Some(leaf), Some(rest)) = (self.certificates.first(), wildcard.strip_prefix(WILDCARD)) else {
            return false;
        };
        let Ok((_, leaf)) = x509_parser::parse_x509_certificate(leaf) else { return false };
        let Ok(Some(names)) = leaf.subject_alternative_name() else { return false };
        let is_part = |name: &GeneralName<'_>| match name {
            GeneralName::DNSName(name) => name.split_once('.').is_some_and(|(_, of)| of.eq_ignore_ascii_case(rest)),
            _ => false,
        };
        names.value.general_names.iter().any(is_part)
    }
}

/// Returns when a certificate expires, in seconds since 1970, or `None` if it cannot be parsed.
pub fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Private key. `key` is `None` if the file was not read.
pub(super) struct PrivateKey {
    pub(super) path: PathBuf,
    key: Option<PrivateKeyDer<'static>>,
}

/// Error of a certificate and key that do not belong together: the file to blame, with the error
/// text.
pub(super) enum Mismatch {
    Certificate(String),
    Key(String),
}

/// Checks that a private key belongs to a certificate chain, as the listener does.
pub(super) fn belong_together(chain: &Chain, key: &PrivateKey) -> Result<(), Mismatch> {
    let Some(secret) = &key.key else { return Ok(()) };
    let name = key.path.display();
    let secret = any_supported_type(secret)
        .map_err(|error| Mismatch::Key(format!("{name} cannot be used ({error}); use an RSA, ECDSA or Ed25519 key")))?;
    match CertifiedKey::new(chain.certificates.clone(), secret).keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(Error::InconsistentKeys(_)) => {
            let certificate = chain.path.display();
            Err(Mismatch::Key(format!(
                "{name} is not the key of the first certificate in {certificate}; use the matching key"
            )))
        }
        Err(error) => Err(Mismatch::Certificate(format!(
            "{} cannot be used ({error}); use an X.509 version 3 chain, leaf first",
            chain.path.display()
        ))),
    }
}

/// Checks that a file can be read. Checks the type of the file first, because opening a pipe
/// without a writer would block.
fn readable(path: &Path) -> Result<Metadata, String> {
    let cannot = |error| format!("{} cannot be read ({error})", path.display());
    let metadata = fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    File::open(path).map_err(cannot)?;
    Ok(metadata)
}

/// Maximum length of a PIN or a password in bytes.
const MAX_SECRET_LENGTH: usize = 255;

/// Reads a secret from a file. Removes one newline at the end.
///
/// `what` names the secret in errors, for instance `the token's user PIN`.
///
/// # Errors
/// Returns an error text without the file's name. The file may be absent, accessible to other
/// users, empty, too long, or not UTF-8.
pub fn read_secret_file(path: &Path, what: &str) -> Result<Zeroizing<String>, String> {
    read_longer_secret_file(path, what, MAX_SECRET_LENGTH)
}

/// Reads a secret file as [`read_secret_file`] does, but permits up to `max_length` bytes.
pub fn read_longer_secret_file(path: &Path, what: &str, max_length: usize) -> Result<Zeroizing<String>, String> {
    // Without `O_NONBLOCK`, opening a pipe without a writer would block.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| format!("cannot be read ({error})"))?;
    // Check the open file and not the path, because the file at the path could be replaced before
    // the read.
    let metadata = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    check_access(path, &metadata)?;

    let mut content = Zeroizing::new(Vec::with_capacity(max_length + 3));
    file.take(max_length as u64 + 3).read_to_end(&mut content).map_err(|error| format!("cannot be read ({error})"))?;
    let secret = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(&content);
    let secret =
        std::str::from_utf8(secret).map_err(|_| format!("is not UTF-8 text; write {what} and nothing else"))?;
    match secret.len() {
        0 => Err(format!("is empty; write {what} into it")),
        length if length <= max_length => Ok(Zeroizing::new(secret.to_owned())),
        _ => Err(format!("has more than {max_length} bytes; write {what} and nothing else")),
    }
}

fn check_access(path: &Path, metadata: &Metadata) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("is not a regular file".into());
    }
    check_mode(path, metadata)
}

/// Returns an error text without the file's name if other users have access to the file.
fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), String> {
    let forbidden = if path.starts_with(SYSTEMD_CREDENTIALS) { 0o007 } else { 0o077 };
    let mode = metadata.mode() & 0o777;
    if mode & forbidden == 0 {
        return Ok(());
    }
    Err(format!("can be accessed by other users (mode {mode:04o}); run: chmod 600 {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn credentials(directory: Option<&Path>) -> Files {
        Files::checked(PathBuf::from("/etc/sealgate"), directory.map(Path::to_owned))
    }

    fn directory_with_pin() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let pin = directory.path().join("pkcs11-pin");
        fs::write(&pin, "123456").unwrap();
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o400)).unwrap();
        directory
    }

    #[test]
    fn credential_of_the_unit_is_found_in_its_directory() {
        let directory = directory_with_pin();
        let found = credentials(Some(directory.path())).secret_file("$CREDENTIALS_DIRECTORY/pkcs11-pin", "the PIN");
        assert_eq!(found, Ok(directory.path().join("pkcs11-pin")));
    }

    #[test]
    fn a_credential_outside_of_a_unit_is_an_error_with_a_remedy() {
        let problem = credentials(None).secret_file("$CREDENTIALS_DIRECTORY/pkcs11-pin", "the PIN").unwrap_err();
        assert!(problem.contains("sealgate_do") && problem.contains("LoadCredential=pkcs11-pin:FILE"), "{problem}");
    }

    #[test]
    fn only_the_credentials_variable_at_the_start_is_replaced() {
        for text in ["$HOME/pin", "/x/$CREDENTIALS_DIRECTORY/pin", "$CREDENTIALS_DIRECTORY"] {
            let expected = Path::new("/etc/sealgate").join(text);
            assert_eq!(credentials(Some(Path::new("/run/credentials/x"))).path(text), Ok(expected));
        }
    }
}
