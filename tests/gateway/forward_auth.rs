//! Tests forward-auth requests as each proxy sends them.
//!
//! They include Traefik's, because the tests with real proxies need its program, which most
//! machines lack. Traefik copies every client header, and overwrites the headers that describe the
//! request itself (pkg/middlewares/auth/forward.go, writeHeader).

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use sealgate_edge::origin::Origin;
use sealgate_edge::{Front, RouteDecision};

use crate::browser::Browser;
use crate::world::{ANNA, World};

/// Headers of every answer that permits a request, possibly empty.
const OWNED: [&str; 9] = [
    "x-forwarded-user",
    "x-forwarded-email",
    "x-forwarded-name",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-access-token",
    "x-sealgate-assertion",
    "x-sealgate-client-subject",
    "x-sealgate-client-fingerprint",
];

/// A client's request as Traefik asks about it.
struct Asked<'a> {
    query: &'a str,
    method: &'a str,
    host: &'a str,
    uri: &'a str,
    client: &'a [(&'a str, &'a str)],
}

impl<'a> Asked<'a> {
    fn about(host: &'a str, uri: &'a str, client: &'a [(&'a str, &'a str)]) -> Self {
        Self { query: "?app=wiki&fields=request", method: "GET", host, uri, client }
    }

    async fn answer(&self, world: &World) -> Response<Bytes> {
        let mut request = Request::get(format!("/.sealgate/auth{}", self.query)).header("host", "127.0.0.1:8080");
        for (name, value) in self.client {
            request = request.header(*name, *value);
        }
        let mut head = request.body(()).unwrap().into_parts().0;
        for (name, value) in [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-method", self.method),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", self.host),
            ("x-forwarded-uri", self.uri),
        ] {
            head.headers.insert(name, value.parse().unwrap());
        }
        let peer = "192.0.2.200".parse().unwrap();
        head.extensions.insert(Origin { peer, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
        match world.site.decide(&head).await {
            RouteDecision::Answer(response) => response,
            other => panic!("not answered: {other:?}"),
        }
    }

    async fn status(&self, world: &World) -> u16 {
        self.answer(world).await.status().as_u16()
    }
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} stands more than once");
    first
}

#[tokio::test]
async fn the_application_in_a_proxys_query_must_match_the_host() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let jar = browser.jar("wiki.test");
    let client = [("cookie", jar.as_str())];
    for host in ["wiki.test", "WIKI.test", "wiki.test:8443"] {
        assert_eq!(Asked::about(host, "/a", &client).status(&world).await, 200, "{host}");
    }
    // The rules of another application permit these requests, and the proxy forwards them to this
    // one.
    for (host, uri) in [
        ("desk.test", "/open/x"),
        ("desk.test", "/a"),
        ("id.test", "/a"),
        ("elsewhere.test", "/a"),
        ("wiki.test.", "/a"),
        ("", "/a"),
    ] {
        let asked = Asked::about(host, uri, &client);
        assert_eq!(asked.status(&world).await, 421, "{host}");
        // A proxy that does not support this status gets a 403.
        let curt = Asked { query: "?app=wiki&redirect=no", ..asked };
        assert_eq!(curt.status(&world).await, 403, "{host}");
    }
    for query in ["", "?redirect=no", "?app=", "?app=nobody", "?app=Wiki", "?app=wiki&app=desk", "?app=wiki&x=1"] {
        assert_eq!(Asked { query, ..Asked::about("wiki.test", "/a", &client) }.status(&world).await, 400, "{query}");
    }
}

#[tokio::test]
async fn a_permit_for_a_proxy_overwrites_every_header_a_client_may_forge() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let jar = format!("{}; theme=dark", browser.jar("wiki.test"));
    let forged: Vec<(&str, &str)> = OWNED.iter().map(|name| (*name, "forged")).collect();
    let client = [forged.as_slice(), &[("cookie", &jar), ("authorization", "Basic dTpw")]].concat();
    for (uri, known) in [("/a", true), ("/public/a", false)] {
        let answer = Asked::about("wiki.test", uri, &client).answer(&world).await;
        assert_eq!(answer.status(), 200);
        for name in OWNED {
            let said = value(answer.headers(), name).unwrap_or_else(|| panic!("{name} is missing"));
            let has_value =
                known && ["user", "email", "name", "groups"].contains(&name.trim_start_matches("x-forwarded-"));
            assert_eq!(!said.is_empty(), has_value, "{uri}: {name}: {said}");
            assert_ne!(said, "forged");
        }
        assert_eq!(value(answer.headers(), "cookie"), Some("theme=dark"));
        assert_eq!(value(answer.headers(), "authorization"), Some("Basic dTpw"));
        assert_eq!(value(answer.headers(), "x-sealgate-cookie"), None);
        let renamed = Asked { query: "?app=wiki", ..Asked::about("wiki.test", uri, &client) }.answer(&world).await;
        assert_eq!(value(renamed.headers(), "x-sealgate-cookie"), Some("theme=dark"));
        assert_eq!(value(renamed.headers(), "x-sealgate-authorization"), Some("Basic dTpw"));
        assert_eq!(value(renamed.headers(), "cookie"), None);
    }
    // A token of this provider is not forwarded; an empty header replaces it.
    let token = format!("Bearer {}", world.access_token("openid").await);
    for uri in ["/a", "/public/a"] {
        let answer = Asked::about("wiki.test", uri, &[("authorization", &token)]).answer(&world).await;
        assert_eq!((answer.status().as_u16(), value(answer.headers(), "authorization")), (200, Some("")));
        assert_eq!(value(answer.headers(), "cookie"), Some(""));
    }
}

