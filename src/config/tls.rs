//! Certificates of the public listeners, and settings for client certificates.

use std::path::PathBuf;

use serde::Serialize;

/// Scheme of a key that is in the PKCS#11 token (RFC 7512).
const TOKEN_SCHEME: &str = "pkcs11:";
/// Maximum length of the label of a key in the token, in bytes.
const MAX_LABEL_LENGTH: usize = 64;

/// PEM files of a certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate chain, starting with the leaf.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Certificate of the public listeners: the PEM file of its chain, and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerCertificate {
    /// Certificate chain, starting with the leaf.
    pub certificate: PathBuf,
    pub key: CertificateKey,
}

/// Place of a certificate's private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateKey {
    /// PEM file.
    File(PathBuf),
    /// Key with this label (`CKA_LABEL`) in the token of `[hsm]`.
    Token(String),
}

impl From<TlsConfig> for ListenerCertificate {
    fn from(files: TlsConfig) -> Self {
        Self { certificate: files.certificate, key: CertificateKey::File(files.key) }
    }
}

/// Parses `pkcs11:object=LABEL`, a subset of RFC 7512. Returns `None` for a text with another
/// scheme or no scheme: such a text is the path of a file.
///
/// The label consists of characters that need no encoding in a URI, so each key has only one
/// spelling.
pub(super) fn token_key_label(text: &str) -> Option<Result<String, String>> {
    let attributes = text.strip_prefix(TOKEN_SCHEME)?;
    let Some(label) = attributes.strip_prefix("object=").filter(|label| !label.contains([';', '?'])) else {
        return Some(Err(format!(
            "{text:?} is not supported; write \"pkcs11:object=LABEL\". Module, token and PIN are those of [hsm]"
        )));
    };
    Some(tls_key_label(label))
}

/// Checks the label of a TLS key in the token.
///
/// # Errors
/// One line with the allowed values.
pub fn tls_key_label(label: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if label.is_empty() || label.len() > MAX_LABEL_LENGTH || !label.bytes().all(is_plain) {
        return Err(format!(
            "{label:?} is not the label of a TLS key; write 1 to {MAX_LABEL_LENGTH} letters, digits, '-', '.', \
             '_' or '~'"
        ));
    }
    Ok(label.to_owned())
}

/// Settings for client certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign client certificates.
    #[serde(rename = "client_ca", serialize_with = "super::serialize::as_debug")]
    pub ca: PathBuf,
    /// Whether clients must present a certificate.
    #[serde(rename = "client_certificates")]
    pub demand: Presence,
}

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Presence {
    Optional,
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_with_a_label_names_a_key_in_the_token() {
        assert_eq!(token_key_label("pkcs11:object=tls-2026.a_b~c"), Some(Ok("tls-2026.a_b~c".to_owned())));
        assert_eq!(token_key_label("/etc/tls/key.pem"), None);
        assert_eq!(token_key_label("tls/pkcs11:object=a"), None);
    }

    #[test]
    fn other_attributes_and_encoded_labels_are_refused() {
        for text in [
            "pkcs11:",
            "pkcs11:tls",
            "pkcs11:token=a;object=b",
            "pkcs11:object=a;type=private",
            "pkcs11:object=a?pin-value=1",
        ] {
            let problem = token_key_label(text).unwrap().unwrap_err();
            assert!(problem.contains("write \"pkcs11:object=LABEL\""), "{problem}");
        }
        for label in ["", "a%20b", "a b", "ş", &"a".repeat(65)] {
            let problem = token_key_label(&format!("pkcs11:object={label}")).unwrap().unwrap_err();
            assert!(problem.contains("is not the label of a TLS key"), "{problem}");
        }
    }
}
