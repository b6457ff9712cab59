//! E-mail addresses and usernames: each belongs to one user, also under races.

use std::sync::Arc;

use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_domain::username::Username;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::{AddOutcome, RenameOutcome, Store};

use crate::records;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn person(number: u8, email: &str, username: Option<&str>) -> User {
    let username = username.map(|name| Username::parse(name).unwrap());
    User { username, ..records::person(number, email, "Anna", NOW) }
}

async fn empty() -> Store {
    Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap()
}

fn call(username: &str) -> impl Fn(&mut User) + Send + use<> {
    let username = Username::parse(username);
    move |user: &mut User| user.username.clone_from(&username)
}

#[tokio::test]
async fn a_name_identifies_one_user() {
    let store = empty().await;
    let anna = person(1, "anna@example.test", Some("anna"));
    assert_eq!(store.add_user(&anna).await.unwrap(), AddOutcome::Added);
    for other in [person(2, "ANNA@example.test", None), person(2, "b@example.test", Some("anna"))] {
        assert_eq!(store.add_user(&other).await.unwrap(), AddOutcome::Exists);
        assert_eq!(store.user(other.sub).await.unwrap(), None);
    }
    let ben = person(3, "ben@example.test", None);
    assert_eq!(store.add_user(&ben).await.unwrap(), AddOutcome::Added);
    assert_eq!(store.rename_user(ben.sub, call("anna")).await.unwrap(), RenameOutcome::UsernameTaken);
    let to_anna = |user: &mut User| user.email = Email::parse("Anna@example.test");
    assert_eq!(store.rename_user(ben.sub, to_anna).await.unwrap(), RenameOutcome::EmailTaken);
    assert_eq!(store.user(ben.sub).await.unwrap(), Some(ben.clone()));
    // A change without renaming affects neither.
    store.change_user(ben.sub, call("ben")).await.unwrap();
    assert_eq!(store.user_by_username(&Username::parse("ben").unwrap()).await.unwrap(), None);
    // Another spelling of the user's own address is the same address.
    assert!(matches!(store.rename_user(anna.sub, to_anna).await.unwrap(), RenameOutcome::Renamed(_)));
    assert_eq!(store.user_by_sign_in_name("anna@example.test").await.unwrap().unwrap().sub, anna.sub);
    store.delete_user(anna.sub, NOW).await.unwrap();
    assert_eq!(store.rename_user(anna.sub, call("x")).await.unwrap(), RenameOutcome::Absent);
    assert!(matches!(store.rename_user(ben.sub, call("anna")).await.unwrap(), RenameOutcome::Renamed(_)));
}

#[tokio::test]
async fn concurrent_claims_of_a_name_succeed_once() {
    let store = Arc::new(empty().await);
    for number in 0..8 {
        let user = person(number, &format!("p{number}@example.test"), None);
        assert_eq!(store.add_user(&user).await.unwrap(), AddOutcome::Added);
    }
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(
                async move { store.rename_user(Subject::from_random([number; 16]), call("boss")).await.unwrap() },
            )
        })
        .collect();
    let mut renamed = Vec::new();
    for task in tasks {
        if let RenameOutcome::Renamed(user) = task.await.unwrap() {
            renamed.push(user.sub);
        }
    }
    assert_eq!(renamed.len(), 1);
    assert_eq!(store.user_by_sign_in_name("BOSS").await.unwrap().unwrap().sub, renamed[0]);
}

#[tokio::test]
async fn several_users_are_added_together_or_not_at_all() {
    let store = empty().await;
    let anna = person(1, "anna@example.test", Some("anna"));
    assert_eq!(store.add_user(&anna).await.unwrap(), AddOutcome::Added);
    let (ben, carol) = (person(2, "ben@example.test", None), person(3, "carol@example.test", Some("carol")));
    for third in [
        person(4, "Anna@example.test", None),
        person(4, "dan@example.test", Some("anna")),
        // Duplicates within the request.
        person(4, "BEN@example.test", None),
        person(4, "dan@example.test", Some("carol")),
        person(2, "dan@example.test", None),
    ] {
        let users = [ben.clone(), carol.clone(), third];
        assert_eq!(store.add_users(&users).await.unwrap(), AddOutcome::Exists);
        assert_eq!(store.users(None, 10).await.unwrap(), std::slice::from_ref(&anna));
        assert_eq!(store.user_by_sign_in_name("ben@example.test").await.unwrap(), None);
    }
    let many: Vec<User> = (2..250).map(|number| person(number, &format!("p{number}@example.test"), None)).collect();
    assert_eq!(store.add_users(&many).await.unwrap(), AddOutcome::Added);
    assert_eq!(store.users(None, 500).await.unwrap().len(), 249);
    assert_eq!(store.user_by_sign_in_name("p7@example.test").await.unwrap().unwrap().sub, many[5].sub);
}
