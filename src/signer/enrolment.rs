//! Key pair in a new node's token that receives the cluster's data key.
//!
//! The RSA pair only decrypts, is separate from the signing keys and has its own label. A serving
//! node encrypts the data key to the pair in software. That does not expose the data key further,
//! because serving nodes have it in memory anyway.

use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use zeroize::Zeroizing;

use super::error::SignerOpenError;
use super::fault::{ErrorClass, TokenFault};
use super::key::KeyTerms;
use super::{key, wrapping};
use crate::worker::with_session;
use sealgate_config as config;
use sealgate_domain::admission;
use sealgate_domain::admission::OaepHash;
use sealgate_domain::key_ring::PublicJwk;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::secret::base64url;

/// Key sizes in bits, in the order to try. The pair protects everything that is sealed with the
/// data key, but some tokens cannot generate 3072 bits.
const SIZES: [u64; 2] = [3072, 2048];

/// OAEP hashes, in the order to try.
const HASHES: [OaepHash; 2] = [OaepHash::Sha256, OaepHash::Sha1];

/// Public keys that a node sends when it requests to join a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentKeys {
    /// The only signing key in the token of the node.
    pub signing: PublicJwk,
    /// Public key of the enrolment pair.
    pub enrolment: PublicJwk,
    /// OAEP hash that the token supports for decryption.
    pub hash: OaepHash,
}

fn label(hsm: &config::Hsm) -> String {
    format!("{}-enrolment", hsm.key_label)
}

/// Reads the signing key and the enrolment pair. Generates the pair with `CKA_ID` `id` if it does
/// not exist.
///
/// # Errors
/// [`SignerOpenError::Enrolment`] with the remedy. Other errors as for opening a signer.
pub fn enrolment_keys(hsm: &config::Hsm, id: &[u8]) -> Result<EnrolmentKeys, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        // Nodes trust one another by RS256 keys.
        let keys = key::signing_keys(session, &hsm.token_label, &KeyTerms::only(hsm, Algorithm::Rs256))?;
        let [signing] = &keys[..] else {
            return Err(refused(hsm, "the token of a new node must have only one signing key; delete the others"));
        };
        let (modulus, exponent) = (signing.public.modulus(), signing.public.exponent());
        let signing = PublicJwk::rsa(&base64url(modulus), &base64url(exponent));
        if wrapping::ids(session, hsm)?.len() != 1 {
            let what = "the token has no wrapping key for the data key; run: sealgate key generate-wrapping-key";
            return Err(refused(hsm, what));
        }
        if find(session, hsm, ObjectClass::PRIVATE_KEY).map_err(device)?.is_empty() {
            make(session, hsm, id)?;
        }
        let [private] = find(session, hsm, ObjectClass::PRIVATE_KEY).map_err(device)?[..] else {
            return Err(refused(hsm, "the token has several enrolment keys; delete all of them"));
        };
        let enrolment = public_part(session, private).map_err(device)?;
        let try_out = |hash: &OaepHash| {
            let sample = admission::encrypt(&enrolment, *hash, b"sealgate").ok()?;
            let opened = decrypt(session, private, *hash, &sample).ok()?;
            (opened.as_slice() == b"sealgate").then_some(*hash)
        };
        let Some(hash) = HASHES.iter().find_map(try_out) else {
            return Err(refused(
                hsm,
                "the token's enrolment key does not decrypt with CKM_RSA_PKCS_OAEP; use a token that supports it",
            ));
        };
        Ok(EnrolmentKeys { signing, enrolment, hash })
    })
}

/// Signs each message with the key `kid` in the token, on a node that is not serving.
///
/// # Errors
/// [`SignerOpenError::Enrolment`] if the token has no such key. Other errors as for opening a
/// signer.
pub fn sign_apart(hsm: &config::Hsm, kid: &str, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        let keys = key::signing_keys(session, &hsm.token_label, &KeyTerms::only(hsm, Algorithm::Rs256))?;
        let key = keys.iter().find(|key| key.public.kid().as_str() == kid);
        let key = key.ok_or_else(|| refused(hsm, "the signing key was removed from the token during the operation"))?;
        let handle = key::find_again(session, key).map_err(device)?;
        let sign = |message: &Vec<u8>| Ok(key::sign(session, handle, key, &key.message(message))?.as_bytes().to_vec());
        messages.iter().map(sign).collect::<Result<_, TokenFault>>().map_err(device)
    })
}

