//! Pages of signing in and out.

use askama::Template;

use sealgate_domain::scope::ScopeValue;
use sealgate_domain::user::User;

use super::words::{Markup, Words};
use crate::inside::{Frame, initial};
use crate::language::Wait;
use crate::upstream::{UpstreamButton, UpstreamFailure};

/// Sign-in page. Its form sends `csrf`, `email` and `password`, and `keep=yes` if selected. The button
/// of an OpenID provider also sends `upstream` with the provider's name.
#[derive(Template)]
#[template(path = "login.html")]
pub struct LoginPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the application that requested the sign-in.
    pub client: Option<&'a str>,
    /// Initial value of the e-mail field: a `login_hint`, or the previous input. May be empty.
    pub email: &'a str,
    /// Initial state of the check box for staying signed in. `None` if the page has no such check
    /// box.
    pub keep: Option<bool>,
    /// Whether the page has fields for a name and a password.
    pub has_password: bool,
    /// Whether the page asks for the name alone, and the next page for the password.
    pub is_name_step: bool,
    /// OpenID providers at which users can sign in.
    pub upstreams: &'a [UpstreamButton<'a>],
    /// URL of the same page with fields for a password, if this page has none.
    pub local: Option<&'a str>,
    /// Reason why a sign-in at an OpenID provider failed.
    pub upstream_failure: Option<UpstreamFailure<'a>>,
    /// URL for resetting a forgotten password, if the server sends mail.
    pub forgot: Option<&'a str>,
    /// URL for creating an account, if users can register.
    pub create: Option<&'a str>,
    /// Passkey sign-in, if the provider supports it.
    pub passkey: Option<PasskeyOffer<'a>>,
    pub problem: Option<LoginProblem>,
}

/// Offer of a sign-in with a passkey, without typed input.
///
/// The page's form also sends `credential` (the JSON of an assertion), which is empty for a sign-in
/// with a password.
#[derive(Debug, Clone, Copy)]
pub struct PasskeyOffer<'a> {
    /// Target of the form for a sign-in with a passkey.
    pub action: &'a str,
    /// Options for `navigator.credentials.get()`, as JSON.
    pub options: &'a str,
    /// Remaining lifetime of the challenge in seconds. At its end the page is reloaded, unless the
    /// user is typing.
    pub seconds: u64,
}

/// Reason why a sign-in failed.
///
/// Unknown, disabled and existing accounts yield the same message. Otherwise an attacker could find
/// out which accounts exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginProblem {
    /// The account does not exist or is disabled, or the password is wrong.
    WrongCredentials,
    /// There were too many failures of this account or address.
    Throttled {
        /// Time until the next attempt is allowed.
        seconds: u64,
    },
    /// The password was not checked, because too many checks are queued.
    Busy,
    /// The passkey was refused, for any reason.
    PasskeyRefused,
    /// The password was not checked, because the directory did not answer.
    DirectoryAway,
    /// The password is correct, and the account is disabled in the directory.
    AccountDisabled,
    /// The password is correct, and the account in the directory has ended.
    AccountExpired,
    /// The password is correct, but must be changed in the directory first.
    PasswordExpired,
    /// The password is correct, but another account has the user's address or username.
    NameTaken,
    /// The password is correct, but the directory has neither an address nor a valid username.
    Nameless,
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
        if let Some(UpstreamFailure { label, problem }) = self.upstream_failure {
            return Some(t.upstream_problem(label, problem));
        }
        Some(match self.problem? {
            LoginProblem::WrongCredentials if self.forgot.is_some() => t.login_wrong_credentials_reset(),
            problem => t.login_problem(problem),
        })
    }

    fn has_problem(&self) -> bool {
        self.problem.is_some() || self.upstream_failure.is_some()
    }

    fn described(&self) -> &'static str {
        match self.problem {
            None if self.upstream_failure.is_some() => "login-problem",
            None | Some(LoginProblem::PasskeyRefused) => "",
            Some(_) => "login-problem",
        }
    }
}

impl Words {
    /// Returns why a sign-in failed.
    pub(super) fn login_problem(self, problem: LoginProblem) -> Markup {
        match problem {
            LoginProblem::WrongCredentials => self.login_wrong_credentials(),
            LoginProblem::Throttled { seconds } => match Wait::from_seconds(seconds) {
                Wait::Seconds(seconds) => self.login_throttled_seconds(seconds),
                Wait::Minutes(minutes) => self.login_throttled_minutes(minutes),
            },
            LoginProblem::Busy => self.login_busy(),
            LoginProblem::PasskeyRefused => self.login_passkey_refused(),
            LoginProblem::DirectoryAway => self.login_directory_away(),
            LoginProblem::AccountDisabled => self.login_account_disabled(),
            LoginProblem::AccountExpired => self.login_account_expired(),
            LoginProblem::PasswordExpired => self.login_password_expired(),
            LoginProblem::NameTaken => self.login_name_taken(),
            LoginProblem::Nameless => self.login_nameless(),
        }
    }

