//! What administrators do in the console: people, keys, limits, the audit trail.

use super::*;

#[tokio::test]
async fn a_person_is_added_with_a_password_that_is_shown_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/users/new").await;
    let fields = [
        ("email", "çağrı@example.test"),
        ("name", "Çağrı"),
        ("groups", "staff\n Muhasebe \n"),
        ("role_developer", "yes"),
    ];
    let page = anna.submit(&page, &fields).await;
    let password = element(&page, "new-password").unwrap();
    assert!(password.len() >= 16, "{page:?}");
    let found = anna.get("/console/users?email=%C3%A7a%C4%9Fr%C4%B1%40example.test").await;
    let path = found
        .text()
        .split("href=\"")
        .find(|part| part.starts_with("/console/users/") && !part.starts_with("/console/users/new"));
    let path = path.unwrap().split('"').next().unwrap().to_owned();
    let shown = anna.get(&path).await;
    assert!(shown.text().contains("Muhasebe\nstaff") && !shown.text().contains(&password));
    let fresh = provider.browser();
    let login = fresh.open("/console").await;
    let page = fresh.submit(&login, &[("email", "çağrı@example.test"), ("password", &password)]).await;
    assert!(page.status == 200 && page.text().contains("There is no client yet."), "{page:?}");

    for (email, name, groups, told) in [
        ("çağrı@example.test", "X", "", "has this address already"),
        ("ANNA@example.test", "X", "", "has this address already"),
        ("nobody", "X", "", "such as name@example.com"),
        ("x@example.test", " ", "", "1 to 200 characters"),
        ("x@example.test", "X", "a,b", "aria-invalid"),
    ] {
        let page = anna.get("/console/users/new").await;
        let page = anna.submit(&page, &[("email", email), ("name", name), ("groups", groups)]).await;
        assert!(page.text().contains(told) && element(&page, "new-password").is_none(), "{told}: {page:?}");
    }
}

#[tokio::test]
async fn an_administrator_looks_after_somebodys_groups_password_sessions_and_access() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let path = format!("/console/users/{}", provider.ben.sub);
    let of_ben = async || provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap();

    press(&anna, &path, &[("action", "save"), ("groups", "ops"), ("role_admin", "yes")]).await;
    assert_eq!((of_ben().await.groups, of_ben().await.roles), (["ops".to_owned()].into(), [Role::Admin].into()));
    assert!(press(&anna, &path, &[("action", "save"), ("groups", "a,b")]).await.text().contains("Nothing was saved"));
    press(&anna, &path, &[("action", "save"), ("groups", "")]).await;
    assert_eq!((of_ben().await.groups, of_ben().await.roles), ([].into(), [].into()));

    let page = anna.get(&path).await;
    let session = page.text().split("name=\"session\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    press(&anna, &path, &[("session", &session)]).await;
    assert_login(&ben.open("/account").await);

    let ben = signed_in(&provider, BEN).await;
    let code = provider.c1().code_in(&ben, &[]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    press(&anna, &path, &[("action", "revoke")]).await;
    assert_login(&ben.open("/account").await);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);

    let page = press(&anna, &path, &[("action", "reset-password")]).await;
    let password = element(&page, "new-password").unwrap();
    let login = ben.open("/account").await;
    assert_login(&ben.submit(&login, &[("email", BEN), ("password", PASSWORD)]).await);
    let account = ben.submit(&login, &[("email", BEN), ("password", &password)]).await;
    assert!(account.text().contains("<bdi>ben@example.test</bdi>"), "{account:?}");

    press(&anna, &path, &[("action", "disable")]).await;
    assert_eq!(of_ben().await.state, UserState::Disabled);
    assert_login(&ben.open("/account").await);
    press(&anna, &path, &[("action", "enable")]).await;
    assert_eq!(of_ben().await.state, UserState::Enabled);
}

#[tokio::test]
async fn administrators_do_not_shut_themselves_out() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.anna.sub);
    let page = press(&anna, &path, &[("action", "save"), ("groups", ""), ("role_developer", "yes")]).await;
    assert!(page.text().contains("cannot take this role away from yourself"), "{page:?}");
    for action in ["disable", "reset-password"] {
        press(&anna, &path, &[("action", action)]).await.assert_error_page();
    }
    assert_eq!(anna.get("/console/users").await.status, 200);
}

#[tokio::test]
async fn a_session_of_somebody_else_is_not_ended_from_a_persons_page() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let of_ben = provider.sealgate.store.sessions_of_user(provider.ben.sub, None, 9).await.unwrap().sessions;
    let id = of_ben[0].id.to_string();
    press(&anna, &format!("/console/users/{}", provider.anna.sub), &[("session", &id)]).await;
    assert_eq!(ben.get("/account").await.status, 200);
}

#[tokio::test]
async fn keys_and_limits_are_shown_as_they_are() {
    let provider = Provider::with("[console]\nenabled = true\n[rate_limits]\ntoken = 77").await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let anna = signed_in(&provider, ANNA).await;
    let kid = provider.get("/oauth/jwks").await.json()["keys"][0]["kid"].as_str().unwrap().to_owned();
    let page = anna.get("/console/keys").await;
    assert!(page.text().contains(&kid) && page.text().contains("No change is planned."), "{page:?}");
    assert!(anna.get("/console/limits").await.text().contains("77 requests a minute by a client or token"));
}

