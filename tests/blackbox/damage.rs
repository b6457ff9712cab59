//! Tests stores with a damaged log. The store never returns to an earlier state: revoked tokens
//! stay revoked and disabled users stay disabled, or the server refuses to start and reports why.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::backup::{LIMITS, granted, refresh};
use crate::support::{Browser, Instance, PASSWORD, Settings};

const OTHER: &str = "boris@example.test";

/// Server with a revoked refresh token and a disabled user, which are the last changes of its
/// store.
struct Scene {
    instance: Instance,
    secret: String,
    revoked: String,
}

impl Scene {
    async fn set() -> Self {
        let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
        let secret = instance.add_confidential_client("web");
        let person = ["user", "add", OTHER, "--name", "Boris", "--email-verified", "--password-stdin"];
        instance.run_with_input(&person, PASSWORD);
        instance.start();
        let browser = Browser::new(&instance);
        let revoked = granted(&instance, &secret, &browser).await;
        instance.run(&["grant", "revoke-all", "--user", "anna@example.test"]);
        instance.run(&["user", "disable", OTHER]);
        Self { instance, secret, revoked }
    }

    fn log_file(&self) -> PathBuf {
        self.instance.store().join("db")
    }

    fn keep(&self, name: &str) -> PathBuf {
        let to = self.instance.directory.path().join(name);
        copy(&self.instance.store(), &to);
        to
    }

    fn lay_back(&self, from: &Path) {
        fs::remove_dir_all(self.instance.store()).unwrap();
        copy(from, &self.instance.store());
    }

