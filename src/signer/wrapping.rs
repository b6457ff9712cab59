//! The key in the token that wraps the store's data key: an AES-256 key that cannot leave, beside the signing keys and
//! under a label of its own. The token seals with AES-GCM, so whoever can write the store cannot put a data key that he
//! knows in the place of ours: the token refuses it. Used once, before the server serves; nothing here is fast.

use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use zeroize::Zeroizing;

use super::encoding::hex;
use super::error::SignerOpenError;
use super::fault::{ErrorClass, TokenFault};
use super::session::with_session;
use crate::config;

/// Bytes of the data key and of the wrapping key.
const KEY_BYTES: usize = 32;

/// Bytes of an AES-GCM nonce.
const NONCE_BYTES: usize = 12;

/// Bits of an AES-GCM tag.
const TAG_BITS: u64 = 128;

/// A data key as it lies in the store: what the token made of it, and under which of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// `CKA_ID` of the wrapping key, hexadecimal.
    pub wrapping_id: String,
    /// Nonce, ciphertext and tag.
    pub bytes: Vec<u8>,
}

pub struct DataKey {
    /// The key itself; wiped when dropped.
    pub key: Zeroizing<[u8; KEY_BYTES]>,
    /// The wrapped form when the key is new: keep it before anything is sealed with the key.
    pub to_keep: Option<WrappedKey>,
}

/// What [`kept_data_key`] finds.
pub(crate) enum KeptKey {
    /// A key that one of the token's wrapping keys has wrapped.
    Opened(DataKey),
    /// None of these was wrapped by one of the token's wrapping keys, whose ids are here.
    NotOurs(Vec<String>),
}

/// Chance for [`data_key`], in case it makes a key.
pub struct Fresh {
    pub key: Zeroizing<[u8; KEY_BYTES]>,
    /// The nonce with which it is wrapped.
    pub nonce: [u8; NONCE_BYTES],
}

/// Why the token did not seal or open something.
#[derive(Debug)]
enum Failed {
    /// The module or the token does not do this with this key, and never will.
    Refused(TokenFault),
    /// Anything else.
    Other(TokenFault),
}

impl Failed {
    fn fault(&self) -> &TokenFault {
        match self {
            Self::Refused(fault) | Self::Other(fault) => fault,
        }
    }

    /// As what an operator is told.
    fn told(&self, hsm: &config::Hsm, id: &str) -> SignerOpenError {
        match self {
            Self::Refused(fault) => refused(
                hsm,
                format!(
                    "it is there (CKA_ID {id}), and through {} nothing can be sealed with it ({fault}). That module passes no \
                     {} on, as p11-kit's client does not, or the key was made for another use. Let hsm.module name the token's \
                     own module, or delete the key: without it everything works but what needs sealing",
                    hsm.module.display(),
                    MechanismType::AES_GCM
                ),
            ),
            Self::Other(fault) => SignerOpenError::device(&hsm.token_label, fault),
        }
    }
}

impl From<Error> for Failed {
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

/// The label of the wrapping key.
fn label(hsm: &config::Hsm) -> String {
    format!("{}-wrap", hsm.key_label)
}

/// Makes the wrapping key. `id` becomes its `CKA_ID`: random bytes, 16 are enough; yields it in hexadecimal.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] when one is there already, the token has no AES-GCM, or the key is not as asked for (it is
/// removed again); others as for opening a signer.
pub fn wrap_init(hsm: &config::Hsm, id: &[u8]) -> Result<String, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        if let Some((_, id)) = wrapping_keys(session, hsm).map_err(device)?.first() {
            return Err(refused(hsm, format!("it is there already (CKA_ID {id}); nothing was made")));
        }
        make_proven(session, hsm, id)
    })
}

/// Makes the wrapping key and lets it seal something; yields its id. Removed again when it is not as asked for.
pub(super) fn make_proven(session: &Session, hsm: &config::Hsm, id: &[u8]) -> Result<String, SignerOpenError> {
    let handle = make(session, hsm, id)?;
    let faults = prove(session, handle, id).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    if faults.is_empty() {
        return Ok(hex(id));
    }
    if let Err(error) = session.destroy_object(handle) {
        tracing::error!(%error, id = hex(id), "the unfit key could not be removed; remove it by hand");
    }
    Err(refused(hsm, format!("the token made it otherwise than asked: {}", faults.join(", "))))
}

