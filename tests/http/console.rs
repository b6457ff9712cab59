//! Tests the console: permissions, and that a client created in it works.

mod admin;
mod api_tokens;
mod approval;
mod apps;
mod audit;
mod bulk;
mod changed_meanwhile;
mod check_access;
mod client_logo;
mod client_logout;
mod client_rules;
mod client_secrets;
mod confirmation;
mod cursors;
mod defined;
mod device;
mod edit_apps;
mod factors;
mod groups;
mod invitations;
mod invite;
mod kept_form;
mod keys;
mod level;
mod mail;
mod once;
mod overview;
mod owners;
mod promotion;
mod promotion_data;
mod registration_tokens;
mod reset_link;
mod roles;
mod settings;
mod user_list;
mod user_manager;
mod user_manager_limits;
mod user_profile;
mod users_file;
mod without_address;

use std::time::Duration;

use sealgate_domain::audit::{Actor, AuditEvent, AuditFilter, AuditKind};
use sealgate_domain::client::{AuthMethod, Client, ClientId, ClientState, ClientType, ConsentRule};
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::scope::Scope;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role, Subject, User, UserState};
use sealgate_store::{AddOutcome, GrantFilter};
use sealgate_system::clock::Clock;

use crate::steps::{assert_code, assert_login, csrf_of};
use crate::support::{
    self, Browser, ISSUER, PASSWORD, Provider, REDIRECT_URI, Reply, Tokens, hidden_fields, is_consent,
};

const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";
const ON: &str = "[console]\nenabled = true";

const DEVELOPERS: [&str; 4] = ["/console/clients", "/console/clients/new", "/console/clients/c1", "/console/try/c1"];
const ADMINISTRATORS: [&str; 12] = [
    "/console/users",
    "/console/users/new",
    "/console/groups",
    "/console/groups/members?name=staff",
    "/console/keys",
    "/console/mail",
    "/console/mail/templates",
    "/console/apps",
    "/console/new-app",
    "/console/check",
    "/console/settings",
    "/console/audit",
];

/// Parts of the paths of pages with forms that are sent to the same path.
const FORMS: [&str; 7] = ["/new", "name=", "/keys", "/check", "/mail", "/settings", "/audit"];

/// Returns a provider with Anna as administrator and Ben as developer.
async fn provider() -> Provider {
    provider_with("").await
}

async fn provider_with(more: &str) -> Provider {
    let provider = Provider::with(&format!("{ON}\n{more}")).await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    give(&provider, provider.ben.sub, Some(Role::Developer)).await;
    provider
}

async fn give(provider: &Provider, subject: Subject, role: Option<Role>) {
    provider.change_user(subject, |user| user.roles = role.into_iter().collect()).await;
}

/// Returns a browser with this user signed in, on the console's first page.
async fn signed_in<'a>(provider: &'a Provider, email: &str) -> Browser<'a> {
    let browser = provider.browser();
    let login = browser.open("/account").await;
    let page = browser.sign_in(&login, email).await;
    assert_eq!(page.status, 200, "{page:?}");
    browser
}

/// Returns the fields of the form for a new client, changed.
fn form<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![
        ("name", "Wiki"),
        ("description", "What we know"),
        ("type", "confidential"),
        ("redirect_uris", REDIRECT_URI),
        ("post_logout_redirect_uris", support::SIGNED_OUT_URI),
        ("scope_email", "yes"),
        ("scope_offline_access", "yes"),
        ("auth_method", "client_secret_basic"),
    ];
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        if *value != "-" {
            fields.push((name, value));
        }
    }
    fields
}

async fn register(browser: &Browser<'_>, changes: &[(&str, &str)]) -> Reply {
    let page = browser.get("/console/clients/new").await;
    browser.submit(&page, &form(changes)).await
}

/// Returns the text of the element with this id.
fn element(page: &Reply, id: &str) -> Option<String> {
    let rest = page.text().split(&format!("id=\"{id}\">")).nth(1)?;
    Some(rest.split('<').next().unwrap().to_owned())
}

/// Returns whether this page asks to confirm a change.
fn is_confirmation(page: &Reply) -> bool {
    page.text().contains("id=\"confirm-effect\"")
}

/// Submits a form on a client's or user's page, and confirms the change if the page asks for it.
async fn press(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let page = press_only(browser, path, fields).await;
    if is_confirmation(&page) { browser.submit(&page, &[("sure", "yes")]).await } else { page }
}

