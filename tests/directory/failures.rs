//! Directories that are away, slow, hostile or misconfigured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_ldap::{LdapFaultKind, LdapSignIn};
use secrecy::SecretString;

use crate::directory::harness::{Keys, open, plain};
use crate::scripted::{Script, attribute, element, entry, hostile, scripted};
use crate::slapd::{BASE, SERVICE_PASSWORD, Slapd, user};

fn password() -> SecretString {
    SecretString::from("password of anna")
}

/// Far above every timeout of these tests, because a busy machine must not fail a test.
const LATE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn waiting_sign_ins_end_at_the_deadline_and_later_ones_succeed() {
    let server = Slapd::start(&user("anna", ""));
    let keys = Keys { servers: &[server.url()], more: "timeout_seconds = 5", ..Keys::default() };
    let directory = Arc::new(open(&keys));
    directory.enter("anna").await;
    server.suspend();
    let start = Instant::now();
    let attempts: Vec<_> = (0..80)
        .map(|_| {
            let directory = Arc::clone(&directory);
            tokio::spawn(async move { directory.sign_in("anna", &password()).await.unwrap_err().kind() })
        })
        .collect();
    let mut kinds = Vec::new();
    for attempt in attempts {
        kinds.push(attempt.await.unwrap());
    }
    assert!(start.elapsed() >= Duration::from_secs(5) && start.elapsed() < LATE, "{:?}", start.elapsed());
    let busy = kinds.iter().filter(|kind| **kind == LdapFaultKind::Busy).count();
    assert_eq!(busy, 16, "{kinds:?}");
    assert!(kinds.iter().all(|kind| matches!(kind, LdapFaultKind::Busy | LdapFaultKind::Deadline)), "{kinds:?}");
    assert_eq!(directory.waiting(), 0);
    let start = Instant::now();
    directory.sign_in("anna", &password()).await.unwrap_err();
    assert!(start.elapsed() < LATE, "{:?}", start.elapsed());
    server.resume();
    directory.enter("anna").await;
}

#[tokio::test]
async fn the_second_server_is_used_while_the_first_is_away() {
    let entries = user("anna", "");
    let (mut first, second) = (Slapd::start(&entries), Slapd::start(&entries));
    let keys = Keys { servers: &[first.url(), second.url()], more: "timeout_seconds = 10", ..Keys::default() };
    let directory = open(&keys);
    directory.enter("anna").await;
    first.kill();
    directory.enter("anna").await;
    first.start_again();
    directory.enter("anna").await;
    // A server that accepts connections but does not answer.
    second.suspend();
    let is_answered = async || directory.sign_in("anna", &password()).await.is_ok();
    let deadline = Instant::now() + LATE;
    while !is_answered().await {
        assert!(Instant::now() < deadline, "the first server is not used");
    }
    directory.enter("anna").await;
    second.resume();
}

#[tokio::test]
async fn an_unreachable_directory_is_a_fault_with_a_remedy() {
    let mut server = Slapd::start(&user("anna", ""));
    let directory = plain(&server);
    server.kill();
    let fault = directory.sign_in("anna", &password()).await.unwrap_err();
    assert_eq!(fault.kind(), LdapFaultKind::Connect);
    assert!(fault.to_string().contains("check servers"), "{fault}");
    // An empty password needs no directory.
    assert_eq!(directory.try_enter("anna", "").await, LdapSignIn::Wrong);
    server.start_again();
    directory.enter("anna").await;
}

#[tokio::test]
async fn a_wrong_password_of_the_service_account_is_sent_once() {
    let server = Slapd::start(&user("anna", ""));
    let directory = plain(&server);
    directory.set_password("wrong");
    for _ in 0..3 {
        let fault = directory.sign_in("anna", &password()).await.unwrap_err();
        assert_eq!(fault.kind(), LdapFaultKind::ServiceBind);
        assert!(fault.to_string().contains("bind.dn"), "{fault}");
        assert!(!fault.to_string().contains("wrong"), "{fault}");
    }
    assert_eq!(server.binds("cn=sealgate,ou=services"), 1);
    // The corrected file is read without a reload.
    directory.set_password(SERVICE_PASSWORD);
    directory.enter("anna").await;
}

#[tokio::test]
async fn a_base_on_another_server_is_a_fault_and_referrals_are_not_followed() {
    let referral = format!(
        "dn: ou=remote,ou=people,{BASE}\nobjectClass: referral\nobjectClass: extensibleObject\nou: remote\n\
         ref: ldap://127.0.0.1:9/ou=remote,dc=other\n\n"
    );
    let server = Slapd::start(&(user("anna", "") + &referral));
    // The reference in the answer is ignored.
    plain(&server).enter("anna").await;
    let users = format!("filter = \"(uid=*)\"\n# {BASE}");
    let keys = Keys { servers: &[server.url()], users: &users, ..Keys::default() };
    open(&keys).enter("anna").await;
}

