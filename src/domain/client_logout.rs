//! Logout tokens to clients (OpenID Connect Back-Channel Logout 1.0).
//!
//! A session lists the clients that received ID tokens in it. When the session, or a sign-in in it,
//! ends, one logout per listed client is queued in the same commit. A logout is signed when it is
//! sent, so the queue contains no tokens.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::id::Id;
use crate::oauth::upstream_logout::EVENT;
use crate::redirect_uri::RedirectUri;
use crate::secret::{SecretHash, base64url};
use crate::session::SessionId;
use crate::time::UnixTime;
use crate::user::Subject;

/// Id of a queued logout. It is derived from the session, the client and the user, so the end of a
/// sign-in queues one logout, whichever path ends it.
pub type ClientLogoutId = Id<'B'>;

/// Maximum number of clients that a session lists. Further clients get no logout token.
pub const MAX_SESSION_CLIENTS: usize = 100;

/// Time after the first attempt during which a logout is retried.
pub const RETRY_PERIOD: Duration = Duration::from_hours(1);

/// Lifetime of a logout token (§2.4 recommends at most two minutes).
const TOKEN_LIFETIME: Duration = Duration::from_mins(2);

/// Delay after the first failure. Doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_mins(5);

/// Where a client receives logout tokens (§2.2). Only an operator or an administrator can set it,
/// because the server sends requests to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackchannelLogout {
    /// https, or http to this machine. Without a fragment.
    pub uri: RedirectUri,
    /// Whether the client requires `sid` in logout tokens. All of them have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_required: bool,
}

/// Client that received an ID token in a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionClient {
    pub client: ClientId,
    pub subject: Subject,
}

impl SessionClient {
    /// Returns the claim `sid` (§2.1): the same for all ID tokens of this user and client in the
    /// session, and different for other clients, so that clients cannot link their users by it.
    pub fn sid(&self, session: SessionId) -> String {
        base64url(&self.digest("sealgate client sid", session))
    }

    /// Returns the claim `sid` in ID tokens of a client. `None` if the client receives no logout tokens.
    pub fn sid_for(client: &Client, subject: Subject, session: SessionId) -> Option<String> {
        client.backchannel_logout.as_ref()?;
        Some(Self { client: client.id.clone(), subject }.sid(session))
    }

    fn digest(&self, purpose: &str, session: SessionId) -> [u8; 16] {
        let text = format!("{purpose} {session} {} {}", self.subject, self.client);
        let mut digest = [0; 16];
        digest.copy_from_slice(&SecretHash::for_secret(text.as_bytes()).as_bytes()[..16]);
        digest
    }
}

/// Queued logout of a user at a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLogout {
    pub id: ClientLogoutId,
    pub client: ClientId,
    pub subject: Subject,
    pub sid: String,
    /// Time of the next attempt. 0 before the first attempt.
    pub due_at: UnixTime,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Time of the first attempt, or of an earlier failure to reach the client. `None` before it, so
    /// that a stopped server uses up none of [`RETRY_PERIOD`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<UnixTime>,
}

impl ClientLogout {
    /// Creates the logout for a client of an ended session. It is due at once.
    pub fn new(session: SessionId, of: &SessionClient) -> Self {
        Self {
            id: ClientLogoutId::from_bytes(of.digest("sealgate client logout", session)),
            client: of.client.clone(),
            subject: of.subject,
            sid: of.sid(session),
            due_at: UnixTime::from_seconds(0),
            attempts: 0,
            first_at: None,
        }
    }

    /// Returns the logout for the node that attempts to send it. Other nodes wait until `lease` has
    /// passed.
    #[must_use]
    pub fn leased(&self, now: UnixTime, lease: Duration) -> Self {
        Self { due_at: now.plus(lease), first_at: Some(self.first_at.unwrap_or(now)), ..self.clone() }
    }

