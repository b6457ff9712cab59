//! Man pages, generated from clap's definition of the command line.

use std::io;
use std::path::Path;

use clap::{Arg, ArgGroup, Command};
use clap_mangen::Man;

/// Writes a page of each visible command to the directory.
pub(super) fn write(command: &Command, to: &Path) -> io::Result<()> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    write_with_subcommands(&command, to)
}

fn write_with_subcommands(command: &Command, to: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_with_subcommands(subcommand, to)?;
    }
    // Without an explicit usage, clap_mangen renders options without their values.
    let usage = command.get_overridden_usage().map_or_else(|| synopsis(command), ToString::to_string);
    Man::new(command.clone().override_usage(usage))
        .source(concat!("sealgate ", env!("CARGO_PKG_VERSION")))
        .generate_to(to)
        .map(|_| ())
}

/// Returns the synopsis. Required options come first, then optional ones, each with its value, then
/// positional arguments.
fn synopsis(command: &Command) -> String {
    let is_visible =
        |argument: &&Arg| !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version");
    let groups: Vec<&ArgGroup> = command.get_groups().filter(|group| group.is_required_set()).collect();
    let is_grouped = |argument: &&Arg| groups.iter().any(|group| group.get_args().any(|id| id == argument.get_id()));
    let arguments = || command.get_arguments().filter(is_visible).filter(|argument| !is_grouped(argument));
    let options = |is_required| {
        arguments().filter(move |argument| !argument.is_positional() && argument.is_required_set() == is_required)
    };
    let members = |group: &ArgGroup| {
        let members = command.get_arguments().filter(|argument| group.get_args().any(|id| id == argument.get_id()));
        members.map(ToString::to_string).collect::<Vec<_>>().join("|")
    };
    let words = std::iter::once(command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned())
        .chain(options(true).map(ToString::to_string))
        .chain(groups.iter().map(|group| format!("({})", members(group))))
        .chain(options(false).map(|option| format!("[{option}]")))
        .chain(arguments().filter(|argument| argument.is_positional()).map(ToString::to_string))
        .chain(command.has_subcommands().then(|| "<COMMAND>".to_owned()));
    words.collect::<Vec<_>>().join(" ")
}
