//! Keys of further algorithms in the token: ES256, PS256 and `EdDSA`.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, ObjectClass};
use sealgate_config::Hsm;
use sealgate_domain::key_ring::{KeyFault, KeyRing, KeyState, KeyTimes};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer as signer;
use sealgate_signer::{KeyReport, KeySize, NewKey, Pkcs11Signer, SignError, Signer, SignerOpenError};
use sealgate_system::clock::FixedClock;
use serde_json::Value;

use crate::shim::Shim;
use crate::softhsm::{SoftHsm, in_own_process};
use crate::support::{LABEL, block_on, hsm, module, open, quick, session};

const ALL: [Algorithm; 4] = [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];
const FURTHER: [Algorithm; 3] = [Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];
const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_seconds(seconds)
}

/// Returns settings for all algorithms.
fn all(softhsm: &SoftHsm) -> Hsm {
    Hsm { algorithms: ALL.to_vec(), ..hsm(softhsm) }
}

fn new(algorithm: Algorithm) -> NewKey {
    NewKey { algorithm, size: KeySize::Rsa2048 }
}

/// Generates a key for each algorithm.
fn generate_all(hsm: &Hsm) -> Vec<KeyReport> {
    let keys = ALL.iter().zip(1..).map(|(algorithm, id)| signer::generate(hsm, new(*algorithm), &[id], false));
    keys.collect::<Result<_, _>>().unwrap()
}

/// Returns a ring as after a first start with these keys.
fn first_ring(keys: &[KeyReport]) -> KeyRing {
    let mut ring = KeyRing::default();
    ring.reconcile(&[keys[0].kid.to_string()], at(0)).unwrap();
    for key in &keys[1..] {
        ring.select(key.alg);
        ring.reconcile_further(&[key.kid.to_string()], true, at(0)).unwrap();
    }
    ring.of_algorithm(Algorithm::Rs256)
}

fn sign(signer: &Pkcs11Signer, algorithm: Algorithm, message: &[u8]) -> Result<Vec<u8>, SignError> {
    let keys = signer.key_set();
    let key = keys.active_for(algorithm).unwrap();
    assert_eq!(key.algorithm(), algorithm);
    Ok(block_on(signer.sign(key.kid(), vec![message.to_vec()]))?[0].as_bytes().to_vec())
}

