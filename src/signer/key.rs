//! Private keys in the token: reading their attributes, refusing unsuitable keys, finding a known
//! key again, and signing.

use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use serde::Serialize;

use super::error::SignerOpenError;
use super::fault::{ErrorClass, TokenFault};
use super::public_key::{KeyId, PublicKey, Signature, UnfitPublicKey};
use crate::public_key::{Message, bits, digest_info, hex, sha256, without_leading_zeros};
use crate::tls_key::{EncodedPublicKey, P256, point};
use sealgate_config as config;
use sealgate_domain::oauth::jwk_set::{Algorithm, Numbers};

/// Accepted modulus sizes of a signing key, in bits.
const SIZES: [usize; 3] = [2048, 3072, 4096];

/// Length of a PSS salt in bytes: as long as the hash (RFC 7518 §3.5).
const PSS_SALT: u64 = 32;

/// Encodings of `CKA_EC_PARAMS` for Ed25519: the object identifier (RFC 8410), and the name of the
/// curve as a `PrintableString`. Tokens differ.
pub(super) const ED25519_PARAMETERS: [&[u8]; 2] = [&[0x06, 0x03, 0x2b, 0x65, 0x70], b"\x13\x0cedwards25519"];

/// Length of a key on Ed25519, in bytes.
const ED25519_BYTES: usize = 32;

/// DER header of the `OCTET STRING` that contains the key in `CKA_EC_POINT`.
const ED25519_HEADER: [u8; 2] = [0x04, 32];

/// Attributes of a private key as the token reports them. `None` means that the token does not
/// report the attribute.
///
/// A report is not proof: only an attestation by the vendor proves the attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// Thumbprint of the public key (RFC 7638).
    pub kid: KeyId,
    /// `CKA_ID` in hexadecimal.
    pub id: String,
    /// `CKA_LABEL`.
    pub label: String,
    /// Only algorithm of the key, which the label determines. Omitted for RS256.
    #[serde(skip_serializing_if = "is_rs256")]
    pub alg: Algorithm,
    /// Length of the modulus, or of a coordinate of the curve, in bits.
    pub bits: usize,
    /// `CKA_SENSITIVE`: the private value cannot be read.
    pub sensitive: Option<bool>,
    /// `CKA_ALWAYS_SENSITIVE`: the private value could never be read.
    pub always_sensitive: Option<bool>,
    /// `CKA_EXTRACTABLE`: the key can be exported wrapped.
    pub extractable: Option<bool>,
    /// `CKA_NEVER_EXTRACTABLE`: the key could never be exported.
    pub never_extractable: Option<bool>,
    /// `CKA_LOCAL`: the key was generated in the token.
    pub local: Option<bool>,
    /// `CKA_SIGN`.
    pub can_sign: Option<bool>,
    /// `CKA_DECRYPT`.
    pub can_decrypt: Option<bool>,
    /// `CKA_UNWRAP`.
    pub can_unwrap: Option<bool>,
    /// `CKA_ALWAYS_AUTHENTICATE`: each signature needs the PIN.
    pub always_authenticate: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the signature")]
fn is_rs256(algorithm: &Algorithm) -> bool {
    *algorithm == Algorithm::Rs256
}

fn is_rsa(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256)
}

impl KeyReport {
    /// Returns every reason why the key must not sign tokens. Empty for a usable key.
    ///
    /// With `require_local`, a key is refused if the token does not report `CKA_LOCAL`.
    pub fn faults(&self, require_local: bool) -> Vec<String> {
        let mut faults = protection_faults(|kind| self.stated(kind), require_local);
        // Keys on curves do not decrypt, and tokens need not report the attribute for them.
        let can_decrypt = if is_rsa(self.alg) { self.can_decrypt } else { self.can_decrypt.or(Some(false)) };
        faults.extend(attribute_faults(&[
            // RSA signing and decryption are the same operation. A key with both uses would let a
            // client that may decrypt also sign.
            ("CKA_DECRYPT", can_decrypt, false),
            // This attribute is optional. A token that does not report the attribute cannot unwrap.
            ("CKA_UNWRAP", self.can_unwrap.or(Some(false)), false),
        ]));
        if self.id.is_empty() {
            faults.push("CKA_ID is empty".into());
        }
        if is_rsa(self.alg) && !SIZES.contains(&self.bits) {
            faults.push(format!("its modulus has {} bits; 2048, 3072 or 4096 are used", self.bits));
        }
        faults
    }

