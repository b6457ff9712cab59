//! `sealgate user`.

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments::{self, RoleName, Whom};
use super::failure::Failure;
use super::output::Output;
use super::password::PasswordSource;
use crate::admin::command::{Command, NewUser, Person, UserCommand};
use crate::protocol::user::{Email, Subject};

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Add a person; prints their sub, a UUID that stays theirs
    Add(Box<NewArguments>),
    /// List all people
    List,
    /// Show what is known of a person
    Show {
        #[command(flatten)]
        whom: Whom,
    },
    /// Set a person's password and end their sessions and tokens everywhere
    SetPassword {
        #[command(flatten)]
        whom: Whom,
        #[command(flatten)]
        password: PasswordSource,
    },
    /// Keep a person out: they cannot sign in, their sessions and tokens end
    Disable {
        #[command(flatten)]
        whom: Whom,
    },
    /// Let a disabled person in again; they have to sign in anew
    Enable {
        #[command(flatten)]
        whom: Whom,
    },
    /// Remove a person with their sessions, tokens and consents
    Delete {
        #[command(flatten)]
        whom: Whom,
    },
    /// End a person's sessions and tokens everywhere; they may sign in again
    Revoke {
        #[command(flatten)]
        whom: Whom,
    },
}

#[derive(Debug, Args)]
pub(super) struct NewArguments {
    /// E-mail address, which is also the sign-in name
    #[arg(long, value_parser = arguments::email)]
    email: Email,
    /// Full name
    #[arg(long)]
    name: String,
    /// Phone number, such as +905551112233
    #[arg(long, value_name = "NUMBER")]
    phone: Option<String>,
    /// The https URL of an image
    #[arg(long, value_name = "URL")]
    picture: Option<String>,
    /// The address was verified
    #[arg(long)]
    email_verified: bool,
    /// What the person may do in Sealgate itself; can be repeated
    #[arg(long, value_name = "ROLE")]
    role: Vec<RoleName>,
    /// A group that applications see; can be repeated
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    #[command(flatten)]
    password: PasswordSource,
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), Failure> {
    let command = match verb {
        Verb::Add(arguments) => {
            let added = access.ask(&Command::User(UserCommand::Add(Box::new(new(*arguments)?))))?;
            return output.only(&added, &["sub"]);
        }
        Verb::List => return list(access, output),
        Verb::SetPassword { whom, password } => {
            UserCommand::SetPassword { person: meant(whom)?, password: password.read()? }
        }
        Verb::Show { whom } => UserCommand::Show(meant(whom)?),
        Verb::Disable { whom } => UserCommand::Disable(meant(whom)?),
        Verb::Enable { whom } => UserCommand::Enable(meant(whom)?),
        Verb::Delete { whom } => UserCommand::Delete(meant(whom)?),
        Verb::Revoke { whom } => UserCommand::Revoke(meant(whom)?),
    };
    let shown: &[&str] = match command {
        UserCommand::Show(_) => return output.record(&access.ask(&Command::User(command))?),
        UserCommand::Delete(_) => &["sub", "email", "deleted"],
        _ => &["sub", "email", "state", "sessions_ended", "grants_ended"],
    };
    output.only(&access.ask(&Command::User(command))?, shown)
}

/// The person that is meant.
pub(super) fn meant(whom: Whom) -> Result<Person, Failure> {
    whom.person().ok_or_else(|| Failure::line("name a person by sub or e-mail address"))
}

fn new(arguments: NewArguments) -> Result<NewUser, Failure> {
    Ok(NewUser {
        email: arguments.email,
        email_verified: arguments.email_verified,
        name: arguments.name,
        phone_number: arguments.phone,
        picture: arguments.picture,
        roles: arguments.role.into_iter().map(Into::into).collect(),
        groups: arguments.group.into_iter().collect(),
        password: arguments.password.read()?,
    })
}

fn list(access: &mut Access, output: &Output) -> Result<(), Failure> {
    let users = access.pages("users", |after| {
        let after = after.as_deref().and_then(Subject::parse);
        Command::User(UserCommand::List { after })
    })?;
    output.list("users", &users, &["sub", "email", "name", "state", "roles"])
}
