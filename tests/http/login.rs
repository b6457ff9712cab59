//! Tests passwords and sessions: no way to learn which accounts exist, a limit on guesses, and no
//! session fixation.

use std::time::{Duration, Instant};

use sealgate_core::password::hash_blocking;
use sealgate_domain::user::{PasswordHash, User, UserState};
use secrecy::SecretString;

use crate::steps::{assert_code, assert_consent, assert_login, with_anna};
use crate::support::{Browser, PASSWORD, Provider, Reply, form_action, is_login};

const ANNA: &str = "anna@example.test";
const SESSION: &str = "__Host-sealgate";

/// Tries a password on a new sign-in page.
async fn guess(browser: &Browser<'_>, provider: &Provider, email: &str, password: &str) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    browser.submit(&page, &[("email", email), ("password", password)]).await
}

/// Returns a page's text without the parts that differ between requests.
fn text(page: &Reply) -> String {
    let differs = |line: &&str| ["action=", "name=\"csrf\"", " hreflang="].iter().any(|part| line.contains(part));
    page.text().lines().filter(|line| !differs(line)).collect::<Vec<_>>().join("\n")
}

/// Asserts that the page reports wrong credentials, and that no user is signed in.
#[track_caller]
fn assert_wrong(browser: &Browser<'_>, page: &Reply) {
    assert_login(page);
    assert!(
        page.text().contains("id=\"login-problem\"")
            && page.text().contains("Incorrect email address, username or password")
    );
    assert_eq!(browser.cookie(SESSION), None);
}

#[track_caller]
fn assert_throttled(page: &Reply) {
    assert_eq!(page.status, 429, "{page:?}");
    assert!(page.text().contains("Too many sign-in attempts"));
    assert!(page.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
}

/// macOS sends some letters as two code points (NFD), most other systems as one (NFC).
#[tokio::test]
async fn a_password_matches_in_every_unicode_composition() {
    const COMPOSED: &str = "g\u{fc}l \u{15f}eker \u{130}zmir vapur";
    const DECOMPOSED: &str = "gu\u{308}l s\u{327}eker I\u{307}zmir vapur";
    let provider = Provider::new().await;
    let salt = *b"0123456789abcdef";
    // Hash of an older version (created with libargon2) of the unnormalized password.
    let old = "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$pZK69N1r3jCmGRWy+H7PsBUO3Okr8JEuRz6AI+DkGTU";
    let kept = |text: &str| hash_blocking(&SecretString::from(text), salt).unwrap();
    for (name, hash, opens) in [
        ("set composed", kept(COMPOSED), [true, true]),
        ("set decomposed", kept(DECOMPOSED), [true, true]),
        ("older, decomposed", PasswordHash::new(old.to_owned()), [false, true]),
    ] {
        let set = |user: &mut User| user.password = Some(hash.clone());
        provider.sealgate.store.change_user(provider.anna.sub, set).await.unwrap();
        for (password, opens) in [COMPOSED, DECOMPOSED].into_iter().zip(opens) {
            let page = guess(&provider.browser(), &provider, ANNA, password).await;
            assert_eq!(!is_login(&page), opens, "{name} {password:?}: {page:?}");
        }
        let page = guess(&provider.browser(), &provider, ANNA, "gul seker Izmir vapur").await;
        assert!(is_login(&page), "{name}");
    }
}

#[tokio::test]
async fn non_ascii_cookies_do_not_sign_the_user_out() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    // Their names sort before and after the session cookie.
    browser.set_cookie("AD", "Ayşe");
    browser.set_cookie("zil", "İstanbul ğ");
    let back = browser.authorize(&provider.c1().authorize(&[]), "anna@example.test").await;
    assert!(back.header("location").unwrap().contains("code="), "{back:?}");
    // The session continues, and opens the account.
    let account = browser.get("/account").await;
    assert!(account.status == 200 && account.text().contains("anna@example.test"), "{account:?}");
    // The same cookie in ISO-8859-9.
    let cookie = [b"ad=Ay\xfee; __Host-sealgate=", browser.cookie("__Host-sealgate").unwrap().as_bytes()].concat();
    let request = http::Request::get("/account").header("host", "id.test");
    let request = request.header("cookie", http::HeaderValue::from_bytes(&cookie).unwrap());
    assert_eq!(provider.send(request.body(bytes::Bytes::new()).unwrap()).await.status, 200);
}

