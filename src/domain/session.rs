//! Browser sessions: at the provider, and at each protected application.
//!
//! A cookie is `base64url(id ‖ secret)`. The id identifies the record as long as the session
//! exists. The secret authenticates the browser and changes at each sign-in, which prevents session
//! fixation. Only the secret's hash is stored.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps};
use crate::id::Id;
use crate::secret::{Secret, SecretHash, from_base64url};
use crate::time::UnixTime;
use crate::user::Subject;

/// Maximum number of users who are signed in at the same time in one browser.
pub(crate) const MAX_SIGN_INS: usize = 5;

/// Time after a renewed sign-in during which the previous cookie can still end the session.
const OVERLAP: Duration = Duration::from_secs(30);

/// Id of a session. It stays the same when the cookie changes.
pub type SessionId = Id<'s'>;

/// Parsed session cookie.
#[derive(Debug, Clone)]
pub struct SessionCookie {
    pub id: SessionId,
    secret: Secret,
}

impl SessionCookie {
    /// Creates a cookie for the session `id` with a secret from random bytes.
    pub fn new(id: SessionId, random: [u8; 24]) -> Self {
        Self { id, secret: Secret::from_random(&random) }
    }

    /// Parses a cookie's value.
    pub fn parse(value: &str) -> Option<Self> {
        let bytes: [u8; 40] = from_base64url(value)?.try_into().ok()?;
        let (id, secret) = bytes.split_at(16);
        Some(Self { id: SessionId::from_bytes(id.try_into().ok()?), secret: Secret::from_random(secret) })
    }

    /// Returns the cookie's value.
    pub fn value(&self) -> Secret {
        // Cannot fail, because the secret was encoded by this type. An empty secret would grant no
        // access.
        let secret = from_base64url(self.secret.expose()).unwrap_or_default();
        Secret::from_random(&[self.id.as_bytes().as_slice(), &secret].concat())
    }

    /// Returns the hash that the session stores.
    pub fn hash(&self) -> SecretHash {
        self.secret.hash()
    }
}

/// Sign-in of a user in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    pub subject: Subject,
    /// Steps of the sign-in. Never empty.
    pub steps: AuthenticationSteps,
}

impl SignIn {
    /// Creates a sign-in with a password only.
    pub fn by_password(subject: Subject, at: UnixTime) -> Self {
        let step = AuthenticationStep { method: AuthenticationMethod::Password, at, factor: None };
        Self { subject, steps: AuthenticationSteps::from_step(step) }
    }

    /// Returns the level that the steps reach.
    pub fn level(&self) -> AssuranceLevel {
        self.steps.level().unwrap_or(AssuranceLevel::One)
    }

    /// Returns the claim `auth_time`: the time of the oldest step that the level requires.
    pub fn at(&self) -> UnixTime {
        self.since(self.level()).unwrap_or(UnixTime::from_seconds(0))
    }

    /// Returns the time at which this level was reached. Returns `None` if it was not. The level
    /// may be lower than [`Self::level`].
    pub fn since(&self, level: AssuranceLevel) -> Option<UnixTime> {
        self.steps.since(level)
    }

    /// Returns the authentication context class (OpenID Connect Core §2, `acr`) of the sign-in.
    pub fn acr(&self) -> &'static str {
        self.level().as_str()
    }

    /// Returns the authentication methods of the sign-in (RFC 8176).
    pub fn amr(&self) -> Vec<String> {
        self.steps.amr()
    }
}

/// Cookie before a renewed sign-in.
///
/// It grants no access, because an attacker may have it. It still ends the session, for a sign-out
/// that was sent at the same time as the sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedCookie {
    /// Hash of the cookie's secret.
    pub cookie: SecretHash,
    /// Time until which the cookie can end the session.
    pub until: UnixTime,
}

/// Session of a browser at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// Hash of the current cookie's secret.
    pub cookie: SecretHash,
    /// Cookie before the last renewed sign-in.
    #[serde(default)]
    pub previous: Option<ReplacedCookie>,
    /// Sign-ins of the users, the selected user's first. Never empty.
    pub sign_ins: Vec<SignIn>,
    pub created_at: UnixTime,
    /// Time of the last use, rounded to minutes.
    pub last_seen_at: UnixTime,
    pub expires_at: UnixTime,
    /// Idle timeout in seconds.
    pub idle_seconds: u64,
    pub address: IpAddr,
    /// User agent at sign-in, truncated to 200 characters.
    #[serde(default)]
    pub user_agent: String,
}

