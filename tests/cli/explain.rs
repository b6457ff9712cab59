//! `sealgate explain`, which shows the application, rule and claim that decide a request.

use std::fs;

use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::jwt;
use serde_json::{Value, json};

use crate::site::{PASSWORD, Site, stderr};

const APPS: &str = r#"
[[app]]
name = "wiki"
host = "wiki.localhost"
upstreams = ["http://127.0.0.1:8081"]
[[app.route]]
path = "/"
access = "signed_in"
[[app.route]]
path = "/staff/"
methods = ["GET", "POST"]
access = "signed_in"
groups = ["staff"]
[[app.route]]
path = "/api/"
access = "bearer"
scopes = ["profile"]
"#;

fn site() -> Site {
    let site = Site::new();
    let text = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), text + APPS).unwrap();
    site
}

fn told(site: &Site, arguments: &[&str]) -> Value {
    site.json(&[&["explain"], arguments].concat())
}

/// Returns a token of the client `web`. `explain` does not check its signature.
fn token(sub: &str, scope: &str, exp: u64, typ: &'static str) -> String {
    let claims = json!({
        "iss": "http://localhost:8080", "sub": sub, "aud": "http://localhost:8080", "exp": exp, "iat": 1, "jti": "j",
        "client_id": "web", "scope": scope, "auth_time": 1, "acr": "1", "amr": ["pwd"], "grant_id": "g",
    });
    jwt::assemble(&jwt::signing_input(typ, Algorithm::Rs256, "kid", &claims).unwrap(), b"not looked at")
}

#[test]
fn explain_finds_the_application_with_a_wildcard() {
    let site = site();
    let text = fs::read_to_string(site.config()).unwrap();
    let previews = APPS.replace("\"wiki\"", "\"previews\"").replace("wiki.localhost", "*.localhost.test");
    let docs = APPS.replace("\"wiki\"", "\"docs\"").replace("wiki.localhost", "docs.localhost.test");
    fs::write(site.config(), format!("{text}{previews}{docs}")).unwrap();
    for (host, app) in [
        ("a.localhost.test", json!("previews")),
        ("A.localhost.test:8080", json!("previews")),
        ("docs.localhost.test", json!("docs")),
        ("localhost.test", Value::Null),
        ("a.b.localhost.test", Value::Null),
    ] {
        assert_eq!(told(&site, &[&format!("http://{host}/x")])["app"], app, "{host}");
    }
}

#[test]
fn explain_decides_without_a_server_or_a_store() {
    let site = site();
    let url = "http://wiki.localhost:8080/staff/rota?x";
    let expected = json!({
        "app": "wiki", "rule": "/staff/ signed_in, methods GET POST, groups staff",
        "forwarded": false, "status": 302, "reason": "unauthenticated", "claim": null, "identity_headers": [],
        "upstreams": null, "upstream_protocol": null, "upstream_path": null,
        "advice": "sign in, or send an access token; explain the request of a user with --user, or of a token with --token",
    });
    assert_eq!(told(&site, &[url]), expected);
    assert!(!site.store_directory().exists());
    let reason = |arguments: &[&str]| told(&site, arguments)["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason(&[url, "--method", "DELETE"]), "method");
    let status = |arguments: &[&str]| told(&site, arguments)["status"].clone();
    assert_eq!(status(&[url, "--method", "POST"]), 401);
    assert_eq!(status(&[url, "--method", "DELETE"]), 405);
    assert_eq!(status(&["http://other.localhost/"]), 421);
    assert_eq!(status(&["http://wiki.localhost/staff/%2e%2e/"]), 400);
    assert_eq!(reason(&["http://other.localhost/"]), "no_application");
    assert_eq!(reason(&["http://wiki.localhost/staff/%2e%2e/"]), "dot_segment");
    assert_eq!(reason(&["http://wiki.localhost/STAFF/"]), "spelling");
    assert_eq!(reason(&["http://wiki.localhost/.sealgate/logout"]), "own");
    let wrong = site.run(&["explain", "/staff/"], "");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("the URL is not absolute"), "{}", stderr(&wrong));
}

