//! Frames of pages. [`Frame`] is the frame of every page: its language, the operator, and the URLs
//! of its assets. [`Inside`] is the frame of pages for signed-in users: the menu, the account, and
//! the result of the last action.

use std::borrow::Borrow;

use crate::language::language_tag;
use crate::words::{Argument, Markup, Words};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logo::ClientLogo;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::open_access::OpenAccess;
use sealgate_domain::password_rules::MIN_PASSWORD_LENGTH;
use sealgate_domain::profile::MAX_PASSWORD_LENGTH;

/// Frame of a page of the account or the console.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent parts of the menu")]
pub struct Inside<'a> {
    pub frame: Frame<'a>,
    /// Prefix of the provider's paths; empty at the root.
    pub prefix: &'a str,
    /// E-mail address of the account.
    pub account: &'a str,
    /// Roles in the console. Empty if the user has no access to the console.
    pub console: ConsoleRoles,
    /// Result of the preceding form.
    pub done: Option<Done>,
    pub app_passwords: bool,
    /// Whether an application takes the user's own name and password.
    pub app_logins: bool,
    /// Whether the admin API is enabled.
    pub api: bool,
    /// Token of the page's forms that take effect only once. The forms send it as `once`.
    pub once: String,
    /// Whether the home page exists, which lists the user's applications.
    pub home: bool,
}

/// Result of a form, shown on the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Profile,
    /// The password was changed; other sessions have ended.
    Password,
    AddressVerified,
    AddressChanged,
    /// The address was changed, without an undo link for the replaced address.
    AddressReturned,
    /// The account had no address before.
    AddressAdded,
    Session,
    OtherSessions,
    Withdrawn,
    AppPassword,
    /// The name and password at an application were stored.
    AppLogin,
    AppLoginRemoved,
    FactorAdded,
    FactorRenamed,
    FactorRemoved,
    Client,
    ClientDeleted,
    ClientState,
    User,
    /// The sessions and tokens of a user were revoked.
    UserRevoked,
    UserDeleted,
    /// Several users were changed.
    Users,
    UserInvited,
    UsersInvited,
    UsersImported,
    InvitationWithdrawn,
    /// A link to set a new password was mailed to the user.
    ResetLinkSent,
    /// A new signing key was published.
    KeyRotated,
    /// The configuration was reloaded.
    Reloaded,
    /// A filter of the audit log was saved.
    FilterSaved,
    FilterDeleted,
    MailRetried,
    MailDeleted,
    ApiTokenRemoved,
    RegistrationTokenRevoked,
    /// An application of the gateway was changed.
    App,
    /// The secret was shown before, and is not shown again.
    ShownBefore,
}

impl Done {
    const ALL: [(Self, &'static str); 37] = [
        (Self::Profile, "profile"),
        (Self::Password, "password"),
        (Self::AddressVerified, "address-verified"),
        (Self::AddressChanged, "address-changed"),
        (Self::AddressReturned, "address-returned"),
        (Self::AddressAdded, "address-added"),
        (Self::Session, "session"),
        (Self::OtherSessions, "other-sessions"),
        (Self::Withdrawn, "withdrawn"),
        (Self::AppPassword, "app-password"),
        (Self::AppLogin, "app-login"),
        (Self::AppLoginRemoved, "app-login-removed"),
        (Self::FactorAdded, "factor-added"),
        (Self::FactorRenamed, "factor-renamed"),
        (Self::FactorRemoved, "factor-removed"),
        (Self::Client, "client"),
        (Self::ClientDeleted, "client-deleted"),
        (Self::ClientState, "client-state"),
        (Self::User, "user"),
        (Self::UserRevoked, "user-revoked"),
        (Self::UserDeleted, "user-deleted"),
        (Self::Users, "users"),
        (Self::UserInvited, "user-invited"),
        (Self::UsersInvited, "users-invited"),
        (Self::UsersImported, "users-imported"),
        (Self::InvitationWithdrawn, "invitation-withdrawn"),
        (Self::ResetLinkSent, "reset-link-sent"),
        (Self::KeyRotated, "key-rotated"),
        (Self::Reloaded, "reloaded"),
        (Self::FilterSaved, "filter-saved"),
        (Self::FilterDeleted, "filter-deleted"),
        (Self::MailRetried, "mail-retried"),
        (Self::MailDeleted, "mail-deleted"),
        (Self::ApiTokenRemoved, "api-token-removed"),
        (Self::RegistrationTokenRevoked, "registration-token-revoked"),
        (Self::App, "app"),
        (Self::ShownBefore, "shown-before"),
    ];

    /// Returns the word in the query of the page.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, word)| word)
    }

