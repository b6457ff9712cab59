//! Signer tests on a real token: SoftHSM, with each test in a separate process.

#![expect(clippy::unwrap_used, reason = "what tests share is part of the tests")]

#[path = "support/configuration.rs"]
mod configuration;
#[path = "support/shim.rs"]
mod shim;
#[path = "support/softhsm.rs"]
mod softhsm;

#[path = "signer/algorithms.rs"]
mod algorithms;
#[path = "signer/answers.rs"]
mod answers;
#[path = "signer/ceremony.rs"]
mod ceremony;
#[path = "signer/client_keys.rs"]
mod client_keys;
#[path = "signer/enrolment.rs"]
mod enrolment;
#[path = "signer/faults.rs"]
mod faults;
#[path = "signer/life.rs"]
mod life;
#[path = "signer/mechanism.rs"]
mod mechanism;
#[path = "signer/recovery.rs"]
mod recovery;
#[path = "signer/rotation.rs"]
mod rotation;
#[path = "signer/signing.rs"]
mod signing;
#[path = "signer/support.rs"]
mod support;
#[path = "signer/wrapping.rs"]
mod wrapping;
