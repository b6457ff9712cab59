//! Tests forms of the console that are sent after another user has changed the same object, or the
//! role of the sender.

use super::*;

use crate::meddler::At;

const BULK: &str = "/console/users/bulk";

async fn user(provider: &Provider, subject: Subject) -> User {
    provider.sealgate.store.user(subject).await.unwrap().unwrap()
}

fn page_of(subject: Subject) -> String {
    format!("/console/users/{subject}")
}

/// Returns the details of the events of this kind, newest first.
async fn details(provider: &Provider, kind: AuditKind) -> Vec<String> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 100).await.unwrap();
    page.records.into_iter().filter_map(|record| record.event.detail).collect()
}

/// Returns the hidden fields of the page with these names, and `more`.
fn fields(page: &Reply, names: &[&str], more: &[(&str, &str)]) -> Vec<(String, String)> {
    let hidden = hidden_fields(page.text());
    let shown = names.iter().map(|name| hidden.iter().find(|(known, _)| known == name).unwrap().clone());
    shown.chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect()
}

async fn send(browser: &Browser<'_>, path: &str, fields: &[(String, String)]) -> Reply {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reply = browser.post(path, &fields).await;
    browser.follow(reply).await
}

/// The developer changes the client after the administrator has opened its page, or its confirmation.
#[tokio::test]
async fn an_approval_applies_only_to_the_client_that_was_shown() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let is_approved = async || stored(&provider, &id).await.unwrap().is_vouched_for();
    let change = async |change: (&'static str, &'static str)| {
        let fields: Vec<(&str, &str)> = form(&[change]).into_iter().chain([("action", "save")]).collect();
        assert!(press(&ben, &path, &fields).await.text().contains("The client was saved."));
    };
    // The page is open.
    let approve = fields(&anna.get(&path).await, &["csrf", "seen"], &[("action", "approve")]);
    change(("redirect_uris", "https://evil.test/cb")).await;
    for sure in [false, true] {
        let mut approve = approve.clone();
        approve.extend(sure.then(|| ("sure".to_owned(), "yes".to_owned())));
        let page = send(&anna, &path, &approve).await;
        let told = page.text().split("id=\"client-changed\"").nth(1).unwrap_or_else(|| panic!("{page:?}"));
        assert!(told.split("</ul>").next().unwrap().contains("Redirect URIs"), "{page:?}");
        assert!(page.text().contains("https://evil.test/cb") && !is_approved().await, "{page:?}");
    }
    // The confirmation is open. It names the redirect URI.
    let question = press_only(&anna, &path, &[("action", "approve")]).await;
    assert!(is_confirmation(&question) && question.text().contains("https://evil.test/cb"), "{question:?}");
    change(("name", "Payroll")).await;
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("id=\"client-changed\"") && !is_approved().await, "{page:?}");
    // A form without the digests approves nothing.
    let page = send(&anna, &path, &fields(&page, &["csrf"], &[("action", "approve"), ("sure", "yes")])).await;
    assert!(page.text().contains("id=\"client-changed\"") && !is_approved().await, "{page:?}");
    press(&anna, &path, &[("action", "approve")]).await;
    assert!(is_approved().await);
}

/// The developer's change is committed between the check of the request and the commit.
#[tokio::test]
async fn an_approval_is_checked_in_its_commit() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let id = ClientId::parse("c1").unwrap();
    let of_ben = |client: &mut Client| client.owner = Some(provider.ben.sub);
    provider.sealgate.store.change_client(&id, of_ben).await.unwrap();
    let anna = signed_in(&provider, ANNA).await;
    let question = press_only(&anna, "/console/clients/c1", &[("action", "approve")]).await;
    assert!(is_confirmation(&question), "{question:?}");
    let stop = meddler.stop(At::BeforeCommit, b'l');
    let change = async {
        provider.sealgate.store.change_client(&id, |client| client.name = "Payroll".to_owned()).await.unwrap();
    };
    let (page, ()) = tokio::join!(anna.submit(&question, &[("sure", "yes")]), stop.meanwhile(change));
    assert!(page.text().contains("id=\"client-changed\""), "{page:?}");
    assert!(!stored(&provider, "c1").await.unwrap().is_vouched_for());
}

