//! Tests `WebDAV` requests that act on everything below their path: every rule there must permit
//! them too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_store::AppPasswordAdded;
use sealgate_system::clock::{Clock, OsEntropy, random};

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

/// Applications. Anna is in the group `staff`, Ben is not.
const APPS: &str = r#"
    [[app]]
    name = "dav"
    host = "dav.test"
    upstreams = ["http://127.0.0.1:8091"]
    assertion = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    path_characters = ["%2F"]
    [[app.route]]
    path = "/docs/secret/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/documents/of/staff/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/same/"
    access = "signed_in"
    [[app.route]]
    path = "/same/again/"
    access = "signed_in"
    [[app.route]]
    path = "/open/"
    access = "public"
    [[app.route]]
    path = "/open/closed/"
    access = "signed_in"
    app_passwords = true
    [[app.route]]
    path = "/name"
    access = "public"
    [[app.route]]
    path = "/name/"
    access = "signed_in"
    groups = ["staff"]

    [[app]]
    name = "archive"
    host = "archive.test"
    upstreams = ["http://127.0.0.1:8092"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/kept/"
    methods = ["GET", "PROPFIND"]
    access = "signed_in"

    [[app]]
    name = "cache"
    host = "cache.test"
    upstreams = ["http://127.0.0.1:8093"]
    [[app.route]]
    path = "/"
    access = "public"
    methods = ["GET", "PURGE", "DELETE"]
    [[app.route]]
    path = "/open/"
    access = "public"
    [[app.route]]
    path = "/mixed/"
    access = "public"
    methods = ["PURGE", "DELETE"]
    [[app.route]]
    path = "/mixed/open/"
    access = "public"
"#;

/// Methods and values of `Depth` that act on everything below the path.
const ON_ALL: [(&str, Option<&str>); 19] = [
    ("DELETE", None),
    ("DELETE", Some("0")),
    ("MOVE", None),
    ("MOVE", Some("0")),
    ("COPY", None),
    ("COPY", Some("0")),
    ("COPY", Some("1")),
    ("COPY", Some("infinity")),
    ("LOCK", None),
    ("LOCK", Some("1")),
    ("LOCK", Some("infinity")),
    ("PROPFIND", None),
    ("PROPFIND", Some("infinity")),
    ("PROPFIND", Some("Infinity")),
    ("PROPFIND", Some("2")),
    ("PROPFIND", Some("")),
    ("PROPFIND", Some("00")),
    ("PROPFIND", Some("0, infinity")),
    ("PROPFIND", Some("1,noroot")),
];

/// Returns the URL of a path at the application.
fn at(path: &str) -> String {
    format!("https://dav.test{path}")
}

/// Adds a public destination, unless there is one.
fn fields<'a>(depth: Option<&'a str>, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let has_destination = more.iter().any(|(name, _)| *name == "destination");
    let destination = (!has_destination).then_some(("destination", "/open/other"));
    depth.map(|depth| ("depth", depth)).into_iter().chain(destination).chain(more.iter().copied()).collect()
}

