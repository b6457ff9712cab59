//! Tests a client that gets no answer to a refresh and retries at the same node or another: it
//! keeps its grant. A parent token whose answer was in time ends the grant, at any node.

use std::sync::Arc;
use std::time::Duration;

use sealgate_store::engine::Engine;
use sealgate_system::clock::Clock;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::meddler::{At, Meddler};
use crate::postgres_server::empty_store;
use crate::support::{Provider, Reply, Tokens, token_device};

const OFFLINE: &str = "openid email offline_access";
const GRANT: u8 = b'g';

/// Returns two nodes on one store. The test stops requests at the first.
async fn two_nodes() -> (Arc<Provider>, Arc<Provider>, Arc<Meddler>) {
    let (first, meddler) = Provider::meddled().await;
    let second = another(&first, Arc::clone(&first.engine) as Arc<dyn Engine>).await;
    (Arc::new(first), second, meddler)
}

/// Starts another node on the store.
async fn another(provider: &Provider, engine: Arc<dyn Engine>) -> Arc<Provider> {
    Arc::new(Provider {
        sealgate: provider.again(engine, token_device::signer()).await,
        engine: Arc::clone(&provider.engine),
        clock: Arc::clone(&provider.clock),
        anna: provider.anna.clone(),
        ben: provider.ben.clone(),
    })
}

