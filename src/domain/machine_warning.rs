//! Conditions of a node's machine that need attention.

/// Condition of the machine that needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineWarning {
    /// No time service synchronizes the clock.
    ClockNotSynchronized,
    /// The file system of the store is read-only.
    DiskReadOnly,
    /// The free space is below `store.reserve_bytes`, so sign-ins are refused.
    DiskFull,
    /// The free space is low, in mebibytes.
    DiskLow(u64),
    /// The file system has hardly any inodes left.
    FewInodes,
    NeverBackedUp,
    /// Age of the last backup in days.
    OldBackup(u64),
    /// Difference of the database's clock and this machine's, in milliseconds.
    ClockDiffers(u64),
    /// Other users of the machine have access to this file or directory.
    FileExposed(String),
    /// Mean duration of a signature of the token, in milliseconds.
    TokenSlow(u64),
    /// The process has opened nearly all files that it may open.
    FewDescriptors {
        open: u64,
        most: u64,
    },
    /// The mail server, as `HOST:PORT`, accepts no connections.
    MailServerUnreachable(String),
}
