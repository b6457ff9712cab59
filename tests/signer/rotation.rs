//! Automatic rotation: several servers on one store and one token, and a server that stops during a
//! rotation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealgate::app::rotation;
use sealgate_config::Config;
use sealgate_core::sources::NoClientKeys;
use sealgate_core::state::{NotServing, Parts, Sealgate};
use sealgate_domain::key_ring::{KeyRing, KeyState};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer::{KeySize, NewKey, Pkcs11Signer, Signer};
use sealgate_store::engine::Engine;
use sealgate_store::memory::MemoryEngine;
use sealgate_system::clock::{Clock, FixedClock, OsEntropy};
use sealgate_system::metrics::Metrics;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::configuration::Configuration;
use crate::softhsm::in_own_process;
use crate::support::{LABEL, block_on, generate, hsm, open, quick};

/// Time at which the only key is due for rotation, minus the time of publication.
const DUE: Duration = Duration::from_secs(1_000_000 - 90_000);

struct World {
    signer: Arc<Pkcs11Signer>,
    engine: Arc<MemoryEngine>,
    clock: Arc<FixedClock>,
}

impl World {
    fn new(signer: Pkcs11Signer) -> Self {
        let clock = Arc::new(FixedClock::at(UnixTime::from_seconds(1_800_000_000)));
        Self { signer: Arc::new(signer), engine: Arc::new(MemoryEngine::new()), clock }
    }

    async fn server(&self) -> Arc<Sealgate> {
        self.server_with("").await
    }

    /// Starts a server with additional keys in the section `[keys]`.
    async fn server_with(&self, more: &str) -> Arc<Sealgate> {
        self.try_server(more).await.unwrap()
    }

    async fn try_server(&self, more: &str) -> Result<Arc<Sealgate>, NotServing> {
        let text = Configuration::default().text("", &format!("[keys]\nrotate_seconds = 1000000\n{more}"));
        let parts = Parts {
            config: Config::parse(&text, Path::new("/nowhere")).unwrap(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine: Arc::clone(&self.engine) as Arc<dyn Engine>,
            signer: Arc::clone(&self.signer) as Arc<dyn Signer>,
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        Ok(Arc::new(parts.assemble().await?))
    }
}

/// Lets these servers rotate until `done`, and a little longer.
async fn run_until(servers: &[Arc<Sealgate>], done: impl Fn(&KeyRing) -> bool) -> KeyRing {
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for server in servers {
        tasks.spawn(rotation::run(Arc::clone(server), stopped.clone()));
    }
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if done(&servers[0].store.key_ring().await.unwrap()) {
            break;
        }
    }
    // Longer than the interval of a server's checks: none may generate another key.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    stop.send(true).unwrap();
    tasks.join_all().await;
    servers[0].store.key_ring().await.unwrap()
}

#[test]
fn one_of_several_servers_generates_the_key() {
    in_own_process("rotation::one_of_several_servers_generates_the_key", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let world = World::new(open(&hsm, quick()).0);
        block_on(async {
            let servers = [world.server().await, world.server().await, world.server().await];
            world.clock.advance(DUE);
            let ring = run_until(&servers, |ring| ring.keys().len() > 1).await;
            assert_eq!(ring.keys().len(), 2);
            let next = &ring.keys()[1];
            assert_eq!(next.activate_at, Some(world.clock.now().plus(Duration::from_hours(25))));
            world.signer.scan().await.unwrap();
            assert_eq!(world.signer.key_reports().len(), 2, "no second key is left in the token");
            let made: u64 = servers.iter().map(|server| server.metrics.key_rotations.get()).sum();
            assert_eq!(made, 1);
            assert_eq!(world.signer.key_set().iter().count(), 2, "published at once");
        });
    });
}

#[test]
fn no_key_is_generated_before_it_is_due() {
    in_own_process("rotation::no_key_is_generated_before_it_is_due", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let world = World::new(open(&hsm, quick()).0);
        block_on(async {
            let server = world.server().await;
            world.clock.advance(DUE.checked_sub(Duration::from_secs(1)).unwrap());
            let (stop, stopped) = watch::channel(false);
            let task = tokio::spawn(rotation::run(Arc::clone(&server), stopped));
            // Longer than the interval of checks: nothing may happen.
            tokio::time::sleep(Duration::from_millis(2500)).await;
            assert_eq!(server.store.key_ring().await.unwrap().keys().len(), 1);
            stop.send(true).unwrap();
            task.await.unwrap();
        });
    });
}