#[tokio::test]
async fn a_client_behind_a_proxy_cannot_bypass_the_decision() {
    let world = World::new().await;
    let stranger = [("accept", "*/*")];
    assert_eq!(Asked::about("wiki.test", "/a", &stranger).status(&world).await, 401);
    for uri in [
        "/public/../a",
        "/public/..%2fa",
        "/public/%2e%2e/a",
        "/public/..;/a",
        "/public/..%20/a",
        "/public%EF%BC%8F..%EF%BC%8Fa",
        "//public/a",
        "/PUBLIC/a",
        "/public%5c..%5ca",
    ] {
        assert_eq!(Asked::about("wiki.test", uri, &stranger).status(&world).await, 400, "{uri}");
    }
    for uri in ["", "*", "a", "?x", "public/a"] {
        assert_eq!(Asked::about("wiki.test", uri, &stranger).status(&world).await, 400, "{uri}");
    }
    let post = Asked { method: "post", ..Asked::about("desk.test", "/records/1", &stranger) };
    assert_eq!(Asked { query: "?app=desk", ..post }.status(&world).await, 400);
    // Headers of the client contradict the headers of the proxy.
    for (name, said) in [
        ("x-original-url", "https://wiki.test/public/a"),
        ("x-original-uri", "/public/a"),
        ("x-original-method", "OPTIONS"),
    ] {
        assert_eq!(Asked::about("wiki.test", "/a", &[(name, said)]).status(&world).await, 400, "{name}");
    }
    // Header names that some servers fold to the proxy's header names are ignored.
    let folded =
        [("x_forwarded_uri", "/public/a"), ("x_forwarded_host", "desk.test"), ("x.forwarded.method", "OPTIONS")];
    assert_eq!(Asked::about("wiki.test", "/a", &folded).status(&world).await, 401);
}

/// Envoy sends the client's method and host, and appends its target to the configured path.
#[tokio::test]
async fn a_proxy_may_append_the_target_of_the_request() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", crate::world::BEN).await;
    let jar = browser.jar("desk.test");
    let ask = async |method: &str, host: &str, target: &str, more: &[(&str, &str)]| {
        let uri = format!("/.sealgate/auth?app=desk&fields=request&uri={target}");
        let mut request = Request::builder().method(method).uri(uri).header("host", host);
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let mut head = request.body(()).unwrap().into_parts().0;
        let peer = "192.0.2.200".parse().unwrap();
        head.extensions.insert(Origin { peer, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
        match world.site.decide(&head).await {
            RouteDecision::Answer(response) => response.status().as_u16(),
            other => panic!("not answered: {other:?}"),
        }
    };
    let ben = [("cookie", jar.as_str())];
    for (method, host, target, status) in [
        ("GET", "desk.test", "/records/1", 200),
        ("GET", "desk.test", "/records/1?app=wiki&uri=/open/x&redirect=no", 200),
        ("POST", "desk.test", "/records/1", 403),
        ("PUT", "desk.test", "/records/1", 405),
        ("POST", "desk.test", "/x", 200),
        // The rules of another application, and targets that are no paths.
        ("GET", "wiki.test", "/public/a", 421),
        ("GET", "desk.test:8443", "/x", 200),
        ("GET", "desk.test", "", 400),
        ("GET", "desk.test", "open/x", 400),
        ("GET", "desk.test", "https://desk.test/open/x", 400),
        ("GET", "desk.test", "/open/..%2frecords/1", 400),
        ("GET", "desk.test", "//open/x", 400),
    ] {
        assert_eq!(ask(method, host, target, &ben).await, status, "{method} {host} {target}");
    }
    // Headers of the client do not describe the request.
    let forged = [("x-forwarded-uri", "/open/x"), ("x-forwarded-method", "OPTIONS"), ("x-original-url", "/open/x")];
    assert_eq!(ask("GET", "desk.test", "/records/1", &forged).await, 401);
    for joined in ["/x/a,/records/1", "/records/1, /x/a"] {
        let fields = [ben[0], ("destination", joined), ("depth", "0")];
        assert_eq!(ask("COPY", "desk.test", "/x/b", &fields).await, 400, "{joined}");
    }
    let hosts = [ben[0], ("host", "wiki.test")];
    assert_eq!(ask("GET", "desk.test", "/records/1", &hosts).await, 400);
    assert_eq!(ask("POST", "desk.test", "/x", &[ben[0], ("x-http-method-override", "DELETE")]).await, 403);
}

/// Sealgate removes such headers where rules depend on methods. A forward-auth proxy forwards them
/// to the application.
#[tokio::test]
async fn a_client_behind_a_proxy_cannot_override_the_method() {
    fn desk<'a>(client: &'a [(&'a str, &'a str)]) -> Asked<'a> {
        Asked { query: "?app=desk", ..Asked::about("desk.test", "/records/1", client) }
    }

    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", crate::world::BEN).await;
    let jar = browser.jar("desk.test");
    let plain = [("cookie", jar.as_str())];
    assert_eq!(desk(&plain).status(&world).await, 200);
    let names =
        ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "x_http_method_override", "X.Method.Override"];
    for name in names {
        let client = [plain[0], (name, "DELETE")];
        assert_eq!(desk(&client).status(&world).await, 403, "{name}");
        let curt = Asked { query: "?app=desk&redirect=no", ..desk(&client) };
        assert_eq!(curt.status(&world).await, 403, "{name}");
        // No rule of this application depends on methods, so that such headers are its own
        // responsibility.
        assert_eq!(Asked::about("wiki.test", "/public/a", &client).status(&world).await, 200, "{name}");
    }
}

