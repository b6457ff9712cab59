//! Encoding of the provider's own pages in sign-in requests. The redirect URI must be exactly one
//! of `OWN_PAGES`. The page of one user or client is encoded as its list page, with the identifier
//! as `state`.

use sealgate_domain::client::ClientId;
use sealgate_domain::user::Subject;

const USERS: &str = "/console/users";
const CLIENTS: &str = "/console";
const CLIENT: &str = "/console/clients";

/// Returns the redirect URI's path and the `state` of a sign-in that returns to this page.
pub(super) fn request_for(page: &str) -> (&str, Option<&str>) {
    match page.rsplit_once('/') {
        Some((USERS, id)) if Subject::parse(id).is_some() => (USERS, Some(id)),
        Some((CLIENT, id)) if id != "new" && ClientId::parse(id).is_some() => (CLIENTS, Some(id)),
        _ => (page, None),
    }
}

/// Returns the page to which a sign-in with this redirect URI's path and `state` returns. Ignores a
/// `state` that is not an identifier.
pub(super) fn requested(path: &str, state: Option<&str>) -> String {
    let item = match path {
        USERS => state.and_then(Subject::parse).map(|subject| format!("{USERS}/{subject}")),
        CLIENTS => state.and_then(ClientId::parse).map(|id| format!("{CLIENT}/{}", id.as_str())),
        _ => None,
    };
    item.unwrap_or_else(|| path.to_owned())
}
