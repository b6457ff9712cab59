//! Authenticator data (Level 3 §6.1).

use crate::webauthn::cbor::CborItem;
use crate::webauthn::{BackupState, CeremonyError, RelyingParty};

const USER_PRESENT: u8 = 1 << 0;
const USER_VERIFIED: u8 = 1 << 2;
const BACKUP_ELIGIBLE: u8 = 1 << 3;
const BACKED_UP: u8 = 1 << 4;
const ATTESTED: u8 = 1 << 6;
const EXTENSIONS: u8 = 1 << 7;

/// Parsed authenticator data, not verified.
pub(super) struct AuthenticatorData<'a> {
    relying_party_hash: &'a [u8; 32],
    flags: u8,
    pub(super) sign_count: u32,
    pub(super) credential: Option<AttestedCredential<'a>>,
}

/// New credential (§6.5.2).
pub(super) struct AttestedCredential<'a> {
    pub(super) aaguid: [u8; 16],
    pub(super) id: &'a [u8],
    /// Key as `COSE_Key`, parsed and encoded.
    pub(super) key: CborItem<'a>,
    pub(super) encoded_key: &'a [u8],
}

/// Verified flags of a ceremony.
pub(super) struct CeremonyFlags {
    pub(super) user_verified: bool,
    pub(super) backup: BackupState,
}

impl<'a> AuthenticatorData<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, CeremonyError> {
        let mut rest = bytes;
        let relying_party_hash = chunk::<32>(&mut rest)?;
        let [flags] = *chunk(&mut rest)?;
        let sign_count = u32::from_be_bytes(*chunk(&mut rest)?);
        let credential = if flags & ATTESTED == 0 { None } else { Some(attested_credential(&mut rest)?) };
        if flags & EXTENSIONS != 0 {
            // No extension outputs are used. Unrequested outputs are parsed and discarded.
            let (extensions, after) = CborItem::first(rest).map_err(CeremonyError::AuthenticatorDataCbor)?;
            if !matches!(extensions, CborItem::Map(_)) {
                return Err(CeremonyError::AuthenticatorDataCbor(super::CborFault::Shape));
            }
            rest = after;
        }
        if rest.is_empty() {
            Ok(Self { relying_party_hash, flags, sign_count, credential })
        } else {
            Err(CeremonyError::AuthenticatorDataLength)
        }
    }

    /// Verifies the relying party and the flags (§7.1 steps 14 to 17, §7.2 steps 15 to 18).
    pub(super) fn check(&self, relying_party: &RelyingParty, verified: bool) -> Result<CeremonyFlags, CeremonyError> {
        if *self.relying_party_hash != relying_party.id_hash {
            return Err(CeremonyError::OtherRelyingParty);
        }
        let has = |flag| self.flags & flag != 0;
        if !has(USER_PRESENT) {
            return Err(CeremonyError::NotPresent);
        }
        if verified && !has(USER_VERIFIED) {
            return Err(CeremonyError::NotVerified);
        }
        let backup = match (has(BACKUP_ELIGIBLE), has(BACKED_UP)) {
            (false, false) => BackupState::DeviceBound,
            (true, false) => BackupState::Eligible,
            (true, true) => BackupState::BackedUp,
            (false, true) => return Err(CeremonyError::BackupFlags),
        };
        Ok(CeremonyFlags { user_verified: has(USER_VERIFIED), backup })
    }
}

fn attested_credential<'a>(rest: &mut &'a [u8]) -> Result<AttestedCredential<'a>, CeremonyError> {
    let aaguid = *chunk(rest)?;
    let length = u16::from_be_bytes(*chunk(rest)?);
    let (id, after) = rest.split_at_checked(length.into()).ok_or(CeremonyError::AuthenticatorDataLength)?;
    // The length of the key is known only after parsing.
    let (key, end) = CborItem::first(after).map_err(CeremonyError::AuthenticatorDataCbor)?;
    *rest = end;
    Ok(AttestedCredential { aaguid, id, key, encoded_key: &after[..after.len() - end.len()] })
}

fn chunk<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], CeremonyError> {
    let (bytes, after) = rest.split_first_chunk().ok_or(CeremonyError::AuthenticatorDataLength)?;
    *rest = after;
    Ok(bytes)
}
