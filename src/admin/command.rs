//! What an operator can ask for. The values travel as JSON from the command line to a running server; a password in them
//! is written out there and nowhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

pub use super::client_settings::{ClientSettings, Setting};
use crate::domain::audit::{AuditId, AuditKind};
use crate::domain::client::{AuthMethod, ClientId, ClientType, ConsentRule};
use crate::domain::grant::GrantId;
use crate::domain::rate_limit::RateLimit;
use crate::domain::secret::Secret;
use crate::domain::session::SessionId;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Role, Subject};
use crate::domain::username::Username;

/// A command. Written as `{"noun":{"verb":…}}`: a form that serde reads without keeping the password in a buffer of its
/// own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Whether the server works.
    Status,
    /// Reads the configuration again and takes it over.
    Reload,
    /// Makes a copy of the store.
    Backup {
        /// The new directory that shall hold it, absolute.
        to: PathBuf,
    },
    /// About people.
    User(UserCommand),
    /// About clients.
    Client(ClientCommand),
    /// About browser sessions.
    Session(SessionCommand),
    /// About signing keys' lives; the token itself is the command line's and the signer's matter.
    Key(KeyCommand),
    /// About what clients were granted.
    Grant(GrantCommand),
    /// About what people allowed clients.
    Consent(ConsentCommand),
    /// About application passwords.
    AppPassword(AppPasswordCommand),
    /// A page of the audit trail.
    Audit(Box<AuditCommand>),
}

/// A command about people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserCommand {
    /// Adds a person.
    Add(Box<NewUser>),
    /// A page of all people.
    List {
        /// The last one of the page before.
        after: Option<Subject>,
    },
    /// One person.
    Show(Person),
    /// Changes what is known of a person.
    Set {
        /// Whose.
        person: Person,
        /// What becomes of it.
        changes: Box<UserChanges>,
    },
    /// Sets a password and ends the person's sessions and grants.
    SetPassword {
        /// Whose.
        person: Person,
        /// The new one.
        #[serde(serialize_with = "in_clear")]
        password: Secret,
    },
    /// Keeps a person out and ends their sessions and grants.
    Disable(Person),
    /// Lets a person in again.
    Enable(Person),
    /// Removes a person and all that hangs on them.
    Delete(Person),
    /// Ends a person's sessions and grants everywhere.
    Revoke(Person),
}

/// A command about clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientCommand {
    /// Adds a client.
    Add(Box<NewClient>),
    /// A page of all clients.
    List {
        /// The last one of the page before.
        after: Option<ClientId>,
    },
    /// One client.
    Show(ClientId),
    /// Makes a new secret.
    RotateSecret {
        /// Whose.
        id: ClientId,
        /// How long the secret before it still works, seconds.
        overlap_seconds: u64,
    },
    /// Refuses a client everywhere and ends its grants.
    Disable(ClientId),
    /// Takes a client again.
    Enable(ClientId),
    /// Vouches for a client that no operator made: its tokens open the applications that name no clients.
    Approve(ClientId),
    /// Takes that back.
    WithdrawApproval(ClientId),
    /// Removes a client and ends its grants.
    Delete(ClientId),
    /// Changes a client's settings.
    Set {
        /// Whose.
        id: ClientId,
        /// Which, and to what.
        settings: Box<ClientSettings>,
    },
    /// Makes a token that registers one client (RFC 7591 §3).
    InitialToken {
        /// How long it works, seconds.
        lifetime_seconds: u64,
    },
}

/// A command about browser sessions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionCommand {
    /// A page of the sessions in which a person is signed in.
    List {
        /// Whose.
        person: Person,
        /// The last one of the page before.
        after: Option<SessionId>,
    },
    /// A page of the sessions from which a client has a grant that is active.
    ListOfClient {
        /// Which.
        client: ClientId,
        /// The last grant that the page before looked at.
        after: Option<GrantId>,
    },
    /// Ends every session in which a person is signed in.
    EndAll(Person),
    /// Ends every session from which a client has a grant that is active.
    EndOfClient(ClientId),
    /// Ends one session.
    End(SessionId),
}

