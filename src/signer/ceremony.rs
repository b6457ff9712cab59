//! Commands on the keys in the token: generate, list and check.
//!
//! Each function opens the token, logs in once and closes the token. Call them only in a process
//! without a [`crate::Signer`].

use std::path::Path;

use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::Session;
use serde::Serialize;

use super::error::SignerOpenError;
use super::fault::TokenFault;
use super::key::{KeyReport, KeyTerms, TokenKey};
use super::pkcs11::Module;
use super::{key, wrapping};
use crate::pkcs11;
use crate::public_key::hex;
use crate::worker::with_session;
use sealgate_config as config;

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
        refuse_existing(session, hsm, id, false)?;
        let wrapping_key = match wrapping {
            Some(id) if wrapping::ids(session, hsm)?.is_empty() => Some(wrapping::make_tested(session, hsm, id)?),
            _ => None,
        };
        let signing = make(session, size, id, &hsm.token_label, &KeyTerms::from_config(hsm))?;
        Ok(FirstKeys { signing, wrapping_key })
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
pub fn generate(hsm: &config::Hsm, size: KeySize, id: &[u8], further: bool) -> Result<KeyReport, SignerOpenError> {
    with_session(hsm, |session| {
        refuse_existing(session, hsm, id, further)?;
        make(session, size, id, &hsm.token_label, &KeyTerms::from_config(hsm))
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

fn refuse_existing(session: &Session, hsm: &config::Hsm, id: &[u8], further: bool) -> Result<(), SignerOpenError> {
    let existing = key::token_keys(session, None).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    let conflicting_ids: Vec<Vec<u8>> = existing
        .into_iter()
        .filter(|key| (key.report.label == hsm.key_label && !further) || key.id == id)
        .map(|key| key.id)
        .collect();
    if conflicting_ids.is_empty() {
        return Ok(());
    }
    Err(SignerOpenError::KeyExists {
        token: hsm.token_label.clone(),
        label: hsm.key_label.clone(),
        ids: conflicting_ids,
    })
}

/// Generates a signing key pair. The session must be writable.
///
/// # Errors
/// `UnfitKey` if the token ignored a requested property, `Device` if it fails or generates no keys.
pub(super) fn make(
    session: &Session,
    size: KeySize,
    id: &[u8],
    token: &str,
    terms: &KeyTerms,
) -> Result<KeyReport, SignerOpenError> {
    generate_pair(session, size, id, terms)
        .map_err(|fault| SignerOpenError::device(token, &fault))?
        .map_err(|faults| SignerOpenError::UnfitKey { label: terms.label.clone(), id: id.to_vec(), faults })
}

/// Returns every private RSA key in the token, with any label.
///
/// # Errors
/// The errors of opening a signer that concern the token.
pub fn list(hsm: &config::Hsm) -> Result<Vec<KeyReport>, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = key::token_keys(session, None).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
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
        let keys = key::token_keys(session, Some(&hsm.key_label))
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let mut faults = Vec::new();
        if let Err(error) = key::each_with_its_id(&keys, &hsm.token_label, &hsm.key_label) {
            faults.push(error.to_string());
        }
        faults
            .extend(wrapping::faults(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?);
        let keys: Vec<_> = keys.into_iter().map(|key| check_key(session, key, &KeyTerms::from_config(hsm))).collect();
        let wrapping_keys = wrapping::ids(session, hsm)?;
        let ok = faults.is_empty() && keys.iter().all(|key| key.faults.is_empty());
        let removed = key::token_keys(session, Some(&removed_label(hsm)))
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        Ok(TokenCheck { ok, faults, keys, wrapping_keys, removed: removed.into_iter().map(|key| key.report).collect() })
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

/// Returns the label of keys that were removed because they were compromised.
///
/// The server neither publishes nor uses such a key, even if an old backup of the store lists it.
pub fn removed_label(hsm: &config::Hsm) -> String {
    format!("{}-removed", hsm.key_label)
}

/// Changes the label of the key with this kid, and of its public key and copies, to
/// [`removed_label`].
///
/// Returns whether the key existed.
///
/// # Errors
/// The errors of opening a signer that concern the token. Also `Device` if the token cannot change
/// labels.
pub fn mark_removed(hsm: &config::Hsm, kid: &str) -> Result<bool, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        let keys = key::token_keys(session, Some(&hsm.key_label)).map_err(device)?;
        let ids: Vec<_> = keys.into_iter().filter(|key| key.report.kid.as_str() == kid).map(|key| key.id).collect();
        for id in &ids {
            relabel(session, &hsm.key_label, id, &removed_label(hsm)).map_err(device)?;
        }
        Ok(!ids.is_empty())
    })
}

/// Changes the labels of a key's objects. The private object is last. If the operation is
/// interrupted, the next call therefore still finds the key and completes the change.
fn relabel(session: &Session, from: &str, id: &[u8], to: &str) -> Result<(), TokenFault> {
    for class in [ObjectClass::PUBLIC_KEY, ObjectClass::PRIVATE_KEY] {
        let template =
            [Attribute::Class(class), Attribute::Label(from.as_bytes().to_vec()), Attribute::Id(id.to_vec())];
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
    size: KeySize,
    id: &[u8],
    terms: &KeyTerms,
) -> Result<Result<KeyReport, Vec<String>>, TokenFault> {
    let common =
        [Attribute::Token(true), Attribute::Label(terms.label.as_bytes().to_vec()), Attribute::Id(id.to_vec())];
    // The template does not set the permitted uses of the public key: signatures are verified
    // without the token, and tpm2-pkcs11 treats VERIFY as DECRYPT and ENCRYPT as SIGN.
    let mut public = vec![
        Attribute::ModulusBits(u64::from(size.bits()).into()),
        Attribute::PublicExponent(vec![1, 0, 1]),
        Attribute::Private(false),
    ];
    public.extend_from_slice(&common);
    let mut private = key::private_key_template();
    private.extend_from_slice(&common);
    let (public, private) = session.generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private)?;

    let key = key::read_token_key(session, private)?;
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
