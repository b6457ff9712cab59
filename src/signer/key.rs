//! Private keys in the token: reading what the token states about them, refusing those that are not fit to sign, and
//! finding a known key again. Knows no threads and no files.

use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use serde::Serialize;

use aws_lc_rs::digest::Digest;

use super::encoding::{digest_info, hex, sha256, without_leading_zeros};
use super::error::OpenError;
use super::fault::{ErrorClass, Fault};
use super::keyring::{KeyId, PublicKey, Signature, UnfitPublicKey};

/// What the token states about a private key. `None` where it states nothing. These are the token's claims: only a
/// vendor's attestation proves them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// The RFC 7638 thumbprint of the public part.
    pub kid: KeyId,
    /// `CKA_ID`, hexadecimal.
    pub id: String,
    /// `CKA_LABEL`.
    pub label: String,
    /// The modulus's length, bits.
    pub bits: usize,
    /// `CKA_SENSITIVE`: its value cannot be read.
    pub sensitive: Option<bool>,
    /// `CKA_ALWAYS_SENSITIVE`: nor could it ever.
    pub always_sensitive: Option<bool>,
    /// `CKA_EXTRACTABLE`: it can leave the token wrapped.
    pub extractable: Option<bool>,
    /// `CKA_NEVER_EXTRACTABLE`: it never could.
    pub never_extractable: Option<bool>,
    /// `CKA_LOCAL`: it was made on the token.
    pub local: Option<bool>,
    /// `CKA_SIGN`.
    pub can_sign: Option<bool>,
    /// `CKA_DECRYPT`.
    pub can_decrypt: Option<bool>,
    /// `CKA_UNWRAP`.
    pub can_unwrap: Option<bool>,
    /// `CKA_ALWAYS_AUTHENTICATE`: each signature asks for the PIN again.
    pub always_authenticate: Option<bool>,
}

impl KeyReport {
    /// Every reason why the key may not sign tokens; empty when it may.
    pub fn faults(&self) -> Vec<String> {
        let required = [
            ("CKA_SIGN", self.can_sign, true),
            ("CKA_SENSITIVE", self.sensitive, true),
            ("CKA_ALWAYS_SENSITIVE", self.always_sensitive, true),
            ("CKA_EXTRACTABLE", self.extractable, false),
            ("CKA_NEVER_EXTRACTABLE", self.never_extractable, true),
            // A key that decrypts is a signing oracle for whoever may only decrypt, and the other way round.
            ("CKA_DECRYPT", self.can_decrypt, false),
            // Optional attributes: a token that does not know them does not do what they allow.
            ("CKA_UNWRAP", self.can_unwrap.or(Some(false)), false),
            // Each signature would need a login of its own.
            ("CKA_ALWAYS_AUTHENTICATE", self.always_authenticate.or(Some(false)), false),
        ];
        let mut faults: Vec<String> = required
            .into_iter()
            .filter(|(_, stated, wanted)| *stated != Some(*wanted))
            .map(|(name, stated, _)| match stated {
                Some(stated) => format!("{name} is {stated}"),
                None => format!("{name} is not stated by the token"),
            })
            .collect();
        if self.id.is_empty() {
            faults.push("CKA_ID is empty".into());
        }
        faults
    }
}

/// A key that signs: how it is published and how it is found in the token. Holds no handle, for handles die with the
/// session's login.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    pub(super) public: PublicKey,
    pub(super) id: Vec<u8>,
    pub(super) report: KeyReport,
}

/// A private key as it was found in the token.
#[derive(Debug)]
pub(super) struct TokenKey {
    pub(super) report: KeyReport,
    pub(super) id: Vec<u8>,
    public: Result<PublicKey, UnfitPublicKey>,
}

impl TokenKey {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.report.faults();
        if let Err(error) = &self.public {
            faults.push(error.to_string());
        }
        faults
    }

    /// The key as one that signs.
    ///
    /// # Errors
    /// [`OpenError::UnfitKey`] with every reason.
    pub(super) fn into_signing_key(self) -> Result<SigningKey, OpenError> {
        let faults = self.faults();
        match self.public {
            Ok(public) if faults.is_empty() => Ok(SigningKey { public, id: self.id, report: self.report }),
            _ => Err(OpenError::UnfitKey { label: self.report.label, id: self.id, faults }),
        }
    }
}

/// The keys with this label, each of them fit, each with a `CKA_ID` of its own.
///
/// # Errors
/// `NoKey`, `SameId`, `UnfitKey`, or `Device` when the token fails.
pub(super) fn signing_keys(session: &Session, token: &str, label: &str) -> Result<Vec<SigningKey>, OpenError> {
    let keys = token_keys(session, Some(label)).map_err(|fault| OpenError::device(token, &fault))?;
    each_with_its_id(&keys, token, label)?;
    keys.into_iter().map(TokenKey::into_signing_key).collect()
}

/// Whether `keys`, those with this label, are there and can be told apart.
///
/// # Errors
/// `NoKey` or `SameId`.
pub(super) fn each_with_its_id(keys: &[TokenKey], token: &str, label: &str) -> Result<(), OpenError> {
    let (token, label) = (token.to_owned(), label.to_owned());
    if keys.is_empty() {
        return Err(OpenError::NoKey { token, label });
    }
    let again = keys.iter().enumerate().find(|(at, key)| keys.iter().take(*at).any(|other| other.id == key.id));
    match again {
        Some((_, key)) => Err(OpenError::SameId { token, label, id: key.id.clone() }),
        None => Ok(()),
    }
}

