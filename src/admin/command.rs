//! What an operator can ask for. Each command is written once: as the command line reads it, with what `--help` says, and as
//! JSON, in which it goes from the command line to a running server. What the command line does not read is skipped there
//! and filled in, or given by the program itself. A password is written out on the socket and nowhere else.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::client_settings::{ClientSettings, NewClient};
use super::import_settings::{self, Import};
use super::person::Person;
use super::user_settings::{self, InviteArguments, Invitee, Invitees, NewPassword, NewUser, UserChanges};
use super::{arguments, reload};
use crate::domain::audit::AuditKind;
use crate::domain::client::ClientId;
use crate::domain::grant::GrantId;
use crate::domain::session::SessionId;
use crate::domain::time::UnixTime;

/// A command. Written as `{"noun":{"verb":…}}`: a form that serde reads without keeping the password in a buffer of its
/// own.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Ask the running server whether it works
    Status,
    /// Have the running server take over its configuration file, without dropping a connection: all of it, or nothing
    #[command(long_about = reload::ABOUT)]
    Reload,
    /// People: who may sign in
    #[command(subcommand)]
    User(UserCommand),
    /// Client applications: who may ask for tokens
    #[command(subcommand)]
    Client(ClientCommand),
    /// Browser sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Grants: the tokens that clients were given for people
    #[command(subcommand)]
    Grant(GrantCommand),
    /// Consents: what people allowed clients
    #[command(subcommand)]
    Consent(ConsentCommand),
    /// Application passwords: what people made on their account page for programs that can only do HTTP Basic
    #[command(subcommand)]
    AppPassword(AppPasswordCommand),
    /// Mails: what waits, what was given up, what was sent
    #[command(skip)]
    Mail(MailCommand),
    /// A page of the audit trail
    #[command(skip)]
    Audit(Box<AuditCommand>),
    /// Makes a copy of the store
    #[command(skip)]
    Backup {
        /// The new directory that shall hold it, absolute
        to: PathBuf,
    },
    /// Signing keys' lives; the token itself is the command line's and the signer's matter
    #[command(skip)]
    Key(KeyCommand),
    /// Nodes of a fleet; most of it is the command line's and the database's matter
    #[command(skip)]
    Node(NodeCommand),
}

impl Command {
    /// After which row the page begins, of a command that lists page by page: what the page before called `next`.
    pub fn after(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::User(UserCommand::List { after } | UserCommand::Export { after, .. })
            | Self::Client(ClientCommand::List { after })
            | Self::Session(SessionCommand::List { after, .. })
            | Self::Grant(GrantCommand::List { after, .. })
            | Self::Consent(ConsentCommand::List { after, .. })
            | Self::Mail(MailCommand::List { after, .. }) => Some(after),
            Self::Audit(command) => Some(&mut command.after),
            _ => None,
        }
    }

    /// Whether the operator waits until every node of a fleet has heard of it.
    pub fn waits(&self) -> bool {
        match self {
            Self::User(UserCommand::Disable(ending) | UserCommand::Delete(ending) | UserCommand::Revoke(ending)) => {
                ending.wait
            }
            Self::AppPassword(AppPasswordCommand::Revoke { wait, .. }) => *wait,
            _ => false,
        }
    }

    /// The password that it sets, to be filled in.
    pub fn password(&mut self) -> Option<&mut NewPassword> {
        match self {
            Self::User(UserCommand::Add(new)) => Some(&mut new.password),
            Self::User(UserCommand::SetPassword { password, .. }) => Some(password),
            _ => None,
        }
    }
}

