//! Tests that a user manager reads and changes only the users of the managed groups.

use super::roles::{KEYS, MERT, add_person, send};
use super::*;
use crate::meddler::{At, Meddler};

const BULK: &str = "/console/users/bulk";

/// Installation with Mert, who manages `students` and `staff`. Mia and Sam are managed, the others are not.
pub(super) struct School {
    pub(super) provider: Provider,
    pub(super) mert: Subject,
    pub(super) mia: Subject,
    pub(super) sam: Subject,
    /// Users who are not managed: in no managed group, or with a console role.
    pub(super) foreign: Vec<Subject>,
}

pub(super) async fn school() -> School {
    of(provider_with(KEYS).await).await
}

async fn meddled() -> (School, std::sync::Arc<Meddler>) {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{KEYS}")).await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    (of(provider).await, meddler)
}

pub(super) async fn of(provider: Provider) -> School {
    let mert = add_person(&provider, 30, "mert", &["helpdesk"]).await;
    let mia = add_person(&provider, 31, "mia", &["students"]).await;
    let sam = add_person(&provider, 32, "sam", &["staff", "finance"]).await;
    let kim = add_person(&provider, 33, "kim", &["finance"]).await;
    let ada = add_person(&provider, 34, "ada", &["students"]).await;
    give(&provider, ada, Some(Role::Auditor)).await;
    let audit = add_person(&provider, 35, "audit", &["students", "audit"]).await;
    let colleague = add_person(&provider, 36, "colleague", &["staff", "helpdesk"]).await;
    for sub in [provider.anna.sub, provider.ben.sub] {
        provider.change_user(sub, |user| user.groups = ["students".to_owned()].into()).await;
    }
    let foreign = vec![kim, ada, audit, colleague, provider.anna.sub, provider.ben.sub, mert];
    School { provider, mert, mia, sam, foreign }
}

impl School {
    pub(super) async fn user(&self, subject: Subject) -> User {
        self.provider.sealgate.store.user(subject).await.unwrap().unwrap()
    }

    /// Returns the records of all users.
    async fn users(&self) -> Vec<User> {
        let mut users = Vec::new();
        for subject in self.foreign.iter().chain([&self.mia, &self.sam]) {
            users.push(self.user(*subject).await);
        }
        users
    }
}

pub(super) fn page_of(subject: Subject) -> String {
    format!("/console/users/{subject}")
}

/// Returns the names of the users on a page.
fn named(page: &Reply) -> Vec<&'static str> {
    let names = ["mia", "sam", "kim", "ada", "audit", "colleague", "anna", "ben"];
    names.into_iter().filter(|name| page.text().contains(&format!("{name}@example.test"))).collect()
}

/// The forms of a user's page, each with its confirmation.
const FORMS: [&[(&str, &str)]; 13] = [
    &[("action", "save"), ("member", "staff"), ("shown_groups", "students"), ("sure", "yes")],
    &[("action", "save-profile"), ("name", "X"), ("email", "x@example.test"), ("sure", "yes")],
    &[("action", "delete"), ("sure", "yes")],
    &[("action", "revoke"), ("sure", "yes")],
    &[("action", "disable"), ("sure", "yes")],
    &[("action", "enable"), ("sure", "yes")],
    &[("action", "reset-password"), ("sure", "yes")],
    &[("action", "send-reset-link")],
    &[("action", "resend-invitation")],
    &[("action", "withdraw-invitation")],
    &[("action", "unblock-factors"), ("sure", "yes")],
    &[("action", "reset-factors"), ("sure", "yes")],
    &[("action", "disable")],
];

#[tokio::test]
async fn lists_searches_and_counts_have_only_managed_users() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    assert_eq!(mert.get("/console").await.location(), "/console/users");
    let page = mert.get("/console/users").await;
    assert_eq!(named(&page), ["mia", "sam"], "{page:?}");
    assert!(page.text().contains("1–2 of 2"), "{page:?}");
    for link in ["/console/audit", "/console/keys", "/console/clients", "/console/check", "without-factor"] {
        assert!(!page.text().contains(link), "{link}");
    }
    for (query, found) in [
        ("find=example.test", &["mia", "sam"][..]),
        ("find=kim", &[]),
        ("find=kim%40example", &[]),
        ("group=students", &["mia"]),
        ("group=finance", &["sam"]),
        ("group=helpdesk", &[]),
        ("role=admin", &[]),
        ("role=auditor", &[]),
        ("state=enabled&sort=created&reversed=yes", &["mia", "sam"]),
    ] {
        assert_eq!(named(&mert.get(&format!("/console/users?{query}")).await), found, "{query}");
    }
    let groups = mert.get("/console/groups").await;
    let rows: Vec<&str> = groups.text().split("<tr>").skip(2).collect();
    assert!(rows.len() == 2 && rows[0].contains("staff") && rows[1].contains("students"), "{groups:?}");
    assert!(rows.iter().all(|row| row.contains(">1</td>")), "{groups:?}");
    assert_eq!(named(&mert.get("/console/groups/members?name=students").await), ["mia"]);
    for other in ["finance", "helpdesk", "audit", "none"] {
        assert_eq!(mert.get(&format!("/console/groups/members?name={other}")).await.status, 404, "{other}");
    }
}

