//! Tests clients whose owner is deleted or disabled, or is no developer any more.

use super::roles::{KEYS, MERT, add_person};
use super::*;

/// Registers a client as Ben, and approves it. Returns its id.
async fn approved(provider: &Provider) -> String {
    let (anna, ben) = (signed_in(provider, ANNA).await, signed_in(provider, BEN).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    press(&anna, &format!("/console/clients/{id}"), &[("action", "approve")]).await;
    assert!(stored(provider, &id).await.unwrap().is_vouched_for());
    id
}

#[tokio::test]
async fn clients_outlive_their_owner_and_are_listed_without_one() {
    for (fields, is_deleted) in [
        (&[("action", "delete")][..], true),
        (&[("action", "disable")], false),
        (&[("action", "save"), ("groups", "")], false),
    ] {
        let provider = provider().await;
        let id = approved(&provider).await;
        let anna = signed_in(&provider, ANNA).await;
        let list = anna.get("/console/clients").await;
        assert!(!list.text().contains(">No owner<"), "{list:?}");
        assert!(!anna.get("/console/clients?owner=none").await.text().contains(&id));
        let question = press_only(&anna, &format!("/console/users/{}", provider.ben.sub), fields).await;
        assert!(is_confirmation(&question) && question.text().contains(&id), "{fields:?}: {question:?}");
        assert!(question.text().contains("owns an enabled client"), "{question:?}");
        anna.submit(&question, &[("sure", "yes")]).await;
        // The client still works, and counts neither as the operator's nor as unapproved.
        let client = stored(&provider, &id).await.unwrap();
        assert!(client.is_enabled() && client.owner == Some(provider.ben.sub) && client.approval.is_some());
        let list = anna.get("/console/clients?owner=none").await;
        assert!(list.text().contains(&id) && list.text().contains(">No owner<"), "{list:?}");
        assert!(!list.text().contains("/console/clients/c1"), "the operator's client: {list:?}");
        let page = anna.get(&format!("/console/clients/{id}")).await;
        let owner = page.text().split("id=\"client-owner\"").nth(1).unwrap().split("</dd>").next().unwrap();
        assert!(owner.contains("No owner") && owner.contains(BEN) != is_deleted, "{owner}");
    }
}

#[tokio::test]
async fn clients_of_a_user_are_disabled_with_the_user_if_chosen() {
    for fields in [&[("action", "delete")][..], &[("action", "disable")], &[("action", "save"), ("groups", "")]] {
        let provider = provider().await;
        let id = approved(&provider).await;
        let anna = signed_in(&provider, ANNA).await;
        let question = press_only(&anna, &format!("/console/users/{}", provider.ben.sub), fields).await;
        anna.submit(&question, &[("sure", "yes"), ("disable_clients", "yes")]).await;
        let client = stored(&provider, &id).await.unwrap();
        assert!(!client.is_enabled(), "{fields:?}");
        assert!(stored(&provider, "c1").await.unwrap().is_enabled());
    }
    // A user without clients has no such choice.
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = press_only(&anna, &format!("/console/users/{}", provider.ben.sub), &[("action", "disable")]).await;
    assert!(is_confirmation(&page) && !page.text().contains("disable_clients"), "{page:?}");
}

#[tokio::test]
async fn user_managers_neither_see_nor_disable_clients() {
    let provider = provider_with(KEYS).await;
    add_person(&provider, 30, "mert", &["helpdesk"]).await;
    let id = approved(&provider).await;
    provider
        .change_user(provider.ben.sub, |user| {
            user.roles.clear();
            user.groups = ["students".to_owned()].into();
        })
        .await;
    let mert = signed_in(&provider, MERT).await;
    let page = format!("/console/users/{}", provider.ben.sub);
    for fields in
        [&[("action", "save"), ("member", "staff"), ("shown_groups", "students")][..], &[("action", "disable")]]
    {
        let question = press_only(&mert, &page, fields).await;
        assert!(is_confirmation(&question) && !question.text().contains(&id), "{fields:?}: {question:?}");
        assert!(!question.text().contains("disable_clients"), "{fields:?}: {question:?}");
        mert.submit(&question, &[("sure", "yes"), ("disable_clients", "yes")]).await;
    }
    let ben = provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap();
    assert!(!ben.is_enabled() && ben.groups == ["staff".to_owned()].into(), "{ben:?}");
    assert!(stored(&provider, &id).await.unwrap().is_enabled());
}
