//! Console pages for developers and administrators. This module has the pages about signing keys and
//! settings.

mod api_tokens;
mod apps;
mod bulk;
mod check_access;
mod clients;
mod confirm;
mod form;
mod groups;
mod invite;
mod mail;
mod overview;
mod roles;
mod snippets;
mod user_list;
mod users;

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::key_ring::{KeyLife, KeyRing, KeyState};
use sealgate_domain::time::UnixTime;

pub use api_tokens::{ApiTokenFault, ApiTokenForm, ApiTokenLine, ApiTokensPage};
pub use apps::{AppLine, AppPage, AppsPage, NewAppForm, NewAppPage, NewAppResult, RefusalLine, RuleLine};
pub use bulk::{BulkAction, BulkFault, BulkLine, BulkPage, BulkResultPage, BulkSkip};
pub use check_access::{AccessOutcome, CheckAccessPage, CheckField, CheckForm, CheckNote, CheckedHeader, CheckedLogin};
pub use clients::{
    ClientOwner, ClientPage, ClientRefusal, ClientTestPage, ClientTestProblem, ClientsPage, NewClientPage,
};
pub use confirm::{ConfirmDetail, ConfirmLabel, ConfirmPage, GuardedChange, OwnedClients};
pub use form::{ClientFault, ClientField, ClientForm};
pub use groups::{GroupConfirmPage, GroupFault, GroupLine, GroupPage, GroupUse, GroupsPage};
pub use invite::{InviteConfirmPage, InviteFault, InviteLineFault, InvitePage};
pub use mail::{MailLine, MailPage, MailTemplatesPage};
pub use overview::{CountedFigures, OverviewPage, OverviewWarning, SignInChart};
pub use user_list::{UserFilter, UserLine, UsersPage};
pub use users::{
    InvitationForm, NewUserPage, ResetState, TypedProfile, TypedUser, UserAppLogins, UserFactors, UserField,
    UserInvitation, UserPage,
};

/// Page of the signing keys.
#[derive(Template)]
#[template(path = "console/keys.html")]
pub struct KeysPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Keys, oldest first.
    pub ring: &'a KeyRing,
    pub now: UnixTime,
    /// Next automatic rotation.
    pub next_rotation: Option<UnixTime>,
    /// Reason why a rotation failed.
    pub problem: Option<&'a str>,
}

/// Page with the plan of a rotation, which asks for confirmation.
#[derive(Template)]
#[template(path = "console/key_plan.html")]
pub struct KeyPlanPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Key that signs until the new key does.
    pub active_key: Option<&'a str>,
    /// Key that is already published and waits for its activation.
    pub waiting_key: Option<&'a str>,
    pub activate_at: UnixTime,
    /// Time at which the current key is removed.
    pub remove_at: UnixTime,
    /// Fields of the form that asked for the rotation, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
}

impl KeysPage<'_> {
    fn next_change(&self) -> Option<UnixTime> {
        self.ring.next_change(self.now)
    }

    /// Returns whether the ring already has a key that signs next.
    fn is_rotating(&self) -> bool {
        let now = self.ring.at(self.now);
        self.ring.own().any(|key| key.activate_at.is_some_and(|at| at > now))
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

/// Page with the provider's addresses and the rate limits.
#[derive(Template)]
#[template(path = "console/settings.html")]
pub struct SettingsPage<'a> {
    pub inside: Inside<'a>,
    pub issuer: &'a str,
    /// Limits of requests per minute.
    pub limits: &'a [LimitLine<'a>],
    /// Number of sign-ins that an address may start per minute. `None` if unlimited.
    pub sign_ins: Option<u64>,
    /// Maximum number of wrong passwords per account in the window.
    pub failures_per_account: u64,
    /// Maximum number of wrong passwords per client address in the window.
    pub failures_per_address: u64,
    /// Duration of the window for wrong passwords, in minutes.
    pub window_minutes: u64,
}

/// Rate limit of one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'a> {
    /// Paths that the limit applies to. `None` for all other paths.
    pub path: Option<&'a str>,
    /// Requests per minute. `None` if unlimited.
    pub limit: Option<u64>,
    /// Whether requests are counted by client or token. Otherwise they are counted by address.
    pub by_credential: bool,
}
