//! One request on its way through an endpoint: what was sent, who sent it, what it has been charged.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};

use crate::app::state::Sealgate;
use crate::clock;
use crate::config::{Language, RateLimits};
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::client::Client;
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::rate_limit::RateLimit;
use crate::domain::session::{Session, SessionCookie};
use crate::domain::time::UnixTime;
use crate::limiter::{LimitKey, Reading, Rule};
use crate::oauth::credentials;
use crate::oauth::params::Params;
use crate::page::{Chrome, LanguageSwitch, language_from_tag, language_tag};
use crate::provider::Style;
use crate::provider::failure::Failure;
use crate::store::{Loaded, StoreError};
use crate::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use crate::web::cookie;
use crate::web::origin::Origin;

/// How long a browser remembers the language that a person chose, seconds: a year.
const LANGUAGE_REMEMBERED: u64 = 31_536_000;

/// Where a navigation comes from, as the browser says (Fetch Metadata §2.4); no script can set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Of what a browser calls itself, so many bytes are looked at.
const LONGEST_USER_AGENT: usize = 800;

/// The longest form that becomes a query, bytes: well below the smallest limit that proxies have for a request's head.
const LONGEST_QUERY: usize = 8 * 1024;

/// What a request is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// `/oauth/authorize`.
    Authorize,
    /// `/oauth/authorize`, for a sign-in to an application behind the gate or to the provider's own pages.
    SignIns,
    /// `/oauth/token`.
    Token,
    /// `/oauth/userinfo`.
    UserInfo,
    /// Discovery.
    Discovery,
    /// `/oauth/jwks`.
    Jwks,
    /// `/oauth/revoke`.
    Revoke,
    /// `/oauth/logout`.
    Logout,
    /// `/oauth/register`.
    Register,
    /// All else.
    Pages,
}

impl Bucket {
    /// What a client's authorization requests are counted as. Those that the gate begins have an allowance of their own: a
    /// whole office begins them at once, and the gate has counted them already.
    pub(super) fn of_request(client_id: &str) -> Self {
        if client_id.starts_with(INTERNAL_CLIENT) { Self::SignIns } else { Self::Authorize }
    }

    /// The name in metrics and in the limiter's keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorize => "authorize",
            Self::SignIns => "sign_ins",
            Self::Token => "token",
            Self::UserInfo => "userinfo",
            Self::Discovery => "discovery",
            Self::Jwks => "jwks",
            Self::Revoke => "revoke",
            Self::Logout => "logout",
            Self::Register => "register",
            Self::Pages => "pages",
        }
    }

    /// The name in the limiter's keys of IPv6 /48s.
    const fn site_name(self) -> &'static str {
        match self {
            Self::Authorize => "authorize_site",
            Self::SignIns => "sign_ins_site",
            Self::Token => "token_site",
            Self::UserInfo => "userinfo_site",
            Self::Discovery => "discovery_site",
            Self::Jwks => "jwks_site",
            Self::Revoke => "revoke_site",
            Self::Logout => "logout_site",
            Self::Register => "register_site",
            Self::Pages => "pages_site",
        }
    }

    const fn limit(self, limits: &RateLimits) -> RateLimit {
        match self {
            Self::Authorize => limits.authorize,
            Self::SignIns => limits.sign_ins,
            Self::Token => limits.token,
            Self::UserInfo => limits.userinfo,
            Self::Discovery => limits.discovery,
            Self::Jwks => limits.jwks,
            Self::Revoke => limits.revoke,
            Self::Logout => limits.logout,
            Self::Register => limits.register,
            Self::Pages => limits.pages,
        }
    }
}

/// The application that a request is about, as its pages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// What people call it.
    pub name: String,
    /// Its first page.
    pub address: String,
}

/// A request on its way.
pub struct RequestContext<'a> {
    /// The capabilities.
    pub sealgate: &'a Sealgate,
    /// What was sent.
    pub request: &'a Request<Bytes>,
    /// Who sent it.
    pub origin: Origin,
    /// When it came: one instant for all that it decides.
    pub now: UnixTime,
    /// To whom failures speak.
    pub style: Style,
    /// The names of our cookies.
    pub cookies: cookie::Names,
    /// None inside where no limit applies.
    charged: OnceLock<Option<Reading>>,
    party: OnceLock<Party>,
    ui_locales: OnceLock<String>,
}

