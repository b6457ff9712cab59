//! Command line: parses arguments, sends the command to a running server or executes it on the
//! store, and prints the result.
//!
//! The rules for users and clients are in [`sealgate_admin`], the rules for keys in
//! [`sealgate_signer`].

mod access;
mod app;
mod audit;
mod backup;
mod check;
mod command;
mod config_file;
mod directory;
mod doctor;
mod documents;
mod explain;
mod failure;
mod init;
mod key;
mod mail;
mod node;
mod output;
mod outside;
mod password;
mod provision;
mod reload;
mod serve;
mod source_check;
mod store;
mod test_login;
mod transfer;
mod upstream;
mod users_file;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::access::StoreAccess;
use self::output::Output;
use crate::app::memory;
use sealgate_admin::command::{ClientCommand, Command, UserCommand};
use sealgate_config::Config;
use sealgate_system::log;

pub(crate) use self::failure::CommandFailure;

/// Version that `--version` prints. `release/build.sh` passes a text with the commit and its date
/// to the compiler.
const VERSION: &str = match option_env!("SEALGATE_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// An identity-aware proxy and OpenID Connect provider in one process, whose signing keys stay in a PKCS#11 token.
#[derive(Debug, Parser)]
#[command(name = "sealgate", version = VERSION, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    /// Configuration file
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SEALGATE_CONFIG",
        default_value = DEFAULT_CONFIG,
        help_heading = GLOBAL_OPTIONS,
        display_order = 1000
    )]
    config: PathBuf,
    /// Print one JSON object to standard output
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, display_order = 1001)]
    json: bool,
    #[command(subcommand)]
    noun: Noun,
}

/// Configuration file of the Debian package.
const DEFAULT_CONFIG: &str = "/etc/sealgate/sealgate.toml";

/// Environment variable that names SoftHSM's configuration.
const SOFTHSM_CONF: &str = "SOFTHSM2_CONF";

const GLOBAL_OPTIONS: &str = "Global options";

const AFTER_HELP: &str = "\
First steps, on the machine of the service:
  sealgate init --issuer https://id.example.com \\
      --protect wiki.example.com=http://127.0.0.1:8081 \\
      --admin anna@example.com --tls chain.pem,key.pem
  sealgate check
  sealgate client add wiki --name Wiki --type confidential \\
      --redirect-uri https://wiki.example.com/callback

Commands that manage data go through the admin socket while a server runs, and
open the store directly while no server runs.
Exit status: 0 success, 1 failure, 2 wrong usage, 3 not proven (key verify-attestation).
`doctor` exits as monitoring plugins do: 0 ok, 1 warnings, 2 problems, 3 unknown.";

#[derive(Debug, Subcommand)]
enum Noun {
    /// Set up an installation: configuration, token, keys and first administrator
    #[command(long_about = init::ABOUT)]
    Init(init::InitArguments),
    /// Run the server in the foreground, until SIGTERM or SIGINT
    Serve,
    /// Validate the configuration, the files it refers to and the signing keys
    ///
    /// Reports every error. Tries the PIN of the PKCS#11 token once and reads the key schedule from the store. With
    /// PostgreSQL it also reports the connection, standbys, lock slots, clock, round-trip time and permissions of the
    /// role. Does not check whether ports are free.
    Check(check::CheckArguments),
    /// Examine a running installation and name a remedy for each problem
    #[command(long_about = doctor::ABOUT)]
    Doctor(doctor::DoctorArguments),
    /// Show which rule decides on a request and which identity headers are sent
    Explain(explain::ExplainArguments),
    /// Manage the protected applications in the configuration file
    #[command(subcommand)]
    App(app::AppVerb),
    #[command(flatten)]
    Kept(Command),
    /// Show or export the audit log, newest event first
    #[command(subcommand)]
    Audit(audit::AuditVerb),
    /// Copy the store to a new directory and verify the copy
    ///
    /// Works whether or not the server runs. Compares every record of the copy.
    Backup(backup::BackupArguments),
    /// Restore or verify a backup, or complete a restore made by other tools
    ///
    /// Revokes all sessions and grants: users sign in again. No server may run.
    Restore(backup::RestoreArguments),
    /// Export a stopped server's store, or a backup, as lines of JSON
    ///
    /// For moving to another machine or another storage engine.
    Export(transfer::ExportArguments),
    /// Import an export into an empty store
    Import(transfer::ImportArguments),
    /// Manage the nodes of a cluster
    #[command(subcommand)]
    Node(node::NodeVerb),
    /// Create or upgrade the tables of a PostgreSQL store
    #[command(subcommand)]
    Store(store::StoreVerb),
    /// Manage queued, failed and sent mail
    #[command(subcommand)]
    Mail(mail::MailVerb),
    /// Examine the LDAP directories whose users can sign in
    #[command(subcommand)]
    Directory(directory::DirectoryVerb),
    /// Examine the OpenID providers whose users can sign in
    #[command(subcommand)]
    Upstream(upstream::UpstreamVerb),
    /// Manage signing keys in the PKCS#11 token and their schedule
    #[command(subcommand)]
    Key(key::Verb),
    /// Write man pages, shell completions and reference pages, for packages
    ///
    /// Needs no configuration.
    #[command(hide = true)]
    Documents(documents::DocumentsArguments),
    /// Create the keys and the first administrator, for `init`
    #[command(hide = true)]
    Provision(provision::ProvisionArguments),
    /// Verify a copy of the store for the server that made it
    ///
    /// Needs no configuration.
    #[command(hide = true)]
    VerifyCopy(backup::VerifyCopyArguments),
}

