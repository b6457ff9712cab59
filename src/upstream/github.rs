//! Users of GitHub, which has OAuth 2.0 without OpenID Connect. Its answers become claims.

use http::Response;
use serde_json::{Map, Value};

use crate::fault::{UpstreamFault, UpstreamFaultKind};
use crate::outcome::UpstreamRefusal;
use crate::requests::get_with_token;
use crate::token::{MAX_USER_INFO_LENGTH, read_user_info};
use sealgate_config::UpstreamSettings;
use sealgate_domain::oauth::upstream_metadata::ClientAuthentication;
use sealgate_domain::secret::Secret;
use sealgate_system::fetch::Web;

/// Path after the URL of GitHub in the parameter `iss`.
pub(crate) const ISSUER_PATH: &str = "/login/oauth";

/// Methods of client authentication at GitHub.
pub(crate) const CLIENT_AUTHENTICATION: ClientAuthentication =
    ClientAuthentication { basic: false, post: true, private_key_jwt: false, es256: None };

/// Maximum number of teams or organizations in a list. A longer list counts as incomplete.
const MAX_LISTED: usize = 100;

/// Returns the URL for browsers.
pub(crate) fn authorization_endpoint(issuer: &str) -> String {
    format!("{issuer}{ISSUER_PATH}/authorize")
}

/// Returns the URL of the token endpoint.
pub(crate) fn token_endpoint(issuer: &str) -> String {
    format!("{issuer}{ISSUER_PATH}/access_token")
}

/// Returns the URL of the API. GitHub Enterprise Server has it on its own host.
pub(crate) fn api(issuer: &str) -> String {
    if issuer == "https://github.com" { "https://api.github.com".to_owned() } else { format!("{issuer}/api/v3") }
}

/// Reads a user: `id`, `login`, `name`, the primary address, and `teams`, `orgs` and `org_ids` if the
/// settings use them. Blocking.
pub(crate) fn read_user(
    web: &Web,
    settings: &UpstreamSettings,
    token: &Secret,
) -> Result<Map<String, Value>, UpstreamRefusal> {
    let api = api(&settings.issuer);
    let user = read_user_info(web, &format!("{api}/user"), token)?;
    let mut claims = Map::new();
    for name in ["id", "login", "name"] {
        claims.extend(user.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    // `email` of the user is the public address, which need not be verified.
    let (emails, _) = read_list(web, &format!("{api}/user/emails"), token)?;
    let is_true = |email: &Value, name: &str| email.get(name) == Some(&Value::Bool(true));
    if let Some(email) = emails.iter().find(|email| is_true(email, "primary")) {
        claims.extend(email.get("email").map(|value| ("email".to_owned(), value.clone())));
        claims.insert("email_verified".to_owned(), Value::Bool(is_true(email, "verified")));
    }
    let is_used = |name: &str| {
        settings.claims.groups.as_deref() == Some(name)
            || settings.claims.required.iter().any(|required| required.claim == name)
    };
    if is_used("teams") {
        let teams = read_all(web, &format!("{api}/user/teams?per_page={MAX_LISTED}"), token)?;
        let team = |team: &Value| {
            let organization = team.get("organization")?.get("login")?.as_str()?;
            Some(Value::String(format!("{organization}/{}", team.get("slug")?.as_str()?)))
        };
        claims.insert("teams".to_owned(), teams.iter().filter_map(team).collect());
    }
    if is_used("orgs") || is_used("org_ids") {
        let organizations = read_all(web, &format!("{api}/user/orgs?per_page={MAX_LISTED}"), token)?;
        let login = |organization: &Value| organization.get("login").cloned();
        let id = |organization: &Value| Some(Value::String(organization.get("id")?.as_u64()?.to_string()));
        claims.insert("orgs".to_owned(), organizations.iter().filter_map(login).collect());
        claims.insert("org_ids".to_owned(), organizations.iter().filter_map(id).collect());
    }
    Ok(claims)
}

/// Reads a list that must be complete.
fn read_all(web: &Web, url: &str, token: &Secret) -> Result<Vec<Value>, UpstreamRefusal> {
    let (list, is_complete) = read_list(web, url, token)?;
    if is_complete { Ok(list) } else { Err(UpstreamRefusal::GroupsOverage) }
}

/// Reads a list. The second value is false if the list has further pages.
fn read_list(web: &Web, url: &str, token: &Secret) -> Result<(Vec<Value>, bool), UpstreamFault> {
    let response = get_with_token(web, url, token)?;
    let fault = |text: &str| UpstreamFault::new(UpstreamFaultKind::Answer, format!("{url}: {text}"));
    if response.status() == 403 || response.status() == 404 {
        return Err(fault("GitHub refused the request; add \"user:email\" and, for teams, \"read:org\" to scopes"));
    }
    if response.status() != 200 {
        return Err(fault(&format!("the response has the status {}, expected 200", response.status())));
    }
    // Each element has the data of an organization, several kilobytes.
    if response.body().len() > 4 * MAX_USER_INFO_LENGTH {
        return Err(fault("the response is too long"));
    }
    let list = serde_json::from_slice(response.body()).map_err(|_| fault("the response is not a JSON list"))?;
    Ok((list, !has_next_page(&response)))
}

/// Returns whether the header `Link` names a next page (RFC 8288).
fn has_next_page(response: &Response<Vec<u8>>) -> bool {
    response.headers().get_all("link").iter().any(|link| link.to_str().is_ok_and(|link| link.contains("rel=\"next\"")))
}
