//! Encoding of the provider's own pages in sign-in requests. The redirect URI must be exactly one
//! of `OWN_PAGES`. The page of one user or client is encoded as its list page, with the identifier
//! as `state`.

use sealgate_domain::client::ClientId;
use sealgate_domain::user::Subject;

const USERS: &str = "/console/users";
const CLIENTS: &str = "/console";
const CLIENT: &str = "/console/clients";

/// Query parameter that names a kept form on the page that shows it.
pub(super) const FORM: &str = "form";

/// Separates the identifier from the name of a kept form in `state`. No identifier contains it.
const SEPARATOR: char = '!';

/// Length of the name of a kept form.
const FORM_LENGTH: usize = 43;

/// Returns the page with the address parameter that names a kept form.
pub(super) fn with_form(page: &str, form: &str) -> String {
    format!("{page}?{FORM}={form}")
}

/// Returns the redirect URI's path and the `state` of a sign-in that returns to this page, which
/// may name a kept form.
pub(super) fn request_for(page: &str) -> (&str, Option<String>) {
    let (page, form) = match page.split_once('?') {
        Some((page, query)) => (page, query.strip_prefix(FORM).and_then(|rest| rest.strip_prefix('='))),
        None => (page, None),
    };
    let (page, item) = match page.rsplit_once('/') {
        Some((USERS, id)) if Subject::parse(id).is_some() => (USERS, Some(id)),
        Some((CLIENT, id)) if id != "new" && ClientId::parse(id).is_some() => (CLIENTS, Some(id)),
        _ => (page, None),
    };
    let state = match form {
        Some(form) => Some(format!("{}{SEPARATOR}{form}", item.unwrap_or_default())),
        None => item.map(str::to_owned),
    };
    (page, state)
}

/// Returns the page to which a sign-in with this redirect URI's path and `state` returns. Ignores
/// parts of a `state` that are neither an identifier nor the name of a kept form.
pub(super) fn requested(path: &str, state: Option<&str>) -> String {
    let (item, form) = match state.and_then(|state| state.split_once(SEPARATOR)) {
        Some((item, form)) => (Some(item), Some(form)),
        None => (state, None),
    };
    let page = match path {
        USERS => item.and_then(Subject::parse).map(|subject| format!("{USERS}/{subject}")),
        CLIENTS => item.and_then(ClientId::parse).map(|id| format!("{CLIENT}/{}", id.as_str())),
        _ => None,
    };
    let page = page.unwrap_or_else(|| path.to_owned());
    match form.filter(|form| is_form(form)) {
        Some(form) => with_form(&page, form),
        None => page,
    }
}

fn is_form(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() == FORM_LENGTH && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_survives_the_sign_in_with_its_identifier_and_its_form() {
        let (user, form) = (Subject::from_random([1; 16]), "f".repeat(FORM_LENGTH));
        let pages = [format!("{USERS}/{user}"), format!("{CLIENT}/c1"), format!("{USERS}/new"), "/account".to_owned()];
        for page in pages.iter().flat_map(|page| [page.clone(), with_form(page, &form)]) {
            let (path, state) = request_for(&page);
            assert_eq!(requested(path, state.as_deref()), page);
        }
    }

    #[test]
    fn other_states_lead_to_the_list() {
        for state in ["x", "!", "!x", "../..", "!../../../../../../../../../../../../../oauth/logout"] {
            assert_eq!(requested(USERS, Some(state)), USERS, "{state}");
        }
        assert_eq!(requested("/account", Some("c1")), "/account");
    }
}