/// A command about signing keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyCommand {
    /// All keys that were announced.
    List,
    /// Notes that a key is about to be made, so that it is no stranger's, whatever becomes of its maker.
    Begin {
        /// The `CKA_ID` that it will have, hexadecimal.
        id: String,
        /// The kids of the keys in the token.
        others: Vec<String>,
    },
    /// Publishes a key that is in the token.
    Announce {
        /// Its kid.
        kid: String,
        /// Its `CKA_ID`, hexadecimal.
        id: String,
        /// The kids of the other keys in the token.
        others: Vec<String>,
    },
    /// Lets a key sign, instead of the one that signs until then.
    Activate {
        /// Which.
        kid: String,
        /// From when on; when verifiers know it, if absent.
        at: Option<UnixTime>,
        /// Even if verifiers may not know it yet.
        early: bool,
    },
    /// Takes a pre-published key back.
    Retire {
        /// Which.
        kid: String,
    },
    /// Removes a retired key once nothing that it signed is valid.
    Remove {
        /// Which.
        kid: String,
    },
    /// Removes a key at once.
    RemoveNow {
        /// Which.
        kid: String,
        /// The kids in the token, of which one may take over; any, where the token could not be looked at.
        in_token: Option<Vec<String>>,
    },
}

/// A command about what clients were granted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantCommand {
    /// A page of the grants that are active.
    List {
        /// Whose.
        of: GrantsOf,
        /// The last one that the page before looked at.
        after: Option<GrantId>,
    },
    /// Ends one grant.
    Revoke(GrantId),
    /// Ends many grants.
    RevokeAll(GrantsOf),
}

/// Which grants are meant: all that is given must fit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantsOf {
    /// About this person.
    pub person: Option<Person>,
    /// Of this client.
    pub client: Option<ClientId>,
    /// From this session.
    pub session: Option<SessionId>,
}

/// A command about what people allowed clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConsentCommand {
    /// A page of a person's consents.
    List {
        /// Whose.
        person: Person,
        /// The client of the last one of the page before.
        after: Option<ClientId>,
    },
    /// Takes a consent back and ends the grants of that person with that client.
    Withdraw {
        /// Whose.
        person: Person,
        /// For which client.
        client: ClientId,
    },
}

/// A command about a person's application passwords.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AppPasswordCommand {
    /// All that they have.
    List(Person),
    /// Revokes one.
    Revoke {
        /// Whose.
        person: Person,
        /// Which.
        id: String,
    },
}

/// A page of the audit trail, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCommand {
    /// About whom.
    pub person: Option<Person>,
    /// About which client.
    pub client: Option<ClientId>,
    /// Of which kinds; of all when empty.
    pub kinds: Vec<AuditKind>,
    /// From when on.
    pub since: Option<UnixTime>,
    /// Before when.
    #[serde(default)]
    pub until: Option<UnixTime>,
    /// The last one that the page before looked at.
    pub after: Option<AuditId>,
    /// Events at most.
    pub limit: usize,
}

/// A person, as an operator names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Person {
    /// By their `sub`.
    Sub(Subject),
    /// By their address.
    Email(Email),
    /// By their username.
    Username(Username),
}

impl Person {
    /// Reads a `sub`, an address if it holds an `@`, or a username. Nothing is two of them.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('@') {
            return Email::parse(text).map(Self::Email);
        }
        Subject::parse(text).map(Self::Sub).or_else(|| Username::parse(text).map(Self::Username))
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sub(sub) => sub.fmt(f),
            Self::Email(email) => f.write_str(email.as_str()),
            Self::Username(username) => username.fmt(f),
        }
    }
}