/// Submits the form without confirming.
async fn press_only(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get(path).await;
    let mut all = vec![("csrf".to_owned(), csrf_of(&page))];
    // Digests of the client that the page shows.
    let seen = hidden_fields(page.text()).into_iter().find(|(name, _)| name == "seen");
    all.extend(seen.filter(|_| !fields.iter().any(|(name, _)| *name == "seen")));
    all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reply = browser.post(path, &all).await;
    browser.follow(reply).await
}

async fn stored(provider: &Provider, id: &str) -> Option<Client> {
    provider.sealgate.store.client(&ClientId::parse(id).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_console_is_off_by_default() {
    let provider = Provider::new().await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let browser = signed_in(&provider, ANNA).await;
    for path in DEVELOPERS.iter().chain(&ADMINISTRATORS) {
        browser.get_with(path, &[]).await.assert_error(404, "not_found");
        assert!(!sealgate_provider::owns(&provider.sealgate.config, path), "{path}");
    }
    assert!(!browser.get("/account").await.text().contains("/console"));
}

#[tokio::test]
async fn each_page_of_the_console_requires_its_role() {
    let provider = provider().await;
    let nobody = provider.browser();
    let ben = signed_in(&provider, BEN).await;
    let anna = signed_in(&provider, ANNA).await;
    for path in DEVELOPERS.iter().chain(&ADMINISTRATORS) {
        assert_login(&nobody.open(path).await);
        assert_eq!(anna.get(path).await.status, 200, "{path}");
    }
    for path in &DEVELOPERS[..2] {
        assert_eq!(ben.get(path).await.status, 200, "{path}");
    }
    // A client of another owner gets the same answer as an unknown client.
    for path in &DEVELOPERS[2..] {
        assert_eq!(ben.get(path).await.status, 404, "{path}");
        assert_eq!(ben.get(&path.replace("c1", "none")).await.status, 404, "{path}");
    }
    for path in ADMINISTRATORS {
        let page = ben.get(path).await;
        assert!(page.status == 403 && page.text().contains("No access to the console"), "{path}: {page:?}");
        assert!(!page.text().contains(ANNA));
        assert_eq!(
            ben.post(path, &[]).await.status,
            if FORMS.iter().any(|form| path.contains(form)) && !path.ends_with("/templates") { 403 } else { 405 },
            "{path}"
        );
    }
    let overview = ben.get("/console").await;
    assert_eq!(overview.location(), "/console/clients", "{overview:?}");
    assert!(!ben.get("/console/clients").await.text().contains("/console/users"));
    give(&provider, provider.ben.sub, None).await;
    for path in DEVELOPERS.iter().chain(&ADMINISTRATORS) {
        assert_eq!(ben.get(path).await.status, 403, "{path}");
        let page = ben.post(path, &[("action", "delete"), ("sure", "yes")]).await;
        assert!(matches!(page.status, 403 | 405), "{path}: {page:?}");
    }
    assert!(stored(&provider, "c1").await.is_some());
}

#[tokio::test]
async fn configured_groups_grant_console_roles() {
    let provider = Provider::with("[console]\nenabled = true\ndevelopers = \"Geliştirici\"\nadmins = \"ops\"").await;
    let ben = signed_in(&provider, BEN).await;
    for (group, clients, users) in
        [("staff", 403, 403), ("geliştirici", 403, 403), ("Geliştirici", 200, 403), ("ops", 200, 200)]
    {
        provider.change_user(provider.ben.sub, |user| user.groups = [group.to_owned()].into()).await;
        let statuses = (ben.get("/console/clients").await.status, ben.get("/console/users").await.status);
        assert_eq!(statuses, (clients, users), "{group}");
    }
}

#[tokio::test]
async fn the_console_requires_a_recent_sign_in_and_returns_to_the_page() {
    let provider = Provider::with("[console]\nenabled = true\nsign_in_seconds = 600").await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let anna = signed_in(&provider, ANNA).await;
    provider.wait(600);
    assert_eq!(anna.get("/console/keys").await.status, 200);
    provider.wait(1);
    let login = anna.open("/console/users").await;
    assert_login(&login);
    let page = anna.sign_in(&login, ANNA).await;
    assert!(page.status == 200 && page.text().contains("users-find") || page.text().contains("Search by email"));
    // The account page needs no recent sign-in.
    provider.wait(3600);
    assert_eq!(anna.get("/account").await.status, 200);
    assert_login(&anna.open("/console/clients/c1").await);
}

#[tokio::test]
async fn a_client_registered_in_the_console_can_sign_users_in() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, secret) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.name.as_str(), client.owner), ("Wiki", Some(provider.ben.sub)));
    assert_eq!((client.client_type, client.auth_method), (ClientType::Confidential, AuthMethod::ClientSecretBasic));
    assert_eq!(client.scope, Scope::parse("openid email offline_access").unwrap());
    assert_eq!(client.details.description.as_deref(), Some("What we know"));
    let connect = ben.get(&format!("/console/clients/{id}/connect")).await;
    for library in ["openid-client", "Authlib", "mod_auth_openidc", "oauth2-proxy", "openidconnect"] {
        assert!(connect.text().contains(library), "{library}");
    }
    assert!(!connect.text().contains("oidc-client-ts"), "a confidential client runs in no browser");

    let mut wiki = support::Client::confidential(&provider, &id);
    wiki.secret = Some(secret.clone());
    let code = wiki.code(&[("scope", "openid email offline_access")]).await;
    let tokens = Tokens::of(&wiki.redeem(&code).await);
    assert_eq!(provider.userinfo(&tokens.access).await.json()["email"], ANNA);

    // The secret is shown only once.
    let again = ben.get(&format!("/console/clients/{id}")).await;
    assert!(!again.text().contains(&secret) && element(&again, "new-secret").is_none());
    assert!(ben.get("/console/clients").await.text().contains(&id));
}

