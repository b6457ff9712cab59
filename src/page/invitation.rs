//! The page of an invitation.

use askama::Template;

use super::credential_choice::CredentialChoice;
use super::frame::Frame;

/// Lets somebody who was invited choose with what they sign in. Its form sends `csrf` and what [`CredentialChoice`] says.
#[derive(Template)]
#[template(path = "invitation.html")]
pub struct InvitationPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Whose account it is, partly hidden.
    pub account: &'a str,
    /// What a password manager keeps the password under.
    pub username: &'a str,
    /// The administrator who invited.
    pub inviter: Option<&'a str>,
    /// The application that the invitation leads to.
    pub app: Option<&'a str>,
    /// Whether somebody else is signed in in this browser.
    pub is_shared: bool,
    pub choice: CredentialChoice<'a>,
}
