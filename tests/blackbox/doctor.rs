//! `sealgate doctor`: an installation without faults, and each fault with its remedy.

use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::backup::{LIMITS, granted};
use crate::postgres_server::PostgresServer;
use crate::shim::Call;
use crate::support::{Browser, Instance, Node, Settings, Upstream, free_port, preloaded, wait_until};
use crate::token_tls::use_shim;

const DEVICE_ERROR: u64 = 0x30;
const DEVICE_REMOVED: u64 = 0x32;

/// Result of a run.
struct Report {
    status: Option<i32>,
    found: Value,
}

impl Report {
    fn new(output: &Output) -> Self {
        let error = String::from_utf8_lossy(&output.stderr);
        let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|fault| panic!("{fault}: {error}"));
        Self { status: output.status.code(), found }
    }

    /// Returns the messages of a check, by its name.
    fn of(&self, check: &str) -> Vec<(&str, &str)> {
        let lines = self.found["checks"].as_array().unwrap().iter().filter(|line| line["check"] == check);
        lines.map(|line| (line["state"].as_str().unwrap(), line["message"].as_str().unwrap())).collect()
    }

    #[track_caller]
    fn has(&self, check: &str, state: &str, words: &str) {
        let lines = self.of(check);
        assert!(lines.iter().any(|(is, text)| *is == state && text.contains(words)), "{check}, {words}: {lines:?}");
    }

    #[track_caller]
    fn is_ok(&self, check: &str) {
        let lines = self.of(check);
        assert!(!lines.is_empty() && lines.iter().all(|(state, _)| *state == "ok"), "{check}: {lines:?}");
    }
}

fn doctor(instance: &Instance, arguments: &[&str]) -> Report {
    Report::new(&instance.try_run(&[&["doctor", "--json"], arguments].concat(), ""))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Changes the modification time of a file.
fn shift(path: &Path, time: impl FnOnce(SystemTime) -> SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time(file.metadata().unwrap().modified().unwrap())).unwrap();
}

/// An installation with TLS for `localhost` and `app.localhost`, a trusted certificate and a
/// synchronized clock.
fn healthy(upstream: &str, sections: &str) -> Instance {
    let settings = Settings { sections: sections.to_owned(), upstream: Some(upstream.to_owned()), node: None };
    let mut instance = Instance::prepare(&settings);
    instance.speak_tls();
    mode(&instance.softhsm.tokens(), 0o700);
    let library = preloaded(instance.directory.path(), "clock.c");
    let certificate = instance.directory.path().join("server.pem");
    instance.environment.push(("LD_PRELOAD", library.display().to_string()));
    instance.environment.push(("SSL_CERT_FILE", certificate.display().to_string()));
    instance
}

/// Users for tests that run as root.
const SERVICE_USER: u32 = 65534;
const OTHER_USER: u32 = 65533;

/// Gives the files of an installation to `SERVICE_USER`, and runs its program as that user from now
/// on.
fn run_as_service_user(instance: &mut Instance) {
    let (directory, script) = (instance.directory.path(), instance.directory.path().join("as-user"));
    // The shell writes the script: a file that this process writes could be open in a process that
    // another test starts, and could then not be executed.
    let prepare = "set -e\n\
        printf '#!/bin/sh\\nexec setpriv --reuid=%s --regid=%s --clear-groups %s \"$@\"\\n' \"$3\" \"$3\" \"$4\" >\"$1/as-user\"\n\
        chmod 755 \"$1\" \"$1/as-user\"\n\
        chown -R \"$3:$3\" \"$1\" \"$2\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", prepare, "sh"]).arg(directory).arg(instance.softhsm.root());
    assert!(shell.arg(SERVICE_USER.to_string()).arg(&instance.program).status().unwrap().success());
    instance.program = script;
}

/// Examines an installation as another user than that of the service.
fn doctor_as(user: u32, instance: &Instance) -> Report {
    let mut other = Command::new("setpriv");
    other.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
    other.args([env!("CARGO_BIN_EXE_sealgate"), "doctor", "--json", "--config"]).arg(instance.config());
    Report::new(&other.envs(instance.environment.iter().cloned()).output().unwrap())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A port at which connections are neither accepted nor refused, because the queue of its listener is full.
struct BlackHole {
    port: u16,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            queued.push(stream);
        }
        Self { port: address.port(), _listener: listener, _queued: queued }
    }
}

