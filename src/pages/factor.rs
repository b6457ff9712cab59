//! Pages of the second factor: confirmation, enrolment, recovery codes, and insufficient levels.

use askama::Template;
use askama::filters::Safe;

use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;

use super::qr_code::qr_code;
use super::words::{Markup, Words};
use crate::inside::Frame;
use crate::language::Wait;

/// Method for confirming a sign-in or for an enrolment. Links name the method in the query as
/// `with`, and forms send it as `with`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorChoice {
    /// Authenticator app, sent as `totp`.
    App,
    /// Key, sent as `key`: a security key, or a passkey after a password.
    Key,
    /// Recovery code, sent as `recovery`.
    Recovery,
}

impl FactorChoice {
    const ALL: [Self; 3] = [Self::App, Self::Key, Self::Recovery];

    /// Returns the value of the parameter `with`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::App => "totp",
            Self::Key => "key",
            Self::Recovery => "recovery",
        }
    }

    /// Parses the value of the parameter `with`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == word)
    }

    fn name(self, t: &Words) -> Markup {
        match self {
            Self::App => t.factor_way_app(),
            Self::Key => t.factor_way_key(),
            Self::Recovery => t.factor_way_recovery(),
        }
    }
}

/// Page of the second step of a sign-in.
///
/// Its form sends `csrf`, `with`, and `code` or `credential` (the JSON of an assertion).
#[derive(Template)]
#[template(path = "factor.html")]
pub struct FactorPage<'a> {
    pub frame: Frame<'a>,
    /// Target of the form. The choices link to the same URL with `with` added.
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the application that requested the sign-in.
    pub client: Option<&'a str>,
    /// E-mail address of the account.
    pub account: &'a str,
    pub chosen: FactorChoice,
    /// Factors of the user. The last used factor is first, and recovery codes are last.
    pub offers: &'a [FactorChoice],
    /// Options for `navigator.credentials.get()`, as JSON, if a key is selected.
    pub key_options: Option<&'a str>,
    pub problem: Option<FactorProblem>,
    /// URL for signing in as another user.
    pub start_over: &'a str,
}

/// Reason why a second step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorProblem {
    /// The code is wrong or already used. The page does not distinguish the two, so that it does
    /// not tell an attacker whether an intercepted code was correct.
    WrongCode,
    ClockIsOff,
    Wait {
        /// Time until the next attempt is allowed.
        seconds: u64,
    },
    /// The factor is blocked until an administrator unblocks it.
    Blocked,
    KeyRefused,
    /// The signature counter of the key did not increase.
    KeyMayBeCopied,
    /// The factor was not checked, because too many checks are queued.
    Busy,
}

impl FactorPage<'_> {
    fn link(&self, choice: &FactorChoice) -> String {
        with(self.action, *choice)
    }

    fn is_wrong(&self) -> bool {
        matches!(self.problem, Some(FactorProblem::WrongCode | FactorProblem::ClockIsOff))
    }

    fn has_others(&self) -> bool {
        self.offers.iter().any(|offer| *offer != self.chosen)
    }

    fn words(&self) -> Option<Markup> {
        let t = self.frame.t;
        Some(match self.problem? {
            FactorProblem::WrongCode if self.chosen == FactorChoice::Recovery => t.factor_wrong_recovery(),
            FactorProblem::WrongCode => t.factor_wrong_code(),
            FactorProblem::ClockIsOff => t.factor_clock(),
            FactorProblem::Wait { seconds } => match Wait::from_seconds(seconds) {
                Wait::Seconds(seconds) => t.factor_wait_seconds(seconds),
                Wait::Minutes(minutes) => t.factor_wait_minutes(minutes),
            },
            FactorProblem::Blocked => t.factor_blocked(),
            FactorProblem::KeyRefused => t.factor_key_refused(),
            FactorProblem::KeyMayBeCopied => t.factor_key_copied(),
            FactorProblem::Busy => t.factor_busy(),
        })
    }
}

/// Returns the URL with a choice in its query.
fn with(address: &str, choice: FactorChoice) -> String {
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}with={}", choice.as_str())
}

/// Page for enrolling a second factor during a sign-in.
///
/// Its forms send `csrf` and:
///
/// - for an app: `with`, `code` and `name`;
/// - for a key: `with`, `credential` (the JSON of a registration), `kind` (`security_key` or
///   `passkey`) and `name`;
/// - to postpone the enrolment: `later=yes`.
#[derive(Template)]
#[template(path = "enrol.html")]
pub struct EnrolPage<'a> {
    pub frame: Frame<'a>,
    /// Target of the forms. The choices link to the same URL with `with` added.
    pub action: &'a str,
    pub csrf: &'a str,
    /// E-mail address of the account.
    pub account: &'a str,
    pub enrolment: EnrolStep<'a>,
    /// Whether an authenticator app meets the required level. Otherwise only security keys and
    /// passkeys meet the level.
    pub takes_apps: bool,
    /// Time until which the enrolment can be postponed. `None` if it cannot be postponed.
    pub later: Option<UnixTime>,
    /// URL for signing in as another user.
    pub start_over: &'a str,
}

/// Factor that is being enrolled.
#[derive(Debug, Clone, Copy)]
pub enum EnrolStep<'a> {
    /// Nothing has been selected yet.
    Choice,
    App(AppEnrolment<'a>),
    Key(KeyEnrolment<'a>),
}

/// App that is not confirmed yet.
#[derive(Debug, Clone, Copy)]
pub struct AppEnrolment<'a> {
    /// Secret of the app in groups, for typing.
    pub secret: &'a str,
    /// `otpauth:` URI that contains the secret.
    pub uri: &'a str,
    /// Name of the app, as typed. Up to 60 characters are stored.
    pub name: &'a str,
    pub problem: Option<EnrolProblem>,
}

