//! Power cuts under load.
//!
//! A preloaded library (`power.c`) keeps an image of the store's directory that contains only the
//! data that a disk would contain if the power failed now. The test kills the process at a random
//! moment and replaces the directory with the image. All acknowledged data must be in it: every
//! write, overwrite and removal, and each commit as a whole.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fs, thread};

use sealgate_config as config;
use sealgate_store::engine::{Changes, Engine, Expect, Outcome};
use sealgate_store::sled::SledEngine;
use tempfile::TempDir;

use crate::MACHINE;
use crate::chance::Chance;
use crate::rounds;

/// Environment variable with the store of the child, which writes. It is not set in the test
/// itself.
const CHILD: &str = "SEALGATE_POWER_TEST_STORE";
/// Number of concurrent tasks. Each commits its own records.
const TASKS: u8 = 16;
/// Age in steps at which a task removes a record.
const KEPT: u64 = 40;

/// Way in which the image is built.
#[derive(Clone, Copy)]
enum Model {
    /// Only synced writes.
    SyncedOnly,
    /// Random unsynced writes are lost too, and some are torn.
    Scattered,
}

fn store(path: &Path) -> config::SledConfig {
    config::SledConfig { path: path.to_owned(), cache_bytes: 16 << 20, reserve_bytes: 0, queue: 256 }
}

fn state_key(task: u8) -> Vec<u8> {
    vec![b's', task]
}

fn record_key(task: u8, step: u64) -> Vec<u8> {
    [&[b'r', task][..], &step.to_be_bytes()].concat()
}

/// Returns a record. Some are stored whole, some in pieces.
fn record(task: u8, step: u64) -> Vec<u8> {
    let length = if step.is_multiple_of(7) { 5_000 } else { 300 };
    let seed = step.to_le_bytes();
    (0..length).map(|at| seed[at % 8].wrapping_add(task)).collect()
}

/// Returns the changes of a task's step: adds a record, increments the counter, and removes an old
/// record.
fn changes(task: u8, step: u64) -> Changes {
    let expect = match step {
        1 => Expect::Absent(state_key(task)),
        _ => Expect::Value(state_key(task), (step - 1).to_be_bytes().to_vec()),
    };
    Changes {
        expect: vec![expect],
        put: vec![(state_key(task), step.to_be_bytes().to_vec()), (record_key(task, step), record(task, step))],
        delete: step.checked_sub(KEPT).map(|old| record_key(task, old)).into_iter().collect(),
        ..Changes::default()
    }
}

async fn steps_done(engine: &dyn Engine, task: u8) -> u64 {
    let bytes = engine.get(&state_key(task)).await.unwrap();
    bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Commits until it is killed, and prints each step once it is durable.
fn write_for_ever(path: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let engine = Arc::new(SledEngine::open(&store(path), Arc::new(())).unwrap());
        for task in 0..TASKS {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                let mut step = steps_done(&*engine, task).await;
                loop {
                    step += 1;
                    assert_eq!(engine.commit(changes(task, step)).await.unwrap(), Outcome::Committed);
                    let _ = writeln!(std::io::stdout(), "durable {task} {step}");
                }
            });
        }
        std::future::pending().await
    })
}

/// Compiles `power.c` to a shared library.
fn compile(library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/power.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o"])
        .args([library, &source])
        .status()
        .expect("a C compiler; install gcc");
    assert!(compiled.success());
}

/// A database that survives several power cuts.
struct Machine {
    directory: TempDir,
    test: &'static str,
    chance: Chance,
    acknowledged: BTreeMap<u8, u64>,
}

impl Machine {
    fn new(test: &'static str) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let machine = Self { directory, test, chance: Chance::seeded(test), acknowledged: BTreeMap::new() };
        compile(&machine.library());
        // Created before the first cut: the image starts as an empty database that was opened and
        // closed normally.
        drop(SledEngine::open(&store(&machine.disk()), Arc::new(())).unwrap());
        machine
    }

    fn disk(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("power.so")
    }

