//! Location of an installation, and the programs that run as its user.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use rustix::process::geteuid;
use serde_json::Value;

use crate::cli::DEFAULT_CONFIG;
use crate::cli::config_file::NewFile;
use crate::cli::failure::CommandFailure;

/// The service's user, which the package creates.
const USER: &str = "sealgate";

/// Directory of systemd's runtime state, present if systemd runs.
const SYSTEMD: &str = "/run/systemd/system";

/// Files and directories of an installation.
pub(super) struct Place {
    pub(super) config: PathBuf,
    pub(super) state: PathBuf,
    pub(super) pin: PathBuf,
    /// Whether this is the location of the package's service, which gets its PIN from systemd.
    pub(super) is_installed: bool,
    /// User of the service. `None` if everything belongs to the caller.
    service: Option<ServiceUser>,
}

struct ServiceUser {
    uid: u32,
    gid: u32,
}

impl Place {
    /// Returns the location of the package, or another location with its own state directory.
    pub(super) fn find(config: &Path, state: Option<&Path>, is_dry: bool) -> Result<Self, CommandFailure> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| CommandFailure::line(format_args!("{}: {error}", path.display())))
        };
        if let Some(state) = state {
            let (config, state) = (absolute(config)?, absolute(state)?);
            let pin = state.join("pin");
            return Ok(Self { config, pin, state, is_installed: false, service: None });
        }
        if config != Path::new(DEFAULT_CONFIG) {
            return Err(CommandFailure::line(
                "give --state DIR too, the directory for the store, the token and the PIN",
            ));
        }
        if !geteuid().is_root() && !is_dry {
            return Err(CommandFailure::line(format_args!(
                "writing {DEFAULT_CONFIG} needs root: run this with sudo, or try it elsewhere with --config FILE --state DIR"
            )));
        }
        let service = if is_dry { None } else { Some(ServiceUser { uid: id("-u")?, gid: id("-g")? }) };
        let (config, state) = (config.to_owned(), PathBuf::from("/var/lib/sealgate"));
        Ok(Self { config, pin: PathBuf::from("/etc/sealgate/pkcs11-pin"), state, is_installed: true, service })
    }

    /// Returns whether systemd runs and can start the service.
    pub(super) fn has_service(&self) -> bool {
        self.is_installed && Path::new(SYSTEMD).is_dir()
    }

    /// Returns a command line for this location.
    pub(super) fn command(&self, words: &str) -> String {
        if self.config == Path::new(DEFAULT_CONFIG) {
            return format!("sealgate {words}");
        }
        format!("sealgate {words} --config {}", self.config.display())
    }

    /// Returns the value of `hsm.pin_file`.
    pub(super) fn pin_setting(&self) -> String {
        if self.is_installed {
            return "$CREDENTIALS_DIRECTORY/pkcs11-pin".to_owned();
        }
        self.pin.display().to_string()
    }

    /// Returns the directory of the token that `init` creates.
    pub(super) fn softhsm(&self) -> PathBuf {
        self.state.join("softhsm")
    }

    pub(super) fn softhsm_conf(&self) -> PathBuf {
        self.softhsm().join("softhsm2.conf")
    }

    pub(super) fn tokens(&self) -> PathBuf {
        self.softhsm().join("tokens")
    }

    pub(super) fn so_pin(&self) -> PathBuf {
        self.softhsm().join("so-pin")
    }

    /// Creates a directory, readable only by the service's user, unless it exists.
    pub(super) fn directory(&self, path: &Path) -> Result<(), CommandFailure> {
        if path.is_dir() {
            return Ok(());
        }
        let result = DirBuilder::new().recursive(true).mode(0o700).create(path).and_then(|()| self.give(path));
        result.map_err(|error| CommandFailure::line(format_args!("{}: {error}", path.display())))
    }

    /// Creates a file, readable only by the service's user, unless it exists. Returns whether it
    /// was created.
    pub(super) fn file(&self, path: &Path, content: &str) -> Result<bool, CommandFailure> {
        let result = NewFile::write(path, content, 0o600).and_then(|new| {
            self.give(&new.path)?;
            new.create(path)
        });
        created(path, result)
    }

    /// Creates the PIN file, readable only by root. systemd passes the PIN to the service.
    pub(super) fn pin_file(&self, content: &str) -> Result<bool, CommandFailure> {
        created(&self.pin, NewFile::write(&self.pin, content, 0o600).and_then(|new| new.create(&self.pin)))
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        match &self.service {
            Some(ServiceUser { uid, gid }) => chown(path, Some(*uid), Some(*gid)),
            None => Ok(()),
        }
    }

    /// Runs a command of this program as the service's user and with the PIN. Returns the object
    /// that the command prints.
    pub(super) fn run(&self, config: &Path, arguments: &[&OsStr]) -> Result<Value, CommandFailure> {
        let program = std::env::current_exe()
            .map_err(|error| CommandFailure::line(format_args!("cannot find this program: {error}")))?;
        let credentials = self.credentials()?;
        let mut command = match &self.service {
            Some(ServiceUser { uid, gid }) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).args(["--init-groups", "--"]);
                command.arg(&program);
                command
            }
            None => Command::new(&program),
        };
        command.args(arguments).arg("--json").arg("--config").arg(config);
        if let Some(credentials) = &credentials {
            command.env("CREDENTIALS_DIRECTORY", &credentials.0);
        }
        // `SOFTHSM2_CONF` is not set here, because `hsm.softhsm_conf` names SoftHSM's configuration
        // if it is not the configuration of the system.
        let output = command.stdin(Stdio::null()).env_remove("SEALGATE_CONFIG").output();
        let output = output
            .map_err(|error| CommandFailure::line(format_args!("cannot start {}: {error}", program.display())))?;
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).map_err(CommandFailure::line);
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut lines: Vec<_> =
            errors.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line).to_owned()).collect();
        if self.service.is_some() && errors.contains("Permission denied") {
            lines.push(format!(
                "the service runs as the user {USER}, who needs access: chgrp {USER} FILE; chmod 640 FILE"
            ));
        }
        Err(CommandFailure::Failed(if lines.is_empty() { vec![output.status.to_string()] } else { lines }))
    }

    /// Copies the PIN to a directory that only the service's user can read, as systemd does for the
    /// service.
    fn credentials(&self) -> Result<Option<Credentials>, CommandFailure> {
        if self.service.is_none() {
            return Ok(None);
        }
        let directory = Credentials(PathBuf::from(format!("/run/sealgate-init-{}", process::id())));
        // An earlier process with this process ID may have left the directory.
        let _ = fs::remove_dir_all(&directory.0);
        self.directory(&directory.0)?;
        match fs::read_to_string(&self.pin) {
            Ok(pin) => self.file(&directory.0.join("pkcs11-pin"), &pin)?,
            Err(error) => return Err(CommandFailure::line(format_args!("{}: {error}", self.pin.display()))),
        };
        Ok(Some(directory))
    }
}

fn created(path: &Path, result: io::Result<()>) -> Result<bool, CommandFailure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(CommandFailure::line(format_args!("{}: {error}", path.display()))),
    }
}

/// Directory with a copy of the PIN. It is removed when dropped.
struct Credentials(PathBuf);

impl Drop for Credentials {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a numeric ID of the service's user.
fn id(which: &str) -> Result<u32, CommandFailure> {
    let output = Command::new("id").args([which, USER]).output();
    let number = output.ok().filter(|output| output.status.success());
    let number = number.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    number.ok_or_else(|| {
        CommandFailure::line(format_args!(
            "there is no user {USER}, as which the service runs: install the package, or run systemd-sysusers"
        ))
    })
}

/// Runs `systemctl`; returns whether it succeeded.
pub(super) fn systemctl(arguments: &[&str]) -> bool {
    Command::new("systemctl")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns arguments of a command.
pub(super) fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
