//! Tests changes to several users: each action, its confirmation, and who may make it.

use super::*;

use crate::mailbox::{MAIL, due};

const BULK: &str = "/console/users/bulk";

/// Adds users with these names and returns their identifiers.
async fn people(provider: &Provider, names: &[&str]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for (number, name) in (10_u8..).zip(names) {
        let (sub, email) = (Subject::from_random([number; 16]), Email::parse(&format!("{name}@example.test")));
        let user = User { sub, email, name: (*name).to_owned(), roles: [].into(), ..provider.ben.clone() };
        assert_eq!(provider.sealgate.store.add_user(&user).await.unwrap(), AddOutcome::Added);
        subjects.push(sub);
    }
    subjects
}

/// Submits the form of the list of users for these users, without confirming.
async fn ask(browser: &Browser<'_>, action: &str, group: &str, users: &[Subject]) -> Reply {
    let page = browser.get("/console/users").await;
    let form = page.text().split("<form").find(|form| form.contains(BULK)).unwrap();
    let csrf = form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let users: Vec<String> = users.iter().map(ToString::to_string).collect();
    let mut fields = vec![("csrf", csrf.as_str()), ("action", action), ("to_group", group)];
    fields.extend(users.iter().map(|user| ("user", user.as_str())));
    browser.post(BULK, &fields).await
}

/// Makes the change, and returns the page after it.
async fn change(browser: &Browser<'_>, action: &str, group: &str, users: &[Subject]) -> Reply {
    let question = ask(browser, action, group, users).await;
    assert!(is_confirmation(&question), "{action}: {question:?}");
    let page = browser.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("The selected users were changed."), "{action}: {page:?}");
    page
}

async fn user(provider: &Provider, subject: Subject) -> User {
    provider.sealgate.store.user(subject).await.unwrap().unwrap()
}

async fn events(provider: &Provider, kind: AuditKind) -> usize {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    provider.sealgate.store.audit_page(&filter, None, 100).await.unwrap().records.len()
}

#[tokio::test]
async fn the_confirmation_lists_the_users_and_those_who_are_left_out() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let ids = people(&provider, &["cem", "deniz"]).await;
    provider.change_user(ids[1], |user| user.state = UserState::Disabled).await;
    let before = user(&provider, ids[0]).await;
    let page = ask(&anna, "disable", "", &[ids[0], ids[1], provider.anna.sub]).await;
    let (changed, skipped) = page.text().split_once("id=\"bulk-skipped\"").unwrap();
    assert!(is_confirmation(&page) && changed.contains("One user is changed"), "{page:?}");
    assert!(changed.contains("cem@example.test") && !changed.contains("deniz@example.test"), "{page:?}");
    assert!(skipped.contains("deniz@example.test") && skipped.contains("Nothing to change."), "{page:?}");
    assert!(skipped.contains(ANNA) && skipped.contains("This is you."), "{page:?}");
    assert_eq!(user(&provider, ids[0]).await, before);
    for (users, told) in [(&[][..], "Select at least one user"), (&[ids[1]], "Nothing would change")] {
        let page = ask(&anna, "disable", "", users).await;
        assert!(!is_confirmation(&page) && page.text().contains(told), "{told}: {page:?}");
    }
    for group in ["", "a,b"] {
        assert!(ask(&anna, "add-to-group", group, &ids).await.text().contains("Enter the name of a group"));
    }
}

#[tokio::test]
async fn each_action_changes_exactly_the_selected_users() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let ids = people(&provider, &["cem", "deniz", "ece"]).await;
    let others = user(&provider, ids[2]).await;
    let selected = &ids[..2];

    change(&anna, "add-to-group", "staff", selected).await;
    assert!(user(&provider, ids[0]).await.is_in_group("staff") && user(&provider, ids[1]).await.is_in_group("staff"));
    assert_eq!(events(&provider, AuditKind::UserChanged).await, 2);
    change(&anna, "remove-from-group", "staff", &ids[1..]).await;
    assert!(user(&provider, ids[0]).await.is_in_group("staff") && !user(&provider, ids[1]).await.is_in_group("staff"));

    let cem = signed_in(&provider, "cem@example.test").await;
    change(&anna, "revoke", "", selected).await;
    assert_login(&cem.open("/account").await);
    assert_eq!(events(&provider, AuditKind::UserRevoked).await, 2);
    signed_in(&provider, "cem@example.test").await;

    change(&anna, "disable", "", selected).await;
    assert!(!user(&provider, ids[0]).await.is_enabled() && !user(&provider, ids[1]).await.is_enabled());
    assert_eq!(events(&provider, AuditKind::UserDisabled).await, 2);
    change(&anna, "enable", "", &ids).await;
    assert!(user(&provider, ids[0]).await.is_enabled());
    assert_eq!(events(&provider, AuditKind::UserEnabled).await, 2);
    assert_eq!(user(&provider, ids[2]).await, others);
}

