//! Checks of the clock, the disk, the backups, and the modes of files.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::server::ServerState;
use super::{Finding, Topic};
use sealgate_config::{Config, StoreConfig};
use sealgate_core::health::{GuardedPath, LOW_FREE_FILES, OLD_BACKUP, guarded_paths, low_free_bytes};
use sealgate_store::sled::{DiskState, disk_state, last_backup};
use sealgate_system::clock::{Clock, SystemClock};
use sealgate_system::clock_discipline::is_clock_synchronized;

/// Mean duration of a batch of commits at which the disk is reported as slow.
const SLOW_COMMIT_MILLISECONDS: f64 = 250.0;
/// Mount options of file systems without disk barriers.
const WITHOUT_BARRIERS: [&str; 2] = ["nobarrier", "barrier=0"];
/// Maximum number of checked files in a directory.
const MAX_FILES: usize = 1000;

pub(super) fn clock() -> Vec<Finding> {
    vec![match is_clock_synchronized() {
        Ok(true) => Finding::ok(Topic::Clock, "a time service synchronizes the clock"),
        Ok(false) => Finding::warning(
            Topic::Clock,
            "no time service synchronizes the clock: install and start chrony or systemd-timesyncd; tokens and \
             codes of authenticator apps depend on the clock",
        ),
        Err(error) => {
            Finding::skipped(Topic::Clock, format!("the state of the clock cannot be read ({error}): run this as root"))
        }
    }]
}

/// Judges the disk of a file-based store.
pub(super) fn disk(config: &Config, state: &ServerState) -> Vec<Finding> {
    let StoreConfig::Sled(store) = &config.store else { return Vec::new() };
    let path = store.path.as_path();
    // Before the first start, the directory does not exist.
    let Some(place) = path.ancestors().find(|place| place.exists()) else { return Vec::new() };
    let DiskState { free_bytes, free_files, is_read_only, loses_data } = match disk_state(place) {
        Ok(state) => state,
        Err(error) => return vec![unreadable(Topic::Disk, path, &error)],
    };
    let mut findings = Vec::new();
    let mut problem = |message: String| findings.push(Finding::problem(Topic::Disk, message));
    let directory = path.display();
    if is_read_only {
        problem(format!(
            "{directory} is on a read-only file system: see the kernel's log, stop the server and run fsck"
        ));
    }
    if let Some(system) = loses_data {
        problem(format!("{directory} is on {system}, which loses acknowledged data: move it to a local disk"));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(option) = option_without_barriers(&mounts, path) {
        problem(format!(
            "{directory} is mounted with {option}, so a power failure loses acknowledged data: mount it without that option"
        ));
    }
    let free = free_bytes >> 20;
    if free_bytes < store.reserve_bytes {
        problem(format!(
            "{free} MiB are free at {directory}, less than store.reserve_bytes, so sign-ins are refused: free some space"
        ));
    } else if free_bytes < low_free_bytes(store) {
        findings
            .push(Finding::warning(Topic::Disk, format!("only {free} MiB are free at {directory}: free some space")));
    }
    if free_files.is_some_and(|free| free < LOW_FREE_FILES) {
        let message = format!("the file system of {directory} has hardly any inodes left: delete files");
        findings.push(Finding::warning(Topic::Disk, message));
    }
    let commit = state.work().map_or(0.0, |work| work.commit_milliseconds);
    if commit > SLOW_COMMIT_MILLISECONDS {
        let message =
            format!("a commit takes {commit} ms on average: the disk is slow or overloaded, use a faster one");
        findings.push(Finding::warning(Topic::Disk, message));
    }
    if findings.is_empty() {
        let took = if commit > 0.0 { format!(", a commit takes {commit} ms on average") } else { String::new() };
        findings.push(Finding::ok(Topic::Disk, format!("{free} MiB are free at {directory}{took}")));
    }
    findings
}

/// Returns the mount option that disables disk barriers for the file system of `path`, if there is
/// one.
fn option_without_barriers(mounts: &str, path: &Path) -> Option<String> {
    // Fields of proc_pid_mountinfo(5): ID, parent, device, root, mount point, options, …, "-",
    // type, source, options.
    let mount = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let point = PathBuf::from(mount.split(' ').nth(4)?);
        path.starts_with(&point).then(|| (point, system.split(' ').nth(2).unwrap_or_default().to_owned()))
    };
    // If several file systems are mounted at the same path, the last one is in use.
    let (_, options) = mounts.lines().filter_map(mount).max_by_key(|(point, _)| point.as_os_str().len())?;
    options.split(',').find(|option| WITHOUT_BARRIERS.contains(option)).map(ToOwned::to_owned)
}

