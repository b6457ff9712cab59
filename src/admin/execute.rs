//! Carries out commands. Every rule about what an operator may do is here and in the files by noun beside it, so that it
//! holds inside a server and on a store that nobody serves alike.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::answer::Answer;
use super::command::Command;
use super::hashing::HashPassword;
use super::keys::KeyHolder;
use super::{app_passwords, audit, clients, consents, grants, keys, sessions, users, view};
use crate::app::state::Sealgate;
use crate::audit::AuditLog;
use crate::clock::{Clock, Entropy};
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::client::Authority;
use crate::domain::key_ring::KeyTimes;
use crate::password::PasswordError;
use crate::store::{Store, StoreError};

/// How many people, clients or sessions are in one answer.
pub(super) const PAGE: usize = 100;

/// What commands work on.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    /// State.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Chance.
    pub entropy: &'a dyn Entropy,
    /// How new passwords are hashed.
    pub passwords: &'a dyn HashPassword,
    /// Who signs.
    pub keys: &'a dyn KeyHolder,
    /// How long signing keys are in their states.
    pub key_times: KeyTimes,
    /// What was done, for whoever asks later.
    pub trail: &'a AuditLog,
    /// For how long a key signs before the server replaces it by itself.
    pub rotate: Option<Duration>,
    /// Who gives the command.
    pub actor: Actor,
    /// By which right.
    pub authority: Authority,
    /// The request that it came with, if it did: address and id.
    pub request: Option<(IpAddr, &'a str)>,
}

impl<'a> Directory<'a> {
    /// The running server's.
    pub fn of(sealgate: &'a Sealgate) -> Self {
        Self {
            store: &sealgate.store,
            clock: &*sealgate.clock,
            entropy: &*sealgate.entropy,
            passwords: &*sealgate.passwords,
            keys: sealgate,
            key_times: sealgate.config.keys.times,
            trail: &sealgate.audit,
            rotate: sealgate.config.keys.rotate,
            actor: Actor::Operator,
            authority: Authority::Operator,
            request: None,
        }
    }

    /// The same for somebody who works in the console.
    #[must_use]
    pub fn by(self, authority: Authority, address: IpAddr, request_id: &'a str) -> Self {
        let actor = match authority {
            Authority::Owner(subject) | Authority::Administrator(subject) => Actor::Administrator(subject),
            Authority::Operator => Actor::Operator,
        };
        Self { actor, authority, request: Some((address, request_id)), ..self }
    }

    /// An event of the audit trail by whoever gives the command, to be told more of.
    pub(super) fn event(&self, kind: AuditKind) -> AuditEvent {
        let event = AuditEvent::new(self.clock.now(), kind, self.actor);
        match self.request {
            Some((address, request_id)) => event.from_request(address, request_id),
            None => event,
        }
    }

    /// Takes down what the operator has done.
    pub(super) async fn record(&self, event: AuditEvent) {
        self.trail.record(self.store, event).await;
    }
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It breaks rules: one line each.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// What it is about is not there.
    #[error("{0}")]
    Absent(String),
    /// What it would add is there already.
    #[error("{0}")]
    Exists(String),
    /// It is for others to decide.
    #[error("{0}")]
    Forbidden(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The password was not hashed.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

impl CommandError {
    pub(super) fn invalid(line: impl Into<String>) -> Self {
        Self::Invalid(vec![line.into()])
    }

    /// What is wrong, one line a fault.
    pub fn into_lines(self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines,
            other => vec![other.to_string()],
        }
    }
}

/// Carries out a command.
///
/// # Errors
/// [`CommandError`]. A command that failed for the store's sake can be repeated.
pub async fn execute(directory: &Directory<'_>, command: Command) -> Result<Answer, CommandError> {
    match command {
        Command::Status => status(directory).await,
        // The socket has an ear of its own for it.
        Command::Reload => Err(CommandError::invalid("only a running server has a configuration to reload")),
        Command::Backup { to } => backup(directory, &to).await,
        Command::User(command) => users::execute(directory, command).await,
        Command::Client(command) => clients::execute(directory, command).await,
        Command::Session(command) => sessions::execute(directory, command).await,
        Command::Key(command) => keys::execute(directory, command).await,
        Command::Grant(command) => grants::execute(directory, command).await,
        Command::Consent(command) => consents::execute(directory, command).await,
        Command::AppPassword(command) => app_passwords::execute(directory, command).await,
        Command::Audit(command) => audit::execute(directory, command).await,
    }
}

async fn status(directory: &Directory<'_>) -> Result<Answer, CommandError> {
    directory.store.ping().await?;
    let mut status = view::status(directory.store.open_interactions());
    let ring = directory.store.key_ring().await?;
    for (name, value) in keys::rotation(&ring, directory.clock.now(), directory) {
        status = status.with(&name, value);
    }
    Ok(status)
}

async fn backup(directory: &Directory<'_>, to: &Path) -> Result<Answer, CommandError> {
    // A server's working directory is not the operator's.
    if !to.is_absolute() {
        return Err(CommandError::invalid("the backup's directory must be an absolute path"));
    }
    // What waits of the audit trail belongs to this moment too.
    directory.trail.write(directory.store).await?;
    let records = directory.store.copy_to(to).await?;
    tracing::info!(directory = %to.display(), records, "an operator made a backup");
    Ok(view::object(json!({ "directory": to, "records": records })))
}
