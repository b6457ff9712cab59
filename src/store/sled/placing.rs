//! Creation of a store from a backup or an export.
//!
//! The store is built in another directory and then renamed, so that no server opens an incomplete
//! store.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::copying;
use super::disk::sync;
use super::opening::{self, OpenError};
use sealgate_config as config;

/// Store that is being built. Dropping it before [`NewStore::finish`] deletes it.
#[derive(Debug)]
pub struct NewStore {
    place: PathBuf,
    building: config::SledConfig,
    finished: bool,
}

impl NewStore {
    /// Begins an empty store for `store.path`, which must be absent or empty.
    ///
    /// # Errors
    /// `Occupied`, `Directory`, and `Locked` if another process is building a store there.
    pub fn begin(store: &config::SledConfig) -> Result<Self, OpenError> {
        let place = store.path.clone();
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenError::Directory { path, error }
        };
        if !is_vacant(&place).map_err(fault(&place))? {
            return Err(OpenError::Occupied { path: place });
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let path = place.with_file_name(name);
        if path.exists() {
            // A killed process has left this directory, or a running process uses it.
            let _lock = opening::take_lock(&path)?;
            fs::remove_dir_all(&path).map_err(fault(&path))?;
        }
        if let Some(above) = place.parent() {
            opening::create_directory(above).map_err(fault(above))?;
        }
        Ok(Self { place, building: config::SledConfig { path, ..store.clone() }, finished: false })
    }

    /// Begins a store with the records of the backup in `from`.
    ///
    /// # Errors
    /// As [`NewStore::begin`]. Also `NoBackup`, and `Locked` if a process has opened `from`.
    pub fn copy_of(from: &Path, store: &config::SledConfig) -> Result<Self, OpenError> {
        if !from.join("db").is_file() || !from.join("conf").is_file() {
            return Err(OpenError::NoBackup { path: from.to_owned() });
        }
        let fault = |error| OpenError::Directory { path: from.to_owned(), error };
        // A store in use cannot be copied. Test its lock without taking it, because a backup may be
        // read-only.
        let lock = match File::open(from.join("lock")) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(fault(error)),
        };
        match lock.as_ref().map(File::try_lock_shared) {
            None | Some(Ok(())) => {}
            Some(Err(TryLockError::WouldBlock)) => {
                return Err(OpenError::Locked { path: from.to_owned(), process: None });
            }
            Some(Err(TryLockError::Error(error))) => return Err(fault(error)),
        }
        let new = Self::begin(store)?;
        copying::copy(from, &new.building.path, store.reserve_bytes)
            .map_err(|error| OpenError::Directory { path: from.to_owned(), error })?;
        Ok(new)
    }

    /// Returns the settings with which to open the store while it is being built.
    pub fn settings(&self) -> &config::SledConfig {
        &self.building
    }

    /// Moves the store to its final path. Its engine must be closed.
    ///
    /// # Errors
    /// `Occupied` if that path was created in the meantime, `Directory`.
    pub fn finish(mut self) -> Result<(), OpenError> {
        let placed = sync(&self.building.path).and_then(|()| fs::rename(&self.building.path, &self.place));
        match placed {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                return Err(OpenError::Occupied { path: self.place.clone() });
            }
            Err(error) => return Err(OpenError::Directory { path: self.place.clone(), error }),
        }
        self.finished = true;
        let above = self.place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(above).map_err(|error| OpenError::Directory { path: above.to_owned(), error })
    }
}

impl Drop for NewStore {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the next attempt deletes the rest.
            let _ = fs::remove_dir_all(&self.building.path);
        }
    }
}

/// Returns whether the path is absent or an empty directory.
fn is_vacant(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