    fn stated(&self, kind: AttributeType) -> Option<bool> {
        match kind {
            AttributeType::Sign => self.can_sign,
            AttributeType::Sensitive => self.sensitive,
            AttributeType::AlwaysSensitive => self.always_sensitive,
            AttributeType::Extractable => self.extractable,
            AttributeType::NeverExtractable => self.never_extractable,
            AttributeType::Local => self.local,
            AttributeType::AlwaysAuthenticate => self.always_authenticate,
            _ => None,
        }
    }
}

/// Returns every reason why a private key must not sign. The reasons apply to tokens and to TLS
/// handshakes.
///
/// `stated` returns an attribute as the token reports it. With `require_local`, the token must
/// report `CKA_LOCAL`.
pub(super) fn protection_faults(stated: impl Fn(AttributeType) -> Option<bool>, require_local: bool) -> Vec<String> {
    let local = if require_local { stated(AttributeType::Local) } else { Some(true) };
    attribute_faults(&[
        ("CKA_SIGN", stated(AttributeType::Sign), true),
        ("CKA_SENSITIVE", stated(AttributeType::Sensitive), true),
        ("CKA_ALWAYS_SENSITIVE", stated(AttributeType::AlwaysSensitive), true),
        ("CKA_EXTRACTABLE", stated(AttributeType::Extractable), false),
        ("CKA_NEVER_EXTRACTABLE", stated(AttributeType::NeverExtractable), true),
        ("CKA_LOCAL", local, true),
        // With this attribute, each signature would require a login. A token need not report the
        // attribute.
        ("CKA_ALWAYS_AUTHENTICATE", stated(AttributeType::AlwaysAuthenticate).or(Some(false)), false),
    ])
}

/// Returns the attributes of a new private key for signatures, without its label and id.
pub(super) fn private_key_template() -> Vec<Attribute> {
    vec![
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Sign(true),
        Attribute::Decrypt(false),
        Attribute::Unwrap(false),
    ]
}

/// Returns the attributes whose reported value differs from the required one or is missing.
fn attribute_faults(required: &[(&str, Option<bool>, bool)]) -> Vec<String> {
    let faults = required.iter().filter(|(_, stated, wanted)| *stated != Some(*wanted));
    let line = |(name, stated, _): &(&str, Option<bool>, bool)| match stated {
        Some(stated) => format!("{name} is {stated}"),
        None => format!("the token does not report {name}"),
    };
    faults.map(line).collect()
}

/// Configured requirements for signing keys, and the mechanism to sign with.
#[derive(Debug, Clone)]
pub(super) struct KeyTerms {
    labels: Vec<(Algorithm, String)>,
    pub(super) mechanism: config::Mechanism,
    pub(super) require_local: bool,
}

impl KeyTerms {
    pub(super) fn from_config(hsm: &config::Hsm) -> Self {
        let labels = hsm.algorithms.iter().map(|algorithm| (*algorithm, hsm.key_label_of(*algorithm)));
        Self { labels: labels.collect(), mechanism: hsm.mechanism, require_local: hsm.require_local }
    }

    /// Returns the requirements for keys of this algorithm only.
    pub(super) fn only(hsm: &config::Hsm, algorithm: Algorithm) -> Self {
        Self { labels: vec![(algorithm, hsm.key_label_of(algorithm))], ..Self::from_config(hsm) }
    }

    /// Returns the label of keys of this algorithm. Returns `None` if it is not configured.
    pub(super) fn label(&self, algorithm: Algorithm) -> Option<&str> {
        self.labels.iter().find(|(known, _)| *known == algorithm).map(|(_, label)| label.as_str())
    }

