//! Tests backups of a running server, and the state that restoring one must not bring back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::support::{Browser, Instance, REDIRECT_URI, Settings};

pub(crate) const LIMITS: &str = "[rate_limits]\ntoken = 4000\nauthorize = 4000\npages = 4000";

pub(crate) fn authorize(instance: &Instance) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("client_id", "web")
        .append_pair("response_type", "code")
        .append_pair("redirect_uri", REDIRECT_URI)
        .append_pair("scope", "openid offline_access");
    instance.url(&format!("/oauth/authorize?{}", query.finish()))
}

pub(crate) async fn code(instance: &Instance, browser: &Browser) -> String {
    let end = browser.go(&authorize(instance)).await;
    end.returned("code").unwrap_or_else(|| panic!("{end:?}"))
}

async fn token(instance: &Instance, secret: &str, fields: &[(&str, &str)]) -> (u16, Value) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.post(instance.url("/oauth/token")).basic_auth("web", Some(secret)).form(fields);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

pub(crate) async fn redeem(instance: &Instance, secret: &str, code: &str) -> (u16, Value) {
    let fields = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
    token(instance, secret, &fields).await
}

pub(crate) async fn refresh(instance: &Instance, secret: &str, refresh_token: &str) -> (u16, Value) {
    token(instance, secret, &[("grant_type", "refresh_token"), ("refresh_token", refresh_token)]).await
}

/// Returns a new refresh token.
pub(crate) async fn granted(instance: &Instance, secret: &str, browser: &Browser) -> String {
    let (status, body) = redeem(instance, secret, &code(instance, browser).await).await;
    assert_eq!(status, 200, "{body}");
    body["refresh_token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_restores_users_and_clients_but_no_access() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let unused = code(&instance, &browser).await;
    let rotated = granted(&instance, &secret, &browser).await;
    let mut loaded = granted(&instance, &secret, &browser).await;

    let instance = Arc::new(instance);
    let stop = Arc::new(AtomicBool::new(false));
    let (server, asked, client) = (Arc::clone(&instance), Arc::clone(&stop), secret.clone());
    let load = tokio::spawn(async move {
        let mut refreshed = 0;
        while !asked.load(Ordering::SeqCst) {
            let (status, body) = refresh(&server, &client, &loaded).await;
            assert_eq!(status, 200, "{body}");
            body["refresh_token"].as_str().unwrap().clone_into(&mut loaded);
            refreshed += 1;
        }
        refreshed
    });
    let backup = instance.directory.path().join("backup");
    let (server, to) = (Arc::clone(&instance), backup.display().to_string());
    let made = tokio::task::spawn_blocking(move || server.json(&["backup", "--to", &to])).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    assert!(load.await.unwrap() > 0);
    assert!(made["records"].as_u64().unwrap() > 10, "{made}");
    assert_eq!(fs::metadata(&backup).unwrap().mode() & 0o777, 0o700);

    let (status, body) = refresh(&instance, &secret, &rotated).await;
    assert_eq!(status, 200, "{body}");
    let newest = body["refresh_token"].as_str().unwrap().to_owned();
    let mut instance = Arc::into_inner(instance).unwrap();
    let restore = ["restore", "--from", backup.to_str().unwrap()];
    let refused = String::from_utf8(instance.try_run(&restore, "").stderr).unwrap();
    assert!(refused.contains("stop it first"), "{refused}");
    instance.kill();
    let refused = String::from_utf8(instance.try_run(&restore, "").stderr).unwrap();
    assert!(refused.contains("is not empty; move it away first"), "{refused}");

    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    let restored: Value = serde_json::from_str(&instance.run(&[&restore[..], &["--json"]].concat())).unwrap();
    assert!(restored["codes_removed"].as_u64() > Some(0), "{restored}");
    assert_eq!(restored["grants_ended"], 2, "{restored}");
    instance.start();
    for token in [rotated, newest] {
        let (status, body) = refresh(&instance, &secret, &token).await;
        assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()));
    }
    let (status, body) = redeem(&instance, &secret, &unused).await;
    assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()));
    // The user, the client and the consent are restored; the browser's session is not.
    let silent = browser.open(&format!("{}&prompt=none", authorize(&instance))).await;
    assert_eq!(silent.returned("error").as_deref(), Some("login_required"), "{silent:?}");
    let new = granted(&instance, &secret, &browser).await;
    assert_eq!(refresh(&instance, &secret, &new).await.0, 200);
}

/// The whole machine was reset to an earlier state.
#[tokio::test(flavor = "multi_thread")]
async fn access_revived_by_older_files_is_revoked_in_place() {
    let mut instance = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    let refused =
        String::from_utf8(Instance::bare(&Settings::default()).try_run(&["restore", "--in-place"], "").stderr).unwrap();
    assert!(refused.contains("holds no store"), "{refused}");
    let secret = instance.add_confidential_client("web");
    instance.start();
    let browser = Browser::new(&instance);
    let (unused, used) = (code(&instance, &browser).await, granted(&instance, &secret, &browser).await);
    assert_eq!(instance.stop(), Some(0));
    let earlier = instance.directory.path().join("earlier");
    let copied = Command::new("cp").args(["-a".as_ref(), instance.store().as_os_str(), earlier.as_os_str()]).status();
    assert!(copied.unwrap().success());
    instance.start();
    assert_eq!(refresh(&instance, &secret, &used).await.0, 200);
    let refused = String::from_utf8(instance.try_run(&["restore", "--in-place"], "").stderr).unwrap();
    assert!(refused.contains("stop it first"), "{refused}");
    assert_eq!(instance.stop(), Some(0));
    fs::remove_dir_all(instance.store()).unwrap();
    fs::rename(earlier, instance.store()).unwrap();
    let said = instance.run(&["restore", "--in-place"]);
    assert!(
        said.contains("and 1 grant; users sign in again") && said.contains(": active, present in the token"),
        "{said}"
    );
    instance.start();
    for answer in [refresh(&instance, &secret, &used).await, redeem(&instance, &secret, &unused).await] {
        assert_eq!((answer.0, &answer.1["error"]), (400, &"invalid_grant".into()));
    }
    let silent = browser.open(&format!("{}&prompt=none", authorize(&instance))).await;
    assert_eq!(silent.returned("error").as_deref(), Some("login_required"), "{silent:?}");
}

