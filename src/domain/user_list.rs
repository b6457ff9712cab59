//! List of all users in memory, for the console: search, filters, order and counts.
//!
//! An entry has only what searches, filters and the order need, less than 1 KB. The console reads
//! the users that a page shows from the store.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::account_links::Invitation;
use crate::console_role::{ConsoleRole, ConsoleRoles};
use crate::factors::{FactorKind, Factors};
use crate::time::UnixTime;
use crate::user::{Email, Subject, User, plain_letters};
use crate::username::Username;

/// State of a user in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedState {
    /// The user can sign in.
    Enabled,
    /// The user is enabled, but has neither a password nor a passkey, and no invitation.
    NoCredential,
    Invited,
    InvitationExpired,
    /// Disabled in this installation or at the source.
    Disabled,
}

impl ListedState {
    /// All states, in the order of the filter.
    pub const ALL: [Self; 5] =
        [Self::Enabled, Self::Invited, Self::InvitationExpired, Self::NoCredential, Self::Disabled];

    /// Returns the name in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::NoCredential => "no-credential",
            Self::Invited => "invited",
            Self::InvitationExpired => "invitation-expired",
            Self::Disabled => "disabled",
        }
    }

    /// Parses the name in queries.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Order of a list of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UserOrder {
    /// By full name, in the order of the Turkish alphabet.
    #[default]
    Name,
    /// By e-mail address. Users without an address follow, by username.
    Address,
    /// Newest sign-in first. Users without a sign-in are always last.
    SignedIn,
    /// Newest user first.
    Created,
}

impl UserOrder {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Name, Self::Address, Self::SignedIn, Self::Created];

    /// Returns the name in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Address => "address",
            Self::SignedIn => "signed-in",
            Self::Created => "created",
        }
    }

    /// Parses the name in queries.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.as_str() == name)
    }
}

/// Criteria, order and part of a list of users. A user must match all criteria that are set.
#[derive(Debug, Clone, Default)]
pub struct UserQuery {
    /// Search text as typed. Each of its words must occur in the name, the address or the username.
    pub search: String,
    pub group: Option<String>,
    pub state: Option<ListedState>,
    /// Console role, possibly beside others. `Some(None)` matches users without a role.
    pub role: Option<Option<ConsoleRole>>,
    /// Strongest factor. `Some(None)` matches users without a factor.
    pub factor: Option<Option<FactorKind>>,
    /// Name of the source. `Some(None)` matches local users.
    pub source: Option<Option<String>>,
    pub order: UserOrder,
    /// Whether the order is reversed.
    pub reversed: bool,
    /// Number of users on previous pages. If there are fewer users, the last page is selected.
    pub skip: usize,
    /// Maximum number of users.
    pub limit: usize,
    /// Groups whose members have a console role, with the role.
    pub role_groups: Vec<(String, ConsoleRole)>,
    /// Groups of a user manager. If set, only their members without a console role match.
    pub managed: Option<BTreeSet<String>>,
}

/// User in a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedUser {
    pub sub: Subject,
    /// Last sign-in, if the audit log has it.
    pub signed_in_at: Option<UnixTime>,
    /// Strongest factor besides the password.
    pub factor: Option<FactorKind>,
    /// Whether all factors were removed, and the enrolment link was not used yet.
    pub is_reset: bool,
    pub state: ListedState,
}

/// Part of the list that a query selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSelection {
    pub users: Vec<ListedUser>,
    /// Number of users on previous pages.
    pub skipped: usize,
    /// Number of users that match.
    pub total: usize,
}

/// List of all users.
#[derive(Debug, Default)]
pub struct UserList {
    users: BTreeMap<Subject, Entry>,
    groups: Names,
    sources: Names,
}

/// User in the list.
#[derive(Debug)]
struct Entry {
    /// Hash of the records from which the entry was made.
    mark: u64,
    /// Name, address and username in plain letters, each on a line.
    text: Box<str>,
    /// Key of the order by name. `None` if it is the name in `text`.
    order: Option<Box<str>>,
    groups: Box<[u32]>,
    source: Option<u32>,
    created_at: UnixTime,
    signed_in_at: Option<UnixTime>,
    invitation: EntryInvitation,
    factor: Option<FactorKind>,
    /// Roles without those of groups.
    roles: ConsoleRoles,
    is_reset: bool,
    is_enabled: bool,
    has_credential: bool,
}

#[derive(Debug, Clone, Copy)]
enum EntryInvitation {
    None,
    Accepted,
    /// Not accepted yet, and valid until this time.
    Open(UnixTime),
}