#[tokio::test]
async fn requests_on_a_subtree_need_access_to_every_rule_below() {
    let world = World::with(APPS).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at(&at("/"), ANNA).await.arrived();
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    for (method, depth) in ON_ALL {
        for path in ["/docs/", "/docs", "/", "/documents/", "/documents/of"] {
            let context = format!("{method} {path} {depth:?}");
            let reply = ben.send(method, &at(path), &fields(depth, &[]), "").await;
            assert!(reply.arrived.is_none(), "{context}");
            reply.assert_refused(403, "access_denied");
            // Anna has access to everything below these paths.
            if path != "/" {
                assert_eq!(anna.send(method, &at(path), &fields(depth, &[]), "").await.arrived(), ("dav", path));
            }
        }
        for path in ["/docs/open/", "/doc/", "/docs2/", "/same/", "/same", "/docs/secre"] {
            assert_eq!(ben.send(method, &at(path), &fields(depth, &[]), "").await.arrived(), ("dav", path));
        }
        // The path itself is checked first.
        world.call(method, &at("/docs/"), &fields(depth, &[])).await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn a_valid_depth_limits_the_checked_rules() {
    let world = World::with(APPS).await;
    let ben = Browser::new(&world);
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    let arrives = async |method: &str, path: &str, fields: &[(&str, &str)]| {
        ben.send(method, &at(path), fields, "").await.arrived();
    };
    let is_refused = async |method: &str, path: &str, fields: &[(&str, &str)]| {
        ben.send(method, &at(path), fields, "").await.assert_refused(403, "access_denied");
    };
    for method in ["LOCK", "PROPFIND"] {
        arrives(method, "/docs/", &[("depth", "0")]).await;
        is_refused(method, "/docs/", &[("depth", "2")]).await;
        // The proxy removes headers named in `Connection`, so the application would see no `Depth`.
        for connection in ["depth", "keep-alive, Depth", "close,\tDEPTH ,x"] {
            is_refused(method, "/docs/", &[("depth", "0"), ("connection", connection)]).await;
        }
        let twice = [("depth", "0"), ("depth", "infinity")];
        ben.send(method, &at("/docs/"), &twice, "").await.assert_refused(400, "invalid_request");
    }
    // A listing shows names and properties of closed members, but not the members of a closed
    // member.
    for path in ["/", "/documents/", "/documents/of/", "/documents/of", "/docs/", "/docs"] {
        arrives("PROPFIND", path, &[("depth", "1")]).await;
    }
    is_refused("PROPFIND", "/docs/secret/", &[("depth", "1")]).await;
    is_refused("PROPFIND", "/docs/secret", &[("depth", "1")]).await;
    is_refused("PROPFIND", "/docs/", &[("depth", "1"), ("connection", "depth")]).await;
    is_refused("PROPFIND", "/docs/", &[("depth", "1,noroot")]).await;
    is_refused("LOCK", "/docs/", &[("depth", "1")]).await;
    for method in ["GET", "HEAD", "PUT", "POST", "PROPPATCH", "MKCOL", "OPTIONS", "UNLOCK"] {
        arrives(method, "/docs/", &[]).await;
        arrives(method, "/docs/", &[("depth", "infinity")]).await;
    }
}

#[tokio::test]
async fn an_overwritten_destination_needs_access_to_every_rule_below() {
    let world = World::with(APPS).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at(&at("/"), ANNA).await.arrived();
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    for method in ["COPY", "MOVE"] {
        // The server deletes an existing destination first, regardless of the depth (RFC 4918
        // §9.8.4).
        for depth in [None, Some("0"), Some("infinity")] {
            for destination in ["/docs", "/docs/", "https://dav.test/docs", "/documents/of/"] {
                let fields = fields(depth, &[("destination", destination)]);
                ben.send(method, &at("/x"), &fields, "").await.assert_refused(403, "access_denied");
                anna.send(method, &at("/x"), &fields, "").await.arrived();
            }
            ben.send(method, &at("/x"), &fields(depth, &[("destination", "/docs/new")]), "").await.arrived();
        }
    }
}

#[tokio::test]
async fn a_public_path_does_not_open_closed_paths_below() {
    let world = World::with(APPS).await;
    let ben = Browser::new(&world);
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    let token = format!("Bearer {}", world.access_token("openid").await);
    let secrets = random(&OsEntropy);
    let (password, secret) = AppPassword::new("dav", "a program", AssuranceLevel::One, &secrets, world.clock.now());
    let added = world.sealgate.store.add_app_password(world.anna.sub, &password).await.unwrap();
    assert_eq!(added, AppPasswordAdded::Yes);
    let basic = format!("Basic {}", STANDARD.encode(format!("{ANNA}:{}", secret.expose())));
    for (method, depth) in ON_ALL {
        let url = at("/open/");
        for wrong in [None, Some("Digest x"), Some("Basic dTpw")] {
            let wrong: Vec<_> = wrong.map(|value| ("authorization", value)).into_iter().collect();
            let reply = world.call(method, &url, &fields(depth, &wrong)).await;
            assert!(reply.arrived.is_none(), "{method} {depth:?} {wrong:?}");
        }
        world.call(method, &url, &fields(depth, &[])).await.assert_refused(403, "access_denied");
        world
            .call(method, &url, &fields(depth, &[("authorization", "Bearer x")]))
            .await
            .assert_refused(401, "invalid_token");
        // A user with access to everything below is permitted, without identity headers: the path
        // is public.
        for credential in [("authorization", token.as_str()), ("authorization", basic.as_str())] {
            let reply = world.call(method, &url, &fields(depth, &[credential])).await;
            assert_eq!(reply.arrived(), ("dav", "/open/"), "{method} {depth:?}");
            for name in ["x-forwarded-user", "x-sealgate-assertion", "authorization"] {
                assert_eq!(reply.header(name), None, "{name}");
            }
        }
        let reply = ben.send(method, &url, &fields(depth, &[]), "").await;
        assert_eq!((reply.arrived(), reply.header("x-forwarded-user")), (("dav", "/open/"), None));
        // The resource of that name, and everything in it.
        world.call(method, &at("/name"), &fields(depth, &[])).await.assert_refused(403, "access_denied");
        ben.send(method, &at("/name"), &fields(depth, &[]), "").await.assert_refused(403, "access_denied");
    }
    world.call("PROPFIND", &at("/open/"), &[("depth", "0")]).await.arrived();
    world.call("GET", &at("/open/"), &[("authorization", "Bearer x")]).await.arrived();
    // A public source does not permit overwriting a closed destination.
    let copied = [("destination", "/open/"), ("depth", "0")];
    world.call("COPY", &at("/open/x"), &copied).await.assert_refused(403, "access_denied");
    ben.send("COPY", &at("/open/x"), &copied, "").await.arrived();
}

#[tokio::test]
async fn a_subtree_without_a_rule_for_the_method_is_closed_to_requests_on_its_parents() {
    let world = World::with(APPS).await;
    let anna = Browser::new(&world);
    anna.sign_in_at("https://archive.test/", ANNA).await.arrived();
    for method in ["DELETE", "MOVE", "COPY", "LOCK"] {
        let fields = [("destination", "/other/")];
        anna.send(method, "https://archive.test/", &fields, "").await.assert_refused(403, "access_denied");
    }
    anna.send("PROPFIND", "https://archive.test/", &[], "").await.arrived();
    anna.send("DELETE", "https://archive.test/other/", &[], "").await.arrived();
}

/// Some servers read the path as a different path with the same rule, but with a closed path below
/// it.
#[tokio::test]
async fn everything_below_each_reading_of_the_path_is_judged() {
    let world = World::with(APPS).await;
    let ben = Browser::new(&world);
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    for path in [
        "/DOCS/",
        "/d%6Fcs/",
        "/docs./",
        "/docs%20",
        "/docs::$DATA/",
        "/d%C3%B6cs/",
        "/%EF%BD%84ocs/",
        "/docs%3Fx",
        "/DOCUME~1/",
        "/DOCUME~1/of",
        "/documents%2Fof",
        "/documents%2Fof/",
        "/DOCUMENTS%2FOF./",
        "/DOCUME~1%2Fof",
    ] {
        let reply = ben.send("DELETE", &at(path), &[], "").await;
        assert!(reply.arrived.is_none(), "{path}");
        reply.assert_refused(403, "access_denied");
        // The path is refused as a destination, too.
        if !path.contains("%3F") {
            let reply = ben.send("MOVE", &at("/x"), &[("destination", path)], "").await;
            assert!(reply.arrived.is_none(), "{path}");
            reply.assert_refused(403, "access_denied");
        }
        ben.send("GET", &at(path), &[], "").await.arrived();
    }
    for path in ["/docs%2Fother/", "/xy~1/", "/%C3%B6/", "/docsx./"] {
        assert_eq!(ben.send("DELETE", &at(path), &[], "").await.arrived(), ("dav", path));
    }
}

/// Applications receive these headers where no rule depends on methods.
#[tokio::test]
async fn a_method_override_header_is_checked_for_everything_below_the_path() {
    let world = World::with(APPS).await;
    let ben = Browser::new(&world);
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    for name in ["x-http-method-override", "x-http-method", "x-method-override", "x_http_method_override"] {
        for value in ["DELETE", "delete", "PATCH"] {
            ben.send("POST", &at("/docs/"), &[(name, value)], "").await.assert_refused(403, "access_denied");
        }
        ben.send("POST", &at("/docs/x"), &[(name, "PATCH")], "").await.arrived();
    }
}

/// A rule without methods applies to DELETE, but not to PURGE.
#[tokio::test]
async fn an_open_path_below_is_open_only_to_its_methods() {
    let world = World::with(APPS).await;
    for destination in ["/mixed/", "/mixed"] {
        let fields = [("destination", destination)];
        world.call("DELETE", "https://cache.test/mixed/a", &fields).await.arrived();
        let reply = world.call("PURGE", "https://cache.test/mixed/a", &fields).await;
        assert!(reply.arrived.is_none(), "{destination}");
        reply.assert_refused(403, "access_denied");
        world.call("PURGE", "https://cache.test/mixed/a", &[]).await.arrived();
    }
}
