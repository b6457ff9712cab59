//! Directories that are away, slow, hostile or misconfigured.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_ldap::{LdapFaultKind, LdapSignIn};
use secrecy::SecretString;

use crate::directory::harness::{Keys, open, plain};
use crate::slapd::{BASE, SERVICE_PASSWORD, Slapd, user};

fn password() -> SecretString {
    SecretString::from("password of anna")
}

#[tokio::test]
async fn waiting_sign_ins_end_at_the_deadline_and_later_ones_succeed() {
    let server = Slapd::start(&user("anna", ""));
    let keys = Keys { servers: &[server.url()], more: "timeout_seconds = 2", ..Keys::default() };
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
    assert!(
        start.elapsed() >= Duration::from_secs(2) && start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    let busy = kinds.iter().filter(|kind| **kind == LdapFaultKind::Busy).count();
    assert_eq!(busy, 16, "{kinds:?}");
    assert!(kinds.iter().all(|kind| matches!(kind, LdapFaultKind::Busy | LdapFaultKind::Deadline)), "{kinds:?}");
    assert_eq!(directory.waiting(), 0);
    let start = Instant::now();
    directory.sign_in("anna", &password()).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(6));
    server.resume();
    directory.enter("anna").await;
}

#[tokio::test]
async fn the_second_server_is_used_while_the_first_is_away() {
    let entries = user("anna", "");
    let (mut first, second) = (Slapd::start(&entries), Slapd::start(&entries));
    let directory = open(&Keys { servers: &[first.url(), second.url()], ..Keys::default() });
    directory.enter("anna").await;
    first.kill();
    directory.enter("anna").await;
    first.start_again();
    directory.enter("anna").await;
    // A server that accepts connections but does not answer.
    second.suspend();
    let is_answered = async || directory.sign_in("anna", &password()).await.is_ok();
    let deadline = Instant::now() + Duration::from_secs(20);
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

/// Starts a server that sends these bytes for the first request of each connection.
fn hostile(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, answer) = (socket.unwrap(), answer.clone());
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = socket.read(&mut request);
                // The client may close the connection before all bytes are sent.
                let _ = socket.write_all(&answer);
                let _ = socket.read(&mut request);
            });
        }
    });
    format!("ldap://127.0.0.1:{port}")
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
    let keys = Keys { servers: &[server], more: "starttls = true\ntimeout_seconds = 1", ..Keys::default() };
    let fault = open(&keys).sign_in("anna", &password()).await.unwrap_err();
    assert_eq!(fault.kind(), LdapFaultKind::Tls);
    assert!(fault.to_string().contains("data before TLS"), "{fault}");
}

/// Encodes an element with fewer than 128 bytes.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    [&[tag, u8::try_from(content.len()).unwrap()], content.as_slice()].concat()
}

fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&[2, 1, id], operation])
}

/// Starts a server that accepts all binds. For each search, it returns the entries that `entries`
/// returns, and success.
fn scripted(entries: fn() -> Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let mut is_first = true;
                while let Ok(1..) = socket.read(&mut request) {
                    // The length has one or three bytes.
                    let at = if request[1] < 0x80 { 4 } else { usize::from(request[1] & 0x7f) + 4 };
                    let (id, operation) = (request[at], request[at + 1]);
                    let result = |tag| message(id, &element(tag, &[&[0x0a, 1, 0, 4, 0, 4, 0]]));
                    let answer = match operation {
                        0x60 => result(0x61),
                        0x63 => {
                            // Only the first search is for the user.
                            let found = if std::mem::take(&mut is_first) { entries() } else { Vec::new() };
                            let found = found.iter().flat_map(|entry| message(id, entry));
                            found.chain(result(0x65)).collect()
                        }
                        _ => break,
                    };
                    let _ = socket.write_all(&answer);
                }
            });
        }
    });
    format!("ldap://127.0.0.1:{port}")
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    element(0x30, &[&element(4, &[name.as_bytes()]), &element(0x31, &[&element(4, &[value])])])
}

#[tokio::test]
async fn a_dn_and_values_that_are_not_utf_8_are_accepted() {
    let server = scripted(|| {
        let id = attribute("entryUUID", b"0f4bd4a0-0000-4000-8000-00000000000a");
        let attributes = element(0x30, &[&id, &attribute("cn", b"\xff\xfe"), &attribute("uid", b"\xff")]);
        vec![element(0x64, &[&element(4, &[b"cn=\xff\xfe,dc=x"]), &attributes])]
    });
    let user = open(&Keys { servers: &[server], ..Keys::default() }).enter("anna").await;
    assert_eq!((user.username, user.name.as_str()), (None, ""));
}

#[tokio::test]
async fn malformed_and_useless_entries_are_faults() {
    let no_id = || vec![element(0x64, &[&element(4, &[b"cn=a"]), &element(0x30, &[&attribute("cn", b"a")])])];
    let truncated = || vec![element(0x64, &[&element(4, &[b"cn=a"]), &[0x30, 0x20]])];
    let no_attributes = || vec![element(0x64, &[&element(4, &[b"cn=a"])])];
    let wrong_types = || vec![element(0x64, &[&element(0x30, &[]), &element(4, &[])])];
    let referral = || vec![element(0x73, &[&element(4, &[b"ldap://127.0.0.1:9/"])])];
    let sign_in = async |entries: fn() -> Vec<Vec<u8>>| {
        let keys = Keys { servers: &[scripted(entries)], more: "timeout_seconds = 1", ..Keys::default() };
        open(&keys).sign_in("anna", &password()).await
    };
    let faulty: [fn() -> Vec<Vec<u8>>; 4] = [no_id, truncated, no_attributes, wrong_types];
    for entries in faulty {
        assert!(sign_in(entries).await.is_err());
    }
    // The other server is not contacted, and the user is not found.
    assert_eq!(sign_in(referral).await, Ok(LdapSignIn::Wrong));
}
