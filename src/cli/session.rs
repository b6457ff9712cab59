//! `sealgate session`.

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments::{self, Whom};
use super::failure::Failure;
use super::output::Output;
use super::user::meant;
use crate::admin::command::{Command, Person, SessionCommand};
use crate::protocol::session::SessionId;
use crate::protocol::user::{Email, Subject};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// List the browsers in which a person is signed in
    List {
        #[command(flatten)]
        whom: Whom,
    },
    /// End one session, or all sessions of a person; tokens go on working (see: user revoke)
    End(EndArguments),
}

/// Which sessions end.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct EndArguments {
    /// All sessions of this person
    #[arg(value_name = "SUB|EMAIL", value_parser = arguments::person)]
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
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), Failure> {
    match verb {
        Verb::List { whom } => list(&meant(whom)?, access, output),
        Verb::End(arguments) => {
            let command = end(arguments)?;
            output.only(&access.ask(&Command::Session(command))?, &["sub", "sid", "sessions_ended"])
        }
    }
}

fn end(arguments: EndArguments) -> Result<SessionCommand, Failure> {
    let EndArguments { person, sub, email, sid } = arguments;
    let person = person.or(sub.map(Person::Sub)).or(email.map(Person::Email));
    let command = sid.map(SessionCommand::End).or(person.map(SessionCommand::EndAll));
    command.ok_or_else(|| Failure::line("name a person or a session"))
}

fn list(person: &Person, access: &mut Access, output: &Output) -> Result<(), Failure> {
    let sessions = access.pages("sessions", |after| {
        let after = after.as_deref().and_then(SessionId::parse);
        Command::Session(SessionCommand::List { person: person.clone(), after })
    })?;
    output.list("sessions", &sessions, &["sid", "address", "created_at", "last_seen_at", "expires_at", "user_agent"])
}
