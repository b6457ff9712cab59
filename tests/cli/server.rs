//! Commands to a running server.
//!
//! The server side of the socket runs in this process, with a store in memory. The client is the
//! real program.

use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use sealgate_admin as admin;
use sealgate_admin::{CommandContext, Mailing, NoSigner, OnThisThread, socket};
use sealgate_config::AuditConfig;
use sealgate_core::audit::AuditLog;
use sealgate_domain::audit::Actor;
use sealgate_domain::client::Authority;
use sealgate_domain::client::ClientId;
use sealgate_domain::code::{Code, CodeState};
use sealgate_domain::grant::{Grant, GrantId, GrantState};
use sealgate_domain::key_ring::KeyTimes;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{KeepSignedIn, Session, SessionId, SignIn};
use sealgate_domain::user::Subject;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::{AddOutcome, Committed, Store};
use sealgate_system::clock::{Clock, OsEntropy, SystemClock};
use serde_json::json;
use tokio::sync::watch;

use crate::clients::client;
use crate::site::{OTHER_PASSWORD, PASSWORD, Site};

/// A site with a server that answers on the admin socket.
pub(crate) struct Served {
    pub(crate) site: Arc<Site>,
    pub(crate) store: Arc<Store>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> Self {
        let site = Arc::new(Site::new());
        let store = Arc::new(Store::open(Arc::new(MemoryEngine::new()), 100).await.unwrap());
        let (stop, stopped) = watch::channel(false);
        let bound = socket::bind(&site.socket()).unwrap();
        let served = Arc::clone(&store);
        let execute = move |command| {
            let store = Arc::clone(&served);
            async move {
                let context = CommandContext {
                    store: &store,
                    clock: &SystemClock,
                    entropy: &OsEntropy,
                    passwords: &OnThisThread,
                    keys: &NoSigner,
                    algorithms: &[sealgate_domain::oauth::jwk_set::Algorithm::Rs256],
                    key_times: KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) },
                    keep_signed_in: KeepSignedIn::Off,
                    trail: &AuditLog::new(&AuditConfig { keep: Duration::from_hours(24), max_records: 1000 }),
                    issuer: "http://localhost:8080",
                    mailing: Mailing::Off,
                    console: &sealgate_config::Console::default(),
                    apps: &[],
                    trusted_issuers: &[],
                    config_file: None,
                    rotate: None,
                    actor: Actor::Operator,
                    authority: Authority::Operator,
                    request: None,
                };
                admin::execute(&context, command).await
            }
        };
        let task = tokio::spawn(socket::serve_with(bound, execute, stopped));
        Self { site, store, stop, task }
    }

    /// Runs a closure on a blocking thread while the server runs.
    pub(crate) async fn run<T: Send + 'static>(&self, run: impl FnOnce(&Site) -> T + Send + 'static) -> T {
        let site = Arc::clone(&self.site);
        tokio::task::spawn_blocking(move || run(&site)).await.unwrap()
    }

    pub(crate) async fn add_user(&self, email: &'static str) -> Subject {
        Subject::parse(&self.run(move |site| site.add_user(email)).await).unwrap()
    }

    pub(crate) async fn sign_in(&self, subject: Subject, number: u8) -> SessionId {
        sign_in(&self.store, subject, number).await
    }

    pub(crate) async fn lives(&self, session: SessionId) -> bool {
        self.store.session(session).await.unwrap().is_some()
    }

    pub(crate) async fn grant(&self, subject: Subject, client: &str) -> GrantId {
        grant(&self.store, subject, client).await
    }

    pub(crate) async fn stands(&self, grant: GrantId) -> bool {
        self.store.grant(grant).await.unwrap().unwrap().value.is_active()
    }
}

/// Adds a session of this user. `number` determines its ID.
pub(crate) async fn sign_in(store: &Store, subject: Subject, number: u8) -> SessionId {
    let now = SystemClock.now();
    let session = Session {
        id: SessionId::from_bytes([number; 16]),
        cookie: SecretHash::for_secret(b"the cookie"),
        previous: None,
        sign_ins: vec![typed(subject)],
        created_at: now,
        last_seen_at: now,
        expires_at: now.plus(Duration::from_hours(1)),
        idle_seconds: 3600,
        kept_until: None,
        address: IpAddr::from([192, 0, 2, 7]),
        user_agent: "Browser/1".to_owned(),
        clients: Vec::new(),
    };
    store.begin_session(&session).await.unwrap();
    session.id
}

