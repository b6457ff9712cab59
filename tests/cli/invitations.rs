//! `sealgate user invite`, the invitation commands, and invitations sent by `user add`.

use std::fs;

use serde_json::{Value, json};

use crate::mail_server::MailServer;
use crate::serve::Server;
use crate::site::{Site, stderr};

const MAIL: &str = "\n[mail]\nhost = \"127.0.0.1\"\nport = 9\ntls = \"none\"\nfrom = \"no-reply@example.test\"\n";

/// Returns a site whose server can start and encrypt secrets.
fn site() -> Site {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    site
}

fn invited(site: &Site, email: &str) -> Value {
    site.json(&["user", "show", email])["invitation"].clone()
}

#[test]
fn user_invite_and_user_add_without_a_password_send_an_invitation() {
    let site = site();
    fs::write(site.config(), fs::read_to_string(site.config()).unwrap() + MAIL).unwrap();
    let _server = Server::start(&site);
    let invite = ["user", "invite", "anna@example.test", "--name", "Anna", "--group", "staff"];
    let answer = site.json(&invite);
    assert_eq!((answer["invitation"].as_str(), answer["email_verified"].as_bool()), (Some("invited"), Some(false)));
    assert!(!answer.to_string().contains("token"), "the link goes to its owner only: {answer}");
    assert_eq!(site.errors(&invite, ""), ["a user with the e-mail address anna@example.test already exists"]);

    site.text(&["user", "add", "ben@example.test", "--name", "Ben"]);
    assert_eq!(invited(&site, "ben@example.test"), "invited");
    site.add_user("cem@example.test");
    assert_eq!(invited(&site, "cem@example.test"), Value::Null);
    let verified = ["user", "add", "d@example.test", "--name", "D", "--email-verified"];
    assert!(site.errors(&verified, "")[0].contains("leave --email-verified out"));
    let app = ["user", "invite", "d@example.test", "--name", "D", "--app", "wiki"];
    assert_eq!(site.errors(&app, ""), ["no application has the name \"wiki\"; the configuration has none"]);

    let output = site.run(&["user", "revoke-invitation", "ben@example.test"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).starts_with("note: the account remains without a password"), "{}", stderr(&output));
    assert_eq!(invited(&site, "ben@example.test"), Value::Null);
    let resent = site.text(&["user", "resend-invitation", "ben@example.test"]);
    assert!(resent.starts_with("Sent a new invitation to ben@example.test; the link is valid until "), "{resent}");
    let list = site.text(&["user", "list"]);
    assert!(list.lines().next().unwrap().ends_with("INVITATION") && list.contains("invited"), "{list}");
}

#[test]
fn without_mail_an_invitation_is_refused_with_a_reason() {
    let site = site();
    let invite = ["user", "invite", "anna@example.test", "--name", "Anna"];
    let errors = site.errors(&invite, "");
    assert!(errors.len() == 1 && errors[0].starts_with("invitations are sent by the server, which is not running"));
    let _server = Server::start(&site);
    let errors = site.errors(&invite, "");
    let told = "this server sends no mail, so it cannot invite users; configure [mail], and create a wrapping key";
    assert!(errors.len() == 1 && errors[0].starts_with(told), "{errors:?}");
}

#[test]
fn a_printed_link_needs_no_server_or_mail_and_replaces_the_earlier_link() {
    let site = Site::new();
    let invite = ["user", "invite", "anna@example.test", "--name", "Anna", "--role", "admin", "--print-link"];
    let invited = site.json(&invite);
    let link = invited["invitation_link"].as_str().unwrap();
    assert!(link.starts_with("http://localhost:8080/oauth/invitation?token="), "{invited}");
    assert_eq!((invited["invitation"].as_str(), invited["roles"][0].as_str()), (Some("invited"), Some("admin")));
    assert_eq!(site.errors(&invite, ""), ["a user with the e-mail address anna@example.test already exists"]);
    let again = site.text(&["user", "resend-invitation", "anna@example.test", "--print-link"]);
    assert!(again.starts_with("Invited user anna@example.test with ID ") && again.contains("?token="), "{again}");
    let token = link.rsplit_once('=').unwrap().1;
    assert!(!again.contains(token) && !site.store_holds(token));
    site.add_user("ben@example.test");
    let errors = site.errors(&["user", "resend-invitation", "ben@example.test", "--print-link"], "");
    assert!(errors[0].contains("already has a password or a passkey"), "{errors:?}");
    let audit = site.text(&["audit", "list"]);
    assert!(audit.contains("link printed") && !audit.contains(token), "{audit}");
}

