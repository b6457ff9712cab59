//! Tests the cost of an attacker's request head at an application with many rules, counted instead
//! of timed.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sealgate_gateway::take_work;

use crate::world::World;

const RULES: usize = 10_000;

/// Units of work that the readings of one path may take, and again its short names.
const LIMITED: usize = 3 * 64 * 1024;

/// Hosts of applications with many rules.
///
/// The paths of each application begin alike. Their rules have one of seven conditions. All rules
/// of `alike.test` have the same conditions, and each rule of `distinct.test` has its own.
const HOSTS: &[&str] = &["site.test", "alike.test", "mixed.test", "distinct.test"];

/// Returns four open applications with closed parts, whose paths may contain every character that
/// some server treats as data.
fn apps() -> String {
    HOSTS.iter().map(|host| app(host)).collect()
}

fn app(host: &str) -> String {
    use std::fmt::Write as _;

    let name = host.trim_end_matches(".test");
    let mut app = format!(
        r#"
        [[app]]
        name = "{name}"
        host = "{host}"
        upstreams = ["http://127.0.0.1:8086"]
        [[app.route]]
        path = "/"
        access = "public"
        path_characters = [";", "%2F", "%5C", "%252F"]
    "#
    );
    for number in 1..RULES {
        let rule = match name {
            "alike" => format!("path = \"/a{number}/x{number}/\"\naccess = \"public\"\n"),
            "distinct" => format!("path = \"/a{number}/x/\"\naccess = \"signed_in\"\ngroups = [\"{number}\"]\n"),
            "mixed" => format!("path = \"/a{number}/x/\"\naccess = \"signed_in\"\ngroups = [\"{}\"]\n", number % 7),
            _ => format!("path = \"/area{number}/sub/\"\naccess = \"signed_in\"\ngroups = [\"{}\"]\n", number % 7),
        };
        write!(app, "[[app.route]]\n{rule}").unwrap();
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
        "/a~1/x~1",
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
    let world = runtime.block_on(World::with(&apps()));
    let cost = |method: &str, host: &str, path: &str, fields: &[(&str, &str)]| {
        take_work();
        runtime.block_on(world.call(method, &format!("https://{host}{path}"), fields));
        take_work()
    };
    let method = prop::sample::select(&["GET", "post", "DELETE", "PROPFIND", "COPY", "Brew"][..]);
    let config = ProptestConfig::with_cases(64);
    let judged = TestRunner::new(config).run(
        &(method, prop::sample::select(HOSTS), path(), path()),
        |(method, host, path, other)| {
            let fields = [("destination", other.as_str())];
            for (fields, paths, bytes) in [(&[][..], 1, path.len()), (&fields, 2, path.len() + other.len())] {
                let work = cost(method, host, &path, fields);
                // Each path has a limit for its readings and for its short names.
                let budget = 20 * bytes + paths * LIMITED;
                prop_assert!(work <= budget, "{method} {host} {} bytes: {work} of {budget}", bytes);
            }
            Ok(())
        },
    );
    judged.unwrap();
    // Letters are folded and readings are compared up to a limit, once for each request.
    for unit in ["%EF%B7%BA", "%EF%B7%BA;a/", "a%2Fb;c%5Cd%252Fe/", "a%DE%2Fb;c%5Cd%252Fe/", "%DE", "a./", "%C3%9F"] {
        for start in ["/", "/a%2Fb;c%5Cd%252Fe/"] {
            let path = format!("{start}{}", unit.repeat(27_000 / unit.len()));
            for method in ["GET", "DELETE", "PROPFIND", "COPY"] {
                let destination = [("destination", path.as_str())];
                let work = cost(method, "site.test", &path, if method == "COPY" { &destination } else { &[] });
                assert!(work < 10 * path.len(), "{method} {start}{unit}: {work}");
            }
        }
    }
    // Short names are compared with a limited number of rules. Rules that have the same conditions as
    // the found one are not visited.
    for path in [
        "/a~1/x~1".to_owned(),
        "/a~1/x~1;a%2Fb".to_owned(),
        "/a~1".repeat(7_000),
        format!("/a~1/{}", "x".repeat(28_000)),
        format!("/AREA~7{}", "/b".repeat(14_000)),
    ] {
        for method in ["GET", "DELETE", "COPY"] {
            let destination = [("destination", path.as_str())];
            let fields = if method == "COPY" { &destination[..] } else { &[] };
            for host in HOSTS {
                let work = cost(method, host, &path, fields);
                let limit = if *host == "alike.test" { 4_000 } else { 4 * LIMITED };
                assert!(work < 20 * path.len() + limit, "{method} {host} {}: {work}", &path[..8]);
            }
        }
    }
    // The cost of ordinary requests does not depend on the number of rules.
    for (method, path) in [
        ("GET", "/area77/x"),
        ("post", "/"),
        ("GET", "/~anna/a;b%2Fc%5Cd%252Fe."),
        ("DELETE", "/area5000/sub/x"),
        ("PROPFIND", "/area7"),
        ("DELETE", "/"),
    ] {
        let work = cost(method, "site.test", path, &[]);
        assert!(work < 4_000, "{method} {path}: {work}");
    }
    // A client without credentials is refused at the first rule below the path that needs some.
    for path in ["/", "/%3Fa", "/.%C2%ADa;%2F%5C%252F%3F"] {
        for (method, fields) in [("DELETE", &[][..]), ("PROPFIND", &[]), ("MOVE", &[("destination", path)])] {
            let work = cost(method, "distinct.test", path, fields);
            assert!(work < 8_000, "{method} {path}: {work}");
        }
    }
    assert!(!cfg!(debug_assertions) || cost("DELETE", "site.test", "/a~1/", &[]) > 4_000);
}
