//! Determines the access counters that a commit increments, from the records that it writes and
//! deletes.
//!
//! Only this module determines the counters. Therefore no caller can revoke access without
//! incrementing a counter.
//!
//! A new record revokes no access, unless the record is itself a revocation. Other new records
//! increment no counter, unless a cache can also contain the absence of the record. If the effect
//! of a change is not known, more counters than necessary are incremented.
//!
//! The counter of a user also moves with changes that the console's list of users shows: a new user,
//! another kind of factor, another state of the invitation.

use std::collections::{BTreeSet, HashSet};

use serde::de::DeserializeOwned;

use crate::engine::{Changes, Counter, Expect, Key, Value};
use crate::format::table::Table;
use crate::format::{record, table};
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::app_password::AppPasswords;
use sealgate_domain::factors::Factors;
use sealgate_domain::grant::Grant;
use sealgate_domain::session::{AppSession, Session, SignIn};
use sealgate_domain::user::Subject;

/// Returns the number of the counter for this user's records.
pub(super) fn counter_of_user(subject: Subject) -> u8 {
    let [.., last] = *subject.as_bytes();
    last
}

/// Returns the counters that these changes increment.
pub(super) fn moves(changes: &Changes) -> Vec<Counter> {
    let mut moves = Vec::new();
    // An import has tens of thousands of changes. Searching the expectations for each change would
    // take seconds.
    let absent: HashSet<&Key> = changes
        .expect
        .iter()
        .filter_map(|expect| match expect {
            Expect::Absent(key) => Some(key),
            Expect::Value(..) => None,
        })
        .collect();
    for (key, value) in &changes.put {
        if !is_new(&absent, key) {
            of_put(key, (absent.contains(key), before(changes, key)), value, &mut moves);
        }
    }
    for key in &changes.delete {
        of_delete(key, before(changes, key), &mut moves);
    }
    moves.sort_unstable();
    moves.dedup();
    moves
}

/// Returns true if the commit creates this record and no cached decision can depend on the record's
/// absence.
///
/// The gateway also caches that a user has no credential for an application. Therefore the first
/// credential of a user increments the counter. The console's list of users depends on users, factors
/// and invitations.
fn is_new(absent: &HashSet<&Key>, key: &Key) -> bool {
    let matters = matches!(
        table_of(key),
        Some(Table::RevokedToken | Table::AppCredentials | Table::User | Table::Factors | Table::AccountLinks)
    );
    !matters && absent.contains(key)
}

/// Returns whether the changes add a user.
pub(super) fn adds_users(changes: &Changes) -> bool {
    changes.expect.iter().any(|expect| match expect {
        Expect::Absent(key) => table_of(key) == Some(Table::User),
        Expect::Value(..) => false,
    })
}

/// Returns the previous bytes of the record, if an expectation contains them.
fn before<'c>(changes: &'c Changes, key: &Key) -> Option<&'c Value> {
    changes.expect.iter().find_map(|expect| match expect {
        Expect::Value(known, value) if known == key => Some(value),
        _ => None,
    })
}

fn table_of(key: &[u8]) -> Option<Table> {
    key.first().copied().and_then(Table::from_byte)
}

/// `is_absent` and `before` are what the commit expects of the record: that there is none, or its
/// bytes.
fn of_put(key: &Key, (is_absent, before): (bool, Option<&Value>), after: &Value, moves: &mut Vec<Counter>) {
    match table_of(key) {
        Some(Table::Factors) => {
            let listed = |factors: Factors| (factors.strongest(), factors.reset.is_some());
            of_listed(key, (is_absent, before), after, listed, moves);
        }
        Some(Table::AccountLinks) => {
            let listed = |links: AccountLinks| links.invitation;
            of_listed(key, (is_absent, before), after, listed, moves);
        }
        Some(Table::User | Table::AppCredentials) => moves.push(of_key(key)),
        Some(Table::AppPasswords) => of_app_passwords(key, before, after, moves),
        Some(Table::Client) => moves.push(Counter::Clients),
        Some(Table::Session) => of_session(key, before, Some(after), moves),
        Some(Table::AppSession) => moves.push(owner(key, before, |session: &AppSession| session.subject)),
        // The rotation of a refresh token revokes nothing, and it is frequent.
        Some(Table::Grant) if read::<Grant>(key, after).is_some_and(|grant| grant.is_active()) => {}
        Some(Table::Grant) => moves.push(owner(key, before, |grant: &Grant| grant.subject)),
        Some(Table::Meta) => moves.extend(is_of_key_ring(key).then_some(Counter::Keys)),
        // Nodes cache which features clients need.
        Some(Table::Index) => moves.extend(table::is_of_client_features(key).then_some(Counter::Clients)),
        Some(
            Table::Code
            | Table::Expiry
            | Table::Interaction
            | Table::Audit
            | Table::Consent
            | Table::Once
            | Table::Form
            | Table::KnownBrowsers
            | Table::Credential
            | Table::SignInAttempt
            | Table::Email
            | Table::Username
            | Table::SourceLink
            | Table::Outbox
            | Table::DeadMail
            | Table::SentMail
            | Table::NoticeCount
            | Table::PendingRegistration
            | Table::Revocation
            | Table::Submission
            | Table::ClientLogout
            | Table::ApiToken
            | Table::ClientLogo
            | Table::RegistrationToken,
        ) => {}
        Some(Table::RevokedToken) | None => moves.push(Counter::Everything),
    }
}