#[tokio::test]
async fn a_public_client_has_no_secret_and_the_snippets_of_its_kind() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[("type", "public"), ("auth_method", "client_secret_post")]).await;
    let client = stored(&provider, &element(&page, "client-id").unwrap()).await.unwrap();
    assert_eq!((client.client_type, client.auth_method), (ClientType::Public, AuthMethod::None));
    assert_eq!(client.secrets, []);
    assert!(element(&page, "new-secret").is_none() && !page.text().contains("client-rotate"));
    let path = format!("/console/clients/{}", client.id);
    let connect = ben.get(&format!("{path}/connect")).await;
    assert!(connect.text().contains("oidc-client-ts") && !connect.text().contains("mod_auth_openidc"));
    assert!(!connect.text().contains("CLIENT_SECRET"), "{connect:?}");
    // A library that has no public clients shows the first one.
    let other = ben.get(&format!("{path}/connect?library=spring-boot")).await;
    assert!(other.text().contains("id=\"snippet-openidclient\""), "{other:?}");
    assert!(!other.text().contains("snippet-springboot"), "{other:?}");
    assert_eq!(ben.get(&format!("{path}/secrets")).await.status, 404);
    press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "0")]).await.assert_error_page();
}

#[tokio::test]
async fn only_an_administrator_registers_a_redirect_uri_on_a_host_of_this_server() {
    let provider = provider_with(crate::app_passwords::APPS).await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    for (field, uri) in [("redirect_uris", "https://wiki.test/cb"), ("post_logout_redirect_uris", "https://id.test/x")]
    {
        let page = register(&ben, &[(field, uri)]).await;
        assert!(page.text().contains("Line 1: only an administrator can register"), "{page:?}");
        assert!(element(&page, "new-secret").is_none());
        assert!(element(&register(&anna, &[(field, uri)]).await, "new-secret").is_some(), "{uri}");
    }
    let page = register(&ben, &[]).await;
    let id = element(&page, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let changed = form(&[("redirect_uris", "https://wiki.test/cb"), ("action", "save")]);
    let page = press(&ben, &path, &changed).await;
    assert!(page.text().contains("Line 1: only an administrator can register"), "{page:?}");
    // A redirect URI that an administrator added does not prevent the developer from saving the form.
    press(&anna, &path, &changed).await;
    let page = press(&ben, &path, &changed).await;
    assert!(!page.text().contains("only an administrator"), "{page:?}");
    assert_eq!(stored(&provider, &id).await.unwrap().redirect_uris[0].as_str(), "https://wiki.test/cb");
}

#[tokio::test]
async fn redirect_uris_follow_the_rules_of_the_registration_endpoint() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let many = (0..21).map(|number| format!("https://rp.test/{number}")).collect::<Vec<_>>().join("\n");
    for (field, uris, told) in [
        ("redirect_uris", "", "at least one redirect URI"),
        ("redirect_uris", many.as_str(), "no more than 20"),
        ("redirect_uris", "https://rp.test/cb\nhttp://rp.test/cb", "Line 2: use https"),
        ("redirect_uris", "https://*.rp.test/", "Line 1: wildcards are not allowed"),
        ("redirect_uris", "\n\nhttps://rp.test/#x", "Line 1: fragments are not allowed"),
        ("redirect_uris", "https://rp.test/\n\nhttps://u@rp.test/", "Line 3: usernames are not allowed"),
        ("redirect_uris", "https://rp test/", "cannot contain spaces"),
        ("redirect_uris", "rp.test/cb", "enter the full address"),
        ("redirect_uris", "https:///cb", "Line 1"),
        ("redirect_uris", "javascript:alert(1)", "Line 1: use https"),
        ("post_logout_redirect_uris", "com.example:/", "Line 1: use https"),
    ] {
        let page = register(&ben, &[(field, uris)]).await;
        assert!(page.status == 200 && element(&page, "new-secret").is_none(), "{uris}");
        let words = page.text().split("role=\"status\"").filter_map(|part| part.split('>').nth(1)).collect::<String>();
        assert!(words.contains(told), "{uris}: {words}");
        assert!(page.text().contains("<title>Error: "));
    }
    for (field, wrong) in [
        ("name", ""),
        ("name", "a\u{1}b"),
        ("name", "\u{202e}ikiW"),
        ("description", "a\u{2067}b"),
        ("description", &*"x".repeat(501)),
    ] {
        assert!(register(&ben, &[(field, wrong)]).await.text().contains("aria-invalid"), "{field}");
    }
    assert!(ben.get("/console/clients").await.text().contains("There are no clients yet."));
}