impl<'a> RequestContext<'a> {
    /// A request that has just come.
    pub fn new(sealgate: &'a Sealgate, request: &'a Request<Bytes>, style: Style) -> Self {
        let origin = request.extensions().get::<Origin>().cloned().unwrap_or_else(Origin::unknown);
        Self {
            sealgate,
            request,
            origin,
            now: sealgate.clock.now(),
            style,
            cookies: cookie::Names::of(&sealgate.config.issuer),
            charged: OnceLock::new(),
            party: OnceLock::new(),
            ui_locales: OnceLock::new(),
        }
    }

    /// Counts the request against its sender's address.
    ///
    /// # Errors
    /// 429 when the allowance is used up.
    pub fn charge_address(&self, bucket: Bucket) -> Result<(), Failure> {
        self.charge(bucket, &LimitKey::address(bucket.name(), self.origin.address))
    }

    /// Counts the request against a key. The charge is what the response's headers show.
    ///
    /// # Errors
    /// 429 when the allowance is used up.
    pub fn charge(&self, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Failure> {
        self.charge_within(self.limit(bucket), bucket, key)
    }

    /// The same where the key has a limit of its own.
    ///
    /// # Errors
    /// 429 when the allowance is used up.
    pub fn charge_within(&self, limit: RateLimit, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Failure> {
        let reading = Rule::of(limit).map(|rule| self.sealgate.limiter.take(key, rule, self.now));
        self.sealgate.metrics.rate_limited(bucket.name(), reading.is_none_or(|reading| reading.allowed));
        // A request is charged once; a second charge would be a fault of the endpoint and changes no header.
        refuse_beyond(*self.charged.get_or_init(|| reading))
    }

    /// How often requests may come that are counted so.
    pub fn limit(&self, bucket: Bucket) -> RateLimit {
        bucket.limit(&self.sealgate.config.rate_limits)
    }

    /// Fails where a key's allowance is used up, and counts nothing.
    ///
    /// # Errors
    /// 429 when the allowance is used up.
    pub fn require_within(&self, limit: RateLimit, bucket: Bucket, key: &LimitKey<'_>) -> Result<(), Failure> {
        let reading = Rule::of(limit).map(|rule| self.sealgate.limiter.peek(key, rule, self.now));
        if reading.is_none_or(|reading| reading.allowed) {
            return Ok(());
        }
        self.sealgate.metrics.rate_limited(bucket.name(), false);
        refuse_beyond(*self.charged.get_or_init(|| reading))
    }

    /// Whether the request has been charged.
    pub fn is_charged(&self) -> bool {
        self.charged.get().is_some()
    }

    /// Counts the request against the sender's IPv6 /48, beyond what its /64 was charged: one subscriber may have all of its
    /// networks. Ten of them may use up their allowance at once; of sign-ins to applications, where the allowance is that
    /// of an office, two.
    ///
    /// # Errors
    /// 429 when the allowance is used up.
    pub fn charge_site(&self, bucket: Bucket) -> Result<(), Failure> {
        let networks = if bucket == Bucket::SignIns { 2 } else { 10 };
        let Some(site) = LimitKey::site(bucket.site_name(), self.origin.address) else { return Ok(()) };
        let Some(rule) = Rule::of(self.limit(bucket)) else { return Ok(()) };
        let rule = Rule { limit: rule.limit.saturating_mul(networks), ..rule };
        let reading = self.sealgate.limiter.take(&site, rule, self.now);
        self.sealgate.metrics.rate_limited(bucket.name(), reading.allowed);
        refuse_beyond(Some(reading))
    }

    /// What the response's rate limit headers show: the charge, or where nothing was charged yet, what is left of the
    /// address's general allowance. `None` where no limit applies: then there is nothing to show.
    pub fn reading(&self) -> Option<Reading> {
        self.charged.get().copied().unwrap_or_else(|| {
            let key = LimitKey::address(Bucket::Pages.name(), self.origin.address);
            Rule::of(self.limit(Bucket::Pages)).map(|rule| self.sealgate.limiter.peek(&key, rule, self.now))
        })
    }

    /// The query's parameters.
    ///
    /// # Errors
    /// `invalid_request` when they cannot be read.
    pub fn query(&self) -> Result<Params, Failure> {
        Ok(Params::parse(self.request.uri().query().unwrap_or_default().as_bytes())?)
    }

    /// The form's parameters (RFC 6749 §3.2: the body is `application/x-www-form-urlencoded`).
    ///
    /// # Errors
    /// `invalid_request` when the body is something else or cannot be read.
    pub fn form(&self) -> Result<Params, Failure> {
        if !self.is_labelled("application/x-www-form-urlencoded") {
            return Err(Refusal::invalid_request("The body is application/x-www-form-urlencoded.").into());
        }
        Ok(Params::parse(self.request.body())?)
    }

    /// Whether the body is said to be of this media type, whatever its parameters.
    pub fn is_labelled(&self, media_type: &str) -> bool {
        let label = self.request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let bare = label.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        bare.eq_ignore_ascii_case(media_type.as_bytes())
    }

    /// The query's parameters of a GET, the form's of a POST.
    ///
    /// # Errors
    /// `invalid_request` when they cannot be read.
    pub fn params(&self) -> Result<Params, Failure> {
        if self.request.method() == Method::POST { self.form() } else { self.query() }
    }

    /// Where a browser comes again with its cookies, when it came without because another site's form sent it here:
    /// `SameSite=Lax` keeps them from a POST across sites, but not from the GET that a 303 makes of it. `None` for
    /// everybody else, and for what does not fit an address; they are answered without a session.
    pub fn again_with_cookies(&self) -> Option<String> {
        let across = self.request.headers().get(FETCH_SITE).is_some_and(|site| site == "cross-site");
        let without = self.cookie(self.cookies.session).is_none();
        let body = self.request.body();
        // What browsers write of a form (URL Standard §5.2).
        let written = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._~+%&=".contains(byte);
        let fits = body.len() <= LONGEST_QUERY && body.iter().all(written);
        if self.request.method() != Method::POST || !across || !without || !fits || self.form().is_err() {
            return None;
        }
        // Every byte is ASCII by now.
        Some(format!("{}?{}", self.request.uri().path(), String::from_utf8_lossy(body)))
    }

    /// Every Authorization header.
    pub fn authorization(&self) -> Vec<&[u8]> {
        self.request.headers().get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes).collect()
    }

    /// The token of the one Authorization header (RFC 6750 §2.1).
    ///
    /// # Errors
    /// A challenge; it explains nothing where nothing was sent that means to be a token (RFC 6750 §3.1).
    pub fn bearer(&self) -> Result<&str, Failure> {
        let malformed = Refusal::new(ErrorCode::InvalidToken, "The token is malformed.");
        let repeated = Refusal::invalid_request("There is more than one Authorization header.");
        match *self.authorization() {
            [] => Err(Failure::Bearer(None)),
            [only] if !credentials::is_bearer(only) => Err(Failure::Bearer(None)),
            [only] => credentials::bearer(only).ok_or(Failure::Bearer(Some(malformed))),
            _ => Err(Failure::Bearer(Some(repeated))),
        }
    }

    /// The value of one of our cookies.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        cookie::find(self.request.headers(), name)
    }