#[tokio::test]
async fn other_users_are_answered_as_users_who_do_not_exist() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let absent = Subject::from_random([99; 16]);
    let before = school.users().await;
    // Texts of the answers, without the path and the number of the request.
    let text = |reply: &Reply, subject: Subject| {
        assert!(reply.status == 404 || reply.status == 403, "{reply:?}");
        let (text, _) = reply.text().split_once("class=\"reference\"").unwrap();
        (reply.status, text.replace(&subject.to_string(), "ID"))
    };
    let expected = text(&mert.get(&page_of(absent)).await, absent);
    assert_eq!(expected.0, 404);
    for subject in &school.foreign {
        assert_eq!(text(&mert.get(&page_of(*subject)).await, *subject), expected, "{subject}");
    }
    let session = sealgate_domain::session::SessionId::from_bytes([1; 16]).to_string();
    let end = format!("session:{session}");
    let forms = FORMS.iter().map(|form| form.to_vec()).chain([vec![("end", end.as_str())]]);
    for form in forms {
        let expected = text(&send(&mert, school.mert, &page_of(absent), &form).await, absent);
        assert_eq!(expected.0 == 403, form[0] == ("action", "delete"), "{form:?}");
        for subject in &school.foreign {
            let reply = send(&mert, school.mert, &page_of(*subject), &form).await;
            assert_eq!(text(&reply, *subject), expected, "{subject} {form:?}");
        }
    }
    assert_eq!(school.users().await, before);
}

#[tokio::test]
async fn a_change_to_several_users_leaves_out_other_users() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let before = school.users().await;
    let absent = Subject::from_random([99; 16]);
    let ids: Vec<String> = school.foreign.iter().chain([&absent, &school.mia]).map(ToString::to_string).collect();
    let mut fields = vec![("action", "disable"), ("who", "kim@example.test\nnone@example.test")];
    fields.extend(ids.iter().map(|id| ("user", id.as_str())));
    let page = send(&mert, school.mert, BULK, &fields).await;
    assert!(is_confirmation(&page), "{page:?}");
    let (users, skipped) = page.text().split_once("id=\"bulk-skipped\"").unwrap();
    assert!(users.contains("mia@example.test"));
    assert!(!page.text().contains("Name of kim") && !page.text().contains("Name of ada"), "{page:?}");
    assert_eq!(skipped.matches("was deleted in the meantime").count(), school.foreign.len() + 1, "{page:?}");
    assert_eq!(skipped.matches("No user has this").count(), 2, "{page:?}");
    // The confirmation changes the listed user only, even if it names others.
    fields.push(("sure", "yes"));
    send(&mert, school.mert, BULK, &fields).await;
    let after = school.users().await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.is_enabled() != after.is_enabled(), before.sub == school.mia, "{}", before.name);
    }
    let (mia, sam) = (school.mia.to_string(), school.sam.to_string());
    for group in ["finance", "helpdesk", "audit"] {
        let add = [("action", "add-to-group"), ("to_group", group), ("user", mia.as_str()), ("sure", "yes")];
        let page = send(&mert, school.mert, BULK, &add).await;
        assert!(page.text().contains("You do not manage this group."), "{group}: {page:?}");
    }
    let remove = [("action", "remove-from-group"), ("to_group", "staff"), ("user", sam.as_str()), ("sure", "yes")];
    let page = mert.follow(send(&mert, school.mert, BULK, &remove).await).await;
    assert!(page.text().contains("only group of the user that you manage"), "{page:?}");
    assert_eq!(school.user(school.sam).await.groups, ["finance".to_owned(), "staff".to_owned()].into());
    // The page after a change is one of the console, whatever the form says.
    let back = [("action", "disable"), ("user", sam.as_str()), ("back", "https://evil.test/"), ("sure", "yes")];
    let reply = send(&mert, school.mert, BULK, &back).await;
    assert!(reply.location().starts_with("/console/users?done="), "{reply:?}");
}

