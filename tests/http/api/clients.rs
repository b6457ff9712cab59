//! Clients, and the other objects.

use super::*;
use crate::meddler::At;
use sealgate_domain::client::{Client, ClientId};

const URI: &str = "https://wiki.test/callback";

async fn writer(provider: &Provider) -> Program<'_> {
    Program::with(provider, &[ApiScope::ClientsRead, ApiScope::ClientsWrite]).await
}

async fn stored(provider: &Provider, id: &str) -> Option<Client> {
    provider.sealgate.store.client(&ClientId::parse(id).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_put_creates_a_client_once_and_then_replaces_its_settings() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = writer(&provider).await;
    let body = json!({
        "client_name": "Wiki", "client_type": "confidential", "redirect_uris": [URI], "scope": "openid email",
        "description": "What we know", "consent": "implied", "level": "2", "default_max_age": 600, "token_limit": 70,
    });
    let created = program.call("PUT", "clients/wiki", &body).await;
    assert_eq!((created.status, created.location()), (201, "/api/v1/clients/wiki"), "{created:?}");
    let secret = created.json()["client_secret"].as_str().unwrap().to_owned();
    let shown = program.get("clients/wiki").await;
    assert!(!shown.text().contains(&secret));
    assert_eq!(shown.header("etag"), created.header("etag"));
    let wiki = shown.json();
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(&wiki[name], value, "{name}");
    }
    assert_eq!(wiki["grant_types"], json!(["authorization_code", "refresh_token"]));
    let client = stored(&provider, "wiki").await.unwrap();
    assert!(client.owner.is_none() && client.is_vouched_for());
    let before = meddler.commits();
    for _ in 0..2 {
        let again = program.call("PUT", "clients/wiki", &body).await;
        assert_eq!((again.status, again.json()), (200, wiki.clone()), "{again:?}");
        assert_eq!(again.header("etag"), shown.header("etag"));
    }
    assert_eq!(meddler.commits(), before);
    assert_eq!(stored(&provider, "wiki").await.unwrap(), client);
    // Absent settings are removed.
    let less = json!({ "client_name": "Wiki", "client_type": "confidential", "redirect_uris": [URI] });
    let changed = program.call("PUT", "clients/wiki", &less).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let wiki = changed.json();
    assert!(
        wiki.get("description").is_none() && wiki.get("level").is_none() && wiki["token_limit"].is_null(),
        "{wiki}"
    );
    assert_eq!(
        (&wiki["consent"], &wiki["scope"]),
        (&json!("ask"), &json!("openid profile email phone offline_access"))
    );
    // PATCH changes only what it names.
    let patch = json!({ "description": "Pages", "backchannel_logout_uri": "https://wiki.test/out" });
    let wiki = program.call("PATCH", "clients/wiki", &patch).await.json();
    assert_eq!((&wiki["description"], &wiki["client_name"]), (&json!("Pages"), &json!("Wiki")));
    let wiki = program.call("PATCH", "clients/wiki", &json!({ "description": null })).await.json();
    assert!(wiki.get("description").is_none() && wiki["backchannel_logout_uri"] == "https://wiki.test/out", "{wiki}");
    for name in ["client_name", "client_type", "jwks", "grant_types", "id_token_signed_response_alg"] {
        let reply = program.call("PATCH", "clients/wiki", &json!({ name: null })).await;
        assert_eq!(code(&reply, 422), "invalid", "{name}");
    }
    assert_eq!(program.send("DELETE", "clients/wiki", &[], "").await.status, 204);
    assert_eq!(code(&program.get("clients/wiki").await, 404), "not_found");
}

#[tokio::test]
async fn every_error_of_a_client_is_reported_at_once() {
    let provider = provider().await;
    let program = writer(&provider).await;
    let body = json!({
        "client_name": "", "client_type": "public", "redirect_uris": ["http://wiki.test/"], "scope": "openid x",
        "service": { "apps": { "nothing": [] } },
    });
    let reply = program.call("PUT", "clients/wiki", &body).await;
    assert_eq!(code(&reply, 422), "invalid");
    assert!(problem(&reply)["errors"].as_array().unwrap().len() >= 3, "{reply:?}");
    assert_eq!(stored(&provider, "wiki").await, None);
    for body in [
        json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI], "service": { "apps": [] } }),
        json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI], "jwks": { "keys": 1 } }),
        json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI], "workload": {} }),
        json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI], "owner": "a b" }),
        json!({ "client_name": "Wiki", "client_type": "public" }),
        json!({ "client_name": "Wiki" }),
    ] {
        assert_eq!(code(&program.call("PUT", "clients/wiki", &body).await, 422), "invalid", "{body}");
    }
    for id in ["sealgate-app-wiki", "a%20b"] {
        let body = json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI] });
        assert!([404, 422].contains(&program.call("PUT", &format!("clients/{id}"), &body).await.status), "{id}");
    }
}