    /// Returns the configured algorithms.
    pub(super) fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.labels.iter().map(|(algorithm, _)| *algorithm)
    }
}

/// A usable signing key in the token.
///
/// Contains no handle, because handles become invalid at logout. [`find_again`] returns a handle.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    pub(super) public: PublicKey,
    pub(super) id: Vec<u8>,
    pub(super) report: KeyReport,
    pub(super) mechanism: config::Mechanism,
}

impl SigningKey {
    /// Returns the message to pass to [`sign`] for this input.
    pub(super) fn message(&self, input: &[u8]) -> Message {
        let bytes = match (self.public.algorithm(), self.mechanism) {
            (Algorithm::EdDsa, _) | (Algorithm::Rs256, config::Mechanism::Sha256RsaPkcs) => input.to_vec(),
            _ => Vec::new(),
        };
        Message { digest: sha256(input), bytes }
    }
}

/// A private key in the token, usable or not.
#[derive(Debug)]
pub(super) struct TokenKey {
    pub(super) report: KeyReport,
    pub(super) id: Vec<u8>,
    /// Handle in the session that read the key.
    handle: ObjectHandle,
    public: Result<PublicKey, UnfitPublicKey>,
    /// `CKA_ALLOWED_MECHANISMS` of a key of a further algorithm. Empty if the token does not limit
    /// the mechanisms.
    allowed: Vec<MechanismType>,
}

/// Returns the mechanisms that a key of this algorithm may be used with.
pub(super) fn mechanisms(algorithm: Algorithm) -> &'static [MechanismType] {
    match algorithm {
        Algorithm::Rs256 => &[MechanismType::RSA_PKCS, MechanismType::SHA256_RSA_PKCS],
        Algorithm::Ps256 => &[MechanismType::RSA_PKCS_PSS],
        Algorithm::Es256 => &[MechanismType::ECDSA],
        Algorithm::EdDsa => &[MechanismType::EDDSA],
    }
}

pub(super) fn key_type(algorithm: Algorithm) -> KeyType {
    match algorithm {
        Algorithm::Rs256 | Algorithm::Ps256 => KeyType::RSA,
        Algorithm::Es256 => KeyType::EC,
        Algorithm::EdDsa => KeyType::EC_EDWARDS,
    }
}

impl TokenKey {
    fn faults(&self, terms: &KeyTerms) -> Vec<String> {
        let mut faults = self.report.faults(terms.require_local);
        match &self.public {
            // The report contains the size.
            Ok(_) | Err(UnfitPublicKey::Size(_)) => {}
            Err(error) => faults.push(error.to_string()),
        }
        let others = self.allowed.iter().filter(|mechanism| !mechanisms(self.report.alg).contains(mechanism));
        faults.extend(others.map(|mechanism| format!("CKA_ALLOWED_MECHANISMS has {mechanism}, of another algorithm")));
        faults
    }

    /// Converts the key to a signing key.
    ///
    /// # Errors
    /// [`SignerOpenError::UnfitKey`] with every reason why it is unsuitable.
    pub(super) fn into_signing_key(self, terms: &KeyTerms) -> Result<SigningKey, SignerOpenError> {
        let faults = self.faults(terms);
        match self.public {
            Ok(public) if faults.is_empty() => {
                Ok(SigningKey { public, id: self.id, report: self.report, mechanism: terms.mechanism })
            }
            _ => Err(SignerOpenError::UnfitKey { label: self.report.label, id: self.id, faults }),
        }
    }
}

/// Returns the signing keys of the configured algorithms. Each must be usable and have its own
/// `CKA_ID`.
///
/// # Errors
/// `NoKey`, `SameId`, `SameKey`, `UnfitKey`, or `Device` if the token fails.
pub(super) fn signing_keys(
    session: &Session,
    token: &str,
    terms: &KeyTerms,
) -> Result<Vec<SigningKey>, SignerOpenError> {
    let keys = configured_keys(session, terms).map_err(|fault| SignerOpenError::device(token, &fault))?;
    each_with_its_id(&keys, token, terms)?;
    keys.into_iter().map(|key| key.into_signing_key(terms)).collect()
}

