//! Tests the table of open accesses on the account page and on the console's page of a user.

use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::secret::Secret;
use sealgate_domain::session::{AppSession, Session, SessionCookie, SessionId};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Role, Subject};
use sealgate_store::AppSite;
use sealgate_system::clock::Clock as _;

use crate::app_logins::provider;
use crate::steps::{assert_login, csrf_of};
use crate::support::{Browser, Provider, Reply, Tokens};

const PAGE: &str = "/account/sessions";
const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";

/// Anna and Ben, each with one access of every kind.
struct World {
    provider: Provider,
    app_sessions: [SessionId; 2],
    app_passwords: [String; 2],
    tokens: [Tokens; 2],
}

impl World {
    async fn new() -> Self {
        let provider = provider().await;
        let anna = Box::pin(open_all(&provider, ANNA, 1)).await;
        let ben = Box::pin(open_all(&provider, BEN, 2)).await;
        Self { app_sessions: [anna.0, ben.0], app_passwords: [anna.1, ben.1], tokens: [anna.2, ben.2], provider }
    }

    async fn of(&self, user: Subject) -> Vec<(&'static str, String)> {
        let (sealgate, now) = (&self.provider.sealgate, self.provider.clock.now());
        let apps = &sealgate.config.apps;
        let found = sealgate_admin::open_accesses::of_user(
            &sealgate.store,
            apps,
            user,
            sealgate.config.sessions.keep_signed_in,
            now,
        )
        .await
        .unwrap();
        found.into_iter().map(|access| (access.kind.as_str(), access.id)).collect()
    }
}

/// Signs the user in and opens an access of every other kind: a session at an application, tokens,
/// an application password, and a name and password at an application.
async fn open_all(provider: &Provider, email: &str, number: u8) -> (SessionId, String, Tokens) {
    let browser = provider.browser();
    let client = provider.c1();
    let code = browser.authorize(&client.authorize(&[("scope", "openid offline_access")]), email).await;
    let tokens = Tokens::of(&client.redeem(&code.returned("code").unwrap()).await);
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    let user = if email == ANNA { provider.anna.sub } else { provider.ben.sub };
    let parent = store.sessions_of_user(user, None, 9).await.unwrap().sessions.remove(0);
    let cookie = SessionCookie::new(SessionId::from_bytes([number; 16]), [number; 24]);
    let session = AppSession {
        id: cookie.id,
        cookie: cookie.hash(),
        app: "wiki".into(),
        host: None,
        parent: parent.id,
        subject: user,
        sign_in: parent.sign_ins[0].clone(),
        created_at: now,
        expires_at: parent.expires_at,
    };
    store.begin_app_session(&session).await.unwrap();
    let (password, _) = AppPassword::new("git", "laptop", AssuranceLevel::One, &[number; 20], now);
    let _ = store.add_app_password(user, &password).await.unwrap();
    let _ = store
        .set_app_credential(user, AppSite { name: "wiki", host: "wiki.test" }, "name", &Secret::new("geheim"), now)
        .await
        .unwrap();
    (session.id, password.id(), tokens)
}

async fn signed_in<'p>(provider: &'p Provider, email: &str) -> Browser<'p> {
    let browser = provider.browser();
    let page = browser.sign_in(&browser.open("/account").await, email).await;
    assert_eq!(page.status, 200);
    browser
}

/// Ends an access with the token of the page's form.
async fn end(browser: &Browser<'_>, path: &str, kind: &str, id: &str) -> Reply {
    let page = browser.get(path).await;
    browser.post(path, &[("csrf", &csrf_of(&page)), ("end", &format!("{kind}:{id}"))]).await
}

