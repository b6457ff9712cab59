//! Pages that a mailed link opens. Who reads a mail is not the only one who opens its links: scanners do, with GET and HEAD,
//! before its reader sees it. So nothing is done until a form is sent, by a browser that has opened the link itself. The token
//! moves from the address into a cookie at once, and stands in no history, log or Referer.

use crate::domain::account_links::{AccountLinks, LinkToken};
use crate::domain::secret::{Secret, SecretHash, base64url, constant_time_eq};
use crate::domain::user::User;
use crate::oauth::params::Params;
use crate::page::Problem;
use crate::store::Loaded;
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;
use crate::web::response::Response;

use http::{HeaderValue, Method};

/// How long a browser keeps the token of a link that it has opened, seconds.
const KEPT_SECONDS: u64 = 30 * 60;

/// A page that mailed links open.
pub(super) struct LinkPage {
    /// Goes with the token into the cookie: a token is good on its own page only.
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    /// What somebody reads whose link is none, or none any more.
    pub(super) over: Problem,
}

/// What a request for such a page comes with.
pub(super) enum LinkOpened {
    /// The link: this answer takes the browser to the page.
    Link(Response),
    /// The cookie of a link that was opened before.
    Page(MailedLink),
}

/// A link that this browser has opened. Whether it is good, the person's record says.
pub(super) struct MailedLink {
    pub(super) link: LinkToken,
    token: Secret,
    page: &'static LinkPage,
}

impl LinkPage {
    /// Where the page's form goes.
    pub(super) fn address(&self, ctx: &RequestContext<'_>) -> String {
        ctx.path(self.path)
    }

    /// Reads the link or its cookie.
    ///
    /// # Errors
    /// A page when there is neither, or what there is cannot be a token.
    pub(super) fn open(&'static self, ctx: &RequestContext<'_>) -> Result<LinkOpened, Failure> {
        let over = || Failure::page(self.over);
        let query = ctx.query()?;
        if let Some(token) = query.one("token")?.filter(|_| ctx.head.method != Method::POST) {
            LinkToken::parse(token).ok_or_else(over)?;
            let value = format!("{}.{token}", self.name);
            let kept = cookie::set_for(ctx.cookies.link, &value, ctx.cookies.secure, KEPT_SECONDS);
            return Ok(LinkOpened::Link(Response::see_other(&self.address(ctx)).with_cookie(kept)));
        }
        let (name, token) = ctx.cookie(ctx.cookies.link).and_then(|value| value.split_once('.')).ok_or_else(over)?;
        let link = LinkToken::parse(token).filter(|_| name == self.name).ok_or_else(over)?;
        Ok(LinkOpened::Page(MailedLink { link, token: Secret::new(token), page: self }))
    }
}

impl MailedLink {
    /// The token of the page's form. It names the link, so that a form for one account is not sent for another whose link was
    /// opened in another tab.
    pub(super) fn csrf(&self) -> String {
        let text = Secret::new(format!("csrf link {} {}", self.page.name, self.token.expose()));
        base64url(SecretHash::of(text.expose().as_bytes()).as_bytes())
    }

    /// Reads the page's form.
    ///
    /// # Errors
    /// A page when the form's token is not the one that the page was given.
    pub(super) fn form(&self, ctx: &RequestContext<'_>) -> Result<Params, Failure> {
        let form = ctx.form()?;
        let sound = form.one("csrf")?.is_some_and(|sent| constant_time_eq(sent, &self.csrf()));
        if sound { Ok(form) } else { Err(Failure::page(Problem::ExpiredForm)) }
    }

    /// The account that the link is about, and what was mailed for it. Whether the link is among that, the caller says.
    ///
    /// # Errors
    /// A page when there is none; when the store fails.
    pub(super) async fn account(
        &self,
        ctx: &RequestContext<'_>,
    ) -> Result<(Loaded<User>, Loaded<AccountLinks>), Failure> {
        let (store, subject) = (&ctx.sealgate.store, self.link.subject);
        let user = store.user_record(subject).await?.ok_or_else(|| self.over())?;
        let links = store.account_links(subject).await?.ok_or_else(|| self.over())?;
        Ok((user, links))
    }

    /// The page that says that the link is good no more.
    pub(super) fn over(&self) -> Failure {
        Failure::page(self.page.over)
    }
}

/// The cookie that removes the link's, once it was used.
pub(super) fn used(ctx: &RequestContext<'_>) -> HeaderValue {
    cookie::expire(ctx.cookies.link, ctx.cookies.secure)
}
