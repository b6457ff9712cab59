//! Cluster under test, and a client of all its nodes.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::postgres_server::PostgresServer;
use crate::relay::Relay;
use crate::support::{Browser, Instance, Node, REDIRECT_URI, Settings, Upstream, until};

const SECTIONS: &str = r#"
    [rate_limits]
    authorize = "none"
    pages = "none"
    token = "none"
    revoke = "none"
    register = "none"
    [registration]
    mode = "open"
    max_clients = 100000
    [tokens]
    refresh_retry_seconds = 60
"#;
/// Maximum duration of a request, whatever fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three nodes. The second one reaches the primary through a relay.
pub(super) struct Cluster {
    pub(super) primary: PostgresServer,
    pub(super) standby: PostgresServer,
    pub(super) relay: Relay,
    pub(super) nodes: Vec<Instance>,
    pub(super) client: Arc<Client>,
    _upstream: Upstream,
}

impl Cluster {
    pub(super) async fn start() -> Self {
        let (primary, standby) = block_in_place(|| {
            let primary = PostgresServer::start(&[]);
            let standby = primary.standby("b");
            (primary, standby)
        });
        let database = primary.client("").await;
        for command in ["ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (b)'", "SELECT pg_reload_conf()"] {
            database.batch_execute(command).await.unwrap();
        }
        until("the standby is waited for", || async {
            let states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            database.query_one(states, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        let relay = Relay::start(primary.port).await;
        let upstream = Upstream::start();
        let settings = |name, port: u16, issuer_port| {
            // The primary that fails is first in the list.
            let hosts = format!("127.0.0.1:{port},127.0.0.1:{}", standby.port);
            let database = format!("postgres://sealgate@{hosts}/postgres");
            Settings {
                sections: SECTIONS.to_owned(),
                upstream: Some(upstream.url()),
                node: Some(Node { name, database, issuer_port }),
            }
        };
        let first = Instance::bare(&settings("a", primary.port, None));
        first.run(&["store", "init"]);
        first.run(&["key", "generate"]);
        first.add_anna();
        let secret = first.add_confidential_client("web");
        let second = Instance::beside(&first, &settings("b", relay.port, Some(first.port)));
        let third = Instance::beside(&first, &settings("c", primary.port, Some(first.port)));
        let mut nodes = vec![first, second, third];
        // The nodes start one after the other, because SoftHSM may show no token to a process that
        // opens it while another process logs in.
        for node in &mut nodes {
            node.start();
        }
        let host = format!("localhost:{}", nodes[0].port);
        let browser = Browser::new(&nodes[0]);
        let signed_in = browser.go(&format!("http://{host}{}", authorize())).await;
        assert!(signed_in.returned("code").is_some(), "{signed_in:?}");
        let client = Client {
            http: http(1),
            visitors: (2..10).map(http).collect(),
            ports: nodes.iter().map(|node| node.port).collect(),
            next: AtomicUsize::new(0),
            cookies: browser.cookies(&format!("http://{host}/")),
            host,
            secret,
            answered: Mutex::new(Answered {
                last: Instant::now(),
                longest_gap: Duration::ZERO,
                slowest: Duration::ZERO,
            }),
            nodes_may_die: AtomicBool::new(false),
        };
        Self { primary, standby, relay, nodes, client: Arc::new(client), _upstream: upstream }
    }

    /// Waits until every node answers requests successfully again.
    pub(super) async fn goes_on(&self) {
        for node in 0..self.nodes.len() {
            until("the node serves", || async { self.client.code(node).await.is_some() }).await;
        }
    }
}

pub(super) struct Answered {
    pub(super) last: Instant,
    pub(super) longest_gap: Duration,
    pub(super) slowest: Duration,
}

/// Confidential client of all nodes, which share one host name. The cookies belong to a signed-in
/// user.
pub(super) struct Client {
    http: reqwest::Client,
    /// Clients at other addresses: one address may have a thousand connections, and a suspended
    /// node holds more.
    visitors: Vec<reqwest::Client>,
    pub(super) ports: Vec<u16>,
    next: AtomicUsize,
    cookies: String,
    host: String,
    pub(super) secret: String,
    pub(super) answered: Mutex<Answered>,
    /// Whether nodes may be killed. A missing answer is then no failure.
    pub(super) nodes_may_die: AtomicBool,
}

/// Returns an HTTP client at a local address.
fn http(address: u8) -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .local_address(IpAddr::from([127, 0, 0, address]))
        .timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

fn authorize() -> String {
    let redirect_uri: String = url::form_urlencoded::byte_serialize(REDIRECT_URI.as_bytes()).collect();
    format!(
        "/oauth/authorize?client_id=web&response_type=code&scope=openid+profile+offline_access&redirect_uri={redirect_uri}"
    )
}

pub(super) fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("no {name}: {body}")).to_owned()
}

impl Client {
    /// Returns the node for the next request, as a load balancer does.
    pub(super) fn any(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.ports.len()
    }

