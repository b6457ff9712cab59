//! Decisions for proxies that ask the gateway before they forward a request themselves (nginx
//! `auth_request`, Caddy `forward_auth`, Traefik `ForwardAuth`, HAProxy with Lua, Envoy `ext_authz`).
//!
//! The proxy describes its client's request in headers, or, like Envoy, sends its method and host
//! and appends its target to the path. The gateway rebuilds that request and decides on it like on
//! any other request. The proxy forwards the request if the status is 2xx. So
//! only a permit returns 2xx. Other successful responses, such as stylesheets and preflight
//! responses, become refusals.

use std::net::IpAddr;

use http::header::{ACCEPT, AUTHORIZATION, COOKIE, HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};

use crate::decide::{AppGate, GateOutcome, Gateway, host};
use crate::headers::ASSERTION;
use sealgate_config::request_fields;
use sealgate_config::{Config, IdentityHeaders};
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::Body;
use sealgate_core::web::failure::error;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_edge::origin::Origin;
use sealgate_edge::rewrite::Rewrite;

/// Path of the decision endpoint on every host. [`ProxyQuery`] parses the query.
const PATH: &str = "/.sealgate/auth";

const METHODS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
const HOSTS: [&str; 1] = ["x-forwarded-host"];
const TARGETS: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];

/// Headers that every decision contains without a value. A proxy that copies them removes the
/// client's headers of the same names.
const ALWAYS_EMPTY: [HeaderName; 4] = [
    HeaderName::from_static("x-sealgate-client-subject"),
    HeaderName::from_static("x-sealgate-client-fingerprint"),
    HeaderName::from_static("x-forwarded-preferred-username"),
    HeaderName::from_static("x-forwarded-access-token"),
];

/// Original headers, and the headers that contain their values without Sealgate's cookies and
/// tokens. The proxy forwards the cleaned values in place of the originals.
const CLEANED_HEADERS: [(HeaderName, HeaderName); 2] = [
    (COOKIE, HeaderName::from_static("x-sealgate-cookie")),
    (AUTHORIZATION, HeaderName::from_static("x-sealgate-authorization")),
];

/// Query parameters of a proxy's request.
#[derive(Debug, PartialEq, Eq)]
struct ProxyQuery<'a> {
    /// Name of the application that the proxy forwards the request to.
    app: &'a str,
    /// Path and query of the client's request. The proxy's request then has its method and host.
    target: Option<&'a str>,
    relays_redirects: bool,
    /// Whether the cleaned `Cookie` and `Authorization` are returned under their original names,
    /// for proxies that cannot rename headers.
    keeps_names: bool,
}

impl<'a> ProxyQuery<'a> {
    fn parse(query: &'a str) -> Result<Self, &'static str> {
        let (mut app, mut target, mut relays_redirects, mut keeps_names) = (None, None, true, false);
        let mut rest = query;
        while !rest.is_empty() {
            // The last parameter: the target is appended as it is and may contain `&`.
            if let Some(appended) = rest.strip_prefix("uri=") {
                target = Some(appended);
                break;
            }
            let (pair, next) = rest.split_once('&').unwrap_or((rest, ""));
            rest = next;
            match pair.split_once('=') {
                Some(("app", name)) if app.is_none() => app = Some(name),
                Some(("redirect", "no")) => relays_redirects = false,
                Some(("fields", "request")) => keeps_names = true,
                None if pair.is_empty() => {}
                _ => return Err("its query has parameters other than app, redirect=no, fields=request and uri"),
            }
        }
        let app = app.ok_or("it does not name the application: /.sealgate/auth?app=NAME")?;
        Ok(Self { app, target, relays_redirects, keeps_names })
    }
}

impl Gateway {
    /// Returns whether this request is a trusted proxy's request for a decision.
    pub fn is_asked_by_proxy(config: &Config, head: &Parts) -> bool {
        let is_trusted = |peer: IpAddr| config.forward_auth.trusted.iter().any(|network| network.contains(&peer));
        head.uri.path() == PATH
            && head.extensions.get::<Origin>().is_some_and(|origin| is_trusted(origin.peer.to_canonical()))
    }

