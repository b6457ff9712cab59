//! Browser sessions: at the provider, and at each protected application.
//!
//! A cookie is `base64url(id ‖ secret)`. The id identifies the record until the session ends. The
//! secret authenticates the browser and changes at each sign-in, which prevents session fixation.
//! Only the secret's hash is stored.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps};
use crate::client_logout::{ClientLogout, SessionClient};
use crate::id::Id;
use crate::secret::{Sealed, Secret, SecretHash, from_base64url};
use crate::source::SourceName;
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
    /// Session at the user's OpenID provider. Only sessions of browsers keep it; codes and sessions
    /// at applications do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Box<OpenIdSession>>,
}

/// Session of a user at their OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIdSession {
    /// Name of the provider.
    pub source: SourceName,
    /// Claim `sub` of the ID token, if the user's id is another claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// Claim `sid` of the ID token (OpenID Connect Back-Channel Logout 1.0 §2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// ID token, sealed. `None` if it cannot be sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Sealed>,
    /// Refresh token, sealed. `None` if the provider issued none, or if it cannot be sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<Sealed>,
    /// Time of the last request that the provider has answered.
    pub at: UnixTime,
}

impl SignIn {
    /// Creates a sign-in with a password only.
    pub fn by_password(subject: Subject, at: UnixTime) -> Self {
        let step = AuthenticationStep::new(AuthenticationMethod::Password, at);
        Self { subject, steps: AuthenticationSteps::from_step(step), upstream: None }
    }

    /// Returns the sign-in without the session at the OpenID provider.
    #[must_use]
    pub fn without_upstream(&self) -> Self {
        Self { subject: self.subject, steps: self.steps.clone(), upstream: None }
    }

    /// Returns the level that the steps reach.
    pub fn level(&self) -> AssuranceLevel {
        self.steps.level().unwrap_or(AssuranceLevel::One)
    }

    /// Returns the claim `auth_time`: the time of the oldest step that the level requires.
    pub fn at(&self) -> UnixTime {
        self.since(self.level()).unwrap_or(UnixTime::from_seconds(0))
    }

    /// Returns the time at which this level was reached, or `None` if it was not reached. The level
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

/// Whether users stay signed in on a device (`sessions.keep_signed_in`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeepSignedIn {
    /// Never. Sessions that were kept before have the same idle timeout and maximum age as other
    /// sessions.
    Off,
    /// After each sign-in.
    On,
    /// If the user selects it on the sign-in page.
    Choice,
}

impl KeepSignedIn {
    /// Returns whether a sign-in keeps the user signed in. `chosen` is the user's choice.
    pub fn applies(self, chosen: bool) -> bool {
        match self {
            Self::Off => false,
            Self::On => true,
            Self::Choice => chosen,
        }
    }
}

/// Cookie before a renewed sign-in.
///
/// It grants no access, because an attacker may have it. It can still end the session, because a
/// sign-out may have been sent at the same time as the sign-in.
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
    /// Maximum age, unless the session is kept.
    pub expires_at: UnixTime,
    /// Idle timeout in seconds, unless the session is kept.
    pub idle_seconds: u64,
    /// Time until which the user stays signed in on the device, also without requests and after the
    /// browser was closed. `None` if the session is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<UnixTime>,
    pub address: IpAddr,
    /// User agent at sign-in, truncated to 200 characters.
    #[serde(default)]
    pub user_agent: String,
    /// Clients that received ID tokens in this session and get a logout token at its end. At most
    /// [`crate::client_logout::MAX_SESSION_CLIENTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<SessionClient>,
}

impl Session {
    /// Returns the logouts that are due if this session becomes `next`, or ends. They are for clients
    /// of users who are no longer signed in. A session that moves to another id ends for all clients.
    pub fn logouts(&self, next: Option<&Self>) -> Vec<ClientLogout> {
        let is_over =
            |of: &&SessionClient| next.is_none_or(|next| next.id != self.id || next.sign_in_of(of.subject).is_none());
        self.clients.iter().filter(is_over).map(|of| ClientLogout::new(self.id, of)).collect()
    }