#[tokio::test]
async fn a_default_scope_contains_only_selected_scopes() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    for wrong in ["email", "openid api", "openid phone", "OPENID email"] {
        let page = register(&ben, &[("default_scope", wrong)]).await;
        assert!(
            page.status == 200 && page.text().contains("Enter openid and scopes that are selected above"),
            "{wrong}"
        );
        assert!(page.text().contains(&format!("value=\"{wrong}\"")), "the typed values stay: {page:?}");
    }
    let page = register(&ben, &[("default_scope", "openid email")]).await;
    let id = element(&page, "client-id").unwrap();
    let kept = async || stored(&provider, &id).await.unwrap().details.default_scope.map(|scope| scope.to_string());
    assert_eq!(kept().await.as_deref(), Some("openid email"));
    let path = format!("/console/clients/{id}");
    let save = async |scope: &'static str| {
        let mut fields = form(&[("default_scope", scope)]);
        fields.push(("action", "save"));
        press(&ben, &path, &fields).await
    };
    assert!(save("openid offline_access").await.text().contains("value=\"openid offline_access\""));
    assert_eq!(kept().await.as_deref(), Some("openid offline_access"));
    assert!(save("openid phone").await.text().contains("aria-invalid"));
    assert_eq!(kept().await.as_deref(), Some("openid offline_access"));
    save("").await;
    assert_eq!(kept().await, None);
}

#[tokio::test]
async fn a_client_is_changed_and_keeps_its_type_and_secret() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, secret) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let path = format!("/console/clients/{id}");
    let changes = [("name", "Wiki 2"), ("type", "public"), ("auth_method", "client_secret_post"), ("scope_email", "-")];
    let mut fields = form(&changes);
    fields.push(("action", "save"));
    let page = press(&ben, &path, &fields).await;
    assert!(page.text().contains("The client was saved."), "{page:?}");
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.name.as_str(), client.client_type), ("Wiki 2", ClientType::Confidential));
    assert_eq!(client.auth_method, AuthMethod::ClientSecretPost);
    assert_eq!(client.scope, Scope::parse("openid offline_access").unwrap());
    let mut wiki = support::Client::confidential(&provider, &id);
    wiki.secret = Some(secret);
    Tokens::of(&wiki.redeem(&wiki.code(&[]).await).await);

    let wrong = form(&[("redirect_uris", "http://rp.test/")]);
    let wrong: Vec<(&str, &str)> = wrong.into_iter().chain([("action", "save")]).collect();
    assert!(press(&ben, &path, &wrong).await.text().contains("Nothing was saved"));
    assert_eq!(stored(&provider, &id).await.unwrap(), client);
}

