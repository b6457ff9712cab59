//! Tests resources (RFC 8707): the audience and the scopes of tokens, the consent, and refusals.

use sealgate_domain::client::ClientId;
use sealgate_system::clock::Clock as _;
use serde_json::json;

use crate::steps::assert_login;
use crate::support::{Provider, REDIRECT_URI, Tokens, is_consent, jwt_claims};

const ISSUER: &str = crate::support::ISSUER;
const WIKI: &str = "https://wiki.test";
const SHOP: &str = "https://shop.test";
const ANNA: &str = "anna@example.test";

/// Wiki and shop are resources. Desk is an application without settings for resources.
const APPS: &str = r#"
    [[app]]
    name = "wiki"
    title = "Team wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    scopes = { "wiki:read" = { en = "Read pages", tr = "Sayfaları okuma" }, "wiki:write" = "Change pages" }
    [[app]]
    name = "shop"
    host = "shop.test"
    upstreams = ["http://127.0.0.1:8082"]
    issuer_audience = false
    clients = ["c1"]
    [[app]]
    name = "desk"
    host = "desk.test"
    upstreams = ["http://127.0.0.1:8083"]
    [[app]]
    name = "notes"
    host = "notes.test"
    upstreams = ["http://127.0.0.1:8085"]
    agents = true
    scopes = { "notes:read" = "Read notes", "notes:write" = "Change notes" }
    [[app.route]]
    path = "/mcp"
    access = "bearer"
    resource = true
    [[app]]
    name = "previews"
    host = "*.previews.test"
    upstreams = ["http://127.0.0.1:8084"]
    scopes = { "previews:read" = "Read previews" }
"#;

async fn provider() -> Provider {
    Provider::with(APPS).await
}

/// Redeems a code with a resource.
async fn redeem(client: &crate::support::Client<'_>, code: &str, resource: &str) -> crate::support::Reply {
    let fields = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
    client.token(&[&fields[..], &[("resource", resource)]].concat()).await
}

async fn refresh(client: &crate::support::Client<'_>, token: &str, more: &[(&str, &str)]) -> crate::support::Reply {
    client.token(&[&[("grant_type", "refresh_token"), ("refresh_token", token)], more].concat()).await
}

#[tokio::test]
async fn the_resource_is_the_audience_of_the_access_token() {
    let provider = provider().await;
    for (resource, scope, aud, id_token) in [
        (WIKI, "openid wiki:read", json!([WIKI, ISSUER]), true),
        ("https://wiki.test/", "openid wiki:read", json!([WIKI, ISSUER]), true),
        (WIKI, "wiki:write wiki:read", json!(WIKI), false),
        (WIKI, " wiki:read  offline_access ", json!(WIKI), false),
        (SHOP, "openid", json!([SHOP, ISSUER]), true),
        ("https://pr-7.previews.test", "previews:read", json!("https://pr-7.previews.test"), false),
    ] {
        let code = provider.c1().code(&[("resource", resource), ("scope", scope)]).await;
        let tokens = Tokens::of(&redeem(&provider.c1(), &code, resource).await);
        let claims = jwt_claims(&tokens.access);
        assert_eq!((&claims["aud"], tokens.id.is_empty()), (&aud, !id_token), "{resource} {scope}");
        let mut wanted: Vec<_> = scope.split(' ').filter(|value| !value.is_empty()).collect();
        let mut given: Vec<_> = tokens.body["scope"].as_str().unwrap().split(' ').collect();
        wanted.sort_unstable();
        given.sort_unstable();
        assert_eq!((given, &claims["scope"]), (wanted, &tokens.body["scope"]), "{resource} {scope}");
        assert_eq!(tokens.refresh.is_empty(), !scope.contains("offline_access"));
        // The UserInfo endpoint is part of the issuer.
        assert_eq!(provider.userinfo(&tokens.access).await.status, if id_token { 200 } else { 401 });
    }
}