/// Adds a grant of this user to this client, from the session with number 1.
pub(crate) async fn grant(store: &Store, subject: Subject, client: &str) -> GrantId {
    let client = ClientId::parse(client).unwrap();
    let now = SystemClock.now();
    let hash = SecretHash::for_secret(format!("{subject} {client}").as_bytes());
    let session = SessionId::from_bytes([1; 16]);
    let code = Code {
        client: client.clone(),
        redirect_uri: "https://rp.test/cb".to_owned(),
        challenge: None,
        scope: Scope::all(),
        resource: None,
        nonce: None,
        sign_in: typed(subject),
        typed: false,
        session,
        expires_at: now.plus(Duration::from_mins(5)),
        state: CodeState::Issued,
    };
    store.issue_code(&hash, &code, None).await.unwrap();
    let id: [u8; 16] = hash.as_bytes()[..16].try_into().unwrap();
    let grant = Grant {
        id: GrantId::from_bytes(id),
        client,
        subject,
        session,
        scope: Scope::all(),
        resource: None,
        auth_time: now,
        acr: "1".to_owned(),
        amr: vec!["pwd".to_owned()],
        created_at: now,
        expires_at: now.plus(Duration::from_hours(1)),
        state: GrantState::Active,
        refresh: None,
        is_service: false,
    };
    let loaded = store.code(&hash).await.unwrap().unwrap();
    assert_eq!(store.redeem_code(&loaded, &grant).await.unwrap(), Committed::Yes);
    grant.id
}

fn typed(subject: Subject) -> SignIn {
    SignIn::by_password(subject, SystemClock.now())
}

#[tokio::test]
async fn a_running_server_executes_commands_and_the_command_does_not_open_the_store() {
    let served = Served::start().await;
    let sub = served.add_user("anna@example.test").await;
    assert_eq!(served.store.user(sub).await.unwrap().unwrap().name, "Anna Example");
    let shown = served.run(move |site| site.json(&["user", "show", &sub.to_string()])).await;
    assert_eq!((shown["sub"].as_str(), shown["email"].as_str()), (Some(&*sub.to_string()), Some("anna@example.test")));
    assert!(!served.site.store_directory().exists());
}

#[tokio::test]
async fn the_server_and_the_store_return_the_same_errors() {
    let served = Served::start().await;
    served.add_user("anna@example.test").await;
    let again = ["user", "add", "anna@example.test", "--name", "Other", "--password-stdin"];
    let errors = served.run(move |site| site.errors(&again, PASSWORD)).await;
    assert_eq!(errors, ["a user with the e-mail address anna@example.test already exists"]);
    let new = ["user", "add", "ben@example.test", "--name", " ", "--password-stdin"];
    assert_eq!(served.run(move |site| site.errors(&new, "short")).await.len(), 2);
}

#[tokio::test]
async fn status_needs_a_running_server() {
    let served = Served::start().await;
    let status = served.run(|site| site.json(&["status"])).await;
    assert_eq!(status, json!({ "version": env!("CARGO_PKG_VERSION"), "store": "ok", "open_interactions": 0 }));
    served.stop.send(true).unwrap();
    served.task.await.unwrap();
    let site = Arc::clone(&served.site);
    let errors = tokio::task::spawn_blocking(move || site.errors(&["status"], "")).await.unwrap();
    assert_eq!(errors, [format!("no server answers on {}", served.site.socket().display())]);
    assert!(!served.site.store_directory().exists());
}

#[tokio::test]
async fn a_socket_of_a_killed_server_does_not_prevent_a_command() {
    let site = Site::new();
    drop(UnixListener::bind(site.socket()).unwrap());
    assert!(site.socket().exists());
    site.add_user("anna@example.test");
    assert!(site.store_directory().exists());
}

#[tokio::test]
async fn a_long_list_is_complete() {
    let served = Served::start().await;
    for number in 0..205 {
        let added = served.store.add_client(&client(&format!("client-{number:03}"))).await.unwrap();
        assert_eq!(added, AddOutcome::Added);
    }
    let list = served.run(|site| site.json(&["client", "list"])).await;
    assert_eq!(list["clients"].as_array().unwrap().len(), 205);
    assert_eq!(list["clients"][204]["client_id"], "client-204");
}

