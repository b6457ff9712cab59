//! Which tokens work, for what, and until when.

use super::*;
use sealgate_admin::command::{ApiTokenCommand, Command, NewApiToken};
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::grant::EndReason;
use sealgate_domain::user::UserState;
use sealgate_store::engine::Engine as _;

use crate::mailbox::{MAIL, due};
use crate::meddler::At;

#[tokio::test]
async fn the_api_exists_only_while_it_is_enabled() {
    let provider = Provider::with("").await;
    let token = token_of(&provider, None, &ApiScope::ALL).await;
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    for path in ["/api/v1/users", "/api/v1/openapi.json"] {
        let reply = provider.request("GET", path, &headers, "").await;
        assert_eq!((reply.status, reply.header("content-type")), (404, Some("application/json")), "{reply:?}");
        assert!(!sealgate_provider::owns(&provider.sealgate.config, path));
    }
    let provider = provider_with("").await;
    assert_eq!(provider.get("/api/v1/openapi.json").await.status, 200);
    for path in ["/api/v1/users", "/api/v1/", "/api/v1/no/such/path"] {
        assert!(sealgate_provider::owns(&provider.sealgate.config, path), "{path}");
    }
    for path in ["/api/v1", "/api/v2/users", "/api/", "/xapi/v1/users"] {
        assert!(!sealgate_provider::owns(&provider.sealgate.config, path), "{path}");
    }
    assert!(sealgate_provider::is_below(&provider.sealgate.config, "/api/v1/users/"));
}

#[tokio::test]
async fn each_route_needs_its_scope() {
    let provider = provider_with("[rate_limits]\napi = \"none\"").await;
    let description = provider.get("/api/v1/openapi.json").await.json();
    let mut programs = Vec::new();
    for scope in ApiScope::ALL {
        let others: Vec<_> = ApiScope::ALL.into_iter().filter(|other| *other != scope).collect();
        programs.push((scope, Program::with(&provider, &[scope]).await, Program::with(&provider, &others).await));
    }
    let mut routes = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(scope) = operation["security"][0]["token"][0].as_str() else {
                assert_eq!(path, "/openapi.json");
                continue;
            };
            routes += 1;
            let method = method.to_uppercase();
            // No object has this name.
            let path = path.split('/').map(|part| if part.starts_with('{') { "zz--zz" } else { part });
            let path = path.collect::<Vec<_>>().join("/");
            for (own, only, others) in &programs {
                let reply = only.send(&method, &path[1..], &[JSON], "{}").await;
                let (granted, refused) = if own.as_str() == scope {
                    (reply, None)
                } else {
                    (others.send(&method, &path[1..], &[JSON], "{}").await, Some(reply))
                };
                assert!(![401, 403, 405].contains(&granted.status), "{method} {path} {own}: {granted:?}");
                let Some(refused) = refused else { continue };
                assert_eq!(code(&refused, 403), "insufficient_scope", "{method} {path} {own}");
                let challenge = refused.header("www-authenticate").unwrap();
                assert!(challenge.contains(&format!("error=\"insufficient_scope\", scope=\"{scope}\"")), "{challenge}");
            }
        }
    }
    assert!(routes > 40, "{routes}");
}

#[tokio::test]
async fn only_a_bearer_token_authenticates() {
    let provider = provider().await;
    let program = Program::with(&provider, &ApiScope::ALL).await;
    assert_eq!(program.get("users").await.status, 200);
    let token = &program.token;
    let ask = async |headers: &[(&str, &str)]| provider.request("GET", "/api/v1/users", headers, "").await;
    let basic = format!("Basic {token}");
    let cookie = format!("__Host-sealgate={token}; token={token}");
    for headers in [vec![], vec![("authorization", basic.as_str())], vec![("cookie", cookie.as_str())]] {
        let reply = ask(&headers).await;
        assert_eq!(code(&reply, 401), "no_token", "{headers:?}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"sealgate-api\""));
    }
    let (start, last) = token.split_at(token.len() - 1);
    let altered = format!("Bearer {start}{}", if last == "A" { "E" } else { "A" });
    let other = format!("Bearer {}", ApiToken::new_secret([9; 32]).expose());
    for value in ["Bearer x", &altered, &other] {
        let reply = ask(&[("authorization", value)]).await;
        assert_eq!(code(&reply, 401), "invalid_token", "{value}");
        assert!(reply.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    }
    let right = format!("Bearer {token}");
    assert_eq!(ask(&[("authorization", &right), ("authorization", &right)]).await.status, 400);
    let in_query = provider.get(&format!("/api/v1/users?access_token={token}")).await;
    assert_eq!(in_query.status, 401);
    // A session of an administrator is no token.
    let browser = provider.browser();
    let login = browser.open("/account").await;
    browser.sign_in(&login, ANNA).await;
    assert_eq!(browser.get("/console/users").await.status, 200);
    assert_eq!(browser.get("/api/v1/users").await.status, 401);
}