#[test]
fn a_backup_without_a_server_has_the_same_content_and_overwrites_nothing() {
    let instance = Instance::prepare(&Settings::default());
    let to = instance.directory.path().join("backup");
    let to = to.to_str().unwrap();
    let made = instance.json(&["backup", "--to", to]);
    assert!(made["records"].as_u64().unwrap() >= 3, "{made}");
    let again = String::from_utf8(instance.try_run(&["backup", "--to", to], "").stderr).unwrap();
    assert!(again.contains("File exists"), "{again}");
    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    instance.run(&["restore", "--from", to]);
    assert!(instance.run(&["user", "list"]).contains("anna@example.test"));
    assert!(!instance.directory.path().join("store.new").exists());
}

#[test]
fn a_directory_without_a_backup_is_not_restored() {
    let instance = Instance::bare(&Settings::default());
    let from = instance.directory.path().join("empty");
    fs::create_dir(&from).unwrap();
    let output = instance.try_run(&["restore", "--from", from.to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("has no backup"));
    assert!(!instance.store().exists());
}

#[test]
fn a_restored_backup_starts_after_the_keys_of_the_token_are_announced() {
    let mut instance = Instance::started(&Settings::default());
    let kid_in = |instance: &Instance, state: &str| {
        let list = instance.json(&["key", "list"]);
        let key = list["keys"].as_array().unwrap().iter().find(|key| key["state"] == state).cloned();
        key.unwrap_or_else(|| panic!("{state}: {list}"))["kid"].as_str().unwrap().to_owned()
    };
    let stolen = kid_in(&instance, "active");
    let backup = instance.directory.path().join("backup");
    instance.run(&["backup", "--to", backup.to_str().unwrap()]);
    assert!(instance.try_run(&["key", "rotate", "--emergency"], "").status.success());
    let new = kid_in(&instance, "active");
    instance.kill();
    fs::rename(instance.store(), instance.directory.path().join("lost")).unwrap();
    let told = instance.run(&["restore", "--from", backup.to_str().unwrap()]);
    assert!(told.contains(&format!("key {stolen}: active, removed in the token")), "{told}");
    assert!(told.contains(&format!("sealgate key announce {new}")), "{told}");

    let refused = instance.try_run(&["serve"], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains(&new));
    instance.run(&["key", "announce", &new]);
    let refused = instance.try_run(&["serve"], "");
    assert!(String::from_utf8(refused.stderr).unwrap().contains(&stolen));
    assert!(instance.try_run(&["key", "remove", "--now", &stolen], "").status.success());
    instance.start();
    assert_eq!((kid_in(&instance, "active"), kid_in(&instance, "removed")), (new, stolen));
}

/// A copy is verified in a separate process, because the server would keep sled's memory for
/// minutes.
#[test]
fn a_backup_does_not_increase_the_servers_memory() {
    const PEOPLE: usize = 8_000;
    let mut instance = Instance::prepare(&Settings::default());
    fill(&instance, PEOPLE);
    instance.start();
    let before = instance.peak_memory();
    let backup = instance.directory.path().join("backup");
    let made = instance.json(&["backup", "--to", backup.to_str().unwrap()]);
    assert!(made["records"].as_u64().unwrap() > PEOPLE as u64, "{made}");
    let taken = instance.peak_memory() - before;
    println!("{before} MiB before, at most {taken} MiB more");
    assert!(taken < 24, "{taken} MiB");
}

/// Adds this number of users, of 4 KiB each, to a stopped server.
fn fill(instance: &Instance, people: usize) {
    let file = instance.directory.path().join("export.ndjson");
    instance.run(&["export", "--to", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.pop();
    let pattern = lines.iter().find(|line| line.contains(r#""table":"user""#)).unwrap().clone();
    let of = |field: &str| pattern.split(&format!("\"{field}\":\"")).nth(1).unwrap().split('"').next().unwrap();
    let (key, subject) = (of("key").to_owned(), of("sub").to_owned());
    let groups: Vec<_> = (0..60).map(|number| format!("a group with a name of some length, {number:026}")).collect();
    let pattern =
        pattern.replace(r#""groups":["staff"]"#, &format!(r#""groups":{}"#, serde_json::to_string(&groups).unwrap()));
    assert!(pattern.len() > 4_000, "{pattern}");
    lines.extend((0..people).map(|number| {
        let id = Uuid::from_u64_pair(1, number as u64);
        let pattern = pattern.replace(&key, &URL_SAFE_NO_PAD.encode(id)).replace(&subject, &id.to_string());
        pattern.replace("anna@", &format!("person{number}@"))
    }));
    let text = lines.join("\n") + "\n";
    let digest = Sha256::digest(&text).iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    fs::write(&file, format!("{text}{{\"records\":{},\"sha256\":\"{digest}\"}}\n", lines.len() - 1)).unwrap();
    fs::remove_dir_all(instance.store()).unwrap();
    instance.run(&["import", "--from", file.to_str().unwrap()]);
}
