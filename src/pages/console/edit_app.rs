//! Console pages that change an application in the file of applications.

use askama::Template;

use super::sections::AppSection;
use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;

/// Page with the settings of an application that the console changes.
///
/// The forms send `csrf`, `once`, `seen` and `action`: `save` with `title`, `description`, `host` and
/// `upstreams` (one per line), or `remove`.
#[derive(Template)]
#[template(path = "console/edit_app.html")]
pub struct EditAppPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub name: &'a str,
    /// Name that users see.
    pub title: &'a str,
    pub form: &'a EditAppForm,
    /// Whether only the operator changes the servers.
    pub has_fixed_servers: bool,
    /// Names of the keys that only the operator changes.
    pub other_keys: &'a [String],
    /// Rules in the order of the file: path, access and methods.
    pub rules: &'a [EditRuleLine],
    /// Digest of the file from which the form was made.
    pub seen: &'a str,
    pub problem: Option<EditProblem>,
}

/// Rule in the list of the page.
#[derive(Debug, Clone)]
pub struct EditRuleLine {
    /// URL of the page of the rule.
    pub url: String,
    pub path: String,
    pub access: String,
    pub methods: String,
}

/// Input of the form with an application's settings.
#[derive(Debug, Clone, Default)]
pub struct EditAppForm {
    pub title: String,
    pub description: String,
    pub host: String,
    /// Upstreams, one per line.
    pub upstreams: String,
}

/// Reason why a form changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditProblem {
    /// A required field is empty, or a field is too long or has control characters.
    Input,
    /// An upstream is a file of the machine.
    Socket,
    /// Only the operator changes the servers of the application.
    FixedServers,
    /// The file has changed since the page with the form was shown.
    Changed,
    /// The file cannot be read, or cannot be written.
    Disk,
    /// The only rule cannot be removed.
    LastRule,
}

/// Page with the form of a rule.
///
/// The form sends `csrf`, `once`, `seen`, `rule` (the number of the rule, or nothing for a new one),
/// `path`, `access`, `methods`, `groups`, `users`, `networks`, `acr` and `max_age_seconds`, and as
/// `action` `save-rule` or `remove-rule`.
#[derive(Template)]
#[template(path = "console/edit_rule.html")]
pub struct EditRulePage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub name: &'a str,
    pub title: &'a str,
    /// Number of the rule in the file. `None` for a new rule.
    pub at: Option<usize>,
    pub form: &'a EditRuleForm,
    pub other_keys: &'a [String],
    pub seen: &'a str,
    pub problem: Option<EditProblem>,
}

/// Input of the form of a rule.
#[derive(Debug, Clone, Default)]
pub struct EditRuleForm {
    pub path: String,
    /// `public`, `bearer` or `signed_in`.
    pub access: String,
    /// Methods, separated by spaces.
    pub methods: String,
    /// Groups, one per line.
    pub groups: String,
    /// Users, one per line.
    pub users: String,
    /// Networks, separated by spaces.
    pub networks: String,
    /// Levels of the sign-in, separated by spaces.
    pub acr: String,
    pub max_age_seconds: String,
}

/// Page that shows a change of the file, and asks for the confirmation. If the change has errors, it
/// shows the errors instead.
#[derive(Template)]
#[template(path = "console/app_change.html")]
pub struct AppChangePage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub name: &'a str,
    /// File that changes.
    pub file: &'a str,
    /// Lines with `-`, `+` or a space before them.
    pub difference: &'a [String],
    /// Errors that the check of the changed configuration found.
    pub faults: &'a [String],
    /// Fields of the form that asked for the change, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
    /// Paths to which the form is sent, and that the Cancel link opens, without the issuer's prefix.
    pub action: &'a str,
    pub cancel: &'a str,
}

impl EditAppPage<'_> {
    fn edit_address(&self) -> String {
        self.inside.address(&AppSection::Edit.page(self.name))
    }

    fn rule_address(&self) -> String {
        self.inside.address(&format!("/console/apps/{}/rule", self.name))
    }

    fn other_keys(&self) -> String {
        self.other_keys.join(", ")
    }

    fn problem_text(&self) -> Option<Markup> {
        problem_text(&self.inside, self.problem)
    }
}

impl EditRulePage<'_> {
    fn edit_address(&self) -> String {
        self.inside.address(&AppSection::Edit.page(self.name))
    }

    fn number(&self) -> String {
        self.at.map(|at| at.to_string()).unwrap_or_default()
    }

    fn heading(&self) -> Markup {
        let t = self.inside.frame.t;
        if self.at.is_some() { t.rule_edit_title(self.title) } else { t.rule_new_title(self.title) }
    }

    fn other_keys(&self) -> String {
        self.other_keys.join(", ")
    }

    /// Returns the choices of access: value and words.
    fn accesses(&self) -> [(&'static str, Markup); 3] {
        let t = self.inside.frame.t;
        [("signed_in", t.rule_signed_in()), ("bearer", t.rule_bearer()), ("public", t.rule_public())]
    }

    fn problem_text(&self) -> Option<Markup> {
        problem_text(&self.inside, self.problem)
    }
}

fn problem_text(inside: &Inside<'_>, problem: Option<EditProblem>) -> Option<Markup> {
    let t = inside.frame.t;
    Some(match problem? {
        EditProblem::Input => t.app_edit_input(),
        EditProblem::Socket => t.app_edit_socket(),
        EditProblem::FixedServers => t.app_edit_fixed(),
        EditProblem::Changed => t.app_edit_changed(),
        EditProblem::Disk => t.app_edit_disk(),
        EditProblem::LastRule => t.app_edit_last_rule(),
    })
}
