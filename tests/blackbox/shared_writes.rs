//! Tests that two threads which serve gated requests write to no common memory.
//!
//! Each of the two threads serves one request on a kept connection while its instructions are recorded
//! (`steps.c`). From the registers follow the addresses that each instruction reads and writes. A word
//! that one thread writes and the other uses is shared, and so is a cache line that both write: with more
//! cores, the requests would wait for each other there. The program runs with its usual log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory,
};

use crate::gate::access_token;
use crate::support::load::{Connection, application_saying};
use crate::support::{Instance, Settings, preloaded};

/// A real-time signal that neither the program nor its libraries use.
const SIGNAL: i32 = 40;
/// Size of a cache line, in bytes.
const LINE: u64 = 64;
/// Size of a word, in bytes.
const WORD: u64 = 8;
/// Minimum number of instructions of a request. A recording with fewer is of the other thread.
const MIN_STEPS: usize = 50_000;
/// Maximum number of connections to open until each of the two threads has one.
const MAX_CONNECTIONS: usize = 12;
/// Maximum time for a recorded request, which is thousands of times as slow as others.
const PATIENCE: Duration = Duration::from_mins(5);

/// Functions that may use memory of several threads, as part of the name of any caller, with the reason.
const ALLOWED: [(&str, &str); 4] = [
    ("LogQueue::append_to_own", "the first line of a batch wakes the writer of the log"),
    ("pingora_timeout::timer::TimerManager", "Pingora's timers of several threads are in one array"),
    ("tokio::runtime::task::id::Id::next", "Pingora starts a task for each idle upstream connection"),
    ("mi_arenas_page", "mimalloc takes a page for a block that no other block shares, and returns it"),
];

#[tokio::test(flavor = "multi_thread")]
async fn two_threads_write_to_no_common_memory() {
    let mut instance =
        Instance::prepare(&Settings { upstream: Some(application_saying("hello")), ..Settings::default() });
    let config = fs::read_to_string(instance.config())
        .unwrap()
        .replace("[server]", "[server]\nthreads = 2\nidle_timeout_seconds = 600");
    fs::write(instance.config(), config).unwrap();
    let secret = instance.add_confidential_client("web");
    let library = preloaded(instance.directory.path(), "steps.c");
    let file = instance.directory.path().join("steps");
    instance.environment = vec![
        ("LD_PRELOAD", library.to_str().unwrap().to_owned()),
        ("STEPS_SIGNAL", SIGNAL.to_string()),
        ("STEPS_FILE", file.to_str().unwrap().to_owned()),
    ];
    instance.start();
    let token = access_token(&instance, &secret, "openid profile").await;
    let fields = format!("app.localhost:{}\r\nAuthorization: Bearer {token}", instance.port);
    let address = ([127, 0, 0, 1], instance.port).into();
    let open = || {
        let mut connection = Connection::open(address).unwrap();
        connection.set_patience(PATIENCE).unwrap();
        // The first request on a connection has a shorter timeout than the later ones.
        assert_eq!(connection.ask(&fields, "/api/a").unwrap().status, 200);
        connection
    };
    let mut connections = vec![open(), open()];
    let process = instance.process();

    let mut recorded = Vec::new();
    for name in ["public-0", "public-1"] {
        let thread = Thread::named(process, name);
        // While connections of the sign-in still close, one thread may get both.
        let found = (0..MAX_CONNECTIONS).find_map(|number| {
            if number == connections.len() {
                connections.push(open());
            }
            let mut ask = || assert_eq!(connections[number].ask(&fields, "/api/a").unwrap().status, 200);
            // Fills the thread's caches, and opens its upstream connection.
            for _ in 0..5 {
                ask();
            }
            let steps = thread.record(&file, ask);
            (steps.len() > MIN_STEPS).then_some(steps)
        });
        recorded.push(Accesses::of(&found.expect("a connection of the thread"), process));
    }
    let shared = shared(&recorded, process);
    assert!(shared.is_empty(), "{} shared cache lines:\n{}", shared.len(), shared.join("\n"));
}

/// A thread of the program.
struct Thread {
    process: u32,
    id: i32,
}

