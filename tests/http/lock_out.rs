//! Tests attackers who guess passwords or flood the sign-in. They are throttled, and do not lock
//! out users who have signed in from the same browser before, or who connect from another network.

use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::UserState;
use sealgate_system::clock::Clock;

use crate::steps::{assert_code, assert_consent, assert_login, csrf_of, with_anna};
use crate::support::{Browser, FORM, PASSWORD, Provider, Reply, encode, form_action};

const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";
const KNOWN: &str = "__Host-sealgate-known";
const BROWSER: &str = "__Host-sealgate-browser";

/// Settings that let an attacker use one page for hours.
const PATIENT: &str = "[rate_limits]\npages = 4000\nauthorize = 1000\n[sessions]\ninteraction_seconds = 86400";

/// Tries a password on a new sign-in page.
async fn guess(browser: &Browser<'_>, provider: &Provider, email: &str, password: &str) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    browser.submit(&page, &[("email", email), ("password", password)]).await
}

/// Sign-in page that an attacker submits repeatedly, from any address.
struct Stranger<'a> {
    provider: &'a Provider,
    action: String,
    csrf: String,
    cookie: String,
}

impl<'a> Stranger<'a> {
    async fn at(provider: &'a Provider) -> Self {
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        let cookie = format!("{BROWSER}={}", browser.cookie(BROWSER).unwrap());
        Self { provider, action: form_action(page.text()), csrf: csrf_of(&page), cookie }
    }

    async fn guess(&self, address: &str, email: &str, password: &str) -> Reply {
        let body = encode(&[("csrf", self.csrf.as_str()), ("email", email), ("password", password)]);
        let headers = [FORM, ("cookie", self.cookie.as_str())];
        self.provider.request_from(address, "POST", &self.action, &headers, &body).await
    }
}

/// Returns the wait that the page shows, which must equal the header's.
#[track_caller]
fn wait(page: &Reply) -> u64 {
    assert_eq!(page.status, 429, "{page:?}");
    let seconds: u64 = page.header("retry-after").unwrap().parse().unwrap();
    let told = match seconds {
        1 => "Wait one second".to_owned(),
        2..=90 => format!("Wait {seconds} seconds"),
        _ => format!("Wait {} minutes", seconds.div_ceil(60)),
    };
    assert!(
        page.text().contains("Too many sign-in attempts") && page.text().contains(&told),
        "{told}: {}",
        page.text()
    );
    seconds
}

fn from<'a>(provider: &'a Provider, address: &str) -> Browser<'a> {
    let mut browser = provider.browser();
    browser.address = address.into();
    browser
}

#[tokio::test]
async fn attackers_cannot_lock_a_user_out_of_a_known_browser() {
    let provider = Provider::with(PATIENT).await;
    let anna = with_anna(&provider).await;
    let stranger = Stranger::at(&provider).await;
    // Attempts at Anna's account from everywhere, and at any account from her own address.
    for number in 0..20 {
        stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
    }
    for number in 0..120 {
        stranger.guess("192.0.2.1", &format!("{number}@example.test"), "wrong").await;
    }
    assert!(wait(&guess(&provider.browser(), &provider, ANNA, PASSWORD).await) > 0);
    assert!(wait(&guess(&from(&provider, "203.0.113.1"), &provider, ANNA, PASSWORD).await) > 0);
    // The browser is known while she is signed in, and afterwards.
    assert_code(&guess(&anna, &provider, ANNA, PASSWORD).await);
    provider.sealgate.store.end_other_sessions_of_user(provider.anna.sub, other()).await.unwrap();
    assert_code(&guess(&anna, &provider, ANNA, PASSWORD).await);
}

fn other() -> sealgate_domain::session::SessionId {
    sealgate_domain::session::SessionId::from_bytes([0; 16])
}

