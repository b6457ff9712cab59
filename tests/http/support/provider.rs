//! Provider under test.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use sealgate_config::{Config, SledConfig, StoreConfig};
use sealgate_core::sources::NoClientKeys;
use sealgate_core::state::{Parts, Sealgate};
use sealgate_domain::client;
use sealgate_domain::error::Refusal;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_edge::origin::Origin;
use sealgate_provider as provider;
use sealgate_signer::Signer;
use sealgate_store::AddOutcome;
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::postgres::{PostgresEngine, PostgresSettings};
use sealgate_store::sealer::Sealer;
use sealgate_store::sled::SledEngine;
use sealgate_system::clock::{Clock, FixedClock, OsEntropy};
use sealgate_system::metrics::Metrics;

use crate::configuration::Configuration;
use crate::meddler::Meddler;
use crate::records;

use super::{Browser, Client, ISSUER, Reply, SIGNED_OUT_URI, token_device};

/// Source of unique incarnations for clients.
static INCARNATIONS: AtomicU32 = AtomicU32::new(1);

/// Sealing key of the tests. In production the token wraps it.
const DATA_KEY: [u8; 32] = [7; 32];

/// Returns a minimal configuration with additional sections.
pub(crate) fn settings(more: &str) -> String {
    Configuration { issuer: ISSUER, ..Configuration::default() }.text(more, "")
}

/// Provider with three clients (`c1` and `c2` confidential, `p1` public) and two users.
pub(crate) struct Provider {
    pub(crate) sealgate: Arc<Sealgate>,
    pub(crate) engine: Arc<MemoryEngine>,
    pub(crate) clock: Arc<FixedClock>,
    /// User with all claims.
    pub(crate) anna: User,
    /// User with only the required claims.
    pub(crate) ben: User,
}

/// Assembles the provider from these parts, with a data key.
async fn sealing(parts: Parts) -> Arc<Sealgate> {
    let mut sealgate = parts.assemble().await.unwrap();
    let store = Arc::into_inner(sealgate.store).expect("no other reference exists yet");
    let most_forms = sealgate.config.sessions.max_forms;
    sealgate.store = Arc::new(store.sealing_with(Sealer::new(&DATA_KEY).unwrap(), most_forms).await.unwrap());
    Arc::new(sealgate)
}

impl Provider {
    /// Creates a provider with the default settings.
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// Creates a provider with additional sections in its configuration.
    pub(crate) async fn with(more: &str) -> Self {
        Self::changed(more, |_| {}).await
    }

