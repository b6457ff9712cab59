//! Tests requests that an application may read differently than the rules: paths, methods, repeated
//! or folded headers.

use crate::browser::Browser;
use crate::world::{ANNA, World};

/// Application that is open except for a few paths.
const SITE: &str = r#"
    [[app]]
    name = "site"
    host = "site.test"
    upstreams = ["http://127.0.0.1:8086"]
    [[app.route]]
    path = "/"
    access = "public"
    [[app.route]]
    path = "/admin/"
    access = "signed_in"
    [[app.route]]
    path = "/admin.php"
    access = "signed_in"
    [[app.route]]
    path = "/tasks"
    access = "signed_in"
    [[app.route]]
    path = "/open.php"
    access = "public"
    [[app.route]]
    path = "/accounting/"
    access = "signed_in"
    [[app.route]]
    path = "/files/salaries/"
    access = "signed_in"
    [[app.route]]
    path = "/items/"
    methods = ["GET"]
    access = "public"
    [[app.route]]
    path = "/items/"
    methods = ["POST", "MKTEA"]
    access = "signed_in"
"#;

#[tokio::test]
async fn a_path_with_a_reading_as_a_closed_path_is_refused() {
    let world = World::with(SITE).await;
    let refused = [
        // Letters that fold to ASCII: dotless and dotted i, long s, the Kelvin sign, in UTF-8 and
        // in ISO-8859-9.
        "/adm%C4%B1n/x",
        "/ADM%C4%B0N/x",
        "/ta%C5%BFks",
        "/tas%E2%84%AAs",
        "/adm%FDn/x",
        "/adm%C4%B1n/%FF",
        "/ad%E2%83%9Dmin/x",
        "/ad%EF%BF%B9min/x",
        "/ad%D6%B0min/x",
        "/adm%DDn/",
        "/adm%C4%B1n",
        // Letters with marks, full-width and other compatibility forms, and invisible characters.
        "/%C3%A1dmin/x",
        "/%EF%BD%81%EF%BD%84min/x",
        "/ad%E2%80%8Bmin/x",
        "/adm%C2%ADin/x",
        "/admin%EF%BC%8Fx",
        "/admin%E2%88%95x",
        "/admin%EF%BC%BCx",
        "/admin%EF%BC%8Ephp",
        "/admin%EF%BC%9Bx",
        "/public%EF%BC%8F..%EF%BC%8Fadmin/x",
        // Parent segments for servers that strip the end of a name.
        "/public/..%20/admin/x",
        "/public/..::$DATA/admin/x",
        "/public/..:a/admin/x",
        "/public/.../admin/x",
        "/public/%20/admin/x",
        "/public/%EF%BC%8E%EF%BC%8E/admin/x",
        "/public/%E2%80%A5/admin/x",
        "/public/%EF%BC%852e%EF%BC%852e/admin/x",
        // Suffixes that servers strip, and short names.
        "/admin%20/x",
        "/admin./x",
        "/admin::$INDEX_ALLOCATION/x",
        "/admin.php%20",
        "/admin.php.",
        "/admin.php::$DATA",
        "/ACCOUN~1/x",
        "/acc1a2~3/x",
        "/accoun%EF%BD%9E1/x",
        // Two of these spellings in one path, also below a folder without a rule of its own.
        "/files/salari~1/x",
        "/files./salari~1/x",
        "/files::$INDEX_ALLOCATION/SALARI~1/",
        "/f%C4%B1les/salari~1/x",
        // A script with a suffix after its name.
        "/admin.php/x",
        "/admin.php/",
        "/Admin.php/x",
        "/admin.php%3Fx=1",
        "/admin.php%3fx/y",
        "/admin.php%23x",
        "/admin%3Fx",
        "/tasks/1",
        "/tas%6Bs%3F",
        "/admin.php%00",
        "/admin.php%00.png",
    ];
    world.refuses_to_read("site.test", &refused).await;
    // Bytes alone do not cause a rejection: a path passes if every reading matches the same rule.
    let sound = [
        "/sayfa/Ay%C5%9Fe%20%C4%B1%C4%B0",
        "/sayfa/%DD%FE%20%FD",
        "/tarif/%C2%BD%20su",
        "/%D9%85%DB%8C%E2%80%8C%D8%AE%D9%88%D8%A7%D9%87%D9%85",
        "/%E6%97%A5%EF%BC%8F%E6%9C%AC/",
        "/~anna/notes~1.txt",
        "/files/notes~1.txt",
        "/Talk:Main_Page",
        "/open.php/x",
        "/what%3Fnow",
        "/a.b./c",
    ];
    world.lets_through(&sound).await;
    // On a closed path, the result is the same: nothing below the path is open.
    let browser = Browser::new(&world);
    browser.sign_in_at("https://site.test/admin/", ANNA).await;
    let address = "https://site.test/admin/Ay%C5%9Fe%20%C4%B1";
    assert_eq!(browser.fetch(address).await.arrived(), ("site", "/admin/Ay%C5%9Fe%20%C4%B1"));
}

