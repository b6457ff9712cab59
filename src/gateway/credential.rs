//! Parser of the credentials in `Authorization`, and verification of other issuers' tokens.
//!
//! Tokens of this issuer, sessions and application passwords are verified in other modules.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use crate::decide::GateReply;
use crate::policy::Credential;
use crate::refusal::refuse_token;
use crate::request::AppRequest;
use crate::route::Rule;
use sealgate_core::tokens::trusted::Source;
use sealgate_core::web::failure::Failure;
use sealgate_domain::api_token;
use sealgate_domain::oauth::credentials;
use sealgate_domain::oauth::trusted_token::ForeignFault;

/// Content of the `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presented<'a> {
    /// There is no bearer token: `Authorization` is missing, or has another scheme. The application
    /// may use that scheme.
    Nothing,
    /// A bearer token (RFC 6750 §2.1).
    Bearer(&'a str),
    /// The bearer token is malformed, or there is more than one `Authorization` header.
    ///
    /// A malformed token is not ignored: a client that sends a token must be authenticated by that
    /// token, and not by a cookie that the browser added.
    Malformed,
}

impl<'a> Presented<'a> {
    /// Parses the headers. Tokens in the query or in a form are not accepted, because they would
    /// appear in logs and in browser histories (RFC 6750 §5.3).
    pub(super) fn read(headers: &'a HeaderMap) -> Self {
        let mut fields = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        match (fields.next(), fields.next()) {
            (None, _) => Self::Nothing,
            (Some(only), None) if !is_bearer(only) => Self::Nothing,
            (Some(only), None) => credentials::bearer(only).map_or(Self::Malformed, Self::Bearer),
            // If there are two headers, the gateway and the application could read different ones.
            (Some(_), Some(_)) => Self::Malformed,
        }
    }
}

/// Returns whether there is more than one `Authorization` header.
pub(super) fn is_repeated(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().nth(1).is_some()
}

/// Returns whether any `Authorization` header contains, at any position, a JWT for which `matches`
/// is true.
pub(super) fn holds(headers: &HeaderMap, matches: impl Fn(&str) -> bool) -> bool {
    headers.get_all(AUTHORIZATION).iter().flat_map(|field| tokens(field.as_bytes())).any(matches)
}

/// Returns whether any `Authorization` header contains a token for the admin API.
pub(super) fn holds_api_token(headers: &HeaderMap) -> bool {
    let holds = |field: &HeaderValue| memmem::find(field.as_bytes(), api_token::PREFIX.as_bytes()).is_some();
    headers.get_all(AUTHORIZATION).iter().any(holds)
}

/// Returns the words of a header that may be JWTs. A JWT begins with `eyJ`, the base64url form of
/// `{"`.
///
/// The function searches for that prefix instead of reading each byte, because `Authorization` may
/// have a kilobyte of application data in every request.
fn tokens(field: &[u8]) -> impl Iterator<Item = &str> {
    memmem::find_iter(field, b"eyJ").filter_map(|at| {
        let (before, rest) = field.split_at_checked(at)?;
        if before.last().is_some_and(|byte| is_of_token(*byte)) {
            return None;
        }
        let end = rest.iter().position(|byte| !is_of_token(*byte)).unwrap_or(rest.len());
        str::from_utf8(rest.get(..end)?).ok()
    })
}

