//! Checks of the running server, its token and its keys.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::{Finding, Topic, counted};
use sealgate_admin as admin;
use sealgate_admin::answer::{ClientAnswer, KeyAnswer, ListPage, Rows, ServerStatus, ServerWork};
use sealgate_admin::command::{ClientCommand, Command, KeyCommand};
use sealgate_admin::{Answer, AskError};
use sealgate_config::Config;
use sealgate_core::health::SLOW_SIGNATURE;
use sealgate_domain::key_ring::KeyState;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::{Clock, SystemClock};

/// Timeout for an answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of signatures for which one failure is tolerated.
const SIGNATURES_PER_FAILURE: u64 = 1000;
/// Time since its first attempt after which a logout token is reported as late.
const LATE_LOGOUT: Duration = Duration::from_mins(5);
/// Age at which a signing key is reported as old, if the keys are not rotated automatically.
const OLD_KEY: Duration = Duration::from_hours(365 * 24);

/// Known state of the server.
pub(super) enum ServerState {
    Runs(Box<ServerStatus>),
    Stopped,
    /// The server may run, but did not answer this user.
    Unknown,
}

impl ServerState {
    /// Returns the measurements of the running server.
    pub(super) fn work(&self) -> Option<&ServerWork> {
        match self {
            Self::Runs(status) => status.server.as_ref()?.work.as_ref(),
            Self::Stopped | Self::Unknown => None,
        }
    }

    /// Returns the finding of a check that needs an answer of the server and received none.
    pub(super) fn silent(&self, topic: Topic, instead: &str) -> Vec<Finding> {
        let message = match self {
            Self::Stopped => format!("only a running server can tell: {instead}"),
            Self::Unknown => "only the server can tell, and it did not answer".to_owned(),
            Self::Runs(_) => "the running server is too old to tell: restart it".to_owned(),
        };
        vec![Finding::skipped(topic, message)]
    }
}

/// Asks the server for its status, and compares its configuration with the file.
pub(super) fn ask(config: &Config, file: &Path) -> (ServerState, Vec<Finding>) {
    let socket = &config.admin.socket;
    match command(config, &Command::Status) {
        Ok(Answer::Status(status)) => {
            let findings = running(&status, file);
            (ServerState::Runs(status), findings)
        }
        Ok(_) => {
            (ServerState::Unknown, vec![Finding::problem(Topic::Server, "the server has another version: restart it")])
        }
        Err(AskError::NoServer) => {
            let message = format!(
                "no server answers on {}: start it; its log (journalctl -u sealgate) shows why it stopped",
                socket.display()
            );
            (ServerState::Stopped, vec![Finding::problem(Topic::Server, message)])
        }
        Err(_) if is_of_another_user(socket) => (ServerState::Unknown, vec![Finding::denied(Topic::Server, socket)]),
        Err(error) => (ServerState::Unknown, vec![Finding::problem(Topic::Server, error.to_string())]),
    }
}

