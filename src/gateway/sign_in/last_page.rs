//! Page to which the last sign-in of a browser led. Pure.
//!
//! A forged value only leads to another page of the same application.

use crate::sign_in::return_path::ReturnPath;
use sealgate_core::web::last_sign_in;

/// Returns the value of the cookie, or `None` if the page is too long.
pub(crate) fn cookie_value(state: &str, page: &ReturnPath) -> Option<String> {
    last_sign_in::cookie_value(state, page.as_str())
}

/// Returns the page from the cookie. A response with the state of another sign-in has none.
pub(crate) fn read(cookie: Option<&str>, state: Option<&str>) -> Option<ReturnPath> {
    ReturnPath::parse(&last_sign_in::read(cookie, state)?)
}

#[cfg(test)]
mod tests {
    use sealgate_domain::secret::base64url;

    use super::*;

    #[test]
    fn a_page_survives_byte_for_byte() {
        let page = ReturnPath::parse("/a?b=c&d=%2F;e").unwrap();
        let cookie = cookie_value("s", &page).unwrap();
        assert_eq!(read(Some(&cookie), Some("s")), Some(page));
        assert_eq!(read(Some(&cookie), Some("t")), None);
    }

    #[test]
    fn a_forged_value_leads_to_no_other_host() {
        for page in ["//evil.test", "https://evil.test/", "/.sealgate/logout", "/a#b", ""] {
            let cookie = format!("s.{}", base64url(page.as_bytes()));
            assert_eq!(read(Some(&cookie), None), None, "{page}");
        }
    }
}
