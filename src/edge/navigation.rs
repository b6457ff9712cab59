//! Classification of a request's sender: a user who opens a page, a page that shows another page in
//! a frame, a browser that preloads a page, or a program. Pure.
//!
//! Only a user can be redirected to the sign-in. A redirected script would receive the sign-in page
//! as data, so programs get a 401 instead of a redirect. Users get error pages, and programs get
//! errors in JSON.

use http::header::{ACCEPT, HOST, HeaderName, ORIGIN, SEC_WEBSOCKET_VERSION, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use crate::origin::Reauthorization;
use sealgate_domain::error::{ErrorCode, Refusal};

/// Refusal of a preload request for a page that only the user may open.
pub const PRELOAD_REFUSAL: Refusal =
    Refusal::new(ErrorCode::AccessDenied, "A browser cannot preload this page. Open it.");

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");

/// Fields with which current and older browsers mark a preload request.
const PRELOAD_FIELDS: [HeaderName; 4] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-purpose"),
    HeaderName::from_static("x-moz"),
];

/// Sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// A user who opens a page in a window or a tab.
    Window,
    /// A page that shows the requested page in a frame.
    Frame,
    /// A browser that fetches a page before the user opens it (prefetch, prerendering, preview).
    Preload,
    /// A program, a script, an image, or a WebSocket handshake.
    Program,
}

impl Requester {
    /// Classifies a request by its header fields.
    ///
    /// Uses Fetch Metadata, which scripts cannot set. For clients without Fetch Metadata, `Accept`
    /// decides.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        if headers.contains_key(UPGRADE) || is_by_script(headers) {
            return Self::Program;
        }
        if PRELOAD_FIELDS.iter().any(|name| headers.get_all(name).iter().any(marks_preload)) {
            return Self::Preload;
        }
        if has_fetch_metadata(headers) {
            let in_frame = ["iframe", "frame", "object", "embed", "fencedframe"];
            return match () {
                () if !is(headers, &FETCH_MODE, "navigate") => Self::Program,
                // A navigation that a service worker forwards has the destination `empty`. Scripts
                // cannot send `navigate`.
                () if is(headers, &FETCH_DEST, "document") || is(headers, &FETCH_DEST, "empty") => Self::Window,
                () if in_frame.iter().any(|dest| is(headers, &FETCH_DEST, dest)) => Self::Frame,
                () => Self::Program,
            };
        }
        if names_html(headers) && !is_java_default(headers) { Self::Window } else { Self::Program }
    }

    /// Returns whether the browser shows the response as a page.
    pub const fn reads_pages(self) -> bool {
        matches!(self, Self::Window | Self::Frame)
    }
}

/// Returns whether a user opens a page with this request. Such a request can be redirected to the
/// sign-in.
pub fn is_navigation(head: &Parts) -> bool {
    // The check of an exchange in progress cannot be answered with a redirect.
    matches!(head.method, Method::GET | Method::HEAD)
        && head.extensions.get::<Reauthorization>().is_none()
        && Requester::from_headers(&head.headers) == Requester::Window
}

/// Returns whether the browser shows the response as a page. Includes responses to forms.
pub fn reads_pages(head: &Parts) -> bool {
    head.extensions.get::<Reauthorization>().is_none() && Requester::from_headers(&head.headers).reads_pages()
}

/// Returns whether the user sent this GET or POST deliberately. Only such a request may change
/// state.
///
/// True for a POST, and for a GET that opens a page according to Fetch Metadata. Images, frames,
/// prefetches and link scanners also send GETs. Without Fetch Metadata, or if a service worker
/// forwards the navigation, the sender is unknown, and the function returns false. The caller then
/// asks the user for confirmation. In browsers from before 2023, users need that additional click.
pub fn is_act_of_user(head: &Parts) -> bool {
    let opened = || {
        Requester::from_headers(&head.headers) == Requester::Window
            && is(&head.headers, &FETCH_MODE, "navigate")
            && is(&head.headers, &FETCH_DEST, "document")
    };
    head.method == Method::POST || (head.method == Method::GET && opened())
}

/// Returns whether Microsoft Office sent this request to follow a link in a document.
///
/// Office follows redirects with its own cookies, and then passes the last URL to the browser. The
/// browser does not have Office's cookies, so it could not complete a sign-in that Office has
/// started.
pub fn is_office(head: &Parts) -> bool {
    let agent = head.headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    let names = [&b"ms-office"[..], b"Microsoft Office"];
    let opens = matches!(head.method, Method::GET | Method::HEAD);
    opens && names.iter().any(|name| memchr::memmem::find(agent, name).is_some())
}

