//! Automatic rotation of the signing keys, by algorithm.
//!
//! When an active key has signed for the configured time, this server generates the next key in
//! the token and schedules it. If several servers share a store, one of them rotates the key. A
//! failure is logged and reported in metrics and `/readyz`. The active key continues to sign.
//!
//! [`sealgate_domain::key_ring`] decides the times, and the signer generates the keys in the token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use uuid::Uuid;

use sealgate_core::endorsing;
use sealgate_core::state::Sealgate;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::key_ring::{KeyFault, KeyLife, KeyRing, KeyState};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer::{KeySize, NewKey};
use sealgate_system::clock::random;

/// Interval of checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Lifetime of a server's claim to a rotation: longer than a token may take to generate a key.
const CLAIM_LIFETIME: Duration = Duration::from_mins(10);

/// Pause before a failed rotation is retried: the rotation interval divided by this number, but at
/// least [`MIN_PAUSE`] and at most [`MAX_PAUSE`].
const RETRIES_PER_INTERVAL: u32 = 16;
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// Interval of searches in the token for a key that another server announced.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);

/// State of the rotations of this server.
#[derive(Default)]
struct Rotations {
    /// Time before which a failed rotation is not retried, by algorithm.
    not_before: BTreeMap<Algorithm, Instant>,
    /// Reason why the last rotation failed, by algorithm.
    faults: BTreeMap<Algorithm, String>,
    scanned_at: Option<Instant>,
}

/// Rotates the keys when they are due, and searches for keys of other servers, until `stop`.
///
/// A stop during a rotation is harmless: its progress is stored, and the next start continues it.
pub async fn run(sealgate: Arc<Sealgate>, mut stop: watch::Receiver<bool>) {
    let mut rotations = Rotations::default();
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = wait_and_check(&sealgate, &mut rotations) => {}
        }
    }
}

async fn wait_and_check(sealgate: &Sealgate, rotations: &mut Rotations) {
    tokio::time::sleep(CHECK_INTERVAL).await;
    let Ok(ring) = sealgate.store.key_ring().await else {
        // The store's own task logs the error.
        return;
    };
    let now = sealgate.clock.now();
    scan_for_others(sealgate, &ring, now, &mut rotations.scanned_at).await;
    endorse(sealgate, ring.clone()).await;
    for algorithm in &sealgate.config.keys.algorithms {
        let ring = ring.clone().of_algorithm(*algorithm);
        match check(sealgate, &ring, *algorithm, now, rotations).await {
            // The last result stays.
            None => {}
            Some(Ok(())) => drop(rotations.faults.remove(algorithm)),
            Some(Err(fault)) => drop(rotations.faults.insert(*algorithm, fault)),
        }
    }
    update_fault(sealgate, rotations.faults.values().next().cloned());
}

/// Rotates the key of one algorithm if it is due. Returns `None` if a failed rotation is not retried
/// yet.
async fn check(
    sealgate: &Sealgate,
    ring: &KeyRing,
    algorithm: Algorithm,
    now: UnixTime,
    rotations: &mut Rotations,
) -> Option<Result<(), String>> {
    let waiting = ring.waiting(now, |kid| is_in_token(sealgate, kid));
    // The first key of a further algorithm replaces no key, so it needs no command to sign. It
    // signs as soon as verifiers know it.
    if algorithm != Algorithm::Rs256 && ring.awaits_first_key(now) {
        return Some(match waiting {
            Some(waiting) => activate(sealgate, ring, waiting, now).await,
            None => Ok(()),
        });
    }
    let Some(every) = sealgate.config.keys.rotate else { return Some(Ok(())) };
    if !ring.rotation_is_due(every, sealgate.config.keys.times, now) {
        return Some(Ok(()));
    }
    if sealgate.config.token_holder().is_some()
        && let Some(waiting) = waiting
    {
        return Some(activate(sealgate, ring, waiting, now).await);
    }
    // Try at once if an operator has prepared a key.
    if waiting.is_none() && rotations.not_before.get(&algorithm).is_some_and(|at| Instant::now() < *at) {
        return None;
    }
    let outcome = rotate(sealgate, algorithm, every).await;
    if outcome.is_ok() {
        rotations.not_before.remove(&algorithm);
    } else {
        let pause = (every / RETRIES_PER_INTERVAL).clamp(MIN_PAUSE, MAX_PAUSE);
        rotations.not_before.insert(algorithm, Instant::now() + pause);
    }
    Some(outcome)
}

