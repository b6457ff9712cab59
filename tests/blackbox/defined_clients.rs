//! Tests clients that the configuration file defines: no command is needed after writing the file,
//! and only the file changes them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::cluster::{Cluster, gate};
use crate::flow::{Client, Proof, text, whole_flow};
use crate::reload::{edit, refused};
use crate::support::{Browser, Instance, REDIRECT_URI, SIGNED_OUT_URI, Settings, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// Returns the text of a client with these lines.
fn client(id: &str, more: &str) -> String {
    format!(
        "[[client]]\nid = \"{id}\"\nname = \"Client {id}\"\nredirect_uris = [\"{REDIRECT_URI}\"]\n\
         post_logout_redirect_uris = [\"{SIGNED_OUT_URI}\"]\n{more}\n"
    )
}

fn public(id: &str) -> String {
    client(id, "type = \"public\"")
}

fn write_secret(instance: &Instance, name: &str, secret: &str, mode: u32) {
    let path = instance.directory.path().join(name);
    fs::write(&path, secret).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Prepares an instance whose file has these sections, and a file `secret`.
fn prepared(sections: &str) -> Instance {
    let instance = Instance::bare(&Settings::default());
    write_secret(&instance, "secret", SECRET, 0o600);
    instance.configure(&with(sections));
    instance.run(&["key", "generate"]);
    instance.add_anna();
    instance
}

fn with(sections: &str) -> Settings {
    Settings { sections: sections.to_owned(), ..Settings::default() }
}

fn started(sections: &str) -> Instance {
    let mut instance = prepared(sections);
    instance.start();
    instance
}

/// Returns the kinds, the clients and the details of the recorded changes of clients, oldest first.
fn events(instance: &Instance) -> Vec<(String, String, String)> {
    let kinds = ["client_registered", "client_changed", "client_deleted"].map(|kind| ["--kind", kind]);
    let list = instance.json(&[&["audit", "list"], kinds.as_flattened()].concat());
    let newest_first = list["events"].as_array().unwrap().iter();
    let events: Vec<_> = newest_first.filter(|event| event["actor"] == "configuration").rev().collect();
    let member = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    events
        .into_iter()
        .map(|event| (member(event, "kind"), member(event, "client_id"), member(event, "detail")))
        .collect()
}

fn event(kind: &str, client: &str, detail: &str) -> (String, String, String) {
    (kind.to_owned(), client.to_owned(), detail.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_file_pass_the_whole_flow_without_a_command() {
    let hash = {
        let bare = Instance::bare(&Settings::default());
        bare.run_with_input(&["client", "hash-secret"], OTHER_SECRET)
    };
    let sections = public("native")
        + &client("web", "type = \"confidential\"\nsecret_file = \"secret\"")
        + &client("hashed", &format!("type = \"confidential\"\nsecret_hash = \"{}\"", hash.trim_end()));
    let instance = started(&sections);
    for (id, proof) in [
        ("native", Proof::Public),
        ("web", Proof::Basic(SECRET)),
        ("web", Proof::Post(SECRET)),
        ("hashed", Proof::Basic(OTHER_SECRET)),
    ] {
        whole_flow(&Client { instance: &instance, browser: Browser::new(&instance), id, proof }).await;
    }
    assert_eq!(events(&instance).len(), 3);
    let shown = instance.json(&["client", "show", "web"]);
    assert_eq!((&shown["from_configuration"], &shown["vouched_for"]), (&true.into(), &true.into()));
    assert!(instance.run(&["client", "show", "web"]).contains("from_configuration: true"));
    assert!(instance.run(&["client", "list"]).contains("FROM_CONFIGURATION"));
    // A start with the same file writes nothing.
    let mut instance = instance;
    instance.stop();
    instance.start();
    assert_eq!(instance.json(&["client", "show", "web"]), shown);
    assert_eq!(events(&instance).len(), 3);
    assert!(!instance.log().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_and_removes_clients_of_the_file() {
    let mut instance = started(&(public("native") + &public("other")));
    instance.add_public_client("command");
    let native = Client { instance: &instance, browser: Browser::new(&instance), id: "native", proof: Proof::Public };
    let (_, tokens) = native.redeem(&native.code("openid profile offline_access").await).await;
    let (access, refresh) = (text(&tokens, "access_token"), text(&tokens, "refresh_token"));

    // A changed redirect URI leaves tokens valid.
    let moved = "http://localhost:3998/moved";
    edit(&instance, REDIRECT_URI, moved);
    let said = instance.run(&["reload"]);
    assert!(said.contains("client native: redirect_uris") && said.contains("client other: redirect_uris"), "{said}");
    assert_eq!(native.browser.get(&native.authorize("openid")).await.status, 400);
    let encoded = |uri: &str| url::form_urlencoded::byte_serialize(uri.as_bytes()).collect::<String>();
    let elsewhere = native.authorize("openid").replace(&encoded(REDIRECT_URI), &encoded(moved));
    assert!(native.browser.get(&elsewhere).await.location().unwrap().starts_with(moved));
    assert_eq!(native.userinfo(&access).await.0, 200);
    let (status, renewed) = native.refresh(&refresh).await;
    assert_eq!(status, 200, "{renewed}");

    // A removed client is deleted, and its tokens are refused. Other clients stay.
    let (access, refresh) = (text(&renewed, "access_token"), text(&renewed, "refresh_token"));
    instance.configure(&with(&public("other").replace(REDIRECT_URI, moved)));
    assert!(instance.run(&["reload"]).contains("client native: removed"));
    assert_eq!(native.userinfo(&access).await.0, 401);
    assert_eq!(native.refresh(&refresh).await.1["error"], "invalid_client");
    assert_eq!(instance.json(&["grant", "list", "--user", "anna@example.test"])["grants"], Value::Array(Vec::new()));
    let ids = |instance: &Instance| {
        let list = instance.json(&["client", "list"]);
        list["clients"].as_array().unwrap().iter().map(|client| client["client_id"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&instance), ["\"command\"", "\"other\""]);
    // A client with the same ID does not get the tokens of the removed one.
    instance.configure(&with(&(public("native") + &public("other").replace(REDIRECT_URI, moved))));
    instance.run(&["reload"]);
    let native = Client { instance: &instance, browser: Browser::new(&instance), id: "native", proof: Proof::Public };
    assert_eq!(native.userinfo(&access).await.0, 401);
    assert_eq!(native.refresh(&refresh).await.1["error"], "invalid_grant");
    assert_eq!(
        events(&instance),
        [
            event("client_registered", "native", ""),
            event("client_registered", "other", ""),
            event("client_changed", "native", "set redirect_uris"),
            event("client_changed", "other", "set redirect_uris"),
            event("client_deleted", "native", ""),
            event("client_registered", "native", ""),
        ]
    );
    // A start removes clients as a reload does.
    instance.stop();
    instance.configure(&with(""));
    instance.start();
    assert_eq!(ids(&instance), ["\"command\""]);
}

#[test]
fn commands_refuse_to_change_a_client_of_the_file_and_name_the_file() {
    let mut instance = started(&client("web", "type = \"confidential\"\nsecret_file = \"secret\""));
    let before = instance.json(&["client", "show", "web"]);
    let file = instance.config();
    let expected = format!(
        "the client web is defined in {}; change its [[client]] there and run: sealgate reload",
        file.display()
    );
    let refuse = |instance: &Instance| {
        for command in [
            &["set", "web", "--name", "Other"][..],
            &["rotate-secret", "web"],
            &["disable", "web"],
            &["enable", "web"],
            &["approve", "web"],
            &["revoke-approval", "web"],
            &["delete", "web"],
        ] {
            let refused = instance.try_run(&[&["client"], command].concat(), "");
            let said = String::from_utf8(refused.stderr).unwrap();
            assert!(refused.status.code() == Some(1) && said.contains(&expected), "{command:?}: {said}");
        }
    };
    refuse(&instance);
    instance.stop();
    refuse(&instance);
    assert_eq!(instance.json(&["client", "show", "web"]), before);
}

#[test]
fn a_client_that_was_registered_by_a_command_prevents_the_start_unless_it_is_adopted() {
    let mut instance = prepared("");
    let secret = instance.add_confidential_client("web");
    let web = client("web", "type = \"confidential\"\nsecret_file = \"secret\"");
    instance.configure(&with(&(public("native") + &web)));
    let why = "[[client]] web: a client with this ID was registered in another way";
    let refused_check = |instance: &Instance| {
        let checked = instance.try_run(&["check"], "");
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.code() == Some(1) && said.contains(why) && said.contains("adopt = true"), "{said}");
    };
    refused_check(&instance);
    instance.launch();
    assert_ne!(instance.wait_for_end(), Some(0));
    instance.tells(why);
    assert_eq!(instance.json(&["client", "list"])["clients"].as_array().unwrap().len(), 1, "all or nothing");

    // A reload is refused in the same way, and changes nothing.
    instance.configure(&with(""));
    instance.start();
    let before = instance.json(&["client", "list"]);
    instance.configure(&with(&(public("native") + &web + "[rate_limits]\ntoken = 7\n")));
    refused_check(&instance);
    assert!(refused(&instance).contains(why));
    assert_eq!(instance.json(&["client", "list"]), before);
    assert!(!instance.log().contains("reloaded the configuration"));

    instance.configure(&with(&web.replace("type", "adopt = true\ntype")));
    instance.run(&["check"]);
    instance.run(&["reload"]);
    assert_eq!(instance.json(&["client", "show", "web"])["from_configuration"], true);
    let events = events(&instance);
    assert_eq!(events, [event("client_changed", "web", "set adopted, name, secret")]);
    // Only the secrets of the file are valid.
    let status = |secret: &str| {
        let answer = std::process::Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", &format!("web:{secret}")])
            .args(["-d", "grant_type=refresh_token&refresh_token=x", &instance.url("/oauth/token")])
            .output()
            .expect("curl");
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!((status(&secret).as_str(), status(SECRET).as_str()), ("401", "400"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_rotated_by_the_file_and_tokens_stay_valid() {
    let web = |files: &str| client("web", &format!("type = \"confidential\"\nsecret_file = {files}"));
    let instance = started(&web("\"secret\""));
    write_secret(&instance, "new", OTHER_SECRET, 0o600);
    let by = |secret| Client {
        instance: &instance,
        browser: Browser::new(&instance),
        id: "web",
        proof: Proof::Basic(secret),
    };
    let old = by(SECRET);
    let (_, tokens) = old.redeem(&old.code("openid profile offline_access").await).await;
    let created = instance.json(&["client", "show", "web"])["client_secrets"][0]["created_at"].clone();
    assert_eq!(by(OTHER_SECRET).refresh("x").await.0, 401);

    instance.configure(&with(&web("[\"new\", \"secret\"]")));
    assert!(instance.run(&["reload"]).contains("client web: secret"));
    let (status, tokens) = old.refresh(&text(&tokens, "refresh_token")).await;
    assert_eq!(status, 200, "{tokens}");
    let secrets = &instance.json(&["client", "show", "web"])["client_secrets"];
    assert_eq!((secrets.as_array().unwrap().len(), &secrets[1]["created_at"]), (2, &created));

    instance.configure(&with(&web("\"new\"")));
    instance.run(&["reload"]);
    assert_eq!(old.refresh(&text(&tokens, "refresh_token")).await.0, 401);
    let new = by(OTHER_SECRET);
    let (status, tokens) = new.refresh(&text(&tokens, "refresh_token")).await;
    assert_eq!(status, 200, "{tokens}");

    // Changed content of the same file counts as a change.
    write_secret(&instance, "new", SECRET, 0o600);
    assert!(instance.run(&["reload"]).contains("client web: secret"));
    assert_eq!(new.refresh(&text(&tokens, "refresh_token")).await.0, 401);
    let (status, tokens) = old.refresh(&text(&tokens, "refresh_token")).await;
    assert_eq!((status, old.userinfo(&text(&tokens, "access_token")).await.0), (200, 200), "{tokens}");
}

#[test]
fn a_secret_file_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    let web = client("web", "type = \"confidential\"\nsecret_file = \"secret\"");
    let instance = started("");
    write_secret(&instance, "secret", SECRET, 0o644);
    instance.configure(&with(&web));
    let said = refused(&instance);
    let (start, end) = ("client[0].secret_file: ", "can be accessed by other users (mode 0644); run: chmod 600 ");
    assert!(said.contains(start) && said.contains(end), "{said}");
    let checked = instance.try_run(&["check", "--file-only"], "");
    assert!(String::from_utf8(checked.stderr).unwrap().contains(end));
    assert_eq!(instance.json(&["client", "list"])["clients"], Value::Array(Vec::new()));
    write_secret(&instance, "secret", SECRET, 0o600);
    instance.run(&["reload"]);
    assert_eq!(instance.json(&["client", "show", "web"])["client_type"], "confidential");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_agree_on_the_clients_of_their_files() {
    let sections = client("native", "type = \"public\"\nconsent = \"implied\"");
    let cluster = Cluster::start_with(&sections).await;
    let (first, second) = (&cluster.first, &cluster.second);
    assert_eq!(events(first), [event("client_registered", "native", "")]);
    let native = Client { instance: first, browser: Browser::new(first), id: "native", proof: Proof::Public };
    let (_, tokens) = native.redeem(&native.code("openid profile").await).await;
    let token = text(&tokens, "access_token");
    until("both let it in", || async { gate(first, &token).await == 200 && gate(second, &token).await == 200 }).await;

    for node in [first, second] {
        edit(node, "Client native", "Renamed");
    }
    let (one, other) = tokio::task::block_in_place(|| (first.run(&["reload"]), second.run(&["reload"])));
    assert!(one.contains("client native: name") && other.contains("client native: name"), "{one}{other}");
    let renamed = event("client_changed", "native", "set name");
    until("one node has changed it", || async { events(second).last() == Some(&renamed) }).await;
    assert_eq!(events(second).len(), 2);
    assert_eq!((gate(first, &token).await, gate(second, &token).await), (200, 200));

    // The first reload without the client removes it for all nodes.
    for node in [first, second] {
        edit(node, &sections.replace("Client native", "Renamed"), "");
    }
    tokio::task::block_in_place(|| first.run(&["reload"]));
    assert_eq!(gate(first, &token).await, 401);
    until("the other node refuses it", || async { gate(second, &token).await == 401 }).await;
    tokio::task::block_in_place(|| second.run(&["reload"]));
    until("one node has removed it", || async { events(second).len() == 3 }).await;
}
