//! The wrapping key in the token, which encrypts the store's data key.
//!
//! The wrapping key is a non-extractable AES-256 key, separate from the signing keys and with its
//! own label. The token encrypts with AES-GCM: if an attacker who can write to the store replaces
//! the data key, the token refuses to decrypt it. The wrapping key is used once at start, so its
//! speed does not matter.

use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use zeroize::Zeroizing;

use super::error::SignerOpenError;
use super::fault::{ErrorClass, TokenFault};
use crate::public_key::hex;
use crate::worker::with_session;
use sealgate_config as config;

/// Length of the data key and of the wrapping key in bytes.
const KEY_BYTES: usize = 32;

/// Length of an AES-GCM nonce in bytes.
const NONCE_BYTES: usize = 12;

/// Length of an AES-GCM tag in bits.
const TAG_BITS: u64 = 128;

/// An encrypted data key in the store, and the id of its wrapping key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// `CKA_ID` of the wrapping key in hexadecimal.
    pub wrapping_id: String,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

/// The data key in clear.
pub struct DataKey {
    /// Zeroized when dropped.
    pub key: Zeroizing<[u8; KEY_BYTES]>,
    /// Encrypted form of a new data key. Store it before using the key.
    pub to_store: Option<WrappedKey>,
}

/// Result of [`stored_data_key`].
pub enum StoredDataKey {
    /// Data key from the store, decrypted by a wrapping key in the token.
    Opened(DataKey),
    /// No wrapping key in the token belongs to a stored data key. Contains the ids of the wrapping
    /// keys in the token.
    NoMatchingKey(Vec<String>),
}

/// Random bytes for a data key that may have to be created.
pub struct FreshRandom {
    pub key: Zeroizing<[u8; KEY_BYTES]>,
    /// Nonce for encrypting the data key.
    pub nonce: [u8; NONCE_BYTES],
}

/// Reason why the token did not encrypt or decrypt.
#[derive(Debug)]
enum WrappingFault {
    /// The token does not support the operation with this key. A retry would fail too.
    Refused(TokenFault),
    Other(TokenFault),
}

impl WrappingFault {
    fn fault(&self) -> &TokenFault {
        match self {
            Self::Refused(fault) | Self::Other(fault) => fault,
        }
    }

    /// Converts the failure to an error for the operator.
    fn to_open_error(&self, hsm: &config::Hsm, id: &str) -> SignerOpenError {
        match self {
            Self::Refused(fault) => refused(
                hsm,
                format!(
                    "it exists (CKA_ID {id}), but cannot encrypt through {} ({fault}). That module does not \
                     support {} (p11-kit's client, for example), or the key has another purpose. Set \
                     hsm.module to the token's own module, or delete the key; without it, only features that \
                     need sealing are unavailable",
                    hsm.module.display(),
                    MechanismType::AES_GCM
                ),
            ),
            Self::Other(fault) => SignerOpenError::device(&hsm.token_label, fault),
        }
    }
}

impl From<Error> for WrappingFault {
    fn from(error: Error) -> Self {
        let refused = matches!(
            error,
            Error::Pkcs11(
                RvError::MechanismInvalid
                    | RvError::MechanismParamInvalid
                    | RvError::FunctionNotSupported
                    | RvError::KeyFunctionNotPermitted
                    | RvError::KeyTypeInconsistent
                    | RvError::KeySizeRange,
                _
            )
        );
        if refused { Self::Refused(error.into()) } else { Self::Other(error.into()) }
    }
}

fn label(hsm: &config::Hsm) -> String {
    format!("{}-wrap", hsm.key_label)
}

/// Generates the wrapping key. Returns its `CKA_ID` in hexadecimal.
///
/// `id` becomes the `CKA_ID`; 16 random bytes are enough.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] if a wrapping key exists, if the token has no AES-GCM, or if
/// the token ignored a requested property. In the last case, the new key is removed. Other errors
/// as for opening a signer.
pub fn wrap_init(hsm: &config::Hsm, id: &[u8]) -> Result<String, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        if let Some((_, id)) = wrapping_keys(session, hsm).map_err(device)?.first() {
            return Err(refused(hsm, format!("it already exists (CKA_ID {id}); nothing was generated")));
        }
        make_tested(session, hsm, id)
    })
}

