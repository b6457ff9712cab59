//! Tests the program's surroundings: unavailable upstreams, certificates, plain HTTP.

use std::fs;
use std::process::Command;

use crate::support::{Browser, Instance, Settings, Upstream, free_port, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn an_unresolvable_upstream_is_answered_with_502() {
    let upstream = Some("http://no-such-host.invalid:8081".to_owned());
    let instance = Instance::started(&Settings { upstream, ..Settings::default() });
    let browser = Browser::new(&instance);
    let ask =
        |accept: &'static str| browser.client().get(instance.app_url("/public/x")).header("accept", accept).send();
    let answer = ask("*/*").await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.json::<serde_json::Value>().await.unwrap()["error"], "bad_gateway");
    let page = ask("text/html").await.unwrap();
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (502, &"text/html; charset=utf-8".parse().unwrap())
    );
    instance.tells("the upstream's host name does not resolve");
}

fn openssl(directory: &std::path::Path, name: &str, names: &str) {
    openssl_for(directory, name, names, 20);
}

fn openssl_for(directory: &std::path::Path, name: &str, names: &str, days: u32) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days"])
        .arg(days.to_string())
        .args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName={names}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-out", &format!("{name}.pem"), "-keyout", &format!("{name}.key")])
        .current_dir(directory)
        .output()
        .expect("openssl");
    assert!(made.status.success());
}

/// Runs curl. Returns the head, in lower case, and the body.
fn curl(instance: &Instance, arguments: &[&str]) -> (String, String) {
    let directory = instance.directory.path();
    let output =
        Command::new("curl").args(["-sSi", "--max-time", "10"]).args(arguments).current_dir(directory).output();
    let output = output.expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn each_host_has_its_own_certificate_and_plain_http_is_redirected_to_https() {
    let upstream = Upstream::start();
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream.url()), ..Settings::default() });
    openssl(instance.directory.path(), "provider", "DNS:localhost");
    openssl(instance.directory.path(), "app", "DNS:app.localhost");
    openssl(instance.directory.path(), "anna", "DNS:anna");
    let (port, plain) = (instance.port, free_port());
    let text = fs::read_to_string(instance.config()).unwrap().replace("issuer = \"http://", "issuer = \"https://");
    let front = format!(
        "[server]\nredirect_listen = [\"127.0.0.1:{plain}\"]\nhsts_seconds = 86400\nclient_ca = \"anna.pem\"\n\
         client_certificates = \"optional\"\ntls = [{{ certificate = \"provider.pem\", key = \"provider.key\" }}, \
         {{ certificate = \"app.pem\", key = \"app.key\" }}]"
    );
    fs::write(instance.config(), text.replace("[server]", &front)).unwrap();
    assert!(!instance.run(&["check"]).contains("warning"));
    openssl_for(instance.directory.path(), "app", "DNS:app.localhost", 5);
    assert!(instance.run(&["check"]).contains("app.pem expires in "));
    instance.start();
    wait_until("the log tells of it", || instance.log().contains("a certificate expires soon"));
    let (_, metrics) = curl(&instance, &[&instance.admin_url("/metrics")]);
    assert_eq!(metrics.matches("sealgate_tls_certificate_not_after_timestamp_seconds{file=").count(), 2, "{metrics}");

    let at = |host: &str, port: u16| format!("{host}:{port}:127.0.0.1");
    let (provider, app) = (at("localhost", port), at("app.localhost", port));
    for version in ["--http1.1", "--http2"] {
        let url = format!("https://localhost:{port}/oauth/jwks");
        let (head, _) = curl(&instance, &[version, "--cacert", "provider.pem", "--resolve", &provider, &url]);
        assert!(head.contains(" 200") && head.contains("strict-transport-security: max-age=86400"), "{head}");
        let url = format!("https://app.localhost:{port}/public/json");
        let ask = [version, "--cacert", "app.pem", "--resolve", &app, "-H", "X_Sealgate_Client_Subject: CN=root", &url];
        let (head, body) = curl(&instance, &ask);
        assert!(head.contains(" 200") && head.contains("strict-transport-security: max-age=86400"), "{head}");
        assert!(!body.to_lowercase().contains("client"), "{body}");
        let (_, body) = curl(&instance, &[&ask[..], &["--cert", "anna.pem", "--key", "anna.key"]].concat());
        assert!(body.contains("CN=anna") && !body.contains("CN=root"), "{body}");
    }

    for (host, place) in [("localhost", "localhost"), ("app.localhost", "app.localhost")] {
        let url = format!("http://{host}:{plain}/reports?q=1");
        let (head, _) = curl(&instance, &["--resolve", &at(host, plain), &url]);
        let location = format!("location: https://{place}:{port}/reports?q=1");
        assert!(head.starts_with("http/1.1 308") && head.contains(&location), "{head}");
        assert!(!head.contains("strict-transport-security"), "{head}");
    }
    let url = format!("http://127.0.0.1:{plain}/.well-known/openid-configuration");
    let (head, body) = curl(&instance, &[&url]);
    assert!(
        head.starts_with("http/1.1 421") && !head.contains("location") && body.contains("invalid_request"),
        "{head}"
    );
    assert_eq!(instance.stop(), Some(0));
}
