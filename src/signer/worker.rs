//! A thread that owns one session and its key handles, and signs the queued jobs.
//!
//! The class of a failure decides whether the worker opens a new session, reports to the supervisor
//! or gives up. A job is retried once within its deadline.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use aws_lc_rs::digest::Digest;
use cryptoki::object::ObjectHandle;
use cryptoki::session::Session;
use tokio::sync::oneshot;

use crate::error::{SignError, SignerOpenError};
use crate::fault::{ErrorClass, TokenFault};
use crate::gate::{CallPermit, Epoch, Gate, SignRefusal};
use crate::key::SigningKey;
use crate::pkcs11::Module;
use crate::pool::Observer;
use crate::public_key::{KeyId, Message, Signature};
use crate::tls_key::{TlsKey, UnfitTlsKey};
use crate::{key, pkcs11, tls_key};
use sealgate_config as config;

/// Time that a worker without a session waits before it tries again to open a session.
const PARK_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that a starting worker waits for its first session.
const FIRST_SESSION_TIMEOUT: Duration = Duration::from_secs(1);

/// A request for work in a session of the token.
pub(super) struct SignerJob {
    pub(super) work: Box<dyn Work>,
    pub(super) queued: Instant,
    pub(super) deadline: Instant,
}

/// Work in a session, with the channel for its result.
pub(super) trait Work: Send {
    /// Returns whether the caller has given up.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Performs the work and keeps its result. May be called again after a failure.
    fn attempt(&mut self, session: &mut WorkerSession) -> Result<(), TokenFault>;

    /// Reports a successful attempt.
    fn observe(&self, observer: &dyn Observer, waited: Duration, took: Duration) {
        let _ = (observer, waited, took);
    }

    /// Sends the result of the successful attempt, or the error.
    fn answer(self: Box<Self>, outcome: Result<(), SignError>);
}

/// A signature for a token.
pub(super) struct TokenSignature {
    pub(super) key: Arc<SigningKey>,
    pub(super) message: Message,
    pub(super) made: Option<Signature>,
    pub(super) reply: oneshot::Sender<Result<Signature, SignError>>,
}

impl Work for TokenSignature {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn attempt(&mut self, session: &mut WorkerSession) -> Result<(), TokenFault> {
        let handle = session.handle(&self.key)?;
        self.made = Some(key::sign(&session.session, handle, &self.key, &self.message)?);
        Ok(())
    }

    fn observe(&self, observer: &dyn Observer, waited: Duration, took: Duration) {
        observer.signed(self.key.public.algorithm(), waited, took);
    }

    fn answer(self: Box<Self>, outcome: Result<(), SignError>) {
        let Self { made, reply, .. } = *self;
        let _ = reply.send(outcome.and_then(|()| made.ok_or_else(no_result)));
    }
}

/// Work for a thread that blocks until the result or the deadline.
pub(super) struct BlockingWork<T, F> {
    pub(super) run: F,
    pub(super) made: Option<T>,
    pub(super) reply: SyncSender<Result<T, SignError>>,
}

impl<T: Send, F: FnMut(&mut WorkerSession) -> Result<T, TokenFault> + Send> Work for BlockingWork<T, F> {
    fn attempt(&mut self, session: &mut WorkerSession) -> Result<(), TokenFault> {
        self.made = Some((self.run)(session)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), SignError>) {
        let Self { made, reply, .. } = *self;
        // An error means that the deadline passed and the caller is gone.
        let _ = reply.try_send(outcome.and_then(|()| made.ok_or_else(no_result)));
    }
}

fn no_result() -> SignError {
    SignError::Bug("the work ended without a result".into())
}

pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) module: Module,
    pub(super) gate: Arc<Gate>,
    pub(super) jobs: Receiver<SignerJob>,
    /// Queue to return a job to if this worker has no session.
    pub(super) queue: Sender<SignerJob>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) session: Option<WorkerSession>,
}

/// An open session, and the key handles that were found in it.
pub(super) struct WorkerSession {
    session: Session,
    epoch: Epoch,
    handles: Vec<(KeyId, ObjectHandle)>,
    /// Handles of TLS keys, by their public keys.
    tls_handles: Vec<(Vec<u8>, ObjectHandle)>,
}

/// Reason why an attempt produced no signature.
enum AttemptFailure {
    Refused(SignRefusal),
    /// The token failed in this epoch.
    Token(Epoch, TokenFault),
}

