//! What the pages of the sign-in share: the waiting request that the browser's cookie and the page's address name
//! together, and the token that binds a form to both.

use crate::domain::client::{Client, ClientId};
use crate::domain::redirect_uri;
use crate::domain::secret::{Secret, SecretHash, base64url, constant_time_eq};
use crate::factors::FactorOrigin;
use crate::oauth::next_step::{Interaction, Progress};
use crate::oauth::params::Params;
use crate::page::Problem;
use crate::provider::ceremony;
use crate::store::Loaded;
use crate::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::limits::Bucket;

/// Where the pages come back to.
pub(super) const RESUME: &str = "resume";

/// The parameter that names the waiting request and, behind a dot, its client: where the request is gone, the page still
/// knows which application it was about. It opens nothing without the browser's cookie.
pub(super) const PARAMETER: &str = "interaction";

/// The two parts of the parameter.
pub(super) fn named(parameter: &str) -> (&str, Option<ClientId>) {
    match parameter.split_once('.') {
        Some((id, client)) => (id, ClientId::parse(client)),
        None => (parameter, None),
    }
}

pub(super) struct Waiting {
    pub(super) id: String,
    pub(super) loaded: Loaded<Interaction>,
    pub(super) client: Client,
    browser: String,
}

impl Waiting {
    /// The waiting request that this page is about.
    ///
    /// # Errors
    /// A page when there is none in this browser: it was finished in another tab, or is somebody else's. One that is past
    /// its time begins anew.
    pub(super) async fn find(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let waiting = Self::find_at_any_time(ctx).await?;
        if waiting.is_late(ctx) { Err(begin_anew(ctx, waiting.interaction()).await?) } else { Ok(waiting) }
    }

    /// The same, past its time too, as long as it is kept.
    ///
    /// # Errors
    /// As [`Waiting::find`].
    pub(super) async fn find_at_any_time(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let query = ctx.query()?;
        let (id, client) = named(query.one(PARAMETER)?.ok_or_else(|| Failure::page(Problem::NothingToDo))?);
        if let Some(client) = &client {
            ctx.concern(ctx.sealgate.client(client).await?.as_ref().filter(|client| client.is_enabled()));
        }
        let browser = ctx.cookie(ctx.cookies.browser).ok_or_else(|| Failure::page(Problem::CookieMissing))?.to_owned();
        let found =
            ctx.sealgate.store.interaction(&SecretHash::of(browser.as_bytes()), &SecretHash::of(id.as_bytes())).await?;
        let Some(loaded) = found else { return Err(over(ctx, client.as_ref()).await?) };
        ctx.speak(loaded.value.request.ui_locales.as_deref());
        let client = ctx.sealgate.client(&loaded.value.request.client).await?.filter(Client::is_enabled);
        let client = client.ok_or_else(|| Failure::page(Problem::UnknownClient))?;
        // The client may have withdrawn the URI since, for instance because somebody else has got hold of it.
        if !client.redirects_to(loaded.value.request.return_to.redirect_uri()) {
            return Err(Failure::page(Problem::RedirectUri));
        }
        Ok(Self { id: id.to_owned(), loaded, client, browser })
    }

    fn is_late(&self, ctx: &RequestContext<'_>) -> bool {
        self.loaded.value.expires_at <= ctx.now
    }

    /// The same request under a new name and with all of its time, where this one is past its own.
    pub(super) async fn in_time(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        if !self.is_late(ctx) {
            return Ok(self);
        }
        let id = anew(ctx, self.interaction()).await?;
        let found = ctx.sealgate.store.interaction(&SecretHash::of(self.browser.as_bytes()), &id.hash()).await?;
        let loaded = found.ok_or_else(|| Failure::page(Problem::NothingToDo))?;
        // A conflict means that another tab has just gone on with it.
        let _ = ctx.sealgate.store.drop_interaction(&self.loaded).await?;
        Ok(Self { id: id.expose().to_owned(), loaded, ..self })
    }

    /// The same as it is kept now: what was done for it may have changed in this very request.
    ///
    /// # Errors
    /// As [`Waiting::find`].
    pub(super) async fn read_again(self, ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let (browser, id) = (SecretHash::of(self.browser.as_bytes()), SecretHash::of(self.id.as_bytes()));
        match ctx.sealgate.store.interaction(&browser, &id).await? {
            Some(loaded) => Ok(Self { loaded, ..self }),
            None => Err(finished(ctx, self.interaction()).await?),
        }
    }

