//! Tests a thread that cannot be started: the start fails with a message, or the server serves. It
//! never reports readiness while requests are unanswered.

use std::fs;
use std::time::Duration;

use crate::support::{Instance, Settings, Upstream, preloaded};

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_cannot_start_is_tolerated_or_reported() {
    let upstream = Upstream::start();
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let library = preloaded(instance.directory.path(), "threads.c");
    let counted = instance.directory.path().join("threads");
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    instance.environment = vec![("LD_PRELOAD", text(&library)), ("THREAD_COUNT", text(&counted))];
    instance.start();
    assert_eq!(instance.stop(), Some(0));
    let count: usize = fs::read_to_string(&counted).unwrap().trim().parse().unwrap();
    assert!(count > 10, "the library was not loaded: {count}");

    let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
    let mut served = 0;
    for number in 1..=count {
        instance.environment.truncate(1);
        instance.environment.push(("THREAD_FAILS", number.to_string()));
        let before = instance.log().len();
        instance.launch();
        if instance.is_ready_or_has_ended() {
            served += 1;
            for url in [instance.url("/oauth/jwks"), instance.app_url("/public/")] {
                let request = client.get(url.replace("app.localhost", "127.0.0.1")).header("host", "app.localhost");
                let request = if url.contains("app.localhost") { request } else { client.get(&url) };
                let answer = request.send().await;
                assert!(answer.as_ref().is_ok_and(|answer| answer.status() == 200), "thread {number}: {answer:?}");
            }
            instance.stop();
            // Pingora starts a thread to end each runtime. The store is closed by then, whatever
            // happens to them.
            assert!(instance.log().split_off(before).contains("stopped"), "thread {number}");
        } else {
            let status = instance.wait_for_end();
            let said = instance.log().split_off(before);
            assert!(status.is_some_and(|status| status != 0), "thread {number}: {status:?}");
            let is_told = said.contains("thread") && said.contains("raise TasksMax= or LimitNPROC=");
            assert!(is_told, "thread {number}, status {status:?}: {said:?}");
        }
    }
    assert!(served > 0, "some threads are a help and no need");
}
