//! Delivery of e-mails to working and failing relays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealgate_config::{Config, Language};
use sealgate_domain::mail::Mail;
use sealgate_domain::user::Email;
use sealgate_pages::mailer::{Composed, SendError, Transport};

use crate::compose::{TOKEN, composed};
use crate::mail_server::{Illness, MailServer, Speaks};

const REQUIRED: &str = "issuer = \"https://id.test\"\nserver.listen = [\"127.0.0.1:80\"]\nstore.path = \"s\"\n\
    hsm = { module = \"m\", token_label = \"t\", pin_file = \"p\" }\n[mail]\nfrom = \"Örnek <no-reply@example.com>\"\n";

fn transport(server: &MailServer, more: &str) -> Transport {
    let port = server.port;
    let text = format!("{REQUIRED}host = \"localhost\"\nport = {port}\n{more}\n");
    let config = Config::parse(&text, &PathBuf::from("/")).unwrap_or_else(|faults| panic!("{faults:?}"));
    Transport::new(&config.mail.unwrap()).unwrap()
}

fn clear(server: &MailServer) -> Transport {
    transport(server, "tls = \"none\"\ntimeout_seconds = 2")
}

fn trusting(server: &MailServer, tls: &str) -> Transport {
    let certificate = server.certificate();
    transport(server, &format!("tls = \"{tls}\"\nca_file = \"{}\"\ntimeout_seconds = 5", certificate.display()))
}

fn reset() -> Composed {
    composed(Mail::Reset { token: TOKEN.to_owned() }, Language::Turkish)
}

fn anna() -> Email {
    Email::parse("anna@example.net").unwrap()
}

async fn sent(transport: &Transport) -> Result<String, SendError> {
    transport.send(&reset(), &anna()).await
}

/// Returns the error of sending an e-mail, and checks that it contains nothing of the e-mail.
async fn fault(transport: &Transport) -> SendError {
    let error = sent(transport).await.unwrap_err();
    let (shown, debugged) = (error.to_string(), format!("{error:?}"));
    for secret in ["anna", "example.net", TOKEN, "Parola", "hunter2"] {
        assert!(!shown.contains(secret) && !debugged.contains(secret), "{shown} {debugged}");
    }
    error
}

#[tokio::test]
async fn a_mail_arrives_unchanged() {
    let server = MailServer::start();
    assert_eq!(sent(&clear(&server)).await.unwrap(), "250 2.0.0 Ok: queued as 1A2B3C");
    let mail = server.wait_for_mail_to("anna@example.net").await;
    let written = reset();
    assert_eq!((mail.subject(), mail.text(), mail.html()), (written.subject, written.text, written.html));
    assert_eq!(
        (mail.from.as_str(), mail.to.as_slice()),
        ("no-reply@example.com", &["anna@example.net".to_owned()][..])
    );
    assert_eq!(mail.hello, "id.test");
    let header = |name| mail.header(name).unwrap_or_default();
    assert_eq!(header("Message-ID"), "<BwcHBwcHBwcHBwcHBwcHBw@id.example.com>");
    assert_eq!(header("Date"), "Sun, 22 Nov 2026 18:40:00 +0000");
    assert_eq!(header("Auto-Submitted"), "auto-generated");
    assert_eq!(header("X-Auto-Response-Suppress"), "All");
    assert_eq!(header("To"), "anna@example.net");
    assert!(header("From").ends_with(" <no-reply@example.com>"), "{}", header("From"));
    assert!(header("Content-Type").starts_with("multipart/alternative;"), "{}", header("Content-Type"));
    // Text before HTML, and every byte is ASCII.
    assert!(mail.raw.find("text/plain") < mail.raw.find("text/html") && mail.raw.is_ascii());
    assert!(mail.link().ends_with(TOKEN));
}

#[tokio::test]
async fn the_same_mail_has_the_same_bytes_when_it_is_sent_again() {
    let server = MailServer::start();
    let transport = clear(&server);
    sent(&transport).await.unwrap();
    sent(&transport).await.unwrap();
    server.wait_for_mails_to("anna@example.net", 2).await;
    let mails = server.mails();
    assert_eq!(mails[0].raw, mails[1].raw);
}

