//! Users: their identifiers, profile and state.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::console_role::ConsoleRole;
use crate::secret::SecretHash;
use crate::source::{SourceState, UserSource};
use crate::time::UnixTime;
use crate::username::Username;

/// The `sub` of a user: a random UUID. It is the same for all clients (subject type `public`) and
/// never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Subject(Uuid);

impl Subject {
    /// Creates a subject from 16 random bytes (UUID version 4).
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Creates a subject from its 16 bytes. A user with this subject may not exist.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Parses a `sub` in its hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// Returns the 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// E-mail address of a user, as the user typed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Email(String);

/// Returns the lookup key of text that a user typed to sign in. Any text has a key, even if it is
/// neither an address nor a username.
pub fn sign_in_key(typed: &str) -> SecretHash {
    SecretHash::for_secret(typed.trim().to_ascii_lowercase().as_bytes())
}

impl Email {
    /// Parses an address: one `@` with text on both sides, no spaces or control characters, at most
    /// 254 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        let (local, domain) = text.split_once('@')?;
        let is_valid = !local.is_empty()
            && !domain.is_empty()
            && !domain.contains('@')
            && text.len() <= 254
            && !text.chars().any(|char| char.is_whitespace() || char.is_control());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Returns the address as it was typed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key under which the user with this address is stored. Folds the case of ASCII
    /// letters only.
    ///
    /// With Unicode case folding, `ADMİN@…` or `admın@…` would match another user's `admin@…`.
    pub fn lookup_key(&self) -> SecretHash {
        SecretHash::for_secret(self.0.to_ascii_lowercase().as_bytes())
    }
}

impl TryFrom<String> for Email {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not an e-mail address")
    }
}

impl From<Email> for String {
    fn from(email: Email) -> Self {
        email.0
    }
}

/// Role of a user in the provider itself, as stored. Groups give console roles too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Developer,
    Auditor,
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Developer, Self::Auditor, Self::Admin];

    /// Returns the name in commands, forms and the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Developer => "developer",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }

    /// Returns the role in the console.
    pub const fn in_console(self) -> ConsoleRole {
        match self {
            Self::Developer => ConsoleRole::Developer,
            Self::Auditor => ConsoleRole::Auditor,
            Self::Admin => ConsoleRole::Administrator,
        }
    }
}

/// Password hash: argon2id in the PHC string format. An imported hash keeps its own format until
/// the user's first sign-in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Wraps a stored hash. The format is checked when a password is verified.
    pub fn new(phc: String) -> Self {
        Self(phc)
    }

    /// Returns the hash as a PHC string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Whether a user may sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    Enabled,
    /// The user cannot sign in, and their sessions and tokens are invalid.
    Disabled,
}

/// User as stored.
///
/// A user has an e-mail address, a username or both. A record without these names is neither read
/// nor written (see [`User::fault`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct User {
    pub sub: Subject,
    /// E-mail address for the sign-in. `None` if the user has only a username.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Email>,
    /// Name to sign in with. It is also sent to applications. Only an operator or an administrator
    /// can set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<Username>,
    /// Whether the user has proven to own the address. False without an address.
    pub email_verified: bool,
    pub name: String,
    /// Phone number in international format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_number: Option<String>,
    /// URL of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Permissions in the provider.
    #[serde(default)]
    pub roles: BTreeSet<Role>,
    /// Groups that were assigned in this installation. [`User::all_groups`] has the source's groups
    /// too.
    #[serde(default)]
    pub groups: BTreeSet<String>,
    /// Source that keeps the account. `None` for a local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<UserSource>,
    /// Password hash. `None` if the user has no password.
    #[serde(default)]
    pub password: Option<PasswordHash>,
    pub state: UserState,
    pub created_at: UnixTime,
    /// Time of the last change of the profile, as in the claim `updated_at`.
    pub updated_at: UnixTime,
    /// Filters of the audit log that the user has saved in the console, at most
    /// [`MAX_SAVED_FILTERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit_filters: Vec<SavedFilter>,
    /// Decisions of user managers that administrators have not made.
    #[serde(default, skip_serializing_if = "ManagerDecisions::is_none")]
    pub by_manager: ManagerDecisions,
}

/// What a user manager has decided about a user, and no administrator or operator.
///
/// A record without these decisions, such as one of an older version, counts as decided by an
/// administrator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagerDecisions {
    /// A user manager disabled the user. Then user managers may enable the user again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// A user manager chose the e-mail address. It does not identify the user to applications until
    /// the user has verified it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub email: bool,
    /// A user manager set the password, or may have received the link to set it. A change on the account
    /// page keeps this mark, because the user manager could make that change too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub password: bool,
}