#[tokio::test]
async fn a_method_in_another_letter_case_is_refused() {
    let world = World::with(SITE).await;
    for method in ["post", "Post", "POSt", "get", "mktea", "delete", "Propfind", "trace", "connect"] {
        for path in ["/items/1", "/", "/admin/x"] {
            let reply = world.call(method, &format!("https://site.test{path}"), &[]).await;
            reply.assert_refused(400, "invalid_request");
        }
    }
    world.call("POST", "https://site.test/items/1", &[]).await.assert_refused(401, "login_required");
    world.call("MKTEA", "https://site.test/items/1", &[]).await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_repeated_ambiguous_header_is_refused() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    for name in [
        "origin",
        "upgrade",
        "content-type",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-fetch-mode",
        "sec-fetch-site",
        "sec-fetch-dest",
        "access-control-request-method",
    ] {
        for path in ["/", "/public/"] {
            let fields = [(name, "a"), ("accept", "*/*"), (name, "b")];
            let reply = browser.send("GET", &format!("https://wiki.test{path}"), &fields, "").await;
            reply.assert_refused(400, "invalid_request");
        }
    }
    let twice = [("authorization", "Basic eDp5"), ("authorization", "Basic eDp6")];
    world.call("GET", "https://wiki.test/public/", &twice).await.assert_refused(400, "invalid_request");
    browser.send("GET", "https://wiki.test/", &twice, "").await.assert_refused(401, "invalid_token");
    // A page of an attacker cannot open a WebSocket by sending its own origin second.
    let own = ("origin", "https://wiki.test");
    let handshake = [("upgrade", "websocket"), ("connection", "upgrade"), own, ("origin", "https://evil.test")];
    browser.send("GET", "https://wiki.test/", &handshake, "").await.assert_refused(400, "invalid_request");
    browser.send("GET", "https://wiki.test/", &handshake[..3], "").await.arrived();
    browser.send("GET", "https://wiki.test/", &[("accept", "a/b"), ("accept", "c/d")], "").await.arrived();
}

#[tokio::test]
async fn headers_that_fold_to_identity_headers_are_removed() {
    let world = World::new().await;
    let fields = [
        ("transfer_encoding", "forged"),
        ("content_length", "forged"),
        ("content_type", "forged"),
        ("host_", "forged"),
        ("host-", "forged"),
        ("cookie_", "forged"),
        ("sec_fetch_site", "forged"),
        ("x_requested_with", "forged"),
        ("x_own", "forged"),
        ("x-own", "1"),
        ("api_key", "2"),
    ];
    let reply = world.call("GET", "https://wiki.test/public/", &fields).await;
    reply.arrived();
    assert!(reply.headers.values().all(|value| value != "forged"), "{reply:?}");
    assert_eq!((reply.header("x-own"), reply.header("api_key")), (Some("1"), Some("2")));
}