/// A command about people.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserCommand {
    /// Add a person; prints their sub, a UUID that stays theirs. Without a password they are invited, where the server sends mail
    Add(Box<NewUser>),
    /// Invite a person, or those of a file: they get a link by mail, good for 7 days, by which they choose a password or a passkey
    #[command(long_about = user_settings::ABOUT_INVITATIONS)]
    #[serde(skip)]
    Invite(Box<InviteArguments>),
    /// The same as it goes to the server
    #[command(skip)]
    InvitePerson(Box<Invitee>),
    #[command(skip)]
    InviteMany(Box<Invitees>),
    /// A person's invitation
    Invitation {
        /// The person's sub, e-mail address or username
        #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
        person: Person,
        /// What becomes of it
        #[command(subcommand)]
        command: InvitationCommand,
    },
    /// Change what is known of a person; what is not named stays
    Set {
        /// The person's sub, e-mail address or username
        #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
        person: Person,
        /// What becomes of it
        #[command(flatten)]
        changes: Box<UserChanges>,
    },
    /// Add the people of another system, with the hashes of their passwords: all of them, or nobody and a report by line
    #[command(long_about = import_settings::ABOUT)]
    Import(Box<Import>),
    /// Write all people as CSV, without the hashes of their passwords
    Export {
        /// How they are written
        #[arg(long, value_enum, default_value_t)]
        #[serde(skip)]
        format: ExportFormat,
        /// A new file, or - for standard output
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        #[serde(skip)]
        to: PathBuf,
        /// The last one of the page before
        #[arg(skip)]
        after: Option<String>,
    },
    /// List all people
    List {
        /// The last one of the page before
        #[arg(skip)]
        after: Option<String>,
    },
    /// Show what is known of a person
    Show(Person),
    /// Set a person's password and end their sessions and tokens everywhere
    SetPassword {
        /// Whose
        #[command(flatten)]
        person: Person,
        /// The new one
        #[command(flatten)]
        password: NewPassword,
    },
    /// Keep a person out: they cannot sign in, their sessions and tokens end
    Disable(PersonToEnd),
    /// Let a disabled person in again; they have to sign in anew
    Enable(Person),
    /// Remove a person with their sessions, tokens and consents
    Delete(PersonToEnd),
    /// End a person's sessions and tokens everywhere; they may sign in again
    Revoke(PersonToEnd),
    /// A person's second factors: authenticator apps, security keys, passkeys, recovery codes
    Factors {
        /// The person's sub, e-mail address or username
        #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
        person: Person,
        /// What becomes of them
        #[command(subcommand)]
        command: FactorCommand,
    },
}

/// Whose access ends. Sent as the person alone: who asked does the waiting.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonToEnd {
    #[command(flatten)]
    pub(super) person: Person,
    /// Return only when every node of a fleet has heard of it: nobody is let in on what has ended any more
    #[arg(long)]
    #[serde(skip)]
    wait: bool,
}

impl From<Person> for PersonToEnd {
    fn from(person: Person) -> Self {
        Self { person, wait: false }
    }
}

/// A command about a person's invitation.
#[derive(Debug, Clone, Copy, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvitationCommand {
    /// Mail a new link, to somebody who has neither a password nor a passkey; a link that was mailed before is dead
    Resend,
    /// Make the link dead. The account stays, and nobody can sign in as it
    Withdraw,
}

/// How people are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values with a header (RFC 4180); before a cell that a spreadsheet would run stands an apostrophe
    #[default]
    Csv,
}

/// A command about a person's factors.
#[derive(Debug, Clone, Copy, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorCommand {
    /// List what the person has, when each was added, and when it was last used
    List,
    /// Remove all of them, end the person's sessions, tokens and application passwords, and print a link, this once, by which
    /// they add a new one within 24 hours. Until they have, their password alone lets nobody in
    Reset,
    /// Let codes be tried again after too many wrong ones
    Unblock,
}

/// A command about clients.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientCommand {
    /// Add a client; prints the secret of a confidential one, this once
    Add(Box<NewClient>),
    /// List all clients
    List {
        /// The last one of the page before
        #[arg(skip)]
        after: Option<String>,
    },
    /// Show what is known of a client
    Show(ClientId),
    /// Change settings of a client, whoever made it; what is not named stays as it is
    #[command(override_usage = "sealgate client set [OPTIONS] <ID|--id <ID>> <--SETTING VALUE>...")]
    Set {
        /// Whose
        #[command(flatten)]
        client: ClientId,
        /// Which, and to what
        #[command(flatten)]
        settings: Box<ClientSettings>,
    },
    /// Make a new secret, and print it this once. At most five secrets work at the same time
    RotateSecret {
        /// Whose
        #[command(flatten)]
        client: ClientId,
        /// How long the secret before it goes on working; older ones keep their own end. 0 ends all of them at once
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        overlap_seconds: u64,
    },
    /// Refuse a client everywhere and end the tokens that it was given
    Disable(ClientId),
    /// Take a disabled client again; people have to sign in to it anew
    Enable(ClientId),
    /// Vouch for a client that a developer made, or that registered itself: its tokens then open every application without
    /// a list of clients
    Approve(ClientId),
    /// Take an approval back
    WithdrawApproval(ClientId),
    /// Remove a client and end the tokens that it was given
    Delete(ClientId),
    /// Set how long a refresh token that was just rotated still gives the very same new one
    RefreshRetry {
        /// Whose
        #[command(flatten)]
        client: ClientId,
        /// How long, 0 to 300 [default: what the configuration says]
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Make a token with which one client can be registered over HTTP (RFC 7591); printed this once
    InitialToken {
        /// How long it works
        #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
        lifetime_seconds: u64,
    },
}

