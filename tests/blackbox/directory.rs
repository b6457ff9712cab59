//! Users of an LDAP directory, with OpenLDAP and the program as processes.

mod linking;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::lasting::{closes, streams, websocket_at};
use crate::slapd::{BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, group, user, write_secret};
use crate::support::{Browser, Instance, PASSWORD, Page, Settings, Upstream, until};

/// Directory, server and application of a test.
pub(super) struct World {
    pub(super) slapd: Slapd,
    pub(super) instance: Instance,
    _upstream: Upstream,
}

/// Lines of `[[directory]]` that tests change.
pub(super) struct Keys<'k> {
    pub(super) stale_seconds: u64,
    /// Long, because a busy machine must not fail a test.
    pub(super) timeout_seconds: u64,
    pub(super) sections: &'k str,
    /// Lines of slapd.conf.
    pub(super) slapd: &'k str,
    /// Texts of the configuration, and what replaces them.
    pub(super) replaced: &'k [(&'k str, &'k str)],
}

impl Default for Keys<'_> {
    fn default() -> Self {
        Self { stale_seconds: 3600, timeout_seconds: 20, sections: "", slapd: "", replaced: &[] }
    }
}

impl World {
    /// Starts a server for these entries. `staff.localhost` is for the group `corp:staff`.
    pub(super) fn start(entries: &str, keys: &Keys<'_>) -> Self {
        Self::before(Slapd::with(entries, keys.slapd, "localhost"), None, keys)
    }

    /// Starts a server for a directory. `url` is the address of a relay to it.
    pub(super) fn before(slapd: Slapd, url: Option<String>, keys: &Keys<'_>) -> Self {
        let upstream = Upstream::start();
        let mut sections = format!(
            "[[directory]]\nname = \"corp\"\nkind = \"ldap\"\nservers = [\"{}\"]\nca_file = \"{}\"\ndefault = true\n\
             domains = [\"example.test\"]\nrefresh_seconds = 1\nstale_seconds = {}\ntimeout_seconds = {}\n\
             [directory.bind]\ndn = \"{SERVICE_DN}\"\npassword_file = \"ldap.password\"\n\
             [directory.users]\nbase = \"ou=people,{BASE}\"\n\
             [directory.groups]\nbase = \"ou=groups,{BASE}\"\n\
             [[app]]\nname = \"wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{}\"]\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n\
             [[app.route]]\npath = \"/staff\"\naccess = \"signed_in\"\ngroups = [\"corp:staff\"]\n",
            url.unwrap_or_else(|| slapd.tls_url()),
            slapd.ca_file().display(),
            keys.stale_seconds,
            keys.timeout_seconds,
            upstream.url()
        );
        write!(
            sections,
            "[[app]]\nname = \"events\"\nhost = \"app0.localhost\"\nupstreams = [\"http://{}\"]\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n{}",
            streams(),
            keys.sections
        )
        .unwrap();
        if !sections.contains("ldaps://") {
            let ca_file = format!("ca_file = \"{}\"\n", slapd.ca_file().display());
            sections = sections.replace(&ca_file, "");
        }
        for (old, new) in keys.replaced {
            assert!(sections.contains(old), "{old}: {sections}");
            sections = sections.replace(old, new);
        }
        let mut instance = Instance::bare(&Settings::default());
        write_secret(&instance.directory.path().join("ldap.password"), SERVICE_PASSWORD);
        instance.configure(&Settings { sections, ..Settings::default() });
        instance.run(&["key", "generate"]);
        instance.start();
        Self { slapd, instance, _upstream: upstream }
    }

    /// Opens the application in a new browser, and submits a name and a password.
    pub(super) async fn enter(&self, name: &str, password: &str) -> (Browser, Page) {
        let browser = Browser::new(&self.instance);
        let page = browser.open(&self.instance.app_url("/json")).await;
        let page = browser.submit(&page, &[("email", name), ("password", password)]).await;
        (browser, page)
    }

    /// Signs in with the password `password of UID`.
    pub(super) async fn signed_in(&self, uid: &str) -> Browser {
        let (browser, page) = self.enter(uid, &format!("password of {uid}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains("\"headers\""), "{page:?}");
        browser
    }

