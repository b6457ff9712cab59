//! Verification of client certificates, and the header fields that describe them to applications.
//!
//! Revocation lists are not checked. The operator's own authority issues the client certificates,
//! and should issue them with a short lifetime.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora::listeners::TlsAccept;
use pingora::protocols::tls::{SslDigest, TlsRef};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::certificate::read_ca_certificates;
use sealgate_config::{ClientCertificates, Presence, not_after};
use sealgate_system::tls::listener_provider;

/// Field with the subject of the client certificate (RFC 4514), in ASCII.
const SUBJECT: HeaderName = HeaderName::from_static("x-sealgate-client-subject");
/// Field with the SHA-256 digest of the client certificate, in hexadecimal.
const FINGERPRINT: HeaderName = HeaderName::from_static("x-sealgate-client-fingerprint");

/// Maximum length of a forwarded subject, in bytes.
///
/// Servers typically accept 8 KiB for all fields. A longer subject is not sent. If it were cut off,
/// it could equal the subject of another client.
const MAX_SUBJECT_LENGTH: usize = 1024;

/// Certificate of a client. The client has proved that it has the private key.
#[derive(Debug)]
pub(crate) struct VerifiedClientCertificate {
    subject: Option<HeaderValue>,
    fingerprint: HeaderValue,
    /// Certificate chain, leaf first. The chain is verified again while the connection is open.
    chain: Vec<CertificateDer<'static>>,
    /// Expiry of each certificate of the chain, in seconds since 1970.
    expiries: Vec<u64>,
}

impl VerifiedClientCertificate {
    /// Returns the client certificate of this connection, if there is one.
    pub(crate) fn from_tls(tls: &SslDigest) -> Option<&Self> {
        tls.extension.get::<Self>()
    }

    /// Returns the first second after `time` at which a certificate of the chain has expired.
    pub(crate) fn next_expiry(&self, time: UnixTime) -> Option<u64> {
        self.expiries.iter().map(|end| end.saturating_add(1)).filter(|end| *end > time.as_secs()).min()
    }
}

/// Sets the fields that describe the client certificate, and removes such fields of the client's
/// request.
///
/// Clients cannot set these fields themselves, even without a certificate.
pub(crate) fn set_fields(fields: &mut HeaderMap, tls: Option<&SslDigest>) {
    fields.remove(SUBJECT);
    fields.remove(FINGERPRINT);
    let Some(shown) = tls.and_then(VerifiedClientCertificate::from_tls) else { return };
    if let Some(subject) = &shown.subject {
        fields.insert(SUBJECT, subject.clone());
    }
    fields.insert(FINGERPRINT, shown.fingerprint.clone());
}

/// Callback that stores the verified certificate of a new connection.
pub(crate) struct ClientCertificateReader;

#[async_trait]
impl TlsAccept for ClientCertificateReader {
    async fn handshake_complete_callback(&self, tls: &TlsRef) -> Option<Arc<dyn Any + Send + Sync>> {
        let chain = tls.peer_cert_chain_der()?;
        let certificate = chain.first()?;
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let subject = Some(subject(parsed.subject())).filter(|text| (1..=MAX_SUBJECT_LENGTH).contains(&text.len()));
        let fingerprint = hexadecimal(&Sha256::digest(certificate));
        let shown = VerifiedClientCertificate {
            subject: subject.and_then(|text| HeaderValue::from_str(&text).ok()),
            fingerprint: HeaderValue::from_str(&fingerprint).ok()?,
            chain: chain.to_vec(),
            expiries: chain.iter().filter_map(|one| not_after(one)).filter_map(|end| u64::try_from(end).ok()).collect(),
        };
        Some(Arc::new(shown))
    }
}

/// Verifier of client certificates signed by the operator's authorities.
#[derive(Debug)]
pub(crate) struct ClientVerifier(Arc<dyn ClientCertVerifier>);

