//! `sealgate grant`.

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::command::{Command, GrantCommand, GrantsOf, Person};
use crate::domain::client::ClientId;
use crate::domain::grant::GrantId;
use crate::domain::session::SessionId;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List the grants whose tokens work: of a person, a client, a session, or of all that is named together
    List(OfArguments),
    /// End one grant, or all that are named; access and refresh tokens of it work no more
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct OfArguments {
    /// About this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    user: Option<Person>,
    /// Of this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    client: Option<ClientId>,
    /// From this session
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    session: Option<SessionId>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct RevokeArguments {
    /// The grant with this id, which `sealgate grant list` shows
    #[arg(long, value_name = "GRANT", value_parser = grant_id, allow_hyphen_values = true,
        conflicts_with_all = ["user", "client", "session"])]
    grant: Option<GrantId>,
    /// All about this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    user: Option<Person>,
    /// All of this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    client: Option<ClientId>,
    /// All from this session
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    session: Option<SessionId>,
}

impl From<OfArguments> for GrantsOf {
    fn from(of: OfArguments) -> Self {
        Self { person: of.user, client: of.client, session: of.session }
    }
}

fn grant_id(text: &str) -> Result<GrantId, &'static str> {
    GrantId::parse(text).ok_or("a grant's id is what `sealgate grant list` shows")
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::List(of) => list(&of.into(), access, output),
        Verb::Revoke(RevokeArguments { grant, user, client, session }) => {
            let command = match grant {
                Some(grant) => GrantCommand::Revoke(grant),
                None => GrantCommand::RevokeAll(GrantsOf { person: user, client, session }),
            };
            output.only(&access.ask(&Command::Grant(command))?, &["grant", "grants_ended"])
        }
    }
}

fn list(of: &GrantsOf, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let grants = access.pages("grants", |after| {
        let after = after.as_deref().and_then(GrantId::parse);
        Command::Grant(GrantCommand::List { of: of.clone(), after })
    })?;
    output.list("grants", &grants, &["grant", "sub", "client_id", "sid", "scope", "created_at", "expires_at"])
}
