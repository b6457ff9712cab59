//! The command line: reads arguments, gives the command to a running server or carries it out on the store itself, and
//! prints what came of it. The rules about people and clients are in [`crate::admin`], those about keys in
//! [`crate::signer`].

mod access;
mod audit;
mod backup;
mod check;
mod command;
mod documents;
mod explain;
mod failure;
mod import_target;
mod key;
mod mail;
mod node;
mod output;
mod password;
mod people;
mod printable;
mod reload;
mod restored_keys;
mod serve;
mod store;
mod transfer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::access::StoreAccess;
use self::output::Output;
use crate::admin::command::{Command, UserCommand};
use crate::app::memory;
use crate::config::Config;
use crate::log;

pub(crate) use self::failure::CommandFailure;

/// An identity-aware proxy and OpenID Connect provider in one process, whose signing keys stay in a PKCS#11 token.
#[derive(Debug, Parser)]
#[command(name = "sealgate", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    /// The configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE", env = "SEALGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    noun: Noun,
}

const AFTER_HELP: &str = "\
The first steps, with a configuration file of your own:
  sealgate check  --config sealgate.toml
  sealgate key generate --config sealgate.toml
  echo 'a long password' | sealgate user add --config sealgate.toml \\
      --email anna@example.com --name 'Anna Example' --password-stdin
  sealgate client add --config sealgate.toml --id wiki --name Wiki --type confidential \\
      --redirect-uri https://wiki.example.com/callback
  sealgate serve  --config sealgate.toml

The commands about users, clients, sessions, grants, consents, application passwords, mails, the audit trail and keys' times go
through the admin socket while a server runs, and work on the store itself while none does. Exit status: 0 done, 1 failed, 2 wrong usage, 3 not proven. Errors go to standard error.";

#[derive(Debug, Subcommand)]
enum Noun {
    /// Run the server in the foreground, until SIGTERM or SIGINT
    Serve,
    /// Tell what a start would refuse: every fault of the configuration file and the files that it names, of the keys in the
    /// token (the PIN is tried once), and of the keys' times in the store. Whether ports are free is not looked at. With a store
    /// in a database also how that is reached and set up: its standbys, lock slots, clock, round trip and the role's rights
    Check(check::CheckArguments),
    /// Tell which application, which rule and which claim decide on a request, and what the application is told of who asks
    Explain(explain::ExplainArguments),
    #[command(flatten)]
    Kept(Command),
    /// Show the audit trail, the newest event first
    Audit(audit::Arguments),
    /// Copy the store to a new directory, while a server runs or not; every record of the copy is compared
    Backup(backup::BackupArguments),
    /// Lay down a backup in place of a store that was lost, or check one; sessions and grants end, people sign in anew
    Restore(backup::RestoreArguments),
    /// After the database or the machine was put back to an earlier moment, or the database has lost what it had acknowledged:
    /// end what may have ended since, as `restore` does, in the store as it lies, while no server runs
    Restored,
    /// Write the store of a server that is stopped, or a backup, as lines of JSON: to move it to another machine or engine
    Export(transfer::ExportArguments),
    /// Lay down an export as the store of a server that has none yet
    Import(transfer::ImportArguments),
    /// The servers that share a store in a database
    #[command(subcommand)]
    Node(node::NodeVerb),
    /// The store in a database
    #[command(subcommand)]
    Store(store::StoreVerb),
    /// Mails: what waits to be sent, what was given up, what was sent
    #[command(subcommand)]
    Mail(mail::MailVerb),
    /// Signing keys: those in the PKCS#11 token, and when each of them signs
    #[command(subcommand)]
    Key(key::Verb),
    /// Write man pages, completions of shells and the page about metrics, for packages; needs no configuration
    #[command(hide = true)]
    Documents(documents::DocumentsArguments),
    /// Look through the copy of a store, for the server that made it; needs no configuration
    #[command(hide = true)]
    VerifyCopy(backup::VerifyCopyArguments),
}