/// A command about browser sessions.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionCommand {
    /// List the browsers in which a person is signed in, or from which a client was given tokens that work
    List {
        /// Which
        #[command(flatten)]
        of: SessionsOf,
        /// The last one of the page before
        #[arg(skip)]
        after: Option<String>,
    },
    /// End one session, or all sessions of a person or a client; tokens go on working (see: user revoke)
    End(SessionsToEnd),
}

/// Which sessions are listed.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[group(required = true, multiple = false)]
#[serde(deny_unknown_fields)]
pub struct SessionsOf {
    /// In which this person is signed in
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    pub(super) person: Option<Person>,
    /// In which the person with this sub is signed in
    #[arg(long, value_name = "SUB", value_parser = arguments::subject)]
    pub(super) sub: Option<Person>,
    /// In which the person with this e-mail address is signed in
    #[arg(long, value_name = "EMAIL", value_parser = arguments::email_of)]
    pub(super) email: Option<Person>,
    /// From which this client was given tokens that work
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub(super) client: Option<ClientId>,
}

/// Which sessions end.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[group(required = true, multiple = false)]
#[serde(default, deny_unknown_fields)]
pub struct SessionsToEnd {
    /// All sessions of this person
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    pub(super) person: Option<Person>,
    /// All sessions of the person with this sub
    #[arg(long, value_name = "SUB", value_parser = arguments::subject)]
    pub(super) sub: Option<Person>,
    /// All sessions of the person with this e-mail address
    #[arg(long, value_name = "EMAIL", value_parser = arguments::email_of)]
    pub(super) email: Option<Person>,
    /// The session with this sid
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    pub(super) sid: Option<SessionId>,
    /// All sessions from which this client was given tokens that work
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub(super) client: Option<ClientId>,
}

impl From<SessionId> for SessionsToEnd {
    fn from(sid: SessionId) -> Self {
        Self { sid: Some(sid), ..Self::default() }
    }
}

/// A command about what clients were granted.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantCommand {
    /// List the grants whose tokens work: of a person, a client, a session, or of all that is named together
    List {
        /// Whose
        #[command(flatten)]
        of: GrantsOf,
        /// The last one that the page before looked at
        #[arg(skip)]
        after: Option<String>,
    },
    /// End one grant, or all that are named; access and refresh tokens of it work no more
    Revoke(GrantsToEnd),
}

/// Which grants are listed: all that is given must fit.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[group(required = true, multiple = true)]
#[serde(deny_unknown_fields)]
pub struct GrantsOf {
    /// About this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    pub(super) user: Option<Person>,
    /// Of this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub(super) client: Option<ClientId>,
    /// From this session
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    pub(super) session: Option<SessionId>,
}

/// Which grants end: one, or all that everything fits that is given.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[group(required = true, multiple = true)]
#[serde(deny_unknown_fields)]
pub struct GrantsToEnd {
    /// The grant with this id, which `sealgate grant list` shows
    #[arg(long, value_name = "GRANT", value_parser = arguments::grant_id, allow_hyphen_values = true,
        conflicts_with_all = ["user", "client", "session"])]
    pub(super) grant: Option<GrantId>,
    /// All about this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    pub(super) user: Option<Person>,
    /// All of this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub(super) client: Option<ClientId>,
    /// All from this session
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    pub(super) session: Option<SessionId>,
}

/// A command about what people allowed clients.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConsentCommand {
    /// List what a person has allowed clients
    List {
        /// Who
        #[command(flatten)]
        person: Person,
        /// The client of the last one of the page before
        #[arg(skip)]
        after: Option<String>,
    },
    /// Take a consent back: the person is asked anew, and the client's tokens for them work no more
    Withdraw {
        /// Whose
        #[command(flatten)]
        person: Person,
        /// The client's id
        #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
        client: ClientId,
    },
}

/// A command about a person's application passwords.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AppPasswordCommand {
    /// List a person's application passwords: what they called each, for which application, and when it was last used
    List(Person),
    /// Revoke one: it opens nothing any more, and connections that it opened are closed
    Revoke {
        /// Whose
        #[command(flatten)]
        person: Person,
        /// Its id, which `sealgate app-password list` shows
        #[arg(long, value_name = "ID", allow_hyphen_values = true)]
        id: String,
        /// Return only when every node of a fleet has heard of it: nobody is let in by it any more
        #[arg(long)]
        #[serde(skip)]
        wait: bool,
    },
}

