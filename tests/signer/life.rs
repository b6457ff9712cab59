//! Several keys in the token: the published ones, the active one, and discovery of new ones.

use std::sync::Arc;
use std::time::Duration;

use sealgate_domain::key_ring::{KeyRing, KeyTimes};
use sealgate_domain::time::UnixTime;
use sealgate_signer as signer;
use sealgate_signer::{KeyReport, KeySize, NoopObserver, Pkcs11Signer, Signer, SignerOpenError, Timing};
use sealgate_system::clock::FixedClock;

use crate::softhsm::in_own_process;
use crate::support::{LABEL, block_on, generate, hsm, open, quick, sign_one};

const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_seconds(seconds)
}

fn published(signer: &Pkcs11Signer) -> Vec<String> {
    signer.key_set().iter().map(|key| key.kid().to_string()).collect()
}

/// Returns a ring in which `first` signs, and `second` was announced at 1000 and will sign at 1100.
fn rotation(first: &KeyReport, second: &KeyReport) -> KeyRing {
    let (first, second) = (first.kid.to_string(), second.kid.to_string());
    let mut ring = KeyRing::default();
    ring.reconcile(&[first], at(0)).unwrap();
    ring.announce(&second, &[], at(1000)).unwrap();
    ring.activate(&second, None, false, at(1000), TIMES).unwrap();
    ring
}

#[test]
fn keys_change_state_at_their_times() {
    in_own_process("life::keys_change_state_at_their_times", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let first = generate(&hsm);
        let second = signer::generate(&hsm, KeySize::Rsa2048, &[2], true).unwrap();
        let (signer, _) = open(&hsm, quick());
        let clock = Arc::new(FixedClock::at(at(1000)));
        signer.set_key_ring(rotation(&first, &second), clock.clone());
        let (old, new) = (first.kid.to_string(), second.kid.to_string());
        assert_eq!(published(&signer), [old.clone(), new.clone()], "published before it signs");
        sign_one(&signer, b"by the first").unwrap();
        clock.advance(Duration::from_secs(99));
        assert_eq!(signer.key_set().active().kid(), &first.kid);
        clock.advance(Duration::from_secs(1));
        assert_eq!(published(&signer), [new.clone(), old], "the retired key still verifies");
        sign_one(&signer, b"by the second").unwrap();
        clock.advance(Duration::from_secs(50));
        assert_eq!(published(&signer), [new]);
    });
}

#[test]
fn a_running_signer_finds_a_key_generated_later() {
    in_own_process("life::a_running_signer_finds_a_key_generated_later", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let first = generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let second = signer::generate(&hsm, KeySize::Rsa2048, &[2], true).unwrap();
        let clock = Arc::new(FixedClock::at(at(1100)));
        signer.set_key_ring(rotation(&first, &second), clock);
        assert_eq!(published(&signer), [first.kid.to_string()], "a key that is not in the token cannot be published");
        assert_eq!(signer.key_reports().len(), 1);
        block_on(signer.scan()).unwrap();
        assert_eq!(signer.key_reports().len(), 2);
        assert_eq!(signer.key_set().active().kid(), &second.kid);
        sign_one(&signer, b"by the second").unwrap();
        assert_eq!(counts.resets(), 0);
    });
}

#[test]
fn an_unsuitable_key_does_not_affect_the_known_keys() {
    in_own_process("life::an_unsuitable_key_does_not_affect_the_known_keys", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        softhsm.pkcs11_tool(LABEL, &["--keypairgen", "--key-type", "rsa:2048", "--label", LABEL, "--id", "0806"]);
        let error = block_on(signer.scan()).unwrap_err();
        assert!(error.contains("0806") && error.contains("CKA_DECRYPT is true"), "{error}");
        sign_one(&signer, b"as before").unwrap();
        assert_eq!((signer.key_reports().len(), counts.resets()), (1, 0));
        assert!(signer.ready());
    });
}

#[test]
fn a_missing_scheduled_key_does_not_stop_the_signing_key() {
    in_own_process("life::a_missing_scheduled_key_does_not_stop_the_signing_key", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let first = generate(&hsm);
        let second = signer::generate(&hsm, KeySize::Rsa2048, &[2], true).unwrap();
        let (signer, counts) = open(&hsm, Timing { probe_interval: Duration::from_millis(50), ..quick() });
        signer.set_key_ring(rotation(&first, &second), Arc::new(FixedClock::at(at(1000))));
        softhsm.pkcs11_tool(LABEL, &["--delete-object", "--type", "privkey", "--id", "02"]);
        // Ten probes: none may make the signer unavailable.
        std::thread::sleep(Duration::from_millis(500));
        sign_one(&signer, b"as before").unwrap();
        assert!(signer.ready());
        assert_eq!(counts.resets(), 0);
        block_on(signer.scan()).unwrap();
        assert_eq!(published(&signer), [first.kid.to_string()]);
    });
}

#[test]
fn two_keys_with_one_id_are_refused() {
    in_own_process("life::two_keys_with_one_id_are_refused", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        softhsm.pkcs11_tool(LABEL, &["--keypairgen", "--key-type", "rsa:2048", "--label", LABEL, "--id", "a15e"]);
        let error = Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap_err();
        assert!(matches!(error, SignerOpenError::SameId { .. }) && error.to_string().contains("a15e"), "{error}");
    });
}
