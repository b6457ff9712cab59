//! Simulates a year of sign-ins: new records replace all records repeatedly, and the store must not
//! grow beyond the size that the live records need. `TURNOVER_RECORDS` sets the number of live
//! records.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sealgate_config::SledConfig;
use sealgate_store::engine::{Changes, Engine, Outcome};
use sealgate_store::sled::SledEngine;
use sha2::{Digest, Sha256};

use crate::MACHINE;

const TURNOVERS: u64 = 10;
/// Records that one commit adds, and that it removes.
const STEP: u64 = 64;
/// Number of concurrent commits.
const AT_ONCE: u64 = 4;

/// Returns a key. Keys are in random order, like the keys of codes and grants.
fn key(number: u64) -> Vec<u8> {
    [&b"g"[..], &Sha256::digest(number.to_be_bytes())].concat()
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(50)
}

fn open(path: &Path) -> Arc<SledEngine> {
    let settings = SledConfig { path: path.to_owned(), cache_bytes: 64 << 20, reserve_bytes: 0, queue: 64 };
    Arc::new(SledEngine::open(&settings, Arc::new(())).unwrap())
}

fn disk_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

/// Returns the resident memory of this process in MiB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_the_store_follows_the_live_records() {
    let _alone = MACHINE.write().await;
    let alive = std::env::var("TURNOVER_RECORDS").map_or(20_000, |text| text.parse().expect("a number"));
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let engine = open(&path);
    let mut sizes = Vec::new();
    for turnover in 0..=TURNOVERS {
        let started = Instant::now();
        let mut first = turnover * alive;
        let end = first + alive;
        while first < end {
            let mut commits = tokio::task::JoinSet::new();
            for _ in 0..AT_ONCE {
                let last = (first + STEP).min(end);
                let put = (first..last).map(|number| (key(number), value(number))).collect();
                let delete = (first..last).filter_map(|number| number.checked_sub(alive)).map(key).collect();
                let engine = Arc::clone(&engine);
                commits.spawn(async move {
                    engine.commit(Changes { expect: Vec::new(), put, delete, ..Changes::default() }).await.unwrap()
                });
                first = last;
            }
            assert!(commits.join_all().await.iter().all(|outcome| *outcome == Outcome::Committed));
        }
        let (size, took) = (disk_bytes(&path), started.elapsed());
        println!(
            "turnover {turnover}: {alive} records, {} KiB on disk, {} MiB resident, {took:?}",
            size >> 10,
            memory()
        );
        sizes.push(size);
    }
    let last = engine.get(&key((TURNOVERS + 1) * alive - 1)).await.unwrap();
    assert!(last.is_some() && engine.get(&key(alive)).await.unwrap().is_none());
    // sled allocates new segments while the live share of the old ones is large enough, and then
    // reuses them.
    let (after_first, largest) = (sizes[1], sizes[2..].iter().max().unwrap());
    assert!(*largest < 2 * after_first, "{after_first} bytes after the first turnover, {largest} later");
}

/// Rewrites active sessions and grants repeatedly, one at a time, among many records that do not
/// change. `REWRITES` sets the number of rewrites. Fewer than a million do not show where the
/// growth ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes four minutes"]
async fn frequent_changes_of_few_records_do_not_grow_the_store() {
    const ROUNDS: u64 = 8;
    const HOT: u64 = 300;
    let _alone = MACHINE.write().await;
    let rewrites: u64 = std::env::var("REWRITES").map_or(1_200_000, |text| text.parse().expect("a number"));
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let engine = open(&path);
    let mut first = 0;
    while first < 10_000 {
        let put = (first..first + STEP).map(|number| (key(number), value(number))).collect();
        engine.commit(Changes { put, ..Changes::default() }).await.unwrap();
        first += STEP;
    }
    let mut sizes = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        for step in 0..rewrites / ROUNDS / AT_ONCE {
            let mut commits = tokio::task::JoinSet::new();
            for one in 0..AT_ONCE {
                let number = (step * AT_ONCE + one) * 7 % HOT;
                let put = vec![(key(number), value(round + number + step))];
                let engine = Arc::clone(&engine);
                commits.spawn(async move { engine.commit(Changes { put, ..Changes::default() }).await.unwrap() });
            }
            commits.join_all().await;
        }
        let size = disk_bytes(&path);
        println!("round {round}: {} KiB on disk, {} MiB resident, {:?}", size >> 10, memory(), started.elapsed());
        sizes.push(size);
    }
    let (half, end) = (sizes[sizes.len() / 2 - 1], sizes[sizes.len() - 1]);
    assert!(end < half + half / 4, "{half} bytes after half of the rounds, {end} at the end");
}
