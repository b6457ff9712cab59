//! Context of a request in the provider or the gateway: its head, body, sender and time.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};

use crate::state::Sealgate;
use crate::web::cookie;
use sealgate_config::{Config, Language};
use sealgate_domain::assurance::{AssuranceLevel, AssuranceRequirement};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind, NoticeContext};
use sealgate_domain::error::Refusal;
use sealgate_domain::limiter::RateLimitStatus;
use sealgate_domain::mail::{Notice, RequestOrigin};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::session::SessionCookie;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_edge::navigation;
use sealgate_edge::origin::{Origin, Reauthorization};
use sealgate_pages::{LinkTarget, Problem, device};
use sealgate_store::StoreError;
use sealgate_system::clock;

/// Maximum length of `User-Agent` that is read, bytes.
const MAX_USER_AGENT_LENGTH: usize = 800;

/// Body of a request, if it was read.
#[derive(Debug)]
pub enum Body {
    /// The handler cannot read the body.
    Away,
    /// The body was not read yet.
    Unread,
    Read(Bytes),
}

/// Recipient of error responses, which determines their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// Programs: errors are JSON.
    Programs,
    People,
    /// Decided from the request's header fields.
    Sender,
}

/// Differences between pages on the issuer's host and pages on an application's host.
pub struct PageHost {
    /// Returns the folder of the stylesheet, script and logo.
    pub assets: fn(&Config) -> String,
    pub has_script: bool,
    /// Permitted targets of forms on error pages (CSP Level 3, `form-action`).
    pub form_action: &'static str,
    /// Returns the URL of this page in another language, given by its tag.
    pub in_language: fn(&RequestContext<'_>, &str) -> String,
    /// Returns the address of the link on an error page, and the kind of its target.
    pub way: for<'c> fn(&'c RequestContext<'_>, Problem) -> (String, LinkTarget<'c>),
}

/// The application that a request is for, as shown on its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferringApp {
    pub name: String,
    /// URL of its first page.
    pub address: String,
}

/// Context of a request.
pub struct RequestContext<'a> {
    pub sealgate: &'a Sealgate,
    pub head: &'a Parts,
    pub body: Body,
    pub origin: Cow<'a, Origin>,
    /// Time of arrival; all decisions about the request use this instant.
    pub now: UnixTime,
    /// Names of Sealgate's cookies.
    pub cookies: cookie::CookieNames,
    pub recipient: Recipient,
    pub host: &'static PageHost,
    /// Language that the user has just chosen with the language switch of a page.
    pub switched: Option<Language>,
    /// Application that the request is for, if known.
    pub party: OnceLock<ReferringApp>,
    /// Languages that the client requested for the pages (`ui_locales`).
    pub ui_locales: OnceLock<String>,
    /// Rate limit reading of the request's charge. The inner value is `None` if no limit applies.
    pub(super) charged: OnceLock<Option<RateLimitStatus>>,
}

impl<'a> RequestContext<'a> {
    /// Creates the context of a new request.
    pub fn new(
        sealgate: &'a Sealgate,
        head: &'a Parts,
        body: Body,
        recipient: Recipient,
        host: &'static PageHost,
    ) -> Self {
        Self {
            sealgate,
            head,
            body,
            origin: Origin::from_head(head),
            now: sealgate.clock.now(),
            cookies: cookie::CookieNames::for_issuer(&sealgate.config.issuer),
            recipient,
            host,
            switched: None,
            party: OnceLock::new(),
            ui_locales: OnceLock::new(),
            charged: OnceLock::new(),
        }
    }

    /// Returns whether an open exchange is being authorized again.
    pub fn is_again(&self) -> bool {
        self.head.extensions.get::<Reauthorization>().is_some()
    }

    /// Returns the body, empty if it was not read.
    pub fn body(&self) -> &[u8] {
        if let Body::Read(body) = &self.body { body } else { &[] }
    }

    /// Parses the query parameters.
    ///
    /// # Errors
    /// `invalid_request` if they are malformed.
    pub fn query(&self) -> Result<Params, Refusal> {
        Params::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// Parses the form parameters (RFC 6749 §3.2: the body is `application/x-www-form-urlencoded`).
    ///
    /// # Errors
    /// `invalid_request` if the body has another type or is malformed.
    pub fn form(&self) -> Result<Params, Refusal> {
        if !self.is_labelled("application/x-www-form-urlencoded") {
            return Err(Refusal::invalid_request("The body must be application/x-www-form-urlencoded."));
        }
        Params::parse(self.body())
    }

    /// Parses the query parameters of a GET, or the form parameters of a POST.
    ///
    /// # Errors
    /// `invalid_request` if they are malformed.
    pub fn params(&self) -> Result<Params, Refusal> {
        if self.head.method == Method::POST { self.form() } else { self.query() }
    }

    /// Returns whether `Content-Type` is this media type, ignoring parameters.
    pub fn is_labelled(&self, media_type: &str) -> bool {
        let label = self.head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let bare = label.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        bare.eq_ignore_ascii_case(media_type.as_bytes())
    }

    /// Returns the value of one of Sealgate's cookies.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        cookie::find(&self.head.headers, name)
    }

