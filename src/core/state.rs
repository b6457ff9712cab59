//! State of a running node, which every request handler receives, and errors of a start.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Mutex as AsyncMutex;

use crate::answers::Answers;
use crate::audit::AuditLog;
use crate::endorsing;
use crate::limits::RequestLimits;
use crate::password::Passwords;
use crate::status::{EnrolmentStatus, RotationStatus, UpstreamStates};
use crate::tokens::bearer::{Bearer, BearerFault, Bearers};
use crate::tokens::clients;
use crate::tokens::issuer::Issuer;
use crate::tokens::trusted::TrustedIssuers;
use sealgate_config::Config;
use sealgate_domain::answers::ProcessId;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::key_ring::{KeyFault, KeyRing, PublicJwk};
use sealgate_domain::mail::MailKind;
use sealgate_domain::session::SessionCookie;
use sealgate_domain::time::UnixTime;
use sealgate_pages::Pages;
use sealgate_signer::attestation::Attestations;
use sealgate_signer::{PublicKey, Signer};
use sealgate_store::engine::{Engine, EngineError};
use sealgate_store::postgres::PostgresFault;
use sealgate_store::{Store, StoreError};
use sealgate_system::clock::{Clock, Entropy, random};
use sealgate_system::metrics::{MailOutcome, Metrics};

/// Interval at which a start checks whether this node's key may sign.
const SETTLING_PAUSE: Duration = Duration::from_millis(250);

/// Maximum time that a request waits until a changed key ring is read.
///
/// Requests read the ring one after another. While the database does not respond, each request
/// would otherwise wait for all earlier ones.
const FOLLOWING_TIMEOUT: Duration = Duration::from_secs(2);

/// Shared state of a node, for all requests and background work.
///
/// A reload of the configuration creates a new value with the same long-lived parts: see
/// [`Sealgate::with`].
#[derive(Clone)]
pub struct Sealgate {
    pub config: Arc<Config>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub store: Arc<Store>,
    pub issuer: Arc<Issuer>,
    /// Vendor attestations of the published keys.
    pub attestations: Arc<Attestations>,
    pub rotation: Arc<RotationStatus>,
    keys_followed: Arc<KeysFollowed>,
    /// Cache of access tokens that were verified as valid.
    pub bearers: Arc<Bearers>,
    /// Other issuers whose tokens some applications accept.
    pub trust: Arc<TrustedIssuers>,
    /// Whether the servers of each application accept connections.
    pub upstreams: Arc<UpstreamStates>,
    /// Number of users by factor.
    pub enrolment: Arc<EnrolmentStatus>,
    /// Limits of requests and of password guesses.
    pub limits: Arc<RequestLimits>,
    pub passwords: Arc<Passwords>,
    pub pages: Arc<Pages>,
    pub metrics: Arc<Metrics>,
    pub audit: Arc<AuditLog>,
    /// Whether answers to refreshes were ready in time.
    pub answers: Arc<Answers>,
    /// The current configuration, for background work: a reload replaces it.
    pub in_effect: Arc<ArcSwap<Config>>,
}

/// Version of the key ring that the signer follows.
struct KeysFollowed {
    /// Value of [`Store::keys_counter`] before the ring was read.
    counter: AtomicU64,
    /// Time at which the ring was last read. The lock serializes reads.
    turn: AsyncMutex<Instant>,
}

/// Parts from which [`Sealgate`] is assembled.
pub struct Parts {
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// The store's engine.
    pub engine: Arc<dyn Engine>,
    pub signer: Arc<dyn Signer>,
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// Assembles the state: opens the store, completes interrupted revocations, and settles the
    /// signing keys.
    ///
    /// # Errors
    /// The reason why the server cannot start.
    pub async fn assemble(self) -> Result<Sealgate, NotServing> {
        let Self { config, clock, entropy, engine, signer, metrics } = self;
        let shared_counts = engine.shared_counts();
        let store = Store::open(engine, config.sessions.max_interactions).await?;
        let store = store.of_node(config.token_holder().as_ref());
        store.settle_registrations(clock.now(), config.registration.unused).await?;
        let interrupted = store.carry_out_open_revocations(clock.now()).await?;
        if interrupted > 0 {
            tracing::warn!(interrupted, "completed revocations that the last stop interrupted");
        }
        settle_keys(&store, signer.as_ref(), &clock).await?;
        let limits = match shared_counts {
            Some(counts) => {
                let seed = store.limit_seed(random(entropy.as_ref())).await?;
                RequestLimits::of_node(seed, counts, Arc::clone(&metrics))
            }
            None => RequestLimits::new(random(entropy.as_ref()), random(entropy.as_ref())),
        };
        let config = Arc::new(config);
        Ok(Sealgate {
            attestations: Arc::new(read_attestations(&config, signer.as_ref())),
            rotation: Arc::new(RotationStatus::new(entropy.as_ref())),
            keys_followed: Arc::new(KeysFollowed {
                counter: AtomicU64::new(u64::MAX),
                turn: AsyncMutex::new(Instant::now()),
            }),
            issuer: Arc::new(Issuer::new(config.issuer.as_str().to_owned(), config.tokens.access_token, signer)),
            bearers: Arc::default(),
            trust: Arc::new(TrustedIssuers::open(&config.trusted_issuers)?),
            upstreams: Arc::default(),
            enrolment: Arc::default(),
            limits: Arc::new(limits),
            passwords: Arc::new(Passwords::new(&config.login).map_err(|error| no_thread(&error))?),
            pages: Arc::new(Pages::new(&config.pages)),
            metrics,
            audit: Arc::new(AuditLog::new(&config.audit)),
            answers: Arc::new(Answers::new(ProcessId::from_bytes(random(entropy.as_ref())))),
            store: Arc::new(store),
            clock,
            entropy,
            in_effect: Arc::new(ArcSwap::from(Arc::clone(&config))),
            config,
        })
    }
}

