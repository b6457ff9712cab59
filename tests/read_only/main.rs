//! A disk that the kernel remounts read-only while the server runs, as it does after a device
//! error.
//!
//! The test mounts an ext4 image. It needs root, a loop device and `mkfs.ext4`, so `cargo test`
//! only builds it, and `make test` runs it where these are available.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/configuration.rs"]
mod configuration;
#[path = "../support/softhsm.rs"]
mod softhsm;
#[path = "../blackbox/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the blackbox tests use the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Browser, Instance, PASSWORD, REDIRECT_URI, Settings, Upstream, wait_until};

/// A small disk, unmounted on drop.
struct Disk {
    image: PathBuf,
    mounted_on: PathBuf,
}

impl Disk {
    fn new(directory: &Path) -> Self {
        let (image, mounted_on) = (directory.join("image"), directory.join("disk"));
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        fs::create_dir(&mounted_on).unwrap();
        succeed(Command::new("mkfs.ext4").arg("-q").arg(&image));
        let disk = Self { image, mounted_on };
        disk.mount();
        disk
    }

    fn mount(&self) {
        succeed(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(&self.image).arg(&self.mounted_on));
    }

    fn unmount(&self) {
        succeed(Command::new("umount").arg(&self.mounted_on));
    }

    /// Triggers a file system error, as a device error would.
    fn meet_an_error(&self) {
        let source =
            succeed(Command::new("findmnt").args(["--noheadings", "--output", "SOURCE"]).arg(&self.mounted_on));
        let device = source.trim().strip_prefix("/dev/").unwrap();
        // This write may return the error that it causes.
        let _ = fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1");
        assert!(fs::write(self.mounted_on.join("probe"), "x").is_err(), "the disk is still writable");
    }

    fn repair(&self) {
        self.unmount();
        // 1: errors were found and corrected.
        let code = Command::new("fsck.ext4").args(["-p", "-f"]).arg(&self.image).output().unwrap().status.code();
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.mounted_on).status();
    }
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}; root and a loop device are needed");
    String::from_utf8(output.stdout).unwrap()
}

async fn token(instance: &Instance, secret: &str, fields: &[(&str, &str)]) -> reqwest::Response {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    http.post(instance.url("/oauth/token")).basic_auth("web", Some(secret)).form(fields).send().await.unwrap()
}

async fn granted(instance: &Instance, secret: &str, browser: &Browser) -> Value {
    let query = format!(
        "client_id=web&response_type=code&scope=openid%20offline_access&redirect_uri={}",
        REDIRECT_URI.replace(':', "%3A").replace('/', "%2F")
    );
    let end = browser.go(&instance.url(&format!("/oauth/authorize?{query}"))).await;
    let code = end.returned("code").unwrap_or_else(|| panic!("{end:?}"));
    let fields = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", REDIRECT_URI)];
    token(instance, secret, &fields).await.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, a loop device and mkfs.ext4: make test-read-only"]
async fn a_disk_that_becomes_read_only_stops_writes_and_loses_nothing() {
    let upstream = Upstream::start();
    let mut instance = Instance::bare(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    let disk = Disk::new(instance.directory.path());
    let text = fs::read_to_string(instance.config()).unwrap();
    let (inside, on_disk) = (instance.store(), disk.mounted_on.join("store"));
    fs::write(instance.config(), text.replace(inside.to_str().unwrap(), on_disk.to_str().unwrap())).unwrap();
    instance.run(&["key", "generate"]);
    let person = ["user", "add", "anna@example.test", "--name", "Anna", "--email-verified"];
    instance.run_with_input(&[&person[..], &["--group", "staff", "--password-stdin"]].concat(), PASSWORD);
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let tokens = granted(&instance, &secret, &browser).await;
    let refresh_token = tokens["refresh_token"].as_str().unwrap();
    browser.go(&instance.app_url("/")).await;

    disk.meet_an_error();
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    for _ in 0..3 {
        let refused = token(&instance, &secret, &fields).await;
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "1");
    }
    let other = Browser::new(&instance);
    for path in ["/oauth/jwks", "/.well-known/openid-configuration"] {
        assert_eq!(other.client().get(instance.url(path)).send().await.unwrap().status(), 200, "{path}");
    }
    let access_token = tokens["access_token"].as_str().unwrap();
    for url in [instance.url("/oauth/userinfo"), instance.app_url("/json")] {
        let answer = other.client().get(&url).bearer_auth(access_token).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{url}");
    }
    assert_eq!(browser.get(&instance.app_url("/json")).await.status, 200, "a session at the gate");
    wait_until("the log tells", || instance.log().contains("read-only"));
    let examined = instance.try_run(&["doctor", "--json", "--skip", "hardening"], "");
    assert_eq!(examined.status.code(), Some(2));
    let found = String::from_utf8(examined.stdout).unwrap();
    // Recent kernels do not report such a disk as read-only to other programs; the server does.
    assert!(found.contains("the store cannot write: its disk became read-only"), "{found}");
    assert!(!instance.has_ended());

    // The kernel does not permit making it writable again: the operator must stop the server and
    // repair the disk.
    instance.stop();
    disk.repair();
    instance.start();
    let renewed = token(&instance, &secret, &fields).await;
    assert_eq!(renewed.status(), 200, "{}", renewed.text().await.unwrap());
    assert_eq!(instance.stop(), Some(0));
    disk.unmount();
}
