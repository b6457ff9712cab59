//! Compares commits that share disk flushes with commits that flush separately, in the same run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_config::SledConfig;
use sealgate_store::engine::{Changes, Engine, Expect, Outcome};
use sealgate_store::sled::SledEngine;

use crate::MACHINE;

/// Number of concurrent callers.
const CALLERS: u8 = 64;
const LENGTH: Duration = Duration::from_secs(2);
/// Minimum ratio to the commits with one flush per request. It is far below the 13 and more in
/// docs/explanation/performance.md, so that no test fails on a busy machine. It still detects
/// flushes that are not shared, because then the ratio is 1 at most.
const WORTH: f64 = 1.5;
/// Pairs of measurements. The best one counts, because other load on the machine can only lower the
/// ratio.
const ATTEMPTS: usize = 3;

fn value(step: u64) -> Vec<u8> {
    [&step.to_be_bytes()[..], &[7; 192]].concat()
}

/// Measures commits per second if each request compares, writes and flushes separately.
fn one_flush_a_request() -> f64 {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let database = sled::Config::new().path(directory.path()).flush_every_ms(None).open().unwrap();
    // Comparing and writing must be atomic, so only one request at a time uses the database.
    let database = Mutex::new(database);
    let (stop, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (database, stop, commits) = (&database, &stop, &commits);
            scope.spawn(move || {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let database = database.lock().unwrap();
                    let found = database.get([caller]).unwrap();
                    assert_eq!(found.is_some(), done > 0);
                    done += 1;
                    database.insert([caller], value(done)).unwrap();
                    database.flush().unwrap();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(LENGTH);
        stop.store(true, Ordering::Relaxed);
    });
    rate(&commits, started)
}

/// Measures commits per second through the engine.
async fn shared() -> f64 {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let settings = SledConfig { path, cache_bytes: 64 << 20, reserve_bytes: 0, queue: 1024 };
    let engine = Arc::new(SledEngine::open(&settings, Arc::new(())).unwrap());
    let (stop, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let started = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (engine, stop, commits) = (Arc::clone(&engine), Arc::clone(&stop), Arc::clone(&commits));
        callers.spawn(async move {
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                let expect = match done {
                    0 => Expect::Absent(vec![caller]),
                    _ => Expect::Value(vec![caller], value(done)),
                };
                done += 1;
                let put = vec![(vec![caller], value(done))];
                let changes = Changes { expect: vec![expect], put, delete: Vec::new(), ..Changes::default() };
                assert_eq!(engine.commit(changes).await.unwrap(), Outcome::Committed);
                commits.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(LENGTH).await;
    stop.store(true, Ordering::Relaxed);
    callers.join_all().await;
    rate(&commits, started)
}

fn rate(commits: &AtomicUsize, started: Instant) -> f64 {
    f64::from(u32::try_from(commits.load(Ordering::Relaxed)).unwrap()) / started.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharing_flushes_multiplies_the_commits_of_64_callers() {
    let _alone = MACHINE.write().await;
    let mut best = 0.0_f64;
    for _ in 0..ATTEMPTS {
        let alone = tokio::task::spawn_blocking(one_flush_a_request).await.unwrap();
        let shared = shared().await;
        println!("one flush a request: {alone:.0}/s; shared: {shared:.0}/s; {:.1} times", shared / alone);
        best = best.max(shared / alone);
        if best > WORTH {
            break;
        }
    }
    assert!(best > WORTH, "{best:.1} times");
}