fn no_thread(error: &io::Error) -> Vec<String> {
    vec![format!(
        "cannot start login.password_threads threads: {error}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)"
    )]
}

/// Compares the keys in the PKCS#11 token with the key ring, and lets the signer follow the ring.
///
/// If this node has just been admitted, waits until its own key may sign.
async fn settle_keys(store: &Store, signer: &dyn Signer, clock: &Arc<dyn Clock>) -> Result<(), NotServing> {
    let mut is_told = false;
    let ring = loop {
        match settle_ring(store, signer, clock).await? {
            Ok(ring) => break ring,
            Err(fault @ KeyFault::Waiting { .. }) => {
                if !is_told {
                    tracing::warn!("{fault}");
                    is_told = true;
                }
                // Endorse the other nodes' keys now, because these nodes wait for the endorsement.
                endorsing::endorse(store, signer, clock.as_ref(), store.key_ring().await?).await?;
                tokio::time::sleep(SETTLING_PAUSE).await;
            }
            Err(fault) => return Err(vec![fault.to_string()].into()),
        }
    };
    signer.follow(ring, Arc::clone(clock));
    endorsing::join(store, signer, clock).await
}

async fn settle_ring(
    store: &Store,
    signer: &dyn Signer,
    clock: &Arc<dyn Clock>,
) -> Result<Result<KeyRing, KeyFault>, StoreError> {
    let found = signer.found();
    let kids: Vec<String> = found.iter().map(|key| key.kid.to_string()).collect();
    let now = clock.now();
    let reconciled = store.change_key_ring(|ring| {
        // Adopt the key of a rotation that stopped before announcing the key.
        found.iter().try_for_each(|key| ring.adopt(key.kid.as_str(), &key.id, now))?;
        ring.reconcile(&kids, now)
    });
    Ok(reconciled.await?.map_err(|fault| {
        let named = |kid: &String| found.iter().find(|key| key.kid.as_str() == kid);
        match fault {
            KeyFault::Unannounced(kids) => {
                let keys = kids.iter().filter_map(named);
                KeyFault::Unannounced(keys.map(|key| format!("{} with the CKA_ID {}", key.kid, key.id)).collect())
            }
            fault => fault,
        }
    }))
}

/// Reads the attestations of the published keys. Blocking I/O: call it only at a start.
fn read_attestations(config: &Config, signer: &dyn Signer) -> Attestations {
    let attestations = Attestations::new(config.hsm.attestation.clone());
    attestations.read(&published(signer));
    attestations
}

fn published(signer: &dyn Signer) -> Vec<String> {
    signer.key_set().iter().map(|key| key.kid().to_string()).collect()
}

impl Sealgate {
    /// Returns the state for a request to one of Sealgate's own pages with this cookie. Its store
    /// writes only while the session lasts: see [`Store::for_page`].
    #[must_use]
    pub fn for_page(&self, cookie: Option<&SessionCookie>) -> Self {
        Self { store: Arc::new(self.store.for_page(cookie)), ..self.clone() }
    }

    /// Returns whether e-mails are sent. This requires a mail server and a data key.
    pub fn sends_mail(&self) -> bool {
        self.config.mail.is_some() && self.store.seals()
    }

    /// Returns whether the outbox has room for an e-mail of this kind. Otherwise counts the e-mail
    /// as dropped.
    pub fn has_room_for(&self, kind: MailKind) -> bool {
        let has_room = self.store.has_room_for_mail(1);
        if !has_room {
            self.mail_dropped(kind);
        }
        has_room
    }

    /// Counts a dropped e-mail.
    pub fn mail_dropped(&self, kind: MailKind) {
        self.metrics.mail(kind, MailOutcome::Dropped);
    }

    /// Returns this state with the current configuration, for background work that began before a
    /// reload.
    ///
    /// The pages remain those of the earlier configuration.
    #[must_use]
    pub fn current(&self) -> Self {
        Self { config: self.in_effect.load_full(), ..self.clone() }
    }

