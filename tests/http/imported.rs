//! Tests users who were imported with password hashes of another system: they sign in with their
//! existing password.

use sealgate_admin::command::Command;
use sealgate_admin::{CommandContext, CommandError, execute};
use sealgate_domain::user::{Email, PasswordHash, User};
use serde_json::json;

use crate::foreign_hashes::{FOREIGN_HASHES, IMPORTED_PASSWORD};
use crate::meddler::At;
use crate::steps::{assert_consent, assert_login};
use crate::support::{Browser, Provider, Reply};

const CAROL: &str = "carol@example.test";

/// Sends an import of these users, as `user import` does.
async fn import(provider: &Provider, people: &[(&str, &str)]) -> Result<(), Vec<String>> {
    let row = |(line, (email, hash)): (usize, &(&str, &str))| {
        json!({
            "line": line, "email": email, "email_verified": true, "name": "Carol Example", "username": "", "phone_number": "",
            "groups": [], "password_hash": hash,
        })
    };
    let rows: Vec<_> = (1..).zip(people).map(row).collect();
    let file = json!({ "rows": rows, "faults": [], "skipped": 0 });
    let command = json!({ "user": { "import": { "dry_run": false, "file": file } } });
    let command: Command = serde_json::from_value(command).unwrap();
    execute(&CommandContext::new(&provider.sealgate), command).await.map(drop).map_err(CommandError::into_lines)
}

async fn user(provider: &Provider, email: &str) -> User {
    provider.sealgate.store.user_by_email(&Email::parse(email).unwrap()).await.unwrap().unwrap()
}

async fn hash(provider: &Provider, email: &str) -> String {
    user(provider, email).await.password.unwrap().as_str().to_owned()
}

async fn sign_in(browser: &Browser<'_>, provider: &Provider, email: &str, password: &str) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    browser.submit(&page, &[("email", email), ("password", password)]).await
}

const TODAYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$";

#[tokio::test]
async fn an_imported_password_works_and_is_rehashed() {
    let provider = Provider::new().await;
    let addresses: Vec<String> = (0..FOREIGN_HASHES.len()).map(|number| format!("p{number}@example.test")).collect();
    let people: Vec<(&str, &str)> =
        addresses.iter().zip(FOREIGN_HASHES).map(|(email, (_, hash))| (email.as_str(), *hash)).collect();
    import(&provider, &people).await.unwrap();
    for (number, (email, foreign)) in people.into_iter().enumerate() {
        // Each attempt comes from another address, because of the limits per address.
        let browser = || {
            let mut browser = provider.browser();
            browser.address = format!("198.51.100.{number}");
            browser
        };
        let kept = hash(&provider, email).await;
        assert!(foreign.ends_with(&kept) && kept.len() > 25, "{foreign}");
        let here = browser();
        assert_login(&sign_in(&here, &provider, email, "correct horse batter").await);
        assert_eq!(hash(&provider, email).await, kept, "a wrong password changes nothing");
        assert_consent(&sign_in(&here, &provider, email, IMPORTED_PASSWORD).await);
        let first = hash(&provider, email).await;
        assert!(first.starts_with(TODAYS), "{foreign}: {first}");
        // After the sign-in it is a password like any other.
        let again = browser();
        assert_login(&sign_in(&again, &provider, email, "wrong").await);
        assert_consent(&sign_in(&again, &provider, email, IMPORTED_PASSWORD).await);
        assert_eq!(hash(&provider, email).await, first);
    }
}

#[tokio::test]
async fn an_empty_password_never_signs_in() {
    // SHA-512 crypt of the empty password. The import rejects only hashes that it can verify
    // quickly.
    const EMPTY: &str =
        "$6$saltsalt$qkTgsCrWMTAS9gBGcf9W60sFfH.hU0oTCAOJjhbz5tSp/sU3/xXZK4OFwCtq8lIIdpJ6CatVdOTSHKp97TPkt/";
    let provider = Provider::new().await;
    import(&provider, &[(CAROL, EMPTY)]).await.unwrap();
    let kept = hash(&provider, CAROL).await;
    assert_login(&sign_in(&provider.browser(), &provider, CAROL, "").await);
    assert_eq!(hash(&provider, CAROL).await, kept);
}