/// Returns the keys with the labels of the configured algorithms, usable or not.
pub(super) fn configured_keys(session: &Session, terms: &KeyTerms) -> Result<Vec<TokenKey>, TokenFault> {
    let mut keys = Vec::new();
    for (algorithm, label) in &terms.labels {
        keys.extend(token_keys(session, Some(label), *algorithm)?);
    }
    Ok(keys)
}

/// Checks that each algorithm has at least one key, and that no two keys have the same `CKA_ID` or
/// public key, also of two algorithms.
///
/// # Errors
/// `NoKey`, `NoKeyFor`, `SameId` or `SameKey`.
pub(super) fn each_with_its_id(keys: &[TokenKey], token: &str, terms: &KeyTerms) -> Result<(), SignerOpenError> {
    let token = token.to_owned();
    for (algorithm, label) in &terms.labels {
        if !keys.iter().any(|key| key.report.alg == *algorithm) {
            let (label, algorithm) = (label.clone(), *algorithm);
            return Err(match algorithm {
                Algorithm::Rs256 => SignerOpenError::NoKey { token, label },
                _ => SignerOpenError::NoKeyFor { token, label, algorithm },
            });
        }
    }
    for (at, key) in keys.iter().enumerate() {
        let mut before = keys.iter().take(at);
        if before.clone().any(|other| other.id == key.id) {
            return Err(SignerOpenError::SameId { token, label: key.report.label.clone(), id: key.id.clone() });
        }
        // A copy of the key, made with `C_CopyObject`. A process that may use the copy can sign
        // with the key.
        if let Some(other) = before.find(|other| other.report.kid == key.report.kid) {
            let kid = key.report.kid.to_string();
            return Err(SignerOpenError::SameKey { token, kid, ids: vec![other.id.clone(), key.id.clone()] });
        }
    }
    Ok(())
}

/// Returns the private keys of this algorithm's type in the token. With a `label`, only the keys
/// with this label.
///
/// The session must be logged in. Without a login, tokens return an empty list and no error.
pub(super) fn token_keys(
    session: &Session,
    label: Option<&str>,
    algorithm: Algorithm,
) -> Result<Vec<TokenKey>, TokenFault> {
    let mut template = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(key_type(algorithm))];
    template.extend(label.map(|label| Attribute::Label(label.as_bytes().to_vec())));
    session.find_objects(&template)?.into_iter().map(|handle| read_token_key(session, handle, algorithm)).collect()
}

/// Returns every private RSA key in the token, and the signing keys of the other types, configured
/// or not. The label determines the algorithm.
pub(super) fn all_keys(session: &Session, hsm: &config::Hsm) -> Result<Vec<TokenKey>, TokenFault> {
    let labels = |algorithm| [hsm.key_label_of(algorithm), hsm.removed_label(algorithm)];
    let mut keys = token_keys(session, None, Algorithm::Rs256)?;
    for at_ps256 in keys.iter_mut().filter(|key| labels(Algorithm::Ps256).contains(&key.report.label)) {
        *at_ps256 = read_token_key(session, at_ps256.handle, Algorithm::Ps256)?;
    }
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa] {
        for label in labels(algorithm) {
            keys.extend(token_keys(session, Some(&label), algorithm)?);
        }
    }
    Ok(keys)
}

/// Finds the handle of a known key in this session's login.
///
/// If the key is not found, the error has the class `Login`: the key existed when the signer opened
/// the token, so the login was probably lost.
pub(super) fn find_again(session: &Session, key: &SigningKey) -> Result<ObjectHandle, TokenFault> {
    let template = [
        Attribute::Class(ObjectClass::PRIVATE_KEY),
        Attribute::KeyType(key_type(key.public.algorithm())),
        Attribute::Label(key.report.label.as_bytes().to_vec()),
        Attribute::Id(key.id.clone()),
    ];
    let handles = session.find_objects(&template)?;
    let name = || format!("key \"{}\" (CKA_ID {})", key.report.label, hex(&key.id));
    let [handle] = handles[..] else {
        return Err(match handles.len() {
            0 => TokenFault::new(ErrorClass::Login, format!("{} is no longer in the token", name())),
            count => TokenFault::new(ErrorClass::Device, format!("the token has {} {count} times", name())),
        });
    };
    let numbers = numbers(session, handle, &key.id, key.public.algorithm())?;
    let is_same = match (&numbers, key.public.numbers()) {
        (Some(Numbers::Rsa { n, .. }), Numbers::Rsa { n: published, .. }) => n == published,
        (Some(found), published) => found == published,
        (None, _) => false,
    };
    if is_same {
        Ok(handle)
    } else {
        let what = if is_rsa(key.public.algorithm()) { "modulus" } else { "public key" };
        Err(TokenFault::new(ErrorClass::Device, format!("the {what} of {} differs from the published one", name())))
    }
}