    /// Writes until the power fails; afterwards the disk contains the image.
    fn run_until_power_fails(&mut self, model: Model, barrier: bool) {
        let image = self.directory.path().join("image");
        copy(&self.disk(), &image);
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", &format!("power::{}", self.test)]);
        command.env(CHILD, self.disk()).env("LD_PRELOAD", self.library());
        command.env("POWER_ROOT", self.disk()).env("POWER_IMAGE", &image);
        if matches!(model, Model::Scattered) {
            command.env("POWER_SCATTER", self.chance.next().to_string());
        }
        if !barrier {
            command.env("POWER_BARRIER", "off");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let reader = thread::spawn(move || {
            let mut durable = BTreeMap::new();
            for line in output.lines().map_while(Result::ok) {
                let mut words = line.split(' ');
                let (Some("durable"), Some(task), Some(step)) = (words.next(), words.next(), words.next()) else {
                    continue;
                };
                // The kill may truncate the last line within a number.
                if let (Ok(task), Ok(step)) = (task.parse::<u8>(), step.parse::<u64>()) {
                    let before = durable.insert(task, step);
                    assert!(before.is_none_or(|before| before < step));
                    let _ = tell.send(());
                }
            }
            durable
        });
        told.recv_timeout(std::time::Duration::from_secs(20)).expect("the writing process commits");
        thread::sleep(self.chance.milliseconds(20, 700));
        child.kill().unwrap();
        child.wait().unwrap();
        self.acknowledged.extend(reader.join().unwrap());
        fs::remove_dir_all(self.disk()).unwrap();
        fs::rename(image, self.disk()).unwrap();
    }

    /// Opens the database after the cut and returns the errors.
    async fn faults(&self) -> Vec<String> {
        let engine = match SledEngine::open(&store(&self.disk()), Arc::new(())) {
            Ok(engine) => engine,
            Err(error) => return vec![error.to_string()],
        };
        let mut faults = Vec::new();
        for task in 0..TASKS {
            let acknowledged = self.acknowledged.get(&task).copied().unwrap_or(0);
            let done = steps_done(&engine, task).await;
            if done < acknowledged {
                faults.push(format!("task {task}: step {acknowledged} was acknowledged, {done} is there"));
            }
            let rows = engine.scan(&[b'r', task], None, 10_000).await.unwrap();
            let expected: Vec<_> = (done.saturating_sub(KEPT) + 1..=done)
                .map(|step| (record_key(task, step), record(task, step)))
                .collect();
            if rows != expected {
                faults.push(format!("task {task}: the records are not those of step {done}"));
            }
        }
        faults
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

async fn survives(test: &'static str, model: Model) {
    let mut machine = Machine::new(test);
    for round in 0..rounds(3) {
        machine.run_until_power_fails(model, true);
        let steps: u64 = machine.acknowledged.values().sum();
        let faults = machine.faults().await;
        assert!(faults.is_empty(), "round {round}, {steps} steps acknowledged: {faults:#?}");
        println!("{test}: round {round}: all of {steps} acknowledged steps are there");
    }
}

/// Asserts that power cuts cause errors without the barrier, in at least one of a few runs.
/// Otherwise the model would prove nothing.
async fn is_noticed(test: &'static str, model: Model) {
    for _ in 0..5 {
        let mut machine = Machine::new(test);
        machine.run_until_power_fails(model, false);
        let faults = machine.faults().await;
        if let Some(fault) = faults.first() {
            println!("{test}: {} faults, such as: {fault}", faults.len());
            return;
        }
    }
    panic!("five power cuts without a barrier, and nothing was lost");
}

#[test]
fn acknowledged_commits_survive_a_power_cut() {
    block_on(survives("acknowledged_commits_survive_a_power_cut", Model::SyncedOnly));
}

#[test]
fn acknowledged_commits_survive_a_power_cut_with_torn_writes() {
    let test = "acknowledged_commits_survive_a_power_cut_with_torn_writes";
    block_on(survives(test, Model::Scattered));
}

#[test]
fn a_power_cut_without_the_barrier_is_detected() {
    block_on(is_noticed("a_power_cut_without_the_barrier_is_detected", Model::SyncedOnly));
}

#[test]
fn a_reordering_power_cut_without_the_barrier_is_detected() {
    block_on(is_noticed("a_reordering_power_cut_without_the_barrier_is_detected", Model::Scattered));
}

/// Runs a test on a new runtime. The child writes on its own runtime, which must not be started
/// within another.
fn block_on(test: impl Future<Output = ()>) {
    if let Some(path) = env::var_os(CHILD) {
        write_for_ever(Path::new(&path));
    }
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        let _shared = MACHINE.read().await;
        test.await;
    });
}