#[tokio::test]
async fn a_known_browser_has_its_own_bounded_count() {
    let provider = Provider::with("[login]\nfailures_per_account = 3").await;
    let anna = with_anna(&provider).await;
    for _ in 0..3 {
        assert_login(&guess(&anna, &provider, ANNA, "wrong").await);
    }
    assert_eq!(wait(&guess(&anna, &provider, ANNA, PASSWORD).await), 1);
    // Her typing errors there do not throttle other browsers.
    assert_code(&guess(&from(&provider, "203.0.113.1"), &provider, ANNA, PASSWORD).await);
    provider.wait(1);
    assert_login(&guess(&anna, &provider, ANNA, "wrong").await);
    assert_eq!(wait(&guess(&anna, &provider, ANNA, PASSWORD).await), 2);
    provider.wait(2);
    assert_code(&guess(&anna, &provider, ANNA, PASSWORD).await);
}

#[tokio::test]
async fn a_known_browser_is_known_for_its_users_only() {
    let provider = Provider::with(&format!("{PATIENT}\n[login]\nfailures_per_account = 3")).await;
    let stranger = Stranger::at(&provider).await;
    let ben = provider.browser();
    let page = ben.open(&provider.c1().authorize(&[])).await;
    assert_consent(&ben.sign_in(&page, BEN).await);
    let anna = with_anna(&provider).await;
    assert_ne!(ben.cookie(KNOWN), anna.cookie(KNOWN));
    for number in 0..3 {
        stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
    }
    assert!(wait(&guess(&ben, &provider, ANNA, PASSWORD).await) > 0);
    // A forged mark, or one that was planted before the sign-in, is ignored.
    let planted = provider.browser();
    planted.set_cookie(KNOWN, &ben.cookie(KNOWN).unwrap());
    assert!(wait(&guess(&planted, &provider, ANNA, PASSWORD).await) > 0);
    planted.set_cookie(KNOWN, &[&"A".repeat(22), "x", ".", &"B".repeat(22)].join("."));
    assert!(wait(&guess(&planted, &provider, ANNA, PASSWORD).await) > 0);
    // Both users sign in in one browser. It is known for both, and the planted mark did not become
    // Anna's.
    provider.wait(900);
    planted.set_cookie(KNOWN, &ben.cookie(KNOWN).unwrap());
    guess(&planted, &provider, ANNA, PASSWORD).await;
    for number in 0..4 {
        stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
        stranger.guess(&format!("198.51.100.{number}"), BEN, "wrong").await;
    }
    assert!(wait(&guess(&ben, &provider, ANNA, PASSWORD).await) > 0);
    for email in [ANNA, BEN] {
        assert_ne!(guess(&planted, &provider, email, PASSWORD).await.status, 429, "{email}");
    }
}

#[tokio::test]
async fn the_known_browser_cookie_is_host_only_and_only_its_hash_is_stored() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let reply = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    let cookie = reply.headers("set-cookie").find(|cookie| cookie.starts_with(KNOWN)).unwrap().to_owned();
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure", "; Max-Age=15552000"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let mark = browser.cookie(KNOWN).unwrap();
    assert_eq!(mark.len(), 22);
    let known = provider.sealgate.store.known_browsers(provider.anna.sub).await.unwrap();
    assert_eq!(known.browsers[0].mark, SecretHash::for_secret(mark.as_bytes()));
    // A second sign-in on the same day keeps the mark; one on the next day replaces it.
    guess(&browser, &provider, ANNA, PASSWORD).await;
    assert_eq!(browser.cookie(KNOWN).unwrap(), mark);
    provider.wait(86_400);
    guess(&browser, &provider, ANNA, PASSWORD).await;
    assert_ne!(browser.cookie(KNOWN).unwrap(), mark);
    assert_eq!(provider.sealgate.store.known_browsers(provider.anna.sub).await.unwrap().browsers.len(), 1);
}