impl Entry {
    fn lines(&self) -> [&str; 3] {
        let mut lines = self.text.splitn(3, '\n');
        [(); 3].map(|()| lines.next().unwrap_or_default())
    }

    fn name_key(&self) -> &str {
        self.order.as_deref().unwrap_or_else(|| self.text.split('\n').next().unwrap_or_default())
    }

    /// Returns whether the user has no address, and the address or the username.
    fn address_key(&self) -> (bool, &str) {
        let [_, address, username] = self.lines();
        if address.is_empty() { (true, username) } else { (false, address) }
    }

    fn state(&self, now: UnixTime) -> ListedState {
        match self.invitation {
            _ if !self.is_enabled => ListedState::Disabled,
            EntryInvitation::Open(until) if now < until => ListedState::Invited,
            EntryInvitation::Open(_) => ListedState::InvitationExpired,
            EntryInvitation::None | EntryInvitation::Accepted if self.has_credential => ListedState::Enabled,
            EntryInvitation::None | EntryInvitation::Accepted => ListedState::NoCredential,
        }
    }

    fn compare(&self, other: &Self, order: UserOrder, reversed: bool) -> Ordering {
        let by_name =
            || self.name_key().cmp(other.name_key()).then_with(|| self.address_key().cmp(&other.address_key()));
        let directed = |order: Ordering| if reversed { order.reverse() } else { order };
        match order {
            UserOrder::Name => directed(by_name()),
            UserOrder::Address => directed(self.address_key().cmp(&other.address_key())),
            UserOrder::Created => directed(other.created_at.cmp(&self.created_at)).then_with(by_name),
            UserOrder::SignedIn => {
                let absent = self.signed_in_at.is_none().cmp(&other.signed_in_at.is_none());
                absent.then(directed(other.signed_in_at.cmp(&self.signed_in_at))).then_with(by_name)
            }
        }
    }
}

impl UserList {
    /// Returns the number of users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Returns whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Returns the number of names of groups and sources that were ever in the list.
    pub fn names(&self) -> usize {
        self.groups.names.len() + self.sources.names.len()
    }

    /// Returns the hash of the records from which the entry of this user was made.
    pub fn mark(&self, subject: Subject) -> Option<u64> {
        self.users.get(&subject).map(|entry| entry.mark)
    }