impl ClientVerifier {
    /// Creates a verifier with the authorities in the configured file.
    ///
    /// # Errors
    /// One line that names the file and the error.
    pub(crate) fn new(clients: &ClientCertificates) -> Result<Self, String> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in read_ca_certificates(&clients.ca)? {
            roots.add(certificate).map_err(|error| format!("{}: {error}", clients.ca.display()))?;
        }
        let provider = listener_provider();
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match clients.demand {
            Presence::Optional => builder.allow_unauthenticated(),
            Presence::Required => builder,
        };
        builder.build().map(Self).map_err(|error| format!("{}: {error}", clients.ca.display()))
    }

    /// Returns whether a client with this certificate would be accepted at `now`. `None` is a
    /// client without a certificate.
    pub(crate) fn admits(&self, shown: Option<&VerifiedClientCertificate>, now: UnixTime) -> bool {
        match shown.map(|shown| shown.chain.split_first()) {
            None => !self.client_auth_mandatory(),
            Some(Some((leaf, intermediates))) => self.verify_client_cert(leaf, intermediates, now).is_ok(),
            Some(None) => false,
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(leaf, intermediates, now)?;
        // Pingora parses the certificate with the same parser, and panics if the parser fails.
        x509_parser::parse_x509_certificate(leaf).map_err(|_| CertificateError::BadEncoding)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Formats a distinguished name (RFC 4514 §2.1), most specific attribute first.
fn subject(name: &X509Name<'_>) -> String {
    let mut parts: Vec<_> = name.iter().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.reverse();
    parts.join(",")
}

/// Formats an attribute as `TYPE=value`.
///
/// If the type has no name or the value is not text, the value is written in DER (RFC 4514 §2.4).
fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let number = attribute.attr_type().to_id_string();
    // The names of RFC 4514 §3, and `emailAddress`, which certificates often contain.
    let name = match number.as_str() {
        "2.5.4.3" => "CN",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "STREET",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        other => return format!("{other}={}", encoded(attribute)),
    };
    match attribute.as_str() {
        Ok(text) => format!("{name}={}", escaped(text)),
        Err(_) => format!("{name}={}", encoded(attribute)),
    }
}

/// Escapes a value so that it cannot be read as several attributes.
///
/// For example, `O=a\,CN=admin` is one organisation with an unusual name.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' | b'=' => written.extend(['\\', char::from(byte)]),
            b'#' | b' ' if at == 0 => written.extend(['\\', char::from(byte)]),
            b' ' if at == last => written.push_str("\\ "),
            b' '..=b'~' => written.push(char::from(byte)),
            // Non-ASCII bytes are escaped because header fields have no defined encoding.
            _ => {
                written.push('\\');
                written.push_str(&hexadecimal(&[byte]));
            }
        }
    }
    written
}

/// Formats a value as `#` and its DER encoding: tag, length and content.
fn encoded(attribute: &AttributeTypeAndValue<'_>) -> String {
    let content = attribute.as_slice();
    let tag = u8::try_from(attribute.attr_value().tag().0).unwrap_or_default();
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut header = vec![tag];
    match length {
        [0, short @ ..0x80] => header.push(short),
        [0, middle] => header.extend([0x81, middle]),
        [high, low] => header.extend([0x82, high, low]),
    }
    format!("#{}{}", hexadecimal(&header), hexadecimal(content))
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).filter_map(|half| DIGITS.get(usize::from(half))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_value_is_not_read_as_several_attributes() {
        for (text, written) in [
            ("Anna", "Anna"),
            ("a,CN=admin", "a\\,CN\\=admin"),
            ("a+b\\\"<>;", "a\\+b\\\\\\\"\\<\\>\\;"),
            (" #a ", "\\ #a\\ "),
            ("#a", "\\#a"),
            ("ş\r\n\0", "\\c5\\9f\\0d\\0a\\00"),
        ] {
            assert_eq!(escaped(text), written);
        }
    }
}
