//! Methods of [`RequestContext`] and page settings that only the provider needs.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};

use crate::visitor;
use sealgate_core::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use sealgate_core::web::context::{PageHost, ReferringApp, RequestContext};
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_domain::client::Client;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::credentials;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::constant_time_eq;
use sealgate_domain::session::Session;
use sealgate_edge::navigation;
use sealgate_pages::{LinkTarget, Problem, language_tag};
use sealgate_store::{Loaded, StoreError};

/// Header that names the initiator of a navigation relative to this site (Fetch Metadata §2.4).
/// Scripts cannot set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Maximum length of a form that is converted to a query, in bytes. It is well below the smallest
/// header limit of proxies.
const MAX_QUERY_LENGTH: usize = 8 * 1024;

/// Query parameter: position of a page in a list.
pub(crate) const AFTER: &str = "after";

/// Page settings of the provider.
pub(super) static PAGES: PageHost = PageHost {
    assets: |config| format!("{}/oauth/", config.issuer.path_prefix()),
    has_script: true,
    form_action: "'self'",
    in_language,
    error_link,
};

/// Returns the address of this page in another language.
///
/// The address consists only of a query, because a path that begins with two slashes would name
/// another host. After a POST, the link leads to the GET page.
fn in_language(ctx: &RequestContext<'_>, language: &str) -> String {
    let query = ctx.head.uri.query().unwrap_or_default();
    let other_pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("lang="));
    let pairs: Vec<&str> = other_pairs.collect();
    let separator = if pairs.is_empty() { "" } else { "&" };
    format!("?{}{separator}lang={language}", pairs.join("&"))
}

/// Returns the address and the target of the link on an error page.
fn error_link<'c>(ctx: &'c RequestContext<'_>, problem: Problem) -> (String, LinkTarget<'c>) {
    let waiting_helps = matches!(problem, Problem::TooManyRequests { .. } | Problem::Unavailable | Problem::Internal);
    match (problem, ctx.party.get()) {
        (Problem::Console, _) => {
            (ctx.sign_in_address("/console", &[("prompt", "select_account")]), LinkTarget::AnotherAccount)
        }
        // The empty address is the page's own. A link cannot repeat a POST.
        _ if waiting_helps && ctx.head.method != Method::POST => (String::new(), LinkTarget::Again),
        (_, Some(party)) => (party.address.clone(), LinkTarget::Application(&party.name)),
        // On an unknown host, a relative path would also lead to an unknown host.
        (Problem::UnknownHost, None) => {
            (format!("{}/account", ctx.sealgate.config.issuer.as_str()), LinkTarget::Account)
        }
        (_, None) => (ctx.path("/account"), LinkTarget::Account),
    }
}

/// Methods of [`RequestContext`] that only the provider needs.
pub(crate) trait ProviderRequest {
    /// Returns the address at which the browser should repeat a POST as a GET, to send its cookies.
    ///
    /// Browsers send no `SameSite=Lax` cookies with a form on another site that uses POST, but send
    /// these cookies with the GET after a 303.
    ///
    /// Returns `None` for all other requests, and for forms that do not fit in an address. The
    /// endpoint answers such a form without a session.
    fn again_with_cookies(&self) -> Option<String>;

    /// Returns whether a form has this CSRF token and comes from a page of the issuer.
    ///
    /// # Errors
    /// When the form repeats the token.
    fn is_own_form(&self, form: &Params, csrf: &str) -> Result<bool, Failure>;

    fn authorization(&self) -> Vec<&[u8]>;

    /// Returns the token from the only Authorization header (RFC 6750 §2.1).
    ///
    /// # Errors
    /// A challenge. It has no error code if the request has no bearer token (RFC 6750 §3.1).
    fn bearer(&self) -> Result<&str, Failure>;

    /// Returns the live session of the browser's session cookie. A cookie that was replaced at a
    /// later sign-in is not accepted.
    async fn session(&self) -> Result<Option<Loaded<Session>>, StoreError>;

    /// Returns the live session that this request may end.
    ///
    /// Accepts the current cookie and its direct predecessor. Otherwise a sign-out during a
    /// concurrent sign-in would leave the session alive.
    async fn session_to_end(&self) -> Result<Option<Loaded<Session>>, StoreError>;

    /// Records the client of this request, so that an error page can link to the client's
    /// application.
    ///
    /// Records only clients that an operator created or an administrator approved, and the
    /// applications behind the gateway. Ignores the provider's own pages.
    fn set_referring_app(&self, client: Option<&Client>);

    /// Records the page languages that the client requested (`ui_locales`).
    fn set_ui_locales(&self, ui_locales: Option<&str>);

    /// Returns the position of a page in a list: the parameter [`AFTER`], as a link to the page has it.
    ///
    /// # Errors
    /// An error page if it cannot be read. The first page instead would repeat the list.
    fn cursor<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Failure>;

