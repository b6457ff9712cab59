//! The wrapping key in the token, for the store's data key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sealgate::app::sealing;
use sealgate_config::Hsm;
use sealgate_signer as signer;
use sealgate_signer::{FreshRandom, SignerOpenError, WrappedKey};
use sealgate_store::Store;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use sealgate_system::clock::{OsEntropy, random};
use zeroize::Zeroizing;

use crate::softhsm::in_own_process;
use crate::support::{LABEL, block_on, generate, hsm, module, open, quick, session, sign_one};

fn fresh() -> FreshRandom {
    FreshRandom { key: Zeroizing::new(random(&OsEntropy)), nonce: random(&OsEntropy) }
}

fn refusal(error: &SignerOpenError) -> String {
    assert!(matches!(error, SignerOpenError::WrappingKey { .. }), "{error}");
    error.to_string()
}

/// Returns a data key, wrapped by the token.
fn wrapped(hsm: &Hsm) -> (WrappedKey, Zeroizing<[u8; 32]>) {
    let made = signer::data_key(hsm, &[], fresh()).unwrap().unwrap();
    (made.to_store.unwrap(), made.key)
}

#[test]
fn a_data_key_is_recovered_only_from_its_wrapped_form() {
    in_own_process("wrapping::a_data_key_is_recovered_only_from_its_wrapped_form", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        assert!(signer::data_key(&hsm, &[], fresh()).unwrap().is_none(), "no wrapping key, no data key");
        let id = signer::wrap_init(&hsm, &[0xa1, 0x5e]).unwrap();
        assert_eq!(id, "a15e");

        let (kept, key) = wrapped(&hsm);
        assert_eq!(kept.wrapping_id, "a15e");
        assert!(!kept.bytes.windows(8).any(|window| key.windows(8).any(|part| part == window)));
        let again = signer::data_key(&hsm, std::slice::from_ref(&kept), fresh()).unwrap().unwrap();
        assert!(again.key == key && again.to_store.is_none());

        for at in 0..kept.bytes.len() {
            let mut altered = kept.clone();
            altered.bytes[at] ^= 1;
            let Err(error) = signer::data_key(&hsm, &[altered], fresh()) else { panic!("byte {at} was altered") };
            assert!(refusal(&error).contains("cannot decrypt the data key in the store (CKA_ID a15e)"));
        }
        let short = WrappedKey { bytes: vec![1], ..kept };
        assert!(signer::data_key(&hsm, &[short], fresh()).is_err());
    });
}

#[test]
fn a_wrapping_key_with_another_value_is_refused_on_one_line() {
    in_own_process("wrapping::a_wrapping_key_with_another_value_is_refused_on_one_line", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        signer::wrap_init(&hsm, &[1]).unwrap();
        let (kept, _) = wrapped(&hsm);
        // The new key has the same token label and CKA_ID, and a different value.
        delete_wrapping_key(&hsm);
        signer::wrap_init(&hsm, &[1]).unwrap();
        let Err(error) = signer::data_key(&hsm, std::slice::from_ref(&kept), fresh()) else { panic!("it opened") };
        let error = refusal(&error);
        assert!(error.contains("\"sealgate-wrap\"") && error.contains("restore the right token or store"), "{error}");
        // A key with a different ID gets a separate data key.
        delete_wrapping_key(&hsm);
        signer::wrap_init(&hsm, &[2]).unwrap();
        let made = signer::data_key(&hsm, &[kept], fresh()).unwrap().unwrap();
        assert_eq!(made.to_store.unwrap().wrapping_id, "02");
    });
}

fn delete_wrapping_key(hsm: &Hsm) {
    use cryptoki::object::{Attribute, ObjectClass};
    let module = module();
    let flags = cryptoki::context::CInitializeFlags::OS_LOCKING_OK;
    module.initialize(cryptoki::context::CInitializeArgs::new(flags)).unwrap();
    {
        let session = session(&module);
        let found = session.find_objects(&[Attribute::Class(ObjectClass::SECRET_KEY)]).unwrap();
        assert_eq!(found.len(), 1, "{}", hsm.token_label);
        session.destroy_object(found[0]).unwrap();
    }
    module.finalize().unwrap();
}

#[test]
fn the_wrapping_key_is_not_extractable_and_generated_once() {
    in_own_process("wrapping::the_wrapping_key_is_not_extractable_and_generated_once", LABEL, |softhsm| {
        use cryptoki::object::{Attribute, AttributeType, ObjectClass};
        let hsm = hsm(softhsm);
        generate(&hsm);
        signer::wrap_init(&hsm, &[7]).unwrap();
        let again = refusal(&signer::wrap_init(&hsm, &[8]).unwrap_err());
        assert!(again.contains("already exists (CKA_ID 07)"), "{again}");

        let (signer, _) = open(&hsm, quick());
        sign_one(&signer, b"the wrapping key is no signing key").unwrap();
        assert_eq!(signer::list(&hsm).unwrap().len(), 1);
        let module = module();
        let session = session(&module);
        let key = session.find_objects(&[Attribute::Class(ObjectClass::SECRET_KEY)]).unwrap()[0];
        assert_eq!(session.get_attributes(key, &[AttributeType::Value]).unwrap(), []);
        let stated = session
            .get_attributes(key, &[AttributeType::Extractable, AttributeType::Wrap, AttributeType::Unwrap])
            .unwrap();
        assert_eq!(stated, [Attribute::Extractable(false), Attribute::Wrap(false), Attribute::Unwrap(false)]);
    });
}