/// An operator gives the client to another user between the check of the request and the commit.
#[tokio::test]
async fn a_developer_who_has_lost_the_client_meanwhile_changes_nothing() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.ben.sub, Some(Role::Developer)).await;
    let ben = signed_in(&provider, BEN).await;
    let id = ClientId::parse("c1").unwrap();
    let of = async |owner| {
        provider.sealgate.store.change_client(&id, |client| client.owner = owner).await.unwrap();
    };
    let save = form(&[("name", "Payroll"), ("action", "save"), ("sure", "yes")]);
    for (path, fields) in [
        ("/console/clients/c1", save),
        ("/console/clients/c1", vec![("action", "rotate"), ("overlap_seconds", "0"), ("sure", "yes")]),
        ("/console/clients/c1", vec![("action", "disable"), ("sure", "yes")]),
        ("/console/clients/c1", vec![("action", "set-keys"), ("jwks", confirmation::PUBLIC_KEY), ("sure", "yes")]),
        ("/console/clients/c1", vec![("action", "delete"), ("sure", "yes")]),
        ("/console/try/c1", vec![("action", "switch-on")]),
    ] {
        of(None).await;
        let before = stored(&provider, "c1").await;
        of(Some(provider.ben.sub)).await;
        let stop = meddler.stop(At::BeforeCommit, b'l');
        let (late, ()) = tokio::join!(press_only(&ben, path, &fields), stop.meanwhile(of(None)));
        assert_eq!(late.status, 404, "{fields:?}: {late:?}");
        assert_eq!(stored(&provider, "c1").await, before, "{fields:?}");
    }
}

#[tokio::test]
async fn settings_of_a_client_do_not_undo_a_newer_change() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let late: Vec<(&str, &str)> = form(&[("description", "Late")]).into_iter().chain([("action", "save")]).collect();
    let late = fields(&anna.get(&path).await, &["csrf", "seen"], &late);
    let fields: Vec<(&str, &str)> = form(&[("name", "New name")]).into_iter().chain([("action", "save")]).collect();
    press(&ben, &path, &fields).await;
    let page = send(&anna, &path, &late).await;
    assert!(page.text().contains("id=\"client-changed\"") && page.text().contains("value=\"Late\""), "{page:?}");
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.name.as_str(), client.details.description.as_deref()), ("New name", Some("What we know")));
}

#[tokio::test]
async fn groups_are_saved_as_a_difference_to_the_shown_ones() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.ben.sub);
    let groups = |groups: &'static [&'static str]| groups.iter().map(|group| (*group).to_owned()).collect();
    provider.change_user(provider.ben.sub, |user| user.groups = groups(&["keep", "old"])).await;
    let names = ["csrf", "shown_groups", "shown_roles"];
    let typed = [("action", "save"), ("groups", "keep\nnew"), ("role_developer", "yes"), ("sure", "yes")];
    let late = fields(&anna.get(&path).await, &names, &typed);
    // Another administrator adds a group, removes one, and gives a role.
    provider
        .change_user(provider.ben.sub, |user| {
            user.groups = groups(&["old", "theirs"]);
            user.roles.insert(Role::Admin);
        })
        .await;
    let page = send(&anna, &path, &late).await;
    assert!(page.text().contains("The changes were saved."), "{page:?}");
    let ben = user(&provider, provider.ben.sub).await;
    assert_eq!((ben.groups, ben.roles), (groups(&["new", "theirs"]), [Role::Developer, Role::Admin].into()));
    assert_eq!(details(&provider, AuditKind::UserChanged).await, ["group added new, group removed old"]);
}

