//! `/console`: where developers register clients, and administrators look after people, keys and limits.
//!
//! Who may do what is decided here and in [`ConsoleUser::client`], nowhere else: [`Area::least`] says which role a page
//! needs, and a developer's client is theirs alone. Every change is a form with a token that is bound to the person and
//! the page's own path.

mod audit;
mod client;
mod clients;
mod confirmation;
mod console_user;
mod form;
mod operation;
mod trial;
mod user;
mod user_factors;
mod user_form;
mod users;

use crate::page::ConsoleRole;
use crate::provider::console::console_user::ConsoleUser;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Clients,
    NewClient,
    Client,
    Trial,
    TrialCallback,
    Users,
    NewUser,
    User,
    Keys,
    Apps,
    Settings,
    Audit,
    AuditExport,
}

impl Area {
    /// The least role that opens it.
    fn least(self) -> ConsoleRole {
        match self {
            Self::Clients | Self::NewClient | Self::Client | Self::Trial | Self::TrialCallback => {
                ConsoleRole::Developer
            }
            Self::Users
            | Self::NewUser
            | Self::User
            | Self::Keys
            | Self::Apps
            | Self::Settings
            | Self::Audit
            | Self::AuditExport => ConsoleRole::Administrator,
        }
    }
}

pub(super) async fn answer(ctx: &RequestContext<'_>, area: Area) -> Result<Response, Failure> {
    let console_user = ConsoleUser::enter(ctx, area.least()).await?;
    match area {
        Area::Clients => clients::answer(ctx, &console_user).await,
        Area::NewClient => clients::register(ctx, &console_user).await,
        Area::Client => client::answer(ctx, &console_user).await,
        Area::Trial => trial::answer(ctx, &console_user).await,
        Area::TrialCallback => trial::callback(ctx, &console_user).await,
        Area::Users => users::answer(ctx, &console_user).await,
        Area::NewUser => users::add(ctx, &console_user).await,
        Area::User => user::answer(ctx, &console_user).await,
        Area::Keys => operation::keys(ctx, &console_user).await,
        Area::Apps => Ok(operation::apps(ctx, &console_user)),
        Area::Settings => Ok(operation::settings(ctx, &console_user)),
        Area::Audit => audit::answer(ctx, &console_user).await,
        Area::AuditExport => audit::export(ctx).await,
    }
}
