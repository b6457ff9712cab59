//! `[factors]`: required assurance levels and the enrolment deadline.

use std::collections::BTreeMap;

use serde::Serialize;

use sealgate_domain::assurance::{AssuranceLevel, LevelPolicy};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;

/// `[factors]`: assurance levels that sign-ins must reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FactorsConfig {
    /// Level that all users must reach.
    pub level: AssuranceLevel,
    /// Levels that members of groups must reach, by the name of the group.
    pub groups: BTreeMap<String, AssuranceLevel>,
    /// End of the period in which users without a second factor may sign in with only a password.
    /// `None` if there is no such period.
    pub enrol_by: Option<UnixTime>,
    pub enrolment: EnrolmentChoice,
    /// Host to which security keys and passkeys are bound (WebAuthn's RP ID). `None` means the
    /// current host of the issuer. Set if the issuer has moved and old keys must continue to work.
    pub rp_id: Option<String>,
    /// Former host of the issuer. Set if the operator accepts that security keys and passkeys that
    /// were registered for this host stop working.
    pub abandon_keys_of: Option<String>,
}

/// How users get their first factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EnrolmentChoice {
    /// The user adds the factor during a sign-in, after the password.
    InSignIn,
    /// The user opens an enrolment link from an administrator, so that a stolen password alone does
    /// not suffice to add a factor.
    ByLink,
}

impl FactorsConfig {
    /// Returns the level policy for sign-ins of this user.
    pub fn policy_for(&self, user: &User, now: UnixTime) -> LevelPolicy {
        LevelPolicy { level: self.level_for(user), may_postpone: !self.enrolment_is_due(now) }
    }

    /// Returns the level that applies to the user: the highest of the general level and the levels
    /// of the user's groups.
    pub fn level_for(&self, user: &User) -> AssuranceLevel {
        let groups = user.all_groups().filter_map(|group| self.groups.get(group));
        groups.copied().fold(self.level, AssuranceLevel::max)
    }

    /// Returns whether users can no longer postpone adding a required factor.
    pub(crate) fn enrolment_is_due(&self, now: UnixTime) -> bool {
        self.enrol_by.is_none_or(|end| end <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_domain::user::{Email, ManagerDecisions, Subject, UserState};

    fn user(groups: &[&str]) -> User {
        User {
            sub: Subject::from_random([7; 16]),
            email: Email::parse("anna@example.test"),
            username: None,
            email_verified: true,
            name: "Anna".to_owned(),
            phone_number: None,
            picture: None,
            roles: [].into(),
            groups: groups.iter().map(ToString::to_string).collect(),
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
    fn the_highest_level_of_the_users_groups_applies() {
        let (one, two, three) = (AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        let groups = BTreeMap::from([("staff".to_owned(), two), ("admins".to_owned(), three)]);
        let mut factors = FactorsConfig {
            level: one,
            groups,
            enrol_by: None,
            enrolment: EnrolmentChoice::InSignIn,
            rp_id: None,
            abandon_keys_of: None,
        };
        for (groups, level) in
            [(&[][..], one), (&["guests"], one), (&["Admins"], one), (&["staff"], two), (&["admins", "staff"], three)]
        {
            assert_eq!(factors.level_for(&user(groups)), level, "{groups:?}");
        }
        factors.level = two;
        assert_eq!([&["guests"], &["admins"]].map(|groups| factors.level_for(&user(groups))), [two, three]);
    }

    #[test]
    fn enrolment_cannot_be_postponed_beyond_the_day() {
        let end = UnixTime::from_seconds(1000);
        let groups = BTreeMap::new();
        let factors = |enrol_by| FactorsConfig {
            level: AssuranceLevel::Two,
            groups: groups.clone(),
            enrol_by,
            enrolment: EnrolmentChoice::InSignIn,
            rp_id: None,
            abandon_keys_of: None,
        };
        assert!(factors(None).enrolment_is_due(UnixTime::from_seconds(0)));
        assert!(!factors(Some(end)).enrolment_is_due(UnixTime::from_seconds(999)));
        assert!(factors(Some(end)).enrolment_is_due(end));
    }
}