/// Generates the wrapping key and tests it. Returns its id. Removes the key if the token ignored a
/// requested property.
pub(super) fn make_tested(session: &Session, hsm: &config::Hsm, id: &[u8]) -> Result<String, SignerOpenError> {
    let handle = make(session, hsm, id)?;
    let faults =
        test_wrapping(session, handle, id).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    if faults.is_empty() {
        return Ok(hex(id));
    }
    if let Err(error) = session.destroy_object(handle) {
        tracing::error!(%error, id = hex(id), "cannot remove the unsuitable key; remove it by hand");
    }
    Err(refused(hsm, format!("the token created it with other attributes than requested: {}", faults.join(", "))))
}

/// Returns the ids of the wrapping keys in the token.
pub(super) fn ids(session: &Session, hsm: &config::Hsm) -> Result<Vec<String>, SignerOpenError> {
    let keys = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    Ok(keys.into_iter().map(|(_, id)| id).collect())
}

/// Decrypts the stored data key that belongs to a wrapping key in the token. If there is no such
/// data key, encrypts `fresh` as a new data key.
///
/// Returns `None` if the token has no wrapping key.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] if the stored data key cannot be decrypted, or if a new data
/// key is required and the token has several wrapping keys. Other errors as for opening a signer.
pub fn data_key(
    hsm: &config::Hsm,
    wrapped_keys: &[WrappedKey],
    fresh: FreshRandom,
) -> Result<Option<DataKey>, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        if let Some(known) = open_known(session, hsm, &keys, wrapped_keys)? {
            return Ok(Some(known));
        }
        match keys.as_slice() {
            [] => Ok(None),
            [(handle, id)] => wrap(session, hsm, *handle, id, fresh).map(Some),
            several => {
                let ids: Vec<&str> = several.iter().map(|(_, id)| id.as_str()).collect();
                let ids = ids.join(", ");
                Err(refused(hsm, format!("it exists several times (CKA_ID {ids}); keep one and delete the others")))
            }
        }
    })
}

/// Decrypts the stored data key that belongs to a wrapping key in the token. Never creates a data
/// key.
///
/// # Errors
/// As [`data_key`].
pub fn stored_data_key(hsm: &config::Hsm, wrapped_keys: &[WrappedKey]) -> Result<StoredDataKey, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let opened = open_known(session, hsm, &keys, wrapped_keys)?;
        Ok(opened.map_or_else(
            || StoredDataKey::NoMatchingKey(keys.into_iter().map(|(_, id)| id).collect()),
            StoredDataKey::Opened,
        ))
    })
}

/// Encrypts a data key, received from another node, with the only wrapping key in the token.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] if the token has no wrapping key or several. Other errors as
/// for opening a signer.
pub fn wrap_received(hsm: &config::Hsm, received: FreshRandom) -> Result<WrappedKey, SignerOpenError> {
    with_session(hsm, |session| {
        let keys = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let [(handle, id)] = &keys[..] else {
            return Err(refused(hsm, format!("it exists {} times; exactly one is required", keys.len())));
        };
        let wrapped = wrap(session, hsm, *handle, id, received)?.to_store;
        wrapped.ok_or_else(|| refused(hsm, "the token returned no wrapped data key".to_owned()))
    })
}

fn open_known(
    session: &Session,
    hsm: &config::Hsm,
    own_keys: &[(ObjectHandle, String)],
    wrapped_keys: &[WrappedKey],
) -> Result<Option<DataKey>, SignerOpenError> {
    let known = own_keys
        .iter()
        .find_map(|(handle, id)| Some((*handle, wrapped_keys.iter().find(|key| key.wrapping_id == *id)?)));
    known.map(|(handle, wrapped_key)| unwrap(session, hsm, handle, wrapped_key)).transpose()
}

