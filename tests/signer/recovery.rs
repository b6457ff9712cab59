//! Behaviour of the signer when the token fails.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sealgate_config::Hsm;
use sealgate_signer::{ErrorClass, Pkcs11Signer, SignError, Signer, Timing};

use crate::softhsm::{PIN, SPY, SoftHsm, in_own_process};
use crate::support::{LABEL, block_on, generate, hsm, module, open, quick, session, sign_one, wait_until};

/// Timeout of the load's first signatures, on a busy machine.
const LOADED: Duration = Duration::from_secs(20);

/// Removes the tokens, like an unplugged device.
fn take_away(softhsm: &SoftHsm) -> PathBuf {
    let away = softhsm.root().join("away");
    std::fs::rename(softhsm.tokens(), &away).unwrap();
    away
}

fn bring_back(softhsm: &SoftHsm, away: &Path) {
    std::fs::rename(away, softhsm.tokens()).unwrap();
}

#[test]
fn lost_login_is_renewed_without_a_failed_request() {
    in_own_process("recovery::lost_login_is_renewed_without_a_failed_request", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        sign_one(&signer, b"before").unwrap();
        let module = module();
        session(&module).logout().unwrap();
        sign_one(&signer, b"after").unwrap();
        assert!(counts.failures(ErrorClass::Login) >= 1);
        assert_eq!(counts.resets(), 0, "a login was enough");
        assert_eq!(counts.readiness(), [true, false, true]);
    });
}

#[test]
fn finalized_module_is_reset_without_a_failed_request() {
    in_own_process("recovery::finalized_module_is_reset_without_a_failed_request", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        sign_one(&signer, b"before").unwrap();
        module().finalize().unwrap();
        let kid = signer.key_set().active().kid().clone();
        let messages: Vec<Vec<u8>> = (0..40).map(|number| format!("message {number}").into()).collect();
        let signatures = block_on(signer.sign(&kid, messages.clone())).unwrap();
        for (message, signature) in messages.iter().zip(&signatures) {
            assert!(signer.key_set().active().verify(message, signature.as_bytes()));
        }
        assert_eq!(counts.resets(), 1, "many failures, one reset");
        assert!(signer.ready());
    });
}

#[test]
fn a_token_that_returns_is_used_again() {
    in_own_process("recovery::a_token_that_returns_is_used_again", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let kid = signer.key_set().active().kid().clone();
        sign_one(&signer, b"before").unwrap();

        let away = take_away(softhsm);
        let start = Instant::now();
        let error = sign_one(&signer, b"meanwhile").unwrap_err();
        assert!(matches!(error, SignError::Unavailable(_)), "{error}");
        assert!(start.elapsed() < hsm.sign_timeout, "refused as soon as the repair had failed");
        assert!(!signer.ready());
        let start = Instant::now();
        assert!(matches!(sign_one(&signer, b"meanwhile").unwrap_err(), SignError::Unavailable(_)));
        assert!(start.elapsed() < Duration::from_millis(100), "refused before it is queued");

        bring_back(softhsm, &away);
        wait_until(Duration::from_secs(3), "the signer is ready", || signer.ready());
        sign_one(&signer, b"after").unwrap();
        assert_eq!(signer.key_set().active().kid(), &kid);
        assert_eq!(counts.resets(), 1);
    });
}

