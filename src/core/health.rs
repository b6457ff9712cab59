//! Conditions of the machine that need attention, for `sealgate doctor` and the console's overview.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};

use sealgate_config::{CertificateKey, Config, SledConfig, StoreConfig};
use sealgate_domain::machine_warning::MachineWarning;
use sealgate_domain::time::UnixTime;
use sealgate_store::sled::{DiskState, disk_state, last_backup};
use sealgate_system::clock_discipline::is_clock_synchronized;

/// Free space below which the disk is nearly full: in bytes, and as a multiple of
/// `store.reserve_bytes`.
const LOW_FREE_BYTES: u64 = 1 << 30;
const LOW_FREE_RESERVES: u64 = 4;

/// Number of free inodes below which the file system is nearly full.
pub const LOW_FREE_FILES: u64 = 1000;

/// Age at which a backup is old.
pub const OLD_BACKUP: Duration = Duration::from_hours(7 * 24);

/// Mean duration of a signature at which the token is slow. More sessions may help.
pub const SLOW_SIGNATURE: Duration = Duration::from_millis(500);

const DAY_SECONDS: u64 = 86_400;

/// Returns the free space below which a store's disk is nearly full, in bytes.
pub fn low_free_bytes(store: &SledConfig) -> u64 {
    LOW_FREE_BYTES.max(store.reserve_bytes.saturating_mul(LOW_FREE_RESERVES))
}

/// Returns the conditions of this machine that need attention. What cannot be read is omitted.
/// Blocking I/O.
pub fn machine_warnings(config: &Config, now: UnixTime) -> Vec<MachineWarning> {
    let clock = is_clock_synchronized().is_ok_and(|is_synchronized| !is_synchronized);
    let mut warnings: Vec<_> = clock.then_some(MachineWarning::ClockNotSynchronized).into_iter().collect();
    if let StoreConfig::Sled(store) = &config.store {
        if let Ok(state) = disk_state(&store.path) {
            warnings.extend(disk_warnings(store, &state));
        }
        warnings.extend(backup_warning(store, now));
    }
    warnings
}

/// File or directory, with the access that other users must not have.
#[derive(Debug)]
pub struct GuardedPath {
    pub path: PathBuf,
    forbidden: u32,
}

impl GuardedPath {
    /// Creates the rule of a path to which only the owner has access.
    fn private(path: &Path) -> Self {
        Self { path: path.to_owned(), forbidden: 0o077 }
    }

    /// Creates the rule of a path that the group may read.
    fn group_reads(path: &Path) -> Self {
        Self { path: path.to_owned(), forbidden: 0o027 }
    }

    /// Creates the rule of a path that all users may read.
    fn public(path: &Path) -> Self {
        Self { path: path.to_owned(), forbidden: 0o022 }
    }

    /// Creates the rule of a path that the group may write.
    pub fn of_group(path: PathBuf) -> Self {
        Self { path, forbidden: 0o007 }
    }

    /// Returns the mode of the path and the mode that it should have, if other users have access.
    pub fn excess(&self, metadata: &Metadata) -> Option<(u32, u32)> {
        let mode = metadata.mode() & 0o777;
        (mode & self.forbidden != 0).then_some((mode, mode & !self.forbidden))
    }
}

/// Returns the rules of the installation's files. The check of the configuration covers the PIN and the
/// other secrets.
pub fn guarded_paths(config: &Config, file: &Path) -> Vec<GuardedPath> {
    let mut guarded = vec![GuardedPath::public(file), GuardedPath::private(&config.admin.socket)];
    // The systemd unit copies the PIN from this file.
    guarded.extend(file.parent().map(|directory| GuardedPath::private(&directory.join("pkcs11-pin"))));
    guarded.extend(config.server.tls.iter().filter_map(|tls| match &tls.key {
        CertificateKey::File(key) => Some(GuardedPath::group_reads(key)),
        CertificateKey::Token(_) => None,
    }));
    let clients = config.apps.iter().filter_map(|app| app.upstream_tls.client.as_ref());
    guarded.extend(clients.map(|client| GuardedPath::group_reads(&client.key)));
    guarded.extend(config.acme.iter().map(|acme| GuardedPath::private(&acme.path)));
    guarded.push(GuardedPath::public(&config.hsm.module));
    if let StoreConfig::Sled(store) = &config.store {
        guarded.push(GuardedPath::private(&store.path));
    }
    guarded
}

