//! `sealgate doctor`: examines a running installation and names a remedy for each problem.
//!
//! The checks only read files and open connections; they change nothing. The checks run at the same
//! time, because many wait for the network. If a check has no result at the deadline, the report
//! says so.

mod cluster;
mod machine;
mod network;
mod process;
mod server;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;

use self::server::ServerState;
use super::command::counted;
use super::failure::CommandFailure;
use super::output::{Output, printable};
use sealgate_config::{CertificateEnd, Config, EXPIRES_SOON, StoreConfig, days_left};
use sealgate_system::clock::{Clock, SystemClock};

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Examine a running installation and name a remedy for each problem.

Prints one line for each check: its state (ok, warning, problem, skipped), its name, and the result with a remedy. Changes \
nothing, prints no secret, and takes at most 15 seconds. Run it as root or as the service's user: other users cannot read \
everything, and the lines say what was skipped. If the server does not run, this is one problem, and the other checks use the \
configuration file.

Exit status, as monitoring plugins have it: 0 everything is ok, 1 there are warnings, 2 there are problems or the command line \
is wrong, 3 a check was skipped and the others are ok.";

/// Time limit of all checks together. It starts after the server's answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of checks that run at the same time.
const MAX_THREADS: usize = 128;
/// Directory of the credentials of the running service.
const SERVICE_CREDENTIALS: &str = "/run/credentials/sealgate.service";

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Leave out a check; can be repeated
    #[arg(long, value_name = "CHECK")]
    skip: Vec<Topic>,
}

/// Topic of a check. `--skip` takes its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum Topic {
    /// The configuration file and the files that it names
    Configuration,
    /// The running server and its configuration
    Server,
    /// Addresses that the server listens on
    Ports,
    /// Whether a time service synchronizes the clock
    Clock,
    /// Names of the issuer and the applications
    Dns,
    /// Certificates, in files and as presented to browsers
    Certificate,
    /// Whether the issuer answers at its public address
    Issuer,
    /// Whether the applications answer
    Upstream,
    /// Whether applications can be reached without passing the gateway
    Bypass,
    /// Signatures in the PKCS#11 token
    Token,
    /// Schedule of the signing keys
    Keys,
    /// Client secrets that expire soon
    Clients,
    /// Free space and durability of the store's disk
    Disk,
    /// Age of the last backup
    Backup,
    /// Modes and owners of files
    Files,
    /// Limit of open files
    Limits,
    /// Privileges of the server's process
    Hardening,
    /// PostgreSQL
    Database,
    /// Nodes of the cluster
    Nodes,
    /// Mail server
    Mail,
    /// Logout tokens that clients do not accept
    Logout,
}

/// State of a check, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckState {
    Ok,
    Skipped,
    Warning,
    Problem,
}

impl CheckState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A line of the report.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    state: CheckState,
    check: Topic,
    /// Description of the finding, with a remedy.
    message: String,
}

impl Finding {
    fn new(state: CheckState, check: Topic, message: impl Into<String>) -> Self {
        Self { state, check, message: message.into() }
    }

    fn ok(check: Topic, message: impl Into<String>) -> Self {
        Self::new(CheckState::Ok, check, message)
    }

    fn skipped(check: Topic, message: impl Into<String>) -> Self {
        Self::new(CheckState::Skipped, check, message)
    }

    fn warning(check: Topic, message: impl Into<String>) -> Self {
        Self::new(CheckState::Warning, check, message)
    }

    fn problem(check: Topic, message: impl Into<String>) -> Self {
        Self::new(CheckState::Problem, check, message)
    }

    /// Reports an object that this user cannot read.
    fn denied(check: Topic, object: &Path) -> Self {
        Self::skipped(check, format!("this user cannot read {}: run this as root", object.display()))
    }

    /// Reports an error. The finding is a problem, unless the cause is that this user lacks
    /// permission to read a file.
    fn of_fault(check: Topic, fault: String) -> Self {
        if fault.contains("Permission denied") {
            return Self::skipped(check, format!("{fault}: run this as root"));
        }
        Self::problem(check, fault)
    }

