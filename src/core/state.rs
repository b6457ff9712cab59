//! State of a running node, which all request handlers share, and errors at startup.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Mutex as AsyncMutex;

use crate::answers::Answers;
use crate::audit::AuditLog;
use crate::endorsing;
use crate::exports::Exports;
use crate::limits::RequestLimits;
use crate::overview::OverviewCache;
use crate::password::Passwords;
use crate::probes::MachineProbes;
use crate::refusals::RecentRefusals;
use crate::reload::ReloadHandle;
use crate::sources::Sources;
use crate::status::{EnrolmentStatus, RotationStatus, ServedCertificates, UpstreamStates};
use crate::tokens::bearer::{Bearer, BearerFault, Bearers};
use crate::tokens::client_key_sets::ClientKeySets;
use crate::tokens::clients;
use crate::tokens::documents::ClientDocuments;
use crate::tokens::issuer::Issuer;
use crate::tokens::trusted::TrustedIssuers;
use crate::user_list::UserLists;
use sealgate_config::Config;
use sealgate_domain::answers::ProcessId;
use sealgate_domain::api_token::ApiToken;
use sealgate_domain::client::{Client, ClientFeature, ClientId};
use sealgate_domain::key_ring::{KeyFault, KeyRing, PublicJwk};
use sealgate_domain::mail::MailKind;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::session::SessionCookie;
use sealgate_domain::time::UnixTime;
use sealgate_pages::Pages;
use sealgate_signer::attestation::Attestations;
use sealgate_signer::{PublicKey, Signer};
use sealgate_store::engine::{Engine, EngineError};
use sealgate_store::postgres::PostgresFault;
use sealgate_store::{ProtectedUsers, Store, StoreError, UserRule};
use sealgate_system::clock::{Clock, Entropy, random};
use sealgate_system::metrics::{MailOutcome, Metrics};
use sealgate_system::read_mostly::LocalRef;
use sealgate_upstream::AssertionSigner;

/// Interval at which a starting node checks whether its key may sign.
const SETTLING_PAUSE: Duration = Duration::from_millis(250);

/// Maximum time that a request waits for the changed key ring.
///
/// Requests read the ring one after another. Without the timeout, each request would wait for all
/// earlier requests while the database does not respond.
const KEY_RING_TIMEOUT: Duration = Duration::from_secs(2);

/// State of a node, shared by all requests and background tasks.
///
/// A reload of the configuration creates a new value that shares the long-lived parts: see
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
    key_ring_reads: Arc<KeyRingReads>,
    /// Cache of valid access tokens.
    pub bearers: Arc<Bearers>,
    /// Other issuers whose tokens some applications accept.
    pub trust: Arc<TrustedIssuers>,
    /// Metadata documents of clients whose identifier is a URL.
    pub documents: Arc<ClientDocuments>,
    /// Key sets of clients with a `jwks_uri`.
    pub client_key_sets: Arc<ClientKeySets>,
    /// Directories and OpenID providers whose users sign in.
    pub sources: Arc<Sources>,
    /// Whether the servers of each application accept connections.
    pub upstreams: Arc<UpstreamStates>,
    /// Certificates that the listeners present.
    pub certificates: Arc<ServedCertificates>,
    /// Number of users with each second factor.
    pub enrolment: Arc<EnrolmentStatus>,
    /// List of all users, for the console.
    pub user_lists: UserLists,
    /// Figures of the console's overview.
    pub overview: OverviewCache,
    /// Conditions of the machine for the console's overview.
    pub probes: MachineProbes,
    /// Recent refusals of the gateway.
    pub refusals: Arc<RecentRefusals>,
    /// Limits of requests and of password guesses.
    pub limits: Arc<RequestLimits>,
    pub passwords: Arc<Passwords>,
    pub pages: Arc<Pages>,
    pub metrics: Arc<Metrics>,
    pub audit: Arc<AuditLog>,
    /// Log of this process's answers to refreshes.
    pub answers: Arc<Answers>,
    /// Last read of whether clients need each feature, by number of the feature.
    client_features: Arc<[LastFeatureRead; ClientFeature::COUNT]>,
    /// Configuration that the last reload put into effect, for background tasks that outlive
    /// reloads.
    pub in_effect: Arc<ArcSwap<Config>>,
    /// Reload of the configuration.
    pub reload: Arc<ReloadHandle>,
    /// Exports of the audit log that run.
    pub exports: Arc<Exports>,
}