    /// Returns this state with another configuration.
    ///
    /// Parts created at the start (the store, the signer, the password threads, the lifetime of
    /// access tokens) are unchanged. Their settings must therefore be equal in both configurations,
    /// see [`sealgate_config::Difference`].
    #[must_use]
    pub fn with(&self, config: Config) -> Self {
        let pages = Arc::new(Pages::new(&config.pages));
        Self { config: Arc::new(config), pages, ..self.clone() }
    }

    /// Reads attestations whose files changed, without blocking requests.
    pub async fn read_attestations(self: &Arc<Self>) {
        if !self.attestations.has_directory() {
            return;
        }
        let sealgate = Arc::clone(self);
        let read = move || sealgate.attestations.read(&published(sealgate.issuer.signer()));
        if let Err(error) = tokio::task::spawn_blocking(read).await {
            tracing::error!(%error, "cannot read the attestations; the last known ones stay in use");
        }
    }

    /// Reads the key ring from the store and lets the signer follow it.
    pub async fn follow_keys(&self) -> Result<(), StoreError> {
        let mut followed = self.keys_followed.turn.lock().await;
        self.read_keys(&mut followed).await
    }

    /// Reads the key ring if it has changed since the last read.
    ///
    /// Afterwards, a key that any node has removed verifies no tokens.
    async fn follow_changed_keys(&self) -> Result<(), StoreError> {
        if self.keys_followed.counter.load(Ordering::Acquire) == self.store.keys_counter() {
            return Ok(());
        }
        let following = async {
            let mut followed = self.keys_followed.turn.lock().await;
            // The previous lock holder may have read the ring already.
            if self.keys_followed.counter.load(Ordering::Acquire) == self.store.keys_counter() {
                return Ok(());
            }
            self.read_keys(&mut followed).await
        };
        let late = |_| EngineError::Unavailable("the token did not list its keys in time".to_owned());
        tokio::time::timeout(FOLLOWING_TIMEOUT, following).await.map_err(late)?
    }

    /// Reads the ring and lets the signer follow it. The caller holds the lock, so that no older
    /// ring replaces a newer one.
    async fn read_keys(&self, read_at: &mut Instant) -> Result<(), StoreError> {
        let (began, counter) = (Instant::now(), self.store.keys_counter());
        let ring = self.store.key_ring().await?;
        self.issuer.signer().follow(ring, Arc::clone(&self.clock));
        self.keys_followed.counter.store(counter, Ordering::Release);
        *read_at = began;
        Ok(())
    }

    /// Makes the signer use this ring at once.
    ///
    /// The next use reads the ring again, because another node may have changed the ring in the
    /// meantime.
    pub fn follow_ring(&self, ring: KeyRing) {
        self.issuer.signer().follow(ring, Arc::clone(&self.clock));
        self.keys_followed.counter.store(u64::MAX, Ordering::Release);
    }

    /// Returns whether the key's signature of the message is valid. `signature` is base64url.
    pub fn has_signed(&self, key: &PublicJwk, message: &[u8], signature: &str) -> bool {
        PublicKey::has_signed(key, message, signature)
    }

    /// Returns whether the key set may be served.
    ///
    /// It must have been read recently: within half the publication time of a key. A set that lacks
    /// an active signing key is worse than none.
    pub async fn can_show_keys(&self) -> bool {
        // Without the database, serve the previous set without waiting.
        if self.store.basis().is_ok() && self.follow_changed_keys().await.is_ok() && self.store.basis().is_ok() {
            return true;
        }
        let read_at = *self.keys_followed.turn.lock().await;
        read_at.elapsed() <= self.config.keys.times.publish / 2
    }

    /// Returns the client with this ID: see [`clients::find`].
    pub async fn client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        clients::find(&self.store, &self.config, id).await
    }

    /// Returns the client registered with this ID: see [`clients::registered`].
    pub async fn registered_client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        clients::registered(&self.store, &self.config, id).await
    }

    /// Verifies a presented access token against the current store: see [`Bearers::verify`].
    pub async fn bearer(&self, token: &str, now: UnixTime) -> Result<Arc<Bearer>, BearerFault> {
        let basis = self.store.basis()?;
        self.follow_changed_keys().await?;
        let bearer = self.bearers.verify(&self.issuer, &self.store, &self.config, token, now).await?;
        self.store.ensure_current(&basis)?;
        Ok(bearer)
    }
}

/// Reason why the server did not start.
#[derive(Debug)]
pub struct NotServing {
    /// Messages for the operator, one per problem.
    pub lines: Vec<String>,
    /// Whether a retry may succeed without intervention, for instance after a database failover or
    /// when a token device is back. The systemd unit then retries.
    pub may_pass: bool,
}

impl From<Vec<String>> for NotServing {
    fn from(lines: Vec<String>) -> Self {
        Self { lines, may_pass: false }
    }
}

impl From<StoreError> for NotServing {
    fn from(error: StoreError) -> Self {
        Self { lines: vec![format!("store: {error}")], may_pass: error.may_pass() }
    }
}

impl From<PostgresFault> for NotServing {
    fn from(fault: PostgresFault) -> Self {
        Self { lines: vec![fault.to_string()], may_pass: fault.may_pass() }
    }
}
