//! `sealgate init` and `sealgate app`, from an empty directory.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{run, stderr};

const ISSUER: &str = "http://localhost:18080";

/// An empty directory for one installation.
struct Place {
    disk: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { disk: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    fn config(&self) -> String {
        fs::read_to_string(self.path("sealgate.toml")).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
        command.args(arguments).arg("--config").arg(self.path("sealgate.toml")).current_dir(self.disk.path());
        run(command.env_remove("SOFTHSM2_CONF").env_remove("CREDENTIALS_DIRECTORY"), "")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn errors(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    }

    fn init(&self, more: &[&str]) -> Value {
        self.json(&[&["init", "--state", "state"], more].concat())
    }

    /// Sets up the issuer with an administrator.
    fn init_all(&self) -> Value {
        self.init(&["--issuer", ISSUER, "--admin", "anna@example.test"])
    }
}

/// Returns the state of each step.
fn states(made: &Value) -> Value {
    let steps = made["steps"].as_array().unwrap().iter();
    steps
        .map(|step| (step["step"].as_str().unwrap().to_owned(), step["state"].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_first_run_creates_everything_and_the_second_run_nothing() {
    let place = Place::new();
    let made = place.init_all();
    for (step, state) in states(&made).as_object().unwrap() {
        assert_eq!(state, "created", "{step}: {made}");
    }
    for secret in ["state", "state/pin", "state/softhsm", "state/softhsm/so-pin", "state/store"] {
        assert_eq!(mode(&place.path(secret)) & 0o077, 0, "{secret}");
    }
    let config = place.config();
    assert_eq!(place.json(&["check"])["warnings"], json!([]), "{config}");
    let kept = ["issuer", "[server]", "[hsm]", "[store]", "[console]"];
    assert!(kept.iter().all(|section| config.contains(section)) && config.lines().count() < 30, "{config}");

    let again = place.init_all();
    let invited = "invited again; the earlier link is invalid";
    let expected = json!({"PIN file": "exists", "administrator": invited, "configuration": "exists", "signing key": "exists", "token": "exists"});
    assert_eq!(states(&again), expected);
    assert!(again["link"] != made["link"] && again["link"].is_string(), "{again}");
    assert_eq!(place.config(), config);
    let users = place.json(&["user", "list"]);
    assert_eq!((users["users"].as_array().unwrap().len(), &users["users"][0]["roles"]), (1, &json!(["admin"])));
}

#[test]
fn a_run_continues_after_an_earlier_run_was_killed() {
    // Files that a run leaves if it is killed after each of its steps.
    let all: [&[&str]; 5] = [
        &["sealgate.toml", "state/store", "state/softhsm", "state/pin"],
        &["sealgate.toml", "state/store", "state/softhsm"],
        &["sealgate.toml", "state/store", "state/softhsm/tokens"],
        &["state/store", "state/softhsm/tokens"],
        &["state/store"],
    ];
    for missing in all {
        let place = Place::new();
        place.init_all();
        for name in missing {
            let path = place.path(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.unwrap();
        }
        if missing.contains(&"sealgate.toml") {
            fs::write(place.path(".sealgate.toml.new"), "half a fi").unwrap();
        }
        let made = place.init_all();
        assert!(made["link"].is_string(), "{missing:?}: {made}");
        assert_eq!(place.json(&["check"])["ok"], true, "{missing:?}");
        assert!(!place.path(".sealgate.toml.new").exists());
    }
}

#[test]
fn a_token_without_a_user_pin_or_keys_is_completed() {
    let place = Place::new();
    place.init_all();
    fs::remove_dir_all(place.path("state/store")).unwrap();
    fs::remove_dir_all(place.path("state/softhsm/tokens")).unwrap();
    fs::create_dir(place.path("state/softhsm/tokens")).unwrap();
    // `softhsm2-util` always sets the PIN; deleting the keys leaves an initialised token.
    let pin = |name: &str| fs::read_to_string(place.path(name)).unwrap().trim().to_owned();
    let output = Command::new("softhsm2-util")
        .args(["--init-token", "--free", "--label", "sealgate", "--pin", &pin("state/pin")])
        .args(["--so-pin", &pin("state/softhsm/so-pin")])
        .env("SOFTHSM2_CONF", place.path("state/softhsm/softhsm2.conf"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let made = place.init_all();
    assert_eq!((&states(&made)["token"], &states(&made)["signing key"]), (&json!("exists"), &json!("created")));
}

#[test]
fn a_lost_pin_and_another_issuer_are_reported_and_nothing_is_replaced() {
    let place = Place::new();
    place.init_all();
    fs::remove_file(place.path("state/pin")).unwrap();
    let errors = place.errors(&["init", "--state", "state"]);
    assert!(
        errors.contains("the file with its PIN is missing: restore") && !place.path("state/pin").exists(),
        "{errors}"
    );
    let other = place.errors(&["init", "--state", "state", "--issuer", "http://localhost:18081"]);
    assert!(other.contains("exists, with the issuer http://localhost:18080"), "{other}");
}

#[test]
fn invalid_arguments_create_nothing() {
    let place = Place::new();
    let init = ["init", "--state", "state", "--admin", "anna@example.test"];
    let cases: [(&[&str], i32, &str); 10] = [
        (&[], 2, "give --issuer URL"),
        (&["--issuer", "https://id.example.com"], 2, "--tls CERT,KEY, --acme or --behind-proxy"),
        (&["--issuer", "http://id.example.com"], 1, "--issuer: http is only allowed on localhost"),
        (&["--issuer", ISSUER, "--protect", "wiki.localhost=ftp://x"], 1, "app[0].upstreams"),
        (&["--issuer", ISSUER, "--protect", "wiki.localhost"], 2, "write HOST=URL"),
        (&["--issuer", ISSUER, "--tls", "a,b", "--behind-proxy"], 2, "cannot be used with"),
        (&["--issuer", ISSUER, "--acme", "--behind-proxy"], 2, "cannot be used with"),
        (&["--issuer", "https://id.example.com", "--acme=ftp://ca"], 1, "acme.directory"),
        (&["--issuer", ISSUER, "--acme-ca", "ca.pem"], 2, "--acme"),
        (&["--issuer", ISSUER, "--listen", "here"], 1, "server.listen"),
    ];
    for (more, code, told) in cases {
        let output = place.run(&[&init[..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
        assert_eq!(fs::read_dir(place.disk.path()).unwrap().count(), 0, "{more:?}");
    }
    // The files of a certificate are checked before the configuration is written.
    let output =
        place.run(&[&init[..], &["--issuer", "https://id.localhost:18443", "--tls", "no.pem,no.key"]].concat());
    assert!(stderr(&output).contains("no.pem cannot be read") && !place.path("sealgate.toml").exists());
}

#[test]
fn a_dry_run_shows_the_configuration_and_creates_nothing() {
    let place = Place::new();
    let arguments = ["--issuer", "https://id.localhost:18443", "--behind-proxy=10.0.0.0/8", "--dry-run"];
    let made = place.init(&arguments);
    assert_eq!(fs::read_dir(place.disk.path()).unwrap().count(), 0);
    let config = made["configuration"].as_str().unwrap();
    assert!(
        config.contains("trusted_proxies = [\"10.0.0.0/8\"]\n") && config.contains("listen = [\"127.0.0.1:8080\"]")
    );
}

#[test]
fn a_dry_run_with_acme_shows_the_authority() {
    let place = Place::new();
    let made = place.init(&["--issuer", "https://id.localhost", "--acme", "--dry-run"]);
    let config = made["configuration"].as_str().unwrap();
    assert!(config.contains("[acme]\nagree_to_terms = true\n\n[hsm]"), "the default authority: {config}");
    assert!(config.contains("listen = [\"0.0.0.0:443\"]\nredirect_listen = [\"0.0.0.0:80\"]\n"), "{config}");
    let certificates = json!({"step": "certificates", "object": "id.localhost", "state": "would be ordered"});
    assert!(made["steps"].as_array().unwrap().contains(&certificates), "{made}");
}

#[test]
fn problems_outside_of_the_setup_are_reported_with_a_remedy() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let made = place.init(&[
        "--issuer",
        &format!("http://localhost:{port}"),
        "--protect",
        "wiki.invalid=http://127.0.0.1:9",
        "--admin",
        "anna@example.test",
    ]);
    let told = made["warnings"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>();
    let starts = [
        "the name wiki.invalid has no address: add an A or AAAA record",
        &format!("127.0.0.1:{port} is in use: stop"),
        "the application wiki does not answer on 127.0.0.1:9: start it",
    ];
    assert!(told.len() == 3 && told.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{told:?}");
}

#[test]
fn an_existing_token_is_used_with_its_pin() {
    let (place, softhsm) = (Place::new(), crate::softhsm::SoftHsm::with_token("ours"));
    let pin = softhsm.pin_file();
    let arguments = [
        "init",
        "--state",
        "state",
        "--issuer",
        ISSUER,
        "--token",
        "existing",
        "--token-label",
        "ours",
        "--module",
        crate::softhsm::MODULE,
        "--pin-file",
        pin.to_str().unwrap(),
        "--config",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
    command.args(arguments).arg(place.path("sealgate.toml")).current_dir(place.disk.path());
    let output = run(command.env("SOFTHSM2_CONF", softhsm.configuration()), "");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(!place.config().contains("softhsm_conf") && !place.path("state/softhsm").exists());
    assert_eq!(mode(&place.path("state/pin")), 0o600);
}

#[test]
fn applications_are_added_and_removed_in_the_file_with_its_comments() {
    let place = Place::new();
    place.init_all();
    let path = place.path("sealgate.toml");
    let before = place.config().replace("[console]", "# Ours.\n[console] # see the wiki");
    fs::write(&path, &before).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let added =
        place.json(&["app", "add", "wiki.localhost=http://127.0.0.1:8081", "--group", "staff", "--title", "Wiki"]);
    assert_eq!(added, json!({"name": "wiki", "url": "http://wiki.localhost:18080/", "reloaded": null}));
    assert_eq!(mode(&path), 0o640);
    let list = place.json(&["app", "list"]);
    let row = json!({"name": "wiki", "title": "Wiki", "host": "wiki.localhost", "url": "http://wiki.localhost:18080/", "upstreams": ["http://127.0.0.1:8081"], "upstream_protocol": "http/1.1"});
    assert_eq!(list["apps"], json!([row]));
    for (arguments, told) in [
        (["app", "add", "wiki.localhost=http://127.0.0.1:8082"], "is another application's host"),
        (["app", "add", "x.localhost=http://127.0.0.1:18080"], "is Sealgate's own listener"),
        (["app", "remove", "chat"], "no application is called \"chat\""),
    ] {
        let with = place.config();
        let errors = place.errors(&arguments);
        assert!(errors.contains(told) && place.config() == with, "{errors}");
    }
    let previews = place.json(&["app", "add", "*.Previews.localhost=http://127.0.0.1:8083"]);
    let url = "http://*.previews.localhost:18080/";
    assert_eq!(previews, json!({"name": "previews", "url": url, "reloaded": null}));
    assert_eq!(place.json(&["app", "list"])["apps"][1]["url"], url);
    let errors = place.errors(&["app", "add", "*.localhost=http://127.0.0.1:8084"]);
    assert!(errors.contains("has one label after the *; write at least two"), "{errors}");
    place.json(&["app", "remove", "previews"]);
    let second =
        "\n[app.identity_headers]\nX-Name = \"name\"\n\n[[app.route]]\npath = \"/static/\"\naccess = \"public\"\n";
    let with = place.config() + second;
    fs::write(&path, &with).unwrap();
    place.json(&["app", "add", "chat.localhost=http://127.0.0.1:8082"]);
    assert!(place.config().starts_with(&with), "no rule changes its application: {}", place.config());
    place.json(&["app", "remove", "wiki"]);
    place.json(&["app", "remove", "chat"]);
    assert_eq!(place.config(), before);
}
