//! Operations on users, clients, sessions and the schedule of signing keys.
//!
//! Contains the commands with their command-line and JSON forms, their answers, their execution,
//! and the socket on which a running server accepts them. Commands behave the same in the server
//! and on a store that is not served. This module does not print, and does not use the PKCS#11
//! token or HTTP.

pub mod answer;
mod app_passwords;
pub mod arguments;
mod audit;
pub mod audit_file;
mod bulk_invitation;
pub mod client_settings;
mod clients;
pub mod command;
mod consents;
mod directory;
mod execute;
mod export;
mod factors;
mod grants;
mod hashing;
mod import;
pub mod import_settings;
mod invitations;
mod key_holder;
mod keys;
mod mails;
mod nodes;
mod peer;
mod people;
mod people_check;
pub mod people_file;
mod person;
mod reload;
mod remote;
mod sessions;
pub mod socket;
pub mod user_settings;
mod users;
mod wire;

pub use answer::Answer;
pub use directory::CommandError;
pub use directory::{Directory, Mailing};
pub use execute::execute;
pub use export::ExportError;
pub use export::{export, hex, import};
pub use hashing::OnThisThread;
pub use key_holder::NobodySigns;
pub use person::Person;
pub use reload::Reload;
pub use remote::AskError;
pub use remote::ask;
