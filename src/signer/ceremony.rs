//! Commands on the keys in the token: generate, list and check.
//!
//! Each function opens the token, logs in once and closes the token. Call them only in a process
//! without a [`crate::Signer`].

use std::path::Path;

use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use serde::Serialize;

use super::error::SignerOpenError;
use super::fault::{ErrorClass, TokenFault};
use super::key::{KeyReport, KeyTerms, TokenKey};
use super::pkcs11::Module;
use super::{key, wrapping};
use crate::pkcs11;
use crate::public_key::hex;
use crate::tls_key::P256;
use crate::worker::with_session;
use sealgate_config as config;
use sealgate_domain::oauth::jwk_set::Algorithm;

/// Size of an RSA key that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySize {
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

impl KeySize {
    /// Returns the length of the modulus in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Rsa2048 => 2048,
            Self::Rsa3072 => 3072,
            Self::Rsa4096 => 4096,
        }
    }

    /// Returns the size with this number of bits, if it is supported.
    pub fn from_bits(bits: u32) -> Option<Self> {
        [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096].into_iter().find(|size| size.bits() == bits)
    }
}

/// Algorithm of a key to generate, and its size if it is an RSA key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewKey {
    pub algorithm: Algorithm,
    /// Ignored for keys on curves.
    pub size: KeySize,
}

impl From<KeySize> for NewKey {
    /// Returns an RS256 key of this size.
    fn from(size: KeySize) -> Self {
        Self { algorithm: Algorithm::Rs256, size }
    }
}

/// Result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenCheck {
    /// Whether a server starts with this token.
    pub ok: bool,
    /// Errors that do not concern a single key.
    pub faults: Vec<String>,
    pub keys: Vec<CheckedKey>,
    /// `CKA_ID`s of the wrapping keys in hexadecimal.
    pub wrapping_keys: Vec<String>,
    /// Keys that were removed because they were compromised: see [`mark_removed`].
    pub removed: Vec<KeyReport>,
}

/// Key of a [`TokenCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedKey {
    #[serde(flatten)]
    pub report: KeyReport,
    /// Reasons why the key must not sign tokens. Empty for a usable key.
    pub faults: Vec<String>,
}

/// Result of [`generate_first`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstKeys {
    #[serde(flatten)]
    pub signing: KeyReport,
    /// Keys of the other configured algorithms, if this call created them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<KeyReport>,
    /// `CKA_ID` of the wrapping key in hexadecimal, if this call created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrapping_key: Option<String>,
}

/// Creates the wrapping key, if there is none, and then the first signing key as [`generate`] does.
///
/// `wrapping` is the `CKA_ID` of the new wrapping key. If it is `None`, no wrapping key is created.
/// If creating the wrapping key fails, no signing key is generated.
///
/// # Errors
/// The errors of [`generate`], and [`SignerOpenError::WrappingKey`] if the token cannot create a
/// usable wrapping key.
pub fn generate_first(
    hsm: &config::Hsm,
    size: KeySize,
    id: &[u8],
    wrapping: Option<&[u8]>,
) -> Result<FirstKeys, SignerOpenError> {
    with_session(hsm, |session| {
        refuse_existing(session, hsm, Algorithm::Rs256, id, false)?;
        let wrapping_key = match wrapping {
            Some(id) if wrapping::ids(session, hsm)?.is_empty() => Some(wrapping::make_tested(session, hsm, id)?),
            _ => None,
        };
        let terms = KeyTerms::from_config(hsm);
        let signing = make(session, size.into(), id, &hsm.token_label, &terms)?;
        let mut further = Vec::new();
        for (number, algorithm) in terms.algorithms().enumerate().skip(1) {
            // The operator may have generated the key before the RS256 key.
            if key::token_keys(session, terms.label(algorithm), algorithm)
                .map_err(|fault| device(hsm, &fault))?
                .is_empty()
            {
                let id = [id, &[u8::try_from(number).unwrap_or(u8::MAX)]].concat();
                further.push(make(session, NewKey { algorithm, size }, &id, &hsm.token_label, &terms)?);
            }
        }
        Ok(FirstKeys { signing, further, wrapping_key })
    })
}

/// Generates a non-extractable signing key pair in the token.
///
/// `id` becomes its `CKA_ID`; 16 random bytes are enough. Set `further` to generate a key although
/// the token already has a key with the configured label.
///
/// # Errors
/// - [`SignerOpenError::KeyExists`] if a key with the id exists. Also if a key with the label
///   exists and `further` is not set.
/// - [`SignerOpenError::UnfitKey`] if the token ignored a requested property. The new key is then
///   removed.
/// - The errors of opening a signer.
pub fn generate(
    hsm: &config::Hsm,
    new: impl Into<NewKey>,
    id: &[u8],
    further: bool,
) -> Result<KeyReport, SignerOpenError> {
    let new = new.into();
    with_session(hsm, |session| {
        refuse_existing(session, hsm, new.algorithm, id, further)?;
        make(session, new, id, &hsm.token_label, &KeyTerms::only(hsm, new.algorithm))
    })
}

