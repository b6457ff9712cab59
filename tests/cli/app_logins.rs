//! `sealgate app-login`: users' names and passwords at applications, with the real program.

use std::fs;

use serde_json::json;

use crate::serve::Server;
use crate::site::Site;

/// A password that no output, log or file may contain.
const TYPED: &str = "geheimes Kennwort 4711";
const ANNA: &str = "anna@example.test";

/// Returns a site with the application `wiki`, which has a login form, and `git`, which has none.
fn site() -> Site {
    let site = Site::with_token();
    let app = |name: &str, port: u16, login: &str| {
        format!(
            "[[app]]\nname = \"{name}\"\nhost = \"{name}.localhost\"\nupstreams = [\"http://127.0.0.1:{port}\"]\n{login}\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n"
        )
    };
    let apps = app("wiki", 9, "login = { recipe = \"recipe.toml\" }\n") + &app("git", 10, "");
    let recipe = "page = \"/login\"\nfields = { user = \"{user}\", password = \"{password}\" }\nprobe = \"/profile\"\n\
                  success = { status = [200] }\nexpired = { status = [302] }\n";
    fs::write(site.config().with_file_name("recipe.toml"), recipe).unwrap();
    let config = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), format!("{config}\n{apps}")).unwrap();
    site
}

fn set<'a>(app: &'a str, username: &'a str) -> [&'a str; 7] {
    ["app-login", "set", ANNA, app, "--username", username, "--password-stdin"]
}

#[test]
fn a_name_and_password_are_set_listed_and_removed() {
    let site = site();
    site.text(&["key", "generate"]);
    let (anna, _) = (site.add_user(ANNA), site.add_user("ben@example.test"));
    let stopped = site.errors(&set("wiki", "anna"), TYPED);
    assert!(stopped.len() == 1 && stopped[0].contains("server, which is not running"), "{stopped:?}");

    let server = Server::start(&site);
    let answer = site.json_with(&set("wiki", "a.öz"), &format!("{TYPED}\nsecond line"));
    let changed_at = answer["changed_at"].clone();
    let row = json!({ "app": "wiki", "username": "a.öz", "changed_at": changed_at, "refused": false });
    let with_sub =
        json!({ "app": "wiki", "username": "a.öz", "changed_at": changed_at, "refused": false, "sub": anna });
    assert_eq!(answer, with_sub);
    let said = site.text_with(&set("wiki", "a.öz"), TYPED);
    assert_eq!(said, format!("Set the name and password of user {ANNA} at application wiki\n"));
    let list = site.json(&["app-login", "list", &anna]);
    assert_eq!(list["app_logins"][0]["app"], row["app"]);
    assert!(list["app_logins"][0]["changed_at"].as_u64() > changed_at.as_u64(), "two changes in a second differ");
    let table = site.text(&["app-login", "list", ANNA]);
    assert!(table.starts_with("APP ") && table.contains("a.öz") && !table.contains(TYPED), "{table}");
    assert_eq!(site.json(&["app-login", "list", "ben@example.test"]), json!({ "app_logins": [] }));

    for (app, username, password, told) in [
        ("git", "anna", TYPED, "the application git does not sign users in with their own names"),
        ("nothing", "anna", TYPED, "the configuration has no application nothing"),
        ("wiki", "", TYPED, "the username must have 1 to 200 visible characters"),
        ("wiki", "anna", &*TYPED.repeat(60), "the password must have 1 to 1000 bytes"),
        ("wiki", "anna", "", "standard input has no password"),
    ] {
        let errors = site.errors(&set(app, username), password);
        assert!(errors.len() == 1 && errors[0].contains(told) && !errors[0].contains(TYPED), "{errors:?}");
    }
    let login = |app| site.json(&["explain", &format!("http://{app}.localhost/"), "--user", ANNA])["login"].clone();
    assert!(login("wiki").as_str().unwrap().starts_with("as the user"), "{}", login("wiki"));
    assert!(login("git").is_null());
    let accesses = site.json(&["user", "list-accesses", ANNA]);
    let access = json!({
        "kind": "app_login", "id": "wiki", "target": "wiki", "title": "wiki", "name": "a.öz",
        "created_at": list["app_logins"][0]["changed_at"],
    });
    assert_eq!(accesses, json!({ "open_accesses": [access] }));
    let table = site.text(&["user", "list-accesses", ANNA]);
    assert!(table.starts_with("KIND ") && table.contains("app_login  wiki"), "{table}");
    let remove = ["app-login", "remove", ANNA, "wiki"];
    assert_eq!(site.json(&remove), json!({ "sub": anna, "app": "wiki", "deleted": true }));
    let gone = site.errors(&remove, "");
    assert_eq!(gone, [format!("no name and password of {ANNA} are stored for the application wiki")]);
    site.text_with(&set("wiki", "a.öz"), TYPED);
    let trail = site.json(&["audit", "list", "--user", &anna]).to_string();
    assert!(trail.contains("app_credential_set") && trail.contains("app_credential_removed"), "{trail}");

    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains(TYPED) && !trail.contains(TYPED) && !site.store_holds(TYPED));
    // Without a server, they can still be listed and removed.
    assert_eq!(site.json(&["app-login", "list", ANNA])["app_logins"].as_array().unwrap().len(), 1);
    assert_eq!(site.json(&remove)["deleted"], true);
}

#[test]
fn without_a_wrapping_key_no_password_is_stored() {
    let site = site();
    site.text(&["key", "generate", "--without-wrapping-key"]);
    site.add_user(ANNA);
    let _server = Server::start(&site);
    let errors = site.errors(&set("wiki", "anna"), TYPED);
    assert!(errors.len() == 1 && errors[0].contains("no wrapping key"), "{errors:?}");
    assert_eq!(site.json(&["app-login", "list", ANNA]), json!({ "app_logins": [] }));
}