#[test]
fn a_healthy_installation_passes_every_check() {
    let upstream = Upstream::start();
    let mut instance = healthy(&upstream.url(), "");
    // The tests of a container run as root, but a server should not.
    if is_root() {
        run_as_service_user(&mut instance);
    }
    instance.start();
    let backup = instance.directory.path().join("backup");
    instance.run(&["backup", "--to", backup.to_str().unwrap()]);

    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(0), "{}", report.found);
    assert_eq!(
        (&report.found["warnings"], &report.found["problems"], &report.found["skipped"]),
        (&Value::from(0), &Value::from(0), &Value::from(0))
    );
    let checks = ["configuration", "server", "clock", "certificate", "issuer", "upstream", "bypass", "token", "keys"];
    for check in checks.iter().chain(&["clients", "disk", "backup", "files", "limits", "hardening"]) {
        report.is_ok(check);
    }
    report.has("certificate", "ok", &format!("localhost:{}: the certificate is valid for another", instance.port));
    report.has("certificate", "ok", &format!("app.localhost:{}: the certificate is valid for another", instance.port));
    report.has("upstream", "ok", "the application legacy answers on 127.0.0.1:");

    // The text output has one line for each check, and a summary.
    let text = String::from_utf8(instance.try_run(&["doctor"], "").stdout).unwrap();
    assert!(text.lines().all(|line| line.starts_with("ok ") || line.ends_with(" 0 warnings, 0 problems, 0 skipped")));
    assert!(text.contains("\nok       backup        the last backup is 0 hours old\n"), "{text}");
    assert!(!text.contains(crate::softhsm::PIN));

    if is_root() {
        // Root sees the same. Another user cannot examine everything, and finds no problem.
        instance.program = env!("CARGO_BIN_EXE_sealgate").into();
        let report = doctor(&instance, &[]);
        assert_eq!((report.status, &report.found["skipped"]), (Some(0), &Value::from(0)), "{}", report.found);
        let report = doctor_as(OTHER_USER, &instance);
        assert_eq!((report.status, &report.found["problems"]), (Some(3), &Value::from(0)), "{}", report.found);
        for check in ["configuration", "server", "token", "keys", "disk", "backup", "files", "limits", "hardening"] {
            assert!(report.of(check).iter().any(|(state, _)| *state == "skipped"), "{check}: {}", report.found);
        }
        for check in ["clock", "certificate", "issuer", "upstream", "bypass"] {
            report.is_ok(check);
        }
    }
}

