//! Context of a request to the provider or the gateway.

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

/// Maximum number of bytes of `User-Agent` that are read.
const MAX_USER_AGENT_LENGTH: usize = 800;

/// Body of a request, if it was read.
#[derive(Debug)]
pub enum Body {
    /// Not available: the handler decides without the body.
    Away,
    /// Not read yet.
    Unread,
    Read(Bytes),
}

/// Recipient of error responses, which determines their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// Programs: errors are JSON.
    Programs,
    Users,
    /// Programs or users, depending on the request's header fields.
    Sender,
}

/// Properties that differ between pages on the issuer's host and on an application's host.
pub struct PageHost {
    /// Returns the base path of the stylesheet, scripts and logo.
    pub assets: fn(&Config) -> String,
    pub has_script: bool,
    /// Permitted form targets on error pages (CSP Level 3, `form-action`).
    pub form_action: &'static str,
    /// Returns the URL of the requested page in the language with this tag.
    pub in_language: fn(&RequestContext<'_>, &str) -> String,
    /// Returns the URL and the kind of the link on an error page.
    pub error_link: for<'c> fn(&'c RequestContext<'_>, Problem) -> (String, LinkTarget<'c>),
}

/// Application for which the user signs in, as shown on the sign-in pages.
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
    /// Time of arrival. All decisions about the request use it.
    pub now: UnixTime,
    /// Names of Sealgate's cookies.
    pub cookies: cookie::CookieNames,
    pub recipient: Recipient,
    pub host: &'static PageHost,
    /// Language that the user has chosen with the language switch in this request.
    pub switched: Option<Language>,
    /// Application for which the user signs in, if known.
    pub party: OnceLock<ReferringApp>,
    /// Languages that the client requested for the pages (`ui_locales`).
    pub ui_locales: OnceLock<String>,
    /// Rate limit status after the request was charged. The inner value is `None` if no limit
    /// applies.
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

    /// Returns whether this is a repeated authorization of an open exchange, and not a new request.
    pub fn is_again(&self) -> bool {
        self.head.extensions.get::<Reauthorization>().is_some()
    }

    /// Returns the body. It is empty if the body was not read.
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

    /// Parses the form parameters. The body must be `application/x-www-form-urlencoded` (RFC 6749
    /// §3.2).
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

    /// Returns the value of the cookie with this name, one of [`CookieNames`](cookie::CookieNames).
    pub fn cookie(&self, name: &str) -> Option<&str> {
        cookie::find(&self.head.headers, name)
    }

    /// Returns the session cookie. Its session may have ended.
    pub fn session_cookie(&self) -> Option<SessionCookie> {
        self.cookie(self.cookies.session).and_then(SessionCookie::parse)
    }

    /// Returns the assurance level that `[factors]` currently requires of this user's sign-ins.
    ///
    /// The gateway, the console and the account pages use this level. A user whose sign-in is below
    /// the level can use only the account pages that raise the level.
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

    /// Returns the level that `[factors]` requires of the user. Returns `None` if `acr` reaches
    /// that level. `acr` is the authentication context class of a sign-in.
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

    /// Returns whether the response is shown as a page in a browser.
    ///
    /// A user may open an endpoint for programs with GET. A POST to such an endpoint always comes
    /// from a program.
    pub fn reads_pages(&self) -> bool {
        let opens = matches!(self.head.method, Method::GET | Method::HEAD);
        (opens || self.recipient != Recipient::Programs) && navigation::reads_pages(self.head)
    }

    /// Returns whether errors are pages instead of JSON.
    pub fn answers_with_pages(&self) -> bool {
        match self.recipient {
            Recipient::Programs => false,
            Recipient::Users => true,
            Recipient::Sender => self.reads_pages(),
        }
    }

    /// Returns the language of the response: the first of
    ///
    /// - the language chosen with the switch in this request,
    /// - the languages requested by the client (`ui_locales`),
    /// - the language chosen earlier (cookie),
    /// - the languages accepted by the browser,
    /// - the operator's default.
    pub fn language(&self) -> Language {
        let accepted = self.head.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let requested = self.ui_locales.get().map(String::as_str);
        let chosen = || self.sealgate.pages.language(requested, self.cookie(self.cookies.language), accepted);
        self.switched.unwrap_or_else(chosen)
    }

    /// Creates an audit event of this request. The caller adds details.
    pub fn event(&self, kind: AuditKind, actor: Actor) -> AuditEvent {
        let event = AuditEvent::new(self.now, kind, actor).from_request(self.origin.address, &self.origin.request_id);
        match event.notice() {
            Some(notice) => event.notice_context(self.notice_context(notice, actor)),
            None => event,
        }
    }

    /// Returns the context for a notification about an action in this request.
    ///
    /// The context has the language of the request only if the user performed the action.
    pub fn notice_context(&self, notice: Notice, actor: Actor) -> NoticeContext {
        let RequestOrigin { browser, system, .. } = self.request_origin();
        let language = (actor == Actor::User).then(|| self.language());
        NoticeContext { notice, language, browser, system }
    }

    /// Returns the address and the device of the request, for e-mails.
    pub fn request_origin(&self) -> RequestOrigin {
        let user_agent = self.user_agent();
        RequestOrigin {
            address: self.origin.address,
            browser: device::browser(&user_agent).map(str::to_owned),
            system: device::system(&user_agent).map(str::to_owned),
        }
    }

    /// Returns random bytes from the server's source.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        clock::random(self.sealgate.entropy.as_ref())
    }
}
