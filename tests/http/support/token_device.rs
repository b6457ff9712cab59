//! One SoftHSM token for this whole test process: a PKCS#11 module has one state a process.
#![expect(unsafe_code, reason = "SoftHSM reads its configuration's place from the environment")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealgate::config::Hsm;
use sealgate::signer::{KeySize, Pkcs11Signer, Signer, Unobserved};

use crate::softhsm::{MODULE, SoftHsm};

/// The signer of every provider in this process.
pub(crate) fn signer() -> Arc<dyn Signer> {
    static SIGNER: OnceLock<(SoftHsm, Arc<Pkcs11Signer>)> = OnceLock::new();
    let (_, signer) = SIGNER.get_or_init(|| {
        let token = SoftHsm::with_token("sealgate");
        // SAFETY: std's own readers take the lock that this takes, and SoftHSM, the only C code here that reads the
        // environment, is loaded below.
        unsafe { std::env::set_var("SOFTHSM2_CONF", token.configuration()) };
        let hsm = Hsm {
            module: MODULE.into(),
            token_label: "sealgate".into(),
            pin_file: token.pin_file(),
            key_label: "sealgate".into(),
            attestation: None,
            sessions: 2,
            sign_timeout: Duration::from_secs(30),
            queue: 1000,
            hang_abort: Duration::from_secs(30),
            mechanism: sealgate::config::Mechanism::RsaPkcs,
            require_local: true,
        };
        sealgate::signer::generate(&hsm, KeySize::Rsa2048, &[7; 16], false).unwrap();
        let signer = Pkcs11Signer::open(&hsm, Arc::new(Unobserved)).unwrap();
        (token, Arc::new(signer))
    });
    Arc::clone(signer) as Arc<dyn Signer>
}
