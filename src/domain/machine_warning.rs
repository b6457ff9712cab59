//! Conditions of a node's machine that need attention.

/// Condition of the machine that needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}
