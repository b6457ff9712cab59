//! What kind of request this is: a person who opens a page, a program, or the handshake of a WebSocket. Pure.
//!
//! Only the first can be sent to sign in. A script that gets a redirect instead of a 401 ends up with the sign-in page
//! where it wanted data, and nobody understands why.

use http::header::{ACCEPT, HOST, HeaderName, ORIGIN, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use crate::web::origin::Again;

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");

/// Whether a person opens a document with this request. Browsers say so themselves (Fetch Metadata); of older ones, those
/// do it that ask for text/html by name and not by a script.
pub(crate) fn is_navigation(head: &Parts) -> bool {
    let headers = &head.headers;
    if !matches!(head.method, Method::GET | Method::HEAD) || headers.contains_key(UPGRADE) {
        return false;
    }
    // Nobody waits for an answer, so that no sign-in is to be begun.
    if head.extensions.get::<Again>().is_some() {
        return false;
    }
    if [FETCH_MODE, FETCH_DEST, FETCH_SITE].iter().any(|name| headers.contains_key(name)) {
        return is(headers, &FETCH_MODE, "navigate") && is(headers, &FETCH_DEST, "document");
    }
    !headers.contains_key(REQUESTED_WITH) && names_html(headers)
}

/// Whether a page of this very origin, `own`, sends a form with this request and a person waits for the answer. Browsers
/// say so themselves; of older ones, the `Origin` must tell.
pub(crate) fn is_own_form(head: &Parts, own: &str) -> bool {
    let headers = &head.headers;
    let waits = head.extensions.get::<Again>().is_none() && !headers.contains_key(UPGRADE);
    if head.method != Method::POST || !waits || headers.contains_key(REQUESTED_WITH) {
        return false;
    }
    let origin = headers.get(ORIGIN);
    if [FETCH_MODE, FETCH_DEST, FETCH_SITE].iter().any(|name| headers.contains_key(name)) {
        // A page that sends no referrer sends no origin either (Fetch Standard, "append a request `Origin` header").
        return is(headers, &FETCH_SITE, "same-origin")
            && is(headers, &FETCH_MODE, "navigate")
            && is(headers, &FETCH_DEST, "document")
            && origin.is_none_or(|origin| origin == "null" || is_own(headers, origin, own));
    }
    names_html(headers) && origin.is_some_and(|origin| is_own(headers, origin, own))
}

/// Whether a page can be read where the answer goes: a form's answer too.
pub(crate) fn reads_pages(head: &Parts) -> bool {
    is_navigation(head) || !head.headers.contains_key(REQUESTED_WITH) && names_html(&head.headers)
}

/// Whether a browser says that another site's page caused this request.
pub(crate) fn is_cross_site(headers: &HeaderMap) -> bool {
    is(headers, &FETCH_SITE, "cross-site")
}

/// Whether this is the handshake of a WebSocket that a page of another origin opens (RFC 6455 §10.2). Scripts of other
/// sites may open one with the person's cookies and read what comes; the `Origin` tells. `own` is the application's.
pub(crate) fn is_foreign_websocket(headers: &HeaderMap, own: &str) -> bool {
    // A proxy that asks on behalf of its client may have dropped `Upgrade`, which is not its to pass on.
    let upgrades = is(headers, &FETCH_MODE, "websocket")
        || headers.get_all(UPGRADE).iter().any(|value| {
            value.as_bytes().split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(b"websocket"))
        });
    let Some(origin) = headers.get(ORIGIN).filter(|_| upgrades) else { return false };
    !is_own(headers, origin, own)
}

