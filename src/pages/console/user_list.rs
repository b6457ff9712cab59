//! Console page with the list of users.

use askama::Template;

use crate::console::bulk::BulkAction;
use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};
use sealgate_domain::factors::FactorKind;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_domain::user_list::{ListedState, ListedUser, UserOrder};

/// Page with the list of users.
#[derive(Template)]
#[template(path = "console/users.html")]
pub struct UsersPage<'a> {
    pub inside: Inside<'a>,
    pub users: &'a [UserLine],
    /// CSRF token of the form that changes several users.
    pub csrf: &'a str,
    /// Path and query of this page, which the form returns to.
    pub back: &'a str,
    /// Filter and order of the export, as more parameters of a query. Empty for all users.
    pub exported: &'a str,
    /// Whether invitations can be sent.
    pub may_invite: bool,
    pub filter: UserFilter<'a>,
    /// Number of users on previous pages, and number of users that match.
    pub skipped: usize,
    pub total: usize,
    /// Number of users who can sign in but have no factor, number of users who can sign in, and
    /// time of the count.
    pub without_factor: Option<(u64, u64, UnixTime)>,
    /// URLs of the previous and the next page, if there are any.
    pub previous: Option<&'a str>,
    pub next: Option<&'a str>,
    /// URL of the list in each order: as offered by the head of a column.
    pub orders: &'a [(UserOrder, String)],
    /// Whether the last sign-ins of all users are known.
    pub has_sign_ins: bool,
    /// Maximum number of users in the list, if there are more users.
    pub most: Option<u64>,
}

/// Filter of the list of users, as typed. The form sends the fields under these names, and `find`
/// for `wanted`. An empty field is not set.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserFilter<'a> {
    pub wanted: &'a str,
    pub group: &'a str,
    pub state: Option<ListedState>,
    /// Name of a console role, or `none`.
    pub role: &'a str,
    /// Name of a kind of factor, or `none`.
    pub factor: &'a str,
    /// Name of a source, or `none` for users of this installation.
    pub source: &'a str,
    pub sort: UserOrder,
    pub reversed: bool,
    /// Groups to propose.
    pub groups: &'a [String],
    /// Sources that have users.
    pub sources: &'a [String],
}

impl UserFilter<'_> {
    /// Returns whether the filter leaves out users.
    fn is_set(&self) -> bool {
        let texts = [self.wanted, self.group, self.role, self.factor, self.source];
        self.state.is_some() || texts.iter().any(|text| !text.is_empty())
    }

    fn is_state(&self, state: &ListedState) -> bool {
        self.state == Some(*state)
    }
}

/// User in the list of users.
#[derive(Debug, Clone)]
pub struct UserLine {
    pub user: User,
    pub listed: ListedUser,
}

impl UserLine {
    pub(super) fn title(&self) -> &str {
        if self.user.name.is_empty() { self.user.sign_in_name() } else { &self.user.name }
    }

    fn factor_words(&self, t: &Words) -> Markup {
        match self.listed.factor {
            Some(kind) => t.factor_kind(kind),
            None if self.listed.is_reset => t.user_factor_reset(),
            None => t.user_factor_none(),
        }
    }

    fn roles(&self, t: &Words) -> String {
        role_names(t, &self.user)
    }

    fn groups(&self) -> String {
        self.user.all_groups().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the names of a user's stored console roles. Empty if there are none.
pub(super) fn role_names(t: &Words, user: &User) -> String {
    let roles: ConsoleRoles = user.roles.iter().map(|role| role.in_console()).collect();
    roles.roles().map(|role| t.console_role(&role).0).collect::<Vec<_>>().join(", ")
}

impl Words {
    /// Returns the state of a user in the list.
    pub(super) fn listed_state(self, state: &ListedState) -> Markup {
        match state {
            ListedState::Enabled => self.state_enabled(),
            ListedState::NoCredential => self.state_no_password(),
            ListedState::Invited => self.user_invited_short(),
            ListedState::InvitationExpired => self.user_invitation_expired_short(),
            ListedState::Disabled => self.state_disabled(),
        }
    }

    fn user_order(self, order: &UserOrder) -> Markup {
        match order {
            UserOrder::Name => self.users_order_name(),
            UserOrder::Address => self.users_order_address(),
            UserOrder::SignedIn => self.users_order_signed_in(),
            UserOrder::Created => self.users_order_created(),
        }
    }
}

impl UsersPage<'_> {
    /// Returns the changes that the form offers.
    fn actions(&self) -> impl Iterator<Item = BulkAction> {
        BulkAction::ALL.into_iter().filter(|action| self.may_invite || *action != BulkAction::InviteAgain)
    }

    /// Returns the name in the query and the words of each kind of factor.
    fn factor_kinds(&self) -> [(&'static str, Markup); 3] {
        let kinds = [FactorKind::Passkey, FactorKind::SecurityKey, FactorKind::Totp];
        kinds.map(|kind| (kind.as_str(), self.inside.frame.t.factor_kind(kind)))
    }

    fn first(&self) -> u64 {
        (self.skipped + 1) as u64
    }

    fn last(&self) -> u64 {
        (self.skipped + self.users.len()) as u64
    }

    fn all(&self) -> u64 {
        self.total as u64
    }

    /// Returns whether the table has a column with the time at which each user was added. It has one
    /// only in this order, because the page has a maximum size.
    fn is_by_creation(&self) -> bool {
        self.filter.sort == UserOrder::Created
    }

    /// Returns the URL of the list in this order.
    fn in_order(&self, order: UserOrder) -> &str {
        self.orders.iter().find(|(known, _)| *known == order).map_or("", |(_, url)| url)
    }

    /// Returns the value of `aria-sort` of the column that sorts by this order.
    fn direction(&self, order: UserOrder) -> Option<&'static str> {
        let is_ascending = matches!(order, UserOrder::Name | UserOrder::Address) != self.filter.reversed;
        (self.filter.sort == order).then_some(if is_ascending { "ascending" } else { "descending" })
    }
}
