//! What people see: sign-in, consent, account chooser, signing out, errors. Server-rendered HTML that needs no script,
//! in Turkish and English, with one stylesheet. Knows no HTTP, no store and no protocol: it is told values and yields
//! text. The caller sends [`CONTENT_SECURITY_POLICY`] with every page.

mod account;
mod app_passwords;
pub mod console;
mod content;
mod device;
mod events;
mod home;
mod language;
mod look;
mod moment;
pub mod qr_code;
mod shell;
mod template;
mod words;

use askama::Template;

use crate::config::{self, Language};
use template::{
    AccountChooserPage, ConfirmLogoutPage, ConsentLine, ConsentPage, ForbiddenPage, Frame, LoginPage, ProblemPage,
    ReturnFormPage, SendAgainPage, SignedOutPage,
};
use words::{Markup, Words};

pub use account::{
    ApplicationLine, Applications, PasswordChange, PasswordProblem, Profile, ProfileField, SessionLine, Sessions,
};
pub use app_passwords::{AppChoice, AppPasswordFault, AppPasswordLine, AppPasswordMade, AppPasswords};
pub use content::{
    AccountChooser, AccountLine, Chrome, ConfirmLogout, Consent, ErrorPage, Forbidden, LanguageSwitch, Login,
    LoginProblem, Problem, Publisher, ReturnForm, ScopeLine, SendAgain, SignedOut, Way, WayTo,
};
pub use events::{Activity, AuditActor, AuditEvents, AuditField, EventLine, Named};
pub use home::{Home, HomeApp};
pub use language::{language_from_tag, language_tag};
pub use look::{Asset, SCRIPT, STYLESHEET};
pub use shell::{Done, Shell, Standing};

/// The policy (CSP Level 3) under which every page works: stylesheet, script and logo from its own origin, nothing inline,
/// and nothing else.
///
/// It names no `form-action` on purpose: browsers apply that also to the redirect that answers a form, and the consent
/// form is answered with a redirect to the client.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'";

/// The policy under which the logo is served: nothing runs in it, nor comes from elsewhere.
pub const LOGO_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Renders the pages. Immutable; built once and shared.
pub struct Pages {
    operator: String,
    default_language: Language,
    stylesheet: Asset,
    script: Asset,
    logo: Option<Asset>,
    icon: String,
}

impl Pages {
    /// The pages of an operator.
    pub fn new(settings: &config::PagesConfig) -> Self {
        Self {
            operator: settings.operator.clone(),
            default_language: settings.default_language,
            stylesheet: Asset::stylesheet(settings.accent),
            script: Asset::script(),
            logo: settings.logo.as_ref().map(Asset::logo),
            icon: look::icon(&settings.operator, settings.accent),
        }
    }

    /// The stylesheet of all pages, in the operator's colours.
    pub fn stylesheet(&self) -> &Asset {
        &self.stylesheet
    }

    /// The script of those pages that have one.
    pub fn script(&self) -> &Asset {
        &self.script
    }

    /// The operator's logo.
    pub fn logo(&self) -> Option<&Asset> {
        self.logo.as_ref()
    }

    /// The language of a page: of `ui_locales` (OpenID Connect Core §3.1.2.1), else the saved choice (a language tag),
    /// else by the `Accept-Language` header, else the configured one.
    pub fn language(&self, ui_locales: Option<&str>, saved: Option<&str>, accept_language: Option<&str>) -> Language {
        ui_locales
            .and_then(language::from_ui_locales)
            .or_else(|| saved.and_then(language_from_tag))
            .or_else(|| {
                accept_language.and_then(|header| language::from_accept_language(header, self.default_language))
            })
            .unwrap_or(self.default_language)
    }

    /// The sign-in page.
    pub fn login(&self, chrome: &Chrome<'_>, page: &Login<'_>) -> String {
        let t = Words::of(chrome);
        let problem = page.problem.map(|problem| template::login_problem(t, problem));
        let rejected = page.problem == Some(LoginProblem::WrongCredentials);
        let title = if problem.is_some() {
            t.document_title_problem(&self.operator, t.login_title())
        } else {
            t.document_title(&self.operator, t.login_title())
        };
        let frame = Frame { t, chrome, operator: &self.operator, icon: &self.icon, title };
        rendered(&LoginPage { frame, page, problem, rejected })
    }

    /// The consent page.
    pub fn consent(&self, chrome: &Chrome<'_>, page: &Consent<'_>) -> String {
        let t = Words::of(chrome);
        // What people know themselves by comes first, and the number that only programs read last.
        let (numbers, known): (Vec<&ScopeLine<'_>>, Vec<_>) =
            page.scopes.iter().partition(|line| line.scope == "openid");
        let lines = known.into_iter().chain(numbers).map(|line| ConsentLine::new(t, line)).collect();
        let party = template::initial(page.client);
        rendered(&ConsentPage { frame: self.frame(chrome, &t.consent_title()), page, lines, party })
    }

    /// The account chooser.
    pub fn account_chooser(&self, chrome: &Chrome<'_>, page: &AccountChooser<'_>) -> String {
        let title = Words::of(chrome).chooser_title();
        rendered(&AccountChooserPage { frame: self.frame(chrome, &title), page })
    }

    /// The question whether to sign out.
    pub fn confirm_logout(&self, chrome: &Chrome<'_>, page: &ConfirmLogout<'_>) -> String {
        let title = Words::of(chrome).logout_title();
        rendered(&ConfirmLogoutPage { frame: self.frame(chrome, &title), page })
    }

    /// The page after signing out.
    pub fn signed_out(&self, chrome: &Chrome<'_>, page: &SignedOut<'_>) -> String {
        let title = Words::of(chrome).signed_out_title();
        rendered(&SignedOutPage { frame: self.frame(chrome, &title), page })
    }

    /// A page that says what went wrong.
    pub fn error(&self, chrome: &Chrome<'_>, page: &ErrorPage<'_>) -> String {
        let (heading, text) = template::problem(Words::of(chrome), &self.operator, page.problem);
        rendered(&ProblemPage { frame: self.frame(chrome, &heading), page, heading, text })
    }

    /// The gate's 403.
    pub fn forbidden(&self, chrome: &Chrome<'_>, page: &Forbidden<'_>) -> String {
        let title = Words::of(chrome).forbidden_title();
        rendered(&ForbiddenPage { frame: self.frame(chrome, &title), page })
    }

    /// The form that waits for its sender.
    pub fn send_again(&self, chrome: &Chrome<'_>, page: &SendAgain<'_>) -> String {
        let title = Words::of(chrome).send_again_title();
        rendered(&SendAgainPage { frame: self.frame(chrome, &title), page })
    }

    /// The form that takes an answer to the client.
    pub fn return_form(&self, chrome: &Chrome<'_>, page: &ReturnForm<'_>) -> String {
        let title = Words::of(chrome).return_form_title();
        rendered(&ReturnFormPage { frame: self.frame(chrome, &title), page })
    }

    fn frame<'a>(&'a self, chrome: &'a Chrome<'a>, title: &Markup) -> Frame<'a> {
        let t = Words::of(chrome);
        let title = t.document_title(&self.operator, title);
        Frame { t, chrome, operator: &self.operator, icon: &self.icon, title }
    }
}

fn rendered(template: &impl Template) -> String {
    // The templates write text and numbers into a String; neither can fail.
    template.render().unwrap_or_default()
}
