//! Private keys of TLS certificates in the token: EC P-256 keys that sign handshakes. The keys that
//! sign client assertions for upstream providers are of the same kind.
//!
//! These keys are separate from the signing keys: they have other labels, another key type and
//! another mechanism.

use std::collections::BTreeSet;
use std::fmt;

use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, SessionState};
use serde::Serialize;

use crate::error::{SignError, SignerOpenError};
use crate::fault::{ErrorClass, TokenFault};
use crate::key::{flag, private_key_template, protection_faults};
use crate::public_key::{hex, sha256, without_leading_zeros};
use crate::worker::with_session;
use sealgate_config as config;

/// Length of an uncompressed P-256 point, in bytes.
const POINT_BYTES: usize = 65;

/// First byte of an uncompressed point (SEC 1 §2.3.3).
const UNCOMPRESSED: u8 = 0x04;

/// DER header of the `OCTET STRING` that contains the point in `CKA_EC_POINT`.
const POINT_HEADER: [u8; 2] = [0x04, 65];

/// `CKA_EC_PARAMS` of P-256: the DER object identifier prime256v1.
pub(super) const P256: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// DER of a `SubjectPublicKeyInfo` of P-256 up to the point (RFC 5480 §2).
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// An EC P-256 private key in the token, for a TLS certificate.
///
/// It contains no handle, because handles become invalid at logout.
#[derive(Clone)]
pub struct TlsKey {
    label: String,
    id: Vec<u8>,
    point: [u8; POINT_BYTES],
    verifier: ParsedPublicKey,
}

impl TlsKey {
    /// Returns the `CKA_LABEL`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the `CKA_ID` in hexadecimal.
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// Returns the public key as an uncompressed point.
    pub fn point(&self) -> &[u8] {
        &self.point
    }

    /// Returns the public key as a DER `SubjectPublicKeyInfo` (RFC 5280 §4.1).
    pub fn subject_public_key_info(&self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.point].concat()
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsKey").field("label", &self.label).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Reason why a label selects no usable TLS key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfitTlsKey {
    #[error("the token has no private key with this label; run: sealgate key generate-tls-key {label} --config FILE")]
    Missing { label: String },
    #[error("{count} private keys have this label; delete all but one")]
    Several { count: usize },
    /// The key is not an EC key on P-256.
    #[error(
        "it is {kind}; TLS keys in a token must be EC keys on P-256. Create one under another label with: sealgate \
         key generate-tls-key LABEL --config FILE"
    )]
    Kind { kind: &'static str },
    #[error("it is refused: {}; create another one with: sealgate key generate-tls-key LABEL --config FILE", .0.join(", "))]
    Faults(Vec<String>),
}

impl UnfitTlsKey {
    pub(crate) fn of(self, token: &str, label: &str) -> SignerOpenError {
        SignerOpenError::TlsKey { token: token.to_owned(), label: label.to_owned(), reason: self.to_string() }
    }
}

/// Finds the only private key with this label, checks its attributes and tests that it signs.
///
/// The inner error says why the key is unsuitable.
pub(super) fn find(
    session: &Session,
    label: &str,
    require_local: bool,
) -> Result<Result<TlsKey, UnfitTlsKey>, TokenFault> {
    let handle = match private_keys(session, label)?[..] {
        [handle] => handle,
        // After a lost login, a token returns no private keys and no error.
        [] if !is_logged_in(session)? => return Err(TokenFault::new(ErrorClass::Login, "the login was lost")),
        [] => return Ok(Err(UnfitTlsKey::Missing { label: label.to_owned() })),
        ref several => return Ok(Err(UnfitTlsKey::Several { count: several.len() })),
    };
    let key = match read(session, handle, label, require_local)? {
        Ok(key) => key,
        Err(unfit) => return Ok(Err(unfit)),
    };
    match sign(session, handle, &key, &sha256(b"sealgate proves that this TLS key signs")) {
        Ok(_) => Ok(Ok(key)),
        Err(fault) if fault.class == ErrorClass::Bug => {
            Ok(Err(UnfitTlsKey::Faults(vec![format!("it does not sign with CKM_ECDSA ({fault})")])))
        }
        Err(fault) => Err(fault),
    }
}

