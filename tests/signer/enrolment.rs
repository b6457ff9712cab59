//! Enrolment of a new node with its own token, and rejection of forged data keys.
//!
//! Both tokens are in one SoftHSM. An attacker may change everything in the database.

use std::sync::Arc;

use sealgate::app::sealing;
use sealgate_config::Hsm;
use sealgate_domain::admission::{DataKeyEnvelope, NodeRequest};
use sealgate_domain::key_ring::{Endorsement, PublicJwk, TokenHolder};
use sealgate_domain::secret::base64url;
use sealgate_signer as signer;
use sealgate_signer::{EnrolmentKeys, KeySize};
use sealgate_store::Store;
use sealgate_store::engine::{Changes, Engine};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sealer::Sealer;
use sealgate_system::clock::OsEntropy;

use crate::softhsm::{SoftHsm, in_own_process};
use crate::support::{LABEL, block_on, hsm, module, session_at};

const ISSUER: &str = "https://id.example.test";

struct World {
    engine: Arc<MemoryEngine>,
    first: Hsm,
    second: Hsm,
    /// Signing key of the existing node.
    key: PublicJwk,
}

impl World {
    async fn new(softhsm: &SoftHsm) -> Self {
        softhsm.add_token("second");
        let first = hsm(softhsm);
        let second = Hsm { token_label: "second".to_owned(), ..first.clone() };
        for (hsm, number) in [(&first, 1), (&second, 2)] {
            signer::generate(hsm, KeySize::Rsa2048, &[number], false).unwrap();
            signer::wrap_init(hsm, &[number]).unwrap();
        }
        let key = signer::enrolment_keys(&first, &[9]).unwrap().signing;
        let world = Self { engine: Arc::new(MemoryEngine::of_a_cluster()), first, second, key };
        world.sealer().await;
        world
    }

    async fn store(&self) -> Store {
        Store::open(self.engine.clone(), 10).await.unwrap()
    }

    /// Returns the sealer of the existing node.
    async fn sealer(&self) -> Sealer {
        sealing::open(&self.first, &self.store().await, &OsEntropy).await.unwrap().unwrap()
    }

    /// Creates the second node's request.
    async fn request(&self, trusted: &str) -> NodeRequest {
        let EnrolmentKeys { signing, enrolment, hash } = signer::enrolment_keys(&self.second, &[7]).unwrap();
        let own = signing.thumbprint().unwrap();
        let endorsement = Endorsement { by: own, signature: "AA".to_owned() };
        let (node, trusted) = ("b".to_owned(), trusted.to_owned());
        let request =
            NodeRequest { node, key: signing, enrolment, hash, trusted, endorsement, signature: String::new() };
        let request = signed_request(&self.second, request);
        self.store().await.keep_node_request(&request).await.unwrap();
        request
    }

    async fn request_to_first(&self) -> NodeRequest {
        self.request(&self.key.thumbprint().unwrap()).await
    }

    /// Returns the data key of the first node's store, as its server sends it.
    async fn envelope(&self, request: &NodeRequest) -> DataKeyEnvelope {
        let store = self.store().await.sealing_with(self.sealer().await, 0).await.unwrap();
        let (data_key_id, ciphertext) = store.encrypt_data_key(&request.enrolment, request.hash).unwrap().unwrap();
        signed(
            &self.first,
            DataKeyEnvelope {
                node: request.node.clone(),
                enrolment: request.enrolment.thumbprint().unwrap(),
                data_key_id,
                ciphertext: base64url(&ciphertext),
                by: self.key.clone(),
                signature: String::new(),
            },
        )
    }

    async fn send(&self, request: &NodeRequest, envelope: &DataKeyEnvelope) {
        assert!(self.store().await.send_data_key(request, envelope).await.unwrap());
    }

    /// Returns the sealer of the second node's start, or its error.
    async fn start(&self) -> Result<Option<Sealer>, String> {
        let holder = TokenHolder { node: "b".to_owned(), issuer: ISSUER.to_owned() };
        let store = self.store().await;
        let opened = sealing::open_or_receive(&self.second, &store, &holder, &OsEntropy).await;
        opened.map(Result::ok).map_err(|error| error.to_string())
    }

