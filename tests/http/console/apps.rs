//! Tests the console's pages about applications.

use std::sync::Arc;

use sealgate_core::refusals::RecentRefusal;
use sealgate_domain::session::{AppSession, SessionCookie, SessionId};

use super::*;

const APPS: &str = "[[app]]\nname = \"wiki\"\ntitle = \"Our wiki\"\nhost = \"wiki.test\"\n\
    upstreams = [\"http://127.0.0.1:9\"]\n\
    [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\ngroups = [\"staff\"]\n\
    [[app.route]]\npath = \"/docs/\"\naccess = \"public\"\nmethods = [\"GET\"]\n\
    [[app.route]]\npath = \"/docs/\"\naccess = \"signed_in\"\n";
const PAGE: &str = "/console/apps/wiki";
const NEW: &str = "/console/new-app";

async fn with_wiki() -> Provider {
    let provider = provider_with(APPS).await;
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    provider
}

#[tokio::test]
async fn the_page_of_an_application_shows_rules_in_order_and_who_has_access() {
    let provider = with_wiki().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    assert!(anna.get("/console/apps").await.text().contains(&format!("href=\"{PAGE}\"")));
    let page = anna.get(PAGE).await;
    let rules = page.text().split("id=\"app-rules\"").nth(1).unwrap().split("</table>").next().unwrap();
    let places: Vec<usize> =
        ["<td data-label=\"Method\">GET", "<code>/docs/</code></td>\n<td data-label=\"Method\">Any", "<code>/</code>"]
            .iter()
            .map(|part| rules.find(part).unwrap_or_else(|| panic!("{part}: {rules}")))
            .collect();
    assert!(places.is_sorted(), "{rules}");
    assert!(page.text().contains("Group: staff</a> Members: 1"), "{page:?}");
    assert!(page.text().contains("Everyone, without signing in"), "{page:?}");
    let refusals = anna.get(&format!("{PAGE}/refusals")).await;
    assert!(refusals.text().contains("id=\"app-refusals-none\""), "{refusals:?}");
    assert!(page.text().contains("value=\"https://wiki.test/\""), "{page:?}");
    assert!(page.text().contains("href=\"/console/audit?client=sealgate-app-wiki\""), "{page:?}");
    assert_eq!(anna.get("/console/apps/none").await.status, 404);
    assert_eq!(ben.get(PAGE).await.status, 403);
    assert_login(&provider.browser().open(PAGE).await);
    // A new sign-in returns to the page.
    provider.wait(24 * 3600);
    let login = anna.open(PAGE).await;
    assert_login(&login);
    assert!(anna.sign_in(&login, ANNA).await.text().contains("<h1>Application: Our wiki</h1>"));
}

#[tokio::test]
async fn recent_refusals_are_shown_with_their_user_and_reason() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    let add = |path: &str, reason, subject: Option<String>| {
        let refusal = RecentRefusal::new(provider.clock.now(), "GET", path, reason, subject);
        provider.sealgate.refusals.add("wiki", refusal);
    };
    add("/<b>", "group", Some(provider.ben.sub.to_string()));
    add("/<b>", "group", Some(provider.ben.sub.to_string()));
    add("/none", "unopened", None);
    let page = anna.get(&format!("{PAGE}/refusals")).await;
    let refusals = page.text().split("id=\"app-refusals\"").nth(1).unwrap();
    assert!(refusals.contains("GET /&#60;b&#62;") && refusals.contains("2 times"), "{refusals}");
    assert!(refusals.contains(&format!("/console/users/{}", provider.ben.sub)) && refusals.contains(BEN), "{refusals}");
    assert!(refusals.contains("none of the rule’s groups") && refusals.contains("<code>unopened</code>"), "{refusals}");
}

#[tokio::test]
async fn the_section_of_a_new_application_is_checked_with_the_configuration() {
    let provider = with_wiki().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let add = async |fields: &[(&str, &str)]| {
        let page = anna.get(NEW).await;
        anna.submit(&page, fields).await
    };
    let (host, upstream) = (("host", "Chat.test"), ("upstream", "http://127.0.0.1:8082/"));
    // The configuration of this provider is not in a file.
    let page = add(&[host, upstream]).await;
    assert!(page.text().contains("cannot read its configuration file"), "{page:?}");
    for fields in
        [&[host][..], &[upstream], &[host, upstream, ("title", "a\u{1}b")], &[host, upstream, ("groups", "a,b")]]
    {
        let page = add(fields).await;
        assert!(page.text().contains("Enter a host name and the address"), "{fields:?}: {page:?}");
    }
    let csrf = csrf_of(&anna.get(NEW).await);
    assert_eq!(ben.post(NEW, &[("csrf", &csrf), host, upstream]).await.status, 403);
    assert_eq!(anna.post(NEW, &[host, upstream]).await.status, 400);
}