    /// Parses the word in the query of the page.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(done, _)| *done)
    }

    pub(super) fn words(self, t: &Words) -> Markup {
        match self {
            Self::Profile => t.done_profile(),
            Self::Password => t.done_password(),
            Self::AddressVerified => t.done_address_verified(),
            Self::AddressChanged => t.done_address_changed(),
            Self::AddressReturned => t.done_address_returned(),
            Self::AddressAdded => t.done_address_added(),
            Self::Session => t.done_session(),
            Self::OtherSessions => t.done_other_sessions(),
            Self::Withdrawn => t.done_withdrawn(),
            Self::AppPassword => t.done_app_password(),
            Self::AppLogin => t.done_app_login(),
            Self::AppLoginRemoved => t.done_app_login_removed(),
            Self::FactorAdded => t.done_factor_added(),
            Self::FactorRenamed => t.done_factor_renamed(),
            Self::FactorRemoved => t.done_factor_removed(),
            Self::Client => t.done_client(),
            Self::ClientDeleted => t.done_client_deleted(),
            Self::ClientState => t.done_client_state(),
            Self::User => t.done_user(),
            Self::UserRevoked => t.done_user_revoked(),
            Self::UserDeleted => t.done_user_deleted(),
            Self::Users => t.done_users(),
            Self::UserInvited => t.done_user_invited(),
            Self::UsersInvited => t.done_users_invited(),
            Self::UsersImported => t.done_users_imported(),
            Self::InvitationWithdrawn => t.done_user_invitation_withdrawn(),
            Self::ResetLinkSent => t.done_user_reset_link_sent(),
            Self::KeyRotated => t.done_key_rotated(),
            Self::Reloaded => t.done_reloaded(),
            Self::FilterSaved => t.done_filter_saved(),
            Self::FilterDeleted => t.done_filter_deleted(),
            Self::MailRetried => t.done_mail_retried(),
            Self::MailDeleted => t.done_mail_deleted(),
            Self::ApiTokenRemoved => t.done_api_token_removed(),
            Self::RegistrationTokenRevoked => t.done_registration_token_revoked(),
            Self::App => t.done_app(),
            Self::ShownBefore => t.done_shown_before(),
        }
    }
}

/// Page that the menu links to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MenuEntry {
    Home,
    Profile,
    Password,
    Security,
    Sessions,
    Applications,
    AppPasswords,
    AppLogins,
    Activity,
    Overview,
    Clients,
    Users,
    Groups,
    Keys,
    Mail,
    Apps,
    Settings,
    Audit,
    ApiTokens,
}

/// Link of a menu.
pub(super) struct MenuItem {
    pub(super) path: &'static str,
    pub(super) words: Markup,
    /// Value of `aria-current`: `page` for the shown page, `location` for the group that contains it.
    pub(super) current: Option<&'static str>,
}

