//! The npm package `oidc-provider` as an OpenID provider.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::support::{Browser, free_port};

/// Secret of Sealgate at the provider.
pub(super) const CLIENT_SECRET: &str = "the secret of sealgate at the provider";

/// Running provider. Stopped on drop.
pub(super) struct NodeProvider {
    port: u16,
    child: Child,
}

impl NodeProvider {
    /// Starts a provider that returns browsers to this URL.
    pub(super) fn start(redirect_uri: &str) -> Self {
        let port = free_port();
        let mut child = Command::new("node")
            .arg(installed().join("provider.mjs"))
            .args([&port.to_string(), CLIENT_SECRET, redirect_uri])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node is missing: run .ci/install test");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the provider ended");
        }
        // The provider writes notices later, and would be ended by a closed pipe.
        std::thread::spawn(move || output.lines().for_each(drop));
        Self { port, child }
    }

    pub(super) fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends a signal, such as `STOP`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Opens the URL that ends a session at the provider, and confirms. Returns the URL to which the
    /// provider returns the browser.
    pub(super) async fn sign_out(&self, browser: &Browser, url: &str) -> String {
        assert!(url.starts_with(&self.issuer()), "{url} is not at this provider");
        let page = browser.open(url).await;
        assert_eq!(page.status, 200, "{page:?}");
        let start = page.body.find("name=\"xsrf\" value=\"").unwrap_or_else(|| panic!("no form: {page:?}")) + 19;
        let xsrf = page.body[start..].split('"').next().unwrap().to_owned();
        let action = format!("{}/session/end/confirm", self.issuer());
        let form = [("xsrf", xsrf.as_str()), ("logout", "yes")];
        let page = browser.send(browser.client().post(action).form(&form)).await;
        page.location().unwrap_or_else(|| panic!("no redirect: {page:?}"))
    }

    /// Signs a user in at the provider. Returns the URL to which the provider returns the browser.
    pub(super) async fn sign_in(&self, browser: &Browser, url: &str, user: &str) -> String {
        let page = browser.open(url).await;
        // A user who is signed in gets no page.
        let page = if page.status == 200 {
            let form = [("prompt", "login"), ("login", user), ("password", "any")];
            browser.send(browser.client().post(&page.url).form(&form)).await
        } else {
            page
        };
        let mut next = page.location().unwrap_or_else(|| panic!("no redirect: {page:?}"));
        for _ in 0..5 {
            if !next.starts_with(&self.issuer()) {
                return next;
            }
            let page = browser.get(&next).await;
            next = page.location().unwrap_or_else(|| panic!("no redirect: {page:?}"));
        }
        panic!("the provider does not return the browser");
    }
}

impl Drop for NodeProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder with the installed package. Installs it again when the lock file has changed.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blackbox/oidc-provider");
        let (lock, stamp) = (folder.join("package-lock.json"), folder.join("node_modules/.sealgate-lock"));
        let wanted = fs::read(lock).unwrap();
        if fs::read(&stamp).ok().as_ref() != Some(&wanted) {
            let npm = Command::new("npm")
                .args(["ci", "--silent", "--no-audit", "--no-fund"])
                .current_dir(&folder)
                .status()
                .expect("npm is missing: run .ci/install test");
            assert!(npm.success(), "npm ci in {}", folder.display());
            fs::write(stamp, wanted).unwrap();
        }
        folder
    })
}
