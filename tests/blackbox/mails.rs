//! Tests the delivery of mail by a running server through a mail server that works, fails, or fails
//! partially.

use serde_json::Value;

use crate::mail_server::{Illness, MailServer, Received};
use crate::support::{Browser, Instance, Settings, wait_until};

/// Timeout of an attempt in seconds.
const TIMEOUT: u64 = 2;

/// Returns a server that delivers through this relay, with users at these addresses.
fn instance(relay: &MailServer, people: &[&str]) -> Instance {
    let mut instance = Instance::prepare(&Settings { sections: section(relay), ..Settings::default() });
    for person in people {
        let words = ["user", "add", person, "--name", "Somebody", "--password-stdin"];
        instance.run_with_input(&words, "a password for everybody\n");
    }
    instance.start();
    instance
}

/// Returns the configuration section for this relay.
fn section(relay: &MailServer) -> String {
    format!(
        "[mail]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"id@example.test\"\n\
         timeout_seconds = {TIMEOUT}\nper_minute = 6000\n",
        relay.port
    )
}

/// Requests a password reset for Anna, whom each instance has.
async fn ask_for_reset(instance: &Instance) {
    let browser = Browser::new(instance);
    let page = browser.open(&instance.url("/account")).await;
    let (_, link) = page.body.split_once("id=\"forgot-password\" href=\"").expect("a link");
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    let page = browser.open(&instance.url(&link)).await;
    assert_eq!(browser.submit(&page, &[("email", "anna@example.test")]).await.status, 200);
}

/// Invites this number of users.
fn invite(instance: &Instance, count: usize) {
    let people = (0..count).map(|number| format!("p{number}@example.test,P\n")).collect::<Vec<_>>().concat();
    instance.run_with_input(&["user", "invite", "--from", "-"], &format!("email,name\n{people}"));
}

/// Changes a user as an administrator, which notifies the user.
fn act_on(instance: &Instance, person: &str) {
    instance.run(&["user", "set", person, "--name", "Somebody Else"]);
}

fn listed(instance: &Instance, more: &[&str]) -> Vec<Value> {
    let words = [&["mail", "list"], more].concat();
    instance.json(&words)["mails"].as_array().unwrap().clone()
}

fn ids(mails: &[Received]) -> Vec<String> {
    mails.iter().map(|mail| mail.header("Message-ID").unwrap()).collect()
}

fn sent(instance: &Instance) -> usize {
    listed(instance, &["--sent"]).len()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_delivered_once_after_the_mail_server_recovers() {
    let relay = MailServer::start();
    relay.is_now(Illness { silent: true, ..Illness::default() });
    let people = ["one@example.test", "two@example.test", "three@example.test"];
    let mut instance = instance(&relay, &people);
    for person in people {
        act_on(&instance, person);
    }
    instance.tells("the mail server cannot be used");
    assert_eq!(listed(&instance, &[]).len(), people.len());
    // Users who sign in are unaffected.
    let browser = Browser::new(&instance);
    let page = browser.open(&instance.url("/account")).await;
    assert_eq!(browser.sign_in(&page).await.status, 200);
    let metrics = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("sealgate_mail_server_usable 0"), "{metrics}");

    relay.is_now(Illness::default());
    // Delivery is retried after half a minute; a restart retries at once.
    assert_eq!(instance.stop(), Some(0));
    instance.start();
    wait_until("all were sent", || sent(&instance) == people.len());
    for person in people {
        let mail = relay.wait_for_mail_to(person).await;
        assert_eq!(relay.mails_to(person).len(), 1);
        assert_eq!(mail.header("Auto-Submitted").as_deref(), Some("auto-generated"));
    }
    assert!(listed(&instance, &[]).is_empty());
    let log = instance.log();
    assert!(people.iter().all(|person| !log.contains(person)), "an address in the log");
}

