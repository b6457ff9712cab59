//! The templates as types: what a page is told, beside the words of its language and what surrounds it. Askama checks
//! them at compile time and escapes every value.

use askama::Template;

use super::content::{
    AccountChooser, Chrome, ConfirmLogout, Consent, ErrorPage, Forbidden, Login, LoginProblem, Problem, Publisher,
    ReturnForm, ScopeLine, SendAgain, SignedOut, WayTo,
};
use super::language::language_tag;
use super::words::{Markup, Words};

/// What surrounds a page's content.
pub(super) struct Frame<'a> {
    pub(super) t: Words,
    pub(super) chrome: &'a Chrome<'a>,
    pub(super) operator: &'a str,
    pub(super) icon: &'a str,
    pub(super) title: Markup,
}

impl Frame<'_> {
    pub(super) fn tag(&self) -> &'static str {
        language_tag(self.chrome.language)
    }

    /// What the browser shows on the page's tab: the operator's logo, or the seal.
    pub(super) fn icon(&self) -> &str {
        self.chrome.logo.unwrap_or(self.icon)
    }

    pub(super) fn seal(&self) -> String {
        initial(self.operator)
    }
}

/// The letter that stands where a name has no picture; as written, since upper case depends on the language.
pub(super) fn initial(name: &str) -> String {
    name.chars().find(|letter| letter.is_alphanumeric()).map(String::from).unwrap_or_default()
}

#[derive(Template)]
#[template(path = "login.html")]
pub(super) struct LoginPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a Login<'a>,
    /// Why the page is shown again, in words.
    pub(super) problem: Option<Markup>,
    /// Whether the fields hold what was refused.
    pub(super) rejected: bool,
}

impl LoginPage<'_> {
    /// What describes the fields.
    fn described(&self) -> &'static str {
        if self.problem.is_some() { "login-problem" } else { "" }
    }
}

/// The problem in words.
pub(super) fn login_problem(t: Words, problem: LoginProblem) -> Markup {
    match problem {
        LoginProblem::WrongCredentials => t.login_wrong_credentials(),
        LoginProblem::Throttled { seconds } => match Wait::from_seconds(seconds) {
            Wait::Seconds(seconds) => t.login_throttled_seconds(seconds),
            Wait::Minutes(minutes) => t.login_throttled_minutes(minutes),
        },
        LoginProblem::Busy => t.login_busy(),
    }
}

#[derive(Template)]
#[template(path = "consent.html")]
pub(super) struct ConsentPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a Consent<'a>,
    pub(super) lines: Vec<ConsentLine<'a>>,
    /// The letter in the place of the client's logo.
    pub(super) party: String,
}

impl ConsentPage<'_> {
    fn publisher(&self) -> Markup {
        let (t, operator) = (self.frame.t, self.frame.operator);
        match self.page.publisher {
            Publisher::Operator => t.consent_publisher_operator(operator),
            Publisher::Developer(name) => t.consent_publisher_developer(name, operator),
            Publisher::Nobody => t.consent_publisher_nobody(operator),
            Publisher::Itself => t.consent_publisher_itself(),
        }
    }

    fn registered_itself(&self) -> bool {
        self.page.publisher == Publisher::Itself
    }
}

/// A scope in words.
pub(super) struct ConsentLine<'a> {
    title: Markup,
    values: &'a [String],
    /// Whether the scope stands for stored values, so that their absence is worth a word.
    personal: bool,
}

impl<'a> ConsentLine<'a> {
    pub(super) fn new(t: Words, line: &ScopeLine<'a>) -> Self {
        let personal = matches!(line.scope, "openid" | "profile" | "email" | "phone" | "groups");
        Self { title: scope_title(t, line.scope), values: line.values, personal }
    }

    fn lacks_values(&self) -> bool {
        self.personal && self.values.is_empty()
    }
}

/// What a scope stands for.
pub(super) fn scope_title(t: Words, scope: &str) -> Markup {
    match scope {
        "openid" => t.consent_scope_openid(),
        "profile" => t.consent_scope_profile(),
        "email" => t.consent_scope_email(),
        "phone" => t.consent_scope_phone(),
        "groups" => t.consent_scope_groups(),
        "offline_access" => t.consent_scope_offline_access(),
        other => t.consent_scope_other(other),
    }
}

