//! Tests administration in the console: users, keys, limits.

use super::*;

#[tokio::test]
async fn a_user_is_added_with_a_password_that_is_shown_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/users/new").await;
    let fields = [
        ("email", "çağrı@example.test"),
        ("name", "Çağrı"),
        ("groups", "staff\n Muhasebe \n"),
        ("role_developer", "yes"),
    ];
    // The role must be confirmed.
    let page = anna.submit(&page, &fields).await;
    assert!(is_confirmation(&page) && page.text().contains("register clients"), "{page:?}");
    let page = anna.submit(&page, &[("sure", "yes")]).await;
    let password = element(&page, "new-password").unwrap();
    assert!(password.len() >= 16, "{page:?}");
    let found = anna.get("/console/users?find=%C3%A7a%C4%9Fr%C4%B1%40example.test").await;
    let path = found.text().split("href=\"").find(|part| {
        part.starts_with("/console/users/")
            && !["/console/users/new", "/console/users/import"].iter().any(|page| part.starts_with(page))
    });
    let path = path.unwrap().split('"').next().unwrap().to_owned();
    let shown = anna.get(&path).await;
    assert!(shown.text().contains("Muhasebe\nstaff") && !shown.text().contains(&password));
    let fresh = provider.browser();
    let login = fresh.open("/console").await;
    let page = fresh.submit(&login, &[("email", "çağrı@example.test"), ("password", &password)]).await;
    assert!(page.status == 200 && page.text().contains("There are no clients yet."), "{page:?}");

    for (email, name, groups, told) in [
        ("çağrı@example.test", "X", "", "belongs to another user"),
        ("ANNA@example.test", "X", "", "belongs to another user"),
        ("nobody", "X", "", "such as name@example.com"),
        ("x@example.test", " ", "", "1 to 200 characters"),
        ("x@example.test", "\u{202e}annA", "", "1 to 200 characters"),
        ("a\u{200b}nna@example.test", "Anna", "", "such as name@example.com"),
        ("x@example.test", "X", "a,b", "aria-invalid"),
    ] {
        let page = anna.get("/console/users/new").await;
        let page = anna.submit(&page, &[("email", email), ("name", name), ("groups", groups)]).await;
        assert!(page.text().contains(told) && element(&page, "new-password").is_none(), "{told}: {page:?}");
    }
}

#[tokio::test]
async fn a_username_can_be_set_only_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let new = async |email: &str, username: &str| {
        let page = anna.get("/console/users/new").await;
        anna.submit(&page, &[("email", email), ("username", username), ("name", "X")]).await
    };
    let page = new("cem@example.test", "cem").await;
    assert!(element(&page, "new-password").is_some() && page.text().contains("<bdi>cem</bdi>"), "{page:?}");
    for (username, told) in [("cem", "belongs to another user"), ("Cem", "Enter 1 to 64"), ("çem", "Enter 1 to 64")] {
        let page = new("deniz@example.test", username).await;
        assert!(page.text().contains(told) && element(&page, "new-password").is_none(), "{username}: {page:?}");
    }
    // A user without a username gets one, and keeps it.
    let path = format!("/console/users/{}", provider.ben.sub);
    let of_ben = async || provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap().username;
    let save = async |username: &str| {
        let fields = [("action", "save-profile"), ("name", "Ben"), ("email", BEN), ("username", username)];
        press(&anna, &path, &fields).await
    };
    assert!(save("cem").await.text().contains("belongs to another user"));
    assert!(save("b@n").await.text().contains("Enter 1 to 64"));
    assert_eq!(of_ben().await, None);
    save("ben").await;
    assert_eq!(of_ben().await.unwrap().as_str(), "ben");
    let page = anna.get(&path).await;
    assert!(page.text().contains("<bdi>ben</bdi>") && !page.text().contains("name=\"username\""), "{page:?}");
    save("other").await;
    assert_eq!(of_ben().await.unwrap().as_str(), "ben");
    // The audit log can be searched by the username, and Ben sees it on his own page.
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let trail = anna.get("/console/audit?person=ben").await;
    assert!(trail.text().contains("Username"), "{trail:?}");
    let account = signed_in(&provider, BEN).await.get("/account").await;
    assert!(account.text().contains("<bdi>ben</bdi>"), "{account:?}");
}

