//! Tests the console's pages about groups.

use super::*;

const APP: &str = "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n[[app.route]]\n\
    path = \"/docs/\"\nmethods = [\"GET\"]\naccess = \"signed_in\"\ngroups = [\"staff\"]\n";
const MEMBERS: &str = "/console/groups/members";

async fn with_groups() -> Provider {
    let provider = provider_with(&format!("admins = \"ops\"\n{APP}")).await;
    provider
        .change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned(), "a/b & c".to_owned()].into())
        .await;
    provider
}

async fn groups_of(provider: &Provider, subject: Subject) -> Vec<String> {
    provider.sealgate.store.user(subject).await.unwrap().unwrap().groups.into_iter().collect()
}

fn page_of(group: &str) -> String {
    let query = support::encode(&[("name", group)]);
    format!("{MEMBERS}?{query}")
}

/// Submits the form of a group's page without confirming.
async fn ask(browser: &Browser<'_>, group: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get(&page_of(group)).await;
    let form = page.text().split("<form").find(|form| form.contains(&format!("action=\"{MEMBERS}\""))).unwrap();
    let csrf = form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    browser.post(MEMBERS, &[&[("csrf", csrf), ("name", group)], fields].concat()).await
}

#[tokio::test]
async fn the_list_shows_groups_with_their_members_and_rules() {
    let provider = with_groups().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/groups").await;
    let row = |name: &str| page.text().split("<tr>").find(|row| row.contains(&format!("<bdi>{name}</bdi>"))).unwrap();
    let numbers = |name: &str| -> Vec<String> {
        row(name).split("\">").filter_map(|cell| cell.split_once("</td>")).map(|(text, _)| text.to_owned()).collect()
    };
    assert_eq!(numbers("staff")[1..], ["1", "1"]);
    assert_eq!(numbers("a/b &#38; c")[1..], ["1", "0"]);
    // The configuration names a group without members.
    assert_eq!(numbers("ops")[1..], ["0", "1"]);
    let found = anna.get("/console/groups?find=STA").await;
    assert!(found.text().contains("<bdi>staff</bdi>") && !found.text().contains("<bdi>ops</bdi>"), "{found:?}");
}

#[tokio::test]
async fn the_page_of_a_group_shows_members_and_the_rules_that_name_it() {
    let provider = with_groups().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(&page_of("staff")).await;
    assert!(page.text().contains("<bdi>wiki</bdi>: <code>GET /docs/</code>"), "{page:?}");
    assert!(page.text().contains(&format!("value=\"{}\"", provider.ben.sub)), "{page:?}");
    assert!(anna.get(&page_of("ops")).await.text().contains("Console: members are administrators"));
    assert!(anna.get(&page_of("a/b & c")).await.text().contains(BEN));
    for name in ["", "a,b"] {
        assert_eq!(anna.get(&page_of(name)).await.status, 404, "{name}");
    }
}

#[tokio::test]
async fn users_are_added_by_address_or_username_and_removed() {
    let provider = with_groups().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get(&page_of("staff")).await;
    let form = page.text().split("<form").find(|form| form.contains("id=\"who\"")).unwrap();
    let csrf = form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let back = page_of("staff");
    let who = "anna@example.test\r\n nobody@example.test\r\nBEN@example.test\r\n";
    let fields =
        [("csrf", csrf.as_str()), ("action", "add-to-group"), ("to_group", "staff"), ("who", who), ("back", &back)];
    let question = anna.post("/console/users/bulk", &fields).await;
    let (added, skipped) = question.text().split_once("id=\"bulk-skipped\"").unwrap();
    assert!(added.contains(ANNA) && !added.contains(BEN), "{question:?}");
    assert!(skipped.contains("nobody@example.test") && skipped.contains("No user has this"), "{question:?}");
    let many = "x@example.test\n".repeat(101);
    let fields = [("csrf", csrf.as_str()), ("action", "add-to-group"), ("to_group", "staff"), ("who", &many)];
    let page = anna.post("/console/users/bulk", &fields).await;
    assert!(page.text().contains("Select at most 100 users"), "{page:?}");
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("Users, 1–2 of 2") && page.text().contains("<h1>Group: staff</h1>"), "{page:?}");
    assert_eq!(groups_of(&provider, provider.anna.sub).await, ["staff"]);
}