    fn name(&self) -> String {
        self.check.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Check that has not run yet.
struct Examination {
    /// Topics of the check's findings. If the check has no result, this is reported under the first
    /// topic.
    topics: Vec<Topic>,
    run: Box<dyn FnOnce() -> Vec<Finding> + Send>,
}

impl Examination {
    fn new(topic: Topic, run: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Self {
        Self { topics: vec![topic], run: Box::new(run) }
    }

    /// Adds further topics of the check's findings.
    fn also(mut self, topics: &[Topic]) -> Self {
        self.topics.extend(topics);
        self
    }
}

pub(super) fn run(arguments: &DoctorArguments, file: &Path, output: &Output) -> Result<(), CommandFailure> {
    let skip: HashSet<Topic> = arguments.skip.iter().copied().collect();
    let (config, mut findings) = configuration(file);
    if let Some(config) = config {
        let (state, server_findings) = server::ask(&config, file);
        findings.extend(server_findings);
        let mut examinations = examinations(&Arc::new(config), &Arc::new(state), file);
        examinations.retain(|examination| !examination.topics.iter().all(|topic| skip.contains(topic)));
        findings.extend(examine(examinations));
    }
    findings.retain(|finding| !skip.contains(&finding.check));
    show(&findings, output)
}

/// Reads the configuration file and, if possible, the files that it names.
fn configuration(file: &Path) -> (Option<Config>, Vec<Finding>) {
    match Config::load_with(file, credentials(file)) {
        Ok(config) => {
            let mut findings: Vec<_> = config
                .warnings
                .iter()
                .map(|warning| Finding::warning(Topic::Configuration, warning.to_string()))
                .collect();
            if findings.is_empty() {
                findings.push(Finding::ok(Topic::Configuration, format!("{} is valid", file.display())));
            }
            (Some(config), findings)
        }
        Err(faults) => {
            let findings =
                faults.iter().map(|fault| Finding::of_fault(Topic::Configuration, fault.to_string())).collect();
            (Config::read(file).ok(), findings)
        }
    }
}

/// Returns the directory of the service's credentials, such as its PIN.
///
/// While the service does not run, this is the directory of the configuration, from which the unit
/// of the package copies the credentials.
fn credentials(file: &Path) -> Option<PathBuf> {
    let of_service = || Some(PathBuf::from(SERVICE_CREDENTIALS)).filter(|directory| directory.is_dir());
    let of_unit = || Some(std::path::absolute(file).ok()?.parent()?.to_owned());
    std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from).or_else(of_service).or_else(of_unit)
}

/// Returns all checks, in the order of the report.
fn examinations(config: &Arc<Config>, state: &Arc<ServerState>, file: &Path) -> Vec<Examination> {
    let on_config = |topic, check: fn(&Config) -> Vec<Finding>| {
        let config = Arc::clone(config);
        Examination::new(topic, move || check(&config))
    };
    let on_both = |topic, check: fn(&Config, &ServerState) -> Vec<Finding>| {
        let (config, state) = (Arc::clone(config), Arc::clone(state));
        Examination::new(topic, move || check(&config, &state))
    };
    let mut all = vec![
        on_both(Topic::Ports, network::ports),
        on_config(Topic::Clock, |_| machine::clock()),
        on_config(Topic::Certificate, certificate_files),
    ];
    all.extend(network::public(config, state));
    for app in &config.apps {
        for (topic, check) in [
            (Topic::Upstream, network::upstream as fn(&sealgate_config::App) -> Vec<Finding>),
            (Topic::Bypass, network::bypass),
        ] {
            let app = app.clone();
            all.push(Examination::new(topic, move || check(&app)));
        }
    }
    all.push(on_both(Topic::Token, server::token));
    all.push(on_both(Topic::Keys, server::keys));
    all.push(on_both(Topic::Clients, server::clients));
    match &config.store {
        StoreConfig::Sled(_) => {
            all.push(on_both(Topic::Disk, machine::disk));
            all.push(on_config(Topic::Backup, machine::backup));
        }
        StoreConfig::Postgres(_) => {
            all.push(on_config(Topic::Database, cluster::database));
            all.push(on_config(Topic::Nodes, cluster::nodes));
        }
    }
    let (of_files, file) = (Arc::clone(config), file.to_owned());
    all.push(Examination::new(Topic::Files, move || machine::files(&of_files, &file)));
    all.push(on_both(Topic::Limits, process::limits));
    all.push(on_both(Topic::Hardening, process::hardening));
    if config.mail.is_some() {
        all.push(on_config(Topic::Mail, network::mail));
    }
    all.push(on_both(Topic::Logout, server::logouts));
    all
}

/// Judges the certificates in files.
fn certificate_files(config: &Config) -> Vec<Finding> {
    let line =
        |CertificateEnd { file, ends, .. }: &CertificateEnd| validity(&file.display().to_string(), *ends, EXPIRES_SOON);
    config.certificate_ends.iter().map(line).collect()
}

/// Judges the expiry of a certificate. The finding is a warning if fewer than `soon` days are left.
fn validity(certificate: &str, ends: i64, soon: i64) -> Finding {
    let now = i64::try_from(SystemClock.now().seconds()).unwrap_or(i64::MAX);
    let days = days_left(ends, now);
    match days {
        ..0 => Finding::problem(
            Topic::Certificate,
            format!("{certificate}: the certificate has expired, and browsers reject it: renew it"),
        ),
        days if days < soon => Finding::warning(
            Topic::Certificate,
            format!("{certificate}: the certificate expires in {days} days: renew it"),
        ),
        days => {
            Finding::ok(Topic::Certificate, format!("{certificate}: the certificate is valid for another {days} days"))
        }
    }
}

/// Runs the checks and returns their findings, in the order of the checks.
fn examine(examinations: Vec<Examination>) -> Vec<Finding> {
    let topics: Vec<Vec<Topic>> = examinations.iter().map(|examination| examination.topics.clone()).collect();
    let mut results: Vec<Option<Vec<Finding>>> = topics.iter().map(|_| None).collect();
    let threads = examinations.len().min(MAX_THREADS);
    let queue = Arc::new(Mutex::new(examinations.into_iter().enumerate()));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        // If no thread can be started, the check has no result. This is reported below.
        let _ = thread::Builder::new().spawn(move || {
            while let Some((number, examination)) = next() {
                // After the deadline, the receiver no longer exists, so sending fails.
                let _ = sender.send((number, (examination.run)()));
            }
        });
    }
    drop(sender);
    let end = Instant::now() + DEADLINE;
    while let Ok((number, findings)) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let Some(result) = results.get_mut(number) {
            *result = Some(findings);
        }
    }
    let late = |topics: Vec<Topic>| -> Vec<Finding> {
        let message = format!("no result within {} seconds: repeat the command", DEADLINE.as_secs());
        topics.first().map(|topic| Finding::problem(*topic, message)).into_iter().collect()
    };
    results.into_iter().zip(topics).flat_map(|(result, topics)| result.unwrap_or_else(|| late(topics))).collect()
}