#[test]
fn a_key_whose_creator_died_is_adopted_at_the_next_start() {
    in_own_process("rotation::a_key_whose_creator_died_is_adopted_at_the_next_start", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let world = World::new(open(&hsm, quick()).0);
        block_on(async {
            let server = world.server().await;
            world.clock.advance(DUE);
            let now = world.clock.now();
            // The steps of a server up to its stop.
            let id = "5ea19a7e5ea19a7e5ea19a7e5ea19a7e";
            let begun = server.store.change_key_ring(|ring| {
                ring.begin_rotation("the dead one", id, now.plus(Duration::from_mins(10)), now);
                Ok(())
            });
            begun.await.unwrap().unwrap();
            let made = world.signer.make(KeySize::Rsa2048.into(), [0x5e, 0xa1, 0x9a, 0x7e].repeat(4)).await.unwrap();
            assert_eq!(made.id, id);

            let next = world.server().await;
            let ring = run_until(&[next], |ring| {
                ring.keys().iter().any(|key| key.kid == made.kid.as_str() && key.activate_at.is_some())
            })
            .await;
            assert_eq!(ring.keys().len(), 2);
            let life = ring.find(made.kid.as_str()).unwrap();
            assert_eq!(ring.state(life, now), KeyState::PrePublished);
            assert_eq!(world.signer.key_reports().len(), 2, "no further key was made");
        });
    });
}

#[test]
fn a_key_generated_by_another_server_is_published() {
    in_own_process("rotation::a_key_generated_by_another_server_is_published", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let world = World::new(open(&hsm, quick()).0);
        block_on(async {
            let server = world.server().await;
            let other = sealgate_signer::generate(&hsm, KeySize::Rsa2048, &[2], true).unwrap();
            let now = world.clock.now();
            let announced = server.store.change_key_ring(|ring| ring.announce(other.kid.as_str(), &[], now)).await;
            announced.unwrap().unwrap();
            server.reload_key_ring().await.unwrap();
            assert_eq!(world.signer.key_set().iter().count(), 1, "not seen yet");
            run_until(&[server], |_| world.signer.key_reports().len() == 2).await;
            assert_eq!(world.signer.key_set().iter().count(), 2);
        });
    });
}

/// The first key of a further algorithm needs no command after its announcement: it replaces no key.
/// Later the server rotates it, independently of the RS256 key.
#[test]
fn a_further_algorithm_starts_and_rotates_by_itself() {
    in_own_process("rotation::a_further_algorithm_starts_and_rotates_by_itself", LABEL, |softhsm| {
        let hsm = sealgate_config::Hsm { algorithms: vec![Algorithm::Rs256, Algorithm::Es256], ..hsm(softhsm) };
        generate(&hsm);
        let rs256_only = sealgate_config::Hsm { algorithms: vec![Algorithm::Rs256], ..hsm.clone() };
        let world = World::new(open(&rs256_only, quick()).0);
        block_on(async { drop(world.server().await) });
        let World { signer, engine, clock } = world;
        drop(signer);
        // The operator adds the algorithm to a used installation.
        let es256 = NewKey { algorithm: Algorithm::Es256, size: KeySize::Rsa2048 };
        let first = sealgate_signer::generate(&hsm, es256, &[0xe5], false).unwrap();
        let world = World { signer: Arc::new(open(&hsm, quick()).0), engine, clock };
        let settings = "algorithms = [\"RS256\", \"ES256\"]";
        block_on(async {
            let refused = world.try_server(settings).await.err().unwrap().lines.concat();
            assert!(refused.contains("not announced") && refused.contains(first.kid.as_str()), "{refused}");
            let store = sealgate_store::Store::open(Arc::clone(&world.engine) as Arc<dyn Engine>, 100).await.unwrap();
            let announced = store.change_key_ring(|ring| {
                ring.select(Algorithm::Es256);
                ring.announce(first.kid.as_str(), &[], world.clock.now())
            });
            announced.await.unwrap().unwrap();
            drop(store);
            let server = world.server_with(settings).await;
            let start = world.clock.now();
            assert!(world.signer.key_set().active_for(Algorithm::Es256).is_none());
            let scheduled = |ring: &KeyRing| ring.find(first.kid.as_str()).unwrap().activate_at;
            let ring = run_until(std::slice::from_ref(&server), |ring| scheduled(ring).is_some()).await;
            assert_eq!(scheduled(&ring), Some(start.plus(Duration::from_hours(25))));
            world.clock.advance(Duration::from_hours(25));
            assert_eq!(world.signer.key_set().active_for(Algorithm::Es256).unwrap().kid(), &first.kid);
            // The RS256 key is due first, because it signs for longer.
            world.clock.advance(DUE.checked_sub(Duration::from_hours(25)).unwrap());
            let ring = run_until(std::slice::from_ref(&server), |ring| ring.keys().len() > 2).await;
            let of = |ring: &KeyRing, algorithm| ring.keys().iter().filter(|key| key.is_for(algorithm)).count();
            assert_eq!((of(&ring, Algorithm::Rs256), of(&ring, Algorithm::Es256)), (2, 1));
            world.clock.advance(Duration::from_hours(25));
            let ring = run_until(std::slice::from_ref(&server), |ring| of(ring, Algorithm::Es256) > 1).await;
            assert_eq!((of(&ring, Algorithm::Rs256), of(&ring, Algorithm::Es256)), (2, 2));
            let reports = world.signer.key_reports();
            assert_eq!(reports.iter().filter(|key| key.alg == Algorithm::Es256).count(), 2);
            world.clock.advance(Duration::from_hours(25));
            assert_ne!(world.signer.key_set().active_for(Algorithm::Es256).unwrap().kid(), &first.kid);
        });
    });
}