impl Session {
    /// Returns whether the session is valid at `now`.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at && now.since(self.last_seen_at).as_secs() < self.idle_seconds
    }

    /// Returns whether this is the current cookie. Only the current cookie permits sign-ins, and
    /// reading or changing data.
    pub fn accepts(&self, cookie: &SessionCookie) -> bool {
        self.cookie == cookie.hash()
    }

    /// Returns an identifier of the session with its current cookie.
    ///
    /// Operations that began with the current cookie become invalid when the cookie changes. An
    /// attacker who copied the cookie may have seen their data.
    pub fn under_its_cookie(&self) -> SecretHash {
        SecretHash::for_secret(&[&self.id.as_bytes()[..], self.cookie.as_bytes()].concat())
    }

    /// Returns whether a recent sign-in of the same user has replaced this cookie.
    pub fn has_replaced(&self, cookie: &SessionCookie, now: UnixTime) -> bool {
        let hash = cookie.hash();
        self.previous.as_ref().is_some_and(|previous| previous.cookie == hash && now < previous.until)
    }

    /// Returns the sign-in of the selected user.
    pub fn current(&self) -> Option<&SignIn> {
        self.sign_ins.first()
    }

    /// Returns this user's sign-in.
    pub fn sign_in_of(&self, subject: Subject) -> Option<&SignIn> {
        self.sign_ins.iter().find(|known| known.subject == subject)
    }

    /// Records a sign-in, which selects its user and changes the cookie. The old cookie no longer
    /// grants access.
    pub fn renew(&mut self, sign_in: SignIn, cookie: SecretHash, now: UnixTime) {
        let same = self.current().is_some_and(|before| before.subject == sign_in.subject);
        self.previous = same.then(|| ReplacedCookie { cookie: self.cookie, until: now.plus(OVERLAP) });
        self.cookie = cookie;
        self.last_seen_at = now;
        self.sign_ins.retain(|known| known.subject != sign_in.subject);
        self.sign_ins.insert(0, sign_in);
        self.sign_ins.truncate(MAX_SIGN_INS);
    }

    /// Selects a user who is already signed in.
    pub fn choose(&mut self, subject: Subject) {
        if let Some(at) = self.sign_ins.iter().position(|known| known.subject == subject) {
            self.sign_ins[..=at].rotate_right(1);
        }
    }
}

/// Session of a browser at a protected application. It ends with the session at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSession {
    pub id: SessionId,
    /// Hash of the cookie's secret.
    pub cookie: SecretHash,
    pub app: String,
    /// Session at the provider from which this session was created.
    pub parent: SessionId,
    pub subject: Subject,
    /// Sign-in of the user when this session was created.
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
    fn a_cookie_is_short_and_unchanged_after_writing_and_parsing() {
        let value = cookie(1).value();
        assert_eq!(value.expose().len(), 54);
        let read = SessionCookie::parse(value.expose()).unwrap();
        assert_eq!((read.id, read.hash()), (cookie(1).id, cookie(1).hash()));
        assert!(SessionCookie::parse("x").is_none());
    }

    #[test]
    fn signing_in_as_another_user_invalidates_the_old_cookie() {
        let (anna, ben) = (Subject::from_random([1; 16]), Subject::from_random([2; 16]));
        let now = UnixTime::from_seconds(200);
        let mut session = session(&cookie(1), anna);
        session.renew(password(ben, 200), cookie(2).hash(), now);
        assert!(!session.accepts(&cookie(1)) && !session.has_replaced(&cookie(1), now));
        assert!(session.accepts(&cookie(2)));
        assert_eq!(session.current().unwrap().subject, ben);
    }

    #[test]
    fn a_replaced_cookie_can_end_the_session_for_thirty_seconds() {
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
    fn a_session_ends_when_idle_or_expired() {
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
