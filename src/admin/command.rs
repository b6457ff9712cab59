//! Commands of an operator, with their command-line syntax, `--help` text and JSON form.
//!
//! The command line sends a command as JSON to the socket of the running server. Without a server,
//! it executes the command itself. The console executes the same commands.
//!
//! Fields with `#[arg(skip)]` are not arguments: the program sets them, such as the cursor of a
//! page. Fields with `#[serde(skip)]` are arguments that only the command line itself uses.
//! Passwords are serialized in clear text, because only the socket carries the JSON form. `Debug`
//! omits them.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::arguments::{ClientArgument, SecretExpiry};
use super::client_settings::{ClientSettings, NewClient};
use super::user_settings::{InviteArguments, Invitee, Invitees, NewPassword, NewUser, UserChanges};
use super::{arguments, user_settings};
use crate::import::Import;
use crate::users::UserRef;
use crate::{execute, import};
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::session::SessionId;
use sealgate_domain::source::{SourceLink, SourceName};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User, UserState, plain_letters};
use sealgate_domain::username::Username;

/// A command, serialised as `{"noun":{"verb":…}}`.
///
/// Serde reads this form without copying the password to another buffer.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Show whether the running server works
    Status,
    /// Apply the configuration file to the running server
    #[command(long_about = execute::ABOUT)]
    Reload,
    /// Manage users
    #[command(subcommand)]
    User(UserCommand),
    /// Manage OAuth clients
    #[command(subcommand)]
    Client(ClientCommand),
    /// List and revoke browser sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// List and revoke grants (the tokens of a client for a user)
    #[command(subcommand)]
    Grant(GrantCommand),
    /// List and revoke consents
    #[command(subcommand)]
    Consent(ConsentCommand),
    /// List and revoke application passwords
    #[command(subcommand)]
    AppPassword(AppPasswordCommand),
    /// Manage users' names and passwords at applications with their own login form
    ///
    /// The gateway signs the user in to such an application.
    #[command(subcommand)]
    AppLogin(AppLoginCommand),
    /// Manage tokens for the admin API
    #[command(subcommand)]
    ApiToken(ApiTokenCommand),
    /// List, retry and delete mails
    #[command(skip)]
    Mail(MailCommand),
    /// Read a page of the audit log
    #[command(skip)]
    Audit(Box<AuditCommand>),
    /// Copy the store
    #[command(skip)]
    Backup {
        /// New directory for the copy, absolute
        to: PathBuf,
    },
    /// Change the schedule of signing keys. The command does not access the PKCS#11 token; the
    /// command line and the signer do
    #[command(skip)]
    Key(KeyCommand),
    /// Accept that many accounts of a directory are gone
    #[command(skip)]
    Directory(DirectoryCommand),
    /// Manage nodes of a cluster. For most of these commands, the command line changes the database
    /// itself
    #[command(skip)]
    Node(NodeCommand),
}

impl Command {
    /// Returns the cursor of a command that lists page by page, so that the caller can set it to the
    /// `next` of the previous page.
    pub fn cursor_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            Self::User(UserCommand::List { after, .. } | UserCommand::Export { after, .. })
            | Self::Client(ClientCommand::List { after })
            | Self::Session(SessionCommand::List { after, .. })
            | Self::Grant(GrantCommand::List { after, .. })
            | Self::Consent(ConsentCommand::List { after, .. })
            | Self::Mail(MailCommand::List { after, .. }) => Some(after),
            Self::Audit(command) => Some(&mut command.after),
            _ => None,
        }
    }

    /// Returns whether the operator asked to wait until every node of a cluster has applied the
    /// command.
    pub fn wants_wait(&self) -> bool {
        match self {
            Self::User(UserCommand::Disable(ending) | UserCommand::Delete(ending) | UserCommand::Revoke(ending)) => {
                ending.wait
            }
            Self::AppPassword(AppPasswordCommand::Revoke { wait, .. }) => *wait,
            _ => false,
        }
    }

    /// Returns the password that the command sets, so that the caller can fill it in.
    pub fn password_mut(&mut self) -> Option<&mut NewPassword> {
        match self {
            Self::User(UserCommand::Add(new)) => Some(&mut new.password),
            Self::User(UserCommand::SetPassword { password, .. })
            | Self::AppLogin(AppLoginCommand::Set { password, .. }) => Some(password),
            _ => None,
        }
    }
}