#[tokio::test]
async fn a_profile_is_saved_as_a_difference_to_the_shown_one() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.ben.sub);
    let names = ["csrf", "shown_name", "shown_email", "shown_phone_number"];
    let typed = [("action", "save-profile"), ("name", "Ben Late"), ("email", BEN), ("phone_number", "")];
    let late = fields(&anna.get(&path).await, &names, &typed);
    provider.change_user(provider.ben.sub, |user| user.phone_number = Some("+905551112233".to_owned())).await;
    send(&anna, &path, &late).await;
    let ben = user(&provider, provider.ben.sub).await;
    assert_eq!((ben.name.as_str(), ben.phone_number.as_deref()), ("Ben Late", Some("+905551112233")));
}

/// Two administrators remove each other at the same time. One of them remains.
#[tokio::test]
async fn an_administrator_who_was_removed_meanwhile_changes_nothing() {
    for fields in [&[("action", "save"), ("groups", "")][..], &[("action", "disable")], &[("action", "delete")]] {
        let (provider, meddler) = Provider::meddled_with(ON).await;
        for subject in [provider.anna.sub, provider.ben.sub] {
            give(&provider, subject, Some(Role::Admin)).await;
        }
        let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
        let by_anna = press_only(&anna, &page_of(provider.ben.sub), fields).await;
        let by_ben = press_only(&ben, &page_of(provider.anna.sub), &[("action", "save"), ("groups", "")]).await;
        assert!(is_confirmation(&by_anna) && is_confirmation(&by_ben), "{by_anna:?} {by_ben:?}");
        let stop = meddler.stop(At::BeforeCommit, b'u');
        let first = stop.meanwhile(ben.submit(&by_ben, &[("sure", "yes")]));
        let (late, early) = tokio::join!(anna.submit(&by_anna, &[("sure", "yes")]), first);
        assert!(early.text().contains("The changes were saved."), "{early:?}");
        assert_eq!(late.status, 403, "{fields:?}: {late:?}");
        let roles = async |subject| user(&provider, subject).await.roles;
        assert_eq!((roles(provider.anna.sub).await, roles(provider.ben.sub).await), ([].into(), [Role::Admin].into()));
        assert!(user(&provider, provider.ben.sub).await.is_enabled());
    }
}

/// The other source of the role goes while an administrator removes the first one from themselves.
#[tokio::test]
async fn administrators_keep_their_own_role_in_the_commit() {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\nadmins = \"ops\"")).await;
    let both = |user: &mut User| (user.roles, user.groups) = ([Role::Admin].into(), ["ops".to_owned()].into());
    provider.change_user(provider.anna.sub, both).await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.anna.sub);
    let question = press_only(&anna, &path, &[("action", "save"), ("groups", "ops")]).await;
    assert!(is_confirmation(&question), "{question:?}");
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let leave = stop.meanwhile(provider.change_user(provider.anna.sub, |user| user.groups = [].into()));
    let (page, ()) = tokio::join!(anna.submit(&question, &[("sure", "yes")]), leave);
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(user(&provider, provider.anna.sub).await.roles, [Role::Admin].into());
}

