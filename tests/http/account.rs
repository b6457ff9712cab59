//! Tests the account pages: users see and change only their own data.

use std::sync::Arc;

use sealgate_domain::user::UserState;
use sealgate_store::Store;
use sealgate_system::clock::Clock as _;

use crate::meddler::At;
use crate::steps::{assert_code, assert_login, csrf_of, with_anna, with_anna_and_ben};
use crate::support::{Browser, PASSWORD, Provider, Reply, Tokens, form_action, jwt_claims};

const ANNA: &str = "anna@example.test";
const SESSION: &str = "__Host-sealgate";
const NEW: &str = "a longer password than before";

const PAGES: [&str; 5] =
    ["/account", "/account/password", "/account/sessions", "/account/applications", "/account/activity"];

/// Submits the password form.
async fn change_password(browser: &Browser<'_>, current: &str, new: &str, again: &str) -> Reply {
    let page = browser.open("/account/password").await;
    browser.submit(&page, &[("current", current), ("new", new), ("again", again)]).await
}

/// zxcvbn takes up to half a second for a long password. On a request thread it would delay every
/// other request.
#[tokio::test]
async fn a_new_password_is_checked_in_the_bounded_password_queue() {
    let settings = "[login]\nfailures_per_account = 100\npassword_threads = 1\npassword_queue = 1";
    let provider = Provider::with(settings).await;
    let browser = with_anna(&provider).await;
    let page = browser.open("/account/password").await;
    let common = "passwordpassword";
    let fields = [("current", PASSWORD), ("new", common), ("again", common)];
    let attempt = || browser.submit(&page, &fields);
    let replies = tokio::join!(attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt(), attempt());
    let statuses = <[Reply; 8]>::from(replies).map(|reply| reply.status);
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    assert!(statuses.contains(&503), "the queue was full: {statuses:?}");
    assert!(attempt().await.text().contains("easy to guess"));
}

#[tokio::test]
async fn account_pages_require_a_sign_in_and_return_to_the_page() {
    for page in PAGES {
        let provider = Provider::new().await;
        let browser = provider.browser();
        let login = browser.open(&format!("{page}?x=https://evil.test")).await;
        assert_login(&login);
        assert!(!login.text().contains("continue to"), "our own pages are no application");
        let fields = [("email", ANNA), ("password", PASSWORD)];
        let resumed = browser.submit_only(&login, &fields).await;
        let back = browser.get(resumed.location()).await;
        assert_eq!((back.status, back.location()), (303, page));
        let shown = browser.get(page).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        assert!(shown.text().contains(ANNA));
    }
}

#[tokio::test]
async fn password_managers_find_the_page_on_which_the_password_is_changed() {
    let provider = Provider::new().await;
    let reply = provider.get("/.well-known/change-password").await;
    assert_eq!((reply.status, reply.location()), (303, "/account/password"));
    // Clients also request this path: a 404 shows that the status of the path above is meaningful.
    let nowhere = "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200";
    assert_eq!(provider.get(nowhere).await.status, 404);
}

#[tokio::test]
async fn the_internal_client_issues_no_codes() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let ask = |uri: &str| {
        format!(
            "/oauth/authorize?client_id=sealgate-app-~own&response_type=code&scope=openid&state=s1&redirect_uri={uri}"
        )
    };
    let reply = browser.get(&ask("https://id.test/account")).await;
    assert_eq!((reply.status, reply.location()), (303, "/account"));
    for elsewhere in ["https://evil.test/account", "https://id.test/account/", "https://id.test/oauth/logout"] {
        browser.get(&ask(elsewhere)).await.assert_error_page();
    }
    let form = [("grant_type", "authorization_code"), ("code", "x"), ("client_id", "sealgate-app-~own")];
    provider.post("/oauth/token", &[], &form).await.assert_error(401, "invalid_client");
}

