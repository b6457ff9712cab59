//! Opening of the store, with the checks before the first record is read.
//!
//! The order matters. First, the lock ensures that nothing is deleted while another process is
//! running. Then come the cleanup after a crash, opening sled, and the check that a flush reaches
//! the disk.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sled::Db;

use super::disk;
use super::disk::{DiskDurability, sync};
use super::records::{Records, own_key};
use super::watermark::{Digest, Mark, State, Watermark, WriterProgress};
use crate::barrier;
use crate::sled::Options;
use sealgate_config as config;

/// Layout of the tree as described in `records`, with the state for verification.
const FORMAT: &[u8] = &[2];
/// Layout like [`FORMAT`], but without the state for verification.
const OLDER_FORMAT: &[u8] = &[1];
/// Maximum time to wait for another process to release the store.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum time to wait for sled's threads in this process to close an earlier database.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Error of opening the store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file in it cannot be created, read or written.
    #[error("cannot use the store's directory {path}: {error}")]
    Directory { path: PathBuf, error: io::Error },
    /// Users other than the owner have access to the directory.
    #[error("other users can read the store's directory {path} (mode {mode:o}); run: chmod 700 {path}")]
    Exposed {
        path: PathBuf,
        /// Permission bits of the directory.
        mode: u32,
    },
    /// The file system may lose acknowledged records.
    #[error(
        "the store's directory {path} is on {file_system}, which may lose committed data; set store.path to \
         a local disk"
    )]
    Volatile { path: PathBuf, file_system: &'static str },
    #[error("the store {path} is in use{}; sealgate is probably running: stop it first", by(*.process))]
    Locked {
        path: PathBuf,
        /// Id of the process that has the lock, according to the lock file.
        process: Option<u32>,
    },
    /// The files are not a complete database.
    #[error("the store {path} is damaged ({cause}); restore a backup, and keep a copy of the directory as it is")]
    Damaged { path: PathBuf, cause: String },
    /// The database can be opened, but acknowledged changes are missing.
    #[error(
        "the store {path} has lost committed changes ({loss}) and is not opened, because revoked or disabled \
         items could be active again; restore a backup, or move the directory away and keep the rest with: \
         sealgate restore --accept-loss --from MOVED"
    )]
    Lost { path: PathBuf, loss: Loss },
    /// Another program or a newer version has written the files.
    #[error("the store {path} was not written by this or an older version of sealgate; use the version that wrote it")]
    Foreign { path: PathBuf },
    /// The directory for a new store is not empty.
    #[error("the store's directory {path} is not empty; move it away first")]
    Occupied { path: PathBuf },
    /// The source of a restore contains no store.
    #[error("{path} has no backup of a store")]
    NoBackup { path: PathBuf },
    /// A flush did not reach the disk.
    #[error(
        "this build of sealgate does not sync its store to disk (it does not define sync_file_range); \
         install another build"
    )]
    Barrier,
    /// The thread of the writer cannot be started.
    #[error("cannot start the store's thread: {error}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)")]
    Thread { error: io::Error },
}

/// Evidence that acknowledged changes of a store are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The end of sled's log is missing.
    #[error("its newest change is number {newest}, but number {saved} was committed")]
    Older {
        /// Number of the newest change in the store.
        newest: u64,
        /// Number of the newest acknowledged change.
        saved: u64,
    },
    #[error("the {readable} entries that can be read differ from the {saved} entries that were saved")]
    Altered { readable: u64, saved: u64 },
    /// The digest with which the entries are compared is missing.
    #[error("its digest is missing")]
    Stateless,
    /// The watermark file is missing, or both of its entries are damaged.
    #[error("its file `watermark` is missing or damaged")]
    Unmarked,
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

pub(super) struct Opened {
    pub(super) database: Db,
    pub(super) directory: File,
    pub(super) progress: WriterProgress,
    /// Whether the content was verified. False if verification has only just been set up.
    pub(super) is_proven: bool,
    /// Held while the database is open.
    pub(super) lock: File,
}

/// Opens the database in `store.path`, or creates it.
pub(super) fn open(store: &config::SledConfig, options: Options) -> Result<Opened, OpenError> {
    let path = store.path.as_path();
    let fault = |error| OpenError::Directory { path: path.to_owned(), error };
    create_directory(path).map_err(fault)?;
    let directory = File::open(path).map_err(fault)?;
    let mode = directory.metadata().map_err(fault)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(OpenError::Exposed { path: path.to_owned(), mode });
    }
    check_file_system(path, &directory, options)?;
    let lock = take_lock(path)?;
    remove_unfinished_snapshots(path).map_err(fault)?;
    // Some damage causes a panic in sled. Open it on a separate thread, because a panic of the main
    // thread would end the server.
    let (database, progress, is_proven) = thread::scope(|scope| {
        let thread = thread::Builder::new().name("store-opening".to_owned());
        let opening = thread.spawn_scoped(scope, || open_verified(path, store.cache_bytes, options.accept_loss));
        let opening = opening.map_err(|error| OpenError::Thread { error })?;
        let panicked = |_| OpenError::Damaged { path: path.to_owned(), cause: "sled panicked".to_owned() };
        opening.join().map_err(panicked)?
    })?;
    Ok(Opened { database, directory, progress, is_proven, lock })
}

