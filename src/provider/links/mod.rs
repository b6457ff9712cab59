//! Pages that a mailed link or code opens.
//!
//! Mail scanners may open such a link with GET or HEAD before the user does. Opening a link
//! therefore changes nothing. The link takes effect when the browser that opened it sends a form.
//! The token moves from the address into a cookie at once, so that the token does not appear in
//! history, logs or the `Referer` header.

pub(crate) mod create_account;
pub(crate) mod invitation;
pub(crate) mod mailing;
pub(crate) mod new_account;
pub(crate) mod reset;
pub(crate) mod undo;

use http::{HeaderValue, Method};
use secrecy::SecretString;

use crate::request::ProviderRequest as _;
use sealgate_core::password::{PasswordError, QueueKey};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::{AccountLinks, LinkToken};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::password_rules::Owner;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::user::{PasswordHash, User};
use sealgate_pages::{NewPasswordProblem, Problem};
use sealgate_store::Loaded;

/// Lifetime of the cookie with the token of an opened link, in seconds.
const LINK_COOKIE_SECONDS: u64 = 30 * 60;

/// Page that mailed links open.
pub(super) struct LinkPage {
    /// Name of the page. The cookie contains it, because a token is only valid on its own page.
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    /// Error page for an invalid or used link.
    pub(super) over: Problem,
}

/// Result of [`LinkPage::open`].
pub(super) enum LinkOpened {
    /// The user opened the link. The response sets the cookie and redirects to the page.
    Link(Response),
    /// The request has the cookie of a link that was opened before.
    Page(MailedLink),
}

/// Link that this browser has opened. Only the account's record shows whether the link is valid.
pub(super) struct MailedLink {
    pub(super) link: LinkToken,
    token: Secret,
    page: &'static LinkPage,
}

impl LinkPage {
    /// Returns the address of the page and of its form.
    pub(super) fn address(&self, ctx: &RequestContext<'_>) -> String {
        ctx.path(self.path)
    }

    /// Reads the link or its cookie.
    ///
    /// # Errors
    /// An error page if the request has neither a link nor a cookie, or if the token is malformed.
    pub(super) fn open(&'static self, ctx: &RequestContext<'_>) -> Result<LinkOpened, Failure> {
        let over = || Failure::page(self.over);
        let query = ctx.query()?;
        if let Some(token) = query.one("token")?.filter(|_| ctx.head.method != Method::POST) {
            LinkToken::parse(token).ok_or_else(over)?;
            let value = format!("{}.{token}", self.name);
            let cookie = cookie::set_for(ctx.cookies.link, &value, ctx.cookies.secure, LINK_COOKIE_SECONDS);
            return Ok(LinkOpened::Link(Response::see_other(&self.address(ctx)).with_cookie(cookie)));
        }
        let (name, token) = ctx.cookie(ctx.cookies.link).and_then(|value| value.split_once('.')).ok_or_else(over)?;
        let link = LinkToken::parse(token).filter(|_| name == self.name).ok_or_else(over)?;
        Ok(LinkOpened::Page(MailedLink { link, token: Secret::new(token), page: self }))
    }
}

impl MailedLink {
    /// Returns the CSRF token of the page's form. It depends on the opened link. If the user opens
    /// another account's link in a second tab, the form in the first tab is therefore rejected.
    pub(super) fn csrf(&self) -> String {
        let text = Secret::new(format!("csrf link {} {}", self.page.name, self.token.expose()));
        base64url(SecretHash::for_secret(text.expose().as_bytes()).as_bytes())
    }

    /// Reads the page's form.
    ///
    /// # Errors
    /// An error page if the CSRF token is wrong.
    pub(super) fn form(&self, ctx: &RequestContext<'_>) -> Result<Params, Failure> {
        let form = ctx.form()?;
        if ctx.is_own_form(&form, &self.csrf())? { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// Returns the account of the link, and the links that the store has for the account. The
    /// caller must check that this link is one of them.
    ///
    /// # Errors
    /// An error page if there is no such account; when the store fails.
    pub(super) async fn account(
        &self,
        ctx: &RequestContext<'_>,
    ) -> Result<(Loaded<User>, Loaded<AccountLinks>), Failure> {
        let (store, subject) = (&ctx.sealgate.store, self.link.subject);
        let user = store.user_record(subject).await?.ok_or_else(|| self.over())?;
        let links = store.account_links(subject).await?.ok_or_else(|| self.over())?;
        Ok((user, links))
    }

    /// Returns the error page for an invalid link.
    pub(super) fn over(&self) -> Failure {
        Failure::page(self.page.over)
    }
}

/// Returns the cookie that removes the link's cookie after use.
pub(super) fn expired_link_cookie(ctx: &RequestContext<'_>) -> HeaderValue {
    cookie::expire(ctx.cookies.link, ctx.cookies.secure)
}

/// Hashes the typed password if the password policy accepts it for this user.
pub(super) async fn hash_new_password(
    ctx: &RequestContext<'_>,
    typed: &str,
    owner: &Owner<'_>,
) -> Result<PasswordHash, NewPasswordProblem> {
    let new = Secret::new(typed);
    let busy = |error: PasswordError| {
        error.log("cannot hash a new password");
        NewPasswordProblem::Busy
    };
    let passwords = &ctx.sealgate.passwords;
    let judged = passwords.check(QueueKey::for_address(ctx.origin.address), &new, owner).await.map_err(busy)?;
    judged.map_err(NewPasswordProblem::Fault)?;
    passwords.hash(SecretString::from(new.expose()), ctx.random()).await.map_err(busy)
}