#[test]
fn the_store_keeps_its_data_key_across_a_restart() {
    in_own_process("wrapping::the_store_keeps_its_data_key_across_a_restart", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        block_on(async {
            let engine = Arc::new(MemoryEngine::new());
            let store = Store::open(engine.clone(), 10).await.unwrap();
            assert!(sealing::open(&hsm, &store, &OsEntropy).await.unwrap().is_err());
            signer::wrap_init(&hsm, &[7]).unwrap();
            let first = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
            let sealed = first.seal(b"p", [1; 12], b"hunter2").unwrap();

            let store = Store::open(engine, 10).await.unwrap();
            let second = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
            assert_eq!(second.open(b"p", &sealed).unwrap().as_slice(), b"hunter2");
            assert_eq!(store.wrapped_data_keys().await.unwrap().len(), 1);
        });
    });
}

/// Engine whose first read of data keys misses a key that another node stores concurrently.
struct Behind {
    engine: Arc<MemoryEngine>,
    looked: AtomicBool,
}

#[async_trait]
impl Engine for Behind {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        if key == b"mdata_key_id" && !self.looked.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.engine.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        if prefix == b"mdata_key/" && !self.looked.swap(true, Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        self.engine.commit(changes).await
    }

    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.engine.ping().await
    }
}

#[test]
fn concurrent_first_starts_share_one_data_key() {
    in_own_process("wrapping::concurrent_first_starts_share_one_data_key", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        signer::wrap_init(&hsm, &[7]).unwrap();
        for engine in [MemoryEngine::new(), MemoryEngine::of_a_cluster()].map(Arc::new) {
            block_on(async {
                let store = Store::open(engine.clone(), 10).await.unwrap();
                let first = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
                let sealed = first.seal(b"p", [1; 12], b"hunter2").unwrap();

                let behind = Arc::new(Behind { engine, looked: AtomicBool::new(false) });
                let store = Store::open(behind.clone(), 10).await.unwrap();
                let second = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
                assert!(behind.looked.load(Ordering::SeqCst));
                assert_eq!(second.open(b"p", &sealed).unwrap().as_slice(), b"hunter2");
                assert_eq!(store.wrapped_data_keys().await.unwrap().len(), 1);
            });
        }
    });
}

/// Two nodes of a cluster, each with its own token: the second cannot unwrap the first one's data
/// key.
#[test]
fn nodes_with_different_wrapping_keys_share_one_data_key() {
    in_own_process("wrapping::nodes_with_different_wrapping_keys_share_one_data_key", LABEL, |softhsm| {
        softhsm.add_token("other");
        for shared in [true, false] {
            let one = Hsm { shared, ..hsm(softhsm) };
            let other = Hsm { token_label: "other".to_owned(), ..one.clone() };
            if shared {
                signer::wrap_init(&one, &[7]).unwrap();
                signer::wrap_init(&other, &[8]).unwrap();
            }
            block_on(async {
                let engine = Arc::new(MemoryEngine::of_a_cluster());
                let store = || async { Store::open(engine.clone(), 10).await.unwrap() };
                let here = store().await;
                assert!(sealing::open(&one, &here, &OsEntropy).await.unwrap().is_ok());
                let at_the_same_moment = Behind { engine: engine.clone(), looked: AtomicBool::new(false) };
                let at_the_same_moment = Store::open(Arc::new(at_the_same_moment), 10).await.unwrap();
                for there in [at_the_same_moment, store().await] {
                    match sealing::open(&other, &there, &OsEntropy).await {
                        Err(refused) if shared => {
                            let line = refused.to_string();
                            assert!(line.contains("CKA_ID 07") && line.contains("the token has 08"), "{line}");
                        }
                        Ok(Err(waits)) if !shared => assert!(waits.to_string().contains("Taking a node in"), "{waits}"),
                        _ => panic!("it seals"),
                    }
                    assert_eq!(there.wrapped_data_keys().await.unwrap().len(), 1);
                }
                // The first continues with its own.
                assert!(sealing::open(&one, &here, &OsEntropy).await.unwrap().is_ok());
            });
        }
    });
}

/// The first start after an import records the store's data key.
///
/// A data key that is added later is not used.
#[test]
fn a_cluster_keeps_its_first_data_key() {
    in_own_process("wrapping::a_cluster_keeps_its_first_data_key", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        signer::wrap_init(&hsm, &[7]).unwrap();
        let (imported, _) = wrapped(&hsm);
        let (another, _) = wrapped(&hsm);
        block_on(async {
            let engine = Arc::new(MemoryEngine::of_a_cluster());
            let store = Store::open(engine.clone(), 10).await.unwrap();
            store.keep_data_key("07", &imported.bytes).await.unwrap();
            let first = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
            let sealed = first.seal(b"p", [1; 12], b"hunter2").unwrap();
            let again = sealing::open(&hsm, &store, &OsEntropy).await.unwrap().unwrap();
            assert_eq!(again.open(b"p", &sealed).unwrap().as_slice(), b"hunter2");

            let delete = vec![b"mdata_key/07".to_vec()];
            engine.commit(Changes { delete, ..Changes::default() }).await.unwrap();
            store.keep_data_key("07", &another.bytes).await.unwrap();
            let Err(refused) = sealing::open(&hsm, &store, &OsEntropy).await else { panic!("it seals with another") };
            assert!(refused.to_string().contains("not the one that this store's nodes"), "{refused}");
        });
    });
}