#[tokio::test]
async fn a_password_set_during_the_first_sign_in_is_kept() {
    let (provider, meddler) = Provider::meddled().await;
    import(&provider, &[(CAROL, FOREIGN_HASHES[0].1)]).await.unwrap();
    let sub = user(&provider, CAROL).await.sub;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    // The password was correct, and its new hash is about to be written.
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let set = stop.meanwhile(async {
        let other = PasswordHash::new(format!("{TODAYS}other"));
        provider.sealgate.store.change_user(sub, |user| user.password = Some(other.clone())).await.unwrap();
    });
    let (page, ()) = tokio::join!(browser.submit(&page, &[("email", CAROL), ("password", IMPORTED_PASSWORD)]), set);
    assert_eq!(hash(&provider, CAROL).await, format!("{TODAYS}other"));
    // The typed password is no longer valid.
    assert_login(&page);
    assert_eq!(browser.cookie("__Host-sealgate"), None);
}

#[tokio::test]
async fn the_first_sign_in_succeeds_if_the_new_hash_cannot_be_stored() {
    let (provider, meddler) = Provider::meddled().await;
    let foreign = FOREIGN_HASHES[0].1;
    import(&provider, &[(CAROL, foreign)]).await.unwrap();
    meddler.fail(Some(b'u'));
    assert_consent(&sign_in(&provider.browser(), &provider, CAROL, IMPORTED_PASSWORD).await);
    assert_eq!(hash(&provider, CAROL).await, foreign);
}

#[tokio::test]
async fn a_user_imported_without_a_hash_cannot_sign_in() {
    let provider = Provider::new().await;
    import(&provider, &[(CAROL, "")]).await.unwrap();
    assert_eq!(user(&provider, CAROL).await.password, None);
    assert_login(&sign_in(&provider.browser(), &provider, CAROL, "").await);
}

#[tokio::test]
async fn an_imported_password_is_changed_on_the_account_page() {
    let provider = Provider::new().await;
    import(&provider, &[(CAROL, FOREIGN_HASHES[0].1)]).await.unwrap();
    let browser = provider.browser();
    assert_consent(&sign_in(&browser, &provider, CAROL, IMPORTED_PASSWORD).await);
    // The store still holds the imported hash, as after a failed write.
    let foreign = PasswordHash::new(FOREIGN_HASHES[0].1.to_owned());
    let sub = user(&provider, CAROL).await.sub;
    provider.sealgate.store.change_user(sub, |user| user.password = Some(foreign.clone())).await.unwrap();
    let page = browser.get("/account/password").await;
    let new = "staple of another colour";
    let typed = |current| [("current", current), ("new", new), ("again", new)];
    browser.submit(&page, &typed("wrong")).await;
    assert_eq!(hash(&provider, CAROL).await, foreign.as_str());
    browser.submit(&page, &typed(IMPORTED_PASSWORD)).await;
    assert!(hash(&provider, CAROL).await.starts_with(TODAYS));
    assert_consent(&sign_in(&provider.browser(), &provider, CAROL, new).await);
}

#[tokio::test]
async fn an_import_with_an_unusable_hash_adds_no_users() {
    let provider = Provider::new().await;
    let good = FOREIGN_HASHES[0].1;
    let costly = good.replace("$05$", "$31$");
    let people = [(CAROL, good), ("dan@example.test", costly.as_str()), ("ANNA@example.test", good), (CAROL, good)];
    let faults = import(&provider, &people).await.unwrap_err();
    let begins = [
        "line 2: password_hash: the hash takes longer to verify",
        "line 3: email: a user with this",
        "line 4: email: line 1 has",
    ];
    assert!(faults.iter().zip(begins).all(|(fault, begins)| fault.starts_with(begins)), "{faults:#?}");
    assert_eq!(faults.last().unwrap(), "no user was imported");
    assert!(provider.sealgate.store.user_by_email(&Email::parse(CAROL).unwrap()).await.unwrap().is_none());
}
