//! The frame of every page: its language, the operator, and the URLs of its assets.

use std::borrow::Borrow;

use super::language::language_tag;
use super::words::{Argument, Markup, Words};
use sealgate_domain::password_rules::MIN_PASSWORD_LENGTH;
use sealgate_domain::profile::MAX_PASSWORD_LENGTH;

#[derive(Debug, Clone)]
pub struct Frame<'a> {
    pub(super) t: Words,
    pub(super) operator: &'a str,
    pub(super) icon: &'a str,
    pub(super) addresses: Addresses,
}

/// URLs of a page's assets, and of the page itself in each language.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Stylesheet, such as `/.sealgate/style.css?v=…` (see [`super::Pages::stylesheet`]).
    pub stylesheet: String,
    /// Script, for pages that have one.
    pub script: String,
    /// Script of the page that returns the response of a sign-in to the client.
    pub return_script: String,
    /// Operator's logo, if there is one.
    pub logo: Option<String>,
    /// The page in Turkish; the choice is saved.
    pub turkish: String,
    pub english: String,
}

impl Frame<'_> {
    pub(super) fn tag(&self) -> &'static str {
        language_tag(self.t.language)
    }

    /// Returns the page's icon: the operator's logo, or the seal.
    pub(super) fn icon(&self) -> &str {
        self.addresses.logo.as_deref().unwrap_or(self.icon)
    }

    /// Returns the rules for a new password in the format of password managers (attribute
    /// `passwordrules`).
    #[expect(clippy::unused_self, reason = "templates call it on the frame")]
    pub(super) fn password_rules(&self) -> String {
        format!("minlength: {MIN_PASSWORD_LENGTH}; maxlength: {MAX_PASSWORD_LENGTH};")
    }

    pub(super) fn seal(&self) -> String {
        initial(self.operator)
    }

    /// Returns the document title. `faulty` marks a form with errors, which screen readers thus
    /// announce first.
    pub(super) fn title(&self, heading: impl Argument, faulty: impl Borrow<bool>) -> Markup {
        if *faulty.borrow() {
            self.t.document_title_problem(self.operator, heading)
        } else {
            self.t.document_title(self.operator, heading)
        }
    }
}

/// Returns the letter that replaces a missing picture, in its original case, because upper case
/// depends on the language. An English article before other words does not count.
pub(super) fn initial(name: &str) -> String {
    let name = match name.trim_start().split_once(char::is_whitespace) {
        Some((first, rest)) if is_article(first) && rest.contains(char::is_alphanumeric) => rest,
        _ => name,
    };
    name.chars().find(|letter| letter.is_alphanumeric()).map(String::from).unwrap_or_default()
}

fn is_article(word: &str) -> bool {
    ["the", "a", "an"].iter().any(|article| word.eq_ignore_ascii_case(article))
}
