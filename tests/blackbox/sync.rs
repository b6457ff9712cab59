//! Tests a disk that fails to write: the program exits instead of guessing the disk's content, and
//! reports what to do.

use std::fs;
use std::path::Path;

use crate::backup::{LIMITS, granted, refresh};
use crate::support::{Browser, Instance, Settings, preloaded};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_flush_ends_the_process_with_a_message_and_the_store_can_be_reopened() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), upstream: None, node: None });
    let secret = instance.add_confidential_client("web");
    let library = preloaded(instance.directory.path(), "sync.c");
    let sign = instance.directory.path().join("fails");
    let variable = |name: &'static str, file: &Path| (name, file.to_str().unwrap().to_owned());
    instance.environment = vec![variable("LD_PRELOAD", &library), variable("SYNC_FAILS", &sign)];
    instance.start();
    let browser = Browser::new(&instance);
    let acknowledged = granted(&instance, &secret, &browser).await;

    fs::write(&sign, "").unwrap();
    let form = [("grant_type", "refresh_token"), ("refresh_token", acknowledged.as_str())];
    let request = browser.client().post(instance.url("/oauth/token")).basic_auth("web", Some(&secret)).form(&form);
    let answer = request.send().await;
    assert!(answer.as_ref().map_or(true, |answer| answer.status() != 200), "nothing was made durable: {answer:?}");
    assert_eq!(instance.wait_for_end(), Some(70));
    let log = instance.log();
    assert!(log.contains("sealgate stops; check the disk of store.path, then start sealgate again"), "{log}");

    // The outcome of the refresh was not reported. The previous token is either valid or counts as
    // replayed, but is never unknown.
    fs::remove_file(&sign).unwrap();
    instance.start();
    // Until the process that ended counts as silent, the server does not decide.
    let (mut status, mut body) = refresh(&instance, &secret, &acknowledged).await;
    for _ in 0..20 {
        if status == 503 {
            (status, body) = refresh(&instance, &secret, &acknowledged).await;
        }
    }
    let known = status == 200 || body["error_description"] == "The refresh token was used before.";
    assert!(known, "{status} {body}");
    assert_eq!(instance.stop(), Some(0));
}

/// A command reports the failure wherever the disk fails, and leaves no partial store behind.
#[test]
fn a_command_whose_disk_fails_reports_it_and_changes_nothing() {
    let mut instance = Instance::prepare(&Settings::default());
    let library = preloaded(instance.directory.path(), "sync.c");
    let backup = instance.directory.path().join("backup");
    let from = backup.to_str().unwrap().to_owned();
    instance.run(&["backup", "--to", &from]);
    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    let preload = ("LD_PRELOAD", library.to_str().unwrap().to_owned());
    let mut failed = 0;
    for lasts in 0.. {
        instance.environment = vec![preload.clone(), ("SYNC_LASTS", lasts.to_string())];
        let output = instance.try_run(&["restore", "--from", &from], "");
        if output.status.success() {
            break;
        }
        failed += 1;
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.lines().any(|line| line.starts_with("error: ")), "{lasts}: {:?} {words}", output.status);
        for left in ["store", "store.new"] {
            assert!(!instance.directory.path().join(left).exists(), "{lasts}: {left} is left behind; {words}");
        }
    }
    assert!(failed > 1, "{failed}");
    instance.environment.clear();
    assert!(instance.run(&["user", "list"]).contains("anna@example.test"));
}
