//! Key sets of other issuers: accepted keys can verify signatures and do nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::oauth::jwk_set::{Algorithm, MAX_KEYS, MAX_KID_LENGTH, Numbers, read};

fuzz_target!(|document: &[u8]| {
    let Ok(keys) = read(document) else { return };
    assert!(keys.len() <= MAX_KEYS);
    // Every JSON parser finds the same members, because none is repeated.
    let whole: serde_json::Value = serde_json::from_slice(document).expect("JSON");
    assert!(keys.len() <= whole["keys"].as_array().expect("a list").len());
    for (at, key) in keys.iter().enumerate() {
        let kinds: Vec<_> = Algorithm::ALL.iter().filter(|(_, algorithm)| key.is_for(*algorithm)).collect();
        match &key.numbers {
            Numbers::Rsa { n, e } => {
                assert!(
                    (256..=1024).contains(&n.len())
                        && n[0] != 0
                        && !e.is_empty()
                        && e.len() <= 4
                        && e[e.len() - 1] % 2 == 1
                );
                assert!(!kinds.is_empty() && kinds.iter().all(|(name, _)| ["RS256", "PS256"].contains(name)));
            }
            Numbers::P256(point) => {
                assert!(point.len() == 65 && point[0] == 4 && kinds == [&("ES256", Algorithm::Es256)])
            }
            Numbers::Ed25519(key) => assert!(key.len() == 32 && kinds == [&("EdDSA", Algorithm::EdDsa)]),
        }
        if let Some(kid) = &key.kid {
            assert!(!kid.is_empty() && kid.len() <= MAX_KID_LENGTH);
            let alike = |other: &Numbers| std::mem::discriminant(other) == std::mem::discriminant(&key.numbers);
            assert!(!keys[at + 1..].iter().any(|other| other.kid == key.kid && alike(&other.numbers)));
        }
    }
});