/// Returns the reasons why the wrapping keys in the token cannot be used. Reads only the token, not
/// the store.
pub(super) fn faults(session: &Session, hsm: &config::Hsm) -> Result<Vec<String>, TokenFault> {
    let mut faults = Vec::new();
    for (handle, id) in wrapping_keys(session, hsm)? {
        match test_round_trip(session, handle, &id) {
            Ok(()) => {}
            Err(WrappingFault::Other(fault)) => return Err(fault),
            Err(refused) => faults.push(refused.to_open_error(hsm, &id).to_string()),
        }
    }
    Ok(faults)
}

fn wrap(
    session: &Session,
    hsm: &config::Hsm,
    handle: ObjectHandle,
    id: &str,
    fresh: FreshRandom,
) -> Result<DataKey, SignerOpenError> {
    let bytes = encrypt(session, handle, id, fresh.nonce, fresh.key.as_slice())
        .map_err(|failed| failed.to_open_error(hsm, id))?;
    let wrapped = WrappedKey { wrapping_id: id.to_owned(), bytes };
    // Check that the token can decrypt the data key again. Otherwise the next start could not
    // decrypt it.
    let back = unwrap(session, hsm, handle, &wrapped)?;
    if back.key != fresh.key {
        return Err(refused(hsm, "a data key that this key wraps does not unwrap to the same value".to_owned()));
    }
    Ok(DataKey { key: fresh.key, to_store: Some(wrapped) })
}

fn unwrap(
    session: &Session,
    hsm: &config::Hsm,
    handle: ObjectHandle,
    wrapped_key: &WrappedKey,
) -> Result<DataKey, SignerOpenError> {
    let broken = || {
        refused(
            hsm,
            format!(
                "it cannot decrypt the data key in the store (CKA_ID {}): the token does not belong to this \
                 store, or the record was altered; restore the right token or store",
                wrapped_key.wrapping_id
            ),
        )
    };
    let plain = decrypt(session, handle, &wrapped_key.wrapping_id, &wrapped_key.bytes);
    let plain = plain.map_err(|failed| match (&failed, failed.fault().class) {
        (WrappingFault::Refused(_), _) | (_, ErrorClass::Login | ErrorClass::Capacity | ErrorClass::Session) => {
            failed.to_open_error(hsm, &wrapped_key.wrapping_id)
        }
        // Tokens return different codes for a wrong tag. SoftHSM returns GENERAL_ERROR.
        (WrappingFault::Other(fault), _) => {
            tracing::error!(error = %fault, "the token does not unwrap the data key");
            broken()
        }
    })?;
    let key = <[u8; KEY_BYTES]>::try_from(plain.as_slice()).map_err(|_| broken())?;
    Ok(DataKey { key: Zeroizing::new(key), to_store: None })
}

/// Returns the wrapping keys in the token with their ids.
fn wrapping_keys(session: &Session, hsm: &config::Hsm) -> Result<Vec<(ObjectHandle, String)>, TokenFault> {
    let template = [Attribute::Class(ObjectClass::SECRET_KEY), Attribute::Label(label(hsm).into_bytes())];
    let mut keys = Vec::new();
    for handle in session.find_objects(&template)? {
        let attributes = session.get_attributes(handle, &[AttributeType::Id])?;
        let id = attributes.iter().find_map(|attribute| match attribute {
            Attribute::Id(id) => Some(hex(id)),
            _ => None,
        });
        keys.push((handle, id.unwrap_or_default()));
    }
    Ok(keys)
}

