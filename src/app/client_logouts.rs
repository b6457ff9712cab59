//! Background task that sends queued logout tokens to clients (OpenID Connect Back-Channel Logout 1.0
//! §2.5).
//!
//! Each client has at most one request at a time. A client that does not answer is tried again after
//! a growing pause, so it delays no other client. If several nodes share a store, only one of them
//! sends. A token is signed just before it is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::{Id, JoinSet, spawn_blocking};

use crate::app::server::Stop;
use crate::app::task_lease::TaskLease;
use sealgate_config::Config;
use sealgate_core::state::Sealgate;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logout::{ClientLogout, backoff};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::secret::base64url;
use sealgate_domain::time::UnixTime;
use sealgate_signer::SignError;
use sealgate_store::{LeaseName, Loaded, MAX_WAITING_LOGOUTS_OF_CLIENT, StoreError};
use sealgate_system::clock::random;
use sealgate_system::fetch::Web;
use sealgate_system::metrics::ClientLogoutOutcome;

/// Interval of checks for due logouts.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between two counts of the queue. A count reads all of it.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum duration of a request, with the name resolution.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a logout is leased. An attempt, with the signature, is shorter.
const ATTEMPT_LEASE: Duration = Duration::from_mins(1);

/// Maximum number of clients to which requests are sent at the same time, and so of their threads.
pub(crate) const MAX_PARALLEL: usize = 8;

/// Maximum number of logouts that are sent to a client before other clients have their turn.
const BATCH: usize = 32;

/// Maximum number of clients that one check reads from the queue.
const MAX_CLIENTS_PER_CHECK: usize = 64;

/// Minimum interval between two audit events about the same client.
const AUDIT_INTERVAL: Duration = Duration::from_mins(10);

/// Consecutive failures of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failing {
    failures: u32,
    /// Time before which the client gets no request.
    until: UnixTime,
}

/// State of the task.
struct ClientLogoutWorker {
    sealgate: Arc<Sealgate>,
    lease: Arc<Mutex<TaskLease>>,
    /// HTTP client, and the configuration for which it was created.
    web: Option<(Arc<Config>, Arc<Web>)>,
    /// Clients that do not accept requests. Other clients are absent.
    failing: HashMap<ClientId, Failing>,
    /// Clients with a task in [`Self::sending`], by the id of the task.
    busy: HashMap<Id, ClientId>,
    sending: JoinSet<Sent>,
    /// Last client that was read from the queue. The next check continues after it.
    cursor: Option<ClientLogout>,
    counted: Option<Instant>,
    /// Time of the last audit event about each client.
    noted: HashMap<ClientId, UnixTime>,
}

/// Result of a task that sends the logouts of one client.
struct Sent {
    client: ClientId,
    /// Whether the client accepted a logout.
    has_accepted: bool,
    /// Reason why the client cannot be reached.
    unreachable: Option<String>,
    /// Reason why a logout was given up.
    given_up: Option<String>,
}

impl Sent {
    fn new(client: ClientId) -> Self {
        Self { client, has_accepted: false, unreachable: None, given_up: None }
    }
}

/// Outcome of one attempt.
enum Attempt {
    Accepted,
    /// The client answered 400, so it will not accept the logout later either.
    Refused,
    /// The client answered with this status. Other logouts may be accepted.
    Status(u16),
    Unreachable(String),
    /// The PKCS#11 token did not sign.
    Unsigned(SignError),
}

/// Sends until `stop`.
pub async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    let mut worker = ClientLogoutWorker::new(sealgate);
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            Some(ended) = worker.sending.join_next_with_id() => match ended {
                Ok((task, sent)) => {
                    worker.busy.remove(&task);
                    worker.finish(sent);
                }
                // The task has panicked. Its client must get its other logouts.
                Err(error) => drop(worker.busy.remove(&error.id())),
            }
        }
        if let Err(error) = worker.check().await {
            tracing::warn!(%error, "cannot read or write the queue of logout tokens; they wait");
        }
    }
    // If the stop interrupts a request, the next process sends the token again after its lease.
    worker.sending.shutdown().await;
    worker.lease.lock().await.release().await;
}

