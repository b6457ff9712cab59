//! `[registration_of_people]`: self-registration of users.

use serde::Serialize;

use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::user::Email;

/// Settings of self-registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserRegistration {
    pub mode: UserRegistrationMode,
    /// Permitted domains of e-mail addresses, as A-labels in lower case. If empty, every domain is
    /// permitted.
    pub domains: Vec<String>,
}

/// Whether users can create their own accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum UserRegistrationMode {
    Off,
    /// Everyone with an e-mail address in a permitted domain can create an account.
    Open,
}

impl UserRegistration {
    /// Returns whether self-registration is enabled.
    pub fn is_open(&self) -> bool {
        self.mode == UserRegistrationMode::Open
    }

    /// Returns the error for a server without a wrapping key. Such a server cannot encrypt queued
    /// mail, so it sends no mail.
    pub fn fault_without_sealing(&self) -> Option<String> {
        let fault = "registration_of_people.mode: is \"open\", but the token has no wrapping key, so no mail \
            can be sent to verify an address. Create one with `sealgate key generate-wrapping-key`, or write \
            mode = \"off\"";
        self.is_open().then(|| fault.to_owned())
    }

    /// Returns whether an account may be created with this address. A permitted domain does not
    /// include its subdomains.
    pub fn takes(&self, address: &Email) -> bool {
        let domain = MailAddress::from_email(address);
        domain.is_some_and(|address| {
            self.domains.is_empty() || self.domains.iter().any(|domain| domain == address.domain())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_compared_as_a_labels_in_lower_case() {
        let domains = vec!["example.test".to_owned(), "xn--rnek-4qa.test".to_owned()];
        let some = UserRegistration { mode: UserRegistrationMode::Open, domains };
        let any = UserRegistration { domains: Vec::new(), ..some.clone() };
        let takes = |of: &UserRegistration, text| of.takes(&Email::parse(text).unwrap());
        for allowed in ["a@example.test", "A@EXAMPLE.Test", "a@örnek.test", "a@ÖRNEK.test", "a@XN--RNEK-4QA.test"] {
            assert!(takes(&some, allowed), "{allowed}");
        }
        for other in
            ["a@sub.example.test", "a@notexample.test", "a@example.test.evil.test", "a@ornek.test", "a@example"]
        {
            assert!(!takes(&some, other) && takes(&any, other), "{other}");
        }
        // The server cannot send e-mail to these addresses.
        assert!(!takes(&any, "a@[127.0.0.1]") && !takes(&any, "ş@example.test"));
    }
}