    /// Where an enrolment in this sign-in is begun and finished.
    pub(super) fn origin(&self) -> FactorOrigin {
        FactorOrigin::of(&format!("sign-in {}", self.id))
    }

    /// What was asked and done.
    pub(super) fn interaction(&self) -> &Interaction {
        &self.loaded.value
    }

    /// What the pages call the client; nothing where it is our own pages that ask.
    pub(super) fn client_name(&self) -> Option<&str> {
        (self.client.id.as_str() != OWN_CLIENT).then_some(self.client.name.as_str())
    }

    /// The address of one of the pages for this request.
    pub(super) fn address(&self, ctx: &RequestContext<'_>, page: &str) -> String {
        address(ctx, page, &self.id, &self.client.id)
    }

    /// The token of the page's form. Derived from the browser's cookie, which no other site can read, and different for
    /// each request and page.
    pub(super) fn csrf(&self, page: &str) -> String {
        base64url(SecretHash::of(format!("csrf {page} {} {}", self.id, self.browser).as_bytes()).as_bytes())
    }

    /// Reads the page's form.
    ///
    /// # Errors
    /// A page when the form's token is not the one that the page was given.
    pub(super) fn form(&self, ctx: &RequestContext<'_>, page: &str) -> Result<Params, Failure> {
        let form = ctx.form()?;
        let sound = form.one("csrf")?.is_some_and(|sent| constant_time_eq(sent, &self.csrf(page)));
        if sound { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// Where the form's answer may send the browser in the end.
    pub(super) fn then(&self) -> Option<String> {
        redirect_uri::form_action(self.interaction().request.return_to.redirect_uri())
    }
}

/// What becomes of a form or a step whose request was finished in another tab, as far as it is still known: who is signed
/// in goes on with the same request, begun anew; everybody else hears that there is nothing to do.
pub(super) async fn finished(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Failure, Failure> {
    if ctx.session().await?.is_none() {
        return Ok(Failure::page(Problem::NothingToDo));
    }
    begin_anew(ctx, interaction).await
}

/// The way to the same request, begun anew.
async fn begin_anew(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Failure, Failure> {
    let id = anew(ctx, interaction).await?;
    Ok(Failure::Elsewhere(address(ctx, RESUME, id.expose(), &interaction.request.client)))
}

async fn anew(ctx: &RequestContext<'_>, interaction: &Interaction) -> Result<Secret, Failure> {
    let again = Interaction {
        progress: Progress::default(),
        challenge: Some(ceremony::fresh(ctx)),
        created_at: ctx.now,
        expires_at: ctx.now.plus(ctx.sealgate.config.sessions.interaction),
        ..interaction.clone()
    };
    ctx.charge_site(Bucket::of_request(interaction.request.client.as_str())).await?;
    let id = Secret::from_random(&ctx.random::<16>());
    ctx.sealgate.store.begin_interaction(&id.hash(), &again).await?;
    Ok(id)
}

/// Where a browser goes that comes back to a page whose request is not there any more, with Back for instance. Whoever is
/// signed in goes on to the application behind the gate, or to our own pages. Another client has had its answer and has
/// forgotten what it asked: its person is shown the way to it.
async fn over(ctx: &RequestContext<'_>, client: Option<&ClientId>) -> Result<Failure, Failure> {
    if ctx.session().await?.is_none() {
        return Ok(Failure::page(Problem::NothingToDo));
    }
    let id = client.map(ClientId::as_str).unwrap_or_default();
    if id == OWN_CLIENT {
        return Ok(Failure::Elsewhere(ctx.path("/account")));
    }
    match ctx.party.get().filter(|_| id.starts_with(INTERNAL_CLIENT)) {
        Some(app) => Ok(Failure::Elsewhere(app.address.clone())),
        None => Ok(Failure::page(Problem::SignedInAlready)),
    }
}

/// The address of one of the pages for a waiting request.
pub(super) fn address(ctx: &RequestContext<'_>, page: &str, id: &str, client: &ClientId) -> String {
    ctx.path(&format!("/oauth/{page}?{PARAMETER}={id}.{client}"))
}