    async fn refuses(&self, why: &str) {
        let Err(line) = self.start().await else { panic!("it was taken") };
        assert!(line.contains(why), "{line}");
        assert_eq!(self.store().await.wrapped_data_keys().await.unwrap().len(), 1, "nothing was kept");
    }
}

/// Signs with this token's only signing key.
fn signed(hsm: &Hsm, envelope: DataKeyEnvelope) -> DataKeyEnvelope {
    let signature = sign(hsm, envelope.statement(ISSUER).unwrap());
    DataKeyEnvelope { signature, ..envelope }
}

fn signed_request(hsm: &Hsm, request: NodeRequest) -> NodeRequest {
    let signature = sign(hsm, request.statement(ISSUER).unwrap());
    NodeRequest { signature, ..request }
}

fn sign(hsm: &Hsm, statement: Vec<u8>) -> String {
    let kid = signer::list(hsm).unwrap().into_iter().find(|key| key.label == LABEL).unwrap().kid;
    base64url(&signer::sign_apart(hsm, kid.as_str(), &[statement]).unwrap()[0])
}

fn in_world<F: Future<Output = ()>>(test: &str, body: impl FnOnce(World) -> F) {
    in_own_process(&format!("enrolment::{test}"), LABEL, |softhsm| {
        block_on(async { body(World::new(softhsm).await).await });
    });
}

#[test]
fn a_new_node_encrypts_with_the_received_data_key() {
    in_world("a_new_node_encrypts_with_the_received_data_key", async |world| {
        assert!(world.start().await.unwrap().is_none(), "not admitted");
        let request = world.request_to_first().await;
        assert!(world.start().await.unwrap().is_none(), "nothing was sent");
        world.send(&request, &world.envelope(&request).await).await;
        let second = world.start().await.unwrap().unwrap();
        let sealed = world.sealer().await.seal(b"p", [1; 12], b"hunter2").unwrap();
        assert_eq!(second.open(b"p", &sealed).unwrap().as_slice(), b"hunter2");
        // The node's own token now unwraps the data key, and the request is gone.
        let again = world.start().await.unwrap().unwrap();
        assert_eq!(again.open(b"p", &sealed).unwrap().as_slice(), b"hunter2");
        assert!(world.store().await.node_request("b").await.unwrap().is_none());
        assert!(world.store().await.data_key_envelope("b").await.unwrap().is_none());
        let others = signer::list(&world.second).unwrap().into_iter().filter(|key| key.label != LABEL);
        assert_eq!(others.count(), 0, "the enrolment key is gone");
    });
}

#[test]
fn the_enrolment_key_can_only_decrypt() {
    in_world("the_enrolment_key_can_only_decrypt", async |world| {
        let made = world.request_to_first().await.enrolment;
        let keys = signer::list(&world.second).unwrap();
        let key = keys.iter().find(|key| key.label == "sealgate-enrolment").unwrap();
        assert_eq!((key.bits, Some(key.kid.to_string())), (3072, made.thumbprint()));
        assert_eq!((key.can_decrypt, key.can_sign, key.can_unwrap), (Some(true), Some(false), Some(false)));
        assert_eq!((key.sensitive, key.extractable), (Some(true), Some(false)));
        assert_eq!(world.request_to_first().await.enrolment, made, "once made, it stays until it was used");
        signer::check(&world.second).unwrap();
    });
}