/// Verifies a signature as a relying party does: with the text of the JWK only.
fn verifies(jwk: &Value, message: &[u8], signature: &[u8]) -> bool {
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    let rsa = || RsaPublicKeyComponents { n: bytes("n"), e: bytes("e") };
    match (jwk["alg"].as_str().unwrap(), jwk["kty"].as_str().unwrap(), jwk["crv"].as_str()) {
        ("RS256", "RSA", None) => rsa().verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok(),
        ("PS256", "RSA", None) => rsa().verify(&RSA_PSS_2048_8192_SHA256, message, signature).is_ok(),
        ("ES256", "EC", Some("P-256")) => {
            let point = [vec![4], bytes("x"), bytes("y")].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
        }
        ("EdDSA", "OKP", Some("Ed25519")) => {
            UnparsedPublicKey::new(&ED25519, bytes("x")).verify(message, signature).is_ok()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_algorithm_signs_with_its_own_key() {
    in_own_process("algorithms::each_algorithm_signs_with_its_own_key", LABEL, |softhsm| {
        let hsm = all(softhsm);
        let keys = generate_all(&hsm);
        let labels: Vec<&str> = keys.iter().map(|key| key.label.as_str()).collect();
        assert_eq!(labels, ["sealgate", "sealgate-ps256", "sealgate-es256", "sealgate-eddsa"]);
        let (signer, counts) = open(&hsm, quick());
        signer.set_key_ring(first_ring(&keys), Arc::new(FixedClock::at(at(10))));
        let set = serde_json::to_value(signer.key_set().jwk_set()).unwrap();
        for (number, (algorithm, key)) in ALL.iter().zip(&keys).enumerate() {
            let jwk = set["keys"].as_array().unwrap().iter().find(|jwk| jwk["kid"] == key.kid.as_str()).unwrap();
            assert_eq!((&jwk["alg"], &jwk["use"]), (&algorithm.name().into(), &"sig".into()));
            let signature = sign(&signer, *algorithm, b"message").unwrap();
            assert!(verifies(jwk, b"message", &signature), "{algorithm}");
            assert!(!verifies(jwk, b"another", &signature), "{algorithm}");
            assert_eq!(signature.len(), if number < 2 { 256 } else { 64 }, "{algorithm}");
            assert_eq!(counts.signed(), number + 1);
        }
        assert!(signer::check(&hsm).unwrap().ok);
        assert_eq!(signer::list(&hsm).unwrap().len(), 4);
        assert_eq!(signer::list_tls_keys(&hsm, &[]).unwrap(), [], "a signing key is no TLS key");
    });
}

#[test]
fn an_installation_with_rs256_only_does_not_see_keys_of_other_algorithms() {
    let test = "algorithms::an_installation_with_rs256_only_does_not_see_keys_of_other_algorithms";
    in_own_process(test, LABEL, |softhsm| {
        let keys = generate_all(&all(softhsm));
        let (signer, _) = open(&hsm(softhsm), quick());
        signer.set_key_ring(first_ring(&keys), Arc::new(FixedClock::at(at(10))));
        let set = signer.key_set();
        let published: Vec<&str> = set.iter().map(|key| key.kid().as_str()).collect();
        assert_eq!(published, [keys[0].kid.as_str()]);
        assert!(FURTHER.iter().all(|algorithm| set.active_for(*algorithm).is_none()));
    });
}

#[test]
fn the_token_limits_a_key_to_its_mechanism() {
    in_own_process("algorithms::the_token_limits_a_key_to_its_mechanism", LABEL, |softhsm| {
        let hsm = all(softhsm);
        generate_all(&hsm);
        let (signer, _) = open(&hsm, quick());
        let module = module();
        let session = session(&module);
        for (algorithm, mechanism) in [
            (Algorithm::Ps256, MechanismType::RSA_PKCS_PSS),
            (Algorithm::Es256, MechanismType::ECDSA),
            (Algorithm::EdDsa, MechanismType::EDDSA),
        ] {
            let label = Attribute::Label(hsm.key_label_of(algorithm).into_bytes());
            let key = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY), label]).unwrap()[0];
            let allowed = session.get_attributes(key, &[AttributeType::AllowedMechanisms]).unwrap();
            assert_eq!(allowed, [Attribute::AllowedMechanisms(vec![mechanism])], "{algorithm}");
            if algorithm == Algorithm::Ps256 {
                assert!(session.sign(&Mechanism::RsaPkcs, key, b"x").is_err(), "RS256 with the key of PS256");
            }
        }
        drop(signer);
    });
}

#[test]
fn a_configured_algorithm_without_a_key_is_an_error() {
    in_own_process("algorithms::a_configured_algorithm_without_a_key_is_an_error", LABEL, |softhsm| {
        let hsm = Hsm { algorithms: vec![Algorithm::Rs256, Algorithm::Es256], ..hsm(softhsm) };
        signer::generate(&hsm, KeySize::Rsa2048, &[1], false).unwrap();
        let error = Pkcs11Signer::open(&hsm, Arc::new(signer::NoopObserver)).unwrap_err();
        assert!(matches!(error, SignerOpenError::NoKeyFor { algorithm: Algorithm::Es256, .. }), "{error}");
        assert!(error.to_string().contains("sealgate key generate --algorithm ES256"), "{error}");
        let check = signer::check(&hsm).unwrap();
        assert_eq!((check.ok, check.faults.len()), (false, 1));
    });
}