/// Finds the handle of a known key in this session's login.
pub(super) fn find_again(session: &Session, key: &TlsKey) -> Result<ObjectHandle, TokenFault> {
    let template = [
        Attribute::Class(ObjectClass::PRIVATE_KEY),
        Attribute::KeyType(KeyType::EC),
        Attribute::Label(key.label.as_bytes().to_vec()),
        Attribute::Id(key.id.clone()),
    ];
    match session.find_objects(&template)?[..] {
        [handle] => Ok(handle),
        [] if !is_logged_in(session)? => Err(TokenFault::new(ErrorClass::Login, "the login was lost")),
        // Do not report this as an error of the device: the reset after each handshake would
        // interrupt the signing of tokens.
        ref found => Err(TokenFault::new(
            ErrorClass::Bug,
            format!("the token has the TLS key \"{}\" (CKA_ID {}) {} times", key.label, key.id(), found.len()),
        )),
    }
}

/// Signs a SHA-256 digest. Returns the signature as a DER `ECDSA-Sig-Value` (RFC 3279 §2.2.3).
pub(super) fn sign(
    session: &Session,
    handle: ObjectHandle,
    key: &TlsKey,
    digest: &Digest,
) -> Result<Vec<u8>, TokenFault> {
    der_signature(&sign_raw(session, handle, key, digest)?).ok_or_else(wrong_signature)
}

/// Signs a SHA-256 digest. Returns r and s, 32 bytes each (RFC 7518 §3.4).
///
/// Verifies the signature with the public key first, as for tokens.
pub(super) fn sign_raw(
    session: &Session,
    handle: ObjectHandle,
    key: &TlsKey,
    digest: &Digest,
) -> Result<Vec<u8>, TokenFault> {
    let raw = session.sign(&Mechanism::Ecdsa, handle, digest.as_ref())?;
    let is_valid = key.verifier.verify_digest_sig(digest, &raw).is_ok();
    Some(raw).filter(|_| is_valid).ok_or_else(wrong_signature)
}

fn wrong_signature() -> TokenFault {
    TokenFault::new(ErrorClass::WrongSignature, "the token's signature does not verify with the TLS key")
}

/// Converts a raw P-256 signature (r and s, 32 bytes each) to DER. Returns `None` if the length is
/// different, or if r or s is zero.
fn der_signature(raw: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = raw.split_at_checked(32).filter(|(_, s)| s.len() == 32)?;
    let mut integers = Vec::with_capacity(70);
    for number in [r, s] {
        let number = without_leading_zeros(number);
        let first = number.first()?;
        // A DER integer is signed. If the top bit of a number is set, a zero byte is prepended, so
        // that the number is positive.
        let padding: &[u8] = if first & 0x80 == 0 { &[] } else { &[0] };
        integers.push(0x02);
        // Two numbers of at most 33 bytes: all lengths fit into one byte.
        integers.push(u8::try_from(padding.len() + number.len()).ok()?);
        integers.extend_from_slice(padding);
        integers.extend_from_slice(number);
    }
    let length = u8::try_from(integers.len()).ok()?;
    Some([&[0x30, length], integers.as_slice()].concat())
}

fn private_keys(session: &Session, label: &str) -> Result<Vec<ObjectHandle>, TokenFault> {
    let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Label(label.as_bytes().to_vec())];
    Ok(session.find_objects(&template)?)
}

fn is_logged_in(session: &Session) -> Result<bool, TokenFault> {
    Ok(matches!(session.get_session_info()?.session_state(), SessionState::RoUser | SessionState::RwUser))
}

