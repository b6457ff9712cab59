//! Commands that change the schedule of signing keys. A change is stored, and the running signer
//! applies it at once.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::answer::{Answer, KeyAnswer, KeysAnswer, Rotation};
use crate::command::KeyCommand;
use crate::context::{CommandContext, CommandError};
use crate::export::hex;
use sealgate_core::state::Sealgate;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::key_ring::{KeyFault, KeyLife, KeyRing, KeyState, PublicJwk};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer::{KeySize, NewKey};
use sealgate_system::clock::random;

pub(super) async fn execute(context: &CommandContext<'_>, command: KeyCommand) -> Result<Answer, CommandError> {
    let now = context.clock.now();
    if let KeyCommand::List = command {
        return answer(&context.store.key_ring().await?, now, context).await;
    }
    if let KeyCommand::Activate { kid, early: false, .. } = &command {
        let ring = context.store.key_ring().await?;
        let live = context.store.live_nodes().await?;
        let distrusting = ring.distrusting_nodes(kid, &live, now);
        if !distrusting.is_empty() {
            return Err(CommandError::invalid(KeyFault::distrusted(kid, &distrusting).to_string()));
        }
    }
    // A server that is not configured for the algorithm yet does not look for its keys.
    if let KeyCommand::Announce { kid, algorithm, .. } = &command
        && context.keys.signs_with(*algorithm)
    {
        let kids_in_token = context.keys.scan().await.map_err(CommandError::invalid)?;
        if kids_in_token.is_some_and(|kids_in_token| !kids_in_token.contains(kid)) {
            return Err(CommandError::Absent(format!(
                "the server does not find the key {kid} in its token; with SoftHSM, the service needs write \
                 access to the token's directory (ReadWritePaths= of its unit)"
            )));
        }
    }
    let changed = context.store.change_key_ring(|ring| change(ring, &command, now, context)).await?;
    let ring = changed.map_err(|fault| CommandError::invalid(fault.to_string()))?;
    // Apply the change before writing the audit event, which takes time: signatures of a removed
    // key must be rejected at once.
    context.keys.set_key_ring(ring.clone());
    if let KeyCommand::Begin { .. } = command {
        // `Begin` does not change the published schedule, so it has no audit event. The later
        // announcement has one.
        return answer(&ring, now, context).await;
    }
    context.record(context.event(AuditKind::KeysChanged).with_detail(description(&command))).await;
    answer(&ring, now, context).await
}

/// Maximum time for which a rotation waits until the other nodes trust the next signing key.
const TRUST_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the checks whether the other nodes trust the next signing key.
const TRUST_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Rotates the signing key of an algorithm with the token of the running server, as `sealgate key
/// rotate` does.
///
/// Uses a published key without a schedule, if there is one, or else a key whose announcement
/// failed. Otherwise generates a key and publishes it. The key signs when verifiers have fetched it.
///
/// # Errors
/// If a rotation is in progress, the token generates no key, or another node does not trust the key.
pub async fn rotate_key(context: &CommandContext<'_>, algorithm: Algorithm) -> Result<(), CommandError> {
    let (ring, now) = (context.store.key_ring().await?.of_algorithm(algorithm), context.clock.now());
    context.keys.scan().await.map_err(CommandError::invalid)?;
    let in_token = context.keys.keys_of(algorithm);
    if let Some((kid, _)) = ring.next_to_sign(now, |_| true).filter(|(_, at)| *at > ring.at(now)) {
        let kid = &kid.kid;
        return Err(CommandError::invalid(format!("a rotation is in progress: the published key {kid} signs next")));
    }
    let kid = match ring.waiting(now, |kid| in_token.iter().any(|(known, _)| known == kid)) {
        Some(key) => key.kid.clone(),
        None => publish_key(context, &ring, in_token, algorithm).await?,
    };
    let started = Instant::now();
    loop {
        let ring = context.store.key_ring().await?;
        let live = context.store.live_nodes().await?;
        let is_trusted = ring.distrusting_nodes(&kid, &live, context.clock.now()).is_empty();
        if is_trusted || started.elapsed() > TRUST_TIMEOUT {
            break;
        }
        tokio::time::sleep(TRUST_CHECK_INTERVAL).await;
    }
    execute(context, KeyCommand::Activate { kid, at: None, early: false }).await.map(drop)
}