/// Commands about users.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum UserCommand {
    /// Add a user, or invite one
    ///
    /// Prints the user's ID (sub), a UUID that never changes. Without a password the user is invited by mail, if the
    /// server sends mail.
    Add(Box<NewUser>),
    /// Invite a user, or the users in a file, by mail
    #[command(long_about = user_settings::ABOUT_INVITATIONS)]
    #[serde(skip)]
    Invite(Box<InviteArguments>),
    /// Form of `Invite` for one user that is sent to the server
    #[command(skip)]
    InviteUser(Box<Invitee>),
    /// Form of `Invite --from` that is sent to the server: all users of the file
    #[command(skip)]
    InviteMany(Box<Invitees>),
    /// Send a new invitation link; the previous one stops working
    ///
    /// For a user who has neither a password nor a passkey.
    ResendInvitation {
        /// User to invite again
        #[command(flatten)]
        user: UserRef,
        /// Print the link instead of sending it; needs neither a server nor mail
        #[arg(long)]
        #[serde(default)]
        print_link: bool,
    },
    /// Revoke a user's invitation link
    ///
    /// The account stays, and no one can sign in to it.
    RevokeInvitation(UserRef),
    /// Change a user's details; settings that are not given stay unchanged
    #[command(override_usage = "sealgate user set [OPTIONS] <USER> <--SETTING [VALUE]>...")]
    Set {
        /// User to change
        #[command(flatten)]
        user: UserRef,
        /// Changes
        #[command(flatten)]
        changes: Box<UserChanges>,
    },
    /// Import users of another system with their password hashes
    #[command(long_about = import::ABOUT)]
    Import(Box<Import>),
    /// Export all users as CSV, without password hashes
    Export {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        #[serde(skip)]
        format: ExportFormat,
        /// New file, or - for standard output
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        #[serde(skip)]
        to: PathBuf,
        /// Last user of the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// List all users, or the users that match every given filter
    List {
        /// Filter
        #[command(flatten)]
        #[serde(default, skip_serializing_if = "UserListFilter::is_empty")]
        filter: UserListFilter,
        /// Last user of the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// Show a user
    Show(UserRef),
    /// Set a user's password and revoke all sessions and tokens
    SetPassword {
        /// Owner of the password
        #[command(flatten)]
        user: UserRef,
        /// New password
        #[command(flatten)]
        password: NewPassword,
    },
    /// Link a local user to an account of a directory or an OpenID provider
    ///
    /// Removes the user's password and revokes all sessions and tokens. ID, roles, groups, two-factor methods and
    /// consents stay. The source then keeps name and address.
    #[serde(skip)]
    Link(LinkArguments),
    /// Form of `Link` that is sent to the server
    #[command(skip)]
    LinkUser { user: UserRef, link: SourceLink },
    /// Remove a user's link: the user is local and has no password
    ///
    /// Revokes all sessions and tokens. The groups of the source are removed. A user whose account at the source is
    /// disabled or gone stays disabled.
    Unlink(UserRef),
    /// Disable a user: block sign-in and revoke all sessions and tokens
    Disable(UserToRevoke),
    /// Enable a disabled user
    Enable(UserRef),
    /// Delete a user with all sessions, tokens and consents
    Delete(UserToRevoke),
    /// Revoke all sessions and tokens of a user
    Revoke(UserToRevoke),
    /// List a user's open accesses: sessions, clients and passwords
    ListAccesses(UserRef),
    /// List a user's two-factor methods and passkeys
    ListFactors(UserRef),
    /// Remove a user's two-factor methods and print a link to set up a new one
    ///
    /// Revokes the user's sessions, tokens and application passwords. The link is printed once and works for 24 hours.
    /// Until the user has set up a new method, the password alone does not sign in.
    ResetFactors(UserRef),
    /// Unblock a user's codes after too many wrong attempts
    UnblockFactors(UserRef),
}

/// Filter of users: all given values must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserListFilter {
    /// Only members of this group
    #[arg(long, value_name = "GROUP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only users in this state
    #[arg(long, value_name = "STATE", value_parser = arguments::user_state())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<UserState>,
    /// Only users whose name, address or username contains all of these words
    #[arg(long, value_name = "WORDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

impl UserListFilter {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the user matches.
    pub(super) fn matches(&self, user: &User) -> bool {
        let search = plain_letters(self.search.as_deref().unwrap_or_default());
        let names = [user.email.as_ref().map(Email::as_str), user.username.as_ref().map(Username::as_str)];
        let names: Vec<String> = names.into_iter().flatten().chain([user.name.as_str()]).map(plain_letters).collect();
        self.group.as_ref().is_none_or(|group| user.is_in_group(group))
            && self.state.is_none_or(|state| state == user.state)
            && search.split_whitespace().all(|word| names.iter().any(|name| name.contains(word)))
    }
}

/// Commands about tokens for the admin API.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApiTokenCommand {
    /// Create a token and print it once
    ///
    /// A program sends the token to the admin API, which `[api]` of the configuration enables. A token that an
    /// administrator creates in the console works only while the administrator has the role; a token that this command
    /// creates works until it expires.
    Add(Box<NewApiToken>),
    /// List all tokens
    ///
    /// Shows their IDs, scopes and expiry, not the tokens themselves.
    List,
    /// Remove a token; it stops working at once
    Remove {
        /// Token ID (see `sealgate api-token list`)
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

/// A new token for the admin API.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewApiToken {
    /// Name of the token, such as the program that uses it
    pub name: String,
    /// Scope, such as users:read; can be repeated
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = arguments::api_scope)]
    pub scopes: Vec<ApiScope>,
    /// Day or time at which the token expires, or its lifetime, such as 2027-01-31 or 30d; at most 365d [default: 90d]
    #[arg(long, value_name = "DATE|DURATION", value_parser = arguments::secret_expiry)]
    pub expires: Option<SecretExpiry>,
}

