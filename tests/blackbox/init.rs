//! `sealgate init` from an empty directory to a signed-in administrator at the application.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Browser, PASSWORD, Upstream, free_port, wait_until};

/// A server process. It is killed when dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts the server of an installation in `directory`, and waits until it answers.
    pub(crate) fn start(directory: &Path) -> Self {
        let server = Self(sealgate(directory, &["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the server answers", || sealgate(directory, &["status"]).output().unwrap().status.success());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sealgate(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
    command.args(arguments).args(["--config", "sealgate.toml"]).current_dir(directory);
    command.env_remove("SOFTHSM2_CONF").env_remove("CREDENTIALS_DIRECTORY").stdin(Stdio::null());
    command
}

/// Runs a command in an installation, and returns its JSON.
pub(crate) fn json(directory: &Path, arguments: &[&str]) -> Value {
    let output = sealgate(directory, arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_becomes_a_protected_application_with_one_command() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = directory.path();
    let (upstream, port) = (Upstream::start(), free_port());
    let (issuer, target) = (format!("http://localhost:{port}"), format!("app.localhost={}", upstream.url()));
    let arguments =
        ["init", "--state", "state", "--issuer", &issuer, "--protect", &target, "--admin", "anna@example.test"];
    let made = json(directory, &arguments);
    assert_eq!(made["warnings"], Value::Array(Vec::new()), "{made}");
    let link = made["link"].as_str().unwrap().to_owned();
    assert!(link.starts_with(&format!("{issuer}/oauth/invitation?token=")), "{link}");

    let server = Server::start(directory);
    let browser = Browser::at(port);
    let page = browser.open(&link).await;
    let page = browser.submit(&page, &[("new-password", PASSWORD)]).await;
    assert!(page.body.contains("id=\"login-submit\""), "{page:?}");
    let page = browser.sign_in(&page).await;
    assert_eq!(page.status, 200, "{page:?}");
    let page = browser.open(&format!("http://app.localhost:{port}/hello")).await;
    assert!(page.status == 200 && page.body.contains("anna@example.test"), "{page:?}");
    let console = browser.open(&format!("{issuer}/console")).await;
    assert_eq!(console.status, 200, "an administrator: {console:?}");
    assert_ne!(Browser::at(port).open(&link).await.status, 200, "the link works once");

    // While the server runs, no step is left to do.
    let again = json(directory, &arguments);
    let states = |made: &Value| -> Vec<String> {
        made["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap().to_owned()).collect()
    };
    assert!(states(&again).iter().all(|state| state == "exists") && again["link"].is_null(), "{again}");

    let chat = format!("chat.localhost={}", upstream.url());
    let added = json(directory, &["app", "add", &chat]);
    assert_eq!(added["reloaded"]["changed"], serde_json::json!(["app chat: added"]), "{added}");
    let answer = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--resolve", &format!("chat.localhost:{port}:127.0.0.1")])
        .arg(format!("http://chat.localhost:{port}/"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "401", "protected at once");
    json(directory, &["app", "remove", "chat"]);
    drop(server);
}
