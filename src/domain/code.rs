//! Authorization codes (RFC 6749 §4.1.2).
//!
//! A code can be used once, within its lifetime. It is bound to the client, the redirect URI and
//! the code challenge.

use serde::{Deserialize, Serialize};

use crate::client::ClientId;
use crate::error::Refusal;
use crate::grant::GrantId;
use crate::pkce::{CodeChallenge, CodeVerifier};
use crate::resource::ResourceAccess;
use crate::scope::Scope;
use crate::session::{SessionId, SignIn};
use crate::time::UnixTime;

/// State of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CodeState {
    Issued,
    /// Redeemed for this grant. The record is kept until the code expires, so that a replay can be
    /// detected and revokes the grant.
    Redeemed {
        grant: GrantId,
    },
}

/// Authorization code, stored under its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    pub client: ClientId,
    /// Redirect URI of the authorization request, unchanged.
    pub redirect_uri: String,
    #[serde(default)]
    pub challenge: Option<CodeChallenge>,
    pub scope: Scope,
    /// Resource of the tokens. `None` if the issuer is their audience.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceAccess>,
    /// The `nonce` of the authorization request.
    #[serde(default)]
    pub nonce: Option<String>,
    pub sign_in: SignIn,
    /// Whether the user signed in for this request. False if the user had signed in for an earlier
    /// request.
    #[serde(default)]
    pub typed: bool,
    pub session: SessionId,
    pub expires_at: UnixTime,
    pub state: CodeState,
}

/// Reason to refuse a presented code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedeemFault {
    /// The request is refused, and the code is unchanged.
    Refused(Refusal),
    /// The code was redeemed before, so its grant must be revoked (RFC 6749 §4.1.2).
    Replayed(GrantId),
}

impl Code {
    /// Decides whether the code may be redeemed (RFC 6749 §4.1.3; RFC 7636 §4.6).
    ///
    /// # Errors
    /// After [`RedeemFault::Refused`] the code can still be redeemed, even after a wrong verifier.
    pub fn redeem(
        &self,
        client: &ClientId,
        redirect_uri: &str,
        verifier: Option<&CodeVerifier>,
        now: UnixTime,
    ) -> Result<(), RedeemFault> {
        // Another client learns nothing, not even whether the code was redeemed. Otherwise that
        // client could revoke the grant of the code's owner.
        if self.client != *client {
            return Err(RedeemFault::Refused(UNKNOWN_CODE));
        }
        if let CodeState::Redeemed { grant } = self.state {
            return Err(RedeemFault::Replayed(grant));
        }
        let refuse = |description| Err(RedeemFault::Refused(Refusal::invalid_grant(description)));
        if now >= self.expires_at {
            return refuse("The authorization code has expired.");
        }
        if self.redirect_uri != redirect_uri {
            return refuse("The redirect_uri differs from the one in the authorization request.");
        }
        match (&self.challenge, verifier) {
            (Some(challenge), Some(verifier)) if challenge.is_met_by(verifier) => Ok(()),
            (Some(_), Some(_)) => refuse("The code_verifier does not match the code_challenge."),
            (Some(_), None) => {
                Err(RedeemFault::Refused(Refusal::invalid_request("The parameter code_verifier is missing.")))
            }
            // The client sent a challenge, and an attacker has removed it from the authorization
            // request (RFC 9700 §2.1.1, "PKCE downgrade").
            (None, Some(_)) => refuse("A code_verifier was sent, but the authorization request had no code_challenge."),
            (None, None) => Ok(()),
        }
    }
}

/// Refusal of a code that was never issued, has expired or belongs to another client. The response
/// is the same in all three cases, so that it does not reveal whether the code exists.
pub const UNKNOWN_CODE: Refusal = Refusal::invalid_grant("The authorization code is invalid.");
