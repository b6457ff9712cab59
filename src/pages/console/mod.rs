//! Console pages for developers and administrators. This module has the pages about signing keys.

mod api_tokens;
mod apps;
mod bulk;
mod check_access;
mod clients;
mod confirm;
mod edit_app;
mod form;
mod groups;
mod import;
mod invite;
mod mail;
mod overview;
mod registration_tokens;
mod roles;
mod sections;
mod settings;
mod snippets;
mod user_list;
mod users;

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::key_ring::{KeyLife, KeyRing, KeyState};
use sealgate_domain::time::UnixTime;

pub use api_tokens::{ApiTokenFault, ApiTokenForm, ApiTokenLine, ApiTokensPage};
pub use apps::{
    AppLine, AppPage, AppSessionLine, AppsPage, NewAppForm, NewAppPage, NewAppResult, RefusalLine, RuleLine,
};
pub use bulk::{BulkAction, BulkFault, BulkLine, BulkPage, BulkResultPage, BulkSkip};
pub use check_access::{
    AccessOutcome, CheckAccessPage, CheckChoice, CheckField, CheckForm, CheckNote, CheckedHeader, CheckedLogin,
};
pub use clients::{
    ClientGrantLine, ClientOwner, ClientPage, ClientRefusal, ClientRulesForm, ClientTestPage, ClientTestProblem,
    ClientsPage, NewClientPage,
};
pub use confirm::{ConfirmDetail, ConfirmLabel, ConfirmPage, GuardedChange, OwnedClients, PromotedUser};
pub use edit_app::{AppChangePage, EditAppForm, EditAppPage, EditProblem, EditRuleForm, EditRuleLine, EditRulePage};
pub use form::{ClientFault, ClientField, ClientForm};
pub use groups::{GroupConfirmPage, GroupFault, GroupLine, GroupPage, GroupUse, GroupsPage};
pub use import::{ImportConfirmPage, ImportPage};
pub use invite::{InviteConfirmPage, InviteFault, InviteLineFault, InvitePage};
pub use mail::{MailLine, MailPage, MailTemplatesPage};
pub use overview::{CountedFigures, OverviewPage, OverviewWarning, SignInChart};
pub use registration_tokens::{
    RegistrationTokenFault, RegistrationTokenForm, RegistrationTokenLine, RegistrationTokensPage,
};
pub use sections::{AppSection, ClientSection, UserSection};
pub use settings::{
    ElementLink, FileState, ReloadPage, SectionLink, SettingChange, SettingsHome, SettingsList, SettingsPage,
};
pub use snippets::Library;
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
    /// Configured algorithms.
    pub algorithms: &'a [RotationLine],
    /// Reason why a rotation failed.
    pub problem: Option<&'a str>,
}

/// Algorithm with its own keys and schedule.
#[derive(Debug)]
pub struct RotationLine {
    pub name: &'static str,
    /// Next automatic rotation.
    pub next_rotation: Option<UnixTime>,
    /// Whether a published key signs next.
    pub is_rotating: bool,
}

/// Page with the plan of a rotation, which asks for confirmation.
#[derive(Template)]
#[template(path = "console/key_plan.html")]
pub struct KeyPlanPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Algorithm of the keys, if there are several.
    pub algorithm: Option<&'a str>,
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

    fn has_algorithms(&self) -> bool {
        self.algorithms.len() > 1
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
