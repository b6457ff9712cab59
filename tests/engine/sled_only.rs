//! sled engine only: persistent files, a bounded queue, a full or failing disk.

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_config::SledConfig;
use sealgate_store::barrier;
use sealgate_store::engine::{Changes, CommitObserver, Counter, Engine, EngineError, Outcome};
use sealgate_store::sled::{OpenError, Options, SledEngine};

use crate::{BARRIERS, Place, absent, commit, delete, put, store};

/// Blocks the writer's thread after a batch, until it is released.
struct Gate {
    closed: AtomicBool,
    arrived: Mutex<mpsc::Sender<()>>,
    opened: Mutex<mpsc::Receiver<()>>,
}

impl CommitObserver for Gate {
    fn committed(&self, _operations: usize, _seconds: f64) {
        if self.closed.swap(false, Ordering::SeqCst) {
            self.arrived.lock().unwrap().send(()).unwrap();
            self.opened.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }

    fn queue(&self, _waiting: usize) {}
}

/// Returns an engine whose writer is blocked at the gate; a message to the sender releases it.
async fn held(place: &Place, queue: usize, commit_timeout: Duration) -> (SledEngine, mpsc::Sender<()>) {
    let (arrived, arrival) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let gate = Gate { closed: AtomicBool::new(true), arrived: Mutex::new(arrived), opened: Mutex::new(opened) };
    let options = Options { commit_timeout, ..Options::default() };
    let engine = place.open_with(options, queue, Arc::new(gate)).unwrap();
    commit(&engine, put(b"first", b"")).await;
    arrival.recv_timeout(Duration::from_secs(20)).unwrap();
    (engine, open)
}

#[tokio::test]
async fn a_full_queue_refuses_commits_and_loses_no_accepted_one() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let (engine, open) = held(&place, 4, Duration::from_secs(20)).await;
    let mut taken: Vec<_> = (0..4_u8).map(|key| Box::pin(engine.commit(put(&[key], b"v")))).collect();
    for future in &mut taken {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert!(matches!(engine.commit(put(b"fifth", b"v")).await, Err(EngineError::Busy)));
    assert!(matches!(engine.ping().await, Err(EngineError::Busy)));
    open.send(()).unwrap();
    for future in taken {
        assert_eq!(future.await.unwrap(), Outcome::Committed);
    }
    assert_eq!(engine.scan(b"", None, 100).await.unwrap().len(), 5);
    engine.ping().await.unwrap();
}

#[tokio::test]
async fn a_commit_that_misses_its_deadline_is_not_applied() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    // The previous commit must finish in time, on a busy machine too.
    let (engine, open) = held(&place, 4, Duration::from_secs(2)).await;
    let started = Instant::now();
    assert!(matches!(engine.commit(put(b"late", b"v")).await, Err(EngineError::Timeout)));
    assert!(started.elapsed() < Duration::from_secs(20));
    open.send(()).unwrap();
    engine.close();
    assert_eq!(engine.get(b"late").await.unwrap(), None);
}

#[tokio::test]
async fn closing_finishes_queued_commits_and_accepts_no_more() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let (engine, open) = held(&place, 4, Duration::from_secs(20)).await;
    let mut queued = pin!(engine.commit(put(b"queued", b"v")));
    assert!(matches!(queued.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    open.send(()).unwrap();
    engine.close();
    assert_eq!(queued.await.unwrap(), Outcome::Committed);
    assert!(matches!(engine.commit(put(b"more", b"v")).await, Err(EngineError::Unavailable(_))));
    assert!(matches!(engine.ping().await, Err(EngineError::Unavailable(_))));
    assert_eq!(engine.get(b"queued").await.unwrap(), Some(b"v".to_vec()));
}

#[tokio::test]
async fn later_commits_of_a_batch_see_the_earlier_ones() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let (engine, open) = held(&place, 8, Duration::from_secs(20)).await;
    let once = |winner: &[u8]| Changes { expect: vec![absent(b"k")], ..put(b"k", winner) };
    let mut batch: Vec<_> =
        [once(b"1"), once(b"2"), delete(b"k"), once(b"3"), once(b"4")].map(|c| engine.commit(c)).into();
    for future in &mut batch {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    open.send(()).unwrap();
    let mut outcomes = Vec::new();
    for future in batch {
        outcomes.push(future.await.unwrap());
    }
    let (done, refused) = (Outcome::Committed, Outcome::Conflict);
    assert_eq!(outcomes, [done, refused, done, done, refused]);
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"3".to_vec()));
}

#[tokio::test]
async fn a_disk_below_its_reserve_refuses_writes_and_serves_reads() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    commit(&place.open(), put(b"k", b"v")).await;
    let full = SledConfig { reserve_bytes: u64::MAX, ..store(&place.path(), 16) };
    let engine = SledEngine::open(&full, Arc::new(())).unwrap();
    for changes in [put(b"k", b"w"), delete(b"k")] {
        assert!(matches!(engine.commit(changes).await, Err(EngineError::Unwritable(_))));
    }
    assert!(matches!(engine.ping().await, Err(EngineError::Unwritable(_))));
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    drop(engine);
    assert_eq!(commit(&place.open(), put(b"k", b"w")).await, Outcome::Committed);
}