/// Searches the token for keys announced by other servers, so that this server publishes them too.
async fn scan_for_others(sealgate: &Sealgate, ring: &KeyRing, now: UnixTime, scanned_at: &mut Option<Instant>) {
    let configured = &sealgate.config.keys.algorithms;
    let own = ring.own_of_any_algorithm().filter(|key| configured.iter().any(|algorithm| key.is_for(*algorithm)));
    let published = own.filter(|key| ring.state(key, now) != KeyState::Removed);
    let missing: Vec<_> = published.filter(|key| !is_in_token(sealgate, &key.kid)).collect();
    if missing.is_empty() || scanned_at.is_some_and(|at| at.elapsed() < SEARCH_INTERVAL) {
        return;
    }
    *scanned_at = Some(Instant::now());
    if let Err(error) = sealgate.issuer.signer().scan().await {
        let kids: Vec<_> = missing.iter().map(|key| &key.kid).collect();
        tracing::warn!(%error, ?kids, "announced keys are missing from the token");
    }
}

/// Endorses keys of other nodes, and publishes this node's keys to them.
async fn endorse(sealgate: &Sealgate, ring: KeyRing) {
    let signer = sealgate.issuer.signer();
    match endorsing::endorse(&sealgate.store, signer, sealgate.clock.as_ref(), ring.clone()).await {
        Ok(None) => {}
        Ok(Some(untrusted)) => {
            // If this fails, the next check, a second later, tries again.
            let _ = endorsing::hold_back(&sealgate.store, &ring, &untrusted, sealgate.clock.now()).await;
            sealgate.metrics.keys_unendorsed.set(i64::try_from(untrusted.len()).unwrap_or(i64::MAX));
            if sealgate.rotation.set_untrusted(untrusted)
                && let Some(warning) = sealgate.rotation.warning()
            {
                tracing::warn!("{warning}");
            }
        }
        // The next check, a second later, tries again. Errors of the token are reported where they
        // occur.
        Err(fault) => tracing::warn!(%fault, "cannot check the keys of other nodes"),
    }
}

/// Activates a key of this node's token when verifiers know it and the other serving nodes trust
/// it.
async fn activate(sealgate: &Sealgate, ring: &KeyRing, waiting: &KeyLife, now: UnixTime) -> Result<(), String> {
    let (store, times, kid) = (&sealgate.store, sealgate.config.keys.times, &waiting.kid);
    let live = store.live_nodes().await.map_err(|error| error.to_string())?;
    let distrusting = ring.distrusting_nodes(kid, &live, now);
    if !distrusting.is_empty() {
        // Other nodes may need the whole publication time to trust the key. Before the end of that
        // time, this is no error.
        let is_late = waiting.published_at.plus(times.publish) <= ring.at(now);
        return if is_late { Err(KeyFault::distrusted(kid, &distrusting).to_string()) } else { Ok(()) };
    }
    // `kid` determines the algorithm.
    let activated = store.change_key_ring(|ring| ring.activate(kid, None, false, now, times)).await;
    let ring = activated.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let activate_at = ring.find(kid).and_then(|key| key.activate_at).map(UnixTime::seconds);
    sealgate.set_key_ring(ring);
    sealgate.metrics.key_rotations.inc();
    let event = AuditEvent::new(now, AuditKind::KeysChanged, Actor::Server).with_detail(format!("rotate {kid}"));
    sealgate.audit.record(store, event).await;
    tracing::info!(kid, activate_at, "all nodes trust the next signing key; the key becomes active at activate_at");
    Ok(())
}

fn is_in_token(sealgate: &Sealgate, kid: &str) -> bool {
    sealgate.issuer.signer().key_reports().iter().any(|key| key.kid.as_str() == kid)
}

/// Logs a new error, and its end.
fn update_fault(sealgate: &Sealgate, fault: Option<String>) {
    let before = sealgate.rotation.fault();
    if before == fault {
        return;
    }
    if let Some(fault) = &fault {
        tracing::error!(fault, "cannot rotate the signing key");
    } else {
        tracing::info!("the signing key can be rotated again");
    }
    sealgate.metrics.key_rotation_failing.set(i64::from(fault.is_some()));
    sealgate.rotation.set_fault(fault);
}

