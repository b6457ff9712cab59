//! Tests which requests are let through: bearer tokens, rules, scripts, paths.

use sealgate_domain::client::{Authority, Client, ClientDecision, ClientId, GrantType, SelfRegistration};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::secret::Secret;
use sealgate_system::clock::Clock;

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn a_token_gives_access_and_is_not_forwarded() {
    let world = World::new().await;
    let token = world.access_token("openid profile email").await;
    for path in ["/api/data?x=%2F", "/", "/profiles/1", "/staff/"] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[("authorization", &bearer(&token))]).await;
        assert_eq!(reply.arrived(), ("wiki", path));
        assert_eq!(reply.header("x-forwarded-user"), Some(world.anna.sub.to_string().as_str()));
        assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
        assert_eq!(reply.header("x-forwarded-name"), Some("Anna %C5%9Eahin"));
        assert_eq!(reply.header("x-forwarded-groups"), Some("a%2Cb,staff"));
        assert_eq!(reply.header("authorization"), None);
    }
}

#[tokio::test]
async fn a_program_without_credentials_is_challenged() {
    let world = World::new().await;
    for (method, path) in [("GET", "/"), ("GET", "/api/x"), ("POST", "/a"), ("DELETE", "/a"), ("OPTIONS", "/a")] {
        let reply = world.call(method, &format!("https://wiki.test{path}"), &[("accept", "*/*")]).await;
        reply.assert_refused(401, "login_required");
        let challenge = "Bearer realm=\"wiki\", scope=\"openid\", \
             resource_metadata=\"https://wiki.test/.well-known/oauth-protected-resource\"";
        assert_eq!(reply.header("www-authenticate"), Some(challenge));
        assert_eq!(reply.header("set-cookie"), None);
    }
    // The scopes that the rule requires, and that the provider supports.
    let reply = world.call("GET", "https://wiki.test/profiles/x", &[]).await;
    assert!(reply.header("www-authenticate").unwrap().contains(", scope=\"openid profile\", "), "{reply:?}");
}