/// Publishes a key of the token that was not announced, or else generates one. Returns its key id.
///
/// The `CKA_ID` of a new key is recorded first. If the announcement fails, the next rotation or the
/// next start repeats it. `in_token` has the keys of the algorithm: key id and `CKA_ID`.
async fn publish_key(
    context: &CommandContext<'_>,
    ring: &KeyRing,
    in_token: Vec<(String, String)>,
    algorithm: Algorithm,
) -> Result<String, CommandError> {
    let others =
        |own: &str| -> Vec<String> { in_token.iter().map(|(kid, _)| kid).filter(|kid| *kid != own).cloned().collect() };
    let unannounced_ids = ring.all_unannounced_ids();
    if let Some((kid, id)) = in_token.iter().find(|(_, id)| unannounced_ids.contains(id)) {
        let (kid, id, other_kids) = (kid.clone(), id.clone(), others(kid));
        execute(context, KeyCommand::Announce { kid: kid.clone(), id, other_kids, algorithm }).await?;
        return Ok(kid);
    }
    let id: [u8; 16] = random(context.entropy);
    execute(context, KeyCommand::Begin { id: hex(&id), other_kids: others(""), algorithm }).await?;
    let kid = context.keys.generate(algorithm, id.to_vec()).await.map_err(CommandError::invalid)?;
    let kid = kid.ok_or_else(|| CommandError::invalid("no server runs, so there is no token"))?;
    let other_kids = others(&kid);
    execute(context, KeyCommand::Announce { kid: kid.clone(), id: hex(&id), other_kids, algorithm }).await?;
    Ok(kid)
}

/// Describes the change of a key for the audit log.
fn description(command: &KeyCommand) -> String {
    match command {
        KeyCommand::List => "list".to_owned(),
        KeyCommand::Begin { id, .. } => format!("begin {id}"),
        KeyCommand::RetireNode { node, at_once } => format!("retire node {node}{}", if *at_once { " now" } else { "" }),
        KeyCommand::Announce { kid, .. } => format!("announce {kid}"),
        KeyCommand::Activate { kid, early, .. } => format!("activate {kid}{}", if *early { " early" } else { "" }),
        KeyCommand::Retire { kid } => format!("retire {kid}"),
        KeyCommand::Remove { kid, at_once, .. } => format!("remove {kid}{}", if *at_once { " now" } else { "" }),
    }
}

fn change(
    ring: &mut KeyRing,
    command: &KeyCommand,
    now: UnixTime,
    context: &CommandContext<'_>,
) -> Result<(), KeyFault> {
    let times = context.key_times;
    match command {
        KeyCommand::List => Ok(()),
        KeyCommand::Begin { id, other_kids, algorithm } => {
            ring.select(*algorithm);
            ring.begin_key(id, other_kids, now)
        }
        KeyCommand::RetireNode { node, at_once } => {
            ring.retire_node(node, *at_once, now, times);
            Ok(())
        }
        KeyCommand::Announce { kid, id, other_kids, algorithm } => {
            ring.select(*algorithm);
            ring.announce(kid, other_kids, now)?;
            ring.forget_id(id);
            Ok(())
        }
        KeyCommand::Activate { kid, at, early } => ring.activate(kid, *at, *early, now, times),
        KeyCommand::Retire { kid } => ring.retire(kid, now, times),
        KeyCommand::Remove { kid, at_once: false, .. } => ring.remove(kid, now, times),
        KeyCommand::Remove { kid, at_once: true, in_token } => {
            ring.remove_now(kid, now, |kid| in_token.as_ref().is_none_or(|kids| kids.iter().any(|known| known == kid)))
        }
    }
}

pub(super) async fn answer(
    ring: &KeyRing,
    now: UnixTime,
    context: &CommandContext<'_>,
) -> Result<Answer, CommandError> {
    // The change has succeeded. Ignore an error here, because it would report the change as failed.
    let live = context.store.live_nodes().await.unwrap_or_default();
    let distrusted_by = |life: &KeyLife| match ring.state(life, now) {
        KeyState::PrePublished | KeyState::Active => {
            ring.distrusting_nodes(&life.kid, &live, now).into_iter().map(str::to_owned).collect()
        }
        KeyState::Retired | KeyState::Removed => Vec::new(),
    };
    let keys = ring.keys().iter().map(|life| KeyAnswer {
        distrusted_by: distrusted_by(life),
        life: life.clone(),
        state: ring.state(life, now),
    });
    Ok(Answer::Keys(KeysAnswer {
        keys: keys.collect(),
        // The command line compares these ids with the keys in the token.
        unannounced_ids: ring.all_unannounced_ids(),
        rotation: rotation(ring, now, context),
    }))
}

