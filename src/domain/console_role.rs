//! Roles of users in the console, and what the roles may read and change.

/// Role of a user in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsoleRole {
    /// Reads and changes everything.
    Administrator,
    /// Reads everything, and changes nothing.
    Auditor,
    /// Manages the users of certain groups.
    UserManager,
    /// Manages their own clients.
    Developer,
}

impl ConsoleRole {
    /// All roles, in the order of lists.
    pub const ALL: [Self; 4] = [Self::Administrator, Self::Auditor, Self::UserManager, Self::Developer];

    /// Returns the name in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Administrator => "admin",
            Self::Auditor => "auditor",
            Self::UserManager => "user-manager",
            Self::Developer => "developer",
        }
    }

    /// Parses the name in queries.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// Set of console roles. A user can have several; what any of them permits is permitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsoleRoles(u8);

impl ConsoleRoles {
    /// No role: the user has no access to the console.
    pub const NONE: Self = Self(0);
    /// Every role.
    pub const ANY: Self = Self::new(&ConsoleRole::ALL);
    /// Roles that change everything.
    pub const ADMINISTRATORS: Self = Self::new(&[ConsoleRole::Administrator]);
    /// Roles that read every page.
    pub const READERS: Self = Self::new(&[ConsoleRole::Administrator, ConsoleRole::Auditor]);
    /// Roles that change users. User managers only change the users that they manage.
    pub const USER_EDITORS: Self = Self::new(&[ConsoleRole::Administrator, ConsoleRole::UserManager]);
    /// Roles that read users. User managers only read the users that they manage.
    pub const USER_READERS: Self = Self(Self::USER_EDITORS.0 | Self::READERS.0);
    /// Roles that change clients. Developers only change their own.
    pub const CLIENT_EDITORS: Self = Self::new(&[ConsoleRole::Administrator, ConsoleRole::Developer]);
    /// Roles that read clients. Developers only read their own.
    pub const CLIENT_READERS: Self = Self(Self::CLIENT_EDITORS.0 | Self::READERS.0);

    /// Creates a set of these roles.
    pub const fn new(roles: &[ConsoleRole]) -> Self {
        let (mut bits, mut rest) = (0, roles);
        while let [role, others @ ..] = rest {
            bits |= 1 << *role as u8;
            rest = others;
        }
        Self(bits)
    }

    /// Returns whether the set has this role.
    pub const fn has(self, role: ConsoleRole) -> bool {
        self.0 & (1 << role as u8) != 0
    }

    /// Returns whether the set has one of these roles.
    pub const fn has_any(self, roles: Self) -> bool {
        self.0 & roles.0 != 0
    }

    /// Returns whether the set has all of these roles.
    pub const fn has_all(self, roles: Self) -> bool {
        self.0 & roles.0 == roles.0
    }

    /// Returns whether these roles permit everything that the others permit.
    pub const fn covers(self, others: Self) -> bool {
        self.is_administrator() || self.has_all(others)
    }

    /// Returns whether the set has no role.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set with this role.
    #[must_use]
    pub const fn with(self, role: ConsoleRole) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    /// Returns the roles of the set, in the order of [`ConsoleRole::ALL`].
    pub fn roles(self) -> impl Iterator<Item = ConsoleRole> {
        ConsoleRole::ALL.into_iter().filter(move |role| self.has(*role))
    }

    /// Returns whether the roles read every page.
    pub const fn reads_everything(self) -> bool {
        self.has_any(Self::READERS)
    }

    /// Returns whether the roles change everything.
    pub const fn is_administrator(self) -> bool {
        self.has_any(Self::ADMINISTRATORS)
    }
}

impl FromIterator<ConsoleRole> for ConsoleRoles {
    fn from_iter<T: IntoIterator<Item = ConsoleRole>>(roles: T) -> Self {
        roles.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_roles_that_it_was_made_of() {
        let roles = [ConsoleRole::Developer, ConsoleRole::Auditor];
        let set = ConsoleRoles::new(&roles);
        assert_eq!(set, roles.into_iter().collect());
        assert_eq!(set.roles().collect::<Vec<_>>(), [ConsoleRole::Auditor, ConsoleRole::Developer]);
        assert!(set.has_all(ConsoleRoles::new(&[ConsoleRole::Developer])) && !set.has_all(ConsoleRoles::ANY));
        assert!(set.reads_everything() && !set.is_administrator() && !set.has_any(ConsoleRoles::USER_EDITORS));
        assert!(ConsoleRoles::NONE.is_empty() && ConsoleRoles::ANY.has_all(set.with(ConsoleRole::UserManager)));
    }

    #[test]
    fn every_role_has_a_name() {
        assert!(ConsoleRole::ALL.iter().all(|role| ConsoleRole::parse(role.as_str()) == Some(*role)));
        assert_eq!(ConsoleRole::parse("operator"), None);
    }
}
