//! TLS: LDAPS, StartTLS, and certificates that are not accepted.

use sealgate_ldap::{LdapFault, LdapFaultKind};
use secrecy::SecretString;

use crate::directory::harness::{Keys, TestDirectory, open};
use crate::slapd::{Slapd, user};

fn directory(server: &Slapd, url: String, more: &str) -> TestDirectory {
    let ca = format!("ca_file = \"{}\"\n{more}", server.ca_file().display());
    open(&Keys { servers: &[url], more: &ca, ..Keys::default() })
}

async fn fault(directory: &TestDirectory) -> LdapFault {
    directory.sign_in("anna", &SecretString::from("password of anna")).await.unwrap_err()
}

#[tokio::test]
async fn users_sign_in_over_ldaps_and_over_starttls() {
    // The server refuses binds without TLS.
    let server = Slapd::with(&user("anna", ""), "security simple_bind=128", "localhost");
    directory(&server, server.tls_url(), "").enter("anna").await;
    directory(&server, server.url(), "starttls = true").enter("anna").await;
    let plain = open(&Keys { servers: &[server.url()], ..Keys::default() });
    let fault = fault(&plain).await;
    assert_eq!(fault.kind(), LdapFaultKind::ServiceBind);
    assert!(fault.to_string().contains("requires TLS"), "{fault}");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let server = Slapd::with(&user("anna", ""), "", "ldap.other.test");
    for (url, more) in [(server.tls_url(), ""), (server.url(), "starttls = true")] {
        let fault = fault(&directory(&server, url, more)).await;
        assert_eq!(fault.kind(), LdapFaultKind::Tls);
        assert!(fault.to_string().contains("not accepted") && fault.to_string().contains("ldap.other.test"), "{fault}");
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let (server, other) = (Slapd::start(&user("anna", "")), Slapd::start(""));
    for (url, more) in [(server.tls_url(), ""), (server.url(), "starttls = true")] {
        let fault = fault(&directory(&other, url, more)).await;
        assert_eq!(fault.kind(), LdapFaultKind::Tls);
        assert!(fault.to_string().contains("ca_file"), "{fault}");
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_no_password() {
    let server = Slapd::start(&user("anna", ""));
    // LDAPS to the port for plain LDAP.
    let url = server.url().replace("ldap://", "ldaps://");
    let fault = fault(&directory(&server, url, "")).await;
    assert_eq!(fault.kind(), LdapFaultKind::Tls, "{fault}");
}