fn read(
    session: &Session,
    handle: ObjectHandle,
    label: &str,
    require_local: bool,
) -> Result<Result<TlsKey, UnfitTlsKey>, TokenFault> {
    let kind = session.get_attributes(handle, &[AttributeType::KeyType])?;
    match kind[..] {
        [Attribute::KeyType(KeyType::EC)] => {}
        [Attribute::KeyType(KeyType::RSA)] => return Ok(Err(UnfitTlsKey::Kind { kind: "an RSA key" })),
        _ => return Ok(Err(UnfitTlsKey::Kind { kind: "no EC key" })),
    }
    let attributes = session.get_attributes(
        handle,
        &[
            AttributeType::Id,
            AttributeType::Sensitive,
            AttributeType::AlwaysSensitive,
            AttributeType::Extractable,
            AttributeType::NeverExtractable,
            AttributeType::Local,
            AttributeType::Sign,
            AttributeType::AlwaysAuthenticate,
        ],
    )?;
    let id = attributes.iter().find_map(|attribute| match attribute {
        Attribute::Id(id) => Some(id.clone()),
        _ => None,
    });
    let id = id.unwrap_or_default();
    let mut faults = protection_faults(|kind| flag(&attributes, kind), require_local);
    if id.is_empty() {
        faults.push("CKA_ID is empty".to_owned());
    }
    let EncodedPublicKey { parameters, point: encoded } = EncodedPublicKey::read(session, handle, &id, KeyType::EC)?;
    if parameters.as_deref().is_some_and(|parameters| parameters != P256) {
        return Ok(Err(UnfitTlsKey::Kind { kind: "an EC key on another curve" }));
    }
    let public = encoded.as_deref().and_then(point).and_then(|point| {
        let verifier = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok()?;
        Some((point, verifier))
    });
    let Some((point, verifier)) = public.filter(|_| parameters.is_some()) else {
        faults.push("the token reports no public key for it (CKA_EC_PARAMS and CKA_EC_POINT)".to_owned());
        return Ok(Err(UnfitTlsKey::Faults(faults)));
    };
    if !faults.is_empty() {
        return Ok(Err(UnfitTlsKey::Faults(faults)));
    }
    Ok(Ok(TlsKey { label: label.to_owned(), id, point, verifier }))
}

/// `CKA_EC_PARAMS` and `CKA_EC_POINT`, as far as the token reports them.
#[derive(Default)]
pub(super) struct EncodedPublicKey {
    pub(super) parameters: Option<Vec<u8>>,
    pub(super) point: Option<Vec<u8>>,
}

impl EncodedPublicKey {
    /// Reads the public key of a private key. Most tokens keep the point only in the public key
    /// object that has the same `CKA_ID`.
    pub(super) fn read(session: &Session, private: ObjectHandle, id: &[u8], kind: KeyType) -> Result<Self, TokenFault> {
        let own = Self::of_object(session, private)?;
        if (own.parameters.is_some() && own.point.is_some()) || id.is_empty() {
            return Ok(own);
        }
        let template =
            [Attribute::Class(ObjectClass::PUBLIC_KEY), Attribute::KeyType(kind), Attribute::Id(id.to_vec())];
        let [public] = session.find_objects(&template)?[..] else { return Ok(own) };
        let public = Self::of_object(session, public)?;
        Ok(Self { parameters: own.parameters.or(public.parameters), point: own.point.or(public.point) })
    }

    fn of_object(session: &Session, object: ObjectHandle) -> Result<Self, TokenFault> {
        let mut attributes = Self::default();
        for attribute in session.get_attributes(object, &[AttributeType::EcParams, AttributeType::EcPoint])? {
            match attribute {
                Attribute::EcParams(bytes) if !bytes.is_empty() => attributes.parameters = Some(bytes),
                Attribute::EcPoint(bytes) if !bytes.is_empty() => attributes.point = Some(bytes),
                _ => {}
            }
        }
        Ok(attributes)
    }
}

/// Returns the uncompressed point. Some tokens report it without the `OCTET STRING` around it.
pub(super) fn point(encoded: &[u8]) -> Option<[u8; POINT_BYTES]> {
    let bare = encoded.strip_prefix(&POINT_HEADER).filter(|bare| bare.len() == POINT_BYTES).unwrap_or(encoded);
    bare.try_into().ok().filter(|point: &[u8; POINT_BYTES]| point[0] == UNCOMPRESSED)
}