    /// The live session that the browser's cookie opens: the cookie in force. One from before a renewed sign-in gets no
    /// code and sees no page.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn session(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let session = self.sealgate.store.session(cookie.id).await?;
        Ok(session.filter(|session| session.value.accepts(&cookie) && session.value.is_live(self.now)))
    }

    /// The session that may be ended by whoever sent this: with the cookie in force, or the one before it while that is
    /// still good somewhere. A sign-out that was in flight during a renewed sign-in must not leave its session alive.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn session_to_end(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let session = self.sealgate.store.session(cookie.id).await?;
        let theirs = |session: &Session| session.accepts(&cookie) || session.overlapping(&cookie, self.now).is_some();
        Ok(session.filter(|session| theirs(&session.value) && session.value.is_live(self.now)))
    }

    /// The session cookie that came, of whatever worth.
    pub fn session_cookie(&self) -> Option<SessionCookie> {
        self.cookie(self.cookies.session).and_then(SessionCookie::parse)
    }

    /// What the browser calls itself, cut to what is worth keeping.
    pub fn user_agent(&self) -> String {
        // A byte beyond ASCII hides no device from the list of sessions.
        let bytes = self.request.headers().get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(..LONGEST_USER_AGENT).unwrap_or(bytes));
        text.chars().take(200).collect()
    }

    /// Whether a person opens this address in a browser: those name text/html, programs ask for anything.
    pub fn is_opened_by_person(&self) -> bool {
        let names_html = |value: &HeaderValue| memchr::memmem::find(value.as_bytes(), b"text/html").is_some();
        let opens = matches!(*self.request.method(), Method::GET | Method::HEAD);
        opens && self.request.headers().get_all(ACCEPT).iter().any(names_html)
    }

    /// Notes the client that the request is about, so that a page which goes wrong can lead back to it. Our own pages are
    /// none; nor does a page of ours lead to a client that nobody vouches for.
    pub fn concern(&self, client: Option<&Client>) {
        let Some(client) = client.filter(|client| client.id.as_str() != OWN_CLIENT) else { return };
        let vouched = client.id.as_str().starts_with(INTERNAL_CLIENT) || client.is_vouched_for();
        if let Some(address) = client.home().filter(|_| vouched) {
            // The first word stands: a request is about one client.
            let _ = self.party.set(Party { name: client.name.clone(), address });
        }
    }

    /// The application that the request is about, where that is known.
    pub fn party(&self) -> Option<&Party> {
        self.party.get()
    }

    /// Notes the languages that the client asked the pages to speak (`ui_locales`).
    pub fn speak(&self, ui_locales: Option<&str>) {
        if let Some(locales) = ui_locales {
            // The first word stands: a request names its languages once.
            let _ = self.ui_locales.set(locales.to_owned());
        }
    }

    /// The language of the page that answers: chosen with the switch on this very page, asked for by the client, chosen
    /// before, asked for by the browser, or the operator's.
    pub fn language(&self) -> Language {
        let accepted = self.request.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let asked = self.ui_locales.get().map(String::as_str);
        self.switched()
            .unwrap_or_else(|| self.sealgate.pages.language(asked, self.cookie(self.cookies.language), accepted))
    }

    /// The language that the person has just chosen with the switch on a page.
    fn switched(&self) -> Option<Language> {
        self.query().ok()?.one("lang").ok()?.and_then(language_from_tag)
    }

    /// The cookie that remembers a choice which has just been made.
    pub fn chosen_language(&self) -> Option<HeaderValue> {
        let tag = language_tag(self.switched()?);
        Some(cookie::set_for(self.cookies.language, tag, self.cookies.secure, LANGUAGE_REMEMBERED))
    }

    /// A path of the provider, below the issuer's own.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.sealgate.config.issuer.path_prefix())
    }

    /// What frames every page: language, stylesheet, and the same page in the other language.
    pub fn with_chrome<T>(&self, build: impl FnOnce(&Chrome<'_>) -> T) -> T {
        let pages = &self.sealgate.pages;
        let address = |name: &str, version: &str| self.path(&format!("/oauth/{name}?v={version}"));
        let stylesheet = address("style.css", &pages.stylesheet().version);
        let script = address("script.js", &pages.script().version);
        let logo = pages.logo().map(|logo| address("logo", &logo.version));
        let (turkish, english) = (self.in_language("tr"), self.in_language("en"));
        build(&Chrome {
            language: self.language(),
            stylesheet: &stylesheet,
            script: &script,
            logo: logo.as_deref(),
            switch: LanguageSwitch { turkish: &turkish, english: &english },
        })
    }

    /// This very page in another language, by its query alone: a path that begins with two slashes would name another host.
    /// A page that answers a POST cannot be fetched again; its GET form can.
    fn in_language(&self, language: &str) -> String {
        let query = self.request.uri().query().unwrap_or_default();
        let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("lang="));
        let pairs: Vec<&str> = kept.collect();
        let separator = if pairs.is_empty() { "" } else { "&" };
        format!("?{}{separator}lang={language}", pairs.join("&"))
    }

    /// An event of the audit trail in this request, to be told more of.
    pub fn event(&self, kind: AuditKind, actor: Actor) -> AuditEvent {
        AuditEvent::new(self.now, kind, actor).from_request(self.origin.address, &self.origin.request_id)
    }

    /// Fresh random bytes.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        clock::random(self.sealgate.entropy.as_ref())
    }
}

/// Fails where the allowance is used up.
fn refuse_beyond(reading: Option<Reading>) -> Result<(), Failure> {
    match reading {
        Some(reading) if !reading.allowed => Err(Failure::RateLimited(reading.retry_after.unwrap_or(1))),
        _ => Ok(()),
    }
}

/// The status of a refusal at the JSON endpoints (RFC 6749 §5.2; RFC 6750 §3.1).
pub(super) fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal.code {
        ErrorCode::InvalidClient | ErrorCode::InvalidToken => StatusCode::UNAUTHORIZED,
        ErrorCode::InsufficientScope => StatusCode::FORBIDDEN,
        ErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::BAD_REQUEST,
    }
}
