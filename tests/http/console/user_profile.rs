//! Tests the console's page of a user: the profile, and deletion.

use super::*;

use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_store::engine::Engine as _;

async fn ben(provider: &Provider) -> Option<User> {
    provider.sealgate.store.user(provider.ben.sub).await.unwrap()
}

fn page_of_ben(provider: &Provider) -> String {
    format!("/console/users/{}", provider.ben.sub)
}

/// Returns the form with Ben's profile, changed.
fn profile<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("action", "save-profile"), ("name", "Ben"), ("email", BEN), ("phone_number", "")];
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        fields.push((name, value));
    }
    fields
}

#[tokio::test]
async fn an_administrator_edits_the_profile_of_a_user() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of_ben(&provider);
    let page = anna.get(&path).await;
    for value in ["id=\"email\" name=\"email\" type=\"email\"", "value=\"ben@example.test\"", "value=\"Ben\""] {
        assert!(page.text().contains(value), "{value}: {page:?}");
    }
    let save = async |fields: &[(&str, &str)]| press_only(&anna, &path, &profile(fields)).await;
    // Name and phone number need no confirmation.
    let page = save(&[("name", " Ben Öz "), ("phone_number", "+90 555 111 22 33")]).await;
    assert!(!is_confirmation(&page) && page.text().contains("The changes were saved."), "{page:?}");
    let user = ben(&provider).await.unwrap();
    assert_eq!((user.name.as_str(), user.phone_number.as_deref()), ("Ben Öz", Some("+90 555 111 22 33")));
    save(&[]).await;
    assert_eq!(
        (ben(&provider).await.unwrap().name.as_str(), ben(&provider).await.unwrap().phone_number),
        ("Ben", None)
    );
    let before = ben(&provider).await;
    for (fields, told) in [
        (&[("name", " ")][..], "id=\"name-wrong\""),
        (&[("name", "B\u{202e}en")], "id=\"name-wrong\""),
        (&[("email", "nobody")], "id=\"email-wrong\""),
        (&[("email", "")], "id=\"email-wrong\""),
        (&[("email", "Anna@example.test")], "belongs to another user"),
        (&[("phone_number", "5551112233")], "id=\"phone-wrong\""),
        (&[("username", "b@n")], "Enter 1 to 64"),
    ] {
        let page = save(fields).await;
        assert!(page.text().contains(told) && page.text().contains("Nothing was saved"), "{fields:?}: {page:?}");
        assert_eq!(ben(&provider).await, before, "{fields:?}");
    }
}

#[tokio::test]
async fn a_new_address_is_named_in_the_confirmation_and_is_not_verified() {
    let provider = provider().await;
    provider.change_user(provider.ben.sub, |user| user.email_verified = true).await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of_ben(&provider);
    let question = press_only(&anna, &path, &profile(&[("email", "new@example.test")])).await;
    assert!(is_confirmation(&question) && question.text().contains("<bdi>new@example.test</bdi>"), "{question:?}");
    assert!(question.text().contains("<bdi>ben@example.test</bdi>"), "{question:?}");
    assert_eq!(ben(&provider).await.unwrap().sign_in_name(), BEN);
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("value=\"new@example.test\""), "{page:?}");
    let user = ben(&provider).await.unwrap();
    assert_eq!((user.sign_in_name(), user.email_verified), ("new@example.test", false));
    // The address can be removed only if the user has a username.
    press(&anna, &path, &profile(&[("email", "new@example.test"), ("username", "ben")])).await;
    let question = press_only(&anna, &path, &profile(&[("email", "")])).await;
    assert!(question.text().contains("no email address any more"), "{question:?}");
    anna.submit(&question, &[("sure", "yes")]).await;
    assert_eq!(ben(&provider).await.unwrap().sign_in_name(), "ben");
}

#[tokio::test]
async fn the_profile_of_a_directory_user_is_read_only() {
    let provider = provider().await;
    let link = SourceLink { source: SourceName::parse("corp").unwrap(), id: SourceId::from_bytes(b"1").unwrap() };
    let source = UserSource {
        link,
        groups: [].into(),
        state: SourceState::Enabled,
        changed_at: provider.clock.now(),
        confirmed_at: None,
        origin: None,
        linked: None,
    };
    let keep = |user: &mut User| (user.source, user.password) = (Some(source.clone()), None);
    provider.sealgate.store.change_user(provider.ben.sub, keep).await.unwrap();
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of_ben(&provider);
    let page = anna.get(&path).await;
    assert!(page.text().contains("The directory <bdi>corp</bdi> keeps the name"), "{page:?}");
    assert!(!page.text().contains("id=\"user-save-profile\"") && !page.text().contains("name=\"name\""), "{page:?}");
    let before = ben(&provider).await;
    for fields in [profile(&[("name", "X")]), profile(&[("email", "x@example.test")])] {
        press(&anna, &path, &fields).await.assert_error_page();
    }
    assert_eq!(ben(&provider).await, before);
    // Groups and roles belong to this installation.
    press(&anna, &path, &[("action", "save"), ("groups", "staff")]).await;
    assert!(ben(&provider).await.unwrap().is_in_group("staff"));
}

