//! Version of a file, to detect changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode, length and change time of a file.
///
/// A change of the content or a replacement of the file changes the version. Other changes of the
/// metadata may change it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    length: u64,
    /// Change time in seconds and nanoseconds.
    changed_at: (i64, i64),
}

impl FileVersion {
    /// Reads the version of the file at a path. Returns `None` if its metadata cannot be read.
    /// Blocking I/O.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let changed_at = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { inode: metadata.ino(), length: metadata.len(), changed_at })
    }
}
