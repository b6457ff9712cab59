//! Tests `Destination` of `WebDAV`: a second path in a request, to which the application writes.

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

const APPS: &str = r#"
    [[app]]
    name = "files"
    host = "files.test"
    upstreams = ["http://127.0.0.1:8091"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/staff/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/upload/"
    access = "public"
    [[app.route]]
    path = "/archive/"
    methods = ["GET"]
    access = "signed_in"
"#;

/// Returns the URL of a path at the application.
fn at(path: &str) -> String {
    format!("https://files.test{path}")
}

#[tokio::test]
async fn copy_and_move_need_access_to_both_paths() {
    let world = World::with(APPS).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at(&at("/"), ANNA).await.arrived();
    ben.sign_in_at(&at("/"), BEN).await.arrived();
    for method in ["COPY", "MOVE", "PUT"] {
        // Anna is in the staff group. The host in the destination, if any, changes nothing.
        for destination in [&at("/b"), "/b", &at("/staff/b"), "https://other.test/staff/b"] {
            let reply = anna.send(method, &at("/a"), &[("destination", destination)], "").await;
            assert_eq!((reply.arrived(), reply.header("destination")), (("files", "/a"), Some(destination)));
        }
        for destination in [&at("/staff/b"), "/staff/b", "http://files.test:81/staff/b", "https://other.test/staff/b"] {
            let reply = ben.send(method, &at("/a"), &[("destination", destination)], "").await;
            reply.assert_refused(403, "access_denied");
        }
        // No rule of that path permits these methods.
        anna.send(method, &at("/a"), &[("destination", "/archive/b")], "").await.assert_refused(403, "access_denied");
        // A publicly writable path gives no public access to others.
        let public = world.call(method, &at("/upload/a"), &[("destination", "/b")]).await;
        public.assert_refused(403, "access_denied");
        world.call(method, &at("/upload/a"), &[("destination", "/upload/b")]).await.arrived();
        // The path itself is checked first: an anonymous client must sign in.
        world.call(method, &at("/a"), &[("destination", "/b")]).await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn a_destination_that_can_be_read_in_more_than_one_way_is_refused() {
    let world = World::with(APPS).await;
    let anna = Browser::new(&world);
    anna.sign_in_at(&at("/"), ANNA).await.arrived();
    for destination in [
        "",
        "b",
        "//files.test/staff/b",
        "/x/../staff/b",
        "/x/%2e%2e/staff/b",
        "/staff%2Fb",
        "/STAFF/b",
        "/b?x",
        "/b#x",
        "https://files.test",
        "ftp://files.test/b",
        "/b\\c",
        // URL parsers interpret these as another path or another host.
        "https:///staff/b",
        "https://files.test\\staff/b",
        "https://files.test\\@x/b",
        "https://anna@files.test/b",
        "https://files.test@/b",
        "https://\tfiles.test/b",
        "https://files.test/\tb",
        "https://files.\ttest/b",
        "https://files.test:/../b",
        "https://files.test:x/b",
        "https://:80/b",
        "https://files%2Ftest/b",
        "https://files.test;x/b",
        "https://[::1/b",
        "https://a b/b",
        "https:/files.test/b",
        "https:files.test/b",
        "https:\\\\files.test/b",
    ] {
        let reply = anna.send("MOVE", &at("/a"), &[("destination", destination)], "").await;
        reply.assert_refused(400, "invalid_request");
    }
    // A forward-auth proxy could omit the header from its question and still forward it.
    for method in ["COPY", "MOVE"] {
        anna.send(method, &at("/a"), &[], "").await.assert_refused(400, "invalid_request");
    }
    let twice = [("destination", "/b"), ("destination", "/staff/b")];
    anna.send("MOVE", &at("/a"), &twice, "").await.assert_refused(400, "invalid_request");
}