    /// Creates a provider with additional sections, and changes that a configuration without files
    /// cannot express.
    pub(crate) async fn changed(more: &str, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::parse(&settings(more), Path::new("/nowhere")).unwrap();
        change(&mut config);
        let clock = Arc::new(FixedClock::at(UnixTime::from_seconds(1_800_000_000)));
        let engine = Arc::new(MemoryEngine::default());
        let parts = Parts {
            config,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine: Arc::clone(&engine) as Arc<dyn Engine>,
            signer: token_device::signer(),
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        let sealgate = Box::pin(sealing(parts)).await;
        let provider = Self {
            anna: person(1, "anna@example.test", "Anna Şahin", true, clock.now()),
            ben: person(2, "ben@example.test", "Ben", false, clock.now()),
            sealgate,
            engine,
            clock,
        };
        for user in [&provider.anna, &provider.ben] {
            assert_eq!(provider.sealgate.store.add_user(user).await.unwrap(), AddOutcome::Added);
        }
        for id in ["c1", "c2"] {
            provider.add_client(provider.confidential(id)).await;
        }
        provider.add_client(provider.public("p1")).await;
        provider
    }

    /// Creates a provider on an engine in which a test stops requests between their steps.
    pub(crate) async fn meddled() -> (Self, Arc<Meddler>) {
        Self::meddled_with("").await
    }

    /// Does the same as `meddled`, with additional sections in its configuration.
    pub(crate) async fn meddled_with(more: &str) -> (Self, Arc<Meddler>) {
        let provider = Self::with(more).await;
        let meddler = Meddler::over(Arc::clone(&provider.engine));
        let sealgate = provider.again_with(more, Arc::clone(&meddler) as Arc<dyn Engine>, token_device::signer()).await;
        (Self { sealgate, ..provider }, meddler)
    }

    /// Starts another provider with the same records and clock, on this engine and with this
    /// signer.
    pub(crate) async fn again(&self, engine: Arc<dyn Engine>, signer: Arc<dyn Signer>) -> Arc<Sealgate> {
        self.again_with("", engine, signer).await
    }

    /// Does the same as `again`, with additional sections in its configuration.
    pub(crate) async fn again_with(
        &self,
        more: &str,
        engine: Arc<dyn Engine>,
        signer: Arc<dyn Signer>,
    ) -> Arc<Sealgate> {
        let parts = Parts {
            config: Config::parse(&settings(more), Path::new("/nowhere")).unwrap(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine,
            signer,
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        Box::pin(sealing(parts)).await
    }

    /// Returns another provider on the same records, with other sections in its configuration.
    pub(crate) async fn with_settings(&self, more: &str) -> Self {
        let engine = Arc::clone(&self.engine) as Arc<dyn Engine>;
        Self {
            sealgate: self.again_with(more, engine, token_device::signer()).await,
            engine: Arc::clone(&self.engine),
            clock: Arc::clone(&self.clock),
            anna: self.anna.clone(),
            ben: self.ben.clone(),
        }
    }

    /// Returns the provider on a store on disk, with the same users and clients.
    pub(crate) async fn on_disk(self, more: &str, path: &Path) -> Self {
        let StoreConfig::Sled(settings) = self.sealgate.config.store.clone() else { panic!("it has files") };
        let settings = SledConfig { path: path.join("store"), ..settings };
        let engine = Arc::new(SledEngine::open(&settings, Arc::new(())).unwrap());
        let sealgate = self.again_with(more, engine, token_device::signer()).await;
        for user in [&self.anna, &self.ben] {
            assert_eq!(sealgate.store.add_user(user).await.unwrap(), AddOutcome::Added);
        }
        let provider = Self { sealgate, ..self };
        for client in [provider.confidential("c1"), provider.confidential("c2"), provider.public("p1")] {
            provider.add_client(client).await;
        }
        provider
    }

    /// Starts this number of nodes on one PostgreSQL store and one clock, with the same users and
    /// clients.
    pub(crate) async fn cluster(nodes: usize, more: &str, settings: &PostgresSettings) -> Vec<Arc<Self>> {
        let base = Self::with(more).await;
        let mut cluster = Vec::new();
        for _ in 0..nodes {
            let engine = Arc::new(PostgresEngine::open(settings, Arc::new(())).await.unwrap());
            let sealgate = base.again_with(more, engine, token_device::signer()).await;
            let (engine, clock) = (Arc::clone(&base.engine), Arc::clone(&base.clock));
            let (anna, ben) = (base.anna.clone(), base.ben.clone());
            cluster.push(Arc::new(Self { sealgate, engine, clock, anna, ben }));
        }
        for user in [&base.anna, &base.ben] {
            assert_eq!(cluster[0].sealgate.store.add_user(user).await.unwrap(), AddOutcome::Added);
        }
        for client in [base.confidential("c1"), base.confidential("c2"), base.public("p1")] {
            cluster[0].add_client(client).await;
        }
        cluster
    }

    /// Returns the record of a confidential client, whose secret is `secret of <id>`.
    pub(crate) fn confidential(&self, id: &str) -> client::Client {
        let secret = client::ClientSecret {
            hash: Secret::new(format!("secret of {id}")).hash(),
            created_at: self.clock.now(),
            expires_at: None,
        };
        client::Client {
            client_type: client::ClientType::Confidential,
            auth_method: client::AuthMethod::ClientSecretBasic,
            secrets: vec![secret],
            ..self.public(id)
        }
    }

    /// Returns the record of a public client.
    pub(crate) fn public(&self, id: &str) -> client::Client {
        client::Client {
            name: format!("Client {id}"),
            post_logout_redirect_uris: vec![RedirectUri::parse(SIGNED_OUT_URI).unwrap()],
            grant_types: vec![client::GrantType::AuthorizationCode, client::GrantType::RefreshToken],
            incarnation: INCARNATIONS.fetch_add(1, Ordering::Relaxed),
            ..records::client(id, self.clock.now())
        }
    }

    pub(crate) async fn add_client(&self, client: client::Client) {
        assert_eq!(self.sealgate.store.add_client(&client).await.unwrap(), AddOutcome::Added);
    }

    /// Returns the client `c1`, which authenticates by Basic.
    pub(crate) fn c1(&self) -> Client<'_> {
        Client::confidential(self, "c1")
    }

    pub(crate) fn c2(&self) -> Client<'_> {
        Client::confidential(self, "c2")
    }

    /// Returns the client `p1`, which has no secret.
    pub(crate) fn p1(&self) -> Client<'_> {
        Client::public(self, "p1")
    }

