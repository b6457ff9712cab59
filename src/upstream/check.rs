//! Check of a provider for administrators: each step with its result.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::discovery::{metadata_url, read_keys, read_metadata};
use crate::fault::UpstreamFault;
use crate::github;
use crate::provider::OpenIdProvider;
use sealgate_config::{UpstreamCredential, UpstreamKind, UpstreamLogout};
use sealgate_domain::oauth::upstream_claims::{ClaimsRefusal, EmailProof};
use sealgate_domain::oauth::upstream_metadata::{ClientAuthentication, UpstreamMetadata};
use sealgate_domain::source::SourceEntry;
use sealgate_domain::source_check::{CheckStep, CheckStepOutcome};

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamCheck {
    pub steps: Vec<CheckStep>,
    /// The user with the given claims, as it would be stored.
    pub user: Option<SourceEntry>,
}

/// URLs of this server that are registered at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrls {
    pub redirect_uri: String,
    pub logout_uri: String,
    pub signed_out_uri: String,
    pub jwks_uri: String,
}

impl UpstreamCheck {
    fn add(&mut self, subject: &str, outcome: CheckStepOutcome, text: impl Into<String>) {
        self.steps.push(CheckStep { subject: subject.to_owned(), outcome, text: text.into() });
    }

    fn pass(&mut self, subject: &str, text: impl Into<String>) {
        self.add(subject, CheckStepOutcome::Passed, text);
    }

    fn warn(&mut self, subject: &str, text: impl Into<String>) {
        self.add(subject, CheckStepOutcome::Warning, text);
    }

    fn fail(&mut self, subject: &str, text: impl Into<String>) {
        self.add(subject, CheckStepOutcome::Failed, text);
    }
}

impl OpenIdProvider {
    /// Reads metadata and keys, checks the credential, and shows what to register at the provider.
    ///
    /// `claims` are the claims of an ID token. They are converted as in a sign-in, but their signature
    /// and times are not checked.
    pub async fn check(&self, urls: &UpstreamUrls, claims: Option<&Map<String, Value>>) -> UpstreamCheck {
        let mut check = UpstreamCheck { steps: Vec::new(), user: None };
        if self.settings.kind == UpstreamKind::GitHub {
            check.pass("metadata", format!("GitHub has none; its API is {}", github::api(&self.settings.issuer)));
            self.check_credential(github::CLIENT_AUTHENTICATION, &mut check).await;
        } else {
            let issuer = self.settings.issuer.clone();
            match self.requests.on_thread(move |web| read_metadata(web, &issuer)).await.and_then(|read| read) {
                Ok(metadata) => self.check_metadata(metadata, urls, &mut check).await,
                Err(fault) => {
                    check.fail("metadata", fault.to_string());
                    self.check_credential(github::CLIENT_AUTHENTICATION, &mut check).await;
                }
            }
        }
        check.pass("redirect_uri", format!("register {} at the provider", urls.redirect_uri));
        if matches!(self.settings.credential, UpstreamCredential::Key(_)) {
            check.pass("jwks_uri", format!("register {} at the provider, or the key set itself", urls.jwks_uri));
        }
        if let Some(claims) = claims {
            self.check_claims(claims, &mut check);
        }
        check
    }

    async fn check_metadata(&self, metadata: UpstreamMetadata, urls: &UpstreamUrls, check: &mut UpstreamCheck) {
        check.pass("metadata", format!("read {}", metadata_url(&self.settings.issuer)));
        let for_keys = metadata.clone();
        match self.requests.on_thread(move |web| read_keys(web, &for_keys)).await.and_then(|read| read) {
            Ok(keys) => check.pass("keys", format!("{} has {} usable keys", metadata.jwks_uri, keys.len())),
            Err(fault) => check.fail("keys", fault.to_string()),
        }
        self.check_credential(metadata.client_authentication, check).await;
        if self.settings.logout == UpstreamLogout::Upstream && metadata.end_session_endpoint.is_none() {
            let text =
                "the provider has no end_session_endpoint, so users stay signed in there; set logout = \"local\"";
            check.warn("logout", text);
        }
        if self.settings.logout == UpstreamLogout::Upstream && metadata.end_session_endpoint.is_some() {
            let text = format!("register {} at the provider as post-logout redirect URI", urls.signed_out_uri);
            check.pass("signed_out_uri", text);
        }
        if metadata.sends_logout_tokens {
            check.pass("logout", format!("register {} at the provider for back-channel logout", urls.logout_uri));
        } else {
            let text = "the provider does not declare back-channel logout; a sign-out there ends no session here";
            check.pass("logout", text);
        }
    }

