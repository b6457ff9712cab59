//! Reactions of the signer to each error of a token, with a configurable module.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sealgate_config::Hsm;
use sealgate_signer::{ErrorClass, NoopObserver, PinProblem, Pkcs11Signer, SignError, Signer, SignerOpenError, Timing};

use crate::shim::{ANSWERS, Call, FOREVER, Shim};
use crate::softhsm::{SoftHsm, in_own_process};
use crate::support::{Counts, LABEL, block_on, generate, hsm, open, quick, sign_one, wait_until};

const SOON: Duration = Duration::from_secs(3);
const DEVICE_ERROR: u64 = 0x30;
const PIN_INCORRECT: u64 = 0xa0;
const USER_NOT_LOGGED_IN: u64 = 0x101;
const SESSION_COUNT: u64 = 0xb1;

/// Wraps the fixture's token in a shim and generates a key. Returns the shim and its settings.
fn shimmed(softhsm: &SoftHsm) -> (Shim, Hsm) {
    let shim = Shim::build(softhsm.root());
    let hsm = Hsm { module: shim.module().to_owned(), ..hsm(softhsm) };
    generate(&hsm);
    (shim, hsm)
}

/// Returns pauses short enough for a table of errors.
fn brisk() -> Timing {
    Timing { first_pause: Duration::from_millis(2), max_pause: Duration::from_millis(20), ..quick() }
}

fn class(name: &str) -> ErrorClass {
    ErrorClass::ALL.into_iter().find(|class| class.as_str() == name).unwrap()
}

/// Waits until the signer is ready and asserts that it signs.
fn assert_well(signer: &Pkcs11Signer, after: &str) {
    wait_until(SOON, &format!("ready after {after}"), || signer.ready());
    sign_one(signer, b"after").unwrap_or_else(|error| panic!("after {after}: {error}"));
}

fn assert_counted(counts: &Counts, class: ErrorClass, before: usize, what: &str) {
    assert!(counts.failures(class) > before, "{what} is not counted as {}", class.as_str());
}

#[test]
fn a_single_token_error_is_retried_within_the_request() {
    let test = "answers::a_single_token_error_is_retried_within_the_request";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let (signer, counts) = open(&hsm, brisk());
        for (name, code, class_name) in ANSWERS {
            for call in [Call::SignInit, Call::Sign] {
                let (class, what) = (class(class_name), format!("{name} by C_{call:?}"));
                let before = counts.failures(class);
                shim.fail(call, code, 1);
                match sign_one(&signer, b"message") {
                    Ok(()) => assert_ne!(class, ErrorClass::Bug, "{what}"),
                    Err(SignError::Bug(_)) => assert_eq!(class, ErrorClass::Bug, "{what}"),
                    Err(error) => panic!("{what}: {error}"),
                }
                assert_counted(&counts, class, before, &what);
                assert_well(&signer, &what);
            }
        }
        shim.assert_well_used();
    });
}

#[test]
fn a_persistent_token_error_refuses_requests_until_it_ends() {
    let test = "answers::a_persistent_token_error_refuses_requests_until_it_ends";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let hsm = Hsm { sign_timeout: SOON, ..hsm };
        let (signer, _) = open(&hsm, brisk());
        for (name, code, class_name) in ANSWERS {
            shim.fail(Call::Sign, code, FOREVER);
            let start = Instant::now();
            match (sign_one(&signer, b"message").unwrap_err(), class(class_name)) {
                (SignError::Bug(_), ErrorClass::Bug) => {}
                (SignError::Unavailable(_) | SignError::Timeout, class) => assert_ne!(class, ErrorClass::Bug, "{name}"),
                (error, _) => panic!("{name}: {error}"),
            }
            assert!(start.elapsed() < hsm.sign_timeout + Duration::from_millis(500), "{name}: {:?}", start.elapsed());
            shim.heal();
            assert_well(&signer, name);
        }
        shim.assert_well_used();
    });
}

#[test]
fn the_signer_recovers_from_a_fault_of_every_function() {
    in_own_process("answers::the_signer_recovers_from_a_fault_of_every_function", LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let (signer, _) = open(&hsm, brisk());
        for call in Call::ALL {
            for code in [DEVICE_ERROR, 0x5, 0x6, 0xb3, 0x101, 0x190] {
                // A failed device, so that recovery calls every function.
                shim.fail(call, code, 1);
                shim.fail(Call::SignInit, if call == Call::SignInit { code } else { DEVICE_ERROR }, 1);
                let _ = sign_one(&signer, b"message");
                assert_well(&signer, &format!("{code:#x} by C_{call:?}"));
                shim.heal();
            }
        }
        shim.assert_well_used();
    });
}

