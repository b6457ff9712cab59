//! A separate configuration for each test, with a store on disk, and the program that uses it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use sealgate_config as config;
use sealgate_store::Store;
use sealgate_store::sled::SledEngine;
use serde_json::Value;
use tempfile::TempDir;

use crate::configuration::Configuration;
use crate::softhsm::{MODULE, SoftHsm};

/// Two different valid passwords.
pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const OTHER_PASSWORD: &str = "staple of another colour";

pub(crate) struct Site {
    /// Directory on a disk: the build directory. The program refuses a store on tmpfs, which `/tmp`
    /// may be.
    disk: TempDir,
    /// A short path, because the paths of Unix sockets have a length limit.
    short: TempDir,
    softhsm: Option<SoftHsm>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let site = Self { disk, short: tempfile::tempdir().unwrap(), softhsm: None };
        site.write_config("/nowhere/module.so", Path::new("/nowhere/pin"));
        site
    }

    /// Returns a site with an empty token.
    pub(crate) fn with_token() -> Self {
        let mut site = Self::new();
        let softhsm = SoftHsm::with_token("sealgate");
        site.write_config(MODULE, &softhsm.pin_file());
        site.softhsm = Some(softhsm);
        site
    }

    fn write_config(&self, module: &str, pin_file: &Path) {
        let configuration = Configuration {
            issuer: "http://localhost:8080",
            listen: "127.0.0.1:0",
            module,
            pin_file: pin_file.to_str().unwrap(),
            store: "store",
        };
        let admin = format!("[admin]\nsocket = \"{}\"", self.socket().display());
        let text = configuration.text(&admin, "cache_bytes = 4194304");
        fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn softhsm(&self) -> &SoftHsm {
        self.softhsm.as_ref().unwrap()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.disk.path().join("sealgate.toml")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.short.path().join("admin.sock")
    }

    pub(crate) fn store_directory(&self) -> PathBuf {
        self.disk.path().join("store")
    }

    /// Opens the store in this process.
    pub(crate) async fn store(&self) -> Store {
        Store::open(Arc::new(self.engine()), 100).await.unwrap()
    }

    pub(crate) fn engine(&self) -> SledEngine {
        let path = self.store_directory();
        let store = config::SledConfig { path, cache_bytes: 4 << 20, reserve_bytes: 0, queue: 64 };
        SledEngine::open(&store, Arc::new(())).unwrap()
    }

    /// Returns a command with exactly these arguments and the environment of the test.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
        command.args(arguments).env_remove("SEALGATE_CONFIG").env_remove("CREDENTIALS_DIRECTORY");
        if let Some(softhsm) = &self.softhsm {
            command.env("SOFTHSM2_CONF", softhsm.configuration());
        }
        command
    }

    /// Runs a command with the site's configuration.
    pub(crate) fn run(&self, arguments: &[&str], stdin: &str) -> Output {
        let config = self.config();
        let mut arguments = arguments.to_vec();
        arguments.extend(["--config", config.to_str().unwrap()]);
        run(&mut self.program(&arguments), stdin)
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        self.text_with(arguments, "")
    }

    pub(crate) fn text_with(&self, arguments: &[&str], stdin: &str) -> String {
        let output = self.run(arguments, stdin);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command with `--json` that must succeed, and returns the object that it prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.json_with(arguments, "")
    }

    pub(crate) fn json_with(&self, arguments: &[&str], stdin: &str) -> Value {
        let printed = self.text_with(&[arguments, &["--json"]].concat(), stdin);
        assert_eq!(printed.lines().count(), 1, "{printed}");
        let value: Value = serde_json::from_str(&printed).unwrap();
        assert!(value.is_object(), "{printed}");
        value
    }

    /// Runs a command that must fail with status 1 and an empty standard output.
    ///
    /// Returns its error messages.
    pub(crate) fn errors(&self, arguments: &[&str], stdin: &str) -> Vec<String> {
        let output = self.run(&[arguments, &["--json"]].concat(), stdin);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{arguments:?}");
        let line = |line: &str| line.strip_prefix("error: ").unwrap_or_else(|| panic!("{line}")).to_owned();
        stderr(&output).lines().map(line).collect()
    }

    pub(crate) fn add_user(&self, email: &str) -> String {
        let arguments = ["user", "add", email, "--name", "Anna Example", "--password-stdin"];
        self.json_with(&arguments, PASSWORD)["sub"].as_str().unwrap().to_owned()
    }

    /// Runs `key generate` with these arguments; returns the key ID.
    pub(crate) fn kid(&self, arguments: &[&str]) -> String {
        self.json(arguments)["kid"].as_str().unwrap().to_owned()
    }

    /// Returns whether any file of the store contains these bytes.
    pub(crate) fn store_holds(&self, needle: &str) -> bool {
        let mut directories = vec![self.store_directory()];
        let mut found = false;
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let content = fs::read(path).unwrap();
                    found |= content.windows(needle.len()).any(|window| window == needle.as_bytes());
                }
            }
        }
        found
    }
}

/// Runs a command with this standard input.
pub(crate) fn run(command: &mut Command, stdin: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end without reading its standard input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the member names of a JSON object.
pub(crate) fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
