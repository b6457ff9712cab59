//! What commands work on, and why one is not carried out.

use std::net::IpAddr;
use std::time::Duration;

use super::hashing::HashPassword;
use super::key_holder::KeyHolder;
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

#[derive(Clone, Copy)]
pub struct Directory<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub entropy: &'a dyn Entropy,
    /// How new passwords are hashed.
    pub passwords: &'a dyn HashPassword,
    pub keys: &'a dyn KeyHolder,
    /// How long signing keys are in their states.
    pub key_times: KeyTimes,
    /// What was done, for whoever asks later.
    pub trail: &'a AuditLog,
    /// The issuer: links to people begin with it.
    pub issuer: &'a str,
    pub mailing: Mailing<'a>,
    /// For how long a key signs before the server replaces it by itself.
    pub rotate: Option<Duration>,
    pub actor: Actor,
    pub authority: Authority,
    /// The request that it came with, if it did: address and id.
    pub request: Option<(IpAddr, &'a str)>,
}

/// Whether a command may have something mailed.
#[derive(Clone, Copy)]
pub enum Mailing<'a> {
    /// On a store that nobody serves: nothing seals there, and nobody would send it.
    NoServer,
    /// The server sends no mail.
    Off,
    On(&'a Sealgate),
}

impl<'a> Directory<'a> {
    pub fn of(sealgate: &'a Sealgate) -> Self {
        Self {
            store: &sealgate.store,
            clock: &*sealgate.clock,
            entropy: &*sealgate.entropy,
            passwords: &*sealgate.passwords,
            keys: sealgate,
            key_times: sealgate.config.keys.times,
            trail: &sealgate.audit,
            issuer: sealgate.config.issuer.as_str(),
            mailing: if sealgate.sends_mail() { Mailing::On(sealgate) } else { Mailing::Off },
            rotate: sealgate.config.keys.rotate,
            actor: Actor::Operator,
            authority: Authority::Operator,
            request: None,
        }
    }

    /// The same for somebody who works in the console.
    #[must_use]
    pub fn by(self, authority: Authority, address: IpAddr, request_id: &'a str) -> Self {
        Self { actor: authority.into(), authority, request: Some((address, request_id)), ..self }
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
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// What it is about is not there.
    #[error("{0}")]
    Absent(String),
    /// What it would add is there already.
    #[error("{0}")]
    Exists(String),
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