    /// Decides on the request that a proxy describes: 200 with the identity in headers, or a
    /// refusal.
    pub async fn answer_proxy(&self, sealgate: &Sealgate, head: &Parts) -> Response {
        let question = ProxyQuery::parse(head.uri.query().unwrap_or_default());
        let known = |question: ProxyQuery<'_>| {
            let app = self.gates.iter().position(|gate| gate.app.name == question.app);
            let app = app.ok_or("there is no such application")?;
            let asked = match question.target {
                Some(target) => sent_request(head, target)?,
                None => described_request(head)?,
            };
            Ok((app, question.relays_redirects, question.keeps_names, asked))
        };
        let (app, relays_redirects, keeps_names, mut asked) = match question.and_then(known) {
            Ok(read) => read,
            Err(why) => {
                let peer = head.extensions.get::<Origin>().map(|origin| origin.peer.to_string());
                tracing::warn!(peer, "a proxy sent an invalid forward-auth request: {why}");
                let refusal = Refusal::invalid_request("The proxy does not describe the original request.");
                return error(StatusCode::BAD_REQUEST, &refusal);
            }
        };
        // The proxy forwards to the application in the query, whatever `Host` its client sent. So
        // the rules of another application must not decide.
        if self.app_of(host(&asked)) != Some(app) {
            let refusal = Refusal::invalid_request("The host does not belong to the application.");
            return refused(error(StatusCode::MISDIRECTED_REQUEST, &refusal), relays_redirects);
        }
        // The proxy forwards the client's headers, including one that names another method, which
        // the application might execute. As a proxy, the gateway would remove such a header.
        let gate = self.gates.get(app);
        if gate.is_some_and(AppGate::has_method_rules) && request_fields::override_method(&asked.headers) {
            let request_id = asked.extensions.get::<Origin>().map(|origin| origin.request_id.as_str());
            let app = gate.map(|gate| gate.app.name.as_str());
            tracing::info!(request_id, app, reason = "method_override", "refused");
            let refusal =
                Refusal::new(ErrorCode::AccessDenied, "A header names a method that differs from the request's.");
            return refused(error(StatusCode::FORBIDDEN, &refusal), relays_redirects);
        }
        if let Some(gate) = gate.filter(|gate| gate.sessions_at_app.is_some()) {
            // Cookies of the application would be needed, which the proxy cannot add.
            tracing::info!(app = gate.app.name, reason = "login_form", "refused");
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The application cannot be used through this proxy.");
            return refused(error(StatusCode::FORBIDDEN, &refusal), relays_redirects);
        }
        if !relays_redirects {
            mark_as_program(&mut asked.headers);
        }
        match self.admit_with(sealgate, &asked, Body::Away).await {
            GateOutcome::Forward(permit) => {
                let identity = self.gates.get(app).map(|gate| gate.app.identity.as_ref());
                permitted(&asked.headers, &permit.rewrite(&asked), identity, keeps_names)
            }
            // nginx turns a 503 into a 500. After a 403, it sends the request to Sealgate, which answers
            // with the page.
            GateOutcome::Respond(reply) if reply.label == "maintenance" && !relays_redirects => must_be_forwarded(),
            GateOutcome::Respond(reply) => refused(reply.response, relays_redirects),
            // Unreachable: the gateway has no access to the body.
            GateOutcome::ReadForm => Response::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

/// Rebuilds the client's request from a proxy's request with the same method and host.
///
/// Envoy joins repeated headers with commas in its question, but forwards each of them. So a comma
/// in a header that must occur once is refused.
fn sent_request(head: &Parts, target: &str) -> Result<Parts, &'static str> {
    let has_comma = |name| head.headers.get(name).is_some_and(|value| value.as_bytes().contains(&b','));
    if ["destination", "depth"].into_iter().any(has_comma) {
        return Err("Destination or Depth is repeated, or has a comma");
    }
    let host = one(&head.headers, HOST.as_str())?.ok_or("Host is missing")?;
    client_request(head, head.method.clone(), host, target)
}

/// Rebuilds the client's request from the headers of the proxy.
///
/// All headers with the same meaning must agree, because the client may have sent the headers that
/// the proxy does not set.
fn described_request(head: &Parts) -> Result<Parts, &'static str> {
    let headers = &head.headers;
    let method = only_value_of(headers, &METHODS, "X-Forwarded-Method and X-Original-Method are missing")?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "the method is invalid")?;
    let (mut host, mut target) = (None, None);
    for name in TARGETS {
        let Some(value) = one(headers, name)? else { continue };
        let (authority, path) = match value.split_once("://") {
            Some((_, rest)) if !value.starts_with('/') => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                (Some(authority), path)
            }
            _ => (None, value),
        };
        set_or_compare(&mut target, path)?;
        if let Some(authority) = authority {
            set_or_compare(&mut host, authority)?;
        }
    }
    for name in HOSTS {
        if let Some(value) = one(headers, name)? {
            set_or_compare(&mut host, value)?;
        }
    }
    let host = host.ok_or("X-Forwarded-Host and X-Original-URL are missing")?;
    let target = target.ok_or("X-Forwarded-Uri and X-Original-URL are missing")?;
    client_request(head, method, host, target)
}

