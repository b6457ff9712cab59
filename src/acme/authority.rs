//! Orders at a certificate authority.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, ExternalAccountKey, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use x509_parser::extensions::ParsedExtension;
use zeroize::Zeroizing;

use sealgate_config::{AcmeChallenge, AcmeConfig};
use sealgate_system::clock::{Clock, SystemClock};
use sealgate_system::fetch::Web;

use crate::fault::{AcmeFault, AcmeFaultKind, kind_of};
use crate::files::leaf;
use crate::issue::{CertificateRequest, PendingChallenge, is_placeholder};
use crate::renewal::CertificateValidity;
use crate::state::{AcmeState, HostState, KeptAccount};
use crate::transport::{AcmeTransport, Pause};

/// Timeout of one request to the authority.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum length of a response, in bytes. A certificate chain has a few KiB.
const MAX_RESPONSE_BYTES: u64 = 256 * 1024;
/// Timeout of each wait for the authority: for the validation, and for the issuance.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of attempts for one order while the authority rejects the nonces.
const NONCE_ATTEMPTS: u32 = 8;
/// Minimum time between two requests for the renewal window (RFC 9773 §4.3).
const MIN_WINDOW_PAUSE: Duration = Duration::from_mins(1);
/// Maximum time between two requests for the renewal window.
const MAX_WINDOW_PAUSE: Duration = Duration::from_hours(24);

/// Order of a certificate for one host.
#[derive(Debug, Clone, Copy)]
pub struct CertificateOrder<'a> {
    pub host: &'a str,
    /// Validity of the certificate in use, which the order replaces. `None` if the host has no
    /// certificate.
    pub current: Option<CertificateValidity>,
}

/// Renewal window that the authority suggests for a certificate (RFC 9773).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewalWindow {
    /// Start and end, in seconds since 1970.
    pub window: (i64, i64),
    /// Time after which the client must request the renewal window again.
    pub again_after: Duration,
}

/// Client of the ACME authority that one configuration names.
pub struct AcmeAuthority {
    config: AcmeConfig,
    external_account: Option<ExternalAccountKey>,
    transport: AcmeTransport,
}

impl AcmeAuthority {
    /// Prepares the HTTP client. Sends no request, but reads files (blocking I/O).
    ///
    /// # Errors
    /// If the certificate authorities of the machine or of `ca_file`, or the key of the external
    /// account, cannot be read.
    pub fn new(config: &AcmeConfig) -> Result<Self, AcmeFault> {
        let web = Web::with_authorities(REQUEST_TIMEOUT, MAX_RESPONSE_BYTES, config.ca_file.as_deref())
            .map_err(AcmeFault::local)?;
        let external_account = config.external_account.as_ref().map(|account| {
            let key = account.read_key().map_err(|fault| format!("acme.external_account_key_file: {fault}"))?;
            Ok(ExternalAccountKey::new(account.external_account_id.clone(), &key))
        });
        Ok(Self {
            config: config.clone(),
            external_account: external_account.transpose().map_err(|fault: String| AcmeFault::local(fault))?,
            transport: AcmeTransport { web: Arc::new(web), pause: Arc::new(Pause::default()) },
        })
    }

    /// Returns the configuration of the account.
    pub fn config(&self) -> &AcmeConfig {
        &self.config
    }

    /// Returns the remaining time in which the authority accepts no requests (`Retry-After`).
    /// Returns `None` if the authority accepts requests.
    pub fn pause(&self) -> Option<Duration> {
        self.transport.pause.remaining()
    }

    /// Returns the validity of the host's certificate. Blocking I/O.
    ///
    /// Returns `None` if a new certificate must be ordered: there is no usable file, the file has a
    /// placeholder, or the configuration names another authority or profile.
    pub fn current(&self, host: &str, state: &HostState) -> Option<CertificateValidity> {
        let (leaf, validity) = leaf(&self.config.file(host))?;
        let is_of_configuration =
            state.directory == self.config.directory && state.profile == self.config.profile.as_deref().unwrap_or("");
        (is_of_configuration && !is_placeholder(&leaf)).then_some(validity)
    }

