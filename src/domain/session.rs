//! Browser sessions: at the provider, and at each protected application on a host of its own.
//!
//! A cookie is `base64url(id ‖ secret)`: the id finds the record and stays for the session's life, the secret proves the
//! browser and changes at each sign-in (session fixation). Only the secret's hash is kept.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps};
use crate::domain::id::Id;
use crate::domain::secret::{Secret, SecretHash, from_base64url};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;

/// Accounts that may be signed in side by side in one browser.
pub const MOST_SIGN_INS: usize = 5;

/// How long the cookie from before a renewed sign-in still ends the session.
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

/// A person signed in to a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    pub subject: Subject,
    /// What they did. Never empty.
    pub steps: AuthenticationSteps,
}

impl SignIn {
    /// Somebody who typed their password, and did nothing else.
    pub fn by_password(subject: Subject, at: UnixTime) -> Self {
        let step = AuthenticationStep { method: AuthenticationMethod::Password, at, factor: None };
        Self { subject, steps: AuthenticationSteps::of(step) }
    }

    /// The level that was reached.
    pub fn level(&self) -> AssuranceLevel {
        self.steps.level().unwrap_or(AssuranceLevel::One)
    }

    /// When: the claim `auth_time`. It is as old as the oldest step that the level rests on.
    pub fn at(&self) -> UnixTime {
        self.since(self.level()).unwrap_or(UnixTime::from_seconds(0))
    }

    /// The same of a level that may be lower than the one that was reached; `None` where it was not reached.
    pub fn since(&self, level: AssuranceLevel) -> Option<UnixTime> {
        self.steps.since(level)
    }

    /// The authentication context class that was reached (OpenID Connect Core §2, `acr`).
    pub fn acr(&self) -> &'static str {
        self.level().as_str()
    }

    /// The methods that were used (RFC 8176).
    pub fn amr(&self) -> Vec<String> {
        self.steps.amr()
    }
}

/// The cookie that a renewed sign-in has replaced. It opens nothing any more: who holds it may be whoever the renewal was to
/// keep out. A sign-out that was in flight with it still ends the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedCookie {
    /// Of the cookie.
    pub cookie: SecretHash,
    /// Until when it still ends the session.
    pub until: UnixTime,
}

/// A browser's session at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// Of the cookie in force.
    pub cookie: SecretHash,
    /// The cookie from before a renewed sign-in.
    #[serde(default)]
    pub previous: Option<ReplacedCookie>,
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

    /// Names this session under the cookie in force. What is begun under it ends with the next cookie: an attacker who
    /// copied the earlier cookie knows what was shown to it.
    pub fn under_its_cookie(&self) -> SecretHash {
        SecretHash::of(&[&self.id.as_bytes()[..], self.cookie.as_bytes()].concat())
    }

    /// Whether this is the cookie from before the last sign-in, of the same person.
    pub fn has_replaced(&self, cookie: &SessionCookie, now: UnixTime) -> bool {
        let hash = cookie.hash();
        self.previous.as_ref().is_some_and(|previous| previous.cookie == hash && now < previous.until)
    }

    pub fn current(&self) -> Option<&SignIn> {
        self.sign_ins.first()
    }

    /// How this person is signed in here.
    pub fn sign_in_of(&self, subject: Subject) -> Option<&SignIn> {
        self.sign_ins.iter().find(|known| known.subject == subject)
    }

    /// Notes a sign-in: the person becomes the one in use, the cookie changes. The old one opens nothing from here on, at
    /// whatever level.
    pub fn renew(&mut self, sign_in: SignIn, cookie: SecretHash, now: UnixTime) {
        let same = self.current().is_some_and(|before| before.subject == sign_in.subject);
        self.previous = same.then(|| ReplacedCookie { cookie: self.cookie, until: now.plus(OVERLAP) });
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

    fn password(subject: Subject, at: u64) -> SignIn {
        SignIn::by_password(subject, UnixTime::from_seconds(at))
    }

    fn session(cookie: &SessionCookie, subject: Subject) -> Session {
        Session {
            id: cookie.id,
            cookie: cookie.hash(),
            previous: None,
            sign_ins: vec![password(subject, 100)],
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
        session.renew(password(ben, 200), cookie(2).hash(), now);
        assert!(!session.accepts(&cookie(1)) && !session.has_replaced(&cookie(1), now));
        assert!(session.accepts(&cookie(2)));
        assert_eq!(session.current().unwrap().subject, ben);
    }

    #[test]
    fn signing_in_again_leaves_the_old_cookie_thirty_seconds_to_end_the_session() {
        let anna = Subject::from_random([1; 16]);
        let mut session = session(&cookie(1), anna);
        session.renew(password(anna, 200), cookie(2).hash(), UnixTime::from_seconds(200));
        assert!(!session.accepts(&cookie(1)) && session.accepts(&cookie(2)));
        assert!(session.has_replaced(&cookie(1), UnixTime::from_seconds(229)));
        assert!(!session.has_replaced(&cookie(1), UnixTime::from_seconds(230)));
        assert!(!session.has_replaced(&cookie(2), UnixTime::from_seconds(200)));
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
            session.sign_ins.push(password(subject, 1));
        }
        session.choose(c);
        let order: Vec<_> = session.sign_ins.iter().map(|known| known.subject).collect();
        assert_eq!(order, [c, a, b]);
    }
}
