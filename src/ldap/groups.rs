//! Groups of users.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sealgate_config::{DirectoryGroups, GroupSource};
use sealgate_domain::profile::is_group;
use sealgate_domain::search_filter::{AttributeName, SearchFilter};
use tokio::time::Instant;

use crate::entry::LdapEntry;
use crate::fault::LdapFault;
use crate::message::SearchScope;
use crate::query::{Query, Searches};

/// Maximum number of groups of a user.
const MAX_GROUPS: usize = 1000;
/// Maximum number of groups that contain one another.
const MAX_DEPTH: usize = 16;
/// Maximum number of SIDs in a search.
const SIDS_PER_SEARCH: usize = 50;
/// Maximum number of cached names, and time for which they are used.
const MAX_CACHED_SIDS: usize = 10_000;
const SID_LIFETIME: Duration = Duration::from_mins(10);

/// Attributes of groups that contain members, by DN and by username.
const MEMBER_DN: &[&str] = &["member", "uniqueMember"];
const MEMBER_NAME: &str = "memberUid";

/// Group: its DN and its name.
#[derive(Debug, Clone)]
struct Group {
    dn: Vec<u8>,
    name: Vec<u8>,
}

/// Groups that are known to contain a group, by its DN. For one read of users.
pub(crate) type KnownParents = HashMap<Vec<u8>, Vec<usize>>;

/// Reader of groups for one answer to the caller. Each group's parents are searched once.
#[derive(Debug)]
pub(crate) struct GroupReader<'d> {
    settings: &'d DirectoryGroups,
    sids: &'d SidNames,
    /// All groups that were found, and their indexes by DN.
    found: Vec<Group>,
    indexes: HashMap<Vec<u8>, usize>,
    parents: KnownParents,
}

/// Names of groups of Active Directory by SID.
#[derive(Debug, Default)]
pub(crate) struct SidNames(Mutex<HashMap<Vec<u8>, SidName>>);

/// Name of a SID, and when it was read.
#[derive(Debug, Clone)]
struct SidName {
    /// `None` if no group below the base has the SID.
    name: Option<Vec<u8>>,
    read: Instant,
}

impl SidNames {
    fn get(&self, sid: &[u8]) -> Option<SidName> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(sid).filter(|name| name.read.elapsed() < SID_LIFETIME).cloned()
    }

    fn put(&self, sid: Vec<u8>, name: Option<Vec<u8>>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MAX_CACHED_SIDS {
            names.clear();
        }
        names.insert(sid, SidName { name, read: Instant::now() });
    }
}

impl<'d> GroupReader<'d> {
    pub(crate) fn new(settings: &'d DirectoryGroups, sids: &'d SidNames) -> Self {
        Self { settings, sids, found: Vec::new(), indexes: HashMap::new(), parents: HashMap::new() }
    }

    /// Returns the groups of a user, with the prefix. Leaves out names that are not valid.
    ///
    /// # Errors
    /// If the answer is not complete, or there are more than 1,000 groups.
    pub(crate) async fn groups(
        &mut self,
        searches: Searches<'_>,
        user: &LdapEntry,
        username: Option<&[u8]>,
    ) -> Result<BTreeSet<String>, LdapFault> {
        let names = match self.settings.from {
            GroupSource::TokenGroups => self.by_token(searches, user).await?,
            GroupSource::Members => self.by_members(searches, user, username).await?,
            GroupSource::MemberOf => self.by_member_of(searches, user)?,
        };
        if names.len() > MAX_GROUPS {
            return Err(too_many(searches, user));
        }
        let mut groups = BTreeSet::new();
        for name in names {
            let group = format!("{}{}", self.settings.prefix, String::from_utf8_lossy(&name));
            if std::str::from_utf8(&name).is_ok() && is_group(&group) {
                groups.insert(group);
            } else {
                tracing::debug!(group = %group.escape_debug(), "a group of the directory has no valid name and is left out");
            }
        }
        Ok(groups)
    }

    /// Reads the SIDs of all groups, including nested groups and the primary group.
    async fn by_token(&self, searches: Searches<'_>, user: &LdapEntry) -> Result<Vec<Vec<u8>>, LdapFault> {
        let present = present("objectClass");
        let attributes = &["tokenGroups"];
        let query = Query { base: &user.dn, scope: SearchScope::Base, filter: &present, attributes };
        let token = searches.entry(query).await?;
        let sids = token.values("tokenGroups");
        if sids.len() > MAX_GROUPS || token.is_partial("tokenGroups") {
            return Err(too_many(searches, user));
        }
        let mut names: Vec<Option<Vec<u8>>> = Vec::new();
        let mut unknown = Vec::new();
        for sid in sids {
            match self.sids.get(sid) {
                Some(known) => names.push(known.name),
                None => unknown.push(sid.as_slice()),
            }
        }
        for sids in unknown.chunks(SIDS_PER_SEARCH) {
            let filter = SearchFilter::Or(equals(&["objectSid"], &sids.iter().copied()));
            // `cn` is unique in a container only. Otherwise an administrator of one container could
            // create a group with the name of another one.
            let attributes = &["sAMAccountName", "objectSid"];
            let base = self.settings.base.as_bytes();
            let query = Query { base, scope: SearchScope::Subtree, filter: &filter, attributes };
            let groups = searches.all(query).await?.entries;
            for sid in sids {
                let group = groups.iter().find(|group| group.value("objectSid") == Some(sid));
                let name = group.and_then(|group| group.value("sAMAccountName")).map(<[u8]>::to_vec);
                self.sids.put(sid.to_vec(), name.clone());
                names.push(name);
            }
        }
        Ok(names.into_iter().flatten().collect())
    }