impl ClientLogoutWorker {
    fn new(sealgate: Arc<Sealgate>) -> Self {
        Self {
            lease: Arc::new(Mutex::new(TaskLease::new(&sealgate, LeaseName::ClientLogouts))),
            sealgate,
            web: None,
            failing: HashMap::new(),
            busy: HashMap::new(),
            sending: JoinSet::new(),
            cursor: None,
            counted: None,
            noted: HashMap::new(),
        }
    }

    /// Starts tasks for clients with due logouts.
    ///
    /// # Errors
    /// When the store fails. The next check continues.
    async fn check(&mut self) -> Result<(), StoreError> {
        let dropped = self.sealgate.store.take_dropped_logouts();
        if dropped > 0 {
            self.sealgate.metrics.client_logouts(ClientLogoutOutcome::Dropped, dropped);
            tracing::error!(
                dropped,
                "dropped logout tokens, because the queue, or the share of a client in it, is full; correct the clients that \
                earlier lines name, or remove their backchannel_logout_uri"
            );
        }
        if self.lease.lock().await.acquire_or_renew().await.is_none() {
            // The sending node reports these numbers.
            self.sealgate.metrics.client_logout_queue(0, 0);
            return Ok(());
        }
        self.count().await?;
        let mut is_start = self.cursor.is_none();
        for _ in 0..MAX_CLIENTS_PER_CHECK {
            if self.sending.len() >= MAX_PARALLEL {
                return Ok(());
            }
            let next = self.sealgate.store.next_client_logout(self.cursor.as_ref()).await?;
            self.cursor = next.map(|first| first.value);
            let Some(first) = self.cursor.clone() else {
                // At the end of the queue, start over, at most once.
                if is_start {
                    return Ok(());
                }
                is_start = true;
                continue;
            };
            let now = self.sealgate.clock.now();
            let is_paused = self.failing.get(&first.client).is_some_and(|failing| now < failing.until);
            let is_busy = self.busy.values().any(|client| *client == first.client);
            if first.due_at <= now && !is_paused && !is_busy {
                self.start(first.client);
            }
        }
        Ok(())
    }

    fn start(&mut self, client: ClientId) {
        let web = match self.web() {
            Ok(web) => web,
            Err(error) => return tracing::error!(error, "no logout tokens can be sent"),
        };
        let (sealgate, lease) = (Arc::clone(&self.sealgate), Arc::clone(&self.lease));
        let mut sent = Sent::new(client.clone());
        let task = self.sending.spawn(async move {
            if let Err(error) = send_to(&sealgate, &lease, &web, &mut sent).await {
                let client = &sent.client;
                tracing::warn!(%client, %error, "cannot read or write the queue of logout tokens; they wait");
            }
            sent
        });
        self.busy.insert(task.id(), client);
    }

    /// Returns the HTTP client of the current configuration, which a reload may have changed.
    fn web(&mut self) -> Result<Arc<Web>, String> {
        let config = self.sealgate.in_effect.load_full();
        if let Some((known, web)) = &self.web
            && Arc::ptr_eq(known, &config)
        {
            return Ok(Arc::clone(web));
        }
        let web = Arc::new(Web::for_clients(REQUEST_TIMEOUT, &config.tokens.logout_networks)?);
        self.web = Some((config, Arc::clone(&web)));
        Ok(web)
    }

    fn finish(&mut self, sent: Sent) {
        let client = sent.client;
        if sent.has_accepted && self.failing.remove(&client).is_some() {
            tracing::info!(%client, "the client accepts logout tokens again");
        }
        if let Some(reason) = sent.given_up {
            self.note(&client, &reason);
        }
        if let Some(reason) = sent.unreachable {
            self.pause(client, &reason);
        }
    }

