//! Pages for users: sign-in, consent, account chooser, sign-out and errors.
//!
//! The pages are server-rendered HTML in Turkish and English, with one stylesheet. They work
//! without scripts. Each page is a struct that derives its template. Handlers fill the struct with
//! a frame ([`Frame`] or [`Inside`]) and domain values, and [`html`] renders it. This module does
//! not use HTTP or the store. The caller must send [`CONTENT_SECURITY_POLICY`] with every page.

#![expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass their values by reference")]

mod account;
mod address;
mod asset;
pub mod console;
mod create_account;
pub mod device;
mod events;
mod factor;
mod inside;
mod language;
mod linking;
mod mail;
pub mod mailer;
mod open_access;
mod problem;
pub mod qr_code;
mod reset;
mod security;
mod sign_in;
mod upstream;
mod words;

use askama::Template;

use sealgate_config as config;
use sealgate_config::Language;
use words::Words;

pub use account::{
    AppLoginFault, AppLoginForm, AppLoginLine, AppLoginsPage, AppPasswordFault, AppPasswordsPage, ApplicationsPage,
    HomeApp, HomeAppLogin, HomePage, NewAppPassword, PasswordPage, PasswordProblem, ProfileField, ProfilePage,
    SessionsPage,
};
pub use address::{
    AddressPage, AddressProblem, NewAddressPage, NewAddressProblem, UndoOutcome, UndoPage, UndonePage, WaitingCode,
};
pub use asset::Asset;
use asset::Stylesheet;
pub use asset::{KEYS_SCRIPT, RETURN_SCRIPT, SCRIPT, STYLESHEET};
pub use create_account::CredentialChoice;
pub use create_account::InvitationPage;
pub use create_account::{CreateAccountPage, CreateAccountProblem, NewAccountPage, ProveAddressPage};
pub use events::{ActivityPage, AuditField, AuditLogPage, EventLine, LiveView, Named};
pub use factor::{
    AppEnrolment, EnrolPage, EnrolProblem, EnrolStep, FactorChoice, FactorPage, FactorProblem, KeyEnrolment,
    RecoveryCodesPage, RecoveryUsedPage, UnmetPage,
};
pub use inside::{Addresses, Frame};
pub use inside::{Done, Inside, client_logo_path};
pub use language::language_from_tag;
pub use language::language_tag;
pub use linking::{
    BeginLinkPage, ConfirmLinkPage, LinkDone, LinkDonePage, LinkProblem, LinkRefusal, LinkRefusedPage, LinkableSource,
    LinkedAccount, LinkedAccounts, UnlinkPage,
};
pub use mail::MailView;
pub use open_access::AccessTable;
pub use problem::{
    AppLoginPage, AppLoginProblem, ErrorPage, ForbiddenPage, KeptFormPage, LinkTarget, MaintenancePage, PageLink,
    Problem, SendAgainPage, WeakSignInPage,
};
pub use reset::{ForgotPasswordPage, NewPasswordPage, NewPasswordProblem, ResetDonePage};
pub use security::{
    AddFactorPage, FactorLine, FactorSettingsPage, MakeCodesPage, PasskeySignals, RecoveryState, SecurityPage,
    SecurityProblem, UnnamedFactor, default_factor_name,
};
pub use sign_in::{
    AccountChooserPage, ClientLink, ConfirmLogoutPage, ConsentPage, ConsentResource, LoginPage, LoginProblem,
    PasskeyOffer, Publisher, ReturnFormPage, SignedOutPage,
};
pub use upstream::{LeavePage, UpstreamButton, UpstreamFailure};

/// Policy of every page (CSP Level 3). It permits a stylesheet, script and logo from the page's own
/// origin, and nothing inline or from elsewhere.
///
/// The policy omits `form-action`, because some browsers also apply it to the redirect that answers
/// a form. The consent form is answered with a redirect to the client.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'";

/// Policy of the logo. It permits no scripts and no external resources.
pub const LOGO_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Settings and assets of all pages. Immutable, built once and shared.
pub struct Pages {
    operator: String,
    default_language: Language,
    stylesheet: Asset,
    console_stylesheet: Asset,
    script: Asset,
    keys_script: Asset,
    return_script: Asset,
    logo: Option<Asset>,
    icon: String,
}

impl Pages {
    /// Creates the pages of an operator.
    pub fn new(settings: &config::PagesConfig) -> Self {
        Self {
            operator: settings.operator.clone(),
            default_language: settings.default_language,
            stylesheet: Asset::stylesheet(Stylesheet::Account, settings.accent),
            console_stylesheet: Asset::stylesheet(Stylesheet::Console, settings.accent),
            script: Asset::script(SCRIPT),
            keys_script: Asset::script(KEYS_SCRIPT),
            return_script: Asset::script(RETURN_SCRIPT),
            logo: settings.logo.as_ref().map(Asset::logo),
            icon: asset::icon(settings.accent),
        }
    }

    /// Returns the stylesheet of all pages but the console's, in the operator's colours.
    pub fn stylesheet(&self) -> &Asset {
        &self.stylesheet
    }

    /// Returns the stylesheet of the console, in the operator's colours.
    pub fn console_stylesheet(&self) -> &Asset {
        &self.console_stylesheet
    }

    /// Returns the script of the pages that have one.
    pub fn script(&self) -> &Asset {
        &self.script
    }

    /// Returns the script of the sign-in and account pages.
    pub fn keys_script(&self) -> &Asset {
        &self.keys_script
    }

    /// Returns the script that submits the page of a `form_post` response.
    pub fn return_script(&self) -> &Asset {
        &self.return_script
    }

    /// Returns the operator's logo, if one is configured.
    pub fn logo(&self) -> Option<&Asset> {
        self.logo.as_ref()
    }

    /// Returns the language of a page.
    ///
    /// The first of these sources that names a supported language decides: `ui_locales` (OpenID
    /// Connect Core §3.1.2.1), the saved choice (a language tag), the `Accept-Language` header, the
    /// configured default.
    pub fn language(&self, ui_locales: Option<&str>, saved: Option<&str>, accept_language: Option<&str>) -> Language {
        ui_locales
            .and_then(language::from_ui_locales)
            .or_else(|| saved.and_then(language_from_tag))
            .or_else(|| {
                accept_language.and_then(|header| language::from_accept_language(header, self.default_language))
            })
            .unwrap_or(self.default_language)
    }

    /// Creates the frame of a page in a language.
    pub fn frame(&self, language: Language, addresses: Addresses) -> Frame<'_> {
        Frame { t: Words { language }, operator: &self.operator, icon: &self.icon, addresses }
    }
}

/// Renders a page.
pub fn html(page: &impl Template) -> String {
    // The templates write text and numbers to a String, which cannot fail.
    page.render().unwrap_or_default()
}