    /// Returns a browser without cookies.
    pub(crate) fn browser(&self) -> Browser<'_> {
        Browser::new(self)
    }

    /// Advances the clock.
    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Sends a request from this address.
    pub(crate) async fn send_from(&self, address: &str, request: Request<Bytes>) -> Reply {
        Reply::new(whole(self.answer(address, request).await).await)
    }

    /// Returns the response to a request from this address. Its body may come in parts.
    pub(crate) async fn answer(&self, address: &str, request: Request<Bytes>) -> http::Response<Bytes> {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(Origin {
            address: address.parse::<IpAddr>().unwrap(),
            secure: true,
            request_id: "request-1".into(),
            ..Origin::unknown()
        });
        let route = provider::route(&self.sealgate.config, head.uri.path());
        if body.len() > Box::pin(route.body_limit(&self.sealgate, &head)).await {
            let refusal = Refusal::invalid_request("The body is too long.");
            return provider::refuse(&self.sealgate, &head, StatusCode::PAYLOAD_TOO_LARGE, refusal).finish();
        }
        provider::dispatch(&self.sealgate, route, &head, body).await
    }

    pub(crate) async fn send(&self, request: Request<Bytes>) -> Reply {
        self.send_from("192.0.2.1", request).await
    }

    pub(crate) async fn get(&self, path_and_query: &str) -> Reply {
        self.send(Request::get(path_and_query).body(Bytes::new()).unwrap()).await
    }

    /// Sends a request with this method, headers and body.
    pub(crate) async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Bytes::from(body.to_owned())).unwrap()).await
    }

    /// Submits a form by POST.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Reply {
        let mut all = vec![(header::CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded")];
        all.extend_from_slice(headers);
        self.request("POST", path, &all, &encode(fields)).await
    }

    /// Requests UserInfo with this access token.
    pub(crate) async fn userinfo(&self, access_token: &str) -> Reply {
        self.request("GET", "/oauth/userinfo", &[("authorization", &format!("Bearer {access_token}"))], "").await
    }
}

/// Encodes fields for a form or a query.
pub(crate) fn encode(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn person(number: u8, email: &str, name: &str, everything: bool, now: UnixTime) -> User {
    User {
        email_verified: everything,
        phone_number: everything.then(|| "+90 212 555 01 01".into()),
        picture: everything.then(|| "https://pictures.test/anna.png".into()),
        password: Some(records::password_hash()),
        ..records::person(number, email, name, now)
    }
}

/// Returns the response with its body, if that comes in parts.
async fn whole(response: http::Response<Bytes>) -> http::Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    let Some(stream) = parts.extensions.remove::<sealgate_edge::BodyStream>() else {
        return http::Response::from_parts(parts, body);
    };
    let (mut received, mut whole) = (stream.take().unwrap(), Vec::new());
    while let Some(part) = received.next().await.expect("a complete body") {
        whole.extend_from_slice(&part);
    }
    http::Response::from_parts(parts, whole.into())
}
