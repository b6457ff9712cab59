//! `login` of an application: settings for signing users in to the application's own login form.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealgate_app_login::LoginRecipe;
use sealgate_domain::secret::Secret;
use sealgate_domain::user::User;

use crate::disk::read_longer_secret_file;

/// Maximum length of a password at an application, in bytes.
const MAX_PASSWORD_BYTES: usize = 1000;

/// `login` of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppLoginConfig {
    pub recipe: RecipeFile,
    /// Account for the users of no group in `group_accounts`.
    pub account: LoginAccount,
    /// Groups and their accounts. The first of them that has the user decides.
    pub group_accounts: Vec<(String, LoginAccount)>,
    /// Names of the application's cookies that the gateway also sends to browsers, because the
    /// application's scripts read these cookies. Such a cookie must not authenticate the user.
    pub browser_cookies: Vec<String>,
}

impl AppLoginConfig {
    /// Returns the account of a user.
    pub fn account_of(&self, user: &User) -> &LoginAccount {
        let mut groups = self.group_accounts.iter();
        groups.find(|(group, _)| user.is_in_group(group)).map_or(&self.account, |(_, account)| account)
    }
}

/// Account that the gateway uses at the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginAccount {
    /// The account of each user, whose name and password are in the store.
    OfUser,
    /// One account for several users.
    Service { username: String, password_file: PathBuf },
}

/// A recipe and its file.
#[derive(Debug, Clone)]
pub struct RecipeFile {
    pub path: PathBuf,
    text: String,
    pub recipe: Arc<LoginRecipe>,
}

impl RecipeFile {
    /// Parses the text of a recipe file.
    ///
    /// # Errors
    /// One line with the key of the recipe and what to do.
    pub(super) fn parse(path: PathBuf, text: String) -> Result<Self, String> {
        let recipe = Arc::new(LoginRecipe::parse(&text)?);
        Ok(Self { path, text, recipe })
    }
}

impl PartialEq for RecipeFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.text) == (&other.path, &other.text)
    }
}

impl Eq for RecipeFile {}

/// Reads the password of a service account at an application.
///
/// # Errors
/// One line with the path and what to do, without the password.
pub fn read_login_password(file: &Path) -> Result<Secret, String> {
    let fault = |problem: String| format!("{} {problem}", file.display());
    let text = read_longer_secret_file(file, "the password", MAX_PASSWORD_BYTES).map_err(fault)?;
    if text.contains(['\r', '\n', '\0']) {
        return Err(fault("contains a line break or NUL; write the password in one line".into()));
    }
    Ok(Secret::new(text.as_str().to_owned()))
}
