//! Clients of the configuration file: stored at startup and at each reload.

use sealgate_config::DefinedClient;
use sealgate_core::state::{NotServing, Sealgate};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::EndReason;
use sealgate_store::{ClientDefinition, ClientsDefined, DefineOutcome, StoreError};
use sealgate_system::clock::random;

/// Reason why the clients of the file were not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientsFault {
    #[error("{}", .0.join("; "))]
    Taken(Vec<String>),
    #[error("cannot store the clients of the configuration file: {0}")]
    Store(#[from] StoreError),
}

impl ClientsFault {
    /// Returns the errors, one line each.
    pub(crate) fn into_lines(self) -> Vec<String> {
        match self {
            Self::Taken(lines) => lines,
            error @ Self::Store(_) => vec![error.to_string()],
        }
    }
}

impl From<ClientsFault> for NotServing {
    fn from(fault: ClientsFault) -> Self {
        let is_transient = matches!(&fault, ClientsFault::Store(error) if error.is_transient());
        Self { lines: fault.into_lines(), is_transient }
    }
}

/// Returns the error for a client that was registered in another way.
pub(crate) fn id_conflict(id: &ClientId) -> String {
    format!(
        "[[client]] {id}: a client with this ID was registered in another way, by a command, in the console or over \
         HTTP; choose another id, run sealgate client delete {id}, or write adopt = true to replace its settings and \
         secrets by those of the file"
    )
}

/// Stores the clients of the file, and records the changes in the audit log.
///
/// Returns the removed clients. The caller must end their grants.
///
/// # Errors
/// [`ClientsFault::Taken`]: nothing was changed. [`ClientsFault::Store`]: the changes are one
/// commit, so either all were made or none.
pub(crate) async fn store(sealgate: &Sealgate, clients: &[DefinedClient]) -> Result<Vec<ClientId>, ClientsFault> {
    let definitions: Vec<_> =
        clients.iter().map(|DefinedClient { client, adopt }| ClientDefinition { client, adopt: *adopt }).collect();
    let (now, incarnation) = (sealgate.clock.now(), u32::from_be_bytes(random(&*sealgate.entropy)));
    let outcome = sealgate.store.define_clients(&definitions, now, incarnation).await?;
    let ClientsDefined { created, changed, removed } = match outcome {
        DefineOutcome::Defined(defined) => defined,
        DefineOutcome::Taken(ids) => return Err(ClientsFault::Taken(ids.iter().map(id_conflict).collect())),
    };
    let note = |kind, id: &ClientId, detail: Option<String>| {
        let event = AuditEvent::new(now, kind, Actor::Configuration).with_client(id);
        sealgate.audit.note(match detail {
            Some(detail) => event.with_detail(detail),
            None => event,
        });
    };
    for id in &created {
        note(AuditKind::ClientRegistered, id, None);
    }
    for (id, settings) in &changed {
        note(AuditKind::ClientChanged, id, Some(format!("set {}", settings.join(", "))));
    }
    for id in &removed {
        note(AuditKind::ClientDeleted, id, None);
    }
    if !(created.is_empty() && changed.is_empty() && removed.is_empty()) {
        let (created, changed) = (created.len(), changed.len());
        tracing::info!(created, changed, removed = removed.len(), "stored the clients of the configuration file");
    }
    Ok(removed)
}

/// Ends the grants of removed clients. The tokens of these grants are already refused, because
/// their client no longer exists.
pub(crate) async fn end_grants(sealgate: &Sealgate, removed: &[ClientId]) {
    for id in removed {
        let ended = sealgate.store.end_grants_of_client(id, EndReason::Administrator, sealgate.clock.now()).await;
        if let Err(error) = ended {
            tracing::warn!(
                %error,
                client = id.as_str(),
                "the grants of a removed client stay in the store until they expire; their tokens are refused"
            );
        }
    }
}
