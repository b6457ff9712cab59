//! Browser sessions: at the provider, and at each protected application on a host of its own.
//!
//! A cookie is `base64url(id ‖ secret)`: the id finds the record and stays for the session's life, the secret proves the
//! browser and changes at each sign-in (session fixation). Only the secret's hash is kept.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::id::Id;
use crate::domain::secret::{Secret, SecretHash, from_base64url};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;

/// Accounts that may be signed in side by side in one browser.
pub const MOST_SIGN_INS: usize = 5;

/// How long the cookie from before a renewed sign-in is still good at the gate, for requests in flight.
const OVERLAP: Duration = Duration::from_secs(30);

pub type SessionId = Id<'s'>;

/// What a session cookie says: 54 characters.
#[derive(Debug, Clone)]
pub struct SessionCookie {
    pub id: SessionId,
    secret: Secret,
}

impl SessionCookie {
    /// A cookie for the session `id` with a secret made of these random bytes.
    pub fn new(id: SessionId, random: [u8; 24]) -> Self {
        Self { id, secret: Secret::from_random(&random) }
    }

    /// Reads a cookie's value.
    pub fn parse(value: &str) -> Option<Self> {
        let bytes: [u8; 40] = from_base64url(value)?.try_into().ok()?;
        let (id, secret) = bytes.split_at(16);
        Some(Self { id: SessionId::from_bytes(id.try_into().ok()?), secret: Secret::from_random(secret) })
    }

    /// The cookie's value.
    pub fn value(&self) -> Secret {
        // The secret is 24 bytes, the id 16: decoding what we encoded cannot fail, and an empty secret opens nothing.
        let secret = from_base64url(self.secret.expose()).unwrap_or_default();
        Secret::from_random(&[self.id.as_bytes().as_slice(), &secret].concat())
    }

    /// What the session keeps of it.
    pub fn hash(&self) -> SecretHash {
        self.secret.hash()
    }
}

/// One thing that a person did to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Password,
}

/// A person signed in to a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    pub subject: Subject,
    /// When: the claim `auth_time`.
    pub at: UnixTime,
    pub steps: Vec<Step>,
}

impl SignIn {
    /// The authentication context class that was reached (OpenID Connect Core §2, `acr`).
    pub fn acr(&self) -> &'static str {
        "1"
    }

    /// The methods that were used (RFC 8176).
    pub fn amr(&self) -> Vec<String> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Password => "pwd".to_owned(),
            })
            .collect()
    }
}

/// The cookie that a renewed sign-in has replaced. It proves what it proved before, and nothing of the renewed sign-in: who
/// holds it may be whoever the renewal was to keep out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Of the cookie.
    pub cookie: SecretHash,
    /// Until when it is still good.
    pub until: UnixTime,
    pub sign_in: SignIn,
}

/// A browser's session at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// Of the cookie in force.
    pub cookie: SecretHash,
    /// The cookie from before a renewed sign-in.
    #[serde(default)]
    pub previous: Option<Previous>,
    /// Who is signed in, the one in use first. Never empty.
    pub sign_ins: Vec<SignIn>,
    pub created_at: UnixTime,
    /// When it was last used, to the minute.
    pub last_seen_at: UnixTime,
    pub expires_at: UnixTime,
    /// How long it lasts unused, seconds.
    pub idle_seconds: u64,
    pub address: IpAddr,
    /// The browser at sign-in, as it called itself, cut to 200 characters.
    #[serde(default)]
    pub user_agent: String,
}

impl Session {
    /// Whether it is live at `now`.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at && now.since(self.last_seen_at).as_secs() < self.idle_seconds
    }

    /// Whether this is the cookie in force: the only one by which anything is signed, changed or shown here.
    pub fn accepts(&self, cookie: &SessionCookie) -> bool {
        self.cookie == cookie.hash()
    }

    /// What the cookie from before a renewed sign-in still stands for, where this is it: requests to an application that
    /// were in flight go on as they were.
    pub fn overlapping(&self, cookie: &SessionCookie, now: UnixTime) -> Option<&Previous> {
        let hash = cookie.hash();
        let previous = self.previous.as_ref();
        let previous = previous.filter(|previous| previous.cookie == hash && now < previous.until);
        previous.filter(|previous| self.sign_in_of(previous.sign_in.subject).is_some())
    }

    /// The person whom a cookie stands for here.
    pub fn subject_of(&self, cookie: &SessionCookie, now: UnixTime) -> Option<Subject> {
        let sign_in = match self.overlapping(cookie, now) {
            Some(previous) => Some(&previous.sign_in),
            None => self.current().filter(|_| self.accepts(cookie)),
        };
        sign_in.map(|sign_in| sign_in.subject)
    }

    pub fn current(&self) -> Option<&SignIn> {
        self.sign_ins.first()
    }

    /// How this person is signed in here.
    pub fn sign_in_of(&self, subject: Subject) -> Option<&SignIn> {
        self.sign_ins.iter().find(|known| known.subject == subject)
    }

    /// Notes a sign-in: the person becomes the one in use, the cookie changes. The old cookie lives on at the gate for 30
    /// seconds where the same person was in use, so that requests in flight do not fail; it ends at once otherwise.
    pub fn renew(&mut self, sign_in: SignIn, cookie: SecretHash, now: UnixTime) {
        let before = self.current().filter(|before| before.subject == sign_in.subject).cloned();
        self.previous = before.map(|sign_in| Previous { cookie: self.cookie, until: now.plus(OVERLAP), sign_in });
        self.cookie = cookie;
        self.last_seen_at = now;
        self.sign_ins.retain(|known| known.subject != sign_in.subject);
        self.sign_ins.insert(0, sign_in);
        self.sign_ins.truncate(MOST_SIGN_INS);
    }

    /// Puts a person that is signed in already in use.
    pub fn choose(&mut self, subject: Subject) {
        if let Some(at) = self.sign_ins.iter().position(|known| known.subject == subject) {
            self.sign_ins[..=at].rotate_right(1);
        }
    }
}