/// The worst case is assumed for headers that a proxy does not send.
#[tokio::test]
async fn a_closed_subtree_is_protected_behind_another_proxy() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", crate::world::BEN).await;
    let jar = browser.jar("wiki.test");
    for (method, uri, fields, status) in [
        ("PROPFIND", "/", &[][..], 403),
        ("PROPFIND", "/", &[("depth", "infinity")], 403),
        ("PROPFIND", "/", &[("depth", "0")], 200),
        ("DELETE", "/", &[], 403),
        ("DELETE", "/a/", &[], 200),
        ("COPY", "/a", &[], 400),
        ("COPY", "/a", &[("destination", "/staff/b")], 403),
        ("COPY", "/a", &[("destination", "/")], 403),
        ("COPY", "/a", &[("destination", "/b")], 200),
        ("POST", "/", &[("x-http-method-override", "DELETE")], 403),
    ] {
        let client = [&[("cookie", jar.as_str())], fields].concat();
        let asked = Asked { method, ..Asked::about("wiki.test", uri, &client) };
        assert_eq!(asked.status(&world).await, status, "{method} {uri} {fields:?}");
    }
}

/// A proxy that forwards rejections redirects the client to the second step. Otherwise the client
/// learns the missing level.
#[tokio::test]
async fn a_level_is_required_behind_another_proxy() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", ANNA).await;
    let jar = browser.jar("desk.test");
    let client = [
        ("cookie", jar.as_str()),
        ("accept", "text/html"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let asked = Asked { query: "?app=desk", ..Asked::about("desk.test", "/vault/x?a=b", &client) };
    let sent = asked.answer(&world).await;
    assert_eq!(sent.status(), 302);
    let location = url::Url::parse(value(sent.headers(), "location").unwrap()).unwrap();
    assert_eq!((location.host_str(), location.path()), (Some("id.test"), "/oauth/authorize"));
    assert!(location.query_pairs().any(|(name, value)| name == "acr_values" && value == "2"), "{location}");
    let curt = Asked { query: "?app=desk&redirect=no", ..asked };
    let refused = curt.answer(&world).await;
    assert_eq!(refused.status(), 401);
    let challenge = value(refused.headers(), "www-authenticate").unwrap();
    assert!(challenge.contains("error=\"insufficient_user_authentication\""), "{challenge}");
    assert!(challenge.contains("acr_values=\"2\""), "{challenge}");
    assert_eq!(Asked { query: "?app=desk", ..Asked::about("desk.test", "/x", &client) }.status(&world).await, 200);
}

#[tokio::test]
async fn a_wildcard_answers_a_proxy_for_each_of_its_hosts() {
    let app = "[[app]]\nname = \"previews\"\nhost = \"*.previews.test\"\nupstreams = [\"http://127.0.0.1:8091\"]\n\
        [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";
    let world = World::with(app).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    let jar = browser.jar("a.previews.test");
    let client = [("cookie", jar.as_str()), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let about = |host| Asked { query: "?app=previews", ..Asked::about(host, "/x", &client) };
    assert_eq!(about("a.previews.test").status(&world).await, 200);
    let answer = about("b.previews.test").answer(&world).await;
    assert_eq!(answer.status(), 302);
    let location = value(answer.headers(), "location").unwrap();
    assert!(location.contains("redirect_uri=https%3A%2F%2Fb.previews.test%2F.sealgate%2Fcallback"), "{location}");
    for host in ["previews.test", "a.b.previews.test", "wiki.test", "id.test"] {
        assert_eq!(about(host).status(&world).await, 421, "{host}");
    }
}
