//! Open accesses of a user: the rows of the table on a page, and the parser of the form that ends
//! an access.

use crate::request::{AFTER, ProviderRequest as _};
use sealgate_admin::open_accesses;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::open_access::{AccessKind, OpenAccess};
use sealgate_domain::session::SessionId;
use sealgate_domain::user::Subject;
use sealgate_pages::{AccessTable, Problem};

/// Maximum number of rows on a page. It keeps the page below 40 KiB.
const ROWS_PER_PAGE: usize = 30;

/// Rows of one page.
pub(crate) struct AccessRows {
    rows: Vec<OpenAccess>,
    next: Option<String>,
    /// Whether the user is also signed in in another browser.
    pub(crate) is_elsewhere: bool,
}

impl AccessRows {
    /// Returns the user's open accesses of these kinds that one page shows. The rows of the session `own` come
    /// first.
    ///
    /// `page` is the path of the page, without the issuer's prefix.
    ///
    /// # Errors
    /// When the store fails, or the query is invalid.
    pub(crate) async fn find(
        ctx: &RequestContext<'_>,
        user: Subject,
        page: &str,
        own: Option<SessionId>,
        kinds: &[AccessKind],
    ) -> Result<Self, Failure> {
        let sealgate = ctx.sealgate;
        let mut all = open_accesses::of_user(
            &sealgate.store,
            &sealgate.config.apps,
            user,
            sealgate.config.sessions.keep_signed_in,
            ctx.now,
        )
        .await?;
        all.retain(|access| kinds.contains(&access.kind));
        // The sort is stable, so the rows of a session at an application stay below those of its browser.
        all.sort_by_key(|access| own.is_some() && access.sid != own);
        let is_elsewhere = all.iter().any(|access| access.kind == AccessKind::Session && access.sid != own);
        let start = ctx.cursor(|after| after.parse().ok())?.unwrap_or(0).min(all.len());
        let end = start.saturating_add(ROWS_PER_PAGE).min(all.len());
        let next = (end < all.len()).then(|| ctx.path(&format!("{page}?{AFTER}={end}")));
        all.truncate(end);
        all.drain(..start);
        Ok(Self { rows: all, next, is_elsewhere })
    }

    pub(crate) fn table(&self) -> AccessTable<'_> {
        AccessTable { rows: &self.rows, next: self.next.as_deref() }
    }
}

/// Parses the form field `end`: the kind and the id of the access to end.
///
/// # Errors
/// An error page if the field is repeated or its kind is unknown.
pub(crate) fn chosen(form: &Params) -> Result<Option<(AccessKind, &str)>, Failure> {
    let Some(text) = form.one("end")? else { return Ok(None) };
    let chosen = text.split_once(':').and_then(|(kind, id)| Some((AccessKind::parse(kind)?, id)));
    chosen.map(Some).ok_or(Failure::page(Problem::InvalidRequest))
}
