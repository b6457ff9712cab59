//! Tests changes of applications in the console: what the form can write, the check, the confirmation,
//! changes of others, a failing disk and a refused reload.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sealgate_config::Config;
use sealgate_core::reload::{PendingReload, Reload, ReloadFault, ReloadRequest};
use sealgate_store::Store;

use super::*;
use crate::meddler::{At, Meddler};
use crate::support::form_action;

const EDIT: &str = "/console/apps/wiki/edit";
const RULE: &str = "/console/apps/wiki/rule";
const NEW: &str = "/console/new-app";

const APPS: &str = "# Ours.\n[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n\
    pass_headers = [\"X-Kept\"]\n\n[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\ngroups = [\"staff\"]\n\
    scopes = [\"openid\"]\n";

/// Reload that reads the file, and counts the reloads.
struct TestReload {
    file: PathBuf,
    running: Config,
    refuses: AtomicBool,
    count: AtomicUsize,
    /// User who loses the role while the file is read.
    demotes: Mutex<Option<(Subject, Store)>>,
    seen: Mutex<String>,
}

#[async_trait]
impl Reload for TestReload {
    async fn reload(&self, request: Option<ReloadRequest>) -> Result<Vec<String>, ReloadFault> {
        let pending = self.pending().await.map_err(ReloadFault::Refused)?;
        let request = request.unwrap();
        assert_eq!(request.fingerprint(), pending.config.fingerprint());
        let _event = request.permitted().await?;
        if self.refuses.load(Ordering::Relaxed) {
            return Err(ReloadFault::Refused(vec!["the listener is busy".to_owned()]));
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(pending.difference.reloadable)
    }

    async fn pending(&self) -> Result<PendingReload, Vec<String>> {
        let demoted = self.demotes.lock().unwrap().take();
        if let Some((user, store)) = demoted {
            store.change_user(user, |user| user.roles.clear()).await.unwrap();
        }
        let text = fs::read_to_string(&self.file).unwrap();
        text.clone_into(&mut self.seen.lock().unwrap());
        let config = Config::parse(&text, self.file.parent().unwrap()).unwrap();
        let difference = self.running.difference(&config);
        Ok(PendingReload { config, difference })
    }

    fn file(&self) -> &Path {
        &self.file
    }
}

/// Provider with a configuration file and a file of applications.
struct World {
    provider: Provider,
    directory: tempfile::TempDir,
    reload: Arc<TestReload>,
    meddler: Arc<Meddler>,
}

impl World {
    async fn new() -> Self {
        Self::with(APPS, "").await
    }

    /// `apps` is the file of applications, and `more` the end of the configuration file.
    async fn with(apps: &str, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("applications.toml", apps);
        let keys = "applications_file = \"applications.toml\"\nedit_applications = true";
        let text = support::settings(&format!("{ON}\n{keys}\n{more}"));
        write("sealgate.toml", &text);
        write("pin", "1234");
        let pin = directory.path().join("pin");
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o600)).unwrap();
        let file = directory.path().join("sealgate.toml");
        let mut config = Config::parse(&text, directory.path()).unwrap();
        config.file = Some(file.clone());
        let (provider, meddler) = Provider::meddled_with(ON).await;
        give(&provider, provider.anna.sub, Some(Role::Admin)).await;
        give(&provider, provider.ben.sub, Some(Role::Developer)).await;
        let sealgate = Arc::new(provider.sealgate.with(config.clone()));
        let provider = Provider { sealgate, ..provider };
        let reload = Arc::new(TestReload {
            file,
            running: config,
            refuses: AtomicBool::default(),
            count: AtomicUsize::default(),
            demotes: Mutex::default(),
            seen: Mutex::default(),
        });
        provider.sealgate.reload.set(&(Arc::clone(&reload) as Arc<dyn Reload>));
        Self { provider, directory, reload, meddler }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("applications.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn reloads(&self) -> usize {
        self.reload.count.load(Ordering::Relaxed)
    }
}

/// Returns the fields of the form with the application's settings, with these changes.
fn settings_of<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("action", "save"), ("host", "wiki.test"), ("upstreams", "http://127.0.0.1:9")];
    fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    [&fields[..], changes].concat()
}

/// Returns the fields of the form of the only rule, with these changes.
fn rule_of<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("action", "save-rule"), ("path", "/"), ("access", "signed_in"), ("groups", "staff")];
    fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    [&fields[..], changes].concat()
}

