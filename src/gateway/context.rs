//! One request on its way through the gate: to which application, from whom, and how to speak to them.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, RETRY_AFTER};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::app::state::Sealgate;
use crate::clock;
use crate::config::{App, Language};
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::time::UnixTime;
use crate::gateway::answer::{Answer, Challenge};
use crate::gateway::navigation;
use crate::gateway::principal::Principal;
use crate::gateway::resource;
use crate::gateway::route::Rule;
use crate::gateway::sign_in::return_path::ReturnPath;
use crate::oauth::params::Params;
use crate::page::{Chrome, ErrorPage, Forbidden, LanguageSwitch, Pages, Problem, Way, WayTo};
use crate::store::StoreError;
use crate::web::cookie;
use crate::web::origin::{Again, Origin};

/// Whose session cookie opens an application. Cookies do not tell ports apart (RFC 6265 §8.5), so an application on the
/// issuer's host name gets the provider's own, and one of its own would overwrite that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sessions {
    /// Its own.
    OfApp,
    /// The provider's.
    OfProvider,
}

/// What a request carries.
#[derive(Debug)]
pub(super) enum Body {
    /// Nobody can read it here.
    Away,
    /// It has not been read.
    Unread,
    /// This.
    Read(Bytes),
}

/// A request to an application.
pub(super) struct RequestContext<'a> {
    /// The capabilities.
    pub sealgate: &'a Sealgate,
    /// What was sent.
    pub head: &'a Parts,
    /// What it carries.
    pub body: Body,
    /// To which application.
    pub app: &'a App,
    /// Whose session opens it.
    pub sessions: Sessions,
    /// Who sent it.
    pub origin: Cow<'a, Origin>,
    /// When it came: one instant for all that it decides.
    pub now: UnixTime,
    /// The names of our cookies.
    pub cookies: cookie::Names,
}

/// Who sent a request: what the edge knows of it.
pub(super) fn origin(head: &Parts) -> Cow<'_, Origin> {
    head.extensions.get::<Origin>().map_or_else(|| Cow::Owned(Origin::unknown()), Cow::Borrowed)
}

impl<'a> RequestContext<'a> {
    /// A request that has just come.
    pub(super) fn new(sealgate: &'a Sealgate, head: &'a Parts, app: &'a App, sessions: Sessions) -> Self {
        let cookies = cookie::Names::of(&sealgate.config.issuer);
        let body = Body::Away;
        Self { sealgate, head, body, app, sessions, origin: origin(head), now: sealgate.clock.now(), cookies }
    }

    /// The same, with what it carries.
    pub(super) fn with_body(self, body: Body) -> Self {
        Self { body, ..self }
    }

    /// Whether it is asked about again, its exchange still open.
    pub(super) fn is_again(&self) -> bool {
        self.head.extensions.get::<Again>().is_some()
    }

