//! Page "Security": the user's factors besides the password, and pages for adding, renaming and
//! removing a factor.

use askama::Template;

use sealgate_domain::assurance::FactorId;
use sealgate_domain::factors::FactorKind;
use sealgate_domain::time::UnixTime;

use super::device::{browser, system};
use super::factor::EnrolStep;
use super::inside::{Inside, MenuEntry};
use super::linking::LinkedAccounts;
use super::words::{Markup, Words};
use crate::inside::Frame;

/// Page of the user's factors. Its links lead to the pages that change the factors.
#[derive(Template)]
#[template(path = "account/security.html")]
pub struct SecurityPage<'a> {
    pub inside: Inside<'a>,
    /// Factors in the order of their addition.
    pub factors: &'a [FactorLine<'a>],
    pub recovery: RecoveryState,
    /// Whether the user can add another app.
    pub takes_apps: bool,
    /// Whether the user can add another key.
    pub takes_keys: bool,
    /// Data for the browser's passkey store, if there are passkeys.
    pub signals: Option<PasskeySignals<'a>>,
    pub linked: &'a LinkedAccounts<'a>,
    pub problem: Option<SecurityProblem>,
}

/// Factor of the list: an app, a security key or a passkey.
#[derive(Debug, Clone, Copy)]
pub struct FactorLine<'a> {
    pub id: FactorId,
    pub kind: FactorKind,
    /// Whether the key is synced to other devices of its owner. `None` for an app.
    pub is_synced: Option<bool>,
    /// Name that its owner chose.
    pub name: &'a str,
    pub added_at: UnixTime,
    pub last_used_at: Option<UnixTime>,
}

/// State of a user's recovery codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryState {
    /// The user has no factor that codes could replace, or no password to use with the codes.
    Unavailable,
    None,
    Left {
        count: u64,
        /// Whether so few codes remain that the page offers new ones.
        few: bool,
        made_at: UnixTime,
    },
}

/// Data for the browser's passkey store: JSON of the signal API (WebAuthn Level 3 §5.1.10).
#[derive(Debug, Clone, Copy)]
pub struct PasskeySignals<'a> {
    /// Argument of `signalAllAcceptedCredentials`, after a removal. The browser then hides the
    /// passkeys that are not listed.
    pub accepted: Option<&'a str>,
    /// Argument of `signalCurrentUserDetails`.
    pub details: &'a str,
}

/// Reason why a factor was not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProblem {
    /// Without the factor, the user could not reach the level that the account needs.
    Demanded,
    /// The account has no password and no other passkey.
    LastPasskey,
}

impl Words {
    /// Returns the name of a kind of factor.
    pub(super) fn factor_kind(self, kind: FactorKind) -> Markup {
        match kind {
            FactorKind::Totp => self.factor_kind_app(),
            FactorKind::SecurityKey => self.factor_kind_security_key(),
            FactorKind::Passkey => self.factor_kind_passkey(),
            FactorKind::RecoveryCodes => self.factor_kind_recovery(),
        }
    }
}

/// Factor that its owner has not named.
#[derive(Debug, Clone, Copy)]
pub struct UnnamedFactor<'a> {
    pub kind: FactorKind,
    /// Model of the authenticator, if it is known.
    pub model: Option<&'a str>,
    /// `User-Agent` of the browser that added the factor.
    pub user_agent: &'a str,
}

/// Returns the default name of a factor. If the name is in use, a number is appended.
///
/// The name is the authenticator's model, if it is known. If not, the name of a passkey is the
/// browser and the system, and the name of any other factor is its kind.
pub fn default_factor_name(frame: &Frame<'_>, factor: UnnamedFactor<'_>, other_names: &[&str]) -> String {
    let t = &frame.t;
    let browser = browser(factor.user_agent).zip(system(factor.user_agent));
    let name = match (factor.model, factor.kind, browser) {
        (Some(model), ..) => model.to_owned(),
        // The names of browsers and systems need no escaping.
        (None, FactorKind::Passkey, Some((browser, system))) => t.factor_in_browser(browser, system).0,
        (None, kind, _) => t.factor_kind(kind).0,
    };
    let numbered = (2_u32..).map(|number| format!("{name} {number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !other_names.contains(&name.as_str()));
    free.unwrap_or(name)
}

impl FactorLine<'_> {
    pub(super) fn kind(&self, t: &Words) -> Markup {
        t.factor_kind(self.kind)
    }

    /// Returns the kind of the factor. `None` if the factor's name begins with the kind.
    pub(super) fn tag(&self, t: &Words) -> Option<Markup> {
        Some(self.kind(t)).filter(|kind| !self.name.starts_with(&kind.0))
    }

    fn place(&self, t: &Words) -> Option<Markup> {
        self.is_synced.map(|is_synced| if is_synced { t.security_synced() } else { t.security_bound() })
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

    /// Returns whether every shown factor needs scripts.
    fn needs_scripts(&self) -> bool {
        !self.factors.is_empty() && self.factors.iter().all(|factor| factor.kind != FactorKind::Totp)
    }
}

/// Page for adding a factor. Its forms are the forms of [`super::EnrolPage`].
#[derive(Template)]
#[template(path = "account/add_factor.html")]
pub struct AddFactorPage<'a> {
    pub inside: Inside<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Step of the enrolment. Never [`EnrolStep::Choice`].
    pub enrolment: EnrolStep<'a>,
}

/// Page of one factor. Its form sends `csrf`, `factor` (the factor's id) and `name`, and
/// `remove=yes` for a removal.
#[derive(Template)]
#[template(path = "account/factor.html")]
pub struct FactorSettingsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub factor: FactorLine<'a>,
    pub is_last: bool,
}

/// Page that asks for confirmation before new recovery codes are created. Its form sends `csrf`.
#[derive(Template)]
#[template(path = "account/make_codes.html")]
pub struct MakeCodesPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Whether the new codes replace existing ones.
    pub replaces: bool,
}
