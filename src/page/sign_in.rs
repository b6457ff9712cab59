//! The pages of signing in and out.

use askama::Template;

use crate::domain::scope::ScopeValue;
use crate::domain::user::User;

use super::frame::{Frame, initial};
use super::moment::Wait;
use super::words::{Markup, Words};

/// The sign-in page. Its form sends `csrf`, `email` and `password`.
#[derive(Template)]
#[template(path = "login.html")]
pub struct LoginPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the application that asked for the sign-in.
    pub client: Option<&'a str>,
    /// What the email field holds at first: a `login_hint`, or what was typed before. May be empty.
    pub email: &'a str,
    /// Where somebody goes who has forgotten their password, where mails are sent.
    pub forgot: Option<&'a str>,
    /// Where somebody goes who has no account, where people make their own.
    pub create: Option<&'a str>,
    /// Passkeys, where this provider can have them.
    pub passkey: Option<PasskeyOffer<'a>>,
    pub problem: Option<LoginProblem>,
}

/// A sign-in with nothing typed: the page's form is sent with `credential` (the JSON of an assertion), which is empty where a
/// password is.
#[derive(Debug, Clone, Copy)]
pub struct PasskeyOffer<'a> {
    /// Where the form goes then.
    pub action: &'a str,
    /// For `navigator.credentials.get()`, as JSON.
    pub options: &'a str,
    /// How long the challenge still stands. The page loads itself anew then, unless somebody is typing in it.
    pub seconds: u64,
}

/// Why a sign-in did not go through. An unknown, a disabled and a known account read the same: a page that told them
/// apart would tell strangers who has an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginProblem {
    /// No such account, a disabled one, or a wrong password.
    WrongCredentials,
    /// Too many failures of this account or address.
    Throttled {
        /// Until the next attempt is allowed.
        seconds: u64,
    },
    /// The password was not checked, because too many checks wait.
    Busy,
    /// Whatever was wrong with it.
    PasskeyRefused,
}

impl LoginPage<'_> {
    fn is_rejected(&self) -> bool {
        self.problem == Some(LoginProblem::WrongCredentials)
    }

    fn is_passkey_refused(&self) -> bool {
        self.problem == Some(LoginProblem::PasskeyRefused)
    }

    fn words(&self) -> Option<Markup> {
        let t = self.frame.t;
        Some(match self.problem? {
            LoginProblem::WrongCredentials if self.forgot.is_some() => t.login_wrong_credentials_reset(),
            LoginProblem::WrongCredentials => t.login_wrong_credentials(),
            LoginProblem::Throttled { seconds } => match Wait::from_seconds(seconds) {
                Wait::Seconds(seconds) => t.login_throttled_seconds(seconds),
                Wait::Minutes(minutes) => t.login_throttled_minutes(minutes),
            },
            LoginProblem::Busy => t.login_busy(),
            LoginProblem::PasskeyRefused => t.login_passkey_refused(),
        })
    }

    fn described(&self) -> &'static str {
        match self.problem {
            None | Some(LoginProblem::PasskeyRefused) => "",
            Some(_) => "login-problem",
        }
    }
}

impl Words {
    /// What a scope stands for.
    pub(super) fn scope(self, scope: &ScopeValue) -> Markup {
        match scope {
            ScopeValue::OpenId => self.consent_scope_openid(),
            ScopeValue::Profile => self.consent_scope_profile(),
            ScopeValue::Email => self.consent_scope_email(),
            ScopeValue::Phone => self.consent_scope_phone(),
            ScopeValue::Groups => self.consent_scope_groups(),
            ScopeValue::OfflineAccess => self.consent_scope_offline_access(),
        }
    }
}

