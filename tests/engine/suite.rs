//! The contract of the trait, one test each, run with each engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use sealgate_store::engine::{
    Changes, Counter, Counters, Engine, EngineError, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, Outcome, Value,
};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::postgres::{NewPostgresStore, PostgresEngine};

use crate::postgres_server::empty_store;
use crate::{BARRIERS, Place, absent, commit, delete, node, put, value};

macro_rules! every_engine {
    ($($test:ident)*; $($of_one:ident)*) => {
        mod memory {
            $(every_engine! { @test $test super::Arc::new(super::MemoryEngine::new()) })*
            $(every_engine! { @test $of_one super::Arc::new(super::MemoryEngine::new()) })*
        }
        mod sled {
            $(every_engine! { @sled $test })*
            $(every_engine! { @sled $of_one })*
        }
        mod postgres {
            $(every_engine! { @test $test super::Arc::new(super::node(&super::empty_store().await).await) })*
            $(every_engine! { @test $of_one super::Arc::new(super::node(&super::empty_store().await).await) })*
        }
        mod new_postgres_store {
            $(every_engine! { @test $test super::new_store().await })*
            $(every_engine! { @test $of_one super::new_store().await })*
        }
        mod two_nodes {
            $(every_engine! { @test $test super::Arc::new(super::Alternating::start().await) })*
        }
    };
    (@test $test:ident $engine:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            super::$test($engine).await;
        }
    };
    (@sled $test:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let _shared = super::BARRIERS.read().await;
            let place = super::Place::new();
            super::$test(super::Arc::new(place.open())).await;
        }
    };
}

every_engine! {
    a_committed_record_is_read
    an_absent_record_is_nothing
    a_delete_removes_and_deleting_nothing_is_no_fault
    an_empty_value_is_a_record
    a_scan_is_in_key_order_and_keeps_to_its_prefix
    a_scan_goes_on_strictly_after_a_key
    pages_of_a_scan_make_up_the_whole
    a_prefix_of_high_bytes_is_scanned
    many_keys_are_looked_up_in_their_order
    records_under_a_prefix_are_counted
    expectations_that_hold_let_a_commit_through
    a_conflict_writes_nothing
    an_expectation_compares_all_bytes
    expectations_alone_are_answered
    one_of_64_wins_a_race_for_an_absent_key
    one_of_64_wins_a_race_to_replace_a_value
    no_increment_is_lost_when_64_retry
    conflicting_commits_on_absent_keys_succeed_once
    two_absent_keys_are_decided_together_in_whatever_order
    commits_of_many_keys_in_any_order_do_not_stand_in_each_others_way
    values_of_every_length_come_back
    long_values_are_compared_and_scanned
    records_beyond_the_limits_are_refused
    an_idle_engine_answers_a_ping;
    // Only for a single engine: every node reads the counters for itself.
    a_commit_moves_the_counters_that_it_names_and_a_conflict_none
    a_read_before_a_change_has_the_earlier_counter_sum
}

/// Returns a store that is not visible yet.
async fn new_store() -> Arc<dyn Engine> {
    NewPostgresStore::begin(&empty_store().await).await.unwrap().engine()
}

/// Two nodes on one store, used in turn.
struct Alternating {
    nodes: [PostgresEngine; 2],
    turn: AtomicUsize,
}

impl Alternating {
    async fn start() -> Self {
        let store = empty_store().await;
        Self { nodes: [node(&store).await, node(&store).await], turn: AtomicUsize::new(0) }
    }

    fn next(&self) -> &PostgresEngine {
        &self.nodes[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl Engine for Alternating {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.next().get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        self.next().get_many(keys).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.next().scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        self.next().commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.next().counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.next().ping().await
    }
}

async fn a_committed_record_is_read(engine: Arc<dyn Engine>) {
    assert_eq!(commit(&*engine, put(b"k", b"v")).await, Outcome::Committed);
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    commit(&*engine, put(b"k", b"w")).await;
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"w".to_vec()));
}

async fn an_absent_record_is_nothing(engine: Arc<dyn Engine>) {
    assert_eq!(engine.get(b"k").await.unwrap(), None);
    assert_eq!(engine.scan(b"", None, 100).await.unwrap(), []);
}

async fn a_delete_removes_and_deleting_nothing_is_no_fault(engine: Arc<dyn Engine>) {
    commit(&*engine, put(b"k", b"v")).await;
    assert_eq!(commit(&*engine, delete(b"k")).await, Outcome::Committed);
    assert_eq!(engine.get(b"k").await.unwrap(), None);
    assert_eq!(commit(&*engine, delete(b"k")).await, Outcome::Committed);
}

