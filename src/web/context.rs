//! One request on its way through the provider or the gate: what was sent, who sent it, when.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};

use crate::app::state::Sealgate;
use crate::clock;
use crate::config::{Config, Language};
use crate::domain::assurance::AssuranceLevel;
use crate::domain::audit::{Actor, AuditEvent, AuditKind, Telling};
use crate::domain::error::Refusal;
use crate::domain::mail::{Notice, RequestOrigin};
use crate::domain::session::SessionCookie;
use crate::domain::time::UnixTime;
use crate::domain::user::User;
use crate::limiter::Reading;
use crate::oauth::params::Params;
use crate::page::{Problem, WayTo, device};
use crate::store::StoreError;
use crate::web::cookie;
use crate::web::navigation;
use crate::web::origin::{Again, Origin};

/// Of what a browser calls itself, so many bytes are looked at.
const LONGEST_USER_AGENT: usize = 800;

#[derive(Debug)]
pub(crate) enum Body {
    /// Nobody can read it here.
    Away,
    /// It has not been read.
    Unread,
    Read(Bytes),
}

/// To whom failures speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// To programs, in JSON.
    Programs,
    People,
    /// To whoever sent the request, as it looks.
    Sender,
}

/// What differs between the pages on the issuer's host and those on an application's.
pub(crate) struct PageHost {
    /// The folder of stylesheet, script and logo.
    pub(crate) assets: fn(&Config) -> String,
    pub(crate) has_script: bool,
    /// Where the forms of pages that say what went wrong may go (CSP Level 3, `form-action`).
    pub(crate) form_action: &'static str,
    /// The address of this very page in another language, named by its tag.
    pub(crate) in_language: fn(&RequestContext<'_>, &str) -> String,
    /// Where a page leads that says what went wrong, and what that is.
    pub(crate) way: for<'c> fn(&'c RequestContext<'_>, Problem) -> (String, WayTo<'c>),
}

/// The application that a request is about, as its pages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) name: String,
    /// Its first page.
    pub(crate) address: String,
}

/// A request on its way.
pub(crate) struct RequestContext<'a> {
    pub(crate) sealgate: &'a Sealgate,
    pub(crate) head: &'a Parts,
    pub(crate) body: Body,
    pub(crate) origin: Cow<'a, Origin>,
    /// When it came: one instant for all that it decides.
    pub(crate) now: UnixTime,
    /// The names of our cookies.
    pub(crate) cookies: cookie::CookieNames,
    pub(crate) recipient: Recipient,
    pub(crate) host: &'static PageHost,
    /// The language that the person has just chosen with the switch on a page.
    pub(crate) switched: Option<Language>,
    /// The application that the request is about, where that is known.
    pub(crate) party: OnceLock<Party>,
    /// The languages that the client asked the pages to speak (`ui_locales`).
    pub(crate) ui_locales: OnceLock<String>,
    /// What the request was charged; none inside where no limit applies.
    pub(super) charged: OnceLock<Option<Reading>>,
}