/// Returns the files and directories to which other users have access. Blocking I/O.
pub(crate) fn exposed_files(config: &Config, file: &Path) -> Vec<PathBuf> {
    let is_exposed = |one: &GuardedPath| fs::metadata(&one.path).is_ok_and(|metadata| one.excess(&metadata).is_some());
    guarded_paths(config, file).into_iter().filter(is_exposed).map(|one| one.path).collect()
}

/// Returns a warning if this process has opened nearly all files that it may open. Blocking I/O.
pub(crate) fn descriptor_warning() -> Option<MachineWarning> {
    let most = getrlimit(Resource::Nofile).current?;
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    descriptors(open, most)
}

fn descriptors(open: u64, most: u64) -> Option<MachineWarning> {
    let is_near = open >= most / 10 * 8;
    is_near.then_some(MachineWarning::FewDescriptors { open, most })
}

fn disk_warnings(store: &SledConfig, state: &DiskState) -> impl Iterator<Item = MachineWarning> {
    let free = match state.free_bytes {
        free if free < store.reserve_bytes => Some(MachineWarning::DiskFull),
        free if free < low_free_bytes(store) => Some(MachineWarning::DiskLow(free >> 20)),
        _ => None,
    };
    let inodes = state.free_files.is_some_and(|free| free < LOW_FREE_FILES).then_some(MachineWarning::FewInodes);
    let read_only = state.is_read_only.then_some(MachineWarning::DiskReadOnly);
    read_only.into_iter().chain(free).chain(inodes)
}

fn backup_warning(store: &SledConfig, now: UnixTime) -> Option<MachineWarning> {
    let Some(at) = last_backup(&store.path).ok()? else { return Some(MachineWarning::NeverBackedUp) };
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = Duration::from_secs(now.seconds()).saturating_sub(at);
    (age > OLD_BACKUP).then_some(MachineWarning::OldBackup(age.as_secs() / DAY_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_reported_from_four_fifths_of_the_limit() {
        assert_eq!(descriptors(799, 1000), None);
        assert_eq!(descriptors(800, 1000), Some(MachineWarning::FewDescriptors { open: 800, most: 1000 }));
    }

    #[test]
    fn a_store_without_backup_and_a_full_disk_are_reported() {
        let directory = std::env::temp_dir();
        let text = format!(
            "issuer = \"https://id.test\"\nhsm = {{ module = \"m\", token_label = \"t\", pin_file = \"p\" }}\n\
             store.path = {:?}\nserver.listen = [\"127.0.0.1:80\"]\n",
            directory.join("sealgate-no-such-store")
        );
        let config = Config::parse(&text, Path::new("/etc")).unwrap();
        let StoreConfig::Sled(store) = &config.store else { panic!("another store") };
        let now = UnixTime::from_seconds(2_000_000_000);
        assert!(machine_warnings(&config, now).contains(&MachineWarning::NeverBackedUp));
        let state = |free_bytes, free_files, is_read_only| DiskState {
            free_bytes,
            free_files: Some(free_files),
            is_read_only,
            loses_data: None,
        };
        let warnings = |state| disk_warnings(store, &state).collect::<Vec<_>>();
        assert_eq!(warnings(state(u64::MAX, u64::MAX, false)), []);
        assert_eq!(
            warnings(state(low_free_bytes(store) - 1, 999, true)),
            [
                MachineWarning::DiskReadOnly,
                MachineWarning::DiskLow((low_free_bytes(store) - 1) >> 20),
                MachineWarning::FewInodes
            ]
        );
        assert_eq!(warnings(state(store.reserve_bytes - 1, u64::MAX, false)), [MachineWarning::DiskFull]);
    }
}