#[tokio::test]
async fn a_new_secret_overlaps_with_the_previous_one_for_the_chosen_time() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, old) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let path = format!("/console/clients/{id}");
    let page = press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "3600")]).await;
    let new = element(&page, "new-secret").unwrap();
    assert_ne!(old, new);
    assert!(page.text().contains("valid until"), "{page:?}");
    let works = async |secret: &str| {
        let header = support::basic(&id, secret);
        let reply = provider.post("/oauth/token", &[("authorization", &header)], &[("grant_type", "x")]).await;
        reply.json()["error"] == "unsupported_grant_type"
    };
    assert!(works(&old).await && works(&new).await);
    provider.wait(3600);
    assert!(!works(&old).await && works(&new).await);
    let ben = signed_in(&provider, BEN).await;
    for odd in ["-1", "1", "99999999999", "x", ""] {
        press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", odd)]).await.assert_error_page();
    }
    assert!(works(&new).await);
}

#[tokio::test]
async fn a_client_can_be_disabled_enabled_and_deleted() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, secret) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let path = format!("/console/clients/{id}");
    let mut wiki = support::Client::confidential(&provider, &id);
    wiki.secret = Some(secret);
    let tokens = Tokens::of(&wiki.redeem(&wiki.code(&[]).await).await);
    press(&ben, &path, &[("action", "disable")]).await;
    assert_eq!(stored(&provider, &id).await.unwrap().state, ClientState::Disabled);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    press(&ben, &path, &[("action", "enable")]).await;
    assert_eq!(stored(&provider, &id).await.unwrap().state, ClientState::Enabled);
    // Deletion must be confirmed.
    let asked = press_only(&ben, &path, &[("action", "delete")]).await;
    assert!(is_confirmation(&asked) && asked.text().contains(&id), "{asked:?}");
    assert!(stored(&provider, &id).await.is_some());
    let list = press(&ben, &path, &[("action", "delete")]).await;
    assert!(list.text().contains("The client was deleted") && stored(&provider, &id).await.is_none());
    assert_eq!(ben.get(&path).await.status, 404);
}

#[tokio::test]
async fn only_administrators_can_change_clients_of_others() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let own = element(&register(&anna, &[]).await, "client-id").unwrap();
    let new = csrf_of(&ben.get("/console/clients/new").await);
    for id in [own.as_str(), "c1", "none", "x/y", "%00"] {
        for action in ["save", "rotate", "add-secret", "remove-secret", "set-keys", "use-secret", "disable", "delete"] {
            let fields = [("csrf", new.as_str()), ("action", action), ("sure", "yes"), ("overlap_seconds", "0")];
            let reply = ben.post(&format!("/console/clients/{id}"), &fields).await;
            assert_eq!(reply.status, 404, "{id} {action}");
        }
        let reply = ben.post(&format!("/console/try/{id}"), &[("csrf", &new), ("action", "switch-on")]).await;
        assert_eq!(reply.status, 404, "{id}");
    }
    assert!(!ben.get("/console/clients").await.text().contains(&own));
    assert!(anna.get("/console/clients").await.text().contains("Client c1"));
    press(&anna, "/console/clients/c1", &[("action", "disable")]).await;
    assert_eq!(stored(&provider, "c1").await.unwrap().state, ClientState::Disabled);
}

#[tokio::test]
async fn a_form_token_of_the_console_is_bound_to_the_session_and_the_user() {
    let provider = provider().await;
    let (anna, elsewhere) = (signed_in(&provider, ANNA).await, signed_in(&provider, ANNA).await);
    let of_elsewhere = csrf_of(&elsewhere.get("/console/clients/c1").await);
    let delete = |csrf| [("csrf", csrf), ("action", "delete"), ("sure", "yes")];
    anna.post("/console/clients/c1", &delete(&of_elsewhere)).await.assert_error_page();
    // Both users are in one session. Ben's token is sent with a form that Anna may submit too.
    let page = anna.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    anna.sign_in(&page, BEN).await;
    let of_ben = csrf_of(&anna.get("/console/clients/new").await);
    let chooser = anna.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    anna.submit(&chooser, &[("account", &provider.anna.sub.to_string())]).await;
    let mut fields = form(&[]);
    fields.push(("csrf", &of_ben));
    anna.post("/console/clients/new", &fields).await.assert_error_page();
    let of_anna = csrf_of(&anna.get("/console/clients/c1").await);
    anna.post("/console/clients/c1", &delete(&of_anna)).await;
    assert!(stored(&provider, "c1").await.is_none());
}

