//! Overhead of the signer over the token.
//!
//! Measures signatures a second with 64 queued requests, relative to plain threads (one per
//! session) on the same token, and the latency distribution. The two alternate in each round, so
//! that other work on the machine affects both. `SIGNER_ROUNDS`, `SIGNER_SECONDS` (per round).
//!
//! A plain thread hashes and signs in its own session, without queue, timeout or verification.

#![expect(clippy::print_stdout, reason = "the figures are the outcome")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

#[path = "../tests/support/softhsm.rs"]
mod softhsm;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use std::{env, thread};

use cryptoki::context::Pkcs11;
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::Session;
use sealgate_config as config;
use sealgate_config::Hsm;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer as signer;
use sealgate_signer::{KeySize, NoopObserver, Pkcs11Signer, Signer};

use crate::softhsm::{MODULE, SoftHsm};

/// Queued requests at any time.
const WAITING: usize = 64;
/// Signatures per request: a response of the token endpoint takes two.
const SIGNATURES: usize = 2;
/// Length of a JWT before its signature, bytes.
const INPUT: usize = 900;
const LABEL: &str = "sealgate";
/// Environment variable with the path of the token's PIN file, for the measuring process.
///
/// SoftHSM reads the path of its configuration from the environment.
const CHILD: &str = "SIGNER_BENCH_PIN_FILE";

fn main() {
    if let Some(pin_file) = env::var_os(CHILD) {
        measure(pin_file.into());
        return;
    }
    let softhsm = SoftHsm::with_token(LABEL);
    let measured = Command::new(env::current_exe().unwrap())
        .env("SOFTHSM2_CONF", softhsm.configuration())
        .env(CHILD, softhsm.pin_file())
        .status()
        .unwrap();
    assert!(measured.success(), "{measured}");
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn measure(pin_file: PathBuf) {
    let sessions = thread::available_parallelism().unwrap().get();
    let module = env::var("SIGNER_MODULE").unwrap_or_else(|_| MODULE.to_owned());
    let hsm = Hsm {
        module: module.clone().into(),
        token_label: LABEL.into(),
        pin_file,
        softhsm_conf: None,
        key_label: LABEL.into(),
        algorithms: vec![Algorithm::Rs256],
        attestation: None,
        mechanism: config::Mechanism::RsaPkcs,
        require_local: true,
        shared: false,
        sessions,
        sign_timeout: Duration::from_secs(10),
        queue: 2 * WAITING * SIGNATURES,
        hang_abort: Duration::from_secs(30),
    };
    signer::generate(&hsm, KeySize::Rsa2048, &[1; 16], false).unwrap();
    let signer = Arc::new(Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap());
    let module = Pkcs11::new(module).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(sessions).enable_time().build().unwrap();

    let time = Duration::from_secs(number("SIGNER_SECONDS", 3));
    let mut rounds = Vec::new();
    println!("round  bare/s  signer/s  share   p50 ms   p99 ms  p99/p50");
    // The first round is a warm-up.
    for round in 0..=number("SIGNER_ROUNDS", 9) {
        let bare = bare(&module, sessions, time);
        let mut under_load = runtime.block_on(requests(&signer, time));
        under_load.latencies.sort_unstable();
        let [p50, p99] = [50, 99].map(|percent| under_load.latencies[under_load.latencies.len() * percent / 100]);
        let measured = Round {
            bare,
            signer: under_load.rate,
            share: under_load.rate / bare,
            p50: p50.as_secs_f64() * 1e3,
            p99: p99.as_secs_f64() * 1e3,
            evenness: p99.as_secs_f64() / p50.as_secs_f64(),
        };
        if round > 0 {
            println!("{round:5}  {}", measured.line());
            rounds.push(measured);
        }
    }
    let median = |of: fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    let middle = Round {
        bare: median(|round| round.bare),
        signer: median(|round| round.signer),
        share: median(|round| round.share),
        p50: median(|round| round.p50),
        p99: median(|round| round.p99),
        evenness: median(|round| round.evenness),
    };
    println!("median {}", middle.line());
    println!(
        "{sessions} sessions, {WAITING} requests of {SIGNATURES} signatures: {:.3} of bare threads (at least 0.92 is \
         wanted), p99 is {:.2} times p50 (less than 1.3 is wanted)",
        middle.share, middle.evenness
    );
}

struct Round {
    bare: f64,
    signer: f64,
    share: f64,
    p50: f64,
    p99: f64,
    evenness: f64,
}

impl Round {
    fn line(&self) -> String {
        let mut line = String::new();
        let Self { bare, signer, share, p50, p99, evenness } = self;
        write!(line, "{bare:6.0}  {signer:8.0}  {share:.3}  {p50:7.2}  {p99:7.2}  {evenness:7.2}").unwrap();
        line
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn input(number: u64) -> Vec<u8> {
    let mut input = vec![b'a'; INPUT];
    input[..8].copy_from_slice(&number.to_le_bytes());
    input
}

/// Signatures a second of threads that only sign.
fn bare(module: &Pkcs11, threads: usize, time: Duration) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicU64::new(0));
    let ready = Arc::new(Barrier::new(threads + 1));
    let slot = module.get_slots_with_initialized_token().unwrap()[0];
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let session = module.open_ro_session(slot).unwrap();
            let (stop, made, ready) = (Arc::clone(&stop), Arc::clone(&made), Arc::clone(&ready));
            thread::spawn(move || {
                let key = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)]).unwrap()[0];
                ready.wait();
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    sign(&session, key, number);
                    number += 1;
                }
                made.fetch_add(number, Ordering::Relaxed);
            })
        })
        .collect();
    ready.wait();
    let start = Instant::now();
    thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    for thread in running {
        thread.join().unwrap();
    }
    per_second(made.load(Ordering::Relaxed), start.elapsed())
}

fn sign(session: &Session, key: cryptoki::object::ObjectHandle, number: u64) {
    const PREFIX: [u8; 19] = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
        0x20,
    ];
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &input(number));
    let signature = session.sign(&Mechanism::RsaPkcs, key, &[&PREFIX, digest.as_ref()].concat()).unwrap();
    assert_eq!(signature.len(), 256);
}

struct UnderLoad {
    rate: f64,
    latencies: Vec<Duration>,
}

/// Sends requests, [`WAITING`] of them concurrently.
async fn requests(signer: &Arc<Pkcs11Signer>, time: Duration) -> UnderLoad {
    let start = Instant::now();
    let tasks: Vec<_> = (0..WAITING as u64)
        .map(|task| {
            let signer = Arc::clone(signer);
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let kid = signer.key_set().active().kid().clone();
                while start.elapsed() < time {
                    let inputs = (0..SIGNATURES as u64).map(|at| input(task << 32 | at)).collect();
                    let asked = Instant::now();
                    let signatures = signer.sign(&kid, inputs).await.unwrap();
                    assert_eq!(signatures.len(), SIGNATURES);
                    latencies.push(asked.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    let rate = per_second((latencies.len() * SIGNATURES) as u64, start.elapsed());
    UnderLoad { rate, latencies }
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 signatures")]
fn per_second(made: u64, time: Duration) -> f64 {
    made as f64 / time.as_secs_f64()
}