#[derive(Template)]
#[template(path = "account_chooser.html")]
pub(super) struct AccountChooserPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a AccountChooser<'a>,
}

#[derive(Template)]
#[template(path = "confirm_logout.html")]
pub(super) struct ConfirmLogoutPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a ConfirmLogout<'a>,
}

#[derive(Template)]
#[template(path = "signed_out.html")]
pub(super) struct SignedOutPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a SignedOut<'a>,
}

#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct ProblemPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a ErrorPage<'a>,
    pub(super) heading: Markup,
    pub(super) text: Markup,
}

impl ProblemPage<'_> {
    fn way(&self) -> Markup {
        let t = self.frame.t;
        match self.page.way.to {
            WayTo::Again => t.way_again(),
            WayTo::Application(name) => t.way_application(name),
            WayTo::Start => t.way_start(),
            WayTo::Account => t.way_account(),
            WayTo::AnotherAccount => t.way_another_account(),
        }
    }
}

/// The problem in words: a heading, and what to do next.
pub(super) fn problem(t: Words, operator: &str, problem: Problem) -> (Markup, Markup) {
    match problem {
        Problem::UnknownClient => (t.error_unknown_client_title(), t.error_unknown_client_text(operator)),
        Problem::RedirectUri => (t.error_redirect_uri_title(), t.error_redirect_uri_text()),
        Problem::NoRedirectUri => (t.error_no_redirect_uri_title(), t.error_no_redirect_uri_text()),
        Problem::LogoutRedirectUri => (t.error_logout_redirect_uri_title(), t.error_logout_redirect_uri_text()),
        Problem::InvalidRequest => (t.error_invalid_request_title(), t.error_invalid_request_text()),
        Problem::ExpiredForm => (t.error_expired_form_title(), t.error_expired_form_text()),
        Problem::CookieMissing => (t.error_cookie_missing_title(), t.error_cookie_missing_text()),
        Problem::NothingToDo => (t.error_nothing_to_do_title(), t.error_nothing_to_do_text()),
        Problem::SignedInAlready => (t.error_signed_in_already_title(), t.error_signed_in_already_text()),
        Problem::UnknownHost => (t.error_unknown_host_title(), t.error_unknown_host_text()),
        Problem::ForPrograms => (t.error_for_programs_title(), t.error_for_programs_text()),
        Problem::NotFound => (t.error_not_found_title(), t.error_not_found_text()),
        Problem::TooManyRequests { seconds } => {
            let text = match Wait::from_seconds(seconds) {
                Wait::Seconds(seconds) => t.error_too_many_requests_seconds(seconds),
                Wait::Minutes(minutes) => t.error_too_many_requests_minutes(minutes),
            };
            (t.error_too_many_requests_title(), text)
        }
        Problem::SignInLoop => (t.error_sign_in_loop_title(), t.error_sign_in_loop_text()),
        Problem::Upstream => (t.error_upstream_title(), t.error_upstream_text()),
        Problem::Unavailable => (t.error_unavailable_title(), t.error_unavailable_text()),
        Problem::Console => (t.error_console_title(), t.error_console_text()),
        Problem::FormOfAnother => (t.error_form_of_another_title(), t.error_form_of_another_text()),
        Problem::FormNotKept => (t.error_form_not_kept_title(), t.error_form_not_kept_text()),
        Problem::Internal => (t.error_internal_title(), t.error_internal_text()),
    }
}

#[derive(Template)]
#[template(path = "forbidden.html")]
pub(super) struct ForbiddenPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a Forbidden<'a>,
}

#[derive(Template)]
#[template(path = "send_again.html")]
pub(super) struct SendAgainPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a SendAgain<'a>,
}

#[derive(Template)]
#[template(path = "return_form.html")]
pub(super) struct ReturnFormPage<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) page: &'a ReturnForm<'a>,
}

/// A wait in the unit that a person would use, rounded up so that nobody comes back too early.
pub(super) enum Wait {
    Seconds(u64),
    Minutes(u64),
}

impl Wait {
    pub(super) fn from_seconds(seconds: u64) -> Self {
        if seconds <= 90 { Self::Seconds(seconds.max(1)) } else { Self::Minutes(seconds.div_ceil(60)) }
    }
}
