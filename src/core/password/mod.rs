//! Password hashing with argon2id (RFC 9106) on dedicated threads.
//!
//! A check takes 13 ms of a core and 19 MiB, so a flood of sign-ins must not use all cores or all
//! memory. Therefore:
//!
//! - The number of threads is small, and their priority is low.
//! - Each thread reuses its memory.
//! - The queue of the threads is bounded and fair.
//!
//! The callers apply rate limits.
//!
//! New passwords are hashed in Unicode Normalization Form C (RFC 8265 §4.2), because keyboards of
//! different systems send different bytes for the same letter. A typed password is compared in that
//! form first. If the typed form differs, it is compared too, because imported hashes and hashes of
//! older versions were made from the typed form.
//!
//! Imported hashes of other schemes ([`foreign`]) are accepted until the user's first sign-in.

mod foreign;
mod queue;

use std::io;
use std::panic;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use argon2::password_hash::phc::{self, Output, ParamsString, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use foreign::ForeignHash;
use icu_normalizer::ComposingNormalizerBorrowed;
use queue::{PasswordJob, PasswordQueue};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use sealgate_config as config;
use sealgate_domain::line_fault::HashFault;
use sealgate_domain::profile::MAX_PASSWORD_LENGTH;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::PasswordHash;

pub use queue::PasswordError;
pub use queue::QueueKey;
use sealgate_domain::password_rules::{Owner, PasswordFault, check_form, is_common};

/// Maximum length of a password in bytes. Longer passwords are always wrong.
pub(crate) const MAX_PASSWORD_BYTES: usize = MAX_PASSWORD_LENGTH;

/// Memory of a new hash in KiB. This is OWASP's second set of parameters: 19 MiB, two passes, one
/// lane.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const OUTPUT_BYTES: usize = 32;

/// Maximum memory of a stored hash, in KiB. Without the maximum values, a mistake in an import
/// could block all sign-ins.
const MAX_MEMORY_KIB: u32 = 128 * 1024;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;
/// Maximum product of memory in KiB and passes, which is proportional to the duration.
const MAX_WORK_KIB: u32 = 4 * MAX_MEMORY_KIB;

/// Maximum time for which a request waits for its password check.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Niceness of the threads, which gives request threads priority.
const NICENESS: i32 = 5;
/// Idle time after which a thread frees its memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether the password should be hashed again with the current parameters when the user
/// next signs in.
pub fn needs_rehash(hash: &PasswordHash) -> bool {
    match StoredHash::parse(hash.as_str()) {
        Ok(StoredHash::Argon2(hash)) => !hash.is_current(),
        Ok(StoredHash::Foreign(_)) => true,
        Err(_) => false,
    }
}

/// Checks an imported hash and returns it with the name of its scheme.
///
/// The hash is stored unchanged until the user's first sign-in.
///
/// # Errors
/// [`HashFault`], which contains no part of the hash.
pub fn import_hash(text: &str) -> Result<(PasswordHash, &'static str), HashFault> {
    let text = foreign::unwrapped(text);
    let hash = StoredHash::parse(text)?;
    if hash.is_of_empty_password() {
        return Err(HashFault::Empty);
    }
    let scheme = hash.scheme();
    Ok((PasswordHash::new(text.to_owned()), scheme))
}

/// Returns the scheme of an imported hash. Returns `None` for argon2id.
pub fn foreign_scheme(hash: &PasswordHash) -> Option<&'static str> {
    StoredHash::parse(hash.as_str()).ok().map(|hash| hash.scheme()).filter(|scheme| *scheme != "argon2id")
}

/// Parsed stored hash.
enum StoredHash<'h> {
    Argon2(Argon2Hash),
    Foreign(ForeignHash<'h>),
}

impl<'h> StoredHash<'h> {
    /// Parses a stored hash.
    ///
    /// # Errors
    /// [`HashFault`], also if a check takes too much work.
    fn parse(text: &'h str) -> Result<Self, HashFault> {
        if text.starts_with("$argon2") {
            return Argon2Hash::parse(text).map(Self::Argon2);
        }
        ForeignHash::parse(text).map(Self::Foreign)
    }

    /// Returns whether this is a fast hash of the empty password.
    ///
    /// Slow hashes are not checked, because the empty password is never compared with a hash.
    fn is_of_empty_password(&self) -> bool {
        matches!(self, Self::Foreign(hash) if hash.is_of_empty_password())
    }