#[tokio::test]
async fn tls_precedes_credentials_and_content() {
    for (speaks, tls) in [(Speaks::StartTls, "starttls"), (Speaks::Implicit, "implicit")] {
        let server = MailServer::speaking(speaks);
        let transport = trusting(&server, tls);
        transport.probe().await.unwrap();
        sent(&transport).await.unwrap();
        assert!(server.wait_for_mail_to("anna@example.net").await.encrypted, "{tls}");
        let overheard = server.overheard();
        assert!(!overheard.contains("MAIL") && !overheard.contains("anna"), "{overheard}");
    }
}

#[tokio::test]
async fn a_mail_server_without_tls_receives_nothing() {
    let server = MailServer::speaking(Speaks::StartTls);
    server.is_now(Illness { hides_tls: true, ..Illness::default() });
    let SendError::Relay(line) = fault(&trusting(&server, "starttls")).await else { panic!("the relay is at fault") };
    assert!(line.contains("offers no STARTTLS, and mails are not sent in clear"), "{line}");
    assert!(!server.overheard().contains("MAIL"), "{}", server.overheard());
    assert_eq!(server.mails().len(), 0);
}

#[tokio::test]
async fn injected_plain_text_before_tls_is_discarded() {
    let server = MailServer::speaking(Speaks::StartTls);
    server.is_now(Illness { injects: true, ..Illness::default() });
    let SendError::Relay(line) = fault(&trusting(&server, "starttls")).await else { panic!("the relay is at fault") };
    assert!(line.contains("does not speak TLS as expected"), "{line}");
}

#[tokio::test]
async fn an_untrusted_or_mismatched_certificate_is_refused() {
    for (speaks, tls) in [(Speaks::StartTls, "starttls"), (Speaks::Implicit, "implicit")] {
        let server = MailServer::speaking(speaks);
        let unknown = transport(&server, &format!("tls = \"{tls}\"\ntimeout_seconds = 5"));
        let others = MailServer::with(speaks, "other.test", None);
        for (transport, server) in [(unknown, &server), (trusting(&others, tls), &others)] {
            let SendError::Relay(line) = fault(&transport).await else { panic!("the relay is at fault") };
            let start = format!("the certificate of localhost:{} is not trusted (", server.port);
            assert!(line.starts_with(&start) && line.contains("mail.ca_file"), "{line}");
            assert_eq!(transport.probe().await.unwrap_err(), SendError::Relay(line));
            assert_eq!(server.mails().len(), 0);
        }
    }
}

#[tokio::test]
async fn an_error_suggests_the_other_tls_mode() {
    let implicit = MailServer::speaking(Speaks::Implicit);
    let start = MailServer::speaking(Speaks::StartTls);
    let SendError::Relay(line) = fault(&trusting(&start, "implicit")).await else { panic!("the relay is at fault") };
    assert!(line.ends_with("if the server sends a greeting before TLS, write tls = \"starttls\""), "{line}");
    // The server waits for TLS and the client waits for the greeting.
    let certificate = implicit.certificate();
    let waiting = transport(&implicit, &format!("ca_file = {certificate:?}\ntimeout_seconds = 1"));
    let SendError::Relay(line) = fault(&waiting).await else { panic!("the relay is at fault") };
    assert!(line.ends_with("did not answer within 1 seconds"), "{line}");
}

#[tokio::test]
async fn the_mail_password_is_sent_only_to_the_verified_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("word");
    write_secret(&file, "hunter2\n");
    let server = MailServer::with(Speaks::StartTls, "localhost", Some(("id", "hunter2")));
    let with_account = |server: &MailServer| {
        let certificate = server.certificate();
        let account =
            format!("username = \"id\"\npassword_file = {file:?}\nca_file = {certificate:?}\ntimeout_seconds = 5");
        transport(server, &account)
    };
    let transport = with_account(&server);
    transport.probe().await.unwrap();
    sent(&transport).await.unwrap();
    assert_eq!(server.wait_for_mail_to("anna@example.net").await.user.as_deref(), Some("id"));
    assert!(!format!("{transport:?}").contains("hunter2"));

    // The password changes without a restart. Then the password file is missing.
    write_secret(&file, "hunter22");
    let SendError::Relay(line) = fault(&transport).await else { panic!("the relay is at fault") };
    assert!(
        line.contains("does not accept mail.username and the password (535 5.7.8 authentication failed)"),
        "{line}"
    );
    fs::remove_file(&file).unwrap();
    let SendError::Relay(line) = fault(&transport).await else { panic!("the relay is at fault") };
    assert!(line.contains("mail.password_file: ") && line.contains("cannot be read"), "{line}");

    // A server that requires authentication, and a server that does not offer it.
    let SendError::Relay(line) = fault(&trusting(&server, "starttls")).await else { panic!("the relay is at fault") };
    assert!(line.contains("530 5.7.0 authentication required"), "{line}");
    write_secret(&file, "hunter2");
    let plain = MailServer::speaking(Speaks::StartTls);
    let SendError::Relay(line) = fault(&with_account(&plain)).await else { panic!("the relay is at fault") };
    assert!(line.contains("does not offer to sign in with a password"), "{line}");
}