/// Whether an `Origin` names the application itself.
fn is_own(headers: &HeaderMap, origin: &HeaderValue, own: &str) -> bool {
    let Some((scheme, host)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let Some((own_scheme, own_host)) = own.split_once("://") else { return false };
    // `Host` has the port of the public address, which may be a load balancer's and not configured.
    let asked = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or(own_host);
    let same_host = [own_host, asked].iter().any(|known| known.eq_ignore_ascii_case(host));
    scheme == own_scheme && same_host
}

fn is(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    matches!((values.next(), values.next()), (Some(only), None) if only.as_bytes() == wanted.as_bytes())
}

/// Whether `Accept` names text/html itself (RFC 9110 §12.5.1). `*/*` is what programs send.
fn names_html(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    ranges.into_iter().any(|range| {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let html = parts.next().is_some_and(|media| media.eq_ignore_ascii_case(b"text/html"));
        html && !parts.any(is_zero_weight)
    })
}

fn is_zero_weight(parameter: &[u8]) -> bool {
    let Some((name, value)) = parameter.split_at_checked(2) else { return false };
    name.eq_ignore_ascii_case(b"q=") && !value.is_empty() && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

    fn head(method: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/").header("host", "wiki.test");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_document_that_a_browser_opens_is_a_navigation() {
        let fields = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("sec-fetch-site", "none")];
        assert!(is_navigation(&head("GET", &fields)));
        assert!(is_navigation(&head("HEAD", &fields)));
        assert!(!is_navigation(&head("POST", &fields)));
    }

    #[test]
    fn an_older_browser_is_known_by_what_it_accepts() {
        for accept in [BROWSER, "text/html", "application/json, TEXT/HTML;q=0.1", "text/html;level=1;q=1.0"] {
            assert!(is_navigation(&head("GET", &[("accept", accept)])), "{accept}");
        }
        for accept in ["*/*", "", "application/json", "text/*", "text/htmlx", "text/html;q=0", "text/html; q=0.000"] {
            assert!(!is_navigation(&head("GET", &[("accept", accept)])), "{accept}");
        }
        assert!(!is_navigation(&head("GET", &[])));
        assert!(!is_navigation(&head("POST", &[("accept", BROWSER)])));
    }

    #[test]
    fn scripts_frames_images_and_workers_are_not_navigations() {
        for (mode, dest) in [
            ("cors", "empty"),
            ("same-origin", "empty"),
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("navigate", "iframe"),
            ("navigate", "object"),
            ("websocket", "websocket"),
            ("navigate", "empty"),
        ] {
            let fields = [("sec-fetch-mode", mode), ("sec-fetch-dest", dest), ("accept", BROWSER)];
            assert!(!is_navigation(&head("GET", &fields)), "{mode} {dest}");
        }
        assert!(!is_navigation(&head("GET", &[("sec-fetch-mode", "navigate"), ("accept", BROWSER)])));
        assert!(!is_navigation(&head("GET", &[("sec-fetch-site", "same-origin"), ("accept", BROWSER)])));
        assert!(!is_navigation(&head("GET", &[("x-requested-with", "XMLHttpRequest"), ("accept", BROWSER)])));
        assert!(!is_navigation(&head("GET", &[("upgrade", "websocket"), ("accept", BROWSER)])));
    }

    #[test]
    fn only_a_page_of_this_origin_sends_its_form() {
        let own = "https://wiki.test";
        let sent = |fields: &[(&str, &str)]| is_own_form(&head("POST", fields), own);
        let page = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("sec-fetch-site", "same-origin")];
        let with = |name, value| {
            let rest = page.iter().filter(|(known, _)| *known != name);
            sent(&rest.copied().chain([(name, value)]).collect::<Vec<_>>())
        };
        assert!(sent(&page));
        assert!(with("origin", own) && with("origin", "null"));
        assert!(!is_own_form(&head("GET", &page), own) && !is_own_form(&head("PUT", &page), own));
        for (name, value) in [
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "none"),
            ("sec-fetch-mode", "cors"),
            ("sec-fetch-dest", "iframe"),
            ("origin", "https://evil.test"),
            ("x-requested-with", "XMLHttpRequest"),
            ("upgrade", "websocket"),
        ] {
            assert!(!with(name, value), "{name}: {value}");
        }
        assert!(sent(&[("accept", BROWSER), ("origin", own)]));
        for fields in [
            &[("accept", BROWSER)][..],
            &[("accept", BROWSER), ("origin", "null")],
            &[("accept", BROWSER), ("origin", "https://evil.test")],
            &[("accept", "application/json"), ("origin", own)],
            &[],
        ] {
            assert!(!sent(fields), "{fields:?}");
        }
    }

    #[test]
    fn a_websocket_of_another_origin_is_foreign() {
        let own = "https://wiki.test";
        let foreign =
            |origin| is_foreign_websocket(&head("GET", &[("upgrade", "websocket"), ("origin", origin)]).headers, own);
        assert!(!foreign("https://wiki.test"));
        assert!(!foreign("https://WIKI.test"));
        for origin in [
            "http://wiki.test",
            "",
            "https://evil.test",
            "null",
            "https://wiki.test.evil.test",
            "https://wiki.test:8443",
            "wiki.test",
        ] {
            assert!(foreign(origin), "{origin}");
        }
        assert!(!is_foreign_websocket(&head("GET", &[("upgrade", "websocket")]).headers, own));
        assert!(!is_foreign_websocket(&head("GET", &[("origin", "https://evil.test")]).headers, own));
        assert!(is_foreign_websocket(
            &head("GET", &[("sec-fetch-mode", "websocket"), ("origin", "https://evil.test")]).headers,
            own
        ));
        let list = [("upgrade", "h2c, WebSocket"), ("origin", "https://evil.test")];
        assert!(is_foreign_websocket(&head("GET", &list).headers, own));
    }
}