/// Decrypts the data key that another node encrypted to the enrolment key `to`.
///
/// # Errors
/// [`SignerOpenError::Enrolment`] if the token has no such key, or the plaintext is not a data key.
pub fn open_envelope(
    hsm: &config::Hsm,
    to: &PublicJwk,
    hash: OaepHash,
    ciphertext: &[u8],
) -> Result<Zeroizing<[u8; 32]>, SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        for private in find(session, hsm, ObjectClass::PRIVATE_KEY).map_err(device)? {
            if public_part(session, private).map_err(device)? != *to {
                continue;
            }
            let plain = decrypt(session, private, hash, ciphertext).map_err(device)?;
            let key = <[u8; 32]>::try_from(plain.as_slice()).map(Zeroizing::new);
            return key.map_err(|_| refused(hsm, "the decrypted value is not a data key"));
        }
        Err(refused(hsm, "the enrolment key of the request is no longer in the token"))
    })
}

/// Destroys the enrolment pair after its use.
///
/// # Errors
/// The errors of opening a signer.
pub fn destroy_enrolment(hsm: &config::Hsm) -> Result<(), SignerOpenError> {
    with_session(hsm, |session| {
        let device = |fault: TokenFault| SignerOpenError::device(&hsm.token_label, &fault);
        for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY] {
            for object in find(session, hsm, class).map_err(device)? {
                session.destroy_object(object).map_err(|error| device(error.into()))?;
            }
        }
        Ok(())
    })
}

fn decrypt(
    session: &Session,
    private: ObjectHandle,
    hash: OaepHash,
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, TokenFault> {
    let (hash, mask) = match hash {
        OaepHash::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
        OaepHash::Sha1 => (MechanismType::SHA1, PkcsMgfType::MGF1_SHA1),
    };
    let parameters = PkcsOaepParams::new(hash, mask, PkcsOaepSource::empty());
    Ok(Zeroizing::new(session.decrypt(&Mechanism::RsaPkcsOaep(parameters), private, ciphertext)?))
}

fn find(session: &Session, hsm: &config::Hsm, class: ObjectClass) -> Result<Vec<ObjectHandle>, TokenFault> {
    let label = Attribute::Label(label(hsm).into_bytes());
    Ok(session.find_objects(&[Attribute::Class(class), Attribute::KeyType(KeyType::RSA), label])?)
}

fn make(session: &Session, hsm: &config::Hsm, id: &[u8]) -> Result<(), SignerOpenError> {
    let common = [Attribute::Token(true), Attribute::Label(label(hsm).into_bytes()), Attribute::Id(id.to_vec())];
    let mut private = vec![
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Decrypt(true),
        Attribute::Unwrap(false),
        Attribute::Sign(false),
    ];
    private.extend_from_slice(&common);
    let mut last = None;
    for bits in SIZES {
        let mut public = vec![
            Attribute::ModulusBits(bits.into()),
            Attribute::PublicExponent(vec![1, 0, 1]),
            Attribute::Private(false),
        ];
        public.extend_from_slice(&common);
        match session.generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private) {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(TokenFault::from(error)),
        }
    }
    let fault = last.unwrap_or_else(|| TokenFault::new(ErrorClass::Bug, "no key size was tried"));
    Err(refused(hsm, &format!("the token cannot generate an RSA key for decryption ({fault})")))
}

fn public_part(session: &Session, private: ObjectHandle) -> Result<PublicJwk, TokenFault> {
    let attributes = session.get_attributes(private, &[AttributeType::Id])?;
    let id = attributes.iter().find_map(|attribute| match attribute {
        Attribute::Id(id) => Some(id.as_slice()),
        _ => None,
    });
    let (modulus, exponent) = key::modulus_and_exponent(session, private, id.unwrap_or_default())?;
    Ok(PublicJwk::rsa(&base64url(&modulus), &base64url(&exponent)))
}

fn refused(hsm: &config::Hsm, reason: &str) -> SignerOpenError {
    SignerOpenError::Enrolment { token: hsm.token_label.clone(), reason: reason.to_owned() }
}
