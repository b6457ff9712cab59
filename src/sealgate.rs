//! The shared capabilities, handed as `&Sealgate` to every endpoint and to the gate. No logic beyond putting them
//! together and finding a client.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ambient::{Clock, Entropy, random};
use crate::attestation::Attestations;
use crate::audit::Trail;
use crate::bearer::Bearers;
use crate::config::{App, Config};
use crate::issuer::Issuer;
use crate::lateness::Lateness;
use crate::limiter::{Brake, Limiter};
use crate::metrics::Metrics;
use crate::page::Pages;
use crate::password::Passwords;
use crate::protocol::client::{
    AuthMethod, Client, ClientDetails, ClientId, ClientState, ClientType, ConsentRule, GrantType,
};
use crate::protocol::key_life::KeyFault;
use crate::protocol::redirect_uri::RedirectUri;
use crate::protocol::scope::ScopeValue;
use crate::protocol::time::UnixTime;
use crate::rotation::Rotation;
use crate::signer::Signer;
use crate::store::engine::Engine;
use crate::store::{Store, StoreError};
use crate::trust::Trust;

pub use crate::protocol::client::INTERNAL_CLIENT;

/// The client through which people sign in to our own pages. The name after the prefix is none that an application can
/// have.
pub const OWN_CLIENT: &str = "sealgate-app-~own";

/// The provider's own pages that people sign in to see: the addresses to which a sign-in may come back.
pub const OWN_PAGES: &[&str] = &[
    "/",
    "/account",
    "/account/password",
    "/account/sessions",
    "/account/applications",
    "/account/app-passwords",
    "/account/activity",
    "/console",
    "/console/clients/new",
    "/console/users",
    "/console/users/new",
    "/console/keys",
    "/console/applications",
    "/console/settings",
    "/console/audit",
];

/// Where a protected application's sign-in comes back to, on its own host.
pub const CALLBACK: &str = "/.sealgate/callback";

/// Whether the applications' servers take connections, as the edge last told.
#[derive(Debug, Default)]
pub struct UpstreamStates(Mutex<Vec<(String, String, bool)>>);

impl UpstreamStates {
    /// Takes in what is known now: application, server, whether it takes connections.
    pub fn tell(&self, states: Vec<(String, String, bool)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// The servers of an application.
    pub fn of(&self, app: &str) -> Vec<(String, bool)> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_app = states.iter().filter(|(name, ..)| name == app);
        of_app.map(|(_, server, alive)| (server.clone(), *alive)).collect()
    }
}

/// Everything that a request may need. A reload of the configuration makes a new one, which shares with the one before
/// all that lasts: see [`Sealgate::with`].
#[derive(Clone)]
pub struct Sealgate {
    /// The settings.
    pub config: Arc<Config>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// State.
    pub store: Arc<Store>,
    /// Tokens.
    pub issuer: Arc<Issuer>,
    /// The vendor's word on the published keys.
    pub attestations: Arc<Attestations>,
    /// How rotation by this server goes.
    pub rotation: Arc<Rotation>,
    /// Access tokens that were found to stand.
    pub bearers: Arc<Bearers>,
    /// Other issuers whose tokens some applications take.
    pub trust: Arc<Trust>,
    /// Whether the servers of the applications take connections.
    pub upstreams: Arc<UpstreamStates>,
    /// Rate limits.
    pub limiter: Arc<Limiter>,
    /// Guesses of passwords, slowed down.
    pub brake: Arc<Brake>,
    /// Password checks.
    pub passwords: Arc<Passwords>,
    /// The pages' templates and words.
    pub pages: Arc<Pages>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What happened, for whoever asks later.
    pub audit: Arc<Trail>,
    /// Answers to refreshes that came late.
    pub lateness: Arc<Lateness>,
}

/// What the capabilities are made of.
pub struct Parts {
    /// The settings.
    pub config: Config,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// What keeps the bytes.
    pub engine: Arc<dyn Engine>,
    /// What signs.
    pub signer: Arc<dyn Signer>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// The capabilities.
    ///
    /// # Errors
    /// One line each.
    pub async fn assemble(self) -> Result<Sealgate, Vec<String>> {
        let line = |what: &str, error: &dyn std::fmt::Display| vec![format!("{what}: {error}")];
        let Self { config, clock, entropy, engine, signer, metrics } = self;
        let store =
            Store::open(engine, config.sessions.max_interactions).await.map_err(|error| line("store", &error))?;
        let settled = store.settle_registrations(clock.now(), config.registration.unused).await;
        settled.map_err(|error| line("store", &error))?;
        settle_keys(&store, signer.as_ref(), &clock).await?;
        Ok(Sealgate {
            attestations: Arc::new(read_attestations(&config, signer.as_ref())),
            rotation: Arc::new(Rotation::new(entropy.as_ref())),
            issuer: Arc::new(Issuer::new(config.issuer.as_str().to_owned(), config.tokens.access_token, signer)),
            bearers: Arc::default(),
            trust: Arc::new(Trust::open(&config.trusted_issuers)?),
            upstreams: Arc::default(),
            limiter: Arc::new(Limiter::new(random(entropy.as_ref()))),
            brake: Arc::new(Brake::new(random(entropy.as_ref()))),
            passwords: Arc::new(Passwords::new(&config.login).map_err(|error| no_thread(&error))?),
            pages: Arc::new(Pages::new(&config.pages).map_err(|error| line("pages", &error))?),
            metrics,
            audit: Arc::new(Trail::new(&config.audit)),
            lateness: Arc::default(),
            store: Arc::new(store),
            clock,
            entropy,
            config: Arc::new(config),
        })
    }
}