#[tokio::test]
async fn a_closed_connection_is_opened_again() {
    let mut server = Slapd::start(&user("anna", ""));
    let directory = plain(&server);
    for _ in 0..3 {
        directory.enter("anna").await;
        server.kill();
        server.start_again();
    }
    directory.enter("anna").await;
}

#[tokio::test]
async fn invalid_answers_are_faults() {
    // 100,000 sequences inside each other.
    let nested: Vec<u8> =
        (0_u32..100_000).rev().flat_map(|level| [&[0x30, 0x84][..], &(level * 6).to_be_bytes()].concat()).collect();
    let answers: [(&str, Vec<u8>); 7] = [
        ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("nothing", Vec::new()),
        ("nested", nested),
        ("a message of 4 GiB", vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 1]),
        ("an endless length", [vec![0x30, 0x80], vec![0; 5000]].concat()),
        ("an answer to another request", vec![0x30, 0x0c, 2, 1, 9, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0]),
        ("a notice of disconnection", vec![0x30, 0x0c, 2, 1, 0, 0x78, 7, 0x0a, 1, 52, 4, 0, 4, 0]),
    ];
    for (what, answer) in answers {
        let keys = Keys { servers: &[hostile(answer)], more: "timeout_seconds = 1", ..Keys::default() };
        let fault = open(&keys).sign_in("anna", &password()).await.unwrap_err();
        assert!(matches!(fault.kind(), LdapFaultKind::Connect | LdapFaultKind::Deadline), "{what}: {fault}");
    }
}

#[tokio::test]
async fn bytes_before_tls_are_refused() {
    let success = [0x30, 0x0c, 2, 1, 1, 0x78, 7, 0x0a, 1, 0, 4, 0, 4, 0];
    let bind = [0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0];
    let server = hostile([success, bind].concat());
    let keys = Keys { servers: &[server], more: "starttls = true\ntimeout_seconds = 20", ..Keys::default() };
    let fault = open(&keys).sign_in("anna", &password()).await.unwrap_err();
    assert_eq!(fault.kind(), LdapFaultKind::Tls);
    assert!(fault.to_string().contains("data before TLS"), "{fault}");
}

/// Returns whether a request is the search for the user, and not for groups.
fn is_for_user(request: &[u8]) -> bool {
    request.windows(9).any(|part| part == b"ou=people")
}

#[tokio::test]
async fn a_dn_and_values_that_are_not_utf_8_are_accepted() {
    let server = scripted(|request| {
        if !is_for_user(request) {
            return Vec::new();
        }
        let id = attribute("entryUUID", b"0f4bd4a0-0000-4000-8000-00000000000a");
        vec![entry(b"cn=\xff\xfe,dc=x", &[id, attribute("cn", b"\xff\xfe"), attribute("uid", b"\xff")])]
    });
    let user = open(&Keys { servers: &[server], ..Keys::default() }).enter("anna").await;
    assert_eq!((user.username, user.name.as_str()), (None, ""));
}

#[tokio::test]
async fn malformed_and_useless_entries_are_faults() {
    let no_id = |_: &[u8]| vec![entry(b"cn=a", &[attribute("cn", b"a")])];
    let truncated = |_: &[u8]| vec![element(0x64, &[&element(4, &[b"cn=a"]), &[0x30, 0x20]])];
    let no_attributes = |_: &[u8]| vec![element(0x64, &[&element(4, &[b"cn=a"])])];
    let wrong_types = |_: &[u8]| vec![element(0x64, &[&element(0x30, &[]), &element(4, &[])])];
    let referral = |_: &[u8]| vec![element(0x73, &[&element(4, &[b"ldap://127.0.0.1:9/"])])];
    let sign_in = async |answer: Script| {
        let keys = Keys { servers: &[scripted(answer)], more: "timeout_seconds = 5", ..Keys::default() };
        open(&keys).sign_in("anna", &password()).await
    };
    let faulty: [Script; 4] = [no_id, truncated, no_attributes, wrong_types];
    for answer in faulty {
        assert!(sign_in(answer).await.is_err());
    }
    // The other server is not contacted, and the user is not found.
    assert_eq!(sign_in(referral).await, Ok(LdapSignIn::Wrong));
}