/// Every private RSA key in the token, or those with `label`. The session must be logged in: without a login a token
/// answers with an empty list and no error.
pub(super) fn token_keys(session: &Session, label: Option<&str>) -> Result<Vec<TokenKey>, Fault> {
    let mut template = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::RSA)];
    template.extend(label.map(|label| Attribute::Label(label.as_bytes().to_vec())));
    session.find_objects(&template)?.into_iter().map(|handle| read(session, handle)).collect()
}

/// Finds a known key's handle in this session's login.
///
/// Nothing found is the sign of a lost login, not of a lost key: it was there when the signer opened the token.
pub(super) fn find_again(session: &Session, key: &SigningKey) -> Result<ObjectHandle, Fault> {
    let template = [
        Attribute::Class(ObjectClass::PRIVATE_KEY),
        Attribute::KeyType(KeyType::RSA),
        Attribute::Label(key.report.label.as_bytes().to_vec()),
        Attribute::Id(key.id.clone()),
    ];
    let found = session.find_objects(&template)?;
    let name = || format!("key \"{}\" (CKA_ID {})", key.report.label, hex(&key.id));
    let [handle] = found[..] else {
        return Err(match found.len() {
            0 => Fault::new(ErrorClass::Login, format!("{} is not found any more", name())),
            count => Fault::new(ErrorClass::Device, format!("{} is there {count} times", name())),
        });
    };
    if numbers(session, handle, &key.id)?.0 == key.public.modulus() {
        Ok(handle)
    } else {
        Err(Fault::new(ErrorClass::Device, format!("{} has another modulus than the published one", name())))
    }
}

/// Signs a SHA-256 digest and verifies the outcome with the published key, so that no wrong signature leaves: a handle
/// that names another key after a reset, and a fault in the token's arithmetic (which could reveal the key), both end
/// here.
pub(super) fn sign(
    session: &Session,
    handle: ObjectHandle,
    key: &PublicKey,
    digest: &Digest,
) -> Result<Signature, Fault> {
    let signature = session.sign(&Mechanism::RsaPkcs, handle, &digest_info(digest))?;
    if key.verify_digest(digest, &signature) {
        Ok(Signature::from_token(signature))
    } else {
        Err(Fault::new(ErrorClass::WrongSignature, "the token's signature does not verify with the published key"))
    }
}

/// Proves that the token signs with `key` in this session.
pub(super) fn prove(session: &Session, key: &SigningKey) -> Result<(), Fault> {
    let handle = find_again(session, key)?;
    sign(session, handle, &key.public, &sha256(b"sealgate proves that this key signs")).map(|_| ())
}

/// Reads what the token states about a private key.
pub(super) fn read(session: &Session, handle: ObjectHandle) -> Result<TokenKey, Fault> {
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
    let (modulus, exponent) = numbers(session, handle, &id)?;
    let report = KeyReport {
        kid: KeyId::of(&modulus, &exponent),
        id: hex(&id),
        label,
        bits: modulus.len() * 8 - modulus.first().map_or(0, |first| first.leading_zeros() as usize),
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
    let public = PublicKey::from_components(&modulus, &exponent);
    Ok(TokenKey { report, id, public })
}

/// Modulus and public exponent of a private key, without leading zeros; empty where the token does not tell. Tokens
/// need not keep the exponent with the private key: the public key object with the same `CKA_ID` has it then.
fn numbers(session: &Session, handle: ObjectHandle, id: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Fault> {
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

fn flag(attributes: &[Attribute], kind: AttributeType) -> Option<bool> {
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
            kid: KeyId::of(&[1], &[1, 0, 1]),
            id: "01".into(),
            label: "sealgate".into(),
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
    fn fit_key_has_no_faults() {
        assert_eq!(fit().faults(), Vec::<String>::new());
        let silent = KeyReport { can_unwrap: None, always_authenticate: None, ..fit() };
        assert_eq!(silent.faults(), Vec::<String>::new());
    }

    #[test]
    fn each_missing_property_is_named() {
        let cases = [
            (KeyReport { sensitive: Some(false), ..fit() }, "CKA_SENSITIVE is false"),
            (KeyReport { always_sensitive: Some(false), ..fit() }, "CKA_ALWAYS_SENSITIVE is false"),
            (KeyReport { extractable: Some(true), ..fit() }, "CKA_EXTRACTABLE is true"),
            (KeyReport { never_extractable: None, ..fit() }, "CKA_NEVER_EXTRACTABLE is not stated by the token"),
            (KeyReport { can_sign: Some(false), ..fit() }, "CKA_SIGN is false"),
            (KeyReport { can_decrypt: None, ..fit() }, "CKA_DECRYPT is not stated by the token"),
            (KeyReport { can_unwrap: Some(true), ..fit() }, "CKA_UNWRAP is true"),
            (KeyReport { always_authenticate: Some(true), ..fit() }, "CKA_ALWAYS_AUTHENTICATE is true"),
            (KeyReport { id: String::new(), ..fit() }, "CKA_ID is empty"),
        ];
        for (report, expected) in cases {
            assert_eq!(report.faults(), [expected]);
        }
    }
}
