//! E-mail addresses that all mail servers accept. [`Email`] has the address as the user typed it,
//! and accepts more addresses.

use std::fmt;

use url::Host;

use crate::profile::is_visible;
use crate::user::Email;

/// Maximum length of the local part (RFC 5321 §4.5.3.1.1), the domain (§4.5.3.1.2) and a label (RFC
/// 1035 §2.3.4), in bytes.
const MAX_LOCAL_LENGTH: usize = 64;
const MAX_DOMAIN_LENGTH: usize = 253;
const MAX_LABEL_LENGTH: usize = 63;

/// Deliverable address in ASCII.
///
/// The local part is a dot-atom (RFC 5322 §3.2.3). The domain has its non-ASCII labels as A-labels
/// (RFC 5890).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailAddress {
    local: String,
    domain: String,
}

impl MailAddress {
    /// Converts an address. Returns `None` if some mail servers would reject it.
    ///
    /// Some mail servers reject quotes or non-ASCII letters in the local part, or an IP address
    /// instead of a domain.
    pub fn from_email(email: &Email) -> Option<Self> {
        let (local, domain) = email.as_str().split_once('@')?;
        let atom = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte))
        };
        // The library would decode `%41` to `A`.
        if local.len() > MAX_LOCAL_LENGTH || !local.split('.').all(atom) || domain.contains('%') {
            return None;
        }
        let Ok(Host::Domain(domain)) = Host::parse(domain) else { return None };
        let label = |label: &str| {
            (1..=MAX_LABEL_LENGTH).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let is_valid = domain.len() <= MAX_DOMAIN_LENGTH && domain.split('.').all(label);
        is_valid.then(|| Self { local: local.to_owned(), domain })
    }

    /// Parses an address that a source of users has reported. Returns `None` if some mail servers would
    /// reject it, or if its domain is written in another form, such as with full-width letters:
    /// applications could read it as the address of another user.
    pub fn reported(text: &str) -> Option<(Email, Self)> {
        let email = Email::parse(text).filter(|email| is_visible(email.as_str()))?;
        let address = Self::from_email(&email)?;
        let domain = email.as_str().rsplit_once('@').map(|(_, domain)| domain)?;
        let is_plain = domain.eq_ignore_ascii_case(address.domain()) || address.is_international();
        is_plain.then_some((email, address))
    }

    /// Returns the local part.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// Returns the domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns whether the domain has A-labels, the ASCII form of non-ASCII labels.
    pub fn is_international(&self) -> bool {
        self.domain.split('.').any(|label| label.starts_with("xn--"))
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_to(text: &str) -> Option<String> {
        MailAddress::from_email(&Email::parse(text).unwrap()).map(|address| address.to_string())
    }

    #[test]
    fn an_address_is_written_in_ascii() {
        for (typed, sent) in [
            ("anna@example.com", "anna@example.com"),
            ("Anna.B+x_y@Example.COM", "Anna.B+x_y@example.com"),
            ("o'neil@example.com", "o'neil@example.com"),
            ("anna@çağrı.example", "anna@xn--ar-3ia9t9c.example"),
            ("root@localhost", "root@localhost"),
        ] {
            assert_eq!(sent_to(typed).as_deref(), Some(sent), "{typed}");
        }
    }

    #[test]
    fn a_source_reports_addresses_in_one_spelling() {
        for text in ["anna@example.com", "Anna@Example.COM", "anna@çağrı.example", "anna@xn--ar-3ia9t9c.example"] {
            assert_eq!(MailAddress::reported(text).map(|(email, _)| email), Email::parse(text), "{text}");
        }
        for text in
            ["a@b,x", "<a@b>", "a@b.", "a@\u{ff42}.com", "a@b\u{3002}com", "\u{ff41}@b.com", "a@b.com\u{200b}", "a b"]
        {
            assert_eq!(MailAddress::reported(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_that_mail_servers_refuse_are_rejected() {
        let long = format!("{}@example.com", "a".repeat(65));
        let label = format!("a@{}.com", "a".repeat(64));
        for wrong in [
            "a..b@example.com",
            ".a@example.com",
            "a.@example.com",
            "<a@example.com>",
            "<a@example.com",
            "a,b@example.com",
            "a\"b@example.com",
            "şule@example.com",
            "a@example..com",
            "a@-example.com",
            "a@example.com.",
            "a@ex_ample.com",
            "a@ex%61mple.com",
            "a@127.0.0.1",
            "a@[127.0.0.1]",
            "a@example.com>",
            &long,
            &label,
        ] {
            assert_eq!(sent_to(wrong), None, "{wrong}");
        }
    }
}