#[tokio::test]
async fn reopening_finds_all_records() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = place.open();
    for number in 0..500_u16 {
        commit(&engine, put(&number.to_be_bytes(), &vec![7; usize::from(number) * 10])).await;
    }
    for number in (0..500_u16).step_by(3) {
        commit(&engine, delete(&number.to_be_bytes())).await;
    }
    let before = engine.scan(b"", None, 1000).await.unwrap();
    assert_eq!(before.len(), 333);
    drop(engine);
    for _ in 0..3 {
        assert!(place.open().scan(b"", None, 1000).await.unwrap() == before);
    }
}

#[tokio::test]
async fn a_second_open_reports_the_process_that_uses_the_store() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = place.open();
    let error = place.open_with(Options::default(), 16, Arc::new(())).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }));
    let (path, process) = (place.path(), std::process::id());
    assert_eq!(
        error.to_string(),
        format!(
            "the store {} is in use by process {process}; sealgate is probably running: stop it first",
            path.display()
        )
    );
    assert_eq!(commit(&engine, put(b"k", b"v")).await, Outcome::Committed);
    drop(engine);
    assert_eq!(place.open().get(b"k").await.unwrap(), Some(b"v".to_vec()));
}

#[tokio::test]
async fn an_unfinished_snapshot_does_not_stop_the_start() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    commit(&place.open(), put(b"k", b"v")).await;
    let stray = place.path().join("snap.00000000FFFFFFFF.generating");
    fs::write(&stray, b"half of a").unwrap();
    let engine = place.open();
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    assert!(!stray.exists());
}

/// sled never syncs the files next to its log.
#[tokio::test]
async fn long_values_stay_in_the_log() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let engine = place.open();
    for round in 0..4_u8 {
        for number in 0..40_u8 {
            commit(&engine, put(&[number], &vec![round; 65_536])).await;
        }
    }
    for number in 0..20_u8 {
        commit(&engine, delete(&[number])).await;
    }
    assert_eq!(fs::read_dir(place.path().join("blobs")).unwrap().count(), 0);
}

/// Number of commits per batch, and the longest queue.
#[derive(Default)]
struct Tally {
    batches: AtomicUsize,
    operations: AtomicUsize,
    longest: AtomicUsize,
}

impl CommitObserver for Tally {
    fn committed(&self, operations: usize, seconds: f64) {
        assert!(seconds > 0.0);
        self.batches.fetch_add(1, Ordering::SeqCst);
        self.operations.fetch_add(operations, Ordering::SeqCst);
    }

    fn queue(&self, waiting: usize) {
        self.longest.fetch_max(waiting, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_large_batch_needs_two_barriers_and_a_small_one_needs_one() {
    let _alone = BARRIERS.write().await;
    let place = Place::new();
    let tally = Arc::new(Tally::default());
    let engine = Arc::new(place.open_with(Options::default(), 1024, tally.clone()).unwrap());

    let before = barrier::count();
    for number in 0..50_u8 {
        commit(&*engine, put(&[number], b"v")).await;
    }
    let alone = barrier::count() - before;
    println!("one at a time: {alone} barriers for 50 commits");
    assert!((50..=55).contains(&alone), "{alone}");

    let (before, batches_before) = (barrier::count(), tally.batches.load(Ordering::SeqCst));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u8 {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            for number in 0..50_u8 {
                commit(&*engine, put(&[task, number], b"v")).await;
            }
        });
    }
    tasks.join_all().await;
    let together = barrier::count() - before;
    let batches = tally.batches.load(Ordering::SeqCst) - batches_before;
    println!("8 at once: {together} barriers and {batches} groups for 400 commits");
    // Occasionally a group crosses into a new segment of the log, which costs one more barrier.
    assert!(together <= batches as u64 + 10, "{together} {batches}");

    let (before, batches_before) = (barrier::count(), tally.batches.load(Ordering::SeqCst));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64_u8 {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            for number in 0..50_u8 {
                let put = [0, 1].map(|part| (vec![task, number, part], b"v".to_vec())).into();
                commit(&*engine, Changes { put, ..Changes::default() }).await;
            }
        });
    }
    tasks.join_all().await;
    let together = barrier::count() - before;
    engine.close();
    let batches = tally.batches.load(Ordering::SeqCst) - batches_before;
    println!("64 at once: {together} barriers and {batches} groups for 3200 commits of two records");
    assert_eq!(tally.operations.load(Ordering::SeqCst), 50 + 400 + 3200);
    assert!(tally.longest.load(Ordering::SeqCst) > 1);
    // Occasionally a batch crosses into a new segment of the log, which costs one more barrier.
    assert!(together <= 2 * batches as u64 + 10, "{together} {batches}");
    assert!(together < 3200 / 4, "{together}");
}

/// A child process's store; unset in the parent.
const CHILD: &str = "SEALGATE_ENGINE_TEST_STORE";

