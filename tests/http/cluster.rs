//! Two nodes on one store. Startup and background work run once, and do not disturb the second
//! node.

use std::sync::Arc;
use std::time::Duration;

use sealgate::app::{enrolment, outbox};
use sealgate_core::state::Sealgate;
use sealgate_domain::client::ClientId;
use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice};
use sealgate_domain::user::Email;
use sealgate_store::engine::Engine;
use sealgate_system::clock::{Clock, OsEntropy, random};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::mail_server::MailServer;
use crate::meddler::At;
use crate::register::Registered;
use crate::steps::with_anna;
use crate::support::{PASSWORD, Provider, is_login, token_device};

const CLIENT: u8 = b'l';
const SESSION: u8 = b's';
const NEW: &str = "a longer password than before";
const OPEN: &str = "[registration]\nmode = \"open\"\nmax_clients = 5\nunused_seconds = 3600";

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let held = timeout(Duration::from_secs(30), async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(held.await.is_ok(), "it never came to that: {what}");
}

fn holds(node: &Sealgate, lease: &str) -> bool {
    node.metrics.text().contains(&format!("sealgate_cluster_lease_held{{name=\"{lease}\"}} 1"))
}

/// A revocation is open while it runs. Other nodes leave it to the node that is about to finish it.
#[tokio::test]
async fn a_start_leaves_a_pending_revocation_to_the_node_that_executes_it() {
    let (provider, meddler) = Provider::meddled().await;
    provider.engine.share();
    let (thief, owner) = (with_anna(&provider).await, with_anna(&provider).await);
    let page = owner.get("/account/password").await;
    let stop = meddler.stop(At::BeforeCommit, SESSION);
    let (changed, _other) = tokio::join!(
        owner.submit(&page, &[("current", PASSWORD), ("new", NEW), ("again", NEW)]),
        stop.meanwhile(provider.again(Arc::clone(&meddler) as Arc<dyn Engine>, token_device::signer())),
    );
    assert!(changed.status < 400, "{changed:?}");
    assert_eq!(owner.get("/account").await.status, 200, "a user who changes the password stays signed in");
    assert!(is_login(&thief.open("/account").await));
    // No revocation is open. A start would execute one that no node has worked on for a minute.
    let left = provider.sealgate.store.carry_out_open_revocations(provider.clock.now()).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_start_succeeds_when_another_node_changes_a_client_concurrently() {
    let (provider, meddler) = Provider::meddled_with(OPEN).await;
    provider.engine.share();
    let store = &provider.sealgate.store;
    let own = Registered::new(&provider, &json!({})).await;
    let id = ClientId::parse(own.text("client_id")).unwrap();
    store.change_client(&id, |client| client.registration.as_mut().unwrap().unused_until = None).await.unwrap();
    let stop = meddler.stop(At::BeforeCommit, CLIENT);
    let engine = Arc::clone(&meddler) as Arc<dyn Engine>;
    let (_other, renamed) = tokio::join!(
        provider.again_with(OPEN, engine, token_device::signer()),
        stop.meanwhile(store.change_client(&id, |client| "Renamed".clone_into(&mut client.name))),
    );
    assert!(renamed.unwrap().is_some());
    let client = store.client(&id).await.unwrap().unwrap();
    assert_eq!(client.name, "Renamed");
    assert!(client.registration.unwrap().unused_until.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_nodes_sends_each_mail_once_and_the_other_continues() {
    let relay = MailServer::start();
    let section = format!(
        "[mail]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"id@example.test\"\nper_minute = 6000\n",
        relay.port
    );
    let provider = Provider::with(&section).await;
    provider.engine.share();
    let store = &provider.sealgate.store;
    let add = async |person: &str| {
        let now = provider.clock.now();
        let names = (MailId::from_bytes(random(&OsEntropy)), random(&OsEntropy));
        let mail = Mail::Notice { notice: Notice::PasswordChanged, count: 1 };
        let (to, language) = (Email::parse(person), provider.sealgate.config.pages.default_language);
        let message = MailMessage { to, language, at: now, origin: None, mail };
        let mail = store.new_mail(names, None, &message, now).unwrap();
        assert!(store.add_mail(&[mail]).await.unwrap());
    };
    let is_empty = async || store.waiting_mails(None, 1).await.unwrap().is_empty();
    let people: Vec<String> = (0..12).map(|number| format!("p{number}@example.test")).collect();
    for person in &people {
        add(person).await;
    }
    let engine = Arc::clone(&provider.engine) as Arc<dyn Engine>;
    let other = provider.again_with(&section, engine, token_device::signer()).await;
    let mut nodes = Vec::new();
    for node in [&provider.sealgate, &other] {
        let (stop, stopped) = watch::channel(false);
        nodes.push((Arc::clone(node), stop, tokio::spawn(outbox::run(Arc::clone(node), stopped))));
    }
    until("all are sent", is_empty).await;
    for person in &people {
        assert_eq!(relay.mails_to(person).len(), 1, "{person}");
    }
    until("one of them sends", async || nodes.iter().filter(|(node, ..)| holds(node, "mailing")).count() == 1).await;
    // The sender stops, and the second node continues.
    let sender = nodes.iter().position(|(node, ..)| holds(node, "mailing")).unwrap();
    let (_, stop, worker) = nodes.remove(sender);
    stop.send(true).unwrap();
    worker.await.unwrap();
    add("last@example.test").await;
    until("the other sends", is_empty).await;
    assert!(holds(&nodes[0].0, "mailing") && relay.mails().len() == people.len() + 1);
    let (_, stop, worker) = nodes.remove(0);
    stop.send(true).unwrap();
    worker.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_nodes_counts_users_for_both() {
    let provider = Provider::new().await;
    provider.engine.share();
    let engine = Arc::clone(&provider.engine) as Arc<dyn Engine>;
    let other = provider.again(engine, token_device::signer()).await;
    let nodes = [&provider.sealgate, &other];
    let (stop, stopped) = watch::channel(false);
    let counting: Vec<_> =
        nodes.iter().map(|node| tokio::spawn(enrolment::run(Arc::clone(node), stopped.clone()))).collect();
    until("both know", async || nodes.iter().all(|node| node.enrolment.last().is_some())).await;
    assert_eq!(provider.sealgate.enrolment.last(), other.enrolment.last());
    assert_eq!(other.enrolment.last().unwrap().0.users(), 2);
    assert_eq!(nodes.iter().filter(|node| holds(node, "people")).count(), 1);
    stop.send(true).unwrap();
    for counting in counting {
        counting.await.unwrap();
    }
}
