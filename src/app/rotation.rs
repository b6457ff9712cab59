//! Automatic rotation: when the key that signs has done so for as long as configured, this server makes the next one in
//! the token and plans its life. Of several servers on one store one does it. A failure is told to the log, to metrics
//! and to `/readyz`, and stops nothing: the key that signs goes on.
//!
//! The plan itself is [`crate::domain::key_ring`]'s, the token the signer's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use uuid::Uuid;

use crate::app::endorsing;
use crate::app::state::Sealgate;
use crate::clock::random;
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::key_ring::{KeyFault, KeyLife, KeyRing, KeyState};
use crate::domain::time::UnixTime;
use crate::signer::KeySize;

/// How often the times are looked at.
const PULSE: Duration = Duration::from_secs(1);

/// How long a server that has begun is left alone by the others: longer than a token may take to make a key.
const CLAIM: Duration = Duration::from_mins(10);

/// After a failure, the next try comes after this part of a key's time, within these bounds.
const TRIES: u32 = 16;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// How often the token is asked for a key that another server announced.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Rotates when it is due, and looks for keys that other servers made, until told to stop. A stop in the middle is no
/// harm: what was begun is written down, and the next start goes on with it.
pub async fn keep(sealgate: Arc<Sealgate>, mut stop: watch::Receiver<bool>) {
    let mut not_before = None;
    let mut looked = None;
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = pulse(&sealgate, &mut not_before, &mut looked) => {}
        }
    }
}

async fn pulse(sealgate: &Sealgate, not_before: &mut Option<Instant>, looked: &mut Option<Instant>) {
    tokio::time::sleep(PULSE).await;
    let Ok(ring) = sealgate.store.key_ring().await else {
        // The store's keeper tells of it.
        return;
    };
    let now = sealgate.clock.now();
    look_for_others(sealgate, &ring, now, looked).await;
    endorse(sealgate, ring.clone()).await;
    let Some(every) = sealgate.config.keys.rotate else { return };
    if !ring.rotation_is_due(every, sealgate.config.keys.times, now) {
        settle(sealgate, None);
        return;
    }
    if sealgate.config.token_holder().is_some()
        && let Some(waiting) = ring.waiting(now, |kid| in_token(sealgate, kid))
    {
        settle(sealgate, activate(sealgate, &ring, waiting, now).await.err());
        return;
    }
    // A key that somebody laid ready is worth a try at once.
    let laid_ready = ring.waiting(now, |kid| in_token(sealgate, kid)).is_some();
    if !laid_ready && not_before.is_some_and(|at| Instant::now() < at) {
        return;
    }
    let outcome = rotate(sealgate, every).await;
    *not_before = match &outcome {
        Ok(()) => None,
        Err(_) => Some(Instant::now() + (every / TRIES).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)),
    };
    settle(sealgate, outcome.err());
}

/// Sees to it that a key that was announced elsewhere is found in the token here, and so published here too.
async fn look_for_others(sealgate: &Sealgate, ring: &KeyRing, now: UnixTime, looked: &mut Option<Instant>) {
    let published = ring.own().filter(|key| ring.state(key, now) != KeyState::Removed);
    let missing: Vec<_> = published.filter(|key| !in_token(sealgate, &key.kid)).collect();
    if missing.is_empty() || looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
        return;
    }
    *looked = Some(Instant::now());
    if let Err(error) = sealgate.issuer.signer().look().await {
        let kids: Vec<_> = missing.iter().map(|key| &key.kid).collect();
        tracing::warn!(%error, ?kids, "keys that were announced are not seen in the token");
    }
}

/// Endorses keys of other nodes, and has its own known to them.
async fn endorse(sealgate: &Sealgate, ring: KeyRing) {
    let signer = sealgate.issuer.signer();
    match endorsing::endorse(&sealgate.store, signer, sealgate.clock.as_ref(), ring.clone()).await {
        Ok(None) => {}
        Ok(Some(untrusted)) => {
            // Looked at again a second later.
            let _ = endorsing::hold_back(&sealgate.store, &ring, &untrusted, sealgate.clock.now()).await;
            sealgate.metrics.keys_unendorsed.set(i64::try_from(untrusted.len()).unwrap_or(i64::MAX));
            if sealgate.rotation.set_untrusted(untrusted)
                && let Some(warning) = sealgate.rotation.warning()
            {
                tracing::warn!("{warning}");
            }
        }
        // Tried again a second later; the token's own faults are told where they are met.
        Err(fault) => tracing::warn!(%fault, "the keys of other nodes could not be looked at"),
    }
}

