//! Reference page of the command line, generated from clap's definition.

use std::fmt::Write as _;

use clap::{Arg, Command};

const HEAD: &str = "\
# Command line

This page is generated from the program (`sealgate documents`), and a test compares the two. `man sealgate` and `sealgate COMMAND --help`
have the same text.

";

/// Returns the page of all visible commands in Markdown.
pub(super) fn page(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut page = String::from(HEAD);
    if let Some(help) = command.get_after_help() {
        // Writing to a String cannot fail, here and below.
        let _ = write!(page, "```text\n{help}\n```\n\n");
    }
    page.push_str("Every command has these options:\n\n");
    arguments(&mut page, command.get_arguments().filter(|argument| argument.is_global_set()));
    commands(&mut page, &command, "sealgate", 2);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn commands(page: &mut String, parent: &Command, path: &str, level: usize) {
    for command in parent.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        let about =
            command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "{} {path}\n\n{}\n\n", "#".repeat(level), escaped(&about));
        if command.has_subcommands() {
            commands(page, command, &path, level + 1);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        let _ = write!(page, "```text\n{}\n```\n\n", usage.trim_start_matches("Usage:").trim());
        let own = |argument: &&Arg| !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help";
        if command.get_arguments().any(|argument| own(&argument)) {
            arguments(page, command.get_arguments().filter(own));
        }
    }
}

fn arguments<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    page.push_str("| argument | meaning |\n|---|---|\n");
    for argument in arguments {
        let help =
            argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let mut cell = escaped(&help).replace("\n\n", "<br>").replace('\n', " ");
        let values: Vec<_> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        if argument.get_action().takes_values() && !values.is_empty() {
            let _ = write!(cell, " ({})", values.join(", "));
        }
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if argument.get_action().takes_values() && !defaults.is_empty() {
            let _ = write!(cell, " (default: `{}`)", defaults.join(" "));
        }
        let _ = writeln!(page, "| `{}` | {cell} |", argument.to_string().replace('|', "\\|"));
    }
    page.push('\n');
}

/// Escapes characters that Markdown would read as markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut in_code = false;
    for character in text.chars() {
        in_code ^= character == '`';
        if character == '|' || !in_code && matches!(character, '*' | '<' | '>' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