fn make(session: &Session, hsm: &config::Hsm, id: &[u8]) -> Result<ObjectHandle, SignerOpenError> {
    let template = [
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Encrypt(true),
        Attribute::Decrypt(true),
        Attribute::Wrap(false),
        Attribute::Unwrap(false),
        Attribute::Sign(false),
        Attribute::Verify(false),
        Attribute::ValueLen((KEY_BYTES as u64).into()),
        Attribute::Label(label(hsm).into_bytes()),
        Attribute::Id(id.to_vec()),
    ];
    session.generate_key(&Mechanism::AesKeyGen, &template).map_err(|error| {
        let fault = TokenFault::from(error);
        match fault.class {
            ErrorClass::Bug | ErrorClass::Device => refused(
                hsm,
                format!(
                    "the token cannot generate an AES-256 key ({fault}); it must support {} and {}. Without \
                     it, only features that need sealing are unavailable",
                    MechanismType::AES_KEY_GEN,
                    MechanismType::AES_GCM
                ),
            ),
            _ => SignerOpenError::device(&hsm.token_label, &fault),
        }
    })
}

/// Tests a new wrapping key. Returns the required properties that it lacks.
fn test_wrapping(session: &Session, handle: ObjectHandle, id: &[u8]) -> Result<Vec<String>, TokenFault> {
    let attributes = [
        Attribute::Sensitive(true),
        Attribute::AlwaysSensitive(true),
        Attribute::Extractable(false),
        Attribute::NeverExtractable(true),
        Attribute::Local(true),
    ];
    let kinds: Vec<AttributeType> = attributes.iter().map(Attribute::attribute_type).collect();
    let stated = session.get_attributes(handle, &kinds)?;
    let missing = attributes.iter().filter(|attribute| !stated.contains(attribute));
    let mut faults: Vec<String> = missing.map(|attribute| format!("not {attribute:?}")).collect();
    if let Err(failed) = test_round_trip(session, handle, &hex(id)) {
        faults.push(format!("it does not encrypt with {} ({})", MechanismType::AES_GCM, failed.fault()));
    }
    Ok(faults)
}

/// Encrypts a sample and decrypts it again.
fn test_round_trip(session: &Session, handle: ObjectHandle, id: &str) -> Result<(), WrappingFault> {
    let sample = [0x5a; KEY_BYTES];
    let sealed = encrypt(session, handle, id, [0; NONCE_BYTES], &sample)?;
    if decrypt(session, handle, id, &sealed)?.as_slice() == sample {
        return Ok(());
    }
    Err(WrappingFault::Refused(TokenFault::new(
        ErrorClass::Device,
        "data that the key encrypts does not decrypt to the same value",
    )))
}

/// Returns the associated data, which binds an encrypted data key to its purpose and its wrapping
/// key.
fn associated_data(id: &str) -> Vec<u8> {
    [b"sealgate data key 1 ", id.as_bytes()].concat()
}

fn encrypt(
    session: &Session,
    handle: ObjectHandle,
    id: &str,
    nonce: [u8; NONCE_BYTES],
    plain: &[u8],
) -> Result<Vec<u8>, WrappingFault> {
    let (mut iv, aad) = (nonce, associated_data(id));
    let parameters = GcmParams::new(&mut iv, &aad, TAG_BITS.into())?;
    let sealed = session.encrypt(&Mechanism::AesGcm(parameters), handle, plain)?;
    Ok([&nonce[..], &sealed].concat())
}

fn decrypt(
    session: &Session,
    handle: ObjectHandle,
    id: &str,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, WrappingFault> {
    let (nonce, sealed) = sealed
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(|| WrappingFault::Other(TokenFault::new(ErrorClass::Bug, "the wrapped key is too short")))?;
    let (mut iv, aad) = (*nonce, associated_data(id));
    let parameters = GcmParams::new(&mut iv, &aad, TAG_BITS.into())?;
    Ok(Zeroizing::new(session.decrypt(&Mechanism::AesGcm(parameters), handle, sealed)?))
}

fn refused(hsm: &config::Hsm, reason: String) -> SignerOpenError {
    SignerOpenError::WrappingKey { token: hsm.token_label.clone(), label: label(hsm), reason }
}
