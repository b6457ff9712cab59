//! Requests in detail: paths, methods, headers and bodies.

use super::*;

async fn everything(provider: &Provider) -> Program<'_> {
    Program::with(provider, &ApiScope::ALL).await
}

#[tokio::test]
async fn unknown_and_ambiguous_paths_are_not_found() {
    let provider = provider().await;
    let program = everything(&provider).await;
    for path in [
        "",
        "users/",
        "Users",
        "%75sers",
        "users//",
        "users/.",
        "users/..",
        "users/%2e%2e",
        "users/.%2E",
        "users/%2e",
        "users/../keys",
        "users/%",
        "users/%4",
        "users/%zz",
        "users/%ff",
        "users/%00",
        "users/a%0d%0ab",
        "users/%252e%252e",
        "users/a%2Fb",
        "clients/..%2f..%2fkeys",
        "clients/%c0%ae",
        "keys/",
        "openapi.json/",
        "openapi%2ejson",
    ] {
        let reply = program.get(path).await;
        assert_eq!(code(&reply, 404), "not_found", "{path}");
    }
    // A second spelling of a parameter names the same object.
    let ben = program.get(&format!("users/{BEN}")).await;
    for path in ["users/ben%40example.test", "users/%62en@example.test", "users/BEN@example.test"] {
        assert_eq!(program.get(path).await.json(), ben.json(), "{path}");
    }
}

#[tokio::test]
async fn each_path_names_its_methods() {
    let provider = provider().await;
    let program = everything(&provider).await;
    for (path, allow) in [
        ("users", "HEAD, GET"),
        ("users/anna", "HEAD, GET, PUT, PATCH, DELETE"),
        ("users/anna/disable", "POST"),
        ("keys/rotate", "POST"),
        ("openapi.json", "HEAD, GET"),
    ] {
        for method in ["OPTIONS", "TRACE", "PROPFIND", "get"] {
            let reply = program.send(method, path, &[], "").await;
            assert_eq!(code(&reply, 405), "method_not_allowed", "{method} {path}");
            assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
        }
    }
    assert_eq!(program.send("POST", "users", &[JSON], "{}").await.status, 405);
    assert_eq!(program.send("PUT", "keys/rotate", &[], "").await.status, 405);
    let head = program.send("HEAD", &format!("users/{BEN}"), &[], "").await;
    assert_eq!((head.status, head.header("etag")), (200, program.get(&format!("users/{BEN}")).await.header("etag")));
}

#[tokio::test]
async fn responses_are_private_and_not_for_other_origins() {
    let provider = provider().await;
    let program = everything(&provider).await;
    let origin = ("origin", "https://evil.test");
    let preflight = [origin, ("access-control-request-method", "GET")];
    let replies = [
        program.send("GET", "users", &[origin], "").await,
        program.send("OPTIONS", "users", &preflight, "").await,
        program.send("GET", "nothing", &[origin], "").await,
        provider.request("GET", "/api/v1/users", &[origin], "").await,
        program.send("GET", "openapi.json", &[origin], "").await,
        program.send("PATCH", &format!("users/{BEN}"), &[origin], "{}").await,
    ];
    for reply in &replies {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{reply:?}");
        let headers = reply.all_headers();
        assert!(
            !headers.iter().any(|(name, _)| name.starts_with("access-control-") || name == "set-cookie"),
            "{reply:?}"
        );
    }
    assert_eq!(replies[1].status, 405);
}