/// Initialises the token of a free slot with the configured label and PIN, unless such a token
/// exists.
///
/// Completes an initialisation that ended before the PIN was set. `so_pin` is a file with the
/// security officer's PIN. Returns whether the token was changed.
///
/// # Errors
/// The errors of opening a signer that concern the token. Also `NoToken` if no slot is free.
pub fn init_token(hsm: &config::Hsm, so_pin: &Path) -> Result<bool, SignerOpenError> {
    let (pin, so_pin) = (pkcs11::read_pin(&hsm.pin_file)?, pkcs11::read_pin(so_pin)?);
    let module = Module::load(&hsm.module)?;
    let initialized = module.initialize()?;
    let changed = module.init_token(&hsm.token_label, &so_pin, &pin);
    module.finalize_if(initialized);
    changed
}

fn device(hsm: &config::Hsm, fault: &TokenFault) -> SignerOpenError {
    SignerOpenError::device(&hsm.token_label, fault)
}

fn refuse_existing(
    session: &Session,
    hsm: &config::Hsm,
    algorithm: Algorithm,
    id: &[u8],
    further: bool,
) -> Result<(), SignerOpenError> {
    let existing = key::all_keys(session, hsm).map_err(|fault| device(hsm, &fault))?;
    let label = hsm.key_label_of(algorithm);
    let conflicting_ids: Vec<Vec<u8>> = existing
        .into_iter()
        .filter(|key| (key.report.label == label && !further) || key.id == id)
        .map(|key| key.id)
        .collect();
    if conflicting_ids.is_empty() {
        return Ok(());
    }
    Err(SignerOpenError::KeyExists { token: hsm.token_label.clone(), label, ids: conflicting_ids })
}

/// Generates a signing key pair. The session must be writable.
///
/// # Errors
/// `UnfitKey` if the token ignored a requested property, `Device` if it fails or generates no keys.
pub(super) fn make(
    session: &Session,
    new: NewKey,
    id: &[u8],
    token: &str,
    terms: &KeyTerms,
) -> Result<KeyReport, SignerOpenError> {
    let label = terms.label(new.algorithm).unwrap_or_default();
    generate_pair(session, new, id, label, terms)
        .map_err(|fault| SignerOpenError::device(token, &fault))?
        .map_err(|faults| SignerOpenError::UnfitKey { label: label.to_owned(), id: id.to_vec(), faults })
}

/// Returns every private RSA key in the token, with any label, and the signing keys of other types.
///
/// # Errors
/// The errors of opening a signer that concern the token.
pub fn list(hsm: &config::Hsm) -> Result<Vec<KeyReport>, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = key::all_keys(session, hsm).map_err(|fault| device(hsm, &fault))?;
        Ok(keys.into_iter().map(|key| key.report).collect())
    })
}

/// Checks whether a server could sign with the keys that have the configured label.
///
/// There must be at least one key, each with its own `CKA_ID`, with the properties of a signing key
/// and with a valid signature. An existing wrapping key must encrypt and decrypt.
///
/// # Errors
/// The errors of opening a signer that concern the token. Errors of keys are in the [`TokenCheck`].
pub fn check(hsm: &config::Hsm) -> Result<TokenCheck, SignerOpenError> {
    with_session(hsm, |session| {
        let terms = KeyTerms::from_config(hsm);
        let keys = key::configured_keys(session, &terms).map_err(|fault| device(hsm, &fault))?;
        let mut faults = Vec::new();
        if let Err(error) = key::each_with_its_id(&keys, &hsm.token_label, &terms) {
            faults.push(error.to_string());
        }
        faults.extend(wrapping::faults(session, hsm).map_err(|fault| device(hsm, &fault))?);
        let keys: Vec<_> = keys.into_iter().map(|key| check_key(session, key, &terms)).collect();
        let wrapping_keys = wrapping::ids(session, hsm)?;
        let ok = faults.is_empty() && keys.iter().all(|key| key.faults.is_empty());
        let all = key::all_keys(session, hsm).map_err(|fault| device(hsm, &fault))?;
        let removed = all.into_iter().map(|key| key.report).filter(|key| key.label == hsm.removed_label(key.alg));
        Ok(TokenCheck { ok, faults, keys, wrapping_keys, removed: removed.collect() })
    })
}

fn check_key(session: &Session, key: TokenKey, terms: &KeyTerms) -> CheckedKey {
    let report = key.report.clone();
    let faults = match key.into_signing_key(terms) {
        Ok(key) => key::test_signature(session, &key).err().map(|fault| fault.text).into_iter().collect(),
        Err(SignerOpenError::UnfitKey { faults, .. }) => faults,
        Err(error) => vec![error.to_string()],
    };
    CheckedKey { report, faults }
}