    /// Returns the description of a scope.
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

/// Consent page.
///
/// Its form sends `csrf`, `consent-allow` or `consent-deny` and, if selected,
/// `offline_access=true`.
#[derive(Template)]
#[template(path = "consent.html")]
#[expect(clippy::struct_excessive_bools, reason = "independent parts of the page")]
pub struct ConsentPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub client: &'a str,
    /// URL of the client's logo, if the operator created or approved the client.
    pub logo: Option<&'a str>,
    /// Host of the redirect URI.
    pub host: &'a str,
    /// Whether all redirect URIs of the client are on the user's device.
    pub only_on_device: bool,
    pub publisher: Publisher<'a>,
    /// Whether the client was registered recently.
    pub is_new: bool,
    /// Host of the client's home page, if the operator created or approved the client.
    pub website: Option<&'a str>,
    /// Whether applications behind the gateway refuse the client's tokens until an administrator
    /// approves the client.
    pub needs_approval: bool,
    /// Link to the client's terms of use.
    pub terms: Option<ClientLink<'a>>,
    /// Link to the client's privacy policy.
    pub policy: Option<ClientLink<'a>>,
    /// E-mail address of the account.
    pub account: &'a str,
    /// Requested scopes without `offline_access`. Each has the exact values that the client will
    /// receive.
    pub scopes: &'a [(ScopeValue, Vec<String>)],
    /// Application that the client wants to use for the user.
    pub resource: Option<&'a ConsentResource<'a>>,
    /// Whether `offline_access` is requested. The page has a separate checkbox for it.
    pub offline_access: bool,
}

/// Application for which a client requests a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentResource<'a> {
    /// Name of the application.
    pub app: &'a str,
    /// Origin of the application.
    pub id: &'a str,
    /// Texts of the requested scopes. Empty if the token has no scopes of the application.
    pub scopes: Vec<&'a str>,
}

/// Link to a page of a client. Its scheme is https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLink<'a> {
    pub address: &'a str,
    pub host: String,
}

/// Publisher of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher<'a> {
    /// The operator, who created or approved the client.
    Operator,
    /// A developer with this name. The client is not approved.
    Developer(&'a str),
    /// A user who was deleted. The client is not approved.
    DeletedUser,
    /// The client itself, which registered itself and is not approved.
    Itself,
}

impl ConsentPage<'_> {
    /// Returns the letter that is shown instead of the client's logo.
    fn party(&self) -> String {
        initial(self.client)
    }

    fn published_by(&self) -> Markup {
        let (t, operator) = (self.frame.t, self.frame.operator);
        match self.publisher {
            Publisher::Operator => t.consent_publisher_operator(operator),
            Publisher::Developer(name) => t.consent_publisher_developer(name, operator),
            Publisher::DeletedUser => t.consent_publisher_nobody(operator),
            Publisher::Itself => t.consent_publisher_itself(),
        }
    }

    fn links(&self) -> impl Iterator<Item = (&'static str, Markup, &ClientLink<'_>)> {
        let t = self.frame.t;
        let terms = self.terms.iter().map(move |link| ("consent-terms", t.consent_terms(), link));
        terms.chain(self.policy.iter().map(move |link| ("consent-policy", t.consent_policy(), link)))
    }

    /// Returns the lines of the scopes: title, values, and text to show if there are no values.
    /// `openid` is last, because only programs read the `sub`.
    fn lines(&self) -> impl Iterator<Item = (Markup, &[String], Markup)> {
        let t = self.frame.t;
        let nothing = move |scope| match scope {
            ScopeValue::Email => t.consent_no_address(),
            _ => t.consent_nothing_stored(),
        };
        let (numbers, known): (Vec<_>, Vec<_>) =
            self.scopes.iter().partition(|(scope, _)| *scope == ScopeValue::OpenId);
        let lines = known.into_iter().chain(numbers);
        lines.map(move |(scope, values)| (t.scope(scope), values.as_slice(), nothing(*scope)))
    }
}

/// Account chooser. Its form sends `csrf` and `account`: a subject, or nothing for another account.
#[derive(Template)]
#[template(path = "account_chooser.html")]
pub struct AccountChooserPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Name of the requesting client. `None` for the provider's own pages.
    pub client: Option<&'a str>,
    /// Accounts that are signed in in this browser.
    pub accounts: &'a [User],
}

/// Page that asks for confirmation of a sign-out. Its form sends `csrf`, `logout-confirm=yes` and
/// the hidden fields.
#[derive(Template)]
#[template(path = "confirm_logout.html")]
pub struct ConfirmLogoutPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub client: Option<&'a str>,
    /// E-mail address of the account.
    pub account: Option<&'a str>,
    /// URL for staying signed in.
    pub stay: &'a str,
    /// Names and values that the form forwards, such as `post_logout_redirect_uri` and `state`.
    pub hidden: &'a [(&'a str, &'a str)],
}

/// Page after signing out.
#[derive(Template)]
#[template(path = "signed_out.html")]
pub struct SignedOutPage<'a> {
    pub frame: Frame<'a>,
    pub client: Option<&'a str>,
    /// Title of the application where the gateway had signed the user in and signs the user out.
    pub app_login: Option<&'a str>,
    /// Name of the OpenID provider where the user is still signed in.
    pub upstream: Option<&'a str>,
    pub sign_in: &'a str,
}

/// Page with a form that returns the response of a sign-in to the client. Browsers with scripts
/// send the form automatically.
#[derive(Template)]
#[template(path = "return_form.html")]
pub struct ReturnFormPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub host: &'a str,
    pub fields: &'a [(&'static str, String)],
}
