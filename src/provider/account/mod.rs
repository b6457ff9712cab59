//! `/account`: pages where users view and change their own account.
//!
//! Each change is a form with a CSRF token. The response redirects to a page that confirms the
//! change.

mod activity;
mod address;
mod app_passwords;
mod applications;
mod password;
mod profile;
mod security;
mod sessions;

use crate::request::ProviderRequest as _;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountSection {
    Profile,
    Address,
    NewAddress,
    Password,
    Security,
    AddApp,
    AddKey,
    Factor,
    RecoveryCodes,
    Sessions,
    Applications,
    AppPasswords,
    Activity,
}

/// Redirects from the well-known URL that password managers open to change a password ("A
/// Well-Known URL for Changing Passwords", W3C).
pub(super) fn change_password(ctx: &RequestContext<'_>) -> Response {
    Response::see_other(&ctx.path("/account/password"))
}

pub(super) async fn account_page(ctx: &RequestContext<'_>, section: AccountSection) -> Result<Response, Failure> {
    match section {
        AccountSection::Profile => profile::profile_page(ctx).await,
        AccountSection::Address => address::address_page(ctx).await,
        AccountSection::NewAddress => address::change(ctx).await,
        AccountSection::Password => password::password_page(ctx).await,
        AccountSection::Security => security::security_page(ctx).await,
        AccountSection::AddApp => security::add_app(ctx).await,
        AccountSection::AddKey => security::add_key(ctx).await,
        AccountSection::Factor => security::settings(ctx).await,
        AccountSection::RecoveryCodes => security::codes(ctx).await,
        AccountSection::Sessions => sessions::sessions_page(ctx).await,
        AccountSection::Applications => applications::applications_page(ctx).await,
        AccountSection::AppPasswords => app_passwords::app_passwords_page(ctx).await,
        AccountSection::Activity => activity::activity_page(ctx).await,
    }
}
