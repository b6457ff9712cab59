//! Automatic rotation: several servers on one store and one token, and a server that stops during a
//! rotation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealgate::app::rotation;
use sealgate_config::Config;
use sealgate_core::sources::NoClientKeys;
use sealgate_core::state::{Parts, Sealgate};
use sealgate_domain::key_ring::{KeyRing, KeyState};
use sealgate_domain::time::UnixTime;
use sealgate_signer::{KeySize, Pkcs11Signer, Signer};
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
        let text = Configuration::default().text("", "[keys]\nrotate_seconds = 1000000");
        let parts = Parts {
            config: Config::parse(&text, Path::new("/nowhere")).unwrap(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine: Arc::clone(&self.engine) as Arc<dyn Engine>,
            signer: Arc::clone(&self.signer) as Arc<dyn Signer>,
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        Arc::new(parts.assemble().await.unwrap())
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