/// Returns whether the record is a part of the key ring.
fn is_of_key_ring(key: &Key) -> bool {
    *key == table::key_ring() || *key == table::further_keys()
}

fn of_delete(key: &Key, before: Option<&Value>, moves: &mut Vec<Counter>) {
    match table_of(key) {
        Some(Table::User | Table::AppPasswords | Table::AppCredentials | Table::Factors | Table::AccountLinks) => {
            moves.push(of_key(key));
        }
        Some(Table::Client) => moves.push(Counter::Clients),
        Some(Table::Session) => of_session(key, before, None, moves),
        Some(Table::AppSession) => moves.push(owner(key, before, |session: &AppSession| session.subject)),
        Some(Table::Grant) => moves.push(owner(key, before, |grant: &Grant| grant.subject)),
        Some(Table::Meta) => moves.extend(is_of_key_ring(key).then_some(Counter::Keys)),
        // Nodes cache which features clients need.
        Some(Table::Index) => moves.extend(table::is_of_client_features(key).then_some(Counter::Clients)),
        // No cached decision depends on the other tables. Codes, forms and consents are not cached.
        // Access under a consent ends with its grant. Deleting the revocation of a token restores
        // no access, because the token has expired.
        Some(
            Table::RevokedToken
            | Table::Code
            | Table::Expiry
            | Table::Interaction
            | Table::Audit
            | Table::Consent
            | Table::Once
            | Table::Form
            | Table::KnownBrowsers
            | Table::Credential
            | Table::SignInAttempt
            | Table::Email
            | Table::Username
            | Table::SourceLink
            | Table::Outbox
            | Table::DeadMail
            | Table::SentMail
            | Table::NoticeCount
            | Table::PendingRegistration
            | Table::Revocation
            | Table::Submission
            | Table::ClientLogout
            | Table::ApiToken
            | Table::ClientLogo
            | Table::RegistrationToken,
        ) => {}
        None => moves.push(Counter::Everything),
    }
}

/// Returns the users whose access these changes are about: whose sessions, grants, consents, credentials,
/// links or revocations they write or delete.
pub(super) fn owners(changes: &Changes) -> BTreeSet<Subject> {
    let mut owners = BTreeSet::new();
    let puts = changes.put.iter().map(|(key, value)| (key, Some(value)));
    for (key, after) in puts.chain(changes.delete.iter().map(|key| (key, None))) {
        let versions: Vec<&Value> = before(changes, key).into_iter().chain(after).collect();
        match table_of(key) {
            Some(
                Table::Factors
                | Table::AppPasswords
                | Table::AppCredentials
                | Table::Consent
                | Table::KnownBrowsers
                | Table::AccountLinks
                | Table::Revocation,
            ) => owners.extend(key.get(1..17).and_then(|bytes| bytes.try_into().ok()).map(Subject::from_bytes)),
            Some(Table::Session) => {
                let sessions = versions.iter().filter_map(|bytes| read::<Session>(key, bytes));
                owners.extend(sessions.flat_map(|session| session.sign_ins).map(|sign_in| sign_in.subject));
            }
            Some(Table::AppSession) => owners.extend(
                versions.iter().filter_map(|bytes| read::<AppSession>(key, bytes)).map(|session| session.subject),
            ),
            Some(Table::Grant) => {
                owners.extend(versions.iter().filter_map(|bytes| read::<Grant>(key, bytes)).map(|grant| grant.subject));
            }
            _ => {}
        }
    }
    owners
}

/// Increments the user's counter if an application password was removed. Adding or using an
/// application password revokes nothing.
fn of_app_passwords(key: &Key, before: Option<&Value>, after: &Value, moves: &mut Vec<Counter>) {
    let before = before.and_then(|bytes| read::<AppPasswords>(key, bytes));
    let after = read::<AppPasswords>(key, after);
    let stay = before.zip(after).is_some_and(|(before, after)| before.are_among(&after));
    if !stay {
        moves.push(of_key(key));
    }
}