#[tokio::test]
async fn conditions_protect_a_client_from_lost_updates() {
    let (provider, meddler) = Provider::meddled_with(ON).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    let program = writer(&provider).await;
    let tag = program.get("clients/c1").await.header("etag").unwrap().to_owned();
    let body = json!({ "client_name": "Mine" });
    for method in ["PATCH", "DELETE"] {
        let text = if method == "DELETE" { String::new() } else { body.to_string() };
        let headers = [("if-match", tag.as_str()), JSON];
        let headers = if method == "DELETE" { &headers[..1] } else { &headers[..] };
        let stop = meddler.stop(At::BeforeCommit, b'l');
        let id = ClientId::parse("c1").unwrap();
        let other = async {
            provider.sealgate.store.change_client(&id, |client| client.name = "Theirs".to_owned()).await.unwrap();
        };
        let (late, ()) = tokio::join!(program.send(method, "clients/c1", headers, &text), stop.meanwhile(other));
        assert_eq!(code(&late, 412), "precondition_failed", "{method}");
        assert_eq!(stored(&provider, "c1").await.unwrap().name, "Theirs");
        provider.sealgate.store.change_client(&id, |client| client.name = "Client c1".to_owned()).await.unwrap();
    }
    assert_eq!(program.call_if("PATCH", "clients/c1", ("if-match", &tag), &body).await.status, 200);
    let late = program.call_if("PATCH", "clients/c1", ("if-match", &tag), &body).await;
    assert_eq!(code(&late, 412), "precondition_failed");
    let exists = json!({ "client_name": "Wiki", "client_type": "public", "redirect_uris": [URI] });
    let late = program.call_if("PUT", "clients/c1", ("if-none-match", "*"), &exists).await;
    assert_eq!(code(&late, 412), "precondition_failed");
    assert_eq!(program.call_if("PUT", "clients/c9", ("if-none-match", "*"), &exists).await.status, 201);
}

#[tokio::test]
async fn actions_of_a_client_have_the_effect_of_the_commands() {
    let provider = provider().await;
    let program = writer(&provider).await;
    assert_eq!(program.send("POST", "clients/c1/disable", &[], "").await.json()["state"], "disabled");
    assert_eq!(program.send("POST", "clients/c1/enable", &[], "").await.json()["state"], "enabled");
    let rotated = program.call("POST", "clients/c1/rotate-secret", &json!({ "overlap_seconds": 60 })).await.json();
    assert_eq!(rotated["client_secrets"].as_array().unwrap().len(), 2, "{rotated}");
    assert!(rotated["client_secret"].is_string());
    let secrets = program.get("clients/c1/secrets").await.json();
    let old = secrets["secrets"][1]["id"].as_str().unwrap().to_owned();
    assert_eq!(code(&program.send("POST", "clients/c1/secrets", &[], "").await, 422), "invalid");
    assert_eq!(program.send("DELETE", &format!("clients/c1/secrets/{old}"), &[], "").await.status, 204);
    assert!(program.send("POST", "clients/c1/secrets", &[], "").await.json()["client_secret"].is_string());
    assert_eq!(program.send("DELETE", "clients/c1/secrets/x", &[], "").await.status, 404);
    let of_ben = |client: &mut Client| client.owner = Some(provider.ben.sub);
    provider.sealgate.store.change_client(&ClientId::parse("c2").unwrap(), of_ben).await.unwrap();
    assert_eq!(program.send("POST", "clients/c2/approve", &[], "").await.json()["vouched_for"], true);
    assert_eq!(program.send("POST", "clients/c2/revoke-approval", &[], "").await.json()["vouched_for"], false);
    let list = program.get("clients").await.json();
    let ids: Vec<_> = list["clients"].as_array().unwrap().iter().map(|client| client["client_id"].clone()).collect();
    assert_eq!((ids, &list["next"]), (vec![json!("c1"), json!("c2"), json!("p1")], &Value::Null));
}

