//! Verification of the certificate chain that attests a key (RFC 5280).
//!
//! webpki verifies the path to a root. This module also checks each certificate itself, to report
//! which certificate is wrong.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime as PkiTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, anchor_from_trusted_cert};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as Certified;

use crate::PublicKey;
use sealgate_domain::oauth::jwk_set::Numbers;
use sealgate_domain::time::UnixTime;

/// Maximum number of certificates in a chain. webpki follows at most six issuers.
const MAX_CHAIN_LENGTH: usize = 8;

/// Algorithm identifier of Ed25519 in certificates (RFC 8410 §3).
const ED25519: &str = "1.3.101.112";

/// Certificate in which a valid chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChainRoot {
    /// A root that the auditor trusts. Contains its subject.
    Trusted(String),
    /// The last certificate of the chain, which is not such a root. Contains its subject.
    NotTrusted(String),
}

/// Verifies a chain for `key`. The leaf is the first certificate.
///
/// # Errors
/// Every reason why the chain does not attest the key, one line each.
pub(super) fn verify(
    chain: &[CertificateDer<'_>],
    key: &PublicKey,
    roots: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<ChainRoot, Vec<String>> {
    if chain.len() > MAX_CHAIN_LENGTH {
        return Err(vec![format!("the chain has {} certificates, and the limit is {MAX_CHAIN_LENGTH}", chain.len())]);
    }
    let parsed = chain.iter().enumerate().map(|(at, der)| parse(der).map_err(|why| vec![at_certificate(at, &why)]));
    let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
    let ([leaf, ..], [leaf_der, issuers @ ..]) = (&parsed[..], chain) else {
        return Err(vec!["the chain has no certificate".into()]);
    };
    let mut faults = Vec::new();
    if !certifies(leaf, key) {
        faults.push("the first certificate is for a key that differs from the published one".into());
    }
    for (at, certificate) in parsed.iter().enumerate() {
        faults.extend(why_not_valid_at(certificate, now).map(|why| at_certificate(at, &why)));
        if at > 0 {
            faults.extend(why_not_an_issuer(certificate).map(|why| at_certificate(at, why)));
        }
    }
    for (at, pair) in parsed.windows(2).enumerate() {
        if let [issued, issuer] = pair
            && issued.issuer().as_raw() != issuer.subject().as_raw()
        {
            faults.push(at_certificate(
                at,
                &format!("was issued by {}, which is not the next certificate", issued.issuer()),
            ));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    for root in roots {
        let parsed = parse(root).map_err(|why| vec![format!("a configured root {why}")])?;
        if path(leaf_der, issuers, root, now).is_ok() {
            return match why_not_valid_at(&parsed, now) {
                Some(why) => Err(vec![format!("the configured root {} {why}", parsed.subject())]),
                None => Ok(ChainRoot::Trusted(parsed.subject().to_string())),
            };
        }
    }
    let ([between @ .., last_der], Some(last)) = (issuers, parsed.last()) else {
        return Err(vec![format!(
            "the chain ends with its first certificate: name the root, or the certificate of the issuer, {}",
            leaf.issuer()
        )]);
    };
    match path(leaf_der, between, last_der, now) {
        Ok(()) => Ok(ChainRoot::NotTrusted(last.subject().to_string())),
        Err(error) => Err(vec![error]),
    }
}

/// Parses a certificate. Rejects trailing bytes.
fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("has trailing bytes".into()),
        Err(_) => Err("is not a complete certificate".into()),
    }
}

fn certifies(leaf: &X509Certificate<'_>, key: &PublicKey) -> bool {
    let certified = leaf.public_key();
    match (certified.parsed(), key.numbers()) {
        (Ok(Certified::RSA(certified)), Numbers::Rsa { n, e }) => {
            without_zeros(certified.modulus) == n.as_slice() && without_zeros(certified.exponent) == e.as_slice()
        }
        // An uncompressed point of 65 bytes is on P-256 among the curves of certificates, and the
        // published key was checked to be on it.
        (Ok(Certified::EC(certified)), Numbers::P256(point)) => certified.data() == point.as_slice(),
        (_, Numbers::Ed25519(key)) => {
            certified.algorithm.algorithm.to_id_string() == ED25519
                && certified.subject_public_key.data == key.as_slice()
        }
        _ => false,
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

fn why_not_valid_at(certificate: &X509Certificate<'_>, now: UnixTime) -> Option<String> {
    let now = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Some(format!("is valid from {}", validity.not_before));
    }
    (now > validity.not_after.timestamp()).then(|| format!("expired at {}", validity.not_after))
}

/// Returns why a certificate must not issue other certificates, or `None` if it may.
///
/// Without this check, the holder of an attested key could issue certificates in the vendor's name.
fn why_not_an_issuer(certificate: &X509Certificate<'_>) -> Option<&'static str> {
    match certificate.basic_constraints() {
        Ok(Some(constraints)) if constraints.value.ca => {}
        _ => return Some("is not a CA certificate (no CA:TRUE), so it cannot issue certificates"),
    }
    match certificate.key_usage() {
        Ok(Some(usage)) if !usage.value.key_cert_sign() => Some("has a key usage without certificate signing"),
        Ok(_) => None,
        Err(_) => Some("has an unreadable key usage"),
    }
}

/// Verifies the signatures, validity periods and constraints from the leaf to `anchor`.
fn path(
    leaf: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    anchor: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<(), String> {
    let refused = |error: webpki::Error| match error {
        webpki::Error::InvalidSignatureForPublicKey => "a signature in the chain does not verify".to_owned(),
        webpki::Error::CaUsedAsEndEntity => "the first certificate is a CA certificate, not an attestation".to_owned(),
        webpki::Error::UnknownIssuer => "the chain does not link up to its last certificate".to_owned(),
        other => format!("the chain does not verify ({other:?})"),
    };
    let algorithms = sealgate_system::tls::provider().signature_verification_algorithms;
    let anchors: [TrustAnchor<'_>; 1] = [anchor_from_trusted_cert(anchor).map_err(refused)?];
    let leaf = EndEntityCert::try_from(leaf).map_err(refused)?;
    let time = PkiTime::since_unix_epoch(Duration::from_secs(now.seconds()));
    leaf.verify_for_usage(algorithms.all, &anchors, between, time, AnyPurpose, None, None).map_err(refused)?;
    Ok(())
}

/// Accepts every extended key usage: vendors define none for attestations.
struct AnyPurpose;

impl ExtendedKeyUsageValidator for AnyPurpose {
    fn validate(&self, mut purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        purposes.try_for_each(|purpose| purpose.map(|_| ()))
    }
}

fn at_certificate(at: usize, why: &str) -> String {
    format!("certificate {} {why}", at + 1)
}
