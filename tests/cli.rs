//! The command line, by running the program itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "cli/api_tokens.rs"]
mod api_tokens;
#[path = "cli/app_logins.rs"]
mod app_logins;
#[path = "cli/clients.rs"]
mod clients;
#[path = "support/configuration.rs"]
mod configuration;
#[path = "cli/documents.rs"]
mod documents;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/factors.rs"]
mod factor_commands;
#[path = "support/factors.rs"]
mod factors;
#[path = "support/foreign_hashes.rs"]
mod foreign_hashes;
#[path = "cli/grants.rs"]
mod grants;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/invitations.rs"]
mod invitations;
#[path = "cli/keys.rs"]
mod keys;
#[path = "cli/mail.rs"]
mod mail;
#[path = "support/mail_server.rs"]
mod mail_server;
#[path = "support/records.rs"]
mod records;
#[path = "cli/serve.rs"]
mod serve;
#[path = "cli/server.rs"]
mod server;
#[path = "cli/site.rs"]
mod site;
#[path = "support/softhsm.rs"]
mod softhsm;
#[path = "cli/test_login.rs"]
mod test_login;
#[path = "cli/transcript.rs"]
mod transcript;
#[path = "cli/transfer.rs"]
mod transfer;
#[path = "cli/usage.rs"]
mod usage;
#[path = "cli/user_import.rs"]
mod user_import;
#[path = "cli/users.rs"]
mod users;
