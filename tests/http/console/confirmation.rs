//! Tests changes in the console that take over or end an account: they must be confirmed and
//! require a recent sign-in.

use super::*;

/// Guarded forms of a user's page and of a client's page.
const OF_USER: [&[(&str, &str)]; 15] = [
    &[("action", "reset-password")],
    &[("action", "disable")],
    &[("action", "revoke")],
    &[("action", "reset-factors")],
    &[("action", "delete")],
    &[("action", "save-profile"), ("email", "other@example.test"), ("name", "Ben")],
    &[("action", "save-profile"), ("email", "BEN@example.test"), ("name", "Other")],
    &[("action", "save"), ("role_admin", "yes")],
    &[("action", "save"), ("role_developer", "yes"), ("groups", "ops")],
    &[("action", "save"), ("role_developer", "yes"), ("groups", "staff")],
    &[("action", "save"), ("groups", "")],
    &[("action", "save-profile"), ("email", BEN), ("name", "Ben"), ("username", "ben")],
    &[("action", "enable")],
    &[("action", "unblock-factors")],
    &[("action", "save-profile"), ("email", BEN), ("name", "Other"), ("username", "ben")],
];
const OF_CLIENT: [&[(&str, &str)]; 10] = [
    &[("action", "disable")],
    &[("action", "enable")],
    &[("action", "delete")],
    &[("action", "revoke-approval")],
    &[("action", "level"), ("level", "2")],
    &[("action", "rotate"), ("overlap_seconds", "0")],
    &[("action", "add-secret"), ("lifetime_days", "90")],
    &[("action", "remove-secret"), ("secret", "0123456789ab")],
    &[("action", "set-keys"), ("jwks", PUBLIC_KEY)],
    &[("action", "use-secret")],
];
/// Public key that `openssl pkey -pubout` has written.
pub(super) const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAPIYLWvoxN+xSnJq6PDL3XhR6j0RL2tVlo41ASRqVPtw=\n-----END PUBLIC KEY-----";
const NEW_USER: [(&str, &str); 3] = [("email", "new@example.test"), ("name", "New"), ("role_admin", "yes")];

pub(super) async fn guarded() -> Provider {
    provider_with("admins = \"ops\"").await
}

/// Returns every guarded form with its page.
pub(super) fn forms(provider: &Provider) -> Vec<(String, Vec<(&'static str, &'static str)>)> {
    let user = format!("/console/users/{}", provider.ben.sub);
    let of_user = OF_USER.iter().map(|fields| (user.clone(), fields.to_vec()));
    let of_client = OF_CLIENT.iter().map(|fields| ("/console/clients/c1".to_owned(), fields.to_vec()));
    of_user.chain(of_client).chain([("/console/users/new".to_owned(), NEW_USER.to_vec())]).collect()
}

/// Returns the state that the forms would change.
pub(super) async fn state(provider: &Provider) -> (Option<User>, Option<Client>, bool) {
    let store = &provider.sealgate.store;
    let new = store.user_by_email(&Email::parse("new@example.test").unwrap()).await.unwrap();
    (store.user(provider.ben.sub).await.unwrap(), stored(provider, "c1").await, new.is_some())
}

#[tokio::test]
async fn a_guarded_change_names_its_target_and_waits_for_the_confirmation() {
    let provider = guarded().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let before = state(&provider).await;
    for (path, fields) in forms(&provider) {
        let page = press_only(&anna, &path, &fields).await;
        assert!(is_confirmation(&page), "{path} {fields:?}: {page:?}");
        let named = if path.contains("clients") { "c1" } else { "@example.test" };
        assert!(page.text().contains(named) && page.text().contains("id=\"confirm-cancel\""), "{page:?}");
    }
    assert_eq!(state(&provider).await, before);
    assert_eq!(ben.get("/account").await.status, 200);
    // A name needs no confirmation. The confirmation of groups names the added and removed ones.
    let path = format!("/console/users/{}", provider.ben.sub);
    let page = press_only(&anna, &path, &[("action", "save-profile"), ("email", BEN), ("name", "Ben Öz")]).await;
    assert!(page.status == 200 && !is_confirmation(&page), "{page:?}");
    provider.change_user(provider.ben.sub, |user| user.groups = ["old".to_owned()].into()).await;
    let page = press_only(&anna, &path, &[("action", "save"), ("role_developer", "yes"), ("groups", "staff")]).await;
    let (added, removed) = page.text().split_once("Removed groups").unwrap();
    assert!(added.contains("Added groups") && added.contains("<bdi>staff</bdi>"), "{page:?}");
    assert!(removed.contains("<bdi>old</bdi>"), "{page:?}");
    anna.submit(&page, &[("sure", "yes")]).await;
    assert_eq!(state(&provider).await.0.unwrap().groups, ["staff".to_owned()].into());
}

