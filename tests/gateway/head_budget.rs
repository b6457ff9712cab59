//! Tests the cost of an attacker's request head at an application with many rules, counted instead
//! of timed.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sealgate_gateway::take_work;

use crate::world::World;

const RULES: usize = 10_000;

/// Number of readings of one path: escaped slashes, double-escaped slashes and backslashes each
/// count or not, and `;` cuts in five ways.
const READINGS: usize = 40;

/// Returns an open application with closed parts, whose paths may contain every character that some
/// server treats as data.
fn app() -> String {
    use std::fmt::Write as _;

    let mut app = r#"
        [[app]]
        name = "site"
        host = "site.test"
        upstreams = ["http://127.0.0.1:8086"]
        [[app.route]]
        path = "/"
        access = "public"
        path_characters = [";", "%2F", "%5C", "%252F"]
    "#
    .to_owned();
    for number in 1..RULES {
        let group = number % 7;
        write!(app, "[[app.route]]\npath = \"/area{number}/sub/\"\naccess = \"signed_in\"\ngroups = [\"{group}\"]\n")
            .unwrap();
    }
    app
}

/// Generates paths from parts that have several readings: repeated, or followed by a long name.
fn path() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "/",
        "~1",
        "a~1",
        "AREA~7",
        "%7E1",
        ";",
        "%3B",
        "%2F",
        "%5C",
        "%252F",
        ".",
        "%20",
        ":",
        "%3F",
        "%23",
        "%C4%B1",
        "%FD",
        "%C2%AD",
        // Folds to 18 letters.
        "%EF%B7%BA",
        "area7",
        "Sub",
        "/area12/sub",
        "xxxxxxxxxxxxxxxxxxxx",
    ];
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 1..12);
    (pieces, 0..28_000_usize, any::<bool>()).prop_map(|(pieces, bytes, repeats)| {
        let pieces = pieces.concat();
        if repeats {
            format!("/{}", pieces.repeat(bytes / pieces.len() + 1))
        } else {
            format!("/{pieces}/{}", "b".repeat(bytes))
        }
    })
}

#[test]
fn the_work_for_a_head_does_not_grow_with_its_bytes_times_the_rules() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let world = runtime.block_on(World::with(&app()));
    let cost = |method: &str, path: &str, fields: &[(&str, &str)]| {
        take_work();
        runtime.block_on(world.call(method, &format!("https://site.test{path}"), fields));
        take_work()
    };
    let method = prop::sample::select(&["GET", "post", "DELETE", "PROPFIND", "COPY", "Brew"][..]);
    let config = ProptestConfig::with_cases(32);
    let judged = TestRunner::new(config).run(&(method, path(), path()), |(method, path, other)| {
        let fields = [("destination", other.as_str())];
        for (fields, bytes) in [(&[][..], path.len()), (&fields, path.len() + other.len())] {
            let work = cost(method, &path, fields);
            // Rules are compared with the part of a path that they can match: a few times five
            // segments of 16 bytes.
            let short_names = [&path, &other].iter().any(|path| path.contains('~') || path.contains("%7E"));
            let budget = 200 * bytes + RULES * if short_names { READINGS * 400 } else { 4 };
            prop_assert!(work <= budget, "{method} {} bytes: {work} of {budget}", bytes);
        }
        Ok(())
    });
    judged.unwrap();
    // Letters are folded and readings are compared up to a limit, once for each request.
    for unit in ["%EF%B7%BA", "%EF%B7%BA;a/", "a%2Fb;c%5Cd%252Fe/", "a%DE%2Fb;c%5Cd%252Fe/", "%DE", "a./", "%C3%9F"] {
        for start in ["/", "/a%2Fb;c%5Cd%252Fe/"] {
            let path = format!("{start}{}", unit.repeat(27_000 / unit.len()));
            for method in ["GET", "DELETE", "PROPFIND", "COPY"] {
                let destination = [("destination", path.as_str())];
                let work = cost(method, &path, if method == "COPY" { &destination } else { &[] });
                assert!(work < 10 * path.len(), "{method} {start}{unit}: {work}");
            }
        }
    }
    // A path with a single reading is compared with each rule once.
    for path in
        ["/a~1".repeat(7_000), format!("/a~1/{}", "x".repeat(28_000)), format!("/AREA~7{}", "/b".repeat(14_000))]
    {
        for method in ["GET", "DELETE"] {
            let work = cost(method, &path, &[]);
            assert!(work < 10 * path.len() + 800 * RULES, "{method} {}: {work}", &path[..10]);
        }
    }
    // The cost of ordinary requests does not depend on the number of rules.
    for (method, path) in [
        ("GET", "/area77/x"),
        ("post", "/"),
        ("GET", "/~anna/a;b%2Fc%5Cd%252Fe."),
        ("DELETE", "/area5000/sub/x"),
        ("PROPFIND", "/area7"),
    ] {
        let work = cost(method, path, &[]);
        assert!(work < 4_000, "{method} {path}: {work}");
    }
    assert!(!cfg!(debug_assertions) || cost("DELETE", "/", &[]) > RULES);
}