    /// Removes the clients of users who are no longer signed in.
    pub fn forget_clients_of_others(&mut self) {
        let subjects: Vec<Subject> = self.sign_ins.iter().map(|sign_in| sign_in.subject).collect();
        self.clients.retain(|of| subjects.contains(&of.subject));
    }

    /// Returns whether the session is valid at `now` under the current setting.
    pub fn is_live(&self, now: UnixTime, keep: KeepSignedIn) -> bool {
        now < self.ends_at(keep)
    }

    /// Returns the time at which the session ends if it is not used again.
    pub fn ends_at(&self, keep: KeepSignedIn) -> UnixTime {
        let idle = self.last_seen_at.plus(Duration::from_secs(self.idle_seconds));
        let unkept = self.expires_at.min(idle);
        self.effective_kept_until(keep).map_or(unkept, |until| until.max(unkept))
    }

    /// Returns the time until which the session is kept. Returns `None` if the session is not kept
    /// or the current setting keeps no sessions.
    pub fn effective_kept_until(&self, keep: KeepSignedIn) -> Option<UnixTime> {
        self.kept_until.filter(|_| keep != KeepSignedIn::Off)
    }

    /// Returns the session if it is valid. Removes `kept_until` unless that date is in effect.
    pub fn in_effect(mut self, now: UnixTime, keep: KeepSignedIn) -> Option<Self> {
        self.kept_until = self.effective_kept_until(keep).filter(|until| now < *until);
        self.is_live(now, keep).then_some(self)
    }

    /// Returns the time at which the session ends at the latest, under every setting.
    pub fn ends_at_latest(&self) -> UnixTime {
        self.kept_until.map_or(self.expires_at, |until| until.max(self.expires_at))
    }

    /// Returns whether this is the current cookie. Signing in, reading data and changing data
    /// require the current cookie.
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
    ///
    /// `kept_until` is the time until which this sign-in keeps the session. A session with several
    /// users is kept only if a sign-in of each user keeps it. If a user signs in again without
    /// `kept_until`, the session stays kept.
    ///
    /// A sign-in that did not involve the user's OpenID provider keeps the session there.
    pub fn renew(&mut self, mut sign_in: SignIn, cookie: SecretHash, kept_until: Option<UnixTime>, now: UnixTime) {
        let is_known = self.sign_in_of(sign_in.subject).is_some();
        let is_only = self.sign_ins.iter().all(|known| known.subject == sign_in.subject);
        self.kept_until = match (self.kept_until.filter(|until| now < *until), kept_until) {
            (Some(before), None) if is_known => Some(before),
            // A user does not extend the sign-ins of other users.
            (Some(before), Some(next)) if !is_only => Some(before.min(next)),
            (Some(_), next) => next,
            (None, next) => next.filter(|_| is_only),
        };
        let same = self.current().is_some_and(|before| before.subject == sign_in.subject);
        self.previous = same.then(|| ReplacedCookie { cookie: self.cookie, until: now.plus(OVERLAP) });
        self.cookie = cookie;
        self.last_seen_at = now;
        if sign_in.upstream.is_none() {
            sign_in.upstream = self.sign_in_of(sign_in.subject).and_then(|known| known.upstream.clone());
        }
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
    /// Host at which the session is valid, if the application's host is a wildcard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
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
    use crate::client::ClientId;

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
            kept_until: None,
            address: IpAddr::from([127, 0, 0, 1]),
            user_agent: String::new(),
            clients: Vec::new(),
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
        session.renew(password(ben, 200), cookie(2).hash(), None, now);
        assert!(!session.accepts(&cookie(1)) && !session.has_replaced(&cookie(1), now));
        assert!(session.accepts(&cookie(2)));
        assert_eq!(session.current().unwrap().subject, ben);
    }

    #[test]
    fn a_replaced_cookie_can_end_the_session_for_thirty_seconds() {
        let anna = Subject::from_random([1; 16]);
        let mut session = session(&cookie(1), anna);
        session.renew(password(anna, 200), cookie(2).hash(), None, UnixTime::from_seconds(200));
        assert!(!session.accepts(&cookie(1)) && session.accepts(&cookie(2)));
        assert!(session.has_replaced(&cookie(1), UnixTime::from_seconds(229)));
        assert!(!session.has_replaced(&cookie(1), UnixTime::from_seconds(230)));
        assert!(!session.has_replaced(&cookie(2), UnixTime::from_seconds(200)));
        assert_eq!(session.sign_ins.len(), 1);
    }