#[tokio::test]
async fn saving_a_profile_changes_updated_at() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    provider.wait(100);
    let page = browser.get("/account").await;
    assert!(page.text().contains("value=\"Anna Şahin\""));
    let fields = [("name", " Anna Işık "), ("phone_number", "+90 555 111 22 33"), ("picture", "https://p.test/a.png")];
    let saved = browser.submit(&page, &fields).await;
    assert!(saved.text().contains("Your profile was saved."), "{saved:?}");
    let anna = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap();
    assert_eq!((anna.name.as_str(), anna.phone_number.as_deref()), ("Anna Işık", Some("+90 555 111 22 33")));
    assert_eq!(anna.picture.as_deref(), Some("https://p.test/a.png"));
    assert_eq!(anna.updated_at.seconds(), provider.anna.updated_at.seconds() + 100);
    let code = provider.c1().code_in(&browser, &[("scope", "openid profile")]).await;
    let claims = jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id);
    assert_eq!(claims["name"], "Anna Işık");
    assert_eq!(claims["updated_at"], anna.updated_at.seconds());

    // Saving the same values writes nothing; empty fields remove values.
    provider.wait(100);
    browser.submit(&page, &fields).await;
    let same = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap();
    assert_eq!(same, anna);
    browser.submit(&page, &[("name", "Anna"), ("phone_number", ""), ("picture", "")]).await;
    let less = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap();
    assert_eq!((less.phone_number, less.picture), (None, None));
}

#[tokio::test]
async fn an_invalid_profile_is_not_saved_and_names_the_field() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = browser.get("/account").await;
    let good = [("name", "Anna"), ("phone_number", "+90 555 111 22 33"), ("picture", "https://p.test/a.png")];
    for (at, wrong) in [
        (0, ""),
        (0, "   "),
        (0, "a\u{7}b"),
        (0, &"x".repeat(201)),
        (1, "0555 111 22 33"),
        (1, "+90 abc"),
        (2, "http://p.test/a.png"),
        (2, "javascript:alert(1)"),
        (2, "p.test"),
    ] {
        let mut fields = good;
        fields[at].1 = wrong;
        let shown = browser.submit_only(&page, &fields).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        let html = shown.text();
        assert_eq!(html.matches("aria-invalid=\"true\"").count(), 1, "{wrong:?}");
        assert!(html.contains("role=\"alert\"") && html.contains("<title>Error: "), "{html}");
        let field = html.split('<').find(|tag| tag.contains(&format!("name=\"{}\"", good[at].0))).unwrap();
        assert!(field.contains("aria-invalid") && field.contains("autofocus"), "{field}");
    }
    assert_eq!(provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap(), provider.anna);
}

/// A form token is valid only for the active user and only in the session that it was issued in.
#[tokio::test]
async fn a_forms_token_is_bound_to_the_session_and_the_user() {
    let provider = Provider::new().await;
    let (browser, elsewhere) = (with_anna_and_ben(&provider).await, with_anna(&provider).await);
    let fields = |csrf| [("csrf", csrf), ("name", "Mallory"), ("phone_number", ""), ("picture", "")];
    let of_ben = csrf_of(&browser.get("/account").await);
    let cookie = browser.cookie("__Host-sealgate");
    let chooser = browser.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    assert_code(&browser.submit(&chooser, &[("account", &provider.anna.sub.to_string())]).await);
    assert_eq!(browser.cookie("__Host-sealgate"), cookie, "the session is the same, its person another");
    browser.post("/account", &fields(&of_ben)).await.assert_error_page();
    // The same user in a second session.
    let of_elsewhere = csrf_of(&elsewhere.get("/account").await);
    browser.post("/account", &fields(&of_elsewhere)).await.assert_error_page();
    assert_eq!(provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap(), provider.anna);
    assert_eq!(browser.post("/account", &fields(&csrf_of(&browser.get("/account").await))).await.status, 303);
}

