//! Sign-outs at OpenID providers: logout tokens that providers send, and the provider's page after a
//! sign-out here.

use secrecy::SecretString;

use crate::password::QueueKey;
use crate::sources::OpenIdSource;
use crate::state::Sealgate;
use crate::web::failure::Failure;
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::secret::Secret;
use sealgate_domain::session::SignIn;
use sealgate_domain::source::SourceLink;
use sealgate_domain::user::User;
use sealgate_store::{SignInPlace, UpstreamTokenKind};
use sealgate_system::metrics::UpstreamLogoutOutcome;
use sealgate_upstream::{UpstreamLogoutToken, UpstreamRefusal};

/// A logout token was not accepted. The log has the reason.
#[derive(Debug)]
pub struct LogoutRefused;

impl Sealgate {
    /// Ends the sign-ins that a logout token of a provider names (OpenID Connect Back-Channel Logout 1.0
    /// §2.7). With `sub` alone, ends all access of the user until the next sign-in at the provider.
    ///
    /// # Errors
    /// When the store fails. The provider can repeat the token.
    pub async fn end_by_logout_token(
        &self,
        source: &OpenIdSource,
        sender: QueueKey,
        token: &str,
        event: impl Fn(AuditKind) -> AuditEvent + Send + Sync,
    ) -> Result<Result<(), LogoutRefused>, Failure> {
        let outcome = self.judge_logout_token(source, sender, token, &event).await?;
        self.metrics.upstream_logged_out(source.name().as_str(), outcome);
        Ok(if outcome == UpstreamLogoutOutcome::Accepted { Ok(()) } else { Err(LogoutRefused) })
    }

    /// Returns the URL at the provider that ends a session there, after the session here has ended.
    /// `None` if the session there continues.
    pub async fn upstream_sign_out_url(
        &self,
        source: &OpenIdSource,
        sign_in: &SignIn,
        return_to: &str,
        state: &Secret,
    ) -> Option<String> {
        let sealed = sign_in.upstream.as_ref().and_then(|own| own.id_token.as_ref());
        let opened = sealed.and_then(|sealed| {
            let opened = self.store.open_upstream_token(sign_in.subject, source.name(), UpstreamTokenKind::Id, sealed);
            opened
                .inspect_err(|error| tracing::warn!(upstream = %source.name(), %error, "cannot open an ID token"))
                .ok()
        });
        let id_token = opened.map(|token| SecretString::from(token.expose()));
        source.provider.end_session_url(id_token.as_ref(), return_to, Some(state)).await
    }

    async fn judge_logout_token(
        &self,
        source: &OpenIdSource,
        sender: QueueKey,
        token: &str,
        event: &(impl Fn(AuditKind) -> AuditEvent + Send + Sync),
    ) -> Result<UpstreamLogoutOutcome, Failure> {
        let upstream = source.name();
        let Some(_place) = source.places.take(sender) else {
            tracing::warn!(%upstream, "refused a logout token: a network sends many at once");
            return Ok(UpstreamLogoutOutcome::Unavailable);
        };
        let token = match source.provider.verify_logout_token(token).await {
            Ok(token) => token,
            Err(UpstreamRefusal::Unavailable(fault)) => {
                tracing::error!(%upstream, %fault, "cannot verify a logout token of the OpenID provider");
                return Ok(UpstreamLogoutOutcome::Unavailable);
            }
            Err(refusal) => {
                tracing::warn!(%upstream, reason = refusal.as_str(), "refused a logout token");
                return Ok(UpstreamLogoutOutcome::Refused);
            }
        };
        if self.store.is_logout_token_used(upstream, &token.jti).await? {
            tracing::warn!(%upstream, reason = "used", "refused a logout token that was accepted before");
            return Ok(UpstreamLogoutOutcome::Refused);
        }
        let ended = self.end_named_sign_ins(source, &token).await?;
        // After the end, so that the provider can repeat a token for which the store failed.
        self.store.use_logout_token(upstream, &token.jti, token.ends_at).await?;
        for SignInPlace { session, subject } in ended {
            let event = event(AuditKind::SignedOut).for_subject(subject).in_session(session);
            self.audit.note(event.with_detail(format!("upstream {upstream}")));
        }
        Ok(UpstreamLogoutOutcome::Accepted)
    }

    /// Ends the sign-ins of a valid logout token.
    async fn end_named_sign_ins(
        &self,
        source: &OpenIdSource,
        token: &UpstreamLogoutToken,
    ) -> Result<Vec<SignInPlace>, Failure> {
        let (name, now) = (source.name(), self.clock.now());
        // If `sub` is not the id of a user, only the sign-ins of the user know it.
        let user = match token.sub.clone().filter(|_| source.has_sub_as_id()) {
            Some(id) => {
                let user = self.store.user_by_source_link(&SourceLink { source: name.clone(), id }).await?;
                let is_of_origin = |user: &User| user.source.as_ref().is_some_and(|own| source.is_origin_of(own));
                // Nothing to end: the user has never signed in here.
                let Some(user) = user.filter(is_of_origin) else { return Ok(Vec::new()) };
                Some(user.sub)
            }
            None => None,
        };
        let mut ended = Vec::new();
        match (&token.sid, user) {
            (Some(sid), user) => {
                // First, so that a sign-in that is stored meanwhile finds it.
                self.store.note_ended_sid(name, sid, now).await?;
                ended = self.store.end_sign_ins_with_sid(name, sid, user).await?;
            }
            (None, Some(user)) => ended = self.store.withdraw_confirmation(name, user, now).await?,
            (None, None) => {
                let sub = token.sub.as_ref().and_then(|sub| str::from_utf8(sub.as_bytes()).ok()).unwrap_or_default();
                for user in self.store.users_with_upstream_sub(name, sub).await? {
                    ended.extend(self.store.withdraw_confirmation(name, user, now).await?);
                }
            }
        }
        let users = ended.iter().map(|ended| ended.subject).chain(user);
        for user in users.collect::<std::collections::BTreeSet<_>>() {
            // Otherwise a sign-in that waits for its second factor could be completed afterwards.
            self.store.end_partial_sign_ins(user).await?;
        }
        Ok(ended)
    }
}
