//! `/console`: pages where developers register clients, and administrators manage users, keys and
//! limits.
//!
//! [`Area::least`] is the role that a page requires. [`ConsoleUser::client`] limits developers to
//! their own clients. Single actions may require an administrator. Each change is a form with a
//! CSRF token, which is bound to the user and to the page's path.

mod audit;
mod client;
mod clients;
mod confirmation;
mod console_user;
mod form;
mod kept_form;
mod operation;
mod trial;
mod user;
mod user_factors;
mod user_form;
mod users;

use crate::console::console_user::ConsoleUser;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_pages::ConsoleRole;

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
    /// Returns the lowest role that may open the page.
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

pub(super) async fn console_page(ctx: &RequestContext<'_>, area: Area) -> Result<Response, Failure> {
    let console_user = ConsoleUser::enter(ctx, area.least()).await?;
    match area {
        Area::Clients => clients::clients_page(ctx, &console_user).await,
        Area::NewClient => clients::register(ctx, &console_user).await,
        Area::Client => client::client_page(ctx, &console_user).await,
        Area::Trial => trial::trial_page(ctx, &console_user).await,
        Area::TrialCallback => trial::callback(ctx, &console_user).await,
        Area::Users => users::users_page(ctx, &console_user).await,
        Area::NewUser => users::add(ctx, &console_user).await,
        Area::User => user::user_page(ctx, &console_user).await,
        Area::Keys => operation::keys(ctx, &console_user).await,
        Area::Apps => Ok(operation::apps(ctx, &console_user)),
        Area::Settings => Ok(operation::settings(ctx, &console_user)),
        Area::Audit => audit::audit_page(ctx, &console_user).await,
        Area::AuditExport => audit::export(ctx).await,
    }
}