/// The names in the form are resolved once. The confirmation sends the users that it has listed.
#[tokio::test]
async fn a_bulk_change_applies_to_the_users_in_the_confirmation() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let csrf = {
        let page = anna.get("/console/users").await;
        let form = page.text().split("<form").find(|form| form.contains(BULK)).unwrap().to_owned();
        form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let fields = [
        ("csrf", csrf.as_str()),
        ("action", "add-to-group"),
        ("to_group", "staff"),
        ("who", "cem@example.test\nben@example.test"),
    ];
    let add = async |number: u8, email: &str| {
        let (sub, email) = (Subject::from_random([number; 16]), Email::parse(email));
        let user = User { sub, email, roles: [].into(), ..provider.ben.clone() };
        assert_eq!(provider.sealgate.store.add_user(&user).await.unwrap(), AddOutcome::Added);
        sub
    };
    let cem = add(31, "cem@example.test").await;
    let question = anna.post(BULK, &fields).await;
    assert!(is_confirmation(&question) && !question.text().contains("name=\"who\""), "{question:?}");
    // The first user is deleted, and another one gets the address.
    provider.sealgate.store.delete_user(cem, provider.clock.now()).await.unwrap();
    let other = add(32, "cem@example.test").await;
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(!user(&provider, other).await.is_in_group("staff"));
    assert!(user(&provider, provider.ben.sub).await.is_in_group("staff"));
    // The result names who was changed and who was not.
    let (skipped, done) = page.text().split_once("id=\"bulk-done\"").unwrap_or_else(|| panic!("{page:?}"));
    assert!(skipped.contains(&cem.to_string()) && skipped.contains("was deleted in the meantime"), "{page:?}");
    assert!(done.contains(BEN) && !page.text().contains("The selected users were changed."), "{page:?}");
    assert_eq!(details(&provider, AuditKind::UserChanged).await, ["group added staff"]);
}

/// A command refuses a user who has changed between the question and the command.
#[tokio::test]
async fn a_bulk_change_reports_refusals() {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{}", crate::mailbox::MAIL)).await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    provider.change_user(provider.ben.sub, |user| user.password = None).await;
    let anna = signed_in(&provider, ANNA).await;
    let csrf = csrf_of_bulk(&anna.get("/console/users").await);
    let ben = provider.ben.sub.to_string();
    let fields = [("csrf", csrf.as_str()), ("action", "invite"), ("user", ben.as_str())];
    let question = anna.post(BULK, &fields).await;
    assert!(is_confirmation(&question), "{question:?}");
    let stop = meddler.stop(At::BeforeCommit, b'S');
    let hash = provider.anna.password.clone();
    let set = stop.meanwhile(provider.change_user(provider.ben.sub, |user| user.password.clone_from(&hash)));
    let (page, ()) = tokio::join!(anna.submit(&question, &[("sure", "yes")]), set);
    assert!(page.text().contains(BEN) && page.text().contains("has changed in the meantime"), "{page:?}");
    assert!(page.text().contains("Changed users: 0"), "{page:?}");
}

fn csrf_of_bulk(page: &Reply) -> String {
    let form = page.text().split("<form").find(|form| form.contains(BULK)).unwrap();
    form.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// Every change of groups and roles names them, wherever it is made.
#[tokio::test]
async fn the_audit_log_names_groups_and_roles() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = page_of(provider.ben.sub);
    press(&anna, &path, &[("action", "save"), ("groups", "staff\nmuhasebe"), ("role_admin", "yes")]).await;
    let expected = "role added admin, role removed developer, group added muhasebe, group added staff";
    assert_eq!(details(&provider, AuditKind::UserChanged).await, [expected]);
    assert_eq!(details(&provider, AuditKind::UserRevoked).await, ["sessions 0 grants 0"]);
    let page = anna.get("/console/audit").await;
    assert!(page.text().contains("added to the group <bdi>staff</bdi>"), "{page:?}");
    assert!(page.text().contains("lost the role Developer"), "{page:?}");
    let form = anna.get("/console/users/new").await;
    let new = [("email", "cem@example.test"), ("name", "Cem"), ("groups", "staff")];
    anna.submit(&form, &new).await;
    assert_eq!(details(&provider, AuditKind::UserCreated).await, ["group added staff"]);
    let page = anna.get("/console/groups/members?name=muhasebe").await;
    let rename = page.text().split("<form").find(|form| form.contains("id=\"to\"")).unwrap();
    let csrf = rename.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let fields = [("csrf", csrf), ("name", "muhasebe"), ("action", "rename"), ("to", "finans"), ("sure", "yes")];
    assert_eq!(anna.post("/console/groups/members", &fields).await.status, 303);
    assert_eq!(details(&provider, AuditKind::UserChanged).await[0], "group added finans, group removed muhasebe");
}