/// Commands about directories.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DirectoryCommand {
    /// Sign out the users who are gone from a directory, however many they are
    ///
    /// If more than ten users and more than a fifth of them are gone at once, the server reports this and signs
    /// nobody out. This command lets it continue for five minutes.
    RevokeGone {
        /// Name of the directory in the configuration
        #[arg(value_name = "NAME", value_parser = arguments::source)]
        name: SourceName,
    },
}

/// Commands about a user's names and passwords at applications.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AppLoginCommand {
    /// Set a user's name and password at an application
    ///
    /// Requires a running server, which encrypts the password. The password is read from the first line of standard
    /// input, and no command shows it.
    Set {
        /// User whose name and password they are
        #[command(flatten)]
        user: UserRef,
        /// Application, by its name in the configuration; one that users sign in to with their own passwords, not with a
        /// service account
        #[arg(value_name = "APP")]
        app: String,
        /// Username at the application
        #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
        username: String,
        /// Password at the application
        #[command(flatten)]
        password: NewPassword,
    },
    /// List a user's names at applications, without the passwords
    List(UserRef),
    /// Remove a user's name and password at an application
    Remove {
        /// User whose name and password they are
        #[command(flatten)]
        user: UserRef,
        /// Application (see `sealgate app-login list`)
        #[arg(value_name = "APP")]
        app: String,
    },
}

/// User whose access is revoked.
///
/// Serialized as the user only, because the command line itself waits.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserToRevoke {
    #[command(flatten)]
    pub(super) user: UserRef,
    /// Wait until every node of the cluster has applied the change
    #[arg(long)]
    #[serde(skip)]
    wait: bool,
}

impl UserToRevoke {
    /// Returns the user whose sessions and tokens the command ends.
    pub fn user(&self) -> &UserRef {
        &self.user
    }
}

impl From<UserRef> for UserToRevoke {
    fn from(user: UserRef) -> Self {
        Self { user, wait: false }
    }
}

/// User to link, and an account at a source.
#[derive(Debug, Clone, Args)]
pub struct LinkArguments {
    #[command(flatten)]
    pub user: UserRef,
    /// Name of the directory or provider in the configuration
    #[arg(value_name = "SOURCE", value_parser = arguments::source)]
    pub source: SourceName,
    /// At a directory: the name that the user types to sign in. At an OpenID provider: the value of the claim in
    /// `subject_claim`
    #[arg(value_name = "ACCOUNT")]
    pub account: String,
}