    #[test]
    fn a_session_ends_when_idle_or_expired() {
        let session = session(&cookie(1), Subject::from_random([1; 16]));
        for keep in [KeepSignedIn::Off, KeepSignedIn::On, KeepSignedIn::Choice] {
            assert!(session.is_live(UnixTime::from_seconds(599), keep));
            assert!(!session.is_live(UnixTime::from_seconds(600), keep));
        }
    }

    #[test]
    fn a_kept_session_ends_at_its_date_or_when_the_setting_is_off() {
        let kept_until = UnixTime::from_seconds(5000);
        let session = Session { kept_until: Some(kept_until), ..session(&cookie(1), Subject::from_random([1; 16])) };
        for keep in [KeepSignedIn::On, KeepSignedIn::Choice] {
            assert!(session.is_live(UnixTime::from_seconds(4999), keep) && !session.is_live(kept_until, keep));
            assert_eq!(session.effective_kept_until(keep), Some(kept_until));
        }
        assert!(session.is_live(UnixTime::from_seconds(599), KeepSignedIn::Off));
        assert!(!session.is_live(UnixTime::from_seconds(600), KeepSignedIn::Off));
        assert_eq!(session.effective_kept_until(KeepSignedIn::Off), None);
        // A date before the usual end does not shorten the session.
        let session = Session { kept_until: Some(UnixTime::from_seconds(200)), ..session };
        assert!(session.is_live(UnixTime::from_seconds(599), KeepSignedIn::On));
        assert_eq!(session.ends_at_latest(), UnixTime::from_seconds(1000));
    }

    #[test]
    fn a_session_is_kept_only_if_all_its_users_chose_it() {
        let [anna, ben] = [1, 2].map(|byte| Subject::from_random([byte; 16]));
        let (now, kept_until) = (UnixTime::from_seconds(200), Some(UnixTime::from_seconds(5000)));
        let after = |sign_ins: &[(Subject, Option<UnixTime>)]| {
            let mut session = session(&cookie(1), anna);
            for (subject, until) in sign_ins {
                session.renew(password(*subject, 200), cookie(2).hash(), *until, now);
            }
            session.kept_until
        };
        assert_eq!(after(&[(anna, kept_until)]), kept_until);
        assert_eq!(after(&[(anna, kept_until), (anna, None)]), kept_until);
        assert_eq!(after(&[(anna, kept_until), (ben, kept_until)]), kept_until);
        assert_eq!(after(&[(anna, kept_until), (ben, Some(UnixTime::from_seconds(9000)))]), kept_until);
        assert_eq!(after(&[(anna, kept_until), (ben, None)]), None);
        assert_eq!(after(&[(ben, kept_until)]), None);
        assert_eq!(after(&[(anna, Some(now)), (anna, None)]), None);
    }

    #[test]
    fn only_users_who_leave_are_signed_out_at_clients() {
        let [anna, ben] = [1, 2].map(|byte| Subject::from_random([byte; 16]));
        let of = |subject| SessionClient { client: ClientId::parse("wiki").unwrap(), subject };
        let mut session = session(&cookie(1), anna);
        session.sign_ins.push(password(ben, 1));
        session.clients = vec![of(anna), of(ben)];
        let subjects = |logouts: Vec<ClientLogout>| logouts.iter().map(|logout| logout.subject).collect::<Vec<_>>();
        assert_eq!(subjects(session.logouts(None)), [anna, ben]);
        assert_eq!(subjects(session.logouts(Some(&session))), []);
        let mut next = session.clone();
        next.sign_ins.remove(0);
        assert_eq!(subjects(session.logouts(Some(&next))), [anna]);
        next.forget_clients_of_others();
        assert_eq!(next.clients, [of(ben)]);
        let moved = Session { id: SessionId::from_bytes([8; 16]), ..session.clone() };
        assert_eq!(subjects(session.logouts(Some(&moved))), [anna, ben]);
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
