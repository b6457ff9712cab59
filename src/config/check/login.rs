//! Checks of an application's `login`.

use super::address;
use crate::disk::Files;
use crate::file::Section;
use crate::login::{AppLoginConfig, LoginAccount};
use crate::{Upstream, UpstreamTls};

/// Maximum number of cookies that browsers receive.
const MAX_BROWSER_COOKIES: usize = 16;

/// Allowed values of `group_accounts`.
const GROUP_ACCOUNTS: &str =
    "write a list of tables such as { group = \"admins\", username = \"admin\", password_file = \"admin.password\" }";

/// Maximum length of a username at an application, in characters.
const MAX_USERNAME_LENGTH: usize = 200;

/// Parses the settings for signing in to the application. Returns `None` if there are none, or if
/// files are not checked.
pub(super) fn login(
    app: &mut Section<'_, '_>,
    upstreams: &[Upstream],
    tls: &UpstreamTls,
    files: &Files,
) -> Option<AppLoginConfig> {
    let mut section =
        app.optional_section("login", "write a table such as { recipe = \"/etc/sealgate/logins/wiki.toml\" }")?;
    let recipe = section.required_text(
        "recipe",
        "write the path of a recipe, such as \"/etc/sealgate/logins/wiki.toml\"",
        |text| files.login_recipe(text),
    );
    let service = service_account(&mut section, files);
    let group_accounts = group_accounts(&mut section, files);
    let browser_cookies = section.texts("browser_cookies", "write a list such as [\"csrftoken\"]", cookie_name);
    let browser_cookies = browser_cookies.unwrap_or_default();
    if browser_cookies.len() > MAX_BROWSER_COOKIES {
        let problem = format!("has {} names; set at most {MAX_BROWSER_COOKIES}", browser_cookies.len());
        section.fault("browser_cookies", &problem);
    }
    drop(section);
    let recipe = recipe??;
    if upstreams.iter().any(|upstream| matches!(upstream, Upstream::Socket(_))) {
        app.fault("login", "requires upstreams with http or https; remove the Unix socket from upstreams");
    }
    if tls.client.is_some() || tls.server_name.is_some() {
        let problem = "does not support a client certificate or server_name in upstream_tls; leave them out";
        app.fault("login", problem);
    }
    let account = service.unwrap_or(LoginAccount::OfUser);
    Some(AppLoginConfig { recipe, account, group_accounts, browser_cookies })
}

/// Parses `username` and `password_file`. Returns `None` if they are absent.
fn service_account(section: &mut Section<'_, '_>, files: &Files) -> Option<LoginAccount> {
    let username = section.text("username", "write the service account's username at the application", |text| {
        let is_valid = (1..=MAX_USERNAME_LENGTH).contains(&text.chars().count()) && !text.contains(char::is_control);
        let problem = || format!("{text:?} is not one line of 1 to {MAX_USERNAME_LENGTH} characters");
        if is_valid { Ok(text.to_owned()) } else { Err(problem()) }
    });
    let password_file =
        section.text("password_file", "write the path of a file with the service account's password", |text| {
            files.login_password(text)
        });
    section.require_both("username", "password_file");
    Some(LoginAccount::Service { username: username?, password_file: password_file? })
}

/// Parses the service accounts of groups.
fn group_accounts(section: &mut Section<'_, '_>, files: &Files) -> Vec<(String, LoginAccount)> {
    let mut accounts: Vec<(String, LoginAccount)> = Vec::new();
    for mut section in section.one_or_more_sections("group_accounts", GROUP_ACCOUNTS) {
        let group = section.required_text("group", "write the name of a group", |text| {
            if accounts.iter().any(|(group, _)| group == text) {
                return Err(format!("{text:?} has another account in this list; write each group once"));
            }
            address::group(text)
        });
        let account = service_account(&mut section, files);
        if !section.has("username") && !section.has("password_file") {
            section.missing("username", "write the service account's username, and its password_file");
        }
        accounts.extend(group.zip(account));
    }
    accounts
}

/// Checks the name of a cookie (RFC 6265 §4.1.1).
fn cookie_name(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
    let is_valid = !text.is_empty() && text.bytes().all(is_token);
    if is_valid { Ok(text.to_owned()) } else { Err(format!("{text:?} is not the name of a cookie")) }
}