/// Increments the user's counter if the console's list of users shows something else than before.
fn of_listed<T: DeserializeOwned, L: PartialEq + Default>(
    key: &Key,
    (is_absent, before): (bool, Option<&Value>),
    after: &Value,
    listed: impl Fn(T) -> L,
    moves: &mut Vec<Counter>,
) {
    let before = if is_absent { Some(L::default()) } else { before.and_then(|bytes| read(key, bytes)).map(&listed) };
    if before.is_none() || before != read(key, after).map(listed) {
        moves.push(of_key(key));
    }
}

/// Increments counters if more than the time of last use and the tokens of OpenID providers has
/// changed, for instance the selected user or the cookie. The time of last use changes every minute,
/// tokens change at each background read, and both revoke nothing.
fn of_session(key: &Key, before: Option<&Value>, after: Option<&Value>, moves: &mut Vec<Counter>) {
    let before = before.and_then(|bytes| read::<Session>(key, bytes));
    let after = after.and_then(|bytes| read::<Session>(key, bytes));
    let Some(before) = before else {
        moves.push(Counter::Everything);
        return;
    };
    let used = |after: &Session| without_use(after) == without_use(&before);
    if after.as_ref().is_some_and(used) {
        return;
    }
    let people = before.sign_ins.iter().chain(after.iter().flat_map(|after| &after.sign_ins));
    moves.extend(people.map(|sign_in| Counter::User(counter_of_user(sign_in.subject))));
}

/// Returns the session without the parts that no access depends on. Clients that receive logout
/// tokens are such a part.
fn without_use(session: &Session) -> Session {
    let sign_ins = session.sign_ins.iter().map(SignIn::without_upstream).collect();
    Session { last_seen_at: session.created_at, sign_ins, clients: Vec::new(), ..session.clone() }
}

/// Returns the counter of the user whose identifier is at the end of this key.
fn of_key(key: &[u8]) -> Counter {
    key.last().map_or(Counter::Everything, |byte| Counter::User(*byte))
}

/// Returns the counter of the record's owner, or [`Counter::Everything`] if the owner is unknown.
fn owner<T: DeserializeOwned>(key: &Key, before: Option<&Value>, subject: impl Fn(&T) -> Subject) -> Counter {
    let record = before.and_then(|bytes| read::<T>(key, bytes));
    record.map_or(Counter::Everything, |record| Counter::User(counter_of_user(subject(&record))))
}