    fn scheme(&self) -> &'static str {
        match self {
            Self::Argon2(hash) => hash.algorithm.as_str(),
            Self::Foreign(hash) => hash.scheme,
        }
    }
}

struct Argon2Hash {
    algorithm: Algorithm,
    params: Params,
    salt: Salt,
    output: Output,
}

impl Argon2Hash {
    /// Parses a PHC string.
    ///
    /// # Errors
    /// [`HashFault`] if it is not an argon2 hash of version 19, or takes too much work.
    fn parse(text: &str) -> Result<Self, HashFault> {
        let malformed = HashFault::Malformed("argon2");
        let phc = phc::PasswordHash::new(text).map_err(|_| malformed)?;
        let algorithm = Algorithm::try_from(phc.algorithm.as_str()).map_err(|_| malformed)?;
        let (Some(salt), Some(output)) = (phc.salt, phc.hash) else { return Err(malformed) };
        let params = Params::try_from(&phc).map_err(|_| malformed)?;
        if phc.version != Some(Version::V0x13.into()) || salt.as_ref().len() < argon2::MIN_SALT_LEN {
            return Err(malformed);
        }
        let (memory, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        let is_within = memory <= MAX_MEMORY_KIB && passes <= MAX_PASSES && lanes <= MAX_LANES;
        if !is_within || memory.saturating_mul(passes) > MAX_WORK_KIB {
            return Err(HashFault::TooMuchWork(
                "argon2 with 128 MiB in 4 passes, or 16 passes over less, and 16 lanes",
            ));
        }
        Ok(Self { algorithm, params, salt, output })
    }

    /// Returns whether the hash has the parameters of a new hash.
    fn is_current(&self) -> bool {
        self.algorithm == Algorithm::Argon2id
            && (self.params.m_cost(), self.params.t_cost(), self.params.p_cost()) == (MEMORY_KIB, PASSES, LANES)
            && self.output.len() == OUTPUT_BYTES
    }
}

/// Hashes a password on the calling thread, for the command line.
///
/// # Errors
/// `TooLong`, `Broken`.
pub fn hash_blocking(password: &SecretString, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
    Hasher::new().hash(password, salt)
}

/// Returns a hash that no known password has, with the parameters of a new hash. Its bytes are random.
pub fn unknown_hash(salt: [u8; 16], output: [u8; OUTPUT_BYTES]) -> PasswordHash {
    let (salt, output) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(output));
    PasswordHash::new(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${output}"))
}

/// Checks a new password against the rules on the calling thread, for the command line.
///
/// # Errors
/// Returns the first violated rule.
pub fn check_blocking(password: &Secret, owner: &Owner<'_>) -> Result<(), PasswordFault> {
    check_form(password, owner)?;
    if is_common(password.expose()) { Err(PasswordFault::Common) } else { Ok(()) }
}

/// Threads that hash and check passwords.
pub struct Passwords {
    queue: Arc<PasswordQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Passwords {
    /// Starts the threads.
    ///
    /// # Errors
    /// Returns the operating system's error if it cannot create a thread.
    pub fn new(login: &config::LoginConfig) -> io::Result<Self> {
        let queue = Arc::new(PasswordQueue::new(login.password_queue.max(1)));
        let mut passwords = Self { queue, threads: Vec::new() };
        for number in 0..login.password_threads.max(1) {
            let queue = Arc::clone(&passwords.queue);
            let thread = thread::Builder::new().name(format!("password-{number}"));
            passwords.threads.push(thread.spawn(move || work(&queue))?);
        }
        Ok(passwords)
    }

    /// Hashes a new password.
    ///
    /// # Errors
    /// Any [`PasswordError`].
    pub async fn hash(&self, password: SecretString, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        if password.expose_secret().len() > MAX_PASSWORD_BYTES {
            return Err(PasswordError::TooLong);
        }
        let (reply, answer) = oneshot::channel();
        self.queue.push(QueueKey::Trusted, PasswordJob::Hash { password, salt, reply })?;
        wait(answer).await
    }

    /// Checks a new password against the rules on the password threads, so that requests are not
    /// delayed.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Broken`.
    pub async fn check(
        &self,
        queue: QueueKey,
        password: &Secret,
        owner: &Owner<'_>,
    ) -> Result<Result<(), PasswordFault>, PasswordError> {
        if let Err(fault) = check_form(password, owner) {
            return Ok(Err(fault));
        }
        let (reply, answer) = oneshot::channel();
        self.queue.push(queue, PasswordJob::Judge { password: SecretString::from(password.expose()), reply })?;
        Ok(if wait(answer).await? { Err(PasswordFault::Common) } else { Ok(()) })
    }

    /// Returns whether `password` matches the hash.
    ///
    /// Without a hash, as for an unknown user, does the same work and returns false, so that the
    /// duration does not reveal which users exist.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Broken`.
    pub async fn verify(
        &self,
        queue: QueueKey,
        hash: Option<&PasswordHash>,
        password: SecretString,
    ) -> Result<bool, PasswordError> {
        // This early return reveals only the length of the password, which the client knows.
        if password.expose_secret().len() > MAX_PASSWORD_BYTES {
            return Ok(false);
        }
        let (reply, answer) = oneshot::channel();
        self.queue.push(queue, PasswordJob::Verify { hash: hash.cloned(), password, reply })?;
        wait(answer).await
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // The thread has logged its panic.
            let _ = thread.join();
        }
    }
}

async fn wait<T>(answer: oneshot::Receiver<Result<T, PasswordError>>) -> Result<T, PasswordError> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(PasswordError::Broken),
        Err(_) => Err(PasswordError::Timeout),
    }
}