/// The label in the token decides for which algorithm a key is used, and the ring must agree. A user
/// of the token could change the label.
#[test]
fn a_key_with_the_label_of_another_algorithm_is_refused() {
    let test = "algorithms::a_key_with_the_label_of_another_algorithm_is_refused";
    in_own_process(test, LABEL, |softhsm| {
        let hsm = Hsm { algorithms: vec![Algorithm::Rs256, Algorithm::Ps256], ..hsm(softhsm) };
        let first = signer::generate(&hsm, KeySize::Rsa2048, &[1], false).unwrap();
        let second = signer::generate(&hsm, KeySize::Rsa2048, &[2], true).unwrap();
        let mut ring = KeyRing::default();
        ring.reconcile(&[first.kid.to_string()], at(0)).unwrap();
        ring.announce(second.kid.as_str(), &[], at(0)).unwrap();
        {
            let module = initialized();
            let session = session(&module);
            for object in session.find_objects(&[Attribute::Id(vec![2])]).unwrap() {
                session.update_attributes(object, &[Attribute::Label(b"sealgate-ps256".to_vec())]).unwrap();
            }
            drop(session);
            module.finalize().unwrap();
        }
        let (signer, _) = open(&hsm, quick());
        let moved = signer.key_reports().into_iter().find(|key| key.alg == Algorithm::Ps256).unwrap();
        assert_eq!(moved.kid, second.kid);
        let refused =
            ring.clone().of_algorithm(Algorithm::Ps256).reconcile_further(&[moved.kid.to_string()], false, at(1));
        let announced = "RS256".to_owned();
        let kid = moved.kid.to_string();
        assert_eq!(refused, Err(KeyFault::WrongAlgorithm { kid, announced, found: Algorithm::Ps256 }));
        // A running signer that finds the changed label does not publish the key either.
        signer.set_key_ring(ring, Arc::new(FixedClock::at(at(1))));
        assert!(signer.key_set().find(moved.kid.as_str()).is_none());
        assert!(signer.key_set().active_for(Algorithm::Ps256).is_none());
    });
}

#[test]
fn each_algorithm_has_its_own_life_cycle() {
    in_own_process("algorithms::each_algorithm_has_its_own_life_cycle", LABEL, |softhsm| {
        let hsm = all(softhsm);
        let keys = generate_all(&hsm);
        let next = signer::generate(&hsm, new(Algorithm::Es256), &[9], true).unwrap();
        let (signer, _) = open(&hsm, quick());
        let mut ring = first_ring(&keys).of_algorithm(Algorithm::Es256);
        ring.announce(next.kid.as_str(), &[], at(10)).unwrap();
        ring.activate(next.kid.as_str(), None, false, at(10), TIMES).unwrap();
        let clock = Arc::new(FixedClock::at(at(109)));
        signer.set_key_ring(ring.of_algorithm(Algorithm::Rs256), clock.clone());
        let active = |algorithm: Algorithm| signer.key_set().active_for(algorithm).unwrap().kid().clone();
        assert_eq!(active(Algorithm::Es256), keys[2].kid);
        clock.advance(Duration::from_secs(1));
        assert_eq!(active(Algorithm::Es256), next.kid);
        for (at, algorithm) in [(0, Algorithm::Rs256), (1, Algorithm::Ps256), (3, Algorithm::EdDsa)] {
            assert_eq!(active(algorithm), keys[at].kid, "{algorithm}");
        }
        assert!(signer.key_set().find(keys[2].kid.as_str()).is_some(), "the retired key still verifies");
        clock.advance(Duration::from_secs(50));
        assert!(signer.key_set().find(keys[2].kid.as_str()).is_none());
        sign(&signer, Algorithm::Es256, b"by the second").unwrap();
    });
}

