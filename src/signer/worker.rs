//! A thread that owns one session and its key handles, and signs the queued jobs. The class of a
//! failure decides whether to open a new session, call the supervisor or give up. A job is retried
//! once within its deadline.
//! A token session for a single operation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
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
use crate::{key, pkcs11};
use sealgate_config as config;

/// Time that a worker without a session pauses before it tries again to open one.
const PARKED: Duration = Duration::from_secs(30);

/// Maximum time that a worker waits for its first session at start.
const FIRST_SESSION: Duration = Duration::from_secs(1);

/// A signature request.
pub(super) struct SignerJob {
    pub(super) key: Arc<SigningKey>,
    pub(super) message: Message,
    pub(super) queued: Instant,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Signature, SignError>>,
}

pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) module: Module,
    pub(super) gate: Arc<Gate>,
    pub(super) jobs: Receiver<SignerJob>,
    /// The queue to return a job to if this worker has no session.
    pub(super) queue: Sender<SignerJob>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) seat: Option<WorkerSession>,
}

/// An open session and the handles found in it.
pub(super) struct WorkerSession {
    session: Session,
    epoch: Epoch,
    handles: Vec<(KeyId, ObjectHandle)>,
}

/// Why an attempt produced no signature.
enum Failure {
    Refused(SignRefusal),
    /// The token failed in this epoch of the module.
    Token(Epoch, TokenFault),
}

/// Why this worker did not answer a job.
enum Unserved {
    Answer(SignError),
    /// The token has no session for this worker, but other workers have one.
    NoSession(Epoch),
}