/// Judges the age of the last backup of a file-based store.
pub(super) fn backup(config: &Config) -> Vec<Finding> {
    let StoreConfig::Sled(store) = &config.store else { return Vec::new() };
    let remedy = "sealgate backup --to DIR, daily by a timer, and copy it to another machine";
    vec![match last_backup(&store.path) {
        Err(error) => unreadable(Topic::Backup, &store.path, &error),
        Ok(None) => Finding::warning(Topic::Backup, format!("the store was never backed up: {remedy}")),
        Ok(Some(at)) => {
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            let age = Duration::from_secs(SystemClock.now().seconds()).saturating_sub(at);
            let (days, hours) = (age.as_secs() / 86_400, age.as_secs() / 3600);
            if age > OLD_BACKUP {
                Finding::warning(Topic::Backup, format!("the last backup is {days} days old: {remedy}"))
            } else if days > 0 {
                Finding::ok(Topic::Backup, format!("the last backup is {days} days old"))
            } else {
                Finding::ok(Topic::Backup, format!("the last backup is {hours} hours old"))
            }
        }
    }]
}

fn judge(guarded: &GuardedPath, metadata: &Metadata) -> Option<Finding> {
    let (mode, right) = guarded.excess(metadata)?;
    let path = guarded.path.display();
    let message = format!("other users can access {path} (mode {mode:04o}): chmod {right:04o} {path}");
    Some(Finding::problem(Topic::Files, message))
}

/// Judges modes and owners of files. The check of the configuration covers the PIN and the other
/// secrets.
pub(super) fn files(config: &Config, file: &Path) -> Vec<Finding> {
    let mut guarded = guarded_paths(config, file);
    guarded.extend(softhsm_tokens(config).map(GuardedPath::of_group));
    let mut findings = Vec::new();
    if let StoreConfig::Sled(store) = &config.store {
        findings.extend(foreign_files(&store.path));
    }
    let mut read = 0;
    for one in &guarded {
        match fs::metadata(&one.path) {
            Ok(metadata) => {
                read += 1;
                findings.extend(judge(one, &metadata));
            }
            // A missing file is not reported here: either the server creates it, or the check of
            // the configuration reports it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => findings.push(unreadable(Topic::Files, &one.path, &error)),
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Topic::Files, format!("{read} files and directories have safe modes and owners")));
    }
    findings
}

/// Reports a file of the store whose owner is not the owner of the store's directory, for example
/// after a command was run as root.
fn foreign_files(store: &Path) -> Option<Finding> {
    let owner = fs::metadata(store).ok()?.uid();
    let entries = match fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) => return Some(unreadable(Topic::Files, store, &error)),
    };
    let is_foreign = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|metadata| metadata.uid() != owner);
    let foreign = entries.flatten().take(MAX_FILES).find(is_foreign)?;
    let (file, store) = (foreign.path(), store.display());
    let message =
        format!("{} belongs to another user than {store}: chown -R --reference={store} {store}", file.display());
    Some(Finding::problem(Topic::Files, message))
}

/// Returns the directory of SoftHSM's tokens, if the configured token is a SoftHSM token.
fn softhsm_tokens(config: &Config) -> Option<PathBuf> {
    let is_softhsm = config.hsm.module.file_name()?.to_string_lossy().contains("softhsm");
    let configured_file =
        config.hsm.softhsm_conf.clone().or_else(|| Some(std::env::var_os(crate::cli::SOFTHSM_CONF)?.into()));
    let file = configured_file.unwrap_or_else(|| PathBuf::from("/etc/softhsm/softhsm2.conf"));
    let text = fs::read_to_string(file).ok().filter(|_| is_softhsm)?;
    let directory = text.lines().find_map(|line| line.trim().strip_prefix("directories.tokendir"))?;
    Some(PathBuf::from(directory.trim_start().strip_prefix('=')?.trim()))
}

fn unreadable(topic: Topic, path: &Path, error: &io::Error) -> Finding {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Finding::denied(topic, path);
    }
    Finding::problem(topic, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_without_barriers_is_found_at_the_longest_place() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw,nobarrier\n\
            2 1 8:2 / /var/lib rw,relatime shared:1 - ext4 /dev/sda2 rw,barrier=0,data=ordered\n\
            3 1 8:3 / /var/lib/sealgate rw - xfs /dev/sda3 rw,attr2\n";
        let option = |path: &str| option_without_barriers(mounts, Path::new(path));
        assert_eq!(option("/var/lib/sealgate/store"), None);
        assert_eq!(option("/var/lib/sealgate2/store").as_deref(), Some("barrier=0"));
        assert_eq!(option("/srv/store").as_deref(), Some("nobarrier"));
    }
}
