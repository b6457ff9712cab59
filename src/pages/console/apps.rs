//! Console pages about applications: the list, an application's page, and the form for the section
//! of a new one.

use askama::Template;

use super::check_access::{CheckField, CheckForm};
use super::sections::AppSection;
use crate::events::Named;
use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_config::Access;
use sealgate_domain::time::UnixTime;

/// Page of the applications behind the gateway.
#[derive(Template)]
#[template(path = "console/apps.html")]
pub struct AppsPage<'a> {
    pub inside: Inside<'a>,
    /// Applications in the operator's order.
    pub apps: &'a [AppLine<'a>],
}

/// Application behind the gateway.
#[derive(Debug, Clone)]
pub struct AppLine<'a> {
    pub name: &'a str,
    /// Name that users see.
    pub title: &'a str,
    pub address: String,
    /// Addresses of the application's servers. Each has a flag that is true if the server accepts
    /// connections, and `None` before the first check.
    pub servers: Vec<(String, Option<bool>)>,
    pub is_in_maintenance: bool,
    /// Number of open sessions. `None` if they are not counted yet.
    pub sessions: Option<u64>,
}

impl AppLine<'_> {
    fn has_pattern(&self) -> bool {
        self.address.contains('*')
    }
}

/// Page of an application.
#[derive(Template)]
#[template(path = "console/app.html")]
#[expect(clippy::struct_excessive_bools, reason = "independent parts of the page")]
pub struct AppPage<'a> {
    pub inside: Inside<'a>,
    pub app: &'a AppLine<'a>,
    pub section: AppSection,
    /// Whether the console can change the application.
    pub is_editable: bool,
    /// Whether the console can change applications, but not this one.
    pub is_configured: bool,
    /// CSRF token of the section's form.
    pub csrf: &'a str,
    /// Some of the open sessions, with the URL of the next ones if there may be more.
    pub open_sessions: &'a [AppSessionLine],
    pub next: Option<&'a str>,
    /// Client of the application's sign-ins in the audit log.
    pub client: &'a str,
    /// Form of the access check for this application, with its CSRF token.
    pub check: &'a CheckForm<'a>,
    pub check_csrf: &'a str,
    /// Rules in the order in which they decide.
    pub rules: &'a [RuleLine],
    /// Groups that rules name, each with the URL of its page and the number of members.
    pub groups: &'a [(String, String, u64)],
    /// Users that rules name.
    pub users: &'a [String],
    /// Whether a rule admits all signed-in users.
    pub is_for_all_users: bool,
    /// Whether a rule admits requests without a sign-in.
    pub is_public: bool,
    /// Recent refusals, newest first.
    pub refusals: &'a [RefusalLine],
}

/// Open session at an application.
#[derive(Debug, Clone)]
pub struct AppSessionLine {
    pub id: String,
    pub who: Named,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

impl AppSessionLine {
    fn who(&self) -> &str {
        self.who.name.as_deref().unwrap_or(&self.who.id)
    }
}

impl AppPage<'_> {
    fn sections(&self) -> impl Iterator<Item = AppSection> {
        AppSection::ALL.into_iter().filter(|section| *section != AppSection::Edit || self.is_editable)
    }

    fn section_address(&self, section: &AppSection) -> String {
        self.inside.address(&section.page(self.app.name))
    }

    fn access(&self, rule: &RuleLine) -> Markup {
        let t = self.inside.frame.t;
        match rule.access {
            Access::Public => t.rule_public(),
            Access::SignedIn => t.rule_signed_in(),
            Access::Bearer => t.rule_bearer(),
        }
    }

    /// Returns the conditions of a rule, one line each.
    fn conditions(&self, rule: &RuleLine) -> Vec<Markup> {
        let t = self.inside.frame.t;
        let line = |list: &[String], words: fn(&Words, String) -> Markup| {
            (!list.is_empty()).then(|| words(&t, list.join(", ")))
        };
        let minutes = rule.max_age_minutes.map(|minutes| t.rule_max_age(minutes));
        [
            line(&rule.groups, Words::rule_groups),
            line(&rule.users, Words::rule_users),
            line(&rule.scopes, Words::rule_scopes),
            line(&rule.networks, Words::rule_networks),
            line(&rule.levels, Words::rule_levels),
            minutes,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn reason(&self, reason: &str) -> Markup {
        self.inside.frame.t.access_reason(reason)
    }
}

/// Rule of an application.
#[derive(Debug, Clone)]
pub struct RuleLine {
    pub path: String,
    /// Methods of the rule. Empty for all methods without a rule of their own.
    pub methods: Vec<String>,
    pub access: Access,
    pub groups: Vec<String>,
    pub users: Vec<String>,
    pub scopes: Vec<String>,
    pub networks: Vec<String>,
    /// Permitted authentication context classes.
    pub levels: Vec<String>,
    pub max_age_minutes: Option<u64>,
}

/// Refusal by the gateway.
#[derive(Debug, Clone)]
pub struct RefusalLine {
    pub at: UnixTime,
    pub method: String,
    pub path: String,
    pub reason: &'static str,
    /// User or client of the request, if known.
    pub who: Option<Named>,
    pub count: u64,
}

impl RefusalLine {
    fn who(&self) -> Option<&str> {
        self.who.as_ref().map(|who| who.name.as_deref().unwrap_or(&who.id))
    }

    fn user_page(&self) -> Option<&str> {
        self.who.as_ref().filter(|who| who.has_page).map(|who| who.id.as_str())
    }
}

/// Page with the form for the section of a new application.
///
/// The form sends `csrf`, `once`, `seen`, `host`, `upstream`, `name`, `title` and `groups`.
#[derive(Template)]
#[template(path = "console/new_app.html")]
pub struct NewAppPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub form: &'a NewAppForm,
    /// Result of the check. `None` before the form was sent.
    pub result: Option<&'a NewAppResult>,
    /// Digest of the file of applications, if the console can add the application to it.
    pub seen: Option<&'a str>,
    /// Configuration file of the server.
    pub file: &'a str,
}

/// Input of the form for a new application.
#[derive(Debug, Clone, Default)]
pub struct NewAppForm {
    pub host: String,
    pub upstream: String,
    pub name: String,
    pub title: String,
    pub groups: String,
}

/// Result of the check of a new application.
#[derive(Debug, Clone)]
pub enum NewAppResult {
    /// A field contains a control character, is too long, or is empty although it is required.
    Input,
    /// The configuration file cannot be read.
    Unreadable,
    /// The section, with the errors that it adds to the configuration file.
    Section { text: String, faults: Vec<String> },
}

impl NewAppPage<'_> {
    fn has_input_fault(&self) -> bool {
        matches!(self.result, Some(NewAppResult::Input))
    }

    fn is_unreadable(&self) -> bool {
        matches!(self.result, Some(NewAppResult::Unreadable))
    }

    fn section(&self) -> Option<(&str, &[String])> {
        match self.result {
            Some(NewAppResult::Section { text, faults }) => Some((text, faults)),
            _ => None,
        }
    }

    fn is_faulty(&self) -> bool {
        self.result.is_some() && self.section().is_none_or(|(_, faults)| !faults.is_empty())
    }
}
