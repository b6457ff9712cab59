//! `sealgate mail test`, with and without a mail server that accepts the message.

use std::fs;

use crate::mail_server::{Illness, MailServer, Speaks};
use crate::site::{Site, run, stderr};

fn site(mail: &str) -> Site {
    let site = Site::new();
    let file = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), format!("{file}\n[mail]\nfrom = \"Example <no-reply@example.com>\"\n{mail}\n")).unwrap();
    site
}

fn in_clear(server: &MailServer) -> Site {
    site(&format!("host = \"127.0.0.1\"\nport = {}\ntls = \"none\"\ntimeout_seconds = 2", server.port))
}

const TEST: [&str; 4] = ["mail", "test", "--to", "anna@example.net"];

#[test]
fn a_test_mail_is_sent_and_the_servers_reply_is_printed() {
    let server = MailServer::start();
    let site = in_clear(&server);
    let told = site.text(&TEST);
    let port = server.port;
    assert_eq!(
        told,
        format!("127.0.0.1:{port} accepted the message to anna@example.net: 250 2.0.0 Ok: queued as 1A2B3C\n")
    );
    assert_eq!(server.await_mail_to("anna@example.net").subject(), "Test email – Sealgate");

    let turkish = site.json(&[&TEST[..], &["--language", "tr"]].concat());
    assert_eq!(turkish["answer"], "250 2.0.0 Ok: queued as 1A2B3C");
    let mail = server.mails().pop().unwrap();
    assert_eq!(mail.subject(), "Deneme e-postası – Sealgate");
    assert_eq!(mail.header("Message-ID").as_deref(), turkish["message_id"].as_str());
    // The command needs no store and creates none.
    assert!(!site.store_directory().exists());
}

#[test]
fn mail_test_reports_errors_and_remedies() {
    assert!(
        Site::new().errors(&TEST, "")[0].starts_with("no mail server is configured; write [mail] with host and from")
    );
    let server = MailServer::start();
    let site = in_clear(&server);
    for (illness, first, then) in [
        (
            Illness::answering("RCPT", "550 5.1.1 unknown"),
            "the mail server refused the mail: 550 5.1.1 unknown",
            "check the address",
        ),
        (
            Illness::answering("RCPT", "451 4.3.0 grey"),
            "the mail server did not accept the message now: 451 4.3.0 grey",
            "try again",
        ),
    ] {
        server.is_now(illness);
        let errors = site.errors(&TEST, "");
        assert!(errors.len() == 2 && errors[0] == first && errors[1].contains(then), "{errors:?}");
    }
    server.is_now(Illness { silent: true, ..Illness::default() });
    let port = server.port;
    assert_eq!(site.errors(&TEST, ""), [format!("127.0.0.1:{port} did not answer within 2 seconds")]);
    server.is_now(Illness::default());
    let errors = site.errors(&["mail", "test", "--to", "şule@example.net"], "");
    assert!(errors[1].contains("in ASCII before the @"), "{errors:?}");
    assert_eq!(server.mails().len(), 0);

    // No certificate authority is configured.
    let server = MailServer::speaking(Speaks::StartTls);
    let site = self::site(&format!("host = \"localhost\"\nport = {}", server.port));
    let errors = site.errors(&TEST, "");
    assert!(errors[0].contains("is not trusted (") && errors[0].contains("mail.ca_file"), "{errors:?}");
}

#[test]
fn an_invalid_address_or_language_is_wrong_usage() {
    let site = site("host = \"localhost\"\ntls = \"none\"");
    for arguments in
        [&["mail", "test"][..], &["mail", "test", "--to", "anna"], &[&TEST[..], &["--language", "de"]].concat()]
    {
        let output = site.run(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
    let help = run(&mut site.program(&["mail", "--help"]), "");
    assert!(String::from_utf8(help.stdout).unwrap().contains("Send a test mail"));
}