#[tokio::test]
async fn a_token_works_until_it_expires_or_is_removed() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    provider.wait(24 * 60 * 60 - 1);
    assert_eq!(program.get("users").await.status, 200);
    provider.wait(1);
    assert_eq!(code(&program.get("users").await, 401), "invalid_token");
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    let hash = ApiToken::hash_of(&program.token).unwrap();
    let stored = provider.sealgate.store.api_token(&hash).await.unwrap().unwrap();
    assert!(provider.sealgate.store.remove_api_token(stored.id()).await.unwrap().is_some());
    assert_eq!(code(&program.get("users").await, 401), "invalid_token");
}

#[tokio::test]
async fn a_token_works_only_while_its_creator_is_an_enabled_administrator() {
    let provider = provider().await;
    let anna = provider.anna.sub;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    let own = Program { provider: &provider, token: token_of(&provider, None, &[ApiScope::UsersRead]).await };
    for roles in [&[][..], &[Role::Developer]] {
        give(&provider, anna, roles).await;
        assert_eq!(code(&program.get("users").await, 401), "invalid_token");
    }
    // The group of administrators gives the role too.
    provider.change_user(anna, |user| user.groups = ["admins".to_owned()].into()).await;
    assert_eq!(program.get("users").await.status, 200);
    provider.change_user(anna, |user| user.groups.clear()).await;
    give(&provider, anna, &[Role::Admin]).await;
    assert_eq!(program.get("users").await.status, 200);
    provider.change_user(anna, |user| user.state = UserState::Disabled).await;
    assert_eq!(code(&program.get("users").await, 401), "invalid_token");
    provider.change_user(anna, |user| user.state = UserState::Enabled).await;
    assert_eq!(program.get("users").await.status, 200);
    assert_eq!(own.get("users").await.status, 200);
    assert!(provider.sealgate.store.delete_user(anna, provider.clock.now()).await.unwrap());
    assert_eq!(code(&program.get("users").await, 401), "invalid_token");
    // A token of the operator does not depend on a user.
    assert_eq!(own.get("users").await.status, 200);
}

#[tokio::test]
async fn a_revocation_of_all_access_deletes_the_tokens_of_the_user() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    let bens = token_of(&provider, Some(provider.ben.sub), &[ApiScope::UsersRead]).await;
    let store = &provider.sealgate.store;
    store.revoke_user(provider.anna.sub, EndReason::Administrator, provider.clock.now()).await.unwrap();
    assert_eq!(code(&program.get("users").await, 401), "invalid_token");
    let left: Vec<_> = store.api_tokens().await.unwrap().iter().map(|token| token.hash).collect();
    assert_eq!(left, [ApiToken::hash_of(&bens).unwrap()]);
}

#[tokio::test]
async fn a_new_password_deletes_the_tokens_of_the_user() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    let browser = provider.browser();
    let page = browser.open("/account/password").await;
    let page = browser.sign_in(&page, ANNA).await;
    let new = "quiet river under nine stones";
    let page = browser.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
    assert!(page.text().contains("Your password was changed"), "{page:?}");
    assert_eq!(program.get("users").await.status, 401);
}