impl MenuEntry {
    /// Groups of the account's pages. The account's menu has one entry for each group.
    const ACCOUNT: [&'static [Self]; 4] = [
        &[Self::Home, Self::Applications, Self::AppLogins],
        &[Self::Profile],
        &[Self::Security, Self::Password, Self::Sessions, Self::AppPasswords],
        &[Self::Activity],
    ];
    /// Pages of the console's menu, with the roles that read them.
    const CONSOLE: [(Self, ConsoleRoles); 10] = [
        (Self::Overview, ConsoleRoles::READERS),
        (Self::Users, ConsoleRoles::USER_READERS),
        (Self::Groups, ConsoleRoles::USER_READERS),
        (Self::Apps, ConsoleRoles::READERS),
        (Self::Clients, ConsoleRoles::CLIENT_READERS),
        (Self::Audit, ConsoleRoles::READERS),
        (Self::Keys, ConsoleRoles::READERS),
        (Self::Mail, ConsoleRoles::READERS),
        (Self::ApiTokens, ConsoleRoles::READERS),
        (Self::Settings, ConsoleRoles::READERS),
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Profile => "/account",
            Self::Password => "/account/password",
            Self::Security => "/account/security",
            Self::Sessions => "/account/sessions",
            Self::Applications => "/account/applications",
            Self::AppPasswords => "/account/app-passwords",
            Self::AppLogins => "/account/app-logins",
            Self::Activity => "/account/activity",
            Self::Overview => "/console",
            Self::Clients => "/console/clients",
            Self::Users => "/console/users",
            Self::Groups => "/console/groups",
            Self::Keys => "/console/keys",
            Self::Mail => "/console/mail",
            Self::Apps => "/console/apps",
            Self::Settings => "/console/settings",
            Self::Audit => "/console/audit",
            Self::ApiTokens => "/console/api-tokens",
        }
    }

    pub(super) fn words(self, t: &Words) -> Markup {
        match self {
            Self::Home => t.home_title(),
            Self::Profile => t.menu_profile(),
            Self::Password => t.menu_password(),
            Self::Security => t.security_title(),
            Self::Sessions => t.menu_sessions(),
            Self::Applications => t.applications_title(),
            Self::AppPasswords => t.menu_app_passwords(),
            Self::AppLogins => t.menu_app_logins(),
            Self::Activity => t.menu_activity(),
            Self::Overview => t.menu_overview(),
            Self::Clients => t.menu_clients(),
            Self::Users => t.menu_users(),
            Self::Groups => t.user_groups(),
            Self::Keys => t.menu_keys(),
            Self::Mail => t.menu_mail(),
            Self::Apps => t.menu_apps(),
            Self::Settings => t.menu_settings(),
            Self::Audit => t.menu_audit(),
            Self::ApiTokens => t.api_tokens_title(),
        }
    }

    pub(super) fn in_console(self) -> bool {
        !Self::ACCOUNT.iter().any(|group| group.contains(&self))
    }

    fn item(self, current: Self, t: &Words) -> MenuItem {
        MenuItem { path: self.path(), words: self.words(t), current: (self == current).then_some("page") }
    }

    /// Returns the name of the group that begins with this entry.
    fn group_words(self, t: &Words) -> Markup {
        match self {
            Self::Home | Self::Applications => t.menu_apps(),
            Self::Security => t.menu_security(),
            entry => entry.words(t),
        }
    }
}