/// Opens the database, verifies its content, and checks that a flush reaches the disk.
///
/// Also returns whether the existing content was verified.
fn open_verified(path: &Path, cache_bytes: u64, accept_loss: bool) -> Result<(Db, WriterProgress, bool), OpenError> {
    let fault = |error| OpenError::Directory { path: path.to_owned(), error };
    let mark = Watermark::read(path).map_err(fault)?;
    let database = open_database(path, cache_bytes)?;
    // sled does not sync the files that it creates. After a power failure in the first minutes,
    // sled would refuse the `conf` file.
    sync(&path.join("conf")).and_then(|()| sync(&path.join("db"))).and_then(|()| sync(path)).map_err(fault)?;
    let layout = layout(path, &database)?;
    // Read every entry, so that unreadable entries are detected now and not by a later request.
    let digest = Records::new(&database).digest().map_err(|error| fault_of(path, error))?;
    let known = state(path, &database)?;
    let judged = judge(layout, digest, known, mark);
    let sequence = match judged {
        Ok(sequence) => sequence,
        Err(_) if accept_loss => beyond(known, mark),
        Err(loss) => return Err(OpenError::Lost { path: path.to_owned(), loss }),
    };
    // The watermark file must exist before the tree is marked as verified.
    let mut watermark = Watermark::open(path, mark).map_err(fault)?;
    let state = State { sequence, before: digest, after: digest };
    let written = database.insert(own_key("state"), state.to_bytes());
    written.and_then(|_| database.insert(own_key("format"), FORMAT)).map_err(|error| fault_of(path, error))?;
    prove_barrier(path, &database)?;
    watermark.raise(sequence).map_err(fault)?;
    let is_proven = layout == Layout::Current && judged.is_ok();
    Ok((database, WriterProgress { sequence, digest, watermark }, is_proven))
}

/// Creates the directory and its missing parents, and makes their names durable.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for part in missing {
        match part.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync(parent)?,
            _ => sync(Path::new("."))?,
        }
    }
    Ok(())
}

fn check_file_system(path: &Path, directory: &File, options: Options) -> Result<(), OpenError> {
    let path = path.to_owned();
    match disk::keeping(directory) {
        Err(error) => Err(OpenError::Directory { path, error }),
        Ok(DiskDurability::Lost(file_system)) if !options.allow_volatile => {
            Err(OpenError::Volatile { path, file_system })
        }
        Ok(DiskDurability::Lost(name) | DiskDurability::Doubtful(name)) => {
            tracing::warn!("the store's directory {} is on {name}, which may lose committed data", path.display());
            Ok(())
        }
        Ok(DiskDurability::Kept) => Ok(()),
    }
}

pub(super) fn take_lock(path: &Path) -> Result<File, OpenError> {
    let file = path.join("lock");
    let fault = |error| OpenError::Directory { path: file.clone(), error };
    let mut options = OpenOptions::new();
    let mut lock =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&file).map_err(fault)?;
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            // A process that has just ended may still be closing its files. A child process keeps
            // them open until its program is loaded.
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                let mut note = String::new();
                let process = lock.read_to_string(&mut note).ok().and_then(|_| note.trim().parse().ok());
                return Err(OpenError::Locked { path: path.to_owned(), process });
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
    }
    lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(fault)?;
    Ok(lock)
}