    /// Prefixes a path of the provider with the issuer's path.
    fn path(&self, path: &str) -> String;

    /// Returns the address that signs the user in and then opens one of the provider's pages.
    ///
    /// `parameters` are further parameters of the authorization request.
    fn sign_in_address(&self, page: &str, parameters: &[(&str, &str)]) -> String;

    /// Returns the cookie that stores the language chosen in this request, if any.
    fn chosen_language(&self) -> Option<HeaderValue>;
}

impl ProviderRequest for RequestContext<'_> {
    fn again_with_cookies(&self) -> Option<String> {
        let across = self.head.headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site");
        let without = self.cookie(self.cookies.session).is_none();
        let body = self.body();
        // Bytes that browsers write when they serialize a form (URL Standard §5.2).
        let written = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._~+%&=".contains(byte);
        let fits = body.len() <= MAX_QUERY_LENGTH && body.iter().all(written);
        if self.head.method != Method::POST || !across || !without || !fits || self.form().is_err() {
            return None;
        }
        // All bytes are ASCII here.
        Some(format!("{}?{}", self.head.uri.path(), String::from_utf8_lossy(body)))
    }

    fn is_own_form(&self, form: &Params, csrf: &str) -> Result<bool, Failure> {
        let issuer = &self.sealgate.config.issuer;
        let own = format!("{}://{}", issuer.scheme(), issuer.authority());
        let has_token = form.one("csrf")?.is_some_and(|token| constant_time_eq(token, csrf));
        Ok(has_token && !navigation::is_cross_origin(&self.head.headers, &own))
    }

    fn authorization(&self) -> Vec<&[u8]> {
        self.head.headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes).collect()
    }

    fn bearer(&self) -> Result<&str, Failure> {
        let malformed = Refusal::new(ErrorCode::InvalidToken, "The token is malformed.");
        let repeated = Refusal::invalid_request("There is more than one Authorization header.");
        match *self.authorization() {
            [] => Err(Failure::Bearer(None)),
            [only] if !credentials::is_bearer(only) => Err(Failure::Bearer(None)),
            [only] => credentials::bearer(only).ok_or(Failure::Bearer(Some(malformed))),
            _ => Err(Failure::Bearer(Some(repeated))),
        }
    }

    async fn session(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let keep = self.sealgate.config.sessions.keep_signed_in;
        let session = self.sealgate.store.session(cookie.id).await?;
        Ok(session.filter(|session| session.value.accepts(&cookie) && session.value.is_live(self.now, keep)))
    }

    async fn session_to_end(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let keep = self.sealgate.config.sessions.keep_signed_in;
        let session = self.sealgate.store.session(cookie.id).await?;
        let theirs = |session: &Session| session.accepts(&cookie) || session.has_replaced(&cookie, self.now);
        Ok(session.filter(|session| theirs(&session.value) && session.value.is_live(self.now, keep)))
    }

    fn set_referring_app(&self, client: Option<&Client>) {
        let Some(client) = client.filter(|client| client.id.as_str() != OWN_CLIENT) else { return };
        let vouched = client.id.as_str().starts_with(INTERNAL_CLIENT) || client.is_vouched_for();
        if let Some(address) = client.home().filter(|_| vouched) {
            // Keep the first value: a request concerns one client.
            let _ = self.party.set(ReferringApp { name: client.name.clone(), address });
        }
    }

    fn set_ui_locales(&self, ui_locales: Option<&str>) {
        if let Some(locales) = ui_locales {
            // Keep the first value: a request has one list of languages.
            let _ = self.ui_locales.set(locales.to_owned());
        }
    }

    fn cursor<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Failure> {
        let query = self.query()?;
        let Some(after) = query.one(AFTER)? else { return Ok(None) };
        parse(after).map(Some).ok_or(Failure::page(Problem::InvalidRequest))
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.sealgate.config.issuer.path_prefix())
    }

    fn sign_in_address(&self, page: &str, parameters: &[(&str, &str)]) -> String {
        let (page, state) = visitor::request_for(page);
        let redirect_uri = format!("{}{page}", self.sealgate.config.issuer.as_str());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("client_id", OWN_CLIENT).append_pair("response_type", "code").append_pair("scope", "openid");
        query.append_pair("redirect_uri", &redirect_uri).extend_pairs(state.iter().map(|state| ("state", state)));
        query.extend_pairs(parameters);
        self.path(&format!("/oauth/authorize?{}", query.finish()))
    }

    fn chosen_language(&self) -> Option<HeaderValue> {
        let tag = language_tag(self.switched?);
        Some(cookie::set_for(self.cookies.language, tag, self.cookies.secure, cookie::LANGUAGE_SECONDS))
    }
}
