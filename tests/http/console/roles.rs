//! Tests what each role may read and do in the console: every page, and every action of the table.
//!
//! Pages and actions are read from the source, so a new one without a row here fails.

use std::collections::BTreeSet;

use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_pages::console::BulkAction;

use super::*;
use crate::mailbox::MAIL;

pub(super) const ADA: &str = "ada@example.test";
pub(super) const MERT: &str = "mert@example.test";
const NORA: &str = "nora@example.test";

/// Keys of `[console]`: members of `helpdesk` manage the users of two groups.
pub(super) const KEYS: &str =
    "auditors = \"audit\"\n[[console.user_manager]]\ngroup = \"helpdesk\"\nmanages = [\"students\", \"staff\"]\n";

/// Adds a user without a role, in these groups.
pub(super) async fn add_person(provider: &Provider, number: u8, name: &str, groups: &[&str]) -> Subject {
    let (sub, email) = (Subject::from_random([number; 16]), Email::parse(&format!("{name}@example.test")));
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let user = User { sub, email, name: format!("Name of {name}"), roles: [].into(), groups, ..provider.ben.clone() };
    assert_eq!(provider.sealgate.store.add_user(&user).await.unwrap(), AddOutcome::Added);
    sub
}

/// Sends a form to a path, with the CSRF token that this user could compute.
pub(super) async fn send(browser: &Browser<'_>, sender: Subject, path: &str, fields: &[(&str, &str)]) -> Reply {
    let text = format!("csrf own {path} {sender} {}", browser.cookie("__Host-sealgate").unwrap());
    let csrf = base64url(SecretHash::for_secret(text.as_bytes()).as_bytes());
    let fields: Vec<(&str, &str)> = [("csrf", csrf.as_str())].iter().chain(fields).copied().collect();
    browser.post(path, &fields).await
}

/// Returns the variants of an enum in a source text, as written.
fn variants(source: &str, name: &str) -> Vec<String> {
    let body = source.split(&format!("enum {name} {{")).nth(1).unwrap().split("\n}").next().unwrap();
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| line.trim_end_matches(',').to_owned()).collect()
}

/// Returns the names of all actions of the table, such as `User::Save`.
fn actions() -> BTreeSet<String> {
    let source = include_str!("../../../src/provider/console/actions.rs");
    let named = |variant: String| match variant.split_once('(') {
        None => vec![variant],
        Some((group, inner)) => {
            let names = match inner.trim_end_matches(')') {
                "BulkAction" => BulkAction::ALL.map(|action| format!("{action:?}")).to_vec(),
                inner => variants(source, inner),
            };
            names.into_iter().map(|name| format!("{group}::{name}")).collect()
        }
    };
    variants(source, "Action").into_iter().flat_map(named).collect()
}

const ALL: [&str; 5] = ["nobody", "auditor", "manager", "developer", "administrator"];
const READERS: &[&str] = &["auditor", "administrator"];
const ADMINISTRATOR: &[&str] = &["administrator"];
const OF_USERS: &[&str] = &["manager", "administrator"];
const OF_CLIENTS: &[&str] = &["developer", "administrator"];

/// Name of an action, path, fields of a form that changes nothing without `sure`, and the roles.
type ActionRow = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const USER: &str = "/console/users/{mia}";
const CLIENT: &str = "/console/clients/c1";
const BULK: &str = "/console/users/bulk";
/// The application is in the configuration file, so administrators get 404.
const EDIT_APP: &str = "/console/apps/wiki/edit";