#[tokio::test]
async fn an_expired_token_is_deleted_by_garbage_collection() {
    let provider = provider().await;
    token_of(&provider, None, &[ApiScope::UsersRead]).await;
    let store = &provider.sealgate.store;
    let sweep = async || while store.sweep(provider.clock.now(), 100).await.unwrap().more {};
    provider.wait(24 * 60 * 60 - 60);
    sweep().await;
    assert_eq!(store.api_tokens().await.unwrap().len(), 1);
    provider.wait(30 * 60);
    sweep().await;
    assert_eq!(store.api_tokens().await.unwrap().len(), 0);
}

#[tokio::test]
async fn the_last_use_is_stored_once_an_hour() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    let hash = ApiToken::hash_of(&program.token).unwrap();
    let used = async || provider.sealgate.store.api_token(&hash).await.unwrap().unwrap().last_used_at;
    let first = used().await;
    provider.wait(3599);
    let before = meddler.commits();
    for _ in 0..5 {
        assert_eq!(program.get("users").await.status, 200);
    }
    assert_eq!((meddler.commits(), used().await), (before, first));
    provider.wait(1);
    for _ in 0..5 {
        assert_eq!(program.get("users").await.status, 200);
    }
    assert_eq!((meddler.commits(), used().await), (before + 1, Some(provider.clock.now())));
}

#[tokio::test]
async fn a_token_that_is_removed_during_a_request_changes_nothing() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let ben = provider.ben.sub;
    for ending in 0..3 {
        let program = Program::with(&provider, &[ApiScope::UsersWrite]).await;
        let stop = meddler.stop(At::BeforeCommit, b'u');
        let body = json!({ "name": "Another" });
        let path = format!("users/{ben}");
        let (reply, ()) = tokio::join!(
            program.call("PATCH", &path, &body),
            stop.meanwhile(async {
                let hash = ApiToken::hash_of(&program.token).unwrap();
                let store = &provider.sealgate.store;
                match ending {
                    0 => {
                        let token = store.api_token(&hash).await.unwrap().unwrap();
                        assert!(store.remove_api_token(token.id()).await.unwrap().is_some());
                    }
                    1 => give(&provider, provider.anna.sub, &[]).await,
                    _ => provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await,
                }
            })
        );
        assert_eq!(code(&reply, 401), "invalid_token", "{ending}");
        assert_eq!(user(&provider, ben).await.name, "Ben");
        give(&provider, provider.anna.sub, &[Role::Admin]).await;
    }
}

#[tokio::test]
async fn a_token_that_is_removed_during_a_request_mails_no_reset_link() {
    let (provider, meddler) = Provider::meddled_with(&format!("{ON}\n{MAIL}")).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    provider.change_user(provider.ben.sub, |user| user.email_verified = true).await;
    let program = Program::with(&provider, &[ApiScope::UsersWrite]).await;
    let path = format!("users/{}/reset-link", provider.ben.sub);
    let stop = meddler.stop(At::BeforeCommit, b'A');
    let (reply, ()) = tokio::join!(
        program.send("POST", &path, &[], ""),
        stop.meanwhile(async { give(&provider, provider.anna.sub, &[]).await })
    );
    assert_eq!(code(&reply, 401), "invalid_token");
    assert!(due(&provider.sealgate.store, provider.clock.now()).await.is_empty());
}

#[tokio::test]
async fn each_change_names_the_token_and_its_creator() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::UsersWrite]).await;
    let own = Program { provider: &provider, token: token_of(&provider, None, &[ApiScope::UsersWrite]).await };
    let path = format!("users/{}", provider.ben.sub);
    assert_eq!(program.call("PATCH", &path, &json!({ "name": "B" })).await.status, 204);
    assert_eq!(own.call("PATCH", &path, &json!({ "name": "C" })).await.status, 204);
    let filter = AuditFilter { kinds: vec![AuditKind::UserChanged], ..AuditFilter::default() };
    let records = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    let actors: Vec<String> = records.iter().map(|record| record.event.actor.to_string()).collect();
    let id = |token: &str| {
        let hash = *ApiToken::hash_of(token).unwrap().as_bytes();
        sealgate_domain::secret::base64url(&hash[..16])
    };
    let anna = provider.anna.sub;
    let expected = [
        format!("api token {} of operator", id(&own.token)),
        format!("api token {} of administrator {anna}", id(&program.token)),
    ];
    assert_eq!(actors, expected);
    assert!(records.iter().all(|record| record.event.address.is_some() && record.event.request_id.is_some()));
}