#[tokio::test]
async fn a_known_browser_is_known_after_a_restart() {
    let provider = Provider::new().await;
    let mark = with_anna(&provider).await.cookie(KNOWN).unwrap();
    let restarted = provider.restarted().await;
    let stranger = Stranger::at(&restarted).await;
    for number in 0..10 {
        stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
    }
    let browser = restarted.browser();
    assert_eq!(wait(&guess(&browser, &restarted, ANNA, PASSWORD).await), 1);
    browser.set_cookie(KNOWN, &mark);
    assert_code(&guess(&browser, &restarted, ANNA, PASSWORD).await);
}

#[tokio::test]
async fn a_browser_is_known_for_180_days_after_the_last_sign_in_from_it() {
    const DAYS_180: u64 = 180 * 86_400;
    for (later, is_known) in [(DAYS_180 - 1, true), (DAYS_180, false)] {
        let provider = Provider::new().await;
        let mark = with_anna(&provider).await.cookie(KNOWN).unwrap();
        provider.wait(later);
        let stranger = Stranger::at(&provider).await;
        for number in 0..10 {
            stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
        }
        let browser = provider.browser();
        browser.set_cookie(KNOWN, &mark);
        let page = guess(&browser, &provider, ANNA, PASSWORD).await;
        assert_eq!(page.status != 429, is_known, "after {later} s: {page:?}");
    }
}

/// A user who ends other sessions may suspect that an attacker knows the password or has one of
/// their browsers.
#[tokio::test]
async fn ending_sessions_and_a_new_password_remove_the_other_known_browsers() {
    const NEW: &str = "another long password";
    let provider = Provider::with(PATIENT).await;
    let stranger = Stranger::at(&provider).await;
    let slow_down = async || {
        provider.wait(2 * 900);
        for number in 0..10 {
            stranger.guess(&format!("198.51.100.{number}"), ANNA, "wrong").await;
        }
    };
    let is_known = async |browser: &Browser<'_>| guess(browser, &provider, ANNA, PASSWORD).await.status != 429;
    let (own, other) = (with_anna(&provider).await, with_anna(&provider).await);
    slow_down().await;
    assert!(is_known(&own).await && is_known(&other).await);

    let page = own.get("/account/sessions").await;
    let done = own.post("/account/sessions", &[("csrf", &csrf_of(&page)), ("others", "yes")]).await;
    assert_eq!(done.status, 303, "{done:?}");
    assert!(is_known(&own).await && !is_known(&other).await);

    provider.wait(2 * 900);
    assert_code(&guess(&other, &provider, ANNA, PASSWORD).await);
    let page = own.open("/account/password").await;
    let mark = own.cookie(KNOWN).unwrap();
    let fields = [("csrf", &*csrf_of(&page)), ("current", PASSWORD), ("new", NEW), ("again", NEW)];
    assert_eq!(own.post("/account/password", &fields).await.status, 303);
    assert_ne!(own.cookie(KNOWN).unwrap(), mark, "a thief of the old one is not known either");
    slow_down().await;
    assert_code(&guess(&own, &provider, ANNA, NEW).await);
    assert!(!is_known(&other).await);

    // The command line and the console do the same.
    provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
    slow_down().await;
    assert!(!is_known(&own).await);
}

#[tokio::test]
async fn waits_double_and_the_correct_password_succeeds_afterwards() {
    let provider = Provider::with(PATIENT).await;
    provider.sealgate.store.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    let stranger = Stranger::at(&provider).await;
    let mut all = Vec::new();
    for (network, email) in [ANNA, "nobody@example.test", BEN].into_iter().enumerate() {
        let mut waits = Vec::new();
        for number in 0..20 {
            // Every guess comes from another address, so that only the account is throttled.
            let address = format!("198.51.{network}.{number}");
            loop {
                let page = stranger.guess(&address, email, "wrong").await;
                if page.status == 200 {
                    break;
                }
                waits.push(wait(&page));
                provider.wait(*waits.last().unwrap());
            }
        }
        all.push(waits);
    }
    assert_eq!(all[0], [1, 2, 4, 8, 16, 32, 64, 64, 64, 90]);
    assert!(all.iter().all(|waits| *waits == all[0]), "who has no account, or a disabled one, waits as long: {all:?}");
    for _ in 0..9 {
        stranger.guess("198.51.100.9", ANNA, "wrong").await;
    }
    let new = from(&provider, "203.0.113.1");
    let page = guess(&new, &provider, ANNA, PASSWORD).await;
    provider.wait(wait(&page));
    assert_consent(&guess(&new, &provider, ANNA, PASSWORD).await);
}