/// Lowers the priority of this thread. If that fails, the thread competes with the signer for the
/// cores.
///
/// `Nice=` in the systemd unit may already have set a lower priority, which the process is not
/// permitted to raise.
fn lower_priority() {
    let lowered = rustix::process::getpriority_process(None).and_then(|niceness| {
        if niceness >= NICENESS { Ok(()) } else { rustix::process::setpriority_process(None, NICENESS) }
    });
    if let Err(error) = lowered {
        tracing::warn!(%error, "cannot lower the priority of the password threads");
    }
}

fn work(queue: &PasswordQueue) {
    lower_priority();
    let mut hasher = Hasher::new();
    while let Some(job) = next(queue, &mut hasher) {
        if job.is_abandoned() {
            continue;
        }
        match job {
            PasswordJob::Hash { password, salt, reply } => {
                let _ = reply.send(hasher.hash(&password, salt));
            }
            PasswordJob::Verify { hash, password, reply } => {
                let _ = reply.send(hasher.verify(hash.as_ref(), &password));
            }
            PasswordJob::Judge { password, reply } => {
                // A panic of the library must not end the thread.
                let judged = panic::catch_unwind(|| is_common(password.expose_secret()));
                let _ = reply.send(judged.map_err(|_| PasswordError::Broken));
            }
        }
    }
}

/// Returns the next job. Frees the hasher's memory after an idle time.
fn next(queue: &PasswordQueue, hasher: &mut Hasher) -> Option<PasswordJob> {
    queue.pop(IDLE_TIMEOUT, || hasher.rest())
}

/// argon2id hasher that reuses its memory for the next password.
struct Hasher {
    blocks: Vec<Block>,
}

impl Hasher {
    fn new() -> Self {
        Self { blocks: Vec::new() }
    }

    fn rest(&mut self) {
        self.blocks = Vec::new();
    }

    fn hash(&mut self, password: &SecretString, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        if password.expose_secret().len() > MAX_PASSWORD_BYTES {
            return Err(PasswordError::TooLong);
        }
        let composed = composed(password);
        let password = composed.as_ref().unwrap_or(password);
        let params = new_params()?;
        let mut output = Zeroizing::new([0; OUTPUT_BYTES]);
        self.derive(Algorithm::Argon2id, &params, password, &salt, &mut *output)?;
        let output = Output::new(&*output).map_err(|_| PasswordError::Broken)?;
        let salt = Salt::new(&salt).map_err(|_| PasswordError::Broken)?;
        let phc = phc::PasswordHash {
            algorithm: argon2::ARGON2ID_IDENT,
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(&params).map_err(|_| PasswordError::Broken)?,
            salt: Some(salt),
            hash: Some(output),
        };
        Ok(PasswordHash::new(phc.to_string()))
    }

    /// Compares the composed form of the password, and then the typed form if it differs.
    fn verify(&mut self, hash: Option<&PasswordHash>, password: &SecretString) -> Result<bool, PasswordError> {
        // Treat an empty password like the password of an unknown user, because an imported hash
        // may be the hash of the empty password.
        let hash = hash.filter(|_| !password.expose_secret().is_empty());
        if let Some(composed) = composed(password)
            && self.verify_bytes(hash, &composed)?
        {
            return Ok(true);
        }
        self.verify_bytes(hash, password)
    }

