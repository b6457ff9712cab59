//! Gateway and provider in this process: the memory engine, a manual clock, a SoftHSM token for
//! signing. Requests that the gateway permits "arrive", with the headers and the target that the
//! application would receive.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use sealgate::app::site::Site;
use sealgate_config::{Config, RouteLimits};
use sealgate_core::sources::NoClientKeys;
use sealgate_core::state::{Parts, Sealgate};
use sealgate_core::tokens::documents::{ClientDocuments, DocumentFetcher};
use sealgate_domain::client::{AuthMethod, Client, ClientType};
use sealgate_domain::client::{ClientSecret, ConsentRule};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_edge::origin::Origin;
use sealgate_edge::{Affinity, AnswerReason, Front, RouteDecision};
use sealgate_store::AddOutcome;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sealer::Sealer;
use sealgate_system::clock::{Clock, FixedClock, OsEntropy};
use sealgate_system::fetch::Document;
use sealgate_system::metrics::Metrics;

use crate::configuration::Configuration;
use crate::meddler::Meddler;
pub(crate) use crate::records::PASSWORD;
use crate::{records, token_device};

pub(crate) const ANNA: &str = "anna@example.test";
pub(crate) const BEN: &str = "ben@example.test";

/// Configuration with an application on the issuer's host, and applications on their own hosts.
const SETTINGS: &str = r#"
    [sessions]
    idle_seconds = 3600
    absolute_seconds = 36000
    interaction_seconds = 600

    [forward_auth]
    trusted = ["192.0.2.200"]

    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/public/"
    access = "public"
    [[app.route]]
    path = "/api/"
    access = "bearer"
    [[app.route]]
    path = "/profiles/"
    access = "signed_in"
    scopes = ["profile"]
    [[app.route]]
    path = "/staff/"
    access = "signed_in"
    groups = ["staff"]

    [[app]]
    name = "shop"
    host = "shop.test"
    audience = "https://shop.test/api"
    upstreams = ["http://127.0.0.1:8082"]
    [[app.route]]
    path = "/orders/"
    access = "signed_in"

    [[app]]
    name = "mobile"
    host = "mobile.test"
    upstreams = ["http://127.0.0.1:8084"]
    clients = ["phone"]
    [[app.route]]
    path = "/"
    access = "signed_in"

    [[app]]
    name = "desk"
    host = "desk.test"
    upstreams = ["http://127.0.0.1:8085"]
    assertion = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    cors_origins = ["https://www.test", "https://m.test"]
    [[app.route]]
    path = "/records/"
    methods = ["GET"]
    access = "signed_in"
    [[app.route]]
    path = "/records/"
    methods = ["POST", "DELETE"]
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/bens/"
    access = "signed_in"
    users = ["Ben@example.test"]
    [[app.route]]
    path = "/money/"
    access = "signed_in"
    max_age_seconds = 300
    [[app.route]]
    path = "/vault/"
    access = "signed_in"
    acr = ["2"]
    [[app.route]]
    path = "/partners/"
    access = "bearer"
    audience = "https://partners.test"
    cors_origins = ["https://www.test"]
    [[app.route]]
    path = "/open/"
    access = "public"

    [[app]]
    name = "portal"
    host = "id.test"
    upstreams = ["http://127.0.0.1:8083"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/level/"
    access = "signed_in"
    acr = ["1"]
    [[app.route]]
    path = "/recent/"
    access = "signed_in"
    max_age_seconds = 300
"#;

/// Provider, gateway, and two users: Anna, who is in the staff group, and Ben, who is not.
pub(crate) struct World {
    pub(crate) sealgate: Arc<Sealgate>,
    pub(crate) site: Site,
    pub(crate) engine: Arc<MemoryEngine>,
    pub(crate) meddler: Arc<Meddler>,
    reads: Arc<AtomicUsize>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) anna: User,
    pub(crate) ben: User,
}

/// Source of metadata documents instead of the Internet. Every URL has one.
struct EveryUrl;

impl DocumentFetcher for EveryUrl {
    fn fetch(&self, url: &str) -> Result<Document, String> {
        let document = serde_json::json!({"client_id": url, "redirect_uris": ["https://rp.test/cb"]});
        Ok(Document { body: document.to_string().into_bytes(), max_age: None })
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::made("", None, |_| ()).await
    }

    /// Starts with additional tables in the configuration.
    pub(crate) async fn with(settings: &str) -> Self {
        Self::made(settings, None, |_| ()).await
    }

    /// Starts with a wrapping key in the token, and room for this number of stored forms.
    pub(crate) async fn keeping(forms: Option<usize>) -> Self {
        Self::made("", forms, |_| ()).await
    }