/// Submits the first form of a page. The page may have a second form with the same hidden fields.
async fn send(browser: &Browser<'_>, page: &Reply, fields: &[(&str, &str)]) -> Reply {
    let hidden: BTreeMap<String, String> = hidden_fields(page.text()).into_iter().collect();
    let hidden = hidden.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all: Vec<(&str, &str)> = hidden.chain(fields.iter().copied()).collect();
    let reply = browser.post(&form_action(page.text()), &all).await;
    browser.follow(reply).await
}

fn is_preview(page: &Reply) -> bool {
    page.text().contains("id=\"difference\"") && page.text().contains("id=\"confirm\"")
}

#[tokio::test]
async fn a_change_is_shown_checked_saved_and_reloaded() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    let page = anna.get(EDIT).await;
    assert!(page.text().contains("pass_headers") && page.text().contains("value=\"wiki.test\""), "{page:?}");
    let preview = send(&anna, &page, &settings_of(&[("title", "Our \"wiki\""), ("description", "All of it")])).await;
    assert!(is_preview(&preview), "{preview:?}");
    assert!(preview.text().contains("+title = &#39;Our &#34;wiki&#34;&#39;"), "{preview:?}");
    assert_eq!((world.text(), world.reloads()), (APPS.to_owned(), 0));
    let saved = anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(saved.text().contains("The application was saved"), "{saved:?}");
    assert!(world.text().contains("title = 'Our \"wiki\"'\n") && world.reloads() == 1, "{}", world.text());
    for kept in ["# Ours.\n", "pass_headers = [\"X-Kept\"]\n", "scopes = [\"openid\"]\n"] {
        assert!(world.text().contains(kept), "{}", world.text());
    }
    let previous = fs::read_to_string(world.directory.path().join("applications.toml.previous")).unwrap();
    assert_eq!(previous, APPS);
    let mode = fs::metadata(world.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A rule is changed, and one is added and removed.
    let page = anna.get(&format!("{RULE}?at=0")).await;
    assert!(page.text().contains("scopes") && page.text().contains(">staff</textarea>"), "{page:?}");
    let preview = send(&anna, &page, &rule_of(&[("groups", "staff\r\nops"), ("max_age_seconds", "300")])).await;
    anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(world.text().contains("groups = [\"staff\", \"ops\"]\n"), "{}", world.text());
    assert!(world.text().contains("max_age_seconds = 300\n"), "{}", world.text());
    let page = anna.get(RULE).await;
    let preview = send(&anna, &page, &rule_of(&[("path", "/admin/"), ("groups", "admins")])).await;
    anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(world.text().ends_with("path = \"/admin/\"\naccess = \"signed_in\"\ngroups = [\"admins\"]\n"));
    let page = anna.get(&format!("{RULE}?at=1")).await;
    let preview = send(&anna, &page, &[("action", "remove-rule")]).await;
    assert!(is_preview(&preview) && preview.text().contains("-path = &#34;/admin/&#34;"), "{preview:?}");
    anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(!world.text().contains("/admin/") && world.reloads() == 4, "{}", world.text());

    let store = &world.provider.sealgate.store;
    world.provider.sealgate.audit.write(store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::AppChanged], ..AuditFilter::default() };
    let events = store.audit_page(&filter, None, 9).await.unwrap().records;
    let details: Vec<_> = events.iter().rev().map(|record| record.event.detail.as_deref().unwrap()).collect();
    let expected = ["title, description", "rule / changed", "rule /admin/ added", "rule /admin/ removed"];
    assert_eq!(details, expected);
    for record in &events {
        assert_eq!(record.event.actor, Actor::Administrator(world.provider.anna.sub));
        assert_eq!(record.event.app.as_deref(), Some("wiki"));
    }
}

#[tokio::test]
async fn an_application_is_added_and_removed() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    let page = anna.get(NEW).await;
    let new = [("host", "Chat.test"), ("upstream", "http://127.0.0.1:8082/"), ("groups", "ops")];
    let preview = send(&anna, &page, &new).await;
    assert!(is_preview(&preview) && world.text() == APPS, "{preview:?}");
    let page = anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(world.text().starts_with(APPS) && world.text().contains("name = \"chat\"\n"), "{}", world.text());
    assert_eq!(page.status, 200, "{page:?}");
    for upstream in ["unix:/run/sealgate/admin.sock", "/etc/passwd"] {
        let page = anna.get(NEW).await;
        let page = send(&anna, &page, &[("host", "a.test"), ("upstream", upstream)]).await;
        assert!(page.text().contains("Enter a host name and the address"), "{page:?}");
    }
    let page = anna.get("/console/apps/chat/edit").await;
    let preview = send(&anna, &page, &[("action", "remove")]).await;
    assert!(is_preview(&preview) && preview.text().contains("-name = &#34;chat&#34;"), "{preview:?}");
    let list = anna.submit(&preview, &[("sure", "yes")]).await;
    assert_eq!((list.status, world.text().trim_end(), world.reloads()), (200, APPS.trim_end(), 2));
}

