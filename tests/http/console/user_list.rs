//! Tests the console's list of users: search, filters, order, pages, and that the list is current.

use super::*;

use sealgate_domain::account_links::{AccountLinks, Invitation};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};

/// Returns the users of a list in their order: the addresses, without the domain.
fn listed(page: &Reply) -> Vec<String> {
    assert_eq!(page.status, 200, "{page:?}");
    let rows = page.text().split("\n<tr>").skip(1);
    rows.map(|row| row.split("@example.test").next().unwrap().rsplit('>').next().unwrap().to_owned()).collect()
}

async fn list(anna: &Browser<'_>, query: &str) -> Vec<String> {
    listed(&anna.get(&format!("/console/users{query}")).await)
}

/// Returns the address of the link with this id.
fn link(page: &Reply, id: &str) -> Option<String> {
    let tag = page.text().split('<').find(|tag| tag.contains(&format!("id=\"{id}\"")))?;
    Some(tag.split("href=\"").nth(1)?.split('"').next()?.replace("&#38;", "&"))
}

fn person(provider: &Provider, number: u16, address: &str, name: &str) -> User {
    let mut bytes = [0xff; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    let (sub, email) = (Subject::from_random(bytes), Email::parse(&format!("{address}@example.test")));
    User { sub, email, name: name.to_owned(), roles: [].into(), ..provider.ben.clone() }
}

async fn add(provider: &Provider, user: &User) {
    assert_eq!(provider.sealgate.store.add_user(user).await.unwrap(), AddOutcome::Added);
}

#[tokio::test]
async fn users_are_found_by_any_part_of_their_address_username_or_name() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    provider.change_user(provider.anna.sub, |user| user.name = "Anna Işık".to_owned()).await;
    assert_eq!(list(&anna, "").await, ["anna", "ben"]);
    for typed in ["AN", "anna%40example.test", "isik", "I%C5%9FIK", "nna", "isik+ann"] {
        assert_eq!(list(&anna, &format!("?find={typed}")).await, ["anna"], "{typed}");
    }
    assert_eq!(list(&anna, "?find=ben%40").await, ["ben"]);
    assert_eq!(list(&anna, "?find=@EXAMPLE").await, ["anna", "ben"]);
    for typed in ["annax", "%00", "ben+anna"] {
        let page = anna.get(&format!("/console/users?find={typed}")).await;
        assert!(listed(&page).is_empty() && page.text().contains("No user was found."), "{typed}");
    }
}

#[tokio::test]
async fn the_list_is_filtered_by_group_state_role_factor_and_source() {
    let provider = provider_with("developers = \"devs\"").await;
    let anna = signed_in(&provider, ANNA).await;
    let store = &provider.sealgate.store;
    let link = SourceLink { source: SourceName::parse("corp").unwrap(), id: SourceId::from_bytes(b"1").unwrap() };
    let source = UserSource {
        link,
        groups: ["corp/ops".to_owned()].into(),
        state: SourceState::Enabled,
        changed_at: provider.clock.now(),
        confirmed_at: None,
        origin: None,
        linked: None,
    };
    let users = [
        User { groups: ["staff".to_owned(), "devs".to_owned()].into(), ..person(&provider, 1, "cem", "Cem") },
        User { state: UserState::Disabled, ..person(&provider, 2, "deniz", "Deniz") },
        User { password: None, ..person(&provider, 3, "ece", "Ece") },
        User { password: None, source: Some(source), ..person(&provider, 4, "fatma", "Fatma") },
        User { password: None, ..person(&provider, 5, "gul", "Gül") },
    ];
    for user in &users {
        add(&provider, user).await;
    }
    let gul = &users[4];
    let invitation = Invitation::new(gul, SecretHash::for_secret(b"link"), None, None, provider.clock.now());
    let invite = |links: &mut AccountLinks| links.invitation = Some(invitation.clone());
    store.change_account_links(gul.sub, &[], invite).await.unwrap();
    for (query, expected) in [
        ("group=staff", &["cem"][..]),
        ("group=corp%2Fops", &["fatma"]),
        ("group=none", &[]),
        ("state=disabled", &["deniz"]),
        ("state=no-credential", &["ece"]),
        ("state=invited", &["gul"]),
        ("state=invitation-expired", &[]),
        ("state=enabled", &["anna", "ben", "cem", "fatma"]),
        ("role=admin", &["anna"]),
        // Ben has the role, Cem is in the group of developers.
        ("role=developer", &["ben", "cem"]),
        ("role=none", &["deniz", "ece", "fatma", "gul"]),
        ("source=corp", &["fatma"]),
        ("source=none&state=enabled", &["anna", "ben", "cem"]),
        ("factor=none&group=staff", &["cem"]),
        ("factor=passkey", &[]),
        // Unknown values are ignored.
        ("state=x&role=y&factor=z&sort=w&group=staff", &["cem"]),
    ] {
        assert_eq!(list(&anna, &format!("?{query}")).await, expected, "{query}");
    }
    let page = anna.get("/console/users?group=staff").await;
    assert!(
        page.text().contains("<option value=\"corp/ops\"></option>") && page.text().contains("value=\"staff\""),
        "{page:?}"
    );
    // The invitation expires without any change in the store.
    provider.wait(8 * 24 * 3600);
    let anna = signed_in(&provider, ANNA).await;
    assert_eq!(list(&anna, "?state=invitation-expired").await, ["gul"]);
}