/// A command about mails.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MailCommand {
    /// List the mails that were given up and those that wait, without what they say
    List {
        /// List those that were sent in the last 30 days instead, the newest first
        #[arg(long)]
        sent: bool,
        /// The last one of the page before
        #[arg(skip)]
        #[serde(default)]
        after: Option<String>,
    },
    /// Have a mail be tried now that waits or was given up
    Retry {
        /// Its id, which `sealgate mail list` shows
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
    /// Remove a mail that waits or was given up; it is never sent
    Drop {
        /// Its id, which `sealgate mail list` shows
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

/// A command about a node of the fleet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeCommand {
    /// Takes a new node in, whose token is its own
    Admit {
        /// Its name
        node: String,
        /// The thumbprint of its signing key, as it shows it
        key: String,
        /// The thumbprint of its enrolment key
        enrolment: String,
    },
}

/// A command about signing keys.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyCommand {
    /// All keys that were announced
    #[command(skip)]
    List,
    /// Notes that a key is about to be made, so that it is no stranger's, whatever becomes of its maker
    #[command(skip)]
    Begin {
        /// The `CKA_ID` that it will have, hexadecimal
        id: String,
        /// The kids of the keys in the token
        others: Vec<String>,
    },
    /// Takes the keys of a node out that has a token of its own
    #[command(skip)]
    RetireNode {
        /// Its name
        node: String,
        /// Even what they signed is refused
        now: bool,
    },
    /// Publish a key that was put into the token by other means than `generate --next`
    Announce {
        /// The key's kid, as `sealgate key list` shows it
        #[arg(long, value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// Its `CKA_ID`, hexadecimal
        #[arg(skip)]
        id: String,
        /// The kids of the other keys in the token
        #[arg(skip)]
        others: Vec<String>,
    },
    /// Let a published key sign, once verifiers know it; the one that signs until then is retired, and removed later
    Activate {
        /// The key's kid, as `sealgate key list` shows it
        #[arg(long, value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// From when on, such as 2027-01-31T08:00:00Z; as early as verifiers know it when left out
        #[arg(long, value_name = "RFC3339", value_parser = arguments::instant)]
        at: Option<UnixTime>,
        /// Even if verifiers may not know the key yet and refuse its tokens until they fetch the keys again
        #[arg(long)]
        early: bool,
    },
    /// Take back a published key that does not sign yet
    Retire {
        /// The key's kid, as `sealgate key list` shows it
        #[arg(long, value_name = "KID", allow_hyphen_values = true)]
        kid: String,
    },
    /// Publish a retired key no more, once nothing that it signed is valid
    Remove {
        /// The key's kid, as `sealgate key list` shows it
        #[arg(long, value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// At once, whatever it signed: for a key that others may be using. Another key takes over at once
        #[arg(long)]
        now: bool,
        /// The kids in the token, of which one may take over at once; any, where the token could not be looked at
        #[arg(skip)]
        in_token: Option<Vec<String>>,
    },
}

/// A page of the audit trail, the newest first.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCommand {
    /// Of which events
    #[command(flatten)]
    pub filter: EventFilter,
    /// Events at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub limit: usize,
    /// The last one that the page before looked at
    #[arg(skip)]
    pub after: Option<String>,
}

/// Which events are wanted.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// About this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    pub(super) user: Option<Person>,
    /// With or about this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub(super) client: Option<ClientId>,
    /// Of this kind, such as `sign_in_failed`; can be repeated
    #[arg(long = "kind", value_name = "KIND", value_parser = arguments::audit_kind)]
    pub(super) kinds: Vec<AuditKind>,
    /// From this day or instant on, such as 2026-11-21 or 2026-11-21T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = arguments::day_or_instant)]
    pub(super) since: Option<UnixTime>,
    /// Before this day or instant
    #[arg(long, value_name = "TIME", value_parser = arguments::day_or_instant)]
    pub(super) until: Option<UnixTime>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;

    #[test]
    fn a_command_survives_the_wire_and_never_prints_its_password() {
        let person = Person::parse("a@example.test").unwrap();
        let password = Secret::new("correct horse").into();
        let command = Command::User(UserCommand::SetPassword { person, password });
        let line = serde_json::to_string(&command).unwrap();
        assert_eq!(
            line,
            r#"{"user":{"set_password":{"person":{"email":"a@example.test"},"password":"correct horse"}}}"#
        );
        let read: Command = serde_json::from_str(&line).unwrap();
        let Command::User(UserCommand::SetPassword { password, .. }) = &read else { panic!("{read:?}") };
        assert_eq!(password.secret.expose(), "correct horse");
        assert!(!format!("{read:?}").contains("horse"));
    }
}