/// Reason why this worker did not perform a job.
enum JobFailure {
    Answer(SignError),
    /// The token has no session for this worker. Other workers may have a session.
    NoSession(Epoch),
}

impl Worker {
    /// Signs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        self.open_first_session();
        while let Ok(job) = self.jobs.recv_blocking() {
            self.observer.queue_length(self.jobs.len());
            self.serve(job);
        }
    }

    /// Opens the session before the first job arrives, so that the first request is faster.
    ///
    /// Only logs a failure: the failure recurs with the first job, which handles it.
    fn open_first_session(&mut self) {
        let gate = Arc::clone(&self.gate);
        let Ok(pass) = gate.enter(self.number, Instant::now() + FIRST_SESSION_TIMEOUT) else { return };
        if let Err(fault) = self.current_session(&pass) {
            tracing::warn!(worker = self.number, error = %fault, "no session yet");
        }
    }

    fn serve(&mut self, mut job: SignerJob) {
        if job.work.is_abandoned() {
            return;
        }
        if Instant::now() >= job.deadline {
            job.work.answer(Err(SignError::Timeout));
            return;
        }
        match self.perform(&mut job) {
            Ok(()) => job.work.answer(Ok(())),
            Err(JobFailure::Answer(error)) => job.work.answer(Err(error)),
            Err(JobFailure::NoSession(epoch)) => self.requeue(job, epoch),
        }
    }

    /// Performs the work with at most two attempts. A signature has no side effects, so a retry is
    /// safe.
    fn perform(&mut self, job: &mut SignerJob) -> Result<(), JobFailure> {
        let (epoch, fault) = match self.attempt(job) {
            Ok(()) => return Ok(()),
            Err(AttemptFailure::Refused(refusal)) => return Err(JobFailure::Answer(refusal.into())),
            Err(AttemptFailure::Token(epoch, fault)) => (epoch, fault),
        };
        self.note(&fault);
        match fault.class {
            ErrorClass::Bug => return Err(JobFailure::Answer(SignError::Bug(fault.text))),
            ErrorClass::Capacity => return Err(JobFailure::NoSession(epoch)),
            // The failed attempt dropped its session. The next attempt opens a new one.
            ErrorClass::Session | ErrorClass::WrongSignature => {}
            class => self.gate.report(epoch, class),
        }
        let (epoch, fault) = match self.attempt(job) {
            Ok(()) => return Ok(()),
            Err(AttemptFailure::Refused(refusal)) => return Err(JobFailure::Answer(refusal.into())),
            Err(AttemptFailure::Token(epoch, fault)) => (epoch, fault),
        };
        self.note(&fault);
        match fault.class {
            ErrorClass::Bug => return Err(JobFailure::Answer(SignError::Bug(fault.text))),
            ErrorClass::Capacity => return Err(JobFailure::NoSession(epoch)),
            // A new session and a new login have not helped, so a reset is required.
            _ => self.gate.report(epoch, ErrorClass::Device),
        }
        Err(JobFailure::Answer(SignError::Unavailable(fault.text)))
    }

    fn attempt(&mut self, job: &mut SignerJob) -> Result<(), AttemptFailure> {
        let gate = Arc::clone(&self.gate);
        let pass = gate.enter(self.number, job.deadline).map_err(AttemptFailure::Refused)?;
        if Instant::now() >= job.deadline {
            return Err(AttemptFailure::Refused(SignRefusal::Timeout));
        }
        let started = Instant::now();
        let outcome = self.current_session(&pass).and_then(|session| job.work.attempt(session));
        match outcome {
            Ok(()) => {
                job.work.observe(self.observer.as_ref(), started.duration_since(job.queued), started.elapsed());
                Ok(())
            }
            Err(fault) => {
                self.drop_session(&pass, fault.class);
                Err(AttemptFailure::Token(pass.epoch, fault))
            }
        }
    }

    /// Returns the session of the current epoch. Opens a session if necessary.
    fn current_session(&mut self, pass: &CallPermit<'_>) -> Result<&mut WorkerSession, TokenFault> {
        let session = match self.session.take() {
            Some(session) if session.epoch == pass.epoch => session,
            old => {
                if let Some(old) = old {
                    old.close(pass);
                }
                let session = self.module.open_session(pass.slot)?;
                WorkerSession { session, epoch: pass.epoch, handles: Vec::new(), tls_handles: Vec::new() }
            }
        };
        Ok(self.session.insert(session))
    }

    /// Drops the session after a failure of this class.
    fn drop_session(&mut self, pass: &CallPermit<'_>, class: ErrorClass) {
        let Some(session) = self.session.take() else { return };
        // One more call on a failing device might hang. The reset ends the session anyway.
        if class != ErrorClass::Device {
            session.close(pass);
        }
    }

    /// Returns the job to the queue for workers that have a session. Then waits until the token may
    /// have a free session.
    fn requeue(&self, job: SignerJob, epoch: Epoch) {
        if let Err(refused) = self.queue.try_send(job) {
            refused.into_inner().work.answer(Err(SignError::Busy));
        }
        if !self.gate.park(epoch, PARK_TIMEOUT) {
            // No worker has a session: either this process has leaked its sessions, or another
            // process uses all of them.
            self.gate.report(epoch, ErrorClass::Device);
        }
    }

    fn note(&self, fault: &TokenFault) {
        self.observer.failed(fault.class);
        tracing::warn!(worker = self.number, class = fault.class.as_str(), error = %fault, "signature failed");
    }
}

