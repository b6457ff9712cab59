//! Keys, certificate requests, and the certificates that the server creates itself: certificates
//! for challenges, and placeholders until the first certificate is issued.

use std::fmt::Write as _;
use std::net::IpAddr;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use sealgate_system::named_certificate::is_for_name;
use sealgate_system::tls::provider;

use crate::fault::AcmeFault;
use crate::files::validity;

/// Common name of the issuer of placeholder certificates.
const PLACEHOLDER: &str = "Sealgate, no certificate issued yet";

/// A challenge that the authority is about to validate (RFC 8555 §8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChallenge {
    /// Host or IP address.
    pub host: String,
    pub token: String,
    pub key_authorization: String,
    /// SHA-256 of the key authorization.
    pub digest: Vec<u8>,
}

impl PendingChallenge {
    /// Returns the server name that the authority sends in a TLS-ALPN-01 validation.
    ///
    /// It is the host, or the reverse name of an IP address (RFC 8738 §6).
    pub fn server_name(&self) -> String {
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Ok(IpAddr::V6(address)) => {
                let mut name = String::with_capacity(72);
                for byte in address.octets().iter().rev() {
                    // Writing to a string cannot fail.
                    let _ = write!(name, "{:x}.{:x}.", byte & 0xf, byte >> 4);
                }
                name + "ip6.arpa"
            }
            Err(_) => self.host.clone(),
        }
    }
}

/// Creates the certificate of a TLS-ALPN-01 challenge (RFC 8737 §3). Returns the certificate and
/// its private key in DER.
///
/// # Errors
/// If the host is not valid in a certificate.
pub fn challenge_certificate(challenge: &PendingChallenge) -> Result<(Vec<u8>, Vec<u8>), AcmeFault> {
    let mut params = parameters(&challenge.host)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&challenge.digest)];
    let key = KeyPair::generate().map_err(AcmeFault::local)?;
    let certificate = params.self_signed(&key).map_err(AcmeFault::local)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}

fn parameters(host: &str) -> Result<CertificateParams, AcmeFault> {
    // The library creates an IP address name if the host is an IP address.
    let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(AcmeFault::local)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params)
}

/// Creates a placeholder certificate. Returns its private key and the certificate in PEM.
pub(crate) fn placeholder(host: &str) -> Result<Zeroizing<String>, AcmeFault> {
    let mut params = parameters(host)?;
    params.distinguished_name.push(DnType::CommonName, PLACEHOLDER);
    let key = KeyPair::generate().map_err(AcmeFault::local)?;
    let certificate = params.self_signed(&key).map_err(AcmeFault::local)?;
    Ok(Zeroizing::new(key.serialize_pem() + &certificate.pem()))
}

/// Returns whether a certificate is a placeholder. A certificate that cannot be parsed counts as a
/// placeholder.
pub(crate) fn is_placeholder(leaf: &[u8]) -> bool {
    let Ok((_, leaf)) = x509_parser::parse_x509_certificate(leaf) else { return true };
    leaf.issuer().iter_common_name().any(|name| name.as_str() == Ok(PLACEHOLDER))
}

/// A new private key and the certificate request for it.
pub(crate) struct CertificateRequest {
    key: KeyPair,
    pub(crate) der: Vec<u8>,
}

impl CertificateRequest {
    pub(crate) fn new(host: &str) -> Result<Self, AcmeFault> {
        let key = KeyPair::generate().map_err(AcmeFault::local)?;
        let request = parameters(host)?.serialize_request(&key).map_err(AcmeFault::local)?;
        Ok(Self { der: request.der().to_vec(), key })
    }

    /// Checks the issued chain. Returns the private key and the chain in PEM.
    ///
    /// # Errors
    /// If the certificate is for another key or host, or has expired.
    pub(crate) fn with_chain(self, host: &str, chain: &str, now: i64) -> Result<Zeroizing<String>, AcmeFault> {
        let unusable = |why: &dyn std::fmt::Display| AcmeFault::rejected(format_args!("unusable certificate: {why}"));
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(&error))?;
        let leaf = certificates.first().ok_or_else(|| unusable(&"the chain is empty"))?.clone();
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(AcmeFault::local)?;
        CertifiedKey::from_der(certificates, key, &provider()).map_err(|error| unusable(&error))?;
        let name = ServerName::try_from(host).map_err(|error| unusable(&error))?;
        let is_valid = validity(&leaf).is_some_and(|validity| validity.ends > now);
        if !is_for_name(&leaf, &name) || !is_valid {
            return Err(unusable(&"the certificate is for another host, or has expired"));
        }
        Ok(Zeroizing::new(self.key.serialize_pem() + chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(host: &str) -> PendingChallenge {
        PendingChallenge {
            host: host.to_owned(),
            token: "t".to_owned(),
            key_authorization: "t.k".to_owned(),
            digest: vec![7; 32],
        }
    }

    #[test]
    fn the_server_name_of_an_address_is_its_reverse_name() {
        assert_eq!(challenge("id.example.com").server_name(), "id.example.com");
        assert_eq!(challenge("192.0.2.1").server_name(), "1.2.0.192.in-addr.arpa");
        let reverse = "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(challenge("2001:db8::567:89ab").server_name(), reverse);
    }

    #[test]
    fn a_challenge_certificate_has_the_digest_and_is_critical() {
        for host in ["id.example.com", "192.0.2.1"] {
            let (certificate, _) = challenge_certificate(&challenge(host)).unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&certificate).unwrap();
            let identifier = parsed.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
            let identifier = identifier.unwrap();
            assert!(identifier.critical && identifier.value.ends_with(&[7; 32]), "{identifier:?}");
        }
    }

    #[test]
    fn a_chain_for_another_key_or_host_is_refused() {
        let request = || CertificateRequest::new("id.example.com").unwrap();
        let of = |request: &CertificateRequest, host: &str| {
            parameters(host).unwrap().self_signed(&request.key).unwrap().pem()
        };
        let right = request();
        let chain = of(&right, "id.example.com");
        assert!(right.with_chain("id.example.com", &chain, 0).unwrap().contains("PRIVATE KEY"));
        assert!(request().with_chain("id.example.com", &chain, 0).is_err());
        let misnamed = request();
        let chain = of(&misnamed, "other.example.com");
        assert!(misnamed.with_chain("id.example.com", &chain, 0).is_err());
        assert!(request().with_chain("id.example.com", "", 0).is_err());
    }

    #[test]
    fn a_placeholder_is_recognised() {
        let pem = placeholder("id.example.com").unwrap();
        let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        assert!(is_placeholder(&leaf));
        let (issued, _) = challenge_certificate(&challenge("id.example.com")).unwrap();
        assert!(!is_placeholder(&issued));
    }
}
