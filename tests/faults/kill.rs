//! Kills the server with SIGKILL at random moments under load over HTTP, repeatedly on one
//! database.
//!
//! After each restart, everything that it acknowledged must be stored: rotated refresh tokens, used
//! codes, revocations, registered clients, passwords and sessions.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sealgate_admin as admin;
use sealgate_admin::UserRef;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_config::SledConfig;
use sealgate_domain::secret::Secret;
use sealgate_store::engine::Engine;
use sealgate_store::sled::SledEngine;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::MACHINE;
use crate::chance::Chance;
use crate::rounds;
use crate::support::{Browser, Instance, PASSWORD, REDIRECT_URI, Settings};

/// Number of refresh token families that are rotated concurrently.
const FAMILIES: usize = 8;
/// Number of acknowledged facts of each kind that are checked after each restart, newest first.
const LOOKED_AT: usize = 24;
/// Maximum time that the database may take to open after a kill.
const REOPENING: Duration = Duration::from_secs(1);
/// User whose password changes. No other check depends on this user.
const OTHER: &str = "boris@example.test";

/// Status and body; `None` if the server died before it answered.
type Reply = Option<(u16, Value)>;

/// Confidential client over HTTP.
struct Client {
    http: reqwest::Client,
    base: String,
    secret: String,
}

impl Client {
    async fn post(&self, path: &str, who: (&str, &str), fields: &[(&str, &str)]) -> Reply {
        let request = self.http.post(format!("{}{path}", self.base)).basic_auth(who.0, Some(who.1)).form(fields);
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let body = response.text().await.ok()?;
        Some((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    async fn redeem(&self, code: &str) -> Reply {
        let fields = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
        self.post("/oauth/token", ("web", &self.secret), &fields).await
    }

    async fn refresh(&self, token: &str) -> Reply {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.post("/oauth/token", ("web", &self.secret), &fields).await
    }

    async fn revoke(&self, token: &str) -> Reply {
        self.post("/oauth/revoke", ("web", &self.secret), &[("token", token)]).await
    }

    async fn register(&self) -> Reply {
        let body = json!({ "redirect_uris": ["https://rp.test/cb"], "client_name": "A registered one" }).to_string();
        let request = self.http.post(format!("{}/oauth/register", self.base));
        let response = request.header("content-type", "application/json").body(body).send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.ok()?))
    }

    /// Requests a code for the user who is signed in with `browser`.
    async fn code(&self, browser: &Browser) -> Option<String> {
        let answer = browser.client().get(authorize(&self.base)).send().await.ok()?;
        let Some(location) = answer.headers().get("location") else {
            panic!("no code: {} {}", answer.status(), answer.text().await.unwrap_or_default());
        };
        let location = url::Url::parse(location.to_str().unwrap()).unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code");
        Some(code.unwrap_or_else(|| panic!("no code: {location}")).1.into_owned())
    }
}

fn authorize(base: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("client_id", "web")
        .append_pair("response_type", "code")
        .append_pair("redirect_uri", REDIRECT_URI)
        .append_pair("scope", "openid offline_access");
    format!("{base}/oauth/authorize?{}", query.finish())
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("no {name}: {body}")).to_owned()
}

/// Everything that the server has acknowledged and that is still in effect.
#[derive(Default)]
struct Known {
    /// Valid refresh tokens, and whether a request that the kill interrupted may have rotated them.
    families: Vec<(String, bool)>,
    unused_codes: Vec<String>,
    used_codes: Vec<String>,
    revoked: Vec<String>,
    clients: Vec<(String, String)>,
    /// Number of password changes of the second user, and whether one more may have happened.
    password: u32,
    password_cut_off: bool,
}

/// Observations of one task.
enum Seen {
    Family(String, bool),
    Ended { used: Vec<String>, revoked: Vec<String> },
    Registered(Vec<(String, String)>),
    Passwords(u32, bool),
}

fn password(number: u32) -> String {
    format!("a long enough password, number {number}")
}

/// Rotates one family, with pauses, until stopped.
async fn rotate(client: Arc<Client>, mut token: String, stop: Arc<AtomicBool>, pause: Duration) -> Seen {
    while !stop.load(Ordering::SeqCst) {
        match client.refresh(&token).await {
            Some((200, body)) => token = text(&body, "refresh_token"),
            Some((429 | 503, _)) => {}
            Some((status, body)) => panic!("{status}: {body}"),
            None => return Seen::Family(token, true),
        }
        tokio::time::sleep(pause).await;
    }
    Seen::Family(token, false)
}