fn write_secret(file: &Path, secret: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, secret).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn errors_name_the_responsible_side() {
    let server = MailServer::start();
    let transport = clear(&server);
    let refused = "5.1.1 <anna@example.net> unknown; see https://example.net/anna";
    for (command, line, expected) in [
        ("RCPT", format!("550 {refused}"), SendError::Refused("550 5.1.1 … unknown; see …".to_owned())),
        ("RCPT", "550 5.7.26 no".to_owned(), SendError::Refused("550 5.7.26 no".to_owned())),
        ("DATA", "554 5.6.0 no".to_owned(), SendError::Refused("554 5.6.0 no".to_owned())),
        ("END", "552 5.3.4 too big".to_owned(), SendError::Refused("552 5.3.4 too big".to_owned())),
        ("MAIL", "451 4.3.0 later".to_owned(), SendError::Later("451 4.3.0 later".to_owned())),
        ("RCPT", "450 4.2.0 grey".to_owned(), SendError::Later("450 4.2.0 grey".to_owned())),
        ("DATA", "452 4.3.1 full".to_owned(), SendError::Later("452 4.3.1 full".to_owned())),
        ("END", "451 4.3.0 later".to_owned(), SendError::Later("451 4.3.0 later".to_owned())),
        // It is unknown whether the server would accept other recipients.
        ("RCPT", "421 4.7.0 too many".to_owned(), SendError::Unclear("421 4.7.0 too many".to_owned())),
        ("END", "421 4.3.2 later".to_owned(), SendError::Unclear("421 4.3.2 later".to_owned())),
        ("RCPT", "550 5.7.1 no".to_owned(), SendError::Unclear("550 5.7.1 no".to_owned())),
        (
            "RCPT",
            "554 5.7.1 <anna@example.net>: Relay access denied".to_owned(),
            SendError::Unclear("554 5.7.1 … Relay access denied".to_owned()),
        ),
        ("RCPT", "550 relay not permitted".to_owned(), SendError::Unclear("550 relay not permitted".to_owned())),
        ("DATA", "554 5.7.0 no".to_owned(), SendError::Unclear("554 5.7.0 no".to_owned())),
        ("END", "550 5.7.1 spam".to_owned(), SendError::Unclear("550 5.7.1 spam".to_owned())),
    ] {
        server.is_now(Illness::answering(command, &line));
        assert_eq!(fault(&transport).await, expected, "{command} {line}");
        transport.probe().await.unwrap();
    }
    for (command, line) in [
        ("GREETING", "554 5.7.1 go away"),
        ("GREETING", "421 4.3.2 later"),
        ("EHLO", "550 5.7.1 who"),
        ("MAIL", "553 5.7.1 not your address"),
        ("MAIL", "421 4.7.0 too many"),
        ("MAIL", "550 relay not permitted"),
        ("RCPT", "530 5.7.0 sign in first"),
        ("RCPT", "550 5.7.8 who are you"),
        ("END", "535 5.7.8 sign in again"),
    ] {
        server.is_now(Illness::answering(command, line));
        let SendError::Relay(told) = fault(&transport).await else { panic!("{command} {line}: the relay is at fault") };
        assert!(told.contains(line) && told.starts_with("localhost:"), "{told}");
    }
    assert_eq!(server.mails().len(), 0);
    server.is_now(Illness::default());
    sent(&transport).await.unwrap();
}

#[tokio::test]
async fn a_silent_mail_server_is_abandoned_at_the_deadline() {
    let server = MailServer::start();
    let transport = transport(&server, "tls = \"none\"\ntimeout_seconds = 1");
    let slow = Illness { slow: Some(Duration::from_millis(100)), ..Illness::default() };
    for illness in [Illness { silent: true, ..Illness::default() }, slow] {
        server.is_now(illness);
        let SendError::Relay(line) = fault(&transport).await else { panic!("the relay is at fault") };
        assert!(line.ends_with("did not answer within 1 seconds"), "{line}");
        assert!(transport.probe().await.unwrap_err().to_string().ends_with("did not answer within 1 seconds"));
    }
}

