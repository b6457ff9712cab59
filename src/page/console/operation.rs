//! The console's pages about the running of the provider: signing keys, applications and settings.

use askama::Template;

use crate::page::content::Chrome;
use crate::page::moment::moment;
use crate::page::shell::{Inside, Place, Shell};
use crate::page::words::{Markup, Words};
use crate::page::{Pages, rendered};

/// The signing keys.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// They, the newest first.
    pub keys: &'a [KeyLine<'a>],
    /// When a key next changes its state, seconds since 1970.
    pub next_change: Option<u64>,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct KeyLine<'a> {
    /// Its id.
    pub kid: &'a str,
    /// What it may do.
    pub state: KeyState,
    /// Since when it is published, seconds since 1970.
    pub published_at: u64,
    /// From when on it signs.
    pub activate_at: Option<u64>,
    /// From when on another one signs.
    pub retire_at: Option<u64>,
    /// From when on it is published no more.
    pub remove_at: Option<u64>,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is published and does not sign yet.
    PrePublished,
    /// It signs.
    Active,
    /// What it signed still verifies.
    Retired,
    /// What it signed is refused.
    Removed,
}

/// An application behind the gate.
#[derive(Debug, Clone, Copy)]
pub struct AppLine<'a> {
    /// What people call it.
    pub name: &'a str,
    /// Where browsers reach it.
    pub address: &'a str,
    /// Its servers.
    pub servers: &'a [ServerLine],
}

/// A server of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLine {
    /// Where it listens.
    pub address: String,
    /// Whether it takes connections, once it was looked at.
    pub alive: Option<bool>,
}

/// The settings in force.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// The issuer.
    pub issuer: &'a str,
    /// Requests a minute.
    pub limits: &'a [LimitLine<'a>],
    /// Sign-ins that may be begun from an address in a minute; none for any number.
    pub sign_ins: Option<u64>,
    /// Wrong passwords that an account may be given.
    pub failures_per_account: u64,
    /// Wrong passwords that may come from an address.
    pub failures_per_address: u64,
    /// In so many minutes.
    pub window_minutes: u64,
}

/// One limit.
#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'a> {
    /// The paths, or none for all others.
    pub path: Option<&'a str>,
    /// Requests a minute; none for any number.
    pub limit: Option<u64>,
    /// Whether it is counted by client or token, and not by address.
    pub by_credential: bool,
}

impl Pages {
    /// The signing keys.
    pub fn console_keys(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Keys<'_>) -> String {
        let t = Words::of(chrome);
        let inside = Inside::new(self, chrome, shell, Place::Keys, t.keys_title(), false);
        let next = page.next_change.map(|at| t.keys_next_change(moment(t, at)));
        let lines = page.keys.iter().map(|key| (*key, state(t, key.state), times(t, key))).collect();
        rendered(&KeysPage { inside, next, lines })
    }

    /// The applications behind the gate.
    pub fn console_apps(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, apps: &[AppLine<'_>]) -> String {
        let heading = Words::of(chrome).menu_apps();
        rendered(&AppsPage { inside: Inside::new(self, chrome, shell, Place::Apps, heading, false), apps })
    }

    /// The settings in force.
    pub fn console_settings(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Limits<'_>) -> String {
        let heading = Words::of(chrome).menu_settings();
        rendered(&SettingsPage { inside: Inside::new(self, chrome, shell, Place::Settings, heading, false), page })
    }
}

fn state(t: Words, state: KeyState) -> Markup {
    match state {
        KeyState::PrePublished => t.key_pre_published(),
        KeyState::Active => t.key_active(),
        KeyState::Retired => t.key_retired(),
        KeyState::Removed => t.key_removed(),
    }
}

fn times(t: Words, key: &KeyLine<'_>) -> Vec<Markup> {
    let published = t.key_published_at(moment(t, key.published_at));
    let activate = key.activate_at.map(|at| t.key_activate_at(moment(t, at)));
    let retire = key.retire_at.map(|at| t.key_retire_at(moment(t, at)));
    let remove = key.remove_at.map(|at| t.key_remove_at(moment(t, at)));
    std::iter::once(published).chain(activate).chain(retire).chain(remove).collect()
}

#[derive(Template)]
#[template(path = "console/keys.html")]
struct KeysPage<'a> {
    inside: Inside<'a>,
    next: Option<Markup>,
    lines: Vec<(KeyLine<'a>, Markup, Vec<Markup>)>,
}

#[derive(Template)]
#[template(path = "console/settings.html")]
struct SettingsPage<'a> {
    inside: Inside<'a>,
    page: &'a Limits<'a>,
}

#[derive(Template)]
#[template(path = "console/apps.html")]
struct AppsPage<'a> {
    inside: Inside<'a>,
    apps: &'a [AppLine<'a>],
}
