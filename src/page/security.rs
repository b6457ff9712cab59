//! The page "Security": what a person signs in with besides the password, and what they add, rename and remove.

use askama::Template;

use crate::domain::assurance::FactorId;
use crate::domain::time::UnixTime;

use super::factor::EnrolStep;
use super::frame::Frame;
use super::inside::{Inside, MenuEntry};
use super::words::{Markup, Words};

/// A person's factors. Its links lead to the pages that change them.
#[derive(Template)]
#[template(path = "account/security.html")]
pub struct SecurityPage<'a> {
    pub inside: Inside<'a>,
    /// They, in the order in which they were added.
    pub factors: &'a [FactorLine<'a>],
    pub recovery: RecoveryState,
    /// Whether another app may come.
    pub takes_apps: bool,
    /// Whether another key may come.
    pub takes_keys: bool,
    /// For the browser's store of passkeys, where there are some.
    pub signals: Option<PasskeySignals<'a>>,
    pub problem: Option<SecurityProblem>,
}

/// An app, a security key or a passkey.
#[derive(Debug, Clone, Copy)]
pub struct FactorLine<'a> {
    pub id: FactorId,
    pub kind: FactorLineKind,
    /// As its owner calls it.
    pub name: &'a str,
    pub added_at: UnixTime,
    pub last_used_at: Option<UnixTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorLineKind {
    App,
    SecurityKey {
        /// Whether other devices of its owner have it too.
        synced: bool,
    },
    Passkey {
        /// Likewise.
        synced: bool,
    },
}

/// How it is with a person's recovery codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryState {
    /// They have nothing that codes could stand in for, or no password beside them.
    Unavailable,
    None,
    Left {
        count: u64,
        /// So few that new ones are offered.
        few: bool,
        made_at: UnixTime,
    },
}

/// What the browser's store of passkeys is told: JSON of the signal API (WebAuthn Level 3 §5.1.10).
#[derive(Debug, Clone, Copy)]
pub struct PasskeySignals<'a> {
    /// For `signalAllAcceptedCredentials`, after one was removed: the browser hides what is not in it.
    pub accepted: Option<&'a str>,
    /// For `signalCurrentUserDetails`.
    pub details: &'a str,
}

/// Why one was not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProblem {
    /// What is left would not reach the level that the account needs.
    Demanded,
    /// There is no password, and no other passkey.
    LastPasskey,
}

impl FactorLineKind {
    fn words(self, t: &Words) -> Markup {
        match self {
            Self::App => t.factor_kind_app(),
            Self::SecurityKey { .. } => t.factor_kind_security_key(),
            Self::Passkey { .. } => t.factor_kind_passkey(),
        }
    }
}

/// What a factor is called whose owner gives it no name: by its kind, and a number where others are called so.
pub(crate) fn default_factor_name(frame: &Frame<'_>, kind: FactorLineKind, taken: &[&str]) -> String {
    let name = kind.words(&frame.t).0;
    let numbered = (2_u32..).map(|number| format!("{name} {number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(&name.as_str()));
    free.unwrap_or(name)
}

impl FactorLine<'_> {
    pub(super) fn kind(&self, t: &Words) -> Markup {
        self.kind.words(t)
    }

    fn place(&self, t: &Words) -> Option<Markup> {
        match self.kind {
            FactorLineKind::App => None,
            FactorLineKind::SecurityKey { synced } | FactorLineKind::Passkey { synced } => {
                Some(if synced { t.security_synced() } else { t.security_bound() })
            }
        }
    }
}

impl SecurityPage<'_> {
    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            SecurityProblem::Demanded => t.security_last_demanded(),
            SecurityProblem::LastPasskey => t.security_last_passkey(),
        })
    }

    /// Whether all that there is needs scripts.
    fn needs_scripts(&self) -> bool {
        !self.factors.is_empty() && self.factors.iter().all(|factor| factor.kind != FactorLineKind::App)
    }
}

/// The addition of a factor. Its forms are those of [`super::EnrolPage`].
#[derive(Template)]
#[template(path = "account/add_factor.html")]
pub struct AddFactorPage<'a> {
    pub inside: Inside<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// No mere choice.
    pub enrolment: EnrolStep<'a>,
}

/// One factor. Its form sends `csrf`, `factor` (its id) and `name`, and `remove=yes` where it is to go.
#[derive(Template)]
#[template(path = "account/factor.html")]
pub struct FactorSettingsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub factor: FactorLine<'a>,
    pub is_last: bool,
}

/// The question before new recovery codes are made. Its form sends `csrf`.
#[derive(Template)]
#[template(path = "account/make_codes.html")]
pub struct MakeCodesPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Whether there are codes, which will be void.
    pub replaces: bool,
}