    /// Returns the logout after a failed attempt, with the time of the next attempt. `None` if
    /// [`RETRY_PERIOD`] has passed.
    pub fn postponed(&self, now: UnixTime) -> Option<Self> {
        let end = self.first_at.unwrap_or(now).plus(RETRY_PERIOD);
        let due_at = now.plus(backoff(self.attempts));
        (due_at <= end).then(|| Self { due_at, attempts: self.attempts + 1, ..self.clone() })
    }

    /// Returns the logout with a later attempt. The attempt is not counted, because this server
    /// failed.
    #[must_use]
    pub fn moved(&self, now: UnixTime) -> Self {
        Self { due_at: now.plus(FIRST_DELAY), ..self.clone() }
    }

    /// Returns the claims of a logout token (§2.4). `jti` must be new for each attempt, because the
    /// client may have accepted the token of an attempt whose answer was lost.
    pub fn claims(&self, issuer: &str, jti: String, now: UnixTime) -> LogoutTokenClaims {
        LogoutTokenClaims {
            iss: issuer.to_owned(),
            sub: self.subject.to_string(),
            aud: self.client.to_string(),
            iat: now,
            exp: now.plus(TOKEN_LIFETIME),
            jti,
            events: LogoutEvents { backchannel_logout: LogoutEvent {} },
            sid: self.sid.clone(),
        }
    }
}

/// Returns the delay after this number of earlier failures.
pub fn backoff(failures: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1 << failures.min(16)).min(MAX_DELAY)
}

/// Claims of a logout token (§2.4). There is no `nonce`, so that no client accepts the token as an
/// ID token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogoutTokenClaims {
    pub iss: String,
    pub sub: String,
    pub aud: String,
    pub iat: UnixTime,
    pub exp: UnixTime,
    pub jti: String,
    pub events: LogoutEvents,
    pub sid: String,
}

/// The claim `events`, which makes a token a logout token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutEvents {
    backchannel_logout: LogoutEvent,
}

impl Serialize for LogoutEvents {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(EVENT, &self.backchannel_logout)])
    }
}

/// Empty object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct LogoutEvent {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: &str, user: u8) -> SessionClient {
        SessionClient { client: ClientId::parse(client).unwrap(), subject: Subject::from_random([user; 16]) }
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    #[test]
    fn a_sid_is_stable_and_differs_by_session_client_and_user() {
        let [one, two] = [1, 2].map(|byte| SessionId::from_bytes([byte; 16]));
        let sid = of("wiki", 1).sid(one);
        assert_eq!(sid, of("wiki", 1).sid(one));
        for other in [of("wiki", 1).sid(two), of("shop", 1).sid(one), of("wiki", 2).sid(one), one.to_string()] {
            assert_ne!(sid, other);
        }
    }

    #[test]
    fn a_logout_is_retried_for_an_hour_after_the_first_attempt() {
        let mut logout = ClientLogout::new(SessionId::from_bytes([1; 16]), &of("wiki", 1));
        let mut now = at(1_000_000);
        let (mut delays, begun) = (Vec::new(), now);
        logout = logout.leased(now, Duration::from_secs(30));
        while let Some(next) = logout.postponed(now) {
            delays.push(next.due_at.since(now).as_secs());
            now = next.due_at;
            logout = next.leased(now, Duration::from_secs(30));
        }
        assert_eq!(delays[..9], [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(delays[9..].iter().all(|delay| *delay == 300) && now.since(begun) > Duration::from_mins(55));
        assert!(now.since(begun) <= RETRY_PERIOD);
        assert_eq!(logout.moved(now).attempts, logout.attempts);
    }

    #[test]
    fn the_claims_are_those_of_a_logout_token() {
        let logout = ClientLogout::new(SessionId::from_bytes([1; 16]), &of("wiki", 1));
        let claims = serde_json::to_value(logout.claims("https://id.test", "j".to_owned(), at(100))).unwrap();
        let expected = serde_json::json!({
            "iss": "https://id.test", "sub": logout.subject, "aud": "wiki", "iat": 100, "exp": 220, "jti": "j",
            "events": { "http://schemas.openid.net/event/backchannel-logout": {} }, "sid": logout.sid,
        });
        assert_eq!(claims, expected);
    }
}
