//! Tests the page of the settings, and the reload of the configuration in the console.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sealgate_config::Config;
use sealgate_core::reload::{PendingReload, Reload, ReloadFault, ReloadRequest};
use sealgate_store::Store;

use super::*;

const PAGE: &str = "/console/settings";
const RELOAD: [(&str, &str); 1] = [("action", "reload")];

/// Reload of a file that the test writes. The running configuration stays the same.
struct TestReload {
    running: Arc<Config>,
    /// Sections that the file has in addition, or the errors of the file.
    file: Mutex<Result<String, Vec<String>>>,
    reloads: AtomicUsize,
    /// User who loses the role while the file is read.
    demotes: Mutex<Option<(Subject, Store)>>,
    events: Mutex<Vec<AuditEvent>>,
}

impl TestReload {
    fn write(&self, sections: &str) {
        *self.file.lock().unwrap() = Ok(sections.to_owned());
    }
}

#[async_trait]
impl Reload for TestReload {
    async fn reload(&self, request: Option<ReloadRequest>) -> Result<Vec<String>, ReloadFault> {
        let pending = self.pending().await.map_err(ReloadFault::Refused)?;
        let request = request.unwrap();
        if request.fingerprint() != pending.config.fingerprint() {
            return Err(ReloadFault::ChangedMeanwhile);
        }
        let event = request.permitted().await?;
        self.reloads.fetch_add(1, Ordering::Relaxed);
        self.events.lock().unwrap().push(event);
        Ok(pending.difference.reloadable)
    }

    async fn pending(&self) -> Result<PendingReload, Vec<String>> {
        let demoted = self.demotes.lock().unwrap().take();
        if let Some((user, store)) = demoted {
            store.change_user(user, |user| user.roles.clear()).await.unwrap();
        }
        let sections = self.file.lock().unwrap().clone()?;
        let config = Config::parse(&support::settings(&format!("{ON}\n{sections}")), Path::new("/nowhere")).unwrap();
        let difference = self.running.difference(&config);
        Ok(PendingReload { config, difference })
    }

    fn file(&self) -> &Path {
        Path::new("/nowhere/sealgate.toml")
    }
}

/// Returns a provider with a reload.
async fn reloading() -> (Provider, Arc<TestReload>) {
    let provider = provider().await;
    let reload = Arc::new(TestReload {
        running: Arc::clone(&provider.sealgate.config),
        file: Mutex::new(Ok(String::new())),
        reloads: AtomicUsize::new(0),
        demotes: Mutex::default(),
        events: Mutex::default(),
    });
    provider.sealgate.reload.set(&(Arc::clone(&reload) as Arc<dyn Reload>));
    (provider, reload)
}

