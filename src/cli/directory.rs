//! `sealgate directory`: checks of LDAP directories.

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::runtime::Builder;

use super::access::StoreAccess;
use super::command;
use super::failure::CommandFailure;
use super::output::Output;
use super::source_check::CheckedSource;
use sealgate_admin::command::{Command, DirectoryCommand};
use sealgate_config::{Config, DirectorySettings, LoginConfig};
use sealgate_domain::source_check::{CheckStep, CheckStepOutcome};
use sealgate_ldap::{DirectoryCheck, LdapDirectory};
use sealgate_system::clock::SystemClock;

#[derive(Debug, Subcommand)]
pub(super) enum DirectoryVerb {
    /// Connect to the directories, search, and show what would be stored of a user
    ///
    /// Does not need a running server and stores nothing. Signs in only the account for searches. Exits with status 1
    /// if a step failed.
    Check(DirectoryCheckArguments),
    #[command(flatten)]
    Stored(DirectoryCommand),
}

#[derive(Debug, Args)]
pub(super) struct DirectoryCheckArguments {
    /// Name of a directory [default: all directories]
    #[arg(value_name = "NAME")]
    directory: Option<String>,
    /// Name to search, as a user types it to sign in
    #[arg(long, value_name = "NAME")]
    find: Option<String>,
}

pub(super) fn run(verb: DirectoryVerb, config: Config, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        DirectoryVerb::Check(DirectoryCheckArguments { directory, find }) => {
            check_all(directory.as_deref(), find.as_deref(), &config, output)
        }
        DirectoryVerb::Stored(command) => {
            let DirectoryCommand::RevokeGone { name } = &command;
            wanted(Some(name.as_str()), &config)?;
            command::run(Command::Directory(command), &mut StoreAccess::open(config)?, output)
        }
    }
}

/// Returns the directory with this name, or all directories.
fn wanted<'c>(directory: Option<&str>, config: &'c Config) -> Result<Vec<&'c DirectorySettings>, CommandFailure> {
    let is_wanted = |settings: &&DirectorySettings| directory.is_none_or(|name| settings.name.as_str() == name);
    let wanted: Vec<_> = config.directories.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        let names: Vec<_> = config.directories.iter().map(|settings| settings.name.as_str()).collect();
        return Err(CommandFailure::line(match (directory, names.as_slice()) {
            (_, []) => "no directory is configured; write [[directory]] into the configuration".to_owned(),
            (name, names) => {
                format!("no directory is named {}; the names are {}", name.unwrap_or_default(), names.join(", "))
            }
        }));
    }
    Ok(wanted)
}

fn check_all(
    directory: Option<&str>,
    find: Option<&str>,
    config: &Config,
    output: &Output,
) -> Result<(), CommandFailure> {
    let wanted = wanted(directory, config)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))?;
    let checked: Vec<_> =
        wanted.into_iter().map(|settings| runtime.block_on(check(settings, find, &config.login))).collect();
    output.result(&json!({ "directories": checked.iter().map(CheckedSource::as_json).collect::<Vec<_>>() }), || {
        checked.iter().map(CheckedSource::as_text).collect()
    })?;
    if checked.iter().all(CheckedSource::has_passed) { Ok(()) } else { Err(CommandFailure::Reported(1)) }
}

async fn check(settings: &DirectorySettings, find: Option<&str>, login: &LoginConfig) -> CheckedSource {
    let name = settings.name.to_string();
    let directory = match LdapDirectory::open(settings, Arc::new(SystemClock)) {
        Ok(directory) => directory,
        Err(fault) => {
            let step =
                CheckStep { subject: "files".to_owned(), outcome: CheckStepOutcome::Failed, text: fault.to_string() };
            return CheckedSource { name, steps: vec![step], user: None };
        }
    };
    let DirectoryCheck { steps, user } = directory.check(find, login).await;
    let user = user.map(|user| (directory.shown_id(&user.id), user));
    CheckedSource { name, steps, user }
}
