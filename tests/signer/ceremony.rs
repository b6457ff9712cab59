//! Key commands of the command line, and the script that creates a development token.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sealgate_config::Hsm;
use sealgate_signer as signer;
use sealgate_signer::{KeySize, SignerOpenError};

use crate::softhsm::{MODULE, in_own_process};
use crate::support::{LABEL, generate, hsm, module, open, quick, session};

#[test]
fn a_generated_key_can_sign_and_cannot_be_extracted() {
    in_own_process("ceremony::a_generated_key_can_sign_and_cannot_be_extracted", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let report = generate(&hsm);
        assert_eq!(report.faults(true), Vec::<String>::new());
        assert_eq!((report.id.as_str(), report.label.as_str(), report.bits), ("a15e", LABEL, 2048));
        assert_eq!(report.local, Some(true));
        assert_eq!(signer::list(&hsm).unwrap(), std::slice::from_ref(&report));

        let check = signer::check(&hsm).unwrap();
        assert!(check.ok, "{check:?}");
        let json = serde_json::to_value(&check).unwrap();
        assert_eq!(json["keys"][0]["kid"], report.kid.as_str());
        assert_eq!(json["keys"][0]["never_extractable"], true);

        // Read the private exponent itself.
        let (_signer, _) = open(&hsm, quick());
        let module = module();
        let session = session(&module);
        let key = session
            .find_objects(&[cryptoki::object::Attribute::Class(cryptoki::object::ObjectClass::PRIVATE_KEY)])
            .unwrap()[0];
        assert_eq!(session.get_attributes(key, &[cryptoki::object::AttributeType::PrivateExponent]).unwrap(), []);
    });
}

#[test]
fn a_second_key_with_the_label_or_the_id_is_not_generated() {
    in_own_process("ceremony::a_second_key_with_the_label_or_the_id_is_not_generated", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let first = generate(&hsm);
        let error = signer::generate(&hsm, KeySize::Rsa2048, &[9], false).unwrap_err();
        assert!(matches!(error, SignerOpenError::KeyExists { .. }), "{error}");
        assert!(error.to_string().contains("a15e"), "{error}");
        let other_label = Hsm { key_label: "other".into(), ..hsm.clone() };
        assert!(matches!(
            signer::generate(&other_label, KeySize::Rsa2048, &[0xa1, 0x5e], false).unwrap_err(),
            SignerOpenError::KeyExists { .. }
        ));
        assert_eq!(signer::list(&hsm).unwrap(), [first]);
    });
}

#[test]
fn the_check_distinguishes_an_empty_token_and_duplicate_ids() {
    in_own_process("ceremony::the_check_distinguishes_an_empty_token_and_duplicate_ids", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        let empty = signer::check(&hsm).unwrap();
        assert!(!empty.ok && empty.keys.is_empty());
        assert!(empty.faults[0].contains("sealgate key generate"), "{empty:?}");

        generate(&hsm);
        softhsm.pkcs11_tool(LABEL, &["--keypairgen", "--key-type", "rsa:2048", "--label", LABEL, "--id", "a15e"]);
        let two = signer::check(&hsm).unwrap();
        assert!(!two.ok && two.faults[0].contains("a15e"), "{two:?}");
        let faultless = two.keys.iter().filter(|key| key.faults.is_empty()).count();
        assert_eq!((two.keys.len(), faultless), (2, 0), "the two are ambiguous");
    });
}

#[test]
fn the_script_creates_a_token_once() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("hsm/init-token.sh");
    let run = || {
        let output = Command::new("sh").arg(&script).arg(root).arg(LABEL).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tokens = std::fs::read_dir(root.join("tokens")).unwrap().count();
        (tokens, std::fs::read_to_string(root.join("pin")).unwrap())
    };
    let (tokens, pin) = run();
    assert_eq!(tokens, 1);
    assert_eq!(run(), (tokens, pin.clone()), "a second run changes nothing");
    for secret in ["pin", "so-pin"] {
        assert_eq!(std::fs::metadata(root.join(secret)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The token accepts the written PIN.
    let login = Command::new("pkcs11-tool")
        .args(["--module", MODULE, "--token-label", LABEL, "--login", "--pin", pin.trim(), "--list-objects"])
        .env("SOFTHSM2_CONF", root.join("softhsm2.conf"))
        .output()
        .unwrap();
    assert!(login.status.success(), "{}", String::from_utf8_lossy(&login.stderr));
}

#[test]
fn a_copy_of_a_key_inside_the_token_fails_the_check_and_the_start() {
    in_own_process("ceremony::a_copy_of_a_key_inside_the_token_fails_the_check_and_the_start", LABEL, |softhsm| {
        use cryptoki::object::{Attribute, ObjectClass};

        let hsm = hsm(softhsm);
        let report = generate(&hsm);
        {
            let (_signer, _) = open(&hsm, quick());
            let module = module();
            let session = session(&module);
            let key = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)]).unwrap()[0];
            session.copy_object(key, &[Attribute::Id(vec![0xc0])]).unwrap();
        }
        let check = signer::check(&hsm).unwrap();
        assert!(!check.ok && check.faults.len() == 1, "{check:?}");
        assert!(check.faults[0].contains(report.kid.as_str()) && check.faults[0].contains("c0"), "{check:?}");
        let error = signer::Pkcs11Signer::open(&hsm, std::sync::Arc::new(signer::NoopObserver)).unwrap_err();
        assert!(matches!(error, SignerOpenError::SameKey { .. }), "{error}");
    });
}
