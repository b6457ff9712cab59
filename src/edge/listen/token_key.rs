//! TLS private keys in the PKCS#11 token, as rustls uses them.
//!
//! rustls signs synchronously while it processes a message. A network HSM needs milliseconds for a
//! signature, and a failing HSM needs seconds. So a thread passes its other tasks to other threads
//! before it signs (`block_in_place`). At most as many handshakes sign at the same time as the
//! PKCS#11 token has sessions.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::server::{Acceptor, ClientHello};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use tokio::io::{self, AsyncReadExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

use super::connection::Connection;
use sealgate_signer::{Pkcs11Signer, SignError, TlsKey};

/// Minimum time between two log lines about failed signatures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum bytes that are read for a `ClientHello`. rustls refuses messages of more than 64 KiB.
const MAX_HELLO_BYTES: usize = 80 * 1024;

/// TLS keys of the token, and the limits of their use.
pub struct TokenKeys {
    signer: Arc<Pkcs11Signer>,
    /// Permits for handshakes to sign, one for each session of the token.
    turns: Semaphore,
    /// Permits for threads to wait for the token. There are more of these than `turns`, because the
    /// second `ClientHello` after a `HelloRetryRequest` needs no permit of `turns`.
    threads: Semaphore,
    logged: Mutex<Option<Instant>>,
}

impl TokenKeys {
    /// Creates the limits for the number of sessions that the token has.
    pub fn new(signer: Arc<Pkcs11Signer>) -> Arc<Self> {
        let sessions = signer.sessions();
        let (turns, threads) = (Semaphore::new(sessions), Semaphore::new(2 * sessions));
        Arc::new(Self { signer, turns, threads, logged: Mutex::new(None) })
    }

    /// Returns the maximum number of threads that wait for the token.
    pub fn max_threads(&self) -> usize {
        2 * self.signer.sessions()
    }

    /// Finds the key with this label in the token. Blocking.
    ///
    /// # Errors
    /// One line that names the key and says what to do.
    pub(super) fn find(self: &Arc<Self>, label: &str) -> Result<TokenTlsKey, String> {
        let key = Arc::new(self.signer.tls_key(label)?);
        Ok(TokenTlsKey { keys: Arc::clone(self), key })
    }

    /// Waits for a permit to sign, and then runs a handshake whose `ClientHello` was already
    /// received.
    ///
    /// The first poll of the handshake processes the `ClientHello` and makes the signature. Then
    /// the permit is released. If the handshake kept the permit to its end, slow clients would
    /// block other clients.
    pub(super) async fn sign_in_turn<F: Future>(&self, mut handshake: Pin<Box<F>>) -> F::Output {
        let turn = self.turns.acquire().await;
        let first = poll_fn(|cx| Poll::Ready(handshake.as_mut().poll(cx))).await;
        drop(turn);
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => handshake.await,
        }
    }

    fn sign(&self, key: &Arc<TlsKey>, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let _thread = self.threads.try_acquire().map_err(|_| self.signer.refuse_tls())?;
        let sign = || self.signer.sign_tls(key, message);
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(sign),
            _ => sign(),
        }
    }

    /// Logs a failure, unless another failure was logged within [`LOG_INTERVAL`].
    fn log(&self, key: &TlsKey, error: &SignError) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
            *logged = Some(Instant::now());
            tracing::error!(
                key = key.label(),
                %error,
                "TLS handshakes fail, because the token does not sign; sealgate_tls_sign_errors_total counts the failures"
            );
        }
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenKeys").finish_non_exhaustive()
    }
}

/// Private key of a certificate, in the token.
#[derive(Debug, Clone)]
pub(super) struct TokenTlsKey {
    keys: Arc<TokenKeys>,
    key: Arc<TlsKey>,
}

impl TokenTlsKey {
    pub(super) fn subject_public_key_info(&self) -> Vec<u8> {
        self.key.subject_public_key_info()
    }
}

impl SigningKey for TokenTlsKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ECDSA_NISTP256_SHA256);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.subject_public_key_info().into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for TokenTlsKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.keys.sign(&self.key, message).map_err(|error| {
            self.keys.log(&self.key, &error);
            Error::General("the token did not sign".to_owned())
        })
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP256_SHA256
    }
}

/// Reads the `ClientHello` of a new connection, and puts it back. Returns the result of `judge`, or
/// `None` if the `ClientHello` is malformed. The handshake later refuses a malformed `ClientHello`.
///
/// # Errors
/// If the client disconnects before the `ClientHello` is complete.
pub(super) async fn peek_hello<T>(
    connection: &mut Connection,
    judge: impl FnOnce(&ClientHello<'_>) -> T,
) -> io::Result<Option<T>> {
    let (mut acceptor, mut read) = (Acceptor::default(), Vec::new());
    let judged = loop {
        let before = read.len();
        read.reserve(4096);
        if connection.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut new = read.get(before..).unwrap_or_default();
        while !new.is_empty() && acceptor.read_tls(&mut new)? > 0 {}
        match acceptor.accept() {
            Ok(Some(accepted)) => break Some(judge(&accepted.client_hello())),
            Ok(None) if read.len() < MAX_HELLO_BYTES => {}
            Ok(None) | Err(_) => break None,
        }
    };
    connection.unread(read);
    Ok(judged)
}
