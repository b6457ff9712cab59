//! Reads of known users.

use std::fmt::Write as _;

use sealgate_domain::source::{SourceId, SourceState};
use sealgate_domain::user::Email;
use sealgate_domain::username::Username;
use sealgate_ldap::LdapFaultKind;

use crate::directory::harness::{Keys, open, plain, set};
use crate::slapd::{BASE, Slapd, group, user};

#[tokio::test]
async fn a_renamed_user_keeps_the_id_and_a_new_user_with_the_address_is_another() {
    let server = Slapd::start(&(user("anna", "") + &group("staff", &["uid=anna,ou=people"])));
    let directory = plain(&server);
    let before = directory.enter("anna").await;
    assert_eq!(before.groups, set(&["corp:staff"]));

    server.change(&format!(
        "dn: uid=anna,ou=people,{BASE}\nchangetype: modrdn\nnewrdn: uid=anna2\ndeleteoldrdn: 1\n\n\
         dn: uid=anna2,ou=people,{BASE}\nchangetype: modify\nreplace: mail\nmail: other@example.test\n-\n\
         replace: displayName\ndisplayName: New Name\n"
    ));
    let read = directory.read(std::slice::from_ref(&before.id)).await.unwrap();
    let [(id, Some(after))] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((id, &after.id), (&before.id, &before.id));
    assert_eq!(after.username.as_ref().map(Username::as_str), Some("anna2"));
    assert_eq!(after.email.as_ref().map(Email::as_str), Some("other@example.test"));
    assert_eq!(after.name, "New Name");
    // The group still has the old DN.
    assert_eq!(after.groups, set(&[]));

    server.change(&format!("dn: uid=anna2,ou=people,{BASE}\nchangetype: delete\n\n"));
    server.change(&user("anna", "").replace("objectClass", "changetype: add\nobjectClass"));
    assert_eq!(directory.read(std::slice::from_ref(&before.id)).await.unwrap(), [(before.id.clone(), None)]);
    let new = directory.enter("anna").await;
    assert_ne!(new.id, before.id);
    assert_eq!(new.email, before.email);
}

#[tokio::test]
async fn five_hundred_users_are_read_in_order() {
    let mut entries = String::new();
    for number in 0..500 {
        entries += &user(&format!("u{number}"), "");
    }
    let members: Vec<_> = (0..500).map(|number| format!("uid=u{number},ou=people")).collect();
    entries += &group("everyone", &members.iter().map(String::as_str).collect::<Vec<_>>());
    let server = Slapd::start(&entries);
    let directory = plain(&server);
    let mut ids = Vec::new();
    for number in 0..500 {
        ids.push(directory.enter(&format!("u{number}")).await.id);
    }
    ids.insert(100, SourceId::from_bytes(b"00000000-0000-4000-8000-000000000000").unwrap());
    // The server does not take this for a UUID, so no entry has it.
    ids.insert(300, SourceId::from_bytes(b"*)(uid=*").unwrap());
    let users = directory.read(&ids).await.unwrap();
    assert_eq!(users.iter().map(|(id, _)| id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    let gone: Vec<_> = users.iter().enumerate().filter(|(_, (_, user))| user.is_none()).map(|(at, _)| at).collect();
    assert_eq!(gone, [100, 300]);
    let names: Vec<_> = users.iter().flat_map(|(_, user)| user).map(|user| user.name.clone()).collect();
    assert_eq!(names, (0..500).map(|number| format!("u{number}")).collect::<Vec<_>>());
    assert!(users.iter().flat_map(|(_, user)| user).all(|user| user.groups == set(&["corp:everyone"])));
    assert_eq!(directory.read(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn states_of_accounts_are_read() {
    let entries = user("ended", "objectClass: shadowAccount\nshadowExpire: 1\n")
        + &user("locked", "pwdAccountLockedTime: 000001010000Z\n")
        + &user("guessed", "pwdAccountLockedTime: 20261121101112Z\n")
        + &user("filtered", "");
    let server = Slapd::start(&entries);
    let directory = plain(&server);
    let ids = async |uid: &str| {
        let query = sealgate_config::LoginConfig {
            only_upstream: None,
            failures_per_account: 1,
            failures_per_address: 1,
            window: std::time::Duration::from_mins(1),
            password_threads: 1,
            password_queue: 1,
        };
        directory.check(Some(uid), &query).await.user.unwrap().id
    };
    let all = [ids("ended").await, ids("locked").await, ids("guessed").await, ids("filtered").await];
    let states = async || {
        let users = directory.read(&all).await.unwrap();
        users.into_iter().map(|(_, user)| user.map_or(SourceState::Gone, |user| user.state)).collect::<Vec<_>>()
    };
    let expected = [SourceState::Expired, SourceState::Disabled, SourceState::Enabled, SourceState::Enabled];
    assert_eq!(states().await, expected);
    server.change(&format!(
        "dn: uid=filtered,ou=people,{BASE}\nchangetype: modify\nadd: objectClass\nobjectClass: shadowAccount\n-\n\
         add: shadowExpire\nshadowExpire: 1\n"
    ));
    assert_eq!(states().await[3], SourceState::Expired);
    // A user whom users.filter no longer finds is gone.
    let keys = Keys { servers: &[server.url()], users: "filter = \"(!(shadowExpire=*))\"", ..Keys::default() };
    let filtered = open(&keys);
    let gone: Vec<_> = filtered.read(&all).await.unwrap().into_iter().map(|(_, user)| user.is_none()).collect();
    assert_eq!(gone, [true, false, false, true]);
}

#[tokio::test]
async fn an_incomplete_answer_is_no_answer() {
    let mut entries = String::new();
    for number in 0..20 {
        let _ = write!(entries, "{}", user(&format!("u{number}"), ""));
    }
    let server = Slapd::with(&entries, "limits * size=5", "localhost");
    let directory = plain(&server);
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(directory.enter(&format!("u{number}")).await.id);
    }
    let fault = directory.read(&ids).await.unwrap_err();
    assert_eq!(fault.kind(), LdapFaultKind::Limit, "{fault}");
    assert!(fault.to_string().contains("raise the limit"), "{fault}");
    assert_eq!(directory.read(&ids[..5]).await.unwrap().len(), 5);
}

#[tokio::test]
async fn pages_complete_an_answer_over_the_limit() {
    let mut entries = String::new();
    for number in 0..1200 {
        entries += &group(&format!("g{number}"), &["uid=anna,ou=people"]);
        if number < 900 {
            entries += &group(&format!("h{number}"), &["uid=otto,ou=people"]);
        }
    }
    entries += &(user("anna", "") + &user("otto", ""));
    let server = Slapd::with(&entries, "limits * size.soft=500 size.hard=500 size.prtotal=unlimited", "localhost");
    let directory = plain(&server);
    assert_eq!(directory.enter("otto").await.groups.len(), 900);
    let password = secrecy::SecretString::from("password of anna");
    let fault = directory.sign_in("anna", &password).await.unwrap_err();
    assert_eq!(fault.kind(), LdapFaultKind::Limit, "{fault}");
    assert!(fault.to_string().contains("more than 1000 groups"), "{fault}");
}