#[tokio::test]
async fn every_access_is_listed_and_ended_on_the_account_page() {
    let world = World::new().await;
    let (provider, anna) = (&world.provider, world.provider.anna.sub);
    let browser = signed_in(provider, ANNA).await;
    let page = browser.get(PAGE).await;
    for words in ["Bilgi Bankası", "Open application", "Client c1", "Connected application", "while you are away"] {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
    for words in ["laptop", "Sign-in data", "Its own sign-in at the application ends too.", "This browser"] {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
    let ids = world.of(anna).await;
    let kinds: Vec<_> = ids.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    for (kind, id) in ids.iter().filter(|(kind, _)| *kind != "session") {
        assert!(page.text().contains(&format!("name=\"end\" value=\"{kind}:{id}\"")), "{kind}: {page:?}");
        assert_eq!(end(&browser, PAGE, kind, id).await.status, 303, "{kind}");
        assert!(!world.of(anna).await.contains(&(*kind, id.clone())), "{kind}");
        // An access that has ended is ended again without an error.
        assert_eq!(end(&browser, PAGE, kind, id).await.status, 303, "{kind}");
    }
    assert_eq!(world.of(anna).await.len(), 2);
    assert_eq!(provider.userinfo(&world.tokens[0].access).await.status, 401);
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    for kind in [
        AuditKind::SessionsEnded,
        AuditKind::ConsentWithdrawn,
        AuditKind::AppPasswordRevoked,
        AuditKind::AppCredentialRemoved,
    ] {
        let filter = AuditFilter { subject: Some(anna), kinds: vec![kind], ..AuditFilter::default() };
        assert!(!provider.sealgate.store.audit_page(&filter, None, 9).await.unwrap().records.is_empty(), "{kind:?}");
    }
    // Ben has lost nothing.
    assert_eq!(world.of(provider.ben.sub).await.len(), 5);
}

#[tokio::test]
async fn the_accesses_of_another_user_cannot_be_ended() {
    let world = World::new().await;
    let (provider, ben) = (&world.provider, world.provider.ben.sub);
    provider.change_user(provider.anna.sub, |user| user.roles = [Role::Admin].into()).await;
    let browser = signed_in(provider, ANNA).await;
    let before = world.of(ben).await;
    assert_eq!(before.len(), 5);
    // Anna ends accesses of the same client and application, which are her own.
    let own_page = format!("/console/users/{}", provider.anna.sub);
    for path in [PAGE, &own_page] {
        for (kind, id) in &before {
            let reply = end(&browser, path, kind, id).await;
            assert_eq!(reply.status, 303, "{path} {kind}: {reply:?}");
        }
    }
    assert_eq!(world.of(ben).await, before);
    assert_eq!(provider.userinfo(&world.tokens[1].access).await.status, 200);
    // Without the token of the form, nothing ends.
    let before = world.of(provider.anna.sub).await;
    for path in [PAGE, &own_page] {
        for csrf in ["", "x", &csrf_of(&browser.get("/account").await)] {
            for (kind, id) in &before {
                browser.post(path, &[("csrf", csrf), ("end", &format!("{kind}:{id}"))]).await.assert_error_page();
            }
            browser.post(path, &[("csrf", csrf), ("everything", "yes")]).await.assert_error_page();
        }
    }
    assert_eq!(world.of(provider.anna.sub).await, before);
}

#[tokio::test]
async fn an_administrator_ends_each_access_of_a_user() {
    let world = World::new().await;
    let (provider, ben) = (&world.provider, world.provider.ben.sub);
    provider.change_user(provider.anna.sub, |user| user.roles = [Role::Admin].into()).await;
    let browser = signed_in(provider, ANNA).await;
    let path = format!("/console/users/{ben}");
    let (page, applications) =
        (browser.get(&format!("{path}/sessions")).await, browser.get(&format!("{path}/applications")).await);
    assert!(page.text().contains("id=\"accesses\"") && !page.text().contains("This browser"), "{page:?}");
    for (kind, id) in world.of(ben).await.into_iter().rev() {
        let page = if kind.ends_with("session") { &page } else { &applications };
        assert!(page.text().contains(&format!("name=\"end\" value=\"{kind}:{id}\"")), "{kind}: {page:?}");
        assert_eq!(end(&browser, &path, kind, &id).await.status, 303, "{kind}");
        assert!(!world.of(ben).await.contains(&(kind, id.clone())), "{kind}");
        assert_eq!(end(&browser, &path, kind, &id).await.status, 303, "{kind}");
    }
    let page = browser.get(&format!("{path}/sessions")).await;
    assert!(page.text().contains("Nothing has access to this account."), "{page:?}");
    let page = browser.get(&format!("{path}/applications")).await;
    assert!(page.text().contains("No application has access to this account."), "{page:?}");
    for (kind, id) in [("session", "x"), ("app_session", "x"), ("client", ""), ("user", "x")] {
        end(&browser, &path, kind, id).await.assert_error_page();
        end(&browser, PAGE, kind, id).await.assert_error_page();
    }
    assert!(world.of(provider.anna.sub).await.len() > 4);
}

#[tokio::test]
async fn everything_ends_with_one_button() {
    let world = World::new().await;
    let provider = &world.provider;
    let (own, other) = (signed_in(provider, ANNA).await, signed_in(provider, ANNA).await);
    let page = own.get(PAGE).await;
    let reply = own.post(PAGE, &[("csrf", &csrf_of(&page)), ("everything", "yes")]).await;
    assert_eq!((reply.status, reply.location()), (303, "/oauth/signed-out"));
    for browser in [&own, &other] {
        assert_login(&browser.open(PAGE).await);
    }
    assert_eq!(provider.userinfo(&world.tokens[0].access).await.status, 401);
    provider.c1().refresh(&world.tokens[0].refresh).await.assert_error(400, "invalid_grant");
    // The consent and the sign-in data stay, and are used after the next sign-in only.
    let left: Vec<_> = world.of(provider.anna.sub).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(left, ["client", "app_login"]);
    assert!(signed_in(provider, ANNA).await.get(PAGE).await.text().contains("Allowed, without access at present"));
    assert!(provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords.is_empty());
    assert_eq!(world.of(provider.ben.sub).await.len(), 5);
    assert_eq!(provider.userinfo(&world.tokens[1].access).await.status, 200);
    assert_ne!(world.app_passwords[0], world.app_passwords[1]);
    assert_ne!(world.app_sessions[0], world.app_sessions[1]);
}

#[tokio::test]
async fn old_sessions_do_not_hide_live_ones_and_all_sessions_at_an_application_end() {
    let world = World::new().await;
    let (store, anna) = (&world.provider.sealgate.store, world.provider.anna.sub);
    let live = store.sessions_of_user(anna, None, 9).await.unwrap().sessions.remove(0);
    let cookie = |number: u8| {
        let mut id = [0; 16];
        id[15] = number;
        SessionCookie::new(SessionId::from_bytes(id), [number; 24])
    };
    // The ids of the old sessions are lower, so they are read first.
    for number in 0..=220 {
        let (id, cookie) = (cookie(number).id, cookie(number).hash());
        let old = Session { id, cookie, last_seen_at: UnixTime::from_seconds(0), ..live.clone() };
        store.begin_session(&old).await.unwrap();
        let parent = live.id;
        let session = store.app_session(world.app_sessions[0]).await.unwrap().unwrap().value;
        store.begin_app_session(&AppSession { id, cookie: old.cookie, parent, ..session }).await.unwrap();
    }
    let shown = world.of(anna).await;
    let sessions: Vec<_> = shown.iter().filter(|(kind, _)| *kind == "session").collect();
    assert_eq!(sessions, [&("session", live.id.to_string())]);
    let browser = signed_in(&world.provider, ANNA).await;
    end(&browser, PAGE, "app_session", &world.app_sessions[0].to_string()).await;
    assert_eq!(store.app_sessions_of(live.id, None, 1000).await.unwrap().sessions, []);
    assert!(world.of(anna).await.iter().any(|(_, id)| *id == live.id.to_string()));
}

/// A page has a bounded size. All rows can be reached, those of this browser first.
#[tokio::test]
async fn many_accesses_are_shown_page_by_page() {
    let provider = provider().await;
    for _ in 0..70 {
        signed_in(&provider, ANNA).await;
    }
    let browser = signed_in(&provider, ANNA).await;
    let (mut path, mut shown) = (PAGE.to_owned(), 0);
    loop {
        let page = browser.get(&path).await;
        assert!(page.text().len() < 40 * 1024, "{} bytes", page.text().len());
        assert_eq!(page.text().contains("This browser"), shown == 0, "{page:?}");
        let rows = page.text().matches("value=\"session:").count();
        assert!((1..=30).contains(&rows), "{rows}");
        shown += rows;
        let Some(rest) = page.text().split("id=\"accesses-next\" href=\"").nth(1) else { break };
        path = rest.split('"').next().unwrap().to_owned();
    }
    assert_eq!(shown, 71);
    // Some rows may have ended since the link was shown.
    for (query, status) in [("x", 400), ("-1", 400), ("99999999999999999999", 400), ("500", 200)] {
        assert_eq!(browser.get(&format!("{PAGE}?after={query}")).await.status, status, "{query}");
    }
}
