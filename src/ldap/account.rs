//! Judgement of accounts: results of binds, and flags of entries.

use sealgate_config::DirectoryKind;
use sealgate_domain::source::SourceState;
use sealgate_domain::time::UnixTime;

use crate::entry::LdapEntry;
use crate::message::OperationResult;

/// Reason why a directory refuses a user although the password is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdapRefusal {
    Disabled,
    /// The account has ended.
    Expired,
    PasswordExpired,
    /// The user must change the password first, at the directory.
    PasswordMustChange,
}

impl LdapRefusal {
    /// Returns the word for logs and the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Expired => "expired",
            Self::PasswordExpired => "password_expired",
            Self::PasswordMustChange => "password_must_change",
        }
    }
}

/// Meaning of the result of a user's bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BindOutcome {
    Accepted,
    /// Wrong password. Also a temporary lock after too many wrong passwords, which any password
    /// causes.
    Wrong,
    Refused(LdapRefusal),
    /// The result says nothing about the password.
    Unclear,
}

/// Returns the meaning of a bind's result.
///
/// Active Directory reports a disabled or expired account only if the password is right.
pub(crate) fn bind_outcome(kind: DirectoryKind, result: &OperationResult) -> BindOutcome {
    match result.code {
        0 => BindOutcome::Accepted,
        49 if kind == DirectoryKind::ActiveDirectory => match data_code(&result.diagnostic) {
            // Also logons that are not permitted at this time, or from this machine.
            Some(0x533 | 0x530 | 0x531) => BindOutcome::Refused(LdapRefusal::Disabled),
            Some(0x701) => BindOutcome::Refused(LdapRefusal::Expired),
            Some(0x532) => BindOutcome::Refused(LdapRefusal::PasswordExpired),
            Some(0x773) => BindOutcome::Refused(LdapRefusal::PasswordMustChange),
            _ => BindOutcome::Wrong,
        },
        // Constraint violation and unwilling to perform: 389 Directory Server for locked and
        // inactive accounts. No such object, invalid DN, inappropriate authentication: an entry
        // that cannot bind.
        19 | 32 | 34 | 48 | 49 | 50 | 53 => BindOutcome::Wrong,
        _ => BindOutcome::Unclear,
    }
}

/// Returns the code after `data` in a diagnostic of Active Directory.
fn data_code(diagnostic: &str) -> Option<u32> {
    let (_, rest) = diagnostic.split_once("data ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(rest.len());
    u32::from_str_radix(rest.get(..end)?, 16).ok()
}

/// Attributes with flags of accounts.
pub(crate) fn flag_attributes(kind: DirectoryKind) -> &'static [&'static str] {
    match kind {
        DirectoryKind::ActiveDirectory => {
            &["userAccountControl", "accountExpires", "msDS-User-Account-Control-Computed", "pwdLastSet"]
        }
        DirectoryKind::Ldap => &["nsAccountLock", "pwdAccountLockedTime", "pwdReset", "shadowExpire"],
    }
}

/// Bit of a disabled account in `userAccountControl` (MS-ADTS §2.2.16).
const ACCOUNT_DISABLED: i64 = 0x2;
/// Bit of an expired password in `msDS-User-Account-Control-Computed`.
const PASSWORD_EXPIRED: i64 = 0x0080_0000;
/// Seconds from 1601 to 1970, and units of a Windows time in a second.
const WINDOWS_EPOCH: i64 = 11_644_473_600;
const WINDOWS_UNITS: i64 = 10_000_000;
/// Value of `pwdAccountLockedTime` after a lock by an administrator (draft-behera-ldap-password-policy
/// §5.3.3). Other values are temporary locks.
const LOCKED_BY_ADMINISTRATOR: &str = "000001010000Z";
const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// Returns the state of an account. Each flag is read by itself.
pub(crate) fn state(kind: DirectoryKind, entry: &LdapEntry, now: UnixTime) -> SourceState {
    let now = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
    let is_true = |name| entry.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let (is_disabled, end) = match kind {
        DirectoryKind::ActiveDirectory => {
            let control = entry.number("userAccountControl").unwrap_or_default();
            // Both values mean never.
            let end = entry.number("accountExpires").filter(|end| *end != 0 && *end != i64::MAX);
            (control & ACCOUNT_DISABLED != 0, end.map(|end| end / WINDOWS_UNITS - WINDOWS_EPOCH))
        }
        DirectoryKind::Ldap => {
            let is_locked = entry.text("pwdAccountLockedTime") == Some(LOCKED_BY_ADMINISTRATOR);
            // Zero and negative numbers mean never (shadow(5)).
            let end = entry.number("shadowExpire").filter(|days| *days > 0);
            (is_true("nsAccountLock") || is_locked, end.map(|days| days.saturating_mul(SECONDS_PER_DAY)))
        }
    };
    match end {
        _ if is_disabled => SourceState::Disabled,
        Some(end) if end <= now => SourceState::Expired,
        _ => SourceState::Enabled,
    }
}