/// Changes the label of the key with this kid, and of its public key and copies, to
/// [`config::Hsm::removed_label`].
///
/// Returns whether the key existed.
///
/// # Errors
/// The errors of opening a signer that concern the token. Also `Device` if the token cannot change
/// labels.
pub fn mark_removed(hsm: &config::Hsm, kid: &str) -> Result<bool, SignerOpenError> {
    with_session(hsm, |session| {
        let mut keys = key::all_keys(session, hsm).map_err(|fault| device(hsm, &fault))?;
        keys.retain(|key| key.report.kid.as_str() == kid && key.report.label == hsm.key_label_of(key.report.alg));
        for key in &keys {
            let (label, algorithm) = (&key.report.label, key.report.alg);
            relabel(session, label, algorithm, &key.id, &hsm.removed_label(algorithm))
                .map_err(|fault| device(hsm, &fault))?;
        }
        Ok(!keys.is_empty())
    })
}

/// Changes the labels of a key's objects. The private object is last. If the operation is
/// interrupted, the next call therefore still finds the key and completes the change.
fn relabel(session: &Session, from: &str, algorithm: Algorithm, id: &[u8], to: &str) -> Result<(), TokenFault> {
    for class in [ObjectClass::PUBLIC_KEY, ObjectClass::PRIVATE_KEY] {
        let template = [
            Attribute::Class(class),
            Attribute::KeyType(key::key_type(algorithm)),
            Attribute::Label(from.as_bytes().to_vec()),
            Attribute::Id(id.to_vec()),
        ];
        for object in session.find_objects(&template)? {
            session.update_attributes(object, &[Attribute::Label(to.as_bytes().to_vec())])?;
        }
    }
    Ok(())
}

/// Generates the pair, reads it back and tests it.
///
/// The inner error lists the requested properties that the token ignored. The pair is then
/// destroyed.
fn generate_pair(
    session: &Session,
    new: NewKey,
    id: &[u8],
    label: &str,
    terms: &KeyTerms,
) -> Result<Result<KeyReport, Vec<String>>, TokenFault> {
    let (public, private) = generate_objects(session, new, id, label)?;
    let key = key::read_token_key(session, private, new.algorithm)?;
    let report = key.report.clone();
    let faults = check_key(session, key, terms).faults;
    if faults.is_empty() {
        return Ok(Ok(report));
    }
    for object in [public, private] {
        if let Err(error) = session.destroy_object(object) {
            tracing::error!(%error, id = hex(id), "cannot remove the unsuitable key; remove it by hand");
        }
    }
    Ok(Err(faults))
}

/// Generates the public and the private key.
fn generate_objects(
    session: &Session,
    new: NewKey,
    id: &[u8],
    label: &str,
) -> Result<(ObjectHandle, ObjectHandle), TokenFault> {
    let common = [Attribute::Token(true), Attribute::Label(label.as_bytes().to_vec()), Attribute::Id(id.to_vec())];
    // The template does not set the permitted uses of the public key: signatures are verified
    // without the token, and tpm2-pkcs11 treats VERIFY as DECRYPT and ENCRYPT as SIGN.
    let rsa =
        || vec![Attribute::ModulusBits(u64::from(new.size.bits()).into()), Attribute::PublicExponent(vec![1, 0, 1])];
    let (mechanism, parameters) = match new.algorithm {
        Algorithm::Rs256 | Algorithm::Ps256 => (Mechanism::RsaPkcsKeyPairGen, vec![rsa()]),
        Algorithm::Es256 => (Mechanism::EccKeyPairGen, vec![vec![Attribute::EcParams(P256.to_vec())]]),
        Algorithm::EdDsa => {
            let parameters = key::ED25519_PARAMETERS.map(|encoded| vec![Attribute::EcParams(encoded.to_vec())]);
            (Mechanism::EccEdwardsKeyPairGen, parameters.to_vec())
        }
    };
    let mut private = key::private_key_template();
    private.extend_from_slice(&common);
    let mut templates = vec![private.clone()];
    // RS256 keys stay as earlier versions generated them. For the other algorithms, try first a key
    // that the token itself limits to the algorithm. Not every token knows the attribute.
    if new.algorithm != Algorithm::Rs256 {
        private.push(Attribute::AllowedMechanisms(key::mechanisms(new.algorithm).to_vec()));
        templates.insert(0, private);
    }
    let mut last = None;
    for private in &templates {
        for parameters in &parameters {
            let mut public = parameters.clone();
            public.push(Attribute::Private(false));
            public.extend_from_slice(&common);
            match session.generate_key_pair(&mechanism, &public, private) {
                Ok(pair) => return Ok(pair),
                Err(error) => last = Some(TokenFault::from(error)),
            }
        }
    }
    Err(last.unwrap_or_else(|| TokenFault::new(ErrorClass::Bug, "no key was tried")))
}