const ACTIONS: [ActionRow; 65] = [
    ("AddUser", "/console/users/new", &[("email", ""), ("name", "")], OF_USERS),
    ("User::Save", USER, &[("action", "save"), ("groups", "students"), ("shown_groups", "students")], OF_USERS),
    ("User::SaveProfile", USER, &[("action", "save-profile"), ("name", ""), ("email", "")], OF_USERS),
    ("User::Delete", USER, &[("action", "delete")], ADMINISTRATOR),
    ("User::Revoke", USER, &[("action", "revoke")], OF_USERS),
    ("User::Disable", USER, &[("action", "disable")], OF_USERS),
    ("User::Enable", USER, &[("action", "enable")], OF_USERS),
    ("User::ResetPassword", USER, &[("action", "reset-password")], OF_USERS),
    ("User::SendResetLink", USER, &[("action", "send-reset-link")], OF_USERS),
    ("User::ResendInvitation", USER, &[("action", "resend-invitation")], OF_USERS),
    ("User::WithdrawInvitation", USER, &[("action", "withdraw-invitation")], OF_USERS),
    ("User::UnblockFactors", USER, &[("action", "unblock-factors")], OF_USERS),
    ("User::ResetFactors", USER, &[("action", "reset-factors")], OF_USERS),
    ("User::SetAppLogin", USER, &[("action", "set-app-login"), ("app", "mail")], ADMINISTRATOR),
    ("User::EndAccess", USER, &[("end", "app_password:none")], OF_USERS),
    ("Bulk::Disable", BULK, &[("action", "disable"), ("user", "{mia}")], OF_USERS),
    ("Bulk::Enable", BULK, &[("action", "enable"), ("user", "{mia}")], OF_USERS),
    ("Bulk::AddToGroup", BULK, &[("action", "add-to-group"), ("user", "{mia}"), ("to_group", "staff")], OF_USERS),
    (
        "Bulk::RemoveFromGroup",
        BULK,
        &[("action", "remove-from-group"), ("user", "{mia}"), ("to_group", "students")],
        OF_USERS,
    ),
    ("Bulk::Revoke", BULK, &[("action", "revoke"), ("user", "{mia}")], OF_USERS),
    ("Bulk::InviteAgain", BULK, &[("action", "invite"), ("user", "{mia}")], OF_USERS),
    ("ImportUsers", "/console/users/import", &[("csv", "")], ADMINISTRATOR),
    ("InviteUsers", "/console/users/invite", &[("users", "")], OF_USERS),
    (
        "Group::Rename",
        "/console/groups/members",
        &[("action", "rename"), ("name", "students"), ("to", "x")],
        ADMINISTRATOR,
    ),
    ("Group::Delete", "/console/groups/members", &[("action", "delete"), ("name", "students")], ADMINISTRATOR),
    ("RegisterClient", "/console/clients/new", &[("name", "")], OF_CLIENTS),
    ("Client::Save", CLIENT, &[("action", "save"), ("name", "")], OF_CLIENTS),
    ("Client::Rotate", CLIENT, &[("action", "rotate"), ("overlap_seconds", "0")], OF_CLIENTS),
    ("Client::AddSecret", CLIENT, &[("action", "add-secret"), ("lifetime_days", "0")], OF_CLIENTS),
    ("Client::RemoveSecret", CLIENT, &[("action", "remove-secret"), ("secret", "x")], OF_CLIENTS),
    ("Client::SetKeys", CLIENT, &[("action", "set-keys"), ("jwks", "")], OF_CLIENTS),
    ("Client::UseSecret", CLIENT, &[("action", "use-secret")], OF_CLIENTS),
    ("Client::Disable", CLIENT, &[("action", "disable")], OF_CLIENTS),
    ("Client::Enable", CLIENT, &[("action", "enable")], OF_CLIENTS),
    ("Client::Approve", CLIENT, &[("action", "approve")], ADMINISTRATOR),
    ("Client::RevokeApproval", CLIENT, &[("action", "revoke-approval")], ADMINISTRATOR),
    ("Client::Level", CLIENT, &[("action", "level"), ("level", "2")], ADMINISTRATOR),
    ("Client::Logout", CLIENT, &[("action", "logout"), ("backchannel_logout_uri", "x")], ADMINISTRATOR),
    ("Client::SetRules", CLIENT, &[("action", "set-rules"), ("token_limit", "x")], ADMINISTRATOR),
    ("Client::EndGrant", CLIENT, &[("grant", "x")], ADMINISTRATOR),
    ("Client::EndGrants", CLIENT, &[("action", "end-grants")], ADMINISTRATOR),
    ("Client::Delete", CLIENT, &[("action", "delete")], OF_CLIENTS),
    ("ClientLogo::Set", "/console/clients/c1/logo", &[("action", "set")], OF_CLIENTS),
    ("ClientLogo::Remove", "/console/clients/c1/logo", &[("action", "remove")], OF_CLIENTS),
    ("ClientTest::SwitchOn", "/console/try/c1", &[("action", "switch-on")], OF_CLIENTS),
    ("ClientTest::SwitchOff", "/console/try/c1", &[("action", "switch-off")], OF_CLIENTS),
    ("ClientTest::Start", "/console/try/c1", &[("action", "start")], OF_CLIENTS),
    ("RotateKey", "/console/keys", &[("action", "rotate")], ADMINISTRATOR),
    ("Reload", "/console/settings", &[("action", "reload")], ADMINISTRATOR),
    ("Audit::SaveFilter", "/console/audit", &[("action", "save-filter"), ("name", "")], ADMINISTRATOR),
    ("Audit::DeleteFilter", "/console/audit", &[("action", "delete-filter"), ("name", "x")], ADMINISTRATOR),
    ("Mail::Retry", "/console/mail", &[("action", "retry"), ("id", "x")], ADMINISTRATOR),
    ("Mail::Delete", "/console/mail", &[("action", "delete"), ("id", "x")], ADMINISTRATOR),
    ("Mail::Test", "/console/mail", &[("action", "test"), ("to", "")], ADMINISTRATOR),
    ("EndAppSession", "/console/apps/wiki/sessions", &[("end", "x")], ADMINISTRATOR),
    ("EditApp::Save", EDIT_APP, &[("action", "save")], ADMINISTRATOR),
    ("EditApp::Remove", EDIT_APP, &[("action", "remove")], ADMINISTRATOR),
    ("EditApp::SaveRule", EDIT_APP, &[("action", "save-rule")], ADMINISTRATOR),
    ("EditApp::RemoveRule", EDIT_APP, &[("action", "remove-rule")], ADMINISTRATOR),
    ("AddApp", "/console/new-app", &[("host", ""), ("sure", "yes")], ADMINISTRATOR),
    ("ApiToken::Create", "/console/api-tokens", &[("action", "create"), ("name", ""), ("days", "90")], ADMINISTRATOR),
    ("ApiToken::Remove", "/console/api-tokens", &[("action", "remove"), ("id", "x")], ADMINISTRATOR),
    (
        "RegistrationToken::Create",
        "/console/registration-tokens",
        &[("action", "create"), ("name", ""), ("days", "1"), ("registrations", "1")],
        ADMINISTRATOR,
    ),
    ("RegistrationToken::Revoke", "/console/registration-tokens", &[("action", "revoke"), ("id", "x")], ADMINISTRATOR),
    ("CheckNewApp", "/console/new-app", &[("host", "")], ADMINISTRATOR),
];

