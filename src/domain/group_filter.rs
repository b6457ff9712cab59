//! Groups that a client sees.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::profile::is_group;
use crate::user::User;

/// Maximum number of entries of a filter.
pub const MAX_VISIBLE_GROUPS: usize = 100;

/// Groups of users that a client sees with the scope `groups`. Each entry is a name, or the beginning
/// of names, followed by `*`. Without entries, the client sees all groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupFilter(BTreeSet<String>);

impl GroupFilter {
    /// Creates a filter from these entries.
    ///
    /// # Errors
    /// Returns the first invalid entry, or the number of entries if there are too many.
    pub fn parse<'t>(entries: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let entries: BTreeSet<String> = entries.into_iter().map(str::to_owned).collect();
        let is_valid = |entry: &&String| is_group(entry) && !entry.trim_end_matches('*').is_empty();
        if let Some(wrong) = entries.iter().find(|entry| !is_valid(entry)) {
            return Err(format!("{wrong:?} is not a group; write a name such as \"staff\", or \"wiki-*\""));
        }
        if entries.len() > MAX_VISIBLE_GROUPS {
            return Err(format!("there are more than {MAX_VISIBLE_GROUPS} entries; use the beginning of names and *"));
        }
        Ok(Self(entries))
    }

    /// Returns whether the client sees all groups.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries.
    pub fn entries(&self) -> &BTreeSet<String> {
        &self.0
    }

    /// Returns the groups of this user that the client sees.
    pub fn visible<'u>(&'u self, user: &'u User) -> impl Iterator<Item = &'u String> {
        user.all_groups().filter(|group| self.0.is_empty() || self.0.iter().any(|entry| matches(entry, group)))
    }
}

fn matches(entry: &str, group: &str) -> bool {
    entry.strip_suffix('*').map_or(entry == group, |beginning| group.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_or_its_beginning() {
        for (entry, group, expected) in [
            ("staff", "staff", true),
            ("staff", "staff-2", false),
            ("wiki-*", "wiki-editors", true),
            ("wiki-*", "wiki", false),
            ("wiki-*", "Wiki-editors", false),
            ("a*b", "axb", false),
            ("a*b", "a*b", true),
        ] {
            assert_eq!(matches(entry, group), expected, "{entry} {group}");
        }
        for wrong in ["", "*", "**", "a,b", " a"] {
            assert!(GroupFilter::parse([wrong]).is_err(), "{wrong:?}");
        }
        let many: Vec<String> = (0..=MAX_VISIBLE_GROUPS).map(|number| format!("g{number}")).collect();
        assert!(GroupFilter::parse(many.iter().map(String::as_str)).is_err());
        assert!(GroupFilter::parse(many.iter().skip(1).map(String::as_str)).is_ok());
    }
}
