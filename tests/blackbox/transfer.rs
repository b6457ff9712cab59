//! Tests moving a store by export and import: every token still works, and an incomplete file
//! changes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::backup::{LIMITS, code, granted, redeem, refresh};
use crate::support::{Browser, Instance, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn every_token_works_after_an_export_and_an_import() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    // The store has two keys. Without the states of both, the other store could not be opened.
    instance.run(&["key", "rotate"]);
    let keys = instance.json(&["key", "list"]);
    let browser = Browser::new(&instance);
    let token = granted(&instance, &secret, &browser).await;
    let used = code(&instance, &browser).await;
    assert_eq!(redeem(&instance, &secret, &used).await.0, 200);
    let unused = code(&instance, &browser).await;
    let rotated = granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &rotated).await.0, 200);
    let file = instance.directory.path().join("export.ndjson");
    let export = ["export", "--to", file.to_str().unwrap()];
    let refused = String::from_utf8(instance.try_run(&export, "").stderr).unwrap();
    assert!(refused.contains("stop it first") && refused.contains("--backup DIR"), "{refused}");

    // A backup of the running server has the same content as the store of the stopped one.
    let backup = instance.directory.path().join("backup");
    instance.run(&["backup", "--to", backup.to_str().unwrap()]);
    let of_backup = instance.run(&["export", "--to", "-", "--backup", backup.to_str().unwrap()]);
    assert_eq!(instance.stop(), Some(0));
    let exported: Value = serde_json::from_str(&instance.run(&[&export[..], &["--json"]].concat())).unwrap();
    assert!(exported["records"].as_u64().unwrap() > 10, "{exported}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    // The server writes its last report about answers to refreshes when it stops.
    let is_report = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let key = URL_SAFE_NO_PAD.decode(line["key"].as_str().unwrap_or_default()).unwrap();
        key.windows(8).any(|part| part == b"answers/")
    };
    let records = |text: &str| {
        let lines = text.lines().skip(1).take_while(|line| !line.contains("sha256"));
        lines.filter(|line| !is_report(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(records(&text) == records(&of_backup));

    let import = ["import", "--from", file.to_str().unwrap()];
    let refused = String::from_utf8(instance.try_run(&import, "").stderr).unwrap();
    assert!(refused.contains("is not empty; move it away first"), "{refused}");
    fs::rename(instance.store(), instance.directory.path().join("old")).unwrap();

    for (wrong, said) in [
        (text[..text.len() / 2].to_owned(), "is truncated"),
        (text.replacen("Anna", "Enna", 1), "was altered"),
        (text.replacen("localhost", "elsewhere", 1), "the file is an export of"),
    ] {
        fs::write(&file, wrong).unwrap();
        let refused = String::from_utf8(instance.try_run(&import, "").stderr).unwrap();
        assert!(refused.contains(said), "{refused}");
        assert!(!instance.store().exists(), "a file that is not whole left something behind");
    }
    fs::write(&file, text).unwrap();
    assert_eq!(instance.json(&import)["records"], exported["records"]);
    instance.start();
    assert_eq!(instance.json(&["key", "list"]), keys);
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(redeem(&instance, &secret, &unused).await.0, 200);
    for (status, body) in [redeem(&instance, &secret, &used).await, refresh(&instance, &secret, &rotated).await] {
        assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "a used code or link is valid again");
    }
    // The session was moved: a code is issued without another sign-in.
    let new = granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &new).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_export_restores_no_token() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let token = granted(&instance, &secret, &browser).await;
    let path = |name: &str| instance.directory.path().join(name).display().to_string();
    let (backup, file, old) = (path("backup"), path("export.ndjson"), path("old"));
    instance.run(&["backup", "--to", &backup]);
    instance.run(&["export", "--backup", &backup, "--to", &file]);
    instance.kill();
    fs::rename(instance.store(), old).unwrap();
    instance.run(&["import", "--old", "--from", &file]);
    instance.start();
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()));
    let new = granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &new).await.0, 200);
}