#[test]
fn a_key_is_replaced_by_a_key_of_its_algorithm_only() {
    let keys = |ring: &KeyRing| ring.keys().iter().map(|key| ring.state(key, at(20))).collect::<Vec<_>>();
    let [rs256, es256, waiting] = ["1", "2", "3"].map(|digit| digit.repeat(43));
    let mut ring = KeyRing::default();
    ring.reconcile(std::slice::from_ref(&rs256), at(0)).unwrap();
    ring.select(Algorithm::Es256);
    ring.reconcile_further(std::slice::from_ref(&es256), true, at(0)).unwrap();
    ring.select(Algorithm::Rs256);
    ring.announce(&waiting, &[], at(10)).unwrap();
    let refused = ring.remove_now(&es256, at(20), |_| true);
    assert_eq!(refused, Err(KeyFault::NoSuccessor(es256.clone())), "the waiting key is for RS256");
    ring.remove_now(&rs256, at(20), |_| true).unwrap();
    assert_eq!(keys(&ring), [KeyState::Removed, KeyState::Active, KeyState::Active]);
}

#[test]
fn a_wrong_signature_of_any_algorithm_is_never_returned() {
    let test = "algorithms::a_wrong_signature_of_any_algorithm_is_never_returned";
    in_own_process(test, LABEL, |softhsm| {
        let shim = Shim::build(softhsm.root());
        let hsm = Hsm { module: shim.module().to_owned(), ..all(softhsm) };
        let keys = generate_all(&hsm);
        let (signer, counts) = open(&hsm, quick());
        signer.set_key_ring(first_ring(&keys), Arc::new(FixedClock::at(at(10))));
        for (number, algorithm) in FURTHER.into_iter().enumerate() {
            shim.sign_wrongly(1);
            let signature = sign(&signer, algorithm, b"message").unwrap();
            let set = signer.key_set();
            assert!(set.active_for(algorithm).unwrap().verify(b"message", &signature), "{algorithm}");
            assert_eq!(counts.failures(signer::ErrorClass::WrongSignature), number + 1, "{algorithm}");
        }
    });
}

/// Other software generated the keys, and the token limits them to the mechanism of RS256.
#[test]
fn a_key_with_the_mechanisms_of_another_algorithm_is_refused() {
    let test = "algorithms::a_key_with_the_mechanisms_of_another_algorithm_is_refused";
    in_own_process(test, LABEL, |softhsm| {
        let hsm = Hsm { algorithms: vec![Algorithm::Rs256, Algorithm::Ps256], ..hsm(softhsm) };
        signer::generate(&hsm, KeySize::Rsa2048, &[1], false).unwrap();
        {
            let module = initialized();
            let session = session(&module);
            let common = [Attribute::Token(true), Attribute::Label(b"sealgate-ps256".to_vec()), Attribute::Id(vec![2])];
            let public = [Attribute::ModulusBits(2048.into()), Attribute::PublicExponent(vec![1, 0, 1])];
            let private = [
                Attribute::Private(true),
                Attribute::Sensitive(true),
                Attribute::Extractable(false),
                Attribute::Sign(true),
                Attribute::Decrypt(false),
                Attribute::Unwrap(false),
                Attribute::AllowedMechanisms(vec![MechanismType::RSA_PKCS_PSS, MechanismType::RSA_PKCS]),
            ];
            let (public, private) = ([&public[..], &common].concat(), [&private[..], &common].concat());
            session.generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private).unwrap();
            drop(session);
            module.finalize().unwrap();
        }
        let check = signer::check(&hsm).unwrap();
        let faults: Vec<_> = check.keys.iter().flat_map(|key| &key.faults).collect();
        assert_eq!(faults, ["CKA_ALLOWED_MECHANISMS has CKM_RSA_PKCS, of another algorithm"]);
        let error = Pkcs11Signer::open(&hsm, Arc::new(signer::NoopObserver)).unwrap_err();
        assert!(matches!(error, SignerOpenError::UnfitKey { .. }), "{error}");
    });
}

/// Returns the module, initialized, for software other than the signer.
fn initialized() -> Pkcs11 {
    let module = module();
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    module
}
