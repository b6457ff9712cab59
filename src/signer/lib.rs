//! Signs tokens with keys that stay in a PKCS #11 token. The only module that uses cryptoki.
//!
//! [`Signer::sign`] hashes the inputs and puts one job for each into a bounded queue (`pool`). A
//! thread that owns a session enters the `gate`, signs and verifies (`worker`). The signatures are
//! returned together. When the token fails, the worker reports the class of the failure (`fault`)
//! and one thread repairs (`supervisor`). Another thread detects calls that do not return
//! (`watchdog`).
//!
//! `pkcs11` is the module and its token, `key` the private keys in it, `public_key` and `key_set`
//! their public side. `keychain` decides which keys are published and which one signs, `vouching`
//! which keys of other nodes are published. `ceremony` contains the operations of the command line.
//!
//! `wrapping` is independent of these: the key that seals the store's data key. `enrolment`
//! transfers that data key to a new node.
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
mod worker;
mod wrapping;

use std::sync::Arc;

use async_trait::async_trait;

use sealgate_domain::key_ring::KeyRing;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::Clock;

pub use ceremony::{Check, FirstKeys, generate_first, init_token, mark_removed, removed_label};
pub use ceremony::{KeySize, check, generate, list};
pub use enrolment::{EnrolmentKeys, enrolment_keys, sign_apart};
pub use enrolment::{destroy_enrolment, open_envelope};
pub use error::{PinProblem, SignError, SignerOpenError};
pub use fault::ErrorClass;
pub use key::KeyReport;
pub use keychain::EndorsementPlan;
pub use keychain::KeySet;
pub use pool::Pkcs11Signer;
pub use pool::Timing;
pub use pool::{Observer, Unobserved};
pub use public_key::KeyId;
pub use public_key::{PublicKey, Signature};
pub use wrapping::{FreshRandom, WrappedKey, data_key, wrap_init};
pub use wrapping::{KeptKey, kept_data_key, wrap_received};

/// Makes RS256 signatures (RFC 7518 §3.3).
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs each input with the key `kid`. An input is the unhashed JWS signing input (RFC 7515
    /// §5.1). Returns the signatures in the order of the inputs, all or none. Idle sessions sign in
    /// parallel.
    ///
    /// A JWS header names its key, so read `key_set().active().kid()` once, write the header and
    /// pass the same kid here. A change of the active key in between is harmless.
    ///
    /// # Errors
    /// [`SignError`]. Returns within the configured time even if the token does not respond.
    async fn sign(&self, kid: &KeyId, inputs: Vec<Vec<u8>>) -> Result<Vec<Signature>, SignError>;

    /// Returns the published keys and the active one. Before [`Signer::follow`] it is one key of
    /// the token.
    fn key_set(&self) -> Arc<KeySet>;

    /// Returns the keys with the configured label and their attributes, as of the last scan.
    fn found(&self) -> Vec<KeyReport>;

    /// Scans the keys in the token and tests that each signs.
    ///
    /// # Errors
    /// One line; the known keys stay unchanged. Returns within half a minute even if the token does
    /// not respond.
    async fn look(&self) -> Result<(), String>;

    /// Generates a key with this `CKA_ID` and scans it; returns an existing key with that id
    /// instead. The key is not published until the key ring lists it. Signing continues meanwhile.
    ///
    /// # Errors
    /// One line. Returns within five minutes: small tokens search for primes that long.
    async fn make(&self, size: KeySize, id: Vec<u8>) -> Result<KeyReport, String>;

    /// Publishes and signs according to this ring from now on, with the time of this clock.
    fn follow(&self, ring: KeyRing, clock: Arc<dyn Clock>);

    /// Returns this node's contributions to the ring about its own keys and those of other nodes.
    /// `None` if all nodes share one token.
    fn vouching(&self, ring: &KeyRing, now: UnixTime) -> Option<EndorsementPlan>;

    /// Whether the signer can sign now; `false` during a repair.
    fn ready(&self) -> bool;
}