#[tokio::test]
async fn a_resource_needs_no_scope() {
    let provider = provider().await;
    let code = provider.c1().code(&[("resource", SHOP), ("scope", "-")]).await;
    let tokens = Tokens::of(&redeem(&provider.c1(), &code, SHOP).await);
    assert_eq!((&jwt_claims(&tokens.access)["aud"], tokens.body.get("scope")), (&json!(SHOP), None));
    let browser = provider.browser();
    let reply = browser.get(&provider.c1().authorize(&[("scope", "-")])).await;
    reply.assert_error_redirect("invalid_request");
}

/// Clients of the Model Context Protocol send no scope, or only spaces, if they know none.
#[tokio::test]
async fn without_a_scope_an_agent_gets_all_scopes_of_the_resource() {
    let provider = provider().await;
    for (resource, scope, given) in [
        ("https://notes.test/mcp", "-", "notes:read notes:write"),
        ("https://notes.test", " ", "notes:read notes:write"),
        ("https://notes.test/mcp", " offline_access", "offline_access"),
        ("https://notes.test/mcp/", "notes:read", "notes:read"),
    ] {
        let code = provider.c1().code(&[("resource", resource), ("scope", scope)]).await;
        let tokens = Tokens::of(&redeem(&provider.c1(), &code, resource).await);
        let claims = jwt_claims(&tokens.access);
        assert_eq!(claims["aud"], json!(resource.trim_end_matches('/')), "{resource}");
        assert_eq!(claims["scope"], json!(given), "{resource} {scope}");
    }
    let browser = provider.browser();
    for wrong in ["https://notes.test/mcp/a", "https://notes.test/", "https://notes.test/MCP", "https://wiki.test/mcp"]
    {
        let reply = browser.open(&provider.c1().authorize(&[("resource", wrong), ("scope", "openid")])).await;
        if wrong.ends_with("test/") { assert_login(&reply) } else { reply.assert_error_redirect("invalid_target") }
    }
    let request = [("resource", "https://notes.test/mcp"), ("scope", "-"), ("prompt", "consent")];
    let address = provider.c1().authorize(&request);
    let page = browser.sign_in(&browser.open(&address).await, ANNA).await;
    for text in ["https://notes.test/mcp", "Read notes", "Change notes"] {
        assert!(page.text().contains(text), "{text}: {}", page.text());
    }
}

#[tokio::test]
async fn resources_that_are_not_available_are_invalid_targets() {
    let provider = provider().await;
    let browser = provider.browser();
    for wrong in [
        "https://wiki.test/x",
        "https://wiki.test//",
        // An application that is not a resource.
        "https://desk.test",
        "https://WIKI.test",
        "http://wiki.test",
        "https://wiki.test#a",
        "https://wiki.test?a",
        "https://x.test",
        "wiki",
        "https://a.b.previews.test",
        "https://*.previews.test",
        ISSUER,
    ] {
        let address = provider.c1().authorize(&[("resource", wrong)]);
        browser.get(&address).await.assert_error_redirect("invalid_target");
    }
    let twice = format!("{}&resource={SHOP}", provider.c1().authorize(&[("resource", WIKI)]));
    browser.get(&twice).await.assert_error_redirect("invalid_target");
    // The shop lists its clients.
    browser.get(&provider.c2().authorize(&[("resource", SHOP)])).await.assert_error_redirect("invalid_target");
}

#[tokio::test]
async fn scopes_belong_to_their_resource() {
    let provider = provider().await;
    let browser = provider.browser();
    for (resource, scope) in [
        ("-", "openid wiki:read"),
        (SHOP, "openid wiki:read"),
        (WIKI, "wiki:delete"),
        (WIKI, "previews:read"),
        (WIKI, "wiki:read profile"),
        (WIKI, "email"),
        ("-", "offline_access"),
    ] {
        let address = provider.c1().authorize(&[("resource", resource), ("scope", scope)]);
        browser.get(&address).await.assert_error_redirect("invalid_scope");
    }
}

