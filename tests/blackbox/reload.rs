//! Tests reloading the configuration of a running server: it is applied completely, under load, or
//! not at all.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::Output;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::lasting::{closes, streams, websocket};
use crate::support::load::{Connection, Load, Manner, application_saying};
use crate::support::{Browser, Instance, Settings, wait_until};

/// Returns another, public application.
fn app(name: &str, upstream: &str) -> String {
    format!(
        "[[app]]\nname = \"{name}\"\nhost = \"{name}.localhost\"\nupstreams = [\"{upstream}\"]\n\
         [[app.route]]\npath = \"/\"\naccess = \"public\"\n"
    )
}

fn saying(word: &'static str) -> Settings {
    Settings { upstream: Some(application_saying(word)), ..Settings::default() }
}

fn address(instance: &Instance) -> SocketAddr {
    ([127, 0, 0, 1], instance.port).into()
}

/// Returns a host's answer at a path: the status and the body.
fn answer(instance: &Instance, host: &str, path: &str) -> (u16, String) {
    let answer = Connection::open(address(instance)).unwrap().ask(host, path).unwrap();
    (answer.status, answer.body)
}

/// Changes the text of the configuration file.
pub(super) fn edit(instance: &Instance, from: &str, to: &str) {
    let text = fs::read_to_string(instance.config()).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(instance.config(), text.replace(from, to)).unwrap();
}

/// Asserts that a reload is rejected, and returns its error.
#[track_caller]
pub(super) fn refused(instance: &Instance) -> String {
    let Output { status, stdout, stderr } = instance.try_run(&["reload"], "");
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(stdout.is_empty() && said.contains("nothing was changed"), "{said}");
    said
}

async fn metrics(instance: &Instance) -> String {
    reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap()
}