fn command(config: &Config, command: &Command) -> Result<Answer, AskError> {
    let failed = |error: std::io::Error| AskError::Failed(format!("cannot start a runtime: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let answer = async {
        let answer = admin::ask(&config.admin.socket, config.owned_place(), command);
        timeout(ANSWER_TIMEOUT, answer).await
    };
    runtime.block_on(answer).unwrap_or_else(|_| {
        Err(AskError::Failed(format!(
            "the server on {} did not answer within {} seconds: see its log, and restart it",
            config.admin.socket.display(),
            ANSWER_TIMEOUT.as_secs()
        )))
    })
}

/// Returns whether the server refuses this user because the socket belongs to another user.
fn is_of_another_user(socket: &Path) -> bool {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return false;
    }
    match fs::symlink_metadata(socket) {
        Ok(metadata) => metadata.uid() != user.as_raw(),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

fn running(status: &ServerStatus, file: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let own = env!("CARGO_PKG_VERSION");
    if status.version != own {
        findings.push(Finding::warning(
            Topic::Server,
            format!("the server has the version {}, this program {own}: systemctl restart sealgate", status.version),
        ));
    }
    if let Some(server) = &status.server {
        let changed = fs::metadata(file).ok().and_then(|metadata| u64::try_from(metadata.mtime()).ok());
        if server.work.as_ref().is_some_and(|work| work.reload_refused) {
            let message = "the last reload was refused, so the file is not in use: `sealgate check` names the errors";
            findings.push(Finding::warning(Topic::Server, message));
        } else if changed.is_some_and(|changed| changed > server.config_loaded_at.seconds()) {
            let message = format!("{} has changed since the server loaded it: sealgate reload", file.display());
            findings.push(Finding::warning(Topic::Server, message));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Topic::Server, format!("version {} runs", status.version)));
    }
    findings
}

/// Judges the signatures since the server started. Does not use the token itself, because
/// attempts with a wrong PIN could lock it.
pub(super) fn token(_: &Config, state: &ServerState) -> Vec<Finding> {
    let Some(work) = state.work() else {
        return state.silent(Topic::Token, "`sealgate check` tries the token and its PIN once");
    };
    let ServerWork { signatures, signatures_failed, signature_milliseconds, .. } = work;
    if !work.token_ready {
        let message = "the PKCS#11 token does not sign: check the device and its connection; the log has its error";
        return vec![Finding::problem(Topic::Token, message)];
    }
    let mut findings = Vec::new();
    if signatures_failed.saturating_mul(SIGNATURES_PER_FAILURE) > *signatures {
        findings.push(Finding::warning(
            Topic::Token,
            format!("{signatures_failed} signatures failed since startup, {signatures} succeeded: see the log"),
        ));
    }
    if *signature_milliseconds > SLOW_SIGNATURE.as_secs_f64() * 1000.0 {
        findings.push(Finding::warning(
            Topic::Token,
            format!(
                "a signature takes {signature_milliseconds} ms on average: check the device and its network; more \
                 hsm.sessions help if the device works in parallel"
            ),
        ));
    }
    if findings.is_empty() {
        let message = match signatures {
            0 => "the token is ready; no signature since startup".to_owned(),
            _ => format!("{signatures} signatures since startup, {signature_milliseconds} ms on average"),
        };
        findings.push(Finding::ok(Topic::Token, message));
    }
    findings
}

/// Judges the queue of logout tokens. Reports nothing if it is empty, or if another node sends them.
pub(super) fn logouts(_: &Config, state: &ServerState) -> Vec<Finding> {
    let Some(queue) = state.work().and_then(|work| work.client_logouts) else { return Vec::new() };
    let waiting = queue.waiting;
    if queue.oldest_seconds < LATE_LOGOUT.as_secs() {
        return vec![Finding::ok(Topic::Logout, format!("{waiting} logout tokens are being sent"))];
    }
    let message = format!(
        "{waiting} logout tokens wait, the oldest since {} seconds: the log names the clients that do not accept them; \
         check their backchannel_logout_uri",
        queue.oldest_seconds
    );
    vec![Finding::warning(Topic::Logout, message)]
}

/// Judges the schedule of the signing keys.
pub(super) fn keys(config: &Config, state: &ServerState) -> Vec<Finding> {
    let ServerState::Runs(status) = state else {
        return state.silent(Topic::Keys, "`sealgate key list` reads the store of a stopped server");
    };
    if let Some(fault) = &status.rotation.fault {
        return vec![Finding::problem(Topic::Keys, format!("a due rotation fails: {fault}"))];
    }
    let keys = match command(config, &Command::Key(KeyCommand::List)) {
        Ok(Answer::Keys(keys)) => keys.keys,
        Ok(_) => return vec![Finding::problem(Topic::Keys, "the server has another version: restart it")],
        Err(error) => return vec![Finding::problem(Topic::Keys, error.to_string())],
    };
    let now = SystemClock.now();
    let mut findings = Vec::new();
    for KeyAnswer { life, distrusted_by, .. } in &keys {
        if !distrusted_by.is_empty() {
            let nodes = distrusted_by.join(", ");
            let message = format!("these nodes refuse the key {}: {nodes}; `sealgate node list`", life.kid);
            findings.push(Finding::warning(Topic::Keys, message));
        }
    }
    for KeyAnswer { life, .. } in keys.iter().filter(|key| key.state == KeyState::Active) {
        let since = life.activate_at.unwrap_or(life.created_at);
        let is_old = now >= since.plus(OLD_KEY);
        let (kid, day) = (&life.kid, day(since));
        findings.push(match status.rotation.next_rotation_at {
            Some(next) => {
                Finding::ok(Topic::Keys, format!("{kid} signs since {day} and is replaced on {}", self::day(next)))
            }
            None if is_old => Finding::warning(
                Topic::Keys,
                format!("{kid} signs since {day}: run sealgate key rotate, or set keys.rotate_seconds"),
            ),
            None => Finding::ok(Topic::Keys, format!("{kid} signs since {day}")),
        });
    }
    findings
}

/// Time before the expiry of a client secret from which it is reported.
const SECRET_EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// Judges the expiry of the clients' secrets. A client with another valid secret that expires later has
/// been given a new one.
pub(super) fn clients(config: &Config, state: &ServerState) -> Vec<Finding> {
    let ServerState::Runs(_) = state else {
        return state.silent(Topic::Clients, "`sealgate client list` reads the store of a stopped server");
    };
    let now = SystemClock.now();
    let (mut findings, mut after, mut count) = (Vec::new(), None, 0_usize);
    loop {
        let list = Command::Client(ClientCommand::List { after: after.take() });
        let (clients, next) = match command(config, &list) {
            Ok(Answer::Page(ListPage { rows: Rows::Clients(clients), next })) => (clients, next),
            Ok(_) => return vec![Finding::problem(Topic::Clients, "the server has another version: restart it")],
            Err(error) => return vec![Finding::problem(Topic::Clients, error.to_string())],
        };
        count += clients.len();
        findings.extend(clients.iter().filter_map(|client| expiring(client, now)));
        if next.is_none() {
            break;
        }
        after = next;
    }
    if findings.is_empty() {
        let message = format!("{}; no secret expires within 14 days", counted(count as u64, "client"));
        findings.push(Finding::ok(Topic::Clients, message));
    }
    findings
}

/// Returns a warning if the last secret of a client expires soon, or has expired.
fn expiring(client: &ClientAnswer, now: UnixTime) -> Option<Finding> {
    let ends: Option<Vec<UnixTime>> = client.client_secrets.iter().map(|secret| secret.expires_at).collect();
    // `None` if a secret does not expire.
    let last = ends?.into_iter().max()?;
    let id = &client.client_id;
    let message = if last <= now {
        format!("all secrets of the client {id} have expired")
    } else if last <= now.plus(SECRET_EXPIRES_SOON) {
        format!("the last secret of the client {id} expires on {}", day(last))
    } else {
        return None;
    };
    Some(Finding::warning(Topic::Clients, format!("{message}: sealgate client secret add {id}")))
}

fn day(time: UnixTime) -> String {
    let seconds = i64::try_from(time.seconds()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0).map_or_else(|| seconds.to_string(), |at| at.format("%F").to_string())
}