/// The ids of the token's wrapping keys.
pub(super) fn ids(session: &Session, hsm: &config::Hsm) -> Result<Vec<String>, SignerOpenError> {
    let found = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// The data key: of those kept, the one that was wrapped under the token's wrapping key, else `fresh`, now wrapped. None
/// when the token has no wrapping key.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] when the kept one does not open, or it is not clear which key wraps; others as for opening a
/// signer.
pub fn data_key(hsm: &config::Hsm, kept: &[WrappedKey], fresh: Fresh) -> Result<Option<DataKey>, SignerOpenError> {
    with_session(hsm, |session| {
        let found = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        if let Some(known) = open_known(session, hsm, &found, kept)? {
            return Ok(Some(known));
        }
        match found.as_slice() {
            [] => Ok(None),
            [(handle, id)] => wrap(session, hsm, *handle, id, fresh).map(Some),
            several => {
                let ids: Vec<&str> = several.iter().map(|(_, id)| id.as_str()).collect();
                let ids = ids.join(", ");
                Err(refused(hsm, format!("it is there several times (CKA_ID {ids}); keep one, delete the others")))
            }
        }
    })
}

/// The data key among these that one of the token's wrapping keys has wrapped; makes none.
///
/// # Errors
/// As [`data_key`].
pub(crate) fn kept_data_key(hsm: &config::Hsm, kept: &[WrappedKey]) -> Result<KeptKey, SignerOpenError> {
    with_session(hsm, |session| {
        let found = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let opened = open_known(session, hsm, &found, kept)?;
        Ok(opened.map_or_else(|| KeptKey::NotOurs(found.into_iter().map(|(_, id)| id).collect()), KeptKey::Opened))
    })
}

/// Wraps a data key that another node has sent, under the token's one wrapping key.
///
/// # Errors
/// [`SignerOpenError::WrappingKey`] without one, or with several; others as for opening a signer.
pub(crate) fn wrap_received(hsm: &config::Hsm, received: Fresh) -> Result<WrappedKey, SignerOpenError> {
    with_session(hsm, |session| {
        let found = wrapping_keys(session, hsm).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        let [(handle, id)] = &found[..] else {
            return Err(refused(hsm, format!("it is there {} times; one is needed", found.len())));
        };
        let wrapped = wrap(session, hsm, *handle, id, received)?.to_keep;
        wrapped.ok_or_else(|| refused(hsm, "what it wraps is not there".to_owned()))
    })
}

fn open_known(
    session: &Session,
    hsm: &config::Hsm,
    found: &[(ObjectHandle, String)],
    kept: &[WrappedKey],
) -> Result<Option<DataKey>, SignerOpenError> {
    let known =
        found.iter().find_map(|(handle, id)| Some((*handle, kept.iter().find(|kept| kept.wrapping_id == *id)?)));
    known.map(|(handle, kept)| unwrap(session, hsm, handle, kept)).transpose()
}

/// What keeps a start from using the token's wrapping keys, as far as the token alone can tell.
pub(super) fn faults(session: &Session, hsm: &config::Hsm) -> Result<Vec<String>, TokenFault> {
    let mut faults = Vec::new();
    for (handle, id) in wrapping_keys(session, hsm)? {
        match try_out(session, handle, &id) {
            Ok(()) => {}
            Err(Failed::Other(fault)) => return Err(fault),
            Err(refused) => faults.push(refused.told(hsm, &id).to_string()),
        }
    }
    Ok(faults)
}

fn wrap(
    session: &Session,
    hsm: &config::Hsm,
    handle: ObjectHandle,
    id: &str,
    fresh: Fresh,
) -> Result<DataKey, SignerOpenError> {
    let bytes =
        encrypt(session, handle, id, fresh.nonce, fresh.key.as_slice()).map_err(|failed| failed.told(hsm, id))?;
    let wrapped = WrappedKey { wrapping_id: id.to_owned(), bytes };
    // What does not come back now would not come back after the next start either.
    let back = unwrap(session, hsm, handle, &wrapped)?;
    if back.key != fresh.key {
        return Err(refused(hsm, "what it wraps does not come back".to_owned()));
    }
    Ok(DataKey { key: fresh.key, to_keep: Some(wrapped) })
}

fn unwrap(
    session: &Session,
    hsm: &config::Hsm,
    handle: ObjectHandle,
    kept: &WrappedKey,
) -> Result<DataKey, SignerOpenError> {
    let broken = || {
        refused(
            hsm,
            format!(
                "the data key in the store does not open with it (CKA_ID {}): the store or the token is another one, or the \
                 record was altered; bring back the right one",
                kept.wrapping_id
            ),
        )
    };
    let plain = decrypt(session, handle, &kept.wrapping_id, &kept.bytes);
    let plain = plain.map_err(|failed| match (&failed, failed.fault().class) {
        (Failed::Refused(_), _) | (_, ErrorClass::Login | ErrorClass::Capacity | ErrorClass::Session) => {
            failed.told(hsm, &kept.wrapping_id)
        }
        // Tokens name a wrong tag as they like: SoftHSM says GENERAL_ERROR.
        (Failed::Other(fault), _) => {
            tracing::error!(error = %fault, "the token does not unwrap the data key");
            broken()
        }
    })?;
    let key = <[u8; KEY_BYTES]>::try_from(plain.as_slice()).map_err(|_| broken())?;
    Ok(DataKey { key: Zeroizing::new(key), to_keep: None })
}

/// The token's wrapping keys with their ids.
fn wrapping_keys(session: &Session, hsm: &config::Hsm) -> Result<Vec<(ObjectHandle, String)>, TokenFault> {
    let template = [Attribute::Class(ObjectClass::SECRET_KEY), Attribute::Label(label(hsm).into_bytes())];
    let mut found = Vec::new();
    for handle in session.find_objects(&template)? {
        let attributes = session.get_attributes(handle, &[AttributeType::Id])?;
        let id = attributes.iter().find_map(|attribute| match attribute {
            Attribute::Id(id) => Some(hex(id)),
            _ => None,
        });
        found.push((handle, id.unwrap_or_default()));
    }
    Ok(found)
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
                    "the token makes no AES-256 key ({fault}); it must offer {} and {}. Only what needs sealing is off \
                     without it",
                    MechanismType::AES_KEY_GEN,
                    MechanismType::AES_GCM
                ),
            ),
            _ => SignerOpenError::device(&hsm.token_label, &fault),
        }
    })
}