impl Inside<'_> {
    /// Returns the menu of the page: the groups of the account, or the pages of the console.
    pub(super) fn menu(&self, current: &MenuEntry) -> Vec<MenuItem> {
        let t = &self.frame.t;
        if current.in_console() {
            let is_shown = |entry, readers| self.console.has_any(readers) && self.has(entry);
            let pages = MenuEntry::CONSOLE.iter().filter(|(entry, readers)| is_shown(*entry, *readers));
            return pages.map(|(entry, _)| entry.item(*current, t)).collect();
        }
        let groups = MenuEntry::ACCOUNT.iter().filter_map(|group| {
            let first = *group.iter().find(|entry| self.has(**entry))?;
            let is_current = group.contains(current).then_some("location");
            let current = if first == *current { Some("page") } else { is_current };
            Some(MenuItem { path: first.path(), words: first.group_words(t), current })
        });
        groups.collect()
    }

    /// Returns the pages of the group that contains the page. Empty if it is the only page.
    pub(super) fn group_menu(&self, current: &MenuEntry) -> Vec<MenuItem> {
        let group = MenuEntry::ACCOUNT.iter().find(|group| group.contains(current)).copied().unwrap_or_default();
        let pages = group.iter().filter(|entry| self.has(**entry));
        let items: Vec<_> = pages.map(|entry| entry.item(*current, &self.frame.t)).collect();
        if items.len() > 1 { items } else { Vec::new() }
    }

    /// Returns whether the page exists.
    ///
    /// The page of application passwords is linked only if an application accepts application
    /// passwords, and the page of names and passwords only if an application takes the user's name
    /// and password. The page of API tokens exists only with the admin API. The home page does not exist if an application uses the provider's root path.
    fn has(&self, entry: MenuEntry) -> bool {
        match entry {
            MenuEntry::AppPasswords => self.app_passwords,
            MenuEntry::AppLogins => self.app_logins,
            MenuEntry::ApiTokens => self.api,
            MenuEntry::Home => self.home,
            _ => true,
        }
    }

    pub(super) fn menu_name(&self, current: &MenuEntry) -> Markup {
        if current.in_console() { self.frame.t.menu_console() } else { self.frame.t.menu_account() }
    }

    /// Returns the link from the account to the console, or from the console to the account.
    pub(super) fn across(&self, current: &MenuEntry) -> Option<(MenuEntry, Markup)> {
        match current.in_console() {
            true => Some((MenuEntry::Profile, self.frame.t.menu_account())),
            false if self.console.is_empty() => None,
            false => Some((MenuEntry::Overview, self.frame.t.menu_console())),
        }
    }

    pub(super) fn done(&self) -> Option<Markup> {
        self.done.map(|done| done.words(&self.frame.t))
    }

    /// Returns whether the page shows the forms that only administrators send.
    pub(super) fn is_for_administrators(&self) -> bool {
        self.console.is_administrator()
    }

    /// Returns whether the page shows forms that change users.
    pub(super) fn edits_users(&self) -> bool {
        self.console.has_any(ConsoleRoles::USER_EDITORS)
    }

    /// Returns whether the page shows forms that change clients.
    pub(super) fn edits_clients(&self) -> bool {
        self.console.has_any(ConsoleRoles::CLIENT_EDITORS)
    }

    /// Returns whether the page shows what administrators and auditors read.
    pub(super) fn reads_everything(&self) -> bool {
        self.console.reads_everything()
    }

    /// Returns the URL that the operator's name links to.
    pub(super) fn first(&self) -> String {
        self.address(if self.home { MenuEntry::Home.path() } else { MenuEntry::Profile.path() })
    }

    /// Returns the URL of a client's logo. `None` if it has none.
    pub(super) fn client_logo(&self, client: &Client) -> Option<String> {
        client_logo_path(&client.id, client.logo.as_ref()).map(|path| self.address(&path))
    }

    /// Returns the URL of the logo of the client that has access. `None` if it has none, or if the access
    /// is of another kind.
    pub(super) fn access_logo(&self, access: &OpenAccess) -> Option<String> {
        let client = access.target.as_deref().and_then(ClientId::parse)?;
        client_logo_path(&client, access.logo.as_ref()).map(|path| self.address(&path))
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

/// Returns the path of a client's logo, without the issuer's prefix. It changes with the picture, so that
/// browsers can cache the picture forever.
pub fn client_logo_path(client: &ClientId, logo: Option<&ClientLogo>) -> Option<String> {
    logo.map(|logo| format!("/oauth/client-logos/{}?v={}", client.path_segment(), logo.version()))
}

/// Parts that every page has: language, name and icon of the operator, and addresses.
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
    /// Stylesheet, such as `/.sealgate/style.css?v=…` (see [`crate::Pages::stylesheet`]).
    pub stylesheet: String,
    /// Stylesheet of the console.
    pub console_stylesheet: String,
    /// Script, for pages that have one.
    pub script: String,
    /// Script for security keys and passkeys.
    pub keys_script: String,
    /// Script of the page that returns the response of a sign-in to the client.
    pub return_script: String,
    /// Operator's logo, if there is one.
    pub logo: Option<String>,
    /// URL of the page in Turkish. The server saves the choice.
    pub turkish: String,
    pub english: String,
}

impl Frame<'_> {
    pub(super) fn tag(&self) -> &'static str {
        language_tag(self.t.language)
    }

    /// Returns the URL of the page's icon: the operator's logo, or the project's mark. The URL needs no
    /// escaping: it has a path of the server, or percent-encoded data.
    pub(super) fn icon(&self) -> &str {
        self.addresses.logo.as_deref().unwrap_or(self.icon)
    }

    /// Returns the rules for a new password in the format of password managers (attribute
    /// `passwordrules`).
    #[expect(clippy::unused_self, reason = "templates call it on the frame")]
    pub(super) fn password_rules(&self) -> String {
        format!("minlength: {MIN_PASSWORD_LENGTH}; maxlength: {MAX_PASSWORD_LENGTH};")
    }

    /// Returns the document title. If `faulty` is true, the title begins with a mark for a form
    /// with errors, which screen readers announce first.
    pub(super) fn title(&self, heading: impl Argument, faulty: impl Borrow<bool>) -> Markup {
        if *faulty.borrow() {
            self.t.document_title_problem(self.operator, heading)
        } else {
            self.t.document_title(self.operator, heading)
        }
    }
}

/// Returns the letter that replaces a missing picture.
///
/// The letter keeps its case, because upper case depends on the language. An English article before
/// other words is skipped.
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