/// Whether clients need a feature, and [`Store::clients_counter`] before that was read. `None` before the
/// first read.
type LastFeatureRead = Mutex<Option<(u64, bool)>>;

/// Last read of the key ring, which the signer uses.
struct KeyRingReads {
    /// Value of [`Store::keys_counter`] before the ring was read.
    counter: AtomicU64,
    /// Time at which the ring was last read. The lock serializes reads.
    turn: AsyncMutex<Instant>,
}

/// Dependencies of [`Sealgate`] that its caller creates.
pub struct Parts {
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub engine: Arc<dyn Engine>,
    pub signer: Arc<dyn Signer>,
    /// Signs requests to the OpenID providers whose users sign in.
    pub client_keys: Arc<dyn AssertionSigner>,
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// Opens the store, completes interrupted revocations, reconciles the signing keys with the key
    /// ring, and returns the state.
    ///
    /// # Errors
    /// [`NotServing`] with the reasons why the server cannot start.
    pub async fn assemble(self) -> Result<Sealgate, NotServing> {
        let Self { config, clock, entropy, engine, signer, client_keys, metrics } = self;
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
            key_ring_reads: Arc::new(KeyRingReads {
                counter: AtomicU64::new(u64::MAX),
                turn: AsyncMutex::new(Instant::now()),
            }),
            issuer: Arc::new(Issuer::new(config.issuer.as_str().to_owned(), config.tokens.access_token, signer)),
            bearers: Arc::new(Bearers::new(config.server.threads)),
            trust: Arc::new(TrustedIssuers::open(&config.trusted_issuers)?),
            documents: Arc::default(),
            client_key_sets: Arc::default(),
            sources: Arc::new(Sources::open(&config.directories, &config.upstreams, &client_keys, &metrics, &clock)?),
            upstreams: Arc::default(),
            certificates: Arc::default(),
            enrolment: Arc::default(),
            user_lists: UserLists::default(),
            overview: OverviewCache::default(),
            probes: MachineProbes::default(),
            refusals: Arc::default(),
            limits: Arc::new(limits),
            passwords: Arc::new(Passwords::new(&config.login).map_err(|error| no_thread(&error))?),
            pages: Arc::new(Pages::new(&config.pages)),
            metrics,
            audit: Arc::new(AuditLog::new(&config.audit)),
            answers: Arc::new(Answers::new(ProcessId::from_bytes(random(entropy.as_ref())))),
            store: Arc::new(store),
            client_features: Arc::default(),
            clock,
            entropy,
            in_effect: Arc::new(ArcSwap::from(Arc::clone(&config))),
            reload: Arc::default(),
            exports: Arc::default(),
            config,
        })
    }
}

fn no_thread(error: &io::Error) -> Vec<String> {
    vec![format!(
        "cannot start login.password_threads threads: {error}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)"
    )]
}

/// Reconciles the keys in the PKCS#11 token with the key ring, and passes the ring to the signer.
///
/// Waits until this node's own key may sign, if the node has just been admitted to the cluster.
async fn settle_keys(store: &Store, signer: &dyn Signer, clock: &Arc<dyn Clock>) -> Result<(), NotServing> {
    let mut is_logged = false;
    let ring = loop {
        match settle_ring(store, signer, clock).await? {
            Ok(ring) => break ring,
            Err(fault @ KeyFault::Waiting { .. }) => {
                if !is_logged {
                    tracing::warn!("{fault}");
                    is_logged = true;
                }
                // Endorse the keys of other nodes while this node waits, because those nodes may be
                // waiting for this node too.
                endorsing::endorse(store, signer, clock.as_ref(), store.key_ring().await?).await?;
                tokio::time::sleep(SETTLING_PAUSE).await;
            }
            Err(fault) => return Err(vec![fault.to_string()].into()),
        }
    };
    signer.set_key_ring(ring, Arc::clone(clock));
    endorsing::join(store, signer, clock).await
}

