//! `/account`: what a person may see and change of their own. Every change is a form with a token, and ends in a redirect
//! to a page that says what was done.

mod activity;
mod app_passwords;
mod applications;
mod password;
mod profile;
mod sessions;

use crate::provider::call::Call;
use crate::provider::failure::Failure;
use crate::provider::response::Response;

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccountSection {
    Profile,
    Password,
    Sessions,
    Applications,
    AppPasswords,
    Activity,
}

/// Where password managers send people who are to change a password ("A Well-Known URL for Changing Passwords", W3C).
pub(super) fn change_password(call: &Call<'_>) -> Response {
    Response::see_other(&call.path("/account/password"))
}

pub(super) async fn answer(call: &Call<'_>, section: AccountSection) -> Result<Response, Failure> {
    match section {
        AccountSection::Profile => profile::answer(call).await,
        AccountSection::Password => password::answer(call).await,
        AccountSection::Sessions => sessions::answer(call).await,
        AccountSection::Applications => applications::answer(call).await,
        AccountSection::AppPasswords => app_passwords::answer(call).await,
        AccountSection::Activity => activity::answer(call).await,
    }
}