impl ManagerDecisions {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Maximum number of saved filters of a user.
pub const MAX_SAVED_FILTERS: usize = 20;

/// Saved filter of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFilter {
    pub name: String,
    /// Filter as the query of the page.
    pub query: String,
}

impl Serialize for User {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.fault() {
            // The inherent function, which the derive generates.
            None => Self::serialize(self, serializer),
            Some(fault) => Err(S::Error::custom(fault)),
        }
    }
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The inherent function, which the derive generates.
        let user = Self::deserialize(deserializer)?;
        match user.fault() {
            None => Ok(user),
            Some(fault) => Err(D::Error::custom(fault)),
        }
    }
}

impl User {
    /// Returns why the names of the user are not valid, or `None` if they are.
    pub const fn fault(&self) -> Option<&'static str> {
        match (&self.email, &self.username) {
            (None, None) => Some("a user has an e-mail address or a username"),
            (None, Some(_)) if self.email_verified => {
                Some("a user without an e-mail address cannot have a verified one")
            }
            _ => None,
        }
    }

    /// Returns the name that identifies the account to its user: the e-mail address, or the username
    /// of a user without an address. The user can sign in with it.
    pub fn sign_in_name(&self) -> &str {
        let address = self.email.as_ref().map(Email::as_str);
        // A stored user has one of the names.
        address.or(self.username.as_ref().map(Username::as_str)).unwrap_or_default()
    }

    /// Returns the e-mail address that counts as the user's: for the sign-in and for
    /// messages.
    ///
    /// A source's address that is not verified is only displayed, because users may be able to enter the
    /// address of another user there. An address of a local user was verified, or entered by an
    /// administrator or a user manager.
    pub fn own_email(&self) -> Option<&Email> {
        self.email.as_ref().filter(|_| self.email_verified || self.source.is_none())
    }

    /// Returns the e-mail address that identifies the user to applications that are not told whether
    /// it is verified: see [`User::own_email`].
    ///
    /// An address that a user manager has chosen must be verified. Otherwise the user manager could
    /// choose the address of a user of the application.
    pub fn identifying_email(&self) -> Option<&Email> {
        self.own_email().filter(|_| self.email_verified || !self.by_manager.email)
    }

    /// Sets the password on behalf of a user manager, or of an administrator, an operator or the owner of
    /// the mailbox.
    pub fn set_password(&mut self, password: PasswordHash, by_manager: bool) {
        self.password = Some(password);
        self.by_manager.password = by_manager;
    }

    /// Returns whether a user manager could sign in as the user: a user manager set the password, or chose
    /// the address to which links for a new password are mailed.
    pub fn is_open_to_manager(&self) -> bool {
        self.source.is_none() && ((self.by_manager.password && self.password.is_some()) || self.by_manager.email)
    }

    /// Closes an account that was open to a user manager, because the user gets a role in the console.
    ///
    /// Replaces the password with an unknown one. The user can only have a link for a new one
    /// mailed to an address that no user manager chose: another address is no longer verified.
    pub fn close_to_managers(&mut self, unknown_password: PasswordHash) {
        if self.password.is_some() {
            self.set_password(unknown_password, false);
        }
        self.email_verified &= !self.by_manager.email;
    }

    /// Returns whether disabling the user, on behalf of a user manager or not, would change something.
    pub fn is_changed_by_disabling(&self, by_manager: bool) -> bool {
        self.state == UserState::Enabled || (self.by_manager.disabled && !by_manager)
    }

    /// Disables the user on behalf of a user manager, or of an administrator or operator.
    ///
    /// A user manager does not take over the decision of an administrator.
    pub fn disable(&mut self, by_manager: bool) {
        self.by_manager.disabled = by_manager && (self.state == UserState::Enabled || self.by_manager.disabled);
        self.state = UserState::Disabled;
    }

    /// Returns whether a user manager may enable the user: a user manager has disabled the user. Always
    /// true for enabled users.
    pub fn may_be_enabled_by_manager(&self) -> bool {
        self.state == UserState::Enabled || self.by_manager.disabled
    }

    /// Enables the user in this installation.
    pub fn enable(&mut self) {
        self.by_manager.disabled = false;
        self.state = UserState::Enabled;
    }

    /// Returns whether the user has this e-mail address.
    pub fn has_email(&self, email: &Email) -> bool {
        self.email.as_ref().is_some_and(|own| own.lookup_key() == email.lookup_key())
    }

    /// Returns whether the user has this e-mail address and has verified it.
    pub fn has_verified_email(&self, email: &Email) -> bool {
        self.email_verified && self.has_email(email)
    }

    /// Returns whether the user may sign in: enabled in this installation and at the source.
    pub fn is_enabled(&self) -> bool {
        self.state == UserState::Enabled
            && self.source.as_ref().is_none_or(|source| source.state == SourceState::Enabled)
    }

    /// Returns whether the user signs in with a password, which this installation or the source
    /// checks.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || self.source.is_some()
    }

    /// Returns the groups that were assigned in this installation or at the source, sorted, each
    /// once.
    pub fn all_groups(&self) -> impl Iterator<Item = &String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.groups.union(self.source.as_ref().map_or(&NONE, |source| &source.groups))
    }

    /// Returns whether the user is in this group.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.groups.contains(group) || self.source.as_ref().is_some_and(|source| source.groups.contains(group))
    }
}

