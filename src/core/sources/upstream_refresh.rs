//! Confirmation of sign-ins at OpenID providers with refresh tokens, in the background.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use crate::sources::{OpenIdSource, SourceSignIn};
use crate::state::Sealgate;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::secret::{Sealed, SecretHash};
use sealgate_domain::session::OpenIdSession;
use sealgate_domain::source::{SourceEntry, SourceLink};
use sealgate_domain::user::User;
use sealgate_store::{SignInPlace, StoreError, UpstreamTokenKind};
use sealgate_system::metrics::UpstreamRefreshOutcome;
use sealgate_upstream::{UpstreamFaultKind, UpstreamRefresh, UpstreamRefusal};

/// Attempts to store a new refresh token, one second apart. The provider no longer accepts the previous
/// one.
const SAVE_ATTEMPTS: u32 = 10;

/// Result of confirming one sign-in.
#[derive(Debug)]
pub enum Refreshed {
    /// The sign-in has ended, or its refresh token cannot be opened.
    Absent,
    /// The provider has answered.
    Answered(UpstreamRefreshOutcome),
    /// The provider did not decide. `doubt` is the hash of the refresh token if the provider may have
    /// replaced it.
    Unavailable { doubt: Option<SecretHash> },
}

/// Refresh token of one sign-in.
struct OwnToken {
    place: SignInPlace,
    user: User,
    link: SourceLink,
    sealed: Sealed,
}

impl OwnToken {
    fn hash(&self) -> SecretHash {
        SecretHash::for_secret(self.sealed.as_bytes())
    }
}

