//! `sealgate mail`.

use clap::Subcommand;

use super::access::StoreAccess;
use super::command;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::command::{Command, MailCommand};

#[derive(Debug, Subcommand)]
pub(super) enum MailVerb {
    #[command(flatten)]
    Kept(MailCommand),
}

pub(super) fn run(verb: MailVerb, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        MailVerb::Kept(command) => command::run(Command::Mail(command), access, output),
    }
}
