//! `sealgate documents`, which writes the files for packages.

use std::fs;
use std::path::Path;

use crate::site::{Site, run};

fn written(site: &Site) -> std::path::PathBuf {
    let to = site.store_directory().with_file_name("documents");
    let output = run(&mut site.program(&["documents", "--to", to.to_str().unwrap()]), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    to
}

#[test]
fn documented_reference_pages_match_the_program() {
    let site = Site::new();
    let made = written(&site).join("reference");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    for name in ["metrics.md", "cli.md", "audit-events.md", "endpoints.md", "admin-api.md"] {
        let page = fs::read_to_string(made.join(name)).unwrap();
        if std::env::var_os("ACCEPT").is_some() {
            fs::write(kept.join(name), &page).unwrap();
        }
        let old = fs::read_to_string(kept.join(name)).unwrap_or_default();
        let only = |a: &str, b: &str| {
            a.lines().filter(|line| !b.lines().any(|other| other == *line)).collect::<Vec<_>>().join("\n")
        };
        assert!(
            page == old,
            "docs/reference/{name} differs from the program; run this test with ACCEPT=1\nmissing:\n{}\nstale:\n{}",
            only(&page, &old),
            only(&old, &page)
        );
    }
    let page = |name: &str| fs::read_to_string(kept.join(name)).unwrap();
    assert!(page("metrics.md").contains("| `process_open_fds` | gauge |"));
    assert!(page("metrics.md").contains("| `sealgate_sign_errors_total` | counter | `class` |"));
    assert!(page("cli.md").contains("### sealgate user add\n") && !page("cli.md").contains("sealgate documents\n"));
    assert!(page("endpoints.md").contains("| `/oauth/token` | POST | JSON |"));
    assert!(page("audit-events.md").contains("| `sign_in_failed` |"));
}

#[test]
fn each_command_has_a_man_page_and_completions() {
    let site = Site::new();
    let to = written(&site);
    let help = String::from_utf8(run(&mut site.program(&["--help"]), "").stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<_> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(commands.len() > 12 && !commands.contains(&"documents"), "{commands:?}");
    let completions = |name: &str| fs::read_to_string(to.join("completions").join(name)).unwrap();
    for command in commands.iter().filter(|command| **command != "help") {
        let page = fs::read_to_string(to.join(format!("man/sealgate-{command}.1")))
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH NAME"), "{command}");
        for shell in ["sealgate.bash", "_sealgate", "sealgate.fish"] {
            assert!(completions(shell).contains(command), "{shell}: {command}");
        }
    }
    assert!(to.join("man/sealgate.1").exists() && to.join("man/sealgate-key-rotate.1").exists());
}

#[test]
fn the_synopsis_of_a_man_page_names_the_values_of_options() {
    let site = Site::new();
    let to = written(&site);
    let synopsis = |command: &str| {
        let page = fs::read_to_string(to.join(format!("man/{command}.1"))).unwrap();
        let after = page.split_once(".SH SYNOPSIS\n").unwrap().1;
        after.lines().next().unwrap().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").trim().to_owned()
    };
    let add = synopsis("sealgate-user-add");
    assert!(add.starts_with("sealgate user add --name <NAME> [--username <USERNAME>] "), "{add}");
    assert!(
        add.contains(" [--email-verified] ") && add.ends_with(" [--config <FILE>] [--json] <EMAIL|USERNAME>"),
        "{add}"
    );
    assert_eq!(synopsis("sealgate"), "sealgate [--config <FILE>] [--json] <COMMAND>");
    assert_eq!(synopsis("sealgate-client-set"), "sealgate client set [OPTIONS] <CLIENT> <--SETTING VALUE>...");
}