async fn an_empty_value_is_a_record(engine: Arc<dyn Engine>) {
    commit(&*engine, put(b"k", b"")).await;
    assert_eq!(engine.get(b"k").await.unwrap(), Some(Vec::new()));
    let changes = Changes { expect: vec![absent(b"k")], ..put(b"k", b"v") };
    assert_eq!(commit(&*engine, changes).await, Outcome::Conflict);
}

async fn fill(engine: &dyn Engine, keys: &[&[u8]]) {
    let put = keys.iter().map(|key| (key.to_vec(), key.to_vec())).collect();
    commit(engine, Changes { put, ..Changes::default() }).await;
}

async fn keys(engine: &dyn Engine, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<Vec<u8>> {
    let records = engine.scan(prefix, after, limit).await.unwrap();
    for (key, value) in &records {
        assert_eq!(key, value);
    }
    records.into_iter().map(|(key, _)| key).collect()
}

async fn a_scan_is_in_key_order_and_keeps_to_its_prefix(engine: Arc<dyn Engine>) {
    fill(&*engine, &[b"b2", b"a", b"b", b"c", b"b10", b"b\xff\xff", b"b\x00"]).await;
    let found = keys(&*engine, b"b", None, 100).await;
    assert_eq!(found, [&b"b"[..], b"b\x00", b"b10", b"b2", b"b\xff\xff"]);
    assert_eq!(keys(&*engine, b"", None, 100).await.len(), 7);
    assert_eq!(keys(&*engine, b"d", None, 100).await.len(), 0);
}

async fn a_scan_goes_on_strictly_after_a_key(engine: Arc<dyn Engine>) {
    fill(&*engine, &[b"a", b"b1", b"b2", b"b20", b"c"]).await;
    assert_eq!(keys(&*engine, b"b", Some(b"b1"), 100).await, [&b"b2"[..], b"b20"]);
    assert_eq!(keys(&*engine, b"b", Some(b"b15"), 100).await, [&b"b2"[..], b"b20"]);
    // A start key outside of the prefix is before or after all keys of the prefix.
    assert_eq!(keys(&*engine, b"b", Some(b"a"), 100).await.len(), 3);
    assert_eq!(keys(&*engine, b"b", Some(b"bz"), 100).await.len(), 0);
    assert_eq!(keys(&*engine, b"b", Some(b"c"), 100).await.len(), 0);
    assert_eq!(keys(&*engine, b"b", None, 0).await.len(), 0);
}

async fn pages_of_a_scan_make_up_the_whole(engine: Arc<dyn Engine>) {
    let all: Vec<Vec<u8>> = (0..300_u16).map(|number| [b"p", &number.to_be_bytes()[..]].concat()).collect();
    for chunk in all.chunks(100) {
        fill(&*engine, &chunk.iter().map(Vec::as_slice).collect::<Vec<_>>()).await;
    }
    fill(&*engine, &[b"o", b"q"]).await;
    for page in [7, 64, 65, 1000] {
        let mut found = Vec::new();
        loop {
            let more = keys(&*engine, b"p", found.last().map(Vec::as_slice), page).await;
            assert!(more.len() <= page);
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        assert_eq!(found, all, "pages of {page}");
    }
}

async fn a_prefix_of_high_bytes_is_scanned(engine: Arc<dyn Engine>) {
    fill(&*engine, &[b"\xfe", b"\xff", b"\xff\xff", b"\xff\xff\xff"]).await;
    assert_eq!(keys(&*engine, b"\xff", None, 100).await.len(), 3);
    assert_eq!(keys(&*engine, b"\xff\xff", Some(b"\xff\xff"), 100).await, [b"\xff\xff\xff"]);
}

async fn records_under_a_prefix_are_counted(engine: Arc<dyn Engine>) {
    assert_eq!(engine.count(b"a").await.unwrap(), 0);
    let keys = [&b"a"[..], b"a\x00", b"a\xff", b"a\xff\xff", b"b", b"`", b"\xff", b"\xff\xff"];
    for key in keys {
        commit(engine.as_ref(), put(key, b"v")).await;
    }
    assert_eq!(engine.count(b"a").await.unwrap(), 4);
    assert_eq!(engine.count(b"a\xff").await.unwrap(), 2);
    assert_eq!(engine.count(b"\xff").await.unwrap(), 2);
    assert_eq!(engine.count(b"").await.unwrap(), keys.len());
}

async fn many_keys_are_looked_up_in_their_order(engine: Arc<dyn Engine>) {
    fill(&*engine, &[b"a", b"b"]).await;
    commit(&*engine, put(b"empty", b"")).await;
    let asked = [&b"b"[..], b"x", b"a", b"b", b"empty"].map(<[u8]>::to_vec);
    let found = engine.get_many(&asked).await.unwrap();
    let expected = [Some(&b"b"[..]), None, Some(b"a"), Some(b"b"), Some(b"")];
    assert_eq!(found, expected.map(|value| value.map(<[u8]>::to_vec)));
    assert_eq!(engine.get_many(&[]).await.unwrap(), Vec::<Option<Value>>::new());
}

async fn expectations_that_hold_let_a_commit_through(engine: Arc<dyn Engine>) {
    commit(&*engine, put(b"code", b"issued")).await;
    let changes = Changes {
        expect: vec![value(b"code", b"issued"), absent(b"family")],
        put: vec![(b"code".to_vec(), b"redeemed".to_vec()), (b"family".to_vec(), b"1".to_vec())],
        delete: vec![b"other".to_vec()],
        ..Changes::default()
    };
    assert_eq!(commit(&*engine, changes.clone()).await, Outcome::Committed);
    assert_eq!(engine.get(b"code").await.unwrap(), Some(b"redeemed".to_vec()));
    assert_eq!(engine.get(b"family").await.unwrap(), Some(b"1".to_vec()));
    assert_eq!(commit(&*engine, changes).await, Outcome::Conflict);
}

async fn a_conflict_writes_nothing(engine: Arc<dyn Engine>) {
    fill(&*engine, &[b"a", b"b"]).await;
    let before = engine.scan(b"", None, 100).await.unwrap();
    for wrong in [absent(b"a"), value(b"a", b"other"), value(b"c", b"")] {
        let changes = Changes {
            expect: vec![value(b"b", b"b"), wrong],
            put: vec![(b"a".to_vec(), b"new".to_vec()), (b"c".to_vec(), b"new".to_vec())],
            delete: vec![b"b".to_vec()],
            ..Changes::default()
        };
        assert_eq!(commit(&*engine, changes).await, Outcome::Conflict);
        assert_eq!(engine.scan(b"", None, 100).await.unwrap(), before);
    }
}

async fn an_expectation_compares_all_bytes(engine: Arc<dyn Engine>) {
    commit(&*engine, put(b"k", b"value")).await;
    for other in [&b"valu"[..], b"value\0", b"", b"Value"] {
        let changes = Changes { expect: vec![value(b"k", other)], ..delete(b"k") };
        assert_eq!(commit(&*engine, changes).await, Outcome::Conflict);
    }
}

async fn expectations_alone_are_answered(engine: Arc<dyn Engine>) {
    let expecting = |expect| Changes { expect: vec![expect], ..Changes::default() };
    assert_eq!(commit(&*engine, Changes::default()).await, Outcome::Committed);
    assert_eq!(commit(&*engine, expecting(absent(b"k"))).await, Outcome::Committed);
    assert_eq!(commit(&*engine, expecting(value(b"k", b""))).await, Outcome::Conflict);
}

/// Commits the result of `changes` for each of 64 concurrent tasks, and returns the tasks that
/// succeeded.
async fn race(engine: &Arc<dyn Engine>, changes: impl Fn(u8) -> Changes) -> Vec<u8> {
    let start = Arc::new(tokio::sync::Barrier::new(64));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..64 {
        let (engine, start, changes) = (Arc::clone(engine), Arc::clone(&start), changes(number));
        tasks.spawn(async move {
            start.wait().await;
            (number, engine.commit(changes).await.unwrap())
        });
    }
    let outcomes = tasks.join_all().await;
    outcomes.into_iter().filter(|(_, outcome)| *outcome == Outcome::Committed).map(|(number, _)| number).collect()
}

async fn one_of_64_wins_a_race_for_an_absent_key(engine: Arc<dyn Engine>) {
    for round in 0..20_u8 {
        let winners =
            race(&engine, |number| Changes { expect: vec![absent(&[round])], ..put(&[round], &[number]) }).await;
        assert_eq!(winners.len(), 1);
        assert_eq!(engine.get(&[round]).await.unwrap(), Some(winners));
    }
}

async fn one_of_64_wins_a_race_to_replace_a_value(engine: Arc<dyn Engine>) {
    let mut current = b"issued".to_vec();
    commit(&*engine, put(b"k", &current)).await;
    for round in 0..20_u8 {
        let winners =
            race(&engine, |number| Changes { expect: vec![value(b"k", &current)], ..put(b"k", &[round, number]) })
                .await;
        assert_eq!(winners.len(), 1);
        current = vec![round, winners[0]];
        assert_eq!(engine.get(b"k").await.unwrap().as_ref(), Some(&current));
    }
}

async fn no_increment_is_lost_when_64_retry(engine: Arc<dyn Engine>) {
    commit(&*engine, put(b"n", &[0])).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            loop {
                let seen = engine.get(b"n").await.unwrap().unwrap();
                let changes = Changes { expect: vec![value(b"n", &seen)], ..put(b"n", &[seen[0] + 1]) };
                if engine.commit(changes).await.unwrap() == Outcome::Committed {
                    break;
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(engine.get(b"n").await.unwrap(), Some(vec![64]));
}

/// Write skew on two absent keys: there is no row to lock.
async fn conflicting_commits_on_absent_keys_succeed_once(engine: Arc<dyn Engine>) {
    for round in 0..30_u8 {
        let keys = [[0, round], [1, round]];
        let winners = race(&engine, |number| {
            let own = usize::from(number % 2);
            Changes { expect: vec![absent(&keys[1 - own])], ..put(&keys[own], &[number]) }
        })
        .await;
        // All commits of one side may succeed, one after another, and none of the second side.
        let sides: Vec<u8> = winners.iter().map(|number| number % 2).collect();
        assert!(!sides.is_empty() && sides.iter().all(|side| *side == sides[0]), "{winners:?}");
        let other = engine.get(&keys[usize::from(1 - sides[0])]).await.unwrap();
        assert_eq!(other, None);
    }
}

async fn two_absent_keys_are_decided_together_in_whatever_order(engine: Arc<dyn Engine>) {
    for round in 0..20_u8 {
        let (one, other, blind) = ([0, round], [1, round], [2, round]);
        let winners = race(&engine, |number| {
            let mut keys = [one, other];
            if number % 2 == 0 {
                keys.reverse();
            }
            if number % 8 == 7 {
                return put(&blind, &[number]);
            }
            let put = keys.iter().chain([&blind]).map(|key| (key.to_vec(), vec![number])).collect();
            Changes { expect: keys.iter().map(|key| absent(key)).collect(), put, ..Changes::default() }
        })
        .await;
        let winners: Vec<u8> = winners.into_iter().filter(|number| number % 8 != 7).collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        for key in [one, other] {
            assert_eq!(engine.get(&key).await.unwrap(), Some(winners.clone()));
        }
    }
}

/// More keys than an engine may have locks for, so that commits without common keys share locks.
async fn commits_of_many_keys_in_any_order_do_not_stand_in_each_others_way(engine: Arc<dyn Engine>) {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..24_u8 {
        let engine = Arc::clone(&engine);
        tasks.spawn(async move {
            let mut keys: Vec<[u8; 3]> = (0..400_u16).map(|key| [task, (key >> 8) as u8, (key & 0xff) as u8]).collect();
            keys.rotate_left(usize::from(task) * 16);
            if task % 2 == 0 {
                keys.reverse();
            }
            let put = keys.iter().map(|key| (key.to_vec(), vec![task])).collect();
            let expect = keys.iter().map(|key| absent(key)).collect();
            assert_eq!(commit(&*engine, Changes { expect, put, ..Changes::default() }).await, Outcome::Committed);
        });
    }
    tasks.join_all().await;
    assert_eq!(engine.scan(b"", None, usize::MAX).await.unwrap().len(), 24 * 400);
}

async fn values_of_every_length_come_back(engine: Arc<dyn Engine>) {
    for length in [0, 1, 2047, 2048, 2049, 4096, 4097, 65_536, MAX_VALUE_BYTES, 100, 3000] {
        let long: Vec<u8> = (0..length).map(|index| index.to_le_bytes()[index % 2]).collect();
        commit(&*engine, put(b"k", &long)).await;
        assert!(engine.get(b"k").await.unwrap() == Some(long), "{length}");
    }
    commit(&*engine, delete(b"k")).await;
    assert_eq!(engine.get(b"k").await.unwrap(), None);
    assert_eq!(engine.scan(b"", None, 100).await.unwrap(), []);
}

async fn long_values_are_compared_and_scanned(engine: Arc<dyn Engine>) {
    let (long, mut other) = (vec![1; 20_000], vec![1; 20_000]);
    other[19_999] = 2;
    commit(&*engine, put(b"k1", &long)).await;
    commit(&*engine, put(b"k2", b"short")).await;
    let changed = Changes { expect: vec![value(b"k1", &other)], ..put(b"k1", b"") };
    assert_eq!(commit(&*engine, changed).await, Outcome::Conflict);
    let changed = Changes { expect: vec![value(b"k1", &long)], ..put(b"k1", &other) };
    assert_eq!(commit(&*engine, changed).await, Outcome::Committed);
    let found = engine.scan(b"k", None, 100).await.unwrap();
    assert!(found == [(b"k1".to_vec(), other), (b"k2".to_vec(), b"short".to_vec())]);
}

async fn records_beyond_the_limits_are_refused(engine: Arc<dyn Engine>) {
    let (key, long_key) = (vec![1; MAX_KEY_BYTES], vec![1; MAX_KEY_BYTES + 1]);
    assert_eq!(commit(&*engine, put(&key, b"")).await, Outcome::Committed);
    for changes in [put(&long_key, b""), delete(&long_key), put(b"k", &vec![0; MAX_VALUE_BYTES + 1])] {
        assert!(matches!(engine.commit(changes).await, Err(EngineError::Unwritable(_))));
    }
    assert_eq!(engine.scan(b"", None, 100).await.unwrap().len(), 1);
}

async fn an_idle_engine_answers_a_ping(engine: Arc<dyn Engine>) {
    engine.ping().await.unwrap();
}

#[tokio::test]
async fn the_memory_engine_can_refuse_writes() {
    let engine = MemoryEngine::new();
    commit(&engine, put(b"k", b"v")).await;
    engine.refuse_writes(true);
    assert!(matches!(engine.commit(put(b"k", b"w")).await, Err(EngineError::Unwritable(_))));
    assert!(matches!(engine.ping().await, Err(EngineError::Unwritable(_))));
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
    engine.refuse_writes(false);
    assert_eq!(commit(&engine, put(b"k", b"w")).await, Outcome::Committed);
}

async fn a_commit_moves_the_counters_that_it_names_and_a_conflict_none(engine: Arc<dyn Engine>) {
    let counters = engine.counters();
    let sums = || [7, 8].map(|person| counters.sum(person));
    let (before, total) = (sums(), counters.total());
    commit(&*engine, put(b"k", b"v")).await;
    assert_eq!((sums(), counters.total()), (before, total), "it names none");
    let changes = Changes { expect: vec![value(b"k", b"other")], moves: vec![Counter::Everything], ..put(b"k", b"x") };
    assert_eq!(commit(&*engine, changes).await, Outcome::Conflict);
    assert_eq!((sums(), counters.total()), (before, total), "nothing happened");
    let moves = vec![Counter::User(7)];
    commit(&*engine, Changes { moves, ..put(b"k", b"w") }).await;
    // Once here, and in a shared store once more when this node reads it.
    assert!(counters.total() > total && counters.sum(7) > before[0] && counters.sum(8) == before[1], "hers alone");
    for counter in [Counter::Clients, Counter::Keys, Counter::Everything] {
        let before = sums();
        commit(&*engine, Changes { moves: vec![counter], ..delete(b"k") }).await;
        assert!(sums().iter().zip(before).all(|(now, before)| *now > before), "everybody's");
    }
}

/// The order that makes caches correct.
///
/// A reader takes the sum, then reads. If the sum is unchanged after a change was answered, the
/// read included that change.
async fn a_read_before_a_change_has_the_earlier_counter_sum(engine: Arc<dyn Engine>) {
    const CHANGES: u32 = 200;
    commit(&*engine, put(b"k", &0_u32.to_be_bytes())).await;
    let writer = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let mut answered = vec![0];
            for number in 1..=CHANGES {
                let moves = vec![Counter::User(7)];
                commit(&*engine, Changes { moves, ..put(b"k", &number.to_be_bytes()) }).await;
                answered.push(engine.counters().sum(7));
            }
            answered
        })
    };
    let mut seen = Vec::new();
    while !writer.is_finished() {
        let sum = engine.counters().sum(7);
        let value = engine.get(b"k").await.unwrap().unwrap();
        seen.push((sum, u32::from_be_bytes(value.try_into().unwrap())));
        tokio::task::yield_now().await;
    }
    let answered = writer.await.unwrap();
    // A reader of an older value must not find its sum unchanged once the next change was answered.
    for (sum, value) in seen {
        let next = answered.get(value as usize + 1);
        assert!(next.is_none_or(|after| sum < *after), "{value} was read under the sum {sum}, which still stands");
    }
}
