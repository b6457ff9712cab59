//! Groups that give roles in the console, and groups whose users are managed.

use super::{REQUIRED, fault, parse, starts};

fn with(section: &str) -> String {
    format!("{REQUIRED}[console]\nenabled = true\n{section}\n")
}

const HELPDESK: &str = "[[console.user_manager]]\ngroup = \"helpdesk\"\n";

#[test]
fn groups_of_managed_users_are_read() {
    let text = format!(
        "auditors = \"audit\"\n{HELPDESK}manages = [\"staff\", \"öğrenci\"]\n\
         [[console.user_manager]]\ngroup = \"school\"\nmanages = [\"staff\"]"
    );
    let console = parse(&with(&text)).console;
    assert_eq!(console.auditors.as_deref(), Some("audit"));
    let managers: Vec<_> =
        console.user_managers.iter().map(|one| (one.group.as_str(), one.manages.join(" "))).collect();
    assert_eq!(managers, [("helpdesk", "staff öğrenci".to_owned()), ("school", "staff".to_owned())]);
    assert!(parse(REQUIRED).console.user_managers.is_empty());
}

#[test]
fn a_group_that_gives_a_role_cannot_be_managed() {
    let roles = "admins = \"a\"\nauditors = \"b\"\ndevelopers = \"c\"";
    // A later table names the last group as a group of managers.
    let other = "[[console.user_manager]]\ngroup = \"d\"\nmanages = [\"staff\"]";
    for group in ["a", "b", "c", "d", "helpdesk"] {
        let text = format!("{roles}\n{HELPDESK}manages = [\"staff\", {group:?}]\n{other}");
        starts(&fault(&with(&text)), &format!("console.user_manager[0].manages[1]: {group:?} gives a role"));
    }
}

#[test]
fn each_table_has_a_group_of_its_own_and_managed_groups() {
    let twice = format!("{HELPDESK}manages = [\"staff\"]\n{HELPDESK}manages = [\"students\"]");
    starts(&fault(&with(&twice)), "console.user_manager[1].group: \"helpdesk\" has another table");
    starts(&fault(&with(HELPDESK)), "console.user_manager[0].manages: is missing");
    starts(&fault(&with(&format!("{HELPDESK}manages = []"))), "console.user_manager[0].manages: is empty");
    starts(
        &fault(&with("[[console.user_manager]]\nmanages = [\"staff\"]")),
        "console.user_manager[0].group: is missing",
    );
}