impl Thread {
    fn named(process: u32, name: &str) -> Self {
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let mut threads = threads.map(|thread| thread.unwrap().path());
        let thread =
            threads.find(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim() == name));
        let id = thread.expect(name).file_name().unwrap().to_str().unwrap().parse().unwrap();
        Self { process, id }
    }

    /// Records the thread's instructions during a request.
    fn record(&self, file: &Path, request: impl FnOnce()) -> Vec<Step> {
        self.wait_until_idle();
        self.signal();
        self.wait_until_idle();
        request();
        self.wait_until_idle();
        self.signal();
        wait("the recording", || file.exists());
        let steps = steps(&fs::read(file).unwrap());
        fs::remove_file(file).unwrap();
        steps
    }

    /// Waits until the thread waits for events and has no pending signal.
    fn wait_until_idle(&self) {
        wait("the thread is idle", || {
            let status = fs::read_to_string(format!("/proc/{}/task/{}/status", self.process, self.id)).unwrap();
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            field("State:").starts_with('S') && field("SigPnd:").chars().all(|digit| digit == '0')
        });
    }

    #[expect(unsafe_code, reason = "only a system call sends a signal to one thread")]
    fn signal(&self) {
        // SAFETY: the call has no pointers.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.id, SIGNAL) };
        assert_eq!(sent, 0);
    }
}

#[track_caller]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An instruction before its execution.
struct Step {
    address: u64,
    /// Registers, in the order of [`REGISTERS`].
    registers: [u64; 16],
    fs: u64,
}

/// Order of the registers in a recording, which is that of the kernel's `gregs`.
const REGISTERS: [Register; 16] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
    Register::RDI,
    Register::RSI,
    Register::RBP,
    Register::RBX,
    Register::RDX,
    Register::RAX,
    Register::RCX,
    Register::RSP,
];

/// Parses a recording of `steps.c`.
fn steps(mut recording: &[u8]) -> Vec<Step> {
    fn number<const N: usize>(recording: &mut &[u8]) -> [u8; N] {
        recording.split_off(..N).unwrap().try_into().unwrap()
    }
    let fs = u64::from_le_bytes(number(&mut recording));
    let mut registers = [0; 16];
    let mut steps = Vec::new();
    while !recording.is_empty() {
        let changed = u16::from_le_bytes(number(&mut recording));
        let address = u64::from_le_bytes(number(&mut recording));
        for (number_of_register, register) in registers.iter_mut().enumerate() {
            if changed & 1 << number_of_register != 0 {
                *register = u64::from_le_bytes(number(&mut recording));
            }
        }
        steps.push(Step { address, registers, fs });
    }
    steps
}

impl Step {
    fn register(&self, register: Register) -> Option<u64> {
        match register {
            Register::FS => Some(self.fs),
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            _ => {
                let index = REGISTERS.iter().position(|full| *full == register.full_register())?;
                let value = self.registers[index];
                Some(if register.size() == 4 { value & u64::from(u32::MAX) } else { value })
            }
        }
    }

    fn stack_pointer(&self) -> u64 {
        self.registers[15]
    }
}

/// Return addresses from the innermost frame to the outermost, with the address of the access first.
type Trace = Vec<u64>;

/// Accesses to each word, by the address of the instruction.
#[derive(Default)]
struct Accesses {
    reads: HashMap<u64, BTreeMap<u64, Trace>>,
    writes: HashMap<u64, BTreeMap<u64, Trace>>,
}

impl Accesses {
    fn of(steps: &[Step], process: u32) -> Self {
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let mut accesses = Self::default();
        let mut known: HashMap<u64, (Instruction, Vec<UsedMemory>)> = HashMap::new();
        let mut factory = InstructionInfoFactory::new();
        // Stack pointer and address of each call that has not returned.
        let mut calls: Vec<(u64, u64)> = Vec::new();
        for step in steps {
            let (instruction, used) = known.entry(step.address).or_insert_with(|| {
                let mut code = [0; 15];
                let read = memory.read_at(&mut code, step.address).unwrap();
                let instruction = Decoder::with_ip(64, &code[..read], step.address, DecoderOptions::NONE).decode();
                (instruction, factory.info(&instruction).used_memory().to_vec())
            });
            while calls.last().is_some_and(|(stack_pointer, _)| *stack_pointer <= step.stack_pointer()) {
                calls.pop();
            }
            for used in used {
                let kinds = match used.access() {
                    OpAccess::Read | OpAccess::CondRead => [true, false],
                    OpAccess::Write | OpAccess::CondWrite => [false, true],
                    OpAccess::ReadWrite | OpAccess::ReadCondWrite => [true, true],
                    _ => continue,
                };
                let Some(address) = used.virtual_address(0, |register, _, _| step.register(register)) else { continue };
                let size = used.memory_size().size().max(1) as u64;
                for word in address / WORD..=(address + size - 1) / WORD {
                    for (is_kind, words) in kinds.into_iter().zip([&mut accesses.reads, &mut accesses.writes]) {
                        if is_kind {
                            words.entry(word).or_default().entry(step.address).or_insert_with(|| {
                                std::iter::once(step.address).chain(calls.iter().rev().map(|(_, call)| *call)).collect()
                            });
                        }
                    }
                }
            }
            if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
                calls.push((step.stack_pointer(), step.address));
            }
        }
        accesses
    }
}

