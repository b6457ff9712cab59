//! Responses to clients for each class of token error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};

use super::world::{ANSWERED, BACK, World, redeem, renew};
use crate::chance::Chance;
use crate::shim::{ANSWERS, Call, FOREVER};
use crate::support::wait_until;
use crate::{MACHINE, rounds};

const DEVICE_ERROR: u64 = 0x30;
const USER_NOT_LOGGED_IN: u64 = 0x101;
const PIN_INCORRECT: u64 = 0xa0;

/// Token errors that the short run tests: one or two per class. The long run tests all.
const SHORT: [&str; 8] = [
    "CKR_DEVICE_REMOVED",
    "CKR_CRYPTOKI_NOT_INITIALIZED",
    "CKR_SESSION_HANDLE_INVALID",
    "CKR_BUFFER_TOO_SMALL",
    "CKR_USER_NOT_LOGGED_IN",
    "CKR_KEY_HANDLE_INVALID",
    "CKR_DATA_INVALID",
    "CKR_HOST_MEMORY",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_the_token_consumes_a_code_or_refresh_token() {
    let _shared = MACHINE.read().await;
    let world = World::start("").await;
    let (client, shim) = (&world.client, &world.shim);
    let mut family = client.family().await;
    let all = rounds(0) > 0;
    for (name, code, class) in ANSWERS.into_iter().filter(|(name, ..)| all || SHORT.contains(name)) {
        // A single error: the retry within the request succeeds.
        let before = client.errors(class).await;
        shim.fail(Call::Sign, code, 1);
        let reply = client.refresh(&family).await;
        if class == "bug" {
            assert_eq!((reply.status, &reply.body["error"]), (500, &"server_error".into()), "{name}: {reply:?}");
        } else {
            assert!(reply.is_tokens() && reply.took < ANSWERED, "{name}: {reply:?}");
            family = reply.refresh_token();
        }
        assert!(client.errors(class).await > before, "{name} is not counted as {class}");

        // A permanent error: requests are refused. Afterwards the same code and the same refresh
        // token must work.
        let unused = client.code().await;
        shim.fail(Call::Sign, code, FOREVER);
        for reply in [client.refresh(&family).await, client.redeem(&unused).await] {
            assert!(reply.took < ANSWERED, "{name}: {reply:?}");
            assert!(if class == "bug" { reply.status == 500 } else { reply.is_later() }, "{name}: {reply:?}");
        }
        shim.heal();
        let took = client.back_within(BACK, &mut family, name).await;
        let reply = client.redeem(&unused).await;
        assert!(reply.is_tokens(), "the code was used up by {name}: {reply:?}");
        println!("{name}: back after {took:?}");
    }
    shim.assert_well_used();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_signature_never_reaches_a_client() {
    let _shared = MACHINE.read().await;
    let world = World::start("").await;
    let (client, shim) = (&world.client, &world.shim);
    let mut family = client.family().await;
    // `Client` verifies every token that it receives.
    for times in [1, 2, 3] {
        shim.sign_wrongly(times);
        client.back_within(BACK, &mut family, "wrong signatures").await;
    }
    // The second signature of a response may be skipped if the first one was wrong.
    assert!(client.errors("wrong_signature").await >= 3);
    let unused = client.code().await;
    shim.sign_wrongly(FOREVER);
    for _ in 0..5 {
        for reply in [client.refresh(&family).await, client.redeem(&unused).await] {
            assert!(reply.is_later() && reply.took < ANSWERED, "{reply:?}");
        }
    }
    assert!(!client.ready().await);
    shim.heal();
    client.back_within(BACK, &mut family, "a token that signed wrongly").await;
    let reply = client.redeem(&unused).await;
    assert!(reply.is_tokens(), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_refused_at_runtime_is_tried_once() {
    let _shared = MACHINE.read().await;
    let mut world = World::start("").await;
    let (client, shim) = (&world.client, &world.shim);
    let family = client.family().await;
    let before = shim.calls(Call::Login);
    shim.fail(Call::Login, PIN_INCORRECT, FOREVER);
    shim.fail(Call::Sign, USER_NOT_LOGGED_IN, 1);
    for _ in 0..20 {
        let reply = client.refresh(&family).await;
        assert!(reply.is_later() && reply.took < ANSWERED, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(shim.calls(Call::Login), before + 1);
    assert_eq!(client.errors("pin").await, 1);
    assert!(!client.ready().await);
    world.instance.tells("it was tried once");

    // The operator repairs the token and restarts the server: the refresh token is still valid.
    shim.heal();
    world.instance.stop();
    world.instance.start();
    let reply = world.client.refresh(&family).await;
    assert!(reply.is_tokens(), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_pin_is_tried_once_at_the_start() {
    let _shared = MACHINE.read().await;
    let mut world = World::start("").await;
    world.instance.stop();
    world.instance.softhsm.write_pin_file("999999", 0o600);
    let before = world.shim.calls(Call::Login);
    let refused = world.instance.try_run(&["serve"], "");
    // systemd does not restart the service after this status.
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(world.shim.calls(Call::Login), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_device_is_detected_in_five_seconds_and_ends_the_process() {
    let _shared = MACHINE.read().await;
    let mut world = World::start("hang_abort_seconds = 7").await;
    let (client, shim) = (&world.client, &world.shim);
    let family = client.family().await;
    let unused = client.code().await;
    shim.hang(Call::SignInit, FOREVER);
    let hung = Instant::now();
    let replies = tokio::join!(client.refresh(&family), client.redeem(&unused));
    for reply in [replies.0, replies.1] {
        assert!(reply.is_later() && reply.took < ANSWERED, "{reply:?}");
    }
    while client.ready().await {
        assert!(hung.elapsed() < Duration::from_secs(5), "the hang is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.errors("hang").await, 1);
    println!("noticed after {:?}", hung.elapsed());
    let reply = client.refresh(&family).await;
    assert!(reply.is_later() && reply.took < Duration::from_secs(1), "refused before it is queued: {reply:?}");
    block_in_place(|| wait_until("the process ends", || world.instance.has_ended()));
    println!("aborted after {:?}", hung.elapsed());
    assert!(hung.elapsed() < Duration::from_secs(12), "{:?}", hung.elapsed());
    assert!(world.instance.log().contains("cannot be cancelled; aborting"));

    // systemd's reaction. The device is back.
    shim.heal();
    world.instance.start();
    for reply in [world.client.refresh(&family).await, world.client.redeem(&unused).await] {
        assert!(reply.is_tokens(), "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_device_is_awaited_until_the_deadline() {
    let _shared = MACHINE.read().await;
    let world = World::start("sessions = 1").await;
    let (client, shim) = (&world.client, &world.shim);
    let mut family = client.family().await;
    shim.delay(Call::Sign, Duration::from_millis(400));
    let reply = client.refresh(&family).await;
    assert!(reply.is_tokens() && reply.took >= Duration::from_millis(400), "{reply:?}");
    family = reply.refresh_token();
    // Longer than a request may take: refused in time, and served again when the device is fast
    // again.
    shim.delay(Call::Sign, Duration::from_millis(2500));
    let reply = client.refresh(&family).await;
    assert!(reply.is_later() && reply.took < ANSWERED, "{reply:?}");
    shim.heal();
    client.back_within(Duration::from_secs(4), &mut family, "a slow device").await;
    assert_eq!(client.metric("sealgate_sign_resets_total").await, 0, "slowness is no fault");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_recovers_from_faults_of_every_function_under_load() {
    let _shared = MACHINE.read().await;
    let world = World::start("sessions = 4").await;
    let (client, shim) = (&world.client, &world.shim);
    let mut chance = Chance::seeded("token");
    let stop = Arc::default();
    let mut load = JoinSet::new();
    for number in 0..6 {
        if number % 2 == 0 {
            load.spawn(renew(Arc::clone(client), Arc::clone(&stop)));
        } else {
            load.spawn(redeem(Arc::clone(client), Arc::clone(&stop)));
        }
    }
    let end = Instant::now() + Duration::from_secs(if rounds(0) > 0 { 20 } else { 5 });
    while Instant::now() < end {
        let call = Call::ALL[chance.below(Call::ALL.len())];
        let (_, code, class) = ANSWERS[chance.below(ANSWERS.len())];
        // A refused login is not retried, and an error of the caller is answered with 500. Both
        // have separate tests.
        let code = if call == Call::Login || class == "bug" { DEVICE_ERROR } else { code };
        shim.fail(call, code, 1 + chance.below(3) as u64);
        tokio::time::sleep(chance.milliseconds(1, 120)).await;
    }
    shim.heal();
    let healed = Instant::now();
    while !client.ready().await {
        assert!(healed.elapsed() < BACK, "not back within {BACK:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.store(true, Ordering::SeqCst);
    let (mut tokens, mut later) = (0, 0);
    for met in load.join_all().await {
        tokens += met.tokens;
        later += met.later;
        if let Some(mut family) = met.family {
            client.back_within(BACK, &mut family, "the load").await;
        }
        if let Some(code) = met.code {
            let reply = client.redeem(&code).await;
            assert!(reply.is_tokens(), "a code was used up: {reply:?}");
        }
    }
    println!("{tokens} answers with tokens, {later} refused for the moment");
    assert!(tokens > 0);
    shim.assert_well_used();
}