    /// Sends no more requests to a client for some time. Logs the first failure.
    fn pause(&mut self, client: ClientId, reason: &str) {
        let failures = self.failing.get(&client).map_or(0, |failing| failing.failures);
        if failures == 0 {
            tracing::warn!(%client, reason, "the client does not accept logout tokens, which are sent again for an \
                hour; check its backchannel_logout_uri, its certificate and the network. An address that is not \
                public must be in tokens.logout_networks");
        }
        let until = self.sealgate.clock.now().plus(backoff(failures));
        self.failing.insert(client, Failing { failures: failures + 1, until });
    }

    /// Records in the audit log that a client did not accept a logout.
    fn note(&mut self, client: &ClientId, reason: &str) {
        let now = self.sealgate.clock.now();
        let is_recent = |at: &UnixTime| now.since(*at) < AUDIT_INTERVAL;
        if self.noted.get(client).is_some_and(is_recent) {
            return;
        }
        self.noted.retain(|_, at| is_recent(at));
        let event = AuditEvent::new(now, AuditKind::LogoutNotAccepted, Actor::Server).with_client(client);
        self.sealgate.audit.note(event.with_detail(reason));
        self.noted.insert(client.clone(), now);
    }

    async fn count(&mut self) -> Result<(), StoreError> {
        if self.counted.is_some_and(|counted| counted.elapsed() < COUNT_INTERVAL) {
            return Ok(());
        }
        let counts = self.sealgate.store.count_client_logouts().await?;
        let now = self.sealgate.clock.now();
        let oldest = counts.oldest.map_or(0, |oldest| now.since(oldest).as_secs());
        self.sealgate.metrics.client_logout_queue(counts.waiting, oldest);
        if counts.waiting == 0 {
            self.failing.clear();
        }
        self.counted = Some(Instant::now());
        Ok(())
    }
}

/// Sends the due logouts of a client, one after another.
///
/// # Errors
/// When the store fails.
async fn send_to(
    sealgate: &Sealgate,
    lease: &Mutex<TaskLease>,
    web: &Arc<Web>,
    sent: &mut Sent,
) -> Result<(), StoreError> {
    let (store, client) = (&sealgate.store, sent.client.clone());
    for _ in 0..BATCH {
        let Some(due) = store.due_client_logout(&client, sealgate.clock.now()).await? else { break };
        // The client as it is now: it may have another URI, or none, since the logout was queued.
        let registered = store.client(&client).await?.filter(Client::is_enabled);
        let target =
            registered.and_then(|client| Some((client.backchannel_logout?.uri, client.details.id_token_alg())));
        let Some((uri, algorithm)) = target else {
            give_up(sealgate, &due, ClientLogoutOutcome::Obsolete).await?;
            continue;
        };
        let Some(fence) = lease.lock().await.acquire_or_renew().await else { break };
        let leased = store.take_client_logout(&due, &fence, sealgate.clock.now(), ATTEMPT_LEASE).await?;
        let Some(logout) = leased else { break };
        let attempt = match sign(sealgate, &logout.value, algorithm).await {
            Ok(token) => send(web, uri.as_str(), &token).await,
            Err(error) => Attempt::Unsigned(error),
        };
        match attempt {
            Attempt::Accepted => {
                store.remove_client_logout(&logout).await?;
                sealgate.metrics.client_logouts(ClientLogoutOutcome::Sent, 1);
                tracing::debug!(%client, "the client has accepted a logout token");
                sent.has_accepted = true;
            }
            Attempt::Refused => {
                tracing::error!(%client, status = 400, "the client refused a logout token, so its user may still be \
                    signed in there; see the client's log");
                give_up(sealgate, &logout, ClientLogoutOutcome::Refused).await?;
                sent.given_up = Some("status 400".to_owned());
            }
            Attempt::Status(status) => {
                if logout.value.attempts == 0 {
                    tracing::warn!(%client, status, "the client did not accept a logout token, which is sent again for \
                        an hour; expected 200. Check its backchannel_logout_uri and the client's log");
                }
                postpone(sealgate, &logout, &format!("status {status}"), sent).await?;
            }
            Attempt::Unreachable(reason) => {
                postpone(sealgate, &logout, &reason, sent).await?;
                postpone_others(sealgate, &client, &reason, sent).await?;
                sent.unreachable = Some(reason);
                break;
            }
            Attempt::Unsigned(error) => {
                tracing::warn!(%error, "the PKCS#11 token does not sign logout tokens; they wait");
                store.move_client_logout(&logout, logout.value.moved(sealgate.clock.now())).await?;
                break;
            }
        }
    }
    Ok(())
}