/// Key that the browser will create.
#[derive(Debug, Clone, Copy)]
pub struct KeyEnrolment<'a> {
    /// Options for `navigator.credentials.create()` for a security key, as JSON.
    pub security_key: &'a str,
    /// Options for `navigator.credentials.create()` for a passkey, as JSON.
    pub passkey: &'a str,
    /// Name of the key, as typed. Up to 60 characters are stored.
    pub name: &'a str,
    pub problem: Option<EnrolProblem>,
}

/// Reason why a factor was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolProblem {
    WrongCode,
    ClockIsOff,
    /// The secret or the challenge had expired. The page contains a new secret or challenge.
    Expired,
    /// The key already belongs to an account.
    KeyKnown,
    KeyRefused,
    /// The passkey did not verify its user.
    NotVerified,
    /// The user has the maximum number of factors of this kind.
    Full,
}

impl EnrolProblem {
    pub(super) fn words(self, t: Words) -> Markup {
        match self {
            Self::WrongCode => t.enrol_wrong_code(),
            Self::ClockIsOff => t.factor_clock(),
            Self::Expired => t.enrol_expired(),
            Self::KeyKnown => t.enrol_key_known(),
            Self::KeyRefused => t.enrol_key_refused(),
            Self::NotVerified => t.enrol_key_unverified(),
            Self::Full => t.enrol_full(),
        }
    }
}

impl AppEnrolment<'_> {
    pub(super) fn picture(&self) -> Option<Markup> {
        qr_code(self.uri).map(Safe)
    }

    pub(super) fn words(&self, t: &Words) -> Option<Markup> {
        self.problem.map(|problem| problem.words(*t))
    }

    pub(super) fn blames_code(&self) -> bool {
        matches!(self.problem, Some(EnrolProblem::WrongCode | EnrolProblem::ClockIsOff))
    }
}

impl KeyEnrolment<'_> {
    pub(super) fn words(&self, t: &Words) -> Option<Markup> {
        self.problem.map(|problem| problem.words(*t))
    }
}

impl EnrolStep<'_> {
    fn is_faulty(&self) -> bool {
        match self {
            Self::Choice => false,
            Self::App(app) => app.problem.is_some(),
            Self::Key(key) => key.problem.is_some(),
        }
    }
}

impl EnrolPage<'_> {
    fn heading(&self) -> Markup {
        let t = self.frame.t;
        match self.enrolment {
            EnrolStep::Choice => t.enrol_title(),
            EnrolStep::App(_) => t.enrol_app_title(),
            EnrolStep::Key(_) => t.enrol_key_title(),
        }
    }

    fn link(&self, choice: FactorChoice) -> String {
        with(self.action, choice)
    }
}

/// Page with new recovery codes, shown once.
#[derive(Template)]
#[template(path = "recovery_codes.html")]
pub struct RecoveryCodesPage<'a> {
    pub frame: Frame<'a>,
    /// E-mail address of the account.
    pub account: &'a str,
    /// Recovery codes in groups of characters.
    pub codes: &'a [&'a str],
    /// Whether the codes replace older codes.
    pub replaced: bool,
    /// URL at which the sign-in continues after the user has saved the codes.
    pub next: &'a str,
}

/// Page after a sign-in with a recovery code: the number of remaining codes, and advice about the
/// lost factor.
#[derive(Template)]
#[template(path = "recovery_used.html")]
pub struct RecoveryUsedPage<'a> {
    pub frame: Frame<'a>,
    /// E-mail address of the account.
    pub account: &'a str,
    pub left: u64,
    /// Whether so few codes remain that the page offers new ones.
    pub few: bool,
    /// URL of the page "Security".
    pub security: &'a str,
    /// URL at which the sign-in continues.
    pub next: &'a str,
}

/// Page of a user who cannot reach the required level.
///
/// Its form sends `csrf` and `unmet=back`. The response returns an error to the client.
#[derive(Template)]
#[template(path = "unmet.html")]
pub struct UnmetPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the client. `None` for the provider's own pages.
    pub client: Option<&'a str>,
    /// E-mail address of the account.
    pub account: &'a str,
    /// Required level, at least two.
    pub needed: AssuranceLevel,
    /// URL of the page "Security", if users manage their own second factors.
    pub security: Option<&'a str>,
}

impl UnmetPage<'_> {
    fn words(&self) -> Markup {
        let t = self.frame.t;
        match (self.needed, self.client) {
            (AssuranceLevel::PhishingResistant, Some(client)) => t.unmet_resistant(client),
            (AssuranceLevel::PhishingResistant, None) => t.unmet_resistant_own(),
            (_, Some(client)) => t.unmet_two(client),
            (_, None) => t.unmet_two_own(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_added_to_an_existing_query() {
        assert_eq!(with("/oauth/factor?interaction=a.b", FactorChoice::App), "/oauth/factor?interaction=a.b&with=totp");
        assert_eq!(with("/account/security/add", FactorChoice::Key), "/account/security/add?with=key");
        for choice in FactorChoice::ALL {
            assert_eq!(FactorChoice::parse(choice.as_str()), Some(choice));
        }
        assert_eq!(FactorChoice::parse("app"), None);
    }
}