#[tokio::test]
async fn resp_12_a_wrong_password_an_unknown_and_a_disabled_account_look_the_same() {
    let provider = Provider::new().await;
    provider.sealgate.store.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    provider.sealgate.store.change_user(provider.ben.sub, |user| user.name = "B".into()).await.unwrap();
    let mut texts = Vec::new();
    for (email, password) in [
        (ANNA, "wrong"),
        ("nobody@example.test", PASSWORD),
        ("nobody", PASSWORD),
        ("ben@example.test", PASSWORD),
        ("ben@example.test", "wrong"),
        ("not an address", PASSWORD),
        ("", PASSWORD),
        (ANNA, ""),
        (ANNA, &PASSWORD.to_uppercase()),
        (ANNA, &format!("{PASSWORD} ")),
        (ANNA, &"x".repeat(20_000)),
    ] {
        let browser = provider.browser();
        let page = guess(&browser, &provider, email, password).await;
        assert_wrong(&browser, &page);
        assert_eq!(page.header("set-cookie"), None);
        texts.push(text(&page).replace(&format!("value=\"{email}\""), "value=\"\"").replace(" autofocus", ""));
        assert!(!page.text().contains(PASSWORD), "a password comes back");
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:#?}");
}

#[tokio::test]
async fn resp_12_an_unknown_account_takes_as_long_as_a_wrong_password() {
    let provider = Provider::with("[login]\nfailures_per_account = 100").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let shortest = async |email: &str| {
        let mut shortest = Duration::MAX;
        for _ in 0..7 {
            let started = Instant::now();
            assert_wrong(&browser, &browser.submit(&page, &[("email", email), ("password", "wrong")]).await);
            shortest = shortest.min(started.elapsed());
        }
        shortest
    };
    let known = shortest(ANNA).await;
    for email in ["nobody@example.test", "nobody", "not an address"] {
        let unknown = shortest(email).await;
        assert!(unknown > known / 8 && known > unknown / 8, "{email}: {unknown:?}, known: {known:?}");
    }
}

#[tokio::test]
async fn an_address_is_found_in_any_case_and_with_surrounding_blanks() {
    let provider = Provider::new().await;
    for email in ["ANNA@example.TEST", "  anna@example.test\t"] {
        let browser = provider.browser();
        let page = guess(&browser, &provider, email, PASSWORD).await;
        assert!(browser.cookie(SESSION).is_some(), "{email}: {page:?}");
    }
    for email in ["ánna@example.test", "anna@example.test.", "anna\u{200b}@example.test", "ᴀnna@example.test"] {
        let browser = provider.browser();
        assert_wrong(&browser, &guess(&browser, &provider, email, PASSWORD).await);
    }
}

#[tokio::test]
async fn guesses_at_one_account_are_limited_across_addresses() {
    let provider = Provider::with("[login]\nfailures_per_account = 3\nwindow_seconds = 600").await;
    let from = |number: u8| {
        let mut browser = provider.browser();
        browser.address = format!("198.51.100.{number}");
        browser
    };
    // Other spellings of the address share its limit.
    for (number, email) in [(1, ANNA), (2, "Anna@Example.Test"), (3, " anna@example.test ")] {
        let browser = from(number);
        assert_wrong(&browser, &guess(&browser, &provider, email, "wrong").await);
    }
    let browser = from(4);
    assert_throttled(&guess(&browser, &provider, ANNA, "wrong").await);
    assert_throttled(&guess(&browser, &provider, ANNA, PASSWORD).await);
    assert_eq!(browser.cookie(SESSION), None);
    // Other accounts are unaffected.
    let page = guess(&from(4), &provider, "ben@example.test", PASSWORD).await;
    assert_consent(&page);
    provider.wait(600);
    assert_consent(&guess(&from(4), &provider, ANNA, PASSWORD).await);
}

#[tokio::test]
async fn guesses_at_an_unknown_account_have_the_same_limit() {
    let provider = Provider::with("[login]\nfailures_per_account = 3").await;
    let mut texts = Vec::new();
    for email in [ANNA, "nobody@example.test"] {
        let browser = provider.browser();
        for _ in 0..3 {
            assert_wrong(&browser, &guess(&browser, &provider, email, "wrong").await);
        }
        let page = guess(&browser, &provider, email, PASSWORD).await;
        assert_throttled(&page);
        let shown = text(&page).replace(email, "");
        // The window of each account starts at another time: only the wait differs.
        texts.push(shown.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().replace("minutes", "seconds"));
    }
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn guesses_from_one_address_are_limited_across_accounts() {
    let provider = Provider::with("[login]\nfailures_per_address = 3").await;
    for (address, neighbour) in [("198.51.100.7", "198.51.100.8"), ("2001:db8::1", "2001:db8:0:1::1")] {
        let mut browser = provider.browser();
        browser.address = address.into();
        for number in 0..3 {
            let page = guess(&browser, &provider, &format!("{number}@{address}"), "wrong").await;
            assert_wrong(&browser, &page);
        }
        assert_throttled(&guess(&browser, &provider, ANNA, PASSWORD).await);
        if address.contains(':') {
            browser.address = "2001:db8::ffff".into();
            assert_throttled(&guess(&browser, &provider, ANNA, PASSWORD).await);
        }
        browser.address = neighbour.into();
        assert_consent(&guess(&browser, &provider, ANNA, PASSWORD).await);
        provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
    }
}

#[tokio::test]
async fn right_passwords_are_not_counted() {
    let provider = Provider::with("[login]\nfailures_per_account = 2\nfailures_per_address = 2").await;
    let browser = with_anna(&provider).await;
    for _ in 0..5 {
        assert_code(&guess(&browser, &provider, ANNA, PASSWORD).await);
    }
    // Successes do not reset the count of failures.
    let page = guess(&browser, &provider, ANNA, "wrong").await;
    assert_login(&page);
    assert_code(&guess(&browser, &provider, ANNA, PASSWORD).await);
    assert_login(&guess(&browser, &provider, ANNA, "wrong").await);
    assert_throttled(&guess(&browser, &provider, ANNA, PASSWORD).await);
}

#[tokio::test]
async fn concurrent_guesses_all_count() {
    let provider = Provider::with("[login]\nfailures_per_account = 3").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let attempt = || browser.submit(&page, &[("email", ANNA), ("password", "wrong")]);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    let replies = [replies.0, replies.1, replies.2, replies.3, replies.4, replies.5];
    assert_eq!(replies.iter().filter(|reply| reply.status == 429).count(), 3);
}

#[tokio::test]
async fn typed_values_are_escaped() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = guess(&browser, &provider, "\"><script>alert(1)</script>", "wrong").await;
    assert_wrong(&browser, &page);
    assert!(!page.text().contains("<script>"));
}

#[tokio::test]
async fn a_repeated_field_is_refused() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let fields = [("email", ANNA), ("password", "wrong"), ("password", PASSWORD)];
    browser.submit(&page, &fields).await.assert_error_page();
    let fields = [("email", ANNA), ("email", "ben@example.test"), ("password", PASSWORD)];
    browser.submit(&page, &fields).await.assert_error_page();
    assert_eq!(browser.cookie(SESSION), None);
}