    /// Starts the server on the present files. Either it serves and nothing was undone, or it
    /// refused with a message. Returns whether it serves.
    async fn holds(&mut self) -> bool {
        let before = self.instance.log().len();
        self.instance.launch();
        if self.instance.is_ready_or_has_ended() {
            let (status, body) = refresh(&self.instance, &self.secret, &self.revoked).await;
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a revoked token works again");
            let people = self.instance.run(&["user", "list"]);
            assert!(people.lines().any(|line| line.contains(OTHER) && line.contains("disabled")), "{people}");
            self.instance.kill();
            return true;
        }
        assert_eq!(self.instance.wait_for_end(), Some(1));
        let log = self.instance.log();
        let said = &log[before..];
        assert!(said.contains("has lost committed changes") || said.contains("is damaged"), "{said}");
        false
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn flip(file: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Returns the end of the log's data: the rest of its last segment is zeros.
fn written(log: &Path) -> u64 {
    let bytes = fs::read(log).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

/// Distances of the flipped bytes from the end of the log, denser towards the end.
const BACK: [u64; 12] = [1, 9, 40, 90, 200, 420, 900, 2_000, 4_500, 9_000, 19_000, 40_000];

/// Flips one byte of the log at a time. Returns the positions at which the server refused to start.
/// At the other positions, the log is no longer read.
async fn noticed(scene: &mut Scene, whole: &Path) -> Vec<u64> {
    let end = written(&whole.join("db"));
    let mut noticed = Vec::new();
    for at in BACK.iter().filter_map(|back| end.checked_sub(*back)) {
        scene.lay_back(whole);
        flip(&scene.log_file(), at);
        if !scene.holds().await {
            noticed.push(at);
        }
    }
    assert!(!noticed.is_empty());
    noticed
}

async fn flips(scene: &mut Scene) {
    let whole = scene.keep("whole");
    assert!(scene.holds().await, "the store is whole");
    let at = noticed(scene, &whole).await[0];
    // A start that was refused is refused again: opening the store has not repaired it.
    scene.lay_back(&whole);
    flip(&scene.log_file(), at);
    assert!(!scene.holds().await);
    assert!(!scene.holds().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_restores_no_old_data_after_a_clean_stop() {
    let mut scene = Scene::set().await;
    assert_eq!(scene.instance.stop(), Some(0));
    flips(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_restores_no_old_data_after_a_kill() {
    let mut scene = Scene::set().await;
    scene.instance.kill();
    flips(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_can_be_accepted_explicitly_and_revokes_all_access() {
    let mut scene = Scene::set().await;
    scene.instance.kill();
    let whole = scene.keep("whole");
    let at = noticed(&mut scene, &whole).await[0];
    scene.lay_back(&whole);
    flip(&scene.log_file(), at);
    assert!(!scene.holds().await);
    let refused = String::from_utf8(scene.instance.try_run(&["user", "list"], "").stderr).unwrap();
    assert!(refused.contains("restore a backup, or move the directory away"), "{refused}");
    let moved = scene.instance.directory.path().join("moved");
    fs::rename(scene.instance.store(), &moved).unwrap();
    let restore = ["restore", "--from", moved.to_str().unwrap()];
    let refused = scene.instance.try_run(&restore, "");
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("has lost committed changes (") && words.contains("--accept-loss"), "{words}");
    assert!(!scene.instance.store().exists() && !scene.instance.directory.path().join("store.new").exists());
    scene.instance.run(&[&restore[..], &["--accept-loss"]].concat());
    scene.instance.start();
    let (status, body) = refresh(&scene.instance, &scene.secret, &scene.revoked).await;
    assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a revoked token works again");
    assert!(scene.instance.run(&["user", "list"]).contains("anna@example.test"));
    assert_eq!(scene.instance.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_its_watermark_is_not_opened() {
    let mut scene = Scene::set().await;
    assert_eq!(scene.instance.stop(), Some(0));
    fs::remove_file(scene.instance.store().join("watermark")).unwrap();
    assert!(!scene.holds().await);
    assert!(!scene.instance.store().join("watermark").exists());
}

/// sled opens most of these without an error.
#[test]
fn a_damaged_backup_is_not_restored_and_the_check_says_so() {
    let instance = Instance::prepare(&Settings::default());
    let backup = instance.directory.path().join("backup");
    let from = backup.to_str().unwrap();
    let made = instance.json(&["backup", "--to", from]);
    let check = ["restore", "--check", "--from", from];
    let checked: Value = instance.json(&check);
    assert_eq!(checked["records"], made["records"]);
    let whole = instance.directory.path().join("whole");
    copy(&backup, &whole);
    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    let log = backup.join("db");
    let end = written(&log);
    let mut refused = 0;
    for at in (0..24).map(|part| end * part / 24 + 3).chain([end - 1]) {
        fs::remove_dir_all(&backup).unwrap();
        copy(&whole, &backup);
        flip(&log, at);
        for (command, done) in [(&check[..], "store.check"), (&["restore", "--from", from], "store")] {
            let output = instance.try_run(command, "");
            let words = String::from_utf8(output.stderr).unwrap();
            if output.status.success() {
                // The flipped bit is at a position that is no longer read: the content equals the
                // saved content.
                if done == "store" {
                    assert!(instance.run(&["user", "list"]).contains("anna@example.test"));
                    fs::remove_dir_all(instance.store()).unwrap();
                }
            } else {
                refused += 1;
                assert_eq!(output.status.code(), Some(1), "byte {at}: {words}");
                let last = words.lines().last().unwrap_or_default();
                assert!(last.starts_with("error: ") && last.contains("nothing was restored"), "byte {at}: {words}");
            }
            for left in ["store", "store.new", "store.check", "store.check.new"] {
                assert!(!instance.directory.path().join(left).exists(), "byte {at}: {left} is left behind");
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

/// A backup from before digests existed can be restored, and is not reported as verified.
#[test]
fn a_backup_without_a_digest_is_restored_but_not_verified() {
    let instance = Instance::prepare(&Settings::default());
    let backup = instance.directory.path().join("backup");
    let from = backup.to_str().unwrap();
    instance.run(&["backup", "--to", from]);
    fs::remove_file(backup.join("watermark")).unwrap();
    let database = sled::open(&backup).unwrap();
    database.insert(b"\x02format", &[1]).unwrap();
    database.remove(b"\x02state").unwrap();
    drop(database);
    let checked = instance.try_run(&["restore", "--check", "--from", from], "");
    assert_eq!(checked.status.code(), Some(3), "{}", String::from_utf8_lossy(&checked.stderr));
    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    assert!(instance.run(&["restore", "--from", from]).contains("could not be verified"));
    assert!(instance.run(&["user", "list"]).contains("anna@example.test"));
    assert!(instance.store().join("watermark").exists());
}
