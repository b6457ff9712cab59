//! `[[directory]]`: LDAP directories whose users can sign in.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sealgate_domain::search_filter::{AttributeName, SearchFilter};
use sealgate_domain::source::SourceName;

/// `[[directory]]`: an LDAP directory whose users can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySettings {
    pub name: SourceName,
    pub kind: DirectoryKind,
    /// Servers with the same content, in the order in which they are tried. At least one.
    pub servers: Vec<DirectoryServer>,
    /// PEM file with CA certificates. `None` if the authorities of the machine are trusted.
    pub ca_file: Option<PathBuf>,
    /// Account for searches.
    pub bind: DirectoryAccount,
    pub users: DirectoryUsers,
    /// Source of the groups. `None` if users have no groups of this directory.
    pub groups: Option<DirectoryGroups>,
    /// Attribute with the id of an entry, which never changes.
    pub id: AttributeName,
    /// Domains of e-mail addresses for which the directory is responsible, in lower case.
    pub domains: Vec<String>,
    /// Whether names without one of the listed domains are searched here.
    pub is_default: bool,
    /// Whether local users may link their account to one in the directory.
    pub linking: bool,
    /// Time between two reads of the users who are signed in.
    pub refresh: Duration,
    /// Time for which sessions continue while the directory cannot be read.
    pub stale: Duration,
    /// Timeout of a sign-in, from connecting to the last answer.
    pub timeout: Duration,
}

/// Kind of a directory. Determines default values, the meaning of account flags and the names of
/// attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryKind {
    ActiveDirectory,
    /// Any other directory, such as OpenLDAP or 389 Directory Server.
    Ldap,
}

/// Server of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryServer {
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
    pub security: DirectorySecurity,
}

/// Protection of a connection to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectorySecurity {
    /// TLS from the first byte.
    Ldaps,
    /// The StartTLS operation (RFC 4511 §4.14).
    StartTls,
    /// No TLS. Only allowed for a server on this machine.
    None,
}

impl fmt::Display for DirectoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.security == DirectorySecurity::Ldaps { "ldaps" } else { "ldap" };
        if self.host.contains(':') {
            return write!(f, "{scheme}://[{}]:{}", self.host, self.port);
        }
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Account that searches the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryAccount {
    pub dn: String,
    pub password_file: PathBuf,
}

/// Entries of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryUsers {
    /// DN of the subtree with the users.
    pub base: String,
    /// Filter that an entry must match.
    pub filter: SearchFilter,
    /// Attributes that are compared with the typed name.
    pub names: Vec<AttributeName>,
}

/// Source of the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryGroups {
    /// DN of the subtree with the groups.
    pub base: String,
    pub from: GroupSource,
    /// Text before the name of each group.
    pub prefix: String,
}

/// Where the groups of a user are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSource {
    /// The attribute `tokenGroups` of Active Directory: nested groups and the primary group.
    TokenGroups,
    /// Groups that contain the user in `member`, `uniqueMember` or `memberUid`, and the groups that
    /// contain these groups.
    Members,
    /// The attribute `memberOf` of the user.
    MemberOf,
}