/// An attacker guesses once a second from one network.
#[tokio::test]
async fn a_single_attacker_does_not_lock_an_account() {
    let provider = Provider::with(PATIENT).await;
    let stranger = Stranger::at(&provider).await;
    // Each second comes from another /64.
    let attack = async |seconds: u64| {
        let mut judged = 0;
        for _ in 0..seconds {
            provider.wait(1);
            let address = format!("2001:db8:1:{:x}::1", provider.clock.now().seconds() % 65_536);
            judged += u32::from(stranger.guess(&address, ANNA, "wrong").await.status == 200);
        }
        judged
    };
    let mut judged = attack(900).await;
    // The user tries, and again after the wait that the page shows. The attacker tries before each
    // of these attempts.
    let person = from(&provider, "203.0.113.1");
    let page = guess(&person, &provider, ANNA, PASSWORD).await;
    if page.status == 429 {
        let seconds = wait(&page);
        assert!(seconds <= 90, "{seconds}");
        judged += attack(seconds).await;
        assert_consent(&guess(&person, &provider, ANNA, PASSWORD).await);
    } else {
        assert_consent(&page);
    }
    assert!((15..25).contains(&judged), "{judged}");
}

#[tokio::test]
async fn an_ipv6_site_may_fail_ten_times_as_often_as_a_network() {
    let provider = Provider::with("[login]\nfailures_per_address = 2").await;
    let stranger = Stranger::at(&provider).await;
    let mut judged = 0;
    for network in 0..30 {
        let page = stranger.guess(&format!("2001:db8:1:{network:x}::1"), &format!("{network}@x.test"), "wrong").await;
        judged += u32::from(page.status == 200);
    }
    assert_eq!(judged, 20);
    assert_eq!(stranger.guess("2001:db8:2::1", "a@x.test", "wrong").await.status, 200, "the neighbours are not meant");
    // Anna at home, in the same site.
    assert!(wait(&stranger.guess("2001:db8:1:ffff::1", ANNA, PASSWORD).await) <= 45);
}

/// Concurrent attempts, each from another network in one /48, more than the queue holds.
#[tokio::test]
async fn a_flood_from_one_site_leaves_the_queue_open_for_others() {
    let settings = "[login]\npassword_threads = 1\npassword_queue = 4\nfailures_per_address = 100";
    let provider = Provider::with(settings).await;
    let stranger = Stranger::at(&provider).await;
    let flood = async {
        let mut busy = 0;
        for round in 0..4 {
            let guess = |number: u32| {
                let (stranger, address) = (&stranger, format!("2001:db8:1:{round:x}{number:x}::1"));
                async move { stranger.guess(&address, &format!("{number}@x.test"), "wrong").await.status }
            };
            let statuses = tokio::join!(
                guess(0),
                guess(1),
                guess(2),
                guess(3),
                guess(4),
                guess(5),
                guess(6),
                guess(7),
                guess(8),
                guess(9)
            );
            let statuses: [u16; 10] = statuses.into();
            busy += statuses.iter().filter(|status| **status == 503).count();
        }
        busy
    };
    let people = async {
        let mut statuses = Vec::new();
        for number in 0..6 {
            statuses.push(stranger.guess(&format!("203.0.113.{number}"), ANNA, PASSWORD).await.status);
        }
        statuses
    };
    let (busy, statuses) = tokio::join!(flood, people);
    assert!(busy > 0, "the flood was none");
    // The first attempt signs in and uses the page up; no answer reports a full queue.
    assert!(!statuses.contains(&503), "{statuses:?}");
}
