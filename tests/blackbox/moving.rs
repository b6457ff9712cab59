//! Tests moving a store from files to PostgreSQL and back: users stay signed in, and used tokens
//! stay used.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::backup::{LIMITS, authorize, code, granted, redeem, refresh};
use crate::postgres_server::{schema, shared, within};
use crate::support::{Browser, Instance, Settings, sealgate, wait_until};

/// Returns a configuration with the store in a database.
async fn in_database(instance: &Instance, files: &str) -> (String, String) {
    let schema = schema().await;
    let url_file = instance.directory.path().join(&schema);
    let url = shared().url(&within(&schema));
    fs::write(&url_file, url).unwrap();
    fs::set_permissions(&url_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let path = format!("path = \"{}\"", instance.store().display());
    let store = format!("engine = \"postgres\"\nurl_file = \"{}\"", url_file.display());
    let text = files.replace(&path, &store).replace("[store]", "shared = true\n[cluster]\nnode = \"id-1\"\n[store]");
    (text, schema)
}

fn exported(instance: &Instance, name: &str) -> (String, Vec<String>) {
    let file = instance.directory.path().join(name).display().to_string();
    instance.run(&["export", "--to", &file]);
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    (file, lines[1..lines.len() - 1].to_vec())
}

fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let output = instance.try_run(arguments, "");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn invalid((status, body): &(u16, Value)) -> bool {
    (*status, &body["error"]) == (400, &"invalid_grant".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_postgresql_and_back_with_its_sessions() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    instance.run(&["key", "rotate"]);
    let keys = instance.json(&["key", "list"]);
    let browser = Browser::new(&instance);
    let token = granted(&instance, &secret, &browser).await;
    let used = code(&instance, &browser).await;
    assert_eq!(redeem(&instance, &secret, &used).await.0, 200);
    let unused = code(&instance, &browser).await;
    let rotated = granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &rotated).await.0, 200);
    assert_eq!(instance.stop(), Some(0));
    let (file, before) = exported(&instance, "from-files");
    let data_keys = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains("\"wrapping_id\"")).cloned().collect()
    };
    assert_eq!(data_keys(&before).len(), 1);

    let files = fs::read_to_string(instance.config()).unwrap();
    let (database, _) = in_database(&instance, &files).await;
    fs::write(instance.config(), database).unwrap();
    let import = ["import", "--from", &file];
    let said = refused(&instance, &import);
    assert!(said.contains("sealgate store init"), "{said}");
    instance.run(&["store", "init"]);
    // An incomplete file changes nothing.
    let cut = instance.directory.path().join("cut").display().to_string();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&cut, &text[..text.len() - 60]).unwrap();
    assert!(refused(&instance, &["import", "--from", &cut]).contains("is truncated"));
    let imported = instance.json(&import);
    assert_eq!((&imported["records"], &imported["notices"]), (&before.len().into(), &Value::Array(vec![])));
    assert!(refused(&instance, &import).contains("already has a store"));
    instance.run(&["check"]);

    instance.start();
    assert!(refused(&instance, &import).contains("stop it first"));
    assert_eq!(instance.json(&["key", "list"]), keys);
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!(status, 200, "{body}");
    let token = body["refresh_token"].as_str().unwrap().to_owned();
    assert_eq!(redeem(&instance, &secret, &unused).await.0, 200);
    assert!(invalid(&redeem(&instance, &secret, &used).await) && invalid(&refresh(&instance, &secret, &rotated).await));
    // No sign-in is necessary: the session was moved.
    assert!(browser.open(&authorize(&instance)).await.returned("code").is_some());
    // An export while the server is running.
    let (_, beside) = exported(&instance, "beside");
    assert!(beside.len() >= before.len());

    assert_eq!(instance.stop(), Some(0));
    let (file, there) = exported(&instance, "from-database");
    assert_eq!(data_keys(&there), data_keys(&before), "no other data key was made");
    fs::rename(instance.store(), instance.directory.path().join("old")).unwrap();
    fs::write(instance.config(), files).unwrap();
    assert_eq!(instance.json(&["import", "--from", &file])["records"], there.len());
    let (_, back) = exported(&instance, "back");
    // Index entries that point to no record are not exported.
    let records =
        |lines: &[String]| lines.iter().filter(|line| line.contains("\"version\"")).cloned().collect::<Vec<_>>();
    assert!(records(&back) == records(&there));
    instance.start();
    assert_eq!(instance.json(&["key", "list"]), keys);
    let (status, body) = refresh(&instance, &secret, &token).await;
    assert_eq!(status, 200, "{body}");
    assert!(invalid(&redeem(&instance, &secret, &unused).await), "used in the database");
    assert!(browser.open(&authorize(&instance)).await.returned("code").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_export_imports_no_token_into_a_database() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let token = granted(&instance, &secret, &browser).await;
    assert_eq!(instance.stop(), Some(0));
    let (file, _) = exported(&instance, "export");
    let files = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), in_database(&instance, &files).await.0).unwrap();
    instance.run(&["store", "init"]);
    instance.run(&["import", "--old", "--from", &file]);
    instance.start();
    assert!(invalid(&refresh(&instance, &secret, &token).await));
    assert!(browser.open(&authorize(&instance)).await.body.contains("id=\"login-submit\""));
}

/// The file is read from a pipe, so that the test controls how long the import takes.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_leaves_an_empty_store() {
    let instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    // More users than one batch contains.
    let people: Vec<String> = (0..100).map(|number| format!("p{number}@example.test,Anna")).collect();
    let people = format!("email,name\n{}\n", people.join("\n"));
    instance.run_with_input(&["user", "import", "-", "--format", "csv"], &people);
    let (file, lines) = exported(&instance, "export");
    let files = fs::read_to_string(instance.config()).unwrap();
    let (database, schema) = in_database(&instance, &files).await;
    fs::write(instance.config(), database).unwrap();
    instance.run(&["store", "init"]);
    let pipe = instance.directory.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = instance.config().display().to_string();
    let mut import = sealgate(&instance.softhsm, &["import", "--from", &pipe, "--config", &config])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut writer, &text.as_bytes()[..text.len() - 60]).unwrap();
    let client = shared().client(&within(&schema)).await;
    let locks = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'record'::regclass \
                 AND mode = 'ShareRowExclusiveLock' AND granted AND query LIKE 'COPY%'";
    let copying = async || client.query_one(locks, &[]).await.unwrap().get::<_, i64>(0) == 1;
    while !copying().await {
        assert!(import.try_wait().unwrap().is_none(), "it has ended");
        tokio::task::yield_now().await;
    }
    import.kill().unwrap();
    import.wait().unwrap();
    wait_until("the store takes another", || {
        let again = instance.try_run(&["import", "--from", &file], "");
        let said = String::from_utf8(again.stderr).unwrap();
        assert!(again.status.success() || said.contains("in use"), "{said}");
        again.status.success()
    });
    let (_, there) = exported(&instance, "again");
    assert_eq!(there.len(), lines.len());
}