#[test]
fn explain_reads_the_user_and_names_the_deciding_claim() {
    let site = site();
    for (email, group) in [("anna@example.test", "staff"), ("ben@example.test", "visitors")] {
        let arguments = ["user", "add", email, "--name", "x", "--group", group, "--password-stdin"];
        site.json_with(&arguments, PASSWORD);
    }
    let url = "http://wiki.localhost/staff/";
    let anna = told(&site, &[url, "--user", "anna@example.test"]);
    assert_eq!((&anna["forwarded"], &anna["reason"]), (&json!(true), &json!("forwarded")));
    let all = ["http://wiki.localhost/", "--method", "DELETE", "--user", "anna@example.test"];
    assert_eq!(told(&site, &all)["reason"], "below");
    let ben = told(&site, &[url, "--user", "ben@example.test"]);
    assert_eq!((&ben["reason"], &ben["claim"]), (&json!("group"), &json!("groups")));
    // A user has signed in already; the rule is what refuses a browser.
    let bearer = told(&site, &["http://wiki.localhost/api/", "--user", "anna@example.test"]);
    let advice = |told: &Value| told["advice"].as_str().unwrap_or_default().to_owned();
    assert!(advice(&bearer).starts_with("the rule accepts access tokens only"), "{bearer}");
    site.json(&["user", "disable", "anna@example.test"]);
    let disabled = told(&site, &[url, "--user", "anna@example.test"]);
    assert_eq!(advice(&disabled), "enable the user: sealgate user enable USER");
    let text = site.run(&["explain", "--user", "ben@example.test", "http://wiki.localhost/staff/"], "");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains(
            "decision:  refused\nstatus:    403\nreason:    group\nclaim:     groups\nadvice:    add the user to "
        ),
        "{text}"
    );
}

#[test]
fn explain_knows_of_maintenance() {
    let site = site();
    let text = fs::read_to_string(site.config()).unwrap();
    let maintenance = |table: &str| {
        let text = text.replace("name = \"wiki\"\n", &format!("name = \"wiki\"\nmaintenance = {table}\n"));
        let public = "[[app.route]]\npath = \"/open/\"\naccess = \"public\"\n";
        fs::write(site.config(), text + public).unwrap();
    };
    let [annas, bens] = [("anna@example.test", "staff"), ("ben@example.test", "visitors")].map(|(email, group)| {
        let arguments = ["user", "add", email, "--name", "x", "--group", group, "--password-stdin"];
        site.json_with(&arguments, PASSWORD)["sub"].as_str().unwrap().to_owned()
    });
    let redirect = ["--redirect-uri", "http://localhost:9/cb"];
    site.json(&[&["client", "add", "web", "--name", "Web", "--type", "public"][..], &redirect].concat());
    let [annas, bens] = [annas, bens].map(|sub| token(&sub, "openid", 4_000_000_000, jwt::ACCESS_TOKEN));
    let answer = |path: &str, more: &[&str]| {
        let url = format!("http://wiki.localhost{path}");
        let told = told(&site, &[&[url.as_str()], more].concat());
        (told["status"].clone(), told["reason"].as_str().unwrap().to_owned())
    };
    let (anna, ben) = (&["--user", "anna@example.test"][..], &["--user", "ben@example.test"][..]);
    let refused = (json!(503), "maintenance".to_owned());
    let forwarded = (Value::Null, "forwarded".to_owned());
    maintenance("{}");
    for path in ["/", "/open/a"] {
        for more in [&[][..], anna, &["--token", "x"]] {
            assert_eq!(answer(path, more), refused, "{path} {more:?}");
        }
    }
    maintenance("{ groups = [\"staff\"] }");
    for path in ["/", "/open/a"] {
        assert_eq!(answer(path, anna), forwarded, "{path}");
        assert_eq!(answer(path, ben), refused, "{path}");
    }
    for path in ["/", "/open/a"] {
        assert_eq!(answer(path, &["--token", &annas]), forwarded, "{path}");
        assert_eq!(answer(path, &["--token", &bens]), refused, "{path}");
    }
    assert_eq!(answer("/", &[]), (json!(302), "unauthenticated".into()));
    assert_eq!(answer("/", &["--token", "x"]), (json!(401), "invalid_token".into()));
    for more in [&[][..], &["--token", "x"]] {
        assert_eq!(answer("/open/a", more), refused, "{more:?}");
    }
    let told = told(&site, &["http://wiki.localhost/open/a"]);
    assert!(told["advice"].as_str().unwrap().starts_with("remove `maintenance` of the application"), "{told}");
}

