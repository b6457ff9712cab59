//! Pending requests of sign-ins, which all pages of a sign-in share.
//!
//! The browser cookie and the page's address together identify a pending request. The CSRF token
//! binds a form to both.
//!
//! A browser that has lost the response to a form may send the form again, after the pending
//! request was completed. A cookie therefore contains the last authorization request, which can
//! then start again. If the user has a session, the repeated request completes without a page, and
//! the client receives a second code, as if the browser had opened the authorization request twice.

use http::{HeaderValue, Method};

use crate::request::ProviderRequest as _;
use crate::sign_in::passkey;
use sealgate_core::tokens::clients::{CALLBACK, INTERNAL_CLIENT, OWN_CLIENT};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::factors::FactorOrigin;
use sealgate_domain::oauth::next_step::{Interaction, Progress};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::redirect_uri;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::source::SourceName;
use sealgate_domain::upstream_trip::TripSecrets;
use sealgate_pages::Problem;
use sealgate_store::Loaded;

/// Name of the page that decides the next step. The other pages of a sign-in return to it.
pub(crate) const RESUME: &str = "resume";

/// Query parameter with the id of the pending request and, after a dot, its client.
///
/// The client id lets an error page link to the application if the request no longer exists. The id
/// of the request is useless without the browser cookie.
pub(crate) const PARAMETER: &str = "interaction";

/// Splits the parameter into request id and client id.
pub(crate) fn split_parameter(parameter: &str) -> (&str, Option<ClientId>) {
    match parameter.split_once('.') {
        Some((id, client)) => (id, ClientId::parse(client)),
        None => (parameter, None),
    }
}

/// Pending request to which a page of a sign-in belongs.
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) loaded: Loaded<Interaction>,
    pub(crate) client: Client,
    browser: String,
}

impl Waiting {
    /// Returns the pending request of this page. An expired request starts again.
    ///
    /// # Errors
    /// An error page if this browser has no such request. The request may have finished in another
    /// tab, or belong to another browser.
    pub(crate) async fn find(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let waiting = Self::find_at_any_time(ctx).await?;
        if waiting.is_late(ctx) { Err(begin_anew(ctx, waiting.interaction()).await?) } else { Ok(waiting) }
    }

    /// Like [`Waiting::find`], but also returns a request that has expired and is still stored.
    ///
    /// # Errors
    /// As [`Waiting::find`].
    pub(crate) async fn find_at_any_time(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let query = ctx.query()?;
        let parameter = query.one(PARAMETER)?.ok_or_else(|| Failure::page(Problem::NothingToDo))?;
        if let Some(waiting) = Self::find_named(ctx, parameter).await? {
            return Ok(waiting);
        }
        let (id, client) = split_parameter(parameter);
        Err(over(ctx, id, client.as_ref()).await?)
    }

    /// Returns this browser's request with this value of the parameter `interaction`. Returns `None`
    /// if there is no such request. The request may have expired.
    ///
    /// # Errors
    /// An error page if the browser has no cookie, or if the client no longer exists.
    pub(crate) async fn find_named(ctx: &RequestContext<'_>, parameter: &str) -> Result<Option<Self>, Failure> {
        let (id, client) = split_parameter(parameter);
        if let Some(client) = &client {
            ctx.set_referring_app(ctx.sealgate.client(client).await?.as_ref().filter(|client| client.is_enabled()));
        }
        let browser = ctx.cookie(ctx.cookies.browser).ok_or_else(|| Failure::page(Problem::CookieMissing))?.to_owned();
        let loaded = ctx
            .sealgate
            .store
            .interaction(&SecretHash::for_secret(browser.as_bytes()), &SecretHash::for_secret(id.as_bytes()))
            .await?;
        let Some(loaded) = loaded else { return Ok(None) };
        ctx.set_ui_locales(loaded.value.request.ui_locales.as_deref());
        let client = ctx.sealgate.client(&loaded.value.request.client).await?.filter(Client::is_enabled);
        let client = client.ok_or_else(|| Failure::page(Problem::UnknownClient))?;
        // The client may have removed the URI in the meantime, for instance because an attacker
        // controls it.
        if !client.redirects_to(loaded.value.request.return_to.redirect_uri()) {
            return Err(Failure::page(Problem::RedirectUri));
        }
        Ok(Some(Self { id: id.to_owned(), loaded, client, browser }))
    }