/// Returns the client's request with the headers and the origin of the proxy's request.
fn client_request(head: &Parts, method: Method, host: &str, target: &str) -> Result<Parts, &'static str> {
    let path_and_query = PathAndQuery::try_from(target).map_err(|_| "the target is not a path")?;
    // `PathAndQuery` drops a fragment and reads an empty path as `/`.
    if path_and_query.as_str() != target || !target.starts_with('/') {
        return Err("the target is not a path and a query");
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = method;
    parts.uri = Uri::from(path_and_query);
    parts.headers = head.headers.clone();
    parts.headers.insert(HOST, HeaderValue::from_str(host).map_err(|_| "the host is invalid")?);
    if let Some(origin) = head.extensions.get::<Origin>() {
        parts.extensions.insert(origin.clone());
    }
    Ok(parts)
}

fn only_value_of<'h>(headers: &'h HeaderMap, names: &[&str], missing: &'static str) -> Result<&'h str, &'static str> {
    let mut found = None;
    for name in names {
        if let Some(value) = one(headers, name)? {
            set_or_compare(&mut found, value)?;
        }
    }
    found.ok_or(missing)
}

fn set_or_compare<'h>(known: &mut Option<&'h str>, value: &'h str) -> Result<(), &'static str> {
    match known {
        Some(known) if *known != value => Err("two of its headers contradict each other"),
        _ => {
            *known = Some(value);
            Ok(())
        }
    }
}

fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(only), None) => only.to_str().map(Some).map_err(|_| "one of its headers is not text"),
        (Some(_), Some(_)) => Err("one of its headers is repeated"),
    }
}

/// Removes the headers that mark a browser's page load. With these headers, the gateway would
/// redirect to the sign-in page, and a proxy that uses this endpoint does not relay redirects.
fn mark_as_program(headers: &mut HeaderMap) {
    for name in ["sec-fetch-dest", "sec-fetch-mode"] {
        // The origin check of WebSocket handshakes needs this value.
        if headers.get(name).is_none_or(|value| value != "websocket") {
            headers.remove(name);
        }
    }
    headers.remove(ACCEPT);
    headers.insert("x-requested-with", HeaderValue::from_static("forward-auth"));
}

/// Returns the response to a permitted request: the headers that the proxy sets when it forwards
/// the request.
///
/// A header without a value is sent empty. So a proxy that copies the header overwrites the
/// client's header.
fn permitted(
    headers: &HeaderMap,
    rewrite: &Rewrite,
    identity: Option<&IdentityHeaders>,
    keeps_names: bool,
) -> Response {
    let set = |name: &HeaderName| rewrite.set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let empty = || HeaderValue::from_static("");
    let mut answer = Response::empty(StatusCode::OK);
    let named = identity.into_iter().flat_map(|identity| &identity.headers).map(|(name, _)| name);
    for name in named.clone().cloned().chain([ASSERTION]) {
        let value = set(&name).unwrap_or_else(empty);
        answer = answer.and(name, value);
    }
    // The client may have sent default identity headers that this application does not use.
    let usual = IdentityHeaders::default();
    for (name, _) in usual.headers.iter().filter(|(name, _)| !named.clone().any(|named| named == name)) {
        answer = answer.and(name.clone(), empty());
    }
    for name in ALWAYS_EMPTY.into_iter().filter(|name| !named.clone().any(|named| named == name)) {
        answer = answer.and(name, empty());
    }
    // The password header is returned empty, so that a proxy that copies it removes the password
    // from the application's request.
    if let Some(name) = identity.and_then(|identity| identity.app_password_header.clone()) {
        answer = answer.and(name, empty());
    }
    for (name, cleaned) in CLEANED_HEADERS {
        let kept = || headers.get(&name).filter(|_| !rewrite.remove.contains(&name)).cloned();
        let value = set(&name).or_else(kept).unwrap_or_else(empty);
        answer = answer.and(if keeps_names { name } else { cleaned }, value);
    }
    answer
}

