//! What people see: sign-in, consent, account chooser, signing out, errors. Server-rendered HTML that needs no script,
//! in Turkish and English, with one stylesheet. A page is one struct, which is its template: whoever answers a request fills it
//! with what surrounds it ([`Frame`] or [`Inside`]) and with values of the domain, and [`html`] writes it. Knows no HTTP and no
//! store. The caller sends [`CONTENT_SECURITY_POLICY`] with every page.

#![expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass their values by reference")]

mod account;
mod address;
mod asset;
pub(crate) mod console;
mod create_account;
mod credential_choice;
pub(crate) mod device;
mod events;
mod factor;
mod frame;
mod inside;
mod invitation;
mod language;
mod mail;
mod moment;
mod problem;
pub(crate) mod qr_code;
mod reset;
mod security;
mod sign_in;
mod words;

use askama::Template;

use crate::config::{self, Language};
use words::Words;

pub use account::{
    AppPasswordFault, AppPasswordsPage, Application, ApplicationsPage, HomeApp, HomePage, NewAppPassword, PasswordPage,
    PasswordProblem, ProfileField, ProfilePage, SessionsPage,
};
pub use address::{
    AddressPage, AddressProblem, NewAddressPage, NewAddressProblem, UndoOutcome, UndoPage, UndonePage, WaitingCode,
};
pub(crate) use asset::Asset;
pub use asset::{RETURN_SCRIPT, SCRIPT, STYLESHEET};
pub use create_account::{CreateAccountPage, CreateAccountProblem, NewAccountPage, ProveAddressPage};
pub use credential_choice::CredentialChoice;
pub use events::{ActivityPage, AuditField, AuditLogPage, EventLine, Named};
pub use factor::{
    AppEnrolment, EnrolPage, EnrolProblem, EnrolStep, FactorChoice, FactorPage, FactorProblem, KeyEnrolment,
    RecoveryCodesPage, RecoveryUsedPage, UnmetPage,
};
pub use frame::{Addresses, Frame};
pub use inside::{ConsoleRole, Done, Inside};
pub use invitation::InvitationPage;
pub(crate) use language::language_from_tag;
pub use language::language_tag;
pub(crate) use mail::MailView;
pub use problem::{ErrorPage, ForbiddenPage, KeptFormPage, Problem, SendAgainPage, Way, WayTo, WeakSignInPage};
pub use reset::{ForgotPasswordPage, NewPasswordPage, NewPasswordProblem, ResetDonePage};
pub(crate) use security::default_factor_name;
pub use security::{
    AddFactorPage, FactorLine, FactorLineKind, FactorSettingsPage, MakeCodesPage, PasskeySignals, RecoveryState,
    SecurityPage, SecurityProblem,
};
pub use sign_in::{
    AccountChooserPage, ClientLink, ConfirmLogoutPage, ConsentPage, LoginPage, LoginProblem, PasskeyOffer, Publisher,
    ReturnFormPage, SignedOutPage,
};

/// The policy (CSP Level 3) under which every page works: stylesheet, script and logo from its own origin, nothing inline,
/// and nothing else.
///
/// It names no `form-action` on purpose: browsers apply that also to the redirect that answers a form, and the consent
/// form is answered with a redirect to the client.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'";

/// The policy under which the logo is served: nothing runs in it, nor comes from elsewhere.
pub(crate) const LOGO_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// What all pages have in common. Immutable; built once and shared.
pub struct Pages {
    operator: String,
    default_language: Language,
    stylesheet: Asset,
    script: Asset,
    return_script: Asset,
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
            script: Asset::script(SCRIPT),
            return_script: Asset::script(RETURN_SCRIPT),
            logo: settings.logo.as_ref().map(Asset::logo),
            icon: asset::icon(&settings.operator, settings.accent),
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

    /// The script of the page that takes the answer of a sign-in to the client.
    pub fn return_script(&self) -> &Asset {
        &self.return_script
    }

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

    /// What surrounds a page in a language.
    pub fn frame(&self, language: Language, addresses: Addresses) -> Frame<'_> {
        Frame { t: Words { language }, operator: &self.operator, icon: &self.icon, addresses }
    }
}

pub fn html(page: &impl Template) -> String {
    // The templates write text and numbers into a String; neither can fail.
    page.render().unwrap_or_default()
}