#[tokio::test]
async fn a_deleted_user_leaves_only_audit_events() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let code = provider.c1().code_in(&ben, &[]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let store = &provider.sealgate.store;
    let subject = provider.ben.sub;
    let password = AppPassword::new("wiki", "git", AssuranceLevel::One, &[7; 20], provider.clock.now()).0;
    let _ = store.add_app_password(subject, &password).await.unwrap();
    let anna = signed_in(&provider, ANNA).await;
    let question = press_only(&anna, &page_of_ben(&provider), &[("action", "delete")]).await;
    assert!(is_confirmation(&question) && question.text().contains("<bdi>ben@example.test</bdi>"), "{question:?}");
    assert!(store.user(subject).await.unwrap().is_some());
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("The user was deleted."), "{page:?}");
    assert!(!page.text().contains(BEN), "{page:?}");
    assert_login(&ben.open("/account").await);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    assert_eq!(anna.get(&page_of_ben(&provider)).await.status, 404);
    // Only events, ended grants and used codes name the user, with their index entries: a stolen token
    // or code is still recognised as used until it expires.
    let mut left = Vec::new();
    for table in 0..=u8::MAX {
        for (key, value) in provider.engine.scan(&[table], None, 10_000).await.unwrap() {
            let is_key = key.windows(16).any(|part| part == subject.as_bytes());
            if is_key || String::from_utf8_lossy(&value).contains(&subject.to_string()) {
                left.push(char::from(table));
            }
        }
    }
    left.sort_unstable();
    left.dedup();
    assert_eq!(left, ['c', 'e', 'g', 'j', 'x']);
    let trail = anna.get(&format!("/console/audit?person={subject}")).await;
    assert!(trail.text().contains("User deleted"), "{trail:?}");
    // The address is free again.
    let page = anna.get("/console/users/new").await;
    let page = anna.submit(&page, &[("email", BEN), ("name", "Ben"), ("groups", "")]).await;
    assert!(element(&page, "new-password").is_some(), "{page:?}");
}

#[tokio::test]
async fn a_repeated_deletion_leads_to_the_same_page() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of_ben(&provider);
    let page = anna.get(&path).await;
    let fields = [("csrf", csrf_of(&page)), ("once", "a-token".to_owned())];
    let mut all: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    all.extend([("action", "delete"), ("sure", "yes")]);
    let first = anna.post(&path, &all).await;
    let second = anna.post(&path, &all).await;
    assert_eq!((first.status, second.status), (303, 303));
    assert_eq!(first.header("location"), second.header("location"));
    let kinds: Vec<_> =
        all_events(&provider).await.into_iter().filter(|kind| *kind == AuditKind::UserDeleted).collect();
    assert_eq!(kinds.len(), 1);
    // Another form about the deleted user changes nothing.
    all[1].1 = "another-token";
    assert_eq!(anna.post(&path, &all).await.status, 404);
}

async fn all_events(provider: &Provider) -> Vec<AuditKind> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let page = provider.sealgate.store.audit_page(&AuditFilter::default(), None, 1000).await.unwrap();
    page.records.into_iter().map(|record| record.event.kind).collect()
}

#[tokio::test]
async fn administrators_delete_users_but_not_themselves() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let own = format!("/console/users/{}", provider.anna.sub);
    let page = anna.get(&format!("{own}/danger")).await;
    assert!(page.text().contains("id=\"user-revoke\"") && !page.text().contains("id=\"user-delete\""), "{page:?}");
    press(&anna, &own, &[("action", "delete")]).await.assert_error_page();
    let ben = signed_in(&provider, BEN).await;
    for action in ["delete", "save-profile"] {
        let page = ben.post(&own, &[("action", action), ("email", "x@example.test"), ("sure", "yes")]).await;
        assert_eq!(page.status, 403, "{action}");
    }
    // Without the token of the form, nothing happens.
    let page = anna.post(&page_of_ben(&provider), &[("action", "delete"), ("sure", "yes")]).await;
    assert!(page.status == 400 && page.text().contains("This page has expired"), "{page:?}");
    assert!(ben_exists(&provider).await && provider.sealgate.store.user(provider.anna.sub).await.unwrap().is_some());
}

async fn ben_exists(provider: &Provider) -> bool {
    ben(provider).await.is_some()
}