    pub(super) fn show(&self, user: &str) -> Value {
        self.instance.json(&["user", "show", user])
    }

    pub(super) async fn status(&self, browser: &Browser, path: &str) -> u16 {
        browser.get(&self.instance.app_url(path)).await.status
    }

    /// Waits until a page that needs a sign-in has this status.
    pub(super) async fn becomes(&self, browser: &Browser, status: u16) {
        until(&format!("the application answers {status}"), async || self.status(browser, "/json").await == status)
            .await;
    }
}

pub(super) fn problem(page: &Page) -> &str {
    let start = page.body.find("id=\"login-problem\"").unwrap_or_else(|| panic!("no problem: {page:?}"));
    let text = &page.body[start..];
    &text[text.find('>').unwrap() + 1..text.find("</p>").unwrap()]
}

fn header(page: &Page, name: &str) -> Option<String> {
    let seen: Value = serde_json::from_str(&page.body).unwrap();
    let headers = seen["headers"].as_array().unwrap();
    let header = headers.iter().find(|header| header[0].as_str().unwrap().eq_ignore_ascii_case(name))?;
    Some(header[1].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_directory_user_reaches_the_application_with_the_groups_of_the_directory() {
    let entries =
        user("anna", "displayName: Anna Çelik\n") + &user("otto", "") + &group("staff", &["uid=anna,ou=people"]);
    let world = World::start(&entries, &Keys::default());
    let anna = world.signed_in("anna").await;
    let page = anna.get(&world.instance.app_url("/json")).await;
    assert_eq!(header(&page, "x-forwarded-email").as_deref(), Some("anna@example.test"), "{page:?}");
    assert_eq!(header(&page, "x-forwarded-groups").as_deref(), Some("corp:staff"));
    assert_eq!(world.status(&anna, "/staff").await, 200);
    let otto = world.signed_in("otto").await;
    assert_eq!(world.status(&otto, "/staff").await, 403);

    let shown = world.show("anna");
    assert_eq!(shown["source"]["link"]["source"], "corp");
    assert_eq!(shown["source"]["groups"][0], "corp:staff");
    assert_eq!(shown["groups"], serde_json::json!([]));
    // Groups of the two places count together.
    world.instance.run(&["user", "set", "otto", "--add-group", "corp:staff"]);
    assert_eq!(world.status(&otto, "/staff").await, 200);
    let explained = world.instance.json(&["explain", &world.instance.app_url("/staff"), "--user", "anna"]);
    assert_eq!(explained["forwarded"], true, "{explained}");
    assert_eq!(explained["groups"], serde_json::json!([{ "name": "corp:staff", "from": "corp" }]));
    let explained = world.instance.run(&["explain", &world.instance.app_url("/staff"), "--user", "otto"]);
    assert!(explained.contains("source:    corp (enabled)\ngroup:     corp:staff  (local)\n"), "{explained}");

    // The same account has the same sub at each sign-in, also by another name.
    let (_, page) = world.enter("ANNA@example.test", "password of anna").await;
    assert_eq!(page.status, 200);
    assert_eq!(world.show("anna@example.test")["sub"], shown["sub"]);
    // No password is in the store, and the directory's password is nowhere.
    let log = world.instance.log();
    assert!(!log.contains("password of") && !log.contains(SERVICE_PASSWORD), "{log}");
}

#[tokio::test]
async fn a_wrong_password_an_unknown_name_and_a_filter_get_the_same_page() {
    let world = World::start(&user("anna", ""), &Keys::default());
    let (_, wrong) = world.enter("anna", "password of otto").await;
    for name in ["nobody", "*", "anna)(uid=*", "nobody@example.test"] {
        let (_, page) = world.enter(name, "password of anna").await;
        assert_eq!((page.status, problem(&page)), (200, problem(&wrong)), "{name}");
    }
    let (_, empty) = world.enter("anna", "").await;
    assert_eq!(problem(&empty), problem(&wrong));
    assert!(world.instance.json(&["user", "list"])["users"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_changed_entry_takes_effect_without_a_new_sign_in() {
    let entries = user("anna", "") + &group("staff", &["uid=otto,ou=people"]);
    let world = World::start(&entries, &Keys::default());
    let anna = world.signed_in("anna").await;
    assert_eq!(world.status(&anna, "/staff").await, 403);
    let sub = world.show("anna")["sub"].clone();
    world.slapd.change(&format!(
        "dn: cn=staff,ou=groups,{BASE}\nchangetype: modify\nadd: member\nmember: uid=anna,ou=people,{BASE}\n\n\
         dn: uid=anna,ou=people,{BASE}\nchangetype: modify\nreplace: mail\nmail: anna.celik@example.test\n"
    ));
    until("the group counts", async || world.status(&anna, "/staff").await == 200).await;
    let shown = world.show("anna.celik@example.test");
    assert_eq!(shown["sub"], sub);
    // Nothing is written while nothing changes.
    let before = world.show("anna")["updated_at"].clone();
    let batches = metric(&world.instance, "sealgate_store_commits_total").await;
    let rounds =
        metric(&world.instance, "sealgate_directory_reads_total{directory=\"corp\",outcome=\"complete\"}").await;
    until("two more rounds", async || {
        metric(&world.instance, "sealgate_directory_reads_total{directory=\"corp\",outcome=\"complete\"}").await
            >= rounds + 2
    })
    .await;
    assert_eq!(world.show("anna")["updated_at"], before);
    let after = metric(&world.instance, "sealgate_store_commits_total").await;
    assert!(after - batches <= 1, "{batches} and {after} commits");
}

#[tokio::test]
async fn a_disabled_account_loses_all_access_within_the_refresh_interval() {
    let more = "objectClass: shadowAccount\n";
    let world = World::start(&(user("anna", more) + &user("otto", more)), &Keys::default());
    let anna = world.signed_in("anna").await;
    let otto = world.signed_in("otto").await;
    let events = format!("http://app0.localhost:{}", world.instance.port);
    assert_eq!(anna.open(&format!("{events}/")).await.status, 200);
    let socket = websocket_at(&events, &anna).await;
    world
        .slapd
        .change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: modify\nadd: shadowExpire\nshadowExpire: 1\n"));
    world.becomes(&anna, 302).await;
    tokio::time::timeout(Duration::from_secs(20), closes(socket)).await.expect("the WebSocket closes");
    assert_eq!(world.status(&otto, "/json").await, 200);
    let (_, page) = world.enter("anna", "password of anna").await;
    assert!(problem(&page).contains("has expired"), "{page:?}");
    let (_, page) = world.enter("anna", "wrong").await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
    assert_eq!(world.show("anna")["source"]["state"], "expired");

    // Enabled again, the same user comes back.
    world.slapd.change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: modify\ndelete: shadowExpire\n"));
    let sub = world.show("anna")["sub"].clone();
    world.signed_in("anna").await;
    assert_eq!(world.show("anna")["sub"], sub);
    // The local state is asked too.
    world.instance.run(&["user", "disable", "anna"]);
    let (_, page) = world.enter("anna", "password of anna").await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
}

#[tokio::test]
async fn a_new_account_with_an_old_address_is_another_user() {
    let world = World::start(&user("anna", ""), &Keys::default());
    let anna = world.signed_in("anna").await;
    let sub = world.show("anna")["sub"].as_str().unwrap().to_owned();
    world.instance.run(&["user", "set", "anna", "--add-group", "secret"]);
    world.slapd.change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: delete\n"));
    world.becomes(&anna, 302).await;
    world.slapd.change(&user("anna", "").replace("\nobjectClass", "\nchangetype: add\nobjectClass"));
    world.signed_in("anna").await;
    let now = world.show("anna@example.test");
    assert_ne!(now["sub"].as_str().unwrap(), sub);
    assert_eq!(now["groups"], serde_json::json!([]));
    let gone = world.show(&sub);
    assert_eq!((&gone["source"]["state"], &gone["groups"][0]), (&"gone".into(), &"secret".into()));
    // Deleting the old user does not affect the new one.
    world.instance.run(&["user", "delete", &sub]);
    assert_eq!(world.show("anna@example.test")["sub"], now["sub"]);
}

/// The previous owner has no access left, so the refresh does not read the account.
#[tokio::test]
async fn a_user_who_is_gone_gives_the_names_to_their_new_owner() {
    let world = World::start(&user("anna", ""), &Keys::default());
    world.signed_in("anna").await;
    let before = world.show("anna")["sub"].as_str().unwrap().to_owned();
    world.instance.run(&["user", "revoke", "anna"]);
    world.slapd.change(&format!("dn: uid=anna,ou=people,{BASE}\nchangetype: delete\n"));
    world.slapd.change(&user("anna", "").replace("\nobjectClass: inetOrg", "\nchangetype: add\nobjectClass: inetOrg"));
    world.signed_in("anna").await;
    assert_ne!(world.show("anna")["sub"].as_str().unwrap(), before);
    assert_eq!(world.show(&before)["source"]["state"], "gone");
}

/// Whoever may change groups must not be able to keep the access of others.
#[tokio::test]
async fn a_user_with_unreadable_groups_does_not_delay_the_changes_of_others() {
    let mut entries = user("anna", "objectClass: shadowAccount\n") + &user("otto", "");
    entries += &group("staff", &["uid=otto,ou=people"]);
    entries += &group("chain0", &["cn=none,ou=groups"]);
    for number in 1..20 {
        entries += &group(&format!("chain{number}"), &[&format!("cn=chain{},ou=groups", number - 1)]);
    }
    let world = World::start(&entries, &Keys::default());
    let (anna, otto) = (world.signed_in("anna").await, world.signed_in("otto").await);
    assert_eq!(world.status(&otto, "/staff").await, 200);
    world.slapd.change(&format!(
        "dn: cn=chain0,ou=groups,{BASE}\nchangetype: modify\nadd: member\nmember: uid=otto,ou=people,{BASE}\n\n\
         dn: uid=anna,ou=people,{BASE}\nchangetype: modify\nadd: shadowExpire\nshadowExpire: 1\n"
    ));
    world.becomes(&anna, 302).await;
    until("the groups are dropped", async || world.status(&otto, "/staff").await == 403).await;
    assert_eq!(world.status(&otto, "/json").await, 200);
}

#[tokio::test]
async fn a_local_account_is_never_linked_by_its_address() {
    let world = World::start(&(user("otto", "") + &user("ben", "mail: anna@example.test\n")), &Keys::default());
    world.instance.add_anna();
    // The directory's password does not open the local account of the same address.
    let (_, page) = world.enter("anna@example.test", "password of ben").await;
    assert!(problem(&page).contains("Incorrect"), "{page:?}");
    let (_, page) = world.enter("anna@example.test", PASSWORD).await;
    assert_eq!(page.status, 200, "{page:?}");
    // The account in the directory with the address of a local user is refused, and nothing is stored.
    world.slapd.change(&format!(
        "dn: uid=otto,ou=people,{BASE}\nchangetype: modify\nreplace: mail\nmail: anna@example.test\n"
    ));
    let (_, page) = world.enter("otto", "password of otto").await;
    assert!(problem(&page).contains("Another account"), "{page:?}");
    assert_eq!(world.instance.json(&["user", "list"])["users"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sign_ins_fail_cleanly_while_the_directory_is_away_and_no_guess_is_charged() {
    let keys = Keys { timeout_seconds: 5, sections: "[login]\nfailures_per_account = 3\n", ..Keys::default() };
    let world = World::start(&(user("anna", "") + &user("otto", "")), &keys);
    let otto = world.signed_in("otto").await;
    world.slapd.suspend();
    for _ in 0..4 {
        let (_, page) = world.enter("anna", "password of anna").await;
        assert_eq!(page.status, 503, "{page:?}");
        assert!(page.headers.contains_key("retry-after"));
        assert!(problem(&page).contains("does not answer"), "{page:?}");
    }
    // Users who are signed in continue, and local users sign in.
    assert_eq!(world.status(&otto, "/json").await, 200);
    let local = ["user", "add", "local@example.org", "--name", "Local", "--password-stdin"];
    world.instance.run_with_input(&local, PASSWORD);
    let (_, page) = world.enter("local@example.org", PASSWORD).await;
    assert_eq!(page.status, 200, "{page:?}");
    world.slapd.resume();
    world.signed_in("anna").await;
}

/// A directory may lock an account after a few wrong passwords, whichever of its names was typed.
#[tokio::test]
async fn guesses_with_all_names_of_a_user_are_counted_together() {
    let keys = Keys { sections: "[login]\nfailures_per_account = 4\n", ..Keys::default() };
    let world = World::start(&(user("anna", "") + &user("otto", "")), &keys);
    // Half of the guesses are permitted at once.
    for name in ["anna", "anna@example.test"] {
        let (_, page) = world.enter(name, "wrong").await;
        assert!(problem(&page).contains("Incorrect"), "{page:?}");
    }
    for name in ["ANNA@example.test", "anna"] {
        let (_, page) = world.enter(name, "password of anna").await;
        assert_eq!(page.status, 429, "{page:?}");
    }
    world.signed_in("otto").await;
}

#[tokio::test]
async fn sessions_pause_when_the_directory_is_away_for_too_long() {
    let world = World::start(&user("anna", ""), &Keys { stale_seconds: 3, timeout_seconds: 5, ..Keys::default() });
    let anna = world.signed_in("anna").await;
    world.slapd.suspend();
    world.becomes(&anna, 503).await;
    assert_eq!(anna.get(&world.instance.url("/account")).await.status, 503);
    world.slapd.resume();
    world.becomes(&anna, 200).await;
}

#[tokio::test]
async fn a_mass_loss_signs_nobody_out_until_it_is_accepted() {
    let names: Vec<String> = (0..12).map(|number| format!("user{number}")).collect();
    let entries: String = names.iter().map(|name| user(name, "")).collect();
    let world = World::start(&entries, &Keys::default());
    let mut browsers = Vec::new();
    for name in &names {
        browsers.push(world.signed_in(name).await);
    }
    let held = "sealgate_directory_held_back{directory=\"corp\"}";
    assert_eq!(metric(&world.instance, held).await, 0);
    // Without the entry in between, a read fails and says nothing. So all accounts are gone at once.
    world.slapd.change(&format!(
        "dn: ou=people,{BASE}\nchangetype: modrdn\nnewrdn: ou=former\ndeleteoldrdn: 1\n\n\
         dn: ou=people,{BASE}\nchangetype: add\nobjectClass: organizationalUnit\nou: people\n"
    ));
    until("the loss is reported", async || metric(&world.instance, held).await == 1).await;
    let open = async || {
        let mut open = 0;
        for browser in &browsers {
            open += usize::from(world.status(browser, "/json").await == 200);
        }
        open
    };
    assert_eq!(open().await, names.len());
    assert!(!world.instance.try_run(&["directory", "revoke-gone", "other"], "").status.success());
    world.instance.run(&["directory", "revoke-gone", "corp"]);
    until("all are signed out", async || open().await == 0).await;
    until("the alarm ends", async || metric(&world.instance, held).await == 0).await;
}

#[tokio::test]
async fn settings_that_the_directory_keeps_cannot_be_changed_here() {
    let world = World::start(&user("anna", ""), &Keys::default());
    let anna = world.signed_in("anna").await;
    for change in [&["--name", "Other"][..], &["--email", "other@example.test"], &["--username", "other"]] {
        let output = world.instance.try_run(&[&["user", "set", "anna"], change].concat(), "");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains("the user's directory keeps the"), "{text}");
    }
    let output = world.instance.try_run(&["user", "set-password", "anna", "--password-stdin"], "a new long password\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the user's directory keeps the password"));
    let page = anna.get(&world.instance.url("/account/password")).await;
    assert!(page.body.contains("id=\"password-managed\"") && !page.body.contains("password-submit"), "{page:?}");
    let page = anna.get(&world.instance.url("/account")).await;
    assert_eq!(page.status, 200, "{page:?}");
    let page = anna.submit(&page, &[("name", "Somebody Else"), ("phone_number", ""), ("picture", "")]).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(world.show("anna")["name"], "anna");
}

/// Returns the value of a series.
pub(super) async fn metric(instance: &Instance, series: &str) -> u64 {
    let text = reqwest::get(instance.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
}
