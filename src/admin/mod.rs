//! What an operator does with people, clients, sessions and the times of signing keys: the commands, as the command line
//! reads them and as they travel; what they yield; one way to carry them out, and the socket on which a running server takes
//! them. It works the same inside the server and on a store that nobody serves. It knows nothing of what is printed, of the
//! PKCS#11 token or of HTTP.

pub(crate) mod answer;
mod app_passwords;
pub(crate) mod arguments;
mod audit;
pub(crate) mod audit_file;
mod bulk_invitation;
pub(crate) mod client_settings;
mod clients;
pub(crate) mod command;
mod consents;
mod directory;
mod execute;
mod export;
mod factors;
mod grants;
mod hashing;
mod import;
pub(crate) mod import_settings;
mod invitations;
mod key_holder;
mod keys;
mod mails;
mod nodes;
mod peer;
mod people;
mod people_check;
pub(crate) mod people_file;
mod person;
mod reload;
mod remote;
mod sessions;
pub(crate) mod socket;
pub(crate) mod user_settings;
mod users;
mod wire;

pub(crate) use answer::Answer;
pub use directory::CommandError;
pub use directory::{Directory, Mailing};
pub use execute::execute;
pub(crate) use export::ExportError;
pub use export::{export, hex, import};
pub use hashing::OnThisThread;
pub use key_holder::NobodySigns;
pub use person::Person;
pub(crate) use reload::Reload;
pub(crate) use remote::AskError;
pub use remote::ask;