/// Returns the schedule of automatic rotation, and the error that prevents it.
pub(super) fn rotation(ring: &KeyRing, now: UnixTime, context: &CommandContext<'_>) -> Rotation {
    let Some(every) = context.rotate else { return Rotation::default() };
    let next = ring.next_rotation(every, context.key_times, now);
    Rotation {
        next_key_at: next.as_ref().and_then(|next| next.publish_at),
        next_rotation_at: next.as_ref().map(|next| next.activate_at),
        fault: context.keys.rotation_fault(),
    }
}

/// Access of commands to the signer of the running server.
///
/// Most commands only read the token or change the schedule of the keys. `node admit` also signs:
/// it endorses the key of the new node, and signs the data key that it sends to the node.
#[async_trait]
pub trait SignerAccess: Send + Sync {
    /// Returns the key ids in the token. Returns `None` if no signer runs.
    ///
    /// # Errors
    /// One line with the reason why the token cannot be read.
    async fn scan(&self) -> Result<Option<Vec<String>>, String>;

    /// Applies a key ring at once.
    fn set_key_ring(&self, ring: KeyRing);

    /// Returns the keys of an algorithm that the last scan found: key id and `CKA_ID`.
    fn keys_of(&self, _algorithm: Algorithm) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Generates a signing key of an algorithm with this `CKA_ID`, as large as the active one.
    /// Returns its key id, or `None` if no signer runs.
    ///
    /// # Errors
    /// One line with the reason why the token generates no key.
    async fn generate(&self, _algorithm: Algorithm, _id: Vec<u8>) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Returns whether the running server is configured for keys of this algorithm.
    fn signs_with(&self, _algorithm: Algorithm) -> bool {
        true
    }

    /// Signs with a key in the token. Returns `None` if the token lacks the key or no signer runs.
    ///
    /// # Errors
    /// One line with the reason why the token does not sign.
    async fn sign(&self, _kid: &str, _message: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Returns whether the key signed the message; `signature` is base64url.
    fn has_signed(&self, _key: &PublicJwk, _message: &[u8], _signature: &str) -> bool {
        false
    }

    /// Returns the reason why a due rotation fails, if any.
    fn rotation_fault(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl SignerAccess for Sealgate {
    async fn scan(&self) -> Result<Option<Vec<String>>, String> {
        let signer = self.issuer.signer();
        signer.scan().await?;
        Ok(Some(signer.key_reports().iter().map(|key| key.kid.to_string()).collect()))
    }

    fn set_key_ring(&self, ring: KeyRing) {
        self.set_key_ring(ring);
    }

    fn keys_of(&self, algorithm: Algorithm) -> Vec<(String, String)> {
        let reports = self.issuer.signer().key_reports();
        reports.into_iter().filter(|key| key.alg == algorithm).map(|key| (key.kid.to_string(), key.id)).collect()
    }

    async fn generate(&self, algorithm: Algorithm, id: Vec<u8>) -> Result<Option<String>, String> {
        let signer = self.issuer.signer();
        let bits = signer.key_set().active_for(algorithm).and_then(|key| u32::try_from(key.bits()).ok());
        let size = bits.and_then(KeySize::from_bits).unwrap_or(KeySize::Rsa2048);
        let key_report = signer.make(NewKey { algorithm, size }, id).await.map_err(|error| {
            format!(
                "the token generates no key: {error}. The current key keeps signing. If the token does not allow \
                 the PIN's user to generate keys, generate one with its own tools and run: sealgate key announce KID"
            )
        })?;
        Ok(Some(key_report.kid.to_string()))
    }

    fn signs_with(&self, algorithm: Algorithm) -> bool {
        self.config.keys.algorithms.contains(&algorithm)
    }

    async fn sign(&self, kid: &str, message: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let signer = self.issuer.signer();
        let Some(key) = signer.key_reports().into_iter().find(|key| key.kid.as_str() == kid) else { return Ok(None) };
        let signatures = signer.sign(&key.kid, vec![message]).await.map_err(|error| error.to_string())?;
        Ok(signatures.first().map(|signature| signature.as_bytes().to_vec()))
    }

    fn has_signed(&self, key: &PublicJwk, message: &[u8], signature: &str) -> bool {
        self.has_signed(key, message, signature)
    }

    fn rotation_fault(&self) -> Option<String> {
        self.rotation.fault()
    }
}

/// Implementation for commands that open the store while no server runs: there is no signer.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSigner;

#[async_trait]
impl SignerAccess for NoSigner {
    async fn scan(&self) -> Result<Option<Vec<String>>, String> {
        Ok(None)
    }

    fn set_key_ring(&self, _ring: KeyRing) {}
}
