//! Tests the remaining validity of a cookie that was replaced: by a renewed sign-in, by a new
//! password, by "end every other session".

use sealgate_core::password::hash_blocking;
use secrecy::SecretString;

use crate::browser::Browser;
use crate::world::{ANNA, PASSWORD, World};

const COOKIE: &str = "__Host-sealgate";

/// Returns an attacker's browser with the session cookies of the victim's browser.
fn thief<'w>(world: &'w World, victim: &Browser<'_>, hosts: &[&str]) -> Browser<'w> {
    let thief = Browser::new(world);
    for host in hosts {
        thief.set_cookie(host, COOKIE, &victim.cookie(host, COOKIE).unwrap());
    }
    thief
}

/// An attacker with the provider's cookie opens an application. Then the victim changes the
/// password or ends all other sessions.
#[tokio::test]
async fn a_new_password_ends_application_sessions_of_a_stolen_cookie() {
    let new = format!("{PASSWORD} II");
    let password = [("current", PASSWORD), ("new", new.as_str()), ("again", new.as_str())];
    for (page, fields) in [("password", &password[..]), ("sessions", &[("others", "yes")])] {
        let world = World::new().await;
        let anna = Browser::new(&world);
        anna.sign_in_at("https://wiki.test/a", ANNA).await.arrived();
        let thief = thief(&world, &anna, &["id.test"]);
        for url in ["https://wiki.test/a", "https://shop.test/orders/"] {
            thief.open(url).await.arrived();
        }
        thief.fetch("https://id.test/dashboard").await.arrived();
        let form = anna.open(&format!("https://id.test/account/{page}")).await;
        let stolen = anna.cookie("id.test", COOKIE).unwrap();
        // Longer than the resolution of the last use: its update must not interfere.
        world.wait(120);
        let done = anna.submit(&form, fields).await;
        assert_eq!(done.status, 200, "{done:?}");
        assert_ne!(anna.cookie("id.test", COOKIE).unwrap(), stolen);
        for url in ["https://wiki.test/a", "https://shop.test/orders/", "https://id.test/dashboard"] {
            thief.fetch(url).await.assert_refused(401, "login_required");
            thief.fetch(url).await.assert_refused(401, "login_required");
        }
        // She is still signed in, and her applications open without a sign-in.
        anna.fetch("https://id.test/dashboard").await.arrived();
        anna.open("https://wiki.test/a").await.arrived();
        let sessions = world.sealgate.store.sessions_of_user(world.anna.sub, None, 10).await.unwrap().sessions;
        assert_eq!(sessions.len(), 1, "{page}");
    }
}

/// Ending all other sessions keeps every user of this browser signed in.
#[tokio::test]
async fn other_users_of_the_browser_stay_signed_in() {
    let world = World::new().await;
    let hash = hash_blocking(&SecretString::from(PASSWORD), [8; 16]).unwrap();
    world.sealgate.store.change_user(world.ben.sub, |user| user.password = Some(hash.clone())).await.unwrap();
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/dashboard", ANNA).await.arrived();
    let page = browser.open("https://id.test/.sealgate/switch-account").await;
    let page = browser.submit(&page, &[("account", "")]).await;
    browser.sign_in(&page, crate::world::BEN).await.arrived();
    let form = browser.open("https://id.test/account/sessions").await;
    browser.submit(&form, &[("others", "yes")]).await;
    let sessions = world.sealgate.store.sessions_of_user(world.anna.sub, None, 10).await.unwrap().sessions;
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].sign_ins.len(), 2);
}

/// On the issuer's own host the provider's cookie opens the application. After a renewed sign-in
/// the old cookie is rejected at once, even on paths that it opened before.
#[tokio::test]
async fn a_cookie_replaced_by_a_renewed_sign_in_gives_no_access() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/recent/", ANNA).await.arrived();
    world.wait(400);
    browser.fetch("https://id.test/recent/").await.assert_refused(401, "insufficient_user_authentication");
    let old = thief(&world, &browser, &["id.test"]);
    old.fetch("https://id.test/dashboard").await.arrived();
    let page = browser.open("https://id.test/recent/").await;
    browser.sign_in(&page, ANNA).await.arrived();
    for path in ["recent/", "level/", "dashboard"] {
        old.fetch(&format!("https://id.test/{path}")).await.assert_refused(401, "login_required");
        browser.fetch(&format!("https://id.test/{path}")).await.arrived();
    }
}

/// The cookie opens no other application, because the provider issues no code for it.
#[tokio::test]
async fn a_cookie_replaced_by_a_renewed_sign_in_opens_no_other_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/recent/", ANNA).await.arrived();
    world.wait(400);
    let old = thief(&world, &browser, &["id.test"]);
    let page = browser.open("https://id.test/recent/").await;
    browser.sign_in(&page, ANNA).await.arrived();
    let end = old.open("https://wiki.test/a").await;
    assert!(crate::browser::is_login(&end), "{end:?}");
}