#[tokio::test]
async fn scripts_frames_and_websockets_are_never_redirected() {
    let world = World::new().await;
    let html = ("accept", "text/html");
    for fields in [
        vec![("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty"), html],
        vec![("sec-purpose", "prefetch"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), html],
        vec![("x-requested-with", "XMLHttpRequest"), html],
        vec![("upgrade", "websocket"), ("connection", "upgrade"), html],
        vec![("accept", "*/*")],
        vec![],
    ] {
        world.call("GET", "https://wiki.test/a", &fields).await.assert_refused(401, "login_required");
    }
    for method in ["GET", "HEAD"] {
        let reply = world.call(method, "https://wiki.test/a", &[html]).await;
        assert_eq!(reply.answered_with(), 302);
    }
    let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"), html];
    let reply = world.call("GET", "https://wiki.test/a", &frame).await;
    assert_eq!((reply.answered_with(), reply.header("content-type")), (401, Some("text/html; charset=utf-8")));
    world.call("POST", "https://wiki.test/a", &[html]).await.assert_page(401);
    // A service worker forwards a navigation; an Android WebView names its app.
    for fields in [
        [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "empty"), html],
        [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), ("x-requested-with", "com.example.mail")],
        [("x-requested-with", "com.example.mail"), ("accept-language", "tr"), html],
    ] {
        assert_eq!(world.call("GET", "https://wiki.test/a", &fields).await.answered_with(), 302, "{fields:?}");
    }
    // A path for programs redirects no user to the sign-in, and accepts no session.
    let browser = Browser::new(&world);
    browser.visit("https://wiki.test/api/x").await.assert_refused(401, "login_required");
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    browser.fetch("https://wiki.test/api/x").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn an_invalid_token_is_refused_even_with_a_valid_cookie() {
    let world = World::new().await;
    let token = world.access_token("openid").await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let (input, signature) = token.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { "B" } else { "A" };
    for wrong in [
        "Bearer".to_owned(),
        "Bearer x".to_owned(),
        "Bearer a b".to_owned(),
        bearer(&format!("{input}.{other}{}", &signature[1..])),
        bearer(&format!("{input}.")),
        bearer(&"a".repeat(20_000)),
    ] {
        for path in ["/a", "/api/a"] {
            let fields = [("authorization", wrong.as_str()), ("accept", "text/html")];
            let reply = browser.send("GET", &format!("https://wiki.test{path}"), &fields, "").await;
            reply.assert_refused(401, "invalid_token");
            assert!(reply.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
        }
    }
    let token = bearer(&token);
    let twice = [("authorization", token.as_str()), ("authorization", "Basic eDp5")];
    browser.send("GET", "https://wiki.test/a", &twice, "").await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn a_token_is_refused_before_its_start() {
    use sealgate_domain::oauth::jwt;
    let world = World::new().await;
    let token = world.access_token("openid").await;
    let part = token.split('.').nth(1).unwrap();
    let claims = sealgate_domain::secret::from_base64url(part).unwrap();
    let mut claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    let begins = claims["iat"].as_u64().unwrap() + 60;
    // Signed with the provider's own key, as a tool of the operator may do.
    let signer = world.sealgate.issuer.signer();
    let keys = signer.key_set();
    let kid = keys.active().kid();
    let mut beginning = async |nbf: serde_json::Value| {
        claims["nbf"] = nbf;
        let input = jwt::signing_input(jwt::ACCESS_TOKEN, Algorithm::Rs256, kid.as_str(), &claims).unwrap();
        let signatures = signer.sign(kid, vec![input.clone().into_bytes()]).await.unwrap();
        bearer(&jwt::assemble(&input, signatures[0].as_bytes()))
    };
    let (later, never) = (beginning(begins.into()).await, beginning("soon".into()).await);
    let answer = async |token: &str, url: &str| world.call("GET", url, &[("authorization", token)]).await;
    for url in ["https://wiki.test/api/x", "https://id.test/oauth/userinfo"] {
        answer(&later, url).await.assert_refused(401, "invalid_token");
        answer(&never, url).await.assert_refused(401, "invalid_token");
    }
    world.wait(60);
    answer(&later, "https://wiki.test/api/x").await.arrived();
    assert_eq!(answer(&later, "https://id.test/oauth/userinfo").await.answered_with(), 200);
    answer(&never, "https://wiki.test/api/x").await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn an_expired_or_revoked_token_is_refused_at_once() {
    let world = World::new().await;
    let token = world.access_token("openid").await;
    let fields = [("authorization", bearer(&token))];
    let fields = [(fields[0].0, fields[0].1.as_str())];
    let url = "https://wiki.test/api/x";
    world.call("GET", url, &fields).await.arrived();
    world.wait(899);
    world.call("GET", url, &fields).await.arrived();
    world.wait(1);
    world.call("GET", url, &fields).await.assert_refused(401, "invalid_token");

    let token = world.access_token("openid").await;
    let sent = bearer(&token);
    world.call("GET", url, &[("authorization", &sent)]).await.arrived();
    let form = crate::world::encode(&[("token", &token), ("client_id", "api"), ("client_secret", "secret")]);
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let request = crate::world::request("POST", "https://id.test/oauth/revoke", &headers, &form);
    assert_eq!(world.send("192.0.2.9", request).await.answered_with(), 200);
    world.call("GET", url, &[("authorization", &sent)]).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn a_token_for_another_audience_is_refused() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid").await);
    let reply = world.call("GET", "https://shop.test/orders/1", &[("authorization", &token)]).await;
    reply.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid email").await);
    let reply = world.call("GET", "https://wiki.test/profiles/1", &[("authorization", &token)]).await;
    reply.assert_refused(403, "insufficient_scope");
    let challenge = reply.header("www-authenticate").unwrap();
    // The challenge names all scopes that the next authorization request needs. `profile` alone
    // would be rejected.
    assert!(
        challenge.contains("error=\"insufficient_scope\"") && challenge.contains(" scope=\"openid profile\""),
        "{challenge}"
    );
    let refresh = |client: &mut Client| client.grant_types.push(GrantType::RefreshToken);
    world.sealgate.store.change_client(&ClientId::parse("api").unwrap(), refresh).await.unwrap();
    let token = bearer(&world.access_token("openid email offline_access").await);
    let reply = world.call("GET", "https://wiki.test/profiles/1", &[("authorization", &token)]).await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(challenge.contains(" scope=\"openid profile offline_access\""), "{challenge}");
}

/// Self-registered clients request exactly the scopes of the challenge.
#[tokio::test]
async fn with_open_registration_the_challenge_names_offline_access() {
    let world = World::with("[registration]\nmode = \"open\"\n").await;
    for (path, scopes) in [("/", "openid offline_access"), ("/profiles/1", "openid profile offline_access")] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[]).await;
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.contains(&format!(" scope=\"{scopes}\"")), "{challenge}");
    }
}

#[tokio::test]
async fn a_token_in_the_url_is_ignored() {
    let world = World::new().await;
    let token = world.access_token("openid").await;
    let url = format!("https://wiki.test/api/x?access_token={token}");
    world.call("GET", &url, &[]).await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn users_outside_the_group_are_refused() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", BEN).await;
    browser.fetch("https://wiki.test/staff/").await.assert_refused(403, "access_denied");
    browser.fetch("https://wiki.test/staff").await.assert_refused(403, "access_denied");
    let anna = Browser::new(&world);
    anna.sign_in_at("https://wiki.test/", ANNA).await;
    assert_eq!(anna.fetch("https://wiki.test/staff/").await.arrived(), ("wiki", "/staff/"));
}

#[tokio::test]
async fn a_page_of_another_origin_opens_no_websocket() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let upgrade = [("upgrade", "websocket"), ("connection", "upgrade")];
    for (origin, passes) in [("https://wiki.test", true), ("https://evil.test", false), ("null", false)] {
        let fields = [upgrade[0], upgrade[1], ("origin", origin)];
        let reply = browser.send("GET", "https://wiki.test/socket", &fields, "").await;
        if passes {
            reply.arrived();
        } else {
            reply.assert_refused(403, "access_denied");
        }
    }
}