#[tokio::test]
async fn the_list_is_sorted_and_its_columns_reverse_the_order() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    provider.wait(10);
    let now = provider.clock.now();
    add(&provider, &User { created_at: now, ..person(&provider, 1, "zz", "Çetin") }).await;
    add(&provider, &User { created_at: now, ..person(&provider, 2, "aa", "Cüneyt") }).await;
    signed_in(&provider, BEN).await;
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    assert_eq!(list(&anna, "").await, ["anna", "ben", "aa", "zz"]);
    assert_eq!(list(&anna, "?sort=name&reversed=yes").await, ["zz", "aa", "ben", "anna"]);
    assert_eq!(list(&anna, "?sort=address").await, ["aa", "anna", "ben", "zz"]);
    assert_eq!(list(&anna, "?sort=signed-in").await, ["ben", "anna", "aa", "zz"]);
    assert_eq!(list(&anna, "?sort=created").await, ["aa", "zz", "anna", "ben"]);
    let page = anna.get("/console/users?sort=signed-in&find=a").await;
    assert!(
        page.text().contains(
            "aria-sort=\"descending\"><a href=\"/console/users?find=a&#38;sort=signed-in&#38;reversed=yes\">"
        ),
        "{page:?}"
    );
    let row = |email: &str| page.text().split("<tr").skip(1).find(|row| row.contains(email)).unwrap().to_owned();
    assert_eq!((row(ANNA).matches("<time ").count(), row("aa@").matches("<time ").count()), (1, 0), "{page:?}");
    assert!(row(ANNA).contains("Administrator"), "{page:?}");
}

#[tokio::test]
async fn the_list_has_pages_in_both_directions_and_a_total() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    for number in 1..=100 {
        add(&provider, &person(&provider, number, &format!("n{number:03}"), &format!("Person {number:03}"))).await;
    }
    let first = anna.get("/console/users?find=person&sort=address").await;
    assert!(first.text().contains("Users, 1–25 of 100") && link(&first, "previous").is_none(), "{first:?}");
    let second = anna.get(&link(&first, "next").unwrap()).await;
    assert_eq!((listed(&second).len(), listed(&second)[0].as_str()), (25, "n026"));
    let third = anna.get(&link(&second, "next").unwrap()).await;
    let last = anna.get(&link(&third, "next").unwrap()).await;
    assert!(last.text().contains("76–100 of 100") && link(&last, "next").is_none(), "{last:?}");
    assert_eq!(listed(&last).last().unwrap(), "n100");
    assert_eq!(listed(&anna.get(&link(&last, "previous").unwrap()).await), listed(&third));
    assert_eq!(listed(&anna.get(&link(&second, "previous").unwrap()).await), listed(&first));
    assert_eq!(listed(&anna.get("/console/users?find=person&sort=address&page=999").await), listed(&last));
    assert!(first.text().len() < 24 * 1024, "{}", first.text().len());
}

#[tokio::test]
async fn the_list_shows_every_change_of_this_process_at_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let store = &provider.sealgate.store;
    assert_eq!(list(&anna, "").await, ["anna", "ben"]);
    let cem = User { created_at: provider.clock.now(), ..person(&provider, 1, "cem", "Cem") };
    add(&provider, &cem).await;
    assert_eq!(list(&anna, "?find=cem").await, ["cem"]);
    store.change_user(cem.sub, |user| user.groups = ["staff".to_owned()].into()).await.unwrap();
    assert_eq!(list(&anna, "?group=staff").await, ["cem"]);
    store.change_user(cem.sub, |user| user.state = UserState::Disabled).await.unwrap();
    assert_eq!(list(&anna, "?state=disabled").await, ["cem"]);
    assert!(store.delete_user(cem.sub, provider.clock.now()).await.unwrap());
    assert_eq!(list(&anna, "").await, ["anna", "ben"]);
    assert!(list(&anna, "?group=staff").await.is_empty());
}

/// Another process shares the store, as in a cluster.
#[tokio::test]
async fn the_list_shows_changes_of_another_node() {
    let provider = provider().await;
    let other = provider.again(std::sync::Arc::clone(&provider.engine) as _, support::token_device::signer()).await;
    let anna = signed_in(&provider, ANNA).await;
    assert_eq!(list(&anna, "").await, ["anna", "ben"]);
    other.store.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    assert_eq!(list(&anna, "?state=disabled").await, ["ben"]);
    let cem = person(&provider, 1, "cem", "Cem");
    assert_eq!(other.store.add_user(&cem).await.unwrap(), AddOutcome::Added);
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while list(&anna, "?find=cem").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    waited.await.unwrap();
    assert!(other.store.delete_user(cem.sub, provider.clock.now()).await.unwrap());
    assert!(list(&anna, "?find=cem").await.is_empty());
}