/// Claims the rotation, then generates and schedules the next key. Does nothing if another server
/// has the claim.
async fn rotate(sealgate: &Sealgate, algorithm: Algorithm, every: Duration) -> Result<(), String> {
    let (store, times, server) = (&sealgate.store, sealgate.config.keys.times, sealgate.rotation.server());
    let signer = sealgate.issuer.signer();
    let now = sealgate.clock.now();
    let fresh = Uuid::from_bytes(random(sealgate.entropy.as_ref())).simple().to_string();
    let claim = store.change_key_ring(|ring| {
        ring.select(algorithm);
        if ring.rotation_is_due(every, times, now) {
            ring.begin_rotation(server, &fresh, now.plus(CLAIM_LIFETIME), now);
        }
        Ok(())
    });
    let ring = claim.await.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let ring = ring.of_algorithm(algorithm);
    let Some(own) = ring.rotation_of(server) else {
        // Another server rotates the key.
        return Ok(());
    };

    let (kid, id) = next_key(sealgate, &ring, algorithm, own, now).await?;
    let kids: Vec<String> = signer.key_reports().iter().map(|key| key.kid.to_string()).collect();
    let now = sealgate.clock.now();
    let planned = store.change_key_ring(|ring| {
        ring.select(algorithm);
        ring.finish_rotation(&kid, &id, &kids, now, times)
    });
    let planned = planned.await;
    let ring = planned.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
    let activate_at = ring.find(&kid).and_then(|key| key.activate_at).map(UnixTime::seconds);
    sealgate.set_key_ring(ring.clone());
    if sealgate.config.token_holder().is_some() {
        tracing::info!(kid, "published the next signing key; the key becomes active when all nodes trust it");
        return Ok(());
    }
    sealgate.metrics.key_rotations.inc();
    let event = AuditEvent::new(now, AuditKind::KeysChanged, Actor::Server).with_detail(format!("rotate {kid}"));
    sealgate.audit.record(store, event).await;
    tracing::info!(kid, activate_at, "published the next signing key; the key becomes active at activate_at");
    for removed in ring.keys().iter().filter(|key| ring.state(key, now) == KeyState::Removed && kids.contains(&key.kid))
    {
        tracing::warn!(kid = removed.kid, "this key was removed, but is still in the token; delete it there");
    }
    Ok(())
}

/// Returns the kid of the next signing key, and the `CKA_ID` under which its generation began.
///
/// It is one of these keys, in this order:
///
/// - a key that the operator has prepared,
/// - a key that was generated but is not announced yet,
/// - a new key of the active key's size.
async fn next_key(
    sealgate: &Sealgate,
    ring: &KeyRing,
    algorithm: Algorithm,
    own: &str,
    now: UnixTime,
) -> Result<(String, String), String> {
    let signer = sealgate.issuer.signer();
    let mut key_reports = signer.key_reports();
    key_reports.retain(|key| key.alg == algorithm);
    if let Some(waiting) = ring.waiting(now, |kid| key_reports.iter().any(|key| key.kid.as_str() == kid)) {
        return Ok((waiting.kid.clone(), own.to_owned()));
    }
    if let Some(unannounced) =
        key_reports.iter().find(|key| ring.is_unannounced(&key.id) && ring.find(key.kid.as_str()).is_none())
    {
        return Ok((unannounced.kid.to_string(), unannounced.id.clone()));
    }
    let bits = signer.key_set().active_for(algorithm).and_then(|key| u32::try_from(key.bits()).ok());
    let size = bits.and_then(KeySize::from_bits).unwrap_or(KeySize::Rsa2048);
    let id = Uuid::parse_str(own).map_err(|error| error.to_string())?.into_bytes().to_vec();
    let key_report = signer.make(NewKey { algorithm, size }, id).await.map_err(|error| {
        format!(
            "cannot generate the next signing key: {error}. The current one keeps signing. If the token does \
             not allow the PIN's user to generate keys, generate one with its own tools and run: sealgate \
             key announce KID"
        )
    })?;
    Ok((key_report.kid.to_string(), key_report.id))
}
