//! What an operator does with people, clients, sessions and the times of signing keys: the commands as values, one way to carry them out, and the
//! socket on which a running server takes them. It works the same inside the server and on a store that nobody serves.
//! It knows nothing of argument parsing, of the PKCS#11 token or of HTTP.

mod answer;
mod app_passwords;
mod audit;
pub mod audit_file;
mod client_settings;
mod clients;
pub mod command;
mod consents;
mod execute;
mod export;
mod grants;
mod hashing;
mod keys;
mod peer;
mod reload;
mod remote;
mod sessions;
pub mod socket;
mod users;
mod view;
mod wire;

pub use answer::Answer;
pub use execute::{CommandError, Directory, execute};
pub use export::{ExportError, export, hex, import};
pub use hashing::{HashPassword, OnThisThread};
pub use keys::{KeyHolder, NobodySigns};
pub use reload::{Reload, Reloaded};
pub use remote::{AskError, ask};