/// Signs a message and verifies the signature with the published key.
///
/// The verification rejects signatures by another key, which a stale handle after a reset could
/// make. It also rejects wrong results of the token, because they could reveal the private key.
pub(super) fn sign(
    session: &Session,
    handle: ObjectHandle,
    key: &SigningKey,
    message: &Message,
) -> Result<Signature, TokenFault> {
    let digest = message.digest.as_ref();
    let signature = match (key.public.algorithm(), key.mechanism) {
        (Algorithm::Rs256, config::Mechanism::RsaPkcs) => {
            session.sign(&Mechanism::RsaPkcs, handle, &digest_info(&message.digest))
        }
        (Algorithm::Rs256, config::Mechanism::Sha256RsaPkcs) => {
            session.sign(&Mechanism::Sha256RsaPkcs, handle, &message.bytes)
        }
        (Algorithm::Ps256, _) => {
            let (hash_alg, mgf) = (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256);
            let parameters = PkcsPssParams { hash_alg, mgf, s_len: PSS_SALT.into() };
            session.sign(&Mechanism::RsaPkcsPss(parameters), handle, digest)
        }
        // The hash is computed here: SoftHSM has no `CKM_ECDSA_SHA256`.
        (Algorithm::Es256, _) => session.sign(&Mechanism::Ecdsa, handle, digest),
        (Algorithm::EdDsa, _) => {
            let parameters = EddsaParams::new(EddsaSignatureScheme::Ed25519);
            session.sign(&Mechanism::Eddsa(parameters), handle, &message.bytes)
        }
    }?;
    if key.public.verify_message(message, &signature) {
        Ok(Signature::from_token(signature))
    } else {
        Err(TokenFault::new(ErrorClass::WrongSignature, "the token's signature does not verify with the published key"))
    }
}

/// Tests that the token signs with `key` in this session.
pub(super) fn test_signature(session: &Session, key: &SigningKey) -> Result<(), TokenFault> {
    let handle = find_again(session, key)?;
    sign(session, handle, key, &key.message(b"sealgate proves that this key signs")).map(|_| ())
}

/// Reads the attributes of a private key from the token.
pub(super) fn read_token_key(
    session: &Session,
    handle: ObjectHandle,
    algorithm: Algorithm,
) -> Result<TokenKey, TokenFault> {
    let attributes = session.get_attributes(
        handle,
        &[
            AttributeType::Id,
            AttributeType::Label,
            AttributeType::Sensitive,
            AttributeType::AlwaysSensitive,
            AttributeType::Extractable,
            AttributeType::NeverExtractable,
            AttributeType::Local,
            AttributeType::Sign,
            AttributeType::Decrypt,
            AttributeType::Unwrap,
            AttributeType::AlwaysAuthenticate,
        ],
    )?;
    let id = bytes(&attributes, AttributeType::Id).unwrap_or_default().to_vec();
    let label = String::from_utf8_lossy(bytes(&attributes, AttributeType::Label).unwrap_or_default()).into_owned();
    let numbers = numbers(session, handle, &id, algorithm)?;
    let report = KeyReport {
        kid: numbers.as_ref().and_then(KeyId::from_numbers).unwrap_or_else(|| KeyId::unknown(&id)),
        id: hex(&id),
        label,
        alg: algorithm,
        bits: numbers.as_ref().map_or(0, bits),
        sensitive: flag(&attributes, AttributeType::Sensitive),
        always_sensitive: flag(&attributes, AttributeType::AlwaysSensitive),
        extractable: flag(&attributes, AttributeType::Extractable),
        never_extractable: flag(&attributes, AttributeType::NeverExtractable),
        local: flag(&attributes, AttributeType::Local),
        can_sign: flag(&attributes, AttributeType::Sign),
        can_decrypt: flag(&attributes, AttributeType::Decrypt),
        can_unwrap: flag(&attributes, AttributeType::Unwrap),
        always_authenticate: flag(&attributes, AttributeType::AlwaysAuthenticate),
    };
    let public = match &numbers {
        Some(numbers) => PublicKey::from_numbers(algorithm, numbers),
        None => Err(UnfitPublicKey::Unreported(algorithm)),
    };
    let allowed = if algorithm == Algorithm::Rs256 { Vec::new() } else { allowed_mechanisms(session, handle)? };
    Ok(TokenKey { report, id, handle, public, allowed })
}