/// Format of exported users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Comma-separated values with a header (RFC 4180); text that a spreadsheet would evaluate gets an apostrophe
    #[default]
    Csv,
}

/// Commands about clients.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientCommand {
    /// Add a client; prints the secret of a confidential client once
    Add(Box<NewClient>),
    /// List all clients
    List {
        /// Last client of the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// Show a client
    Show(ClientArgument),
    /// Change a client's settings; settings that are not given stay unchanged
    #[command(override_usage = "sealgate client set [OPTIONS] <CLIENT> <--SETTING VALUE>...")]
    Set {
        /// Client to change
        #[command(flatten)]
        client: ClientArgument,
        /// Changes
        #[command(flatten)]
        settings: Box<ClientSettings>,
    },
    /// Manage a client's secrets; at most two are valid
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Replace a client's secrets by a new one and print it once
    ///
    /// Tokens that the client already has stay valid. If the secret has leaked, end them too: sealgate grant revoke-all
    /// --client CLIENT
    RotateSecret {
        /// Owner of the secret
        #[command(flatten)]
        client: ClientArgument,
        /// Seconds for which the previous secret stays valid; older secrets keep their expiry.
        /// With 0, all previous secrets expire at once
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        overlap_seconds: u64,
    },
    /// Disable a client and revoke its tokens
    Disable(ClientArgument),
    /// Enable a disabled client; users sign in to it again
    Enable(ClientArgument),
    /// Approve a client that a developer registered, or that registered itself
    ///
    /// Applications without a list of clients then accept its tokens.
    Approve(ClientArgument),
    /// Revoke a client's approval
    RevokeApproval(ClientArgument),
    /// Delete a client and revoke its tokens
    Delete(ClientArgument),
    /// Hash a client secret from standard input
    ///
    /// Prints the value of `secret_hash` for the configuration file. Needs no configuration. Generate a secret with: openssl rand -hex 32
    #[serde(skip)]
    HashSecret,
    /// Generate a token that registers clients over HTTP (RFC 7591)
    ///
    /// The token is printed once.
    GenerateToken {
        /// Name of the token, such as the program that registers clients
        #[arg(long, value_name = "NAME", default_value = "")]
        #[serde(default)]
        name: String,
        /// Seconds for which the token is valid
        #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
        lifetime_seconds: u64,
        /// Number of clients that the token registers, at most 100
        #[arg(long, value_name = "N", default_value_t = 1)]
        #[serde(default = "one")]
        registrations: u32,
    },
    /// List the tokens that register clients
    ///
    /// Shows their IDs, how many clients each still registers, and those that it has registered, not the tokens
    /// themselves.
    ListTokens,
    /// Revoke a token that registers clients; it stops working at once
    ///
    /// The clients that it has registered stay.
    RevokeToken {
        /// Token ID (see `sealgate client list-tokens`)
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

/// Returns the number of clients that a token registers if a command does not say so.
const fn one() -> u32 {
    1
}

/// Commands about a client's secrets.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SecretCommand {
    /// Generate a further secret and print it once; the others stay valid
    Add {
        /// Owner of the secret
        #[command(flatten)]
        client: ClientArgument,
        /// Day or time at which the secret expires, or its lifetime, such as 2027-01-31 or 90d [default: never]
        #[arg(long, value_name = "DATE|DURATION", value_parser = arguments::secret_expiry)]
        expires: Option<SecretExpiry>,
    },
    /// List a client's secrets
    ///
    /// Shows their IDs, when they were created and when they expire, not the secrets themselves.
    List(ClientArgument),
    /// Remove a secret; it stops working at once
    Remove {
        /// Owner of the secret
        #[command(flatten)]
        client: ClientArgument,
        /// Secret ID (see `sealgate client secret list`)
        #[arg(value_name = "SECRET")]
        secret: String,
    },
}

/// Commands about browser sessions.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionCommand {
    /// List the sessions of a user or a client
    List {
        /// Filter
        #[command(flatten)]
        of: SessionsOf,
        /// Last row of the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// Revoke one session, of a browser or an application; tokens stay valid
    ///
    /// `user revoke` revokes tokens too.
    Revoke {
        /// Session ID (see `sealgate session list`, or `sealgate user list-accesses` for sessions at applications)
        #[arg(value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
        sid: SessionId,
    },
    /// Sign one user out of a browser session; other users of the browser stay signed in
    #[command(skip)]
    RevokeSignIn { sid: SessionId, user: Subject },
    /// Revoke all sessions of a user or a client; their tokens stay valid
    ///
    /// `user revoke` revokes tokens too.
    RevokeAll(SessionsOf),
}

/// Filter of sessions.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[group(required = true, multiple = false)]
#[serde(deny_unknown_fields)]
pub struct SessionsOf {
    /// Sessions of this user (ID, e-mail address or username)
    #[arg(long, value_name = "USER", value_parser = arguments::user)]
    pub user: Option<UserRef>,
    /// Sessions in which this client has valid tokens
    #[arg(long, value_name = "CLIENT", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub client: Option<ClientId>,
}

/// Commands about grants.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantCommand {
    /// List valid grants by user, client or session
    List {
        /// Filter
        #[command(flatten)]
        of: GrantsOf,
        /// Last grant of the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// Revoke one grant
    Revoke {
        /// Grant ID (see `sealgate grant list`)
        #[arg(value_name = "GRANT", value_parser = arguments::grant_id, allow_hyphen_values = true)]
        grant: GrantId,
    },
    /// Revoke all grants of a user, client or session
    RevokeAll(GrantsOf),
}

/// Filter of grants: all given values must match.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[group(required = true, multiple = true)]
#[serde(deny_unknown_fields)]
pub struct GrantsOf {
    /// Only grants of this user
    #[arg(long, value_name = "USER", value_parser = arguments::user)]
    pub user: Option<UserRef>,
    /// Only grants of this client
    #[arg(long, value_name = "CLIENT", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub client: Option<ClientId>,
    /// Only grants of this session
    #[arg(long, value_name = "SID", value_parser = arguments::session_id, allow_hyphen_values = true)]
    pub session: Option<SessionId>,
}

impl GrantsOf {
    /// Creates a filter for all grants of a client.
    pub fn of_client(client: ClientId) -> Self {
        Self { user: None, client: Some(client), session: None }
    }
}

/// Commands about consents.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ConsentCommand {
    /// List a user's consents
    List {
        /// User who gave the consents
        #[command(flatten)]
        user: UserRef,
        /// Client of the last consent on the previous page
        #[arg(skip)]
        after: Option<String>,
    },
    /// Revoke a consent and the client's tokens for the user
    Revoke {
        /// User who gave the consent
        #[command(flatten)]
        user: UserRef,
        /// Client
        #[command(flatten)]
        client: ClientArgument,
    },
}