    /// Returns all users, in the order of their `sub`.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.users.keys().copied()
    }

    /// Returns the users after `after`, up to and including `last`, in the order of their `sub`.
    pub fn subjects_between(&self, after: Option<Subject>, last: Option<Subject>) -> impl Iterator<Item = Subject> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let last = last.map_or(Bound::Unbounded, Bound::Included);
        self.users.range((after, last)).map(|(subject, _)| *subject)
    }

    /// Adds a user, or replaces the user's entry. Keeps the last sign-in.
    pub fn put(&mut self, mark: u64, user: &User, factors: Option<&Factors>, invitation: Option<&Invitation>) {
        let factor = factors.and_then(Factors::strongest);
        let plain = plain_letters(&user.name).replace('\n', " ");
        let order = alphabetical(&user.name);
        let address = user.email.as_ref().map(Email::as_str).map(plain_letters).unwrap_or_default();
        let username = user.username.as_ref().map(Username::as_str).unwrap_or_default();
        let entry = Entry {
            mark,
            order: (order != plain).then(|| order.into()),
            text: format!("{plain}\n{address}\n{username}").into(),
            groups: user.all_groups().map(|group| self.groups.number(group)).collect(),
            source: user.source.as_ref().map(|source| self.sources.number(source.link.source.as_str())),
            created_at: user.created_at,
            signed_in_at: self.users.get(&user.sub).and_then(|known| known.signed_in_at),
            invitation: match invitation {
                None => EntryInvitation::None,
                Some(invitation) if invitation.accepted_at.is_some() => EntryInvitation::Accepted,
                Some(invitation) => EntryInvitation::Open(invitation.expires_at),
            },
            factor,
            roles: user.roles.iter().map(|role| role.in_console()).collect(),
            is_reset: factors.is_some_and(|factors| factors.reset.is_some()),
            is_enabled: user.is_enabled(),
            has_credential: user.has_password() || factor == Some(FactorKind::Passkey),
        };
        self.users.insert(user.sub, entry);
    }

    /// Removes a user.
    pub fn remove(&mut self, subject: Subject) {
        self.users.remove(&subject);
    }

    /// Records that a user signed in at this time. Ignores earlier times than the known one.
    pub fn signed_in(&mut self, subject: Subject, at: UnixTime) {
        if let Some(entry) = self.users.get_mut(&subject) {
            entry.signed_in_at = entry.signed_in_at.max(Some(at));
        }
    }

    /// Returns the users that match a query.
    pub fn select(&self, query: &UserQuery, now: UnixTime) -> UserSelection {
        let Some(matcher) = self.matcher(query, now) else { return UserSelection::default() };
        let mut found: Vec<(&Subject, &Entry)> = self.users.iter().filter(|(_, entry)| matcher(entry)).collect();
        let total = found.len();
        let last_page = found.len().saturating_sub(1) / query.limit.max(1) * query.limit;
        let skipped = query.skip.min(last_page);
        let order = |(subject, entry): &(&Subject, &Entry), (other_subject, other): &(&Subject, &Entry)| {
            entry.compare(other, query.order, query.reversed).then_with(|| subject.cmp(other_subject))
        };
        // Only the users up to the end of the page need an order.
        let end = skipped.saturating_add(query.limit);
        if end < total {
            found.select_nth_unstable_by(end, order);
            found.truncate(end);
        }
        found.sort_unstable_by(order);
        let users = found.iter().skip(skipped).take(query.limit).map(|(subject, entry)| ListedUser {
            sub: **subject,
            signed_in_at: entry.signed_in_at,
            factor: entry.factor,
            is_reset: entry.is_reset,
            state: entry.state(now),
        });
        UserSelection { users: users.collect(), skipped, total }
    }

    /// Returns the condition of a query, or `None` if no user can match.
    fn matcher<'a>(&'a self, query: &'a UserQuery, now: UnixTime) -> Option<impl Fn(&Entry) -> bool + 'a> {
        let search = plain_letters(&query.search);
        let words: Vec<String> = search.split_whitespace().map(str::to_owned).collect();
        let group = match &query.group {
            Some(group) => Some(self.groups.find(group)?),
            None => None,
        };
        let source = match &query.source {
            Some(Some(source)) => Some(Some(self.sources.find(source)?)),
            Some(None) => Some(None),
            None => None,
        };
        let role_groups = query.role_groups.iter();
        let role_groups: Vec<(u32, ConsoleRole)> =
            role_groups.filter_map(|(group, role)| Some((self.groups.find(group)?, *role))).collect();
        let roles = move |entry: &Entry| {
            let of_groups = role_groups.iter().filter(|(group, _)| entry.groups.contains(group));
            of_groups.fold(entry.roles, |roles, (_, role)| roles.with(*role))
        };
        let managed = query.managed.as_ref();
        let managed: Option<Vec<u32>> =
            managed.map(|groups| groups.iter().filter_map(|group| self.groups.find(group)).collect());
        Some(move |entry: &Entry| {
            group.is_none_or(|group| entry.groups.contains(&group))
                && source.is_none_or(|source| entry.source == source)
                && query.factor.is_none_or(|factor| entry.factor == factor)
                && query.state.is_none_or(|state| entry.state(now) == state)
                && query.role.is_none_or(|role| match role {
                    Some(role) => roles(entry).has(role),
                    None => roles(entry).is_empty(),
                })
                && managed.as_ref().is_none_or(|managed| {
                    roles(entry).is_empty() && managed.iter().any(|group| entry.groups.contains(group))
                })
                && words.iter().all(|word| entry.text.contains(word.as_str()))
        })
    }

    /// Returns the groups with the number of their members, sorted by name.
    pub fn groups(&self) -> Vec<(String, usize)> {
        let mut counts = vec![0_usize; self.groups.names.len()];
        for number in self.users.values().flat_map(|entry| &entry.groups) {
            if let Some(count) = counts.get_mut(*number as usize) {
                *count += 1;
            }
        }
        let counted = self.groups.names.iter().zip(counts).filter(|(_, count)| *count > 0);
        let mut groups: Vec<_> = counted.map(|(name, count)| (name.to_string(), count)).collect();
        groups.sort_by_cached_key(|(name, _)| (alphabetical(name), name.clone()));
        groups
    }

    /// Returns the sources that have users, sorted.
    pub fn sources(&self) -> Vec<String> {
        let used: BTreeSet<u32> = self.users.values().filter_map(|entry| entry.source).collect();
        let mut names: Vec<_> = used
            .iter()
            .filter_map(|number| self.sources.names.get(*number as usize))
            .map(ToString::to_string)
            .collect();
        names.sort();
        names
    }
}

/// Names, each stored once and referred to by a number.
#[derive(Debug, Default)]
struct Names {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Names {
    fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }
}