impl Sealgate {
    /// Confirms a sign-in with its refresh token, and applies the provider's report about the user.
    ///
    /// `doubt` is the hash of a token for which an earlier call got no answer. If the provider now
    /// refuses this token, the reason may be that it had replaced the token. Then the sign-in does not
    /// end, but is no longer confirmed.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn refresh_sign_in(
        &self,
        source: &OpenIdSource,
        place: SignInPlace,
        doubt: Option<SecretHash>,
    ) -> Result<Refreshed, StoreError> {
        let Some((own, token)) = self.own_refresh_token(source, place).await? else { return Ok(Refreshed::Absent) };
        let upstream = source.name();
        let outcome = match source.provider.refresh(&token, &own.link).await {
            Ok(UpstreamRefresh { user, id_token, refresh_token }) => {
                if let Some(next) = refresh_token.filter(|next| next.expose_secret() != token.expose_secret()) {
                    let id_token = id_token.filter(|_| user.is_ok());
                    if let Err(error) = self.keep_new_tokens(source, &own, &next, id_token.as_ref()).await {
                        tracing::error!(%upstream, %error, "cannot store a new refresh token; its sign-in ends unless \
                            the provider accepts the previous one");
                        return Ok(Refreshed::Unavailable { doubt: Some(own.hash()) });
                    }
                }
                match user {
                    Ok(entry) => self.confirm(source, &own, &entry).await?,
                    Err(refusal @ (UpstreamRefusal::NotAllowed(_) | UpstreamRefusal::GroupsOverage)) => {
                        self.end_access(source, &own, &refusal).await?
                    }
                    Err(refusal) => unread(source, &own, &refusal),
                }
            }
            Err(UpstreamRefusal::Ended) if doubt == Some(own.hash()) => {
                tracing::warn!(%upstream, user = %own.user.sub, "an earlier refresh got no answer, and the provider now \
                    refuses its token; the user continues until session_seconds");
                self.store.change_upstream_session(place, &own.sealed, |own| own.refresh_token = None).await?;
                UpstreamRefreshOutcome::Lost
            }
            Err(UpstreamRefusal::Ended) => {
                // Meanwhile, the sign-in may have ended, or a new one may have replaced the token.
                if !self.store.has_refresh_token(place, &own.sealed).await? {
                    return Ok(Refreshed::Absent);
                }
                self.end_access(source, &own, &UpstreamRefusal::Ended).await?
            }
            Err(UpstreamRefusal::Unavailable(fault)) => {
                tracing::error!(%upstream, %fault, "the OpenID provider cannot confirm a sign-in");
                let may_have_arrived = fault.kind() == UpstreamFaultKind::Connect;
                return Ok(Refreshed::Unavailable { doubt: may_have_arrived.then(|| own.hash()) });
            }
            Err(refusal) => unread(source, &own, &refusal),
        };
        Ok(Refreshed::Answered(outcome))
    }

    /// Ends all access of a user whom the provider no longer admits. The user must sign in there again.
    async fn end_access(
        &self,
        source: &OpenIdSource,
        own: &OwnToken,
        refusal: &UpstreamRefusal,
    ) -> Result<UpstreamRefreshOutcome, StoreError> {
        let (upstream, subject, now) = (source.name(), own.place.subject, self.clock.now());
        let claim = if let UpstreamRefusal::NotAllowed(claim) = refusal { claim.as_str() } else { "" };
        tracing::warn!(%upstream, user = %subject, reason = refusal.as_str(), claim, "the OpenID provider no longer \
            admits a user, whose access ends");
        let ended = self.store.withdraw_confirmation(upstream, subject, now).await?;
        for SignInPlace { session, subject } in ended {
            let event = AuditEvent::new(now, AuditKind::SignedOut, Actor::Server).for_subject(subject);
            let event = event.in_session(session);
            self.audit.note(event.with_detail(format!("upstream {upstream}: {}", refusal.as_str())));
        }
        Ok(UpstreamRefreshOutcome::Ended)
    }

    /// Returns the refresh token of a sign-in, if its user is enabled and still belongs to the provider.
    async fn own_refresh_token(
        &self,
        source: &OpenIdSource,
        place: SignInPlace,
    ) -> Result<Option<(OwnToken, SecretString)>, StoreError> {
        let Some(session) = self.store.session(place.session).await? else { return Ok(None) };
        let own = session.value.sign_in_of(place.subject).and_then(|sign_in| sign_in.upstream.as_deref());
        let sealed = own.filter(|own| own.source == *source.name()).and_then(|own| own.refresh_token.clone());
        let Some(sealed) = sealed else { return Ok(None) };
        let user = self.store.user(place.subject).await?.filter(User::is_enabled);
        // A token of another issuer must not be sent to this one.
        let own = |user: &User| user.source.clone().filter(|own| source.is_origin_of(own));
        let link = |user: &User| own(user).map(|own| own.link);
        let found = user.and_then(|user| Some((link(&user)?, user)));
        let Some((link, user)) = found.filter(|(link, _)| link.source == *source.name()) else { return Ok(None) };
        let kind = UpstreamTokenKind::Refresh;
        match self.store.open_upstream_token(place.subject, source.name(), kind, &sealed) {
            Ok(token) => Ok(Some((OwnToken { place, user, link, sealed }, SecretString::from(token.expose())))),
            Err(error) => {
                tracing::warn!(upstream = %source.name(), user = %place.subject, %error, "cannot open a refresh token");
                Ok(None)
            }
        }
    }

    /// Stores the tokens that the provider has issued. An ID token is stored only together with a
    /// refresh token, because a write for each confirmation would be too many.
    async fn keep_new_tokens(
        &self,
        source: &OpenIdSource,
        own: &OwnToken,
        refresh_token: &SecretString,
        id_token: Option<&SecretString>,
    ) -> Result<(), StoreError> {
        let (subject, now) = (own.place.subject, self.clock.now());
        let seal = |kind, token: &SecretString| self.seal_token(subject, source.name(), kind, token.expose_secret());
        let next = seal(UpstreamTokenKind::Refresh, refresh_token);
        let id_token = id_token.and_then(|token| seal(UpstreamTokenKind::Id, token));
        let change = |own: &mut OpenIdSession| {
            own.refresh_token.clone_from(&next);
            if id_token.is_some() {
                own.id_token.clone_from(&id_token);
            }
            own.at = now;
        };
        for _ in 1..SAVE_ATTEMPTS {
            if self.store.change_upstream_session(own.place, &own.sealed, change).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.store.change_upstream_session(own.place, &own.sealed, change).await.map(drop)
    }

    /// Applies the provider's report about a user. If another user has the new names, the user keeps the
    /// previous ones, and everything else takes effect.
    async fn confirm(
        &self,
        source: &OpenIdSource,
        own: &OwnToken,
        entry: &SourceEntry,
    ) -> Result<UpstreamRefreshOutcome, StoreError> {
        let terms = source.refresh_terms();
        let event = |kind| AuditEvent::new(self.clock.now(), kind, Actor::Server);
        let applied = match self.apply_source_entry(&terms, entry, event).await? {
            Err(SourceSignIn::NameTaken) => {
                tracing::warn!(upstream = %source.name(), user = %own.user.sub, "another user has the new address or \
                    username of this user, so the user keeps the previous ones");
                let with_names = entry.clone().with_names_of(&own.user);
                self.apply_source_entry(&terms, &with_names, event).await?
            }
            applied => applied,
        };
        Ok(if applied.is_ok() { UpstreamRefreshOutcome::Confirmed } else { UpstreamRefreshOutcome::Refused })
    }
}

/// Logs why an answer does not describe the user. The user keeps the previous groups, and is not
/// confirmed. The provider has answered, so it is not away.
fn unread(source: &OpenIdSource, own: &OwnToken, refusal: &UpstreamRefusal) -> UpstreamRefreshOutcome {
    let fault = match refusal {
        UpstreamRefusal::Unavailable(fault) | UpstreamRefusal::Refused(fault) => fault.to_string(),
        _ => String::new(),
    };
    tracing::warn!(upstream = %source.name(), user = %own.user.sub, reason = refusal.as_str(), fault, "the OpenID \
        provider's answer does not confirm a sign-in; the user continues with the previous groups until \
        session_seconds");
    UpstreamRefreshOutcome::Refused
}
