//! What the provider reads of its requests, and what its pages are like.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};

use crate::domain::client::Client;
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::session::Session;
use crate::oauth::credentials;
use crate::page::{Problem, WayTo, language_tag};
use crate::provider::own_page;
use crate::store::{Loaded, StoreError};
use crate::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use crate::web::context::{PageHost, Party, RequestContext};
use crate::web::cookie;
use crate::web::failure::Failure;

/// Where a navigation comes from, as the browser says (Fetch Metadata §2.4); no script can set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest form that becomes a query, bytes: well below the smallest limit that proxies have for a request's head.
const LONGEST_QUERY: usize = 8 * 1024;

/// The pages of the provider.
pub(super) static PAGES: PageHost = PageHost {
    assets: |config| format!("{}/oauth/", config.issuer.path_prefix()),
    has_script: true,
    form_action: "'self'",
    in_language,
    way,
};

/// This very page in another language, by its query alone: a path that begins with two slashes would name another host.
/// A page that answers a POST cannot be fetched again; its GET form can.
fn in_language(ctx: &RequestContext<'_>, language: &str) -> String {
    let query = ctx.head.uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("lang="));
    let pairs: Vec<&str> = kept.collect();
    let separator = if pairs.is_empty() { "" } else { "&" };
    format!("?{}{separator}lang={language}", pairs.join("&"))
}

fn way<'c>(ctx: &'c RequestContext<'_>, problem: Problem) -> (String, WayTo<'c>) {
    let waiting_helps = matches!(problem, Problem::TooManyRequests { .. } | Problem::Unavailable | Problem::Internal);
    match (problem, ctx.party.get()) {
        (Problem::Console, _) => {
            (ctx.sign_in_address("/console", &[("prompt", "select_account")]), WayTo::AnotherAccount)
        }
        // The page's own address: what was sent with a POST cannot be asked for again.
        _ if waiting_helps && ctx.head.method != Method::POST => (String::new(), WayTo::Again),
        (_, Some(party)) => (party.address.clone(), WayTo::Application(&party.name)),
        // There the path would be nobody's too.
        (Problem::UnknownHost, None) => (format!("{}/account", ctx.sealgate.config.issuer.as_str()), WayTo::Account),
        (_, None) => (ctx.path("/account"), WayTo::Account),
    }
}

impl RequestContext<'_> {
    /// Where a browser comes again with its cookies, when it came without because another site's form sent it here:
    /// `SameSite=Lax` keeps them from a POST across sites, but not from the GET that a 303 makes of it. `None` for
    /// everybody else, and for what does not fit an address; they are answered without a session.
    pub(super) fn again_with_cookies(&self) -> Option<String> {
        let across = self.head.headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site");
        let without = self.cookie(self.cookies.session).is_none();
        let body = self.body();
        // What browsers write of a form (URL Standard §5.2).
        let written = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._~+%&=".contains(byte);
        let fits = body.len() <= LONGEST_QUERY && body.iter().all(written);
        if self.head.method != Method::POST || !across || !without || !fits || self.form().is_err() {
            return None;
        }
        // Every byte is ASCII by now.
        Some(format!("{}?{}", self.head.uri.path(), String::from_utf8_lossy(body)))
    }

    pub(super) fn authorization(&self) -> Vec<&[u8]> {
        self.head.headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes).collect()
    }

    /// The token of the one Authorization header (RFC 6750 §2.1).
    ///
    /// # Errors
    /// A challenge; it explains nothing where nothing was sent that means to be a token (RFC 6750 §3.1).
    pub(super) fn bearer(&self) -> Result<&str, Failure> {
        let malformed = Refusal::new(ErrorCode::InvalidToken, "The token is malformed.");
        let repeated = Refusal::invalid_request("There is more than one Authorization header.");
        match *self.authorization() {
            [] => Err(Failure::Bearer(None)),
            [only] if !credentials::is_bearer(only) => Err(Failure::Bearer(None)),
            [only] => credentials::bearer(only).ok_or(Failure::Bearer(Some(malformed))),
            _ => Err(Failure::Bearer(Some(repeated))),
        }
    }

    /// The live session that the browser's cookie opens: the cookie in force. One from before a renewed sign-in gets no
    /// code and sees no page.
    pub(super) async fn session(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let session = self.sealgate.store.session(cookie.id).await?;
        Ok(session.filter(|session| session.value.accepts(&cookie) && session.value.is_live(self.now)))
    }

    /// The session that may be ended by whoever sent this: with the cookie in force, or the one that it has just
    /// replaced. A sign-out that was in flight during a renewed sign-in must not leave its session alive.
    pub(super) async fn session_to_end(&self) -> Result<Option<Loaded<Session>>, StoreError> {
        let Some(cookie) = self.session_cookie() else { return Ok(None) };
        let session = self.sealgate.store.session(cookie.id).await?;
        let theirs = |session: &Session| session.accepts(&cookie) || session.has_replaced(&cookie, self.now);
        Ok(session.filter(|session| theirs(&session.value) && session.value.is_live(self.now)))
    }

    /// Notes the client that the request is about, so that a page which goes wrong can lead back to it. Our own pages are
    /// none; nor does a page of ours lead to a client that nobody vouches for.
    pub(super) fn concern(&self, client: Option<&Client>) {
        let Some(client) = client.filter(|client| client.id.as_str() != OWN_CLIENT) else { return };
        let vouched = client.id.as_str().starts_with(INTERNAL_CLIENT) || client.is_vouched_for();
        if let Some(address) = client.home().filter(|_| vouched) {
            // The first word stands: a request is about one client.
            let _ = self.party.set(Party { name: client.name.clone(), address });
        }
    }

    /// Notes the languages that the client asked the pages to speak (`ui_locales`).
    pub(super) fn speak(&self, ui_locales: Option<&str>) {
        if let Some(locales) = ui_locales {
            // The first word stands: a request names its languages once.
            let _ = self.ui_locales.set(locales.to_owned());
        }
    }

    /// A path of the provider, below the issuer's own.
    pub(super) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.sealgate.config.issuer.path_prefix())
    }

    /// The address that signs somebody in and comes back to one of our pages.
    pub(super) fn sign_in_address(&self, page: &str, wishes: &[(&str, &str)]) -> String {
        let (page, state) = own_page::request_for(page);
        let redirect_uri = format!("{}{page}", self.sealgate.config.issuer.as_str());
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("client_id", OWN_CLIENT).append_pair("response_type", "code").append_pair("scope", "openid");
        query.append_pair("redirect_uri", &redirect_uri).extend_pairs(state.map(|state| ("state", state)));
        query.extend_pairs(wishes);
        self.path(&format!("/oauth/authorize?{}", query.finish()))
    }

    /// The cookie that remembers a choice of language which has just been made.
    pub(super) fn chosen_language(&self) -> Option<HeaderValue> {
        let tag = language_tag(self.switched?);
        Some(cookie::set_for(self.cookies.language, tag, self.cookies.secure, cookie::LANGUAGE_SECONDS))
    }
}
