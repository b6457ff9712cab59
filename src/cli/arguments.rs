//! Arguments that several commands share.

use clap::{Args, ValueEnum};

use crate::admin::command::{Person, Setting};
use crate::domain::client::{AuthMethod, ClientId, ClientType, ConsentRule, GrantType};
use crate::domain::rate_limit::{RateLimit, RateLimitFault};
use crate::domain::session::SessionId;
use crate::domain::user::{Email, Role, Subject};
use crate::domain::username::Username;

/// Who is meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Whom {
    /// The person's sub, e-mail address or username
    #[arg(value_name = "SUB|EMAIL|USERNAME", value_parser = person)]
    person: Option<Person>,
    /// The person's sub
    #[arg(long, value_name = "SUB", value_parser = subject)]
    sub: Option<Subject>,
    /// The person's e-mail address
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    email: Option<Email>,
}

impl Whom {
    /// The person. One of the three is there: the group requires it.
    pub(super) fn person(self) -> Option<Person> {
        self.person.or(self.sub.map(Person::Sub)).or(self.email.map(Person::Email))
    }
}

/// Which client is meant. An id that was made up at a registration may begin with a hyphen: `--id` takes it.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Which {
    /// The client's id
    #[arg(value_name = "ID", value_parser = client_id)]
    client: Option<ClientId>,
    /// The client's id
    #[arg(long, value_name = "ID", value_parser = client_id, allow_hyphen_values = true)]
    id: Option<ClientId>,
}

impl Which {
    /// The client. One of the two is there: the group requires it.
    pub(super) fn id(self) -> Option<ClientId> {
        self.client.or(self.id)
    }
}

pub(super) fn person(text: &str) -> Result<Person, &'static str> {
    Person::parse(text).ok_or("neither a sub (a UUID), nor an e-mail address, nor a username")
}

pub(super) fn subject(text: &str) -> Result<Subject, &'static str> {
    Subject::parse(text).ok_or("a sub is a UUID")
}

pub(super) fn email(text: &str) -> Result<Email, &'static str> {
    Email::parse(text).ok_or("an e-mail address is written as name@host, without spaces")
}

pub(super) fn username(text: &str) -> Result<Username, &'static str> {
    Username::parse(text).ok_or(
        "a username has 1 to 64 of a-z, 0-9, '.', '_' and '-', a letter first, a letter or a digit last, and is no UUID",
    )
}

pub(super) fn client_id(text: &str) -> Result<ClientId, &'static str> {
    ClientId::parse(text).ok_or("a client id has 1 to 100 letters, digits, '-', '.', '_' or '~'")
}

pub(super) fn session_id(text: &str) -> Result<SessionId, &'static str> {
    SessionId::parse(text).ok_or("a sid is what `sealgate session list` shows")
}

pub(super) fn rate_limit(text: &str) -> Result<RateLimit, RateLimitFault> {
    RateLimit::parse(text)
}

/// A limit, or the word `default`.
pub(super) fn own_rate_limit(text: &str) -> Result<Setting<RateLimit>, &'static str> {
    let fault = "a rate limit is a whole number from 1 to 1000000, \"none\", or \"default\" for the configured one";
    if text == "default" { Ok(Setting::Removed) } else { RateLimit::parse(text).map(Setting::Set).map_err(|_| fault) }
}

/// Seconds, or the word `default`.
pub(super) fn own_seconds(text: &str) -> Result<Setting<u64>, &'static str> {
    let fault = "a whole number of seconds, or \"default\" for the configured one";
    if text == "default" { Ok(Setting::Removed) } else { text.parse().map(Setting::Set).map_err(|_| fault) }
}

/// Seconds, or the word `none`.
pub(super) fn some_seconds(text: &str) -> Result<Setting<u64>, &'static str> {
    let fault = "a whole number of seconds, or \"none\"";
    if text == "none" { Ok(Setting::Removed) } else { text.parse().map(Setting::Set).map_err(|_| fault) }
}

/// A person, or the word `none`.
pub(super) fn some_person(text: &str) -> Result<Setting<Person>, &'static str> {
    if text == "none" { Ok(Setting::Removed) } else { person(text).map(Setting::Set) }
}

/// `--role`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum RoleName {
    /// Registers clients
    Developer,
    /// Does everything
    Admin,
}

impl From<RoleName> for Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::Developer => Self::Developer,
            RoleName::Admin => Self::Admin,
        }
    }
}

/// `--type`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum TypeName {
    /// Cannot keep a secret: a mobile, desktop or single-page application
    Public,
    /// Keeps a secret: an application on a server
    Confidential,
}

impl From<TypeName> for ClientType {
    fn from(name: TypeName) -> Self {
        match name {
            TypeName::Public => Self::Public,
            TypeName::Confidential => Self::Confidential,
        }
    }
}

/// `--auth-method`.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum MethodName {
    /// HTTP Basic (the default of confidential clients)
    ClientSecretBasic,
    /// In the form body
    ClientSecretPost,
    /// None (the default, and the only one, of public clients)
    None,
}

impl From<MethodName> for AuthMethod {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::ClientSecretBasic => Self::ClientSecretBasic,
            MethodName::ClientSecretPost => Self::ClientSecretPost,
            MethodName::None => Self::None,
        }
    }
}

/// `--grant-type`.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum GrantName {
    /// A code that a sign-in gave becomes tokens
    AuthorizationCode,
    /// A refresh token becomes new tokens
    RefreshToken,
}

impl From<GrantName> for GrantType {
    fn from(name: GrantName) -> Self {
        match name {
            GrantName::AuthorizationCode => Self::AuthorizationCode,
            GrantName::RefreshToken => Self::RefreshToken,
        }
    }
}

/// `--consent`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ConsentName {
    /// People are asked before the client learns who they are
    Ask,
    /// The operator has decided for them: for applications of one's own
    Implied,
}

impl From<ConsentName> for ConsentRule {
    fn from(name: ConsentName) -> Self {
        match name {
            ConsentName::Ask => Self::Ask,
            ConsentName::Implied => Self::Implied,
        }
    }
}