#[test]
fn explain_names_the_audience_that_matched() {
    let site = site();
    let text = fs::read_to_string(site.config()).unwrap();
    let resource = "name = \"wiki\"\nscopes = { read = \"Read\" }\n";
    fs::write(site.config(), text.replace("name = \"wiki\"\n", resource)).unwrap();
    let arguments = ["user", "add", "anna@example.test", "--name", "x", "--group", "staff", "--password-stdin"];
    let sub = site.json_with(&arguments, PASSWORD)["sub"].as_str().unwrap().to_owned();
    let redirect = ["--redirect-uri", "http://localhost:9/cb"];
    site.json(&[&["client", "add", "web", "--name", "Web", "--type", "public"][..], &redirect].concat());
    let (issuer, wiki, other) = ("http://localhost:8080", "http://wiki.localhost:8080", "http://shop.localhost:8080");
    for (aud, matched) in [
        (json!(issuer), Some(issuer)),
        (json!(wiki), Some(wiki)),
        (json!([wiki, issuer]), Some(wiki)),
        (json!([other, issuer]), None),
        (json!(other), None),
    ] {
        let claims = json!({
            "iss": issuer, "sub": sub, "aud": aud, "exp": 4_000_000_000_u64, "iat": 1, "jti": "j", "client_id": "web",
            "scope": "openid read", "auth_time": 1, "acr": "1", "amr": ["pwd"], "grant_id": "g",
        });
        let token = jwt::assemble(
            &jwt::signing_input(jwt::ACCESS_TOKEN, Algorithm::Rs256, "kid", &claims).unwrap(),
            b"not looked at",
        );
        let arguments = ["http://wiki.localhost:8080/", "--token", &token];
        let told = told(&site, &arguments);
        assert_eq!(told.get("audience").and_then(Value::as_str), matched, "{told}");
        assert_eq!(told["reason"], if matched.is_some() { "forwarded" } else { "audience" }, "{told}");
        let text = site.run(&[&["explain"][..], &arguments].concat(), "");
        let line = matched.map(|matched| format!("\naudience:  {matched}\n"));
        let text = String::from_utf8(text.stdout).unwrap();
        assert_eq!(text.contains("audience:  "), line.is_some(), "{text}");
        assert!(line.is_none_or(|line| text.contains(&line)), "{text}");
    }
}

