//! Limits of applications and routes on request bodies and on the time without bytes of an upstream.

use std::time::Duration;

use sealgate_config::RouteLimits;

use super::{REQUIRED, fault, parse, starts};

/// Returns a configuration whose application has these lines and two routes, the second one with
/// these lines.
fn with(app: &str, route: &str) -> String {
    format!(
        "{REQUIRED}[[app]]\nname = \"wiki\"\nhost = \"wiki.example.com\"\nupstreams = [\"http://127.0.0.1:8081\"]\n{app}\n\
         [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n[[app.route]]\npath = \"/upload/\"\naccess = \"signed_in\"\n{route}\n"
    )
}

/// Returns the limits of the routes `/` and `/upload/`.
fn limits(app: &str, route: &str) -> [RouteLimits; 2] {
    let app = parse(&with(app, route)).apps.remove(0);
    ["/", "/upload/"].map(|path| app.routes.iter().find(|route| route.path == path).unwrap().limits)
}

#[test]
fn a_route_has_the_maximum_of_the_application_or_its_own() {
    let bytes = |app: &str, route: &str| limits(app, route).map(|limits| limits.max_body_bytes);
    assert_eq!(bytes("", ""), [None, None]);
    assert_eq!(bytes("max_body_bytes = 1000", ""), [Some(1000), Some(1000)]);
    assert_eq!(bytes("max_body_bytes = 1000", "max_body_bytes = 1099511627776"), [Some(1000), Some(1 << 40)]);
    assert_eq!(bytes("", "max_body_bytes = 1"), [None, Some(1)]);
}

#[test]
fn a_route_compresses_as_the_application_or_as_it_says() {
    let compression = |app: &str, route: &str| {
        let app = parse(&with(app, route)).apps.remove(0);
        ["/", "/upload/"].map(|path| app.routes.iter().find(|route| route.path == path).unwrap().compression)
    };
    assert_eq!(compression("", ""), [false, false]);
    assert_eq!(compression("compression = true", ""), [true, true]);
    assert_eq!(compression("compression = true", "compression = false"), [true, false]);
    assert_eq!(compression("", "compression = true"), [false, true]);
    let wrong = fault(&with("", "compression = \"gzip\""));
    starts(&wrong, "app[0].route[1].compression: is a string; write true or false");
}

#[test]
fn the_timeouts_of_a_route_are_its_own() {
    let timeouts = |limits: RouteLimits| (limits.read_timeout, limits.stream_timeout);
    let [root, upload] = limits("read_timeout_seconds = 5", "read_timeout_seconds = 600\nstream_timeout_seconds = 7");
    assert_eq!(timeouts(root), (None, None));
    assert_eq!(timeouts(upload), (Some(Duration::from_mins(10)), Some(Duration::from_secs(7))));
}

#[test]
fn values_out_of_range_are_errors() {
    for value in ["0", "-1", "1099511627777"] {
        let expected = "is out of range; write a whole number of bytes from 1 to 1099511627776";
        let line = format!("max_body_bytes = {value}");
        starts(&fault(&with(&line, "")), &format!("app[0].max_body_bytes: {value} {expected}"));
        starts(&fault(&with("", &line)), &format!("app[0].route[1].max_body_bytes: {value} {expected}"));
    }
    starts(
        &fault(&with("max_body_bytes = \"10m\"", "")),
        "app[0].max_body_bytes: is a string; write a whole number of bytes from 1 to 1099511627776",
    );
    for key in ["read_timeout_seconds", "stream_timeout_seconds"] {
        starts(
            &fault(&with("", &format!("{key} = 0"))),
            &format!("app[0].route[1].{key}: 0 is out of range; write a whole number of seconds from 1 to 86400"),
        );
    }
}