/// Returns why an account whose password is right may not sign in.
pub(crate) fn refusal(kind: DirectoryKind, entry: &LdapEntry, now: UnixTime) -> Option<LdapRefusal> {
    match state(kind, entry, now) {
        SourceState::Disabled | SourceState::Gone => return Some(LdapRefusal::Disabled),
        SourceState::Expired => return Some(LdapRefusal::Expired),
        SourceState::Enabled => {}
    }
    let control = || entry.number("msDS-User-Account-Control-Computed").unwrap_or_default();
    match kind {
        DirectoryKind::ActiveDirectory if entry.number("pwdLastSet") == Some(0) => {
            Some(LdapRefusal::PasswordMustChange)
        }
        DirectoryKind::ActiveDirectory => (control() & PASSWORD_EXPIRED != 0).then_some(LdapRefusal::PasswordExpired),
        DirectoryKind::Ldap => {
            let must_change = entry.text("pwdReset").is_some_and(|value| value.eq_ignore_ascii_case("true"));
            must_change.then_some(LdapRefusal::PasswordMustChange)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn entry(attributes: &[(&str, &str)]) -> LdapEntry {
        let attributes =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), vec![value.as_bytes().to_vec()])).collect();
        LdapEntry { dn: Vec::new(), attributes }
    }

    fn refused(kind: DirectoryKind, attributes: &[(&str, &str)]) -> Option<LdapRefusal> {
        refusal(kind, &entry(attributes), UnixTime::from_seconds(NOW))
    }

    #[test]
    fn flags_of_active_directory_are_read_one_by_one() {
        use LdapRefusal::{Disabled, Expired, PasswordExpired, PasswordMustChange};
        for (attributes, expected) in [
            (&[("userAccountControl", "512")][..], None),
            (&[("userAccountControl", "514")], Some(Disabled)),
            (&[("useraccountcontrol", "66082")], Some(Disabled)),
            (&[("userAccountControl", "514"), ("pwdLastSet", "0")], Some(Disabled)),
            (&[("userAccountControl", "512"), ("pwdLastSet", "0")], Some(PasswordMustChange)),
            (&[("msDS-User-Account-Control-Computed", "8388608")], Some(PasswordExpired)),
            // A lock after wrong passwords.
            (&[("msDS-User-Account-Control-Computed", "16")], None),
            (&[("accountExpires", "9223372036854775807")], None),
            (&[("accountExpires", "0")], None),
            (&[("accountExpires", "132539328000000000")], Some(Expired)),
            (&[("accountExpires", "134444736010000000")], None),
        ] {
            assert_eq!(refused(DirectoryKind::ActiveDirectory, attributes), expected, "{attributes:?}");
        }
    }

    #[test]
    fn flags_of_other_directories_are_read() {
        for (attributes, expected) in [
            (&[("nsAccountLock", "TRUE")][..], Some(LdapRefusal::Disabled)),
            (&[("nsAccountLock", "false")], None),
            (&[("pwdAccountLockedTime", "000001010000Z")], Some(LdapRefusal::Disabled)),
            (&[("pwdAccountLockedTime", "20261121101112Z")], None),
            (&[("pwdReset", "TRUE")], Some(LdapRefusal::PasswordMustChange)),
            (&[("shadowExpire", "1")], Some(LdapRefusal::Expired)),
            (&[("shadowExpire", "-1")], None),
            (&[("shadowExpire", "99999")], None),
            // A flag of another product.
            (&[("userAccountControl", "514")], None),
        ] {
            assert_eq!(refused(DirectoryKind::Ldap, attributes), expected, "{attributes:?}");
        }
    }

    #[test]
    fn a_bind_is_judged_by_its_code_and_data() {
        let outcome = |kind, code, diagnostic: &str| {
            bind_outcome(
                kind,
                &OperationResult { code, diagnostic: diagnostic.to_owned(), ..OperationResult::default() },
            )
        };
        let windows = |data| {
            let text =
                format!("80090308: LdapErr: DSID-0C090447, comment: AcceptSecurityContext error, data {data}, v4563");
            outcome(DirectoryKind::ActiveDirectory, 49, &text)
        };
        for wrong in ["52e", "525", "775", "57", "zz", ""] {
            assert_eq!(windows(wrong), BindOutcome::Wrong, "{wrong}");
        }
        assert_eq!(windows("533"), BindOutcome::Refused(LdapRefusal::Disabled));
        assert_eq!(windows("701"), BindOutcome::Refused(LdapRefusal::Expired));
        assert_eq!(windows("532"), BindOutcome::Refused(LdapRefusal::PasswordExpired));
        assert_eq!(windows("773"), BindOutcome::Refused(LdapRefusal::PasswordMustChange));
        assert_eq!(outcome(DirectoryKind::Ldap, 49, "data 533"), BindOutcome::Wrong);
        assert_eq!(outcome(DirectoryKind::Ldap, 0, ""), BindOutcome::Accepted);
        for unclear in [1, 8, 10, 51, 52, 80] {
            assert_eq!(outcome(DirectoryKind::Ldap, unclear, ""), BindOutcome::Unclear);
        }
    }
}