    /// Opens the account that `state` contains. If `state` contains no account, registers an
    /// account and records it in `state`.
    ///
    /// # Errors
    /// The errors of [`AcmeAuthority::obtain`].
    pub async fn account(&self, state: &mut AcmeState) -> Result<Account, AcmeFault> {
        let builder = Account::builder_with_http(Box::new(self.transport.clone()));
        let stored_account =
            state.account.as_ref().filter(|stored_account| stored_account.directory == self.config.directory);
        if let Some(stored_account) = stored_account {
            let credentials = serde_json::from_value(stored_account.credentials.clone()).map_err(AcmeFault::local)?;
            return Ok(builder.from_credentials(credentials).await?);
        }
        let contact: Vec<String> = self.config.contact.iter().map(|address| format!("mailto:{address}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) =
            builder.create(&new, self.config.directory.clone(), self.external_account.as_ref()).await?;
        let credentials = serde_json::to_value(credentials).map_err(AcmeFault::local)?;
        state.account = Some(KeptAccount { directory: self.config.directory.clone(), credentials });
        Ok(account)
    }

    /// Requests the renewal window of the host's certificate (RFC 9773).
    ///
    /// # Errors
    /// If the request fails, or if the authority or the certificate does not support renewal
    /// windows.
    pub async fn renewal_window(&self, account: &Account, host: &str) -> Result<RenewalWindow, AcmeFault> {
        let id = self.identifier(host).ok_or_else(|| AcmeFault::local("the certificate has no key identifier"))?;
        let (info, again_after) = account.renewal_info(&id).await?;
        let window = info.suggested_window;
        Ok(RenewalWindow {
            window: (window.start.unix_timestamp(), window.end.unix_timestamp()),
            again_after: again_after.clamp(MIN_WINDOW_PAUSE, MAX_WINDOW_PAUSE),
        })
    }

    /// Returns the identifier of the host's certificate for renewal windows (RFC 9773 §4.1).
    fn identifier(&self, host: &str) -> Option<CertificateIdentifier<'static>> {
        let (leaf, _) = leaf(&self.config.file(host))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).ok()?;
        let authority = parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(authority) => authority.key_identifier.as_ref().map(|id| id.0),
            _ => None,
        })?;
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes).into();
        Some(CertificateIdentifier { authority_key_identifier: text(authority), serial: text(parsed.raw_serial()) })
    }

    /// Obtains a certificate. Returns the private key and the chain in PEM.
    ///
    /// Calls `present` before the authority validates a challenge. The server must respond to the
    /// challenge until this function returns. If the authority rejects the nonces of an order, the
    /// order is repeated.
    ///
    /// # Errors
    /// If the authority cannot be reached, rejects the order, or issues an unusable certificate.
    pub async fn obtain<P: Future<Output = Result<(), AcmeFault>>>(
        &self,
        account: &Account,
        wanted: CertificateOrder<'_>,
        present: impl Fn(PendingChallenge) -> P,
    ) -> Result<Zeroizing<String>, AcmeFault> {
        for _ in 1..NONCE_ATTEMPTS {
            match self.attempt(account, wanted, &present).await {
                Err(fault) if fault.kind == AcmeFaultKind::BadNonce => {}
                ended => return ended,
            }
        }
        self.attempt(account, wanted, &present).await
    }

    async fn attempt<P: Future<Output = Result<(), AcmeFault>>>(
        &self,
        account: &Account,
        wanted: CertificateOrder<'_>,
        present: &impl Fn(PendingChallenge) -> P,
    ) -> Result<Zeroizing<String>, AcmeFault> {
        let host = wanted.host;
        let identifier = host.parse().map_or_else(|_| Identifier::Dns(host.to_owned()), Identifier::Ip);
        let identifiers = [identifier];
        let mut order = self.order(account, wanted, &identifiers).await?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                _ => return Err(AcmeFault::rejected("the authorization of the host is not pending")),
            }
            let kind = match self.config.challenge {
                AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
                AcmeChallenge::Http01 => ChallengeType::Http01,
            };
            let mut challenge = authorization
                .challenge(kind)
                .ok_or_else(|| AcmeFault::rejected("the authority does not offer this challenge for the host"))?;
            let key_authorization = challenge.key_authorization();
            let pending = PendingChallenge {
                host: host.to_owned(),
                token: challenge.token.clone(),
                digest: key_authorization.digest().as_ref().to_vec(),
                key_authorization: key_authorization.as_str().to_owned(),
            };
            present(pending).await?;
            challenge.set_ready().await?;
        }
        let polling =
            RetryPolicy::new().initial_delay(Duration::from_millis(500)).backoff(1.5).timeout(VALIDATION_TIMEOUT);
        if order.poll_ready(&polling).await? != OrderStatus::Ready {
            return Err(refusal(&mut order).await);
        }
        let request = CertificateRequest::new(host)?;
        let now = i64::try_from(SystemClock.now().seconds()).unwrap_or(i64::MAX);
        order.finalize_csr(&request.der).await?;
        let chain = order.poll_certificate(&polling).await?;
        request.with_chain(host, &chain, now)
    }

    /// Places the order. If the authority supports replacements, the order names the certificate
    /// that it replaces.
    async fn order(
        &self,
        account: &Account,
        wanted: CertificateOrder<'_>,
        identifiers: &[Identifier],
    ) -> Result<Order, AcmeFault> {
        let new = || {
            let order = NewOrder::new(identifiers);
            match &self.config.profile {
                Some(profile) => order.profile(profile),
                None => order,
            }
        };
        let replaced = wanted.current.and_then(|_| self.identifier(wanted.host));
        if let Some(replaced) = replaced {
            match account.new_order(&new().replaces(replaced)).await {
                // The authority does not support replacements, does not know the certificate,
                // regards it as replaced already, or fails while it searches the certificate. Place
                // the order without a reference to the certificate.
                Err(Error::Api(problem))
                    if matches!(kind_of(&problem), AcmeFaultKind::Rejected | AcmeFaultKind::Unreachable) => {}
                placed => return Ok(placed?),
            }
        }
        Ok(account.new_order(&new()).await?)
    }
}

/// Returns why the authority did not validate the host.
async fn refusal(order: &mut Order) -> AcmeFault {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return AcmeFault::rejected(problem);
        }
    }
    AcmeFault::rejected("the authority did not validate the host")
}