async fn sign(sealgate: &Sealgate, logout: &ClientLogout, algorithm: Algorithm) -> Result<String, SignError> {
    let jti = base64url(&random::<16>(sealgate.entropy.as_ref()));
    let claims = logout.claims(sealgate.config.issuer.as_str(), jti, sealgate.clock.now());
    sealgate.issuer.logout_token(&claims, algorithm).await
}

/// Sends a logout token on a blocking thread.
async fn send(web: &Arc<Web>, uri: &str, token: &str) -> Attempt {
    // A token consists of letters, digits, `-`, `_` and `.`, which forms do not encode.
    let form = format!("logout_token={token}");
    let (web, uri) = (Arc::clone(web), uri.to_owned());
    match spawn_blocking(move || web.post_form(&uri, &form)).await {
        Ok(Ok(200 | 204)) => Attempt::Accepted,
        Ok(Ok(400)) => Attempt::Refused,
        Ok(Ok(status)) => Attempt::Status(status),
        Ok(Err(reason)) => Attempt::Unreachable(reason),
        Err(error) => Attempt::Unreachable(format!("the request failed: {error}")),
    }
}

/// Postpones a logout, or gives it up if the time for retries is over.
async fn postpone(
    sealgate: &Sealgate,
    logout: &Loaded<ClientLogout>,
    reason: &str,
    sent: &mut Sent,
) -> Result<(), StoreError> {
    sealgate.metrics.client_logouts(ClientLogoutOutcome::Failed, 1);
    if let Some(next) = logout.value.postponed(sealgate.clock.now()) {
        sealgate.store.move_client_logout(logout, next).await?;
        return Ok(());
    }
    expire(sealgate, logout, reason, sent).await
}

/// Postpones the other due logouts of a client that cannot be reached, as if they had been attempted.
///
/// Otherwise the hour of most of them would never start, and they would fill the client's share of
/// the queue.
async fn postpone_others(
    sealgate: &Sealgate,
    client: &ClientId,
    reason: &str,
    sent: &mut Sent,
) -> Result<(), StoreError> {
    for _ in 0..MAX_WAITING_LOGOUTS_OF_CLIENT {
        let now = sealgate.clock.now();
        let Some(due) = sealgate.store.due_client_logout(client, now).await? else { break };
        let Some(next) = due.value.leased(now, ATTEMPT_LEASE).postponed(now) else {
            expire(sealgate, &due, reason, sent).await?;
            continue;
        };
        if !sealgate.store.move_client_logout(&due, next).await? {
            // Another node sends now.
            break;
        }
    }
    Ok(())
}

/// Gives up a logout after the time for retries.
async fn expire(
    sealgate: &Sealgate,
    logout: &Loaded<ClientLogout>,
    reason: &str,
    sent: &mut Sent,
) -> Result<(), StoreError> {
    let client = &logout.value.client;
    tracing::error!(%client, reason, "gave up a logout token after an hour, so its user may still be signed in at the \
        client; check its backchannel_logout_uri");
    give_up(sealgate, logout, ClientLogoutOutcome::Expired).await?;
    sent.given_up = Some(reason.to_owned());
    Ok(())
}

async fn give_up(
    sealgate: &Sealgate,
    logout: &Loaded<ClientLogout>,
    outcome: ClientLogoutOutcome,
) -> Result<(), StoreError> {
    if sealgate.store.remove_client_logout(logout).await? {
        sealgate.metrics.client_logouts(outcome, 1);
    }
    Ok(())
}
