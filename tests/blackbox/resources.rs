//! Tests tokens for one application with curl: a job without a user, over HTTP/1.1, HTTP/2 and
//! forward authentication.

use std::process::Command;

use serde_json::Value;

use crate::support::{Instance, Settings, Upstream, wait_until};

/// Returns the settings of two applications with this upstream.
fn applications(upstream: &Upstream) -> String {
    let url = upstream.url();
    format!(
        r#"
        [forward_auth]
        trusted = ["127.0.0.1"]
        [[app]]
        name = "wiki"
        host = "wiki.localhost"
        upstreams = ["{url}"]
        scopes = {{ "wiki:read" = "Read pages", "wiki:write" = "Change pages" }}
        [[app.route]]
        path = "/"
        access = "signed_in"
        groups = ["backup"]
        [[app.route]]
        path = "/edit/"
        access = "bearer"
        scopes = ["wiki:write"]
        [[app]]
        name = "shop"
        host = "shop.localhost"
        upstreams = ["{url}"]
        [[app.route]]
        path = "/"
        access = "signed_in"
        "#
    )
}

/// Runs curl without checking the certificate. Returns the status and the body.
fn curl(instance: &Instance, arguments: &[&str]) -> (u16, String) {
    let port = instance.port;
    let hosts = ["localhost", "wiki.localhost", "shop.localhost"];
    let resolve = hosts.iter().flat_map(|host| ["--resolve".to_owned(), format!("{host}:{port}:127.0.0.1")]);
    let output = Command::new("curl")
        .args(["-sSk", "--max-time", "10", "-w", "\n%{http_code} %{http_version}"])
        .args(resolve)
        .args(arguments)
        .output()
        .expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, end) = text.rsplit_once('\n').unwrap();
    let (status, version) = end.split_once(' ').unwrap();
    let wanted = if arguments.contains(&"--http2") { "2" } else { "1.1" };
    assert_eq!(version, wanted);
    (status.parse().unwrap(), body.to_owned())
}

/// Requests a token with the client's secret, as a cron job does.
fn token(instance: &Instance, secret: &str) -> (u16, Value) {
    let url = format!("https://localhost:{}/oauth/token", instance.port);
    let (user, resource) = (format!("backup:{secret}"), format!("resource=https://wiki.localhost:{}", instance.port));
    let form = ["-d", "grant_type=client_credentials", "--data-urlencode", &resource];
    let (status, body) = curl(instance, &[&["--http1.1", "-u", &user][..], &form, &[&url]].concat());
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn a_job_with_a_secret_reaches_its_application_and_no_other_over_every_protocol() {
    let upstream = Upstream::start();
    let mut instance = Instance::prepare(&Settings { sections: applications(&upstream), ..Settings::default() });
    instance.speak_tls();
    let add = ["client", "add", "backup", "--name", "Nightly backup", "--type", "confidential"];
    let service = ["--service", "wiki=wiki:read", "--service-group", "backup"];
    let added = instance.json(&[&add[..], &service].concat());
    assert_eq!((&added["grant_types"], &added["redirect_uris"]), (&serde_json::json!([]), &serde_json::json!([])));
    let secret = added["client_secret"].as_str().unwrap().to_owned();
    instance.start();

    let (status, tokens) = token(&instance, &secret);
    assert_eq!((status, tokens.get("refresh_token")), (200, None), "{tokens}");
    let port = instance.port;
    let bearer = format!("Authorization: Bearer {}", tokens["access_token"].as_str().unwrap());
    let wiki = format!("https://wiki.localhost:{port}/json");
    for version in ["--http1.1", "--http2"] {
        let (status, body) = curl(&instance, &[version, "-H", &bearer, &wiki]);
        assert!(status == 200 && body.contains("client:backup") && body.contains("Nightly backup"), "{body}");
        assert!(!body.contains(tokens["access_token"].as_str().unwrap()), "{body}");
        let edit = format!("https://wiki.localhost:{port}/edit/a");
        assert_eq!(curl(&instance, &[version, "-H", &bearer, &edit]).0, 403);
        let shop = format!("https://shop.localhost:{port}/json");
        let (status, body) = curl(&instance, &[version, "-H", &bearer, &shop]);
        assert!(status == 401 && body.contains("invalid_token"), "{body}");
        // A reverse proxy asks for each of the applications.
        for (app, status) in [("wiki", 200), ("shop", 401)] {
            let host = format!("X-Forwarded-Host: {app}.localhost");
            let auth = format!("https://localhost:{port}/.sealgate/auth?app={app}");
            let fields =
                ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Uri: /a", &host, &bearer];
            let fields = fields.into_iter().chain(["X-Forwarded-Method: GET"]).flat_map(|field| ["-H", field]);
            let arguments: Vec<_> = [version].into_iter().chain(fields).chain([auth.as_str()]).collect();
            assert_eq!(curl(&instance, &arguments).0, status, "{app}");
        }
    }

    // The operator sees the grant, and ends it: at once, although the token has not expired.
    let grants = instance.json(&["grant", "list", "--client", "backup"]);
    let grant = &grants["grants"][0];
    assert_eq!(grant["resource"]["id"], format!("https://wiki.localhost:{port}"), "{grants}");
    assert_eq!(grant.get("sub"), None, "{grants}");
    instance.run(&["grant", "revoke-all", "--client", "backup"]);
    let is_refused = || curl(&instance, &["--http2", "-H", &bearer, &wiki]).0 == 401;
    wait_until("the revoked token is refused", is_refused);
    assert_eq!(token(&instance, &secret).0, 200);
    instance.run(&["client", "disable", "backup"]);
    let (status, refused) = token(&instance, &secret);
    assert_eq!((status, &refused["error"]), (401, &Value::from("invalid_client")));
    assert_eq!(instance.stop(), Some(0));
}
