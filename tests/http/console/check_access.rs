//! Tests the access check of the console: it decides as `sealgate explain` does.

use sealgate_domain::service::ServiceAccess;

use super::*;

const APPS: &str = "[[app]]\nname = \"wiki\"\ntitle = \"Our wiki\"\nhost = \"wiki.test\"\n\
    upstreams = [\"http://127.0.0.1:9\"]\nidentity_headers = { X-Mail = \"email\" }\n\
    [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\ngroups = [\"staff\"]\n\
    [[app.route]]\npath = \"/api/\"\naccess = \"bearer\"\n\
    [[app.route]]\npath = \"/inside/\"\naccess = \"public\"\nnetworks = [\"10.0.0.0/8\"]\n";

async fn with_wiki() -> Provider {
    let provider = provider_with(&format!("sign_in_seconds = 600\n{APPS}")).await;
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    provider
}

async fn check(browser: &Browser<'_>, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get("/console/check").await;
    browser.submit(&page, fields).await
}

#[tokio::test]
async fn a_check_names_decision_rule_reason_and_headers() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    let url = ("url", "https://wiki.test/page");
    let page = check(&anna, &[url, ("user", BEN)]).await;
    assert!(page.text().contains("Allowed") && page.text().contains("/ signed_in, groups staff"), "{page:?}");
    assert!(page.text().contains("<code>X-Mail</code>") || page.text().contains("<code>x-mail</code>"), "{page:?}");
    assert!(page.text().contains(&format!("<code>{BEN}</code>")), "{page:?}");
    let page = check(&anna, &[url, ("user", ANNA)]).await;
    assert!(page.text().contains("Refused") && page.text().contains("HTTP 403"), "{page:?}");
    assert!(page.text().contains("<code>group</code>") && !page.text().contains("check-headers"), "{page:?}");
    let page = check(&anna, &[url]).await;
    assert!(page.text().contains("Redirected to the sign-in page"), "{page:?}");
    let page = check(&anna, &[("url", "https://wiki.test/api/x"), ("user", &provider.ben.sub.to_string())]).await;
    assert!(page.text().contains("The rule accepts access tokens only"), "{page:?}");
    let page = check(&anna, &[("url", "https://wiki.test/inside/")]).await;
    assert!(page.text().contains("Enter the client’s IP address"), "{page:?}");
    let page = check(&anna, &[("url", "https://wiki.test/inside/"), ("address", "10.1.2.3")]).await;
    assert!(page.text().contains("Allowed"), "{page:?}");
    let page = check(&anna, &[("url", "https://other.test/")]).await;
    assert!(page.text().contains("HTTP 421"), "{page:?}");
    // A disabled user has no session.
    provider.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await;
    let page = check(&anna, &[url, ("user", BEN)]).await;
    assert!(page.text().contains("The user is disabled"), "{page:?}");
}

#[tokio::test]
async fn an_access_token_is_explained_and_never_shown() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    let token = provider.c1().tokens("openid").await.access;
    let (url, with_token) = (("url", "https://wiki.test/api/x"), ("token", token.as_str()));
    let page = check(&anna, &[url, with_token]).await;
    assert!(page.text().contains("Allowed") && page.text().contains("/api/ bearer"), "{page:?}");
    assert!(!page.text().contains(&token));
    let page = check(&anna, &[url, with_token, ("user", BEN)]).await;
    assert!(page.text().contains("aria-invalid") && !page.text().contains("check-outcome"), "{page:?}");
    assert!(!page.text().contains(&token));
    let page = check(&anna, &[url, ("token", "x.y.z")]).await;
    assert!(page.text().contains("<code>invalid_token</code>") && page.text().contains("HTTP 401"), "{page:?}");
    provider.wait(3601);
    let anna = signed_in(&provider, ANNA).await;
    let page = check(&anna, &[url, with_token]).await;
    assert!(page.text().contains("<code>exp</code>"), "{page:?}");
}

/// An application that is a resource with scopes.
const SHOP: &str = "[[app]]\nname = \"shop\"\nhost = \"shop.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n\
    scopes = { \"shop:read\" = \"Read\", \"shop:write\" = \"Write\" }\n\
    [[app.route]]\npath = \"/\"\naccess = \"bearer\"\nscopes = [\"shop:read\"]\n\
    [[app.route]]\npath = \"/staff/\"\naccess = \"bearer\"\ngroups = [\"staff\"]\n\
    [[app.route]]\npath = \"/write/\"\naccess = \"bearer\"\nscopes = [\"shop:write\"]\n";