/// Generates a non-extractable EC P-256 key pair for a TLS certificate.
///
/// `id` becomes its `CKA_ID`; 16 random bytes are enough.
///
/// # Errors
/// [`SignerOpenError::TlsKey`] if the label is reserved or in use, or if the token ignored a
/// requested property. The new key is then removed. Other errors as for opening a signer.
pub fn generate_tls_key(hsm: &config::Hsm, label: &str, id: &[u8]) -> Result<TlsKey, SignerOpenError> {
    hsm.allow_tls_key_label(label).map_err(|reason| refused(hsm, label, reason))?;
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        if !private_keys(session, label).map_err(device)?.is_empty() {
            return Err(refused(hsm, label, "a private key with this label exists; nothing was generated".to_owned()));
        }
        let common = [
            Attribute::Token(true),
            Attribute::KeyType(KeyType::EC),
            Attribute::Label(label.as_bytes().to_vec()),
            Attribute::Id(id.to_vec()),
        ];
        let mut public = vec![Attribute::EcParams(P256.to_vec()), Attribute::Private(false)];
        public.extend_from_slice(&common);
        let mut private = private_key_template();
        private.extend_from_slice(&common);
        let key_pair = session.generate_key_pair(&Mechanism::EccKeyPairGen, &public, &private);
        let (public, private) = key_pair.map_err(|error| device(error.into()))?;
        let key_result = find(session, label, hsm.require_local).map_err(device)?;
        if key_result.is_err() {
            for object in [public, private] {
                if let Err(error) = session.destroy_object(object) {
                    tracing::error!(%error, id = hex(id), "cannot remove the unsuitable key; remove it by hand");
                }
            }
        }
        key_result.map_err(|unfit| unfit.of(&hsm.token_label, label))
    })
}

/// Description of a TLS key for commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsKeyReport {
    /// `CKA_LABEL`.
    pub label: String,
    /// `CKA_ID` in hexadecimal. `None` if the key cannot be used.
    pub id: Option<String>,
    /// Key type and curve. `None` if the key cannot be used.
    pub algorithm: Option<&'static str>,
    /// Reason why the key cannot be used.
    pub problem: Option<String>,
    /// Whether no private key has the label.
    #[serde(skip)]
    pub is_missing: bool,
}

impl TlsKeyReport {
    fn new(label: String, key_result: Result<TlsKey, UnfitTlsKey>) -> Self {
        match key_result {
            Ok(key) => {
                Self { label, id: Some(key.id()), algorithm: Some("EC P-256"), problem: None, is_missing: false }
            }
            Err(unfit) => {
                let is_missing = matches!(unfit, UnfitTlsKey::Missing { .. });
                Self { label, id: None, algorithm: None, problem: Some(unfit.to_string()), is_missing }
            }
        }
    }
}

/// Describes TLS keys in the token, in the order of their labels: every EC key with a label that
/// TLS keys may have, and the keys with the labels in `expected`. Checks their attributes, but does
/// not sign.
///
/// # Errors
/// The errors of opening a signer that concern the token.
pub fn list_tls_keys(hsm: &config::Hsm, expected: &[String]) -> Result<Vec<TlsKeyReport>, SignerOpenError> {
    with_session(hsm, |session| {
        reports(session, hsm, expected).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))
    })
}

fn reports(session: &Session, hsm: &config::Hsm, expected: &[String]) -> Result<Vec<TlsKeyReport>, TokenFault> {
    let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::EC)];
    let mut labels: BTreeSet<String> = expected.iter().cloned().collect();
    for handle in session.find_objects(&template)? {
        for attribute in session.get_attributes(handle, &[AttributeType::Label])? {
            let Attribute::Label(label) = attribute else { continue };
            let label = String::from_utf8(label).ok().and_then(|label| config::tls_key_label(&label).ok());
            labels.extend(label.filter(|label| hsm.allow_tls_key_label(label).is_ok()));
        }
    }
    let mut reports = Vec::new();
    for label in labels {
        let key_result = match private_keys(session, &label)?[..] {
            [handle] => read(session, handle, &label, hsm.require_local)?,
            [] => Err(UnfitTlsKey::Missing { label: label.clone() }),
            ref several => Err(UnfitTlsKey::Several { count: several.len() }),
        };
        reports.push(TlsKeyReport::new(label, key_result));
    }
    Ok(reports)
}

