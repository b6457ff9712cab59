//! Reads of known users.

use std::fmt::Write as _;

use sealgate_domain::source::{SourceId, SourceState};
use sealgate_domain::source_check::CheckStepOutcome;
use sealgate_domain::user::Email;
use sealgate_domain::username::Username;
use sealgate_ldap::{LdapFaultKind, LdapRead};

use crate::directory::harness::{Keys, config, open, open_text, plain, set};
use crate::scripted::{attribute, entry, scripted};
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
    let [(id, LdapRead::Found(after))] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((id, &after.id), (&before.id, &before.id));
    assert_eq!(after.username.as_ref().map(Username::as_str), Some("anna2"));
    assert_eq!(after.email.as_ref().map(Email::as_str), Some("other@example.test"));
    assert_eq!(after.name, "New Name");
    // The group still has the old DN.
    assert_eq!(after.groups, set(&[]));

    server.change(&format!("dn: uid=anna2,ou=people,{BASE}\nchangetype: delete\n\n"));
    server.change(&user("anna", "").replace("objectClass", "changetype: add\nobjectClass"));
    assert_eq!(directory.read(std::slice::from_ref(&before.id)).await.unwrap(), [(before.id.clone(), LdapRead::Gone)]);
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
    let gone: Vec<_> =
        users.iter().enumerate().filter(|(_, (_, user))| *user == LdapRead::Gone).map(|(at, _)| at).collect();
    assert_eq!(gone, [100, 300]);
    let found = || {
        users.iter().filter_map(|(_, user)| match user {
            LdapRead::Found(user) => Some(user),
            _ => None,
        })
    };
    let names: Vec<_> = found().map(|user| user.name.clone()).collect();
    assert_eq!(names, (0..500).map(|number| format!("u{number}")).collect::<Vec<_>>());
    assert!(found().all(|user| user.groups == set(&["corp:everyone"])));
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
    let ids = async |uid: &str| directory.check(Some(uid), &login()).await.user.unwrap().id;
    let all = [ids("ended").await, ids("locked").await, ids("guessed").await, ids("filtered").await];
    let states = async || {
        let users = directory.read(&all).await.unwrap();
        let state = |user| match user {
            LdapRead::Found(user) => user.state,
            LdapRead::Gone => SourceState::Gone,
            LdapRead::Unreadable => panic!("unreadable"),
        };
        users.into_iter().map(|(_, user)| state(user)).collect::<Vec<_>>()
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
    let gone: Vec<_> = filtered.read(&all).await.unwrap().into_iter().map(|(_, user)| user == LdapRead::Gone).collect();
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
    // Too many groups are no groups, at a sign-in and at a read.
    let anna = directory.enter("anna").await;
    assert_eq!(anna.groups, set(&[]));
    assert_eq!(directory.read(std::slice::from_ref(&anna.id)).await.unwrap()[0].1, LdapRead::Found(Box::new(anna)));
    let check = directory.check(Some("anna"), &login()).await;
    let warning = check.steps.iter().find(|step| step.subject == "groups").unwrap();
    assert_eq!(warning.outcome, CheckStepOutcome::Warning);
    assert!(warning.text.contains("more than 1000 groups"), "{warning:?}");
}

