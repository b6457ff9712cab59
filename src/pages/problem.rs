//! Error pages, the gateway's 403 pages, and pages of kept forms.

use askama::Template;

use super::words::{Markup, Words};
use crate::inside::Frame;
use crate::language::Wait;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;

/// Error page with advice about the next step.
#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage<'a> {
    pub frame: Frame<'a>,
    pub problem: Problem,
    pub request_id: &'a str,
    pub link: PageLink<'a>,
}

/// Link of a page at which a flow ends.
#[derive(Debug, Clone, Copy)]
pub struct PageLink<'a> {
    pub address: &'a str,
    pub to: LinkTarget<'a>,
}

/// Target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkTarget<'a> {
    /// The requested page itself.
    Again,
    Application(&'a str),
    /// The start page of the application on this host.
    Start,
    Account,
    AnotherAccount,
}

/// Error that an error page describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// `client_id` is missing, unknown or disabled.
    UnknownClient,
    /// `redirect_uri` is not registered, so the error cannot be returned to the client (RFC 6749
    /// §4.1.2.1).
    RedirectUri,
    /// `redirect_uri` is missing, so the error cannot be returned to the client.
    NoRedirectUri,
    /// `post_logout_redirect_uri` is not registered.
    LogoutRedirectUri,
    /// The request is malformed in another way.
    InvalidRequest,
    /// The form has expired, or its token belongs to another browser.
    ExpiredForm,
    /// The browser did not return the cookie that binds the sign-in to the browser.
    CookieMissing,
    /// A page of the sign-in was opened without a sign-in in progress.
    NothingToDo,
    /// A page of the sign-in was opened by a signed-in user, for example with Back.
    SignedInAlready,
    /// The answer of an OpenID provider was already used, has expired, or belongs to another browser
    /// or provider.
    UpstreamTrip,
    /// The answer of an OpenID provider for a link was already used, has expired, or belongs to
    /// another session, browser or provider.
    LinkTrip,
    /// The page does not exist.
    NotFound,
    /// The application is not available from the client's network.
    Network,
    /// The host is unknown.
    UnknownHost,
    /// The URL is for programs, not for browsers.
    ForPrograms,
    TooManyRequests {
        /// Time until the next request is allowed.
        seconds: u64,
    },
    /// The browser returned to the sign-in repeatedly.
    SignInLoop,
    Upstream,
    /// A required component is overloaded or unavailable: the token, the store or a queue.
    Unavailable,
    /// The account may not use the console, or may not use this part of the console.
    Console,
    /// The form was kept for another user than the signed-in user.
    FormOfAnother,
    /// The kept form does not exist, or has expired.
    FormNotKept,
    /// A form or a frame needs a sign-in, and its request cannot be kept until the user has signed
    /// in.
    SignInNeeded,
    /// The user has no second factor and needs an enrolment link from an administrator.
    FactorsReset,
    /// The enrolment link was already used or has expired.
    EnrolmentLink,
    /// The reset link was already used, has expired or is invalid.
    ResetLink,
    /// The undo link for a change of address was already used, has expired or is invalid.
    UndoLink,
    /// The invitation was already accepted, withdrawn or replaced, or has expired.
    InvitationLink,
    Internal,
}

impl ErrorPage<'_> {
    fn words(&self) -> (Markup, Markup) {
        problem(self.frame.t, self.frame.operator, self.problem)
    }

    fn link_text(&self) -> Markup {
        let t = self.frame.t;
        match self.link.to {
            LinkTarget::Again => t.way_again(),
            LinkTarget::Application(name) => t.way_application(name),
            LinkTarget::Start => t.way_start(),
            LinkTarget::Account => t.way_account(),
            LinkTarget::AnotherAccount => t.way_another_account(),
        }
    }
}