/// A browser's session at a protected application on a host of its own; it lives only while the provider's does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSession {
    pub id: SessionId,
    /// Of its cookie.
    pub cookie: SecretHash,
    pub app: String,
    /// The provider session that it came from.
    pub parent: SessionId,
    pub subject: Subject,
    /// How and when they had signed in.
    pub sign_in: SignIn,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(cookie: &SessionCookie, subject: Subject) -> Session {
        Session {
            id: cookie.id,
            cookie: cookie.hash(),
            previous: None,
            sign_ins: vec![SignIn { subject, at: UnixTime::from_seconds(100), steps: vec![Step::Password] }],
            created_at: UnixTime::from_seconds(100),
            last_seen_at: UnixTime::from_seconds(100),
            expires_at: UnixTime::from_seconds(1000),
            idle_seconds: 500,
            address: IpAddr::from([127, 0, 0, 1]),
            user_agent: String::new(),
        }
    }

    fn cookie(byte: u8) -> SessionCookie {
        SessionCookie::new(SessionId::from_bytes([7; 16]), [byte; 24])
    }

    #[test]
    fn a_cookie_is_short_and_survives_the_wire() {
        let value = cookie(1).value();
        assert_eq!(value.expose().len(), 54);
        let read = SessionCookie::parse(value.expose()).unwrap();
        assert_eq!((read.id, read.hash()), (cookie(1).id, cookie(1).hash()));
        assert!(SessionCookie::parse("x").is_none());
    }

    #[test]
    fn signing_in_as_somebody_else_kills_the_old_cookie_at_once() {
        let (anna, ben) = (Subject::from_random([1; 16]), Subject::from_random([2; 16]));
        let now = UnixTime::from_seconds(200);
        let mut session = session(&cookie(1), anna);
        session.renew(SignIn { subject: ben, at: now, steps: vec![Step::Password] }, cookie(2).hash(), now);
        assert!(!session.accepts(&cookie(1)) && session.overlapping(&cookie(1), now).is_none());
        assert!(session.accepts(&cookie(2)));
        assert_eq!(session.current().unwrap().subject, ben);
    }

    #[test]
    fn signing_in_again_leaves_the_old_cookie_thirty_seconds_as_what_it_was() {
        let anna = Subject::from_random([1; 16]);
        let now = UnixTime::from_seconds(200);
        let mut session = session(&cookie(1), anna);
        session.renew(SignIn { subject: anna, at: now, steps: vec![Step::Password] }, cookie(2).hash(), now);
        assert!(!session.accepts(&cookie(1)));
        let before = session.overlapping(&cookie(1), UnixTime::from_seconds(229)).unwrap();
        assert_eq!(before.sign_in.at, UnixTime::from_seconds(100));
        assert!(session.overlapping(&cookie(1), UnixTime::from_seconds(230)).is_none());
        assert!(session.overlapping(&cookie(2), now).is_none());
        assert_eq!(session.sign_ins.len(), 1);
    }

    #[test]
    fn a_session_ends_unused_or_old() {
        let session = session(&cookie(1), Subject::from_random([1; 16]));
        assert!(session.is_live(UnixTime::from_seconds(599)));
        assert!(!session.is_live(UnixTime::from_seconds(600)));
    }

    #[test]
    fn choosing_moves_an_account_to_the_front() {
        let [a, b, c] = [1, 2, 3].map(|byte| Subject::from_random([byte; 16]));
        let mut session = session(&cookie(1), a);
        for subject in [b, c] {
            session.sign_ins.push(SignIn { subject, at: UnixTime::from_seconds(1), steps: vec![] });
        }
        session.choose(c);
        let order: Vec<_> = session.sign_ins.iter().map(|known| known.subject).collect();
        assert_eq!(order, [c, a, b]);
    }
}