#[tokio::test]
async fn an_administrator_manages_a_users_groups_password_sessions_and_access() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.ben.sub);
    let of_ben = async || provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap();

    press(&anna, &path, &[("action", "save"), ("groups", "ops"), ("role_admin", "yes")]).await;
    assert_eq!((of_ben().await.groups, of_ben().await.roles), (["ops".to_owned()].into(), [Role::Admin].into()));
    assert!(press(&anna, &path, &[("action", "save"), ("groups", "a,b")]).await.text().contains("Nothing was saved"));
    press(&anna, &path, &[("action", "save"), ("groups", "")]).await;
    assert_eq!((of_ben().await.groups, of_ben().await.roles), ([].into(), [].into()));

    let ben = signed_in(&provider, BEN).await;
    let page = anna.get(&format!("{path}/sessions")).await;
    let session = page.text().split("name=\"end\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    press(&anna, &path, &[("end", &session)]).await;
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
async fn administrators_cannot_lock_themselves_out() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.anna.sub);
    let page = press(&anna, &path, &[("action", "save"), ("groups", ""), ("role_developer", "yes")]).await;
    assert!(page.text().contains("cannot remove this role from yourself"), "{page:?}");
    for action in ["disable", "reset-password"] {
        press(&anna, &path, &[("action", action)]).await.assert_error_page();
    }
    assert_eq!(anna.get("/console/users").await.status, 200);
}

#[tokio::test]
async fn a_session_of_another_user_cannot_be_ended_from_a_users_page() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let of_ben = provider.sealgate.store.sessions_of_user(provider.ben.sub, None, 9).await.unwrap().sessions;
    let id = format!("session:{}", of_ben[0].id);
    press(&anna, &format!("/console/users/{}", provider.anna.sub), &[("end", &id)]).await;
    assert_eq!(ben.get("/account").await.status, 200);
}

#[tokio::test]
async fn keys_and_limits_are_shown_as_they_are() {
    let provider = Provider::with("[console]\nenabled = true\n[rate_limits]\ntoken = 77").await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let anna = signed_in(&provider, ANNA).await;
    let kid = provider.get("/oauth/jwks").await.json()["keys"][0]["kid"].as_str().unwrap().to_owned();
    let page = anna.get("/console/keys").await;
    assert!(page.text().contains(&kid) && page.text().contains("No change is scheduled."), "{page:?}");
    let page = anna.get("/console/settings?section=rate_limits").await;
    assert!(page.text().contains("<code>77</code>") && page.text().contains("Default: <code>50</code>"), "{page:?}");
}

#[tokio::test]
async fn input_of_developers_is_escaped_everywhere() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let evil = "\"'><script>alert(1)</script>";
    let page = register(&ben, &[("name", evil), ("description", evil)]).await;
    let id = element(&page, "client-id").unwrap();
    for path in [format!("/console/clients/{id}"), format!("/console/try/{id}"), "/console/clients".into()] {
        let page = ben.get(&path).await;
        assert!(page.status == 200 && !page.text().contains("<script>"), "{path}");
        assert!(page.text().contains("&#60;script&#62;"), "{path}");
    }
    let uris = "https://rp.test/'+alert(1)+'`${x}\nhttps://rp.test/cb";
    let page = register(&ben, &[("redirect_uris", uris)]).await;
    assert!(!page.text().contains("'+alert"), "{page:?}");
}

#[tokio::test]
async fn applications_are_shown_with_their_servers() {
    let app = "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n[[app.route]]\npath = \"/\"\naccess = \"public\"";
    let provider = provider_with(app).await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/apps").await;
    assert!(page.text().contains("href=\"https://wiki.test/\"") && page.text().contains("Not checked yet"), "{page:?}");
    for (alive, words) in [(true, ">Up<"), (false, ">Down<")] {
        provider.sealgate.upstreams.set(vec![("wiki".to_owned(), "127.0.0.1:9".to_owned(), alive)]);
        assert!(anna.get("/console/apps").await.text().contains(words));
    }
}
