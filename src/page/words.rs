//! The words of the pages: one Fluent file a language, and one method a message, which the build makes (`build.rs`). Text
//! never reaches a page from anywhere else.
//!
//! Every message is markup, and each of its arguments is escaped on its way in. `<bdi>` and `<code>` are the only tags; no
//! message holds a quote or `&`, so one without a tag goes into an attribute as well.

use std::borrow::Cow;

use askama::filters::{Html, Safe, escape};

use crate::config::Language;

/// Markup of our own, in which every value is escaped.
pub(super) type Markup = Safe<String>;

/// The words of one language.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    pub(super) language: Language,
}

include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// What stands in a message.
pub(super) trait Argument {
    /// The argument as it goes into markup.
    fn markup(&self) -> Cow<'_, str>;
}

/// Markup goes into other markup as it is.
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

/// Text of others as markup.
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
