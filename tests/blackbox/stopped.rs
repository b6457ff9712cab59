//! Tests nodes that are suspended or killed: clients retry at the same node or another, and keep
//! their grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};

use crate::backup::{LIMITS, granted};
use crate::cluster::Cluster;
use crate::support::{Browser, Instance, Settings};

/// Number of clients that refresh continuously.
const CLIENTS: usize = 16;
/// Time after which a client gives up on an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which a process is suspended.
const SUSPENDED: Duration = Duration::from_secs(4);
/// Maximum wait of a test.
const LIMIT: Duration = Duration::from_mins(1);

/// Addresses of the nodes, and the outcome of the clients' requests.
struct Clients {
    /// Port of the issuer, and the ports of all nodes.
    issuer_port: u16,
    ports: Vec<u16>,
    secret: String,
    http: Client,
    refreshed: AtomicUsize,
    unanswered: AtomicUsize,
    /// Whether the next refresh of each client is its last.
    is_over: AtomicBool,
}

impl Clients {
    fn new(issuer_port: u16, ports: Vec<u16>, secret: &str) -> Arc<Self> {
        Arc::new(Self {
            issuer_port,
            ports,
            secret: secret.to_owned(),
            http: Client::builder().no_proxy().timeout(PATIENCE).build().unwrap(),
            refreshed: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    /// Returns a node's answer, or `None` if it takes longer than `PATIENCE`.
    async fn refresh(&self, node: usize, token: &str) -> Option<(u16, Value)> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        let request = self.http.post(format!("http://127.0.0.1:{}/oauth/token", self.ports[node % self.ports.len()]));
        let request = request.header("Host", format!("localhost:{}", self.issuer_port));
        let answer = request.basic_auth("web", Some(&self.secret)).form(&form).send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    /// Refreshes until the end, and once more. Without an answer, asks another node with the
    /// current token. Returns the last token.
    async fn refresh_on(self: Arc<Self>, mut node: usize, first: String) -> String {
        let (mut token, mut done) = (first, 0);
        loop {
            let is_over = self.is_over.load(Ordering::SeqCst);
            match self.refresh(node, &token).await {
                Some((200, body)) => {
                    body["refresh_token"].as_str().unwrap().clone_into(&mut token);
                    self.refreshed.fetch_add(1, Ordering::SeqCst);
                    done += 1;
                    if is_over {
                        return token;
                    }
                }
                None | Some((503, _)) => {
                    self.unanswered.fetch_add(1, Ordering::SeqCst);
                    node += 1;
                    sleep(Duration::from_millis(50)).await;
                }
                Some((status, body)) => panic!("{status} after {done} refreshes: {body}"),
            }
        }
    }

    /// Waits for this number of further refreshes of all clients.
    async fn go_on(&self, more: usize) {
        let until = self.refreshed.load(Ordering::SeqCst) + more;
        let reached = async {
            while self.refreshed.load(Ordering::SeqCst) < until {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, reached).await.expect("the clients go on");
    }

    /// Returns the first answer of a node other than 503.
    async fn decided(&self, node: usize, token: &str) -> (u16, Value) {
        let asked = async {
            loop {
                match self.refresh(node, token).await {
                    None | Some((503, _)) => sleep(Duration::from_millis(50)).await,
                    Some(answer) => return answer,
                }
            }
        };
        timeout(LIMIT, asked).await.expect("the node decides")
    }

    /// Asserts that a token whose child was used ends the grant, at another node too, once no
    /// request can predate a failure.
    async fn assert_reuse_ends_the_grant(&self, token: &str) {
        let mut newest = token.to_owned();
        for _ in 0..2 {
            let (status, body) = self.decided(0, &newest).await;
            assert_eq!(status, 200, "{body}");
            body["refresh_token"].as_str().unwrap().clone_into(&mut newest);
        }
        for (node, presented) in [(0, token), (1, &newest)] {
            let (status, body) = self.decided(node, presented).await;
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "{body}");
        }
    }
}

/// Runs `faults` while clients refresh. Asserts that all keep their grants, and that reuse still
/// ends a grant.
async fn keep_their_grants(clients: &Arc<Clients>, tokens: Vec<String>, faults: impl AsyncFnOnce(&Clients)) {
    let mut running = JoinSet::new();
    for (number, token) in tokens.into_iter().enumerate() {
        running.spawn(Arc::clone(clients).refresh_on(number, token));
    }
    // Requests are in all stages then.
    clients.go_on(CLIENTS * 2).await;
    faults(clients).await;
    clients.go_on(CLIENTS * 2).await;
    clients.is_over.store(true, Ordering::SeqCst);
    let ended = timeout(LIMIT, running.join_all()).await.expect("every client gets a last token");
    assert!(clients.unanswered.load(Ordering::SeqCst) >= CLIENTS / 2, "hardly any client noticed");
    clients.assert_reuse_ends_the_grant(&ended[0]).await;
}

async fn one_node() -> (Instance, Arc<Clients>, Vec<String>) {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let mut tokens = Vec::new();
    for _ in 0..CLIENTS {
        tokens.push(granted(&instance, &secret, &browser).await);
    }
    let clients = Clients::new(instance.port, vec![instance.port], &secret);
    (instance, clients, tokens)
}

async fn two_nodes() -> (Cluster, Arc<Clients>, Vec<String>) {
    let cluster = Cluster::start_with(&format!("{LIMITS}\nsign_ins = 4000")).await;
    let mut tokens = Vec::new();
    for _ in 0..CLIENTS {
        tokens.push(cluster.tokens().await["refresh_token"].as_str().unwrap().to_owned());
    }
    let ports = vec![cluster.first.port, cluster.second.port];
    let clients = Clients::new(cluster.first.port, ports, &cluster.secret);
    (cluster, clients, tokens)
}

async fn suspend(instance: &Instance) {
    instance.signal("STOP");
    sleep(SUSPENDED).await;
    instance.signal("CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_suspended_node_keep_their_grants() {
    let (instance, clients, tokens) = one_node().await;
    keep_their_grants(&clients, tokens, async |_| suspend(&instance).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_killed_and_restarted_node_keep_their_grants() {
    let (mut instance, clients, tokens) = one_node().await;
    keep_their_grants(&clients, tokens, async |clients| {
        for _ in 0..2 {
            instance.kill();
            block_in_place(|| instance.start());
            clients.go_on(CLIENTS * 2).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_use_another_node_during_a_suspension_keep_their_grants() {
    let (cluster, clients, tokens) = two_nodes().await;
    keep_their_grants(&clients, tokens, async |clients| {
        for node in [&cluster.first, &cluster.second] {
            suspend(node).await;
            clients.go_on(CLIENTS * 2).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_use_another_node_after_a_kill_keep_their_grants() {
    let (mut cluster, clients, tokens) = two_nodes().await;
    keep_their_grants(&clients, tokens, async |clients| {
        cluster.first.kill();
        clients.go_on(CLIENTS * 2).await;
        block_in_place(|| cluster.first.start());
        cluster.second.kill();
        clients.go_on(CLIENTS * 2).await;
        block_in_place(|| cluster.second.start());
    })
    .await;
}