    fn verify_bytes(&mut self, hash: Option<&PasswordHash>, password: &SecretString) -> Result<bool, PasswordError> {
        let Some(hash) = hash else {
            self.spend(password)?;
            return Ok(false);
        };
        let hash = StoredHash::parse(hash.as_str()).map_err(|why| {
            tracing::error!(%why, "a stored password hash cannot be verified");
            PasswordError::Broken
        })?;
        let (right, is_current) = match hash {
            StoredHash::Argon2(hash) => {
                let expected = hash.output.as_bytes();
                let mut output = Zeroizing::new(vec![0; expected.len()]);
                self.derive(hash.algorithm, &hash.params, password, hash.salt.as_ref(), &mut output)?;
                (output.ct_eq(expected).into(), hash.is_current())
            }
            StoredHash::Foreign(hash) => {
                let right = hash.verify(password.expose_secret().as_bytes()).map_err(|()| {
                    tracing::error!(scheme = hash.scheme, "a stored password hash cannot be verified");
                    PasswordError::Broken
                })?;
                (right, false)
            }
        };
        // The check for an unknown user does the work of one argon2id hash. The check of an
        // imported hash may be faster, so do that work too if the password is wrong. Otherwise the
        // duration would reveal which users have an imported hash. If the password is right, the
        // sign-in hashes it again, which takes the same time.
        if !right && !is_current {
            self.spend(password)?;
        }
        Ok(right)
    }

    /// Does the work of a check, and discards the result.
    fn spend(&mut self, password: &SecretString) -> Result<(), PasswordError> {
        let mut output = Zeroizing::new([0; OUTPUT_BYTES]);
        self.derive(Algorithm::Argon2id, &new_params()?, password, &[0; 16], &mut *output)
    }

    fn derive(
        &mut self,
        algorithm: Algorithm,
        params: &Params,
        password: &SecretString,
        salt: &[u8],
        output: &mut [u8],
    ) -> Result<(), PasswordError> {
        let usual = MEMORY_KIB as usize;
        let needed = params.block_count().max(usual);
        if self.blocks.len() < needed {
            self.blocks.resize(needed, Block::new());
        }
        // The memory can be reused without erasure: the second pass has overwritten the first, so
        // the blocks do not make the password easier to guess.
        let argon2 = Argon2::new(algorithm, Version::V0x13, params.clone());
        let password = password.expose_secret().as_bytes();
        let derived = argon2.hash_password_into_with_memory(password, salt, output, &mut self.blocks);
        if self.blocks.len() > usual {
            self.blocks.truncate(usual);
            self.blocks.shrink_to_fit();
        }
        derived.map_err(|_| PasswordError::Broken)
    }
}

/// Returns the password in Normalization Form C if it differs from the typed form.
///
/// Returns `None` if the forms are equal, or if the composed form is too long.
fn composed(password: &SecretString) -> Option<SecretString> {
    let typed = password.expose_secret();
    if typed.is_ascii() {
        return None;
    }
    let normalizer = ComposingNormalizerBorrowed::new_nfc();
    if normalizer.is_normalized(typed) {
        return None;
    }
    // Allocate once, so that no unerased copy remains. Normalization at most triples the length in
    // UTF-8 (Unicode Standard Annex 15).
    let mut composed = Zeroizing::new(String::with_capacity(3 * typed.len()));
    normalizer.normalize_to(typed, &mut *composed).ok()?;
    (composed.len() <= MAX_PASSWORD_BYTES).then(|| SecretString::from(composed.as_str()))
}

