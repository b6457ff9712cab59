//! Tests the sections of a client for administrators: rules and grants, and chosen ids.

use super::*;

const C1: &str = "/console/clients/c1";

#[tokio::test]
async fn an_administrator_sets_the_rules_of_a_client() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let set = |limit: &'static str, owner: &'static str| {
        [("action", "set-rules"), ("consent", "implied"), ("token_limit", limit), ("owner", owner), ("shown_owner", "")]
    };
    for (limit, owner) in [("0", ""), ("x", ""), ("1000001", ""), ("", "none@example.test"), ("", "a b@")] {
        let page = press(&anna, C1, &set(limit, owner)).await;
        assert!(page.text().contains("id=\"rules-wrong\""), "{limit} {owner}: {page:?}");
    }
    let before = stored(&provider, "c1").await;
    let asked = press_only(&anna, C1, &set("77", BEN)).await;
    assert!(is_confirmation(&asked) && asked.text().contains("<bdi>77</bdi>"), "{asked:?}");
    assert_eq!(stored(&provider, "c1").await, before);
    let page = anna.submit(&asked, &[("sure", "yes")]).await;
    assert!(page.text().contains("The client was saved.") && page.text().contains("value=\"77\""), "{page:?}");
    let client = stored(&provider, "c1").await.unwrap();
    assert_eq!((client.consent, client.owner), (ConsentRule::Implied, Some(provider.ben.sub)));
    assert_eq!(client.token_limit.and_then(RateLimit::requests), Some(77));
    // The owner changes only if the form changes it. A developer changes none of the rules.
    let same = [("action", "set-rules"), ("token_limit", ""), ("owner", BEN), ("shown_owner", BEN)];
    press(&anna, C1, &same).await;
    let client = stored(&provider, "c1").await.unwrap();
    assert_eq!((client.consent, client.owner, client.token_limit), (ConsentRule::Ask, Some(provider.ben.sub), None));
    for section in ["rules", "grants"] {
        assert_eq!(ben.get(&format!("{C1}/{section}")).await.status, 403, "{section}");
    }
    for fields in [&set("5", ANNA)[..], &[("action", "end-grants")], &[("grant", "x")]] {
        assert_eq!(press(&ben, C1, fields).await.status, 403, "{fields:?}");
    }
    assert_eq!(stored(&provider, "c1").await.unwrap(), client);
}

#[tokio::test]
async fn grants_of_a_client_are_listed_and_ended() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let mut tokens = Vec::new();
    for client in [provider.c1(), provider.c2()] {
        let code = client.code_in(&ben, &[]).await;
        tokens.push(Tokens::of(&client.redeem(&code).await));
    }
    let grants = async |client: &str| {
        let filter = GrantFilter { client: ClientId::parse(client), ..GrantFilter::default() };
        provider.sealgate.store.grants(&filter, None, 9).await.unwrap().grants
    };
    let (c1, c2) = (grants("c1").await[0].id.to_string(), grants("c2").await[0].id.to_string());
    let section = format!("{C1}/grants");
    let page = anna.get(&section).await;
    assert!(page.text().contains(BEN) && page.text().contains(&format!("value=\"{c1}\"")), "{page:?}");
    assert!(!page.text().contains(&c2), "{page:?}");
    // The id of another client's grant ends nothing.
    press(&anna, C1, &[("grant", &c2)]).await;
    assert_eq!(provider.userinfo(&tokens[1].access).await.status, 200);
    press(&anna, C1, &[("grant", "x")]).await.assert_error_page();
    for _ in 0..2 {
        let page = press(&anna, C1, &[("grant", &c1)]).await;
        assert!(page.text().contains("id=\"grants-none\""), "{page:?}");
    }
    assert_eq!(provider.userinfo(&tokens[0].access).await.status, 401);
    assert!(
        provider.sealgate.store.consent(provider.ben.sub, &ClientId::parse("c1").unwrap()).await.unwrap().is_none()
    );
    // All accesses end after a confirmation.
    let page = press_only(&anna, "/console/clients/c2", &[("action", "end-grants")]).await;
    assert!(is_confirmation(&page) && provider.userinfo(&tokens[1].access).await.status == 200, "{page:?}");
    anna.submit(&page, &[("sure", "yes")]).await;
    assert_eq!(provider.userinfo(&tokens[1].access).await.status, 401);
    provider.wait(301);
    let reply = press_only(&anna, C1, &[("grant", &c1)]).await;
    assert_login(&reply);
}

