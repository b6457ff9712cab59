//! Errors at startup: one clear line each.

use std::path::PathBuf;
use std::sync::Arc;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::Attribute;
use sealgate_config::Hsm;
use sealgate_signer as signer;
use sealgate_signer::{NoopObserver, PinProblem, Pkcs11Signer, SignerOpenError};

use crate::softhsm::{PIN, SPY, in_own_process};
use crate::support::{LABEL, generate, hsm, module, session, slot};

/// Opens and initializes the module without the signer.
fn initialized_module() -> Pkcs11 {
    let module = module();
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    module
}

/// Returns the error of a failing start, after checking its form.
fn refusal(hsm: &Hsm) -> SignerOpenError {
    let error = Pkcs11Signer::open(hsm, Arc::new(NoopObserver)).unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    assert!(!line.contains(PIN), "{line}");
    error
}

#[test]
fn missing_module_is_named() {
    in_own_process("faults::missing_module_is_named", LABEL, |softhsm| {
        let absent = Hsm { module: PathBuf::from("/nowhere/libhsm.so"), ..hsm(softhsm) };
        let error = refusal(&absent);
        assert!(matches!(error, SignerOpenError::Module { .. }));
        assert!(error.to_string().contains("hsm.module: /nowhere/libhsm.so cannot be loaded"), "{error}");

        let no_module = Hsm { module: softhsm.pin_file(), ..hsm(softhsm) };
        assert!(matches!(refusal(&no_module), SignerOpenError::Module { .. }));
        let other_library = Hsm { module: PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6"), ..hsm(softhsm) };
        assert!(refusal(&other_library).to_string().contains("C_GetFunctionList"));
    });
}

#[test]
fn a_missing_token_is_reported_with_the_present_ones() {
    in_own_process("faults::a_missing_token_is_reported_with_the_present_ones", "another", |softhsm| {
        let error = refusal(&hsm(softhsm));
        let expected = r#"hsm.token_label: no token has the label "sealgate" (found: "another"); connect or initialize the token, or correct the label"#;
        assert_eq!(error.to_string(), expected);
        std::fs::remove_dir_all(softhsm.tokens()).unwrap();
        std::fs::create_dir(softhsm.tokens()).unwrap();
        assert!(refusal(&hsm(softhsm)).to_string().contains("the module lists no tokens"));
    });
}

#[test]
fn two_tokens_with_the_label_are_refused() {
    in_own_process("faults::two_tokens_with_the_label_are_refused", LABEL, |softhsm| {
        softhsm.add_token(LABEL);
        let error = refusal(&hsm(softhsm));
        let SignerOpenError::TwoTokens { serials, .. } = &error else { panic!("{error}") };
        assert_eq!(serials.len(), 2);
        assert!(serials.iter().all(|serial| error.to_string().contains(serial)), "{error}");
    });
}

#[test]
fn a_missing_key_is_reported_with_the_generate_command() {
    in_own_process("faults::a_missing_key_is_reported_with_the_generate_command", LABEL, |softhsm| {
        let error = refusal(&hsm(softhsm)).to_string();
        assert!(error.contains("run: sealgate key generate --config FILE"), "{error}");
    });
}

#[test]
fn key_that_decrypts_is_refused() {
    in_own_process("faults::key_that_decrypts_is_refused", LABEL, |softhsm| {
        // SoftHSM lets a key decrypt by default, and pkcs11-tool keeps the default.
        softhsm.pkcs11_tool(
            LABEL,
            &["--keypairgen", "--key-type", "rsa:2048", "--label", LABEL, "--id", "0803", "--usage-sign"],
        );
        let SignerOpenError::UnfitKey { faults, .. } = refusal(&hsm(softhsm)) else { panic!("another error") };
        assert_eq!(faults, ["CKA_DECRYPT is true", "CKA_UNWRAP is true"]);
    });
}

#[test]
fn an_extractable_key_is_refused() {
    in_own_process("faults::an_extractable_key_is_refused", LABEL, |softhsm| {
        let module = initialized_module();
        let common = [Attribute::Token(true), Attribute::Label(LABEL.into()), Attribute::Id(vec![8, 4])];
        let public =
            [&common[..], &[Attribute::ModulusBits(2048.into()), Attribute::PublicExponent(vec![1, 0, 1])]].concat();
        let private = [
            &common[..],
            &[
                Attribute::Private(true),
                Attribute::Sensitive(false),
                Attribute::Extractable(true),
                Attribute::Sign(true),
                Attribute::Decrypt(false),
                Attribute::Unwrap(false),
            ],
        ]
        .concat();
        session(&module).generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private).unwrap();
        module.finalize().unwrap();

        let error = refusal(&hsm(softhsm));
        let SignerOpenError::UnfitKey { faults, .. } = &error else { panic!("{error}") };
        let expected = [
            "CKA_SENSITIVE is false",
            "CKA_ALWAYS_SENSITIVE is false",
            "CKA_EXTRACTABLE is true",
            "CKA_NEVER_EXTRACTABLE is false",
        ];
        assert_eq!(faults, &expected);
        assert!(error.to_string().contains("CKA_ID 0804"), "{error}");
        let check = signer::check(&hsm(softhsm)).unwrap();
        assert!(!check.ok);
        assert_eq!(check.keys[0].faults, expected);
    });
}

#[test]
fn wrong_pin_is_tried_once() {
    in_own_process("faults::wrong_pin_is_tried_once", LABEL, |softhsm| {
        generate(&hsm(softhsm));
        softhsm.write_pin_file("999999", 0o600);
        let error = refusal(&Hsm { module: PathBuf::from(SPY), ..hsm(softhsm) });
        assert!(matches!(error, SignerOpenError::Pin { problem: PinProblem::Incorrect, .. }), "{error}");
        assert!(error.to_string().contains("the PIN in hsm.pin_file is wrong; it was tried once"), "{error}");
        assert_eq!(softhsm.recorded_calls("C_Login"), 1);

        let module = initialized_module();
        assert!(module.get_token_info(slot(&module)).unwrap().user_pin_count_low(), "the token counted a try");
    });
}

#[test]
fn a_pin_file_that_others_can_read_is_refused_before_the_module_is_loaded() {
    let test = "faults::a_pin_file_that_others_can_read_is_refused_before_the_module_is_loaded";
    in_own_process(test, LABEL, |softhsm| {
        softhsm.write_pin_file("999999", 0o644);
        let error = refusal(&Hsm { module: PathBuf::from("/nowhere"), ..hsm(softhsm) });
        assert!(matches!(error, SignerOpenError::PinFile { .. }), "{error}");
    });
}
