//! Sets of supported scope values (RFC 6749 §3.3).
//!
//! Five values are always supported. An operator can also enable `groups` and grant it to
//! individual clients.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Supported scope value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeValue {
    OpenId,
    /// Grants `name`, `preferred_username`, `picture` and `updated_at`.
    Profile,
    /// Grants `email` and `email_verified`.
    Email,
    /// Grants `phone_number` and `phone_number_verified`.
    Phone,
    OfflineAccess,
    /// Grants `groups`.
    Groups,
}

impl ScopeValue {
    /// All values, in the order of the discovery document.
    pub const ALL: [Self; 6] =
        [Self::OpenId, Self::Profile, Self::Email, Self::Phone, Self::OfflineAccess, Self::Groups];

    /// Returns the value as sent in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenId => "openid",
            Self::Profile => "profile",
            Self::Email => "email",
            Self::Phone => "phone",
            Self::OfflineAccess => "offline_access",
            Self::Groups => "groups",
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// Set of scope values, written space-separated in a fixed order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Scope(u8);

impl Scope {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns the values that are always supported. They are the default of a client, and do not
    /// include `groups`.
    pub fn all() -> Self {
        Self(!ScopeValue::Groups.bit()).intersection(ScopeValue::ALL.into_iter().collect())
    }

    /// Parses a space-separated list (RFC 6749 §3.3). Repeated values count once.
    ///
    /// # Errors
    /// [`UnknownScope`] if a value is not supported.
    pub fn parse(text: &str) -> Result<Self, UnknownScope> {
        text.split(' ')
            .filter(|value| !value.is_empty())
            .map(|value| {
                let known = ScopeValue::ALL.into_iter().find(|known| known.as_str() == value);
                known.ok_or_else(|| UnknownScope::from_value(value))
            })
            .collect()
    }

    /// Parses a space-separated list. Returns the supported values, and the others in order.
    pub fn with_others(text: &str) -> (Self, Vec<&str>) {
        let is_other =
            |value: &&str| !value.is_empty() && !ScopeValue::ALL.iter().any(|known| known.as_str() == *value);
        (Self::known_in(text), text.split(' ').filter(is_other).collect())
    }

    /// Parses a space-separated list and ignores unsupported values.
    pub fn known_in(text: &str) -> Self {
        text.split(' ').filter_map(|value| ScopeValue::ALL.into_iter().find(|known| known.as_str() == value)).collect()
    }

    /// Returns whether the set contains this value.
    pub fn contains(self, value: ScopeValue) -> bool {
        self.0 & value.bit() != 0
    }

    /// Returns whether every value of this set is in `other`.
    pub fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the values that both scopes contain.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the values that at least one of the scopes contains.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set without this value.
    #[must_use]
    pub fn without(self, value: ScopeValue) -> Self {
        Self(self.0 & !value.bit())
    }

    /// Returns the set without the values of `other`.
    #[must_use]
    pub fn except(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the values, in the order of the discovery document.
    pub fn values(self) -> impl Iterator<Item = ScopeValue> {
        ScopeValue::ALL.into_iter().filter(move |value| self.contains(*value))
    }
}

/// Error: a scope list contains an unsupported value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the scopes are openid, profile, email, phone, offline_access and groups")]
pub struct UnknownScope(Option<String>);

impl UnknownScope {
    /// Maximum length of a scope value that an error repeats, in bytes.
    const MAX_VALUE_LENGTH: usize = 64;

    /// Creates the error for this value.
    pub fn from_value(value: &str) -> Self {
        // The permitted characters of RFC 6749 §3.3 exclude quotation mark and backslash, so an
        // error can repeat the value.
        let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        Self((value.len() <= Self::MAX_VALUE_LENGTH && value.bytes().all(is_valid)).then(|| value.to_owned()))
    }

    /// Returns the value if an error response may contain it without escaping.
    pub fn value(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromIterator<ScopeValue> for Scope {
    fn from_iter<I: IntoIterator<Item = ScopeValue>>(values: I) -> Self {
        Self(values.into_iter().fold(0, |bits, value| bits | value.bit()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.values().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(value.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({self})")
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_any_order_and_written_in_one() {
        let scope = Scope::parse("email  openid email").unwrap();
        assert_eq!(scope.to_string(), "openid email");
    }

    #[test]
    fn an_unknown_value_is_refused() {
        let unknown = |list: &str| Scope::parse(list).unwrap_err().value().map(str::to_owned);
        assert_eq!(unknown("openid foo:bar baz").as_deref(), Some("foo:bar"));
        assert_eq!(unknown("OpenID").as_deref(), Some("OpenID"));
        for odd in ["a\"b", "a\\b", "ş", "a\nb", &"x".repeat(65)] {
            assert_eq!(unknown(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn groups_are_not_given_by_default() {
        assert_eq!(Scope::all().to_string(), "openid profile email phone offline_access");
        assert_eq!(Scope::parse("groups openid").unwrap().to_string(), "openid groups");
    }

    #[test]
    fn sets_compare() {
        let narrow = Scope::parse("openid").unwrap();
        let wide = Scope::parse("openid email").unwrap();
        assert!(narrow.is_subset_of(wide) && !wide.is_subset_of(narrow));
    }
}