#[tokio::test]
async fn a_section_that_the_configuration_file_accepts_is_shown() {
    let provider = with_wiki().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sealgate.toml");
    let text = support::settings(&format!("{ON}\n{APPS}"));
    std::fs::write(&file, &text).unwrap();
    let mut config = provider.sealgate.config.as_ref().clone();
    config.file = Some(file.clone());
    let sealgate = Arc::new(provider.sealgate.with(config));
    let provider = Provider { sealgate, ..provider };
    let anna = signed_in(&provider, ANNA).await;
    let add = async |host: &str, name: &str| {
        let page = anna.get(NEW).await;
        let upstream = ("upstream", "http://127.0.0.1:8082/");
        anna.submit(&page, &[("host", host), upstream, ("name", name), ("groups", "staff\r\nops")]).await
    };
    let page = add("Chat.test", "").await;
    let section = "[[app]]\nname = &#34;chat&#34;\nhost = &#34;chat.test&#34;\n\
        upstreams = [&#34;http://127.0.0.1:8082&#34;]\n\n[[app.route]]\npath = &#34;/&#34;\n\
        access = &#34;signed_in&#34;\ngroups = [&#34;ops&#34;, &#34;staff&#34;]\n";
    assert!(page.text().contains("id=\"app-new-valid\"") && page.text().contains(section), "{page:?}");
    // The checked host and name must be free.
    for (host, name) in [("wiki.test", "chat"), ("chat.test", "wiki"), ("chat.test", "A b"), ("c h", "chat")] {
        let page = add(host, name).await;
        assert!(page.text().contains("id=\"app-new-faults\""), "{host} {name}: {page:?}");
        assert!(!page.text().contains("id=\"section\""), "{host} {name}: {page:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test]
async fn open_sessions_of_an_application_are_listed_and_ended() {
    let provider = with_wiki().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let store = &provider.sealgate.store;
    let parent = store.sessions_of_user(provider.ben.sub, None, 9).await.unwrap().sessions.remove(0);
    let begin = async |number: u8, app: &str| {
        let cookie = SessionCookie::new(SessionId::from_bytes([number; 16]), [number; 24]);
        let session = AppSession {
            id: cookie.id,
            cookie: cookie.hash(),
            app: app.to_owned(),
            host: None,
            parent: parent.id,
            subject: provider.ben.sub,
            sign_in: parent.sign_ins[0].clone(),
            created_at: provider.clock.now(),
            expires_at: provider.clock.now().plus(Duration::from_hours(1)),
        };
        store.begin_app_session(&session).await.unwrap();
        session.id
    };
    let sessions = format!("{PAGE}/sessions");
    assert!(anna.get(&sessions).await.text().contains("id=\"app-sessions-none\""));
    let (wiki, other) = (begin(1, "wiki").await, begin(2, "chat").await);
    let page = anna.get(&sessions).await;
    assert!(page.text().contains(BEN) && page.text().contains(&format!("value=\"{wiki}\"")), "{page:?}");
    assert!(!page.text().contains(&other.to_string()), "{page:?}");
    // Only administrators end sessions, with the token of the form and a recent sign-in.
    let csrf = csrf_of(&page);
    let end = |csrf: &str, id: SessionId| [("csrf", csrf.to_owned()), ("end", id.to_string())];
    let send = async |browser: &Browser<'_>, csrf: &str, id| {
        let fields = end(csrf, id);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.post(&sessions, &fields).await
    };
    assert_eq!(send(&ben, &csrf, wiki).await.status, 403);
    send(&anna, "x", wiki).await.assert_error_page();
    // The session of another application stays.
    assert_eq!(send(&anna, &csrf, other).await.status, 303);
    assert!(store.app_session(other).await.unwrap().is_some() && store.app_session(wiki).await.unwrap().is_some());
    for _ in 0..2 {
        assert_eq!(send(&anna, &csrf, wiki).await.location(), format!("{sessions}?done=session"));
        assert!(store.app_session(wiki).await.unwrap().is_none());
    }
    // 30 sessions are two pages.
    for number in 10..40 {
        begin(number, "wiki").await;
    }
    let page = anna.get(&sessions).await;
    assert_eq!(page.text().matches("name=\"end\"").count(), 25, "{page:?}");
    let next = page.text().split("/sessions?after=").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let page = anna.get(&format!("{sessions}?after={next}")).await;
    assert_eq!(page.text().matches("name=\"end\"").count(), 5, "{page:?}");
    provider.wait(301);
    let last = begin(50, "wiki").await;
    let csrf = csrf_of(&anna.get(&sessions).await);
    let reply = send(&anna, &csrf, last).await;
    assert_login(&anna.follow(reply).await);
    assert!(store.app_session(last).await.unwrap().is_some());
}

#[tokio::test]
async fn the_access_check_finds_a_user_without_scripts() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(PAGE).await;
    let url = ("url", "https://wiki.test/x");
    let found = anna.submit(&page, &[url, ("method", "GET"), ("user", "Şah"), ("find", "yes")]).await;
    assert!(found.text().contains("id=\"check-found\"") && found.text().contains(ANNA), "{found:?}");
    assert!(found.text().contains("value=\"https://wiki.test/x\"") && !found.text().contains(BEN), "{found:?}");
    let none = anna.submit(&found, &[url, ("method", "GET"), ("user", "nobody"), ("find", "yes")]).await;
    assert!(none.text().contains("No user matches"), "{none:?}");
    let chosen = anna.submit(&found, &[url, ("method", "GET"), ("user", "Şah"), ("choose", ANNA)]).await;
    assert!(chosen.text().contains(&format!("value=\"{ANNA}\"")), "{chosen:?}");
    let outcome = anna.submit(&chosen, &[url, ("method", "GET"), ("user", ANNA)]).await;
    assert!(outcome.text().contains("<code>group</code>"), "{outcome:?}");
}