#[tokio::test]
async fn an_administrator_chooses_the_id_of_a_client() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    for wrong in ["c1", "new", ".", "..", "sealgate-app-wiki", "a b", "a/b", "https://a.test/b"] {
        let page = register(&anna, &[("client_id", wrong)]).await;
        assert!(page.text().contains("id=\"client_id\"") && page.text().contains("aria-invalid"), "{wrong}: {page:?}");
        assert!(element(&page, "new-secret").is_none(), "{wrong}");
    }
    let page = register(&anna, &[("client_id", "grafana")]).await;
    assert_eq!(element(&page, "client-id").as_deref(), Some("grafana"), "{page:?}");
    assert!(stored(&provider, "grafana").await.is_some());
    let page = ben.get("/console/clients/new").await;
    assert!(!page.text().contains("name=\"client_id\""), "{page:?}");
    let page = register(&ben, &[("client_id", "wiki")]).await;
    assert!(element(&page, "new-secret").is_none() && stored(&provider, "wiki").await.is_none(), "{page:?}");
}

/// A section opens again after a sign-in, and its forms lead back to it.
#[tokio::test]
async fn sections_have_urls_of_their_own() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let user = format!("/console/users/{}", provider.ben.sub);
    for (path, marker) in [
        (C1.to_owned(), "id=\"client-save\""),
        (format!("{C1}/connect"), "id=\"endpoint-token\""),
        (format!("{C1}/secrets"), "id=\"client-rotate\""),
        (format!("{C1}/rules"), "id=\"client-level-save\""),
        (format!("{C1}/grants"), "id=\"grants-none\""),
        (format!("{C1}/danger"), "id=\"client-delete\""),
        (user.clone(), "id=\"user-save-profile\""),
        (format!("{user}/sessions"), "id=\"accesses\""),
        (format!("{user}/applications"), "id=\"access\""),
        (format!("{user}/security"), "id=\"user-reset-password\""),
        (format!("{user}/danger"), "id=\"user-delete\""),
    ] {
        let page = anna.get(&path).await;
        assert!(page.status == 200 && page.text().contains(marker), "{path}: {page:?}");
        // The menu, the section, and the library of the example code.
        let current = if path.ends_with("/connect") { 3 } else { 2 };
        assert_eq!(page.text().matches("aria-current=\"page\"").count(), current, "{path}: {page:?}");
        assert!([403, 404].contains(&ben.get(&path).await.status), "{path}");
        assert_login(&provider.browser().open(&path).await);
    }
    for path in ["/console/users/x/danger", "/console/clients/none/connect", "/console/users/x/other"] {
        assert_eq!(anna.get(path).await.status, 404, "{path}");
    }
    provider.wait(24 * 3600);
    let login = anna.open(&format!("{C1}/secrets")).await;
    let page = anna.sign_in(&login, ANNA).await;
    assert!(page.text().contains("id=\"client-rotate\""), "{page:?}");
    let page = press(&anna, &user, &[("action", "disable")]).await;
    assert!(page.text().contains("id=\"user-enable\""), "{page:?}");
    let page = press(&anna, C1, &[("action", "rotate"), ("overlap_seconds", "0")]).await;
    assert!(element(&page, "new-secret").is_some() && page.text().contains("id=\"client-secret-add\""), "{page:?}");
    // A cancelled confirmation leads to the section.
    let asked = press_only(&anna, C1, &[("action", "delete")]).await;
    assert!(asked.text().contains(&format!("href=\"{C1}/danger\"")), "{asked:?}");
}
