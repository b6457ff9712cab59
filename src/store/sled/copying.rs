//! Copies of a store's files, for backups: made whole or not at all. Before anybody relies on one, each of its entries is
//! compared with the digest that the store keeps ([`super::watermark`]), and its records are counted.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::fstatvfs;

use super::Options;
use super::disk;
use super::opening::{self, sync};
use super::records::Records;
use crate::config::{Store, StoreEngine};
use crate::store::engine::EngineError;

/// sled's cache while a copy is looked through, bytes.
const CACHE_BYTES: u64 = 16 << 20;
/// Records that are read at once while a copy is looked through.
const PAGE: usize = 256;

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

/// Opens a copy and reads every record of it; yields how many there are, which must be `expected`. A copy that fails is
/// removed.
///
/// # Errors
/// `NoCopy`.
pub(super) fn verify(copy: &Path, expected: usize) -> Result<usize, EngineError> {
    let verified = look_through(copy).and_then(|records| {
        if records == expected {
            return Ok(records);
        }
        Err(EngineError::NoCopy(format!("{expected} records were copied and {records} can be read")))
    });
    if verified.is_err() {
        let _ = fs::remove_dir_all(copy);
    }
    verified
}

fn look_through(copy: &Path) -> Result<usize, EngineError> {
    let store = Store {
        engine: StoreEngine::Sled,
        path: copy.to_owned(),
        cache_bytes: CACHE_BYTES,
        reserve_bytes: 0,
        queue: 1,
    };
    // Where a backup lies is the operator's choice: it need not outlive what they know of.
    let options = Options { allow_volatile: true, ..Options::default() };
    let opened = opening::open(&store, options).map_err(|error| EngineError::NoCopy(error.to_string()))?;
    let records = Records::new(&opened.database);
    let (mut count, mut after) = (0, None::<Vec<u8>>);
    loop {
        let mut rows = records.scan(b"", after.as_deref(), PAGE)?;
        count += rows.len();
        match rows.pop() {
            Some((last, _)) => after = Some(last),
            None => return Ok(count),
        }
    }
}
