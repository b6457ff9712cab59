//! Checks of the limits and privileges of the server's process (`proc_pid_limits(5)`,
//! `proc_pid_status(5)`).

use std::fs;
use std::path::PathBuf;

use super::server::ServerState;
use super::{Finding, Topic};
use crate::app::server::needed_descriptors;
use sealgate_config::Config;

/// Bit of the capability to listen on ports below 1024 (capabilities(7)).
const CAP_NET_BIND_SERVICE: u64 = 1 << 10;
/// Name of the process, as the kernel reports it.
const PROGRAM: &str = "sealgate";

/// Returns the directory of the server's process.
fn directory(state: &ServerState, topic: Topic) -> Result<PathBuf, Vec<Finding>> {
    let Some(work) = state.work() else {
        return Err(state.silent(topic, "start it"));
    };
    let directory = PathBuf::from(format!("/proc/{}", work.process_id));
    // If the server runs in a container, the process ID that it reports is not valid outside of the
    // container.
    let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
    if !name.trim_end().starts_with(PROGRAM) {
        let message = "the server's process is not visible here: run this in its container";
        return Err(vec![Finding::skipped(topic, message)]);
    }
    Ok(directory)
}

/// Judges the limit of open files.
pub(super) fn limits(config: &Config, state: &ServerState) -> Vec<Finding> {
    let directory = match directory(state, Topic::Limits) {
        Ok(directory) => directory,
        Err(findings) => return findings,
    };
    let text = fs::read_to_string(directory.join("limits")).unwrap_or_default();
    let needed = needed_descriptors(&config.server);
    vec![match soft_limit(&text, "Max open files") {
        Some(allowed) if allowed < needed => Finding::warning(
            Topic::Limits,
            format!(
                "the server may open {allowed} files and needs {needed} for server.max_connections: raise LimitNOFILE= \
                 of the unit, or lower server.max_connections"
            ),
        ),
        Some(allowed) => Finding::ok(Topic::Limits, format!("the server may open {allowed} files and needs {needed}")),
        None => Finding::denied(Topic::Limits, &directory.join("limits")),
    }]
}

/// Returns a soft limit. For `unlimited`, returns the maximum number.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// Judges the privileges of the process, and the protections that the unit of the package sets.
pub(super) fn hardening(_: &Config, state: &ServerState) -> Vec<Finding> {
    let directory = match directory(state, Topic::Hardening) {
        Ok(directory) => directory,
        Err(findings) => return findings,
    };
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
    let status = read("status");
    let Some(user) = field(&status, "Uid") else {
        return vec![Finding::denied(Topic::Hardening, &directory.join("status"))];
    };
    if user == "0" {
        let message = "the server runs as root: start it by the unit of the package, or as a user of its own";
        return vec![Finding::warning(Topic::Hardening, message)];
    }
    if !is_own_unit(&read("cgroup")) {
        let message = "the server runs as a user of its own, not in the unit of the package";
        return vec![Finding::ok(Topic::Hardening, message)];
    }
    let missing = missing_protections(&status, &read("limits"), &read("mountinfo"));
    vec![if missing.is_empty() {
        Finding::ok(Topic::Hardening, "the unit has the protections of the package")
    } else {
        let missing = missing.join(", ");
        Finding::warning(
            Topic::Hardening,
            format!("the unit lacks {missing}: compare `systemctl cat sealgate` with the unit of the package"),
        )
    }]
}

/// Returns the first word of a field.
fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()
}

/// Returns whether the control group is that of a unit of Sealgate.
fn is_own_unit(groups: &str) -> bool {
    groups.lines().any(|line| line.split('/').any(|part| part.starts_with(PROGRAM) && part.ends_with(".service")))
}

/// Returns the protections of the unit that the process does not have.
fn missing_protections(status: &str, limits: &str, mounts: &str) -> Vec<&'static str> {
    let capabilities = field(status, "CapEff").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    let root = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/"));
    let is_writable =
        root.and_then(|line| line.split(' ').nth(5)).is_some_and(|options| options.split(',').any(|one| one == "rw"));
    let all = [
        (field(status, "NoNewPrivs") == Some("0"), "NoNewPrivileges=yes"),
        (field(status, "Seccomp") == Some("0"), "SystemCallFilter="),
        (
            capabilities.is_some_and(|bits| bits & !CAP_NET_BIND_SERVICE != 0),
            "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
        ),
        (soft_limit(limits, "Max core file size").is_some_and(|size| size > 0), "LimitCORE=0"),
        (is_writable, "ProtectSystem=strict"),
    ];
    all.into_iter().filter_map(|(is_missing, name)| is_missing.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
        Max core file size        0                    unlimited            bytes\n\
        Max open files            65536                65536                files\n";
    const MOUNTS: &str =
        "1 0 8:1 / / ro,relatime - ext4 /dev/sda1 rw\n2 1 8:1 /x /var/lib/sealgate rw - ext4 /dev/sda1 rw\n";

    #[test]
    fn a_process_of_the_unit_has_all_protections() {
        let status =
            "Name:\tsealgate\nUid:\t998\t998\t998\t998\nCapEff:\t0000000000000400\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        assert_eq!(missing_protections(status, LIMITS, MOUNTS), Vec::<&str>::new());
        assert_eq!(field(status, "Uid"), Some("998"));
        assert_eq!(soft_limit(LIMITS, "Max open files"), Some(65536));
    }

    #[test]
    fn each_missing_protection_is_named() {
        let status = "CapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n";
        let limits = LIMITS.replace("        0  ", "unlimited  ");
        let missing = missing_protections(status, &limits, &MOUNTS.replace(" ro,", " rw,"));
        assert_eq!(missing.len(), 5, "{missing:?}");
    }

    #[test]
    fn only_a_unit_of_this_program_is_compared() {
        assert!(is_own_unit("0::/system.slice/sealgate.service\n"));
        assert!(is_own_unit("0::/system.slice/system-sealgate.slice/sealgate@a.service\n"));
        assert!(!is_own_unit("0::/system.slice/runner.service\n") && !is_own_unit("0::/user.slice/sealgate\n"));
    }
}
