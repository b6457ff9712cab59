//! A provider: its settings, and the operations at it.

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tokio::time::timeout;
use url::Url;

use crate::credential::{AssertionSigner, ProviderCredential};
use crate::discovery::{Discovery, KnownProvider, SignatureFault};
use crate::fault::{UpstreamFault, UpstreamFaultKind};
use crate::github;
use crate::outcome::{
    CallbackAnswer, Trip, TripPrompt, UpstreamInvalid, UpstreamLogoutToken, UpstreamRefresh, UpstreamRefusal,
    UpstreamSignIn,
};
use crate::requests::Requests;
use crate::token::{TokenAnswer, TokenRefusal, read_user_info, request_tokens};
use sealgate_config::{UpstreamKind, UpstreamLogout, UpstreamSettings};
use sealgate_domain::oauth::id_token::{IdToken, IdTokenTerms, MAX_ID_TOKEN_LENGTH};
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::upstream_logout::LogoutToken;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::source::{SourceEntry, SourceId, SourceLink};
use sealgate_system::clock::Clock;

/// Maximum length of a code and of `login_hint` in bytes.
const MAX_CODE_LENGTH: usize = 4096;
const MAX_HINT_LENGTH: usize = 320;

/// Maximum length of an ID token in a URL, in bytes. Servers limit the length of URLs, often to 8 KiB.
/// Without the token, the provider may ask the user to confirm the sign-out.
const MAX_HINTED_TOKEN_LENGTH: usize = 6 * 1024;

/// Time for which a user who signs out waits for the provider's metadata.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// An OpenID provider whose users can sign in.
pub struct OpenIdProvider {
    pub(crate) settings: UpstreamSettings,
    pub(crate) requests: Requests,
    pub(crate) credential: Arc<ProviderCredential>,
    discovery: Discovery,
    clock: Arc<dyn Clock>,
}

