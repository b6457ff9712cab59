//! Responses to tokens that may change objects, but not read them.

use super::*;
use crate::mailbox::MAIL;
use sealgate_domain::account_links::{AccountLinks, Invitation, LinkToken};
use sealgate_domain::client::{Client, ClientId, ClientState};
use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_domain::user::{Email, UserState};
use sealgate_domain::username::Username;
use sealgate_store::AddOutcome;

/// Part of each name that no request contains.
const SECRET: &str = "qzx";

const WRITES: [ApiScope; 7] = [
    ApiScope::UsersWrite,
    ApiScope::GroupsWrite,
    ApiScope::ClientsWrite,
    ApiScope::SessionsWrite,
    ApiScope::KeysWrite,
    ApiScope::MailWrite,
    ApiScope::AdminsWrite,
];

/// Request bodies of all routes. Each is sent to every route, and most routes refuse it.
fn bodies() -> Vec<String> {
    let bodies = [
        json!({}),
        json!({ "name": "New" }),
        json!({ "name": "admins" }),
        json!({ "name": "" }),
        json!({ "email": ANNA }),
        json!({ "email": "new@example.test", "email_verified": true }),
        json!({ "email": null }),
        json!({ "email": null, "username": null }),
        json!({ "username": "new" }),
        json!({ "email_verified": true }),
        json!({ "phone_number": "x" }),
        json!({ "groups": ["a,b"] }),
        json!({ "groups": ["other"] }),
        json!({ "roles": ["auditor"] }),
        json!({ "invitation": "link" }),
        json!({ "invitation": "mail" }),
        json!({ "overlap_seconds": 60 }),
        json!({ "lifetime_seconds": 60 }),
        json!({ "client_name": "New", "client_type": "public" }),
        json!({ "client_name": "New", "client_type": "confidential" }),
        json!({ "redirect_uris": ["http://wiki.test/cb"] }),
        json!({ "token_endpoint_auth_method": "private_key_jwt" }),
    ];
    bodies.iter().map(Value::to_string).collect()
}

/// Method, path and whether there is a body, of each route that writes.
async fn write_routes(provider: &Provider, parameter: &str) -> Vec<(String, String, bool)> {
    let document = provider.get("/api/v1/openapi.json").await.json();
    let mut routes = Vec::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if method != "get" && template.contains(parameter) {
                let path = template.trim_start_matches('/').to_owned();
                routes.push((method.to_uppercase(), path, operation.get("requestBody").is_some()));
            }
        }
    }
    routes
}

#[derive(Debug, Clone, Copy)]
enum State {
    Plain,
    Disabled,
    Invited,
    WithoutAddress,
    OfDirectory,
    OfProvider,
}

/// Adds a user in this state, all of whose names contain [`SECRET`].
async fn add_user(provider: &Provider, number: u32, state: State) -> Subject {
    let now = provider.clock.now();
    let source = |origin| UserSource {
        link: SourceLink {
            source: SourceName::parse(&format!("{SECRET}-source")).unwrap(),
            id: SourceId::from_bytes(&number.to_be_bytes()).unwrap(),
        },
        groups: [].into(),
        state: SourceState::Enabled,
        changed_at: now,
        confirmed_at: origin,
        origin: None,
        linked: None,
    };
    let user = User {
        sub: Subject::from_random(random(&OsEntropy)),
        email: (!matches!(state, State::WithoutAddress))
            .then(|| Email::parse(&format!("{SECRET}{number}@example.test")).unwrap()),
        username: Some(Username::parse(&format!("{SECRET}{number}")).unwrap()),
        name: format!("{SECRET} {number}"),
        phone_number: Some("+905551112233".to_owned()),
        picture: Some(format!("https://{SECRET}.test/picture")),
        groups: ["staff".to_owned(), format!("{SECRET}-group")].into(),
        email_verified: !matches!(state, State::WithoutAddress | State::Invited),
        state: if matches!(state, State::Disabled) { UserState::Disabled } else { UserState::Enabled },
        password: provider.ben.password.clone().filter(|_| matches!(state, State::Plain | State::Disabled)),
        source: match state {
            State::OfDirectory => Some(source(None)),
            State::OfProvider => Some(source(Some(now))),
            _ => None,
        },
        ..provider.ben.clone()
    };
    let store = &provider.sealgate.store;
    if matches!(state, State::Invited) {
        let (link, _) = LinkToken::new(user.sub, random(&OsEntropy));
        let invitation = Invitation::new(&user, link.hash, None, None, now);
        let links = AccountLinks { invitation: Some(invitation), ..AccountLinks::none(user.sub) };
        assert_eq!(store.add_invited(&[(user.clone(), links)], &[]).await.unwrap(), AddOutcome::Added);
    } else {
        assert_eq!(store.add_user(&user).await.unwrap(), AddOutcome::Added);
    }
    user.sub
}