/// Returns whether a browser preloads this page before the user opens it.
pub fn is_preload(head: &Parts) -> bool {
    Requester::from_headers(&head.headers) == Requester::Preload
}

/// Returns whether a browser sent this request. Browsers would show a password prompt for a Basic
/// challenge.
///
/// Every browser sends `Sec-Fetch-Site`. Node.js sends only `Sec-Fetch-Mode`.
pub fn is_by_browser(headers: &HeaderMap) -> bool {
    [FETCH_SITE, REQUESTED_WITH].iter().any(|name| headers.contains_key(name))
        || Requester::from_headers(headers).reads_pages()
}

/// Returns whether a page of the origin `own` submits a form with this request, and the user waits
/// for the response.
///
/// Fetch Metadata decides. For browsers without Fetch Metadata, `Origin` decides.
pub fn is_own_form(head: &Parts, own: &str) -> bool {
    let headers = &head.headers;
    let waits =
        head.extensions.get::<Reauthorization>().is_none() && Requester::from_headers(headers) == Requester::Window;
    if head.method != Method::POST || !waits {
        return false;
    }
    let origin = headers.get(ORIGIN);
    if has_fetch_metadata(headers) {
        // A page whose referrer policy is `no-referrer` sends the origin `null` (Fetch Standard,
        // "append a request `Origin` header").
        return is(headers, &FETCH_SITE, "same-origin")
            && origin.is_none_or(|origin| origin == "null" || is_own(headers, origin, own));
    }
    origin.is_some_and(|origin| is_own(headers, origin, own))
}

/// Returns whether a page of another site caused this request, according to the browser.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    is(headers, &FETCH_SITE, "cross-site")
}

/// Returns whether a page of another origin than `own` caused this request, according to the
/// browser.
///
/// `Origin: null` is ignored, because a form also sends it if the referrer policy of its page is
/// `no-referrer` (Fetch Standard, "append a request `Origin` header").
pub fn is_cross_origin(headers: &HeaderMap, own: &str) -> bool {
    let has_other_site = ["cross-site", "same-site"].iter().any(|site| is(headers, &FETCH_SITE, site));
    let is_other = |origin: &HeaderValue| origin != "null" && !is_own(headers, origin, own);
    has_other_site || headers.get_all(ORIGIN).iter().any(is_other)
}

/// Returns whether the user or a page of the application's own origin caused this request,
/// according to the browser. Returns `false` if the browser does not report the origin.
pub fn is_of_own_origin(headers: &HeaderMap, own: &str) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    let has_origin = origins.peek().is_some();
    // A page whose referrer policy is `no-referrer` sends the origin `null`. Then only Fetch
    // Metadata shows whether the page is of the same origin.
    let has_site = headers.contains_key(FETCH_SITE);
    origins.all(|origin| is_own(headers, origin, own) || (has_site && origin == "null"))
        && (if has_site {
            ["same-origin", "none"].iter().any(|site| is(headers, &FETCH_SITE, site))
        } else {
            has_origin
        })
}

/// Returns whether this is a WebSocket handshake from a page of another origin (RFC 6455 §10.2).
///
/// Without this check, scripts of other sites could open a WebSocket with the user's cookies and
/// read the messages. `own` returns the application's origin.
pub fn is_foreign_websocket(headers: &HeaderMap, own: impl FnOnce() -> String) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    // A forward-auth proxy may have removed `Upgrade`, which is a hop-by-hop field. Some browsers
    // send no `Sec-Fetch-Mode`, and no browser sends it over plain HTTP.
    let upgrades = is(headers, &FETCH_MODE, "websocket")
        || headers.contains_key(SEC_WEBSOCKET_VERSION)
        || headers.get_all(UPGRADE).iter().any(|value| {
            value.as_bytes().split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(b"websocket"))
        });
    upgrades && !is_own(headers, origin, &own())
}

