//! Users with a console role: a token without `admins:write` changes neither them nor their access.

use super::*;
use crate::app_passwords::APPS;
use crate::meddler::At;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::user::UserState;
use sealgate_store::GrantFilter;

/// Objects of Anna.
struct Objects {
    session: String,
    grant: String,
    app_password: String,
}

/// Returns a session, a grant and an application password of Anna.
async fn objects(provider: &Provider) -> Objects {
    let (store, anna) = (&provider.sealgate.store, provider.anna.sub);
    provider.c1().tokens("openid").await;
    let session = store.sessions_of_user(anna, None, 1).await.unwrap().sessions.remove(0).id.to_string();
    let filter = GrantFilter { subject: Some(anna), ..GrantFilter::default() };
    let grant = store.grants(&filter, None, 1).await.unwrap().grants.remove(0).id.to_string();
    let (password, _) = AppPassword::new("git", "laptop", AssuranceLevel::One, &[1; 20], provider.clock.now());
    let _ = store.add_app_password(anna, &password).await.unwrap();
    Objects { session, grant, app_password: password.id() }
}

/// Returns how much access Anna has: sessions, grants, consents, application passwords.
async fn access(provider: &Provider) -> [usize; 4] {
    let (store, anna) = (&provider.sealgate.store, provider.anna.sub);
    let filter = GrantFilter { subject: Some(anna), ..GrantFilter::default() };
    [
        store.sessions_of_user(anna, None, 9).await.unwrap().sessions.len(),
        store.grants(&filter, None, 9).await.unwrap().grants.len(),
        store.consents_page(anna, None, 9).await.unwrap().len(),
        store.app_passwords(anna).await.unwrap().passwords.len(),
    ]
}

/// Returns a program of Ben, an administrator, with all scopes but `admins:write`.
async fn program_of_ben(provider: &Provider) -> Program<'_> {
    give(provider, provider.ben.sub, &[Role::Admin]).await;
    let scopes: Vec<ApiScope> = ApiScope::ALL.into_iter().filter(|scope| *scope != ApiScope::AdminsWrite).collect();
    Program { provider, token: token_of(provider, Some(provider.ben.sub), &scopes).await }
}

#[track_caller]
fn assert_protected(reply: &Reply, what: &str) {
    assert_eq!(code(reply, 403), "insufficient_scope", "{what}: {reply:?}");
    assert!(reply.header("www-authenticate").unwrap().contains("scope=\"admins:write\""), "{what}: {reply:?}");
}

