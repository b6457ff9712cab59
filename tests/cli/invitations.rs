//! `sealgate user invite` and `user invitation`, and who is invited by `user add`.

use std::fs;

use serde_json::Value;

use crate::serve::Server;
use crate::site::{Site, stderr};

const MAIL: &str = "\n[mail]\nhost = \"127.0.0.1\"\nport = 9\ntls = \"none\"\nfrom = \"no-reply@example.test\"\n";

/// A site whose server can start, and could seal.
fn site() -> Site {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    site
}

fn invited(site: &Site, email: &str) -> Value {
    site.json(&["user", "show", email])["invitation"].clone()
}

#[test]
fn a_server_that_sends_mail_invites_and_so_does_user_add_without_a_password() {
    let site = site();
    fs::write(site.config(), fs::read_to_string(site.config()).unwrap() + MAIL).unwrap();
    let _server = Server::start(&site);
    let invite = ["user", "invite", "--email", "anna@example.test", "--name", "Anna", "--group", "staff"];
    let answer = site.json(&invite);
    assert_eq!((answer["invitation"].as_str(), answer["email_verified"].as_bool()), (Some("invited"), Some(false)));
    assert!(!answer.to_string().contains("token"), "the link goes to its owner only: {answer}");
    assert_eq!(site.errors(&invite, ""), ["a person with the address anna@example.test exists already"]);

    site.text(&["user", "add", "--email", "ben@example.test", "--name", "Ben"]);
    assert_eq!(invited(&site, "ben@example.test"), "invited");
    site.add_user("cem@example.test");
    assert_eq!(invited(&site, "cem@example.test"), Value::Null);
    let verified = ["user", "add", "--email", "d@example.test", "--name", "D", "--email-verified"];
    assert!(site.errors(&verified, "")[0].contains("leave --email-verified out"));
    let app = ["user", "invite", "--email", "d@example.test", "--name", "D", "--app", "wiki"];
    assert_eq!(site.errors(&app, ""), ["no application is called \"wiki\"; the configuration has none"]);

    let output = site.run(&["user", "invitation", "ben@example.test", "withdraw"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).starts_with("note: the account stays, without a password"), "{}", stderr(&output));
    assert_eq!(invited(&site, "ben@example.test"), Value::Null);
    let resent = site.text(&["user", "invitation", "ben@example.test", "resend"]);
    assert!(resent.contains("invitation: invited\n"), "{resent}");
    let list = site.text(&["user", "list"]);
    assert!(list.lines().next().unwrap().ends_with("INVITATION") && list.contains("invited"), "{list}");
}

#[test]
fn where_no_mail_is_sent_nobody_is_invited_and_it_is_said_what_is_missing() {
    let site = site();
    let invite = ["user", "invite", "--email", "anna@example.test", "--name", "Anna"];
    let errors = site.errors(&invite, "");
    assert!(errors.len() == 1 && errors[0].starts_with("a running server sends invitations, and none runs"));
    let _server = Server::start(&site);
    let errors = site.errors(&invite, "");
    let told = "this server sends no mail, so nobody can be invited: configure [mail], and make a wrapping key";
    assert!(errors.len() == 1 && errors[0].starts_with(told), "{errors:?}");
}