/// Returns whether `Origin` is the application's own origin.
fn is_own(headers: &HeaderMap, origin: &HeaderValue, own: &str) -> bool {
    let Some((scheme, host)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let Some((own_scheme, own_host)) = own.split_once("://") else { return false };
    // `Host` has the public port. The configuration may not contain that port, for example if it is
    // the port of a load balancer.
    let asked = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or(own_host);
    let same_host = [own_host, asked].iter().any(|known| known.eq_ignore_ascii_case(host));
    scheme == own_scheme && same_host
}

fn is(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    matches!((values.next(), values.next()), (Some(only), None) if only.as_bytes() == wanted.as_bytes())
}

fn has_fetch_metadata(headers: &HeaderMap) -> bool {
    [FETCH_MODE, FETCH_DEST, FETCH_SITE].iter().any(|name| headers.contains_key(name))
}

/// Returns whether the value marks a preload: `prefetch`, `prefetch;prerender` (a structured field)
/// or `preview`.
fn marks_preload(purpose: &HeaderValue) -> bool {
    let words = purpose.as_bytes().split(|byte| matches!(byte, b';' | b',')).map(<[u8]>::trim_ascii);
    words
        .into_iter()
        .any(|word| [&b"prefetch"[..], b"prerender", b"preview"].iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Returns whether a script sent this request, according to `X-Requested-With`.
///
/// An Android `WebView` sends the same field for pages that its user opens. The value is then the
/// package name of the app, or empty.
fn is_by_script(headers: &HeaderMap) -> bool {
    let is_package = |name: &[u8]| {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        name.contains(&b'.')
            && name.split(|byte| *byte == b'.').all(|part| !part.is_empty() && part.iter().all(is_letter))
    };
    headers
        .get_all(REQUESTED_WITH)
        .iter()
        .map(HeaderValue::as_bytes)
        .any(|value| !value.is_empty() && !is_package(value))
}

/// Returns whether `Accept` is the default of Java's `HttpURLConnection`. That value names HTML
/// first, but no browser sends it.
fn is_java_default(headers: &HeaderMap) -> bool {
    let mut accept = headers.get_all(ACCEPT).iter();
    let (Some(only), None) = (accept.next(), accept.next()) else { return false };
    let tight: Vec<u8> = only.as_bytes().iter().copied().filter(|byte| *byte != b' ').collect();
    tight.starts_with(b"text/html,image/gif,image/jpeg,*")
}

/// Returns whether `Accept` names text/html explicitly (RFC 9110 §12.5.1). Programs send `*/*`.
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

    /// Name of a client, its header fields, and its expected class.
    type Client = (&'static str, &'static [(&'static str, &'static str)], Requester);

    /// Header fields of real clients: browsers, their subresource requests, and programs.
    const CLIENTS: &[Client] = {
        use Requester::{Frame, Preload, Program, Window};
        const MODE: &str = "sec-fetch-mode";
        const DEST: &str = "sec-fetch-dest";
        const SITE: &str = "sec-fetch-site";
        &[
            (
                "Chromium 130, typed",
                &[
                    (SITE, "none"),
                    (MODE, "navigate"),
                    ("sec-fetch-user", "?1"),
                    (DEST, "document"),
                    ("accept", BROWSER),
                ],
                Window,
            ),
            (
                "Firefox 132, a link",
                &[
                    (DEST, "document"),
                    (MODE, "navigate"),
                    (SITE, "same-origin"),
                    ("priority", "u=0, i"),
                    ("accept", BROWSER),
                ],
                Window,
            ),
            (
                "Safari 17, another site",
                &[(DEST, "document"), (SITE, "cross-site"), (MODE, "navigate"), ("accept", BROWSER)],
                Window,
            ),
            (
                "Chromium 130, by a service worker",
                &[(SITE, "same-origin"), (MODE, "navigate"), (DEST, "empty"), ("accept", BROWSER)],
                Window,
            ),
            ("Safari 15", &[("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")], Window),
            ("Internet Explorer 11", &[("accept", "text/html, application/xhtml+xml, image/jxr, */*")], Window),
            (
                "Opera 12",
                &[(
                    "accept",
                    "text/html, application/xml;q=0.9, application/xhtml+xml, image/png, image/webp, image/jpeg, image/gif, image/x-xbitmap, */*;q=0.1",
                )],
                Window,
            ),
            (
                "Lynx",
                &[("accept", "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01")],
                Window,
            ),
            ("w3m", &[("accept", "text/html, text/*;q=0.5, image/*, application/*, x-scheme-handler/*")], Window),
            ("HtmlUnit 4", &[("accept", BROWSER), ("upgrade-insecure-requests", "1")], Window),
            (
                "Android WebView 120",
                &[
                    ("x-requested-with", "com.example.mail"),
                    (SITE, "none"),
                    (MODE, "navigate"),
                    (DEST, "document"),
                    ("accept", BROWSER),
                ],
                Window,
            ),
            ("Android WebView 4.4", &[("x-requested-with", "org.example.Reader_2"), ("accept", BROWSER)], Window),
            ("Android WebView, name withheld", &[("x-requested-with", ""), ("accept", BROWSER)], Window),
            ("iframe", &[(SITE, "same-origin"), (MODE, "navigate"), (DEST, "iframe"), ("accept", BROWSER)], Frame),
            (
                "frame of a frameset",
                &[(SITE, "same-origin"), (MODE, "navigate"), (DEST, "frame"), ("accept", BROWSER)],
                Frame,
            ),
            ("object", &[(SITE, "same-site"), (MODE, "navigate"), (DEST, "object"), ("accept", BROWSER)], Frame),
            ("embed", &[(SITE, "same-site"), (MODE, "navigate"), (DEST, "embed"), ("accept", BROWSER)], Frame),
            (
                "Chromium 130, prefetch by speculation rules",
                &[
                    ("sec-purpose", "prefetch"),
                    ("purpose", "prefetch"),
                    (SITE, "same-origin"),
                    (MODE, "navigate"),
                    (DEST, "document"),
                    ("accept", BROWSER),
                ],
                Preload,
            ),
            (
                "Chromium 130, prerendering",
                &[
                    ("sec-purpose", "prefetch;prerender"),
                    ("purpose", "prefetch"),
                    (SITE, "none"),
                    (MODE, "navigate"),
                    (DEST, "document"),
                    ("accept", BROWSER),
                ],
                Preload,
            ),
            (
                "Chromium 130, prefetch through a proxy",
                &[
                    ("sec-purpose", "prefetch;anonymous-client-ip"),
                    (SITE, "cross-site"),
                    (MODE, "navigate"),
                    (DEST, "document"),
                    ("accept", BROWSER),
                ],
                Preload,
            ),
            (
                "Firefox 132, link rel=prefetch",
                &[
                    ("sec-purpose", "prefetch"),
                    (DEST, "empty"),
                    (MODE, "no-cors"),
                    (SITE, "same-origin"),
                    ("accept", BROWSER),
                ],
                Preload,
            ),
            ("Firefox 78, link rel=prefetch", &[("x-moz", "prefetch"), ("accept", BROWSER)], Preload),
            ("Safari, preview", &[("x-purpose", "preview"), ("accept", BROWSER)], Preload),
            ("fetch()", &[(SITE, "same-origin"), (MODE, "cors"), (DEST, "empty"), ("accept", "*/*")], Program),
            (
                "fetch() for a fragment of HTML",
                &[(SITE, "same-origin"), (MODE, "cors"), (DEST, "empty"), ("accept", "text/html")],
                Program,
            ),
            (
                "Turbo, htmx",
                &[
                    (SITE, "same-origin"),
                    (MODE, "same-origin"),
                    (DEST, "empty"),
                    ("accept", "text/html, application/xhtml+xml"),
                ],
                Program,
            ),
            (
                "img",
                &[
                    (SITE, "same-origin"),
                    (MODE, "no-cors"),
                    (DEST, "image"),
                    ("accept", "image/avif,image/webp,*/*;q=0.8"),
                ],
                Program,
            ),
            ("script", &[(SITE, "same-origin"), (MODE, "no-cors"), (DEST, "script"), ("accept", "*/*")], Program),
            ("worker", &[(SITE, "same-origin"), (MODE, "same-origin"), (DEST, "worker"), ("accept", "*/*")], Program),
            ("WebSocket over HTTP/1.1", &[("upgrade", "websocket"), ("accept", BROWSER)], Program),
            ("WebSocket over HTTP/2", &[(SITE, "same-origin"), (MODE, "websocket"), (DEST, "websocket")], Program),
            ("half of the metadata, a proxy took the rest", &[(MODE, "navigate"), ("accept", BROWSER)], Program),
            ("jQuery", &[("x-requested-with", "XMLHttpRequest"), ("accept", "text/html, */*; q=0.01")], Program),
            ("a script's own header", &[("x-requested-with", "fetch"), ("accept", BROWSER)], Program),
            ("Flash", &[("x-requested-with", "ShockwaveFlash/32.0.0.465"), ("accept", BROWSER)], Program),
            ("axios", &[("accept", "application/json, text/plain, */*")], Program),
            ("curl, git, Python requests", &[("accept", "*/*")], Program),
            ("Go net/http", &[], Program),
            (
                "Java 8 HttpURLConnection",
                &[("accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2")],
                Program,
            ),
            ("Java 21 HttpURLConnection", &[("accept", "text/html, image/gif, image/jpeg, */*; q=0.2")], Program),
            ("Java 11 HttpClient, which offers h2c", &[("upgrade", "h2c")], Program),
            ("Node fetch", &[("accept", "*/*"), (MODE, "cors")], Program),
            (
                "curl --compressed of a feed reader",
                &[("accept", "application/rss+xml, application/xml, text/html;q=0, */*")],
                Program,
            ),
            ("Accept with wildcards", &[("accept", "text/*, image/*")], Program),
            ("Docker, OCI registries", &[("accept", "application/vnd.oci.image.index.v1+json, */*")], Program),
            ("WebDAV (Windows)", &[("translate", "f"), ("accept", "*/*")], Program),
        ]
    };

    #[test]
    fn real_clients_are_distinguished() {
        for (name, fields, requester) in CLIENTS {
            let head = head("GET", fields);
            assert_eq!(Requester::from_headers(&head.headers), *requester, "{name}");
            assert_eq!(is_navigation(&head), *requester == Requester::Window, "{name}");
            assert_eq!(is_preload(&head), *requester == Requester::Preload, "{name}");
            assert_eq!(reads_pages(&head), [Requester::Window, Requester::Frame].contains(requester), "{name}");
        }
    }

    #[test]
    fn a_form_reads_pages_and_is_no_navigation() {
        let fields = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("sec-fetch-site", "cross-site")];
        let form = head("POST", &fields);
        assert!(reads_pages(&form) && !is_navigation(&form));
        assert!(is_navigation(&head("HEAD", &fields)));
    }

    #[test]
    fn only_posts_and_opened_pages_count_as_acts_of_the_user() {
        for (name, fields, _) in CLIENTS {
            let opens =
                ["Chromium 130, typed", "Firefox 132, a link", "Safari 17, another site", "Android WebView 120"];
            assert_eq!(is_act_of_user(&head("GET", fields)), opens.contains(name), "{name}");
            assert!(!is_act_of_user(&head("HEAD", fields)), "{name}");
            assert!(is_act_of_user(&head("POST", fields)), "{name}");
        }
    }

    #[test]
    fn office_is_recognized_by_its_user_agent() {
        for (agent, expected) in [
            ("Mozilla/4.0 (compatible; ms-office; MSOffice rmj)", true),
            ("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Win64; x64; Trident/7.0; ms-office)", true),
            ("Microsoft Office/16.0 (Windows NT 10.0; Microsoft Word 16.0.17928; Pro)", true),
            ("Microsoft Office Existence Discovery", true),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0",
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_office(&head("GET", &[("user-agent", agent)])), expected, "{agent}");
            assert!(!is_office(&head("POST", &[("user-agent", agent)])), "{agent}");
        }
    }

    #[test]
    fn html_counts_unless_its_weight_is_zero() {
        for accept in ["text/html", "application/json, TEXT/HTML;q=0.1", "text/html;level=1;q=1.0"] {
            assert!(is_navigation(&head("GET", &[("accept", accept)])), "{accept}");
        }
        for accept in ["", "text/htmlx", "text/html;q=0", "text/html; q=0.000"] {
            assert!(!is_navigation(&head("GET", &[("accept", accept)])), "{accept}");
        }
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
    fn a_request_of_the_own_origin_is_recognized_by_either_header() {
        let own = |fields: &[(&str, &str)]| is_of_own_origin(&head("POST", fields).headers, "https://wiki.test");
        for fields in [
            &[("origin", "https://wiki.test")][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
        ] {
            assert!(own(fields), "{fields:?}");
        }
        for fields in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "http://wiki.test")],
            &[("origin", "https://wiki.test"), ("origin", "https://evil.test")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site"), ("origin", "https://wiki.test")],
            &[("sec-fetch-site", "same-origin"), ("origin", "https://evil.test")],
        ] {
            assert!(!own(fields), "{fields:?}");
        }
    }

    #[test]
    fn a_websocket_of_another_origin_is_foreign() {
        let own = || "https://wiki.test".to_owned();
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
        let without_upgrade = [("sec-websocket-version", "13"), ("origin", "https://evil.test")];
        assert!(is_foreign_websocket(&head("GET", &without_upgrade).headers, own));
        let list = [("upgrade", "h2c, WebSocket"), ("origin", "https://evil.test")];
        assert!(is_foreign_websocket(&head("GET", &list).headers, own));
    }
}
