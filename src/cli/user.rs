//! `sealgate user`.

use clap::{Args, Subcommand};

use super::access::Access;
use super::arguments::{self, RoleName, Whom};
use super::failure::CommandFailure;
use super::output::Output;
use super::password::PasswordSource;
use crate::admin::command::{Change, Command, NewUser, Person, UserChanges, UserCommand};
use crate::domain::user::{Email, Subject};
use crate::domain::username::Username;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Add a person; prints their sub, a UUID that stays theirs
    Add(Box<NewArguments>),
    /// Change what is known of a person; what is not named stays
    Set(Box<SetArguments>),
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
    /// E-mail address, with which they sign in
    #[arg(long, value_parser = arguments::email)]
    email: Email,
    /// What they can sign in with as well, and what applications may call them
    #[arg(long, value_parser = arguments::username)]
    username: Option<Username>,
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

#[derive(Debug, Args)]
#[group(id = "changes", required = true, multiple = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(super) struct Changes {
    /// Another e-mail address; it counts as not verified unless --email-verified says so
    #[arg(long, value_parser = arguments::email)]
    email: Option<Email>,
    /// The address was verified
    #[arg(long, conflicts_with = "email_unverified")]
    email_verified: bool,
    /// The address was not verified
    #[arg(long)]
    email_unverified: bool,
    /// The username; applications that know the person by another one take them for somebody else
    #[arg(long, value_parser = arguments::username, conflicts_with = "no_username")]
    username: Option<Username>,
    /// No username any more; it is free for others then
    #[arg(long)]
    no_username: bool,
    /// Full name
    #[arg(long)]
    name: Option<String>,
    /// Phone number, such as +905551112233
    #[arg(long, value_name = "NUMBER", conflicts_with = "no_phone")]
    phone: Option<String>,
    /// No phone number any more
    #[arg(long)]
    no_phone: bool,
    /// The https URL of an image
    #[arg(long, value_name = "URL", conflicts_with = "no_picture")]
    picture: Option<String>,
    /// No picture any more
    #[arg(long)]
    no_picture: bool,
    /// What the person may do in Sealgate itself, in place of what they may; can be repeated
    #[arg(long, value_name = "ROLE", conflicts_with = "no_roles")]
    role: Vec<RoleName>,
    /// No role any more
    #[arg(long)]
    no_roles: bool,
    /// A group that applications see, in place of all that they are in; can be repeated
    #[arg(long, value_name = "GROUP", conflicts_with = "no_groups")]
    group: Vec<String>,
    /// In no group any more
    #[arg(long)]
    no_groups: bool,
    /// A further group; can be repeated
    #[arg(long, value_name = "GROUP")]
    add_group: Vec<String>,
    /// A group that they leave; can be repeated
    #[arg(long, value_name = "GROUP")]
    remove_group: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    /// The person's sub, e-mail address or username
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    person: Person,
    #[command(flatten)]
    changes: Changes,
}

pub(super) fn run(verb: Verb, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let command = match verb {
        Verb::Add(arguments) => {
            let added = access.ask(&Command::User(UserCommand::Add(Box::new(new(*arguments)?))))?;
            return output.only(&added, &["sub"]);
        }
        Verb::Set(arguments) => {
            let changes = Box::new(changes(arguments.changes));
            let set = UserCommand::Set { person: arguments.person, changes };
            return output.record(&access.ask(&Command::User(set))?);
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
pub(super) fn meant(whom: Whom) -> Result<Person, CommandFailure> {
    whom.person().ok_or_else(|| CommandFailure::line("name a person by sub or e-mail address"))
}

fn new(arguments: NewArguments) -> Result<NewUser, CommandFailure> {
    Ok(NewUser {
        email: arguments.email,
        email_verified: arguments.email_verified,
        username: arguments.username,
        name: arguments.name,
        phone_number: arguments.phone,
        picture: arguments.picture,
        roles: arguments.role.into_iter().map(Into::into).collect(),
        groups: arguments.group.into_iter().collect(),
        password: arguments.password.read()?,
    })
}

fn changes(arguments: Changes) -> UserChanges {
    let verified = arguments.email_verified || arguments.email_unverified;
    let roles = !arguments.role.is_empty() || arguments.no_roles;
    let groups = !arguments.group.is_empty() || arguments.no_groups;
    UserChanges {
        email: arguments.email,
        email_verified: verified.then_some(arguments.email_verified),
        username: change(arguments.username, arguments.no_username),
        name: arguments.name,
        phone_number: change(arguments.phone, arguments.no_phone),
        picture: change(arguments.picture, arguments.no_picture),
        roles: roles.then(|| arguments.role.into_iter().map(Into::into).collect()),
        groups: groups.then(|| arguments.group.into_iter().collect()),
        add_groups: arguments.add_group.into_iter().collect(),
        remove_groups: arguments.remove_group.into_iter().collect(),
    }
}

fn change<T>(to: Option<T>, remove: bool) -> Change<T> {
    match to {
        Some(to) => Change::Set(to),
        None if remove => Change::Remove,
        None => Change::Keep,
    }
}

fn list(access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    let users = access.pages("users", |after| {
        let after = after.as_deref().and_then(Subject::parse);
        Command::User(UserCommand::List { after })
    })?;
    output.list("users", &users, &["sub", "email", "username", "name", "state", "roles"])
}