impl WorkerSession {
    /// Returns the handle of a key. The handle is cached, because a search takes a sixth of the
    /// time of a signature and locks the module.
    fn handle(&mut self, key: &SigningKey) -> Result<ObjectHandle, TokenFault> {
        let known = self.handles.iter().find(|(kid, _)| kid == key.public.kid());
        if let Some((_, handle)) = known {
            return Ok(*handle);
        }
        let handle = key::find_again(&self.session, key)?;
        self.handles.push((key.public.kid().clone(), handle));
        Ok(handle)
    }

    /// Finds the TLS key with this label.
    pub(super) fn find_tls_key(
        &self,
        label: &str,
        require_local: bool,
    ) -> Result<Result<TlsKey, UnfitTlsKey>, TokenFault> {
        tls_key::find(&self.session, label, require_local)
    }

    /// Signs a digest with a TLS key.
    pub(super) fn sign_tls(&mut self, key: &TlsKey, digest: &Digest) -> Result<Vec<u8>, TokenFault> {
        let handle = self.tls_handle(key)?;
        tls_key::sign(&self.session, handle, key, digest)
    }

    /// Signs a digest with a client key. Returns r and s.
    pub(super) fn sign_assertion(&mut self, key: &TlsKey, digest: &Digest) -> Result<Vec<u8>, TokenFault> {
        let handle = self.tls_handle(key)?;
        tls_key::sign_raw(&self.session, handle, key, digest)
    }

    fn tls_handle(&mut self, key: &TlsKey) -> Result<ObjectHandle, TokenFault> {
        let known = self.tls_handles.iter().find(|(point, _)| point == key.point()).map(|(_, handle)| *handle);
        if let Some(handle) = known {
            return Ok(handle);
        }
        let handle = tls_key::find_again(&self.session, key)?;
        self.tls_handles.push((key.point().to_vec(), handle));
        Ok(handle)
    }

    /// Closes the session, unless the module was finalized in the meantime: another session may
    /// have the same handle now.
    fn close(self, pass: &CallPermit<'_>) {
        if self.epoch.incarnation == pass.epoch.incarnation
            && let Err(error) = self.session.close()
        {
            tracing::debug!(%error, "session could not be closed");
        }
    }
}

impl From<SignRefusal> for SignError {
    fn from(refusal: SignRefusal) -> Self {
        match refusal {
            SignRefusal::Timeout => Self::Timeout,
            SignRefusal::Down(reason) => Self::Unavailable(reason),
            SignRefusal::Closed => Self::Unavailable("the signer is being closed".into()),
        }
    }
}

/// Runs `work` in a logged-in, writable session, for a single operation.
pub(super) fn with_session<T>(
    hsm: &config::Hsm,
    work: impl FnOnce(&Session) -> Result<T, SignerOpenError>,
) -> Result<T, SignerOpenError> {
    let pin = pkcs11::read_pin(&hsm.pin_file)?;
    let module = Module::load(&hsm.module)?;
    let initialized = module.initialize()?;
    let outcome = module.find_token(&hsm.token_label, None).and_then(|token| {
        let session = module
            .open_writing_session(token.slot)
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        module.login(&hsm.token_label, token.slot, &session, &pin)?;
        work(&session)
    });
    module.finalize_if(initialized);
    outcome
}