#[tokio::test]
async fn a_planted_session_cookie_is_not_used() {
    let provider = Provider::new().await;
    let attacker = provider.browser();
    let page = attacker.open(&provider.c1().authorize(&[])).await;
    attacker.sign_in(&page, "ben@example.test").await;
    let planted = attacker.cookie(SESSION).unwrap();

    let victim = provider.browser();
    victim.set_cookie(SESSION, &planted);
    let page = victim.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    let page = victim.sign_in(&page, ANNA).await;
    victim.allow(&page).await;
    assert_ne!(victim.cookie(SESSION).unwrap(), planted);
    let silent = attacker.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
}

#[tokio::test]
async fn the_session_cookie_changes_with_each_sign_in() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let first = browser.cookie(SESSION).unwrap();
    assert_code(&guess(&browser, &provider, ANNA, PASSWORD).await);
    let second = browser.cookie(SESSION).unwrap();
    assert_ne!(first, second);
    // The provider rejects the old cookie at once. tests/gateway/replaced_cookies.rs tests its
    // remaining use at the gateway.
    let old = provider.browser();
    old.set_cookie(SESSION, &first);
    let silent = old.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    assert_code(&browser.open(&provider.c1().authorize(&[("prompt", "none")])).await);
}

/// A sign-in replaces a hash with other parameters. If the new hash cannot be written, the sign-in
/// still succeeds: its session is stored, and the answer has the only cookie of it.
#[tokio::test]
async fn a_failed_rehash_does_not_prevent_the_sign_in() {
    const OLDER: &str =
        "$argon2id$v=19$m=12288,t=3,p=1$MDEyMzQ1Njc4OWFiY2RlZg$W2CvwLK2LDlk3BoCN5Nmrigs/uLQ3VdCUrYzjKQtTqo";
    let (provider, meddler) = Provider::meddled().await;
    let older = PasswordHash::new(OLDER.to_owned());
    provider.change_user(provider.anna.sub, |user| user.password = Some(older.clone())).await;
    let hash = async || provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().password;
    meddler.fail(Some(b'u'));
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.submit(&page, &[("email", ANNA), ("password", "correct horse")]).await;
    assert_consent(&page);
    assert_eq!(browser.get("/account").await.status, 200);
    assert_eq!(hash().await, Some(older.clone()));
    // The next sign-in replaces the hash.
    meddler.fail(None);
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    browser.submit(&page, &[("email", ANNA), ("password", "correct horse")]).await;
    assert_ne!(hash().await, Some(older));
}

