//! Provides one SoftHSM token for the whole test process: a PKCS#11 module has one state per
//! process.
#![expect(unsafe_code, reason = "SoftHSM reads its configuration's place from the environment")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealgate_config::Hsm;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer::{KeySize, NoopObserver, Pkcs11Signer, Signer};

use crate::softhsm::{MODULE, SoftHsm};

/// Returns the signer shared by every provider in this process.
pub(crate) fn signer() -> Arc<dyn Signer> {
    Arc::clone(SIGNER.get_or_init(|| own_signer("sealgate"))) as Arc<dyn Signer>
}

static SIGNER: OnceLock<Arc<Pkcs11Signer>> = OnceLock::new();

/// Makes the shared signer have a key for each algorithm. Call it only in a test that runs in a
/// separate process, before the first provider.
#[allow(dead_code, reason = "not every test binary has further algorithms")]
pub(crate) fn use_all_algorithms() {
    let hsm = Hsm { algorithms: Algorithm::ALL.map(|(_, algorithm)| algorithm).to_vec(), ..hsm("sealgate") };
    sealgate_signer::generate_first(&hsm, KeySize::Rsa2048, b"first", None).unwrap();
    let signer = Arc::new(Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap());
    assert!(SIGNER.set(signer).is_ok(), "a provider has started");
}

/// Token of the shared signer.
pub(crate) const TOKEN_LABEL: &str = "sealgate";

/// Returns a signer with one key of this label.
///
/// Call it only in a test that runs in a separate process ([`crate::softhsm::in_own_process`]).
/// `SoftHSM` fails or stores an incomplete key if another thread of the process lists the objects
/// of the token while it generates the key.
#[allow(dead_code, reason = "not every test binary has keys to remove")]
pub(crate) fn own_signer(label: &str) -> Arc<Pkcs11Signer> {
    let hsm = hsm(label);
    // The token distinguishes keys by their id.
    sealgate_signer::generate(&hsm, KeySize::Rsa2048, label.as_bytes(), false).unwrap();
    Arc::new(Pkcs11Signer::open(&hsm, Arc::new(NoopObserver)).unwrap())
}

/// Returns the settings for the keys with this label in the shared token.
fn hsm(label: &str) -> Hsm {
    static TOKEN: OnceLock<SoftHsm> = OnceLock::new();
    let token = TOKEN.get_or_init(|| {
        let token = SoftHsm::of_this_process().unwrap_or_else(|| SoftHsm::with_token(TOKEN_LABEL));
        // SAFETY: readers in std take the same lock as this call. SoftHSM is the only C code here
        // that reads the environment, and it is loaded afterwards.
        unsafe { std::env::set_var("SOFTHSM2_CONF", token.configuration()) };
        token
    });
    Hsm {
        module: MODULE.into(),
        token_label: TOKEN_LABEL.into(),
        pin_file: token.pin_file(),
        softhsm_conf: None,
        key_label: label.into(),
        algorithms: vec![Algorithm::Rs256],
        attestation: None,
        sessions: 2,
        sign_timeout: Duration::from_secs(30),
        queue: 1000,
        hang_abort: Duration::from_secs(30),
        mechanism: sealgate_config::Mechanism::RsaPkcs,
        require_local: true,
        shared: false,
    }
}