/// The check of access reads; its form is sent by POST because it can have a token.
const CHECK: ActionRow = ("CheckAccess", "/console/check", &[("url", "")], READERS);

/// Name of a page, path, and the roles that may open it.
const PAGES: [(&str, &str, &[&str]); 31] = [
    ("Overview", "/console", &["auditor", "manager", "developer", "administrator"]),
    ("Clients", "/console/clients", &["auditor", "developer", "administrator"]),
    ("NewClient", "/console/clients/new", OF_CLIENTS),
    ("Client", CLIENT, &["auditor", "developer", "administrator"]),
    ("ClientSection", "/console/clients/c1/connect", &["auditor", "developer", "administrator"]),
    ("ClientTest", "/console/try/c1", OF_CLIENTS),
    ("ClientTestCallback", "/console/callback", OF_CLIENTS),
    ("Users", "/console/users", &["auditor", "manager", "administrator"]),
    ("NewUser", "/console/users/new", OF_USERS),
    ("User", USER, &["auditor", "manager", "administrator"]),
    ("UserSection", "/console/users/{mia}/security", &["auditor", "manager", "administrator"]),
    ("Bulk", BULK, OF_USERS),
    ("Invite", "/console/users/invite", OF_USERS),
    ("Import", "/console/users/import", ADMINISTRATOR),
    ("UsersExport", "/console/users/export?format=csv", &["auditor", "manager", "administrator"]),
    ("Groups", "/console/groups", &["auditor", "manager", "administrator"]),
    ("Group", "/console/groups/members?name=students", &["auditor", "manager", "administrator"]),
    ("Keys", "/console/keys", READERS),
    ("Mail", "/console/mail", READERS),
    ("MailTemplates", "/console/mail/templates", READERS),
    ("Apps", "/console/apps", READERS),
    ("App", "/console/apps/wiki", READERS),
    ("EditApp", EDIT_APP, ADMINISTRATOR),
    ("EditRule", "/console/apps/wiki/rule", ADMINISTRATOR),
    ("NewApp", "/console/new-app", ADMINISTRATOR),
    ("CheckAccess", "/console/check", READERS),
    ("Settings", "/console/settings", READERS),
    ("ApiTokens", "/console/api-tokens", READERS),
    ("RegistrationTokens", "/console/registration-tokens", READERS),
    ("Audit", "/console/audit", READERS),
    ("AuditExport", "/console/audit/export?format=csv", READERS),
];