fn refused(response: Response, relays_redirects: bool) -> Response {
    let status = response.status();
    let is_relayed = if relays_redirects {
        !status.is_success()
    } else {
        status == 401 || status == 403 || status.is_server_error()
    };
    if is_relayed { response } else { must_be_forwarded() }
}

fn must_be_forwarded() -> Response {
    let refusal = Refusal::new(ErrorCode::AccessDenied, "The proxy must forward this request to Sealgate.");
    error(StatusCode::FORBIDDEN, &refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described_by(fields: &[(&str, &str)]) -> Result<String, &'static str> {
        let mut request = Request::get(PATH).header("host", "sealgate.internal");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let parts = described_request(&request.body(()).unwrap().into_parts().0)?;
        Ok(format!("{} {} {}", parts.method, parts.headers[HOST].to_str().unwrap(), parts.uri))
    }

    #[test]
    fn requests_of_caddy_and_ingress_are_rebuilt() {
        let caddy = [
            ("x-forwarded-method", "POST"),
            ("x-forwarded-host", "wiki.test"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-uri", "/a%2Fb/../c?d=e://f&g"),
        ];
        assert_eq!(described_by(&caddy), Ok("POST wiki.test /a%2Fb/../c?d=e://f&g".into()));
        let ingress = [("x-original-method", "GET"), ("x-original-url", "https://wiki.test:8443/a?b=/c")];
        assert_eq!(described_by(&ingress), Ok("GET wiki.test:8443 /a?b=/c".into()));
        let both = [caddy.as_slice(), &[("x-original-uri", "/a%2Fb/../c?d=e://f&g")]].concat();
        assert!(described_by(&both).is_ok());
    }

    #[test]
    fn contradicting_headers_of_a_client_are_refused() {
        let caddy = [("x-forwarded-method", "GET"), ("x-forwarded-host", "wiki.test"), ("x-forwarded-uri", "/admin/")];
        for forged in [
            ("x-original-url", "https://wiki.test/public/"),
            ("x-original-url", "https://other.test/admin/"),
            ("x-original-uri", "/public/"),
            ("x-original-method", "OPTIONS"),
            ("x-forwarded-uri", "/public/"),
            ("x-forwarded-host", "other.test"),
        ] {
            assert!(described_by(&[caddy.as_slice(), &[forged]].concat()).is_err(), "{forged:?}");
        }
        for missing in 0..3 {
            let mut rest = caddy.to_vec();
            rest.remove(missing);
            assert!(described_by(&rest).is_err());
        }
        for target in ["", "a", "/a#b", "http://", "*"] {
            let fields = [("x-forwarded-method", "GET"), ("x-forwarded-host", "h"), ("x-forwarded-uri", target)];
            assert!(described_by(&fields).is_err(), "{target:?}");
        }
    }

    #[test]
    fn the_query_names_the_application() {
        let question =
            |app, relays_redirects, keeps_names| Ok(ProxyQuery { app, target: None, relays_redirects, keeps_names });
        assert_eq!(ProxyQuery::parse("app=wiki"), question("wiki", true, false));
        assert_eq!(ProxyQuery::parse("app=wiki&redirect=no"), question("wiki", false, false));
        assert_eq!(ProxyQuery::parse("fields=request&app=wiki&"), question("wiki", true, true));
        let appended =
            |target| Ok(ProxyQuery { app: "a", target: Some(target), relays_redirects: true, keeps_names: false });
        assert_eq!(ProxyQuery::parse("app=a&uri=/x?app=b&uri=/y&z"), appended("/x?app=b&uri=/y&z"));
        assert_eq!(ProxyQuery::parse("app=a&uri="), appended(""));
        for query in ["", "redirect=no", "app", "app=a&app=b", "app=a&redirect=yes", "app=a&x=y", "uri=/x&app=a"] {
            assert!(ProxyQuery::parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn only_a_permit_is_a_success() {
        let answer = |status: u16| Response::empty(StatusCode::from_u16(status).unwrap());
        for (status, relayed, not_relayed) in [
            (200, 403, 403),
            (204, 403, 403),
            (302, 302, 403),
            (400, 400, 403),
            (401, 401, 401),
            (403, 403, 403),
            (405, 405, 403),
            (429, 429, 403),
            (503, 503, 503),
        ] {
            assert_eq!(refused(answer(status), true).status(), relayed);
            assert_eq!(refused(answer(status), false).status(), not_relayed);
        }
    }
}
