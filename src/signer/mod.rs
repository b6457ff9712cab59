//! Signing tokens with keys that stay in a PKCS #11 token. The only module that names cryptoki.
//!
//! A request's way: [`Signer::sign`] hashes the inputs and puts one job for each into a bounded queue (`pool`); a
//! thread that owns a session takes it through the `gate`, signs and verifies (`worker`); the signatures come back
//! together. When the token fails, the worker reports the class of the failure (`fault`) and one thread repairs
//! (`supervisor`); a third one sees to it that calls return at all (`watchdog`). `pkcs11` is the module and its token,
//! `key` the private keys in it, `keychain` which of them are published and which one signs, `vouching` which of other
//! nodes' are, `public_key` and `key_set` their public side, `ceremony` what the command line does with them.
//! `wrapping` is apart from all of that: the key that seals the store's data key; and `enrolment`, by which a new node
//! gets that data key.
//!
//! There is no software key, and no way to configure one.

mod ceremony;
mod encoding;
mod enrolment;
mod error;
mod fault;
mod gate;
mod key;
mod key_set;
mod keychain;
mod observer;
mod pin;
mod pkcs11;
mod pool;
mod public_key;
mod session;
mod supervisor;
mod timing;
mod vouching;
mod watchdog;
mod worker;
mod wrapping;

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::domain::key_ring::KeyRing;
use crate::domain::time::UnixTime;

pub(crate) use ceremony::{Check, FirstKeys, generate_first, mark_removed, removed_label};
pub use ceremony::{KeySize, check, generate, list};
pub use enrolment::{EnrolmentKeys, enrolment_keys, sign_apart};
pub(crate) use enrolment::{destroy_enrolment, open_envelope};
pub use error::{PinProblem, SignError, SignerOpenError};
pub use fault::ErrorClass;
pub use key::KeyReport;
pub(crate) use key_set::KeySet;
pub use observer::{Observer, Unobserved};
pub use pool::Pkcs11Signer;
pub use public_key::KeyId;
pub(crate) use public_key::{PublicKey, Signature};
pub use timing::Timing;
pub use vouching::Vouching;
pub use wrapping::{Fresh, WrappedKey, data_key, wrap_init};
pub(crate) use wrapping::{KeptKey, kept_data_key, wrap_received};

/// Makes RS256 signatures (RFC 7518 §3.3).
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs each input with the key `kid`: the signing input of a JWS (RFC 7515 §5.1), not hashed. The signatures come
    /// in the order of the inputs, and are made in parallel where sessions are idle. All or none.
    ///
    /// A JWS header names its key, so read `key_set().active().kid()` once, write the header and pass the same kid here;
    /// the active key may change in between without harm.
    ///
    /// # Errors
    /// [`SignError`]. Returns within the configured time, whatever the token does.
    async fn sign(&self, kid: &KeyId, inputs: Vec<Vec<u8>>) -> Result<Vec<Signature>, SignError>;

    /// The keys that are published at this time and the active one. Before [`Signer::follow`]: one of the token's.
    fn key_set(&self) -> Arc<KeySet>;

    /// The keys in the token with the configured label, as it states them, when they were last looked at.
    fn found(&self) -> Vec<KeyReport>;

    /// Looks again which keys are in the token, and proves that each signs.
    ///
    /// # Errors
    /// One line; the keys known are as before. Returns within half a minute, whatever the token does.
    async fn look(&self) -> Result<(), String>;

    /// Makes a key with this `CKA_ID` in the token, and looks at it; where one with the id is there already, that is it.
    /// It is not published before a ring says so. Signing goes on meanwhile.
    ///
    /// # Errors
    /// One line. Returns within five minutes: small tokens search for primes that long.
    async fn make(&self, size: KeySize, id: Vec<u8>) -> Result<KeyReport, String>;

    /// From now on publishes and signs by the times of this ring, as this clock tells them.
    fn follow(&self, ring: KeyRing, clock: Arc<dyn Clock>);

    /// What this node has to say of its own keys and of others' in the ring. `None` where all nodes have one token.
    fn vouching(&self, ring: &KeyRing, now: UnixTime) -> Option<Vouching>;

    /// Whether signatures can be expected now; false during a repair.
    fn ready(&self) -> bool;
}
