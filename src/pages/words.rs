//! Messages of the pages: one Fluent file per language, and one generated method per message
//! (`build.rs`). Pages have no other source of text.
//!
//! Every message is markup, and each of its arguments is escaped when it is inserted. `<bdi>` and
//! `<code>` are the only tags. No message contains a quote or `&`, so a message without tags can
//! also be used in an attribute.

use std::borrow::Cow;

use askama::filters::{Html, Safe, escape};

use sealgate_config::Language;

/// Trusted markup. Inserted values are escaped.
pub(super) type Markup = Safe<String>;

/// Messages of one language.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    pub(super) language: Language,
}

include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// Argument of a message.
pub(super) trait Argument {
    /// Returns the argument as markup.
    fn markup(&self) -> Cow<'_, str>;
}

/// Markup is inserted without escaping.
impl Argument for Markup {
    fn markup(&self) -> Cow<'_, str> {
        self.0.as_str().into()
    }
}

impl Argument for str {
    fn markup(&self) -> Cow<'_, str> {
        escaped(self).0.into()
    }
}

impl Argument for String {
    fn markup(&self) -> Cow<'_, str> {
        self.as_str().markup().into_owned().into()
    }
}

impl Argument for u64 {
    fn markup(&self) -> Cow<'_, str> {
        self.to_string().into()
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    fn markup(&self) -> Cow<'_, str> {
        (**self).markup()
    }
}

/// Escapes untrusted text.
pub(super) fn escaped(text: &str) -> Markup {
    let Ok(markup) = escape(text, Html);
    Safe(markup.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_escaped_once_and_markup_is_not() {
        let t = Words { language: Language::English };
        assert!(t.consent_account("<i>").0.contains("<bdi>&#60;i&#62;</bdi>"));
        assert_eq!(t.device("<i>", t.device("a", "b")).0, "&#60;i&#62; on a on b");
    }
}
