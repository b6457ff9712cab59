//! SoftHSM instance of one test: a directory with its configuration, its tokens and a PIN file,
//! removed at the end.
//!
//! Needs `softhsm2-util` and `pkcs11-tool`, and fails if they are absent. Uses only std and
//! tempfile, so that every test binary can include it:
//! `#[path = "support/softhsm.rs"] mod softhsm;`.
//!
//! SoftHSM reads `SOFTHSM2_CONF` once per process, and a PKCS #11 module has one state per process.
//! A test that starts the real binary passes [`SoftHsm::configuration`] to the child in that
//! variable. A test that opens the module itself runs in a separate process: [`in_own_process`].

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Path of SoftHSM's module in Debian's package.
pub(crate) const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Module of `OpenSC` that logs every call to [`SoftHsm::call_record`] and forwards it to
/// [`MODULE`].
pub(crate) const SPY: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/pkcs11-spy.so";

/// User PIN of every token created here.
pub(crate) const PIN: &str = "648219";

/// Security officer's PIN of every token created here.
pub(crate) const SO_PIN: &str = "73105526";

/// Environment variable that passes the directory to a test in a separate process.
const DIRECTORY_VARIABLE: &str = "SEALGATE_TEST_SOFTHSM";

/// Maximum duration of a test in a separate process.
const PATIENCE: Duration = Duration::from_mins(3);

/// A directory with SoftHSM's configuration, tokens and a PIN file.
pub(crate) struct SoftHsm {
    root: PathBuf,
    /// Removes the directory; `None` in a process that got the directory from its parent.
    _owner: Option<tempfile::TempDir>,
}

impl SoftHsm {
    /// Creates a directory with one empty token labelled `label`.
    pub(crate) fn with_token(label: &str) -> Self {
        let softhsm = Self::without_token();
        softhsm.add_token(label);
        softhsm
    }

    /// Returns the directory that [`in_own_process`] created for this process, or `None` in other
    /// processes.
    pub(crate) fn of_this_process() -> Option<Self> {
        std::env::var_os(DIRECTORY_VARIABLE).map(|root| Self { root: root.into(), _owner: None })
    }

    /// Returns another handle of the directory, for another user of its tokens. The directory is
    /// removed with the first handle.
    pub(crate) fn shared(&self) -> Self {
        Self { root: self.root.clone(), _owner: None }
    }

    /// Creates a directory without tokens. It is in memory where possible, because each signature
    /// takes file locks.
    pub(crate) fn without_token() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let owner = tempfile::Builder::new().prefix("softhsm-").tempdir_in(parent).unwrap();
        let softhsm = Self { root: owner.path().to_owned(), _owner: Some(owner) };
        fs::create_dir(softhsm.tokens()).unwrap();
        let configuration = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\nslots.removable = false\n",
            softhsm.tokens().display()
        );
        fs::write(softhsm.configuration(), configuration).unwrap();
        softhsm.write_pin_file(PIN, 0o600);
        softhsm
    }

    /// Adds an empty token to the directory; the label may be in use already.
    pub(crate) fn add_token(&self, label: &str) {
        self.succeed(Command::new("softhsm2-util").args([
            "--init-token",
            "--free",
            "--label",
            label,
            "--pin",
            PIN,
            "--so-pin",
            SO_PIN,
        ]));
    }

    /// Returns the path for `SOFTHSM2_CONF`.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.root.join("softhsm2.conf")
    }

    /// Returns the directory that has a subdirectory for each token.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.root.join("tokens")
    }

    /// Returns the path of a file that contains [`PIN`] and that only its owner can read.
    pub(crate) fn pin_file(&self) -> PathBuf {
        self.root.join("pin")
    }

    /// Returns the root of the directory; tests may add files to it.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path to which [`SPY`] logs calls, in a process that [`in_own_process`] started.
    pub(crate) fn call_record(&self) -> PathBuf {
        self.root.join("calls")
    }

    /// Returns how often the recorded process called a function, such as `C_Login`.
    pub(crate) fn recorded_calls(&self, function: &str) -> usize {
        let record = fs::read_to_string(self.call_record()).unwrap();
        record.lines().filter(|line| line.ends_with(&format!(": {function}"))).count()
    }

    /// Replaces the PIN file.
    pub(crate) fn write_pin_file(&self, pin: &str, mode: u32) {
        fs::write(self.pin_file(), format!("{pin}\n")).unwrap();
        fs::set_permissions(self.pin_file(), Permissions::from_mode(mode)).unwrap();
    }

    /// Runs `pkcs11-tool` on a token, logged in, and asserts that it succeeded.
    pub(crate) fn pkcs11_tool(&self, label: &str, arguments: &[&str]) -> Output {
        self.succeed(
            Command::new("pkcs11-tool")
                .args(["--module", MODULE, "--token-label", label, "--login", "--pin", PIN])
                .args(arguments),
        )
    }

    /// Returns the number of secret keys in a token.
    pub(crate) fn secret_keys(&self, label: &str) -> usize {
        let listed = self.pkcs11_tool(label, &["--list-objects", "--type", "secrkey"]);
        String::from_utf8_lossy(&listed.stdout).matches("Secret Key Object").count()
    }

    fn succeed(&self, command: &mut Command) -> Output {
        let output = command
            .env("SOFTHSM2_CONF", self.configuration())
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; install softhsm2 and opensc"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

/// Runs `body` in a separate process with a new SoftHSM that has one token labelled `token`.
///
/// `test` is the path of the calling test in the test harness. Panics if `body` panicked or did not
/// end in time.
///
/// ```ignore
/// #[test]
/// fn token_signs() {
///     in_own_process("token_signs", "sealgate", |softhsm| { … });
/// }
/// ```
pub(crate) fn in_own_process(test: &str, token: &str, body: impl FnOnce(&SoftHsm)) {
    if let Some(softhsm) = SoftHsm::of_this_process() {
        body(&softhsm);
        fs::write(softhsm.root.join("passed"), []).unwrap();
        return;
    }
    let softhsm = SoftHsm::with_token(token);
    let log = softhsm.root.join("output");
    let output = File::create(&log).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("SOFTHSM2_CONF", softhsm.configuration())
        .env(DIRECTORY_VARIABLE, &softhsm.root)
        .env("PKCS11SPY", MODULE)
        .env("PKCS11SPY_OUTPUT", softhsm.call_record())
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.to_string(),
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                break format!("not done in {PATIENCE:?}");
            }
        }
    };
    // The harness also succeeds if no test has the given name, so its exit status proves nothing.
    let passed = softhsm.root.join("passed").exists();
    assert!(passed, "{test} in its own process: {status}\n{}", fs::read_to_string(log).unwrap_or_default());
}