#[tokio::test]
async fn paths_without_a_rule_are_refused() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/", ANNA).await;
    for path in ["/", "/order", "/ordersx/", "/ORDERS/"] {
        browser.fetch(&format!("https://shop.test{path}")).await.assert_refused(403, "access_denied");
        browser.visit(&format!("https://shop.test{path}")).await.assert_page(403);
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_bypasses_a_rule() {
    let world = World::new().await;
    for path in [
        "/public/../a",
        "/public/..",
        "/public/%2e%2e/a",
        "/public/.%2E/a",
        "/public/..%2fa",
        "/public/..%5ca",
        "/public/..\\a",
        "/public/%252e%252e/a",
        "/public/..;/a",
        "/public;/../a",
        "/public/%00",
        "/public//../a",
        "//public/",
        "/public/./",
        "/public/%c0%ae%c0%ae/a",
        "/public/%",
        "/public/%zz",
        "/public/%u002e",
        "/Public/a",
        "/PUBLIC/",
        "/%50ublic/",
        "/public/a%0d%0ax",
        "/public/a%3bb",
    ] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[]).await;
        assert_eq!(reply.answered_with(), 400, "{path}");
        reply.assert_refused(400, "invalid_request");
    }
    for path in ["/public", "/public/", "/public/a%20b?/../x", "/%70ublic/a", "/public/a?x=/..%2f"] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[]).await;
        assert_eq!(reply.arrived(), ("wiki", path));
    }
    for path in ["/publi", "/publicity", "/a?/public/", "/a%3f/public/", "/a%23/public/"] {
        world.call("GET", &format!("https://wiki.test{path}"), &[]).await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn only_the_host_selects_the_application() {
    let world = World::new().await;
    for host in ["wiki.test", "WIKI.test", "wiki.test:8443"] {
        let reply = world.call("GET", &format!("https://{host}/public/"), &[]).await;
        assert_eq!(reply.arrived().0, "wiki", "{host}");
    }
    for host in ["wiki.test.", "wiki.test.evil.test", "evil.test", "wık\u{131}.test", "wiki.test:x"] {
        let reply = world.call("GET", &format!("https://{host}/public/"), &[("x-forwarded-host", "wiki.test")]).await;
        assert_eq!(reply.answered_with(), 421, "{host}");
    }
    // The target names another host than `Host`.
    let mut request = crate::world::request("GET", "https://wiki.test/public/", &[], "");
    *request.uri_mut() = "https://shop.test/public/".parse().unwrap();
    assert_eq!(world.send("192.0.2.9", request).await.answered_with(), 400);
}

#[tokio::test]
async fn an_application_accepts_only_tokens_of_its_clients() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid profile email").await);
    let reply = world.call("GET", "https://mobile.test/", &[("authorization", &token)]).await;
    reply.assert_refused(403, "access_denied");
    assert_eq!(world.call("GET", "https://wiki.test/", &[("authorization", &token)]).await.arrived(), ("wiki", "/"));
    // A browser uses the gateway's own client.
    let browser = Browser::new(&world);
    let page = browser.open("https://mobile.test/").await;
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("mobile", "/"));
}

#[tokio::test]
async fn an_unapproved_client_only_opens_applications_that_list_it() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid profile email").await);
    let id = ClientId::parse("api").unwrap();
    let change = async |change: &(dyn Fn(&mut Client) + Sync)| {
        assert!(world.sealgate.store.change_client(&id, change).await.unwrap().is_some());
    };
    let ask = async || world.call("GET", "https://wiki.test/api/", &[("authorization", &token)]).await;
    assert_eq!(ask().await.arrived(), ("wiki", "/api/"));
    change(&|client| client.owner = Some(world.ben.sub)).await;
    ask().await.assert_refused(403, "access_denied");
    let approval = ClientDecision { by: Authority::Administrator(world.anna.sub), at: world.clock.now() };
    change(&|client| client.approval = Some(approval)).await;
    assert_eq!(ask().await.arrived(), ("wiki", "/api/"));
    // The token was cached as valid: its access is checked again nevertheless.
    change(&|client| client.approval = None).await;
    ask().await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn tokens_of_a_self_registered_client_open_no_application() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid profile email").await);
    let registered = SelfRegistration {
        access_token: Secret::new("r").hash(),
        used: true,
        approval_requested: false,
        unused_until: None,
    };
    let id = ClientId::parse("api").unwrap();
    let change = |client: &mut Client| client.registration = Some(registered.clone());
    assert!(world.sealgate.store.change_client(&id, change).await.unwrap().is_some());
    for path in ["/", "/api/", "/profiles/1", "/staff/"] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[("authorization", &token)]).await;
        reply.assert_refused(403, "access_denied");
        let told = reply.json()["error_description"].as_str().unwrap().to_owned();
        assert_eq!(told, "An administrator must approve this client before its tokens give access to the application.");
    }
    assert_eq!(world.call("GET", "https://wiki.test/public/", &[("authorization", &token)]).await.status, 200);
}
