//! Signs tokens with keys that stay in a PKCS#11 token. No other crate uses cryptoki.
//!
//! [`Signer::sign`] puts one job for each input into a bounded queue (`pool`). A thread that owns a
//! session enters the `gate`, signs and verifies (`worker`). All signatures of a request are
//! returned together. When the token fails, the worker reports the class of the failure (`fault`),
//! and the supervisor thread repairs the connection to the token. A watchdog thread detects calls
//! that do not return (both in `supervisor`).
//!
//! `pkcs11` contains the module and its token, `key` the private keys in the token, and
//! `public_key` the public keys. `keychain` decides which keys are published and which one signs.
//! `ceremony` contains the commands on keys in the token.
//!
//! `tls_key` contains the private keys of TLS certificates. The same workers sign handshakes with
//! them.
//!
//! Two modules are independent of signing: `wrapping` contains the key that encrypts the store's
//! data key, and `enrolment` transfers the data key to a new node.
//!
//! There is no software key, and no way to configure one.

pub mod attestation;
mod ceremony;
mod enrolment;
mod error;
mod fault;
mod gate;
mod key;
mod keychain;
mod pkcs11;
mod pool;
mod public_key;
mod supervisor;
mod tls_key;
mod worker;
mod wrapping;

use std::sync::Arc;

use async_trait::async_trait;

use sealgate_domain::key_ring::KeyRing;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::Clock;

pub use ceremony::{FirstKeys, TokenCheck, generate_first, init_token, mark_removed};
pub use ceremony::{KeySize, NewKey, check, generate, list};
pub use enrolment::{EnrolmentKeys, enrolment_keys, sign_apart};
pub use enrolment::{destroy_enrolment, open_envelope};
pub use error::{PinProblem, SignError, SignerOpenError};
pub use fault::ErrorClass;
pub use key::KeyReport;
pub use keychain::EndorsementPlan;
pub use keychain::KeySet;
pub use pool::Pkcs11Signer;
pub use pool::Timing;
pub use pool::{NoopObserver, Observer};
pub use public_key::KeyId;
pub use public_key::{PublicKey, Signature};
pub use tls_key::{OpenTlsKey, TlsKey, TlsKeyReport, UnfitTlsKey, generate_tls_key, list_tls_keys, with_tls_key};
pub use wrapping::{FreshRandom, WrappedKey, data_key, wrap_init};
pub use wrapping::{StoredDataKey, stored_data_key, wrap_received};

/// Source of the signatures of tokens (RFC 7518 §3, RFC 8037 §3.1).
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs each input with the key `kid`. Returns all signatures in the order of the inputs, or
    /// an error.
    ///
    /// An input is the unhashed JWS signing input (RFC 7515 §5.1). Idle sessions sign in parallel.
    /// A JWS header names its key, and the active key may change at any time. So read
    /// `key_set().active_for(algorithm)` only once, write this kid into the header, and pass the same kid
    /// here.
    ///
    /// # Errors
    /// [`SignError`]. Returns within `hsm.sign_timeout` even if the token does not respond.
    async fn sign(&self, kid: &KeyId, inputs: Vec<Vec<u8>>) -> Result<Vec<Signature>, SignError>;

    /// Returns the published keys and the active key. Before [`Signer::set_key_ring`], the set
    /// contains one key of the token.
    fn key_set(&self) -> Arc<KeySet>;

    /// Returns [`KeySet::generation`] of the current key set. Each request asks for it, so it writes to
    /// no memory that all threads share.
    fn generation(&self) -> u64;

    /// Returns the attributes of the keys with the configured label, as of the last scan.
    fn key_reports(&self) -> Vec<KeyReport>;

    /// Scans the keys in the token and tests that each of them signs.
    ///
    /// # Errors
    /// One line. The known keys then stay unchanged. Returns within half a minute even if the token
    /// does not respond.
    async fn scan(&self) -> Result<(), String>;

    /// Generates a key of a configured algorithm with this `CKA_ID` and scans the token. If a key with this id exists,
    /// returns that key.
    ///
    /// The key is published when the key ring lists it. Signing continues during the generation if
    /// there are several sessions.
    ///
    /// # Errors
    /// One line. May take up to five minutes, because small tokens need that time to find primes.
    async fn make(&self, new: NewKey, id: Vec<u8>) -> Result<KeyReport, String>;

    /// Sets the key ring. The key ring and this clock determine the published keys and the signing
    /// key.
    fn set_key_ring(&self, ring: KeyRing, clock: Arc<dyn Clock>);

    /// Returns this node's entries for the key ring, about its own keys and the keys of other
    /// nodes.
    ///
    /// Returns `None` if all nodes share one token.
    fn endorsement_plan(&self, ring: &KeyRing, now: UnixTime) -> Option<EndorsementPlan>;

    /// Returns whether the signer can sign now. `false` during a repair.
    fn ready(&self) -> bool;
}
