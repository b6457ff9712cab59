//! Operations on users, clients, sessions and the schedule of signing keys.
//!
//! The crate contains the commands with their command-line and JSON forms, their answers, their
//! execution, and the socket on which a running server accepts them. Commands behave the same in
//! the server and on a store that is not served. The crate does not print, and does not use the
//! PKCS#11 token or HTTP.

mod access;
pub mod answer;
mod api_tokens;
mod app_logins;
pub mod arguments;
pub mod audit;
mod bulk_invitation;
pub mod client_settings;
mod clients;
pub mod command;
mod context;
mod csv_cells;
mod execute;
mod export;
mod factors;
mod groups;
pub mod import;
mod invitations;
mod keys;
mod mails;
mod nodes;
pub mod open_accesses;
mod registration_tokens;
pub mod schema;
pub mod socket;
pub mod user_settings;
mod users;
pub mod users_file;
mod wire;

pub use answer::Answer;
pub use clients::approve_client;
pub use context::{CommandContext, CommandError, FileFaults, Mailing, OnThisThread};
pub use execute::execute;
pub use export::ExportError;
pub use export::{export, hex, import};
pub use groups::change_group;
pub use keys::{NoSigner, rotate_key};
pub use users::{UserRef, set_user_as_shown};
pub use wire::AskError;
pub use wire::ask;