/// Runs the command of the command line and exits the process.
pub fn main() -> ! {
    memory::set_huge_pages(false);
    let ended = run(std::env::args_os());
    log::flush();
    log::exit(ended.map_or_else(|failure| failure.report(), |()| 0))
}

/// Runs the program with these arguments. The first argument is the program's name.
///
/// # Errors
/// [`CommandFailure`]. [`CommandFailure::report`] prints it.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), CommandFailure> {
    let cli = Cli::try_parse_from(arguments)?;
    let output = Output::new(cli.json);
    // An auditor runs this command without a configuration.
    if let Noun::Key(key::Verb::VerifyAttestation(arguments)) = &cli.noun {
        return key::attestation::run(arguments, &output);
    }
    if let Noun::Documents(arguments) = &cli.noun {
        return documents::run(&Cli::command(), arguments, &output);
    }
    if let Noun::VerifyCopy(arguments) = &cli.noun {
        return backup::verify_copy(arguments, &output);
    }
    if let Noun::Kept(Command::Client(ClientCommand::HashSecret)) = &cli.noun {
        return command::hash_secret(&output);
    }
    let file = cli.config;
    match cli.noun {
        Noun::Init(arguments) => init::run(arguments, &file, &output),
        Noun::App(verb) => app::run(verb, &file, &output),
        Noun::Provision(arguments) => provision::run(arguments, load(&file)?, &output),
        Noun::Serve => serve::run(load(&file)?, &file),
        Noun::Check(arguments) => check::run(&arguments, load(&file)?, &file, &output),
        Noun::Doctor(arguments) => doctor::run(&arguments, &file, &output),
        Noun::Explain(arguments) => explain::run(arguments, &mut StoreAccess::open(load_or_read(&file)?)?, &output),
        Noun::Kept(Command::Reload) => reload::run(&file, &output),
        Noun::Kept(mut command) => {
            let mut access = StoreAccess::open(read(&file)?)?;
            let is_new = matches!(command, Command::User(UserCommand::Add(_)));
            if !is_new && command.password_mut().is_some_and(|password| !password.password_stdin) {
                let message = "give the password on standard input, with --password-stdin; never as an argument";
                return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, message).into());
            }
            command::run(command, &mut access, &output)
        }
        Noun::Node(verb) => node::run(&verb, &mut StoreAccess::open(load_or_read(&file)?)?, &output),
        Noun::Store(verb) => store::run(&verb, &StoreAccess::open(read(&file)?)?, &output),
        Noun::Mail(verb) => mail::run(verb, load_or_read(&file)?, &output),
        Noun::Directory(verb) => directory::run(verb, load_or_read(&file)?, &output),
        Noun::Upstream(verb) => upstream::run(&verb, &load_or_read(&file)?, &output),
        Noun::Audit(verb) => audit::run(&verb, &mut StoreAccess::open(read(&file)?)?, &output),
        Noun::Backup(arguments) => backup::backup(&arguments, &mut StoreAccess::open(read(&file)?)?, &output),
        Noun::Restore(arguments) => backup::restore(&arguments, &StoreAccess::open(load_or_read(&file)?)?, &output),
        Noun::Export(arguments) => transfer::export(&arguments, &StoreAccess::open(read(&file)?)?, &output),
        Noun::Import(arguments) => transfer::import(&arguments, &StoreAccess::open(load_or_read(&file)?)?, &output),
        // These commands are handled above.
        Noun::Documents(_) | Noun::VerifyCopy(_) => Ok(()),
        Noun::Key(verb) => key::run(verb, &mut StoreAccess::open(load(&file)?)?, &output),
    }
}

/// Loads the configuration and checks the files that it names.
fn load(file: &Path) -> Result<Config, CommandFailure> {
    with_environment(Config::load(file).map_err(|faults| CommandFailure::from_lines(&faults))?)
}

/// Loads the configuration with the files that it names. If these files have errors, loads the
/// configuration alone.
///
/// For commands that use the token or the recipes of applications only if possible.
fn load_or_read(file: &Path) -> Result<Config, CommandFailure> {
    let config = Config::load(file).or_else(|_| Config::read(file));
    with_environment(config.map_err(|faults| CommandFailure::from_lines(&faults))?)
}