/// A TLS key in an open session of the token, for commands.
pub struct OpenTlsKey<'a> {
    session: &'a Session,
    handle: ObjectHandle,
    key: TlsKey,
}

impl OpenTlsKey<'_> {
    /// Returns the key's public part and its ID in the token.
    pub fn key(&self) -> &TlsKey {
        &self.key
    }

    /// Signs a message with SHA-256. Returns a DER `ECDSA-Sig-Value`.
    ///
    /// # Errors
    /// If the token fails.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        sign(self.session, self.handle, &self.key, &sha256(message)).map_err(|fault| SignError::Unavailable(fault.text))
    }

    /// Signs a message with SHA-256. Returns r and s, 32 bytes each (RFC 7518 §3.4).
    ///
    /// # Errors
    /// If the token fails.
    pub fn sign_raw(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        sign_raw(self.session, self.handle, &self.key, &sha256(message))
            .map_err(|fault| SignError::Unavailable(fault.text))
    }
}

/// Opens the token for `work` with the TLS key that has this label. Call it only in a process without
/// a [`crate::Signer`].
///
/// # Errors
/// [`SignerOpenError::TlsKey`] if the key is unsuitable. Other errors as for opening a signer.
pub fn with_tls_key<T>(
    hsm: &config::Hsm,
    label: &str,
    work: impl FnOnce(&OpenTlsKey<'_>) -> T,
) -> Result<T, SignerOpenError> {
    hsm.allow_tls_key_label(label).map_err(|reason| refused(hsm, label, reason))?;
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        let key = find(session, label, hsm.require_local).map_err(device)?;
        let key = key.map_err(|unfit| unfit.of(&hsm.token_label, label))?;
        let handle = find_again(session, &key).map_err(device)?;
        Ok(work(&OpenTlsKey { session, handle, key }))
    })
}

fn refused(hsm: &config::Hsm, label: &str, reason: String) -> SignerOpenError {
    SignerOpenError::TlsKey { token: hsm.token_label.clone(), label: label.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(r: &[u8], s: &[u8]) -> Vec<u8> {
        let padded = |number: &[u8]| [vec![0; 32 - number.len()], number.to_vec()].concat();
        [padded(r), padded(s)].concat()
    }

    #[test]
    fn short_numbers_have_no_leading_zeros_in_der() {
        assert_eq!(der_signature(&raw(&[1], &[0x7f, 0xff])).unwrap(), [0x30, 7, 2, 1, 1, 2, 2, 0x7f, 0xff]);
    }

    #[test]
    fn a_number_with_its_top_bit_set_stays_positive() {
        assert_eq!(der_signature(&raw(&[0x80], &[0xff, 0])).unwrap(), [0x30, 9, 2, 2, 0, 0x80, 2, 3, 0, 0xff, 0]);
        let longest = der_signature(&[0xff; 64]).unwrap();
        assert_eq!((longest.len(), &longest[..5]), (72, &[0x30, 70, 2, 33, 0][..]));
    }

    #[test]
    fn zeros_and_other_lengths_are_no_signatures() {
        assert!(der_signature(&raw(&[], &[1])).is_none());
        assert!(der_signature(&raw(&[1], &[])).is_none());
        assert!(der_signature(&[1; 63]).is_none());
        assert!(der_signature(&[1; 65]).is_none());
        assert!(der_signature(&[]).is_none());
    }

    #[test]
    fn a_point_is_read_with_and_without_its_octet_string() {
        let bare = [vec![4], vec![7; 64]].concat();
        let wrapped = [POINT_HEADER.as_slice(), &bare].concat();
        assert_eq!(point(&bare).unwrap().as_slice(), bare);
        assert_eq!(point(&wrapped).unwrap().as_slice(), bare);
        assert!(point(&bare[1..]).is_none());
        assert!(point(&[vec![2], vec![7; 64]].concat()).is_none(), "a compressed point");
    }
}