#[tokio::test]
async fn a_group_is_renamed_for_all_members_after_a_confirmation_that_names_the_rules() {
    let provider = with_groups().await;
    let store = &provider.sealgate.store;
    // More members than one commit changes.
    for number in 1..=150_u16 {
        let mut bytes = [0xfe; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        let groups = ["staff".to_owned(), "keep".to_owned()].into();
        let (sub, email) = (Subject::from_random(bytes), Email::parse(&format!("n{number}@example.test")));
        let user = User { sub, email, groups, roles: [].into(), ..provider.ben.clone() };
        assert_eq!(store.add_user(&user).await.unwrap(), AddOutcome::Added);
    }
    let anna = signed_in(&provider, ANNA).await;
    let question = ask(&anna, "staff", &[("action", "rename"), ("to", "personel")]).await;
    assert!(is_confirmation(&question) && question.text().contains("151"), "{question:?}");
    assert!(question.text().contains("<code>GET /docs/</code>"), "{question:?}");
    assert!(groups_of(&provider, provider.ben.sub).await.contains(&"staff".to_owned()));
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("<h1>Group: personel</h1>") && page.text().contains("of 151"), "{page:?}");
    assert_eq!(groups_of(&provider, provider.ben.sub).await, ["a/b & c", "personel"]);
    let filter = AuditFilter { kinds: vec![AuditKind::UserChanged], ..AuditFilter::default() };
    assert_eq!(store.audit_page(&filter, None, 1000).await.unwrap().records.len(), 151);
    // The group is deleted: its members stay in their other groups.
    let question = ask(&anna, "personel", &[("action", "delete")]).await;
    assert!(is_confirmation(&question) && !question.text().contains("group-named"), "{question:?}");
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && !page.text().contains("<bdi>personel</bdi>"), "{page:?}");
    assert!(page.text().contains("<bdi>keep</bdi>"), "{page:?}");
    assert_eq!(groups_of(&provider, provider.ben.sub).await, ["a/b & c"]);
}

/// The members of a group that is renamed to the administrators' group become administrators.
#[tokio::test]
async fn renaming_a_group_warns_of_the_role_and_the_rules_of_the_new_name() {
    let provider = with_groups().await;
    let anna = signed_in(&provider, ANNA).await;
    let question = ask(&anna, "a/b & c", &[("action", "rename"), ("to", "ops")]).await;
    assert!(is_confirmation(&question), "{question:?}");
    assert!(question.text().contains("can see and change everything in the console"), "{question:?}");
    let uses = question.text().split("id=\"group-new-uses\"").nth(1).unwrap();
    assert!(uses.contains("Console: members are administrators"), "{question:?}");
    let question = ask(&anna, "a/b & c", &[("action", "rename"), ("to", "staff")]).await;
    assert!(!question.text().contains("id=\"group-role\""), "{question:?}");
    assert!(question.text().split("id=\"group-new-uses\"").nth(1).unwrap().contains("GET /docs/"), "{question:?}");
    let question = ask(&anna, "a/b & c", &[("action", "rename"), ("to", "other")]).await;
    assert!(!question.text().contains("id=\"group-new-uses\""), "{question:?}");
}

#[tokio::test]
async fn a_group_is_not_renamed_by_mistake_or_without_the_right() {
    let provider = with_groups().await;
    provider
        .change_user(provider.anna.sub, |user| (user.roles, user.groups) = ([].into(), ["ops".to_owned()].into()))
        .await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    for to in ["", "a,b", "staff"] {
        let page = ask(&anna, "staff", &[("action", "rename"), ("to", to), ("sure", "yes")]).await;
        assert!(page.text().contains("id=\"to-hint\"") && page.text().contains("aria-invalid"), "{to}: {page:?}");
    }
    // Anna is an administrator only through this group.
    for fields in
        [[("action", "rename"), ("to", "x"), ("sure", "yes")], [("action", "delete"), ("to", ""), ("sure", "yes")]]
    {
        let page = ask(&anna, "ops", &fields).await;
        assert!(page.text().contains("You would lose your own role"), "{page:?}");
    }
    assert_eq!(groups_of(&provider, provider.anna.sub).await, ["ops"]);
    let fields = [("action", "delete"), ("name", "staff"), ("sure", "yes")];
    assert_eq!(ben.post(MEMBERS, &fields).await.status, 403);
    assert_eq!(anna.post(MEMBERS, &fields).await.status, 400);
    assert!(groups_of(&provider, provider.ben.sub).await.contains(&"staff".to_owned()));
    // The change is kept while Anna signs in again.
    provider.wait(301);
    let login = ask(&anna, "staff", &[("action", "delete"), ("sure", "yes")]).await;
    let login = anna.follow(login).await;
    assert_login(&login);
    let question = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&question) && question.text().contains("<bdi>staff</bdi>"), "{question:?}");
    anna.submit(&question, &[("sure", "yes")]).await;
    assert_eq!(groups_of(&provider, provider.ben.sub).await, ["a/b & c"]);
}