async fn settle_ring(
    store: &Store,
    signer: &dyn Signer,
    clock: &Arc<dyn Clock>,
) -> Result<Result<KeyRing, KeyFault>, StoreError> {
    let key_reports = signer.key_reports();
    let now = clock.now();
    let reconciled = store.change_key_ring(|ring| {
        let is_first = ring.keys().is_empty();
        for algorithm in Algorithm::ALL.map(|(_, algorithm)| algorithm) {
            ring.select(algorithm);
            let own: Vec<_> = key_reports.iter().filter(|key| key.alg == algorithm).collect();
            // Adopt the key of a rotation that was interrupted before it announced the key.
            own.iter().try_for_each(|key| ring.adopt(key.kid.as_str(), &key.id, now))?;
            let kids: Vec<String> = own.iter().map(|key| key.kid.to_string()).collect();
            match algorithm {
                Algorithm::Rs256 => ring.reconcile(&kids, now)?,
                // The configuration does not name the algorithm.
                _ if kids.is_empty() => {}
                _ => ring.reconcile_further(&kids, is_first, now)?,
            }
        }
        Ok(())
    });
    Ok(reconciled.await?.map_err(|fault| {
        let find = |kid: &String| key_reports.iter().find(|key| key.kid.as_str() == kid);
        match fault {
            KeyFault::Unannounced(kids) => {
                let keys = kids.iter().filter_map(find);
                KeyFault::Unannounced(keys.map(|key| format!("{} with the CKA_ID {}", key.kid, key.id)).collect())
            }
            fault => fault,
        }
    }))
}

/// Reads the vendor attestations of the published keys. Blocking I/O: call it only at startup.
fn read_attestations(config: &Config, signer: &dyn Signer) -> Attestations {
    let attestations = Attestations::new(config.hsm.attestation.clone());
    attestations.refresh(&published(signer));
    attestations
}

fn published(signer: &dyn Signer) -> Vec<String> {
    signer.key_set().iter().map(|key| key.kid().to_string()).collect()
}

impl Sealgate {
    /// Returns the state for a request with this session cookie to one of Sealgate's own pages. The
    /// store of the returned state writes only while the session is valid: see [`Store::for_page`].
    #[must_use]
    pub fn for_page(&self, cookie: Option<&SessionCookie>) -> Self {
        Self { store: Arc::new(self.store.for_page(cookie)), ..self.clone() }
    }

    /// Returns the state for a request with this token for the admin API. The store of the returned
    /// state refuses commits that the token does not permit: see [`Store::for_api_token`].
    #[must_use]
    pub fn for_api_token(&self, token: &ApiToken, creator: UserRule, protected: Option<ProtectedUsers>) -> Self {
        Self { store: Arc::new(self.store.for_api_token(token, creator, protected)), ..self.clone() }
    }

    /// Returns whether a registered client needs this feature. Reads the store only if clients have
    /// changed. While the store cannot be read, returns the last result.
    pub async fn has_client_with(&self, feature: ClientFeature) -> bool {
        let last = &self.client_features[feature as usize];
        // The counter is read before the clients, so that a later change is noticed.
        let counter = self.store.clients_counter();
        let known = *last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = known
            && at == counter
        {
            return found;
        }
        match self.store.has_client_with(feature).await {
            Ok(found) => {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((counter, found));
                found
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read which features clients need");
                known.is_some_and(|(_, found)| found)
            }
        }
    }

    /// Returns whether e-mail can be sent. This requires a mail server and a data key.
    pub fn sends_mail(&self) -> bool {
        self.config.mail.is_some() && self.store.can_encrypt()
    }

    /// Returns whether the outbox has room for an e-mail of this kind. If not, counts the e-mail as
    /// dropped.
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

    /// Returns this state with the configuration of the last reload, for background tasks that
    /// began earlier.
    ///
    /// `pages` still has the earlier configuration.
    #[must_use]
    pub fn current(&self) -> Self {
        Self { config: self.in_effect.load_full(), ..self.clone() }
    }

    /// Returns this state with another configuration.
    ///
    /// Parts created at startup are unchanged: the store, the signer, the password threads, the
    /// lifetime of access tokens. Their settings must be equal in both configurations: see
    /// [`sealgate_config::Difference`].
    #[must_use]
    pub fn with(&self, config: Config) -> Self {
        let pages = Arc::new(Pages::new(&config.pages));
        // Verified tokens depend on the resources and service accounts of the configuration.
        let bearers = Arc::new(Bearers::new(config.server.threads));
        Self { config: Arc::new(config), pages, bearers, ..self.clone() }
    }