#[tokio::test]
async fn every_setting_is_shown_with_its_value_source_and_description() {
    let provider = provider_with("[rate_limits]\ntoken = 77\n").await;
    let anna = signed_in(&provider, ANNA).await;
    let home = anna.get(PAGE).await;
    let sections: Vec<&str> =
        home.text().split("?section=").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let mut shown = 0;
    for section in &sections {
        let mut at = format!("{PAGE}?section={section}");
        loop {
            let page = anna.get(&at).await;
            assert!(page.text().len() < 40 * 1024, "{at} has {} bytes", page.text().len());
            shown += page.text().matches("<summary>").count();
            let Some(next) = page.text().split("id=\"settings-next\" rel=\"next\" href=\"").nth(1) else { break };
            at = next.split('"').next().unwrap().replace("&#38;", "&");
        }
    }
    assert_eq!(shown, provider.sealgate.config.settings().len(), "{sections:?}");
    let page = anna.get(&format!("{PAGE}?section=rate_limits")).await;
    for words in ["rate_limits.token", "<code>77</code>", "Default: <code>50</code>", "Per client.", "line "] {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
    assert!(anna.get(&format!("{PAGE}?section=server")).await.text().contains("Needs a restart"));
    let page = anna.get(&format!("{PAGE}?section=pages")).await;
    assert_eq!(page.text().matches("class=\"preview ").count(), 4, "{page:?}");
    assert!(page.text().contains("Oturum aç") && page.text().contains("Sign in"), "{page:?}");
}

#[tokio::test]
async fn settings_are_found_by_name_value_and_description() {
    let provider = provider_with("[log]\nfilter = \"warn,sealgate=debug\"\n").await;
    let anna = signed_in(&provider, ANNA).await;
    for (find, key) in [
        ("log.filter", "log.filter"),
        ("sealgate=debug", "log.filter"),
        ("ARGON2 threads", "login.password_threads"),
        ("attestation", "hsm.attestation"),
    ] {
        let page = anna.get(&format!("{PAGE}?find={}", find.replace(' ', "+"))).await;
        assert!(page.text().contains(&format!("<summary><code>{key}</code>")), "{find}: {page:?}");
    }
    let page = anna.get(&format!("{PAGE}?find=no-such-setting")).await;
    assert!(page.text().contains("id=\"settings-none\"") && !page.text().contains("<summary>"), "{page:?}");
    let page = anna.get(&format!("{PAGE}?find=%22%3E%3Cscript%3E")).await;
    assert!(!page.text().contains("<script>"), "{page:?}");
}

#[tokio::test]
async fn secrets_of_the_file_are_never_shown() {
    let provider = provider_with(
        "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:1\"]\n\
         request_headers = { X-Api-Key = \"not-for-pages\" }\n[[app.route]]\npath = \"/\"\naccess = \"public\"\n",
    )
    .await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(&format!("{PAGE}?section=app")).await;
    assert!(page.text().contains("X-Api-Key") && page.text().contains("set, not shown"), "{page:?}");
    for query in ["section=app", "find=request_headers", "find=X-Api-Key"] {
        let page = anna.get(&format!("{PAGE}?{query}")).await;
        assert!(!page.text().contains("not-for-pages"), "{query}: {page:?}");
    }
    let page = anna.get(&format!("{PAGE}?find=not-for-pages")).await;
    assert!(page.text().contains("id=\"settings-none\""), "{page:?}");
}

#[tokio::test]
async fn the_page_says_what_a_reload_would_change_and_what_needs_a_restart() {
    let (provider, reload) = reloading().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get(PAGE).await.text().contains("id=\"file-same\""));
    reload.write("[rate_limits]\ntoken = 7\n[login]\npassword_threads = 1\n");
    let page = anna.get(PAGE).await;
    let part = |id: &str| page.text().split(&format!("id=\"{id}\"")).nth(1).unwrap().split("</ul>").next().unwrap();
    assert!(part("reloadable").contains("rate_limits.token"), "{page:?}");
    assert!(part("needs-restart").contains("login.password_threads"), "{page:?}");
    let page = press_only(&anna, PAGE, &RELOAD).await;
    assert!(page.text().contains("The configuration was not reloaded.") && !is_confirmation(&page), "{page:?}");
    *reload.file.lock().unwrap() = Err(vec!["server.listen: is missing".to_owned()]);
    let page = anna.get(PAGE).await;
    assert!(
        page.text().contains("id=\"file-faulty\"") && page.text().contains("server.listen: is missing"),
        "{page:?}"
    );
    let page = press_only(&anna, PAGE, &RELOAD).await;
    assert!(page.text().contains("The configuration was not reloaded.") && !is_confirmation(&page), "{page:?}");
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_reload_needs_a_recent_administrator_a_form_token_and_a_confirmation() {
    let (provider, reload) = reloading().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    reload.write("[rate_limits]\ntoken = 7\n");
    let csrf = csrf_of(&anna.get(PAGE).await);
    let plan = press_only(&anna, PAGE, &RELOAD).await;
    assert!(is_confirmation(&plan) && plan.text().contains("rate_limits.token"), "{plan:?}");
    assert!(plan.text().contains("<code>50</code>") && plan.text().contains("<code>7</code>"), "{plan:?}");
    let fields = hidden_fields(plan.text());
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    fields.push(("sure", "yes"));
    assert_eq!(ben.get(PAGE).await.status, 403);
    assert_eq!(ben.post(PAGE, &fields).await.status, 403);
    let without_token: Vec<_> = fields.iter().copied().filter(|(name, _)| *name != "csrf").collect();
    assert_eq!(anna.post(PAGE, &without_token).await.status, 400);
    assert_eq!(anna.post(PAGE, &[("csrf", &csrf), ("action", "restart"), ("sure", "yes")]).await.status, 400);
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 0);
    // Both requests have one effect.
    let (one, other) = tokio::join!(anna.post(PAGE, &fields), anna.post(PAGE, &fields));
    assert_eq!((one.status, one.location()), (303, other.location()), "{one:?}");
    let page = anna.follow(one).await;
    assert!(page.text().contains("The configuration was reloaded."), "{page:?}");
    assert!(page.text().contains("id=\"reload-changed\"") && page.text().contains("rate_limits.token"), "{page:?}");
    assert_eq!(anna.post(PAGE, &fields).await.status, 303);
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 1);
    let event = reload.events.lock().unwrap()[0].clone();
    assert_eq!((event.kind, event.actor), (AuditKind::ConfigurationReloaded, Actor::Administrator(provider.anna.sub)));
    assert_eq!(event.request_id.as_deref(), Some("request-1"));
    provider.wait(301);
    let login = anna.post(PAGE, &fields).await;
    let login = anna.follow(login).await;
    assert_login(&login);
    assert!(is_confirmation(&anna.sign_in(&login, ANNA).await));
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_reload_applies_only_the_content_that_was_confirmed() {
    let (provider, reload) = reloading().await;
    let anna = signed_in(&provider, ANNA).await;
    reload.write("[rate_limits]\ntoken = 7\n");
    let plan = press_only(&anna, PAGE, &RELOAD).await;
    reload.write("[rate_limits]\ntoken = 8\n");
    let again = anna.submit_only(&plan, &[("sure", "yes")]).await;
    assert!(again.text().contains("id=\"reload-meanwhile\"") && again.text().contains("<code>8</code>"), "{again:?}");
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 0);
    let page = anna.submit(&again, &[("sure", "yes")]).await;
    assert!(page.text().contains("The configuration was reloaded."), "{page:?}");
    assert_eq!(reload.reloads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_user_who_loses_the_role_while_the_file_is_read_reloads_nothing() {
    let (provider, reload) = reloading().await;
    let anna = signed_in(&provider, ANNA).await;
    reload.write("[rate_limits]\ntoken = 7\n");
    let plan = press_only(&anna, PAGE, &RELOAD).await;
    assert!(is_confirmation(&plan), "{plan:?}");
    *reload.demotes.lock().unwrap() = Some((provider.anna.sub, (*provider.sealgate.store).clone()));
    let refused = anna.submit_only(&plan, &[("sure", "yes")]).await;
    assert_eq!((refused.status, reload.reloads.load(Ordering::Relaxed)), (403, 0), "{refused:?}");
}
