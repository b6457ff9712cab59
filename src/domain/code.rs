//! Authorization codes (RFC 6749 §4.1.2): single use, five minutes, bound to client, redirect URI and challenge.

use serde::{Deserialize, Serialize};

use crate::domain::client::ClientId;
use crate::domain::error::Refusal;
use crate::domain::grant::GrantId;
use crate::domain::pkce::{CodeChallenge, CodeVerifier};
use crate::domain::scope::Scope;
use crate::domain::session::{SessionId, SignIn};
use crate::domain::time::UnixTime;

/// What became of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CodeState {
    Issued,
    /// It was redeemed, and gave this grant. Kept until it would have expired, so that a replay ends the grant.
    Redeemed {
        grant: GrantId,
    },
}

/// A code, as kept under its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    pub client: ClientId,
    /// The redirect URI of the authorization request, exactly as it stood there.
    pub redirect_uri: String,
    #[serde(default)]
    pub challenge: Option<CodeChallenge>,
    pub scope: Scope,
    /// The `nonce` of the authorization request.
    #[serde(default)]
    pub nonce: Option<String>,
    pub sign_in: SignIn,
    /// Whether the password was typed for this very request.
    #[serde(default)]
    pub typed: bool,
    pub session: SessionId,
    pub expires_at: UnixTime,
    pub state: CodeState,
}

/// Why a presented code gives no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedeemFault {
    /// The request is refused; the code stays as it was.
    Refused(Refusal),
    /// The code was used before; what it gave must end (RFC 6749 §4.1.2).
    Replayed(GrantId),
}

impl Code {
    /// Judges a redemption (specification, "States and transitions"; RFC 6749 §4.1.3; RFC 7636 §4.6).
    ///
    /// # Errors
    /// [`RedeemFault::Refused`] leaves the code issued, a wrong verifier included.
    pub fn redeem(
        &self,
        client: &ClientId,
        redirect_uri: &str,
        verifier: Option<&CodeVerifier>,
        now: UnixTime,
    ) -> Result<(), RedeemFault> {
        // Another client learns nothing, not even that the code was used: it cannot end the owner's grant with it.
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
            return refuse("The redirect_uri is not the one of the authorization request.");
        }
        match (&self.challenge, verifier) {
            (Some(challenge), Some(verifier)) if challenge.is_met_by(verifier) => Ok(()),
            (Some(_), Some(_)) => refuse("The code_verifier does not match the code_challenge."),
            (Some(_), None) => {
                Err(RedeemFault::Refused(Refusal::invalid_request("The parameter code_verifier is missing.")))
            }
            // A verifier without a challenge means that somebody took the challenge out of the authorization request
            // (RFC 9700 §2.1.1, "PKCE downgrade").
            (None, Some(_)) => refuse("A code_verifier was sent, but the authorization request had no code_challenge."),
            (None, None) => Ok(()),
        }
    }
}

/// The answer to a code that was never issued, is long gone, or belongs to somebody else: one answer for all three.
pub const UNKNOWN_CODE: Refusal = Refusal::invalid_grant("The authorization code is invalid.");