/// Returns the heading and the text of a problem.
fn problem(t: Words, operator: &str, problem: Problem) -> (Markup, Markup) {
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
        Problem::UpstreamTrip => (t.error_upstream_trip_title(), t.error_upstream_trip_text()),
        Problem::LinkTrip => (t.error_link_trip_title(), t.error_link_trip_text()),
        Problem::UnknownHost => (t.error_unknown_host_title(), t.error_unknown_host_text()),
        Problem::ForPrograms => (t.error_for_programs_title(), t.error_for_programs_text()),
        Problem::NotFound => (t.error_not_found_title(), t.error_not_found_text()),
        Problem::Network => (t.error_network_title(), t.error_network_text()),
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
        Problem::SignInNeeded => (t.error_sign_in_needed_title(), t.error_sign_in_needed_text()),
        Problem::FactorsReset => (t.error_factors_reset_title(), t.error_factors_reset_text()),
        Problem::EnrolmentLink => (t.error_enrolment_link_title(), t.error_enrolment_link_text()),
        Problem::ResetLink => (t.error_reset_link_title(), t.error_reset_link_text()),
        Problem::UndoLink => (t.error_reset_link_title(), t.error_undo_link_text()),
        Problem::InvitationLink => (t.error_invitation_link_title(), t.error_invitation_link_text()),
        Problem::Internal => (t.error_internal_title(), t.error_internal_text()),
    }
}

/// Page that asks for confirmation before a kept form is shown. The page is used if the browser
/// does not confirm that the user opened it.
#[derive(Template)]
#[template(path = "kept_form.html")]
pub struct KeptFormPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    pub action: &'a str,
}

/// Page of a form that was kept while its sender signed in. Its button sends the form to the
/// application.
#[derive(Template)]
#[template(path = "send_again.html")]
pub struct SendAgainPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// E-mail address of the account.
    pub account: &'a str,
    pub target: &'a str,
    /// Encoding in which the browser sends the form.
    pub charset: &'a str,
    /// Names and values of the fields, as originally sent.
    pub fields: &'a [(String, String)],
    /// URL for leaving the page without sending the form.
    pub instead: &'a str,
}

/// Page of the gateway's 403: the user is signed in but has no access to the application.
#[derive(Template)]
#[template(path = "forbidden.html")]
pub struct ForbiddenPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// E-mail address of the account.
    pub account: &'a str,
    /// URL that starts a sign-in with another account.
    pub switch_account: &'a str,
}

/// Page of the gateway for an application in maintenance.
#[derive(Template)]
#[template(path = "maintenance.html")]
pub struct MaintenancePage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// Message of the operator.
    pub message: Option<&'a str>,
    /// Expected end, in the future.
    pub until: Option<UnixTime>,
    /// URL of the requested page.
    pub again: &'a str,
    /// URL that starts a sign-in with another account. `None` if no account can use the application.
    pub switch_account: Option<&'a str>,
    pub request_id: &'a str,
}

/// Page of the gateway's 403 for a sign-in below the application's level, if the provider could not
/// raise the level.
#[derive(Template)]
#[template(path = "weak_sign_in.html")]
pub struct WeakSignInPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// Required level, at least two.
    pub needed: AssuranceLevel,
    /// URL of the page "Security", where users manage their own second factors. `None` if only an
    /// administrator manages them.
    pub security: Option<&'a str>,
    /// URL of the requested page.
    pub again: &'a str,
    /// URL that starts a sign-in with another account.
    pub switch_account: &'a str,
}

impl WeakSignInPage<'_> {
    fn words(&self) -> Markup {
        let t = self.frame.t;
        if self.needed == AssuranceLevel::PhishingResistant {
            t.unmet_resistant(self.app)
        } else {
            t.unmet_two(self.app)
        }
    }
}

/// Reason why the gateway cannot sign a user in to an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppLoginProblem {
    /// The user has not stored a username and password for the application.
    Missing,
    /// The application refused the user's name and password.
    Refused,
    /// The application refused the name and password of the service account.
    ServiceAccount,
}

/// Page of the gateway for a user who cannot be signed in to an application.
#[derive(Template)]
#[template(path = "app_login.html")]
pub struct AppLoginPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    pub problem: AppLoginProblem,
    /// URL of the account page on which the user stores name and password.
    pub account_page: &'a str,
    /// URL of the requested page.
    pub again: &'a str,
    /// URL that starts a sign-in with another account.
    pub switch_account: &'a str,
}

impl AppLoginPage<'_> {
    fn words(&self) -> Markup {
        let t = self.frame.t;
        match self.problem {
            AppLoginProblem::Missing => t.app_login_missing(self.app),
            AppLoginProblem::Refused => t.app_login_refused(self.app),
            AppLoginProblem::ServiceAccount => t.app_login_service(self.app),
        }
    }
}