/// These actions have no confirmation, because they have a field for a credential or end only one
/// access. They require the recent sign-in too.
#[tokio::test]
async fn forms_without_a_confirmation_need_a_sign_in_of_the_last_five_minutes() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let user = format!("/console/users/{}", provider.ben.sub);
    let page = anna.get(&format!("{user}/sessions")).await;
    let session = page.text().split("name=\"end\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let new_user = csrf_of(&anna.get("/console/users/new").await);
    let new_client = csrf_of(&ben.get("/console/clients/new").await);
    let before = state(&provider).await;
    provider.wait(301);
    let csrf = csrf_of(&anna.get(&user).await);
    for fields in [
        &[("action", "set-app-login"), ("app", "wiki"), ("app_username", "ben"), ("app_password", "secret")][..],
        &[("action", "withdraw-invitation")],
        &[("end", session.as_str())],
    ] {
        let reply = anna.post(&user, &[&[("csrf", csrf.as_str())], fields].concat()).await;
        assert_login(&anna.follow(reply).await);
    }
    let fields = [("csrf", new_user.as_str()), ("email", "new@example.test"), ("name", "New")];
    let reply = anna.post("/console/users/new", &fields).await;
    assert_login(&anna.follow(reply).await);
    let fields = [&[("csrf", new_client.as_str())], &form(&[])[..]].concat();
    let reply = ben.post("/console/clients/new", &fields).await;
    assert_login(&ben.follow(reply).await);
    assert_login(&ben.open("/console/clients/new").await);
    let csrf = csrf_of(&anna.get("/console/try/c1").await);
    let reply = anna.post("/console/try/c1", &[("csrf", &csrf), ("action", "switch-on")]).await;
    assert_login(&anna.follow(reply).await);
    assert_eq!(state(&provider).await, before);
    assert_eq!(ben.get("/account").await.status, 200, "the session goes on");
    let credentials = provider.sealgate.store.app_credentials(provider.ben.sub).await.unwrap();
    assert!(credentials.credentials.is_empty());
    assert!(!anna.get("/console/clients").await.text().contains("Wiki"));
}

/// A description can be saved at any time. A redirect URI or a scope is named and confirmed.
#[tokio::test]
async fn a_client_gets_a_redirect_uri_only_after_a_confirmation_that_names_it() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let save = async |change: (&'static str, &'static str)| {
        let fields: Vec<(&str, &str)> = form(&[change]).into_iter().chain([("action", "save")]).collect();
        press_only(&ben, &path, &fields).await
    };
    let before = stored(&provider, &id).await.unwrap();
    for (change, named) in [
        (("redirect_uris", "https://rp.test/cb\nhttps://new.test/cb"), "https://new.test/cb"),
        (("post_logout_redirect_uris", "https://new.test/out"), "https://new.test/out"),
        (("scope_phone", "yes"), "<bdi>phone</bdi>"),
    ] {
        let question = save(change).await;
        assert!(is_confirmation(&question) && question.text().contains(named), "{change:?}: {question:?}");
        assert_eq!(stored(&provider, &id).await.unwrap(), before);
        let page = ben.submit(&question, &[("sure", "yes")]).await;
        assert!(page.text().contains("The client was saved."), "{page:?}");
        let restore = |client: &mut Client| client.clone_from(&before);
        provider.sealgate.store.change_client(&before.id, restore).await.unwrap();
    }
    // Without an addition, no confirmation is needed.
    assert!(save(("redirect_uris", REDIRECT_URI)).await.text().contains("The client was saved."));
    provider.wait(301);
    assert!(save(("description", "Other")).await.text().contains("The client was saved."));
    let login = save(("redirect_uris", "https://new.test/cb")).await;
    let form = ben.sign_in(&login, BEN).await;
    assert!(form.text().contains("https://new.test/cb</textarea>"), "the typed values: {form:?}");
    assert!(!stored(&provider, &id).await.unwrap().redirects_to("https://new.test/cb"));
}

#[tokio::test]
async fn a_guarded_change_needs_a_sign_in_of_the_last_five_minutes() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let before = state(&provider).await;
    let new = csrf_of(&anna.get("/console/users/new").await);
    provider.wait(301);
    for (path, fields) in forms(&provider) {
        for sure in [false, true] {
            let more = fields.iter().copied().chain(sure.then_some(("sure", "yes")));
            let csrf = if path.ends_with("/new") { new.clone() } else { csrf_of(&anna.get(&path).await) };
            let fields: Vec<_> = [("csrf", csrf.as_str())].into_iter().chain(more).collect();
            let reply = anna.post(&path, &fields).await;
            assert_login(&anna.follow(reply).await);
        }
    }
    assert_eq!(state(&provider).await, before);
}

#[tokio::test]
async fn a_new_sign_in_for_a_guarded_change_comes_back_to_the_users_or_clients_page() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.ben.sub);
    provider.wait(301);
    let login = press_only(&anna, &path, &[("action", "reset-password")]).await;
    let page = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&page) && page.text().contains(BEN), "{page:?}");
    provider.wait(301);
    let login = press_only(&anna, "/console/clients/c1", &[("action", "disable")]).await;
    let page = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&page) && page.text().contains("c1"), "{page:?}");

    // A state that is not an identifier leads to no page.
    let request = format!(
        "/oauth/authorize?client_id=sealgate-app-%7Eown&response_type=code&scope=openid&redirect_uri={}",
        "https%3A%2F%2Fid.test%2Fconsole%2Fusers"
    );
    for wrong in ["..%2F..%2Foauth%2Flogout", "%2F%2Fevil.test", "x", ""] {
        let page = anna.open(&format!("{request}&state={wrong}")).await;
        assert!(page.status == 200 && page.text().contains("Search by email"), "{wrong}: {page:?}");
    }
}

/// The form may add a user with a role. A sign-in between the form and its answer would lose the
/// typed fields.
#[tokio::test]
async fn the_form_for_a_new_user_asks_for_the_sign_in_before_anything_is_typed() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    provider.wait(301);
    let login = anna.open("/console/users/new").await;
    assert_login(&login);
    let form = anna.sign_in(&login, ANNA).await;
    assert!(form.text().contains("id=\"email\"") && form.text().contains("role_admin"), "{form:?}");
    let asked = anna.submit(&form, &NEW_USER).await;
    assert!(is_confirmation(&asked) && asked.text().contains("new@example.test"), "{asked:?}");
    anna.submit(&asked, &[("sure", "yes")]).await;
    assert!(state(&provider).await.2);
}
