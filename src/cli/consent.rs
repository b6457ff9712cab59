//! `sealgate consent`.

use clap::Subcommand;

use super::access::Access;
use super::arguments::{self, Whom};
use super::failure::CommandFailure;
use super::output::Output;
use super::user::meant;
use crate::admin::command::{Command, ConsentCommand, Person};
use crate::domain::client::ClientId;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List what a person has allowed clients
    List {
        #[command(flatten)]
        whom: Whom,
    },
    /// Take a consent back: the person is asked anew, and the client's tokens for them work no more
    Withdraw {
        #[command(flatten)]
        whom: Whom,
        /// The client's id
        #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
        client: ClientId,
    },
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::List { whom } => list(&meant(whom)?, access, output),
        Verb::Withdraw { whom, client } => {
            let command = ConsentCommand::Withdraw { person: meant(whom)?, client };
            output.only(&access.ask(&Command::Consent(command))?, &["sub", "client_id", "withdrawn", "grants_ended"])
        }
    }
}

fn list(person: &Person, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let consents = access.pages("consents", |after| {
        let after = after.as_deref().and_then(ClientId::parse);
        Command::Consent(ConsentCommand::List { person: person.clone(), after })
    })?;
    output.list("consents", &consents, &["client_id", "scope", "given_at"])
}