/// Only administrators with a recent sign-in change the applications of the file, with a token of the form.
#[tokio::test]
async fn only_administrators_with_a_recent_sign_in_change_applications() {
    let world = World::new().await;
    let (anna, ben) = (signed_in(&world.provider, ANNA).await, signed_in(&world.provider, BEN).await);
    let page = anna.get(EDIT).await;
    let (csrf, other) = (csrf_of(&page), csrf_of(&anna.get("/console/check").await));
    let seen = hidden_fields(page.text()).into_iter().find(|(name, _)| name == "seen").unwrap().1;
    let more = [("title", "Other"), ("sure", "yes"), ("seen", &seen)];
    let fields = |csrf| [&[("csrf", csrf)][..], &settings_of(&more)].concat();
    for path in [EDIT, RULE] {
        assert_eq!(ben.get(path).await.status, 403, "{path}");
    }
    assert_eq!(ben.post(EDIT, &fields(&csrf)).await.status, 403);
    for csrf in ["", "x", other.as_str()] {
        anna.post(EDIT, &fields(csrf)).await.assert_error_page();
    }
    anna.post("/console/apps/other/edit", &fields(&csrf)).await.assert_error_page();
    world.provider.wait(301);
    let reply = anna.post(EDIT, &fields(&csrf)).await;
    let login = anna.follow(reply).await;
    assert_login(&login);
    assert_eq!((world.text(), world.reloads()), (APPS.to_owned(), 0));
    // After the sign-in, the page asks for the confirmation.
    let preview = anna.sign_in(&login, ANNA).await;
    assert!(is_preview(&preview) && world.reloads() == 0, "{preview:?}");
    for path in ["/console/apps/none/edit", "/console/apps/none/rule", "/console/apps/wiki/rule?at=1"] {
        assert_eq!(anna.get(path).await.status, 404, "{path}");
    }
    // Without the key, the pages do not exist.
    let mut config = world.provider.sealgate.config.as_ref().clone();
    config.console.edit_applications = false;
    let sealgate = Arc::new(world.provider.sealgate.with(config));
    let provider = Provider { sealgate, ..world.provider };
    let anna = signed_in(&provider, ANNA).await;
    assert_eq!(anna.get(EDIT).await.status, 404);
    anna.post(EDIT, &fields(&csrf)).await.assert_error_page();
}

/// A form writes only its own keys, and no value ends its string.
#[tokio::test]
async fn a_form_writes_only_its_keys() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    for changes in [
        &[("title", "a\n[server]")][..],
        &[("title", "a\u{0}b")],
        &[("upstreams", "")],
        &[("host", "")],
        &[("upstreams", "unix:/run/sealgate/admin.sock")],
        &[("upstreams", "http://127.0.0.1:9\nunix:/x")],
    ] {
        let page = anna.get(EDIT).await;
        let page = send(&anna, &page, &settings_of(changes)).await;
        assert!(page.text().contains("id=\"edit-problem\"") && !is_preview(&page), "{changes:?}: {page:?}");
    }
    // Values that the configuration refuses are errors of the check.
    for changes in [&[("host", "a b")][..], &[("host", "\"]\"")], &[("upstreams", "http://u:p@127.0.0.1")]] {
        let page = anna.get(EDIT).await;
        let page = send(&anna, &page, &settings_of(changes)).await;
        assert!(page.text().contains("id=\"app-change-faults\"") && !is_preview(&page), "{changes:?}: {page:?}");
        let sent = send(&anna, &page, &[("sure", "yes")]).await;
        assert!(sent.text().contains("id=\"app-change-faults\""), "{sent:?}");
    }
    for changes in [&[("access", "admin")][..], &[("networks", "10.0.0.0/99")], &[("users", "x\"]")]] {
        let page = anna.get(&format!("{RULE}?at=0")).await;
        let page = send(&anna, &page, &rule_of(changes)).await;
        assert!(page.text().contains("id=\"app-change-faults\""), "{changes:?}: {page:?}");
    }
    assert_eq!((world.text(), world.reloads()), (APPS.to_owned(), 0));
    // Other fields are ignored.
    let more = [("title", "T"), ("login", "x"), ("pass_headers", "X-Evil"), ("name", "evil"), ("icon", "/etc/passwd")];
    let page = anna.get(EDIT).await;
    let preview = send(&anna, &page, &settings_of(&more)).await;
    anna.submit(&preview, &[("sure", "yes")]).await;
    let expected = APPS.replace("[\"X-Kept\"]\n", "[\"X-Kept\"]\ntitle = \"T\"\n");
    assert_eq!(world.text(), expected);
    // The only rule cannot be removed: the application would be open to all users.
    let page = anna.get(&format!("{RULE}?at=0")).await;
    let page = send(&anna, &page, &[("action", "remove-rule")]).await;
    assert!(page.text().contains("its only rule cannot be removed"), "{page:?}");
    assert_eq!(world.text(), expected);
}