/// Reads `CKA_ALLOWED_MECHANISMS`. Empty if the token does not report the attribute.
fn allowed_mechanisms(session: &Session, handle: ObjectHandle) -> Result<Vec<MechanismType>, TokenFault> {
    match session.get_attributes(handle, &[AttributeType::AllowedMechanisms]) {
        Ok(attributes) => Ok(attributes
            .into_iter()
            .find_map(|attribute| match attribute {
                Attribute::AllowedMechanisms(mechanisms) => Some(mechanisms),
                _ => None,
            })
            .unwrap_or_default()),
        // The token does not know the attribute, or lists a mechanism that this program does not know.
        Err(Error::Pkcs11(RvError::AttributeTypeInvalid, _) | Error::NotSupported | Error::InvalidValue) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the public key of a private key. Returns `None` if the token reports no key on the curve
/// of the algorithm.
fn numbers(
    session: &Session,
    handle: ObjectHandle,
    id: &[u8],
    algorithm: Algorithm,
) -> Result<Option<Numbers>, TokenFault> {
    if is_rsa(algorithm) {
        let (n, e) = modulus_and_exponent(session, handle, id)?;
        return Ok(Some(Numbers::Rsa { n, e }));
    }
    let EncodedPublicKey { parameters, point: encoded } =
        EncodedPublicKey::read(session, handle, id, key_type(algorithm))?;
    let (Some(parameters), Some(encoded)) = (parameters, encoded) else { return Ok(None) };
    Ok(match algorithm {
        Algorithm::Es256 if parameters == P256 => point(&encoded).map(|point| Numbers::P256(point.to_vec())),
        Algorithm::EdDsa if ED25519_PARAMETERS.contains(&parameters.as_slice()) => {
            let bare = encoded.strip_prefix(&ED25519_HEADER).filter(|bare| bare.len() == ED25519_BYTES);
            let bare = bare.unwrap_or(&encoded);
            (bare.len() == ED25519_BYTES).then(|| Numbers::Ed25519(bare.to_vec()))
        }
        _ => None,
    })
}

/// Returns the modulus and the public exponent of a private key, without leading zeros.
///
/// A number that the token does not report is empty. If the token does not keep the public exponent
/// with the private key, it is read from the public key object with the same `CKA_ID`.
pub(super) fn modulus_and_exponent(
    session: &Session,
    handle: ObjectHandle,
    id: &[u8],
) -> Result<(Vec<u8>, Vec<u8>), TokenFault> {
    const WANTED: [AttributeType; 2] = [AttributeType::Modulus, AttributeType::PublicExponent];
    let number = |attributes: &[Attribute], kind| {
        bytes(attributes, kind).map(without_leading_zeros).filter(|number| !number.is_empty()).map(<[u8]>::to_vec)
    };
    let private = session.get_attributes(handle, &WANTED)?;
    let mut modulus = number(&private, AttributeType::Modulus);
    let mut exponent = number(&private, AttributeType::PublicExponent);
    if (modulus.is_none() || exponent.is_none()) && !id.is_empty() {
        let template = [Attribute::Class(ObjectClass::PUBLIC_KEY), Attribute::Id(id.to_vec())];
        if let [public] = session.find_objects(&template)?[..] {
            let public = session.get_attributes(public, &WANTED)?;
            modulus = modulus.or_else(|| number(&public, AttributeType::Modulus));
            exponent = exponent.or_else(|| number(&public, AttributeType::PublicExponent));
        }
    }
    Ok((modulus.unwrap_or_default(), exponent.unwrap_or_default()))
}

pub(super) fn flag(attributes: &[Attribute], kind: AttributeType) -> Option<bool> {
    attributes.iter().find(|attribute| attribute.attribute_type() == kind).and_then(|attribute| match attribute {
        Attribute::Sensitive(value)
        | Attribute::AlwaysSensitive(value)
        | Attribute::Extractable(value)
        | Attribute::NeverExtractable(value)
        | Attribute::Local(value)
        | Attribute::Sign(value)
        | Attribute::Decrypt(value)
        | Attribute::Unwrap(value)
        | Attribute::AlwaysAuthenticate(value) => Some(*value),
        _ => None,
    })
}

fn bytes(attributes: &[Attribute], kind: AttributeType) -> Option<&[u8]> {
    attributes.iter().find(|attribute| attribute.attribute_type() == kind).and_then(|attribute| match attribute {
        Attribute::Id(value)
        | Attribute::Label(value)
        | Attribute::Modulus(value)
        | Attribute::PublicExponent(value) => Some(value.as_slice()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> KeyReport {
        KeyReport {
            kid: KeyId::from_public_key(&[1], &[1, 0, 1]),
            id: "01".into(),
            label: "sealgate".into(),
            alg: Algorithm::Rs256,
            bits: 2048,
            sensitive: Some(true),
            always_sensitive: Some(true),
            extractable: Some(false),
            never_extractable: Some(true),
            local: Some(true),
            can_sign: Some(true),
            can_decrypt: Some(false),
            can_unwrap: Some(false),
            always_authenticate: Some(false),
        }
    }

    #[test]
    fn a_suitable_key_has_no_errors() {
        assert_eq!(fit().faults(true), Vec::<String>::new());
        let silent = KeyReport { can_unwrap: None, always_authenticate: None, ..fit() };
        assert_eq!(silent.faults(true), Vec::<String>::new());
        let of_unknown_origin = KeyReport { local: None, ..fit() };
        assert_eq!(of_unknown_origin.faults(false), Vec::<String>::new());
    }

    #[test]
    fn each_missing_property_is_named() {
        let cases = [
            (KeyReport { sensitive: Some(false), ..fit() }, "CKA_SENSITIVE is false"),
            (KeyReport { always_sensitive: Some(false), ..fit() }, "CKA_ALWAYS_SENSITIVE is false"),
            (KeyReport { extractable: Some(true), ..fit() }, "CKA_EXTRACTABLE is true"),
            (KeyReport { never_extractable: None, ..fit() }, "the token does not report CKA_NEVER_EXTRACTABLE"),
            (KeyReport { can_sign: Some(false), ..fit() }, "CKA_SIGN is false"),
            (KeyReport { can_decrypt: None, ..fit() }, "the token does not report CKA_DECRYPT"),
            (KeyReport { can_unwrap: Some(true), ..fit() }, "CKA_UNWRAP is true"),
            (KeyReport { always_authenticate: Some(true), ..fit() }, "CKA_ALWAYS_AUTHENTICATE is true"),
            (KeyReport { local: Some(false), ..fit() }, "CKA_LOCAL is false"),
            (KeyReport { local: None, ..fit() }, "the token does not report CKA_LOCAL"),
            (KeyReport { id: String::new(), ..fit() }, "CKA_ID is empty"),
            (KeyReport { bits: 2056, ..fit() }, "its modulus has 2056 bits; 2048, 3072 or 4096 are used"),
        ];
        for (report, expected) in cases {
            assert_eq!(report.faults(true), [expected]);
        }
    }
}
