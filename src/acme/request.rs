//! Certificate signing requests for EC P-256 keys whose private part is elsewhere.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey,
};

/// Creates a certificate signing request (RFC 2986) for these host names and IP addresses, in PEM.
///
/// `point` is the uncompressed public point. `sign` returns the DER `ECDSA-Sig-Value` over the SHA-256
/// hash of its input, or `None` if it fails. The first host is also the common name.
///
/// # Errors
/// If a host is not valid in a certificate, or `sign` fails.
pub fn certificate_request(
    hosts: &[String],
    point: &[u8],
    sign: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<String, String> {
    let mut params = CertificateParams::new(hosts).map_err(|error| error.to_string())?;
    params.distinguished_name = DistinguishedName::new();
    if let Some(first) = hosts.first() {
        params.distinguished_name.push(DnType::CommonName, first.as_str());
    }
    let request = params.serialize_request(&RemoteKey { point, sign }).and_then(|request| request.pem());
    request.map_err(|error| format!("cannot create the request: {error}"))
}

struct RemoteKey<'a, F> {
    point: &'a [u8],
    sign: F,
}

impl<F> PublicKeyData for RemoteKey<'_, F> {
    fn der_bytes(&self) -> &[u8] {
        self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl<F: Fn(&[u8]) -> Option<Vec<u8>>> SigningKey for RemoteKey<'_, F> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        (self.sign)(message).ok_or(rcgen::Error::RemoteKeyError)
    }
}
