//! Storage for a console form while its user signs in again, because the sign-in was too old.
//!
//! After the sign-in, the page shows the typed values or asks for the confirmation. The server
//! never submits the form by itself. The stored form is encrypted. It is returned only once, and
//! only to the same user in the same session and browser.

use std::time::Duration;

use http::Method;
use url::form_urlencoded;

use crate::console::{ConsoleUser, import_users};
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_edge::navigation;
use sealgate_store::{Form, StoreError};

/// Lifetime of a kept form.
const LIFETIME: Duration = Duration::from_mins(15);

/// Maximum size of the kept fields, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Application name under which the console's forms are stored. No real application can have it.
const CONSOLE: &str = "~console";

/// Fields that are not stored: the tokens of the page, the confirmation, and an access token.
/// Passwords are not stored either, and no list of users, which may have their hashes.
const NOT_KEPT: [&str; 5] = ["csrf", "once", "sure", "token", import_users::FIELD];

/// Returns the fields to store, as a form.
fn kept_fields(form: &Params) -> String {
    let fields = form.pairs().filter(|(name, _)| !NOT_KEPT.contains(name) && !name.contains("password"));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Stores a form that the user sent from `page`.
///
/// Returns the page to open after the sign-in: `page` with the form's id, or plain `page` if the
/// form was not stored.
///
/// # Errors
/// When the store fails.
pub(super) async fn keep(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    page: &str,
    form: &Params,
) -> Result<String, Failure> {
    let Some(owner) = owner(ctx, visitor) else { return Ok(page.to_owned()) };
    let body = kept_fields(form);
    if body.len() > MAX_BYTES {
        return Ok(page.to_owned());
    }
    let id = Secret::from_random(&ctx.random::<32>());
    let stored_form = Form {
        user: Some(visitor.user.sub),
        app: CONSOLE.to_owned(),
        target: page.to_owned(),
        body: body.into_bytes(),
    };
    let until = ctx.now.plus(LIFETIME);
    match ctx.sealgate.store.keep_form(&owner, &id.hash(), &stored_form, until, ctx.random()).await {
        Ok(true) => Ok(visitor::with_form(page, id.expose())),
        Ok(false) | Err(StoreError::TooManyForms) => Ok(page.to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the fields of the stored form whose id is in the query, and deletes the form.
///
/// # Errors
/// When the store fails.
pub(super) async fn take(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    page: &str,
) -> Result<Option<Params>, Failure> {
    // A prefetch or HEAD request must not use up the form.
    if ctx.head.method != Method::GET || navigation::is_preload(ctx.head) {
        return Ok(None);
    }
    let query = ctx.query()?;
    let (Some(id), Some(owner)) = (query.one(visitor::FORM)?, owner(ctx, &console_user.visitor)) else {
        return Ok(None);
    };
    let stored_form = match ctx.sealgate.store.take_form(&owner, &SecretHash::for_secret(id.as_bytes()), ctx.now).await
    {
        Err(StoreError::Sealed(error)) => {
            tracing::warn!(request_id = ctx.origin.request_id, %error, "cannot decrypt a saved form");
            None
        }
        stored_form => stored_form?,
    };
    let stored_form = stored_form.filter(|form| form.app == CONSOLE && form.target == page);
    Ok(stored_form.and_then(|form| Params::parse(&form.body).ok()))
}

/// Returns the owner of a stored form: this user in this session and browser.
///
/// A new sign-in changes the cookie of the session, but not its id.
fn owner(ctx: &RequestContext<'_>, visitor: &Visitor) -> Option<SecretHash> {
    let browser = ctx.cookie(ctx.cookies.browser)?;
    let text = format!("console form {} {} {browser}", visitor.user.sub, visitor.session.value.id);
    Some(SecretHash::for_secret(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_not_stored() {
        let sent = "csrf=c&once=o&sure=yes&token=t&app=wiki&app_username=ben&app_password=secret&password=other";
        let form = Params::parse(sent.as_bytes()).unwrap();
        assert_eq!(kept_fields(&form), "app=wiki&app_username=ben");
    }
}