#[test]
fn a_session_with_an_unfinished_operation_is_not_reused() {
    let test = "answers::a_session_with_an_unfinished_operation_is_not_reused";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let (signer, counts) = open(&Hsm { sessions: 1, ..hsm }, quick());
        shim.leave_active(true);
        shim.fail(Call::Sign, 0x150, 1);
        sign_one(&signer, b"message").unwrap();
        sign_one(&signer, b"another").unwrap();
        assert_eq!(counts.failures(ErrorClass::Session), 1);
        assert_eq!(counts.resets(), 0, "a new session was enough");
    });
}

#[test]
fn a_wrong_signature_is_never_returned() {
    in_own_process("answers::a_wrong_signature_is_never_returned", LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let (signer, counts) = open(&hsm, quick());
        shim.sign_wrongly(1);
        // `sign_one` verifies the signature.
        sign_one(&signer, b"once").unwrap();
        assert_eq!(counts.failures(ErrorClass::WrongSignature), 1);
        shim.sign_wrongly(FOREVER);
        assert!(matches!(sign_one(&signer, b"always").unwrap_err(), SignError::Unavailable(_)));
        wait_until(SOON, "the signer is not ready", || !signer.ready());
        shim.heal();
        assert_well(&signer, "wrong signatures");
    });
}

#[test]
fn an_empty_search_means_a_lost_login_and_not_a_lost_key() {
    let test = "answers::an_empty_search_means_a_lost_login_and_not_a_lost_key";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let (signer, counts) = open(&Hsm { sessions: 1, ..hsm }, quick());
        // The worker's first search.
        shim.find_nothing(1);
        let before = shim.calls(Call::Login);
        sign_one(&signer, b"message").unwrap();
        assert_eq!((counts.failures(ErrorClass::Login), counts.resets()), (1, 0));
        assert_eq!(shim.calls(Call::Login), before + 1);
        shim.find_nothing(FOREVER);
        shim.fail(Call::SignInit, 0xb3, 1);
        assert!(sign_one(&signer, b"message").is_err());
        shim.heal();
        assert_well(&signer, "searches that found nothing");
    });
}

#[test]
fn a_refused_login_is_never_retried() {
    let test = "answers::a_refused_login_is_never_retried";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        // PIN_*, USER_PIN_NOT_INITIALIZED, FUNCTION_REJECTED, and ambiguous codes, which include a
        // wrong PIN.
        for code in [PIN_INCORRECT, 0xa1, 0xa2, 0xa3, 0xa4, 0x102, 0x200, 0x7777, 0x8000_0001] {
            shim.heal();
            let before = shim.calls(Call::Login);
            shim.fail(Call::Login, code, FOREVER);
            let error = Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap_err();
            assert!(matches!(error, SignerOpenError::Pin { .. }), "{code:#x}: {error}");
            assert_eq!(shim.calls(Call::Login), before + 1, "{code:#x} at startup");
            shim.heal();

            let (signer, counts) = open(&hsm, Timing { probe_interval: Duration::from_millis(20), ..brisk() });
            let before = shim.calls(Call::Login);
            shim.fail(Call::Login, code, FOREVER);
            shim.fail(Call::Sign, USER_NOT_LOGGED_IN, 1);
            assert!(matches!(sign_one(&signer, b"message").unwrap_err(), SignError::Unavailable(_)), "{code:#x}");
            // Fifteen probes: none may log in.
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(shim.calls(Call::Login), before + 1, "{code:#x} while it runs");
            assert_eq!(counts.failures(ErrorClass::Pin), 1);
            assert!(!signer.ready());
        }
    });
}

#[test]
fn no_login_is_tried_at_a_token_close_to_its_lockout() {
    in_own_process("answers::no_login_is_tried_at_a_token_close_to_its_lockout", LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let tried = shim.calls(Call::Login);
        for (flag, expected) in [(0x0002_0000, PinProblem::FinalTry), (0x0004_0000, PinProblem::Locked)] {
            shim.flags(flag);
            let error = Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap_err();
            assert!(matches!(&error, SignerOpenError::Pin { problem, .. } if *problem == expected), "{error}");
        }
        assert_eq!(shim.calls(Call::Login), tried, "the PIN went out");
        shim.heal();
        let (signer, _) = open(&hsm, quick());
        shim.flags(0x0002_0000);
        shim.fail(Call::Sign, USER_NOT_LOGGED_IN, 1);
        assert!(sign_one(&signer, b"message").is_err());
        // Nothing may happen, so there is no condition to wait for.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(shim.calls(Call::Login), tried + 1, "only the login of the start");
    });
}