/// The consent page. Its form sends `csrf`, `consent-allow` or `consent-deny` and, where it is ticked,
/// `offline_access=true`.
#[derive(Template)]
#[template(path = "consent.html")]
pub struct ConsentPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub client: &'a str,
    /// Host of the address to which the browser goes back.
    pub host: &'a str,
    pub publisher: Publisher<'a>,
    /// Whether it has been here for a short while only.
    pub is_new: bool,
    /// Host of its home page, where somebody vouches for it.
    pub website: Option<&'a str>,
    /// Whether applications behind the gateway refuse its tokens until an administrator approves it.
    pub needs_approval: bool,
    /// The client's terms of use.
    pub terms: Option<ClientLink<'a>>,
    /// The client's privacy policy.
    pub policy: Option<ClientLink<'a>>,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    /// What is asked for, without `offline_access`, and the very values that the client will receive for it.
    pub scopes: &'a [(ScopeValue, Vec<String>)],
    /// Whether `offline_access` is asked for; it gets a choice of its own.
    pub offline_access: bool,
}

/// A page of a client, https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLink<'a> {
    pub address: &'a str,
    pub host: String,
}

/// Who stands behind a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher<'a> {
    /// The operator made it, or vouches for it.
    Operator,
    /// The developer of this name; nobody has looked at it.
    Developer(&'a str),
    /// Somebody who is gone; nobody has looked at it.
    Nobody,
    /// It registered itself; nobody has looked at it.
    Itself,
}

impl ConsentPage<'_> {
    /// The letter in the place of the client's logo.
    fn party(&self) -> String {
        initial(self.client)
    }

    fn published_by(&self) -> Markup {
        let (t, operator) = (self.frame.t, self.frame.operator);
        match self.publisher {
            Publisher::Operator => t.consent_publisher_operator(operator),
            Publisher::Developer(name) => t.consent_publisher_developer(name, operator),
            Publisher::Nobody => t.consent_publisher_nobody(operator),
            Publisher::Itself => t.consent_publisher_itself(),
        }
    }

    fn links(&self) -> impl Iterator<Item = (&'static str, Markup, &ClientLink<'_>)> {
        let t = self.frame.t;
        let terms = self.terms.iter().map(move |link| ("consent-terms", t.consent_terms(), link));
        terms.chain(self.policy.iter().map(move |link| ("consent-policy", t.consent_policy(), link)))
    }

    /// What people know themselves by comes first, and the number that only programs read last.
    fn lines(&self) -> impl Iterator<Item = (Markup, &[String])> {
        let (numbers, known): (Vec<_>, Vec<_>) =
            self.scopes.iter().partition(|(scope, _)| *scope == ScopeValue::OpenId);
        known.into_iter().chain(numbers).map(|(scope, values)| (self.frame.t.scope(scope), values.as_slice()))
    }
}

/// The account chooser. Its form sends `csrf` and `account`: a subject, or nothing for another account.
#[derive(Template)]
#[template(path = "account_chooser.html")]
pub struct AccountChooserPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the client that asks; none where it is for our own pages.
    pub client: Option<&'a str>,
    /// Those who are signed in in this browser.
    pub accounts: &'a [User],
}

/// The question whether to sign out. Its form sends `csrf`, `logout-confirm=yes` and the hidden fields.
#[derive(Template)]
#[template(path = "confirm_logout.html")]
pub struct ConfirmLogoutPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub client: Option<&'a str>,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: Option<&'a str>,
    /// Where somebody goes who stays signed in.
    pub stay: &'a str,
    /// Names and values that the form carries on, such as `post_logout_redirect_uri` and `state`.
    pub hidden: &'a [(&'a str, &'a str)],
}

/// The page after signing out.
#[derive(Template)]
#[template(path = "signed_out.html")]
pub struct SignedOutPage<'a> {
    pub frame: Frame<'a>,
    pub client: Option<&'a str>,
    pub sign_in: &'a str,
}

/// A form that takes the answer of a sign-in to the client. It sends itself where there are scripts.
#[derive(Template)]
#[template(path = "return_form.html")]
pub struct ReturnFormPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub host: &'a str,
    pub fields: &'a [(&'static str, String)],
}