    /// Returns whether the request has expired.
    pub(crate) fn is_late(&self, ctx: &RequestContext<'_>) -> bool {
        self.loaded.value.expires_at <= ctx.now
    }

    /// Returns the pending request. If it has expired, replaces it with a copy that has a new id
    /// and a full lifetime.
    pub(crate) async fn in_time(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        if !self.is_late(ctx) {
            return Ok(self);
        }
        let id = anew(ctx, self.interaction()).await?;
        let stored =
            ctx.sealgate.store.interaction(&SecretHash::for_secret(self.browser.as_bytes()), &id.hash()).await?;
        let loaded = stored.ok_or_else(|| Failure::page(Problem::NothingToDo))?;
        // On a conflict, another tab has just continued the request.
        let _ = ctx.sealgate.store.drop_interaction(&self.loaded).await?;
        Ok(Self { id: id.expose().to_owned(), loaded, ..self })
    }

    /// Reads the pending request from the store again, because the current HTTP request may have
    /// changed it.
    ///
    /// # Errors
    /// As [`Waiting::find`].
    pub(crate) async fn read_again(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let (browser, id) =
            (SecretHash::for_secret(self.browser.as_bytes()), SecretHash::for_secret(self.id.as_bytes()));
        match ctx.sealgate.store.interaction(&browser, &id).await? {
            Some(loaded) => Ok(Self { loaded, ..self }),
            None => Err(finished(ctx, self.interaction()).await?),
        }
    }

    /// Returns the origin of factor enrolments in this sign-in.
    pub(crate) fn origin(&self) -> FactorOrigin {
        FactorOrigin::from_text(&format!("sign-in {}", self.id))
    }

    /// Returns the request and its progress.
    pub(crate) fn interaction(&self) -> &Interaction {
        &self.loaded.value
    }

    /// Returns the client's display name, or `None` for the provider's own pages.
    pub(crate) fn client_name(&self) -> Option<&str> {
        (self.client.id.as_str() != OWN_CLIENT).then_some(self.client.name.as_str())
    }

    /// Returns the address of a page for this request.
    pub(crate) fn address(&self, ctx: &RequestContext<'_>, page: &str) -> String {
        address(ctx, page, &self.id, &self.client.id)
    }

    /// Returns the value of the parameter `interaction`.
    pub(crate) fn parameter(&self) -> String {
        format!("{}.{}", self.id, self.client.id)
    }

    /// Returns the secrets of a trip to an OpenID provider.
    pub(crate) fn trip_secrets(&self, source: &SourceName, state: &str) -> TripSecrets {
        TripSecrets::derive(source, state, &self.browser)
    }

    /// Returns the CSRF token of the page's form. The token is derived from the browser cookie,
    /// which no other site can read. It is different for each pending request and page.
    pub(crate) fn csrf(&self, page: &str) -> String {
        base64url(SecretHash::for_secret(format!("csrf {page} {} {}", self.id, self.browser).as_bytes()).as_bytes())
    }

