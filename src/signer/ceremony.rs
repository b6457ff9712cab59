//! What an operator does with the keys in the token: make one, list them, check them. Each function opens the token,
//! logs in once, and leaves it again; run them in a process of their own, not beside a signer.

use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::Session;
use serde::Serialize;

use super::encoding::hex;
use super::error::SignerOpenError;
use super::fault::TokenFault;
use super::key::{self, KeyReport, KeyTerms, TokenKey};
use super::session::with_session;
use super::wrapping;
use crate::config;

/// The sizes of key that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySize {
    /// 2048 bits.
    Rsa2048,
    /// 3072 bits.
    Rsa3072,
    /// 4096 bits.
    Rsa4096,
}

impl KeySize {
    /// The modulus's length, bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Rsa2048 => 2048,
            Self::Rsa3072 => 3072,
            Self::Rsa4096 => 4096,
        }
    }

    /// The size with this many bits; none for others.
    pub fn from_bits(bits: u32) -> Option<Self> {
        [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096].into_iter().find(|size| size.bits() == bits)
    }
}

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Whether a server would start with this token.
    pub ok: bool,
    /// Why not, as far as it is not about one key.
    pub faults: Vec<String>,
    pub keys: Vec<CheckedKey>,
    /// The `CKA_ID`s of the keys that wrap, hexadecimal.
    pub wrapping_keys: Vec<String>,
    /// Keys that were removed for cause: see [`mark_removed`].
    pub removed: Vec<KeyReport>,
}

/// One key of a [`Check`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedKey {
    #[serde(flatten)]
    pub report: KeyReport,
    /// Why it may not sign tokens; empty when it may.
    pub faults: Vec<String>,
}

/// What [`generate_first`] made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FirstKeys {
    #[serde(flatten)]
    pub signing: KeyReport,
    /// The `CKA_ID` of the key that wraps, hexadecimal, when it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrapping_key: Option<String>,
}

/// Makes a token ready: the key that wraps where the token has none, which gets the `CKA_ID` `wrapping` (`None`: it is not
/// wanted), and then the first signing key as [`generate`] does. Where the first cannot be made, the second is not.
///
/// # Errors
/// As [`generate`]; [`SignerOpenError::WrappingKey`] when the token makes none that seals.
pub(crate) fn generate_first(
    hsm: &config::Hsm,
    size: KeySize,
    id: &[u8],
    wrapping: Option<&[u8]>,
) -> Result<FirstKeys, SignerOpenError> {
    with_session(hsm, |session| {
        refuse_known(session, hsm, id, false)?;
        let wrapping_key = match wrapping {
            Some(id) if wrapping::ids(session, hsm)?.is_empty() => Some(wrapping::make_proven(session, hsm, id)?),
            _ => None,
        };
        let signing = make(session, size, id, &hsm.token_label, &KeyTerms::of(hsm))?;
        Ok(FirstKeys { signing, wrapping_key })
    })
}

/// Makes a key pair on the token that can sign and cannot leave. `id` becomes its `CKA_ID`: random bytes, 16 are enough.
/// `further`: beside other keys with the configured label.
///
/// # Errors
/// [`SignerOpenError::KeyExists`] when a key with the id, or the label unless `further`, is there already; [`SignerOpenError::UnfitKey`] when the token
/// made a key without the properties asked for (it is removed again); all others as for opening a signer.
pub fn generate(hsm: &config::Hsm, size: KeySize, id: &[u8], further: bool) -> Result<KeyReport, SignerOpenError> {
    with_session(hsm, |session| {
        refuse_known(session, hsm, id, further)?;
        make(session, size, id, &hsm.token_label, &KeyTerms::of(hsm))
    })
}

fn refuse_known(session: &Session, hsm: &config::Hsm, id: &[u8], further: bool) -> Result<(), SignerOpenError> {
    let existing = key::token_keys(session, None).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    let taken: Vec<Vec<u8>> = existing
        .into_iter()
        .filter(|key| (key.report.label == hsm.key_label && !further) || key.id == id)
        .map(|key| key.id)
        .collect();
    if taken.is_empty() {
        return Ok(());
    }
    Err(SignerOpenError::KeyExists { token: hsm.token_label.clone(), label: hsm.key_label.clone(), ids: taken })
}

