//! The page of applications.

use askama::Template;

use super::content::Chrome;
use super::shell::{Inside, Place, Shell};
use super::template::initial;
use super::words::Words;
use super::{Pages, rendered};

/// The applications that somebody may open.
#[derive(Debug, Clone, Copy)]
pub struct Home<'a> {
    /// They, in the operator's order.
    pub apps: &'a [HomeApp<'a>],
}

/// An application.
#[derive(Debug, Clone, Copy)]
pub struct HomeApp<'a> {
    /// Where it is.
    pub address: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// What it is for, in a line.
    pub description: Option<&'a str>,
    /// Address of its picture.
    pub icon: Option<&'a str>,
}

impl HomeApp<'_> {
    /// The letter in the place of a picture.
    fn letter(&self) -> String {
        initial(self.title)
    }
}

impl Pages {
    /// The applications that somebody may open.
    pub fn home(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Home<'_>) -> String {
        let heading = Words::of(chrome).home_title();
        rendered(&HomePage { inside: Inside::new(self, chrome, shell, Place::Home, heading, false), page })
    }
}

#[derive(Template)]
#[template(path = "account/home.html")]
struct HomePage<'a> {
    inside: Inside<'a>,
    page: &'a Home<'a>,
}
