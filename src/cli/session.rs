//! `sealgate session`.

use std::collections::HashSet;

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::command::{Command, Person, SessionCommand};
use crate::domain::client::ClientId;
use crate::domain::grant::GrantId;
use crate::domain::session::SessionId;
use crate::domain::user::{Email, Subject};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List the browsers in which a person is signed in, or from which a client was given tokens that work
    List(ListArguments),
    /// End one session, or all sessions of a person or a client; tokens go on working (see: user revoke)
    End(EndArguments),
}

/// Which sessions are listed.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct ListArguments {
    /// In which this person is signed in
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    person: Option<Person>,
    /// In which the person with this sub is signed in
    #[arg(long, value_name = "SUB", value_parser = arguments::subject)]
    sub: Option<Subject>,
    /// In which the person with this e-mail address is signed in
    #[arg(long, value_name = "EMAIL", value_parser = arguments::email)]
    email: Option<Email>,
    /// From which this client was given tokens that work
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    client: Option<ClientId>,
}

/// Which sessions end.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct EndArguments {
    /// All sessions of this person
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    person: Option<Person>,
    /// All sessions of the person with this sub
    #[arg(long, value_name = "SUB", value_parser = arguments::subject)]
    sub: Option<Subject>,
    /// All sessions of the person with this e-mail address
    #[arg(long, value_name = "EMAIL", value_parser = arguments::email)]
    email: Option<Email>,
    /// The session with this sid
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    sid: Option<SessionId>,
    /// All sessions from which this client was given tokens that work
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    client: Option<ClientId>,
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    match verb {
        Verb::List(arguments) => list(arguments, access, output),
        Verb::End(arguments) => {
            let command = end(arguments)?;
            output.only(&access.ask(&Command::Session(command))?, &["sub", "sid", "client_id", "sessions_ended"])
        }
    }
}

fn end(arguments: EndArguments) -> Result<SessionCommand, CommandFailure> {
    let EndArguments { person, sub, email, sid, client } = arguments;
    let person = person.or(sub.map(Person::Sub)).or(email.map(Person::Email));
    let command = sid.map(SessionCommand::End).or(person.map(SessionCommand::EndAll));
    let command = command.or(client.map(SessionCommand::EndOfClient));
    command.ok_or_else(|| CommandFailure::line("name a person, a client or a session"))
}

fn list(arguments: ListArguments, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let ListArguments { person, sub, email, client } = arguments;
    let person = person.or(sub.map(Person::Sub)).or(email.map(Person::Email));
    let mut sessions = match (person, client) {
        (Some(person), _) => access.pages("sessions", |after| {
            let after = after.as_deref().and_then(SessionId::parse);
            Command::Session(SessionCommand::List { person: person.clone(), after })
        })?,
        (None, Some(client)) => access.pages("sessions", |after| {
            let after = after.as_deref().and_then(GrantId::parse);
            Command::Session(SessionCommand::ListOfClient { client: client.clone(), after })
        })?,
        (None, None) => return Err(CommandFailure::line("name a person or a client")),
    };
    // A session of which a client has several grants stands on each page that has one.
    let mut known = HashSet::new();
    sessions.retain(|session| known.insert(session["sid"].to_string()));
    output.list("sessions", &sessions, &["sid", "address", "created_at", "last_seen_at", "expires_at", "user_agent"])
}