    async fn check_credential(&self, methods: ClientAuthentication, check: &mut UpstreamCheck) {
        let credential = Arc::clone(&self.credential);
        let read = self.requests.on_thread(move |_| credential.check_file().and_then(|()| credential.jwks())).await;
        let subject = match &self.settings.credential {
            UpstreamCredential::SecretFile(_) => "client_secret_file",
            UpstreamCredential::Key(_) => "client_key",
        };
        let is_key = match read.and_then(|read| read) {
            Ok(jwks) => jwks.is_some(),
            Err(fault) => return check.fail(subject, UpstreamFault::to_string(&fault)),
        };
        let other = "use the other kind of credential, or allow it at the provider";
        match (is_key, methods) {
            (true, ClientAuthentication { private_key_jwt: false, .. }) => {
                check.fail(subject, format!("the metadata do not list private_key_jwt; {other}"));
            }
            (true, ClientAuthentication { es256: Some(false), .. }) => {
                check.fail(subject, format!("the provider does not accept assertions signed with ES256; {other}"));
            }
            (false, ClientAuthentication { basic: false, post: false, .. }) => {
                check.fail(
                    subject,
                    format!("the metadata list neither client_secret_basic nor client_secret_post; {other}"),
                );
            }
            (true, _) => check.pass(subject, "the key is in the token, and signs"),
            (false, _) => check.pass(subject, "the secret can be read"),
        }
    }

    fn check_claims(&self, claims: &Map<String, Value>, check: &mut UpstreamCheck) {
        let settings = &self.settings;
        for (name, own) in [("iss", &settings.issuer), ("aud", &settings.client_id)] {
            let found = claims.get(name);
            let is_own = |value: &Value| {
                value.as_str() == Some(own) || value.as_array().is_some_and(|list| list.iter().any(|one| one == own))
            };
            if found.is_some_and(|found| !is_own(found)) {
                let key = if name == "iss" { "issuer" } else { "client_id" };
                let found = found.map(ToString::to_string).unwrap_or_default();
                check.fail("claims", format!("{name} is {found}, but {key} is {own:?}; correct one of them"));
            }
        }
        if settings.kind != UpstreamKind::GitHub && settings.claims.is_incomplete(claims) {
            let text =
                "not all used claims are here; a sign-in also reads the UserInfo endpoint, which this check cannot";
            check.warn("claims", text);
        }
        match settings.claims.entry(claims) {
            Ok(user) => {
                self.explain_address(&user, claims, check);
                check.pass("claims", "the user may sign in, and is stored as below");
                check.user = Some(user);
            }
            Err(ClaimsRefusal::NoSubject) => check.fail(
                "claims",
                format!(
                    "the claim {} is missing, or no text of 1 to 255 bytes; correct subject_claim",
                    settings.claims.subject
                ),
            ),
            Err(ClaimsRefusal::NotAllowed(claim)) => check.fail(
                "claims",
                format!("the claim {claim} does not have the required value; correct required, or add the claim"),
            ),
            Err(ClaimsRefusal::GroupsOverage) => check.fail(
                "claims",
                "the user is in too many groups, so the provider sends a reference; let it send only groups that are \
                 assigned to this application, or use roles",
            ),
        }
    }

    fn explain_address(&self, user: &SourceEntry, claims: &Map<String, Value>, check: &mut UpstreamCheck) {
        let Some(email) = &user.email else {
            let text = if claims.contains_key("email") {
                "the claim email is discarded, because mail servers refuse such an address; correct it at the provider"
            } else {
                "there is no claim email; request the scope email"
            };
            return check.warn("email", text);
        };
        if user.email_verified {
            return;
        }
        let domain = email.as_str().rsplit_once('@').map(|(_, domain)| domain).unwrap_or_default();
        let text = if !self.settings.claims.has_domain(domain) {
            format!("the address is not verified, because {domain:?} is not in domains; add it if the provider owns it")
        } else if let Some(claim) = claims.get("email_verified").filter(|claim| !claim.is_boolean()) {
            format!("the address is not verified, because email_verified is {claim} and not the boolean true")
        } else if self.settings.claims.email_proof == EmailProof::ClaimOrDomainOwner {
            "the address is not verified, because the claim xms_edov is not true; add it as an optional claim, or set \
             emails_are_verified"
                .to_owned()
        } else {
            "the address is not verified, because email_verified is not true; correct it at the provider, or set \
             emails_are_verified"
                .to_owned()
        };
        check.warn("email", text);
    }
}