fn no_thread(error: &io::Error) -> Vec<String> {
    vec![format!(
        "cannot start login.password_threads threads: {error}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)"
    )]
}

/// Compares the keys in the token with those that were announced, and lets the signer follow their times.
async fn settle_keys(store: &Store, signer: &dyn Signer, clock: &Arc<dyn Clock>) -> Result<(), Vec<String>> {
    let found = signer.found();
    let kids: Vec<String> = found.iter().map(|key| key.kid.to_string()).collect();
    let now = clock.now();
    let settled = store.change_key_ring(|ring| {
        // A rotation that died between making its key and announcing it.
        found.iter().try_for_each(|key| ring.adopt(key.kid.as_str(), &key.id, now))?;
        ring.settle(&kids, now)
    });
    let settled = settled.await;
    let ring = settled.map_err(|error| vec![format!("store: {error}")])?.map_err(|fault| {
        let named = |kid: &String| found.iter().find(|key| key.kid.as_str() == kid);
        vec![match &fault {
            KeyFault::Unannounced(kids) => {
                let keys = kids.iter().filter_map(named);
                let keys = keys.map(|key| format!("{} with the CKA_ID {}", key.kid, key.id)).collect();
                KeyFault::Unannounced(keys).to_string()
            }
            fault => fault.to_string(),
        }]
    })?;
    signer.follow(ring, Arc::clone(clock));
    Ok(())
}

/// Reads the attestations of the published keys; blocks on the disk, which is right at a start.
fn read_attestations(config: &Config, signer: &dyn Signer) -> Attestations {
    let attestations = Attestations::new(config.hsm.attestation.clone());
    attestations.read(&published(signer));
    attestations
}

fn published(signer: &dyn Signer) -> Vec<String> {
    signer.key_set().iter().map(|key| key.kid().to_string()).collect()
}

impl Sealgate {
    /// The same capabilities under other settings. What is made at the start of the settings (the store, the signer, the
    /// password threads, the lifetime of access tokens) stays as it is: the new settings say the same of it, see
    /// [`crate::config::Difference`].
    ///
    /// # Errors
    /// One line each.
    pub fn with(&self, config: Config) -> Result<Self, Vec<String>> {
        let pages = Pages::new(&config.pages).map_err(|error| vec![format!("pages: {error}")])?;
        Ok(Self { config: Arc::new(config), pages: Arc::new(pages), ..self.clone() })
    }

    /// Reads the attestations that have changed, away from whoever waits for a request.
    pub async fn read_attestations(self: &Arc<Self>) {
        if !self.attestations.has_directory() {
            return;
        }
        let sealgate = Arc::clone(self);
        let read = move || sealgate.attestations.read(&published(sealgate.issuer.signer()));
        if let Err(error) = tokio::task::spawn_blocking(read).await {
            tracing::error!(%error, "the attestations could not be read; those known go on");
        }
    }

    /// Lets the signer follow what stands in the store now: somebody may have changed it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn follow_keys(&self) -> Result<(), StoreError> {
        let ring = self.store.key_ring().await?;
        self.issuer.signer().follow(ring, Arc::clone(&self.clock));
        Ok(())
    }

    /// The client with this id: a protected application's own, or a registered one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        match id.as_str().strip_prefix(INTERNAL_CLIENT) {
            Some(_) if id.as_str() == OWN_CLIENT => Ok(self.own_client()),
            Some(name) => Ok(self.config.apps.iter().find(|app| app.name == name).and_then(|app| self.of_app(app))),
            None => self.registered_client(id).await,
        }
    }

    /// The client that was registered under this id, with the scope that it may have as this server is configured.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn registered_client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        let client = self.store.client(id).await?;
        Ok(client.map(|client| {
            if self.config.tokens.groups_scope {
                return client;
            }
            Client { scope: client.scope.without(ScopeValue::Groups), ..client }
        }))
    }

    /// The client of our own pages. It never gets a code: the browser's session is all that they need.
    fn own_client(&self) -> Option<Client> {
        let uri = |page: &&str| RedirectUri::of_application(&format!("{}{page}", self.config.issuer.as_str()));
        let uris = OWN_PAGES.iter().map(uri).collect();
        let client = first_party(ClientId::parse(OWN_CLIENT)?, self.config.pages.operator.clone(), uris);
        // Without a code there is nothing that PKCE could bind; without a secret it is nobody at the token endpoint.
        Some(Client { client_type: ClientType::Confidential, ..client })
    }

    /// The client through which people sign in to a protected application: first-party, so nobody is asked for consent,
    /// and known to the authorization endpoint only.
    fn of_app(&self, app: &App) -> Option<Client> {
        let redirect_uri = RedirectUri::of_application(&format!("{}{CALLBACK}", app.origin(&self.config.issuer)));
        let id = ClientId::parse(&format!("{INTERNAL_CLIENT}{}", app.name))?;
        Some(first_party(id, app.called().to_owned(), vec![redirect_uri]))
    }
}

fn first_party(id: ClientId, name: String, redirect_uris: Vec<RedirectUri>) -> Client {
    Client {
        id,
        name,
        client_type: ClientType::Public,
        auth_method: AuthMethod::None,
        secrets: Vec::new(),
        redirect_uris,
        post_logout_redirect_uris: Vec::new(),
        scope: [ScopeValue::OpenId, ScopeValue::Profile, ScopeValue::Email].into_iter().collect(),
        grant_types: vec![GrantType::AuthorizationCode],
        consent: ConsentRule::Implied,
        state: ClientState::Enabled,
        created_at: UnixTime::from_seconds(0),
        incarnation: 0,
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: None,
        token_limit: None,
        approval: None,
        disabled: None,
    }
}