const fn is_of_token(byte: u8) -> bool {
    const OF_TOKEN: [bool; 256] = {
        let mut of_token = [false; 256];
        let mut byte = 0_u8;
        loop {
            of_token[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if byte == u8::MAX {
                break of_token;
            }
            byte += 1;
        }
    };
    OF_TOKEN[byte as usize]
}

/// Returns whether the scheme is `Bearer`, in any letter case. The token may be missing or
/// malformed.
fn is_bearer(field: &[u8]) -> bool {
    const SCHEME: &[u8] = b"bearer";
    let field = field.trim_ascii_start();
    let Some((scheme, rest)) = field.split_at_checked(SCHEME.len()) else { return false };
    scheme.eq_ignore_ascii_case(SCHEME) && !rest.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// Verifies a token of another issuer that the application trusts. Logs the reason of a refusal.
/// `rule` is the rule of the request.
pub(super) async fn credential(
    ctx: &AppRequest<'_>,
    rule: &Rule,
    source: &Source,
    token: &str,
) -> Result<Credential, GateReply> {
    let sealgate = ctx.sealgate;
    let fault = match sealgate.trust.verify(source, token, ctx.now, &sealgate.metrics).await {
        Ok(foreign) => return Ok(Credential::Foreign(foreign)),
        Err(fault) => fault,
    };
    let settings = source.settings();
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        issuer = settings.terms.name,
        reason = fault.as_str(),
        claim = fault.claim(),
        "rejected a token of another issuer"
    );
    match fault {
        // The token may be valid. A 401 would make the client discard it.
        ForeignFault::NoKeys => {
            let answer = Failure::Unavailable.into_response(ctx).retry_after(settings.throttle.as_secs());
            Err(GateReply::new("no_keys", answer))
        }
        _ => Err(refuse_token(ctx, rule)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(fields: &[&[u8]]) -> HeaderMap {
        fields.iter().map(|field| (AUTHORIZATION, HeaderValue::from_bytes(field).unwrap())).collect()
    }

    #[test]
    fn the_scheme_bearer_is_case_insensitive() {
        for field in [b"Bearer abc.def".as_slice(), b"bearer abc.def", b"BEARER   abc.def"] {
            assert_eq!(Presented::read(&headers(&[field])), Presented::Bearer("abc.def"));
        }
    }

    #[test]
    fn other_schemes_are_left_to_the_application() {
        for field in [b"Basic dTpw".as_slice(), b"Negotiate x", b"BearerX abc", b"", b"Bear", b"Digest a=b"] {
            assert_eq!(Presented::read(&headers(&[field])), Presented::Nothing, "{field:?}");
        }
        assert_eq!(Presented::read(&HeaderMap::new()), Presented::Nothing);
    }

    #[test]
    fn a_malformed_token_does_not_count_as_absent() {
        for field in [b"Bearer".as_slice(), b"Bearer ", b"Bearer a b", b"Bearer\tabc", b"bearer,abc", b"Bearer \xff"] {
            assert_eq!(Presented::read(&headers(&[field])), Presented::Malformed, "{field:?}");
        }
    }

    #[test]
    fn two_authorization_headers_are_malformed() {
        for pair in [[b"Bearer a".as_slice(), b"Bearer b"], [b"Basic x", b"Bearer a"], [b"Basic x", b"Basic y"]] {
            assert_eq!(Presented::read(&headers(&pair)), Presented::Malformed);
        }
    }

    #[test]
    fn a_token_is_found_within_any_header_text() {
        let holds = |field: &[u8]| holds(&headers(&[b"Basic eyJ", field]), |token| token == "eyJh.eyJi.c-_");
        for field in [
            b"Bearer eyJh.eyJi.c-_".as_slice(),
            b"bearer\teyJh.eyJi.c-_ ",
            b"eyJh.eyJi.c-_",
            b"DPoP eyJh.eyJi.c-_",
            b"Token token=\"eyJh.eyJi.c-_\", x=\xff",
        ] {
            assert!(holds(field), "{field:?}");
        }
        for field in [b"Bearer xeyJh.eyJi.c-_".as_slice(), b"Bearer eyJh.eyJi.c", b"Basic ZXlKaA==", b""] {
            assert!(!holds(field), "{field:?}");
        }
    }

    proptest! {
        #[test]
        fn tokens_are_the_words_that_begin_like_a_jwt(field in "([eyJ]{1,4}|eyJ|[ ,.\"=_-]|[a-zé]){0,24}") {
            let other = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
            let words = field.as_bytes().split(other).filter(|word| word.starts_with(b"eyJ"));
            let words: Vec<_> = words.map(|word| str::from_utf8(word).unwrap()).collect();
            prop_assert_eq!(tokens(field.as_bytes()).collect::<Vec<_>>(), words);
        }

        #[test]
        fn every_spelling_of_bearer_counts_as_a_token(spaces in "[ \t]{0,3}", token in "[!-~]{0,20}") {
            let field = format!("bEaReR{spaces}{token}");
            prop_assume!(!(spaces.is_empty() && token.starts_with(|first: char| first.is_ascii_alphanumeric())));
            let headers = headers(&[field.as_bytes()]);
            prop_assert_ne!(Presented::read(&headers), Presented::Nothing);
        }
    }
}