    /// Reads the page's form.
    ///
    /// # Errors
    /// An error page if the CSRF token is wrong.
    pub(crate) fn form(&self, ctx: &RequestContext<'_>, page: &str) -> Result<Params, Failure> {
        let form = ctx.form()?;
        if ctx.is_own_form(&form, &self.csrf(page))? { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// Returns the sources for the `form-action` directive of the CSP, because the form's response
    /// may redirect to the client.
    pub(crate) fn then(&self) -> Option<String> {
        redirect_uri::form_action(self.interaction().request.return_to.redirect_uri())
    }
}

/// Returns the response to a form or step whose request was finished in another tab.
///
/// With a session, the same request starts again. Without a session, a page reports that there is
/// nothing to do.
pub(crate) async fn finished(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Failure, Failure> {
    if ctx.session().await?.is_none() {
        return Ok(Failure::page(Problem::NothingToDo));
    }
    begin_anew(ctx, interaction).await
}

/// Starts the same request again. Returns the redirect to it.
async fn begin_anew(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Failure, Failure> {
    let id = anew(ctx, interaction).await?;
    Ok(Failure::Redirect(address(ctx, RESUME, id.expose(), &interaction.request.client)))
}

async fn anew(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Secret, Failure> {
    let again = Interaction {
        progress: Progress::default(),
        challenge: Some(passkey::new_challenge(ctx)),
        upstream: None,
        created_at: ctx.now,
        expires_at: ctx.now.plus(ctx.sealgate.config.sessions.interaction),
        ..interaction.clone()
    };
    ctx.charge_site(Bucket::of_request(interaction.request.client.as_str())).await?;
    let id = Secret::from_random(&ctx.random::<16>());
    ctx.sealgate.store.begin_interaction(&id.hash(), &again).await?;
    Ok(id)
}

/// Returns the response for a page or form whose request `id` no longer exists.
///
/// Without a session, a page reports that there is nothing to do. With a session, the first of
/// these cases applies:
///
/// - A form of the browser's last request starts that request again, because the browser may have
///   discarded the first response.
/// - For the provider's own pages, the response redirects to the account page.
/// - For an application behind the gateway, the response redirects to the application's callback,
///   which opens the page of the last sign-in.
/// - Otherwise a page links to the client. The request does not start again: the client has
///   received its response, and many clients refuse a second response.
async fn over(ctx: &RequestContext<'_>, id: &str, client: Option<&ClientId>) -> Result<Failure, Failure> {
    if ctx.session().await?.is_none() {
        return Ok(Failure::page(Problem::NothingToDo));
    }
    if ctx.head.method == Method::POST
        && let Some(address) = last_request_address(ctx, id)
    {
        return Ok(Failure::Redirect(address));
    }
    let client = client.map(ClientId::as_str).unwrap_or_default();
    if client == OWN_CLIENT {
        return Ok(Failure::Redirect(ctx.path("/account")));
    }
    match ctx.party.get().filter(|_| client.starts_with(INTERNAL_CLIENT)) {
        Some(app) => Ok(Failure::Redirect(format!("{}{CALLBACK}", app.address.trim_end_matches('/')))),
        None => Ok(Failure::page(Problem::SignedInAlready)),
    }
}

/// Returns the address of a page for a pending request.
pub(crate) fn address(ctx: &RequestContext<'_>, page: &str, id: &str, client: &ClientId) -> String {
    ctx.path(&format!("/oauth/{page}?{PARAMETER}={id}.{client}"))
}

/// Returns the cookie with a completed authorization request.
///
/// Returns `None` in these cases:
///
/// - The request is too long, or began with an enrolment link.
/// - The request names its user by an ID token. The ID token is not stored.
/// - The client is the gateway, which has its own cookie with the page that the user requested.
pub(crate) fn last_request_cookie(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<HeaderValue> {
    let (id, interaction) = (waiting.client.id.as_str(), waiting.interaction());
    let is_of_gateway = id.starts_with(INTERNAL_CLIENT) && id != OWN_CLIENT;
    if is_of_gateway || interaction.expected.is_some() || interaction.enrolment.is_some() {
        return None;
    }
    let value = cookie::destination_value(&waiting.id, &interaction.request.to_query())?;
    Some(cookie::set_for(ctx.cookies.last, &value, ctx.cookies.secure, cookie::DESTINATION_SECONDS))
}

/// Returns the address that starts the last request of this browser again, if that request had this
/// id.
///
/// The request is validated like any other.
pub(crate) fn last_request_address(ctx: &RequestContext<'_>, id: &str) -> Option<String> {
    let query = cookie::read_destination(ctx.cookie(ctx.cookies.last), Some(id))?;
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._+%&=".contains(&byte);
    query.bytes().all(is_encoded).then(|| ctx.path(&format!("/oauth/authorize?{query}")))
}