#[tokio::test]
async fn a_console_form_needs_the_token_of_its_own_page() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let of_c2 = csrf_of(&anna.get("/console/clients/c2").await);
    let of_account = csrf_of(&anna.get("/account").await);
    for csrf in ["", "x", &of_c2, &of_account] {
        let fields = [("csrf", csrf), ("action", "delete"), ("sure", "yes")];
        anna.post("/console/clients/c1", &fields).await.assert_error_page();
        anna.post("/console/try/c1", &[("csrf", csrf), ("action", "switch-on")]).await.assert_error_page();
        let user = format!("/console/users/{}", provider.ben.sub);
        anna.post(&user, &[("csrf", csrf), ("action", "disable")]).await.assert_error_page();
        let mut fields = form(&[]);
        fields.push(("csrf", csrf));
        anna.post("/console/clients/new", &fields).await.assert_error_page();
        let fields = [("csrf", csrf), ("email", "new@example.test"), ("name", "New")];
        anna.post("/console/users/new", &fields).await.assert_error_page();
    }
    assert!(stored(&provider, "c1").await.is_some());
    assert!(provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap().is_enabled());
}

/// Enables tests of the client, runs one, and returns the redirect to the console.
async fn test_sign_in(browser: &Browser<'_>, id: &str) -> String {
    let path = format!("/console/try/{id}");
    let page = press(browser, &path, &[("action", "switch-on")]).await;
    let mut reply = browser.submit(&page, &[("action", "start")]).await;
    if is_consent(&reply) {
        reply = browser.allow(&reply).await;
    }
    assert_code(&reply);
    let location = reply.location().strip_prefix(ISSUER).unwrap().to_owned();
    assert!(location.starts_with("/console/callback?"), "{location}");
    location
}

#[tokio::test]
async fn a_test_sign_in_shows_the_clients_claims_and_stores_nothing() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let page = ben.get(&format!("/console/try/{id}")).await;
    assert!(page.text().contains("https://id.test/console/callback") && !page.text().contains("client-test-start"));
    let back = test_sign_in(&ben, &id).await;
    let page = ben.get(&back).await;
    assert!(page.text().contains("It works."), "{page:?}");
    for claim in ["&#34;email&#34;: &#34;ben@example.test&#34;", "&#34;acr&#34;: &#34;1&#34;", "&#34;nonce&#34;"] {
        assert!(page.text().contains(claim), "{claim}: {}", page.text());
    }
    assert!(!page.text().contains("eyJ"), "a token is shown");
    let kept = GrantFilter { subject: Some(provider.ben.sub), ..GrantFilter::default() };
    assert_eq!(provider.sealgate.store.grants(&kept, None, 10).await.unwrap().grants, []);
    // The result can be opened only once.
    assert!(ben.get(&back).await.text().contains("does not belong to a test that was started here"));
    // Changes of settings and tests of the client do not interfere.
    let fields: Vec<(&str, &str)> = form(&[]).into_iter().chain([("action", "save")]).collect();
    press(&ben, &format!("/console/clients/{id}"), &fields).await;
    assert_eq!(stored(&provider, &id).await.unwrap().redirect_uris.len(), 2);
    let shown = ben.get(&format!("/console/clients/{id}")).await;
    assert!(!shown.text().contains("/console/callback"));
    press(&ben, &format!("/console/try/{id}"), &[("action", "switch-off")]).await;
    assert_eq!(stored(&provider, &id).await.unwrap().redirect_uris.len(), 1);
    press(&ben, &format!("/console/try/{id}"), &[("action", "start")]).await.assert_error_page();
}

#[tokio::test]
async fn a_code_of_another_browser_gives_no_claims_in_the_console() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    // Anna may see the client too. Ben sends her the redirect of his own test.
    let of_ben = test_sign_in(&ben, &id).await;
    let page = anna.get(&of_ben).await;
    assert!(page.text().contains("does not belong to a test") && !page.text().contains("ben@example.test&#34;"));
    // A redirect that follows a client's own request carries no verifier of the console.
    let own = "https://id.test/console/callback";
    let client = support::Client::confidential(&provider, &id);
    let reply = ben.open(&client.authorize(&[("redirect_uri", own), ("state", &format!("x.{id}"))])).await;
    let location = reply.location().strip_prefix(ISSUER).unwrap().to_owned();
    assert!(ben.get(&location).await.text().contains("does not belong to a test"));
    let denied = format!("/console/callback?state=x.{id}&error=access_denied%3Cscript%3E");
    let page = ben.get(&denied).await;
    assert!(page.text().contains("access_denied&#60;script&#62;"), "{page:?}");
    assert_eq!(ben.get("/console/callback?state=x.c1&code=y").await.status, 404);
    assert_eq!(ben.get("/console/callback").await.status, 404);
}
