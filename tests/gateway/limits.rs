//! Limits of rules on request bodies and on the time without bytes of an upstream.

use std::time::Duration;

use sealgate_config::RouteLimits;

use crate::world::World;

const SITE: &str = r#"
    [[app]]
    name = "site"
    host = "site.test"
    upstreams = ["http://127.0.0.1:8086"]
    max_body_bytes = 1000
    [[app.route]]
    path = "/"
    access = "public"
    [[app.route]]
    path = "/reports/"
    access = "public"
    read_timeout_seconds = 600
    stream_timeout_seconds = 7
    [[app.route]]
    path = "/upload/"
    access = "public"
    methods = ["PUT"]
    max_body_bytes = 5000
    [[app.route]]
    path = "/upload/"
    access = "public"
"#;

#[tokio::test]
async fn a_request_has_the_limits_of_its_rule() {
    let world = World::with(SITE).await;
    let of_app = RouteLimits { max_body_bytes: Some(1000), ..RouteLimits::default() };
    let (read_timeout, stream_timeout) = (Some(Duration::from_mins(10)), Some(Duration::from_secs(7)));
    for (method, path, limits) in [
        ("POST", "/a", of_app),
        ("POST", "/reports/a", RouteLimits { read_timeout, stream_timeout, ..of_app }),
        ("PUT", "/upload/a", RouteLimits { max_body_bytes: Some(5000), ..of_app }),
        ("POST", "/upload/a", of_app),
    ] {
        let reply = world.call(method, &format!("https://site.test{path}"), &[]).await;
        assert_eq!(reply.arrived.unwrap().limits, limits, "{method} {path}");
    }
}

#[tokio::test]
async fn another_spelling_of_a_path_does_not_switch_compression_on() {
    let site = SITE.replacen("max_body_bytes = 1000\n", "compression = true\n", 1);
    let site = site.replacen("max_body_bytes = 5000\n", "compression = false\n", 1);
    let world = World::with(&site).await;
    assert!(world.call("GET", "https://site.test/a", &[]).await.arrived.unwrap().compression);
    assert!(!world.call("PUT", "https://site.test/upload/a", &[]).await.arrived.unwrap().compression);
    let other = world.call("PUT", "https://site.test/UPLOAD/a", &[]).await;
    other.assert_refused(400, "invalid_request");
}

#[tokio::test]
async fn another_spelling_of_a_path_does_not_avoid_its_maximum() {
    let world = World::with(SITE).await;
    world.refuses_to_read("site.test", &["/UPLOAD/a", "/upload./a"]).await;
    // Rules that differ in their timeouts only need no such check.
    world.lets_through(&["/REPORTS/a", "/reports./a"]).await;
}
