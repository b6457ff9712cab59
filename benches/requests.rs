//! The parts of a request without I/O.
//!
//! Measures the check of the raw head, and the gateway's decision (path, rules, credential and its
//! cache, changed fields).
//!
//! Each case is a separate function with a fixed number of iterations. callgrind counts its
//! instructions, and `benches/requests/run.mjs` fails if they increase.
//!
//! Everything runs in one process, with the memory engine, a fixed clock, and tokens that a SoftHSM
//! token signed beforehand. No future waits, so each is polled once and the counts do not depend on
//! the machine.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]
#![allow(dead_code, reason = "the tests of the gate use the rest of what they share")]

#[path = "../tests/gateway/browser.rs"]
mod browser;
#[path = "../tests/support/configuration.rs"]
mod configuration;
#[path = "../tests/support/meddler.rs"]
mod meddler;
#[path = "../tests/support/records.rs"]
mod records;
#[path = "../tests/support/softhsm.rs"]
mod softhsm;
#[path = "../tests/http/support/token_device.rs"]
mod token_device;
#[path = "../tests/gateway/world.rs"]
mod world;

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::IpAddr;

use http::request::Parts;
use sealgate_edge::origin::Origin;
use sealgate_edge::{Front, RouteDecision, check_head};
use tokio::runtime::{Builder, Runtime};

use crate::browser::Browser;
use crate::world::{ANNA, World, request};

/// Iterations of each case.
const TIMES: usize = 200;

/// Header fields that a browser sends.
const FIELDS: [(&str, &str); 8] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "tr-TR,tr;q=0.8,en-US;q=0.5,en;q=0.3"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "same-origin"),
    ("priority", "u=0, i"),
];

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (world, token, cookie) = runtime.block_on(async {
        let world = World::with(&many_rules()).await;
        let token = world.access_token("openid profile").await;
        world.call("GET", "https://wiki.test/api/a", &[("authorization", &format!("Bearer {token}"))]).await.arrived();
        let browser = Browser::new(&world);
        browser.sign_in_at("https://wiki.test/a", ANNA).await;
        let cookie = browser.jar("wiki.test");
        (world, token, cookie)
    });
    let bearer = format!("Bearer {token}");
    let (content, _) = token.split_at(token.len() - 8);
    let forged = format!("Bearer {content}AAAAAAAA");
    let decided = Decided { runtime: &runtime, world: &world };

    let mut raw = String::from("GET /reports/2026/11?page=3&sort=name HTTP/1.1\r\nHost: wiki.test\r\n");
    for (name, value) in FIELDS {
        write!(raw, "{name}: {value}\r\n").unwrap();
    }
    write!(raw, "Authorization: {bearer}\r\n\r\n").unwrap();
    raw_head(raw.as_bytes());
    public_path(&decided, &head("https://wiki.test/public/a/b?c=d", &[]));
    encoded_path(&decided, &head("https://wiki.test/public/%C5%9Fi%C5%9Fe/2026/rapor%20son.pdf?c=d", &[]));
    ambiguous_path(&decided, &head("https://wiki.test/public/%2e%2e%2fadmin", &[]));
    known_token(&decided, &head("https://wiki.test/api/a", &[("authorization", &bearer)]));
    forged_token(&decided, &head("https://wiki.test/api/a", &[("authorization", &forged)]));
    known_session(&decided, &head("https://wiki.test/a", &[("cookie", &cookie)]));
    last_of_many_rules(&decided, &head("https://many.test/section-999/page", &[]));
}

#[inline(never)]
fn raw_head(head: &[u8]) {
    for _ in 0..TIMES {
        assert!(check_head(black_box(head)).is_ok());
    }
}

#[inline(never)]
fn public_path(decided: &Decided<'_>, head: &Parts) {
    decided.forward(head, "public_path");
}

#[inline(never)]
fn encoded_path(decided: &Decided<'_>, head: &Parts) {
    decided.forward(head, "encoded_path");
}

#[inline(never)]
fn ambiguous_path(decided: &Decided<'_>, head: &Parts) {
    decided.refuse(head, 400, "ambiguous_path");
}

/// A token in the cache of verified tokens.
#[inline(never)]
fn known_token(decided: &Decided<'_>, head: &Parts) {
    decided.forward(head, "known_token");
}

#[inline(never)]
fn forged_token(decided: &Decided<'_>, head: &Parts) {
    decided.refuse(head, 401, "forged_token");
}

/// A session in the cache of sessions.
#[inline(never)]
fn known_session(decided: &Decided<'_>, head: &Parts) {
    decided.forward(head, "known_session");
}

#[inline(never)]
fn last_of_many_rules(decided: &Decided<'_>, head: &Parts) {
    decided.forward(head, "last_of_many_rules");
}

struct Decided<'a> {
    runtime: &'a Runtime,
    world: &'a World,
}

impl Decided<'_> {
    /// The name prevents the compiler from merging identical functions, which callgrind could not
    /// distinguish.
    fn forward(&self, head: &Parts, name: &str) {
        self.all(head, name, |verdict| matches!(verdict, RouteDecision::Forward(_)));
    }

    fn refuse(&self, head: &Parts, status: u16, name: &str) {
        self.all(head, name, |verdict| matches!(verdict, RouteDecision::Answer(answer) if answer.status() == status));
    }

    fn all(&self, head: &Parts, name: &str, expected: impl Fn(&RouteDecision) -> bool) {
        self.runtime.block_on(async {
            for _ in 0..TIMES {
                assert!(expected(&self.world.site.decide(black_box(head)).await), "{name}");
            }
        });
    }
}

/// A request head as the edge passes it.
fn head(url: &str, more: &[(&str, &str)]) -> Parts {
    let (mut head, _) = request("GET", url, &[&FIELDS, more].concat(), "").into_parts();
    head.extensions.insert(Origin {
        address: "192.0.2.9".parse::<IpAddr>().unwrap(),
        secure: true,
        request_id: "request-1".into(),
        ..Origin::unknown()
    });
    head
}

/// An application with a thousand rules.
fn many_rules() -> String {
    let mut text =
        String::from("[[app]]\nname = \"many\"\nhost = \"many.test\"\nupstreams = [\"http://127.0.0.1:8086\"]\n");
    for number in 0..1000 {
        write!(text, "[[app.route]]\npath = \"/section-{number}/\"\naccess = \"public\"\n").unwrap();
    }
    text
}