    /// Reads the attestations whose files have changed, on a blocking thread.
    pub async fn read_attestations(self: &Arc<Self>) {
        if !self.attestations.has_directory() {
            return;
        }
        let sealgate = Arc::clone(self);
        let refresh = move || sealgate.attestations.refresh(&published(sealgate.issuer.signer()));
        if let Err(error) = tokio::task::spawn_blocking(refresh).await {
            tracing::error!(%error, "cannot read the attestations; the previous attestations stay in use");
        }
    }

    /// Reads the key ring from the store and passes it to the signer.
    pub async fn reload_key_ring(&self) -> Result<(), StoreError> {
        let mut followed = self.key_ring_reads.turn.lock().await;
        self.read_keys(&mut followed).await
    }

    /// Reads the key ring if it has changed since the last read.
    ///
    /// Afterwards, keys that a node has removed no longer verify tokens.
    async fn reload_changed_key_ring(&self) -> Result<(), StoreError> {
        if self.key_ring_reads.counter.load(Ordering::Acquire) == self.store.keys_counter() {
            return Ok(());
        }
        let following = async {
            let mut followed = self.key_ring_reads.turn.lock().await;
            // The previous lock holder may have read the ring already.
            if self.key_ring_reads.counter.load(Ordering::Acquire) == self.store.keys_counter() {
                return Ok(());
            }
            self.read_keys(&mut followed).await
        };
        let late = |_| EngineError::Unavailable("the token did not list its keys in time".to_owned());
        tokio::time::timeout(KEY_RING_TIMEOUT, following).await.map_err(late)?
    }

    /// Reads the ring and passes it to the signer. The caller holds the lock, so that no older ring
    /// replaces a newer one.
    async fn read_keys(&self, read_at: &mut Instant) -> Result<(), StoreError> {
        let (began, counter) = (Instant::now(), self.store.keys_counter());
        let ring = self.store.key_ring().await?;
        self.issuer.signer().set_key_ring(ring, Arc::clone(&self.clock));
        self.key_ring_reads.counter.store(counter, Ordering::Release);
        *read_at = began;
        Ok(())
    }

    /// Passes this ring to the signer at once.
    ///
    /// The next request reads the ring again, because another node may have changed the ring in the
    /// meantime.
    pub fn set_key_ring(&self, ring: KeyRing) {
        self.issuer.signer().set_key_ring(ring, Arc::clone(&self.clock));
        self.key_ring_reads.counter.store(u64::MAX, Ordering::Release);
    }

    /// Returns whether the key's signature of the message is valid. `signature` is base64url.
    pub fn has_signed(&self, key: &PublicJwk, message: &[u8], signature: &str) -> bool {
        PublicKey::has_signed(key, message, signature)
    }

    /// Returns whether the key set may be served.
    ///
    /// The ring must have been read within half the publication time of a key. Clients that cache a
    /// set without the active signing key would reject valid tokens.
    pub async fn can_show_keys(&self) -> bool {
        // While the database does not respond, do not wait; serve the previous set.
        if self.store.basis().is_ok() && self.reload_changed_key_ring().await.is_ok() && self.store.basis().is_ok() {
            return true;
        }
        let read_at = *self.key_ring_reads.turn.lock().await;
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
    pub async fn bearer(&self, token: &str, now: UnixTime) -> Result<LocalRef<Bearer>, BearerFault> {
        let basis = self.store.basis()?;
        self.reload_changed_key_ring().await?;
        let bearer = self.bearers.verify(&self.issuer, &self.store, &self.config, token, now).await?;
        self.store.ensure_current(&basis)?;
        Ok(bearer)
    }
}

/// Reasons why the server did not start.
#[derive(Debug)]
pub struct NotServing {
    /// Messages for the operator, one per problem.
    pub lines: Vec<String>,
    /// Whether a retry may succeed without intervention, for instance after a database failover.
    /// The systemd unit then retries.
    pub is_transient: bool,
}

impl From<Vec<String>> for NotServing {
    fn from(lines: Vec<String>) -> Self {
        Self { lines, is_transient: false }
    }
}

impl From<StoreError> for NotServing {
    fn from(error: StoreError) -> Self {
        Self { lines: vec![format!("store: {error}")], is_transient: error.is_transient() }
    }
}

impl From<PostgresFault> for NotServing {
    fn from(fault: PostgresFault) -> Self {
        Self { lines: vec![fault.to_string()], is_transient: fault.is_transient() }
    }
}