/// Commits records 0, 1, 2, … from 16 tasks forever, and prints each number once it is durable.
fn write_for_ever(path: &Path) -> ! {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let engine = Arc::new(SledEngine::open(&store(path, 1024), Arc::new(())).unwrap());
        let next = Arc::new(AtomicUsize::new(engine.scan(b"", None, usize::MAX).await.unwrap().len() * 2));
        for _ in 0..16 {
            let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let changes = put(&number.to_be_bytes(), &[number.to_le_bytes()[0]; 1500]);
                    if engine.commit(changes).await.is_ok() {
                        let _ = writeln!(std::io::stdout(), "durable {number}");
                    }
                }
            });
        }
        std::future::pending().await
    })
}

/// Starts this test program as a child process that runs only `test`, after `shell` commands.
fn child(test: &str, place: &Place, shell: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" --exact --nocapture \"$1\"")])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("engine::sled_only::{test}"))
        .env(CHILD, place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn durable(lines: impl Iterator<Item = String>) -> BTreeSet<usize> {
    lines.filter_map(|line| line.strip_prefix("durable ").and_then(|number| number.parse().ok())).collect()
}

fn assert_kept(place: &Place, acknowledged: &BTreeSet<usize>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let engine = place.open();
        for number in acknowledged {
            let expected = vec![number.to_le_bytes()[0]; 1500];
            assert!(engine.get(&number.to_be_bytes()).await.unwrap() == Some(expected), "{number} is lost");
        }
    });
}

#[test]
fn a_killed_process_loses_no_acknowledged_commit() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_for_ever(Path::new(&path));
    }
    let place = Place::new();
    let mut acknowledged = BTreeSet::new();
    for round in 0..5_u64 {
        let mut child = child("a_killed_process_loses_no_acknowledged_commit", &place, "");
        let output = BufReader::new(child.stdout.take().unwrap());
        let (begun, beginning) = mpsc::channel();
        let reader = thread::spawn(move || {
            let told = output.lines().map_while(Result::ok).enumerate().inspect(|(index, _)| {
                if *index == 60 {
                    let _ = begun.send(());
                }
            });
            durable(told.map(|(_, line)| line))
        });
        beginning.recv_timeout(Duration::from_mins(1)).unwrap();
        thread::sleep(Duration::from_millis(130 * round));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let durable = reader.join().unwrap();
        assert!(durable.len() > 20, "round {round}: {}", durable.len());
        acknowledged.extend(durable);
        assert_kept(&place, &acknowledged);
    }
}

#[test]
fn a_failed_write_ends_the_process_and_keeps_acknowledged_commits() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_for_ever(Path::new(&path));
    }
    let place = Place::new();
    // Limits files to 6 MiB (in blocks of 512 bytes); a write beyond fails as on a broken disk.
    let test = "a_failed_write_ends_the_process_and_keeps_acknowledged_commits";
    let output = child(test, &place, "trap '' XFSZ; ulimit -f 12288;").wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(70), "{errors}");
    assert_eq!(errors.matches("sealgate stops; check the disk").count(), 1, "{errors}");
    let acknowledged = durable(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned));
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    assert_kept(&place, &acknowledged);
}

/// Very short deadlines: a commit that timed out before its start is never applied.
///
/// A commit with an unknown outcome reports that, and exactly the applied ones increment their
/// counter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_applied_after_its_deadline_increments_its_counter() {
    let _shared = BARRIERS.read().await;
    let place = Place::new();
    let options = Options { allow_volatile: true, commit_timeout: Duration::from_micros(200), ..Options::default() };
    let engine = place.open_with(options, 1024, Arc::new(())).unwrap();
    let (mut committed, mut unknown, mut withdrawn) = (0, 0, Vec::new());
    for number in 0..200_u32 {
        let mut changes = Changes { moves: vec![Counter::User(7)], ..put(&number.to_be_bytes(), b"v") };
        // Writing this takes longer than the deadline, up to two milliseconds with the runtime's
        // timer.
        changes.put.extend((0..100).map(|part| (vec![b'l', part], vec![part; 8192])));
        match engine.commit(changes).await {
            Ok(outcome) => committed += usize::from(outcome == Outcome::Committed),
            Err(EngineError::Timeout) => withdrawn.push(number),
            Err(EngineError::Unknown) => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    engine.close();
    let all = engine.scan(b"", None, 1000).await.unwrap();
    let applied = all.iter().filter(|(key, _)| key.len() == 4).count();
    println!("{committed} committed, {unknown} not known, {} withdrawn", withdrawn.len());
    assert!(unknown + withdrawn.len() > 0, "all of {applied} were answered in time");
    assert!((committed..=committed + unknown).contains(&applied), "{applied} {committed} {unknown}");
    for number in withdrawn {
        assert_eq!(engine.get(&number.to_be_bytes()).await.unwrap(), None, "{number} was said to be undone");
    }
    assert_eq!(engine.counters().sum(7), applied as u64, "{unknown} not known");
}
