//! Signatures, keys and the queue, with a working token.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cryptoki::object::{Attribute, AttributeType, ObjectClass};
use sealgate_signer as signer;
use sealgate_signer::{ErrorClass, KeyId, KeySize, SignError, Signer};

use crate::softhsm::in_own_process;
use crate::support::{LABEL, block_on, generate, hsm, module, open, quick, session, sign_one, wait_until};

#[test]
fn signature_verifies_with_the_published_jwk() {
    in_own_process("signing::signature_verifies_with_the_published_jwk", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let keys = signer.key_set();
        let signatures =
            block_on(signer.sign(keys.active().kid(), vec![b"access".to_vec(), b"identity".to_vec()])).unwrap();

        // The key is read as by a relying party: only from the text of the JWK.
        let set = serde_json::to_value(keys.jwk_set()).unwrap();
        let jwk = &set["keys"][0];
        let number = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
        let public = RsaPublicKeyComponents { n: number("n"), e: number("e") };
        assert_eq!(jwk["kid"], keys.active().kid().as_str());
        assert_eq!(signatures.len(), 2);
        for (message, signature) in [b"access".as_slice(), b"identity"].into_iter().zip(&signatures) {
            public.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature.as_bytes()).unwrap();
            assert!(keys.find(keys.active().kid().as_str()).unwrap().verify(message, signature.as_bytes()));
        }
        assert!(!keys.active().verify(b"access", signatures[1].as_bytes()));
        assert_eq!(counts.signed(), 2);
    });
}

#[test]
fn the_kid_is_the_thumbprint_of_the_key_in_the_token() {
    in_own_process("signing::the_kid_is_the_thumbprint_of_the_key_in_the_token", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let report = generate(&hsm);
        let (signer, _) = open(&hsm, quick());

        let module = module();
        let session = session(&module);
        let key = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)]).unwrap()[0];
        let Attribute::Modulus(modulus) = session.get_attributes(key, &[AttributeType::Modulus]).unwrap().remove(0)
        else {
            panic!("no modulus");
        };
        let json = format!(r#"{{"e":"AQAB","kty":"RSA","n":"{}"}}"#, URL_SAFE_NO_PAD.encode(&modulus));
        let kid = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, json.as_bytes()));
        assert_eq!(signer.key_set().active().kid().as_str(), kid);
        assert_eq!(report.kid.as_str(), kid);
        assert_eq!(signer.key_set().active().modulus(), modulus);
    });
}

#[test]
fn longer_keys_sign_too() {
    in_own_process("signing::longer_keys_sign_too", LABEL, |softhsm| {
        for (size, id) in [(KeySize::Rsa3072, [1]), (KeySize::Rsa4096, [2])] {
            let hsm = sealgate_config::Hsm { key_label: format!("{size:?}"), ..hsm(softhsm) };
            let report = signer::generate(&hsm, size, &id, false).unwrap();
            assert_eq!(report.bits, size.bits() as usize);
            let (signer, _) = open(&hsm, quick());
            sign_one(&signer, b"message").unwrap();
            assert_eq!(signer.key_set().active().bits(), size.bits() as usize);
        }
    });
}

#[test]
fn kid_of_another_key_is_refused() {
    in_own_process("signing::kid_of_another_key_is_refused", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let error =
            block_on(signer.sign(&KeyId::from_public_key(&[5], &[1, 0, 1]), vec![b"message".to_vec()])).unwrap_err();
        assert!(matches!(error, SignError::Bug(_)), "{error}");
        assert_eq!(counts.signed(), 0);
    });
}

#[test]
fn concurrent_requests_each_get_their_own_signature() {
    in_own_process("signing::concurrent_requests_each_get_their_own_signature", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let signer: Arc<dyn Signer> = Arc::new(signer);
        block_on(async {
            let requests: Vec<_> = (0..64)
                .map(|number| {
                    let signer = Arc::clone(&signer);
                    tokio::spawn(async move {
                        let keys = signer.key_set();
                        let messages = vec![format!("access {number}").into(), format!("identity {number}").into()];
                        let signatures = signer.sign(keys.active().kid(), messages.clone()).await.unwrap();
                        assert_eq!(signatures.len(), messages.len());
                        for (message, signature) in messages.iter().zip(&signatures) {
                            assert!(keys.active().verify(message, signature.as_bytes()));
                        }
                    })
                })
                .collect();
            for request in requests {
                request.await.unwrap();
            }
        });
        assert_eq!(counts.signed(), 128);
        assert_eq!(counts.readiness(), [true]);
    });
}

#[test]
fn a_full_queue_refuses_immediately() {
    in_own_process("signing::a_full_queue_refuses_immediately", LABEL, |softhsm| {
        let hsm = sealgate_config::Hsm { sessions: 1, queue: 2, ..hsm(softhsm) };
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let kid = signer.key_set().active().kid().clone();
        let error = block_on(signer.sign(&kid, vec![b"message".to_vec(); 100])).unwrap_err();
        assert_eq!(error, SignError::Busy);
        assert_eq!(counts.failures(ErrorClass::Busy), 1);
        // The jobs of the refused request occupy the queue until they are skipped.
        wait_until(Duration::from_secs(1), "the queue has room again", || sign_one(&signer, b"message").is_ok());
        // At most the current job of the refused request was signed. Its queued jobs were skipped.
        assert!(counts.signed() <= 4, "{}", counts.signed());
        assert!(signer.ready());
    });
}

#[test]
fn a_request_ends_at_its_deadline_and_its_remaining_work_is_skipped() {
    in_own_process("signing::a_request_ends_at_its_deadline_and_its_remaining_work_is_skipped", LABEL, |softhsm| {
        let hsm = sealgate_config::Hsm {
            sessions: 1,
            queue: 10_000,
            sign_timeout: Duration::from_millis(50),
            ..hsm(softhsm)
        };
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let kid = signer.key_set().active().kid().clone();
        let start = std::time::Instant::now();
        let error = block_on(signer.sign(&kid, vec![b"message".to_vec(); 10_000])).unwrap_err();
        assert_eq!(error, SignError::Timeout);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(counts.failures(ErrorClass::Timeout), 1);
        // The queue is free for the next request at once: skipping is cheap.
        sign_one(&signer, b"message").unwrap();
        assert!(counts.signed() < 2_000, "{}", counts.signed());
    });
}

#[test]
fn dropped_signer_stops_its_threads_and_finalizes_the_module() {
    in_own_process("signing::dropped_signer_stops_its_threads_and_finalizes_the_module", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let threads = || {
            std::fs::read_dir("/proc/self/task")
                .unwrap()
                .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
                .filter(|name| ["signer-0", "signer-1", "signer-repair", "signer-watchdog"].contains(&name.trim()))
                .count()
        };
        let (signer, _) = open(&hsm, quick());
        sign_one(&signer, b"message").unwrap();
        wait_until(Duration::from_secs(1), "each thread has its name", || threads() == 4);
        drop(signer);
        wait_until(Duration::from_secs(1), "the threads end", || threads() == 0);
        assert!(module().get_library_info().is_err(), "the module is finalized");

        let (signer, _) = open(&hsm, quick());
        sign_one(&signer, b"a signer can be opened again").unwrap();
    });
}