/// A person to be added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Address, with which they sign in.
    pub email: Email,
    /// Whether the address was verified.
    pub email_verified: bool,
    /// What they may sign in with as well.
    #[serde(default)]
    pub username: Option<Username>,
    /// Full name.
    pub name: String,
    /// International format.
    pub phone_number: Option<String>,
    /// URL of an image.
    pub picture: Option<String>,
    /// What they may do in the provider.
    pub roles: BTreeSet<Role>,
    /// The groups that applications see.
    pub groups: BTreeSet<String>,
    /// What they sign in with.
    #[serde(serialize_with = "in_clear")]
    pub password: Secret,
}

/// What becomes of something that somebody need not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change<T> {
    /// It stays.
    #[default]
    Keep,
    /// They have it no more.
    Remove,
    /// This.
    Set(T),
}

impl<T: Clone> Change<T> {
    /// Does it.
    pub fn apply(&self, to: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Remove => *to = None,
            Self::Set(value) => *to = Some(value.clone()),
        }
    }
}

/// What is to change of a person. What is absent stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserChanges {
    /// Another address. It counts as not verified unless `email_verified` says so.
    pub email: Option<Email>,
    /// Whether the address was verified.
    pub email_verified: Option<bool>,
    /// The username.
    pub username: Change<Username>,
    /// Full name.
    pub name: Option<String>,
    /// International format.
    pub phone_number: Change<String>,
    /// URL of an image.
    pub picture: Change<String>,
    /// All roles.
    pub roles: Option<BTreeSet<Role>>,
    /// All groups.
    pub groups: Option<BTreeSet<String>>,
    /// Groups beside those that they are in.
    pub add_groups: BTreeSet<String>,
    /// Groups that they leave.
    pub remove_groups: BTreeSet<String>,
}

/// A client to be added. URIs and scope are checked when it is added, so that every fault is told at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClient {
    /// Its identifier.
    pub id: ClientId,
    /// Its name, for people.
    pub name: String,
    /// Whether it can keep a secret.
    pub client_type: ClientType,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// Where browsers may be sent after a logout.
    pub post_logout_redirect_uris: Vec<String>,
    /// What it may ask for, space-separated; everything when absent.
    pub scope: Option<String>,
    /// How it authenticates; the usual way of its type when absent.
    pub auth_method: Option<AuthMethod>,
    /// Whether people are asked.
    pub consent: ConsentRule,
    /// How long a rotated refresh token still gives the same new one, seconds; what the configuration says when absent.
    pub refresh_retry_seconds: Option<u64>,
    /// How often it may come to the token endpoint; as often as the configuration says when absent.
    #[serde(default)]
    pub token_limit: Option<RateLimit>,
}

/// A secret as it is: for the socket, which only the server's own user and root can open.
fn in_clear<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_wire_and_never_prints_its_password() {
        let person = Person::parse("a@example.test").unwrap();
        let command = Command::User(UserCommand::SetPassword { person, password: Secret::new("correct horse") });
        let line = serde_json::to_string(&command).unwrap();
        assert_eq!(
            line,
            r#"{"user":{"set_password":{"person":{"email":"a@example.test"},"password":"correct horse"}}}"#
        );
        let read: Command = serde_json::from_str(&line).unwrap();
        let Command::User(UserCommand::SetPassword { password, .. }) = &read else { panic!("{read:?}") };
        assert_eq!(password.expose(), "correct horse");
        assert!(!format!("{read:?}").contains("horse"));
    }

    #[test]
    fn a_person_is_named_by_sub_address_or_username() {
        let sub = "6f2c6f0e-5a3b-4d5e-8f3a-0d6a2b1c4e5f";
        assert_eq!(Person::parse(sub).unwrap().to_string(), sub);
        assert_eq!(Person::parse("a@b").unwrap().to_string(), "a@b");
        assert_eq!(Person::parse("somebody").unwrap().to_string(), "somebody");
        assert_eq!(Person::parse("Some body"), None);
        assert_eq!(Person::parse("a@b@c"), None);
    }
}