fn show(findings: &[Finding], output: &Output) -> Result<(), CommandFailure> {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let [ok, warnings, problems, skipped] =
        [CheckState::Ok, CheckState::Warning, CheckState::Problem, CheckState::Skipped].map(count);
    let report =
        json!({ "checks": findings, "ok": ok, "warnings": warnings, "problems": problems, "skipped": skipped });
    output.result(&report, || {
        let line = |finding: &Finding| {
            format!("{:8} {:13} {}\n", finding.state.as_str(), finding.name(), printable(&finding.message))
        };
        let lines: String = findings.iter().map(line).collect();
        let (warnings, problems) = (counted(warnings as u64, "warning"), counted(problems as u64, "problem"));
        format!("{lines}{ok} ok, {warnings}, {problems}, {skipped} skipped\n")
    })?;
    match (problems, warnings, skipped) {
        (0, 0, 0) => Ok(()),
        (0, 0, _) => Err(CommandFailure::Reported(3)),
        (0, _, _) => Err(CommandFailure::Reported(1)),
        _ => Err(CommandFailure::Reported(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_keep_the_order_of_their_checks() {
        let examination = |number: u64| {
            Examination::new(Topic::Clock, move || {
                thread::sleep(Duration::from_millis(20 - number));
                vec![Finding::ok(Topic::Clock, number.to_string())]
            })
        };
        let findings = examine((0..20).map(examination).collect());
        let numbers: Vec<u64> = findings.iter().map(|finding| finding.message.parse().unwrap()).collect();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    }
}
