//! One SoftHSM token for this whole test process: a PKCS#11 module has one state a process.
#![expect(unsafe_code, reason = "SoftHSM reads its configuration's place from the environment")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealgate::facade::config::Hsm;
use sealgate::facade::signer::{KeySize, Pkcs11Signer, Signer, Unobserved};

use crate::softhsm::{MODULE, SoftHsm};

/// The signer of every provider in this process.
pub(crate) fn signer() -> Arc<dyn Signer> {
    static SIGNER: OnceLock<Arc<Pkcs11Signer>> = OnceLock::new();
    Arc::clone(SIGNER.get_or_init(|| own_signer("sealgate"))) as Arc<dyn Signer>
}

/// A signer whose keys nobody else in this process uses: those with this label. It has one.
#[allow(dead_code, reason = "not every test binary has keys to remove")]
pub(crate) fn own_signer(label: &str) -> Arc<Pkcs11Signer> {
    let hsm = hsm(label);
    // The token tells keys apart by it.
    sealgate::facade::signer::generate(&hsm, KeySize::Rsa2048, label.as_bytes(), false).unwrap();
    Arc::new(Pkcs11Signer::open(&hsm, Arc::new(Unobserved)).unwrap())
}

/// The settings for the keys with this label in the one token.
fn hsm(label: &str) -> Hsm {
    static TOKEN: OnceLock<SoftHsm> = OnceLock::new();
    let token = TOKEN.get_or_init(|| {
        let token = SoftHsm::with_token("sealgate");
        // SAFETY: std's own readers take the lock that this takes, and SoftHSM, the only C code here that reads the
        // environment, is loaded afterwards.
        unsafe { std::env::set_var("SOFTHSM2_CONF", token.configuration()) };
        token
    });
    Hsm {
        module: MODULE.into(),
        token_label: "sealgate".into(),
        pin_file: token.pin_file(),
        key_label: label.into(),
        attestation: None,
        sessions: 2,
        sign_timeout: Duration::from_secs(30),
        queue: 1000,
        hang_abort: Duration::from_secs(30),
        mechanism: sealgate::facade::config::Mechanism::RsaPkcs,
        require_local: true,
        shared: false,
    }
}