    /// The value of one of our cookies.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        cookie::find(&self.head.headers, name)
    }

    /// The query's parameters.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn query(&self) -> Result<Params, Refusal> {
        Params::parse(self.head.uri.query().unwrap_or_default().as_bytes())
    }

    /// Fresh random bytes.
    pub(super) fn random<const N: usize>(&self) -> [u8; N] {
        clock::random(self.sealgate.entropy.as_ref())
    }

    /// A refusal: to a person who opens a page as a page, to a program as JSON.
    pub(super) fn refuse(&self, status: StatusCode, refusal: &Refusal, problem: Problem) -> Answer {
        if navigation::is_navigation(self.head) {
            self.problem(status, problem)
        } else {
            Answer::error(status, refusal)
        }
    }

    /// A page that says what went wrong.
    pub(super) fn problem(&self, status: StatusCode, problem: Problem) -> Answer {
        let account = format!("{}/account", self.sealgate.config.issuer.as_str());
        let path = self.head.uri.path();
        let waiting_helps = matches!(
            problem,
            Problem::TooManyRequests { .. } | Problem::Upstream | Problem::Unavailable | Problem::Internal
        );
        let way = match path {
            // The same address once more, with its query.
            path if waiting_helps && self.head.method == Method::GET && !path.starts_with("/.sealgate/") => {
                Way { address: "", to: WayTo::Again }
            }
            "/" => Way { address: &account, to: WayTo::Account },
            _ => Way { address: "/", to: WayTo::Start },
        };
        let content = ErrorPage { problem, request_id: &self.origin.request_id, way };
        Answer::page(status, self.with_chrome(|chrome| self.sealgate.pages.error(chrome, &content)))
    }

    /// A page whose form goes to the application.
    pub(super) fn page_with_form(&self, render: impl FnOnce(&Pages, &Chrome<'_>) -> String) -> Answer {
        Answer::page_with_form(self.with_chrome(|chrome| render(&self.sealgate.pages, chrome)))
    }

    /// 403 to somebody whom we know: to a person a page that names the account and offers another one.
    pub(super) fn forbidden(&self, who: Principal<'_>) -> Answer {
        if !navigation::is_navigation(self.head) {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "This account may not use this.");
            return Answer::error(StatusCode::FORBIDDEN, &refusal);
        }
        let content = Forbidden {
            app: self.app.called(),
            account: &who.account(),
            switch_account: &own_path("switch-account", &[("then", self.here().as_str())]),
        };
        Answer::page(StatusCode::FORBIDDEN, self.with_chrome(|chrome| self.sealgate.pages.forbidden(chrome, &content)))
    }

    /// 503, or 500 where waiting will not help.
    pub(super) fn failed(&self, error: &StoreError) -> Answer {
        tracing::error!(request_id = self.origin.request_id, app = self.app.name, %error, "the store failed");
        if let StoreError::Broken(_) = error {
            let refusal = Refusal::new(ErrorCode::ServerError, "The service failed.");
            return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &refusal, Problem::Internal);
        }
        self.overloaded()
    }

    /// 503: what is needed is away for the moment.
    pub(super) fn overloaded(&self) -> Answer {
        let refusal = Refusal::new(ErrorCode::TemporarilyUnavailable, "The service is overloaded. Try again later.");
        self.refuse(StatusCode::SERVICE_UNAVAILABLE, &refusal, Problem::Unavailable).with(RETRY_AFTER, "1")
    }

    /// A refusal that tells a program how to be let in. A fault is what was wrong with the credentials that it sent.
    pub(super) fn challenge(&self, rule: Option<&Rule>, fault: Option<&Refusal>) -> Answer {
        let of_rule = |code| rule.filter(|_| fault.is_some_and(|fault| fault.code == code));
        let scopes: Vec<&str> = if fault.is_none() {
            // What to ask the provider for, before there is any token.
            resource::scopes(rule.map_or(self.app.routes.as_slice(), std::slice::from_ref))
        } else {
            let lacking = of_rule(ErrorCode::InsufficientScope);
            lacking.into_iter().flat_map(|rule| &rule.scopes).map(String::as_str).collect()
        };
        let step_up = of_rule(ErrorCode::InsufficientUserAuthentication);
        let challenge = Challenge {
            realm: &self.app.name,
            resource_metadata: &resource::metadata_url(self),
            scopes: &scopes,
            acr: step_up.map_or(&[][..], |rule| &rule.acr),
            max_age: step_up.and_then(|rule| rule.max_age),
        };
        Answer::challenge(&challenge, fault)
    }

    /// In the place of an application that did not answer: a page to whoever reads pages, none of our words to a program.
    pub(super) fn unanswered(&self, status: StatusCode) -> Option<Answer> {
        let problem = match status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Problem::Upstream
            }
            _ => Problem::Internal,
        };
        navigation::reads_pages(self.head).then(|| self.problem(status, problem))
    }

    /// The page that was asked for, or the first one where this is not a page of the application.
    fn here(&self) -> ReturnPath {
        let target = self.head.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
        target.and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home)
    }

    /// The language of a page: chosen before, or asked for by the browser, or the operator's.
    pub(super) fn language(&self) -> Language {
        let accepted = self.head.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        self.sealgate.pages.language(None, self.cookie(self.cookies.language), accepted)
    }

    fn with_chrome<T>(&self, build: impl FnOnce(&Chrome<'_>) -> T) -> T {
        let here = self.here();
        let switched = |tag| own_path("language", &[("lang", tag), ("then", here.as_str())]);
        let pages = &self.sealgate.pages;
        let logo = pages.logo().map(|logo| own_path("logo", &[("v", &logo.version)]));
        build(&Chrome {
            language: self.language(),
            stylesheet: &own_path("style.css", &[("v", &pages.stylesheet().version)]),
            // The gate's pages have no fields, and so no script.
            script: "",
            logo: logo.as_deref(),
            switch: LanguageSwitch { turkish: &switched("tr"), english: &switched("en") },
        })
    }
}

/// The address of one of our own paths on the application's host.
pub(super) fn own_path(name: &str, parameters: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("/.sealgate/{name}?{query}")
}
