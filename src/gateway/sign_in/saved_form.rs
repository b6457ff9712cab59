//! Storage of a submitted form, encrypted, until its user has signed in.

use std::time::Duration;

use crate::request::{AppRequest, own_path};
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_store::{Form, StoreError};

/// Lifetime of a kept form.
const LIFETIME: Duration = Duration::from_mins(15);

/// Stores a form for this browser. Returns its id, or `None` if there is no space.
pub(crate) async fn keep(ctx: &AppRequest<'_>, browser: &str, form: &Form) -> Result<Option<Secret>, StoreError> {
    let id = Secret::from_random(&ctx.random::<32>());
    let store = &ctx.sealgate.store;
    let browser = SecretHash::of(browser.as_bytes());
    let kept = store.keep_form(&browser, &id.hash(), form, ctx.now.plus(LIFETIME), ctx.random()).await;
    let kept = match kept {
        Err(StoreError::TooManyForms) => false,
        kept => kept?,
    };
    let (request_id, app) = (&ctx.origin.request_id, &ctx.app.name);
    if !kept {
        tracing::debug!(request_id, app, "too many saved forms; dropped a form");
        return Ok(None);
    }
    tracing::info!(request_id, app, "saved a form until its user signs in again");
    Ok(Some(id))
}

/// Returns the path and query of the page that shows a kept form.
pub(crate) fn address(id: &str) -> String {
    own_path("form", &[("id", id)])
}