#[tokio::test]
async fn what_developers_type_is_text_everywhere() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let evil = "\"'><script>alert(1)</script>";
    let page = register(&ben, &[("name", evil), ("description", evil)]).await;
    let id = element(&page, "client-id").unwrap();
    for path in [format!("/console/clients/{id}"), format!("/console/try/{id}"), "/console".into()] {
        let page = ben.get(&path).await;
        assert!(page.status == 200 && !page.text().contains("<script>"), "{path}");
        assert!(page.text().contains("&#60;script&#62;"), "{path}");
    }
    let uris = "https://rp.test/'+alert(1)+'`${x}\nhttps://rp.test/cb";
    let page = register(&ben, &[("redirect_uris", uris)]).await;
    assert!(!page.text().contains("'+alert"), "{page:?}");
}

/// All that the trail keeps, as kind and actor, the oldest first.
async fn trail(provider: &Provider) -> Vec<(AuditKind, Actor)> {
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let records = store.audit_page(&AuditFilter::default(), None, 1000).await.unwrap().records;
    records.iter().rev().map(|record| (record.event.kind, record.event.actor)).collect()
}

#[tokio::test]
async fn what_is_done_in_the_console_is_taken_down_with_who_did_it() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let id = element(&register(&anna, &[]).await, "client-id").unwrap();
    let client = format!("/console/clients/{id}");
    let user = format!("/console/users/{}", provider.ben.sub);
    let save: Vec<(&str, &str)> = form(&[]).into_iter().chain([("action", "save")]).collect();
    for (path, fields, kind) in [
        (&client, save, AuditKind::ClientChanged),
        (&client, vec![("action", "rotate"), ("overlap_seconds", "0")], AuditKind::ClientChanged),
        (&client, vec![("action", "disable")], AuditKind::ClientChanged),
        (&client, vec![("action", "delete"), ("sure", "yes")], AuditKind::ClientDeleted),
        (&user, vec![("action", "save"), ("groups", "x")], AuditKind::UserChanged),
        (&user, vec![("action", "reset-password")], AuditKind::PasswordChanged),
        (&user, vec![("action", "disable")], AuditKind::UserDisabled),
        (&user, vec![("action", "enable")], AuditKind::UserEnabled),
        (&user, vec![("action", "revoke")], AuditKind::PersonRevoked),
    ] {
        provider.wait(1);
        press(&anna, path, &fields).await;
        let all = trail(&provider).await;
        assert_eq!(all.last(), Some(&(kind, Actor::Administrator(provider.anna.sub))), "{fields:?}");
    }
    let page = anna.get("/console/audit").await;
    for words in ["A client was registered", "The account was disabled", "In the console, by", "request-1", "192.0.2.1"]
    {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
}

#[tokio::test]
async fn the_audit_trail_is_filtered_by_kind_person_and_client() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let (store, now) = (&provider.sealgate.store, provider.sealgate.clock.now());
    let events: Vec<AuditEvent> = AuditKind::ALL
        .into_iter()
        .map(|kind| AuditEvent::new(now, kind, Actor::Operator).of(provider.ben.sub))
        .chain([
            AuditEvent::new(now, AuditKind::TokensIssued, Actor::Client).with_client(&ClientId::parse("c2").unwrap())
        ])
        .collect();
    store.keep_audit(&events).await.unwrap();
    let shown = async |query: &str| {
        let page = anna.get(&format!("/console/audit?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        page.text().matches("class=\"row\"").count()
    };
    assert_eq!(shown("kind=keys_changed").await, 1);
    assert_eq!(shown("person=ben@example.test").await, AuditKind::ALL.len());
    assert_eq!(shown(&format!("person={}&kind=signed_in", provider.ben.sub)).await, 1);
    assert_eq!(shown("client=c2").await, 1);
    for nobody in ["kind=x", "person=nobody", "person=nobody@example.test", "client=%00", "client=c2&kind=signed_in"] {
        assert_eq!(shown(nobody).await, 0, "{nobody}");
    }
    // Every kind has words of its own.
    let page = anna.get("/console/audit?person=ben@example.test").await;
    for kind in AuditKind::ALL {
        assert!(!page.text().contains(&format!(">{}<", kind.as_str())), "{}", kind.as_str());
    }
    // The second page goes on where the first one ended.
    let many: Vec<AuditEvent> =
        (0..40).map(|_| AuditEvent::new(now, AuditKind::SignedIn, Actor::Person).of(provider.anna.sub)).collect();
    store.keep_audit(&many).await.unwrap();
    let first = anna.get("/console/audit?person=anna@example.test&kind=signed_in").await;
    assert_eq!(first.text().matches("class=\"row\"").count(), 30);
    let next = first.text().split("href=\"").find(|part| part.contains("after=")).unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    assert!(anna.get(&next).await.text().matches("class=\"row\"").count() >= 10);
}
