//! What the pages of the sign-in share: the waiting request that the browser's cookie and the page's address name
//! together, and the token that binds a form to both.

use crate::endpoint::authorize::RESUME;
use crate::endpoint::call::{Bucket, Call};
use crate::endpoint::failure::Failure;
use crate::page::Problem;
use crate::protocol::client::Client;
use crate::protocol::next_step::{Interaction, Progress};
use crate::protocol::params::Params;
use crate::protocol::redirect_uri;
use crate::protocol::secret::{Secret, SecretHash, base64url, constant_time_eq};
use crate::sealgate::OWN_CLIENT;
use crate::store::Loaded;

/// The parameter that names the waiting request. It opens nothing without the browser's cookie.
pub(super) const PARAMETER: &str = "interaction";

/// A waiting request, found.
pub(super) struct Waiting {
    /// Its name in addresses.
    pub(super) id: String,
    /// The record.
    pub(super) loaded: Loaded<Interaction>,
    /// Who asks.
    pub(super) client: Client,
    browser: String,
}

impl Waiting {
    /// The waiting request that this page is about.
    ///
    /// # Errors
    /// A page when there is none in this browser: it was finished in another tab, is too old, or somebody else's.
    pub(super) async fn find(call: &Call<'_>) -> Result<Self, Failure> {
        let nothing = || Failure::page(Problem::NothingToDo);
        let id = call.query()?.one(PARAMETER)?.map(str::to_owned).ok_or_else(nothing)?;
        let browser =
            call.cookie(call.cookies.browser).ok_or_else(|| Failure::page(Problem::CookieMissing))?.to_owned();
        let loaded = call
            .sealgate
            .store
            .interaction(&SecretHash::of(browser.as_bytes()), &SecretHash::of(id.as_bytes()))
            .await?
            .ok_or_else(nothing)?;
        if loaded.value.expires_at <= call.now {
            return Err(finished(call, &loaded.value).await?);
        }
        call.speak(loaded.value.request.ui_locales.as_deref());
        let client = call.sealgate.client(&loaded.value.request.client).await?.filter(Client::is_enabled);
        let client = client.ok_or_else(|| Failure::page(Problem::UnknownClient))?;
        // The client may have withdrawn the URI since, for instance because somebody else has got hold of it.
        if !client.redirects_to(loaded.value.request.return_to.redirect_uri()) {
            return Err(Failure::page(Problem::RedirectUri));
        }
        Ok(Self { id, loaded, client, browser })
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
    pub(super) fn address(&self, call: &Call<'_>, page: &str) -> String {
        address(call, page, &self.id)
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
    pub(super) fn form(&self, call: &Call<'_>, page: &str) -> Result<Params, Failure> {
        let form = call.form()?;
        let sound = form.one("csrf")?.is_some_and(|sent| constant_time_eq(sent, &self.csrf(page)));
        if sound { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// Where the form's answer may send the browser in the end.
    pub(super) fn then(&self) -> Option<String> {
        redirect_uri::form_action(self.interaction().request.return_to.redirect_uri())
    }
}

/// What becomes of a form or a step whose request was finished in another tab or is too old, as far as it is still known:
/// who is signed in goes on with the same request, begun anew; everybody else hears that there is nothing to do.
pub(super) async fn finished(call: &Call<'_>, interaction: &Interaction) -> Result<Failure, Failure> {
    if call.session().await?.is_none() {
        return Ok(Failure::page(Problem::NothingToDo));
    }
    let again = Interaction {
        progress: Progress::default(),
        created_at: call.now,
        expires_at: call.now.plus(call.sealgate.config.sessions.interaction),
        ..interaction.clone()
    };
    call.charge_site(Bucket::of_request(interaction.request.client.as_str()))?;
    let id = Secret::from_random(&call.random::<16>());
    call.sealgate.store.begin_interaction(&id.hash(), &again).await?;
    Ok(Failure::Elsewhere(address(call, RESUME, id.expose())))
}

/// The address of a page for a waiting request.
pub(super) fn address(call: &Call<'_>, page: &str, id: &str) -> String {
    call.path(&format!("/oauth/{page}?{PARAMETER}={id}"))
}