const FROM: [&str; 4] = ["user", "invite", "--from", "-"];
const APP: &str = "\n[[app]]\nname = \"wiki\"\ntitle = \"Ortak Wiki\"\nhost = \"wiki.localhost\"\n\
    upstreams = [\"http://127.0.0.1:9\"]\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

/// Returns a site whose server sends mail through `mail_server`.
fn sending_to(mail_server: &MailServer) -> Site {
    let site = site();
    let mail = MAIL.replace("port = 9", &format!("port = {}\nper_minute = 6000", mail_server.port));
    fs::write(site.config(), fs::read_to_string(site.config()).unwrap() + &mail + APP).unwrap();
    site
}

fn people(site: &Site) -> usize {
    site.json(&["user", "list"])["users"].as_array().unwrap().len()
}

#[test]
fn users_of_a_file_are_invited_with_the_values_of_their_lines() {
    let mail_server = MailServer::start();
    let site = sending_to(&mail_server);
    let _server = Server::start(&site);
    let file = "name;email;groups;username;phone_number;app;language\n\
                Ceren Kaya;ceren@example.test;staff, night shift;ceren;'+90 212 555 01 01;wiki;tr\n\
                Dan;dan@example.test;;;;;\n";
    let invite = with(&FROM, &["--group", "new", "--language", "en"]);
    let expected = json!({
        "dry_run": true, "people": 2, "groups": { "new": 2, "night shift": 1, "staff": 1 }, "apps": { "wiki": 1 },
        "languages": { "tr": 1, "en": 1 }, "mailed_within_minutes": 1,
    });
    assert_eq!(site.json_with(&with(&invite, &["--dry-run"]), file), expected);
    let events = site.json(&["audit", "list"])["events"].clone();
    assert_eq!((people(&site), events.as_array().map(Vec::len)), (0, Some(0)), "a dry run writes nothing");

    let mut answer = site.json_with(&invite, file);
    let expires_at = answer.as_object_mut().unwrap().remove("invitation_expires_at").unwrap();
    answer["dry_run"] = json!(true);
    assert_eq!(answer, expected);
    let ceren = site.json(&["user", "show", "ceren"]);
    let expected = json!({
        "sub": ceren["sub"], "email": "ceren@example.test", "email_verified": false, "name": "Ceren Kaya", "username": "ceren",
        "phone_number": "+90 212 555 01 01", "roles": [], "groups": ["new", "night shift", "staff"], "state": "enabled",
        "created_at": ceren["created_at"], "updated_at": ceren["created_at"], "invitation": "invited",
        "invitation_sent_at": ceren["created_at"], "invitation_expires_at": expires_at, "invitation_app": "wiki",
    });
    assert_eq!(ceren, expected);
    let to_ceren = mail_server.await_mail_to("ceren@example.test");
    let to_dan = mail_server.await_mail_to("dan@example.test");
    assert!(to_ceren.text().contains("Ortak Wiki") && to_ceren.text().contains("Davet"), "{}", to_ceren.text());
    assert!(to_dan.text().contains("invite") && !to_dan.text().contains("Wiki"), "{}", to_dan.text());
    assert_ne!(to_ceren.link(), to_dan.link());
    let trail = site.json(&["audit", "list", "--user", "dan@example.test"]);
    let kinds: Vec<_> = trail["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, [json!("invitation_sent"), json!("user_created")]);
    // A new link has the language of the first one.
    site.text(&["user", "resend-invitation", "ceren"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let again = runtime.block_on(mail_server.wait_for_mails_to("ceren@example.test", 2));
    assert_eq!(again.subject(), to_ceren.subject());
    // After the import, a dry run reports the same errors as another import.
    let twice = site.errors(&with(&invite, &["--dry-run"]), file);
    assert_eq!(twice, site.errors(&invite, file));
    assert_eq!(twice[0], "line 2: email: a user with this e-mail address already exists; remove the line");
}

#[test]
fn every_invalid_line_is_reported_and_no_user_is_invited() {
    let mail_server = MailServer::start();
    let site = sending_to(&mail_server);
    let _server = Server::start(&site);
    site.add_user("there@example.test");
    let file = [
        "email,name,username,groups,phone_number,app,language",
        "good@example.test,Good,good,staff,,wiki,tr",
        "no address,A,,,,,",
        ",B,,,,,",
        "There@example.test,C,,,,,",
        "GOOD@example.test,D,,,,,",
        "a..b@example.test,E,,,,,",
        "f@example.test,F,good,,,,",
        "g@example.test,,,,,,",
        "h@example.test,H,,,0555,,",
        "i@example.test,I,,,,wikki,",
        "j@example.test,J,,,,,de",
        "k@example.test,K",
    ]
    .join("\n");
    let errors = site.errors(&FROM, &file);
    let told: Vec<_> = errors.iter().map(|error| error.splitn(3, ": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "line 3 email",
        "line 4 email",
        "line 5 email",
        "line 6 email",
        "line 7 email",
        "line 8 username",
        "line 9 name",
        "line 10 phone_number",
        "line 11 app",
        "line 12 language",
    ];
    assert_eq!(told[..10], expected, "{errors:#?}");
    assert!(errors[8].ends_with("no application has this name; the configuration has wiki"), "{}", errors[8]);
    assert!(
        errors[10].starts_with("line 13: the row has 2 fields") && errors[11] == "no user was invited",
        "{errors:#?}"
    );
    // An invited user chooses a password and verifies the address, so these columns are not
    // allowed.
    for column in ["password_hash", "email_verified", "roles"] {
        let errors = site.errors(&FROM, &format!("email,name,{column}\na@example.test,A,x\n"));
        assert!(errors[0].starts_with("line 1: column 3 has an unknown name"), "{errors:?}");
    }
    let wiki = with(&FROM, &["--app", "wikki"]);
    let errors = site.errors(&wiki, "email,name\na@example.test,A\n");
    assert_eq!(errors, ["no application has the name \"wikki\"; the configuration has wiki"]);
    let group = site.errors(&with(&FROM, &["--group", "a,b"]), "email,name\na@example.test,A\n");
    assert!(group[0].starts_with("line 2: groups: a group has 1 to 100"), "{group:?}");
    assert_eq!((people(&site), site.json(&["mail", "list"])["mails"].clone()), (1, json!([])));
    assert_eq!(mail_server.mails().len(), 0);
}

#[test]
fn bulk_invitations_have_a_limit() {
    let site = site();
    fs::write(site.config(), fs::read_to_string(site.config()).unwrap() + MAIL).unwrap();
    let _server = Server::start(&site);
    let file = site.config().with_file_name("people.csv");
    let path = file.to_str().unwrap();
    let invite = ["user", "invite", "--from", path];
    fs::File::create(&file).unwrap().set_len((4 << 20) + 1).unwrap();
    assert_eq!(site.errors(&invite, ""), [format!("{path}: the file has more than 4 MiB; split it")]);
    let many =
        |count: usize| (0..count).map(|number| format!("p{number}@example.test,P\n")).collect::<Vec<_>>().concat();
    fs::write(&file, "email,name\n".to_owned() + &many(5_001)).unwrap();
    let errors = site.errors(&invite, "");
    assert_eq!(errors, ["line 5002: more than 5000 users; split the file", "no user was invited"]);
    fs::write(&file, "email,name\n").unwrap();
    assert_eq!(site.errors(&invite, ""), ["the file contains no users", "no user was invited"]);
    assert!(site.errors(&["user", "invite", "--from", "/nowhere.csv"], "")[0].starts_with("/nowhere.csv: "));
    // At 60 messages per minute, all are sent within the 48 hours. They are stored in one commit.
    let answer = site.json_with(&FROM, &("email,name\n".to_owned() + &many(5_000)));
    assert_eq!((answer["people"].clone(), answer["mailed_within_minutes"].clone()), (json!(5_000), json!(84)));
    assert_eq!(people(&site), 5_000);
}

#[test]
fn an_address_and_a_file_cannot_be_combined() {
    let site = site();
    for arguments in [
        &["user", "invite"][..],
        &["user", "invite", "a@example.test"],
        &["user", "invite", "--from", "-", "--email", "a@example.test"],
        &["user", "invite", "--from", "-", "--role", "admin"],
        &["user", "invite", "a@example.test", "--name", "A", "--dry-run"],
        &["user", "invite", "a@example.test", "--name", "A", "--language", "de"],
    ] {
        let output = site.run(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    }
    let help = site.text(&["user", "invite", "--help"]);
    for word in ["--from <FILE|->", "--dry-run", "5,000", "with its line", "phone_number", "language"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let errors = site.errors(&FROM, "email,name\na@example.test,A\n");
    assert!(errors.len() == 1 && errors[0].starts_with("invitations are sent by the server, which is not running"));
}