#[track_caller]
fn assert_has_no_secret(reply: &Reply, what: &str) {
    assert_ne!(reply.status, 429, "{what}");
    assert!(!format!("{reply:?}").to_lowercase().contains(SECRET), "{what}: {reply:?}");
}

#[tokio::test]
async fn no_response_tells_a_token_that_only_writes_who_a_user_is() {
    let provider = provider_with(&format!("[rate_limits]\napi = \"none\"\n{MAIL}")).await;
    let program = Program { provider: &provider, token: token_of(&provider, None, &WRITES).await };
    let routes = write_routes(&provider, "{user}").await;
    assert!(routes.len() > 12, "{routes:?}");
    let (mut number, mut statuses) = (0, std::collections::BTreeSet::new());
    let states =
        [State::Plain, State::Disabled, State::Invited, State::WithoutAddress, State::OfDirectory, State::OfProvider];
    for state in states {
        for (method, path, has_body) in &routes {
            let bodies = if *has_body { bodies() } else { vec![String::new()] };
            for body in &bodies {
                number += 1;
                let user = add_user(&provider, number, state).await.to_string();
                let path = path.replace("{user}", &user).replace("{client}", "c1").replace("{group}", "staff");
                let path = path.replace("{id}", "zz");
                let headers = if body.is_empty() { &[][..] } else { &[JSON][..] };
                // Sent twice, because the first request changes the state.
                for _ in 0..2 {
                    let reply = program.send(method, &path, headers, body).await;
                    assert_has_no_secret(&reply, &format!("{state:?} {method} {path} {body}"));
                    statuses.insert(reply.status);
                }
            }
        }
    }
    assert!([200, 204, 404, 409, 422].iter().all(|status| statuses.contains(status)), "{statuses:?}");
    // Routes about groups change all of these users.
    for (method, body) in [("PATCH", r#"{"name":"admins"}"#), ("PATCH", r#"{"name":"a,b"}"#), ("DELETE", "")] {
        let headers = if body.is_empty() { &[][..] } else { &[JSON][..] };
        let reply = program.send(method, "groups/staff", headers, body).await;
        assert_has_no_secret(&reply, &format!("{method} {body}"));
    }
}

#[tokio::test]
async fn no_response_tells_a_token_that_only_writes_the_settings_of_a_client() {
    let provider = provider_with("[rate_limits]\napi = \"none\"").await;
    let program = Program { provider: &provider, token: token_of(&provider, None, &WRITES).await };
    let routes = write_routes(&provider, "{client}").await;
    let store = &provider.sealgate.store;
    let mut clients = Vec::new();
    for id in ["c1", "c2"] {
        let client = store.client(&ClientId::parse(id).unwrap()).await.unwrap().unwrap();
        for (state, owner) in [(ClientState::Enabled, None), (ClientState::Disabled, Some(provider.ben.sub))] {
            let (name, mut client) = (format!("{SECRET} wiki"), Client { state, owner, ..client.clone() });
            client.details.client_uri = Some(format!("https://{SECRET}.test/"));
            clients.push(Client { name, ..client });
        }
    }
    for client in clients {
        for (method, path, has_body) in routes.iter().filter(|(_, path, _)| !path.contains("{user}")) {
            let bodies = if *has_body { bodies() } else { vec![String::new()] };
            for body in &bodies {
                store.delete_client(&client.id, provider.clock.now()).await.unwrap();
                assert_eq!(store.add_client(&client).await.unwrap(), AddOutcome::Added);
                let path = path.replace("{client}", client.id.as_str()).replace("{secret}", "zz");
                let headers = if body.is_empty() { &[][..] } else { &[JSON][..] };
                for _ in 0..2 {
                    let reply = program.send(method, &path, headers, body).await;
                    assert_has_no_secret(&reply, &format!("{method} {path} {body}"));
                }
            }
        }
    }
}
