//! Link to a source that a local user is about to add on the account page.
//!
//! The user has signed in here, proves the account at the source, and confirms the link, in one
//! session. The record of the user's links and codes has at most one pending link, and a new one
//! replaces it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account_links::AccountMark;
use crate::secret::SecretHash;
use crate::source::{SourceEntry, SourceName};
use crate::time::UnixTime;
use crate::upstream_trip::{BegunTrip, UpstreamProblem};
use crate::user::User;

/// Time in which the user proves the account, and in which the user then confirms the link.
pub const LINK_LIFE: Duration = Duration::from_mins(10);

/// Link that is not confirmed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingLink {
    pub source: SourceName,
    /// Session in which the user began: see [`Session::under_its_cookie`](crate::session::Session).
    pub session: SecretHash,
    /// Password and address of the user when the user began.
    pub account: AccountMark,
    pub step: LinkStep,
    pub expires_at: UnixTime,
}

/// Progress of a pending link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkStep {
    /// The browser has left for the OpenID provider.
    Begun(BegunTrip),
    /// The provider has not identified the user. The page reports the problem.
    Failed(UpstreamProblem),
    /// The user has proven this account at the source. The confirmation is outstanding.
    Proven(Box<SourceEntry>),
}

impl PendingLink {
    /// Creates a pending link of a user in this session.
    pub fn new(source: &SourceName, session: SecretHash, user: &User, step: LinkStep, now: UnixTime) -> Self {
        let account = AccountMark::from_user(user);
        Self { source: source.clone(), session, account, step, expires_at: now.plus(LINK_LIFE) }
    }

    /// Returns whether the link can still be added in this session.
    ///
    /// A changed password, address or session ends it, and so does another link.
    pub(crate) fn is_open(&self, session: SecretHash, user: &User, now: UnixTime) -> bool {
        self.session == session
            && self.account == AccountMark::from_user(user)
            && now < self.expires_at
            && user.is_enabled()
            && user.source.is_none()
    }

    /// Returns the account that the user has proven.
    pub fn proven(&self) -> Option<&SourceEntry> {
        if let LinkStep::Proven(entry) = &self.step { Some(entry) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::account_links::AccountLinks;
    use crate::source::{SourceId, SourceState};
    use crate::user::{Email, PasswordHash, Subject, UserState};

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn name(text: &str) -> SourceName {
        SourceName::parse(text).unwrap()
    }

    fn entry() -> SourceEntry {
        SourceEntry {
            id: SourceId::from_bytes(b"anna").unwrap(),
            username: None,
            email: Email::parse("anna@acme.test"),
            email_verified: true,
            name: "Anna".to_owned(),
            phone_number: None,
            groups: BTreeSet::new(),
            state: SourceState::Enabled,
        }
    }

    fn anna() -> User {
        let password = Some(PasswordHash::new("$argon2id$1".to_owned()));
        User { source: None, password, ..entry().new_user(&name("acme"), Subject::from_random([1; 16]), None, at(1)) }
    }

    fn session(byte: u8) -> SecretHash {
        SecretHash::for_secret(&[byte])
    }

    fn begun() -> AccountLinks {
        let state = SecretHash::for_secret(b"state");
        let trip = BegunTrip { source: name("acme"), state, at: at(1), keep: false };
        let pending = PendingLink::new(&name("acme"), session(1), &anna(), LinkStep::Begun(trip), at(1));
        AccountLinks { link: Some(pending), ..AccountLinks::none(anna().sub) }
    }

    #[test]
    fn a_link_is_open_for_its_session_and_unchanged_account_only() {
        let (links, last) = (begun(), at(1).plus(LINK_LIFE).seconds() - 1);
        assert!(links.open_link(session(1), &anna(), at(last)).is_some());
        assert!(links.open_link(session(1), &anna(), at(last + 1)).is_none());
        assert!(links.open_link(session(2), &anna(), at(2)).is_none());
        let source = entry().new_user(&name("other"), anna().sub, None, at(1)).source;
        let changed = [
            User { password: None, ..anna() },
            User { email: Email::parse("other@acme.test"), ..anna() },
            User { state: UserState::Disabled, ..anna() },
            User { source, ..anna() },
        ];
        for user in changed {
            assert!(links.open_link(session(1), &user, at(2)).is_none(), "{user:?}");
        }
        let mut taken_back = begun();
        taken_back.take_back();
        assert!(taken_back.is_empty());
    }

    #[test]
    fn a_trip_ends_once_and_only_with_its_provider_state_and_session() {
        let taken = |links: &mut AccountLinks, source: &str, state: &str, of: u8| {
            links.take_link_trip((&name(source), state), session(of), &anna(), at(2)).is_some()
        };
        let mut links = begun();
        assert!(!taken(&mut links, "other", "state", 1));
        assert!(!taken(&mut links, "acme", "other", 1));
        assert!(!taken(&mut links, "acme", "state", 2));
        assert_eq!(links, begun());
        assert!(taken(&mut links, "acme", "state", 1));
        assert!(links.is_empty() && !taken(&mut links, "acme", "state", 1));
    }
}