#[test]
fn a_token_with_fewer_sessions_than_configured_is_used() {
    let test = "answers::a_token_with_fewer_sessions_than_configured_is_used";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        // The anchor's session and two more.
        shim.most_sessions(3);
        let (signer, counts) = open(&Hsm { sessions: 6, ..hsm }, quick());
        for _ in 0..20 {
            sign_one(&signer, b"message").unwrap();
        }
        assert_eq!(shim.open_sessions(), 3);
        assert_eq!(counts.resets(), 0);
        shim.fail(Call::OpenSession, SESSION_COUNT, FOREVER);
        shim.fail(Call::SignInit, 0xb3, 4);
        let error = sign_one(&signer, b"message");
        assert!(!matches!(error, Err(SignError::Bug(_))), "{error:?}");
        shim.heal();
        assert_well(&signer, "sessions for nobody");
        shim.assert_well_used();
    });
}

#[test]
fn one_permanently_hanging_call_aborts_the_process() {
    // The signer is not ready while the call hangs, and nothing else can restore it.
    let name = "answers::one_permanently_hanging_call_aborts_the_process";
    let outcome = std::panic::catch_unwind(|| {
        in_own_process(name, LABEL, |softhsm| {
            let (shim, hsm) = shimmed(softhsm);
            let hsm = Hsm { sign_timeout: Duration::from_millis(300), ..hsm };
            let (signer, counts) = open(&hsm, Timing { hang_abort: Duration::from_secs(1), ..quick() });
            shim.hang(Call::Sign, 1);
            assert_eq!(sign_one(&signer, b"lost").unwrap_err(), SignError::Timeout);
            sign_one(&signer, b"by the other").unwrap();
            wait_until(SOON, "the hang is noticed", || !signer.ready() && counts.failures(ErrorClass::Hang) > 0);
            assert_eq!((shim.hanging(), counts.failures(ErrorClass::Hang)), (1, 1));
            println!("one hangs, the other signs");
            std::thread::sleep(Duration::from_secs(20));
        });
    });
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("SIGABRT"), "{message}");
    assert!(message.contains("one hangs, the other signs"), "{message}");
}

#[test]
fn a_call_that_hangs_during_the_recovery_is_detected() {
    in_own_process("answers::a_call_that_hangs_during_the_recovery_is_detected", LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let hsm = Hsm { sign_timeout: SOON, ..hsm };
        let (signer, counts) = open(&hsm, quick());
        for call in [Call::Finalize, Call::Initialize, Call::GetSlotList, Call::Login] {
            let before = counts.failures(ErrorClass::Hang);
            shim.hang(call, 1);
            shim.fail(Call::Sign, DEVICE_ERROR, 1);
            let start = Instant::now();
            assert!(sign_one(&signer, b"message").is_err(), "{call:?}");
            assert!(start.elapsed() < hsm.sign_timeout + Duration::from_millis(500));
            wait_until(SOON, "the hang is noticed", || counts.failures(ErrorClass::Hang) > before);
            shim.release();
            assert_well(&signer, &format!("a hanging C_{call:?}"));
        }
        shim.assert_well_used();
    });
}

#[test]
fn each_session_is_used_by_one_thread_despite_failures() {
    let test = "answers::each_session_is_used_by_one_thread_despite_failures";
    in_own_process(test, LABEL, |softhsm| {
        let (shim, hsm) = shimmed(softhsm);
        let hsm = Hsm { sessions: 4, sign_timeout: Duration::from_secs(1), ..hsm };
        let (signer, _) = open(&hsm, brisk());
        let signer = Arc::new(signer);
        let stop = Arc::new(AtomicBool::new(false));
        // Make calls overlap.
        for call in [Call::SignInit, Call::Sign, Call::FindObjects] {
            shim.delay(call, Duration::from_micros(300));
        }
        block_on(async {
            let load: Vec<_> = (0..32)
                .map(|number| {
                    let (signer, stop) = (Arc::clone(&signer), Arc::clone(&stop));
                    tokio::spawn(crate::recovery::requests(signer, stop, hsm.sign_timeout, number))
                })
                .collect();
            let mut at = 0;
            let end = Instant::now() + Duration::from_secs(4);
            while Instant::now() < end {
                let (_, code, class) = ANSWERS[at % ANSWERS.len()];
                at += 1;
                if class != "bug" && class != "pin" {
                    let call = [Call::SignInit, Call::Sign, Call::FindObjectsInit, Call::CloseSession][at % 4];
                    shim.fail(call, code, 1 + at as u64 % 3);
                    tokio::time::sleep(Duration::from_millis(40)).await;
                }
            }
            shim.heal();
            stop.store(true, Ordering::SeqCst);
            let mut answered = 0;
            for requests in load {
                answered += requests.await.unwrap().0;
            }
            assert!(answered > 0, "nothing was signed between the faults");
        });
        assert_well(&signer, "the load");
        shim.assert_well_used();
    });
}