#[test]
fn each_fault_of_a_running_installation_is_named_with_a_remedy() {
    let exposed = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let (open, closed) = (exposed.local_addr().unwrap().port(), free_port());
    let sections = format!(
        r#"
        [[app]]
        name = "dead"
        host = "dead.localhost"
        upstreams = ["http://127.0.0.1:{closed}"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        [[app]]
        name = "half"
        host = "half.invalid"
        upstreams = ["http://127.0.0.1:{closed}", "http://127.0.0.1:{open}"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        [mail]
        host = "127.0.0.1"
        port = {closed}
        tls = "none"
        from = "Sealgate <sealgate@example.test>"
        "#
    );
    let mut instance = healthy(&format!("http://127.0.0.1:{open}"), &sections);
    instance.environment.retain(|(name, _)| *name != "SSL_CERT_FILE");
    instance.environment.push(("CLOCK_UNSYNCHRONIZED", "1".into()));
    instance.start();

    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(2), "{}", report.found);
    report.has("clock", "warning", "install and start chrony");
    report.has("upstream", "problem", &format!("dead does not answer on 127.0.0.1:{closed}: start it"));
    report.has("upstream", "warning", &format!("half does not answer on 127.0.0.1:{closed}: start it"));
    report.has("bypass", "warning", "the application legacy can be reached without a sign-in at ");
    report.has("bypass", "warning", &format!("(it listens on 0.0.0.0:{open}): bind it to 127.0.0.1"));
    report.has("bypass", "ok", "the application dead listens on loopback only");
    report.has("dns", "problem", "the name half.invalid has no address: add an A or AAAA record");
    report.has("mail", "problem", "correct mail.host and mail.port");
    report.has("backup", "warning", "never backed up: sealgate backup --to DIR");
    if is_root() {
        report.has("hardening", "warning", "the server runs as root");
    }
    // No authority of this machine knows the test's certificate.
    report.has("certificate", "warning", "no authority that this machine trusts");
    report.has(
        "certificate",
        "problem",
        "browsers reject the certificate (the certificate is not for dead.localhost): correct",
    );
    assert!(report.of("issuer").is_empty(), "{}", report.found);

    // A check can be left out. If only warnings remain, the exit status differs.
    let named = doctor(&instance, &["--skip", "dns"]);
    assert!(named.of("dns").is_empty() && !named.of("certificate").is_empty(), "{}", named.found);
    let few = ["upstream", "dns", "certificate", "mail"].map(|check| ["--skip", check]).concat();
    assert_eq!(doctor(&instance, &few).status, Some(1));

    let backup = instance.directory.path().join("backup");
    instance.run(&["backup", "--to", backup.to_str().unwrap()]);
    let week = Duration::from_hours(8 * 24 + 1);
    shift(&instance.store().join("last-backup"), |at| at - week);
    mode(&instance.store(), 0o755);
    mode(&instance.config(), 0o666);
    mode(&instance.directory.path().join("server.key"), 0o644);
    let text = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), text.replace("[store]", "[store]\nreserve_bytes = 70368744177664")).unwrap();
    shift(&instance.config(), |at| at + Duration::from_mins(1));
    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(2));
    report.has("backup", "warning", "the last backup is 8 days old: sealgate backup");
    report.has("files", "problem", "store (mode 0755): chmod 0700 ");
    report.has("files", "problem", "sealgate.toml (mode 0666): chmod 0644 ");
    report.has("files", "problem", "server.key (mode 0644): chmod 0640 ");
    report.has("disk", "problem", "less than store.reserve_bytes, so sign-ins are refused");
    report.has("server", "warning", "has changed since the server loaded it: sealgate reload");
    mode(&instance.store(), 0o700);
    mode(&instance.softhsm.pin_file(), 0o644);
    doctor(&instance, &[]).has(
        "configuration",
        "problem",
        "can be accessed by other users (mode 0644); run: chmod 600",
    );

    if is_root() {
        mode(&instance.softhsm.pin_file(), 0o600);
        for directory in instance.directory.path().ancestors().take(1) {
            mode(directory, 0o755);
        }
        let report = doctor_as(OTHER_USER, &instance);
        for check in ["configuration", "server", "disk", "backup", "files"] {
            report.has(check, "skipped", "run this as root");
        }
        report.has("token", "skipped", "only the server can tell, and it did not answer");
        report.has("upstream", "problem", "dead does not answer");
    }
}

#[test]
fn an_expiring_certificate_is_reported_from_the_file_and_the_listener() {
    let upstream = Upstream::start();
    let mut instance = healthy(&upstream.url(), "");
    instance.make_certificate(6);
    instance.start();
    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(1), "{}", report.found);
    report.has("certificate", "warning", "server.pem: the certificate expires in ");
    report.has("certificate", "warning", &format!("localhost:{}: the certificate expires in ", instance.port));
    instance.stop();

    let expired = |kind: &str| format!("{}/tests/config/expired.{kind}.pem", env!("CARGO_MANIFEST_DIR"));
    for (kind, name) in [("certificate", "server.pem"), ("key", "server.key")] {
        fs::copy(expired(kind), instance.directory.path().join(name)).unwrap();
    }
    mode(&instance.directory.path().join("server.key"), 0o600);
    instance.start();
    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(2), "{}", report.found);
    report.has("certificate", "problem", "server.pem: the certificate has expired, and browsers reject it: renew it");
    report.has("certificate", "problem", &format!("localhost:{}: the certificate has expired", instance.port));
}

