//! Two ways to request an RS256 signature from a token.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sealgate_config::{Hsm, Mechanism};
use sealgate_signer::Signer;

use crate::softhsm::{SPY, in_own_process};
use crate::support::{LABEL, block_on, generate, hsm, open, quick};

#[test]
fn both_mechanisms_make_the_same_signature_and_openssl_verifies_it() {
    in_own_process("mechanism::both_mechanisms_make_the_same_signature_and_openssl_verifies_it", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let key = generate(&hsm);
        let at = |name: &str| softhsm.root().join(name).to_str().unwrap().to_owned();
        softhsm.pkcs11_tool(LABEL, &["--read-object", "--type", "pubkey", "--id", &key.id, "-o", &at("public.der")]);
        fs::write(at("message"), b"header.payload").unwrap();
        let mut signatures = Vec::new();
        for mechanism in [Mechanism::RsaPkcs, Mechanism::Sha256RsaPkcs] {
            let (signer, _) = open(&Hsm { mechanism, ..hsm.clone() }, quick());
            let made = block_on(signer.sign(&key.kid, vec![b"header.payload".to_vec()])).unwrap();
            fs::write(at("signature"), made[0].as_bytes()).unwrap();
            let verified = Command::new("openssl")
                .args(["dgst", "-sha256", "-keyform", "DER", "-verify", &at("public.der")])
                .args(["-signature", &at("signature"), &at("message")])
                .output()
                .unwrap();
            assert!(verified.status.success(), "{mechanism:?}: {}", String::from_utf8_lossy(&verified.stdout));
            signatures.push(made[0].as_bytes().to_vec());
        }
        assert_eq!(signatures[0], signatures[1], "PKCS #1 v1.5 has one signature for a message");
    });
}

#[test]
fn only_the_configured_mechanism_is_used() {
    in_own_process("mechanism::only_the_configured_mechanism_is_used", LABEL, |softhsm| {
        let hsm = Hsm { module: PathBuf::from(SPY), mechanism: Mechanism::Sha256RsaPkcs, ..hsm(softhsm) };
        let key = generate(&hsm);
        let (signer, _) = open(&hsm, quick());
        block_on(signer.sign(&key.kid, vec![b"message".to_vec()])).unwrap();
        let record = fs::read_to_string(softhsm.call_record()).unwrap();
        let asked: Vec<&str> = record.lines().filter(|line| line.to_lowercase().contains("mechanism->type")).collect();
        let signing: Vec<_> = asked.iter().filter(|line| !line.contains("KEY_PAIR_GEN")).collect();
        assert!(!signing.is_empty(), "{record}");
        assert!(signing.iter().all(|line| line.contains("CKM_SHA256_RSA_PKCS")), "{asked:?}");
    });
}