/// Installation with a user of each role, and Mia, whom the user manager manages. Ben owns the client `c1`.
struct Installation {
    provider: Provider,
    mia: Subject,
    subjects: [(&'static str, &'static str, Subject); 5],
}

async fn installation() -> Installation {
    let provider = provider_with(&format!("{KEYS}{MAIL}\n[api]\nenabled = true\n{}", crate::app_passwords::APPS)).await;
    let ada = add_person(&provider, 20, "ada", &[]).await;
    give(&provider, ada, Some(Role::Auditor)).await;
    let mert = add_person(&provider, 21, "mert", &["helpdesk"]).await;
    let nora = add_person(&provider, 22, "nora", &["students"]).await;
    let mia = add_person(&provider, 23, "mia", &["students"]).await;
    let (anna, ben) = (provider.anna.sub, provider.ben.sub);
    let own = |client: &mut Client| client.owner = Some(ben);
    provider.sealgate.store.change_client(&ClientId::parse("c1").unwrap(), own).await.unwrap();
    let subjects = [
        ("nobody", NORA, nora),
        ("auditor", ADA, ada),
        ("manager", MERT, mert),
        ("developer", BEN, ben),
        ("administrator", ANNA, anna),
    ];
    Installation { provider, mia, subjects }
}

impl Installation {
    async fn mia(&self) -> User {
        self.provider.sealgate.store.user(self.mia).await.unwrap().unwrap()
    }

    fn path(&self, path: &str) -> String {
        path.replace("{mia}", &self.mia.to_string())
    }

    /// Returns a browser with a user signed in, from an IP address of its own.
    async fn browser(&self, email: &str) -> Browser<'_> {
        let mut browser = self.provider.browser();
        browser.address = format!("192.0.2.{}", email.as_bytes()[1]);
        let login = browser.open("/account").await;
        assert_eq!(browser.sign_in(&login, email).await.status, 200);
        browser
    }
}

#[tokio::test]
async fn every_action_is_refused_without_one_of_its_roles() {
    let rows: Vec<ActionRow> = ACTIONS.into_iter().chain([CHECK]).collect();
    assert_eq!(rows.iter().map(|(name, ..)| (*name).to_owned()).collect::<BTreeSet<_>>(), actions());
    let all = installation().await;
    assert_eq!(all.subjects.map(|(role, ..)| role), ALL);
    let before = (all.mia().await, stored(&all.provider, "c1").await);
    for (role, email, sub) in all.subjects {
        let browser = all.browser(email).await;
        for (name, path, fields, roles) in &rows {
            let is_allowed = roles.contains(&role);
            let mia = all.mia.to_string();
            let mut fields: Vec<(&str, &str)> = fields
                .iter()
                .map(|(name, value)| (*name, if *value == "{mia}" { mia.as_str() } else { *value }))
                .collect();
            // A refused action must not be done even if it is confirmed.
            fields.extend((!is_allowed).then_some(("sure", "yes")));
            let reply = send(&browser, sub, &all.path(path), &fields).await;
            if is_allowed && *path == EDIT_APP {
                assert_eq!(reply.status, 404, "{role} {name}: {reply:?}");
            } else if is_allowed {
                // Mia has no invitation to withdraw.
                let is_answered = matches!(reply.status, 200 | 303 | 400);
                let is_withdrawal = *name == "User::WithdrawInvitation" && reply.status == 404;
                assert!(is_answered || is_withdrawal, "{role} {name}: {reply:?}");
            } else {
                let is_refused = reply.status == 403 && reply.text().contains("No access to the console");
                assert!(is_refused, "{role} {name}: {reply:?}");
            }
        }
        if ["nobody", "auditor"].contains(&role) {
            assert_eq!((all.mia().await, stored(&all.provider, "c1").await), before, "{role}");
        }
    }
}

