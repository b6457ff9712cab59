//! Table of a user's open accesses, on the account page and on the console's page of a user.
//!
//! The button of a row sends `end` with the kind of the access ([`AccessKind::as_str`]), a colon and
//! its id.

use sealgate_domain::assurance::AuthenticationMethod;
use sealgate_domain::open_access::{AccessKind, ClientTokens, OpenAccess};

use askama::filters::Safe;

use super::device;
use super::words::{Markup, Words, escaped};

/// Rows of the table on one page.
#[derive(Debug, Clone, Copy)]
pub struct AccessTable<'a> {
    pub rows: &'a [OpenAccess],
    /// URL of the next page, if there are more rows.
    pub next: Option<&'a str>,
}

impl<'a> AccessTable<'a> {
    /// Returns the table with only the rows of these kinds, which follow each other.
    pub(super) fn part(&self, kinds: &[AccessKind]) -> Option<AccessTable<'a>> {
        let is_part = |access: &OpenAccess| kinds.contains(&access.kind);
        let (first, last) = (self.rows.iter().position(is_part)?, self.rows.iter().rposition(is_part)?);
        Some(AccessTable { rows: self.rows.get(first..=last)?, next: None })
    }
}

impl Words {
    /// Returns the name of the access: the device, the application, or the password.
    pub(super) fn access_name(self, access: &OpenAccess) -> Markup {
        let text = match access.kind {
            AccessKind::Session => return self.access_device(access),
            AccessKind::AppPassword => access.name.as_deref(),
            AccessKind::AppSession | AccessKind::Client | AccessKind::AppLogin => access.title.as_deref(),
        };
        self.isolated(text.unwrap_or(&access.id))
    }

    pub(super) fn access_kind(self, kind: &AccessKind) -> Markup {
        match kind {
            AccessKind::Session => self.access_session(),
            AccessKind::AppSession => self.access_app_session(),
            AccessKind::Client => self.access_client(),
            AccessKind::AppPassword => self.sessions_app_password(),
            AccessKind::AppLogin => self.menu_app_logins(),
        }
    }

    /// Returns details of the access, in one line.
    pub(super) fn access_detail(self, access: &OpenAccess) -> Option<Markup> {
        match access.kind {
            AccessKind::Session => self.methods(&access.methods),
            AccessKind::AppSession => access.has_app_login.then(|| self.access_app_login()),
            AccessKind::Client => match access.tokens {
                Some(ClientTokens::Refresh) => Some(self.access_offline()),
                Some(ClientTokens::Access) => None,
                None => Some(self.access_consent()),
            },
            AccessKind::AppPassword => access.title.as_deref().map(|app| self.access_for(app)),
            AccessKind::AppLogin => access.name.as_deref().map(|name| self.app_logins_user(name)),
        }
    }

    /// Returns the address. For a session at an application, also returns the device.
    pub(super) fn access_place(self, access: &OpenAccess) -> Option<Markup> {
        let address = access.address?.to_string();
        Some(match access.kind {
            AccessKind::AppSession => self.access_place_in(address, self.access_device(access)),
            _ => self.isolated(&address),
        })
    }

    pub(super) fn access_end_words(self, kind: &AccessKind) -> Markup {
        match kind {
            AccessKind::Session | AccessKind::AppSession => self.sessions_end(),
            AccessKind::Client => self.applications_withdraw(),
            AccessKind::AppPassword => self.app_password_revoke(),
            AccessKind::AppLogin => self.app_logins_remove(),
        }
    }

    /// Returns the accessible name of the button that ends the access.
    pub(super) fn access_end_named(self, access: &OpenAccess) -> Markup {
        let title = access.title.as_deref().unwrap_or(&access.id);
        let address = || access.address.map(|address| address.to_string()).unwrap_or_default();
        match access.kind {
            AccessKind::Session => self.sessions_end_named(address(), self.access_device(access)),
            AccessKind::AppSession => self.access_end_app_session_named(address(), title, self.access_device(access)),
            AccessKind::Client => self.applications_withdraw_named(title),
            AccessKind::AppPassword => self.app_password_revoke_named(access.name.as_deref().unwrap_or(&access.id)),
            AccessKind::AppLogin => self.app_logins_remove_named(title),
        }
    }

    fn access_device(self, access: &OpenAccess) -> Markup {
        let agent = access.user_agent.as_deref().unwrap_or_default();
        match (device::browser(agent), device::system(agent)) {
            (Some(browser), Some(system)) => self.device(browser, system),
            (Some(only), None) | (None, Some(only)) => escaped(only),
            (None, None) => self.device_unknown(),
        }
    }

    fn methods(self, methods: &[AuthenticationMethod]) -> Option<Markup> {
        let words: Vec<_> = methods.iter().map(|method| self.method(*method).0).collect();
        (!words.is_empty()).then(|| self.sessions_signed_in_with(Safe(words.join(", "))))
    }

    fn method(self, method: AuthenticationMethod) -> Markup {
        match method {
            AuthenticationMethod::Password => self.method_password(),
            AuthenticationMethod::Totp => self.factor_kind_app(),
            AuthenticationMethod::RecoveryCode => self.method_recovery(),
            AuthenticationMethod::SecurityKey => self.factor_kind_security_key(),
            AuthenticationMethod::Passkey => self.factor_kind_passkey(),
            AuthenticationMethod::Upstream => self.method_upstream(),
        }
    }

    /// Returns untrusted text as markup. Its writing direction does not affect the text around it.
    #[expect(clippy::unused_self, reason = "the other texts are methods, too")]
    fn isolated(self, text: &str) -> Markup {
        Safe(format!("<bdi>{}</bdi>", escaped(text).0))
    }
}
