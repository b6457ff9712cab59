//! Page to which the last sign-in of a browser led. Pure.
//!
//! A sign-in form may be sent again after its request was finished, for instance with the Back
//! button or on a reload. The browser then returns to the page that it requested, without a second
//! code. A cookie with a lifetime of one minute has the page, so the server stores nothing. A
//! forged value only leads to another page of the same application.

use crate::sign_in::return_path::ReturnPath;
use sealgate_domain::secret::{base64url, from_base64url};

/// Lifetime of the cookie.
pub(crate) const LIFETIME_SECONDS: u64 = 60;

/// Maximum length of a page in bytes. The browser sends the cookie with each request.
const MAX_PAGE_BYTES: usize = 512;

/// Returns the value of the cookie, or `None` if the page is too long.
pub(crate) fn cookie_value(state: &str, page: &ReturnPath) -> Option<String> {
    let page = page.as_str();
    (page.len() <= MAX_PAGE_BYTES).then(|| format!("{state}.{}", base64url(page.as_bytes())))
}

/// Returns the page from the cookie. A response with the state of another sign-in has none.
pub(crate) fn read(cookie: Option<&str>, state: Option<&str>) -> Option<ReturnPath> {
    let (of, page) = cookie?.split_once('.')?;
    if state.is_some_and(|state| state != of) {
        return None;
    }
    let page = String::from_utf8(from_base64url(page)?).ok()?;
    ReturnPath::parse(&page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read_for_its_own_state_or_for_none() {
        let page = ReturnPath::parse("/a?b=c&d=%2F;e").unwrap();
        let cookie = cookie_value("s", &page).unwrap();
        assert_eq!(read(Some(&cookie), None), Some(page.clone()));
        assert_eq!(read(Some(&cookie), Some("s")), Some(page));
        assert_eq!(read(Some(&cookie), Some("t")), None);
        assert_eq!(read(None, None), None);
        let long = ReturnPath::parse(&format!("/{}", "a".repeat(MAX_PAGE_BYTES))).unwrap();
        assert_eq!(cookie_value("s", &long), None);
    }

    #[test]
    fn a_forged_value_leads_to_no_other_host() {
        for page in ["//evil.test", "https://evil.test/", "/.sealgate/logout", "/a#b", ""] {
            let cookie = format!("s.{}", base64url(page.as_bytes()));
            assert_eq!(read(Some(&cookie), None), None, "{page}");
        }
        for cookie in ["", ".", "s", "s.", "s.*", "s._w"] {
            assert_eq!(read(Some(cookie), None), None, "{cookie}");
        }
    }
}