#[test]
fn explain_lists_identity_headers_and_their_sources() {
    let site = Site::new();
    let text = fs::read_to_string(site.config()).unwrap();
    let told_of = r#"
        [[app]]
        name = "wiki"
        host = "wiki.localhost"
        upstreams = ["http://127.0.0.1:8081"]
        identity_headers = { Remote-User = "username", X-Id = "sub", X-Name = "name", X-Teams = "groups" }
        names = "NAMES"
        assertion = true
        authorization = "replace"
        [[app.route]]
        path = "/"
        access = "signed_in"
        [[app.route]]
        path = "/open/"
        access = "public"
    "#;
    let names = |names: &str| fs::write(site.config(), format!("{text}{}", told_of.replace("NAMES", names))).unwrap();
    names("utf8");
    let arguments = ["user", "add", "anna@example.test", "--name", "Ayşe", "--password-stdin"];
    let sub = site.json_with(&arguments, PASSWORD)["sub"].as_str().unwrap().to_owned();
    let arguments = ["http://wiki.localhost/", "--user", "anna@example.test"];
    let header = |name: &str, from: &str, sent: bool, value: Option<&str>| json!({ "name": name, "from": from, "sent": sent, "value": value });
    let expected = |user: Value, name: &str, groups: Value| {
        let signed = ["x-sealgate-assertion", "authorization"].map(|name| header(name, "assertion", true, None));
        let [assertion, authorization] = signed;
        json!([
            user,
            header("x-id", "sub", true, Some(&sub)),
            header("x-name", "name", true, Some(name)),
            groups,
            assertion,
            authorization
        ])
    };
    let without = header("x-teams", "groups", false, None);
    let address = header("remote-user", "email", true, Some("anna@example.test"));
    assert_eq!(told(&site, &arguments)["identity_headers"], expected(address, "Ayşe", without));
    site.text(&["user", "set", "anna@example.test", "--username", "anna", "--group", "staff"]);
    names("iso-8859-9");
    let username = header("remote-user", "username", true, Some("anna"));
    let groups = header("x-teams", "groups", true, Some("staff"));
    assert_eq!(told(&site, &arguments)["identity_headers"], expected(username, "Ay\\xfee", groups));
    let text = site.text(&[&["explain"][..], &arguments].concat());
    for line in [
        "header:    remote-user: anna  (username)\n",
        "header:    x-teams: staff  (groups)\n",
        "header:    x-sealgate-assertion: signed for each request  (assertion)\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // Requests to a public path and refused requests carry no identity headers.
    let open = ["http://wiki.localhost/open/", "--user", "anna@example.test"];
    for arguments in [&open[..], &["http://wiki.localhost/"]] {
        assert_eq!(told(&site, arguments)["identity_headers"], json!([]), "{arguments:?}");
    }
}

#[test]
fn explain_checks_the_claims_of_a_token() {
    let site = site();
    let arguments = ["user", "add", "anna@example.test", "--name", "x", "--password-stdin"];
    let sub = site.json_with(&arguments, PASSWORD)["sub"].as_str().unwrap().to_owned();
    let redirect = ["--redirect-uri", "http://localhost:9/cb"];
    site.json(&[&["client", "add", "web", "--name", "Web", "--type", "public"][..], &redirect].concat());
    let token = |scope: &str, exp: u64, typ| token(&sub, scope, exp, typ);
    let judged = |token: &str| {
        let told = site.json_with(&["explain", "http://wiki.localhost/api/x", "--token", "-"], token);
        (told["reason"].as_str().unwrap().to_owned(), told["claim"].as_str().unwrap_or_default().to_owned())
    };
    let pair = |reason: &str, claim: &str| (reason.to_owned(), claim.to_owned());
    let future = 4_000_000_000;
    assert_eq!(judged(&token("openid profile", future, jwt::ACCESS_TOKEN)), pair("forwarded", ""));
    assert_eq!(judged(&token("openid", future, jwt::ACCESS_TOKEN)), pair("scope", "scope"));
    assert_eq!(judged(&token("openid profile", 2, jwt::ACCESS_TOKEN)), pair("invalid_token", "exp"));
    assert_eq!(judged(&token("openid profile", future, jwt::ASSERTION)), pair("invalid_token", "typ"));
    assert_eq!(judged("rubbish"), pair("invalid_token", ""));
}

#[test]
fn explain_checks_a_foreign_token_under_the_issuers_settings() {
    let site = Site::new();
    let text = fs::read_to_string(site.config()).unwrap();
    let trusted = r#"
        [[trusted_issuer]]
        name = "corp"
        issuer = "https://login.corp.test/"
        audiences = ["https://api.test"]
        groups_claim = "groups"
        [[app]]
        name = "shop"
        host = "shop.localhost"
        upstreams = ["http://127.0.0.1:8082"]
        trusted_issuers = ["corp"]
        [[app.route]]
        path = "/"
        access = "bearer"
        groups = ["corp:staff"]
    "#;
    fs::write(site.config(), text + APPS + trusted).unwrap();
    let token = |typ, name: &str, value: Value| {
        let mut claims = json!({
            "iss": "https://login.corp.test/", "sub": "17", "aud": "https://api.test", "exp": 4_000_000_000_u64,
            "groups": ["staff"],
        });
        claims[name] = value;
        jwt::assemble(&jwt::signing_input(typ, Algorithm::Rs256, "kid", &claims).unwrap(), b"not looked at")
    };
    let judged = |host: &str, token: &str| {
        let told = site.json_with(&["explain", &format!("http://{host}/"), "--token", "-"], token);
        (told["reason"].as_str().unwrap().to_owned(), told["claim"].as_str().unwrap_or_default().to_owned())
    };
    let pair = |reason: &str, claim: &str| (reason.to_owned(), claim.to_owned());
    let sound = token(jwt::ACCESS_TOKEN, "sub", json!("17"));
    assert_eq!(judged("shop.localhost", &sound), pair("forwarded", ""));
    assert_eq!(judged("wiki.localhost", &sound), pair("invalid_token", "iss"));
    for (typ, name, value, expected) in [
        (jwt::ACCESS_TOKEN, "groups", json!(["other"]), pair("group", "groups")),
        (jwt::ACCESS_TOKEN, "aud", json!("https://x.test"), pair("invalid_token", "aud")),
        (jwt::ACCESS_TOKEN, "exp", json!(1), pair("invalid_token", "exp")),
        (jwt::ACCESS_TOKEN, "iss", json!("https://evil.test"), pair("invalid_token", "")),
        (jwt::ID_TOKEN, "sub", json!("17"), pair("invalid_token", "typ")),
    ] {
        assert_eq!(judged("shop.localhost", &token(typ, name, value)), expected, "{name}");
    }
    assert!(!site.store_directory().exists(), "no local user was read");
}

#[test]
fn explain_uses_the_level_that_the_user_has_reached() {
    let site = site();
    let text = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), text + "[[app.route]]\npath = \"/vault/\"\naccess = \"signed_in\"\nacr = [\"2\"]\n")
        .unwrap();
    site.add_user("anna@example.test");
    let url = "http://wiki.localhost/vault/x";
    for (level, reason) in
        [(&[][..], "acr"), (&["--level=1"], "acr"), (&["--level=2"], "forwarded"), (&["--level=phr"], "forwarded")]
    {
        let arguments = [&[url, "--user", "anna@example.test"], level].concat();
        assert_eq!(told(&site, &arguments)["reason"], reason, "{level:?}");
    }
    let without = site.run(&["explain", url, "--level=2"], "");
    assert_eq!(without.status.code(), Some(2), "a token has a level of its own: {}", stderr(&without));
    assert_eq!(site.run(&["explain", url, "--user=a@b.test", "--level=4"], "").status.code(), Some(2));
}

