//! Overhead of the signer over the token, by algorithm.
//!
//! Measures signatures a second with 64 queued requests, relative to plain threads (one per
//! session) on the same token, and the latency distribution. The two alternate in each round, so
//! that other work on the machine affects both. `SIGNER_ROUNDS`, `SIGNER_SECONDS` (per round),
//! `SIGNER_ALGORITHMS` (such as `RS256,ES256`; all by default).
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
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use sealgate_config as config;
use sealgate_config::Hsm;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer as signer;
use sealgate_signer::{KeyId, KeySize, NewKey, NoopObserver, Pkcs11Signer, Signer};

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
        algorithms: algorithms(),
        attestation: None,
        mechanism: config::Mechanism::RsaPkcs,
        require_local: true,
        shared: false,
        sessions,
        sign_timeout: Duration::from_secs(10),
        queue: 2 * WAITING * SIGNATURES,
        hang_abort: Duration::from_secs(30),
    };
    for (algorithm, id) in hsm.algorithms.iter().zip(1..) {
        let new = NewKey { algorithm: *algorithm, size: KeySize::Rsa2048 };
        signer::generate(&hsm, new, &[id; 16], false).unwrap();
    }
    let signer = Arc::new(Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap());
    let module = Pkcs11::new(module).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(sessions).enable_time().build().unwrap();

    let bench = Bench { module, signer, hsm, sessions, time: Duration::from_secs(number("SIGNER_SECONDS", 3)) };
    for algorithm in &bench.hsm.algorithms {
        bench.measure(*algorithm, &runtime);
    }
}

/// Returns the algorithms to measure, RS256 first: every signer has an RS256 key.
fn algorithms() -> Vec<Algorithm> {
    let Ok(named) = env::var("SIGNER_ALGORITHMS") else {
        return Algorithm::ALL.map(|(_, algorithm)| algorithm).to_vec();
    };
    let named = named.split(',').map(|name| Algorithm::parse(name).expect("an algorithm"));
    let further = named.filter(|algorithm| *algorithm != Algorithm::Rs256);
    [Algorithm::Rs256].into_iter().chain(further).collect()
}

struct Bench {
    module: Pkcs11,
    signer: Arc<Pkcs11Signer>,
    hsm: Hsm,
    sessions: usize,
    time: Duration,
}

impl Bench {
    fn measure(&self, algorithm: Algorithm, runtime: &tokio::runtime::Runtime) {
        let Self { module, signer, hsm, sessions, time } = self;
        let (sessions, time) = (*sessions, *time);
        let label = hsm.key_label_of(algorithm);
        let kid = signer.key_reports().into_iter().find(|key| key.alg == algorithm).unwrap().kid;
        let mut rounds = Vec::new();
        println!("{algorithm}");
        println!("round  bare/s  signer/s  share   p50 ms   p99 ms  p99/p50");
        // The first round is a warm-up.
        for round in 0..=number("SIGNER_ROUNDS", 9) {
            let bare = bare(module, algorithm, &label, sessions, time);
            let mut under_load = runtime.block_on(requests(signer, &kid, time));
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
            "{algorithm}: {sessions} sessions, {WAITING} requests of {SIGNATURES} signatures: {:.3} of bare threads (at least 0.92 is \
         wanted), p99 is {:.2} times p50 (less than 1.3 is wanted)",
            middle.share, middle.evenness
        );
    }
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
fn bare(module: &Pkcs11, algorithm: Algorithm, label: &str, threads: usize, time: Duration) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicU64::new(0));
    let ready = Arc::new(Barrier::new(threads + 1));
    let slot = module.get_slots_with_initialized_token().unwrap()[0];
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let session = module.open_ro_session(slot).unwrap();
            let (stop, made, ready) = (Arc::clone(&stop), Arc::clone(&made), Arc::clone(&ready));
            let template = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Label(label.as_bytes().to_vec())];
            thread::spawn(move || {
                let key = session.find_objects(&template).unwrap()[0];
                ready.wait();
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    sign(&session, algorithm, key, number);
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

fn sign(session: &Session, algorithm: Algorithm, key: ObjectHandle, number: u64) {
    const PREFIX: [u8; 19] = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
        0x20,
    ];
    let input = input(number);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &input);
    let (signature, length) = match algorithm {
        Algorithm::Rs256 => (session.sign(&Mechanism::RsaPkcs, key, &[&PREFIX, digest.as_ref()].concat()), 256),
        Algorithm::Ps256 => {
            let (hash_alg, mgf) = (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256);
            let parameters = PkcsPssParams { hash_alg, mgf, s_len: 32.into() };
            (session.sign(&Mechanism::RsaPkcsPss(parameters), key, digest.as_ref()), 256)
        }
        Algorithm::Es256 => (session.sign(&Mechanism::Ecdsa, key, digest.as_ref()), 64),
        Algorithm::EdDsa => {
            let parameters = EddsaParams::new(EddsaSignatureScheme::Ed25519);
            (session.sign(&Mechanism::Eddsa(parameters), key, &input), 64)
        }
    };
    assert_eq!(signature.unwrap().len(), length);
}

struct UnderLoad {
    rate: f64,
    latencies: Vec<Duration>,
}

/// Sends requests, [`WAITING`] of them concurrently.
async fn requests(signer: &Arc<Pkcs11Signer>, kid: &KeyId, time: Duration) -> UnderLoad {
    let start = Instant::now();
    let tasks: Vec<_> = (0..WAITING as u64)
        .map(|task| {
            let (signer, kid) = (Arc::clone(signer), kid.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
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
