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
    let user = &put["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(user["properties"]["sub"], json!({ "type": "string", "format": "uuid" }));
    assert!(user["required"].as_array().unwrap().contains(&json!("groups")));
    assert!(
        user["properties"].get("email").is_some() && !user["required"].as_array().unwrap().contains(&json!("email"))
    );
    let tag = description.header("etag").unwrap();
    let known = provider.request("GET", "/api/v1/openapi.json", &[("if-none-match", tag)], "").await;
    assert_eq!(known.status, 304);
}