#[test]
fn explain_shows_the_upstream_and_its_path() {
    let site = Site::new();
    let text = fs::read_to_string(site.config()).unwrap();
    let app = r#"
        [[app]]
        name = "apps"
        host = "apps.localhost"
        upstreams = ["http://127.0.0.1:8081"]
        [[app.route]]
        path = "/handbook/"
        access = "public"
        upstreams = ["http://127.0.0.1:8082", "unix:/run/handbook.sock"]
        upstream_protocol = "h2"
        upstream_path = "/"
    "#;
    fs::write(site.config(), format!("{text}{app}")).unwrap();
    let url = "http://apps.localhost/handbook/a?b";
    let told = told(&site, &[url]);
    let servers = json!(["http://127.0.0.1:8082", "unix:/run/handbook.sock"]);
    assert_eq!((&told["upstreams"], &told["upstream_path"]), (&servers, &json!("/a")));
    let text = String::from_utf8(site.run(&["explain", url], "").stdout).unwrap();
    assert!(text.contains("\nupstream:  http://127.0.0.1:8082 unix:/run/handbook.sock /a\nprotocol:  h2\n"), "{text}");
    assert_eq!(told["upstream_protocol"], "h2");
    let listed = site.json(&["app", "list"]);
    assert!(listed.to_string().contains("127.0.0.1:8082"), "{listed}");
    assert_eq!(listed["apps"][0]["upstream_protocol"], "http/1.1");
}
