//! Tests usernames: an alternative name to sign in with, and the user's name in applications.

use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;
use sealgate_system::clock::Clock;

use crate::steps::assert_login;
use crate::support::{PASSWORD, Provider, Reply, Tokens, jwt_claims};

const SESSION: &str = "__Host-sealgate";

async fn named(provider: &Provider, user: &User, username: &str) {
    let username = Username::parse(username);
    assert!(username.is_some());
    let change = |user: &mut User| user.username.clone_from(&username);
    let outcome = provider.sealgate.store.rename_user(user.sub, change).await.unwrap();
    assert!(matches!(outcome, RenameOutcome::Renamed(_)), "{outcome:?}");
}

async fn sign_in(provider: &Provider, typed: &str, password: &str) -> (Reply, bool) {
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let reply = browser.submit(&page, &[("email", typed), ("password", password)]).await;
    (reply, browser.cookie(SESSION).is_some())
}

#[tokio::test]
async fn a_username_signs_in_like_the_address_in_any_case_of_ascii() {
    let provider = Provider::new().await;
    named(&provider, &provider.anna, "admin").await;
    for typed in ["admin", "ADMIN", " Admin ", "anna@example.test"] {
        assert!(sign_in(&provider, typed, PASSWORD).await.1, "{typed}");
    }
    // Dotless, dotted and full-width letters are different characters.
    for typed in ["admın", "ADMİN", "ａdmin", "admin.", "admin@", "adm in"] {
        let (page, signed_in) = sign_in(&provider, typed, PASSWORD).await;
        assert_login(&page);
        assert!(!signed_in && page.text().contains("Incorrect email address, username or password"), "{typed}");
    }
    let (page, signed_in) = sign_in(&provider, "admin", "wrong").await;
    assert!(!signed_in && page.text().contains("Incorrect email address, username or password"));
}

#[tokio::test]
async fn guesses_at_known_and_unknown_usernames_are_limited() {
    let provider = Provider::with("[login]\nfailures_per_account = 3").await;
    named(&provider, &provider.anna, "anna").await;
    for typed in ["anna", "nobody"] {
        for spelling in [typed.to_owned(), typed.to_uppercase(), format!(" {typed}")] {
            assert_eq!(sign_in(&provider, &spelling, "wrong").await.0.status, 200, "{spelling}");
        }
        assert_eq!(sign_in(&provider, typed, PASSWORD).await.0.status, 429, "{typed}");
    }
}

#[tokio::test]
async fn the_profile_scope_returns_the_username() {
    let provider = Provider::new().await;
    let claim = async |scope: &str| {
        let tokens: Tokens = provider.c1().tokens(scope).await;
        let info = provider.userinfo(&tokens.access).await.json();
        assert_eq!(jwt_claims(&tokens.id)["preferred_username"], info["preferred_username"]);
        info["preferred_username"].clone()
    };
    assert!(claim("openid profile").await.is_null(), "who has none has no claim");
    named(&provider, &provider.anna, "anna.s").await;
    assert_eq!(claim("openid profile").await, "anna.s");
    assert!(claim("openid email").await.is_null());
    // The consent page shows the data that the client will receive.
    let browser = provider.browser();
    let page = browser.open(&provider.c2().authorize(&[("scope", "openid profile")])).await;
    let consent = browser.sign_in(&page, "anna.s").await;
    assert!(consent.text().contains("anna.s"), "{consent:?}");
}

#[tokio::test]
async fn a_removed_username_identifies_no_user() {
    let provider = Provider::new().await;
    named(&provider, &provider.anna, "anna").await;
    named(&provider, &provider.anna, "anna2").await;
    assert!(!sign_in(&provider, "anna", PASSWORD).await.1);
    assert!(sign_in(&provider, "anna2", PASSWORD).await.1);
    provider.sealgate.store.delete_user(provider.anna.sub, provider.clock.now()).await.unwrap();
    assert!(!sign_in(&provider, "anna2", PASSWORD).await.1);
    // The name is free for other users.
    named(&provider, &provider.ben, "anna2").await;
    assert!(sign_in(&provider, "anna2", PASSWORD).await.1);
}
