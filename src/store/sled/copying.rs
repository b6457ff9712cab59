//! Copies of a store's files, for backups. A copy is either complete or absent.
//!
//! Before a copy is reported, all its entries are compared with the stored digest
//! ([`super::watermark`]).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::fstatvfs;

use super::disk::sync;
use super::records::Records;
use super::{disk, opening};
use crate::engine::EngineError;
use crate::sled::{CopyVerifier, Options};
use sealgate_config::SledConfig;

/// Size of sled's cache while a copy is verified, in bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Timeout of the process that verifies a copy.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(10);

/// File in the store's directory. Its modification time is the time of the last verified backup.
const LAST_BACKUP: &str = "last-backup";

/// Command that runs [`verify_copied_store`] in a separate process and prints one line.
pub(super) const VERIFY_COPY: &str = "verify-copy";

/// Copies the files of the store in `from` to `to`. Nothing may write to `from`, and `to` must not
/// exist.
///
/// At least `reserve` bytes remain free on the disk of `to`, which may also be the store's disk.
/// The copy is durable when this returns.
///
/// # Errors
/// One line. `to` does not exist then.
pub(super) fn copy(from: &Path, to: &Path, reserve: u64) -> io::Result<()> {
    let with_path = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", to.display()));
    let files = files(from)?;
    DirBuilder::new().mode(0o700).create(to).map_err(with_path)?;
    let copied = copy_files(&files, from, to, reserve);
    if copied.is_err() {
        // All files in the directory were created above.
        let _ = fs::remove_dir_all(to);
    }
    copied.map_err(with_path)
}

fn copy_files(files: &[PathBuf], from: &Path, to: &Path, reserve: u64) -> io::Result<()> {
    let mut needed = reserve;
    for file in files {
        needed = needed.saturating_add(fs::metadata(from.join(file))?.len());
    }
    let free = disk::free_bytes(&fstatvfs(File::open(to)?)?);
    if free < needed {
        let (free, needed) = (free >> 20, needed >> 20);
        return Err(io::Error::other(format!("{free} MiB are free, and {needed} MiB are needed; free some space")));
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

/// Returns the names of a store's files, except lock files, sockets and unfinished files of sled.
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
        } else if kind.is_file() && !is_of_this_store(&name) && !name.to_string_lossy().ends_with(".generating") {
            files.push(name);
        }
    }
    Ok(files)
}

/// Returns whether a file belongs to this store only, so that copies do not contain it.
fn is_of_this_store(name: &Path) -> bool {
    name == Path::new("lock") || name == Path::new(LAST_BACKUP)
}

/// Records that a copy of `store` has just been made in `to`.
pub(super) fn record(store: &Path, to: &Path) -> io::Result<()> {
    // Only the modification time counts, so that other tools can use `touch`.
    let mut file = OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(store.join(LAST_BACKUP))?;
    writeln!(file, "{}", to.display())?;
    file.sync_all()
}

/// Returns the time of the last verified backup of the store in this directory, if any.
///
/// # Errors
/// Errors of the operating system, such as a missing permission.
pub fn last_backup(store: &Path) -> io::Result<Option<SystemTime>> {
    match fs::metadata(store.join(LAST_BACKUP)) {
        Ok(metadata) => metadata.modified().map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a copy, which must have been made after batch `sequence`, and verifies its digest.
///
/// Returns the number of records. Deletes the copy if the verification fails.
pub(super) fn verify(copy: &Path, sequence: u64, process: CopyVerifier) -> Result<usize, EngineError> {
    let verified = match process {
        CopyVerifier::Here => verify_copied_store(copy, sequence),
        CopyVerifier::Apart => look_through_apart(copy, sequence),
    };
    if verified.is_err() {
        let _ = fs::remove_dir_all(copy);
    }
    verified.map_err(EngineError::NoCopy)
}

/// Verifies a copy in a separate process, because sled reads a copy into memory that a server would
/// not release.
fn look_through_apart(copy: &Path, sequence: u64) -> Result<usize, String> {
    let fault = |error: io::Error| format!("the verification process failed: {error}");
    // The running program, even if its file has been replaced with a newer version.
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
    // The process cannot block on its output: it prints one line, which fits into the pipe's buffer.
    while process.try_wait().map_err(fault)?.is_none() {
        if started.elapsed() > VERIFY_TIMEOUT {
            // The process may just have ended.
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("its verification took longer than {} s", VERIFY_TIMEOUT.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = process.wait_with_output().map_err(fault)?;
    let text = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
    let text = text.trim();
    match text.parse() {
        Ok(records) if output.status.success() => Ok(records),
        _ => Err(text.strip_prefix("error: ").unwrap_or(text).to_owned()),
    }
}

/// Verifies the digest of a copy, and returns the number of records.
pub(super) fn verify_copied_store(copy: &Path, sequence: u64) -> Result<usize, String> {
    let store = SledConfig { path: copy.to_owned(), cache_bytes: CACHE_BYTES, reserve_bytes: 0, queue: 1 };
    // Operators choose the file system of backups, which may be volatile.
    let options = Options { allow_volatile: true, ..Options::default() };
    let opened = opening::open(&store, options).map_err(|error| error.to_string())?;
    let newest = opened.progress.sequence;
    if newest != sequence {
        return Err(format!("it ends with change {newest}, and the store was at change {sequence}"));
    }
    Records::new(&opened.database).count().map_err(|error| error.to_string())
}