#[test]
fn a_token_outage_under_load_answers_every_request_and_recovers() {
    let test = "recovery::a_token_outage_under_load_answers_every_request_and_recovers";
    in_own_process(test, LABEL, |softhsm| {
        let hsm = Hsm { sign_timeout: Duration::from_secs(1), ..hsm(softhsm) };
        generate(&hsm);
        let (signer, counts) = open(&hsm, Timing::default());
        let signer = Arc::new(signer);
        let stop = Arc::new(AtomicBool::new(false));
        block_on(async {
            let load: Vec<_> = (0..32)
                .map(|number| tokio::spawn(requests(Arc::clone(&signer), Arc::clone(&stop), hsm.sign_timeout, number)))
                .collect();
            wait_until(LOADED, "all have signed", || counts.signed() > 320);
            let away = take_away(softhsm);
            // Duration of its absence.
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(!signer.ready());
            let before = counts.signed();
            bring_back(softhsm, &away);
            let back = Instant::now();
            while counts.signed() == before {
                assert!(back.elapsed() < Duration::from_secs(2), "service is back within two seconds");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            wait_until(LOADED, "all sign again", || counts.signed() > before + 320);
            stop.store(true, Ordering::SeqCst);
            for requests in load {
                let (answered, refused) = requests.await.unwrap();
                assert!(answered > 0 && refused > 0, "{answered} signed, {refused} refused");
            }
        });
        assert_eq!(counts.failures(ErrorClass::Bug), 0);
        assert!(signer.ready());
    });
}

/// Signs until stopped; asserts that answers are in time and signatures are right.
///
/// Returns how many requests were signed and how many refused.
pub(crate) async fn requests(
    signer: Arc<Pkcs11Signer>,
    stop: Arc<AtomicBool>,
    limit: Duration,
    number: usize,
) -> (usize, usize) {
    let keys = signer.key_set();
    let (mut answered, mut refused) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let message = format!("message {answered} of {number}").into_bytes();
        let start = Instant::now();
        match signer.sign(keys.active().kid(), vec![message.clone()]).await {
            Ok(signatures) => {
                assert!(keys.active().verify(&message, signatures[0].as_bytes()));
                answered += 1;
            }
            Err(SignError::Unavailable(_) | SignError::Timeout | SignError::Busy) => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < limit + Duration::from_millis(500), "{:?}", start.elapsed());
    }
    (answered, refused)
}

#[test]
fn a_removed_token_is_detected_without_a_request() {
    in_own_process("recovery::a_removed_token_is_detected_without_a_request", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, Timing { probe_interval: Duration::from_millis(50), ..quick() });
        // Four probes: nothing may happen.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(counts.readiness(), [true], "a token that works passes the probes");
        let away = take_away(softhsm);
        wait_until(Duration::from_secs(3), "the signer is not ready", || !signer.ready());
        bring_back(softhsm, &away);
        wait_until(Duration::from_secs(3), "the signer is ready", || signer.ready());
        sign_one(&signer, b"after").unwrap();
    });
}

#[test]
fn another_token_with_the_same_label_is_refused() {
    in_own_process("recovery::another_token_with_the_same_label_is_refused", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        let away = take_away(softhsm);
        std::fs::create_dir(softhsm.tokens()).unwrap();
        softhsm.add_token(LABEL);
        assert!(matches!(sign_one(&signer, b"message").unwrap_err(), SignError::Unavailable(_)));
        // Nothing may happen, so there is no condition to wait for.
        std::thread::sleep(Duration::from_secs(1));
        assert!(!signer.ready());
        assert_eq!(counts.resets(), 0);
        std::fs::remove_dir_all(softhsm.tokens()).unwrap();
        bring_back(softhsm, &away);
        wait_until(Duration::from_secs(3), "the signer is ready", || signer.ready());
    });
}

#[test]
fn a_pin_changed_at_runtime_is_tried_only_once() {
    in_own_process("recovery::a_pin_changed_at_runtime_is_tried_only_once", LABEL, |softhsm| {
        generate(&hsm(softhsm));
        let recorded = Hsm { module: PathBuf::from(SPY), ..hsm(softhsm) };
        let (signer, counts) = open(&recorded, Timing { probe_interval: Duration::from_millis(50), ..quick() });
        sign_one(&signer, b"before").unwrap();
        assert_eq!(softhsm.recorded_calls("C_Login"), 1);
        // Called directly in the module to which the recording module forwards calls.
        let module = module();
        let session = session(&module);
        session.set_pin(&PIN.into(), &"271828".into()).unwrap();
        session.logout().unwrap();
        assert!(matches!(sign_one(&signer, b"after").unwrap_err(), SignError::Unavailable(_)));
        // Long enough for dozens of probes and pauses.
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(softhsm.recorded_calls("C_Login"), 2);
        assert_eq!(counts.failures(ErrorClass::Pin), 1);
        let error = sign_one(&signer, b"later").unwrap_err().to_string();
        assert!(error.contains("it was tried once") && !error.contains(PIN), "{error}");
        assert!(!signer.ready());
    });
}

