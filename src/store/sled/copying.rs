//! Copies of a store's files, for backups: made whole or not at all. Before anybody relies on one, each of its entries is
//! compared with the digest that the store keeps ([`super::watermark`]).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::fstatvfs;

use super::disk::{self, sync};
use super::opening;
use super::options::{CopyVerifier, Options};
use super::records::Records;
use crate::config::SledConfig;
use crate::store::engine::EngineError;

/// sled's cache while a copy is looked through, bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// How long a process may take to look through one.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(10);

/// The command that does so: [`look_through`] and a line of output.
pub(super) const VERIFY_COPY: &str = "verify-copy";

/// Copies the files of the store in `from`, which nobody may be writing, to `to`, which must not exist. `reserve` bytes
/// stay free there: it may be the store's own disk. The copy is durable when this returns.
///
/// # Errors
/// One line; nothing is left at `to`.
pub(super) fn copy(from: &Path, to: &Path, reserve: u64) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", to.display()));
    let files = files(from)?;
    DirBuilder::new().mode(0o700).create(to).map_err(named)?;
    let copied = copy_files(&files, from, to, reserve);
    if copied.is_err() {
        // Nothing but what was made above stands there.
        let _ = fs::remove_dir_all(to);
    }
    copied.map_err(named)
}

fn copy_files(files: &[PathBuf], from: &Path, to: &Path, reserve: u64) -> io::Result<()> {
    let mut needed = reserve;
    for file in files {
        needed = needed.saturating_add(fs::metadata(from.join(file))?.len());
    }
    let free = disk::free_bytes(&fstatvfs(File::open(to)?)?);
    if free < needed {
        let (free, needed) = (free >> 20, needed >> 20);
        return Err(io::Error::other(format!("{free} MiB are free there, and {needed} are needed; free some space")));
    }
    for file in files {
        let copy = to.join(file);
        if let Some(directory) = copy.parent()
            && !directory.exists()
        {
            DirBuilder::new().mode(0o700).create(directory)?;
        }
        fs::copy(from.join(file), &copy)?;
        sync(&copy)?;
    }
    for directory in [&to.join("blobs"), to, to.parent().unwrap_or(to)] {
        if directory.exists() {
            sync(directory)?;
        }
    }
    Ok(())
}

/// The names of a store's files: not the lock, not a socket, not what sled has not finished.
fn files(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(store)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && name == Path::new("blobs") {
            for blob in fs::read_dir(entry.path())? {
                files.push(name.join(blob?.file_name()));
            }
        } else if kind.is_file() && name != Path::new("lock") && !name.to_string_lossy().ends_with(".generating") {
            files.push(name);
        }
    }
    Ok(files)
}

/// Opens a copy, which must have been made after batch `sequence`, and compares each entry with the digest that the store
/// keeps. Yields how many records it has. A copy that fails is removed.
pub(super) fn verify(copy: &Path, sequence: u64, process: CopyVerifier) -> Result<usize, EngineError> {
    let verified = match process {
        CopyVerifier::Here => look_through(copy, sequence),
        CopyVerifier::Apart => look_through_apart(copy, sequence),
    };
    if verified.is_err() {
        let _ = fs::remove_dir_all(copy);
    }
    verified.map_err(EngineError::NoCopy)
}

/// As [`verify`], in a process of its own: sled reads a copy whole into memory, and a server would keep what that took.
fn look_through_apart(copy: &Path, sequence: u64) -> Result<usize, String> {
    let fault = |error: io::Error| format!("the process that verifies it did not work: {error}");
    // The very program that runs, also where a newer one has been installed in its place.
    let mut process = Command::new("/proc/self/exe")
        .args([VERIFY_COPY, "--sequence", &sequence.to_string(), "--directory"])
        .arg(copy)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fault)?;
    let started = Instant::now();
    // What it prints is a line, which the pipe holds until it has ended.
    while process.try_wait().map_err(fault)?.is_none() {
        if started.elapsed() > VERIFY_TIMEOUT {
            // It may have ended just now.
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("it could not be verified within {} s", VERIFY_TIMEOUT.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = process.wait_with_output().map_err(fault)?;
    let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
    let said = said.trim();
    match said.parse() {
        Ok(records) if output.status.success() => Ok(records),
        _ => Err(said.strip_prefix("error: ").unwrap_or(said).to_owned()),
    }
}

/// Compares each entry of a copy with its digest; yields how many records it has.
pub(super) fn look_through(copy: &Path, sequence: u64) -> Result<usize, String> {
    let store = SledConfig { path: copy.to_owned(), cache_bytes: CACHE_BYTES, reserve_bytes: 0, queue: 1 };
    // Where a backup lies is the operator's choice: it need not outlive what they know of.
    let options = Options { allow_volatile: true, ..Options::default() };
    let opened = opening::open(&store, options).map_err(|error| error.to_string())?;
    let found = opened.progress.sequence;
    if found != sequence {
        return Err(format!("it was made after change {sequence} of the store, and ends with change {found}"));
    }
    Records::new(&opened.database).count().map_err(|error| error.to_string())
}