#[tokio::test]
async fn only_managed_groups_are_changed_and_one_stays() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let page = mert.get(&page_of(school.sam)).await;
    for absent in ["user-delete", "role_admin", "name=\"groups\"", "app_password", "/console/audit"] {
        assert!(!page.text().contains(absent), "{absent}: {page:?}");
    }
    assert!(page.text().contains("id=\"user-groups\"><bdi>finance</bdi>"), "{page:?}");
    let save = async |fields: &[(&str, &str)]| {
        let fields: Vec<_> =
            [("action", "save"), ("shown_groups", "staff"), ("sure", "yes")].iter().chain(fields).copied().collect();
        send(&mert, school.mert, &page_of(school.sam), &fields).await
    };
    let before = school.user(school.sam).await;
    for refused in [
        &[("groups", "staff\nhelpdesk")][..],
        &[("groups", "staff\naudit")],
        &[("member", "staff"), ("member", "it")],
        &[("member", "staff"), ("role_admin", "yes")],
        &[("member", "staff"), ("role_developer", "yes")],
        &[("member", "staff"), ("role_auditor", "yes")],
    ] {
        let reply = save(refused).await;
        assert_eq!(reply.status, 403, "{refused:?}: {reply:?}");
    }
    // A group that the page has not shown is not removed either.
    let other = [("action", "save"), ("shown_groups", "finance,staff"), ("member", "staff"), ("sure", "yes")];
    assert_eq!(send(&mert, school.mert, &page_of(school.sam), &other).await.status, 403);
    let page = save(&[]).await;
    assert!(page.status == 200 && page.text().contains("Choose at least one group."), "{page:?}");
    assert_eq!(school.user(school.sam).await, before);
    assert_eq!(save(&[("member", "students")]).await.status, 303);
    assert_eq!(school.user(school.sam).await.groups, ["finance".to_owned(), "students".to_owned()].into());
}

#[tokio::test]
async fn a_new_user_is_in_a_managed_group_and_the_log_names_the_manager() {
    const NEW: &str = "/console/users/new";
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let page = mert.get(NEW).await;
    assert!(page.text().contains("value=\"students\"") && !page.text().contains("role_admin"), "{page:?}");
    let names = [("email", "new@example.test"), ("name", "New"), ("sure", "yes")];
    let add = async |fields: &[(&str, &str)]| {
        let fields: Vec<_> = names.iter().chain(fields).copied().collect();
        send(&mert, school.mert, NEW, &fields).await
    };
    let is_stored = async || {
        let email = Email::parse("new@example.test").unwrap();
        school.provider.sealgate.store.user_by_email(&email).await.unwrap()
    };
    for refused in [
        &[("groups", "finance")][..],
        &[("groups", "helpdesk")],
        &[("member", "students"), ("member", "audit")],
        &[("member", "students"), ("role_admin", "yes")],
    ] {
        let reply = add(refused).await;
        assert_eq!(reply.status, 403, "{refused:?}: {reply:?}");
    }
    assert!(add(&[]).await.text().contains("Choose at least one group."));
    assert!(is_stored().await.is_none());
    let page = mert.follow(add(&[("member", "students")]).await).await;
    assert!(element(&page, "new-password").is_some(), "{page:?}");
    let user = is_stored().await.unwrap();
    assert!(user.roles.is_empty() && user.groups == ["students".to_owned()].into());
    school.provider.sealgate.audit.write(&school.provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::UserCreated], ..AuditFilter::default() };
    let page = school.provider.sealgate.store.audit_page(&filter, None, 5).await.unwrap();
    assert_eq!(page.records[0].event.actor, Actor::UserManager(school.mert));
    let ada = signed_in(&school.provider, "ada@example.test").await;
    let log = ada.get("/console/audit?kind=user_created").await;
    assert!(log.text().contains(MERT) && log.text().contains("User manager"), "{log:?}");
    // An address of another user can be used only once; the page does not say where the user is.
    let taken = [("email", "kim@example.test"), ("name", "Kim"), ("member", "students")];
    let page = send(&mert, school.mert, NEW, &taken).await;
    assert!(page.text().contains("ask an administrator") && !page.text().contains("Name of kim"), "{page:?}");
}

