//! Links of an account to accounts at directories and OpenID providers: the section of the page
//! "Security", and the pages that add and remove a link.

use askama::Template;

use sealgate_domain::time::UnixTime;
use sealgate_domain::upstream_trip::UpstreamProblem;

use super::inside::{Frame, Inside, MenuEntry};
use super::sign_in::LoginProblem;
use super::words::Markup;

/// Section of the page "Security".
#[derive(Debug)]
pub enum LinkedAccounts<'a> {
    Linked(LinkedAccount<'a>),
    /// The user is local, and may link the account at these sources. Without sources, there is no
    /// section.
    None(Vec<LinkableSource<'a>>),
}

/// Account at a source that the user signs in with.
#[derive(Debug)]
pub struct LinkedAccount<'a> {
    /// Name of the source for users.
    pub label: &'a str,
    /// `None` if the source created the user.
    pub linked_at: Option<UnixTime>,
    /// Time at which an OpenID provider last confirmed the account. `None` for directories.
    pub confirmed_at: Option<UnixTime>,
    pub may_unlink: bool,
}

/// Source at which the user may link an account.
#[derive(Debug)]
pub struct LinkableSource<'a> {
    /// Name in the configuration.
    pub name: &'a str,
    /// Name for users.
    pub label: &'a str,
}

/// Page on which the user begins a link. Its form sends `csrf` and `source`, and for a directory
/// `account` and `password`.
#[derive(Template)]
#[template(path = "account/link.html")]
pub struct BeginLinkPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Name of the source in the configuration.
    pub source: &'a str,
    /// Name of the source for users.
    pub label: &'a str,
    pub is_directory: bool,
    /// Typed name in the directory.
    pub account: &'a str,
    pub problem: Option<LinkProblem>,
}

/// Reason why a directory did not prove an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkProblem {
    SignIn(LoginProblem),
    /// The directory did not answer.
    Away,
}

impl BeginLinkPage<'_> {
    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            LinkProblem::SignIn(problem) => t.login_problem(problem),
            LinkProblem::Away => t.link_away(self.label),
        })
    }

    fn is_rejected(&self) -> bool {
        self.problem == Some(LinkProblem::SignIn(LoginProblem::WrongCredentials))
    }

    fn described(&self) -> &'static str {
        if self.problem.is_some() { "link-problem" } else { "" }
    }
}

/// Page that names both accounts and the effect of the link. Its form sends `csrf`, and `cancel=yes`
/// if the user does not want the link.
#[derive(Template)]
#[template(path = "account/confirm_link.html")]
pub struct ConfirmLinkPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Name of the source for users.
    pub label: &'a str,
    pub is_directory: bool,
    /// E-mail address or username of the account here.
    pub account: &'a str,
    /// Name, address and username of the account at the source.
    pub names: &'a [&'a str],
    /// Whether the account here has a password, which the link removes.
    pub has_password: bool,
    pub is_administrator: bool,
}

/// Page that asks for confirmation before the link is removed. Its form sends `csrf`.
#[derive(Template)]
#[template(path = "account/unlink.html")]
pub struct UnlinkPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Name of the source for users.
    pub label: &'a str,
}

/// Page for a link that was not added or removed.
#[derive(Template)]
#[template(path = "account/link_refused.html")]
pub struct LinkRefusedPage<'a> {
    pub inside: Inside<'a>,
    /// Name of the source for users.
    pub label: &'a str,
    pub refusal: LinkRefusal,
}

/// Reason why a link was not added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The account at the source belongs to another user.
    Taken,
    /// Another user has the address or the username of the account at the source.
    NameTaken,
    /// The user is linked to this source already.
    HasSource,
    /// The provider did not identify the user.
    Provider(UpstreamProblem),
    /// The user would have neither a verified address nor a username.
    Nameless,
    /// The user has no passkey, and could not sign in without the link.
    NoWayLeft,
    /// Only an administrator removes this link.
    OnlyAdministrator,
}

impl LinkRefusedPage<'_> {
    fn words(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.refusal {
            LinkRefusal::Taken => t.link_taken(self.label),
            LinkRefusal::NameTaken => t.link_name_taken(self.label),
            LinkRefusal::HasSource => t.link_has_source(self.label),
            LinkRefusal::Nameless => t.link_nameless(),
            LinkRefusal::Provider(UpstreamProblem::Unavailable) => t.link_away(self.label),
            LinkRefusal::Provider(UpstreamProblem::Denied) => t.link_denied(self.label),
            LinkRefusal::Provider(UpstreamProblem::Invalid) => t.link_invalid(self.label),
            LinkRefusal::Provider(problem) => t.upstream_problem(self.label, problem),
            LinkRefusal::NoWayLeft => t.unlink_no_way_left(),
            LinkRefusal::OnlyAdministrator => t.unlink_only_administrator(),
        }
    }

    fn heading(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.refusal {
            LinkRefusal::NoWayLeft | LinkRefusal::OnlyAdministrator => t.unlink_refused_title(),
            _ => t.link_refused_title(),
        }
    }

    /// Returns whether the user can add a passkey to continue.
    fn needs_passkey(&self) -> bool {
        self.refusal == LinkRefusal::NoWayLeft
    }
}

/// Page after a link was added or removed. All sessions have ended.
#[derive(Template)]
#[template(path = "link_done.html")]
pub struct LinkDonePage<'a> {
    pub frame: Frame<'a>,
    /// Name of the source for users.
    pub label: &'a str,
    pub done: LinkDone,
    /// Address of the sign-in page.
    pub sign_in: &'a str,
}

/// Change of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkDone {
    Linked,
    Unlinked,
}

impl LinkDonePage<'_> {
    fn heading(&self) -> Markup {
        let t = self.frame.t;
        match self.done {
            LinkDone::Linked => t.link_done_title(),
            LinkDone::Unlinked => t.unlink_done_title(),
        }
    }

    fn words(&self) -> Markup {
        let t = self.frame.t;
        match self.done {
            LinkDone::Linked => t.link_done_text(self.label),
            LinkDone::Unlinked => t.unlink_done_text(self.label),
        }
    }
}
