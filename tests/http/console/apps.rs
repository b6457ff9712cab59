//! Tests the console's pages about applications.

use std::sync::Arc;

use sealgate_core::refusals::RecentRefusal;

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