#[test]
fn a_hanging_call_is_detected_and_the_signer_continues_when_it_returns() {
    in_own_process("recovery::a_hanging_call_is_detected_and_the_signer_continues_when_it_returns", LABEL, |softhsm| {
        let hsm = Hsm { sign_timeout: Duration::from_millis(300), ..hsm(softhsm) };
        generate(&hsm);
        let (signer, counts) = open(&hsm, quick());
        sign_one(&signer, b"before").unwrap();

        let mut holders = hold_token_files(softhsm);
        let kid = signer.key_set().active().kid().clone();
        let start = Instant::now();
        let error = block_on(signer.sign(&kid, vec![b"one".to_vec(), b"two".to_vec()])).unwrap_err();
        assert_eq!(error, SignError::Timeout, "the caller is answered though the call is not");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        wait_until(Duration::from_secs(2), "the hang is noticed", || !signer.ready());
        assert_eq!(counts.failures(ErrorClass::Hang), 1);
        // The watchdog may have seen one of the two calls before the other.
        wait_until(Duration::from_secs(2), "requests are refused before they are queued", || {
            matches!(sign_one(&signer, b"meanwhile").unwrap_err(), SignError::Unavailable(_))
        });

        release(&mut holders);
        wait_until(Duration::from_secs(2), "the signer is ready", || signer.ready());
        sign_one(&signer, b"after").unwrap();
        assert_eq!(counts.resets(), 0, "a call that returned leaves nothing to repair");
    });
}

#[test]
fn signer_whose_call_hangs_can_be_dropped() {
    in_own_process("recovery::signer_whose_call_hangs_can_be_dropped", LABEL, |softhsm| {
        let hsm = Hsm { sign_timeout: Duration::from_millis(200), ..hsm(softhsm) };
        generate(&hsm);
        let (signer, _) = open(&hsm, quick());
        let mut holders = hold_token_files(softhsm);
        assert_eq!(sign_one(&signer, b"message").unwrap_err(), SignError::Timeout);
        let start = Instant::now();
        drop(signer);
        assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        release(&mut holders);
    });
}

#[test]
fn process_whose_calls_all_hang_aborts() {
    // The body waits in the call until the process aborts, so a parent process checks the abort.
    let name = "recovery::process_whose_calls_all_hang_aborts";
    let outcome = std::panic::catch_unwind(|| {
        in_own_process(name, LABEL, |softhsm| {
            let hsm = Hsm { sign_timeout: Duration::from_millis(200), ..hsm(softhsm) };
            generate(&hsm);
            let (signer, _) = open(&hsm, Timing { hang_abort: Duration::from_secs(1), ..quick() });
            let _holders = hold_token_files(softhsm);
            let kid = signer.key_set().active().kid().clone();
            let error = block_on(signer.sign(&kid, vec![b"one".to_vec(), b"two".to_vec()])).unwrap_err();
            println!("answered with: {error}");
            std::thread::sleep(Duration::from_secs(20));
        });
    });
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("SIGABRT"), "{message}");
    assert!(message.contains("answered with: no signature in the time allowed"), "{message}");
}

/// Starts processes that hold a write lock on each of the token's files.
///
/// SoftHSM waits for such a lock without limit, so a real call into a real module does not return.
fn hold_token_files(softhsm: &SoftHsm) -> Vec<Child> {
    const LOCK: &str = r#"
        use Fcntl;
        $SIG{ALRM} = sub { exit 0 }; alarm 60;
        for my $path (@ARGV) {
            open(my $file, "+<", $path) or die "$path: $!";
            my $lock = pack("s s l! l! i", F_WRLCK, 0, 0, 0, 0);
            fcntl($file, F_SETLKW, $lock) or die "$path: $!";
            push @held, $file;
        }
        $| = 1; print "held\n"; sleep 60;
    "#;
    let token = std::fs::read_dir(softhsm.tokens()).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(token).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.extension().is_none_or(|extension| extension == "object")).collect();
    let mut holder = Command::new("perl")
        .args(["-e", LOCK])
        .args(files)
        .stdout(Stdio::piped())
        .spawn()
        .expect("perl, which Debian's base has");
    let mut held = [0; 5];
    holder.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();
    vec![holder]
}

fn release(holders: &mut Vec<Child>) {
    for mut holder in holders.drain(..) {
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
}