#[tokio::test]
async fn a_change_of_others_and_a_repeated_form_change_nothing() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    let open = anna.get(EDIT).await;
    let title = settings_of(&[("title", "T")]);
    let preview = send(&anna, &open, &title).await;
    let theirs = format!("{APPS}# Theirs.\n");
    fs::write(world.path(), &theirs).unwrap();
    let page = send(&anna, &open, &title).await;
    assert!(page.text().contains("because the file has changed"), "{page:?}");
    let page = anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(page.text().contains("has changed in the meantime"), "{page:?}");
    assert_eq!((world.text(), world.reloads()), (theirs, 0));

    let page = anna.get(EDIT).await;
    let preview = send(&anna, &page, &title).await;
    for _ in 0..2 {
        let page = anna.submit(&preview, &[("sure", "yes")]).await;
        assert!(page.text().contains("The application was saved"), "{page:?}");
    }
    assert_eq!(world.reloads(), 1);

    // The reload would apply other changes of the operator too.
    let main = world.directory.path().join("sealgate.toml");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, format!("{text}\n[pages]\noperator = \"New\"\n")).unwrap();
    let page = anna.get(EDIT).await;
    let page = send(&anna, &page, &settings_of(&[("title", "U")])).await;
    assert!(page.text().contains("pages.operator: this change is not applied yet"), "{page:?}");
}

#[tokio::test]
async fn a_failing_disk_and_a_refused_reload_lose_nothing() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    let title = settings_of(&[("title", "T")]);
    let page = anna.get(EDIT).await;
    let preview = send(&anna, &page, &title).await;
    // The temporary file cannot be created.
    let new = world.directory.path().join("applications.toml.new");
    fs::create_dir(&new).unwrap();
    let page = anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(page.text().contains("cannot be written") && world.text() == APPS, "{page:?}");
    fs::remove_dir(&new).unwrap();

    world.reload.refuses.store(true, Ordering::Relaxed);
    let page = anna.get(EDIT).await;
    let preview = send(&anna, &page, &title).await;
    let page = anna.submit(&preview, &[("sure", "yes")]).await;
    assert!(page.text().contains("the listener is busy") && world.text() == APPS, "{page:?}");
    assert_eq!(world.reloads(), 0);
}

/// A page on the issuer's host could act as the user at the provider, and one on a host of a wildcard has
/// the cookies of another application.
#[tokio::test]
async fn hosts_of_sign_in_pages_and_of_wildcards_are_refused() {
    let more = "[factors]\nrp_id = \"old.test\"\n[[app]]\nname = \"tenants\"\nhost = \"*.tenant.test\"\n\
        upstreams = [\"http://127.0.0.1:9\"]\n";
    let world = World::with(APPS, more).await;
    let anna = signed_in(&world.provider, ANNA).await;
    for host in
        ["id.test", "ID.test", "id.test:8443", "old.test", "acme.tenant.test", "acme.tenant.test:8443", "*.a.test"]
    {
        for (path, fields) in [
            (EDIT, settings_of(&[("host", host)])),
            (NEW, vec![("host", host), ("name", "chat"), ("upstream", "http://127.0.0.1:8082"), ("groups", "ops")]),
        ] {
            let page = anna.get(path).await;
            let page = send(&anna, &page, &fields).await;
            let sent = send(&anna, &page, &[("sure", "yes")]).await;
            for page in [page, sent] {
                assert!(page.text().contains("id=\"app-change-faults\"") && !is_preview(&page), "{host}: {page:?}");
                assert!(page.text().contains("only the operator can"), "{host}: {page:?}");
            }
        }
    }
    assert_eq!((world.text(), world.reloads()), (APPS.to_owned(), 0));

    // An application that has such a host keeps it, and the servers that the operator has chosen.
    let apps = APPS.replace("wiki.test", "id.test");
    let world = World::with(&apps, "").await;
    let anna = signed_in(&world.provider, ANNA).await;
    let page = anna.get(EDIT).await;
    let preview = send(&anna, &page, &settings_of(&[("host", "id.test"), ("title", "T")])).await;
    assert!(is_preview(&preview), "{preview:?}");
    let page = anna.get(EDIT).await;
    let page = send(&anna, &page, &settings_of(&[("host", "id.test"), ("upstreams", "http://127.0.0.1:8082")])).await;
    assert!(page.text().contains("Only the operator can change the servers") && !is_preview(&page), "{page:?}");
}