/// Makes a key pair in this session, which can write.
///
/// # Errors
/// `UnfitKey`, or `Device` when the token fails or lets nobody make a key.
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

/// Every private RSA key in the token, whatever its label.
///
/// # Errors
/// As for opening a signer, as far as the token is concerned.
pub fn list(hsm: &config::Hsm) -> Result<Vec<KeyReport>, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = key::token_keys(session, None).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        Ok(keys.into_iter().map(|key| key.report).collect())
    })
}

/// Says of the keys with the configured label whether a server could sign with them: at least one, no two with the same
/// `CKA_ID`, each with the properties of a signing key and a signature that verifies. And whether the wrapping key, where
/// there is one, seals through this module.
///
/// # Errors
/// As for opening a signer, as far as the token is concerned; what is wrong with keys is in the [`Check`].
pub fn check(hsm: &config::Hsm) -> Result<Check, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = key::token_keys(session, Some(&hsm.key_label))
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let mut faults = Vec::new();
        if let Err(error) = key::each_with_its_id(&keys, &hsm.token_label, &hsm.key_label) {
            faults.push(error.to_string());
        }
        faults
            .extend(wrapping::faults(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?);
        let keys: Vec<_> = keys.into_iter().map(|key| checked(session, key, &KeyTerms::of(hsm))).collect();
        let wrapping_keys = wrapping::ids(session, hsm)?;
        let ok = faults.is_empty() && keys.iter().all(|key| key.faults.is_empty());
        let removed = key::token_keys(session, Some(&removed_label(hsm)))
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        Ok(Check { ok, faults, keys, wrapping_keys, removed: removed.into_iter().map(|key| key.report).collect() })
    })
}

fn checked(session: &Session, key: TokenKey, terms: &KeyTerms) -> CheckedKey {
    let report = key.report.clone();
    let faults = match key.into_signing_key(terms) {
        Ok(key) => key::prove(session, &key).err().map(|fault| fault.text).into_iter().collect(),
        Err(SignerOpenError::UnfitKey { faults, .. }) => faults,
        Err(error) => vec![error.to_string()],
    };
    CheckedKey { report, faults }
}

/// The label of a key that was removed for cause. Such a key is none of the server's: it is neither published nor used,
/// whatever a store says that knows nothing of its removal.
pub(crate) fn removed_label(hsm: &config::Hsm) -> String {
    format!("{}-removed", hsm.key_label)
}

/// Gives the key with this kid the label of removed keys, its public part and copies of it too. Yields whether it was there.
///
/// # Errors
/// As for opening a signer, as far as the token is concerned; `Device` where it does not let a label be changed.
pub(crate) fn mark_removed(hsm: &config::Hsm, kid: &str) -> Result<bool, SignerOpenError> {
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

/// The private object last: a key that is half done is still found, and the next try goes on with it.
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

/// Makes the pair, reads it back and lets it sign. The inner error lists what the token did not honour; the pair is
/// destroyed then.
fn generate_pair(
    session: &Session,
    size: KeySize,
    id: &[u8],
    terms: &KeyTerms,
) -> Result<Result<KeyReport, Vec<String>>, TokenFault> {
    let common =
        [Attribute::Token(true), Attribute::Label(terms.label.as_bytes().to_vec()), Attribute::Id(id.to_vec())];
    // What the public key may be used for in the token is not asked for: anybody can do that elsewhere, and tpm2-pkcs11
    // takes VERIFY for DECRYPT and ENCRYPT for SIGN.
    let mut public = vec![
        Attribute::ModulusBits(u64::from(size.bits()).into()),
        Attribute::PublicExponent(vec![1, 0, 1]),
        Attribute::Private(false),
    ];
    public.extend_from_slice(&common);
    let mut private = vec![
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Sign(true),
        Attribute::Decrypt(false),
        Attribute::Unwrap(false),
    ];
    private.extend_from_slice(&common);
    let (public, private) = session.generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private)?;

    let key = key::read(session, private)?;
    let report = key.report.clone();
    let faults = checked(session, key, terms).faults;
    if faults.is_empty() {
        return Ok(Ok(report));
    }
    for object in [public, private] {
        if let Err(error) = session.destroy_object(object) {
            tracing::error!(%error, id = hex(id), "the unfit key could not be removed; remove it by hand");
        }
    }
    Ok(Err(faults))
}
