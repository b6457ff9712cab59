//! Authorization request of a browser's last sign-in, in the cookie of [`last_sign_in`].
//!
//! A form of a sign-in may be sent again after its request was answered. The browser may have
//! discarded the answer, so the request starts again: the session answers it without a question,
//! and the client receives another code. It is the same as if the browser opened the client's
//! request again.

use http::HeaderValue;

use crate::interaction::Waiting;
use crate::request::ProviderRequest as _;
use sealgate_core::tokens::clients::{INTERNAL_CLIENT, OWN_CLIENT};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::last_sign_in;

/// Returns the cookie with an answered request.
///
/// `None` for a request that is too long or names its user by an ID token, which is not stored.
/// The gateway has a cookie of its own, with the page that the user requested.
pub(super) fn cookie(ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<HeaderValue> {
    let (id, interaction) = (waiting.client.id.as_str(), waiting.interaction());
    let is_of_gateway = id.starts_with(INTERNAL_CLIENT) && id != OWN_CLIENT;
    if is_of_gateway || interaction.expected.is_some() || interaction.enrolment.is_some() {
        return None;
    }
    let value = last_sign_in::cookie_value(&waiting.id, &interaction.request.to_query())?;
    Some(cookie::set_for(ctx.cookies.last, &value, ctx.cookies.secure, last_sign_in::LIFETIME_SECONDS))
}

/// Returns the address of the request that was answered under this id, if it was the last one of
/// this browser. The request is validated like any other.
pub(super) fn address(ctx: &RequestContext<'_>, id: &str) -> Option<String> {
    let query = last_sign_in::read(ctx.cookie(ctx.cookies.last), Some(id))?;
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._+%&=".contains(&byte);
    query.bytes().all(is_encoded).then(|| ctx.path(&format!("/oauth/authorize?{query}")))
}
