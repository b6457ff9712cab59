//! `sealgate api-token`, and the filters of `sealgate user list`.

use serde_json::{Value, json};

use crate::site::{Site, stderr};

const ADD: &[&str] = &["api-token", "add", "terraform", "--scope=users:write", "--scope=users:read"];

#[test]
fn a_token_is_printed_once_listed_and_removed() {
    let site = Site::new();
    // The configuration of the site has no [api].
    let added = site.run(&[ADD, &["--json"]].concat(), "");
    let note = "note: the admin API is disabled; set api.enabled before you use the token\n";
    assert_eq!((added.status.code(), stderr(&added).as_str()), (Some(0), note));
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    let token = added["token"].as_str().unwrap();
    assert!(token.starts_with("sealgate_api_") && token.len() == 13 + 43, "{token}");
    let lifetime = added["expires_at"].as_u64().unwrap() - added["created_at"].as_u64().unwrap();
    assert_eq!(lifetime, 90 * 24 * 60 * 60);
    let expected = json!({
        "id": added["id"], "name": "terraform", "scopes": ["users:read", "users:write"], "creator": null,
        "created_at": added["created_at"], "expires_at": added["expires_at"], "last_used_at": null,
    });
    assert_eq!(site.json(&["api-token", "list"]), json!({ "api_tokens": [expected] }));
    assert!(site.store_holds("terraform"), "the search would find it");
    assert!(!site.store_holds(token));
    let id = added["id"].as_str().unwrap();
    let text = site.text(&["api-token", "remove", id]);
    assert_eq!(text, format!("Removed API token terraform ({id})\n"));
    assert_eq!(site.json(&["api-token", "list"]), json!({ "api_tokens": [] }));
    let again = site.run(&["api-token", "remove", id], "");
    assert!(!again.status.success() && stderr(&again).contains("no API token has the ID"), "{again:?}");
    let events = site.json(&["audit", "list", "--kind=api_token_created", "--kind=api_token_revoked"]);
    let details: Vec<&Value> = events["events"].as_array().unwrap().iter().map(|event| &event["detail"]).collect();
    assert_eq!(details[0], id);
    assert!(details[1].as_str().unwrap().starts_with(&format!("{id}; scopes users:read users:write; until ")));
}

#[test]
fn a_token_needs_a_name_a_scope_and_an_expiry_within_a_year() {
    let site = Site::new();
    for (arguments, fault) in [
        (&["api-token", "add", "x"][..], "--scope"),
        (&["api-token", "add", "x", "--scope=users"], "the scopes are users:read"),
        (&["api-token", "add", "", "--scope=users:read"], "a token's name has 1 to 100"),
        (&["api-token", "add", "x", "--scope=users:read", "--expires=366d"], "within 365 days"),
        (&["api-token", "add", "x", "--scope=users:read", "--expires=2020-01-01"], "must expire in the future"),
        (&["api-token", "add", "x", "--scope=users:read", "--expires=never"], "write a day such as"),
    ] {
        let refused = site.run(arguments, "");
        assert!(!refused.status.success() && stderr(&refused).contains(fault), "{arguments:?}: {refused:?}");
    }
    assert_eq!(site.json(&["api-token", "list"]), json!({ "api_tokens": [] }));
    assert!(site.run(&["api-token", "add", "x", "--scope=users:read", "--expires=365d"], "").status.success());
}

#[test]
fn users_are_listed_by_group_state_and_words() {
    let site = Site::new();
    for (name, group) in [("anna", "staff"), ("ben", "staff"), ("cem", "guests")] {
        let email = format!("{name}@example.test");
        let (name, group) = (format!("--name=Şule {name}"), format!("--group={group}"));
        site.run(&["user", "add", &email, &name, &group, "--password-stdin"], "correct horse battery staple\n");
    }
    assert!(site.run(&["user", "disable", "ben@example.test"], "").status.success());
    let found = |filters: &[&str]| {
        let list = site.json(&[&["user", "list"], filters].concat());
        let mut found: Vec<String> =
            list["users"].as_array().unwrap().iter().map(|user| user["email"].to_string()).collect();
        found.sort();
        found.join(" ").replace("@example.test", "").replace('"', "")
    };
    assert_eq!(found(&[]), "anna ben cem");
    assert_eq!(found(&["--group=staff"]), "anna ben");
    assert_eq!(found(&["--group=staff", "--state=enabled"]), "anna");
    assert_eq!(found(&["--search=SULE example cem"]), "cem");
    assert_eq!(found(&["--search=nobody"]), "");
}
