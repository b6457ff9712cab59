//! Runs the third-party implementations.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

/// Result of a third-party implementation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reply {
    Accepted(Value),
    Refused(String),
}

/// Returns one reply for each question, in the same order.
pub(crate) fn ask(questions: &[Value]) -> Vec<Reply> {
    let folder = installed();
    let mut node = Command::new("node")
        .arg("--experimental-global-webcrypto")
        .arg(folder.join("peer.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is missing: run .ci/install test");
    node.stdin.take().unwrap().write_all(&serde_json::to_vec(questions).unwrap()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    let replies: Vec<Reply> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replies.len(), questions.len());
    replies
}

/// Returns the folder with the installed libraries. Installs them again when the lock file has
/// changed.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
        let (lock, stamp) = (folder.join("package-lock.json"), folder.join("node_modules/.sealgate-lock"));
        let wanted = fs::read(lock).unwrap();
        if fs::read(&stamp).ok().as_ref() != Some(&wanted) {
            let npm = Command::new("npm")
                .args(["ci", "--silent", "--no-audit", "--no-fund"])
                .current_dir(&folder)
                .status()
                .expect("npm is missing: run .ci/install test");
            assert!(npm.success(), "npm ci in {}", folder.display());
            fs::write(stamp, wanted).unwrap();
        }
        folder
    })
}