/// Ensures that the environment names the SoftHSM configuration of `hsm.softhsm_conf`. Returns the
/// configuration.
///
/// The PKCS#11 module reads the variable from the environment. Changing the environment is safe
/// only in a process with one thread. If the variable is not set, this function therefore replaces
/// the process with a new instance of the program (`exec`).
fn with_environment(config: Config) -> Result<Config, CommandFailure> {
    let Some(conf) = &config.hsm.softhsm_conf else { return Ok(config) };
    if std::env::var_os(SOFTHSM_CONF).is_some_and(|set| set == *conf) {
        return Ok(config);
    }
    let failed = |error| CommandFailure::line(format_args!("cannot execute this program with {SOFTHSM_CONF}: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into_os_string());
    Err(failed(process::Command::new(program).arg0(name).args(arguments).env(SOFTHSM_CONF, conf).exec()))
}

/// Reads the configuration without the files that it names, so that users and clients can be
/// managed without access to the PIN or the certificate.
fn read(file: &Path) -> Result<Config, CommandFailure> {
    Config::read(file).map_err(|faults| CommandFailure::from_lines(&faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verbs of all commands. Each verb has one meaning everywhere.
    ///
    /// `delete` removes an object permanently. `revoke` ends access. `remove` ends a membership (of
    /// a node, of a published key) and keeps the object. `retire` lets a signing key end in order.
    const VERBS: [&str; 33] = [
        "activate",
        "add",
        "admit",
        "announce",
        "approve",
        "check",
        "delete",
        "disable",
        "enable",
        "export",
        "generate",
        "hash",
        "import",
        "init",
        "invite",
        "link",
        "list",
        "remove",
        "request",
        "resend",
        "reset",
        "retire",
        "retry",
        "revoke",
        "rotate",
        "set",
        "show",
        "test",
        "unblock",
        "unlink",
        "upgrade",
        "verify",
        "revoke-all",
    ];

    /// Commands without a noun.
    const TOP_LEVEL: [&str; 11] =
        ["init", "serve", "check", "doctor", "explain", "status", "reload", "backup", "restore", "export", "import"];

    /// Visits each visible command that has no subcommands, with its path.
    fn walk(command: &clap::Command, path: &[String], visit: &mut impl FnMut(&[String], &clap::Command)) {
        let mut visible = command.get_subcommands().filter(|sub| !sub.is_hide_set()).peekable();
        if visible.peek().is_none() {
            return visit(path, command);
        }
        for sub in visible {
            walk(sub, &[path, &[sub.get_name().to_owned()]].concat(), visit);
        }
    }

    #[test]
    fn every_command_follows_one_grammar() {
        let mut number = 0;
        walk(&Cli::command(), &[], &mut |path, command| {
            number += 1;
            let name = path.join(" ");
            match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [word] => assert!(TOP_LEVEL.contains(word), "{name}"),
                [_, verb] => {
                    let first = verb.split('-').next().unwrap_or_default();
                    assert!(VERBS.contains(verb) || VERBS.contains(&first), "{name}: another verb");
                }
                // The secrets of a client are the only things that belong to another one.
                ["client", "secret", verb] => assert!(["add", "list", "remove"].contains(verb), "{name}: another verb"),
                _ => panic!("{name}: a command is a noun and a verb"),
            }
            let verb = path.last().map(String::as_str).unwrap_or_default();
            // The options of these commands are filters. For `explain`, they describe a request.
            let filters = ["list", "export", "revoke-all", "explain"].contains(&verb);
            let noun = path.first().map(String::as_str).unwrap_or_default();
            let mut optional = None;
            for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
                let Some(long) = argument.get_long().filter(|long| !["help", "version"].contains(long)) else {
                    continue;
                };
                let names_object = ["id", "sub", "kid", "sid", "grant", "user", "client", "session"].contains(&long)
                    || long == noun
                    // `user set --email` is the new address, not the user to change.
                    || (long == "email" && verb != "set");
                assert!(filters || !names_object, "{name} --{long}: an object is a position");
                if argument.is_required_set() {
                    assert_eq!(optional, None, "{name} --{long}: required options come first");
                } else {
                    optional = Some(long.to_owned());
                }
            }
        });
        assert!(number > 55, "{number}");
    }

    #[test]
    fn identifiers_may_begin_with_a_hyphen() {
        for id in ["-habcdefghijklmnopqrsA", "-Vabcdefghijklmnopqrsg", "--cdefghijklmnopqrstuw"] {
            for line in [["client", "show"], ["key", "retire"], ["session", "revoke"], ["mail", "delete"]] {
                let cli = Cli::try_parse_from(["sealgate", line[0], line[1], id, "--json"]);
                assert!(cli.is_ok_and(|cli| cli.json), "{line:?} {id}");
            }
        }
    }
}