/// Maximum number of groups and roles that [`membership_changes`] names.
const MAX_NAMED_CHANGES: usize = 20;

/// Returns the differences in groups and roles in the form of the audit log, such as
/// `group added ops`. Names of groups contain no commas.
///
/// Groups of the user's source are not compared, because the source keeps them.
pub fn membership_changes(before: &User, after: &User) -> Vec<String> {
    let groups = |what: &'static str, from: &User, to: &User| -> Vec<String> {
        to.groups.difference(&from.groups).map(|group| format!("group {what} {group}")).collect()
    };
    let roles = |what: &'static str, from: &User, to: &User| -> Vec<String> {
        to.roles.difference(&from.roles).map(|role| format!("role {what} {}", role.as_str())).collect()
    };
    let parts = [
        roles("added", before, after),
        roles("removed", after, before),
        groups("added", before, after),
        groups("removed", after, before),
    ];
    let mut parts = parts.concat();
    let rest = parts.len().saturating_sub(MAX_NAMED_CHANGES);
    if rest > 0 {
        parts.truncate(MAX_NAMED_CHANGES);
        parts.push(format!("and {rest} more"));
    }
    parts
}

/// Converts letters to lower case without Turkish diacritics, for users who type without them.
///
/// Only for searches in lists and for password rules: ı, İ and i count as the same letter, and so do
/// ş and s. To identify a user, use [`Email::lookup_key`].
pub fn plain_letters(text: &str) -> String {
    let plain = |letter| match letter {
        'ç' => 'c',
        'ğ' => 'g',
        'ı' => 'i',
        'ö' => 'o',
        'ş' => 's',
        'ü' => 'u',
        other => other,
    };
    // The lower case of İ is an i and a combining dot.
    text.chars().flat_map(char::to_lowercase).filter(|letter| *letter != '\u{307}').map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turkish_letters_never_fold_into_ascii_ones() {
        let key = |text| Email::parse(text).unwrap().lookup_key();
        assert_eq!(key("Admin@Example.test"), key("admin@example.test"));
        assert_ne!(key("admın@example.test"), key("admin@example.test"));
        assert_ne!(key("ADMİN@example.test"), key("admin@example.test"));
    }

    fn gulsah() -> User {
        User {
            sub: Subject::from_random([7; 16]),
            email: Email::parse("gulsah.k@example.test"),
            username: Username::parse("gk34"),
            email_verified: true,
            name: "Gülşah İpek Işıkoğlu".to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
            password: None,
            source: None,
            state: UserState::Enabled,
            created_at: UnixTime::from_seconds(0),
            updated_at: UnixTime::from_seconds(0),
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    #[test]
    fn a_record_without_a_name_is_neither_written_nor_read() {
        let record = serde_json::to_value(gulsah()).unwrap();
        let read = |change: fn(&mut serde_json::Map<String, serde_json::Value>)| {
            let mut record = record.clone();
            change(record.as_object_mut().unwrap());
            serde_json::from_value::<User>(record).map_err(|error| error.to_string())
        };
        assert_eq!(read(|_| ()), Ok(gulsah()));
        let only_username = read(|record| {
            record.remove("email");
            record.insert("email_verified".to_owned(), false.into());
        });
        let only_username = only_username.unwrap();
        assert_eq!((only_username.sign_in_name(), gulsah().sign_in_name()), ("gk34", "gulsah.k@example.test"));
        assert!(serde_json::to_value(&only_username).unwrap().get("email").is_none());
        let verified = read(|record| _ = record.remove("email"));
        assert_eq!(verified.unwrap_err(), "a user without an e-mail address cannot have a verified one");
        let nameless = read(|record| record.retain(|name, _| !["email", "username"].contains(&name.as_str())));
        assert_eq!(nameless.unwrap_err(), "a user has an e-mail address or a username");
        assert!(serde_json::to_value(User { email: None, username: None, ..gulsah() }).is_err());
    }

    #[test]
    fn an_address_has_text_on_both_sides_of_the_at_sign() {
        for wrong in ["", "@", "a@", "@b", "a b@c", "a@b@c", "a\n@b"] {
            assert!(Email::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