/// Background work of a node, aborted on drop.
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn run(node: &Arc<Provider>) -> Running {
    let node = Arc::clone(node);
    Running(tokio::spawn(async move {
        loop {
            node.sealgate.answers.heartbeat();
            node.sealgate.answers.report(&node.sealgate.store, node.clock.now()).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    }))
}

/// Retries while the outcome of the previous refresh is pending (503).
async fn decided(node: &Provider, token: &str) -> Reply {
    let asked = async {
        loop {
            let reply = node.c1().refresh(token).await;
            if reply.status != 503 {
                return reply;
            }
        }
    };
    timeout(Duration::from_secs(30), asked).await.expect("it is never decided")
}

async fn assert_ended(node: &Provider, tokens: &Tokens) {
    node.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    node.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

/// Tests both cases: an unconfirmed answer is repeated, and one that was in time ends the grant.
async fn an_answer_decides(first: &Arc<Provider>, second: &Arc<Provider>) {
    // The first node is suspended before it reports.
    let tokens = first.c1().tokens(OFFLINE).await;
    let lost = Tokens::of(&first.c1().refresh(&tokens.refresh).await);
    let reply = second.c1().refresh(&tokens.refresh).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    second.wait(3);
    let again = Tokens::of(&second.c1().refresh(&tokens.refresh).await);
    assert_eq!(again.refresh, lost.refresh);
    assert_eq!(second.userinfo(&lost.access).await.status, 200);
    // That answer was in time, so a second holder now presents the parent.
    second.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(first, &again).await;

    // The first node reports.
    let running = run(first);
    let tokens = first.c1().tokens(OFFLINE).await;
    let next = Tokens::of(&first.c1().refresh(&tokens.refresh).await);
    decided(second, &tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(first, &next).await;
    drop(running);
}

#[tokio::test]
async fn another_node_repeats_the_child_only_while_the_answer_is_doubtful() {
    let (first, second, _) = two_nodes().await;
    an_answer_decides(&first, &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_on_postgresql_repeats_the_child_only_while_the_answer_is_doubtful() {
    let cluster = Provider::cluster(2, "", &empty_store().await).await;
    an_answer_decides(&cluster[0], &cluster[1]).await;
}

#[tokio::test]
async fn answers_of_a_killed_process_are_doubtful_for_a_minute() {
    for (seconds, status) in [(3, 200), (59, 200), (60, 400)] {
        let first = Arc::new(Provider::new().await);
        let tokens = first.c1().tokens(OFFLINE).await;
        let lost = Tokens::of(&first.c1().refresh(&tokens.refresh).await);
        let next = another(&first, Arc::clone(&first.engine) as Arc<dyn Engine>).await;
        first.wait(seconds);
        let reply = next.c1().refresh(&tokens.refresh).await;
        assert_eq!(reply.status, status, "{seconds}");
        if status == 200 {
            assert_eq!(Tokens::of(&reply).refresh, lost.refresh);
        } else {
            assert_ended(&next, &lost).await;
        }
    }
}

#[tokio::test]
async fn answers_of_a_cleanly_stopped_process_are_not_doubtful() {
    let first = Arc::new(Provider::new().await);
    let tokens = first.c1().tokens(OFFLINE).await;
    let child = Tokens::of(&first.c1().refresh(&tokens.refresh).await);
    first.sealgate.answers.report_last(&first.sealgate.store, first.clock.now()).await.unwrap();
    let next = another(&first, Arc::clone(&first.engine) as Arc<dyn Engine>).await;
    first.wait(3);
    next.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&next, &child).await;
}

/// The commit is applied and its answer is delayed. The client asks the second node, and gets the
/// answer of the first.
#[tokio::test]
async fn a_late_answer_is_repeated_by_another_node() {
    let (first, second, meddler) = two_nodes().await;
    let _running = run(&first);
    let tokens = first.c1().tokens(OFFLINE).await;
    let stop = meddler.stop(At::AfterCommit, GRANT);
    let client = first.c1();
    let (late, again) =
        tokio::join!(client.refresh(&tokens.refresh), stop.meanwhile(decided(&second, &tokens.refresh)));
    let (late, again) = (Tokens::of(&late), Tokens::of(&again));
    assert_eq!(late.refresh, again.refresh);
    // The second answer was in time.
    second.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&first, &again).await;
}

#[tokio::test]
async fn an_answer_to_a_disconnected_client_is_repeated() {
    let (first, second, meddler) = two_nodes().await;
    let _running = run(&first);
    for node in [&first, &second] {
        let tokens = first.c1().tokens(OFFLINE).await;
        let stop = meddler.stop(At::AfterCommit, GRANT);
        let asking = tokio::spawn({
            let (first, token) = (Arc::clone(&first), tokens.refresh.clone());
            async move { first.c1().refresh(&token).await }
        });
        stop.meanwhile(async {
            asking.abort();
            assert!(asking.await.unwrap_err().is_cancelled());
        })
        .await;
        let child = Tokens::of(&decided(node, &tokens.refresh).await);
        Tokens::of(&node.c1().refresh(&child.refresh).await);
        node.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    }
}

/// A request that waits at a node for longer than its client proves nothing, even if the token was
/// rotated in the meantime.
#[tokio::test]
async fn a_request_that_waited_too_long_ends_no_grant() {
    let (first, second, meddler) = two_nodes().await;
    for rotations in [1, 3] {
        let tokens = first.c1().tokens(OFFLINE).await;
        let stop = meddler.stop(At::BeforeGet, GRANT);
        let client = first.c1();
        let (stale, newest) = tokio::join!(
            client.refresh(&tokens.refresh),
            stop.meanwhile(async {
                let mut newest = tokens.refresh.clone();
                for _ in 0..rotations {
                    newest = Tokens::of(&second.c1().refresh(&newest).await).refresh;
                }
                second.sealgate.answers.report_last(&second.sealgate.store, second.clock.now()).await.unwrap();
                sleep(Duration::from_millis(1100)).await;
                newest
            })
        );
        assert_eq!(stale.status, 503);
        let newest = Tokens::of(&second.c1().refresh(&newest).await);
        first.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
        assert_ended(&first, &newest).await;
    }
}

/// An attacker with a parent gets only the child that its owner gets. The use of that child by both
/// is detected.
#[tokio::test]
async fn a_stolen_parent_token_is_detected_at_the_next_rotation() {
    let (first, second, _) = two_nodes().await;
    let tokens = first.c1().tokens(OFFLINE).await;
    Tokens::of(&first.c1().refresh(&tokens.refresh).await);
    second.wait(3);
    let stolen = Tokens::of(&second.c1().refresh(&tokens.refresh).await);
    let thiefs = Tokens::of(&second.c1().refresh(&stolen.refresh).await);
    // The owner's answer arrived late.
    second.c1().refresh(&stolen.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&second, &thiefs).await;
}

/// A rotation costs the same number of commits as without reports. A node that rotates nothing
/// reports nothing.
#[tokio::test]
async fn a_refresh_makes_one_commit_and_reports_are_shared() {
    let (first, _, meddler) = two_nodes().await;
    let report = || first.sealgate.answers.report(&first.sealgate.store, first.clock.now());
    let mut tokens = first.c1().tokens(OFFLINE).await;
    let before = meddler.commits();
    for _ in 0..10 {
        tokens = Tokens::of(&first.c1().refresh(&tokens.refresh).await);
    }
    assert_eq!(meddler.commits() - before, 10);
    first.sealgate.answers.report_last(&first.sealgate.store, first.clock.now()).await.unwrap();
    assert_eq!(meddler.commits() - before, 11);
    report().await.unwrap();
    assert_eq!(meddler.commits() - before, 11);
}
