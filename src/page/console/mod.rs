//! The console: what developers and administrators work with.

mod clients;
mod operation;
mod snippets;
mod users;

pub use clients::{
    ClientFault, ClientField, ClientForm, ClientLine, ClientPage, ClientSecretLine, Clients, NewSecret, Trial,
    TrialProblem, UriFault,
};
pub use operation::{AppLine, KeyLine, KeyState, Keys, LimitLine, Limits, ServerLine};
pub use snippets::Library;
pub use users::{NewUser, Roles, UserField, UserLine, UserPage, Users};