    /// Starts with all of these settings, and a changed configuration.
    pub(crate) async fn made(settings: &str, forms: Option<usize>, change: impl FnOnce(&mut Config)) -> Self {
        let text = Configuration::default().text("", &format!("{SETTINGS}{settings}"));
        let text = text.replace("[server]\n", "[server]\ntrusted_proxies = [\"192.0.2.200\"]\n");
        let mut config = Config::parse(&text, Path::new("/nowhere")).unwrap();
        change(&mut config);
        let clock = Arc::new(FixedClock::at(UnixTime::from_seconds(1_800_000_000)));
        let engine = Arc::new(MemoryEngine::default());
        let meddler = Meddler::over(Arc::clone(&engine));
        let reads = Arc::default();
        let parts = Parts {
            config,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine: Arc::new(TakingTurns(Arc::clone(&meddler), Arc::clone(&reads))),
            signer: token_device::signer(),
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        let mut sealgate = parts.assemble().await.unwrap();
        sealgate.documents = Arc::new(ClientDocuments::with(Arc::new(EveryUrl)));
        if let Some(most) = forms {
            let store = Arc::into_inner(sealgate.store).expect("no other reference exists yet");
            sealgate.store = Arc::new(store.sealing_with(Sealer::new(&[7; 32]).unwrap(), most).await.unwrap());
        }
        let sealgate = Arc::new(sealgate);
        let now = clock.now();
        let world = Self {
            site: Site::new(Arc::clone(&sealgate)),
            anna: person(1, ANNA, "Anna Şahin", &["staff", "a,b"], now),
            ben: person(2, BEN, "Ben", &[], now),
            sealgate,
            engine,
            meddler,
            reads,
            clock,
        };
        for user in [&world.anna, &world.ben] {
            assert_eq!(world.sealgate.store.add_user(user).await.unwrap(), AddOutcome::Added);
        }
        assert_eq!(world.sealgate.store.add_client(&client(now)).await.unwrap(), AddOutcome::Added);
        world
    }

    /// Returns the number of records read from the store so far.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Sends a request to the host in its `Host`: to the provider, or through the gateway, as the
    /// site routes it.
    pub(crate) async fn send(&self, address: &str, request: Request<Bytes>) -> Reply {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(Origin {
            address: address.parse::<IpAddr>().unwrap(),
            secure: true,
            request_id: "request-1".into(),
            ..Origin::unknown()
        });
        match self.site.decide(&head).await {
            RouteDecision::Answer(response) => Reply::answered(response),
            RouteDecision::Local { route, .. } => {
                Reply::answered(self.site.answer(&head, AnswerReason::Local(route, body)).await.unwrap())
            }
            RouteDecision::Forward(forward) => {
                let rewrite = forward.rewrite;
                let mut headers = head.headers;
                for name in &rewrite.remove {
                    headers.remove(name);
                }
                for (name, value) in rewrite.set {
                    headers.insert(name, value);
                }
                let app = self.sealgate.config.apps[forward.app].name.clone();
                let target = rewrite.path_and_query.as_str().to_owned();
                let arrived = Some(Arrived {
                    app,
                    target,
                    list: forward.upstreams,
                    limits: forward.limits,
                    compression: forward.compression,
                    affinity: forward.affinity,
                });
                Reply { arrived, status: 200, headers, body: Bytes::new() }
            }
        }
    }

    /// Sends a request of a program without cookies.
    pub(crate) async fn call(&self, method: &str, url: &str, fields: &[(&str, &str)]) -> Reply {
        self.send("192.0.2.9", request(method, url, fields, "")).await
    }

    /// Asserts that each of these paths is rejected before any rule is applied, because its rule
    /// depends on the parser.
    pub(crate) async fn refuses_to_read(&self, host: &str, paths: &[&str]) {
        for path in paths {
            let reply = self.call("GET", &format!("https://{host}{path}"), &[]).await;
            reply.assert_refused(400, "invalid_request");
        }
    }

    /// Asserts that an anonymous GET of each target arrives unchanged at `site.test`, an
    /// application that the test defines.
    pub(crate) async fn lets_through(&self, targets: &[&str]) {
        for target in targets {
            let reply = self.call("GET", &format!("https://site.test{target}"), &[]).await;
            assert_eq!(reply.arrived(), ("site", *target));
        }
    }

    /// Returns an access token for Anna with this scope.
    pub(crate) async fn access_token(&self, scope: &str) -> String {
        let browser = crate::browser::Browser::new(self);
        self.access_token_in(&browser, scope).await
    }

    /// Returns an access token for the user who is signed in to this browser, or for Anna.
    pub(crate) async fn access_token_in(&self, browser: &crate::browser::Browser<'_>, scope: &str) -> String {
        self.access_token_with(browser, &[("scope", scope)]).await
    }

    /// Returns an access token for Anna, for this resource.
    pub(crate) async fn resource_token(&self, resource: &str, scope: &str) -> String {
        let browser = crate::browser::Browser::new(self);
        self.access_token_with(&browser, &[("scope", scope), ("resource", resource)]).await
    }

    async fn access_token_with(&self, browser: &crate::browser::Browser<'_>, more: &[(&str, &str)]) -> String {
        let fields = [("client_id", "api"), ("response_type", "code"), ("redirect_uri", "https://rp.test/cb")];
        let query = encode(&[&fields[..], more].concat());
        let page = browser.open(&format!("https://id.test/oauth/authorize?{query}")).await;
        let back = if crate::browser::is_login(&page) { browser.sign_in(&page, ANNA).await } else { page };
        let location = url::Url::parse(back.location()).unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let form = encode(&[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", "https://rp.test/cb"),
            ("client_id", "api"),
            ("client_secret", "secret"),
        ]);
        let fields = [("content-type", "application/x-www-form-urlencoded")];
        let reply = self.send("192.0.2.9", request("POST", "https://id.test/oauth/token", &fields, &form)).await;
        reply.json()["access_token"].as_str().unwrap().to_owned()
    }
}

/// Returns a request as the edge passes it: the target without scheme and host, the host in `Host`.
pub(crate) fn request(method: &str, url: &str, fields: &[(&str, &str)], body: &str) -> Request<Bytes> {
    let rest = url.strip_prefix("https://").unwrap();
    let (host, target) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let mut request = Request::builder().method(method).uri(target).header(header::HOST, host);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Bytes::from(body.to_owned())).unwrap()
}