#[tokio::test]
async fn a_token_request_names_the_granted_resource_or_none() {
    let provider = provider().await;
    let request = [("resource", WIKI), ("scope", "openid wiki:read wiki:write offline_access")];
    let code = provider.c1().code(&request).await;
    for other in [SHOP, "https://x.test"] {
        redeem(&provider.c1(), &code, other).await.assert_error(400, "invalid_target");
    }
    // The refused requests have not used the code.
    let first = Tokens::of(&provider.c1().redeem(&code).await);
    assert_eq!(jwt_claims(&first.access)["aud"], json!([WIKI, ISSUER]));
    refresh(&provider.c1(), &first.refresh, &[("resource", SHOP)]).await.assert_error(400, "invalid_target");
    refresh(&provider.c1(), &first.refresh, &[("scope", "previews:read")]).await.assert_error(400, "invalid_scope");
    refresh(&provider.c1(), &first.refresh, &[("scope", "wiki:delete")]).await.assert_error(400, "invalid_scope");
    let narrow = [("resource", WIKI), ("scope", "wiki:read")];
    let second = Tokens::of(&refresh(&provider.c1(), &first.refresh, &narrow).await);
    let claims = jwt_claims(&second.access);
    assert_eq!((&claims["aud"], &claims["scope"], second.id.as_str()), (&json!(WIKI), &json!("wiki:read"), ""));
    // The grant keeps its scopes.
    let third = Tokens::of(&refresh(&provider.c1(), &second.refresh, &[]).await);
    let claims = jwt_claims(&third.access);
    assert_eq!(claims["aud"], json!([WIKI, ISSUER]));
    assert_eq!(claims["scope"], "openid offline_access wiki:read wiki:write");
}

#[tokio::test]
async fn a_token_of_a_general_grant_can_be_limited_to_one_resource() {
    let provider = provider().await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    assert_eq!(jwt_claims(&tokens.access)["aud"], json!(ISSUER));
    // The shop does not accept tokens for the issuer, so the grant does not include it.
    refresh(&provider.c1(), &tokens.refresh, &[("resource", SHOP)]).await.assert_error(400, "invalid_target");
    let limited = Tokens::of(&refresh(&provider.c1(), &tokens.refresh, &[("resource", WIKI)]).await);
    let claims = jwt_claims(&limited.access);
    assert_eq!((&claims["aud"], &claims["scope"]), (&json!([WIKI, ISSUER]), &json!("openid offline_access")));
    let scope = [("resource", WIKI), ("scope", "wiki:read")];
    refresh(&provider.c1(), &limited.refresh, &scope).await.assert_error(400, "invalid_scope");
    let again = Tokens::of(&refresh(&provider.c1(), &limited.refresh, &[]).await);
    assert_eq!(jwt_claims(&again.access)["aud"], json!(ISSUER));
}

#[tokio::test]
async fn the_consent_page_shows_the_application_and_its_scopes_in_both_languages() {
    let provider = provider().await;
    for (language, shown, lead) in [
        ("en", "Read pages", "<bdi>Client c1</bdi> can use <bdi>Team wiki</bdi>"),
        ("tr", "Sayfaları okuma", "<bdi>Client c1</bdi> uygulaması <bdi>Team wiki</bdi> uygulamasını"),
    ] {
        let browser = provider.browser();
        let request = [("resource", WIKI), ("scope", "wiki:read"), ("ui_locales", language), ("prompt", "consent")];
        let page = browser.sign_in(&browser.open(&provider.c1().authorize(&request)).await, ANNA).await;
        assert!(is_consent(&page), "{page:?}");
        for text in [lead, WIKI, shown] {
            assert!(page.text().contains(text), "{text}: {}", page.text());
        }
        assert!(!page.text().contains("Change pages") && !page.text().contains("consent-shares"), "{}", page.text());
        assert!(browser.allow(&page).await.returned("code").is_some());
    }
}