#[tokio::test]
async fn a_connection_lost_after_the_mail_counts_as_possibly_delivered() {
    let server = MailServer::start();
    server.is_now(Illness { closes_after_data: true, ..Illness::default() });
    let SendError::Later(_) = fault(&clear(&server)).await else { panic!("nobody knows") };
    assert_eq!(server.mails().len(), 1);
}

#[tokio::test]
async fn an_endless_reply_is_cut_off() {
    let server = MailServer::start();
    let transport = transport(&server, "tls = \"none\"\ntimeout_seconds = 10");
    let cut_off = "its answer has no end";
    for command in ["GREETING", "EHLO"] {
        server.is_now(Illness { endless: Some(command), ..Illness::default() });
        let SendError::Relay(line) = fault(&transport).await else { panic!("the relay is at fault") };
        assert!(line.contains(cut_off), "{command}: {line}");
    }
    for command in ["RCPT", "END"] {
        server.is_now(Illness { endless: Some(command), ..Illness::default() });
        assert_eq!(fault(&transport).await, SendError::Later(cut_off.to_owned()), "{command}");
    }
    // The same server errors before TLS.
    let server = MailServer::speaking(Speaks::StartTls);
    server.is_now(Illness { endless: Some("EHLO"), ..Illness::default() });
    let SendError::Relay(line) = fault(&trusting(&server, "starttls")).await else { panic!("the relay is at fault") };
    assert!(line.contains("closed the connection before TLS (no reply of SMTP)"), "{line}");
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let server = MailServer::start();
    let transport = clear(&server);
    let port = server.port;
    drop(server);
    // The server's thread ends shortly afterwards.
    let refused = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            match transport.probe().await {
                Err(SendError::Relay(line)) if line.starts_with("cannot connect") => break line,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    let line = refused.await.unwrap();
    assert!(line.starts_with(&format!("cannot connect to localhost:{port} (")), "{line}");
}

#[tokio::test]
async fn only_deliverable_addresses_are_converted() {
    let server = MailServer::start();
    let transport = clear(&server);
    transport.send(&reset(), &Email::parse("Anna@çağrı.example").unwrap()).await.unwrap();
    assert_eq!(server.mails()[0].to, ["Anna@xn--ar-3ia9t9c.example"]);
    let before = server.connections();
    for address in ["a..b@example.com", "<a@example.com>", "a,b@example.com", "şule@example.com", "a@[127.0.0.1]"] {
        let error = transport.send(&reset(), &Email::parse(address).unwrap()).await.unwrap_err();
        assert!(matches!(error, SendError::Unsendable(_)) && !error.to_string().contains(address), "{error}");
    }
    assert_eq!(server.connections(), before, "the server is not asked");
}

#[tokio::test]
async fn no_value_can_inject_a_header_field() {
    let server = MailServer::start();
    let transport = clear(&server);
    for subject in ["a\r\nBcc: eve@example.com", "a\nb", "a\u{202e}b", "a\0b"] {
        let mail = Composed { subject: subject.to_owned(), ..reset() };
        assert!(matches!(transport.send(&mail, &anna()).await, Err(SendError::Unsendable(_))), "{subject:?}");
    }
    for id in ["<a b@c>", "a@b", "<a>\r\nBcc: x", "<a<b@c>"] {
        let mail = Composed { message_id: id.to_owned(), ..reset() };
        assert!(matches!(transport.send(&mail, &anna()).await, Err(SendError::Unsendable(_))), "{id:?}");
    }
    let subject = "İĞÜŞÖÇ ığüşöç ".repeat(20).trim().to_owned();
    let text = format!(".\r\n..\r\n{}\n.", "Ğ".repeat(3000)).replace("\r\n", "\n");
    transport.send(&Composed { subject: subject.clone(), text: text.clone(), ..reset() }, &anna()).await.unwrap();
    let mail = server.wait_for_mail_to("anna@example.net").await;
    assert_eq!((mail.subject(), mail.text()), (subject, text));
    assert!(mail.raw.lines().all(|line| line.len() <= 998), "RFC 5322 §2.1.1");
}