#[tokio::test]
async fn users_without_a_credential_are_invited_again() {
    let provider = provider_with(MAIL).await;
    let anna = signed_in(&provider, ANNA).await;
    let ids = people(&provider, &["cem", "deniz"]).await;
    provider.change_user(ids[0], |user| user.password = None).await;
    let question = ask(&anna, "invite", "", &ids).await;
    assert!(question.text().contains("Can sign in already."), "{question:?}");
    anna.submit(&question, &[("sure", "yes")]).await;
    let mails = due(&provider.sealgate.store, provider.clock.now()).await;
    let to: Vec<_> = mails.iter().map(|(_, mail)| mail.to.as_ref().unwrap().as_str()).collect();
    assert_eq!(to, ["cem@example.test"]);
    // Without mail, there is no such action.
    let provider = super::provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(!anna.get("/console/users").await.text().contains("value=\"invite\""));
    ask(&anna, "invite", "", &[provider.ben.sub]).await.assert_error_page();
}

#[tokio::test]
async fn a_change_is_made_once_and_returns_to_the_same_part_of_the_list() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let ids = people(&provider, &["cem", "deniz"]).await;
    let page = anna.get("/console/users?find=example&sort=address").await;
    assert!(page.text().contains("name=\"back\" value=\"/console/users?find=example&#38;sort=address\""), "{page:?}");
    let csrf = page.text().split(BULK).nth(1).unwrap().split("name=\"csrf\" value=\"").nth(1).unwrap();
    let csrf = csrf.split('"').next().unwrap();
    let (cem, back) = (ids[0].to_string(), "/console/users?find=example&sort=address");
    let fields =
        [("csrf", csrf), ("action", "disable"), ("user", &cem), ("back", back), ("once", "token"), ("sure", "yes")];
    let first = anna.post(BULK, &fields).await;
    assert_eq!(first.status, 303, "{first:?}");
    assert!(first.header("location").unwrap().starts_with(&format!("{back}&done=users")), "{first:?}");
    provider.change_user(ids[0], |user| user.state = UserState::Enabled).await;
    let second = anna.post(BULK, &fields).await;
    // The repetition is answered from the users that it would change, or with the result.
    assert_eq!((second.status, second.header("location")), (303, first.header("location")));
    assert!(user(&provider, ids[0]).await.is_enabled());
    assert_eq!(events(&provider, AuditKind::UserDisabled).await, 1);
    for back in ["https://evil.test/", "//evil.test", "/console/users\\x", "/account", "/console/users?a\nb"] {
        let fields = [("csrf", csrf), ("action", "disable"), ("user", &cem), ("back", back), ("sure", "yes")];
        provider.change_user(ids[0], |user| user.state = UserState::Enabled).await;
        let reply = anna.post(BULK, &fields).await;
        assert!(reply.header("location").unwrap().starts_with("/console/users?done=users"), "{back}: {reply:?}");
    }
}

#[tokio::test]
async fn a_change_requires_a_recent_sign_in_and_is_resumed_after_it() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let ids = people(&provider, &["cem"]).await;
    provider.wait(301);
    let page = anna.get("/console/users").await;
    let form = page.text().split("<form").find(|form| form.contains(BULK)).unwrap();
    let csrf = form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let cem = ids[0].to_string();
    let fields = [("csrf", csrf), ("action", "add-to-group"), ("to_group", "staff"), ("user", &cem), ("sure", "yes")];
    let reply = anna.post(BULK, &fields).await;
    let login = anna.follow(reply).await;
    assert_login(&login);
    assert!(!user(&provider, ids[0]).await.is_in_group("staff"));
    let question = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&question) && question.text().contains("cem@example.test"), "{question:?}");
    anna.submit(&question, &[("sure", "yes")]).await;
    assert!(user(&provider, ids[0]).await.is_in_group("staff"));
}

#[tokio::test]
async fn only_administrators_with_the_token_of_the_form_change_users() {
    let provider = provider_with("admins = \"ops\"").await;
    let ids = people(&provider, &["cem"]).await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let cem = ids[0].to_string();
    let fields = [("action", "disable"), ("user", cem.as_str()), ("sure", "yes")];
    assert_eq!(ben.post(BULK, &fields).await.status, 403);
    assert_eq!(anna.post(BULK, &fields).await.status, 400);
    assert_eq!(anna.get(BULK).await.location(), "/console/users");
    // The token of another form is not valid.
    let csrf = csrf_of(&anna.get("/console/users/new").await);
    assert_eq!(anna.post(BULK, &[&[("csrf", csrf.as_str())], &fields[..]].concat()).await.status, 400);
    assert!(user(&provider, ids[0]).await.is_enabled());
    // Administrators by group cannot remove themselves from it.
    provider
        .change_user(provider.anna.sub, |user| (user.roles, user.groups) = ([].into(), ["ops".to_owned()].into()))
        .await;
    let page = ask(&anna, "remove-from-group", "ops", &[provider.anna.sub]).await;
    assert!(!is_confirmation(&page) && page.text().contains("This is you."), "{page:?}");
    // The confirmation tells that members of the group are administrators.
    let page = ask(&anna, "add-to-group", "ops", &ids).await;
    assert!(page.text().contains("can see and change everything"), "{page:?}");
}