#[tokio::test]
async fn consent_is_given_for_each_resource() {
    let provider = provider().await;
    let browser = provider.browser();
    let asks = async |resource: &str, scope: &str| {
        let silent = [("resource", resource), ("scope", scope), ("prompt", "none")];
        let reply = browser.get(&provider.c1().authorize(&silent)).await;
        match reply.returned("error") {
            Some(error) => {
                assert_eq!(error, "consent_required");
                true
            }
            None => false,
        }
    };
    browser.authorize(&provider.c1().authorize(&[("resource", WIKI), ("scope", "openid wiki:read")]), ANNA).await;
    assert!(!asks(WIKI, "openid wiki:read").await && !asks(WIKI, "openid").await);
    for (resource, scope) in
        [(WIKI, "openid wiki:write"), (WIKI, "openid email"), (SHOP, "openid"), ("-", "openid"), (SHOP, "-")]
    {
        assert!(asks(resource, scope).await, "{resource} {scope}");
    }
    browser.authorize(&provider.c1().authorize(&[("scope", "openid email")]), ANNA).await;
    assert!(!asks("-", "openid email").await && asks(SHOP, "openid").await);
    assert!(asks(WIKI, "openid email").await && !asks(WIKI, "openid wiki:read").await);
    // The account page names the resource.
    let page = browser.open("/account/applications").await;
    assert!(page.text().contains(WIKI) && !page.text().contains(SHOP), "{}", page.text());
}

#[tokio::test]
async fn a_withdrawn_consent_ends_the_tokens_of_a_resource() {
    let provider = provider().await;
    let request = [("resource", WIKI), ("scope", "openid wiki:read offline_access")];
    let tokens = Tokens::of(&provider.c1().redeem(&provider.c1().code(&request).await).await);
    let code = provider.c1().code(&request).await;
    let c1 = ClientId::parse("c1").unwrap();
    provider.sealgate.store.withdraw_consent(provider.anna.sub, &c1, provider.clock.now()).await.unwrap();
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn a_removed_resource_or_scope_is_not_granted_any_more() {
    let provider = provider().await;
    let request = [("resource", WIKI), ("scope", "openid wiki:read wiki:write offline_access")];
    let tokens = Tokens::of(&provider.c1().redeem(&provider.c1().code(&request).await).await);
    let code = provider.c1().code(&request).await;
    let fewer = APPS.replace(", \"wiki:write\" = \"Change pages\"", "");
    let changed = provider.with_settings(&fewer).await;
    let less = Tokens::of(&changed.c1().refresh(&tokens.refresh).await);
    assert_eq!(jwt_claims(&less.access)["scope"], "openid offline_access wiki:read");
    // Without any scope, the wiki is no resource.
    let none = APPS.lines().filter(|line| !line.contains("wiki:read")).collect::<Vec<_>>().join("\n");
    let removed = provider.with_settings(&none).await;
    removed.c1().refresh(&less.refresh).await.assert_error(400, "invalid_target");
    removed.c1().redeem(&code).await.assert_error(400, "invalid_target");
    // The token is valid, because the operator may have removed the resource by mistake.
    Tokens::of(&provider.c1().refresh(&less.refresh).await);
}

#[tokio::test]
async fn without_resources_the_parameter_is_ignored_and_the_documents_are_unchanged() {
    let (plain, with) = (Provider::new().await, provider().await);
    let discovery = "/.well-known/openid-configuration";
    assert_eq!(plain.get(discovery).await.text(), with.get(discovery).await.text());
    let twice = format!("{}&resource={SHOP}", plain.c1().authorize(&[("resource", "not a URI")]));
    let code = plain.browser().authorize(&twice, ANNA).await.returned("code").unwrap();
    let tokens = Tokens::of(&redeem(&plain.c1(), &code, WIKI).await);
    assert_eq!(jwt_claims(&tokens.access)["aud"], json!(ISSUER));
    let wiki = plain.c1().authorize(&[("resource", WIKI), ("scope", "wiki:read")]);
    plain.browser().get(&wiki).await.assert_error_redirect("invalid_scope");
}

#[tokio::test]
async fn clients_that_register_scopes_of_resources_are_registered() {
    let open = format!("{APPS}\n[registration]\nmode = \"open\"");
    let provider = Provider::with(&open).await;
    let json_type = [("content-type", "application/json")];
    for (scope, status) in [("wiki:read", 201), ("openid wiki:read", 201), ("wiki:delete", 400)] {
        let body = json!({ "redirect_uris": [REDIRECT_URI], "scope": scope }).to_string();
        assert_eq!(provider.request("POST", "/oauth/register", &json_type, &body).await.status, status, "{scope}");
    }
}