/// The program: runs the command of the command line and ends the process.
pub fn main() -> ! {
    memory::use_small_pages();
    let ended = run(std::env::args_os());
    log::flush();
    log::leave(ended.map_or_else(|failure| failure.report(), |()| 0))
}

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// [`CommandFailure`], which prints itself.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), CommandFailure> {
    let cli = Cli::try_parse_from(arguments)?;
    let output = Output::new(cli.json);
    // An auditor has no configuration.
    if let Noun::Key(key::Verb::Attestation(arguments)) = &cli.noun {
        return key::attestation::run(arguments, &output);
    }
    if let Noun::Documents(arguments) = &cli.noun {
        return documents::run(&Cli::command(), arguments, &output);
    }
    if let Noun::VerifyCopy(arguments) = &cli.noun {
        return backup::verify_copy(arguments, &output);
    }
    let Some(file) = cli.config else {
        let message = "which configuration? give it with --config FILE or in SEALGATE_CONFIG";
        return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, message).into());
    };
    match cli.noun {
        Noun::Serve => serve::run(load(&file)?, &file),
        Noun::Check(arguments) => check::run(&arguments, load(&file)?, &file, &output),
        Noun::Explain(arguments) => explain::run(arguments, &mut StoreAccess::open(read(&file)?)?, &output),
        Noun::Kept(Command::Reload) => reload::run(&file, &output),
        Noun::Kept(mut command) => {
            let mut access = StoreAccess::open(read(&file)?)?;
            let is_new = matches!(command, Command::User(UserCommand::Add(_)));
            if !is_new && command.password().is_some_and(|password| !password.password_stdin) {
                let message = "give the password on standard input, with --password-stdin; never as an argument";
                return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, message).into());
            }
            command::run(command, &mut access, &output)
        }
        Noun::Node(verb) => node::run(&verb, &mut StoreAccess::open(load_or_read(&file)?)?, &output),
        Noun::Store(verb) => store::run(&verb, &StoreAccess::open(read(&file)?)?, &output),
        Noun::Mail(verb) => mail::run(verb, load_or_read(&file)?, &output),
        Noun::Audit(arguments) => audit::run(&arguments, &mut StoreAccess::open(read(&file)?)?, &output),
        Noun::Backup(arguments) => backup::backup(&arguments, &mut StoreAccess::open(read(&file)?)?, &output),
        Noun::Restored => backup::restored(&StoreAccess::open(read(&file)?)?, &output),
        Noun::Restore(arguments) => backup::restore(&arguments, &StoreAccess::open(load_or_read(&file)?)?, &output),
        Noun::Export(arguments) => transfer::export(&arguments, &StoreAccess::open(read(&file)?)?, &output),
        Noun::Import(arguments) => transfer::import(&arguments, &StoreAccess::open(load_or_read(&file)?)?, &output),
        // Above.
        Noun::Documents(_) | Noun::VerifyCopy(_) => Ok(()),
        Noun::Key(verb) => key::run(verb, &mut StoreAccess::open(load(&file)?)?, &output),
    }
}

/// The configuration, with the files that it names.
fn load(file: &Path) -> Result<Config, CommandFailure> {
    Config::load(file).map_err(|faults| CommandFailure::from_lines(&faults))
}

/// The configuration with the files that it names where they are there, and alone otherwise: for what looks at the token if
/// it can.
fn load_or_read(file: &Path) -> Result<Config, CommandFailure> {
    Config::load(file).or_else(|_| Config::read(file)).map_err(|faults| CommandFailure::from_lines(&faults))
}

/// The configuration alone: people and clients can be kept by who may not see the PIN or the certificate.
fn read(file: &Path) -> Result<Config, CommandFailure> {
    Config::read(file).map_err(|faults| CommandFailure::from_lines(&faults))
}