/// Lets a key of this node's own token sign once verifiers know it, and the other nodes that serve take it.
async fn activate(sealgate: &Sealgate, ring: &KeyRing, waiting: &KeyLife, now: UnixTime) -> Result<(), String> {
    let (store, times, kid) = (&sealgate.store, sealgate.config.keys.times, &waiting.kid);
    let live = store.live_nodes().await.map_err(|error| error.to_string())?;
    let untaken = ring.untaken(kid, &live, now);
    if !untaken.is_empty() {
        // Until then it does not matter.
        let is_late = waiting.published_at.plus(times.publish) <= ring.at(now);
        return if is_late { Err(KeyFault::untaken(kid, &untaken).to_string()) } else { Ok(()) };
    }
    let activated = store.change_key_ring(|ring| ring.activate(kid, None, false, now, times)).await;
    let ring = activated.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let activate_at = ring.find(kid).and_then(|key| key.activate_at).map(UnixTime::seconds);
    sealgate.follow_ring(ring);
    sealgate.metrics.key_rotations.inc();
    let event = AuditEvent::new(now, AuditKind::KeysChanged, Actor::Server).with_detail(format!("rotate {kid}"));
    sealgate.audit.record(store, event).await;
    tracing::info!(kid, activate_at, "all nodes take the next signing key; it signs from activate_at on");
    Ok(())
}

fn in_token(sealgate: &Sealgate, kid: &str) -> bool {
    sealgate.issuer.signer().found().iter().any(|key| key.kid.as_str() == kid)
}

/// Tells of a fault when it is a new one, and of its end.
fn settle(sealgate: &Sealgate, fault: Option<String>) {
    let before = sealgate.rotation.fault();
    if before == fault {
        return;
    }
    if let Some(fault) = &fault {
        tracing::error!(fault, "the signing key could not be rotated");
    } else {
        tracing::info!("the signing key can be rotated again");
    }
    sealgate.metrics.key_rotation_failing.set(i64::from(fault.is_some()));
    sealgate.rotation.set_fault(fault);
}

/// Claims the rotation, and makes and plans the next key where nobody else has claimed it.
async fn rotate(sealgate: &Sealgate, every: Duration) -> Result<(), String> {
    let (store, times, server) = (&sealgate.store, sealgate.config.keys.times, sealgate.rotation.server());
    let signer = sealgate.issuer.signer();
    let now = sealgate.clock.now();
    let fresh = Uuid::from_bytes(random(sealgate.entropy.as_ref())).simple().to_string();
    let claim = store.change_key_ring(|ring| {
        if ring.rotation_is_due(every, times, now) {
            ring.begin_rotation(server, &fresh, now.plus(CLAIM), now);
        }
        Ok(())
    });
    let ring = claim.await.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let Some(own) = ring.rotation_of(server) else {
        // Another server is at it.
        return Ok(());
    };

    let (kid, id) = next_key(sealgate, &ring, own, now).await?;
    let found: Vec<String> = signer.found().iter().map(|key| key.kid.to_string()).collect();
    let now = sealgate.clock.now();
    let planned = store.change_key_ring(|ring| ring.finish_rotation(&kid, &id, &found, now, times)).await;
    let ring = planned.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let activate_at = ring.find(&kid).and_then(|key| key.activate_at).map(UnixTime::seconds);
    sealgate.follow_ring(ring.clone());
    if sealgate.config.token_holder().is_some() {
        tracing::info!(kid, "the next signing key is published; it signs when all nodes take it");
        return Ok(());
    }
    sealgate.metrics.key_rotations.inc();
    let event = AuditEvent::new(now, AuditKind::KeysChanged, Actor::Server).with_detail(format!("rotate {kid}"));
    sealgate.audit.record(store, event).await;
    tracing::info!(kid, activate_at, "the next signing key is published; it signs from activate_at on");
    for removed in
        ring.keys().iter().filter(|key| ring.state(key, now) == KeyState::Removed && found.contains(&key.kid))
    {
        tracing::warn!(kid = removed.kid, "this key was removed and is still in the token; delete it there");
    }
    Ok(())
}

/// The key that shall sign next, and the `CKA_ID` under which it was begun: one that waits, one that was begun and not
/// announced, or a new one of the same size as the one that signs.
async fn next_key(sealgate: &Sealgate, ring: &KeyRing, own: &str, now: UnixTime) -> Result<(String, String), String> {
    let signer = sealgate.issuer.signer();
    let found = signer.found();
    if let Some(waiting) = ring.waiting(now, |kid| found.iter().any(|key| key.kid.as_str() == kid)) {
        return Ok((waiting.kid.clone(), own.to_owned()));
    }
    if let Some(begun) = found.iter().find(|key| ring.began(&key.id) && ring.find(key.kid.as_str()).is_none()) {
        return Ok((begun.kid.to_string(), begun.id.clone()));
    }
    let bits = u32::try_from(signer.key_set().active().bits()).ok();
    let size = bits.and_then(KeySize::from_bits).unwrap_or(KeySize::Rsa2048);
    let id = Uuid::parse_str(own).map_err(|error| error.to_string())?.into_bytes().to_vec();
    let made = signer.make(size, id).await.map_err(|error| {
        format!(
            "no new signing key: {error}. The one before goes on signing. If the token lets the PIN's user make no keys, \
             make one by its own tools and run: sealgate key announce --kid KID"
        )
    })?;
    Ok((made.kid.to_string(), made.id))
}