/// Commands about a user's application passwords.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AppPasswordCommand {
    /// List a user's application passwords
    List(UserRef),
    /// Revoke an application password and close its connections
    Revoke {
        /// Owner of the password
        #[command(flatten)]
        user: UserRef,
        /// Password ID (see `sealgate app-password list`)
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
        /// Wait until every node of the cluster has applied the change
        #[arg(long)]
        #[serde(skip)]
        wait: bool,
    },
}

/// Commands about mails.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MailCommand {
    /// List queued and failed mail, without contents
    List {
        /// List mail sent in the last 30 days instead, newest first
        #[arg(long)]
        sent: bool,
        /// Last mail of the previous page
        #[arg(skip)]
        #[serde(default)]
        after: Option<String>,
    },
    /// Retry a queued or failed mail now
    Retry {
        /// Mail ID (see `sealgate mail list`)
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
    /// Delete a queued or failed mail without sending it
    Delete {
        /// Mail ID (see `sealgate mail list`)
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        id: String,
    },
}

/// Commands about a node of the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeCommand {
    /// Admit a new node with its own token
    Admit {
        /// Name of the node
        node: String,
        /// Thumbprint of its signing key, as printed by the node
        key: String,
        /// Thumbprint of its enrolment key
        enrolment: String,
    },
}

