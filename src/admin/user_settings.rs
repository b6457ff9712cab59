//! Settings of users and their changes.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::answer::in_clear;
use super::arguments;
use super::users_file::UsersFile;
use sealgate_domain::language::Language;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::{Email, Role};
use sealgate_domain::username::Username;

/// A new user.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Full name
    #[arg(long)]
    pub name: String,
    /// Names to sign in with
    #[command(flatten)]
    pub names: NewNames,
    /// Phone number, such as +905551112233
    #[arg(long, value_name = "NUMBER")]
    pub phone: Option<String>,
    /// HTTPS URL of an image
    #[arg(long, value_name = "URL")]
    pub picture: Option<String>,
    /// Mark the address as verified
    #[arg(long)]
    pub email_verified: bool,
    /// Console role; can be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = arguments::role())]
    pub roles: Vec<Role>,
    /// Group, visible to applications; can be repeated
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// First credential of the user
    #[command(flatten)]
    pub password: NewPassword,
}

/// Names of a new user: an e-mail address, a username or both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewNames {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Email>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<Username>,
}

impl NewNames {
    /// Returns the name that identifies the account: see `User::sign_in_name`.
    pub fn sign_in_name(&self) -> &str {
        let address = self.email.as_ref().map(Email::as_str);
        address.or(self.username.as_ref().map(Username::as_str)).unwrap_or_default()
    }
}

/// Text of `user invite --help`.
pub(super) const ABOUT_INVITATIONS: &str = "\
Invite a user by mail. The link in the mail is valid for 7 days; the user chooses a password or a passkey with it.

With --print-link, no mail is sent and the link is printed: give it to the user in another way. Acceptance marks the address as \
verified, also with a printed link.

With --from, invites the users in a CSV file. If a line has an error, no user is invited, and every error is reported with its \
line. Try the file with --dry-run first. The first line names the columns: email and name, and any of username, groups (separated by \
commas), phone_number, app, language (tr or en).";

/// Invitation as given on the command line: one user, or the users of a file.
#[derive(Debug, Clone, Args)]
pub struct InviteArguments {
    /// E-mail address; receives the invitation, and the user signs in with it
    #[arg(value_name = "EMAIL", value_parser = arguments::email, required_unless_present = "from")]
    email: Option<Email>,
    /// Full name
    #[arg(long, required_unless_present = "from")]
    name: Option<String>,
    /// Username; the user can sign in with it, and applications may show it
    #[arg(long, value_parser = arguments::username)]
    username: Option<Username>,
    /// Phone number, such as +905551112233
    #[arg(long, value_name = "NUMBER")]
    phone: Option<String>,
    /// HTTPS URL of an image
    #[arg(long, value_name = "URL")]
    picture: Option<String>,
    /// Console role; can be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = arguments::role())]
    roles: Vec<Role>,
    /// Group, visible to applications; can be repeated. With --from: in addition to the groups in each line
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Application to open after acceptance, by its name in the configuration. With --from, this
    /// applies to lines that name no application
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Language of the mail [default: from the configuration]. With --from, this applies to lines
    /// that name no language
    #[arg(long, value_name = "tr|en", value_parser = arguments::language)]
    language: Option<Language>,
    /// Print the link instead of sending it; needs neither a server nor mail
    #[arg(long, conflicts_with_all = ["app", "language", "from"])]
    print_link: bool,
    /// Invite the users in a CSV file (at most 5,000 users), or - for standard input. If a line has
    /// an error, no user is invited, and every error is reported with its line
    #[arg(long, value_name = "FILE|-",
        conflicts_with_all = ["email", "username", "name", "phone", "picture", "roles"])]
    from: Option<PathBuf>,
    /// Report what would happen, without writing or sending anything
    #[arg(long, requires = "from",
        conflicts_with_all = ["email", "username", "name", "phone", "picture", "roles"])]
    dry_run: bool,
}

/// Invitation of one user, or of the users of a file.
#[derive(Debug)]
pub enum InvitationTarget {
    One(Box<Invitee>),
    /// Users of the file at this path.
    Many(PathBuf, Box<Invitees>),
}

impl From<InviteArguments> for InvitationTarget {
    fn from(arguments: InviteArguments) -> Self {
        let InviteArguments { username, phone, picture, roles, groups, app, language, print_link, dry_run, .. } =
            arguments;
        match (arguments.from, arguments.email, arguments.name) {
            (None, Some(email), Some(name)) => {
                let invitee =
                    Invitee { email, username, name, phone, picture, roles, groups, app, language, print_link };
                Self::One(Box::new(invitee))
            }
            // The parser requires `email` and `name` unless there is a file, so there is a file.
            (from, ..) => {
                let file = UsersFile::default();
                Self::Many(from.unwrap_or_default(), Box::new(Invitees { file, groups, app, language, dry_run }))
            }
        }
    }
}

/// Users of a file to invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitees {
    pub file: UsersFile,
    /// Groups of all users, in addition to the groups of each line.
    pub(super) groups: Vec<String>,
    /// Application for lines that name no application.
    pub(super) app: Option<String>,
    pub(super) language: Option<Language>,
    pub(super) dry_run: bool,
}