/// Redeems codes, and revokes the refresh token of every second one.
async fn redeem_and_revoke(client: Arc<Client>, browser: Arc<Browser>, stop: Arc<AtomicBool>) -> Seen {
    let (mut used, mut revoked) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let Some(code) = client.code(&browser).await else { break };
        let Some((status, body)) = client.redeem(&code).await else { break };
        assert_eq!(status, 200, "{body}");
        used.push(code);
        let token = text(&body, "refresh_token");
        if used.len() % 2 == 0 {
            match client.revoke(&token).await {
                Some((200, _)) => revoked.push(token),
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
    }
    Seen::Ended { used, revoked }
}

async fn register(client: Arc<Client>, stop: Arc<AtomicBool>) -> Seen {
    let mut registered = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        match client.register().await {
            Some((201, body)) => registered.push((text(&body, "client_id"), text(&body, "client_secret"))),
            Some((status, body)) => panic!("{status}: {body}"),
            None => break,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Seen::Registered(registered)
}

async fn change_passwords(
    socket: std::path::PathBuf,
    store: std::path::PathBuf,
    from: u32,
    stop: Arc<AtomicBool>,
) -> Seen {
    let mut number = from;
    while !stop.load(Ordering::SeqCst) {
        let person = UserRef::parse(OTHER).unwrap();
        let set = UserCommand::SetPassword { user: person, password: Secret::new(password(number + 1)).into() };
        if admin::ask(&socket, &store, &Command::User(set)).await.is_err() {
            return Seen::Passwords(number, true);
        }
        number += 1;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Seen::Passwords(number, false)
}

/// Measures how long the database takes to open after the kill. Opens a copy, so that the server
/// gets the original.
async fn reopening(store: &Path, copy: &Path) -> Duration {
    let copied = std::process::Command::new("cp").args(["-a"]).arg(store).arg(copy).status().unwrap();
    assert!(copied.success());
    let settings = SledConfig { path: copy.to_owned(), cache_bytes: 64 << 20, reserve_bytes: 0, queue: 16 };
    let started = Instant::now();
    let engine = SledEngine::open(&settings, Arc::new(())).unwrap();
    engine.get(b"m").await.unwrap();
    let took = started.elapsed();
    drop(engine);
    fs::remove_dir_all(copy).unwrap();
    took
}

impl Known {
    fn learn(&mut self, seen: Seen) {
        match seen {
            Seen::Family(token, cut_off) => self.families.push((token, cut_off)),
            Seen::Ended { used, revoked } => {
                self.used_codes.extend(used);
                self.revoked.extend(revoked);
            }
            Seen::Registered(clients) => self.clients.extend(clients),
            Seen::Passwords(number, cut_off) => (self.password, self.password_cut_off) = (number, cut_off),
        }
    }

    /// Checks the newest facts on a restarted server. Removes the families that ended, and returns
    /// how many are left.
    async fn check(&mut self, instance: &Instance, client: &Client, looked_at: usize) -> usize {
        for code in self.unused_codes.drain(..) {
            let (status, body) = client.redeem(&code).await.unwrap();
            assert_eq!(status, 200, "a code that was issued before the kill is lost: {body}");
        }
        let mut living = Vec::new();
        for (token, cut_off) in self.families.drain(..) {
            // The server answers 503 until the heartbeat of the killed process is too old.
            let mut answer = client.refresh(&token).await.unwrap();
            for _ in 0..20 {
                if answer.0 == 503 {
                    answer = client.refresh(&token).await.unwrap();
                }
            }
            match answer {
                (200, body) => living.push((text(&body, "refresh_token"), false)),
                // The kill may have come between the commit and the answer: then the token was
                // rotated.
                (400, body) => assert!(cut_off, "an acknowledged refresh token is lost: {body}"),
                (status, body) => panic!("{status}: {body}"),
            }
        }
        self.families = living;
        for token in newest(&self.revoked, looked_at) {
            let (status, body) = client.refresh(token).await.unwrap();
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a revoked token came back to life");
        }
        for code in newest(&self.used_codes, looked_at) {
            let (status, body) = client.redeem(code).await.unwrap();
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a used code came back to life");
        }
        for (id, secret) in newest(&self.clients, looked_at) {
            let code = [("grant_type", "authorization_code"), ("code", "none"), ("redirect_uri", "https://rp.test/cb")];
            let (status, body) = client.post("/oauth/token", (id, secret), &code).await.unwrap();
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a registered client is lost");
        }
        self.check_password(instance).await;
        self.families.len()
    }

    /// Asserts that the last acknowledged password works, or the password whose acknowledgement the
    /// kill interrupted.
    async fn check_password(&mut self, instance: &Instance) {
        let candidates = [self.password, self.password + 1];
        let possible = if self.password_cut_off { &candidates[..] } else { &candidates[..1] };
        let mut working = None;
        for &number in possible {
            if signs_in(instance, &password(number)).await {
                working = Some(number);
                break;
            }
        }
        self.password = working.expect("the acknowledged password does not work");
        self.password_cut_off = false;
        if let Some(earlier) = self.password.checked_sub(1) {
            assert!(!signs_in(instance, &password(earlier)).await, "a password that was changed works again");
        }
    }
}

fn newest<T>(all: &[T], looked_at: usize) -> &[T] {
    &all[all.len().saturating_sub(looked_at)..]
}

async fn signs_in(instance: &Instance, password: &str) -> bool {
    let browser = Browser::new(instance);
    let page = browser.open(&authorize(&instance.url(""))).await;
    let answer = browser.submit(&page, &[("email", OTHER), ("password", password)]).await;
    assert!(answer.status < 500, "{answer:?}");
    !answer.body.contains("id=\"login-submit\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_sigkill_under_load() {
    let _shared = MACHINE.read().await;
    let mut chance = Chance::seeded("kill");
    let limits = "authorize = 4000\npages = 4000\ntoken = 4000\nrevoke = 4000\nregister = 4000";
    let registration = "[registration]\nmode = \"open\"\nmax_clients = 100000";
    let login = "[login]\nfailures_per_account = 1000\nfailures_per_address = 1000";
    let mut instance = Instance::prepare(&Settings {
        sections: format!("[rate_limits]\n{limits}\n{registration}\n{login}"),
        ..Settings::default()
    });
    let secret = instance.add_confidential_client("web");
    let person = ["user", "add", OTHER, "--name", "Boris", "--email-verified", "--password-stdin"];
    instance.run_with_input(&person, &password(0));
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
    let client = Arc::new(Client { http, base: instance.url(""), secret });
    let mut known = Known::default();

    instance.start();
    let browser = Arc::new(Browser::new(&instance));
    let page = browser.go(&authorize(&client.base)).await;
    known.unused_codes.extend(page.returned("code"));
    assert_eq!(known.unused_codes.len(), 1, "{PASSWORD} does not sign in: {page:?}");

    let (mut slowest, mut held) = (Duration::ZERO, 0);
    for round in 0..rounds(4) {
        while known.families.len() < FAMILIES {
            // The session was acknowledged too: it gives codes without another sign-in.
            let code = client.code(&browser).await.unwrap();
            let (status, body) = client.redeem(&code).await.unwrap();
            assert_eq!(status, 200, "{body}");
            known.families.push((text(&body, "refresh_token"), false));
        }
        known.unused_codes.push(client.code(&browser).await.unwrap());

        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for (token, _) in known.families.drain(..) {
            running.spawn(rotate(Arc::clone(&client), token, Arc::clone(&stop), chance.milliseconds(0, 60)));
        }
        running.spawn(redeem_and_revoke(Arc::clone(&client), Arc::clone(&browser), Arc::clone(&stop)));
        running.spawn(register(Arc::clone(&client), Arc::clone(&stop)));
        let socket = instance.directory.path().join("admin.sock");
        running.spawn(change_passwords(socket, instance.store(), known.password, Arc::clone(&stop)));
        tokio::time::sleep(chance.milliseconds(150, 1300)).await;
        stop.store(true, Ordering::SeqCst);
        instance.kill();
        for seen in running.join_all().await {
            known.learn(seen);
        }

        let copy = instance.directory.path().join("copy");
        let took = reopening(&instance.store(), &copy).await;
        slowest = slowest.max(took);
        instance.start();
        let alive = known.check(&instance, &client, LOOKED_AT).await;
        held += alive;
        println!(
            "round {round}: opened in {took:?}; {alive} families live; {} used codes, {} revoked tokens, {} clients, \
             password {} hold",
            known.used_codes.len(),
            known.revoked.len(),
            known.clients.len(),
            known.password
        );
        assert!(took < REOPENING, "the database took {took:?} to open");
    }
    println!("the slowest opening took {slowest:?}");
    // The restart gives new rate limits. The limits of the current minute only suffice for the
    // newest facts.
    instance.kill();
    instance.start();
    known.check(&instance, &client, usize::MAX).await;
    println!("all {} used codes and {} revoked tokens hold", known.used_codes.len(), known.revoked.len());
    assert!(held > 0, "no family survived, which cut-off requests do not explain");
    assert!(!known.used_codes.is_empty() && !known.revoked.is_empty() && !known.clients.is_empty());
    assert!(known.password > 0);
}
