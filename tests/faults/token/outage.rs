//! A device that disappears under load and returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::world::{BACK, Client, World, redeem, renew};
use crate::{MACHINE, rounds};

/// Number of tasks that make load.
const TASKS: usize = 12;

/// Returns how long a device is absent: ten seconds in the long run.
pub(crate) fn absence() -> Duration {
    Duration::from_secs(if rounds(0) > 0 { 10 } else { 3 })
}

/// Stops a device under load and lets it return.
///
/// Asserts that every request is answered before its deadline, that refusals say when to retry,
/// that a failed signature consumes no code or token, and that service resumes soon without
/// intervention.
pub(crate) async fn outlives(what: &str, client: &Arc<Client>, mut stop: impl FnMut(), mut start: impl FnMut()) {
    let over = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for number in 0..TASKS {
        if number % 3 == 0 {
            load.spawn(redeem(Arc::clone(client), Arc::clone(&over)));
        } else {
            load.spawn(renew(Arc::clone(client), Arc::clone(&over)));
        }
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    stop();
    tokio::time::sleep(absence()).await;
    assert!(!client.ready().await, "{what}: ready without a device");
    let signed = client.metric("sealgate_sign_seconds_count").await;
    start();
    let returned = Instant::now();
    while client.metric("sealgate_sign_seconds_count").await == signed {
        assert!(returned.elapsed() < BACK, "{what}: not back within {BACK:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let back = returned.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    over.store(true, Ordering::SeqCst);

    let (mut tokens, mut later, mut slowest) = (0, 0, Duration::ZERO);
    for met in load.join_all().await {
        assert!(met.later > 0, "{what}: a task met no outage");
        tokens += met.tokens;
        later += met.later;
        slowest = slowest.max(met.slowest);
        if let Some(mut family) = met.family {
            client.back_within(BACK, &mut family, what).await;
        }
        if let Some(code) = met.code {
            let reply = client.redeem(&code).await;
            assert!(reply.is_tokens(), "{what}: a code was used up: {reply:?}");
        }
    }
    println!(
        "{what}: away for {:?}, back after {back:?}; {tokens} answers with tokens, {later} refused for the moment, the \
         slowest answer took {slowest:?}",
        absence()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_outage_under_load_loses_nothing() {
    let _shared = MACHINE.read().await;
    let world = World::start("").await;
    let stop = || world.shim.vanish(0x32);
    outlives("a device that was removed", &world.client, stop, || world.shim.come_back()).await;
    world.shim.assert_well_used();
}
