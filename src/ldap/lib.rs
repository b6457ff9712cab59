//! Users of LDAP directories: sign-in, groups and account states, over a small LDAP client.
//!
//! This crate does not access the store, and does not keep sessions. A directory either gives a
//! complete answer, or the answer is an [`LdapFault`]. A fault says nothing about users, so it
//! never takes access away.

mod account;
mod ber;
mod check;
mod connection;
mod directory;
mod entry;
mod fault;
mod groups;
mod message;
mod query;
mod servers;

pub use account::LdapRefusal;
pub use check::DirectoryCheck;
pub use directory::{LdapDirectory, LdapSignIn, LdapSignInAttempt};
pub use fault::{LdapFault, LdapFaultKind};
