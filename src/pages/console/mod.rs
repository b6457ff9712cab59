//! Pages of the console for developers and administrators.

mod clients;
mod confirm;
mod form;
mod operation;
mod snippets;
mod users;

pub use clients::{ClientPage, ClientRefusal, ClientsPage, NewClientPage, TrialPage, TrialProblem};
pub use confirm::{ConfirmPage, GuardedChange};
pub use form::{ClientFault, ClientField, ClientForm};
pub use operation::{AppLine, AppsPage, KeysPage, LimitLine, SettingsPage};
pub use users::{
    InvitationForm, NewUserPage, PersonFactors, PersonInvitation, ResetState, TypedUser, UserFactor, UserField,
    UserLine, UserPage, UsersPage,
};