/// Returns a key that sorts text by the Turkish alphabet, in which ç follows c, and ö follows o.
///
/// Sorts ı and i as the same letter, because capital letters of names in other languages do not
/// distinguish them.
pub fn alphabetical(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase).filter(|letter| *letter != '\u{307}' && *letter != '\n');
    let mut key = String::with_capacity(text.len());
    for letter in lower {
        let (base, is_after) = match letter {
            'ç' => ('c', true),
            'ğ' => ('g', true),
            'ı' => ('i', false),
            'ö' => ('o', true),
            'ş' => ('s', true),
            'ü' => ('u', true),
            other => (other, false),
        };
        key.push(base);
        if is_after {
            // Sorts after every letter that can follow the base letter.
            key.push('\u{7f}');
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assurance::FactorId;
    use crate::factors::TotpFactor;
    use crate::secret::Sealed;
    use crate::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
    use crate::user::{ManagerDecisions, PasswordHash, Role, UserState};
    use crate::webauthn::UserHandle;

    const NOW: UnixTime = UnixTime::from_seconds(1000);

    fn person(number: u8, name: &str) -> User {
        User {
            sub: Subject::from_random([number; 16]),
            email: Email::parse(&format!("person.{number}@example.test")),
            username: Username::parse(&format!("u{number}")),
            email_verified: true,
            name: name.to_owned(),
            phone_number: None,
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
            password: Some(PasswordHash::new("hash".to_owned())),
            source: None,
            state: UserState::Enabled,
            created_at: UnixTime::from_seconds(number.into()),
            updated_at: NOW,
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    fn list(users: &[User]) -> UserList {
        let mut list = UserList::default();
        for user in users {
            list.put(0, user, None, None);
        }
        list
    }

    fn query() -> UserQuery {
        UserQuery { limit: 50, ..UserQuery::default() }
    }

    fn found(list: &UserList, query: &UserQuery) -> Vec<u8> {
        list.select(query, NOW).users.iter().map(|user| user.sub.as_bytes()[0]).collect()
    }

    #[test]
    fn every_word_of_a_search_occurs_in_the_name_the_address_or_the_username() {
        let user = User {
            email: Email::parse("gulsah.k@example.test"),
            username: Username::parse("gk34"),
            ..person(1, "Gülşah İpek Işıkoğlu")
        };
        let list = list(&[user]);
        let finds = |search: &str| found(&list, &UserQuery { search: search.to_owned(), ..query() }).len() == 1;
        for typed in
            ["", "gulsah", "GÜLŞAH", "ulsa", "k34", "GK34", "@EXAMPLE", "ipek ış", "IŞIK", "ısıkoglu gül", " k@ "]
        {
            assert!(finds(typed), "{typed}");
        }
        for typed in ["gulsahx", "ipek q", "ipekışık", "q gul"] {
            assert!(!finds(typed), "{typed}");
        }
    }

    #[test]
    fn names_sort_by_the_turkish_alphabet() {
        let names =
            ["Zeynep", "Çağrı", "Cüneyt", "Deniz", "Şule", "Suna", "Ilgın", "İpek", "Ömer", "Ozan", "Ufuk", "Ülkü"];
        let users: Vec<User> = (1..).zip(names).map(|(number, name)| person(number, name)).collect();
        let list = list(&users);
        let order = |query: &UserQuery| -> Vec<&str> {
            found(&list, query).into_iter().map(|number| names[usize::from(number) - 1]).collect()
        };
        let expected =
            ["Cüneyt", "Çağrı", "Deniz", "Ilgın", "İpek", "Ozan", "Ömer", "Suna", "Şule", "Ufuk", "Ülkü", "Zeynep"];
        assert_eq!(order(&query()), expected);
        let reversed = order(&UserQuery { reversed: true, ..query() });
        assert_eq!(reversed, expected.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn users_without_a_sign_in_are_last_in_both_directions() {
        let mut list = list(&[person(1, "A"), person(2, "B"), person(3, "C")]);
        list.signed_in(person(1, "").sub, UnixTime::from_seconds(10));
        list.signed_in(person(3, "").sub, UnixTime::from_seconds(20));
        list.signed_in(person(3, "").sub, UnixTime::from_seconds(5));
        let by = |order, reversed| found(&list, &UserQuery { order, reversed, ..query() });
        assert_eq!(by(UserOrder::SignedIn, false), [3, 1, 2]);
        assert_eq!(by(UserOrder::SignedIn, true), [1, 3, 2]);
        assert_eq!(by(UserOrder::Created, false), [3, 2, 1]);
        assert_eq!(by(UserOrder::Created, true), [1, 2, 3]);
        assert_eq!(by(UserOrder::Address, true), [3, 2, 1]);
    }

    #[test]
    fn each_filter_selects_the_users_that_match() {
        let staff = ["staff".to_owned()].into();
        let link = SourceLink { source: SourceName::parse("corp").unwrap(), id: SourceId::from_bytes(b"1").unwrap() };
        let source = UserSource {
            link,
            groups: ["corp/ops".to_owned()].into(),
            state: SourceState::Enabled,
            changed_at: NOW,
            confirmed_at: None,
            origin: None,
            linked: None,
        };
        let users = [
            User { groups: staff, ..person(1, "A") },
            User { roles: [Role::Developer, Role::Admin].into(), ..person(2, "B") },
            User { state: UserState::Disabled, roles: [Role::Developer].into(), ..person(3, "C") },
            User { password: None, ..person(4, "D") },
            User { source: Some(source), password: None, ..person(5, "E") },
        ];
        let list = list(&users);
        let with = |change: fn(&mut UserQuery)| {
            let mut query = query();
            change(&mut query);
            found(&list, &query)
        };
        assert_eq!(with(|query| query.group = Some("staff".to_owned())), [1]);
        assert_eq!(with(|query| query.group = Some("corp/ops".to_owned())), [5]);
        assert!(with(|query| query.group = Some("none".to_owned())).is_empty());
        assert_eq!(with(|query| query.state = Some(ListedState::Disabled)), [3]);
        assert_eq!(with(|query| query.state = Some(ListedState::NoCredential)), [4]);
        assert_eq!(with(|query| query.state = Some(ListedState::Enabled)), [1, 2, 5]);
        assert_eq!(with(|query| query.role = Some(Some(ConsoleRole::Administrator))), [2]);
        assert_eq!(with(|query| query.role = Some(Some(ConsoleRole::Developer))), [2, 3]);
        assert_eq!(with(|query| query.role = Some(None)), [1, 4, 5]);
        assert_eq!(with(|query| query.source = Some(Some("corp".to_owned()))), [5]);
        assert_eq!(with(|query| query.source = Some(None)), [1, 2, 3, 4]);
        assert_eq!(with(|query| query.factor = Some(Some(FactorKind::Passkey))), [0_u8; 0]);
        // A group can give a console role.
        let of_group = |query: &mut UserQuery| {
            query.role = Some(Some(ConsoleRole::Administrator));
            query.role_groups = vec![("staff".to_owned(), ConsoleRole::Administrator)];
        };
        assert_eq!(with(of_group), [1, 2]);
        // A user manager sees the members of the managed groups who have no console role.
        let managed = |groups: &[&str], role_group: &str| {
            let mut query = query();
            query.managed = Some(groups.iter().map(|group| (*group).to_owned()).collect());
            query.role_groups = vec![(role_group.to_owned(), ConsoleRole::Developer)];
            found(&list, &query)
        };
        assert_eq!(managed(&["staff", "corp/ops"], "none"), [1, 5]);
        assert_eq!(managed(&["staff", "corp/ops"], "corp/ops"), [1]);
        assert!(managed(&["none"], "staff").is_empty());
        assert_eq!(list.groups(), [("corp/ops".to_owned(), 1), ("staff".to_owned(), 1)]);
        assert_eq!(list.sources(), ["corp"]);
    }

    #[test]
    fn an_authenticator_app_alone_does_not_sign_a_user_in() {
        let user = User { password: None, ..person(1, "A") };
        let mut factors = Factors::none(user.sub, UserHandle::from_random([1; 32]));
        let state = |factors: &Factors| {
            let mut list = UserList::default();
            list.put(0, &user, Some(factors), None);
            let listed = list.select(&query(), NOW).users.remove(0);
            (listed.state, listed.factor)
        };
        assert_eq!(state(&factors), (ListedState::NoCredential, None));
        factors.totp.push(TotpFactor {
            id: FactorId::from_bytes([1; 16]),
            name: String::new(),
            added_at: NOW,
            last_used_at: None,
            secret: Sealed::from_bytes(Vec::new()),
            last_step: serde_json::from_str("1").unwrap(),
        });
        assert_eq!(state(&factors), (ListedState::NoCredential, Some(FactorKind::Totp)));
    }

    #[test]
    fn a_page_beyond_the_end_is_the_last_page() {
        let users: Vec<User> = (1..=5).map(|number| person(number, "A")).collect();
        let list = list(&users);
        let select = |skip| list.select(&UserQuery { skip, limit: 2, ..query() }, NOW);
        assert_eq!((select(0).skipped, select(0).users.len(), select(0).total), (0, 2, 5));
        assert_eq!((select(4).skipped, select(4).users.len()), (4, 1));
        assert_eq!((select(900).skipped, select(900).users.len()), (4, 1));
    }
}