/// Deletes unfinished snapshots.
///
/// If a process is killed while sled writes a snapshot, `snap.….generating` remains. sled would use
/// it as the newest snapshot, and report corruption at each startup. Without this file, sled reads
/// the last complete snapshot and the log.
fn remove_unfinished_snapshots(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!("removing {name}, the unfinished work of a killed process");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn open_database(path: &Path, cache_bytes: u64) -> Result<Db, OpenError> {
    let config = sled::Config::new().path(path).cache_capacity(cache_bytes).flush_every_ms(None);
    let started = Instant::now();
    loop {
        match config.open() {
            Ok(database) => return Ok(database),
            // This process has the store's lock, so only threads of an earlier database in this
            // process can hold sled's lock. These threads are still closing the database.
            Err(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                if started.elapsed() > RELEASE_TIMEOUT {
                    return Err(OpenError::Locked { path: path.to_owned(), process: None });
                }
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(fault_of(path, error)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Empty,
    /// Written by an older version of Sealgate, which did not store the state that shows whether
    /// committed changes are missing.
    Older,
    Current,
}

fn layout(path: &Path, database: &Db) -> Result<Layout, OpenError> {
    match database.get(own_key("format")).map_err(|error| fault_of(path, error))? {
        Some(format) if format == FORMAT => Ok(Layout::Current),
        Some(format) if format == OLDER_FORMAT => Ok(Layout::Older),
        // The state of a new store is written before its format.
        None if database.iter().keys().all(|key| key.is_ok_and(|key| key == own_key("state"))) => Ok(Layout::Empty),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

fn state(path: &Path, database: &Db) -> Result<Option<State>, OpenError> {
    let state = database.get(own_key("state")).map_err(|error| fault_of(path, error))?;
    Ok(state.and_then(|bytes| State::read(&bytes)))
}

/// Returns the number of the newest batch, unless acknowledged changes are missing.
fn judge(layout: Layout, digest: Digest, state: Option<State>, mark: Mark) -> Result<u64, Loss> {
    let sequence = match (layout, state) {
        (Layout::Empty | Layout::Older, _) if mark == Mark::Absent => return Ok(0),
        // There is a watermark, but no state. Either the process was killed while it set up
        // verification, or all data since then is missing.
        (Layout::Empty | Layout::Older, _) => 0,
        (Layout::Current, None) => return Err(Loss::Stateless),
        (Layout::Current, Some(state)) => {
            let altered = Loss::Altered { readable: digest.entries(), saved: state.after.entries() };
            state.sequence_of(digest).ok_or(altered)?
        }
    };
    match mark {
        Mark::Acknowledged(saved) if saved <= sequence => Ok(sequence),
        Mark::Acknowledged(saved) => Err(Loss::Older { newest: sequence, saved }),
        Mark::Absent | Mark::Unreadable => Err(Loss::Unmarked),
    }
}

/// Returns a number that is greater than the numbers of all earlier batches.
fn beyond(state: Option<State>, mark: Mark) -> u64 {
    let acknowledged = if let Mark::Acknowledged(sequence) = mark { sequence } else { 0 };
    state.map_or(0, |state| state.sequence).max(acknowledged).saturating_add(1)
}

/// Writes a record and checks that the flush has executed the disk barrier.
///
/// The flush also makes data durable that a killed process wrote without a sync. Such data can be
/// read from now on, so it must not be lost later.
fn prove_barrier(path: &Path, database: &Db) -> Result<(), OpenError> {
    let fault = |error| fault_of(path, error);
    let openings = database.get(own_key("openings")).map_err(fault)?;
    let openings = openings.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))).unwrap_or(0);
    let before = barrier::count();
    database.insert(own_key("openings"), &openings.wrapping_add(1).to_be_bytes()).map_err(fault)?;
    database.flush().map_err(fault)?;
    if barrier::count() == before {
        return Err(OpenError::Barrier);
    }
    Ok(())
}

/// Converts an error of sled. A full disk or a missing permission is not damage.
fn fault_of(path: &Path, error: sled::Error) -> OpenError {
    let path = path.to_owned();
    match error {
        sled::Error::Io(error) => OpenError::Directory { path, error },
        error => OpenError::Damaged { path, cause: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use sealgate_config::SledConfig;

    fn volatile() -> Options {
        Options { allow_volatile: true, ..Options::default() }
    }

    fn open_at(path: &Path) -> Result<Opened, OpenError> {
        let store = SledConfig { path: path.to_owned(), cache_bytes: 16 << 20, reserve_bytes: 0, queue: 1 };
        open(&store, volatile())
    }

    fn line(path: &Path) -> String {
        let line = open_at(path).map(|_| ()).unwrap_err().to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn missing_directories_are_created_for_the_owner_only() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b/store");
        drop(open_at(&path).unwrap());
        for made in [&path, path.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(line(top.path()).ends_with(&format!("(mode 750); run: chmod 700 {}", top.path().display())));
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("store");
        fs::write(&path, "").unwrap();
        assert!(line(&path).starts_with(&format!("cannot use the store's directory {}: ", path.display())));
    }

    #[test]
    fn tmpfs_is_refused() {
        let top = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = SledConfig { path: top.path().join("store"), cache_bytes: 16 << 20, reserve_bytes: 0, queue: 1 };
        let strict = Options::default();
        assert!(matches!(open(&store, strict), Err(OpenError::Volatile { file_system: "tmpfs", .. })));
        assert!(open(&store, volatile()).is_ok());
    }

    #[test]
    fn a_newer_layout_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let opened = open_at(&top.path().join("store")).unwrap();
        opened.database.insert(own_key("format"), &[3]).unwrap();
        drop(opened);
        assert!(line(&top.path().join("store")).contains("was not written by this or an older version of sealgate"));
    }

    #[test]
    fn another_programs_database_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("store");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        sled::open(&path).unwrap().insert("theirs", "").unwrap();
        assert!(matches!(open_at(&path), Err(OpenError::Foreign { .. })));
    }

    #[test]
    fn a_damaged_snapshot_stops_the_start_with_one_line() {
        let top = tempfile::tempdir().unwrap();
        drop(open_at(&top.path().join("store")).unwrap());
        drop(open_at(&top.path().join("store")).unwrap());
        let snapshots = fs::read_dir(top.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
        let snapshots: Vec<_> = snapshots.filter(|path| path.to_string_lossy().contains("snap.")).collect();
        assert!(!snapshots.is_empty());
        for snapshot in snapshots {
            fs::write(snapshot, [0; 40]).unwrap();
        }
        assert!(line(&top.path().join("store")).contains("is damaged"));
    }
}