fn read<T: DeserializeOwned>(key: &Key, bytes: &Value) -> Option<T> {
    record::decode(key, bytes.clone()).ok().map(|loaded| loaded.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_domain::app_password::AppPassword;
    use sealgate_domain::assurance::{AssuranceLevel, FactorId};
    use sealgate_domain::client::ClientId;
    use sealgate_domain::factors::TotpFactor;
    use sealgate_domain::secret::{Sealed, SecretHash};
    use sealgate_domain::time::UnixTime;
    use sealgate_domain::webauthn::UserHandle;

    fn anna() -> Key {
        table::user(Subject::from_random([7; 16]))
    }

    fn put(key: Key) -> Changes {
        Changes { put: vec![(key, b"?".to_vec())], ..Changes::default() }
    }

    fn new(key: Key) -> Changes {
        Changes { expect: vec![Expect::Absent(key.clone())], ..put(key) }
    }

    fn delete(key: Key) -> Changes {
        Changes { delete: vec![key], ..Changes::default() }
    }

    #[test]
    fn new_records_increment_no_counter_except_users_and_revocations() {
        let client = table::client(&ClientId::parse("wiki").unwrap());
        assert_eq!(moves(&new(anna())), [Counter::User(7)]);
        assert_eq!(moves(&new(client.clone())), []);
        assert_eq!(moves(&put(anna())), [Counter::User(7)]);
        assert_eq!(moves(&put(client.clone())), [Counter::Clients]);
        assert_eq!(moves(&delete(anna())), [Counter::User(7)]);
        assert_eq!(moves(&delete(client)), [Counter::Clients]);
        assert_eq!(moves(&put(table::key_ring())), [Counter::Keys]);
        assert_eq!(moves(&put(table::further_keys())), [Counter::Keys]);
        assert_eq!(moves(&put(table::data_key("one"))), []);
        let token = table::revoked_token("jti");
        assert_eq!(moves(&new(token.clone())), [Counter::Everything]);
        assert_eq!(moves(&put(token.clone())), [Counter::Everything]);
        assert_eq!(moves(&delete(token)), []);
    }

    /// If the previous record is missing or unreadable, increments [`Counter::Everything`].
    #[test]
    fn unknown_previous_records_increment_every_counter() {
        let session = vec![Table::Session as u8, 1];
        let of_app = vec![Table::AppSession as u8, 1];
        let grant = vec![Table::Grant as u8, 1];
        for key in [session, of_app, grant, vec![0xff], Vec::new()] {
            assert_eq!(moves(&put(key.clone())), [Counter::Everything], "{key:?}");
            assert_eq!(moves(&delete(key.clone())), [Counter::Everything], "{key:?}");
            let known = vec![Expect::Value(key.clone(), b"broken".to_vec())];
            assert_eq!(moves(&Changes { expect: known, ..delete(key) }), [Counter::Everything]);
        }
    }

    #[test]
    fn removing_an_application_password_increments_the_counter_but_using_it_does_not() {
        let subject = Subject::from_random([7; 16]);
        let key = table::app_passwords(subject);
        let made = |number: u8, last_used_at| AppPassword {
            last_used_at,
            ..AppPassword::new("wiki", "git", AssuranceLevel::One, &[number; 20], UnixTime::from_seconds(1)).0
        };
        let record = |passwords: Vec<AppPassword>| record::encode(&AppPasswords { subject, passwords }).unwrap();
        let step = |before: Vec<AppPassword>, after: Vec<AppPassword>| Changes {
            expect: vec![Expect::Value(key.clone(), record(before))],
            put: vec![(key.clone(), record(after))],
            ..Changes::default()
        };
        let used = Some(UnixTime::from_seconds(9));
        assert_eq!(moves(&step(vec![made(1, None)], vec![made(1, used)])), []);
        assert_eq!(moves(&step(vec![made(1, None)], vec![made(1, None), made(2, None)])), []);
        assert_eq!(moves(&step(vec![made(1, None), made(2, None)], vec![made(2, None)])), [Counter::User(7)]);
        assert_eq!(moves(&step(vec![made(1, None)], vec![made(2, None)])), [Counter::User(7)]);
        assert_eq!(moves(&new(key.clone())), []);
        assert_eq!(moves(&put(key.clone())), [Counter::User(7)]);
        assert_eq!(moves(&delete(key)), [Counter::User(7)]);
    }

    #[test]
    fn changes_that_the_list_of_users_shows_increment_the_counter() {
        let (subject, now) = (Subject::from_random([7; 16]), UnixTime::from_seconds(1));
        let app = TotpFactor {
            id: FactorId::from_bytes([1; 16]),
            name: "app".to_owned(),
            secret: Sealed::from_bytes(vec![1]),
            last_step: serde_json::from_str("1").unwrap(),
            added_at: now,
            last_used_at: None,
        };
        let none = Factors::none(subject, UserHandle::from_random([1; 32]));
        let (mut one, mut used) = (none.clone(), none.clone());
        one.totp.push(app.clone());
        used.totp.push(TotpFactor { last_used_at: Some(now), ..app });
        let key = table::factors(subject);
        let step = |before: Option<&Factors>, after: &Factors| {
            let expect = match before {
                Some(before) => Expect::Value(key.clone(), record::encode(before).unwrap()),
                None => Expect::Absent(key.clone()),
            };
            let put = vec![(key.clone(), record::encode(after).unwrap())];
            moves(&Changes { expect: vec![expect], put, ..Changes::default() })
        };
        assert_eq!(step(None, &one), [Counter::User(7)]);
        assert_eq!(step(None, &none), []);
        assert_eq!(step(Some(&one), &none), [Counter::User(7)]);
        // The use of a factor changes nothing in the list.
        assert_eq!(step(Some(&one), &used), []);
        for key in [key.clone(), table::account_links(subject)] {
            assert_eq!(moves(&put(key.clone())), [Counter::User(7)]);
            assert_eq!(moves(&delete(key)), [Counter::User(7)]);
        }
    }

    #[test]
    fn every_change_of_credentials_at_applications_increments_the_counter_of_the_user() {
        let key = table::app_credentials(Subject::from_random([7; 16]));
        for changes in [new(key.clone()), put(key.clone()), delete(key)] {
            assert_eq!(moves(&changes), [Counter::User(7)], "{changes:?}");
        }
    }

    #[test]
    fn uncached_records_increment_no_counter() {
        let hash = SecretHash::for_secret(b"x");
        for key in [
            table::code(&hash),
            table::once(&hash),
            table::email(&hash),
            table::username(&hash),
            table::expiry(UnixTime::from_seconds(0), b"g"),
        ] {
            assert_eq!(moves(&put(key.clone())), []);
            assert_eq!(moves(&delete(key)), []);
        }
    }
}
