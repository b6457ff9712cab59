//! What an operator does with people, clients, sessions and the times of signing keys: the commands, as the command line
//! reads them and as they travel; what they yield; one way to carry them out, and the socket on which a running server takes
//! them. It works the same inside the server and on a store that nobody serves. It knows nothing of what is printed, of the
//! PKCS#11 token or of HTTP.

pub mod answer;
mod app_passwords;
pub mod arguments;
mod audit;
pub mod audit_file;
pub mod client_settings;
mod clients;
pub mod command;
mod consents;
mod directory;
mod execute;
mod export;
mod grants;
mod hashing;
mod key_holder;
mod keys;
mod peer;
mod person;
mod reload;
mod remote;
mod sessions;
pub mod socket;
pub mod user_settings;
mod users;
mod wire;

pub use answer::Answer;
pub use directory::{CommandError, Directory};
pub use execute::execute;
pub use export::{ExportError, export, hex, import};
pub use hashing::{HashPassword, OnThisThread};
pub use key_holder::{KeyHolder, NobodySigns};
pub use person::Person;
pub use reload::Reload;
pub use remote::{AskError, ask};
