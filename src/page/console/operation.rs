//! The console's pages about the running of the provider: signing keys, applications and settings.

use askama::Template;

use crate::domain::key_ring::{KeyLife, KeyRing, KeyState};
use crate::domain::time::UnixTime;
use crate::page::inside::{Inside, MenuEntry};
use crate::page::words::Markup;

#[derive(Template)]
#[template(path = "console/keys.html")]
pub struct KeysPage<'a> {
    pub inside: Inside<'a>,
    /// The keys, the oldest first.
    pub ring: &'a KeyRing,
    pub now: UnixTime,
}

impl KeysPage<'_> {
    fn next_change(&self) -> Option<UnixTime> {
        self.ring.next_change(self.now)
    }

    fn state(&self, key: &KeyLife) -> Markup {
        let t = self.inside.frame.t;
        match self.ring.state(key, self.now) {
            KeyState::PrePublished => t.key_pre_published(),
            KeyState::Active => t.key_active(),
            KeyState::Retired => t.key_retired(),
            KeyState::Removed => t.key_removed(),
        }
    }

    fn times(&self, key: &KeyLife) -> impl Iterator<Item = Markup> {
        let t = self.inside.frame.t;
        let published = t.key_published_at(t.moment(&key.published_at));
        let activate = key.activate_at.map(|at| t.key_activate_at(t.moment(&at)));
        let retire = key.retire_at.map(|at| t.key_retire_at(t.moment(&at)));
        let remove = key.remove_at.map(|at| t.key_remove_at(t.moment(&at)));
        std::iter::once(published).chain(activate).chain(retire).chain(remove)
    }
}

/// The applications behind the gate.
#[derive(Template)]
#[template(path = "console/apps.html")]
pub struct AppsPage<'a> {
    pub inside: Inside<'a>,
    /// In the operator's order.
    pub apps: &'a [AppLine<'a>],
}

/// An application behind the gate.
#[derive(Debug, Clone)]
pub struct AppLine<'a> {
    pub name: &'a str,
    pub address: String,
    /// Where its servers listen, and whether each takes connections, once it was looked at.
    pub servers: Vec<(String, Option<bool>)>,
}

#[derive(Template)]
#[template(path = "console/settings.html")]
pub struct SettingsPage<'a> {
    pub inside: Inside<'a>,
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

#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'a> {
    /// The paths, or none for all others.
    pub path: Option<&'a str>,
    /// Requests a minute; none for any number.
    pub limit: Option<u64>,
    /// Whether it is counted by client or token, and not by address.
    pub by_credential: bool,
}
