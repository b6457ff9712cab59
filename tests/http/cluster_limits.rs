//! Tests the limits of several nodes on one store: together they permit as many requests as a
//! single node, and guesses are counted exactly.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_store::postgres::PostgresSettings;
use tokio::task::JoinSet;

use crate::postgres_server::{empty_store, shared};
use crate::steps::{assert_consent, csrf_of};
use crate::support::{FORM, PASSWORD, Provider, encode, form_action};

const ANNA: &str = "anna@example.test";
const BROWSER: &str = "__Host-sealgate-browser";

/// Returns settings with a long timeout, so that a busy machine causes no failure.
async fn store() -> PostgresSettings {
    PostgresSettings { count_timeout: Duration::from_secs(30), ..empty_store().await }
}

/// Connects to the store's schema without a node.
async fn beside(settings: &PostgresSettings) -> tokio_postgres::Client {
    use secrecy::ExposeSecret;
    let options = settings.url.expose_secret().split_once('?').unwrap().1.to_owned();
    shared().client(&format!("?{options}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_one_limit_and_report_it_alike() {
    let cluster = Provider::cluster(3, "", &store().await).await;
    let mut sent = JoinSet::new();
    for number in 0..300 {
        let node = Arc::clone(&cluster[number % 3]);
        sent.spawn(async move { node.c1().refresh("RT_x").await });
    }
    let mut replies = sent.join_all().await;
    // A node may refuse a request while it waits for its last block, and may still use the rest of
    // that block afterwards.
    for node in &cluster {
        for _ in 0..50 {
            let reply = node.c1().refresh("RT_x").await;
            let is_refused = reply.status == 429;
            replies.push(reply);
            if is_refused {
                break;
            }
        }
    }
    let passed = replies.iter().filter(|reply| reply.status == 400).count();
    let refused = replies.iter().filter(|reply| reply.status == 429).count();
    assert_eq!((passed, refused), (50, replies.len() - 50));
    let ends: BTreeSet<u64> = replies.iter().map(|reply| reply.allowance().reset).collect();
    assert_eq!(ends.len(), 1, "all windows end together");
    assert!(replies.iter().all(|reply| reply.allowance().limit == 50 && reply.allowance().remaining < 50));
    for node in &cluster {
        let reply = node.c1().refresh("RT_x").await;
        assert_eq!((reply.status, reply.allowance().remaining), (429, 0));
        // Other clients are unaffected. Each node counts requests that it answers from memory on
        // its own.
        assert_eq!(node.c2().refresh("RT_x").await.status, 400);
        assert_eq!(node.get("/oauth/jwks").await.allowance().remaining, 999);
    }
    cluster[0].wait(60);
    assert_eq!(cluster[1].c1().refresh("RT_x").await.status, 400);
}

/// A failover empties the table of blocks. Each failover permits the limit once more, and no more
/// than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failover_in_a_window_permits_the_limit_once_more() {
    let settings = store().await;
    let cluster = Provider::cluster(3, "", &settings).await;
    let database = beside(&settings).await;
    let passed = async |node: &Provider| {
        let mut passed = 0;
        for _ in 0..60 {
            passed += usize::from(node.c1().refresh("RT_x").await.status == 400);
        }
        passed
    };
    for node in &cluster {
        assert_eq!(passed(node).await, 50);
        database.batch_execute("TRUNCATE share").await.unwrap();
    }
    // Each node has found the window exhausted, and does not query the database again.
    for node in &cluster {
        assert_eq!(passed(node).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_remaining_allowance_decreases_on_every_node() {
    let cluster = Provider::cluster(3, "", &store().await).await;
    for number in 0..50_u64 {
        let reply = cluster[usize::try_from(number).unwrap() % 3].c1().refresh("RT_x").await;
        if reply.status == 429 {
            assert!(number > 40, "up to a block a node may lie unused: {number}");
            break;
        }
        // A node does not see requests at other nodes since its last query: at most two blocks.
        assert!(reply.allowance().remaining <= 49 - number + 6, "{number}: {reply:?}");
    }
}

/// Login page of one sign-in, submitted to any node from any address.
struct Stranger {
    action: String,
    csrf: String,
    cookie: String,
}

impl Stranger {
    async fn at(node: &Provider) -> Self {
        let browser = node.browser();
        let page = browser.open(&node.c1().authorize(&[])).await;
        let cookie = format!("{BROWSER}={}", browser.cookie(BROWSER).unwrap());
        Self { action: form_action(page.text()), csrf: csrf_of(&page), cookie }
    }

    async fn guess(&self, node: &Provider, address: &str) -> u16 {
        let body = encode(&[("csrf", self.csrf.as_str()), ("email", ANNA), ("password", "wrong")]);
        let headers = [FORM, ("cookie", self.cookie.as_str())];
        node.request_from(address, "POST", &self.action, &headers, &body).await.status
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_guesses_at_three_nodes_check_the_configured_number() {
    let settings = store().await;
    let cluster = Provider::cluster(3, "[login]\nfailures_per_account = 10", &settings).await;
    let stranger = Arc::new(Stranger::at(&cluster[0]).await);
    let mut guesses = JoinSet::new();
    for number in 0..60 {
        let (stranger, node) = (Arc::clone(&stranger), Arc::clone(&cluster[number % 3]));
        guesses.spawn(async move { stranger.guess(&node, &format!("198.51.100.{number}")).await });
    }
    let statuses = guesses.join_all().await;
    let of = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((of(200), of(429)), (10, 50));
    // The database contains no usernames or addresses.
    let rows = beside(&settings).await.query("SELECT length(key), key FROM guess", &[]).await.unwrap();
    assert!(rows.len() > 10 && rows.iter().all(|row| row.get::<_, i32>(0) == 16));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correct_password_counts_as_a_guess_at_no_node() {
    let cluster =
        Provider::cluster(2, "[login]\nfailures_per_account = 2\nfailures_per_address = 2", &store().await).await;
    for number in 0..6 {
        let browser = cluster[number % 2].browser();
        let page = browser.open(&cluster[number % 2].c1().authorize(&[])).await;
        assert_consent(&browser.sign_in(&page, ANNA).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_is_verified_while_guesses_cannot_be_counted() {
    let settings = store().await;
    let cluster = Provider::cluster(2, "", &settings).await;
    let browser = cluster[1].browser();
    let page = browser.open(&cluster[1].c1().authorize(&[])).await;
    let beside = beside(&settings).await;
    beside.batch_execute("BEGIN; LOCK TABLE guess IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let refused = browser.submit(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("<form"), "it can be sent again");
    // All other requests are answered.
    assert_eq!(cluster[1].c1().refresh("RT_x").await.status, 400);
    assert_eq!(cluster[1].get("/oauth/jwks").await.status, 200);
    beside.batch_execute("COMMIT").await.unwrap();
    let started = Instant::now();
    loop {
        let again = browser.submit(&refused, &[("email", ANNA), ("password", PASSWORD)]).await;
        if again.status != 503 {
            assert_consent(&again);
            break;
        }
        assert!(started.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_count_requests_locally_during_a_database_outage() {
    let settings = empty_store().await;
    let cluster = Provider::cluster(2, "[rate_limits]\nlogout = 8", &settings).await;
    let beside = beside(&settings).await;
    beside.batch_execute("BEGIN; LOCK TABLE share IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let ends = cluster[1].get("/oauth/logout").await.allowance().reset;
    let mut passed = 0;
    for _ in 0..20 {
        let reply = cluster[0].get("/oauth/logout").await;
        assert_eq!((reply.allowance().limit, reply.allowance().reset), (8, ends));
        passed += u32::from(reply.status != 429);
    }
    assert!((1..=8).contains(&passed), "{passed}");
    let counted = |of: &str| {
        let text = cluster[0].sealgate.metrics.text();
        let line = format!("sealgate_limit_blocks_total{{result=\"{of}\"}} ");
        let line = text.lines().find(|known| known.starts_with(&line)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!((counted("local"), counted("granted")), (20, 0));
    beside.batch_execute("COMMIT").await.unwrap();
    let started = Instant::now();
    while counted("granted") == 0 {
        assert!(started.elapsed() < Duration::from_mins(1));
        cluster[0].wait(60);
        cluster[0].get("/oauth/logout").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