/// An attacker with write access encrypts a known data key and signs it with a separate key.
#[test]
fn a_data_key_from_an_untrusted_sender_is_refused() {
    in_world("a_data_key_from_an_untrusted_sender_is_refused", async |world| {
        let request = world.request_to_first().await;
        let genuine = world.envelope(&request).await;
        // The second token acts as the attacker's: a valid key that no operator has named.
        let strangers = DataKeyEnvelope { by: request.key.clone(), ..genuine.clone() };
        world.send(&request, &signed(&world.second, strangers)).await;
        world.refuses("which this node trusts").await;
        // The name of the right key, with the attacker's signature.
        world.send(&request, &signed(&world.second, genuine.clone())).await;
        world.refuses("which this node trusts").await;
        // An altered one.
        let altered = DataKeyEnvelope { data_key_id: "another".to_owned(), ..genuine.clone() };
        world.send(&request, &altered).await;
        world.refuses("which this node trusts").await;
        world.send(&request, &genuine).await;
        assert!(world.start().await.unwrap().is_some());
    });
}

/// A request with another trusted key, by an attacker without this node's token.
#[test]
fn a_replaced_request_is_refused_by_its_node() {
    in_world("a_replaced_request_is_refused_by_its_node", async |world| {
        let request = world.request_to_first().await;
        let genuine = world.envelope(&request).await;
        let strangers = world.key.clone();
        // The first token acts as the attacker's.
        let other_trust = NodeRequest { trusted: "x".repeat(43), ..request.clone() };
        world.store().await.keep_node_request(&other_trust).await.unwrap();
        world.send(&other_trust, &genuine).await;
        world.refuses("was changed").await;
        let strangers_own = signed_request(&world.first, NodeRequest { key: strangers, ..request.clone() });
        world.store().await.keep_node_request(&strangers_own).await.unwrap();
        world.send(&strangers_own, &genuine).await;
        world.refuses("was changed").await;
    });
}

#[test]
fn a_data_key_for_another_node_or_request_is_refused() {
    in_world("a_data_key_for_another_node_or_request_is_refused", async |world| {
        let request = world.request_to_first().await;
        let genuine = world.envelope(&request).await;
        let of_c = signed(&world.first, DataKeyEnvelope { node: "c".to_owned(), ..genuine.clone() });
        let put = |envelope: &DataKeyEnvelope| {
            let record = [&[stored_version(&world)][..], &serde_json::to_vec(envelope).unwrap()].concat();
            (b"mnode_data_key/b".to_vec(), record)
        };
        world.engine.commit(Changes { put: vec![put(&of_c)], ..Changes::default() }).await.unwrap();
        world.refuses("for another node or an earlier request").await;
        // An older one, after the node has generated another enrolment key.
        destroy_enrolment_key(&world.second);
        let anew = world.request_to_first().await;
        assert_ne!(anew.enrolment, request.enrolment);
        world.send(&anew, &genuine).await;
        world.refuses("for another node or an earlier request").await;
        // The data key of another store, sent by the right key.
        let other_store = world.store().await.sealing_with(Sealer::new(&[9; 32]).unwrap(), 0).await.unwrap();
        let (data_key_id, ciphertext) = other_store.encrypt_data_key(&anew.enrolment, anew.hash).unwrap().unwrap();
        let elsewhere =
            DataKeyEnvelope { data_key_id, ciphertext: base64url(&ciphertext), ..world.envelope(&anew).await };
        let elsewhere = signed(&world.first, elsewhere);
        world.send(&anew, &elsewhere).await;
        world.refuses("not the one that this store's nodes use").await;
        world.send(&anew, &world.envelope(&anew).await).await;
        assert!(world.start().await.unwrap().is_some());
    });
}

/// Returns the version of the stored record.
fn stored_version(world: &World) -> u8 {
    block_in_place(async { world.engine.get(b"mnode_request/b").await.unwrap().unwrap()[0] })
}

fn block_in_place<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

fn destroy_enrolment_key(hsm: &Hsm) {
    use cryptoki::context::{CInitializeArgs, CInitializeFlags};
    use cryptoki::object::Attribute;
    let module = module();
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    for slot in module.get_slots_with_initialized_token().unwrap() {
        if module.get_token_info(slot).unwrap().label() != hsm.token_label {
            continue;
        }
        let session = session_at(&module, slot);
        for object in session.find_objects(&[Attribute::Label(b"sealgate-enrolment".to_vec())]).unwrap() {
            session.destroy_object(object).unwrap();
        }
    }
    module.finalize().unwrap();
}
