//! The pages of the second step: confirming it, setting it up, recovery codes, and where a sign-in cannot be as strong as it
//! has to be.

use askama::Template;
use askama::filters::Safe;

use crate::domain::assurance::AssuranceLevel;
use crate::domain::time::UnixTime;

use super::frame::Frame;
use super::moment::Wait;
use super::qr_code::qr_code;
use super::words::{Markup, Words};

/// A way to confirm a sign-in, or to be able to. Links name it in the query as `with`, and forms send it as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorChoice {
    /// `totp`
    App,
    /// `key`: security keys, and passkeys after a password.
    Key,
    /// `recovery`
    Recovery,
}

impl FactorChoice {
    const ALL: [Self; 3] = [Self::App, Self::Key, Self::Recovery];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::App => "totp",
            Self::Key => "key",
            Self::Recovery => "recovery",
        }
    }

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

/// The second step of a sign-in. Its form sends `csrf`, `with`, and `code` or `credential` (the JSON of an assertion).
#[derive(Template)]
#[template(path = "factor.html")]
pub struct FactorPage<'a> {
    pub frame: Frame<'a>,
    /// Where the form goes. The choices are links to the same address with `with` added.
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the application that asked for the sign-in.
    pub client: Option<&'a str>,
    /// Who signs in, as its owner knows the account (the email address).
    pub account: &'a str,
    pub chosen: FactorChoice,
    /// What this person has, the one that was used last first and recovery codes last.
    pub offers: &'a [FactorChoice],
    /// For `navigator.credentials.get()`, as JSON, where a key is chosen.
    pub key_options: Option<&'a str>,
    pub problem: Option<FactorProblem>,
    /// Where somebody goes who is another person.
    pub start_over: &'a str,
}

/// Why a second step did not go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorProblem {
    /// Wrong, or used already: whoever looked over a shoulder does not learn which.
    WrongCode,
    ClockIsOff,
    Wait {
        /// Until the next attempt is allowed.
        seconds: u64,
    },
    /// Until it is freed.
    Blocked,
    KeyRefused,
    /// Its count of signatures did not grow.
    KeyMayBeCopied,
    /// Nothing was checked.
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

/// The address with a choice in its query.
fn with(address: &str, choice: FactorChoice) -> String {
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}with={}", choice.as_str())
}

/// The setting up of a second step within a sign-in. Its forms send `csrf` and `with`; then `code` and `name` of an app, or
/// `credential` (the JSON of a registration), `kind` (`security_key` or `passkey`) and `name` of a key; or `later=yes`.
#[derive(Template)]
#[template(path = "enrol.html")]
pub struct EnrolPage<'a> {
    pub frame: Frame<'a>,
    /// Where the forms go. The choices are links to the same address with `with` added.
    pub action: &'a str,
    pub csrf: &'a str,
    /// Whose account it is, as its owner knows it (the email address).
    pub account: &'a str,
    pub enrolment: EnrolStep<'a>,
    /// Whether an app will do; else only keys.
    pub takes_apps: bool,
    /// Until when it can be put off, where it can.
    pub later: Option<UnixTime>,
    /// Where somebody goes who is another person.
    pub start_over: &'a str,
}

/// What is being set up.
#[derive(Debug, Clone, Copy)]
pub enum EnrolStep<'a> {
    /// Nothing has been chosen yet.
    Choice,
    App(AppEnrolment<'a>),
    Key(KeyEnrolment<'a>),
}

/// An app that is not confirmed yet.
#[derive(Debug, Clone, Copy)]
pub struct AppEnrolment<'a> {
    /// The secret in groups, to be typed.
    pub secret: &'a str,
    /// The `otpauth:` URI with the same.
    pub uri: &'a str,
    /// As typed; up to 60 characters of it are kept.
    pub name: &'a str,
    pub problem: Option<EnrolProblem>,
}

/// A key that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct KeyEnrolment<'a> {
    /// For `navigator.credentials.create()`, as JSON.
    pub security_key: &'a str,
    /// The same for a passkey.
    pub passkey: &'a str,
    /// As typed; up to 60 characters of it are kept.
    pub name: &'a str,
    pub problem: Option<EnrolProblem>,
}

/// Why something was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolProblem {
    WrongCode,
    ClockIsOff,
    /// The secret or the challenge was too old; there is a new one.
    Expired,
    /// The key belongs to an account already.
    KeyKnown,
    KeyRefused,
    /// A passkey that did not verify its user.
    NotVerified,
    /// There are as many as there may be.
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

/// Recovery codes that were just made. Shown once.
#[derive(Template)]
#[template(path = "recovery_codes.html")]
pub struct RecoveryCodesPage<'a> {
    pub frame: Frame<'a>,
    /// Whose they are, as its owner knows the account (the email address).
    pub account: &'a str,
    /// The codes as they are shown, in groups.
    pub codes: &'a [&'a str],
    /// Whether there were others, which are void now.
    pub replaced: bool,
    /// Where somebody goes who has kept them.
    pub next: &'a str,
}

/// After a sign-in with a recovery code: how many are left, and what to do about what is lost.
#[derive(Template)]
#[template(path = "recovery_used.html")]
pub struct RecoveryUsedPage<'a> {
    pub frame: Frame<'a>,
    /// Who is signed in, as its owner knows the account (the email address).
    pub account: &'a str,
    pub left: u64,
    /// So few that new ones are offered.
    pub few: bool,
    /// The address of the page "Security".
    pub security: &'a str,
    /// Where the sign-in goes on.
    pub next: &'a str,
}

/// The page of somebody whose account cannot reach the level that is asked for. Its form sends `csrf` and `unmet=back`, and is
/// answered by telling the client.
#[derive(Template)]
#[template(path = "unmet.html")]
pub struct UnmetPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Who asks; nothing where it is one of our own pages.
    pub client: Option<&'a str>,
    /// Who is signed in, as its owner knows the account (the email address).
    pub account: &'a str,
    /// The level that is asked for: two or more.
    pub needed: AssuranceLevel,
    /// The address of the page "Security", where people set up their own second steps.
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
    fn a_choice_is_added_to_the_query_that_there_is() {
        assert_eq!(with("/oauth/factor?interaction=a.b", FactorChoice::App), "/oauth/factor?interaction=a.b&with=totp");
        assert_eq!(with("/account/security/add", FactorChoice::Key), "/account/security/add?with=key");
        for choice in FactorChoice::ALL {
            assert_eq!(FactorChoice::parse(choice.as_str()), Some(choice));
        }
        assert_eq!(FactorChoice::parse("app"), None);
    }
}
