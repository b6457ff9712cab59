//! `sealgate app-password`.

use clap::Subcommand;

use super::access::Access;
use super::arguments::Whom;
use super::failure::CommandFailure;
use super::output::Output;
use super::user::meant;
use crate::admin::command::{AppPasswordCommand, Command};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List a person's application passwords: what they called each, for which application, and when it was last used
    List {
        #[command(flatten)]
        whom: Whom,
    },
    /// Revoke one: it opens nothing any more, and connections that it opened are closed
    Revoke {
        #[command(flatten)]
        whom: Whom,
        /// Its id, which `sealgate app-password list` shows
        #[arg(long, value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::List { whom } => {
            let list = access.ask(&Command::AppPassword(AppPasswordCommand::List(meant(whom)?)))?;
            let rows =
                list.members().get("app_passwords").and_then(|rows| rows.as_array()).cloned().unwrap_or_default();
            output.list("app_passwords", &rows, &["id", "app", "name", "created_at", "last_used_at"])
        }
        Verb::Revoke { whom, id } => {
            let command = AppPasswordCommand::Revoke { person: meant(whom)?, id };
            output.only(&access.ask(&Command::AppPassword(command))?, &["sub", "id", "app", "name", "revoked"])
        }
    }
}
