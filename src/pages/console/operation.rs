//! The console's pages about operation: signing keys, applications and settings.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::key_ring::{KeyLife, KeyRing, KeyState};
use sealgate_domain::time::UnixTime;

#[derive(Template)]
#[template(path = "console/keys.html")]
pub struct KeysPage<'a> {
    pub inside: Inside<'a>,
    /// Keys, oldest first.
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

/// The applications behind the gateway.
#[derive(Template)]
#[template(path = "console/apps.html")]
pub struct AppsPage<'a> {
    pub inside: Inside<'a>,
    /// In the operator's order.
    pub apps: &'a [AppLine<'a>],
}

/// An application behind the gateway.
#[derive(Debug, Clone)]
pub struct AppLine<'a> {
    pub name: &'a str,
    pub address: String,
    /// Addresses of its servers, and whether each accepts connections; none before the first check.
    pub servers: Vec<(String, Option<bool>)>,
}

#[derive(Template)]
#[template(path = "console/settings.html")]
pub struct SettingsPage<'a> {
    pub inside: Inside<'a>,
    pub issuer: &'a str,
    /// Requests per minute.
    pub limits: &'a [LimitLine<'a>],
    /// Sign-ins that an address may start per minute; unlimited if none.
    pub sign_ins: Option<u64>,
    /// Wrong passwords per account.
    pub failures_per_account: u64,
    /// Wrong passwords per client address.
    pub failures_per_address: u64,
    /// Duration of the window for wrong passwords, minutes.
    pub window_minutes: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'a> {
    /// Paths; none for all others.
    pub path: Option<&'a str>,
    /// Requests per minute; unlimited if none.
    pub limit: Option<u64>,
    /// Whether requests are counted by client or token, not by address.
    pub by_credential: bool,
}
