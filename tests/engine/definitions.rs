//! Clients of the configuration file: one commit, and agreement of nodes with the same file.

use std::sync::Arc;

use sealgate_domain::client::{Client, ClientId, SelfRegistration};
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_store::{AddOutcome, ClientDefinition, ClientsDefined, DefineOutcome, Store, StoreError};
use tokio::task::JoinSet;

use crate::postgres_server::empty_store;
use crate::{node, records};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const LATER: UnixTime = UnixTime::from_seconds(1_800_009_000);

fn definition(id: &str) -> Client {
    Client { from_configuration: true, ..records::client(id, UnixTime::from_seconds(0)) }
}

async fn define(store: &Store, clients: &[Client], adopt: bool, now: UnixTime) -> DefineOutcome {
    let definitions: Vec<_> = clients.iter().map(|client| ClientDefinition { client, adopt }).collect();
    store.define_clients(&definitions, now, 7).await.unwrap()
}

async fn defined(store: &Store, clients: &[Client]) -> ClientsDefined {
    match define(store, clients, false, LATER).await {
        DefineOutcome::Defined(defined) => defined,
        taken @ DefineOutcome::Taken(_) => panic!("{taken:?}"),
    }
}

fn id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

async fn store() -> Store {
    Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap()
}

#[tokio::test]
async fn a_definition_is_stored_changed_and_removed() {
    let store = store().await;
    let (one, two) = (definition("one"), definition("two"));
    let created = define(&store, &[one.clone(), two.clone()], false, NOW).await;
    let expected = ClientsDefined { created: vec![id("one"), id("two")], ..ClientsDefined::default() };
    assert_eq!(created, DefineOutcome::Defined(expected));
    let stored = store.client(&id("one")).await.unwrap().unwrap();
    assert_eq!((stored.created_at, stored.incarnation), (NOW, 7));

    let before = store.epoch();
    assert_eq!(defined(&store, &[one.clone(), two.clone()]).await, ClientsDefined::default());
    assert_eq!(store.epoch(), before, "nothing is written if nothing differs");

    let uri = RedirectUri::parse("https://other.test/cb").unwrap();
    let changed = Client { redirect_uris: vec![uri.clone()], ..one };
    let found = defined(&store, &[changed]).await;
    assert_eq!((found.changed, found.removed), (vec![(id("one"), vec!["redirect_uris"])], vec![id("two")]));
    let stored = store.client(&id("one")).await.unwrap().unwrap();
    assert_eq!((stored.redirect_uris, stored.created_at, stored.incarnation), (vec![uri], NOW, 7));
    assert_eq!(store.client(&id("two")).await.unwrap(), None);
}

#[tokio::test]
async fn a_client_that_was_registered_in_another_way_is_only_replaced_if_it_is_adopted() {
    let store = store().await;
    let access_token = SecretHash::for_secret(b"r");
    let registration = SelfRegistration { access_token, used: true, approval_requested: false, unused_until: None };
    let other = Client { registration: Some(registration), ..records::client("two", NOW) };
    assert_eq!(store.add_client(&other).await.unwrap(), AddOutcome::Added);
    let clients = [definition("one"), definition("two")];
    assert_eq!(define(&store, &clients, false, LATER).await, DefineOutcome::Taken(vec![id("two")]));
    assert_eq!(store.client(&id("one")).await.unwrap(), None, "all or nothing");
    assert_eq!(store.client(&id("two")).await.unwrap(), Some(other.clone()));

    let DefineOutcome::Defined(found) = define(&store, &clients, true, LATER).await else { panic!() };
    assert_eq!((found.created, found.changed), (vec![id("one")], vec![(id("two"), vec!["adopted"])]));
    let adopted = store.client(&id("two")).await.unwrap().unwrap();
    assert!(adopted.from_configuration && adopted.registration.is_none());
    assert_eq!((adopted.created_at, adopted.incarnation), (other.created_at, other.incarnation));
}

#[tokio::test]
async fn only_a_definition_changes_a_defined_client() {
    let store = store().await;
    let _ = defined(&store, &[definition("one")]).await;
    let before = store.client(&id("one")).await.unwrap();
    let changed = store.change_client(&id("one"), |client| client.name = "Other".into()).await;
    assert!(matches!(changed, Err(StoreError::DefinedClient(client)) if client == id("one")));
    let deleted = store.delete_client(&id("one"), LATER).await;
    assert!(matches!(deleted, Err(StoreError::DefinedClient(_))));
    assert_eq!(store.client(&id("one")).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_the_same_file_store_its_clients_once() {
    let settings = empty_store().await;
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let engine: Arc<dyn Engine> = Arc::new(node(&settings).await);
        nodes.push(Store::open(engine, 10).await.unwrap());
    }
    let mut clients: Vec<_> = ["one", "two", "three"].map(definition).into();
    for round in 0..5 {
        clients[0].name = format!("Round {round}");
        let mut starting = JoinSet::new();
        for store in nodes.iter().cycle().take(8) {
            let (store, clients) = (store.clone(), clients.clone());
            starting.spawn(async move { defined(&store, &clients).await });
        }
        let mut written = ClientsDefined::default();
        while let Some(defined) = starting.join_next().await {
            let ClientsDefined { created, changed, removed } = defined.unwrap();
            written.created.extend(created);
            written.changed.extend(changed);
            assert!(removed.is_empty());
        }
        assert_eq!(written.created.len(), if round == 0 { 3 } else { 0 }, "{written:?}");
        assert_eq!(written.changed.len(), usize::from(round > 0), "{written:?}");
    }
}