/// Another server would receive the secrets and credentials that Sealgate sends to the application.
#[tokio::test]
async fn servers_that_receive_credentials_are_fixed() {
    let world = World::new().await;
    let anna = signed_in(&world.provider, ANNA).await;
    let other = settings_of(&[("upstreams", "http://127.0.0.1:8082")]);
    for key in [
        "request_headers = { X-Key = \"1\" }",
        "[app.request_headers]\nX-Key = \"1\"",
        "request_header_files.X-Key = \"key\"",
        "login = { recipe = \"wiki.toml\" }",
        "upstream_tls = { ca = \"ca.pem\" }",
        "assertion = true",
        "authorization = \"replace\"",
        "app_password_header = \"X-App-Password\"",
    ] {
        let text = APPS.replace("[\"X-Kept\"]\n", &format!("[\"X-Kept\"]\n{key}\n"));
        fs::write(world.path(), &text).unwrap();
        let page = anna.get(EDIT).await;
        assert!(page.text().contains("readonly"), "{key}: {page:?}");
        let page = send(&anna, &page, &[&other[..], &[("sure", "yes")]].concat()).await;
        assert!(page.text().contains("id=\"edit-problem\"") && !is_preview(&page), "{key}: {page:?}");
        assert_eq!((world.text(), world.reloads()), (text, 0), "{key}");
    }
    fs::write(world.path(), APPS).unwrap();
    let page = anna.get(EDIT).await;
    assert!(!page.text().contains("readonly"), "{page:?}");
    let preview = send(&anna, &page, &other).await;
    assert!(is_preview(&preview), "{preview:?}");
}

#[tokio::test]
async fn a_change_shows_no_secrets() {
    for key in [
        "request_headers = { X-Key = \"s3cret\" }\n",
        "request_headers.X-Key = \"s3cret\"\n",
        "[app.request_headers]\nX-Key = \"s3cret\"\n",
    ] {
        let apps = APPS.replace("pass_headers = [\"X-Kept\"]\n", key);
        let world = World::with(&apps, "").await;
        let anna = signed_in(&world.provider, ANNA).await;
        for fields in [settings_of(&[("title", "T")]), vec![("action", "remove")]] {
            let page = anna.get(EDIT).await;
            let preview = send(&anna, &page, &fields).await;
            assert!(is_preview(&preview) && !preview.text().contains("s3cret"), "{key}: {preview:?}");
        }
        let page = anna.get(EDIT).await;
        let preview = send(&anna, &page, &[("action", "remove")]).await;
        assert!(preview.text().contains("X-Key = &#34;…&#34;"), "{key}: {preview:?}");
        // The file itself keeps the value.
        let page = anna.get(EDIT).await;
        let preview = send(&anna, &page, &settings_of(&[("title", "T")])).await;
        anna.submit(&preview, &[("sure", "yes")]).await;
        assert!(world.text().contains("s3cret") && world.text().contains("title = \"T\""), "{}", world.text());
    }
}

/// The role ends after the form was accepted: before the file is saved, or before the reload.
#[tokio::test]
async fn a_user_who_loses_the_role_meanwhile_changes_no_application() {
    let world = World::new().await;
    for before_save in [true, false] {
        give(&world.provider, world.provider.anna.sub, Some(Role::Admin)).await;
        let anna = signed_in(&world.provider, ANNA).await;
        let page = anna.get(EDIT).await;
        let preview = send(&anna, &page, &settings_of(&[("title", "Mine")])).await;
        assert!(is_preview(&preview), "{preview:?}");
        let save = anna.submit_only(&preview, &[("sure", "yes")]);
        let refused = if before_save {
            let stop = world.meddler.stop(At::AfterCommit, b'S');
            let demotion = give(&world.provider, world.provider.anna.sub, None);
            tokio::join!(save, stop.meanwhile(demotion)).0
        } else {
            let store = (*world.provider.sealgate.store).clone();
            *world.reload.demotes.lock().unwrap() = Some((world.provider.anna.sub, store));
            save.await
        };
        assert_eq!((refused.status, world.reloads()), (403, 0), "{before_save}: {refused:?}");
        assert_eq!(world.text(), APPS, "{before_save}");
        let previous = world.directory.path().join("applications.toml.previous");
        assert!(!before_save || !previous.exists(), "nothing was written");
    }
}
