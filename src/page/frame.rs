//! What surrounds every page: its language, who runs the provider, and the addresses of what the page loads.

use std::borrow::Borrow;

use super::language::language_tag;
use super::words::{Argument, Markup, Words};
use crate::domain::profile::LONGEST_PASSWORD;
use crate::password::SHORTEST_PASSWORD;

#[derive(Debug, Clone)]
pub struct Frame<'a> {
    pub(super) t: Words,
    pub(super) operator: &'a str,
    pub(super) icon: &'a str,
    pub(super) addresses: Addresses,
}

/// The addresses of what a page loads, and of the page itself in each language.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The stylesheet, such as `/.sealgate/style.css?v=…` (see [`super::Pages::stylesheet`]).
    pub stylesheet: String,
    /// The script, for the pages that have one.
    pub script: String,
    /// The script of the page that takes the answer of a sign-in to the client.
    pub return_script: String,
    /// The operator's logo, if there is one.
    pub logo: Option<String>,
    /// The page in Turkish; the choice is remembered.
    pub turkish: String,
    pub english: String,
}

impl Frame<'_> {
    pub(super) fn tag(&self) -> &'static str {
        language_tag(self.t.language)
    }

    /// What the browser shows on the page's tab: the operator's logo, or the seal.
    pub(super) fn icon(&self) -> &str {
        self.addresses.logo.as_deref().unwrap_or(self.icon)
    }

    /// The rules for a new password, as password managers read them (attribute `passwordrules`).
    #[expect(clippy::unused_self, reason = "templates call it on the frame")]
    pub(super) fn password_rules(&self) -> String {
        format!("minlength: {SHORTEST_PASSWORD}; maxlength: {LONGEST_PASSWORD};")
    }

    pub(super) fn seal(&self) -> String {
        initial(self.operator)
    }

    /// `faulty`: a form came back, which the title tells those who hear it first.
    pub(super) fn title(&self, heading: impl Argument, faulty: impl Borrow<bool>) -> Markup {
        if *faulty.borrow() {
            self.t.document_title_problem(self.operator, heading)
        } else {
            self.t.document_title(self.operator, heading)
        }
    }
}

/// The letter that stands where a name has no picture; as written, since upper case depends on the language.
pub(super) fn initial(name: &str) -> String {
    name.chars().find(|letter| letter.is_alphanumeric()).map(String::from).unwrap_or_default()
}