#[tokio::test]
async fn every_page_is_refused_without_one_of_its_roles() {
    let areas = variants(include_str!("../../../src/provider/console/mod.rs"), "Area");
    let pages: BTreeSet<String> = PAGES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    // Sections of a page have the same roles.
    let name = |area: String| area.split('(').next().unwrap_or_default().to_owned();
    assert_eq!(pages, areas.into_iter().map(name).collect());
    let all = installation().await;
    for (role, email, _) in all.subjects {
        let browser = all.browser(email).await;
        for (name, path, roles) in PAGES {
            let reply = browser.get(&all.path(path)).await;
            assert_eq!(reply.status != 403, roles.contains(&role), "{role} {name}: {reply:?}");
            // An auditor has no form that could change something, only the check of access.
            if role == "auditor" && reply.status == 200 {
                let forms = reply.text().matches("method=\"post\"").count();
                let checks = reply.text().matches("action=\"/console/check\"").count();
                assert_eq!(forms, checks, "{name}: {reply:?}");
                let form_pages = [
                    "/console/users/new",
                    "/console/users/import",
                    "/console/clients/new",
                    "/console/new-app",
                    "/console/try/",
                ];
                for page in form_pages {
                    assert!(!reply.text().contains(page), "{name} links to {page}: {reply:?}");
                }
            }
        }
    }
}

/// The refusal comes before the sign-in that a form would need, so no form of an auditor is kept.
#[tokio::test]
async fn a_form_of_an_auditor_is_refused_before_anything_else() {
    let all = installation().await;
    let ada = all.browser(ADA).await;
    let path = all.path(USER);
    assert_eq!(ada.post(&path, &[("action", "disable")]).await.status, 403, "without a CSRF token");
    for _ in 0..13 {
        all.provider.wait(3600);
        ada.get("/account").await;
    }
    let reply = ada.post(&path, &[("action", "disable")]).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_login(&ada.open(&path).await);
}

#[tokio::test]
async fn a_user_with_several_roles_has_the_rights_of_each() {
    let all = installation().await;
    let (provider, ben) = (&all.provider, all.provider.ben.sub);
    provider.change_user(ben, |user| user.groups = ["audit".to_owned(), "helpdesk".to_owned()].into()).await;
    let browser = all.browser(BEN).await;
    assert_eq!(browser.get("/console/keys").await.status, 200);
    let other = browser.get("/console/clients/c2").await;
    assert!(other.status == 200 && !other.text().contains("method=\"post\""), "{other:?}");
    assert!(browser.get(CLIENT).await.text().contains("client-save"));
    // The auditor sees the user, the user manager does not manage her.
    let anna = format!("/console/users/{}", provider.anna.sub);
    let page = browser.get(&anna).await;
    assert!(page.status == 200 && !page.text().contains("method=\"post\""), "{page:?}");
    assert_eq!(send(&browser, ben, &anna, &[("action", "disable"), ("sure", "yes")]).await.status, 403);
    assert_eq!(send(&browser, ben, "/console/clients/c2", &[("action", "delete"), ("sure", "yes")]).await.status, 403);
    assert!(stored(provider, "c2").await.is_some());
    let danger = format!("{}/danger", all.path(USER));
    assert!(browser.get(&danger).await.text().contains("user-disable"));
    let bulk = [("action", "disable"), ("user", &*provider.anna.sub.to_string()), ("sure", "yes")];
    let reply = send(&browser, ben, BULK, &bulk).await;
    assert!(provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().is_enabled(), "{reply:?}");
}

#[tokio::test]
async fn a_stored_role_and_a_group_make_an_auditor() {
    let all = installation().await;
    let anna = all.browser(ANNA).await;
    let page =
        press(&anna, &all.path(USER), &[("action", "save"), ("groups", "students"), ("role_auditor", "yes")]).await;
    assert_eq!(page.status, 200);
    assert_eq!(all.mia().await.roles, [Role::Auditor].into());
    let mia = all.browser("mia@example.test").await;
    assert_eq!(mia.get("/console/audit").await.status, 200);
    // The log names who has downloaded it, and in which role.
    assert_eq!(mia.get("/console/audit/export?format=csv").await.status, 200);
    let filter = AuditFilter { kinds: vec![AuditKind::AuditExported], ..AuditFilter::default() };
    let log = all.provider.sealgate.store.audit_page(&filter, None, 5).await.unwrap();
    assert_eq!(log.records[0].event.actor, Actor::Auditor(all.mia));
    all.provider.change_user(all.mia, |user| user.roles.clear()).await;
    assert_eq!(mia.get("/console/audit").await.status, 403);
    all.provider.change_user(all.mia, |user| user.groups = ["audit".to_owned()].into()).await;
    assert_eq!(mia.get("/console/audit").await.status, 200);
    let found = anna.get("/console/users?role=auditor").await;
    assert!(found.text().contains("ada@example.test") && found.text().contains("mia@example.test"), "{found:?}");
    assert!(!found.text().contains("nora@example.test"));
}