#[tokio::test]
async fn only_one_unambiguous_json_object_is_accepted() {
    let provider = provider().await;
    let program = everything(&provider).await;
    let path = format!("users/{BEN}");
    let send = async |headers: &[(&str, &str)], body: &str| program.send("PATCH", &path, headers, body).await;
    for body in [
        "",
        "x",
        "[]",
        "null",
        "\"name\"",
        r#"{"name":"a","name":"b"}"#,
        r#"{"name":"a","n\u0061me":"b"}"#,
        r#"{"name":"a"} {"name":"b"}"#,
        r#"{"name":"a",}"#,
        r#"{"name":"\ud800"}"#,
        r#"{"name":1e999}"#,
        "\u{feff}{}",
    ] {
        assert_eq!(code(&send(&[JSON], body).await, 400), "malformed", "{body}");
    }
    for body in [
        r#"{"name":1}"#,
        r#"{"name":null}"#,
        r#"{"nam":"a"}"#,
        r#"{"groups":"a"}"#,
        r#"{"groups":[1]}"#,
        r#"{"email_verified":"yes"}"#,
        r#"{"email_verified":18446744073709551616}"#,
        r#"{"roles":["root"]}"#,
        r#"{"name":""}"#,
        r#"{"name":"a\nb"}"#,
        r#"{"email":"x"}"#,
        r#"{"username":"X Y"}"#,
        r#"{"phone_number":"1"}"#,
        r#"{"picture":"http://x.test/"}"#,
        r#"{"groups":["a,b"]}"#,
        r#"{"email":null,"username":null}"#,
    ] {
        assert_eq!(code(&send(&[JSON], body).await, 422), "invalid", "{body}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/merge-patch+json", "application/jsonx"]
    {
        let reply = send(&[("content-type", kind)], "{}").await;
        assert_eq!(code(&reply, 415), "unsupported_media_type", "{kind}");
    }
    assert_eq!(code(&send(&[], "{}").await, 415), "unsupported_media_type");
    assert_eq!(code(&send(&[JSON, ("content-encoding", "gzip")], "{}").await, 415), "unsupported_media_type");
    assert_eq!(send(&[("content-type", "Application/JSON; charset=utf-8")], "{}").await.status, 200);
    let invalid = Request::patch(format!("/api/v1/{path}"))
        .header("authorization", format!("Bearer {}", program.token))
        .header("content-type", "application/json")
        .body(Bytes::from_static(b"{\"name\":\"\xff\"}"))
        .unwrap();
    assert_eq!(code(&provider.send(invalid).await, 400), "malformed");
    let unwanted = program.send("POST", &format!("{path}/enable"), &[JSON], "{}").await;
    assert_eq!(code(&unwanted, 400), "malformed");
    assert_eq!(user(&provider, provider.ben.sub).await.name, "Ben");
}

#[tokio::test]
async fn an_error_never_repeats_a_password() {
    let provider = provider().await;
    let program = everything(&provider).await;
    for body in [
        json!({ "name": 1, "password": "hunter2hunter2" }),
        json!({ "name": "Cem", "password": "hunter2hunter2", "x": 1 }),
        json!({ "name": "Cem", "password": ["hunter2hunter2"] }),
        json!({ "name": "Cem", "password": "hunter2" }),
    ] {
        let reply = program.call("PUT", "users/cem@example.test", &body).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        assert!(!reply.text().contains("hunter2"), "{reply:?}");
    }
}

#[tokio::test]
async fn the_description_names_every_route_and_its_scope() {
    let provider = provider().await;
    let description = provider.get("/api/v1/openapi.json").await;
    let document = description.json();
    assert_eq!(
        (&document["openapi"], &document["servers"][0]["url"]),
        (&json!("3.1.0"), &json!("https://id.test/api/v1"))
    );
    let put = &document["paths"]["/users/{user}"]["put"];
    assert_eq!(put["security"], json!([{ "token": ["users:write"] }]));
    assert_eq!(put["requestBody"]["content"]["application/json"]["schema"]["required"], json!(["name"]));
    let user = &put["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"][0];
    assert_eq!(user["properties"]["sub"], json!({ "type": "string", "format": "uuid" }));
    assert!(user["required"].as_array().unwrap().contains(&json!("groups")));
    assert!(
        user["properties"].get("email").is_some() && !user["required"].as_array().unwrap().contains(&json!("email"))
    );
    let tag = description.header("etag").unwrap();
    let known = provider.request("GET", "/api/v1/openapi.json", &[("if-none-match", tag)], "").await;
    assert_eq!(known.status, 304);
}

/// A token without the scope to read an object changes it, and sees only new secrets.
#[tokio::test]
async fn changes_show_objects_only_to_tokens_that_can_read_them() {
    let provider = provider().await;
    let writer = Program::with(&provider, &[ApiScope::UsersWrite, ApiScope::ClientsWrite, ApiScope::AdminsWrite]).await;
    let ben = format!("users/{BEN}");
    for (method, path, body) in [
        ("PATCH", ben.clone(), "{}"),
        ("PATCH", ben.clone(), r#"{"name":"Ben B."}"#),
        ("PUT", ben.clone(), r#"{"name":"Ben B."}"#),
        ("POST", format!("{ben}/disable"), ""),
        ("POST", format!("{ben}/enable"), ""),
        ("POST", format!("{ben}/factors/unblock"), ""),
        ("PATCH", "clients/c1".to_owned(), "{}"),
        ("POST", "clients/c1/disable".to_owned(), ""),
    ] {
        let headers = if body.is_empty() { &[][..] } else { &[JSON][..] };
        let reply = writer.send(method, &path, headers, body).await;
        assert_eq!((reply.status, reply.text(), reply.header("etag")), (204, "", None), "{method} {path} {body}");
    }
    assert_eq!(user(&provider, provider.ben.sub).await.name, "Ben B.");
    let new = json!({ "name": "Cem", "groups": ["staff"], "password": "a long and unusual phrase" });
    let created = writer.call("PUT", "users/cem@example.test", &new).await;
    assert_eq!((created.status, created.text(), created.header("etag")), (201, "", None), "{created:?}");
    assert!(created.location().starts_with("/api/v1/users/"), "{created:?}");
    // Secrets that no other request returns.
    let members = |reply: &Reply| {
        let body = reply.json();
        let names: std::collections::BTreeSet<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    let invited = writer.call("PUT", "users/can@example.test", &json!({ "name": "Can", "invitation": "link" })).await;
    assert_eq!((invited.status, members(&invited).as_str()), (201, "invitation_link sub"), "{invited:?}");
    let reset = writer.send("POST", &format!("{ben}/factors/reset"), &[], "").await;
    assert_eq!((reset.status, members(&reset).as_str()), (200, "enrolment_link link_expires_at sub"), "{reset:?}");
    let secret = writer.send("POST", "clients/c2/rotate-secret", &[], "").await;
    assert_eq!((secret.status, members(&secret).as_str()), (200, "client_id client_secret"), "{secret:?}");
    // What a request has done is not the object.
    let revoked = writer.send("POST", &format!("{ben}/revoke"), &[], "").await;
    assert_eq!((revoked.status, &revoked.json()["sessions_ended"]), (200, &json!(0)));
    let reader = Program::with(&provider, &[ApiScope::UsersRead, ApiScope::UsersWrite]).await;
    let shown = reader.call("PATCH", &ben, &json!({})).await;
    assert_eq!((shown.status, &shown.json()["name"]), (200, &json!("Ben B.")));
    assert!(shown.header("etag").is_some());
}

#[tokio::test]
async fn conditions_without_effect_are_refused() {
    let provider = provider().await;
    let program = everything(&provider).await;
    let ben = format!("users/{BEN}");
    let before = user(&provider, provider.ben.sub).await;
    let name = r#"{"name":"Mine"}"#;
    for (method, path, body, condition, is_accepted) in [
        ("GET", ben.clone(), "", ("if-match", "*"), false),
        ("GET", "users".to_owned(), "", ("if-match", "\"a\""), false),
        ("GET", "users".to_owned(), "", ("if-none-match", "\"a\""), true),
        ("GET", ben.clone(), "", ("if-none-match", "\"a\""), true),
        ("POST", format!("{ben}/disable"), "", ("if-match", "\"a\""), false),
        ("POST", format!("{ben}/disable"), "", ("if-match", "*"), false),
        ("POST", format!("{ben}/disable"), "", ("if-none-match", "*"), false),
        ("PUT", format!("groups/staff/members/{BEN}"), "", ("if-none-match", "*"), false),
        ("DELETE", format!("{ben}/invitation"), "", ("if-match", "\"a\""), false),
        ("PATCH", ben.clone(), name, ("if-none-match", "\"a\""), false),
        ("PUT", ben.clone(), name, ("if-none-match", "\"a\""), false),
    ] {
        let headers = if body.is_empty() { vec![condition] } else { vec![JSON, condition] };
        let reply = program.send(method, &path, &headers, body).await;
        if is_accepted {
            assert_eq!(reply.status, 200, "{method} {path} {condition:?}: {reply:?}");
        } else {
            assert_eq!(code(&reply, 400), "malformed", "{method} {path} {condition:?}");
            assert!(reply.text().contains("has no effect on this request"), "{reply:?}");
        }
    }
    assert_eq!(user(&provider, provider.ben.sub).await, before);
}

/// Programs do not run the commands of the command line.
#[tokio::test]
async fn errors_name_no_commands_and_flags() {
    let provider = provider().await;
    let program = everything(&provider).await;
    give(&provider, provider.ben.sub, &[]).await;
    let ben = format!("users/{BEN}");
    let nameless = json!({ "name": "Can", "password": "a long and unusual phrase" });
    assert_eq!(program.call("PUT", "users/can", &nameless).await.status, 201);
    let client = json!({ "client_name": "Wiki", "client_type": "confidential", "redirect_uris": ["https://w.test/"] });
    let with = |name: &str, value: Value| {
        let mut client = client.clone();
        client[name] = value;
        client
    };
    for (method, path, body) in [
        ("PUT", "users/cem@example.test".to_owned(), json!({ "name": "Cem" })),
        ("PUT", "users/cem".to_owned(), json!({ "name": "Cem" })),
        ("POST", format!("{ben}/invitation"), json!({})),
        ("POST", "users/can/invitation".to_owned(), json!({ "invitation": "link" })),
        ("POST", format!("{ben}/reset-link"), Value::Null),
        ("PATCH", ben.clone(), json!({ "email": null, "username": null })),
        ("PATCH", ben.clone(), json!({ "email": ANNA })),
        ("DELETE", "clients/c1/secrets/0123456789ab".to_owned(), Value::Null),
        ("POST", "clients/p1/secrets".to_owned(), Value::Null),
        ("PUT", "clients/c7".to_owned(), with("introspection_apps", json!(["wiki"]))),
        ("PUT", "clients/c7".to_owned(), with("backchannel_logout_session_required", json!(true))),
        ("PUT", "clients/c7".to_owned(), with("service", json!({ "apps": {}, "groups": ["staff"] }))),
        ("PUT", "clients/c7".to_owned(), with("jwks_uri", json!("http://w.test/"))),
        ("PUT", "clients/c7".to_owned(), with("token_endpoint_auth_method", json!("private_key_jwt"))),
        ("POST", "mails/x/retry".to_owned(), Value::Null),
        ("POST", "keys/rotate?algorithm=EdDSA".to_owned(), Value::Null),
        ("DELETE", format!("grants/{}", "A".repeat(22)), Value::Null),
        ("DELETE", format!("sessions/{}", "A".repeat(22)), Value::Null),
        ("DELETE", format!("{ben}/consents/c1"), Value::Null),
    ] {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = if body.is_null() { &[][..] } else { &[JSON][..] };
        let reply = program.send(method, &path, headers, &text).await;
        let detail = problem(&reply)["detail"].as_str().unwrap().to_owned();
        let has_command = ["--", "sealgate ", "user invite", "user set"].iter().any(|word| detail.contains(word));
        assert!(!has_command, "{method} {path} {body}: {detail}");
    }
}

/// The first page instead would repeat the list.
#[tokio::test]
async fn a_cursor_that_cannot_be_read_is_an_error_in_every_list() {
    let provider = provider().await;
    let program = everything(&provider).await;
    let document = provider.get("/api/v1/openapi.json").await.json();
    let mut lists = 0;
    for (template, operations) in document["paths"].as_object().unwrap() {
        let parameters = operations["get"]["parameters"].as_array().cloned().unwrap_or_default();
        if !parameters.iter().any(|parameter| parameter["name"] == "after") {
            continue;
        }
        let path = template.trim_start_matches('/').replace("{user}", BEN).replace("{group}", "staff");
        let filters: &[&str] = match path.as_str() {
            "sessions" | "grants" => &["user=ben@example.test&", "client=c1&"],
            "mails" => &["", "sent=true&"],
            _ => &[""],
        };
        for filter in filters {
            assert_eq!(program.get(&format!("{path}?{filter}")).await.status, 200, "{path} {filter}");
            for after in ["a,b", "..%2F..%2Fx,", ""] {
                let reply = program.get(&format!("{path}?{filter}after={after}")).await;
                assert_eq!(code(&reply, 400), "malformed", "{path} {filter} {after:?}");
            }
            lists += 1;
        }
    }
    assert!(lists >= 12, "{lists}");
    // A cursor of another list.
    let id = "AAAAAAAAAAAAAAAAAAAAAA";
    for (path, status) in [("mails?after=sent.1.", 400), ("mails?sent=true&after=sent.1.", 200)] {
        assert_eq!(program.get(&format!("{path}{id}")).await.status, status, "{path}");
    }
}