fn new_params() -> Result<Params, PasswordError> {
    Params::new(MEMORY_KIB, PASSES, LANES, Some(OUTPUT_BYTES)).map_err(|_| PasswordError::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: QueueKey = QueueKey::Stranger([1; 16]);
    const SALT: [u8; 16] = *b"0123456789abcdef";

    fn login(password_threads: usize, password_queue: usize) -> config::LoginConfig {
        config::LoginConfig {
            only_upstream: None,
            failures_per_account: 10,
            failures_per_address: 100,
            window: Duration::from_mins(15),
            password_threads,
            password_queue,
        }
    }

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    fn stored(text: &str) -> PasswordHash {
        hash_blocking(&secret(text), SALT).unwrap()
    }

    #[tokio::test]
    async fn the_right_password_is_accepted_and_a_wrong_one_refused() {
        let passwords = Passwords::new(&login(1, 8)).unwrap();
        let hash = passwords.hash(secret("correct horse"), SALT).await.unwrap();
        assert!(passwords.verify(QueueKey::Trusted, Some(&hash), secret("correct horse")).await.unwrap());
        assert!(!passwords.verify(QueueKey::Trusted, Some(&hash), secret("correct horsf")).await.unwrap());
        assert!(!passwords.verify(QueueKey::Trusted, Some(&hash), secret("")).await.unwrap());
    }

    /// Created with the reference implementation: `printf 'correct horse' | argon2 0123456789abcdef
    /// -id … -l 32 -e`.
    const FOREIGN: [&str; 3] = [
        "$argon2id$v=19$m=12288,t=3,p=1$MDEyMzQ1Njc4OWFiY2RlZg$W2CvwLK2LDlk3BoCN5Nmrigs/uLQ3VdCUrYzjKQtTqo",
        "$argon2id$v=19$m=47104,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$mHib0oJhulgRRhujGCSbatBZgMc8EMY5ncGz/E3yQTg",
        "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$L1b1NjppUoj/KIEORq1pof4waLxklM0mqKZzt9nCsKI",
    ];

    #[tokio::test]
    async fn argon2_hashes_of_other_programs_are_verified() {
        let passwords = Passwords::new(&login(1, 8)).unwrap();
        for foreign in FOREIGN {
            let hash = PasswordHash::new(foreign.to_owned());
            assert!(needs_rehash(&hash));
            assert!(
                passwords.verify(QueueKey::Trusted, Some(&hash), secret("correct horse")).await.unwrap(),
                "{foreign}"
            );
            assert!(!passwords.verify(QueueKey::Trusted, Some(&hash), secret("wrong")).await.unwrap(), "{foreign}");
        }
    }

    #[tokio::test]
    async fn an_unknown_user_costs_the_same_work_and_is_refused() {
        let passwords = Passwords::new(&login(1, 8)).unwrap();
        let known = stored("correct horse");
        let mut times = [Duration::MAX; 2];
        for _ in 0..5 {
            for (hash, best) in [Some(&known), None].into_iter().zip(&mut times) {
                let started = std::time::Instant::now();
                assert!(!passwords.verify(QueueKey::Trusted, hash, secret("wrong")).await.unwrap());
                *best = started.elapsed().min(*best);
            }
        }
        let [known, unknown] = times.map(|time| time.as_secs_f64());
        // Each time is the minimum of five measurements. Without the dummy work, `unknown` would be
        // a thousandth of `known`.
        assert!((0.2..5.0).contains(&(known / unknown)), "{known} {unknown}");
    }

    #[tokio::test]
    async fn a_fast_imported_hash_takes_as_long_as_an_unknown_user() {
        let passwords = Passwords::new(&login(1, 8)).unwrap();
        // Created with slappasswd, and with argon2 parameters that cause a hundredth of the current
        // work.
        let ssha = PasswordHash::new("{SSHA}3sziG0LBD8aJKms7qUVUc6jvnDlaSwlF".to_owned());
        let quick = PasswordHash::new(
            "$argon2id$v=19$m=1024,t=1,p=1$PidEqFUKISSkNAYgRGhNiQ$+7XIXXb49Vzfvbqkb/fNVWRPuiEJxt42QAmk1bbjDHQ"
                .to_owned(),
        );
        let mut times = [Duration::MAX; 3];
        for _ in 0..5 {
            for (hash, best) in [None, Some(&ssha), Some(&quick)].into_iter().zip(&mut times) {
                let started = std::time::Instant::now();
                assert!(!passwords.verify(QueueKey::Trusted, hash, secret("wrong")).await.unwrap());
                *best = started.elapsed().min(*best);
            }
        }
        let [nobody, ssha, quick] = times.map(|time| time.as_secs_f64());
        // Each time is the minimum of five measurements. Without the dummy work, a check of an
        // imported hash would take a hundredth of the time.
        assert!(
            (0.5..5.0).contains(&(ssha / nobody)) && (0.5..5.0).contains(&(quick / nobody)),
            "{nobody} {ssha} {quick}"
        );
    }

    #[test]
    fn a_new_hash_is_argon2id_with_current_parameters() {
        let hash = stored("correct horse");
        assert!(!needs_rehash(&hash));
        let text = hash.as_str();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"), "{text}");
    }

    #[test]
    fn hashes_that_cannot_be_checked_are_refused() {
        let good = stored("correct horse").as_str().to_owned();
        for bad in [
            String::new(),
            "correct horse".to_owned(),
            good.replace("argon2id", "argon2ix"),
            good.replace("v=19", "v=16"),
            good.replace("m=19456", "m=4194304"),
            good.replace("t=2", "t=1000"),
            good.replace("m=19456", "m=1"),
            good.rsplit_once('$').unwrap().0.to_owned(),
            "$2b$12$abcdefghijklmnopqrstuuu".to_owned(),
        ] {
            assert!(StoredHash::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_is_not_shown_in_logs() {
        let hash = stored("correct horse");
        assert_eq!(format!("{hash:?}"), "PasswordHash(…)");
    }

    #[tokio::test]
    async fn a_password_beyond_the_limit_is_wrong_without_work() {
        let passwords = Passwords::new(&login(1, 8)).unwrap();
        let (longest, longer) = ("x".repeat(MAX_PASSWORD_BYTES), "x".repeat(MAX_PASSWORD_BYTES + 1));
        let hash = passwords.hash(secret(&longest), SALT).await.unwrap();
        assert!(passwords.verify(QueueKey::Trusted, Some(&hash), secret(&longest)).await.unwrap());
        assert!(!passwords.verify(QueueKey::Trusted, Some(&hash), secret(&longer)).await.unwrap());
        assert!(passwords.hash(secret(&longer), SALT).await.unwrap_err() == PasswordError::TooLong);
        assert!(hash_blocking(&secret(&longer), SALT).unwrap_err() == PasswordError::TooLong);
    }

    #[tokio::test]
    async fn a_full_queue_sheds_load_and_recovers() {
        let passwords = Passwords::new(&login(1, 2)).unwrap();
        let hash = stored("correct horse");
        // All jobs are submitted before the first is done: a check takes milliseconds, a submission
        // takes microseconds.
        let checks: Vec<_> = (0..64)
            .map(|_| {
                let (reply, answer) = oneshot::channel();
                let job = PasswordJob::Verify { hash: Some(hash.clone()), password: secret("correct horse"), reply };
                passwords.queue.push(HERE, job).map(|()| answer)
            })
            .collect();
        let shed = checks.iter().filter(|check| matches!(check, Err(PasswordError::Busy))).count();
        assert!(shed >= 60, "{shed}");
        for answer in checks.into_iter().flatten() {
            assert_eq!(answer.await.unwrap(), Ok(true));
        }
        assert!(passwords.verify(QueueKey::Trusted, Some(&hash), secret("correct horse")).await.unwrap());
    }

    #[tokio::test]
    async fn abandoned_password_checks_are_skipped() {
        let passwords = Passwords::new(&login(1, 1000)).unwrap();
        let hash = stored("correct horse");
        for _ in 0..1000 {
            let (reply, _) = oneshot::channel();
            passwords
                .queue
                .push(HERE, PasswordJob::Verify { hash: Some(hash.clone()), password: secret("x"), reply })
                .unwrap();
            while passwords.queue.is_full() {
                thread::yield_now();
            }
        }
        let started = std::time::Instant::now();
        assert!(passwords.verify(QueueKey::Trusted, Some(&hash), secret("correct horse")).await.unwrap());
        // A thousand checks would take ten seconds.
        assert!(started.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn memory_of_a_large_hash_is_freed() {
        let mut hasher = Hasher::new();
        let big = PasswordHash::new(stored("x").as_str().replace("m=19456", "m=65536"));
        assert_eq!(hasher.verify(Some(&big), &secret("x")), Ok(false));
        assert_eq!(hasher.blocks.len(), MEMORY_KIB as usize);
        assert!(hasher.blocks.capacity() < 2 * MEMORY_KIB as usize);
    }

    #[test]
    fn memory_is_freed_when_the_queue_is_idle() {
        let queue = PasswordQueue::new(1);
        let mut hasher = Hasher::new();
        assert_eq!(hasher.verify(None, &secret("x")), Ok(false));
        assert_eq!(hasher.blocks.len(), MEMORY_KIB as usize);
        let next = queue.pop(Duration::from_millis(1), || {
            hasher.rest();
            queue.close();
        });
        assert!(next.is_none() && hasher.blocks.capacity() == 0);
        assert_eq!(hasher.verify(None, &secret("x")), Ok(false), "the next check allocates memory again");
    }
}
