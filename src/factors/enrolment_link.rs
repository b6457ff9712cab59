//! The link by which somebody whose factors were reset enrols a new one.

use std::time::Duration;

use crate::domain::secret::{Secret, SecretHash, from_base64url};
use crate::domain::user::Subject;

/// How long a link is good.
pub const LINK_LIFE: Duration = Duration::from_hours(24);

/// The path of the page that a link leads to, with its token in the query parameter `token`.
pub const LINK_PATH: &str = "/oauth/enrolment";

/// Random bytes of a link: nobody guesses it.
pub const LINK_BYTES: usize = 24;

/// What a link's token says: whose it is, and what must be the hash that was kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentLink {
    pub subject: Subject,
    pub hash: SecretHash,
}

impl EnrolmentLink {
    /// A new link for this person, and its token, which is kept nowhere.
    pub fn new(subject: Subject, random: [u8; LINK_BYTES]) -> (Self, Secret) {
        let token = Secret::from_random(&[&subject.as_bytes()[..], &random].concat());
        (Self { subject, hash: token.hash() }, token)
    }

    /// Reads a token as it comes in an address. Whether it is one that was given out, the record of its person says.
    pub fn parse(token: &str) -> Option<Self> {
        let bytes = from_base64url(token).filter(|bytes| bytes.len() == 16 + LINK_BYTES)?;
        let subject = Subject::from_bytes(*bytes.first_chunk()?);
        Some(Self { subject, hash: SecretHash::of(token.as_bytes()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_its_person_and_is_read_back() {
        let anna = Subject::from_random([1; 16]);
        let (link, token) = EnrolmentLink::new(anna, [7; LINK_BYTES]);
        assert_eq!(token.expose().len(), 54);
        assert_eq!(EnrolmentLink::parse(token.expose()), Some(link.clone()));
        assert_eq!(link.subject, anna);
        let (other, _) = EnrolmentLink::new(anna, [8; LINK_BYTES]);
        assert_ne!(other.hash, link.hash);
    }

    #[test]
    fn what_is_no_token_names_nobody() {
        let (_, token) = EnrolmentLink::new(Subject::from_random([1; 16]), [7; LINK_BYTES]);
        let token = token.expose();
        for wrong in ["", "AAAA", &token[1..], &format!("{token}="), &format!("{token}A"), &format!("{token}AAAA")] {
            assert_eq!(EnrolmentLink::parse(wrong), None, "{wrong}");
        }
    }
}