impl Invitees {
    /// Returns invitations of users with these addresses and names, in this order.
    pub fn of(users: Vec<(Email, String)>, groups: Vec<String>, app: Option<String>) -> Self {
        let file = UsersFile::of(users.into_iter().map(|(email, name)| (email.as_str().to_owned(), name)));
        Self { file, groups, app, language: None, dry_run: false }
    }
}

/// A user to invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitee {
    pub email: Email,
    pub username: Option<Username>,
    pub name: String,
    pub phone: Option<String>,
    pub picture: Option<String>,
    pub roles: Vec<Role>,
    pub groups: Vec<String>,
    /// Name of the application in the configuration.
    pub app: Option<String>,
    /// Language of the mail.
    pub language: Option<Language>,
    /// Whether the answer contains the link. Otherwise the link is mailed.
    #[serde(default)]
    pub print_link: bool,
}

impl TryFrom<NewUser> for Invitee {
    type Error = &'static str;

    fn try_from(new: NewUser) -> Result<Self, Self::Error> {
        let NewUser { names: NewNames { email, username }, name, phone, picture, roles, groups, .. } = new;
        let email = email.ok_or(
            "without --password-stdin the user is invited, and an invitation needs an e-mail address; give the \
             address, or the password",
        )?;
        let (app, language, print_link) = (None, None, false);
        Ok(Self { email, username, name, phone, picture, roles, groups, app, language, print_link })
    }
}

/// Changes to a user. Attributes that are not given stay unchanged.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[group(id = "changes", required = true, multiple = true)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags of the command line")]
pub struct UserChanges {
    /// New e-mail address; not verified unless --email-verified is given
    #[arg(long, value_parser = arguments::email, conflicts_with = "no_email")]
    pub email: Option<Email>,
    /// Remove the e-mail address; the user signs in with the username
    #[arg(long)]
    pub no_email: bool,
    /// Mark the address as verified
    #[arg(long, conflicts_with_all = ["email_unverified", "no_email"])]
    pub email_verified: bool,
    /// Mark the address as not verified
    #[arg(long)]
    pub email_unverified: bool,
    /// Username; applications that identify the user by the old username will see a new user
    #[arg(long, value_parser = arguments::username, conflicts_with = "no_username")]
    pub username: Option<Username>,
    /// Remove the username; other users can then use it
    #[arg(long)]
    pub no_username: bool,
    /// Full name
    #[arg(long)]
    pub name: Option<String>,
    /// Phone number, such as +905551112233
    #[arg(long, value_name = "NUMBER", conflicts_with = "no_phone")]
    pub phone: Option<String>,
    /// Remove the phone number
    #[arg(long)]
    pub no_phone: bool,
    /// HTTPS URL of an image
    #[arg(long, value_name = "URL", conflicts_with = "no_picture")]
    pub picture: Option<String>,
    /// Remove the picture
    #[arg(long)]
    pub no_picture: bool,
    /// Console role, replacing all current ones; can be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = arguments::role(), conflicts_with = "no_roles")]
    pub roles: Vec<Role>,
    /// Remove all roles
    #[arg(long)]
    pub no_roles: bool,
    /// Group, visible to applications, replacing all current ones; can be repeated
    #[arg(long = "group", value_name = "GROUP", conflicts_with = "no_groups")]
    pub groups: Vec<String>,
    /// Remove all groups
    #[arg(long)]
    pub no_groups: bool,
    /// Console roles to add. The command line replaces all roles instead.
    #[arg(skip)]
    pub add_roles: Vec<Role>,
    /// Console roles to remove.
    #[arg(skip)]
    pub remove_roles: Vec<Role>,
    /// Group to add; can be repeated
    #[arg(long = "add-group", value_name = "GROUP")]
    pub add_groups: Vec<String>,
    /// Group to remove; can be repeated
    #[arg(long = "remove-group", value_name = "GROUP")]
    pub remove_groups: Vec<String>,
}

impl UserChanges {
    /// Returns the changes that set a user's profile. Attributes that are `None` stay unchanged. An
    /// empty address or phone number removes it.
    pub fn of_profile(
        name: Option<String>,
        email: Option<Option<Email>>,
        phone: Option<String>,
        username: Option<Username>,
    ) -> Self {
        let phone_number = phone.clone().filter(|phone| !phone.is_empty());
        Self {
            name,
            no_email: email == Some(None),
            email: email.flatten(),
            no_phone: phone.is_some_and(|phone| phone.is_empty()),
            phone: phone_number,
            username,
            ..Self::default()
        }
    }

    /// Returns the changes that add a user to groups and remove the user from others.
    pub fn of_groups(add_groups: Vec<String>, remove_groups: Vec<String>) -> Self {
        Self { add_groups, remove_groups, ..Self::default() }
    }
}

/// A new password.
///
/// The command line reads it from standard input, because other users of the machine can see
/// arguments.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewPassword {
    /// Read the password from the first line of standard input
    #[arg(long)]
    #[serde(skip)]
    pub password_stdin: bool,
    /// The password itself
    #[arg(skip = Secret::new(""))]
    #[serde(serialize_with = "in_clear")]
    pub secret: Secret,
}

impl From<Secret> for NewPassword {
    fn from(secret: Secret) -> Self {
        Self { password_stdin: false, secret }
    }
}