#[test]
fn reloads_under_load_lose_no_request_and_no_connection() {
    let mut settings = saying("first");
    let instance = Instance::started(&settings);
    let host = "app.localhost";
    // Six clients keep a connection through all reloads; two open one for each request.
    let manners = [&[Manner::Holds; 6][..], &[Manner::Opens; 2]].concat();
    let load = Load::start(address(&instance), host, "/public/x", "first", &manners);
    for round in 0..12_usize {
        // Each round makes another change: an application that is added and removed, a limit, a
        // timeout of the application under load.
        settings.sections = format!("[rate_limits]\ntoken = {}\n", 100 + round);
        if round % 2 == 0 {
            settings.sections += &app("second", "http://127.0.0.1:9");
        }
        instance.configure(&settings);
        edit(&instance, "name = \"legacy\"", &format!("name = \"legacy\"\nread_timeout_seconds = {}", 30 + round));
        let said = instance.run(&["reload"]);
        assert!(said.contains("app legacy: read_timeout_seconds") && said.contains("rate_limits.token"), "{said}");
        // Waits for requests between two reloads.
        std::thread::sleep(Duration::from_millis(50));
    }
    for (manner, tally) in load.stop() {
        eprintln!("{manner:?}: {} answered, the longest took {:?}", tally.answered, tally.longest);
        assert_eq!(tally.failures, Vec::<String>::new());
        assert!(tally.answered > 20, "{tally:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_applies_changed_applications_upstreams_and_rules_at_once() {
    let mut settings = saying("first");
    let instance = Instance::started(&settings);
    assert_eq!(answer(&instance, "second.localhost", "/").0, 421);
    assert_eq!(answer(&instance, "app.localhost", "/public/x"), (200, "first".into()));

    let other = application_saying("other");
    settings.sections = app("second", &application_saying("second"));
    settings.upstream = Some(other);
    instance.configure(&settings);
    edit(&instance, "path = \"/api/\"", "path = \"/api2/\"");
    let told = instance.json(&["reload"]);
    assert_eq!(told["config"], instance.config().to_str().unwrap());
    assert_eq!(told["changed"], serde_json::json!(["app second: added", "app legacy: upstreams, route"]));
    assert_eq!(answer(&instance, "second.localhost", "/"), (200, "second".into()));
    assert_eq!(answer(&instance, "app.localhost", "/public/x"), (200, "other".into()));

    edit(&instance, "access = \"public\"", "access = \"bearer\"");
    settings.sections.clear();
    assert_eq!(
        instance.run(&["reload"]).lines().skip(1).collect::<Vec<_>>(),
        ["app second: route", "app legacy: route"]
    );
    assert_eq!(answer(&instance, "app.localhost", "/public/x").0, 401);
    instance.configure(&settings);
    instance.run(&["reload"]);
    assert_eq!(answer(&instance, "second.localhost", "/").0, 421);
    assert!(instance.run(&["reload"]).ends_with("no changes\n"));

    let metrics = metrics(&instance).await;
    for line in [
        "sealgate_config_reloads_total{result=\"applied\"} 4",
        "sealgate_config_last_reload_successful 1",
        "sealgate_config_last_reload_success_timestamp_seconds 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let events = instance.json(&["audit", "list", "--kind", "configuration_reloaded"]);
    let events = events["events"].as_array().unwrap();
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events.iter().any(|event| event["detail"] == "app second: added; app legacy: upstreams, route"));
    assert!(events.iter().all(|event| event["actor"] == "operator"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_changes_nothing_and_is_reported_to_the_caller_and_in_the_log() {
    let settings = saying("first");
    let instance = Instance::started(&settings);
    // Valid changes next to the errors are not applied either.
    let sections = app("second", &application_saying("second")) + "[rate_limits]\ntoken = 0\n";
    instance.configure(&Settings { sections, ..settings.clone() });
    edit(&instance, "access = \"signed_in\"", "access = \"everybody\"");
    let said = refused(&instance);
    for fault in ["rate_limits.token: 0 is out of range", "app[1].route[2].access: \"everybody\" is not known"] {
        assert!(said.contains(fault), "{said}");
        instance.tells(fault.split('"').next().unwrap());
    }
    assert_eq!(answer(&instance, "second.localhost", "/").0, 421);
    assert_eq!(answer(&instance, "app.localhost", "/public/x"), (200, "first".into()));

    // Invalid TOML.
    fs::write(instance.config(), fs::read_to_string(instance.config()).unwrap() + "\n[log\n").unwrap();
    assert!(refused(&instance).contains("not TOML"));
    fs::remove_file(instance.config()).unwrap();
    assert!(refused(&instance).contains("cannot be read"));

    instance.configure(&settings);
    instance.run(&["reload"]);
    assert_eq!(answer(&instance, "app.localhost", "/public/x"), (200, "first".into()));
    let metrics = metrics(&instance).await;
    assert!(metrics.contains("sealgate_config_reloads_total{result=\"applied\"} 1"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_needs_a_restart_changes_nothing() {
    let settings = saying("first");
    let instance = Instance::started(&settings);
    instance.configure(&Settings { sections: app("second", "http://127.0.0.1:9"), ..settings.clone() });
    let listen = format!("listen = [\"127.0.0.1:{}\"]", instance.port);
    edit(&instance, &listen, &format!("{listen}\nthreads = 3\nidle_timeout_seconds = 7"));
    edit(&instance, "[hsm]", "[hsm]\nqueue = 77");
    let said = refused(&instance);
    let keys: Vec<_> = said.lines().filter(|line| line.ends_with("requires a restart")).collect();
    assert_eq!(
        keys,
        [
            "error: server.threads: a change requires a restart",
            "error: server.idle_timeout_seconds: a change requires a restart",
            "error: hsm.queue: a change requires a restart",
        ]
    );
    assert_eq!(answer(&instance, "second.localhost", "/").0, 421);
    let metrics = metrics(&instance).await;
    for line in ["sealgate_config_reloads_total{result=\"refused\"} 1", "sealgate_config_last_reload_successful 0"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn sighup_reloads_and_writes_a_log_line() {
    let mut settings = saying("first");
    let instance = Instance::started(&settings);
    let quiet = "[log]\nfilter = \"warn,sealgate::app::reload=info\"\n";
    settings.sections = app("second", &application_saying("second")) + quiet;
    assert_eq!(answer(&instance, "app.localhost", "/public/before"), (200, "first".into()));
    wait_until("requests are logged", || instance.log().contains("/public/before"));
    instance.configure(&settings);
    instance.signal("HUP");
    wait_until("the log has the reload", || instance.log().contains("reloaded the configuration"));
    assert_eq!(answer(&instance, "second.localhost", "/"), (200, "second".into()));

    settings.sections = "[registration]\nmode = \"perhaps\"\n".into();
    instance.configure(&settings);
    instance.signal("HUP");
    wait_until("the log has the refusal", || instance.log().contains("the configuration was not reloaded"));
    let log = instance.log();
    assert!(log.contains("registration.mode: "), "{log}");
    // Log lines are written in order: a line of the last request would be before the refusal.
    assert!(!log.contains("second.localhost"), "the log says less: {log}");
    assert_eq!(answer(&instance, "second.localhost", "/"), (200, "second".into()));
}

#[test]
fn a_reload_applies_request_limits_at_once() {
    let mut settings = saying("first");
    let instance = Instance::started(&settings);
    let host = format!("localhost:{}", instance.port);
    assert_eq!(answer(&instance, &host, "/oauth/jwks").0, 200);
    settings.sections = "[rate_limits]\njwks = 1\n".into();
    instance.configure(&settings);
    assert!(instance.run(&["reload"]).ends_with("rate_limits.jwks\n"));
    assert_eq!(answer(&instance, &host, "/oauth/jwks").0, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_websocket_survives_reloads_until_its_rule_is_removed() {
    let upstream = format!("http://{}", streams());
    let mut settings = Settings { upstream: Some(upstream.clone()), ..Settings::default() };
    let instance = Instance::started(&settings);
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let mut socket = websocket(&instance, &browser).await;
    // A second application, and changes of the existing one: a further upstream, another timeout, a
    // rule for another path.
    settings.sections = app("second", "http://127.0.0.1:9");
    settings.upstream = Some(format!("{upstream}\", \"http://{}", streams()));
    instance.configure(&settings);
    edit(&instance, "path = \"/api/\"", "path = \"/api2/\"");
    edit(&instance, "name = \"legacy\"", "name = \"legacy\"\nread_timeout_seconds = 30");
    let changed = instance.run(&["reload"]);
    assert!(changed.contains("app legacy: upstreams, route, read_timeout_seconds"), "{changed}");
    // Longer than the interval of the checks of long-lived streams: the stream must continue.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    socket.write_all(b"still").await.unwrap();
    let mut echoed = [0; 5];
    timeout(Duration::from_secs(5), socket.read_exact(&mut echoed)).await.unwrap().unwrap();
    assert_eq!(&echoed, b"still");

    // No rule permits its path any more.
    edit(
        &instance,
        "path = \"/\"\n                access = \"signed_in\"",
        "path = \"/only/\"\n access = \"signed_in\"",
    );
    instance.run(&["reload"]);
    timeout(Duration::from_secs(1), closes(socket)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_websocket_ends_when_its_host_moves_to_another_application() {
    let upstream = Some(format!("http://{}", streams()));
    let instance = Instance::started(&Settings { upstream, ..Settings::default() });
    let browser = Browser::new(&instance);
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
    let socket = websocket(&instance, &browser).await;
    // The new application would permit the same user, but it is another application.
    edit(&instance, "name = \"legacy\"", "name = \"heir\"");
    edit(&instance, "access = \"signed_in\"", "access = \"public\"");
    assert_eq!(instance.json(&["reload"])["changed"], serde_json::json!(["app heir: added", "app legacy: removed"]));
    timeout(Duration::from_secs(1), closes(socket)).await.unwrap();
}

#[test]
fn systemd_is_notified_of_the_start_and_the_end_of_a_reload() {
    let mut instance = Instance::prepare(&saying("first"));
    let path = instance.directory.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let told = || {
        let mut buffer = [0; 4096];
        let length = systemd.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    instance.environment.push(("NOTIFY_SOCKET", path.to_str().unwrap().to_owned()));
    instance.start();
    assert_eq!(told(), "READY=1\n");
    instance.run(&["reload"]);
    edit(&instance, "[server]", "[server]\nthreads = 3");
    refused(&instance);
    for _ in 0..2 {
        let begin = told();
        let since = begin.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{begin}"));
        assert!(since.trim_end().parse::<u64>().is_ok_and(|since| since > 0), "{begin}");
        assert_eq!(told(), "READY=1\n");
    }
    instance.stop();
    assert_eq!(told(), "STOPPING=1\n");
}

#[test]
fn a_stopped_server_cannot_reload() {
    let instance = Instance::prepare(&Settings::default());
    let output = instance.try_run(&["reload"], "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("no server answers on") && said.contains("admin.sock"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_reloads_the_configuration_in_the_console() {
    let mut settings = saying("first");
    settings.sections = "[console]\nenabled = true\n[rate_limits]\ntoken = 70\n".to_owned();
    let instance = Instance::started(&settings);
    instance.run(&["user", "set", "anna@example.test", "--role", "admin"]);
    let (browser, url) = (Browser::new(&instance), instance.url("/console/settings"));
    let page = browser.go(&url).await;
    assert!(page.body.contains("id=\"file-same\""), "{page:?}");

    edit(&instance, "token = 70", "token = 71");
    let page = browser.open(&url).await;
    assert!(page.body.contains("id=\"file-changed\"") && page.body.contains("rate_limits.token"), "{page:?}");
    let plan = browser.submit(&page, &[("action", "reload")]).await;
    assert!(plan.body.contains("<code>70</code>") && plan.body.contains("<code>71</code>"), "{plan:?}");
    // The administrator has not confirmed this content.
    edit(&instance, "token = 71", "token = 72");
    let plan = browser.submit(&plan, &[("sure", "yes")]).await;
    assert!(plan.body.contains("id=\"reload-meanwhile\"") && plan.body.contains("<code>72</code>"), "{plan:?}");
    let page = browser.submit(&plan, &[("sure", "yes")]).await;
    assert!(page.body.contains("id=\"reload-changed\"") && page.body.contains("id=\"file-same\""), "{page:?}");
    let page = browser.open(&instance.url("/console/settings?section=rate_limits")).await;
    assert!(page.body.contains("<code>72</code>"), "{page:?}");
    assert!(instance.run(&["reload"]).ends_with("no changes\n"));

    // A change that needs a restart is refused, and changes nothing.
    edit(&instance, "[console]", "[login]\npassword_threads = 1\n[console]");
    let page = browser.submit(&browser.open(&url).await, &[("action", "reload")]).await;
    assert!(page.body.contains("id=\"needs-restart\"") && page.body.contains("login.password_threads"), "{page:?}");
    edit(&instance, "issuer = ", "issuerr = ");
    let page = browser.open(&url).await;
    assert!(page.body.contains("id=\"file-faulty\"") && page.body.contains("issuerr"), "{page:?}");

    // The export comes in parts over the network, and has the reloads with their actors.
    edit(&instance, "issuerr = ", "issuer = ");
    let export = instance.url("/console/audit/export?format=ndjson&kind=configuration_reloaded");
    let file = browser.get(&export).await;
    assert_eq!(file.headers.get("transfer-encoding").unwrap(), "chunked", "{file:?}");
    let actors: Vec<bool> = file.body.lines().map(|line| line.contains("administrator")).collect();
    assert_eq!(actors, [false, true], "{file:?}");
}