impl Worker {
    /// Signs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        self.take_first_seat();
        while let Ok(job) = self.jobs.recv_blocking() {
            self.observer.queue_length(self.jobs.len());
            self.serve(job);
        }
    }

    /// Opens the session before the first job, to save the first request that time. A failure here
    /// recurs with the first job and is handled there.
    fn take_first_seat(&mut self) {
        let gate = Arc::clone(&self.gate);
        let Ok(pass) = gate.enter(self.number, Instant::now() + FIRST_SESSION) else { return };
        if let Err(fault) = self.sit(&pass) {
            tracing::warn!(worker = self.number, error = %fault, "no session yet");
        }
    }

    fn serve(&mut self, job: SignerJob) {
        if job.reply.is_closed() {
            return;
        }
        if Instant::now() >= job.deadline {
            let _ = job.reply.send(Err(SignError::Timeout));
            return;
        }
        match self.sign(&job) {
            Ok(signature) => {
                let _ = job.reply.send(Ok(signature));
            }
            Err(Unserved::Answer(error)) => {
                let _ = job.reply.send(Err(error));
            }
            Err(Unserved::NoSession(epoch)) => self.hand_on(job, epoch),
        }
    }

    /// Makes at most two attempts. A signature has no side effects, so a retry is safe.
    fn sign(&mut self, job: &SignerJob) -> Result<Signature, Unserved> {
        let (epoch, fault) = match self.attempt(job) {
            Ok(signature) => return Ok(signature),
            Err(Failure::Refused(refusal)) => return Err(Unserved::Answer(refusal.into())),
            Err(Failure::Token(epoch, fault)) => (epoch, fault),
        };
        self.note(&fault);
        match fault.class {
            ErrorClass::Bug => return Err(Unserved::Answer(SignError::Bug(fault.text))),
            ErrorClass::Capacity => return Err(Unserved::NoSession(epoch)),
            // The attempt dropped its session; the next one opens another.
            ErrorClass::Session | ErrorClass::WrongSignature => {}
            class => self.gate.report(epoch, class),
        }
        let (epoch, fault) = match self.attempt(job) {
            Ok(signature) => return Ok(signature),
            Err(Failure::Refused(refusal)) => return Err(Unserved::Answer(refusal.into())),
            Err(Failure::Token(epoch, fault)) => (epoch, fault),
        };
        self.note(&fault);
        match fault.class {
            ErrorClass::Bug => return Err(Unserved::Answer(SignError::Bug(fault.text))),
            ErrorClass::Capacity => return Err(Unserved::NoSession(epoch)),
            // Neither a new session nor a new login helped. Only a reset remains.
            _ => self.gate.report(epoch, ErrorClass::Device),
        }
        Err(Unserved::Answer(SignError::Unavailable(fault.text)))
    }

    fn attempt(&mut self, job: &SignerJob) -> Result<Signature, Failure> {
        let gate = Arc::clone(&self.gate);
        let pass = gate.enter(self.number, job.deadline).map_err(Failure::Refused)?;
        if Instant::now() >= job.deadline {
            return Err(Failure::Refused(SignRefusal::Timeout));
        }
        let started = Instant::now();
        let outcome = self.sign_inside(job, &pass);
        match outcome {
            Ok(signature) => {
                self.observer.signed(started.duration_since(job.queued), started.elapsed());
                Ok(signature)
            }
            Err(fault) => {
                self.leave_seat(&pass, fault.class);
                Err(Failure::Token(pass.epoch, fault))
            }
        }
    }

    fn sign_inside(&mut self, job: &SignerJob, pass: &CallPermit<'_>) -> Result<Signature, TokenFault> {
        let seat = self.sit(pass)?;
        let handle = seat.handle(&job.key)?;
        key::sign(&seat.session, handle, &job.key, &job.message)
    }

    /// Returns the session for the current epoch. Opens one if necessary.
    fn sit(&mut self, pass: &CallPermit<'_>) -> Result<&mut WorkerSession, TokenFault> {
        let seat = match self.seat.take() {
            Some(seat) if seat.epoch == pass.epoch => seat,
            old => {
                if let Some(old) = old {
                    old.close(pass);
                }
                let session = self.module.open_session(pass.slot)?;
                WorkerSession { session, epoch: pass.epoch, handles: Vec::new() }
            }
        };
        Ok(self.seat.insert(seat))
    }

    /// Drops the session after a failure of this class.
    fn leave_seat(&mut self, pass: &CallPermit<'_>, class: ErrorClass) {
        let Some(seat) = self.seat.take() else { return };
        // A failing device may hang on one more call, and the reset voids the session anyway.
        if class != ErrorClass::Device {
            seat.close(pass);
        }
    }

    /// Returns the job to the queue for workers that have a session, and waits until another
    /// session may be free.
    fn hand_on(&self, job: SignerJob, epoch: Epoch) {
        if let Err(refused) = self.queue.try_send(job) {
            let _ = refused.into_inner().reply.send(Err(SignError::Busy));
        }
        if !self.gate.park(epoch, PARKED) {
            // No worker has a session: ours leaked, or another application uses all of them.
            self.gate.report(epoch, ErrorClass::Device);
        }
    }

    fn note(&self, fault: &TokenFault) {
        self.observer.failed(fault.class);
        tracing::warn!(worker = self.number, class = fault.class.as_str(), error = %fault, "signature failed");
    }
}

impl WorkerSession {
    /// Returns the key's handle. Caches it, because a search costs a sixth of a signature and takes
    /// a lock in the module.
    fn handle(&mut self, key: &SigningKey) -> Result<ObjectHandle, TokenFault> {
        let known = self.handles.iter().find(|(kid, _)| kid == key.public.kid());
        if let Some((_, handle)) = known {
            return Ok(*handle);
        }
        let handle = key::find_again(&self.session, key)?;
        self.handles.push((key.public.kid().clone(), handle));
        Ok(handle)
    }

    /// Closes the session, unless the module was finalized since: another session may have the same
    /// handle by now.
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

/// Runs `work` in a logged-in writable session.
pub(super) fn with_session<T>(
    hsm: &config::Hsm,
    work: impl FnOnce(&Session) -> Result<T, SignerOpenError>,
) -> Result<T, SignerOpenError> {
    let pin = pkcs11::read(&hsm.pin_file)?;
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