/// Commands about signing keys.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyCommand {
    /// List all announced keys
    #[command(skip)]
    List,
    /// Record that a key is about to be generated, so that servers know about the key even if the
    /// command fails
    #[command(skip)]
    Begin {
        /// Future `CKA_ID` of the key, hexadecimal
        id: String,
        /// Key ids of the keys that are already in the token
        other_kids: Vec<String>,
        /// Algorithm of the key
        #[serde(default, skip_serializing_if = "is_rs256")]
        algorithm: Algorithm,
    },
    /// Retire the keys of a node with its own token
    #[command(skip)]
    RetireNode {
        /// Name of the node
        node: String,
        /// Whether tokens that the keys have signed are refused at once
        at_once: bool,
    },
    /// Publish a key that was put into the token by other means
    Announce {
        /// Key ID (see `sealgate key list`)
        #[arg(value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// `CKA_ID` of the key, hexadecimal
        #[arg(skip)]
        id: String,
        /// Key ids of the other keys in the token
        #[arg(skip)]
        other_kids: Vec<String>,
        /// Algorithm of the key
        #[arg(skip)]
        #[serde(default, skip_serializing_if = "is_rs256")]
        algorithm: Algorithm,
    },
    /// Schedule a published key to sign; retires the current key
    Activate {
        /// Key ID (see `sealgate key list`)
        #[arg(value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// Start time, such as 2027-01-31T08:00:00Z [default: when verifiers have fetched the key]
        #[arg(long, value_name = "RFC3339", value_parser = arguments::instant)]
        at: Option<UnixTime>,
        /// Allow the key to sign before verifiers have fetched it; until then they refuse its tokens
        #[arg(long)]
        early: bool,
    },
    /// Retire a published key that does not sign yet
    Retire {
        /// Key ID (see `sealgate key list`)
        #[arg(value_name = "KID", allow_hyphen_values = true)]
        kid: String,
    },
    /// Remove a retired key after all tokens that it signed have expired
    Remove {
        /// Key ID (see `sealgate key list`)
        #[arg(value_name = "KID", allow_hyphen_values = true)]
        kid: String,
        /// Remove a compromised key at once: everything it signed is refused, and another key starts to sign
        #[arg(long = "now")]
        at_once: bool,
        /// Key ids in the token. One of these keys may sign immediately. `None` if the token could
        /// not be read; any key may then sign
        #[arg(skip)]
        in_token: Option<Vec<String>>,
    },
}

/// Older servers know only RS256, and do not know the field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the signature")]
fn is_rs256(algorithm: &Algorithm) -> bool {
    *algorithm == Algorithm::Rs256
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditCommand {
    /// Filter
    #[command(flatten)]
    pub filter: EventFilter,
    /// Maximum number of events
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub limit: usize,
    /// Cursor: last event on the previous page
    #[arg(skip)]
    pub after: Option<String>,
}

/// Filter of events.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// Only events of this user
    #[arg(long, value_name = "USER", value_parser = arguments::user)]
    pub user: Option<UserRef>,
    /// Only events about this client
    #[arg(long, value_name = "CLIENT", value_parser = arguments::client_id, allow_hyphen_values = true)]
    pub client: Option<ClientId>,
    /// Event kind, such as `sign_in_failed`; can be repeated
    #[arg(long = "kind", value_name = "KIND", value_parser = arguments::audit_kind)]
    pub kinds: Vec<AuditKind>,
    /// Start: a day or instant, such as 2026-11-21 or 2026-11-21T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = arguments::day_or_instant)]
    pub since: Option<UnixTime>,
    /// End (exclusive): a day or instant
    #[arg(long, value_name = "TIME", value_parser = arguments::day_or_instant)]
    pub until: Option<UnixTime>,
    /// Only events of requests from this address
    #[arg(long, value_name = "IP")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_domain::secret::Secret;

    #[test]
    fn a_command_is_sent_with_its_password_but_debug_hides_it() {
        let user = UserRef::parse("a@example.test").unwrap();
        let password = Secret::new("correct horse").into();
        let command = Command::User(UserCommand::SetPassword { user, password });
        let line = serde_json::to_string(&command).unwrap();
        assert_eq!(line, r#"{"user":{"set_password":{"user":{"email":"a@example.test"},"password":"correct horse"}}}"#);
        let read: Command = serde_json::from_str(&line).unwrap();
        let Command::User(UserCommand::SetPassword { password, .. }) = &read else { panic!("{read:?}") };
        assert_eq!(password.secret.expose(), "correct horse");
        assert!(!format!("{read:?}").contains("horse"));
    }
}
