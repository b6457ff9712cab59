//! Commands about the lives of signing keys: the times in the store, and the signer that follows them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::command::KeyCommand;
use super::execute::{CommandError, Directory};
use crate::app::state::Sealgate;
use crate::domain::audit::AuditKind;
use crate::domain::key_ring::{KeyFault, KeyLife, KeyRing};
use crate::domain::time::UnixTime;

/// Whoever signs with the keys.
#[async_trait]
pub trait KeyHolder: Send + Sync {
    /// Looks which keys are in the token, and yields their kids; `None` where nobody is there to look.
    ///
    /// # Errors
    /// One line: why the token does not show them.
    async fn look(&self) -> Result<Option<Vec<String>>, String>;

    /// Goes by these times from now on.
    fn follow(&self, ring: KeyRing);

    /// Why the automatic rotation that is due does not come about.
    fn rotation_fault(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl KeyHolder for Sealgate {
    async fn look(&self) -> Result<Option<Vec<String>>, String> {
        let signer = self.issuer.signer();
        signer.look().await?;
        Ok(Some(signer.found().iter().map(|key| key.kid.to_string()).collect()))
    }

    fn follow(&self, ring: KeyRing) {
        self.issuer.signer().follow(ring, Arc::clone(&self.clock));
    }

    fn rotation_fault(&self) -> Option<String> {
        self.rotation.fault()
    }
}

/// Nobody signs: the store is not served.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodySigns;

#[async_trait]
impl KeyHolder for NobodySigns {
    async fn look(&self) -> Result<Option<Vec<String>>, String> {
        Ok(None)
    }

    fn follow(&self, _ring: KeyRing) {}
}

pub(super) async fn execute(directory: &Directory<'_>, command: KeyCommand) -> Result<Answer, CommandError> {
    let now = directory.clock.now();
    if let KeyCommand::List = command {
        return Ok(shown(&directory.store.key_ring().await?, now, directory));
    }
    if let KeyCommand::Announce { kid, .. } = &command {
        let found = directory.keys.look().await.map_err(CommandError::invalid)?;
        if found.is_some_and(|found| !found.contains(kid)) {
            return Err(CommandError::Absent(format!(
                "the server does not see the key {kid} in its token; a service whose token is SoftHSM's must be able to write \
                 to the token's directory (ReadWritePaths= of its unit)"
            )));
        }
    }
    let changed = directory.store.change_key_ring(|ring| change(ring, &command, now, directory)).await?;
    let ring = changed.map_err(|fault| CommandError::invalid(fault.to_string()))?;
    // At once: a key that was removed because others can sign with it verifies nothing while the trail is written.
    directory.keys.follow(ring.clone());
    if let KeyCommand::Begin { .. } = command {
        // Nothing has changed yet for whoever reads the trail.
        return Ok(shown(&ring, now, directory));
    }
    directory.record(directory.event(AuditKind::KeysChanged).with_detail(said(&command))).await;
    Ok(shown(&ring, now, directory))
}

/// What was done to which key.
fn said(command: &KeyCommand) -> String {
    match command {
        KeyCommand::List => "list".to_owned(),
        KeyCommand::Begin { id, .. } => format!("begin {id}"),
        KeyCommand::Announce { kid, .. } => format!("announce {kid}"),
        KeyCommand::Activate { kid, early, .. } => format!("activate {kid}{}", if *early { " early" } else { "" }),
        KeyCommand::Retire { kid } => format!("retire {kid}"),
        KeyCommand::Remove { kid } => format!("remove {kid}"),
        KeyCommand::RemoveNow { kid, .. } => format!("remove {kid} now"),
    }
}

fn change(ring: &mut KeyRing, command: &KeyCommand, now: UnixTime, directory: &Directory<'_>) -> Result<(), KeyFault> {
    let times = directory.key_times;
    match command {
        KeyCommand::List => Ok(()),
        KeyCommand::Begin { id, others } => ring.begin_key(id, others, now),
        KeyCommand::Announce { kid, id, others } => {
            ring.announce(kid, others, now)?;
            ring.made(id);
            Ok(())
        }
        KeyCommand::Activate { kid, at, early } => ring.activate(kid, *at, *early, now, times),
        KeyCommand::Retire { kid } => ring.retire(kid, now, times),
        KeyCommand::Remove { kid } => ring.remove(kid, now, times),
        KeyCommand::RemoveNow { kid, in_token } => ring
            .remove_now(kid, now, |kid| in_token.as_ref().is_none_or(|found| found.iter().any(|found| found == kid))),
    }
}

fn shown(ring: &KeyRing, now: UnixTime, directory: &Directory<'_>) -> Answer {
    let key = |life: &KeyLife| {
        json!({
            "kid": life.kid,
            "state": ring.state(life, now),
            "created_at": life.created_at,
            "published_at": life.published_at,
            "activate_at": life.activate_at,
            "retire_at": life.retire_at,
            "remove_at": life.remove_at,
        })
    };
    let keys: Vec<Value> = ring.keys().iter().map(key).collect();
    let answer = Answer::new(rotation(ring, now, directory)).with("keys", keys);
    // For whoever compares them with the token.
    if ring.begun().is_empty() { answer } else { answer.with("begun", ring.begun()) }
}

/// When the server rotates by itself, and why it does not; nothing where it is not told to.
pub(super) fn rotation(ring: &KeyRing, now: UnixTime, directory: &Directory<'_>) -> Map<String, Value> {
    let mut members = Map::new();
    let Some(every) = directory.rotate else { return members };
    if let Some(next) = ring.next_rotation(every, directory.key_times, now) {
        members.insert("next_key_at".into(), json!(next.publish_at));
        members.insert("next_rotation_at".into(), json!(next.activate_at));
    }
    if let Some(fault) = directory.keys.rotation_fault() {
        members.insert("rotation_fault".into(), fault.into());
    }
    members
}