/// A referral can replace a container at any time. Its users must not count as gone.
#[tokio::test]
async fn users_behind_a_referral_are_unreadable_and_users_who_are_deleted_are_gone() {
    let sales = format!("dn: ou=sales,ou=people,{BASE}\nobjectClass: organizationalUnit\nou: sales\n\n");
    let otto = user("otto", "").replace("ou=people", "ou=sales,ou=people");
    let server = Slapd::start(&(user("anna", "") + &user("ben", "") + &sales + &otto));
    let directory = plain(&server);
    let ids = [directory.enter("anna").await.id, directory.enter("otto").await.id, directory.enter("ben").await.id];
    let kinds = async || {
        let read = directory.read(&ids).await.unwrap();
        read.into_iter().map(|(_, user)| word(&user)).collect::<Vec<_>>()
    };
    assert_eq!(kinds().await, ["found", "found", "found"]);
    server.change(&format!("dn: uid=ben,ou=people,{BASE}\nchangetype: delete\n"));
    assert_eq!(kinds().await, ["found", "found", "gone"]);
    server.change(&format!(
        "dn: ou=sales,ou=people,{BASE}\nchangetype: modrdn\nnewrdn: ou=sales\ndeleteoldrdn: 0\nnewsuperior: {BASE}\n\n\
         dn: ou=sales,ou=people,{BASE}\nchangetype: add\nobjectClass: referral\nobjectClass: extensibleObject\nou: sales\n\
         ref: ldap://127.0.0.1:9/ou=sales,dc=other\n"
    ));
    assert_eq!(kinds().await, ["found", "unreadable", "unreadable"]);
    server.change(&format!("dn: ou=sales,ou=people,{BASE}\nchangetype: delete\n"));
    assert_eq!(kinds().await, ["found", "gone", "gone"]);
    // A search base that is a referral, or does not exist, says nothing about anyone.
    server.change(&format!("dn: ou=people,{BASE}\nchangetype: modrdn\nnewrdn: ou=former\ndeleteoldrdn: 1\n"));
    assert_eq!(directory.read(&ids).await.unwrap_err().kind(), LdapFaultKind::Answer);
    server.change(&format!(
        "dn: ou=people,{BASE}\nchangetype: add\nobjectClass: referral\nobjectClass: extensibleObject\nou: people\n\
         ref: ldap://127.0.0.1:9/ou=people,dc=other\n"
    ));
    let fault = directory.read(&ids).await.unwrap_err();
    assert!(fault.to_string().contains("belongs to another server"), "{fault}");
}

/// Entries that say nothing about their user, between entries that do.
#[tokio::test]
async fn one_unusable_entry_does_not_affect_other_users() {
    let server = scripted(|_| {
        let user = |id: &[u8], more: Vec<Vec<u8>>| entry(b"cn=a", &[vec![attribute("objectGUID", id)], more].concat());
        let state = || vec![attribute("userAccountControl", b"512")];
        vec![
            user(b"0123456789abcde0", state()),
            // Its state is not visible.
            user(b"0123456789abcde1", Vec::new()),
            // Two entries with one id.
            user(b"0123456789abcde2", state()),
            user(b"0123456789abcde2", state()),
        ]
    });
    let ids = |count: u8| {
        (0..count).map(|last| SourceId::from_bytes(&[b"0123456789abcde", &[b'0' + last][..]].concat()).unwrap())
    };
    let keys = Keys { servers: &[server], groups: "from = \"member_of\"", ..Keys::default() };
    let directory = open_text(&config(&keys).replace("\"ldap\"", "\"active_directory\""));
    let read = directory.read(&ids(4).collect::<Vec<_>>()).await.unwrap();
    let words: Vec<_> = read.iter().map(|(_, user)| word(user)).collect();
    assert_eq!(words, ["found", "unreadable", "unreadable", "gone"]);
    // An entry that nobody asked for may belong to the user who was not found.
    let read = directory.read(&ids(4).skip(2).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(read.iter().map(|(_, user)| word(user)).collect::<Vec<_>>(), ["unreadable", "unreadable"]);
}

fn word(read: &LdapRead) -> &'static str {
    match read {
        LdapRead::Found(_) => "found",
        LdapRead::Gone => "gone",
        LdapRead::Unreadable => "unreadable",
    }
}

fn login() -> sealgate_config::LoginConfig {
    sealgate_config::LoginConfig {
        only_upstream: None,
        failures_per_account: 1,
        failures_per_address: 1,
        window: std::time::Duration::from_mins(1),
        password_threads: 1,
        password_queue: 1,
    }
}