#[tokio::test]
async fn a_check_of_a_client_uses_the_widest_token_that_it_can_get() {
    let provider = provider_with(&format!("{APPS}{SHOP}")).await;
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    let anna = signed_in(&provider, ANNA).await;
    let (read, write, staff) = ("https://shop.test/x", "https://shop.test/write/x", "https://shop.test/staff/x");
    let c1 = ("client", "c1");
    let wants = |page: &Reply, words: &str| assert!(page.text().contains(words), "{words}: {page:?}");
    // For a user, a client can request every scope of the application.
    wants(&check(&anna, &[("url", write), c1, ("user", BEN)]).await, "Allowed");
    wants(&check(&anna, &[("url", staff), c1, ("user", BEN)]).await, "Allowed");
    wants(&check(&anna, &[("url", staff), c1, ("user", ANNA)]).await, "<code>group</code>");
    wants(&check(&anna, &[("url", "https://wiki.test/api/x"), c1, ("user", BEN)]).await, "Allowed");
    // In its own name, it gets what the operator allows.
    let page = check(&anna, &[("url", read), c1]).await;
    assert!(page.text().contains("id=\"client-wrong\"") && !page.text().contains("check-outcome"), "{page:?}");
    let apps = [("shop".to_owned(), ["shop:read".to_owned()].into())].into();
    let service = ServiceAccess { apps, groups: ["staff".to_owned()].into() };
    provider.change_client("c1", |client| client.service = Some(service.clone())).await;
    let page = check(&anna, &[("url", read), c1]).await;
    wants(&page, "Allowed");
    wants(&page, "<a href=\"/console/clients/c1\">");
    wants(&page, "<code>https://shop.test</code>");
    wants(&check(&anna, &[("url", staff), c1]).await, "Allowed");
    wants(&check(&anna, &[("url", write), c1]).await, "<code>scope</code>");
    wants(&check(&anna, &[("url", "https://wiki.test/api/x"), c1]).await, "id=\"client-wrong\"");
    // A client that is not approved, a disabled user, and a disabled client.
    provider.change_client("c1", |client| client.owner = Some(provider.ben.sub)).await;
    wants(&check(&anna, &[("url", write), c1, ("user", BEN)]).await, "<code>unapproved_client</code>");
    provider.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await;
    wants(&check(&anna, &[("url", write), c1, ("user", BEN)]).await, "The user is disabled");
    provider.change_client("c1", |client| client.state = ClientState::Disabled).await;
    let page = check(&anna, &[("url", read), c1]).await;
    wants(&page, "<code>invalid_token</code>");
    wants(&page, "<code>client_id</code>");
}

#[tokio::test]
async fn the_access_check_finds_a_client_without_scripts() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    provider.change_client("c1", |client| client.name = "Şehir rehberi".to_owned()).await;
    let page = anna.get("/console/check").await;
    let url = ("url", "https://wiki.test/x");
    let found = anna.submit(&page, &[url, ("client", "sehir"), ("find-client", "yes")]).await;
    assert!(found.text().contains("id=\"check-found-clients\""), "{found:?}");
    assert!(found.text().contains("name=\"choose-client\" value=\"c1\""), "{found:?}");
    assert_eq!(found.text().matches("name=\"choose-client\"").count(), 1, "{found:?}");
    assert!(found.text().contains("value=\"https://wiki.test/x\""), "{found:?}");
    let none = anna.submit(&found, &[url, ("client", "nothing"), ("find-client", "yes")]).await;
    assert!(none.text().contains("No client matches"), "{none:?}");
    let chosen = anna.submit(&found, &[url, ("client", "sehir"), ("choose-client", "c1")]).await;
    assert!(chosen.text().contains("name=\"client\"") && chosen.text().contains("value=\"c1\""), "{chosen:?}");
    // The page of a client fills in the form.
    let link = "/console/check?client=c1";
    assert!(anna.get("/console/clients/c1").await.text().contains(link));
    assert!(anna.get(link).await.text().contains("value=\"c1\""));
}

#[tokio::test]
async fn invalid_input_is_reported_at_its_field() {
    let provider = with_wiki().await;
    let anna = signed_in(&provider, ANNA).await;
    let long = format!("https://wiki.test/{}", "x".repeat(2000));
    for (fields, id) in [
        (&[("url", "")][..], "url-wrong"),
        (&[("url", "wiki.test/page")], "url-wrong"),
        (&[("url", "https:///page")], "url-wrong"),
        (&[("url", &long)], "url-wrong"),
        (&[("url", "https://wiki.test/a b")], "url-wrong"),
        (&[("url", "https://wiki.test/"), ("method", "G ET")], "method-wrong"),
        (&[("url", "https://wiki.test/"), ("user", "a@b@c")], "user-wrong"),
        (&[("url", "https://wiki.test/"), ("user", "nobody@example.test")], "user-wrong"),
        (&[("url", "https://wiki.test/"), ("client", "nobody")], "client-wrong"),
        (&[("url", "https://wiki.test/"), ("client", "a b")], "client-wrong"),
        (&[("url", "https://wiki.test/"), ("address", "10.0.0.0/8")], "address-wrong"),
    ] {
        let page = check(&anna, fields).await;
        assert!(page.status == 200 && page.text().contains(&format!("id=\"{id}\"")), "{fields:?}: {page:?}");
        assert!(!page.text().contains("check-outcome"), "{fields:?}");
    }
    // The typed values stay, escaped.
    let page = check(&anna, &[("url", "\"><b>"), ("user", "\"><i>")]).await;
    assert!(!page.text().contains("<b>") && page.text().contains("value=\"&#34;&#62;&#60;b&#62;\""), "{page:?}");
}

#[tokio::test]
async fn only_administrators_check_access_with_a_token_of_the_form() {
    let provider = with_wiki().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let csrf = csrf_of(&anna.get("/console/check").await);
    let url = ("url", "https://wiki.test/");
    assert_eq!(ben.post("/console/check", &[("csrf", &csrf), url]).await.status, 403);
    assert_eq!(anna.post("/console/check", &[url]).await.status, 400);
    assert_eq!(anna.post("/console/check", &[("csrf", &csrf), url]).await.status, 200);
    // The page of a user fills in the form.
    let link = format!("/console/check?user={}", provider.ben.sub);
    assert!(anna.get(&format!("/console/users/{}", provider.ben.sub)).await.text().contains(&link));
    assert!(anna.get(&link).await.text().contains(&format!("value=\"{}\"", provider.ben.sub)));
    // The typed values outlive a sign-in that is too old.
    provider.wait(601);
    let login = anna.post("/console/check", &[("csrf", &csrf), ("url", "https://wiki.test/kept")]).await;
    let login = anna.follow(login).await;
    assert_login(&login);
    assert!(anna.sign_in(&login, ANNA).await.text().contains("value=\"https://wiki.test/kept\""));
}
