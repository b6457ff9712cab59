//! Sign-ins at OpenID providers: the buttons on the sign-in page, and the page that leads to a
//! provider.

use askama::Template;

use sealgate_domain::upstream_trip::UpstreamProblem;

use super::words::{Markup, Words};
use crate::inside::Frame;

/// Button of an OpenID provider on the sign-in page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamButton<'a> {
    /// Name of the provider in the configuration.
    pub name: &'a str,
    /// Name of the provider for users.
    pub label: &'a str,
}

/// Failure of a sign-in at an OpenID provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamFailure<'a> {
    /// Name of the provider for users.
    pub label: &'a str,
    pub problem: UpstreamProblem,
}

/// Page that sends the browser to an OpenID provider.
///
/// It is a page and not a redirect, because Chromium applies `form-action` to each redirect after a
/// form, also to those that the provider sends.
#[derive(Template)]
#[template(path = "leave.html")]
pub struct LeavePage<'a> {
    pub frame: Frame<'a>,
    /// Name of the provider for users.
    pub label: &'a str,
    /// URL at the provider.
    pub url: &'a str,
    /// Whether the user signs out at the provider, and not in.
    pub is_sign_out: bool,
}

impl Words {
    /// Returns why a sign-in at the provider with this name failed.
    pub(super) fn upstream_problem(self, label: &str, problem: UpstreamProblem) -> Markup {
        match problem {
            UpstreamProblem::Denied => self.login_upstream_denied(label),
            UpstreamProblem::ProviderError => self.login_upstream_error(label),
            UpstreamProblem::Unavailable => self.login_upstream_away(label),
            UpstreamProblem::Invalid => self.login_upstream_invalid(label),
            UpstreamProblem::GroupsOverage => self.login_upstream_groups(label),
            UpstreamProblem::NotAllowed => self.login_upstream_not_allowed(label),
            UpstreamProblem::NotLinked => self.login_upstream_not_linked(label),
            UpstreamProblem::NameTaken => self.login_upstream_name_taken(label),
            UpstreamProblem::Nameless => self.login_upstream_nameless(label),
            UpstreamProblem::Disabled => self.login_upstream_disabled(),
            UpstreamProblem::NotRecent => self.login_upstream_not_recent(label),
            UpstreamProblem::OtherOrigin => self.login_upstream_other_origin(label),
        }
    }
}
