//! Settings of an import.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::people_file::{PeopleFile, PeopleSource};

/// Text of `--help`.
pub(super) const ABOUT: &str = "\
Import the users of another system with their password hashes: all of them, or none with a report by line.

Accepted hashes: argon2, bcrypt, SHA-crypt ($5$, $6$), PBKDF2 (passlib, PHC, Django, OpenLDAP), {SSHA}, {SHA} and their SHA-2 \
variants. Each is replaced by argon2id at the first sign-in. MD5, DES, plain-text passwords, and hashes that take more than about \
a second to verify are refused. Invite these users instead (user invite --from), or leave the hash out and send an invitation \
afterwards (user resend-invitation EMAIL). Until then a user without a hash cannot sign in.

The first line of a CSV file names the columns: email and name, and any of username, groups, password_hash, email_verified, \
phone_number. LDIF: mail, displayName or cn or givenName with sn, uid, userPassword, and the cn of each memberOf as a group; entries that \
are not users are skipped. htpasswd: give the domain of the addresses with --email-domain.";

/// Users to import.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// Where they are read from
    #[command(flatten)]
    #[serde(skip)]
    pub source: PeopleSource,
    /// Report what the import would do, without writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Content of the file
    #[arg(skip)]
    pub file: PeopleFile,
}
