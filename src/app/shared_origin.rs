//! Protection of the provider's pages from an application on the issuer's host.
//!
//! Browsers separate origins, not paths. Some response fields apply to the whole origin. A service
//! worker controls all pages below its scope. With such a field or worker, an application on the
//! issuer's host could receive the URLs of the sign-in pages, which contain codes, or replace these
//! pages.

use http::header::{ALT_SVC, HeaderName, VARY};
use http::{HeaderValue, StatusCode, request};

use sealgate_config::Config;
use sealgate_core::web::failure::error;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_edge::AnswerRewrite;
use sealgate_provider as provider;

/// Request field of browsers that fetch the script of a service worker.
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");
/// Value of `Vary` for responses that depend on [`SERVICE_WORKER`].
const DEPENDENT: HeaderValue = HeaderValue::from_static("Service-Worker");

const WORKER: Refusal =
    Refusal::new(ErrorCode::AccessDenied, "A service worker at this path would control pages of the issuer.");

/// Response fields that apply to other URLs of the origin too.
const OF_ORIGIN: [HeaderName; 7] = [
    // Extends the scope of a service worker beyond the directory of its script.
    HeaderName::from_static("service-worker-allowed"),
    // Deletes cookies and stored data.
    HeaderName::from_static("clear-site-data"),
    // Lets the application choose a server that receives reports with the URLs of requests (Network
    // Error Logging).
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    // Makes browsers send requests to another server (RFC 7838).
    ALT_SVC,
    // Makes requests wait for the application (Device Bound Session Credentials, old and new name).
    HeaderName::from_static("sec-session-registration"),
    HeaderName::from_static("secure-session-registration"),
];

/// Returns the refusal of a request for the script of a service worker that would control pages of
/// the provider.
///
/// A script controls the pages below its directory, even without `Service-Worker-Allowed`.
pub(super) fn refuse_worker(config: &Config, head: &request::Parts) -> Option<Response> {
    let is_worker = head.headers.contains_key(SERVICE_WORKER);
    (is_worker && provider::is_below(config, parent_path(head))).then(|| error(StatusCode::FORBIDDEN, &WORKER))
}

/// Restricts the response of an application to its own pages.
pub(super) fn restrict(config: &Config, head: &request::Parts, answer: &mut AnswerRewrite) {
    answer.remove.extend(OF_ORIGIN);
    // A browser could otherwise take the script of a service worker from its cache.
    if provider::is_below(config, parent_path(head)) {
        answer.append.push((VARY, DEPENDENT));
    }
}

/// Returns the path up to its last slash.
fn parent_path(head: &request::Parts) -> &str {
    let path = head.uri.path();
    path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/")
}