impl<'a> RequestContext<'a> {
    /// A request that has just come.
    pub(crate) fn new(
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
            origin: Origin::of(head),
            now: sealgate.clock.now(),
            cookies: cookie::CookieNames::of(&sealgate.config.issuer),
            recipient,
            host,
            switched: None,
            party: OnceLock::new(),
            ui_locales: OnceLock::new(),
            charged: OnceLock::new(),
        }
    }

    /// Whether it is asked about again, its exchange still open.
    pub(crate) fn is_again(&self) -> bool {
        self.head.extensions.get::<Again>().is_some()
    }

    /// What it carries, as far as it was read.
    pub(crate) fn body(&self) -> &[u8] {
        if let Body::Read(body) = &self.body { body } else { &[] }
    }

    /// The query's parameters.
    ///
    /// # Errors
    /// `invalid_request` when they cannot be read.
    pub(crate) fn query(&self) -> Result<Params, Refusal> {
        Params::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// The form's parameters (RFC 6749 §3.2: the body is `application/x-www-form-urlencoded`).
    ///
    /// # Errors
    /// `invalid_request` when the body is something else or cannot be read.
    pub(crate) fn form(&self) -> Result<Params, Refusal> {
        if !self.is_labelled("application/x-www-form-urlencoded") {
            return Err(Refusal::invalid_request("The body is application/x-www-form-urlencoded."));
        }
        Params::parse(self.body())
    }

    /// The query's parameters of a GET, the form's of a POST.
    ///
    /// # Errors
    /// `invalid_request` when they cannot be read.
    pub(crate) fn params(&self) -> Result<Params, Refusal> {
        if self.head.method == Method::POST { self.form() } else { self.query() }
    }

    /// Whether the body is said to be of this media type, whatever its parameters.
    pub(crate) fn is_labelled(&self, media_type: &str) -> bool {
        let label = self.head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let bare = label.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        bare.eq_ignore_ascii_case(media_type.as_bytes())
    }

    /// The value of one of our cookies.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        cookie::find(&self.head.headers, name)
    }

    /// The session cookie that came, of whatever worth.
    pub(crate) fn session_cookie(&self) -> Option<SessionCookie> {
        self.cookie(self.cookies.session).and_then(SessionCookie::parse)
    }

    /// The level that `[factors]` demands of this user's sign-ins now, wherever they lead to. The gate, the console and the
    /// account pages ask here, so that a sign-in below it is good for the user's own account only.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn level_in_force(&self, user: &User) -> Result<AssuranceLevel, StoreError> {
        let policy = self.sealgate.config.factors.policy_for(user, self.now);
        if !policy.may_postpone || policy.level == AssuranceLevel::One {
            return Ok(policy.level);
        }
        let factors = self.sealgate.store.factors(user.sub).await?;
        Ok(policy.in_force(factors.is_some_and(|factors| factors.value.has_any())))
    }

    /// What the browser calls itself, cut to what is worth keeping.
    pub(crate) fn user_agent(&self) -> String {
        // A byte beyond ASCII hides no device from the list of sessions.
        let bytes = self.head.headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(..LONGEST_USER_AGENT).unwrap_or(bytes));
        text.chars().take(200).collect()
    }

    /// Whether the answer is shown as a page. What only programs use shows one to a user who opens its address; a POST there is
    /// always a program's.
    pub(crate) fn reads_pages(&self) -> bool {
        let opens = matches!(self.head.method, Method::GET | Method::HEAD);
        (opens || self.recipient != Recipient::Programs) && navigation::reads_pages(self.head)
    }

    /// Whether a page says what went wrong, and not JSON.
    pub(crate) fn speaks_to_people(&self) -> bool {
        match self.recipient {
            Recipient::Programs => false,
            Recipient::People => true,
            Recipient::Sender => self.reads_pages(),
        }
    }

    /// The language of the page that answers: chosen with the switch on this very page, asked for by the client, chosen
    /// before, asked for by the browser, or the operator's.
    pub(crate) fn language(&self) -> Language {
        let accepted = self.head.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let asked = self.ui_locales.get().map(String::as_str);
        let chosen = || self.sealgate.pages.language(asked, self.cookie(self.cookies.language), accepted);
        self.switched.unwrap_or_else(chosen)
    }

    /// An event of the audit trail in this request, to be told more of.
    pub(crate) fn event(&self, kind: AuditKind, actor: Actor) -> AuditEvent {
        let event = AuditEvent::new(self.now, kind, actor).from_request(self.origin.address, &self.origin.request_id);
        match event.notice() {
            Some(notice) => event.telling(self.telling(notice, actor)),
            None => event,
        }
    }

    /// How somebody is told of what was done in this request. The language of the request is theirs only if they made it.
    pub(crate) fn telling(&self, notice: Notice, actor: Actor) -> Telling {
        let RequestOrigin { browser, system, .. } = self.request_origin();
        let language = (actor == Actor::Person).then(|| self.language());
        Telling { notice, language, browser, system }
    }

    /// From where the request came, for mails.
    pub(crate) fn request_origin(&self) -> RequestOrigin {
        let user_agent = self.user_agent();
        RequestOrigin {
            address: self.origin.address,
            browser: device::browser(&user_agent).map(str::to_owned),
            system: device::system(&user_agent).map(str::to_owned),
        }
    }

    /// Fresh random bytes.
    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        clock::random(self.sealgate.entropy.as_ref())
    }
}