/// Encodes fields for a form or a query.
pub(crate) fn encode(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Outcome of a request: an answer, or the request that arrived at the application.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Application that received the request; `headers` are then the received ones.
    pub(crate) arrived: Option<Arrived>,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

/// Application and target of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) app: String,
    pub(crate) target: String,
    /// Number of the list of upstreams in the application.
    pub(crate) list: usize,
    pub(crate) limits: RouteLimits,
    pub(crate) compression: bool,
    pub(crate) affinity: Affinity,
}

impl Reply {
    fn answered(response: http::Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        // No cache may serve an answer to one user to another.
        let cache = head.headers[header::CACHE_CONTROL].to_str().unwrap();
        assert!(cache.contains("no-store") || head.status == StatusCode::OK, "{cache}");
        Self { arrived: None, status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Returns the application and the target. Panics if the request was answered.
    #[track_caller]
    pub(crate) fn arrived(&self) -> (&str, &str) {
        let arrived = self.arrived.as_ref().unwrap_or_else(|| panic!("it was answered: {self:?}"));
        (&arrived.app, &arrived.target)
    }

    /// Returns the answer's status. Panics if the request arrived.
    #[track_caller]
    pub(crate) fn answered_with(&self) -> u16 {
        assert!(self.arrived.is_none(), "it arrived: {self:?}");
        self.status
    }

    /// Returns the value of a header. Panics if it is repeated.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().map(|value| std::str::from_utf8(value.as_bytes()).unwrap());
        assert!(values.next().is_none(), "{name} stands more than once: {self:?}");
        first
    }

    #[track_caller]
    pub(crate) fn location(&self) -> &str {
        self.header("location").unwrap_or_else(|| panic!("no Location: {self:?}"))
    }

    /// Returns a parameter in the query of the `Location`.
    #[track_caller]
    pub(crate) fn sent_with(&self, name: &str) -> Option<String> {
        let url = url::Url::parse(self.location()).unwrap();
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts a rejection for a program: JSON with this error, and a challenge if a credential
    /// would help.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, error: &str) {
        assert_eq!(self.answered_with(), status, "{self:?}");
        let body = self.json();
        assert_eq!(body["error"], error, "{body}");
        assert!(!body["error_description"].as_str().unwrap().is_empty());
        assert_eq!(self.header("location"), None);
    }

    /// Asserts a page without a redirect.
    #[track_caller]
    pub(crate) fn assert_page(&self, status: u16) {
        assert_eq!(self.answered_with(), status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(self.header("location"), None);
        assert!(self.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    }
}

/// Engine that yields before each of its steps, so that concurrent requests interleave as they do
/// on a disk.
struct TakingTurns(Arc<Meddler>, Arc<AtomicUsize>);

#[async_trait]
impl Engine for TakingTurns {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.0.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        tokio::task::yield_now().await;
        self.0.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        tokio::task::yield_now().await;
        self.0.commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.0.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.0.ping().await
    }
}

fn client(now: UnixTime) -> Client {
    Client {
        name: "Api".into(),
        client_type: ClientType::Confidential,
        auth_method: AuthMethod::ClientSecretPost,
        secrets: vec![ClientSecret { hash: Secret::new("secret").hash(), created_at: now, expires_at: None }],
        consent: ConsentRule::Implied,
        ..records::client("api", now)
    }
}

fn person(number: u8, email: &str, name: &str, groups: &[&str], now: UnixTime) -> User {
    User {
        email_verified: true,
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        password: Some(records::password_hash()),
        ..records::person(number, email, name, now)
    }
}