    /// Searches the groups that contain the user, then the groups that contain these, and so on.
    async fn by_members(
        &mut self,
        searches: Searches<'_>,
        user: &LdapEntry,
        username: Option<&[u8]>,
    ) -> Result<Vec<Vec<u8>>, LdapFault> {
        let mut filters = equals(MEMBER_DN, &std::iter::once(user.dn.as_slice()));
        filters.extend(username.into_iter().flat_map(|name| equals(&[MEMBER_NAME], &std::iter::once(name))));
        let mut level = self.search(searches, SearchFilter::Or(filters)).await?;
        let mut seen: BTreeSet<usize> = level.iter().copied().collect();
        for depth in 0.. {
            if level.is_empty() {
                break;
            }
            if depth >= MAX_DEPTH {
                let text = format!("more than {MAX_DEPTH} groups above {} contain one another; use fewer", user.name());
                return Err(searches.limit(&text));
            }
            let mut next = Vec::new();
            for group in level {
                for parent in self.parents(searches, group).await? {
                    if seen.insert(parent) {
                        next.push(parent);
                    }
                }
                if seen.len() > MAX_GROUPS {
                    return Err(too_many(searches, user));
                }
            }
            level = next;
        }
        Ok(seen.into_iter().filter_map(|index| self.found.get(index)).map(|group| group.name.clone()).collect())
    }

    /// Returns the groups that contain a group.
    async fn parents(&mut self, searches: Searches<'_>, group: usize) -> Result<Vec<usize>, LdapFault> {
        let Some(dn) = self.found.get(group).map(|group| group.dn.clone()) else { return Ok(Vec::new()) };
        if let Some(known) = self.parents.get(&dn) {
            return Ok(known.clone());
        }
        let filter = SearchFilter::Or(equals(MEMBER_DN, &std::iter::once(dn.as_slice())));
        let parents = self.search(searches, filter).await?;
        self.parents.insert(dn, parents.clone());
        Ok(parents)
    }

    /// Searches groups, and returns their indexes.
    async fn search(&mut self, searches: Searches<'_>, filter: SearchFilter) -> Result<Vec<usize>, LdapFault> {
        let base = self.settings.base.as_bytes();
        let attributes = &["cn"];
        let query = Query { base, scope: SearchScope::Subtree, filter: &filter, attributes };
        let mut indexes = Vec::new();
        for entry in searches.all(query).await?.entries {
            let key = entry.dn.to_ascii_lowercase();
            let index = *self.indexes.entry(key).or_insert_with(|| {
                let name = entry.value("cn").unwrap_or_default().to_vec();
                self.found.push(Group { dn: entry.dn.clone(), name });
                self.found.len() - 1
            });
            indexes.push(index);
        }
        Ok(indexes)
    }

    /// Reads the names from the DNs in `memberOf`.
    fn by_member_of(&self, searches: Searches<'_>, user: &LdapEntry) -> Result<Vec<Vec<u8>>, LdapFault> {
        if user.is_partial("memberOf") {
            return Err(too_many(searches, user));
        }
        let base = self.settings.base.to_ascii_lowercase();
        let is_below = |dn: &&Vec<u8>| {
            let dn = dn.to_ascii_lowercase();
            base.is_empty() || dn.strip_suffix(base.as_bytes()).is_some_and(|rest| rest.ends_with(b","))
        };
        Ok(user.values("memberOf").iter().filter(is_below).filter_map(|dn| first_value(dn)).collect())
    }
}

fn too_many(searches: Searches<'_>, user: &LdapEntry) -> LdapFault {
    let text = format!("{} has more than {MAX_GROUPS} groups; narrow groups.base", user.name());
    searches.limit(&text)
}

/// Returns comparisons of each attribute with each value.
pub(crate) fn equals<'v>(attributes: &[&str], values: &(impl Iterator<Item = &'v [u8]> + Clone)) -> Vec<SearchFilter> {
    let attributes = attributes.iter().filter_map(|name| AttributeName::parse(name));
    attributes
        .flat_map(|name| values.clone().map(move |value| SearchFilter::Equal(name.clone(), value.to_vec())))
        .collect()
}

/// Returns the filter for entries with an attribute.
pub(crate) fn present(attribute: &str) -> SearchFilter {
    AttributeName::parse(attribute).map_or_else(|| SearchFilter::Or(Vec::new()), SearchFilter::Present)
}

/// Returns the value of the first attribute of a DN (RFC 4514). Returns `None` if it is encoded in
/// hexadecimal.
fn first_value(dn: &[u8]) -> Option<Vec<u8>> {
    let start = dn.iter().position(|byte| *byte == b'=')? + 1;
    let mut value = Vec::new();
    let mut bytes = dn.get(start..)?.iter().copied().peekable();
    if bytes.peek() == Some(&b'#') {
        return None;
    }
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'+' => break,
            b'\\' => {
                let first = bytes.next()?;
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                match (digit(first), bytes.peek().copied().and_then(digit)) {
                    (Some(high), Some(low)) => {
                        bytes.next();
                        value.push(high << 4 | low);
                    }
                    _ => value.push(first),
                }
            }
            byte => value.push(byte),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_group_is_read_from_its_dn() {
        for (dn, name) in [
            (&b"cn=staff,ou=groups,dc=x"[..], &b"staff"[..]),
            (b"CN=Smith\\, John,DC=x", b"Smith, John"),
            (b"cn=\\c3\\96l+ou=x,dc=y", "Öl".as_bytes()),
            (b"cn=a\\\\b", b"a\\b"),
            (b"cn=a\\+b", b"a+b"),
        ] {
            assert_eq!(first_value(dn).as_deref(), Some(name));
        }
        for dn in [&b"staff"[..], b"cn=#04024869", b"cn=a\\"] {
            assert_eq!(first_value(dn), None);
        }
    }
}