#[tokio::test]
async fn sessions_and_grants_are_listed_and_ended() {
    let provider = provider().await;
    let program =
        Program::with(&provider, &[ApiScope::SessionsRead, ApiScope::SessionsWrite, ApiScope::AdminsWrite]).await;
    let tokens = provider.c1().tokens("openid").await;
    let sessions = program.get(&format!("sessions?user={ANNA}")).await.json();
    let grants = program.get(&format!("grants?user={ANNA}&client=c1")).await.json();
    let (sid, grant) =
        (sessions["sessions"][0]["sid"].as_str().unwrap(), grants["grants"][0]["grant"].as_str().unwrap());
    assert_eq!(
        program.get(&format!("users/{ANNA}/accesses")).await.json()["open_accesses"].as_array().unwrap().len(),
        2
    );
    assert_eq!(program.get(&format!("users/{ANNA}/consents")).await.json()["consents"][0]["client_id"], "c1");
    assert_eq!(program.get(&format!("users/{ANNA}/app-passwords")).await.json()["app_passwords"], json!([]));
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    assert_eq!(program.send("DELETE", &format!("grants/{grant}"), &[], "").await.status, 204);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
    assert_eq!(program.send("DELETE", &format!("grants/{grant}"), &[], "").await.status, 404);
    assert_eq!(program.send("DELETE", &format!("sessions/{sid}"), &[], "").await.status, 204);
    assert_eq!(program.send("DELETE", &format!("sessions/{sid}"), &[], "").await.status, 404);
    assert_eq!(program.send("DELETE", &format!("users/{ANNA}/consents/c1"), &[], "").await.status, 204);
    for path in ["sessions", "grants", "sessions?user=a&client=c1", "sessions?user=a+b", "grants?session=x"] {
        assert_eq!(code(&program.get(path).await, 400), "malformed", "{path}");
    }
    assert_eq!(program.get("sessions?user=nobody").await.status, 404);
}

#[tokio::test]
async fn the_audit_log_is_read_by_filter_and_cursor() {
    let provider = provider().await;
    let program = Program::with(&provider, &[ApiScope::AuditRead, ApiScope::UsersWrite]).await;
    for number in 0..3 {
        provider.wait(1);
        let body = json!({ "name": format!("Ben {number}") });
        assert_eq!(program.call("PATCH", &format!("users/{BEN}"), &body).await.status, 204);
    }
    let first = program.get(&format!("audit?user={BEN}&kind=user_changed,user_deleted&limit=2")).await.json();
    assert_eq!(first["events"].as_array().unwrap().len(), 2, "{first}");
    let next = first["next"].as_str().unwrap();
    let rest = program.get(&format!("audit?user={BEN}&kind=user_changed&limit=2&after={next}")).await.json();
    assert_eq!((rest["events"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null), "{rest}");
    let since = provider.clock.now().seconds();
    assert_eq!(program.get(&format!("audit?since={since}")).await.json()["events"].as_array().unwrap().len(), 1);
    for query in
        ["kind=x", "limit=0", "limit=101", "limit=+1", "since=-1", "address=x", "user=a+b", "x=1", "limit=1&limit=1"]
    {
        assert_eq!(code(&program.get(&format!("audit?{query}")).await, 400), "malformed", "{query}");
    }
}

#[tokio::test]
async fn keys_are_listed_and_mails_of_the_queue_are_deleted() {
    let provider = provider().await;
    let program = Program::with(&provider, &ApiScope::ALL).await;
    assert_eq!(program.get("keys").await.json()["keys"].as_array().unwrap().len(), 1);
    assert_eq!(program.get("mails").await.json(), json!({ "mails": [], "next": null }));
    assert_eq!(program.get("mails?sent=true").await.json(), json!({ "mails": [], "next": null }));
    assert_eq!(program.get("mails?sent=1").await.status, 400);
    for (method, path) in [("POST", "mails/x/retry"), ("DELETE", "mails/x")] {
        assert_eq!(code(&program.send(method, path, &[], "").await, 404), "not_found");
    }
}

#[tokio::test]
async fn an_access_decision_is_explained() {
    let app = "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:9\"]\n\
               [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\ngroups = [\"staff\"]";
    let provider = provider_with(app).await;
    let program = Program::with(&provider, &[ApiScope::AppsRead]).await;
    let body = json!({ "url": "https://wiki.test/page", "user": BEN });
    assert_eq!(code(&program.call("POST", "check-access", &body).await, 403), "insufficient_scope");
    let program = Program::with(&provider, &[ApiScope::AppsRead, ApiScope::UsersRead]).await;
    let apps = program.get("apps").await.json();
    assert_eq!((&apps["apps"][0]["name"], &apps["apps"][0]["url"]), (&json!("wiki"), &json!("https://wiki.test")));
    let check = async |user: Value| {
        let body = json!({ "url": "https://wiki.test/page", "user": user });
        program.call("POST", "check-access", &body).await.json()
    };
    let refused = check(json!(BEN)).await;
    assert_eq!(
        (&refused["app"], &refused["reason"], &refused["forwarded"]),
        (&json!("wiki"), &json!("group"), &json!(false))
    );
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned()].into()).await;
    assert_eq!(check(json!(BEN)).await["forwarded"], true);
    assert_eq!(check(Value::Null).await["reason"], "unauthenticated");
    for body in [
        json!({ "url": "wiki.test" }),
        json!({ "url": "https://wiki.test/", "user": "nobody" }),
        json!({ "url": "https://wiki.test/", "method": "G T" }),
        json!({ "url": "https://wiki.test/", "from": "x" }),
        json!({}),
    ] {
        assert_eq!(code(&program.call("POST", "check-access", &body).await, 422), "invalid", "{body}");
    }
}