    fn url(&self, node: usize, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.ports[node])
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let sent = Instant::now();
        let Some((status, _, body)) = self.exchange(request).await else {
            return (503, Value::String("the node was killed".to_owned()));
        };
        let mut answered = self.answered.lock().unwrap();
        answered.slowest = answered.slowest.max(sent.elapsed());
        if status < 300 {
            answered.longest_gap = answered.longest_gap.max(answered.last.elapsed());
            answered.last = Instant::now();
        }
        drop(answered);
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// Returns the answer, or `None` from a node that was killed, if the test permits that.
    async fn exchange(&self, request: reqwest::RequestBuilder) -> Option<(u16, HeaderMap, String)> {
        let whole = async {
            let answer = request.send().await?;
            let (status, head) = (answer.status().as_u16(), answer.headers().clone());
            Ok((status, head, answer.text().await?))
        };
        whole
            .await
            .inspect_err(|error: &reqwest::Error| {
                let killed = self.nodes_may_die.load(Ordering::Relaxed) && !error.is_timeout();
                assert!(killed, "no answer within {PATIENCE:?}: {error:?}");
            })
            .ok()
    }

    pub(super) async fn post(
        &self,
        node: usize,
        path: &str,
        who: (&str, &str),
        fields: &[(&str, &str)],
    ) -> (u16, Value) {
        let request = self.http.post(self.url(node, path)).header("Host", &self.host);
        self.send(request.basic_auth(who.0, Some(who.1)).form(fields)).await
    }

    pub(super) async fn redeem(&self, node: usize, code: &str) -> (u16, Value) {
        let fields = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
        self.post(node, "/oauth/token", ("web", &self.secret), &fields).await
    }

    pub(super) async fn refresh(&self, node: usize, token: &str) -> (u16, Value) {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.post(node, "/oauth/token", ("web", &self.secret), &fields).await
    }

    pub(super) async fn revoke(&self, node: usize, token: &str) -> (u16, Value) {
        self.post(node, "/oauth/revoke", ("web", &self.secret), &[("token", token)]).await
    }

    pub(super) async fn register(&self, node: usize) -> (u16, Value) {
        let body = json!({ "redirect_uris": ["https://rp.test/cb"], "client_name": "A registered one" }).to_string();
        let request = self.http.post(self.url(node, "/oauth/register")).header("Host", &self.host);
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    /// Returns a code for the signed-in user, or `None` if the node cannot decide.
    pub(super) async fn code(&self, node: usize) -> Option<String> {
        let request = self.http.get(self.url(node, &authorize())).header("Host", &self.host);
        let (status, head, body) = self.exchange(request.header("Cookie", &self.cookies)).await?;
        let Some(location) = head.get("location") else {
            assert_eq!(status, 503, "{body}");
            return None;
        };
        let location = url::Url::parse(location.to_str().unwrap()).unwrap();
        let parameter =
            |name: &str| location.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        if parameter("error").is_some_and(|error| error == "temporarily_unavailable" || error == "server_error") {
            return None;
        }
        Some(parameter("code").unwrap_or_else(|| panic!("no code: {location}")))
    }

    /// Returns a code and the tokens of a new grant, or `None` on failure. The code may have been
    /// used then.
    pub(super) async fn tokens(&self, node: usize) -> Option<(String, Value)> {
        let code = self.code(node).await?;
        match self.redeem(node, &code).await {
            (200, tokens) => Some((code, tokens)),
            (503, _) => None,
            (status, body) => panic!("an unused code: {status}: {body}"),
        }
    }

    /// Returns the status of the token at this node's gateway.
    pub(super) async fn gate(&self, node: usize, token: &str) -> u16 {
        let visitor = &self.visitors[self.next.fetch_add(1, Ordering::Relaxed) % self.visitors.len()];
        let request = visitor.get(self.url(node, "/api/data")).header("Host", "app.localhost").bearer_auth(token);
        request.send().await.unwrap_or_else(|error| panic!("no answer: {error:?}")).status().as_u16()
    }
}

pub(super) fn rounds() -> usize {
    std::env::var("FAULT_ROUNDS").map_or(1, |text| text.parse().expect("FAULT_ROUNDS is a number"))
}