#[tokio::test]
async fn requests_and_wrong_tokens_are_limited_by_address() {
    let more = "[rate_limits]\napi = 8\n[login]\nfailures_per_address = 3";
    let provider = provider_with(more).await;
    let program = Program::with(&provider, &[ApiScope::UsersRead]).await;
    for _ in 0..8 {
        assert_eq!(program.get("users").await.status, 200);
    }
    let late = program.get("users").await;
    assert_eq!(code(&late, 429), "too_many_requests");
    assert_eq!(late.allowance().limit, 8);
    provider.wait(60);
    let wrong = Program { provider: &provider, token: ApiToken::new_secret([9; 32]).expose().to_owned() };
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(wrong.get("users").await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429, 429]);
    // The limit of wrong tokens does not apply to a token that works.
    assert_eq!(program.get("users").await.status, 200);
    let filter = AuditFilter { kinds: vec![AuditKind::SignInFailed], ..AuditFilter::default() };
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let records = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    // Equal failures share a record.
    assert_eq!(records.iter().map(|record| record.event.count).sum::<u64>(), 3, "{records:?}");
    assert_eq!(records[0].event.detail.as_deref(), Some("api token"));
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::UsersWrite]).await;
    let long = format!("{{\"name\":\"{}\"}}", "a".repeat(64 * 1024));
    let reply = program.send("PATCH", &format!("users/{BEN}"), &[JSON], &long).await;
    assert_eq!(code(&reply, 413), "body_refused");
    // The HTTP server refuses a longer body before it is read.
    let (head, _) = Request::put("/api/v1/users/x").body(Bytes::new()).unwrap().into_parts();
    let refusal = sealgate_domain::error::Refusal::invalid_request("");
    let status = http::StatusCode::PAYLOAD_TOO_LARGE;
    let response = sealgate_provider::refuse(&provider.sealgate, &head, status, refusal);
    assert_eq!(code(&Reply::new(response.finish()), 413), "body_refused");
}

#[tokio::test]
async fn no_record_contains_a_token() {
    let provider = provider().await;
    let token = token_of(&provider, Some(provider.anna.sub), &[ApiScope::UsersRead]).await;
    let random = token.strip_prefix("sealgate_api_").unwrap().as_bytes();
    for (_, value) in provider.engine.scan(b"", None, usize::MAX).await.unwrap() {
        assert!(!value.windows(random.len()).any(|window| window == random));
    }
    let store = &provider.sealgate.store;
    store.take_back_after_restore(provider.clock.now()).await.unwrap();
    assert_eq!(store.api_tokens().await.unwrap(), []);
}

#[tokio::test]
async fn no_command_about_tokens_is_executed_for_a_token() {
    let provider = provider().await;
    let text = token_of(&provider, None, &ApiScope::ALL).await;
    let stored = provider.sealgate.store.api_token(&ApiToken::hash_of(&text).unwrap()).await.unwrap().unwrap();
    let address = "192.0.2.1".parse().unwrap();
    let context = sealgate_admin::CommandContext::new(&provider.sealgate).by_api_token(&stored, address, "request-1");
    let new = NewApiToken { name: "another".to_owned(), scopes: vec![ApiScope::UsersRead], expires: None };
    let commands = [
        ApiTokenCommand::Add(Box::new(new)),
        ApiTokenCommand::List,
        ApiTokenCommand::Remove { id: stored.id().to_string() },
    ];
    for command in commands {
        let refused = sealgate_admin::execute(&context, Command::ApiToken(command)).await.unwrap_err();
        assert!(matches!(refused, sealgate_admin::CommandError::Forbidden(_)), "{refused:?}");
    }
    assert_eq!(provider.sealgate.store.api_tokens().await.unwrap().len(), 1);
}