#[tokio::test]
async fn sessions_are_listed_and_ended_one_by_one_or_all() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    let ben = served.add_user("ben@example.test").await;
    let sessions = [served.sign_in(anna, 1).await, served.sign_in(anna, 2).await, served.sign_in(anna, 3).await];
    let other = served.sign_in(ben, 4).await;
    let list = served.run(|site| site.json(&["session", "list", "--user", "anna@example.test"])).await;
    let rows = list["sessions"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["sid"], sessions[0].to_string());
    assert_eq!(rows[0]["address"], "192.0.2.7");
    assert_eq!(rows[0]["sign_ins"][0]["sub"], anna.to_string());
    assert!(!list.to_string().contains("cookie"));

    let sid = sessions[1].to_string();
    let ended = served.run(move |site| site.json(&["session", "revoke", &sid])).await;
    assert_eq!(ended["sessions_ended"], 1);
    assert!(!served.lives(sessions[1]).await && served.lives(sessions[0]).await);
    let ended = served.run(|site| site.json(&["session", "revoke-all", "--user", "anna@example.test"])).await;
    assert_eq!(ended, json!({ "sub": anna, "sessions_ended": 2 }));
    assert!(!served.lives(sessions[0]).await && !served.lives(sessions[2]).await);
    assert!(served.lives(other).await);
}

#[tokio::test]
async fn a_long_session_list_is_complete() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    for number in 0..=u8::MAX {
        served.sign_in(anna, number).await;
    }
    let list = served.run(|site| site.json(&["session", "list", "--user", "anna@example.test"])).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 256);
}

#[tokio::test]
async fn a_new_password_and_a_disabled_account_end_sessions() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    let first = served.sign_in(anna, 1).await;
    let set = ["user", "set-password", "anna@example.test", "--password-stdin"];
    let changed = served.run(move |site| site.json_with(&set, OTHER_PASSWORD)).await;
    assert_eq!(changed["sessions_ended"], 1);
    assert!(!served.lives(first).await);

    let second = served.sign_in(anna, 2).await;
    let disabled = served.run(|site| site.json(&["user", "disable", "anna@example.test"])).await;
    assert_eq!((disabled["state"].as_str(), disabled["sessions_ended"].as_u64()), (Some("disabled"), Some(1)));
    served.run(|site| site.json(&["user", "enable", "anna@example.test"])).await;
    assert!(!served.lives(second).await, "enabling brings no session back");
}

#[tokio::test]
async fn a_user_revocation_ends_all_access() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    let ben = served.add_user("ben@example.test").await;
    let session = served.sign_in(anna, 1).await;
    let grants = [served.grant(anna, "wiki").await, served.grant(anna, "mail").await];
    let other = served.grant(ben, "wiki").await;
    let revoked = served.run(|site| site.json(&["user", "revoke", "anna@example.test"])).await;
    assert_eq!(revoked, json!({ "sub": anna, "sessions_ended": 1, "grants_ended": 2 }));
    assert!(!served.lives(session).await);
    assert!(!served.stands(grants[0]).await && !served.stands(grants[1]).await && served.stands(other).await);
}

#[tokio::test]
async fn disabling_or_removing_a_client_ends_its_grants() {
    let served = Served::start().await;
    let anna = served.add_user("anna@example.test").await;
    for id in ["wiki", "mail"] {
        assert_eq!(served.store.add_client(&client(id)).await.unwrap(), AddOutcome::Added);
    }
    let (wiki, mail) = (served.grant(anna, "wiki").await, served.grant(anna, "mail").await);
    let disabled = served.run(|site| site.json(&["client", "disable", "wiki"])).await;
    assert_eq!((disabled["state"].as_str(), disabled["grants_ended"].as_u64()), (Some("disabled"), Some(1)));
    served.run(|site| site.json(&["client", "enable", "wiki"])).await;
    assert!(!served.stands(wiki).await, "enabling brings no grant back");
    assert!(served.stands(mail).await);
    served.run(|site| site.json(&["client", "delete", "mail"])).await;
    assert!(!served.stands(mail).await);
}
