//! Part of `sealgate init` that uses the token and the store. It runs as the service's user.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::key;
use super::output::Output;
use sealgate_admin::answer::{ListPage, Rows, UserAnswer};
use sealgate_admin::command::{Command, UserCommand, UserListFilter};
use sealgate_admin::user_settings::Invitee;
use sealgate_admin::{Answer, UserRef};
use sealgate_config::Config;
use sealgate_domain::account_links::InvitationState;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role};
use sealgate_signer as signer;

#[derive(Debug, Args)]
pub(super) struct ProvisionArguments {
    /// Initialise the token, with the security officer's PIN in this file
    #[arg(long, value_name = "FILE")]
    so_pin_file: Option<PathBuf>,
    /// First administrator
    #[arg(long, value_name = "EMAIL", value_parser = email)]
    admin: Option<Email>,
    /// Full name of the administrator
    #[arg(long, value_name = "NAME", default_value = "")]
    admin_name: String,
}

/// Parses an e-mail address.
pub(super) fn email(text: &str) -> Result<Email, String> {
    Email::parse(text).ok_or_else(|| "write an e-mail address".to_owned())
}

/// Results of the command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Provisioned {
    /// Whether the token was initialised.
    pub(super) new_token: bool,
    /// Key IDs of the signing keys.
    pub(super) keys: Vec<String>,
    pub(super) new_key: bool,
    pub(super) admin: Option<Admin>,
    /// Whether a server runs.
    pub(super) is_served: bool,
    pub(super) warnings: Vec<String>,
}

/// State of the first administrator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Admin {
    pub(super) email: String,
    pub(super) is_new: bool,
    pub(super) has_role: bool,
    /// Link to choose a credential. `None` if the user has a credential.
    pub(super) link: Option<String>,
    /// Expiry of the link, in seconds since 1970.
    pub(super) link_expires_at: Option<u64>,
}

pub(super) fn run(arguments: ProvisionArguments, config: Config, output: &Output) -> Result<(), CommandFailure> {
    let new_token = match &arguments.so_pin_file {
        Some(so_pin) => signer::init_token(&config.hsm, so_pin).map_err(CommandFailure::line)?,
        None => false,
    };
    let mut access = StoreAccess::open(config)?;
    let new_key = key::generate_if_none(&access)?;
    let key_check = key::check::find(&access)?;
    if !key_check.faults.is_empty() {
        return Err(CommandFailure::Failed(key_check.faults));
    }
    let keys = key_check.signing().map(ToOwned::to_owned).collect();
    let admin = arguments.admin.map(|email| admin(&email, arguments.admin_name, &mut access)).transpose()?;
    let is_served = access.is_served();
    let done = Provisioned { new_token, keys, new_key, admin, is_served, warnings: key_check.warnings };
    output.result(&done, String::new)
}

/// Invites the administrator. If the invitation is not accepted yet, creates another link.
fn admin(email: &Email, name: String, access: &mut StoreAccess) -> Result<Admin, CommandFailure> {
    let existing_user = user(email, access)?;
    let command = match &existing_user {
        None => UserCommand::InviteUser(Box::new(Invitee {
            email: email.clone(),
            username: None,
            name,
            phone: None,
            picture: None,
            roles: vec![Role::Admin],
            groups: Vec::new(),
            app: None,
            language: None,
            print_link: true,
        })),
        Some(UserAnswer { invitation: Some(InvitationState::Invited | InvitationState::Expired), sub, .. }) => {
            UserCommand::ResendInvitation { user: UserRef::Sub(*sub), print_link: true }
        }
        Some(user) => {
            let has_role = user.roles.contains(&Role::Admin);
            let email = email.as_str().to_owned();
            return Ok(Admin { email, is_new: false, has_role, link: None, link_expires_at: None });
        }
    };
    let Answer::User(user) = access.ask(&Command::User(command))? else { return Err(CommandFailure::other_answer()) };
    Ok(Admin {
        email: email.as_str().to_owned(),
        is_new: existing_user.is_none(),
        has_role: user.roles.contains(&Role::Admin),
        link: user.invitation_link.as_ref().map(|link| Secret::expose(&link.0).to_owned()),
        link_expires_at: user.invitation_expires_at.map(UnixTime::seconds),
    })
}

/// Returns the user with this address.
fn user(email: &Email, access: &mut StoreAccess) -> Result<Option<UserAnswer>, CommandFailure> {
    let mut after = None;
    loop {
        let ListPage { rows: Rows::Users(users), next } =
            access.ask_page(&Command::User(UserCommand::List { filter: UserListFilter::default(), after }))?
        else {
            return Err(CommandFailure::other_answer());
        };
        if let Some(user) =
            users.into_iter().find(|user| user.email.as_ref().map(Email::lookup_key) == Some(email.lookup_key()))
        {
            return Ok(Some(user));
        }
        after = next;
        if after.is_none() {
            return Ok(None);
        }
    }
}