#[tokio::test]
async fn a_session_ends_when_idle_and_at_its_maximum_age() {
    let provider = Provider::with("[sessions]\nidle_seconds = 600\nabsolute_seconds = 1500").await;
    let browser = with_anna(&provider).await;
    let silent = async || browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    for _ in 0..2 {
        provider.wait(599);
        assert_code(&silent().await);
    }
    provider.wait(302);
    silent().await.assert_error_redirect("login_required");
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_login(&page);
    assert_code(&browser.sign_in(&page, ANNA).await);
    provider.wait(600);
    silent().await.assert_error_redirect("login_required");
}

#[tokio::test]
async fn sign_in_pages_do_not_count_against_the_request_limit() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let begun = browser.get(&provider.c1().authorize(&[])).await;
    assert_eq!((begun.header("x-ratelimit-limit"), begun.header("x-ratelimit-remaining")), (Some("100"), Some("99")));
    let page = browser.follow(begun).await;
    assert_eq!(page.header("x-ratelimit-limit"), Some("3000"));
    browser.get(&form_action(page.text())).await;
    let begun = browser.get(&provider.c1().authorize(&[])).await;
    assert_eq!(begun.header("x-ratelimit-remaining"), Some("98"));
}

/// The third request is the client's own callback.
#[tokio::test]
async fn a_sign_in_with_stored_consent_takes_three_requests() {
    let provider = Provider::new().await;
    assert_code(&provider.browser().authorize(&provider.c1().authorize(&[]), ANNA).await);
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_login(&page);
    let first = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    assert_code(&browser.get(first.location()).await);
}

/// Passwords that were not verified do not count as attempts.
#[tokio::test]
async fn a_full_password_queue_is_reported_and_counts_no_guess() {
    let settings = "[login]\nfailures_per_account = 8\npassword_threads = 1\npassword_queue = 1";
    let provider = Provider::with(settings).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let attempt = || browser.submit(&page, &[("email", ANNA), ("password", "wrong")]);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    let statuses = <[Reply; 8]>::from(replies).map(|reply| {
        assert!(matches!(reply.status, 200 | 503), "{reply:?}");
        assert_eq!(reply.header("retry-after").is_some(), reply.status == 503);
        reply.status
    });
    let judged = statuses.iter().filter(|status| **status == 200).count();
    assert!((1..8).contains(&judged), "{statuses:?}");
    for _ in judged..8 {
        assert_wrong(&browser, &attempt().await);
    }
    assert_throttled(&attempt().await);
}

#[tokio::test]
async fn a_password_replaced_during_its_check_is_refused() {
    let provider = Provider::new().await;
    let store = &provider.sealgate.store;
    for sign_in_before in [false, true] {
        let browser = if sign_in_before { with_anna(&provider).await } else { provider.browser() };
        let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
        let hash = store.user(provider.anna.sub).await.unwrap().unwrap().password;
        let replace = async {
            provider.change_user(provider.anna.sub, |user| user.password = Some(PasswordHash::new("new".into()))).await;
            store.end_sessions_of_user(provider.anna.sub).await.unwrap();
        };
        // No session may be left, whichever request commits first.
        tokio::join!(browser.submit(&page, &[("email", ANNA), ("password", PASSWORD)]), replace);
        let open = store.sessions_of_user(provider.anna.sub, None, 10).await.unwrap();
        assert_eq!(open.sessions, []);
        provider.change_user(provider.anna.sub, |user| user.password.clone_from(&hash)).await;
    }
}
