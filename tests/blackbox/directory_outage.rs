//! A directory that does not answer: bounded waits, local users, and what the responses reveal.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::directory::{Keys, World, metric, problem};
use crate::slapd::user;
use crate::support::{Browser, PASSWORD, Page, until};

const LOCAL: &str = "local@example.test";
/// Far above every timeout of these tests, because a busy machine must not fail a test.
const LATE: Duration = Duration::from_mins(2);

fn add_local_user(world: &World) {
    let local = ["user", "add", LOCAL, "--name", "Local", "--username", "local", "--password-stdin"];
    world.instance.run_with_input(&local, PASSWORD);
}

/// The directory checks the names of all users who are not local. While it is away, a wrong password
/// of a local user must not get another page than an unknown name.
#[tokio::test]
async fn local_names_get_the_page_of_other_names_while_the_directory_is_away() {
    let mut world = World::start(&user("anna", ""), &Keys { timeout_seconds: 5, ..Keys::default() });
    add_local_user(&world);
    world.signed_in("anna").await;
    let outcome = async |name: &str| {
        let (_, page) = world.enter(name, "a wrong password").await;
        (page.status, page.headers.contains_key("retry-after"), problem(&page).to_owned())
    };
    let wrong = outcome("nobody").await;
    assert_eq!((wrong.0, wrong.1), (200, false));
    for name in ["local", LOCAL, "anna"] {
        assert_eq!(outcome(name).await, wrong, "{name}");
    }
    // The directory is asked for a name that nobody has, and never for the local one.
    let log = world.slapd.log();
    assert!(!log.contains("local@") && !log.contains("uid=local"), "{log}");
    world.slapd.kill();
    let outcome = async |name: &str| {
        let (_, page) = world.enter(name, "a wrong password").await;
        (page.status, page.headers.contains_key("retry-after"), problem(&page).to_owned())
    };
    let away = outcome("nobody").await;
    assert_eq!((away.0, away.1), (503, true), "{away:?}");
    for name in ["local", LOCAL, "anna", "nobody@example.test"] {
        assert_eq!(outcome(name).await, away, "{name}");
    }
    // The directory is not responsible for this domain, but it is the default one.
    assert_eq!(outcome("nobody@example.org").await, away);
    let (_, page) = world.enter("local", PASSWORD).await;
    assert_eq!(page.status, 200, "{page:?}");
}

/// Wrong passwords of local users are counted also while the directory is away.
#[tokio::test]
async fn guesses_for_local_users_are_counted_while_the_directory_is_away() {
    let keys = Keys { timeout_seconds: 5, sections: "[login]\nfailures_per_account = 4\n", ..Keys::default() };
    let mut world = World::start(&user("anna", ""), &keys);
    add_local_user(&world);
    world.slapd.kill();
    let mut statuses = Vec::new();
    while statuses.len() < 10 && statuses.last() != Some(&429) {
        statuses.push(world.enter("local", "a wrong password").await.1.status);
    }
    assert_eq!((statuses.first(), statuses.last()), (Some(&503), Some(&429)), "{statuses:?}");
}

/// Submits the sign-in form from an address of this machine.
async fn enter_from(world: &World, address: [u8; 4], name: &str, password: &str) -> Page {
    let browser = Browser::from(&world.instance, IpAddr::from(address));
    let page = browser.open(&world.instance.app_url("/json")).await;
    browser.submit(&page, &[("email", name), ("password", password)]).await
}

/// Four networks have 20 sign-ins each: 16 of each network wait, and 64 in total.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_directory_holds_64_sign_ins_and_16_of_a_network_and_recovers() {
    let keys = Keys { timeout_seconds: 20, ..Keys::default() };
    let world = Arc::new(World::start(&user("anna", ""), &keys));
    add_local_user(&world);
    world.signed_in("anna").await;
    world.slapd.suspend();
    let begun = Instant::now();
    let mut waiting = JoinSet::new();
    for network in 2..6 {
        for number in 0..20 {
            let world = Arc::clone(&world);
            // Other names, because the guesses for one name are limited too.
            let name = format!("u{network}-{number}");
            waiting.spawn(async move { enter_from(&world, [127, 0, 0, network], &name, "wrong").await });
        }
    }
    let lines = |text: &str| world.instance.log().lines().filter(|line| line.contains(text)).count();
    // The others wait for the directory, which is about to time out.
    until("further sign-ins of a network are refused", async || lines("a network has many sign-ins at once") == 16)
        .await;
    // All places are taken, and a sign-in from another network is refused at once.
    let page = enter_from(&world, [127, 0, 0, 9], "anna", "password of anna").await;
    assert_eq!(page.status, 503, "{page:?}");
    // A line is written shortly after its event.
    until("the log names the limit", async || lines("64 sign-ins are waiting for the directory corp") == 1).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "the first sign-ins have ended: {:?}", begun.elapsed());
    // Local users are not affected.
    let page = enter_from(&world, [127, 0, 0, 2], "local", PASSWORD).await;
    assert_eq!(page.status, 200, "{page:?}");
    let pages = waiting.join_all().await;
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    assert!(pages.len() == 80 && pages.iter().all(|page| page.status == 503));
    world.slapd.resume();
    until("sign-ins succeed again", async || {
        enter_from(&world, [127, 0, 0, 2], "anna", "password of anna").await.status == 200
    })
    .await;
    let refused = "sealgate_directory_sign_ins_total{directory=\"corp\",outcome=\"unavailable\"}";
    assert!(metric(&world.instance, refused).await >= 81);
}

/// A restart must not prolong the time for which sessions continue without the directory.
#[tokio::test]
async fn a_restart_does_not_extend_the_sessions_of_a_directory_that_is_away() {
    let keys = Keys { stale_seconds: 20, timeout_seconds: 5, ..Keys::default() };
    let mut world = World::start(&user("anna", ""), &keys);
    let anna = world.signed_in("anna").await;
    world.slapd.kill();
    world.becomes(&anna, 503).await;
    world.instance.stop();
    world.instance.start();
    // A round after the start has failed, and the time before it is known.
    let failed = "sealgate_directory_reads_total{directory=\"corp\",outcome=\"failed\"}";
    until("a round has failed", async || metric(&world.instance, failed).await > 0).await;
    assert_eq!(world.status(&anna, "/json").await, 503);
    world.slapd.start_again();
    world.becomes(&anna, 200).await;
    // The stored time is removed, so the next start is a new one.
    world.instance.stop();
    world.slapd.kill();
    world.instance.start();
    until("a round has failed", async || metric(&world.instance, failed).await > 0).await;
    assert_eq!(world.status(&anna, "/json").await, 200);
}