#[tokio::test]
async fn a_user_manager_resets_and_ends_what_belongs_to_a_managed_user() {
    let school = school().await;
    let mert = signed_in(&school.provider, MERT).await;
    let (mia, kim) = (school.provider.browser(), signed_in(&school.provider, "kim@example.test").await);
    let login = mia.open("/account").await;
    mia.sign_in(&login, "mia@example.test").await;
    let path = page_of(school.mia);
    let own = mert.get(&format!("{path}/sessions")).await;
    let id = own.text().split("value=\"session:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let anna = signed_in(&school.provider, ANNA).await;
    let of_kim = anna.get(&format!("{}/sessions", page_of(school.foreign[0]))).await;
    let other = of_kim.text().split("value=\"session:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    // The id of another user's session ends nothing.
    send(&mert, school.mert, &path, &[("end", &format!("session:{other}"))]).await;
    assert_eq!(kim.get("/account").await.status, 200);
    send(&mert, school.mert, &path, &[("end", &format!("session:{id}"))]).await;
    assert_login(&mia.open("/account").await);
    let page = press(&mert, &path, &[("action", "reset-password")]).await;
    let password = element(&page, "new-password").unwrap();
    let page = mia.submit(&mia.open("/account").await, &[("email", "mia@example.test"), ("password", &password)]).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(element(&press(&mert, &path, &[("action", "reset-factors")]).await, "enrolment-link").is_some());
    press(&mert, &path, &[("action", "disable")]).await;
    assert!(!school.user(school.mia).await.is_enabled());
    press(&mert, &path, &[("action", "enable")]).await;
    assert!(school.user(school.mia).await.is_enabled());
}

/// The managed user gets a console role between the check of the request and its commit.
#[tokio::test]
async fn a_user_who_gets_a_role_meanwhile_is_not_changed() {
    let (school, meddler) = meddled().await;
    let mert = signed_in(&school.provider, MERT).await;
    let path = page_of(school.mia);
    let password = school.user(school.mia).await.password;
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let promote = stop.meanwhile(give(&school.provider, school.mia, Some(Role::Admin)));
    let reset = [("action", "reset-password"), ("sure", "yes")];
    let (page, ()) = tokio::join!(send(&mert, school.mert, &path, &reset), promote);
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(school.user(school.mia).await.password, password);
    give(&school.provider, school.mia, None).await;

    // The change of factors does not write the record of the user.
    let mia = signed_in(&school.provider, "mia@example.test").await;
    let own = mert.get(&format!("{path}/sessions")).await;
    let id = own.text().split("value=\"session:").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let stop = meddler.stop(At::BeforeCommit, b's');
    let promote = stop.meanwhile(give(&school.provider, school.mia, Some(Role::Admin)));
    let end = format!("session:{id}");
    let fields = [("end", end.as_str())];
    let (page, ()) = tokio::join!(send(&mert, school.mert, &path, &fields), promote);
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(mia.get("/account").await.status, 200);
}

/// The user manager leaves the group that gives the role between the check and the commit.
#[tokio::test]
async fn a_user_manager_who_loses_the_role_meanwhile_changes_nothing() {
    let (school, meddler) = meddled().await;
    let mert = signed_in(&school.provider, MERT).await;
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let leave = stop.meanwhile(school.provider.change_user(school.mert, |user| user.groups.clear()));
    let (path, disable) = (page_of(school.mia), [("action", "disable"), ("sure", "yes")]);
    let (page, ()) = tokio::join!(send(&mert, school.mert, &path, &disable), leave);
    assert_eq!(page.status, 403, "{page:?}");
    assert!(school.user(school.mia).await.is_enabled());
    assert_eq!(mert.get("/console/users").await.status, 403);
}

/// Another change removes one of two managed groups between the check and the commit.
#[tokio::test]
async fn a_user_stays_in_a_managed_group() {
    let (school, meddler) = meddled().await;
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    school.provider.change_user(school.mia, |user| user.groups = groups(&["staff", "students"])).await;
    let mert = signed_in(&school.provider, MERT).await;
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let change = stop.meanwhile(school.provider.change_user(school.mia, |user| user.groups = groups(&["staff"])));
    let save = [("action", "save"), ("shown_groups", "staff,students"), ("member", "students"), ("sure", "yes")];
    let path = page_of(school.mia);
    let (page, ()) = tokio::join!(send(&mert, school.mert, &path, &save), change);
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(school.user(school.mia).await.groups, groups(&["staff"]));
}