impl OpenIdProvider {
    /// Prepares a provider. Does not connect to it. Blocking: reads the secret file and the CA file.
    ///
    /// # Errors
    /// If one of the files cannot be read.
    pub fn open(
        settings: &UpstreamSettings,
        signer: Arc<dyn AssertionSigner>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UpstreamFault> {
        let credential = ProviderCredential::new(settings, signer);
        credential.check_file()?;
        Ok(Self {
            settings: settings.clone(),
            requests: Requests::open(settings)?,
            credential: Arc::new(credential),
            discovery: Discovery::new(&settings.issuer),
            clock,
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// Returns the key set with the public key of the client key, for the provider. `None` if the
    /// credential is a secret.
    ///
    /// # Errors
    /// If the token cannot read the key.
    pub async fn jwks(&self) -> Result<Option<String>, UpstreamFault> {
        let credential = Arc::clone(&self.credential);
        self.requests.operation(async { self.requests.on_thread(move |_| credential.jwks()).await? }).await
    }

    /// Returns the URL at the provider to which the browser is redirected. Reads the metadata if
    /// needed.
    ///
    /// # Errors
    /// If the metadata cannot be read.
    pub async fn authorization_url(&self, trip: &Trip<'_>) -> Result<String, UpstreamFault> {
        let endpoint = if self.is_github() {
            github::authorization_endpoint(&self.settings.issuer)
        } else {
            self.known().await?.metadata.authorization_endpoint.clone()
        };
        let unusable = |error| UpstreamFault::new(UpstreamFaultKind::Metadata, format!("{endpoint}: {error}"));
        let mut url = Url::parse(&endpoint).map_err(unusable)?;
        let challenge = base64url(SecretHash::for_secret(trip.code_verifier.expose().as_bytes()).as_bytes());
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", trip.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", trip.state.expose())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let prompt = match trip.prompt {
            None => None,
            Some(TripPrompt::None) => Some("none"),
            Some(TripPrompt::Login) => Some("login"),
            Some(TripPrompt::SelectAccount) => Some("select_account"),
        };
        // GitHub knows only this value.
        if let Some(prompt) = prompt.filter(|prompt| !self.is_github() || *prompt == "select_account") {
            query.append_pair("prompt", prompt);
        }
        let hint = trip.login_hint.filter(|hint| hint.len() <= MAX_HINT_LENGTH);
        if self.is_github() {
            hint.map(|hint| query.append_pair("login", hint));
        } else {
            query.append_pair("nonce", trip.nonce.expose());
            hint.map(|hint| query.append_pair("login_hint", hint));
            trip.max_age.map(|age| query.append_pair("max_age", &age.as_secs().to_string()));
            trip.acr_values.map(|values| query.append_pair("acr_values", values));
        }
        drop(query);
        Ok(url.into())
    }

    /// Exchanges the code of a browser that has returned, and validates the answer.
    ///
    /// The caller has compared `state`, and `trip` is the trip of this browser to this provider.
    ///
    /// # Errors
    /// [`UpstreamRefusal`].
    pub async fn sign_in(
        &self,
        answer: &CallbackAnswer<'_>,
        trip: &Trip<'_>,
    ) -> Result<UpstreamSignIn, UpstreamRefusal> {
        self.requests.operation(self.exchange(answer, trip)).await
    }

    async fn exchange(&self, answer: &CallbackAnswer<'_>, trip: &Trip<'_>) -> Result<UpstreamSignIn, UpstreamRefusal> {
        let known =
            if self.is_github() { None } else { Some(self.discovery.current(&self.requests, self.clock.now()).await?) };
        // Before anything else, because an error of another provider says nothing about this one
        // (RFC 9207 §2.4).
        match answer.iss {
            Some(iss) if !self.is_own_issuer(iss) => return Err(UpstreamInvalid::ForeignIssuer.into()),
            None if known.as_ref().is_some_and(|known| known.metadata.sends_iss) => {
                return Err(UpstreamInvalid::NoIssuer.into());
            }
            _ => {}
        }
        if let Some(error) = answer.error {
            return Err(refusal_of(error));
        }
        let code = answer.code.filter(|code| !code.is_empty() && code.len() <= MAX_CODE_LENGTH);
        let code = code.ok_or(UpstreamInvalid::NoCode)?;
        let form = vec![
            ("grant_type", Secret::new("authorization_code")),
            ("code", Secret::new(code)),
            ("redirect_uri", Secret::new(trip.redirect_uri)),
            ("code_verifier", trip.code_verifier.clone()),
        ];
        let tokens = self.tokens(known.as_ref(), form).await.map_err(|refusal| match refusal {
            TokenRefusal::Grant => UpstreamInvalid::Code.into(),
            TokenRefusal::Refused(fault) => UpstreamRefusal::Refused(fault),
            TokenRefusal::Unavailable(fault) => UpstreamRefusal::Unavailable(fault),
        })?;
        let Some(known) = known else { return self.github_user(tokens).await };
        let Some(id_token) = &tokens.id_token else { return Err(UpstreamInvalid::NoIdToken.into()) };
        let terms = IdTokenTerms {
            issuer: &self.settings.issuer,
            client_id: &self.settings.client_id,
            nonce: Some(trip.nonce.expose()),
            access_token: tokens.access_token.expose(),
            max_age: trip.max_age,
            now: self.clock.now(),
        };
        let (token, claims) = self.checked_id_token(&known, id_token, &terms).await?;
        let claims = self.completed(&known, &token, claims, &tokens.access_token).await?;
        let entry = self.settings.claims.entry(&claims)?;
        Ok(UpstreamSignIn {
            entry,
            auth_time: token.auth_time,
            level: self.settings.claims.level(token.acr.as_deref()),
            amr: token.amr,
            sub: Some(token.sub),
            sid: token.sid,
            id_token: tokens.id_token.map(SecretString::from),
            refresh_token: tokens.refresh_token.as_ref().map(into_secret_string),
        })
    }

    /// Reads a user again with a refresh token. The user must be the one of `link`.
    ///
    /// The answer may lack the ID token (OpenID Connect Core §12.2). The user's claims are then those of
    /// the UserInfo endpoint. The caller must store a new refresh token even if the user could not be
    /// read, because the previous one is then no longer valid.
    ///
    /// # Errors
    /// [`UpstreamRefusal::Ended`] if the provider has ended the user's access. All other errors do not end
    /// it. [`UpstreamRefusal::Unavailable`] says nothing about the user: the provider may be away.
    pub async fn refresh(
        &self,
        refresh_token: &SecretString,
        link: &SourceLink,
    ) -> Result<UpstreamRefresh, UpstreamRefusal> {
        let (known, mut tokens) = self.requests.operation(self.refreshed(refresh_token)).await?;
        let (id_token, refresh_token) = (tokens.id_token.clone(), tokens.refresh_token.take());
        let user = self.requests.operation(self.read_again(known, tokens, link)).await;
        Ok(UpstreamRefresh {
            user,
            id_token: id_token.map(SecretString::from),
            refresh_token: refresh_token.as_ref().map(into_secret_string),
        })
    }

    async fn refreshed(
        &self,
        refresh_token: &SecretString,
    ) -> Result<(Option<Arc<KnownProvider>>, TokenAnswer), UpstreamRefusal> {
        let known =
            if self.is_github() { None } else { Some(self.discovery.current(&self.requests, self.clock.now()).await?) };
        let form = vec![
            ("grant_type", Secret::new("refresh_token")),
            ("refresh_token", Secret::new(refresh_token.expose_secret())),
        ];
        match self.tokens(known.as_ref(), form).await {
            Ok(tokens) => Ok((known, tokens)),
            Err(TokenRefusal::Grant) => Err(UpstreamRefusal::Ended),
            Err(TokenRefusal::Refused(fault)) => Err(UpstreamRefusal::Refused(fault)),
            Err(TokenRefusal::Unavailable(fault)) => Err(UpstreamRefusal::Unavailable(fault)),
        }
    }

    async fn read_again(
        &self,
        known: Option<Arc<KnownProvider>>,
        tokens: TokenAnswer,
        link: &SourceLink,
    ) -> Result<SourceEntry, UpstreamRefusal> {
        let Some(known) = known else {
            let UpstreamSignIn { entry, .. } = self.github_user(tokens).await?;
            return if entry.id == link.id { Ok(entry) } else { Err(UpstreamInvalid::OtherUser.into()) };
        };
        let claims = match &tokens.id_token {
            Some(id_token) => {
                let terms = IdTokenTerms {
                    issuer: &self.settings.issuer,
                    client_id: &self.settings.client_id,
                    nonce: None,
                    access_token: tokens.access_token.expose(),
                    max_age: None,
                    now: self.clock.now(),
                };
                let (token, claims) = self.checked_id_token(&known, id_token, &terms).await?;
                self.completed(&known, &token, claims, &tokens.access_token).await?
            }
            None => self.user_info(&known, &tokens.access_token).await?,
        };
        let entry = match self.settings.claims.entry(&claims).map_err(UpstreamRefusal::from) {
            // The UserInfo endpoint may lack claims that the ID token has.
            Err(UpstreamRefusal::NotAllowed(claim)) if tokens.id_token.is_none() && !claims.contains_key(&claim) => {
                let text = format!(
                    "the answer to a refresh has no ID token, and UserInfo has no {claim}, which is required; add the \
                     claim to UserInfo at the provider"
                );
                return Err(UpstreamFault::new(UpstreamFaultKind::Answer, text).into());
            }
            Err(UpstreamRefusal::NoSubject) if tokens.id_token.is_none() => {
                let text = format!(
                    "the answer to a refresh has no ID token, and UserInfo has no {}; add the claim to UserInfo at the \
                     provider",
                    self.settings.claims.subject
                );
                return Err(UpstreamFault::new(UpstreamFaultKind::Answer, text).into());
            }
            entry => entry?,
        };
        if entry.id != link.id {
            return Err(UpstreamInvalid::OtherUser.into());
        }
        Ok(entry)
    }

    /// Returns the URL that ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0
    /// §2). `None` if the settings keep the session, if the provider has no such URL, or if its metadata
    /// cannot be read within three seconds.
    pub async fn end_session_url(
        &self,
        id_token: Option<&SecretString>,
        return_to: &str,
        state: Option<&Secret>,
    ) -> Option<String> {
        if self.settings.logout == UpstreamLogout::Local || self.is_github() {
            return None;
        }
        let known = match self.discovery.known(self.clock.now()) {
            Some(known) => known,
            None => timeout(END_SESSION_TIMEOUT, self.known()).await.ok()?.ok()?,
        };
        let id_token = id_token.filter(|token| token.expose_secret().len() <= MAX_HINTED_TOKEN_LENGTH);
        let mut url = Url::parse(known.metadata.end_session_endpoint.as_deref()?).ok()?;
        let mut query = url.query_pairs_mut();
        query.append_pair("client_id", &self.settings.client_id).append_pair("post_logout_redirect_uri", return_to);
        id_token.map(|token| query.append_pair("id_token_hint", token.expose_secret()));
        state.map(|state| query.append_pair("state", state.expose()));
        drop(query);
        Some(url.into())
    }

    /// Verifies a logout token (OpenID Connect Back-Channel Logout 1.0 §2.6). The caller accepts each
    /// `jti` once.
    ///
    /// # Errors
    /// [`UpstreamRefusal::Invalid`], or [`UpstreamRefusal::Unavailable`] if the keys cannot be read.
    pub async fn verify_logout_token(&self, token: &str) -> Result<UpstreamLogoutToken, UpstreamRefusal> {
        self.requests.operation(self.checked_logout_token(token)).await
    }

    async fn checked_logout_token(&self, token: &str) -> Result<UpstreamLogoutToken, UpstreamRefusal> {
        if self.is_github() {
            return Err(UpstreamInvalid::NoIdToken.into());
        }
        let known = self.discovery.current(&self.requests, self.clock.now()).await?;
        let jws = Jws::parse(token, MAX_ID_TOKEN_LENGTH, &known.metadata.algorithms)?;
        // The claims are checked first, so that an invented token causes no read of the keys.
        let checked = LogoutToken::check(&jws, &self.settings.issuer, &self.settings.client_id, self.clock.now())?;
        self.discovery.verify(&self.requests, &jws, self.clock.now()).await?;
        let sub = checked.sub.and_then(|sub| SourceId::from_bytes(sub.as_bytes()));
        Ok(UpstreamLogoutToken { sub, sid: checked.sid, jti: checked.jti, ends_at: checked.ends_at })
    }

    /// Returns metadata and keys.
    async fn known(&self) -> Result<Arc<KnownProvider>, UpstreamFault> {
        // Known metadata need no place among the waiting operations.
        if let Some(known) = self.discovery.fresh(self.clock.now()) {
            return Ok(known);
        }
        self.requests.operation(self.discovery.current(&self.requests, self.clock.now())).await
    }

    async fn tokens(
        &self,
        known: Option<&Arc<KnownProvider>>,
        form: Vec<(&'static str, Secret)>,
    ) -> Result<TokenAnswer, TokenRefusal> {
        let (endpoint, methods) = match known {
            Some(known) => (known.metadata.token_endpoint.clone(), known.metadata.client_authentication),
            None => (github::token_endpoint(&self.settings.issuer), github::CLIENT_AUTHENTICATION),
        };
        let (credential, now) = (Arc::clone(&self.credential), self.clock.now());
        self.requests.on_thread(move |web| request_tokens(web, &endpoint, form, &credential, methods, now)).await?
    }

    /// Checks the claims and the signature of an ID token.
    async fn checked_id_token(
        &self,
        known: &KnownProvider,
        token: &str,
        terms: &IdTokenTerms<'_>,
    ) -> Result<(IdToken, Map<String, Value>), UpstreamRefusal> {
        let jws = Jws::parse(token, MAX_ID_TOKEN_LENGTH, &known.metadata.algorithms)?;
        let checked = IdToken::check(&jws, terms).inspect_err(|fault| {
            if fault.is_about_time() {
                let times = |name: &str| jws.claims().get(name).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(
                    upstream = %self.settings.name,
                    reason = fault.as_str(),
                    now = terms.now.seconds(),
                    iat = times("iat"),
                    exp = times("exp"),
                    auth_time = times("auth_time"),
                    "an ID token was refused because of its times; compare the clocks of this machine and of the provider"
                );
            }
        })?;
        self.discovery.verify(&self.requests, &jws, self.clock.now()).await?;
        Ok((checked, jws.claims().clone()))
    }

    /// Adds the claims of the UserInfo endpoint if claims are missing in the ID token.
    async fn completed(
        &self,
        known: &KnownProvider,
        token: &IdToken,
        claims: Map<String, Value>,
        access_token: &Secret,
    ) -> Result<Map<String, Value>, UpstreamRefusal> {
        if !self.settings.claims.is_incomplete(&claims) || known.metadata.userinfo_endpoint.is_none() {
            return Ok(claims);
        }
        let user_info = self.user_info(known, access_token).await?;
        // OpenID Connect Core §5.3.2: otherwise the access token may be of another user.
        if user_info.get("sub").and_then(Value::as_str) != Some(&token.sub) {
            return Err(UpstreamInvalid::UserInfoSubject.into());
        }
        Ok(self.settings.claims.merged(&claims, user_info)?)
    }

    async fn user_info(
        &self,
        known: &KnownProvider,
        access_token: &Secret,
    ) -> Result<Map<String, Value>, UpstreamFault> {
        let missing = || {
            let text = "the provider has no UserInfo endpoint, and its answer has no ID token; check the provider";
            UpstreamFault::new(UpstreamFaultKind::Metadata, text)
        };
        let endpoint = known.metadata.userinfo_endpoint.clone().ok_or_else(missing)?;
        let token = access_token.clone();
        self.requests.on_thread(move |web| read_user_info(web, &endpoint, &token)).await?
    }

    async fn github_user(&self, tokens: TokenAnswer) -> Result<UpstreamSignIn, UpstreamRefusal> {
        let (settings, token) = (self.settings.clone(), tokens.access_token);
        let claims = self.requests.on_thread(move |web| github::read_user(web, &settings, &token)).await??;
        Ok(UpstreamSignIn {
            entry: self.settings.claims.entry(&claims)?,
            auth_time: None,
            level: None,
            amr: Vec::new(),
            sub: None,
            sid: None,
            id_token: None,
            refresh_token: tokens.refresh_token.as_ref().map(into_secret_string),
        })
    }

    fn is_github(&self) -> bool {
        self.settings.kind == UpstreamKind::GitHub
    }

    fn is_own_issuer(&self, iss: &str) -> bool {
        let own = &self.settings.issuer;
        iss == own || (self.is_github() && iss.strip_suffix(github::ISSUER_PATH) == Some(own))
    }
}

/// Returns the refusal for an error with which the browser has returned (RFC 6749 §4.1.2.1, OpenID
/// Connect Core §3.1.2.6).
fn refusal_of(error: &str) -> UpstreamRefusal {
    let (kind, word, remedy) = match error {
        "access_denied" => return UpstreamRefusal::Denied,
        "login_required" | "interaction_required" | "consent_required" | "account_selection_required" => {
            return UpstreamRefusal::InteractionRequired;
        }
        "server_error" => (UpstreamFaultKind::Answer, "server_error", "check the provider"),
        "temporarily_unavailable" => (UpstreamFaultKind::Answer, "temporarily_unavailable", "wait"),
        "invalid_request" => {
            (UpstreamFaultKind::Client, "invalid_request", "check the client's settings at the provider")
        }
        "unauthorized_client" => {
            (UpstreamFaultKind::Client, "unauthorized_client", "allow the authorization code flow at the provider")
        }
        "unsupported_response_type" => (
            UpstreamFaultKind::Client,
            "unsupported_response_type",
            "allow the authorization code flow at the provider",
        ),
        "invalid_scope" => {
            (UpstreamFaultKind::Client, "invalid_scope", "correct scopes, or allow them at the provider")
        }
        // The text comes from the browser's URL, so it is not repeated.
        _ => (UpstreamFaultKind::Answer, "an unknown error", "check the provider"),
    };
    // The browser brings the error, so it is no proof that the provider is away.
    UpstreamRefusal::Refused(UpstreamFault::new(kind, format!("the provider returned {word}; {remedy}")))
}

fn into_secret_string(secret: &Secret) -> SecretString {
    SecretString::from(secret.expose())
}

impl From<SignatureFault> for UpstreamRefusal {
    fn from(fault: SignatureFault) -> Self {
        match fault {
            SignatureFault::UnknownKey => UpstreamInvalid::UnknownKey.into(),
            SignatureFault::Signature => UpstreamInvalid::Signature.into(),
            SignatureFault::Unavailable(fault) => Self::Unavailable(fault),
        }
    }
}
