//! The page of an invitation.

use askama::Template;

use super::credential_choice::CredentialChoice;
use super::frame::Frame;

/// Lets an invited user choose a credential. Its form sends `csrf` and the fields of
/// [`CredentialChoice`].
#[derive(Template)]
#[template(path = "invitation.html")]
pub struct InvitationPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// E-mail address of the account, partly hidden.
    pub account: &'a str,
    /// Name under which a password manager stores the password.
    pub username: &'a str,
    /// The administrator who sent the invitation.
    pub inviter: Option<&'a str>,
    /// The application that the invitation leads to.
    pub app: Option<&'a str>,
    /// Whether another user is signed in in this browser.
    pub is_shared: bool,
    pub choice: CredentialChoice<'a>,
}