#[test]
fn a_stopped_server_is_one_problem_and_other_checks_still_run() {
    let upstream = Upstream::start();
    let instance = healthy(&upstream.url(), "");
    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(2));
    assert_eq!(report.found["problems"], 1, "{}", report.found);
    report.has("server", "problem", "admin.sock: start it; its log (journalctl -u sealgate) shows why it stopped");
    for check in ["configuration", "clock", "certificate", "upstream", "bypass", "disk", "files"] {
        report.is_ok(check);
    }
    for check in ["token", "keys", "limits", "hardening"] {
        report.has(check, "skipped", "only a running server can tell");
    }
    // If there are no problems, skipped checks have an exit status of their own.
    let rest = ["server", "backup"].map(|check| ["--skip", check]).concat();
    assert_eq!(doctor(&instance, &rest).status, Some(3));

    let _taken = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, instance.port))).unwrap();
    doctor(&instance, &[]).has("ports", "problem", "is in use: stop the program that");

    fs::write(instance.config(), "issuer = 1\n").unwrap();
    let report = doctor(&instance, &[]);
    assert_eq!(report.status, Some(2));
    report.has("configuration", "problem", "issuer: ");
}

#[test]
fn unresponsive_addresses_and_servers_do_not_delay_the_report() {
    let hole = BlackHole::new();
    let port = hole.port;
    let app = |number| {
        format!(
            "[[app]]\nname = \"a{number}\"\nhost = \"a{number}.localhost\"\nupstreams = [\"http://127.0.0.1:{port}\"]\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n"
        )
    };
    let sections: String = (0..40).map(app).collect();
    let instance = healthy(&format!("http://127.0.0.1:{port}"), &sections);
    let socket = instance.directory.path().join("admin.sock");
    let hanging = UnixListener::bind(&socket).unwrap();
    mode(&socket, 0o600);
    let started = Instant::now();
    let report = doctor(&instance, &[]);
    // If the checks ran one after another, the applications alone would take two minutes.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    assert_eq!(report.status, Some(2));
    report.has("server", "problem", "did not answer within 5 seconds");
    report.has("upstream", "problem", "the application a39 does not answer");
    drop(hanging);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_and_a_slow_or_failing_token_are_reported() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    let shim = use_shim(&instance, "sign_timeout_seconds = 5\n");
    let library = preloaded(instance.directory.path(), "sync.c");
    instance.environment = vec![("LD_PRELOAD", library.display().to_string()), ("SYNC_TAKES", "300".to_owned())];
    instance.start();
    let browser = Browser::new(&instance);
    let report = async || {
        // Commits and signatures: each sign-in makes two or three of both.
        granted(&instance, &secret, &browser).await;
        doctor(&instance, &["--skip", "hardening"])
    };
    let healthy_token = report().await;
    healthy_token.has("disk", "warning", "ms on average: the disk is slow or overloaded, use a faster one");
    healthy_token.is_ok("token");

    shim.delay(Call::Sign, Duration::from_millis(1200));
    report().await.has("token", "warning", "ms on average: check the device and its network");

    shim.heal();
    shim.fail(Call::Sign, DEVICE_ERROR, 1);
    granted(&instance, &secret, &browser).await;
    let failed = doctor(&instance, &[]);
    failed.has("token", "warning", "signatures failed since startup");
    assert_eq!(failed.found["problems"], 0, "{}", failed.found);

    shim.vanish(DEVICE_REMOVED);
    wait_until("the token is found to be missing", || {
        let report = doctor(&instance, &[]);
        report.of("token").iter().any(|(state, message)| *state == "problem" && message.contains("does not sign"))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_cluster_and_their_database_are_examined() {
    let mut server = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
    let database = format!("postgres://sealgate@127.0.0.1:{}/postgres", server.port);
    let settings = Settings { node: Some(Node { name: "a", database, issuer_port: None }), ..Settings::default() };
    let mut node = Instance::bare(&settings);
    node.run(&["store", "init"]);
    node.run(&["key", "generate"]);
    node.start();
    let report = doctor(&node, &[]);
    report.has("database", "warning", "does not wait for a standby");
    report.has("nodes", "ok", "the node a sent a heartbeat ");
    assert!(report.of("backup").is_empty() && report.of("disk").is_empty(), "{}", report.found);
    assert_eq!(node.stop(), Some(0));
    wait_until("the node is missed", || {
        let report = doctor(&node, &[]);
        report.of("nodes").iter().any(|(state, text)| *state == "problem" && text.contains("sealgate node remove a"))
    });
    server.kill();
    doctor(&node, &[]).has("database", "problem", "no database server accepts writes");
}
