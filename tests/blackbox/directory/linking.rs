//! `user link` and `user unlink`, and links that users add themselves.

use serde_json::Value;

use super::{Keys, World, header, problem};
use crate::slapd::{BASE, user};
use crate::support::{Browser, PASSWORD, Page, until};

/// Two local users, and the directory's accounts `anna` and `otto` with other addresses.
fn world() -> World {
    world_with(&Keys::default())
}

fn world_with(keys: &Keys<'_>) -> World {
    let world = World::start(&(user("anna", "") + &user("otto", "")), keys);
    for (email, name) in [("a.celik@example.org", "Anna"), ("ben@example.org", "Ben")] {
        world
            .instance
            .run_with_input(&["user", "add", email, "--name", name, "--email-verified", "--password-stdin"], PASSWORD);
    }
    world
}

async fn enters(world: &World, name: &str, password: &str) -> (Browser, Page) {
    let (browser, page) = world.enter(name, password).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("\"headers\""), "{page:?}");
    (browser, page)
}

/// Runs a command that is refused, and returns its message.
fn refused(world: &World, arguments: &[&str]) -> String {
    let output = world.instance.try_run(arguments, "");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn a_linked_user_keeps_id_and_groups_and_signs_in_at_the_directory_only() {
    let world = world();
    world.instance.run(&["user", "set", "a.celik@example.org", "--group", "local"]);
    let (before, _) = enters(&world, "a.celik@example.org", PASSWORD).await;
    let sub = world.show("a.celik@example.org")["sub"].clone();

    world.instance.run(&["user", "link", "a.celik@example.org", "corp", "anna"]);
    world.becomes(&before, 302).await;
    let (_, page) = world.enter("a.celik@example.org", PASSWORD).await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
    let (_, page) = enters(&world, "anna", "password of anna").await;
    assert_eq!(header(&page, "x-forwarded-email").as_deref(), Some("anna@example.test"));
    let shown = world.show("anna");
    assert_eq!((&shown["sub"], &shown["groups"][0]), (&sub, &Value::from("local")), "{shown}");
    assert_eq!(world.instance.json(&["user", "list"])["users"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_account_belongs_to_one_user_and_a_user_to_one_source() {
    let world = world();
    enters(&world, "otto", "password of otto").await;
    let said = refused(&world, &["user", "link", "ben@example.org", "corp", "otto"]);
    let holder = world.show("otto")["sub"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("sealgate user delete {holder}")), "{said}");
    enters(&world, "ben@example.org", PASSWORD).await;

    world.instance.run(&["user", "link", "a.celik@example.org", "corp", "anna"]);
    let said = refused(&world, &["user", "link", "a.celik@example.org", "corp", "otto"]);
    assert!(said.contains("sealgate user unlink"), "{said}");
    let said = refused(&world, &["user", "link", "ben@example.org", "corp", "nobody"]);
    assert!(said.contains("nobody"), "{said}");
    let said = refused(&world, &["user", "link", "ben@example.org", "other", "anna"]);
    assert!(said.contains("corp"), "{said}");
    let said = refused(&world, &["user", "unlink", "ben@example.org"]);
    assert!(said.contains("not linked"), "{said}");
}

#[tokio::test]
async fn an_unlinked_user_is_local_without_a_password() {
    let world = world();
    let (anna, _) = enters(&world, "anna", "password of anna").await;
    let sub = world.show("anna")["sub"].clone();
    world.instance.run(&["user", "unlink", "anna"]);
    world.becomes(&anna, 302).await;
    let (_, page) = world.enter("anna", "password of anna").await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
    world.instance.run_with_input(&["user", "set-password", "anna", "--password-stdin"], PASSWORD);
    enters(&world, "anna", PASSWORD).await;
    let shown = world.show("anna");
    assert_eq!((&shown["sub"], &shown["source"]), (&sub, &Value::Null), "{shown}");
}

#[tokio::test]
async fn unlinking_does_not_give_access_back() {
    let world = world();
    let (anna, _) = enters(&world, "anna", "password of anna").await;
    let sub = world.show("anna")["sub"].as_str().unwrap().to_owned();
    world.slapd.change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: delete\n"));
    world.becomes(&anna, 302).await;
    until("the account is gone", async || world.show(&sub)["source"]["state"] == "gone").await;
    world.instance.run(&["user", "unlink", &sub]);
    assert_eq!(world.show(&sub)["state"], "disabled");
    world.instance.run_with_input(&["user", "set-password", &sub, "--password-stdin"], PASSWORD);
    let (_, page) = world.enter("anna", PASSWORD).await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
}

/// Submits a name and a password of the directory on the page that links an account.
async fn prove(world: &World, browser: &Browser, name: &str, password: &str) -> Page {
    let form = browser.open(&world.instance.url("/account/security/link?source=corp")).await;
    assert!(form.body.contains("id=\"link-submit\""), "{form:?}");
    browser.submit(&form, &[("account", name), ("password", password)]).await
}

fn is_confirmation(page: &Page) -> bool {
    page.status == 200 && page.body.contains("id=\"link-confirm\"")
}

#[tokio::test]
async fn a_user_links_an_account_of_the_directory_with_both_passwords() {
    let world = world();
    let (browser, _) = enters(&world, "a.celik@example.org", PASSWORD).await;
    let sub = world.show("a.celik@example.org")["sub"].clone();
    let page = prove(&world, &browser, "anna", "password of anna").await;
    for expected in ["a.celik@example.org", "anna@example.test", "Your password here is removed"] {
        assert!(page.body.contains(expected), "{expected}: {page:?}");
    }
    enters(&world, "a.celik@example.org", PASSWORD).await;
    let done = browser.submit(&page, &[]).await;
    assert!(done.body.contains("Accounts linked"), "{done:?}");
    world.becomes(&browser, 302).await;
    let (_, page) = world.enter("anna", PASSWORD).await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
    let (browser, page) = enters(&world, "anna", "password of anna").await;
    assert_eq!(header(&page, "x-forwarded-email").as_deref(), Some("anna@example.test"));
    assert_eq!(world.show("anna")["sub"], sub);
    assert_eq!(world.instance.json(&["user", "list"])["users"].as_array().unwrap().len(), 2);
    // The user has no passkey, and could not sign in without the link.
    let page = browser.open(&world.instance.url("/account/security/unlink")).await;
    assert!(page.status == 409 && page.body.contains("Add a passkey first"), "{page:?}");
    assert!(!world.instance.run(&["audit", "list", "--kind", "account_linked"]).is_empty());
}

#[tokio::test]
async fn an_account_of_another_user_is_not_linked() {
    let world = world();
    enters(&world, "otto", "password of otto").await;
    let (browser, _) = enters(&world, "ben@example.org", PASSWORD).await;
    let page = prove(&world, &browser, "otto", "password of otto").await;
    assert!(page.status == 409 && page.body.contains("sealgate user link"), "{page:?}");
    enters(&world, "ben@example.org", PASSWORD).await;
}

/// The form must not give an attacker more guesses than the sign-in page.
#[tokio::test]
async fn passwords_for_a_link_are_counted_with_those_of_sign_ins() {
    let world = world_with(&Keys { sections: "[login]\nfailures_per_account = 4\n", ..Keys::default() });
    let (browser, _) = enters(&world, "ben@example.org", PASSWORD).await;
    // Half of the guesses are permitted at once.
    for name in ["anna", "anna@example.test"] {
        let page = prove(&world, &browser, name, "wrong").await;
        assert!(page.status == 200 && page.body.contains("Incorrect"), "{page:?}");
    }
    let page = prove(&world, &browser, "ANNA@example.test", "password of anna").await;
    assert!(page.status == 429 && page.headers.contains_key("retry-after"), "{page:?}");
    let (_, page) = world.enter("anna", "password of anna").await;
    assert_eq!(page.status, 429, "{page:?}");
    let page = prove(&world, &browser, "otto", "password of otto").await;
    assert!(is_confirmation(&page), "{page:?}");
}

#[tokio::test]
async fn no_guess_is_charged_for_a_link_while_the_directory_is_away() {
    let sections = "[login]\nfailures_per_account = 3\n";
    let world = world_with(&Keys { timeout_seconds: 5, sections, ..Keys::default() });
    let (browser, _) = enters(&world, "ben@example.org", PASSWORD).await;
    world.slapd.suspend();
    for _ in 0..4 {
        let page = prove(&world, &browser, "anna", "password of anna").await;
        assert!(page.status == 503 && page.headers.contains_key("retry-after"), "{page:?}");
        assert!(page.body.contains("does not answer, so nothing was linked"), "{page:?}");
    }
    world.slapd.resume();
    let page = prove(&world, &browser, "anna", "password of anna").await;
    assert!(is_confirmation(&page), "{page:?}");
}