#[test]
fn a_mail_in_delivery_when_the_process_died_is_sent_again_with_the_same_id() {
    let relay = MailServer::start();
    // The relay has the message, but has not answered yet.
    relay.is_now(Illness { closes_after_data: true, ..Illness::default() });
    let mut instance = instance(&relay, &["one@example.test"]);
    act_on(&instance, "one@example.test");
    relay.await_mail_to("one@example.test");
    instance.kill();
    relay.is_now(Illness::default());
    instance.start();
    // Without the command, the message would be retried when the lease of the previous process
    // expires.
    let waiting = listed(&instance, &[])[0]["id"].as_str().unwrap().to_owned();
    instance.run(&["mail", "retry", &waiting]);
    wait_until("it was sent", || sent(&instance) == 1);
    let mails = relay.mails_to("one@example.test");
    assert!(mails.len() >= 2, "{} mails", mails.len());
    let ids = ids(&mails);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_refused_mail_is_given_up_and_can_be_retried_or_deleted() {
    let relay = MailServer::start();
    relay.is_now(Illness::answering("RCPT", "550 5.1.1 no mailbox of this name"));
    let instance = instance(&relay, &["one@example.test", "two@example.test"]);
    act_on(&instance, "one@example.test");
    act_on(&instance, "two@example.test");
    let given_up = || listed(&instance, &[]).iter().filter(|mail| mail["state"] == "given_up").count();
    wait_until("both were given up", || given_up() == 2);
    relay.is_now(Illness::default());
    let known = listed(&instance, &[]);
    assert!(known.iter().all(|mail| mail["reason"] == "refused" && mail["kind"] == "notice"), "{known:?}");
    assert!(known[0]["answer"].as_str().unwrap().contains("5.1.1"), "{known:?}");
    assert!(!serde_json::to_string(&known).unwrap().contains("example.test"), "an address: {known:?}");

    let [retried, dropped] = [0, 1].map(|at| known[at]["id"].as_str().unwrap().to_owned());
    assert_eq!(instance.json(&["mail", "retry", &retried])["retried"], true);
    assert_eq!(instance.json(&["mail", "delete", &dropped])["deleted"], true);
    assert!(!instance.try_run(&["mail", "delete", &dropped], "").status.success());
    wait_until("it was sent", || sent(&instance) == 1);
    assert_eq!(relay.mails().len(), 1);
    assert!(listed(&instance, &[]).is_empty());
}

/// Undeliverable messages precede requests of attackers in the queue. If they blocked it, the
/// outbox would fill up and no notification could be sent.
#[tokio::test(flavor = "multi_thread")]
async fn lookups_are_not_blocked_by_undeliverable_messages() {
    let relay = MailServer::start();
    relay.is_now(Illness { silent: true, ..Illness::default() });
    let instance = instance(&relay, &[]);
    for number in 0..40 {
        instance.run(&["user", "invite", &format!("p{number}@example.test"), "--name", "Somebody"]);
    }
    instance.tells("the mail server cannot be used");
    let browser = Browser::new(&instance);
    let page = browser.open(&instance.url("/account")).await;
    let (_, link) = page.body.split_once("id=\"forgot-password\" href=\"").expect("a link");
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    let page = browser.open(&instance.url(&link)).await;
    for account in ["anna@example.test", "nobody@example.test"] {
        assert_eq!(browser.submit(&page, &[("email", account)]).await.status, 200);
    }
    let count = |kind: &str| listed(&instance, &[]).iter().filter(|mail| mail["kind"] == kind).count();
    wait_until("both were looked up", || (count("reset_wanted"), count("reset")) == (0, 1));
    assert!(count("invitation") == 40 && relay.mails().is_empty());
}

#[test]
fn a_reload_applies_another_mail_server_at_once() {
    let relay = MailServer::start();
    let instance = Instance::started(&Settings::default());
    let invite = ["user", "invite", "one@example.test", "--name", "Somebody"];
    let refused = instance.try_run(&invite, "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("configure [mail]"), "{refused:?}");
    instance.configure(&Settings { sections: section(&relay), ..Settings::default() });
    instance.run(&["reload"]);
    instance.run(&invite);
    let mail = relay.await_mail_to("one@example.test");
    assert!(mail.link().starts_with(&instance.url("/oauth/invitation?token=")), "{mail:?}");
    act_on(&instance, "one@example.test");
    wait_until("both were sent", || sent(&instance) == 2);
}

#[test]
fn a_refusal_of_one_recipient_does_not_delay_others() {
    for line in ["421 4.7.0 too many", "554 5.7.1 <one@example.test>: Relay access denied"] {
        let relay = MailServer::start();
        relay.is_now(Illness::about("one@example.test", line));
        let instance = instance(&relay, &["one@example.test", "two@example.test", "three@example.test"]);
        for person in ["one@example.test", "two@example.test", "three@example.test"] {
            act_on(&instance, person);
        }
        wait_until("the others were sent", || sent(&instance) == 2);
        wait_until("the one was tried", || listed(&instance, &[])[0]["attempts"] == 1);
        let waiting = listed(&instance, &[]);
        assert_eq!((waiting.len(), waiting[0]["state"].as_str()), (1, Some("waiting")), "{waiting:?}");
        assert!(!instance.log().contains("the mail server cannot be used"), "{line}");
    }
}

#[test]
fn sending_pauses_while_the_mail_server_refuses_all_recipients() {
    let relay = MailServer::start();
    relay.is_now(Illness::answering("RCPT", "554 5.7.1 Relay access denied"));
    let people =
        ["a@example.test", "b@example.test", "c@example.test", "d@example.test", "e@example.test", "f@example.test"];
    let instance = instance(&relay, &people);
    for person in people {
        act_on(&instance, person);
    }
    instance.tells("it refused messages to 5 recipients in a row (554 5.7.1 Relay access denied)");
    let tried = || listed(&instance, &[]).iter().filter(|mail| mail["attempts"] != 0).count();
    assert_eq!((tried(), listed(&instance, &[]).len()), (5, people.len()));
    relay.is_now(Illness::default());
    let waiting = listed(&instance, &[]);
    assert!(waiting.iter().all(|mail| mail["state"] == "waiting"), "{waiting:?}");
    for mail in &waiting {
        instance.run(&["mail", "retry", mail["id"].as_str().unwrap()]);
    }
    // Nothing is sent before the pause ends or a reload changes the configuration.
    assert_eq!(sent(&instance), 0);
    let section = section(&relay).replace("per_minute = 6000", "per_minute = 5999");
    instance.configure(&Settings { sections: section, ..Settings::default() });
    instance.run(&["reload"]);
    wait_until("all were sent", || sent(&instance) == people.len());
    assert_eq!(relay.mails().len(), people.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requested_message_precedes_bulk_invitations() {
    let relay = MailServer::start();
    let sections = section(&relay).replace("per_minute = 6000", "per_minute = 180");
    let instance = Instance::started(&Settings { sections, ..Settings::default() });
    invite(&instance, 200);
    wait_until("the first has left", || !relay.mails().is_empty());
    ask_for_reset(&instance).await;
    wait_until("it has left", || !relay.mails_to("anna@example.test").is_empty());
    let before = relay.mails().len();
    assert!(before < 150, "after {before} of 201");
}

#[test]
fn a_long_mail_list_is_complete() {
    let relay = MailServer::start();
    relay.is_now(Illness { silent: true, ..Illness::default() });
    let instance = instance(&relay, &[]);
    invite(&instance, 1_200);
    instance.tells("the mail server cannot be used");
    let listed = listed(&instance, &[]);
    let ids: std::collections::HashSet<&str> = listed.iter().map(|mail| mail["id"].as_str().unwrap()).collect();
    assert_eq!((listed.len(), ids.len()), (1_200, 1_200));
}