/// Returns a text for each cache line with a word that one thread writes and the other uses, or with words
/// that both write.
///
/// A line that one writes, and of which the other only reads other words, is not included: the allocator may
/// put a value that never changes next to any other.
fn shared(recorded: &[Accesses], process: u32) -> Vec<String> {
    let [one, other] = recorded else { panic!("two threads") };
    let line_of = |word: &u64| word * WORD / LINE;
    let mut lines: BTreeMap<u64, Vec<&Trace>> = BTreeMap::new();
    for (from, to) in [(one, other), (other, one)] {
        for (word, written) in &from.writes {
            for used in [&to.writes, &to.reads].into_iter().filter_map(|words| words.get(word)) {
                lines.entry(line_of(word)).or_default().extend(written.values().chain(used.values()));
            }
        }
    }
    let written = |of: &Accesses| -> BTreeSet<u64> { of.writes.keys().map(line_of).collect() };
    for line in written(one).intersection(&written(other)) {
        let words = line * LINE / WORD..(line + 1) * LINE / WORD;
        for accesses in recorded {
            let writes = words.clone().filter_map(|word| accesses.writes.get(&word));
            lines.entry(*line).or_default().extend(writes.flat_map(BTreeMap::values));
        }
    }
    let addresses: BTreeSet<u64> = lines.values().flatten().copied().flatten().copied().collect();
    let names = names(&addresses, process);
    let mut texts = Vec::new();
    for (line, traces) in &lines {
        let mut callers = BTreeSet::new();
        for trace in traces {
            let of_trace: Vec<&str> =
                trace.iter().filter_map(|address| names.get(address).map(String::as_str)).collect();
            let is_allowed = |name: &&str| ALLOWED.iter().any(|(allowed, _)| name.contains(allowed));
            if !of_trace.iter().any(is_allowed) {
                let shown: Vec<&str> = of_trace.into_iter().filter(|name| !is_of_language(name)).take(6).collect();
                callers.insert(shown.join("\n      from "));
            }
        }
        if callers.is_empty() {
            continue;
        }
        let mut text = format!("{:#x}:", line * LINE);
        for callers in callers {
            write!(text, "\n    {callers}").unwrap();
        }
        texts.push(text);
    }
    texts
}

/// Returns whether a function belongs to the libraries of the language or to the allocator.
fn is_of_language(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&', '_']);
    ["core::", "alloc::", "std::", "rustc", "rust_", "mi_", "sealgate::app::memory::"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Returns the names of the program's functions at these addresses.
fn names(addresses: &BTreeSet<u64>, process: u32) -> HashMap<u64, String> {
    let program = env!("CARGO_BIN_EXE_sealgate");
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let base = maps.lines().find(|line| line.ends_with(program)).expect("the program's first segment");
    let base = u64::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
    let mut finder = Command::new("addr2line");
    finder.args(["-f", "-C", "-e", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut finder = finder.spawn().expect("addr2line; install binutils");
    let mut input = finder.stdin.take().unwrap();
    let mut asked = String::new();
    for address in addresses {
        writeln!(asked, "{:#x}", address.wrapping_sub(base)).unwrap();
    }
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()).unwrap());
    let found = String::from_utf8(finder.wait_with_output().unwrap().stdout).unwrap();
    writer.join().unwrap();
    let found: Vec<&str> = found.lines().collect();
    let named = addresses.iter().zip(found.chunks_exact(2));
    let text = |pair: &[&str]| {
        let place = pair[1].rsplit_once("src/").map_or(pair[1], |(_, place)| place);
        format!("{} ({place})", pair[0])
    };
    named.map(|(address, pair)| (*address, text(pair))).collect()
}
