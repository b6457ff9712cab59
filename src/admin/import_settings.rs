//! What an import is made of.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::people_file::{PeopleFile, PeopleSource};

/// What `--help` says.
pub(super) const ABOUT: &str = "\
Add the people of another system, with the hashes of their passwords: all of them, or nobody and a report by line.

Hashes that are taken: argon2, bcrypt, SHA-crypt ($5$, $6$), PBKDF2 (passlib, PHC, Django, OpenLDAP), {SSHA}, {SHA} and their SHA-2 \
kin. At the first sign-in each becomes argon2id. MD5, DES, passwords in clear, and hashes that cost more than a second or so are \
refused: invite these people instead (user invite --from), or leave the hash out and mail them an invitation afterwards (user \
invitation EMAIL resend). Who has no hash cannot sign in until then.

A CSV file begins with the names of its columns: email and name, and any of username, groups, password_hash, email_verified, \
phone_number. LDIF: mail, displayName or cn or givenName with sn, uid, userPassword, and the cn of each memberOf as a group; entries of \
no person are skipped. htpasswd: give the domain of the addresses with --email-domain.";

/// People to be imported.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// Where they are read from
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) source: PeopleSource,
    /// Report what an import would do or refuse, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What was read
    #[arg(skip)]
    pub(crate) file: PeopleFile,
}
