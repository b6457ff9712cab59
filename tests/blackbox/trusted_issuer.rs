//! Tests a trusted issuer that fails, returns, changes its keys, answers slowly, and sends too
//! much.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use sealgate_system::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::foreign::{Answer, Key, Publisher};
use crate::support::{Instance, Settings, Upstream, wait_until};

const AUDIENCE: &str = "https://api.test";

/// Returns settings with an application that accepts the tokens of an issuer at this URL.
fn settings(issuer: &str, upstream: &str, further: &str) -> Settings {
    let sections = format!(
        r#"
        [[trusted_issuer]]
        name = "corp"
        issuer = "{issuer}"
        audiences = ["{AUDIENCE}"]
        throttle_seconds = 1
        {further}
        [[app]]
        name = "partner"
        host = "partner.localhost"
        upstreams = ["{upstream}"]
        trusted_issuers = ["corp"]
        [[app.route]]
        path = "/"
        access = "bearer"
        "#
    );
    Settings { sections, upstream: None, node: None }
}

fn now() -> u64 {
    SystemClock.now().seconds()
}

fn claims(issuer: &str) -> Value {
    json!({ "iss": issuer, "sub": "robot-7", "aud": AUDIENCE, "iat": now(), "exp": now() + 600 })
}

/// Returns an issuer's metadata and key set, at their paths.
fn issuer_with(address: &str, keys: &[&Key]) -> Answer {
    Answer::ByPath(vec![
        (
            "/.well-known/openid-configuration".to_owned(),
            json!({ "issuer": address, "jwks_uri": format!("{address}/keys") }),
        ),
        ("/keys".to_owned(), crate::foreign::key_set(keys)),
    ])
}

/// Program in front of an application, and the issuer's URL.
struct Site {
    instance: Instance,
    issuer: String,
    _upstream: Upstream,
}

impl Site {
    fn start(issuer: &str, further: &str) -> Self {
        let upstream = Upstream::start();
        let instance = Instance::started(&settings(issuer, &upstream.url(), further));
        Self { instance, issuer: issuer.to_owned(), _upstream: upstream }
    }

    fn send(&self, token: &str) -> String {
        let port = self.instance.port;
        let authorization = format!("Authorization: Bearer {token}\r\n");
        get(port, "/json", &format!("partner.localhost:{port}"), &authorization)
    }

    /// Returns the status for a new token of this key.
    fn status(&self, key: &Key) -> u16 {
        status(&self.send(&key.token(&claims(&self.issuer))))
    }

    fn until(&self, key: &Key, wanted: u16) {
        wait_until(&format!("tokens are answered {wanted}"), || self.status(key) == wanted);
    }

    fn admin(&self, path: &str) -> String {
        get(self.instance.admin_port, path, "localhost", "")
    }
}

fn get(port: u16, path: &str, host: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_issuer_that_rotates_its_keys_during_an_outage_is_followed() {
    let key = Key::rsa("k1");
    let publisher = Publisher::start(Answer::Huge(0));
    let address = publisher.address();
    let issuer = publisher.url("");
    publisher.answers(issuer_with(&issuer, &[&key]));
    let mut site = Site::start(&issuer, "refresh_seconds = 2");
    site.until(&key, 200);
    let body = site.send(&key.token(&claims(&issuer)));
    assert!(body.contains("corp:robot-7"), "{body}");

    // Connections are refused. Known keys stay valid, and the operator is warned.
    drop(publisher);
    wait_until("the failure is told", || site.admin("/readyz").contains("trusted_issuer corp"));
    assert!(site.admin("/metrics").contains("sealgate_foreign_key_reads_total{issuer=\"corp\",outcome=\"failed\"}"));
    assert_eq!(status(&site.admin("/readyz")), 200, "requests can be served");
    assert_eq!(site.status(&key), 200);

    // The issuer returns with an additional key: it is accepted with the first token, or as soon as
    // the throttle allows.
    let next = Key::rsa("k2");
    let publisher = Publisher::start_at(address, issuer_with(&issuer, &[&key, &next]));
    site.until(&next, 200);
    assert_eq!(site.status(&key), 200);
    wait_until("the warning goes", || !site.admin("/readyz").contains("trusted_issuer corp"));

    // The old key is removed: cached tokens of it become invalid too.
    let old = key.token(&claims(&issuer));
    assert_eq!(status(&site.send(&old)), 200);
    publisher.answers(issuer_with(&issuer, &[&next]));
    wait_until("the old key is not taken any more", || status(&site.send(&old)) == 401);
    assert_eq!(site.status(&next), 200);

    // A restart during an outage: no key is known, and tokens are not rejected as invalid.
    drop(publisher);
    assert_eq!(site.instance.stop(), Some(0));
    site.instance.start();
    let refused = site.send(&next.token(&claims(&issuer)));
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(refused.to_ascii_lowercase().contains("retry-after: 1\r\n"), "{refused}");
    let _publisher = Publisher::start_at(address, issuer_with(&issuer, &[&next]));
    site.until(&next, 200);
}

#[test]
fn a_slow_or_large_response_of_an_issuer_blocks_no_request() {
    let key = Key::p256("k1");
    let publisher = Publisher::start(Answer::keys(&[&key]));
    let issuer = "https://login.corp.test";
    let jwks = format!("jwks = \"{}\"\nalgorithms = [\"ES256\"]\nrefresh_seconds = 1", publisher.url("/keys"));
    let mut site = Site::start(issuer, &jwks);
    site.until(&key, 200);
    let memory = site.instance.peak_memory();

    publisher.answers(Answer::Huge(128 << 20));
    let asked = publisher.asked();
    wait_until("it was asked three times", || publisher.asked() > asked + 3);
    assert_eq!(site.status(&key), 200);
    // A new thread can need several huge pages.
    assert!(site.instance.peak_memory() < memory + 64, "{memory} MiB before, {} after", site.instance.peak_memory());

    publisher.answers(Answer::Trickle);
    let asked = publisher.asked();
    wait_until("it is asked", || publisher.asked() > asked);
    // A read is in progress and will not end: it does not delay known keys, and delays a token of
    // an unknown key only briefly.
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(site.status(&key), 200);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    let begun = Instant::now();
    assert_eq!(site.status(&Key::p256("unknown")), 401);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The stop is not delayed either.
    let begun = Instant::now();
    assert_eq!(site.instance.stop(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn an_open_stream_ends_with_the_token_that_opened_it() {
    let key = Key::ed25519("k1");
    let publisher = Publisher::start(Answer::keys(&[&key]));
    let issuer = "https://login.corp.test";
    let further = format!("jwks = \"{}\"\nalgorithms = [\"EdDSA\"]\nclock_skew_seconds = 0", publisher.url("/keys"));
    let upstream = format!("http://{}", crate::lasting::streams());
    let instance = Instance::started(&settings(issuer, &upstream, &further));
    let port = instance.port;
    let host = format!("partner.localhost:{port}");
    let bearer = |seconds: u64| {
        let mut claims = claims(issuer);
        claims["exp"] = json!(now() + seconds);
        format!("Authorization: Bearer {}\r\n", key.token(&claims))
    };
    wait_until("its tokens are taken", || status(&get(port, "/", &host, &bearer(60))) == 200);
    let begun = Instant::now();
    let stream = get(port, "/events", &host, &bearer(3));
    assert!(stream.contains("data: x"), "{stream}");
    assert!((Duration::from_secs(1)..Duration::from_secs(6)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}
