//! Disk of the store: whether its file system keeps data, and how much space is free.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, StatVfs, StatVfsMountFlags, fstatfs, fstatvfs, openat};
use rustix::io::Errno;

use crate::engine::EngineError;

/// Whether a file system keeps acknowledged data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskDurability {
    Kept,
    /// Depends on the underlying file system. The text is the name of the upper file system.
    Doubtful(&'static str),
    /// The file system is volatile, or acknowledges a sync too early. The text is the name of the
    /// file system.
    Lost(&'static str),
}

/// Returns whether the file system of `directory` keeps acknowledged data.
pub(super) fn keeping(directory: &File) -> io::Result<DiskDurability> {
    // The magic number has 32 bits. On some machines, the field is longer and sign-extended.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only the lower 32 bits are significant"
    )]
    let magic = fstatfs(directory)?.f_type as u32;
    Ok(keeping_of(magic))
}

/// Magic numbers are from linux/magic.h and statfs(2).
fn keeping_of(magic: u32) -> DiskDurability {
    match magic {
        0x0102_1994 => DiskDurability::Lost("tmpfs"),
        0x8584_58f6 => DiskDurability::Lost("ramfs"),
        0x0000_6969 => DiskDurability::Lost("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => DiskDurability::Lost("SMB"),
        0x00c3_6400 => DiskDurability::Lost("Ceph"),
        0x5346_414f | 0x6b41_4653 => DiskDurability::Lost("AFS"),
        0x7375_7245 => DiskDurability::Lost("Coda"),
        0x0102_1997 => DiskDurability::Lost("9p"),
        0x6573_5546 => DiskDurability::Doubtful("FUSE"),
        0x794c_7630 => DiskDurability::Doubtful("overlayfs"),
        _ => DiskDurability::Kept,
    }
}

/// Returns the free space for users other than root, in bytes.
pub(super) fn free_bytes(room: &StatVfs) -> u64 {
    room.f_bavail.saturating_mul(room.f_frsize)
}

/// State of a store's disk, for operators.
#[derive(Debug, Clone, Copy)]
pub struct DiskState {
    /// Free space for users other than root, in bytes.
    pub free_bytes: u64,
    /// Number of files that can still be created. `None` if the file system has no limit.
    pub free_files: Option<u64>,
    pub is_read_only: bool,
    /// Name of the file system, such as `tmpfs`, if it may lose acknowledged data.
    pub loses_data: Option<&'static str>,
}

/// Returns the state of the disk of this directory.
///
/// # Errors
/// Errors of the operating system.
pub fn disk_state(directory: &Path) -> io::Result<DiskState> {
    let directory = File::open(directory)?;
    let room = fstatvfs(&directory)?;
    let loses_data = match keeping(&directory)? {
        DiskDurability::Lost(name) => Some(name),
        DiskDurability::Kept | DiskDurability::Doubtful(_) => None,
    };
    Ok(DiskState {
        free_bytes: free_bytes(&room),
        free_files: (room.f_files > 0).then_some(room.f_favail),
        is_read_only: room.f_flag.contains(StatVfsMountFlags::RDONLY),
        loses_data,
    })
}

/// Settings file of sled, opened for writing to detect a read-only disk. It always exists and is
/// never locked.
const PROBE: &str = "conf";

/// Disk of the store, with the space that must remain free.
#[derive(Debug)]
pub(super) struct Disk {
    directory: File,
    reserve_bytes: u64,
}

impl Disk {
    /// Creates the checks for the disk of `directory`, where `reserve_bytes` must remain free.
    ///
    /// sled cannot recover from a failed write, so no write may fail because the disk is full.
    pub(super) fn new(directory: File, reserve_bytes: u64) -> Self {
        Self { directory, reserve_bytes }
    }

    /// Returns the number of bytes that must remain free.
    pub(super) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Checks whether a batch may be written now.
    ///
    /// `Unwritable` if too little space is free or the disk is read-only. `Unavailable` if the
    /// operating system reports an error.
    pub(super) fn writable(&self) -> Result<(), EngineError> {
        let room = fstatvfs(&self.directory)
            .map_err(|error| EngineError::Unavailable(format!("its disk does not answer: {error}")))?;
        if room.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(EngineError::Unwritable("its disk is read-only".to_owned()));
        }
        // After a device error, ext4 refuses writes but does not report that it is read-only (Linux
        // 6.18). In this state, opening a file for writing fails. A sync of the directory would
        // also fail, but costs a disk barrier. Ignore other errors, such as too many open files:
        // they do not concern the disk.
        if openat(&self.directory, PROBE, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).err() == Some(Errno::ROFS) {
            let cause = "its disk became read-only, possibly after a device error; stop sealgate and check the disk";
            return Err(EngineError::Unwritable(cause.to_owned()));
        }
        let free = free_bytes(&room);
        if free < self.reserve_bytes {
            return Err(EngineError::Unwritable(format!(
                "its disk has {} MiB free, and {} MiB are reserved; free some space",
                free >> 20,
                self.reserve_bytes >> 20
            )));
        }
        Ok(())
    }
}

/// Syncs a file or the entries of a directory to the disk.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_network_file_systems_do_not_keep_bytes() {
        for magic in [0x0102_1994, 0x8584_58f6, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997] {
            assert!(matches!(keeping_of(magic), DiskDurability::Lost(_)), "{magic:x}");
        }
    }

    #[test]
    fn local_disks_keep_bytes() {
        // ext4, XFS, btrfs, ZFS, F2FS
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010] {
            assert_eq!(keeping_of(magic), DiskDurability::Kept, "{magic:x}");
        }
    }

    #[test]
    fn shared_memory_is_recognised_as_tmpfs() {
        assert_eq!(keeping(&File::open("/dev/shm").unwrap()).unwrap(), DiskDurability::Lost("tmpfs"));
    }

    #[test]
    fn a_disk_below_its_reserve_is_not_writable() {
        let directory = || File::open(".").unwrap();
        assert!(Disk::new(directory(), 0).writable().is_ok());
        assert!(matches!(Disk::new(directory(), u64::MAX).writable(), Err(EngineError::Unwritable(_))));
    }
}
