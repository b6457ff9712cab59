//! The pages where something ends: errors, the gate's 403, a form that waits.

use askama::Template;

use super::frame::Frame;
use super::moment::Wait;
use super::words::{Markup, Words};
use crate::domain::assurance::AssuranceLevel;

/// A page that says what went wrong and what to do next.
#[derive(Template)]
#[template(path = "error.html")]
pub struct ErrorPage<'a> {
    pub frame: Frame<'a>,
    pub problem: Problem,
    pub request_id: &'a str,
    pub way: Way<'a>,
}

/// Where somebody can go from a page that is the end of something.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    pub address: &'a str,
    pub to: WayTo<'a>,
}

/// What a way leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayTo<'a> {
    /// The same page once more.
    Again,
    Application(&'a str),
    /// The first page of the application on this host.
    Start,
    Account,
    AnotherAccount,
}

/// What an error page is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// `client_id` is missing, unknown or disabled.
    UnknownClient,
    /// `redirect_uri` is not registered, so there is nowhere to send the error (RFC 6749 §4.1.2.1).
    RedirectUri,
    /// `redirect_uri` is missing, likewise.
    NoRedirectUri,
    /// `post_logout_redirect_uri` is not registered.
    LogoutRedirectUri,
    /// The request is malformed in another way.
    InvalidRequest,
    /// The form is too old, or its token belongs to another browser.
    ExpiredForm,
    /// The cookie that binds a sign-in to its browser did not come back.
    CookieMissing,
    /// A page of the sign-in was opened without a sign-in in progress.
    NothingToDo,
    /// The same, to somebody who is signed in: with Back, for instance.
    SignedInAlready,
    /// No such page.
    NotFound,
    /// No such host.
    UnknownHost,
    /// An address that only programs use.
    ForPrograms,
    TooManyRequests {
        /// Until the next request is allowed.
        seconds: u64,
    },
    /// The browser came back to the sign-in again and again.
    SignInLoop,
    Upstream,
    /// A part that the answer needs is overloaded or away: the token, the store, a queue.
    Unavailable,
    /// The account may not use the console, or not this part of it.
    Console,
    /// A form was kept for somebody else than who has signed in.
    FormOfAnother,
    /// A form that was to be kept is not there, or not any more.
    FormNotKept,
    /// A form or a frame needs a sign-in, and its request cannot be kept until then.
    SignInNeeded,
    /// The person has no second step, and sets one up by an administrator's link only.
    FactorsReset,
    /// That link was used already, or is too old.
    EnrolmentLink,
    /// A reset link that was used already, is too old or is none.
    ResetLink,
    /// The same of a link that takes a change of address back.
    UndoLink,
    /// The account was taken, or the invitation withdrawn, replaced or too old.
    InvitationLink,
    Internal,
}

impl ErrorPage<'_> {
    fn words(&self) -> (Markup, Markup) {
        problem(self.frame.t, self.frame.operator, self.problem)
    }

    fn way(&self) -> Markup {
        let t = self.frame.t;
        match self.way.to {
            WayTo::Again => t.way_again(),
            WayTo::Application(name) => t.way_application(name),
            WayTo::Start => t.way_start(),
            WayTo::Account => t.way_account(),
            WayTo::AnotherAccount => t.way_another_account(),
        }
    }
}

/// The problem in words: a heading, and what to do next.
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
        Problem::SignInNeeded => (t.error_sign_in_needed_title(), t.error_sign_in_needed_text()),
        Problem::FactorsReset => (t.error_factors_reset_title(), t.error_factors_reset_text()),
        Problem::EnrolmentLink => (t.error_enrolment_link_title(), t.error_enrolment_link_text()),
        Problem::ResetLink => (t.error_reset_link_title(), t.error_reset_link_text()),
        Problem::UndoLink => (t.error_reset_link_title(), t.error_undo_link_text()),
        Problem::InvitationLink => (t.error_invitation_link_title(), t.error_invitation_link_text()),
        Problem::Internal => (t.error_internal_title(), t.error_internal_text()),
    }
}

/// Asks before a kept form is shown, where the browser does not say that its user opened the page.
#[derive(Template)]
#[template(path = "kept_form.html")]
pub struct KeptFormPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    pub action: &'a str,
}

/// A form that was kept while its sender signed in. Its button sends it to the application.
#[derive(Template)]
#[template(path = "send_again.html")]
pub struct SendAgainPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    pub target: &'a str,
    /// The encoding in which the browser writes it.
    pub charset: &'a str,
    /// Names and values, as they were sent.
    pub fields: &'a [(String, String)],
    /// Where to go without sending it.
    pub instead: &'a str,
}

/// The gate's 403: signed in, but not allowed into the application.
#[derive(Template)]
#[template(path = "forbidden.html")]
pub struct ForbiddenPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// The account that is signed in, as its owner knows it (the email address).
    pub account: &'a str,
    /// Address that starts a sign-in with another account.
    pub switch_account: &'a str,
}

/// The gate's other 403: signed in, but not as strongly as the application asks, and the provider could not make it stronger.
#[derive(Template)]
#[template(path = "weak_sign_in.html")]
pub struct WeakSignInPage<'a> {
    pub frame: Frame<'a>,
    pub app: &'a str,
    /// The level that is asked for: two or more.
    pub needed: AssuranceLevel,
    /// The address of the page "Security", where people set up their own second steps; nothing where only an administrator does.
    pub security: Option<&'a str>,
    /// The address of what was wanted.
    pub again: &'a str,
    /// Address that starts a sign-in with another account.
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