/// The description names the routes, so a new route is tested too.
#[tokio::test]
async fn no_route_changes_an_administrator_without_admins_write() {
    let provider = provider_with(APPS).await;
    let objects = objects(&provider).await;
    let program = program_of_ben(&provider).await;
    let before = (user(&provider, provider.anna.sub).await, access(&provider).await);
    let document = provider.get("/api/v1/openapi.json").await.json();
    let mut routes = 0;
    for (template, operations) in document["paths"].as_object().unwrap() {
        let is_about_users = ["{user}", "{session}", "{grant}"].iter().any(|name| template.contains(name));
        for method in operations.as_object().unwrap().keys().filter(|method| is_about_users && *method != "get") {
            let path = template
                .trim_start_matches('/')
                .replace("{user}", ANNA)
                .replace("{session}", &objects.session)
                .replace("{grant}", &objects.grant)
                .replace("{client}", "c1")
                .replace("{id}", &objects.app_password)
                .replace("{group}", "staff");
            if (method.as_str(), template.as_str()) == ("delete", "/groups/{group}/members/{user}") {
                // Anna is in no group.
                continue;
            }
            let body = if operations[method].get("requestBody").is_some() { r#"{"name":"Mine"}"# } else { "" };
            let body = if path.ends_with("invitation") { "" } else { body };
            let headers = if body.is_empty() { &[][..] } else { &[JSON][..] };
            let reply = program.send(&method.to_uppercase(), &path, headers, body).await;
            assert_protected(&reply, &format!("{method} {template}"));
            routes += 1;
        }
    }
    assert_eq!(routes, 16);
    assert_eq!((user(&provider, provider.anna.sub).await, access(&provider).await), before);
    let scopes = [ApiScope::SessionsWrite, ApiScope::AdminsWrite];
    let power = Program { provider: &provider, token: token_of(&provider, None, &scopes).await };
    assert_eq!(power.send("DELETE", &format!("sessions/{}", objects.session), &[], "").await.status, 204);
    assert_eq!(access(&provider).await, [0, 1, 1, 1]);
}

/// Anna gets the role between the check of the request and the commit.
#[tokio::test]
async fn access_of_a_user_who_becomes_an_administrator_meanwhile_is_not_changed() {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{APPS}")).await;
    let objects = objects(&provider).await;
    let program = program_of_ben(&provider).await;
    let before = access(&provider).await;
    let (user_path, session, grant) =
        (format!("users/{ANNA}"), format!("sessions/{}", objects.session), format!("grants/{}", objects.grant));
    let (consent, password) =
        (format!("{user_path}/consents/c1"), format!("{user_path}/app-passwords/{}", objects.app_password));
    for (method, path, table) in [
        ("POST", format!("{user_path}/revoke"), b'O'),
        ("POST", format!("{user_path}/disable"), b'u'),
        ("POST", format!("{user_path}/factors/reset"), b'f'),
        ("DELETE", session, b's'),
        ("DELETE", grant, b'g'),
        ("DELETE", consent, b'n'),
        ("DELETE", password, b'k'),
        ("DELETE", user_path.clone(), b'u'),
    ] {
        give(&provider, provider.anna.sub, &[]).await;
        let stop = meddler.stop(At::BeforeCommit, table);
        let promotion = give(&provider, provider.anna.sub, &[Role::Auditor]);
        let (late, ()) = tokio::join!(program.send(method, &path, &[], ""), stop.meanwhile(promotion));
        assert_protected(&late, &format!("{method} {path}"));
        assert_eq!(access(&provider).await, before, "{method} {path}");
        assert_eq!(user(&provider, provider.anna.sub).await.state, UserState::Enabled);
        let factors = provider.sealgate.store.factors(provider.anna.sub).await.unwrap();
        assert!(factors.is_none_or(|factors| factors.value.reset.is_none()), "{method} {path}");
    }
}

/// A session can have several users. Its end signs all of them out.
#[tokio::test]
async fn a_session_that_an_administrator_shares_is_not_ended() {
    let provider = provider().await;
    let objects = objects(&provider).await;
    let store = &provider.sealgate.store;
    let id = sealgate_domain::session::SessionId::parse(&objects.session).unwrap();
    let loaded = store.session(id).await.unwrap().unwrap();
    let mut session = loaded.value.clone();
    let of_anna = session.sign_ins[0].clone();
    session.sign_ins.push(sealgate_domain::session::SignIn { subject: provider.ben.sub, ..of_anna });
    let _ = store.update_session(&loaded, &session).await.unwrap();
    give(&provider, provider.anna.sub, &[]).await;
    let program = Program {
        provider: &provider,
        token: token_of(&provider, None, &[ApiScope::SessionsRead, ApiScope::SessionsWrite]).await,
    };
    give(&provider, provider.ben.sub, &[Role::Auditor]).await;
    let path = format!("sessions/{}", objects.session);
    assert_protected(&program.send("DELETE", &path, &[], "").await, "shared");
    give(&provider, provider.ben.sub, &[]).await;
    assert_eq!(program.send("DELETE", &path, &[], "").await.status, 204);
}

/// A client loses its grants of all users, also with a token without `admins:write`.
#[tokio::test]
async fn a_client_is_disabled_although_an_administrator_uses_it() {
    let provider = provider().await;
    let tokens = provider.c1().tokens("openid").await;
    let program = Program::with(&provider, &[ApiScope::ClientsWrite]).await;
    assert_eq!(program.send("POST", "clients/c1/disable", &[], "").await.status, 204);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    assert_eq!(program.send("DELETE", "clients/c1", &[], "").await.status, 204);
    assert_eq!(access(&provider).await[1], 0);
}

/// The revocation has begun, and has not ended the sessions and grants yet.
#[tokio::test]
async fn lists_do_not_show_access_that_a_pending_revocation_ends() {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{APPS}")).await;
    give(&provider, provider.ben.sub, &[Role::Admin]).await;
    objects(&provider).await;
    let scopes = [ApiScope::SessionsRead, ApiScope::UsersWrite];
    let program = Program { provider: &provider, token: token_of(&provider, None, &scopes).await };
    let lists = async || {
        let mut lengths = Vec::new();
        for (path, name) in [
            (format!("sessions?user={ANNA}"), "sessions"),
            ("sessions?client=c1".to_owned(), "sessions"),
            (format!("grants?user={ANNA}"), "grants"),
            ("grants?client=c1".to_owned(), "grants"),
            (format!("users/{ANNA}/app-passwords"), "app_passwords"),
        ] {
            let page = program.get(&path).await.json();
            lengths.push(page[name].as_array().unwrap().len());
        }
        let accesses = program.get(&format!("users/{ANNA}/accesses")).await.json();
        let accesses = accesses["open_accesses"].as_array().unwrap();
        let live = accesses.iter().filter(|access| access["kind"] != "client" || access.get("tokens").is_some());
        lengths.push(live.count());
        lengths
    };
    assert_eq!(lists().await, [1, 1, 1, 1, 1, 3]);
    let stop = meddler.stop(At::BeforeCommit, b's');
    let path = format!("users/{ANNA}/revoke");
    let (revoked, pending) = tokio::join!(program.send("POST", &path, &[], ""), stop.meanwhile(lists()));
    assert_eq!(pending, [0; 6]);
    assert_eq!(revoked.json()["sessions_ended"], 1, "{revoked:?}");
    assert_eq!(lists().await, [0; 6]);
}
