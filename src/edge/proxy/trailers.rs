//! Trailers of an upstream's response.
//!
//! A client or a proxy in front of Sealgate may treat trailers like fields of the head. So no trailer
//! may have a name with which the head controls the message, the browser or a cache, and none that the
//! front sets or removes.

use http::header::{AGE, CACHE_CONTROL, EXPIRES, LOCATION, PRAGMA, REFRESH, SET_COOKIE, TRANSFER_ENCODING, VARY};
use http::{HeaderMap, HeaderName};

use super::caching::is_for_shared_caches;
use super::headers::is_hop_by_hop;
use crate::request_id::REQUEST_ID;
use crate::rewrite::Rewrite;
use crate::upstream::UpstreamServer;

/// Beginnings of names that are forbidden in trailers (RFC 9110 §6.5.1): framing and representation,
/// authentication, CORS, browser policies, and the identity of clients.
const FORBIDDEN_STARTS: [&str; 11] = [
    "content-",
    "proxy-",
    "access-control-",
    "cross-origin-",
    "sec-",
    "x-forwarded-",
    "x-sealgate-",
    "www-authenticate",
    "authenti",
    "authorization",
    "forwarded",
];

/// Further names that are forbidden in trailers.
const FORBIDDEN: [&str; 15] = [
    "alt-svc",
    "clear-site-data",
    "cookie",
    "host",
    "link",
    "origin-agent-cluster",
    "permissions-policy",
    "referrer-policy",
    "remote-user",
    "reporting-endpoints",
    "report-to",
    "set-cookie2",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
];

/// Removes the trailers that may not pass.
pub(crate) fn filter_trailers(trailers: &mut HeaderMap, rewrite: &Rewrite, server: Option<&UpstreamServer>) {
    let answer = &rewrite.answer;
    let goes = |name: &&HeaderName| {
        is_forbidden(name)
            || rewrite.remove.contains(name)
            || answer.remove.contains(name)
            || [&rewrite.set, &answer.set, &answer.append].into_iter().flatten().any(|(set, _)| set == *name)
            || server.is_some_and(|server| server.fields.has_in_response(name))
    };
    let going: Vec<HeaderName> = trailers.keys().filter(goes).cloned().collect();
    for name in &going {
        trailers.remove(name);
    }
}

fn is_forbidden(name: &HeaderName) -> bool {
    is_hop_by_hop(name)
        || is_for_shared_caches(name)
        || [AGE, CACHE_CONTROL, EXPIRES, LOCATION, PRAGMA, REFRESH, SET_COOKIE, TRANSFER_ENCODING, VARY].contains(name)
        || *name == REQUEST_ID
        || FORBIDDEN.contains(&name.as_str())
        || FORBIDDEN_STARTS.iter().any(|start| name.as_str().starts_with(start))
}