    /// Returns the session cookie, which may be invalid.
    pub fn session_cookie(&self) -> Option<SessionCookie> {
        self.cookie(self.cookies.session).and_then(SessionCookie::parse)
    }

    /// Returns the level that `[factors]` currently requires of this user's sign-ins.
    ///
    /// The gateway, the console and the account pages call this. A sign-in below the level is valid
    /// only for the user's own account.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn level_in_force(&self, user: &User) -> Result<AssuranceLevel, StoreError> {
        let policy = self.sealgate.config.factors.policy_for(user, self.now);
        if !policy.may_postpone || policy.level == AssuranceLevel::One {
            return Ok(policy.level);
        }
        let factors = self.sealgate.store.factors(user.sub).await?;
        Ok(policy.in_force(factors.is_some_and(|factors| factors.value.has_any())))
    }

    /// Returns the level that `[factors]` requires of the user, if the authentication context class
    /// `acr` does not reach it.
    pub async fn level_above(&self, acr: &str, user: &User) -> Result<Option<AssuranceLevel>, StoreError> {
        let level = self.level_in_force(user).await?;
        let judged = AssuranceRequirement::level(level).judge_reached(AssuranceLevel::parse(acr), || None, self.now);
        Ok(judged.is_err().then_some(level))
    }

    /// Returns the browser's `User-Agent`, truncated for storage.
    pub fn user_agent(&self) -> String {
        // Decode lossily, so that a non-ASCII byte does not hide the device in the list of
        // sessions.
        let bytes = self.head.headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(..MAX_USER_AGENT_LENGTH).unwrap_or(bytes));
        text.chars().take(200).collect()
    }

    /// Returns whether the response is shown as a page.
    ///
    /// An endpoint for programs shows a page to a user who opens its URL. A POST to such an
    /// endpoint always comes from a program.
    pub fn reads_pages(&self) -> bool {
        let opens = matches!(self.head.method, Method::GET | Method::HEAD);
        (opens || self.recipient != Recipient::Programs) && navigation::reads_pages(self.head)
    }

    /// Returns whether errors are pages instead of JSON.
    pub fn speaks_to_people(&self) -> bool {
        match self.recipient {
            Recipient::Programs => false,
            Recipient::People => true,
            Recipient::Sender => self.reads_pages(),
        }
    }

    /// Returns the language of the response.
    ///
    /// The order is: chosen with the switch on this page, requested by the client, chosen earlier,
    /// accepted by the browser, the operator's default.
    pub fn language(&self) -> Language {
        let accepted = self.head.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let asked = self.ui_locales.get().map(String::as_str);
        let chosen = || self.sealgate.pages.language(asked, self.cookie(self.cookies.language), accepted);
        self.switched.unwrap_or_else(chosen)
    }

    /// Creates an audit event of this request. The caller adds the details.
    pub fn event(&self, kind: AuditKind, actor: Actor) -> AuditEvent {
        let event = AuditEvent::new(self.now, kind, actor).from_request(self.origin.address, &self.origin.request_id);
        match event.notice() {
            Some(notice) => event.telling(self.telling(notice, actor)),
            None => event,
        }
    }

    /// Returns the data for a notification about an action in this request.
    ///
    /// The language of the request is used only if the user performed the action.
    pub fn telling(&self, notice: Notice, actor: Actor) -> NoticeContext {
        let RequestOrigin { browser, system, .. } = self.request_origin();
        let language = (actor == Actor::Person).then(|| self.language());
        NoticeContext { notice, language, browser, system }
    }

    /// Returns the origin of the request, for mails.
    pub fn request_origin(&self) -> RequestOrigin {
        let user_agent = self.user_agent();
        RequestOrigin {
            address: self.origin.address,
            browser: device::browser(&user_agent).map(str::to_owned),
            system: device::system(&user_agent).map(str::to_owned),
        }
    }

    /// Returns random bytes.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        clock::random(self.sealgate.entropy.as_ref())
    }
}
