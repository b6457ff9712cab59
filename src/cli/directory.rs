//! `sealgate directory`: checks of LDAP directories.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::access::StoreAccess;
use super::command;
use super::failure::CommandFailure;
use super::output::{Output, printable};
use sealgate_admin::command::{Command, DirectoryCommand};
use sealgate_config::{Config, DirectorySettings, LoginConfig};
use sealgate_domain::source::{SourceEntry, SourceId, SourceLink, SourceName};
use sealgate_ldap::{CheckStep, CheckStepOutcome, DirectoryCheck, LdapDirectory};
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

/// Check of a directory that could be opened.
struct Checked<'c> {
    settings: &'c DirectorySettings,
    check: DirectoryCheck,
    /// Id of the user that was found.
    id: Option<String>,
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

/// Returns the link to an account: at a directory, searches it by the name that its user types. At an
/// OpenID provider, the operator names the id.
pub(super) fn link(source: &SourceName, account: &str, config: &Config) -> Result<SourceLink, CommandFailure> {
    if config.upstreams.iter().any(|settings| settings.name == *source) {
        let too_long = || CommandFailure::line("the account is empty or longer than 255 bytes");
        let id = SourceId::from_bytes(account.as_bytes()).ok_or_else(too_long)?;
        return Ok(SourceLink { source: source.clone(), id });
    }
    let wanted = wanted(Some(source.as_str()), config)?;
    let runtime = runtime()?;
    for settings in wanted {
        let Checked { check, .. } = runtime.block_on(check(settings, Some(account), &config.login));
        if let Some(user) = check.user {
            return Ok(SourceLink { source: source.clone(), id: user.id });
        }
        if let Some(step) = check.steps.iter().find(|step| step.outcome == CheckStepOutcome::Failed) {
            return Err(CommandFailure::line(format_args!("{source}: {account}: {}", step.text)));
        }
    }
    Err(CommandFailure::line(format_args!("{source} has no account with the name {account}")))
}

fn runtime() -> Result<Runtime, CommandFailure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CommandFailure::line(format_args!("cannot start a runtime: {error}")))
}

fn check_all(
    directory: Option<&str>,
    find: Option<&str>,
    config: &Config,
    output: &Output,
) -> Result<(), CommandFailure> {
    let wanted = wanted(directory, config)?;
    let runtime = runtime()?;
    let checked: Vec<_> =
        wanted.into_iter().map(|settings| runtime.block_on(check(settings, find, &config.login))).collect();
    output.result(&json!({ "directories": checked.iter().map(as_json).collect::<Vec<_>>() }), || {
        checked.iter().map(as_text).collect()
    })?;
    if checked.iter().all(|checked| checked.check.has_passed()) { Ok(()) } else { Err(CommandFailure::Reported(1)) }
}

async fn check<'c>(settings: &'c DirectorySettings, find: Option<&str>, login: &LoginConfig) -> Checked<'c> {
    let directory = match LdapDirectory::open(settings, Arc::new(SystemClock)) {
        Ok(directory) => directory,
        Err(fault) => {
            let step =
                CheckStep { subject: "files".to_owned(), outcome: CheckStepOutcome::Failed, text: fault.to_string() };
            return Checked { settings, check: DirectoryCheck { steps: vec![step], user: None }, id: None };
        }
    };
    let check = directory.check(find, login).await;
    let id = check.user.as_ref().map(|user| directory.shown_id(&user.id));
    Checked { settings, check, id }
}

fn as_json(checked: &Checked<'_>) -> Value {
    let steps: Vec<_> = checked
        .check
        .steps
        .iter()
        .map(|step| json!({ "subject": step.subject, "outcome": step.outcome.as_str(), "text": step.text }))
        .collect();
    let mut value = json!({ "name": checked.settings.name, "ok": checked.check.has_passed(), "steps": steps });
    if let (Some(user), Some(id)) = (&checked.check.user, &checked.id) {
        let SourceEntry { id: _, username, email, email_verified, name, phone_number, groups, state } = user;
        value["user"] = json!({
            "id": id, "username": username, "email": email, "email_verified": email_verified, "name": name,
            "phone_number": phone_number, "groups": groups, "state": state,
        });
    }
    value
}

fn as_text(checked: &Checked<'_>) -> String {
    let mut text = String::new();
    let name = &checked.settings.name;
    for CheckStep { subject, outcome, text: found } in &checked.check.steps {
        let word = match outcome {
            CheckStepOutcome::Passed => "ok",
            CheckStepOutcome::Warning => "warning",
            CheckStepOutcome::Failed => "error",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", printable(&format!("{word}: {name}: {subject}: {found}")));
    }
    if let Some(Value::Object(user)) = as_json(checked).get("user") {
        for (member, value) in user {
            let value = match value {
                Value::String(value) => value.clone(),
                Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            let _ = writeln!(text, "{}", printable(format!("  {member}: {value}").trim_end()));
        }
    }
    text
}