#[tokio::test]
async fn a_form_without_the_pages_token_changes_nothing() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let ben = provider.browser();
    let login = ben.open("/account").await;
    let of_ben = csrf_of(&ben.sign_in(&login, "ben@example.test").await);
    let sessions = csrf_of(&browser.get("/account/sessions").await);
    for csrf in ["", "x", &of_ben, &sessions] {
        let fields = [("csrf", csrf), ("name", "Mallory"), ("phone_number", ""), ("picture", "")];
        browser.post("/account", &fields).await.assert_error_page();
        let fields = [("csrf", csrf), ("current", PASSWORD), ("new", NEW), ("again", NEW)];
        browser.post("/account/password", &fields).await.assert_error_page();
    }
    let profile = csrf_of(&browser.get("/account").await);
    for csrf in ["", "x", &of_ben, &profile] {
        browser.post("/account/sessions", &[("csrf", csrf), ("others", "yes")]).await.assert_error_page();
        browser.post("/account/applications", &[("csrf", csrf), ("client", "c1")]).await.assert_error_page();
    }
    assert_eq!(provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap(), provider.anna);
    assert_code(&browser.open(&provider.c1().authorize(&[("prompt", "none")])).await);
}

#[tokio::test]
async fn a_changed_password_ends_the_other_sessions_and_the_old_cookie() {
    let provider = Provider::new().await;
    let other = with_anna(&provider).await;
    let browser = provider.browser();
    let code = provider.c1().code_in(&browser, &[("scope", "openid offline_access")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let stolen = provider.browser();
    stolen.set_cookie(SESSION, &browser.cookie(SESSION).unwrap());

    let page = change_password(&browser, PASSWORD, NEW, NEW).await;
    assert!(page.text().contains("Your password was changed."), "{page:?}");
    let silent = provider.c1().authorize(&[("prompt", "none")]);
    assert_code(&browser.open(&silent).await);
    other.open(&silent).await.assert_error_redirect("login_required");
    stolen.open(&silent).await.assert_error_redirect("login_required");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");

    let fresh = provider.browser();
    let login = fresh.open("/account").await;
    assert_login(&fresh.submit(&login, &[("email", ANNA), ("password", PASSWORD)]).await);
    let account = fresh.submit(&login, &[("email", ANNA), ("password", NEW)]).await;
    assert!(account.status == 200 && account.text().contains(ANNA));
}

#[tokio::test]
async fn an_unacceptable_new_password_is_refused_before_the_current_one_is_checked() {
    let provider = Provider::with("[login]\nfailures_per_account = 2").await;
    let browser = with_anna(&provider).await;
    for (new, again, told) in [
        ("short", "short", "too short"),
        (NEW, "another password", "do not match"),
        ("", "", "too short"),
        ("passwordpassword", "passwordpassword", "easy to guess"),
        ("anna goes to the sea", "anna goes to the sea", "contains your name"),
        (PASSWORD, PASSWORD, "same as the current"),
        (&*"x y".repeat(400), &*"x y".repeat(400), "too long"),
    ] {
        let page = change_password(&browser, PASSWORD, new, again).await;
        assert!(page.status == 200 && page.text().contains(told), "{told}: {page:?}");
        assert!(!page.text().contains(&format!("value=\"{new}\"")) || new.is_empty(), "a password comes back");
    }
    // None of the attempts above counted as a guess.
    assert!(change_password(&browser, "wrong", NEW, NEW).await.text().contains("current password is incorrect"));
    assert!(change_password(&browser, PASSWORD, NEW, NEW).await.text().contains("was changed"));
}

#[tokio::test]
async fn wrong_current_passwords_count_with_failed_sign_ins_of_the_browser() {
    let provider = Provider::with("[login]\nfailures_per_account = 3").await;
    let browser = with_anna(&provider).await;
    for _ in 0..3 {
        let page = change_password(&browser, "wrong", NEW, NEW).await;
        assert!(page.status == 200 && page.text().contains("current password is incorrect"), "{page:?}");
    }
    let page = change_password(&browser, PASSWORD, NEW, NEW).await;
    assert_eq!(page.status, 429);
    assert!(page.text().contains("Too many wrong passwords. Wait") && page.header("retry-after").is_some());
    let login = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    assert_eq!(browser.submit(&login, &[("email", ANNA), ("password", PASSWORD)]).await.status, 429);
    // Other browsers are not throttled. An attacker with only the session cookie is counted as
    // well.
    let thief = provider.browser();
    thief.set_cookie("__Host-sealgate", &browser.cookie("__Host-sealgate").unwrap());
    for _ in 0..3 {
        assert_eq!(change_password(&thief, "wrong", NEW, NEW).await.status, 200);
    }
    assert_eq!(change_password(&thief, PASSWORD, NEW, NEW).await.status, 429);
    let fresh = provider.browser();
    let login = fresh.open("/account").await;
    assert_eq!(fresh.submit_only(&login, &[("email", ANNA), ("password", PASSWORD)]).await.status, 303);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_individually_or_together() {
    let provider = Provider::new().await;
    let mut phone = provider.browser();
    phone.address = "198.51.100.9".into();
    provider.c1().code_in(&phone, &[]).await;
    let tablet = with_anna(&provider).await;
    let browser = with_anna(&provider).await;
    let page = browser.get("/account/sessions").await;
    assert_eq!(page.text().matches("value=\"session:").count(), 3, "{page:?}");
    assert_eq!(page.text().matches("This browser").count(), 1);
    let row = page.text().split("<tr").find(|row| row.contains("198.51.100.9")).unwrap();
    let id = row.split("value=\"session:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let silent = provider.c1().authorize(&[("prompt", "none")]);
    assert_code(&phone.open(&silent).await);
    let page = browser.submit(&page, &[("end", &format!("session:{id}"))]).await;
    assert!(page.text().contains("The session was ended."), "{page:?}");
    phone.open(&silent).await.assert_error_redirect("login_required");
    assert_code(&tablet.open(&silent).await);
    let page = browser.submit(&page, &[("others", "yes")]).await;
    assert!(page.text().contains("You are not signed in anywhere else."), "{page:?}");
    tablet.open(&silent).await.assert_error_redirect("login_required");
    assert_code(&browser.open(&silent).await);
}

/// Signing out everywhere else ends the tokens of all applications, also the tokens of the
/// remaining session. Tokens of other users stay valid.
#[tokio::test]
async fn signing_out_everywhere_else_ends_the_tokens_of_all_applications() {
    let provider = Provider::new().await;
    let (own, other, ben) = (provider.browser(), provider.browser(), provider.browser());
    let client = provider.c1();
    let address = client.authorize(&[("scope", "openid offline_access")]);
    let tokens = async |browser: &Browser<'_>, email| {
        let code = browser.authorize(&address, email).await.returned("code").unwrap();
        Tokens::of(&client.redeem(&code).await)
    };
    let of_anna = [tokens(&own, ANNA).await, tokens(&other, ANNA).await];
    let of_ben = tokens(&ben, "ben@example.test").await;
    let page = own.get("/account/sessions").await;
    assert!(page.text().contains("access of all connected applications"), "{page:?}");
    let done = own.submit(&page, &[("others", "yes")]).await;
    assert!(done.text().contains("You were signed out everywhere else"), "{done:?}");
    for ended in of_anna {
        assert_eq!(provider.userinfo(&ended.access).await.status, 401);
        client.refresh(&ended.refresh).await.assert_error(400, "invalid_grant");
    }
    assert_eq!(provider.userinfo(&of_ben.access).await.status, 200);
    Tokens::of(&client.refresh(&of_ben.refresh).await);
    // The session that stays signs in to applications without a question.
    let again = own.open(&address).await.returned("code").unwrap();
    Tokens::of(&client.refresh(&Tokens::of(&client.redeem(&again).await).refresh).await);
}

/// An attacker with a copy of the session cookie receives tokens and creates an app password. The
/// owner has no other session.
#[tokio::test]
async fn signing_out_everywhere_else_ends_access_of_a_copied_cookie() {
    let provider = Provider::with(crate::app_passwords::APPS).await;
    let owner = with_anna(&provider).await;
    let thief = provider.browser();
    thief.set_cookie(SESSION, &owner.cookie(SESSION).unwrap());
    let client = provider.c1();
    let code = |browser| client.code_in(browser, &[("scope", "openid offline_access")]);
    let tokens = Tokens::of(&client.redeem(&code(&thief).await).await);
    let waiting = code(&thief).await;
    let form = thief.get("/account/app-passwords").await;
    thief.submit(&form, &[("app", "git"), ("name", "of the thief")]).await;

    let page = owner.get("/account/sessions").await;
    assert!(page.text().contains("You are not signed in anywhere else."), "{page:?}");
    let fields = [("csrf", csrf_of(&page)), ("others", "yes".to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let reply = owner.post("/account/sessions", &fields).await;
    let done = owner.follow(reply).await;
    assert!(done.text().contains("You were signed out everywhere else"), "{done:?}");

    assert_login(&thief.open("/account").await);
    thief.open(&client.authorize(&[("prompt", "none")])).await.assert_error_redirect("login_required");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    client.redeem(&waiting).await.assert_error(400, "invalid_grant");
    assert_code(&owner.open(&client.authorize(&[("prompt", "none")])).await);

    // The app password stays. The page names it, and one click revokes it.
    assert!(done.text().contains("of the thief"), "{done:?}");
    let id = done.text().split("value=\"app_password:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let done = owner.submit(&done, &[("end", &format!("app_password:{id}"))]).await;
    assert!(done.text().contains("The application password was revoked."), "{done:?}");
    assert!(provider.sealgate.store.app_passwords(provider.anna.sub).await.unwrap().passwords.is_empty());
    assert!(!done.text().contains("of the thief"), "{done:?}");
}

/// Factors are listed for 30 days: an older one was not added by a new attacker.
#[tokio::test]
async fn the_page_of_sessions_names_factors_of_the_last_thirty_days() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let add = async |name: &str| {
        let form = browser.open("/account/security/app").await;
        let secret = crate::security::secret(&form);
        let code = crate::totp::code(&secret, provider.clock.now().seconds());
        crate::security::send(&browser, "/account/security/app", &form, &[("code", &code), ("name", name)]).await;
        secret
    };
    add("Phone").await;
    let page = browser.get("/account/sessions").await;
    assert!(page.text().contains("Remove: Phone"), "{page:?}");
    let form = page.text().split("action=\"/account/security/factor\"").nth(1).unwrap();
    let value = |name: &str| {
        let rest = form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (csrf, factor) = (value("csrf"), value("factor"));
    let fields = [("csrf", csrf.as_str()), ("factor", &factor), ("remove", "yes")];
    let reply = browser.post("/account/security/factor", &fields).await;
    assert_eq!(browser.follow(reply).await.status, 200);
    let page = browser.get("/account/sessions").await;
    assert!(!page.text().contains("Phone"), "{page:?}");
    let secret = add("Tablet").await;
    assert!(browser.get("/account/sessions").await.text().contains("Tablet"));
    provider.wait(30 * 24 * 3600);
    let browser = provider.browser();
    let step = browser.sign_in(&browser.open("/account/sessions").await, ANNA).await;
    let code = crate::totp::code(&secret, provider.clock.now().seconds());
    let page = browser.submit(&step, &[("code", &code)]).await;
    assert!(page.text().contains("id=\"accesses\"") && !page.text().contains("Tablet"), "{page:?}");
}

#[tokio::test]
async fn a_user_cannot_end_another_users_session() {
    let provider = Provider::new().await;
    let anna = with_anna(&provider).await;
    let of_anna = provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 9).await.unwrap().sessions;
    let ben = provider.browser();
    let login = ben.open("/account/sessions").await;
    let page = ben.sign_in(&login, "ben@example.test").await;
    for id in [of_anna[0].id.to_string().as_str(), "x"] {
        let mut fields = vec![("csrf", csrf_of(&page))];
        fields.push(("end", format!("session:{id}")));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        ben.post("/account/sessions", &fields).await;
    }
    assert_code(&anna.open(&provider.c1().authorize(&[("prompt", "none")])).await);
}

#[tokio::test]
async fn applications_with_access_are_listed_and_can_be_revoked() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    assert!(browser.open("/account/applications").await.text().contains("login-submit"));
    let code = provider.c1().code_in(&browser, &[("scope", "openid email offline_access")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let page = browser.get("/account/applications").await;
    let html = page.text();
    for words in ["Client c1", "Your email address", "Access while you are away", "Allowed: "] {
        assert!(html.contains(words), "{words}: {html}");
    }
    assert!(!html.contains("Your phone number") && !html.contains("Client c2"));
    let page = browser.submit(&page, &[("client", "c1")]).await;
    assert!(page.text().contains("access was removed.") && page.text().contains("not given any application"));
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    let asked = browser.open(&provider.c1().authorize(&[])).await;
    assert!(asked.text().contains("consent-allow"));
}

#[tokio::test]
async fn account_pages_show_the_selected_account_and_offer_the_others() {
    let provider = Provider::new().await;
    let browser = with_anna_and_ben(&provider).await;
    let page = browser.get("/account/sessions").await;
    assert!(page.text().contains("<bdi>ben@example.test</bdi>"));
    let switch = page.text().split("href=\"").find(|part| part.contains("select_account")).unwrap();
    let switch = switch.split('"').next().unwrap().replace("&#38;", "&");
    let chooser = browser.open(&switch).await;
    assert!(chooser.text().contains("Choose the account that you want to manage."), "{chooser:?}");
    let account = browser.submit(&chooser, &[("account", &provider.anna.sub.to_string())]).await;
    assert!(account.text().contains("<bdi>anna@example.test</bdi>"), "{account:?}");

    provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await;
    assert!(browser.get("/account").await.text().contains("<bdi>ben@example.test</bdi>"));
    provider.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await;
    assert_login(&browser.open("/account").await);
}

#[tokio::test]
async fn account_pages_are_not_cached_or_framed() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for page in PAGES {
        let reply = browser.get(page).await;
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{page}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{page}");
        assert!(reply.header("content-security-policy").unwrap().contains("form-action 'self'"), "{page}");
        if page != "/account/activity" {
            assert!(form_action(reply.text()).starts_with("/account"), "{page}");
        }
        let turkish = browser.get(&format!("{page}?lang=tr")).await;
        assert!(turkish.text().contains("<html lang=\"tr\">"), "{page}");
        browser.get(&format!("{page}?lang=en")).await;
    }
}

#[tokio::test]
async fn recent_activity_shows_only_the_users_own_events() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let ben = provider.browser();
    let login = ben.open("/account").await;
    let login = ben.submit(&login, &[("email", ANNA), ("password", "wrong")]).await;
    ben.sign_in(&login, "ben@example.test").await;
    change_password(&browser, PASSWORD, NEW, NEW).await;
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let page = browser.get("/account/activity").await;
    for words in ["Signed in", "Sign-in failed", "Access allowed", "Client c1", "Password changed"] {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
    let of_ben = ben.get("/account/activity").await;
    assert!(of_ben.text().contains("Signed in") && !of_ben.text().contains("Sign-in failed"), "{of_ben:?}");
    assert_eq!(ben.get("/account/activity?after=x").await.status, 400);
}

/// Records are written with the next heartbeat, which comes up to two seconds later.
#[tokio::test]
async fn recent_activity_has_the_sign_in_that_led_to_it() {
    let provider = Provider::new().await;
    let (audit, store) = (Arc::clone(&provider.sealgate.audit), Store::clone(&provider.sealgate.store));
    let writer = tokio::spawn(async move {
        loop {
            audit.write_requested().await;
            audit.write(&store).await.unwrap();
        }
    });
    let browser = provider.browser();
    let login = browser.open("/account/activity").await;
    let page = browser.sign_in(&login, ANNA).await;
    assert!(page.text().contains("Signed in"), "{page:?}");
    writer.abort();
}

#[tokio::test]
async fn recent_activity_does_not_wait_for_a_slow_store_and_loses_nothing() {
    let (provider, meddler) = Provider::meddled().await;
    let browser = with_anna(&provider).await;
    let stop = meddler.stop(At::BeforeCommit, b'j');
    let (audit, store) = (Arc::clone(&provider.sealgate.audit), Store::clone(&provider.sealgate.store));
    let writing = tokio::spawn(async move { audit.write(&store).await });
    let page = Box::pin(stop.meanwhile(async {
        let page = browser.get("/account/activity").await;
        // The write ends halfway, as with a process that stops.
        writing.abort();
        page
    }));
    let page = page.await;
    assert!(page.status == 200 && !page.text().contains("Signed in"), "{page:?}");
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let page = browser.get("/account/activity").await;
    assert_eq!(page.text().matches("Signed in").count(), 1, "{page:?}");
}

#[tokio::test]
async fn a_profile_picture_is_shown_to_its_user_and_permits_no_other_resource() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let policy = |page: &Reply| page.header("content-security-policy").unwrap().to_owned();
    provider.sealgate.store.change_user(provider.anna.sub, |user| user.picture = None).await.unwrap();
    assert!(policy(&browser.get("/account").await).contains("img-src 'self' data:;"));
    let picture = "https://pictures.test:8443/anna.png?size=96";
    provider
        .sealgate
        .store
        .change_user(provider.anna.sub, |user| user.picture = Some(picture.to_owned()))
        .await
        .unwrap();
    let page = browser.get("/account").await;
    assert!(page.text().contains(&format!("<img class=\"portrait\" src=\"{picture}\"")), "{page:?}");
    assert!(policy(&page).contains("img-src 'self' data: https://pictures.test:8443;"), "{}", policy(&page));
    assert!(!policy(&browser.get("/account/password").await).contains("pictures.test"));
    // A value that is no picture URL is neither shown nor added to the content security policy.
    provider
        .sealgate
        .store
        .change_user(provider.anna.sub, |user| user.picture = Some("x; script-src *".to_owned()))
        .await
        .unwrap();
    let page = browser.get("/account").await;
    assert!(!page.text().contains("portrait") && !policy(&page).contains("script-src *"), "{page:?}");
}

#[tokio::test]
async fn the_host_of_a_picture_adds_nothing_to_the_policy() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for picture in ["https://evil.test;sandbox/", "https://evil.test,sandbox/", "https://*/"] {
        let page = browser.get("/account").await;
        let fields = [("name", "Anna"), ("phone_number", ""), ("picture", picture)];
        let refused = browser.submit(&page, &fields).await;
        assert!(refused.text().contains("aria-invalid"), "{picture}: {refused:?}");
        // Records of an earlier version may contain such a value.
        let stored = Some(picture.to_owned());
        provider.sealgate.store.change_user(provider.anna.sub, |user| user.picture.clone_from(&stored)).await.unwrap();
        let page = browser.get("/account").await;
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("img-src 'self' data:;") && !policy.contains("sandbox"), "{policy}");
        assert!(!page.text().contains("class=\"portrait\""), "{page:?}");
    }
}