/// What the new key lacks.
fn prove(session: &Session, handle: ObjectHandle, id: &[u8]) -> Result<Vec<String>, TokenFault> {
    let wanted = [
        Attribute::Sensitive(true),
        Attribute::AlwaysSensitive(true),
        Attribute::Extractable(false),
        Attribute::NeverExtractable(true),
        Attribute::Local(true),
    ];
    let kinds: Vec<AttributeType> = wanted.iter().map(Attribute::attribute_type).collect();
    let stated = session.get_attributes(handle, &kinds)?;
    let missing = wanted.iter().filter(|attribute| !stated.contains(attribute));
    let mut faults: Vec<String> = missing.map(|attribute| format!("not {attribute:?}")).collect();
    if let Err(failed) = try_out(session, handle, &hex(id)) {
        faults.push(format!("it does not seal with {} ({})", MechanismType::AES_GCM, failed.fault()));
    }
    Ok(faults)
}

/// Seals something and opens it again.
fn try_out(session: &Session, handle: ObjectHandle, id: &str) -> Result<(), Failed> {
    let sample = [0x5a; KEY_BYTES];
    let sealed = encrypt(session, handle, id, [0; NONCE_BYTES], &sample)?;
    if decrypt(session, handle, id, &sealed)?.as_slice() == sample {
        return Ok(());
    }
    Err(Failed::Refused(TokenFault::new(ErrorClass::Device, "what it seals does not come back")))
}

/// Binds a wrapped key to its use and to the key that wraps it.
fn associated(id: &str) -> Vec<u8> {
    [b"sealgate data key 1 ", id.as_bytes()].concat()
}

fn encrypt(
    session: &Session,
    handle: ObjectHandle,
    id: &str,
    nonce: [u8; NONCE_BYTES],
    plain: &[u8],
) -> Result<Vec<u8>, Failed> {
    let (mut iv, aad) = (nonce, associated(id));
    let parameters = GcmParams::new(&mut iv, &aad, TAG_BITS.into())?;
    let sealed = session.encrypt(&Mechanism::AesGcm(parameters), handle, plain)?;
    Ok([&nonce[..], &sealed].concat())
}

fn decrypt(session: &Session, handle: ObjectHandle, id: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failed> {
    let (nonce, sealed) = sealed
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(|| Failed::Other(TokenFault::new(ErrorClass::Bug, "a wrapped key that is too short")))?;
    let (mut iv, aad) = (*nonce, associated(id));
    let parameters = GcmParams::new(&mut iv, &aad, TAG_BITS.into())?;
    Ok(Zeroizing::new(session.decrypt(&Mechanism::AesGcm(parameters), handle, sealed)?))
}

fn refused(hsm: &config::Hsm, reason: String) -> SignerOpenError {
    SignerOpenError::WrappingKey { token: hsm.token_label.clone(), label: label(hsm), reason }
}
