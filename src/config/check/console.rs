//! Checks of `[console]`: groups that give roles, and groups whose users are managed.

use super::super::console::{Console, UserManagers};
use super::super::disk::Files;
use super::super::file::Section;
use super::address::{self, DAY, HOUR, MINUTE};
use super::applications_file;

const GROUP: &str = "write the name of a group";

pub(super) fn console(mut section: Section<'_, '_>, files: &Files, is_cluster: bool) -> Console {
    let applications_file = applications_file::path(&mut section, files);
    let edit_applications = section.flag("edit_applications", false);
    if edit_applications && applications_file.is_none() {
        section.missing("applications_file", "write the path of a file that the server can write");
    }
    if edit_applications && is_cluster {
        section.fault("edit_applications", "each node of a cluster has files of its own; leave it out");
    }
    let mut console = Console {
        enabled: section.flag("enabled", false),
        developers: section.text("developers", GROUP, address::group),
        admins: section.text("admins", GROUP, address::group),
        auditors: section.text("auditors", GROUP, address::group),
        user_managers: Vec::new(),
        applications_file,
        edit_applications,
        sign_in: section.seconds("sign_in_seconds", 12 * HOUR, 5 * MINUTE..=7 * DAY),
    };
    let tables = section.sections("user_manager");
    // All groups of managers come first: each of them is refused as a managed group.
    let mut managers = Vec::new();
    for mut table in tables {
        let group = table.required_text("group", GROUP, |text| {
            if console.user_managers.iter().any(|known| known.group == text) {
                return Err(format!("{text:?} has another table; write each group once"));
            }
            address::group(text)
        });
        console.user_managers.extend(group.clone().map(|group| UserManagers { group, manages: Vec::new() }));
        managers.push((group, table));
    }
    let mut managed = Vec::new();
    for (group, mut table) in managers {
        let groups = table.required_texts("manages", "write a list such as [\"staff\"]", |text| {
            if console.role_groups().any(|(group, _)| group == text) {
                return Err(format!(
                    "{text:?} gives a role in the console, which user managers cannot give; write groups without a role"
                ));
            }
            address::group(text)
        });
        // The file has an error if a table has no group of its own.
        managed.extend(group.map(|_| groups));
    }
    for (known, groups) in console.user_managers.iter_mut().zip(managed) {
        known.manages = groups;
    }
    console
}
