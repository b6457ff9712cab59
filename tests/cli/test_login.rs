//! `sealgate app test-login`, against a small application with a login form and against hostile
//! ones.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::site::{Site, run, stderr};

const RECIPE: &str = r#"
page = "/app/login"
fields = { user = "{user}", pass = "{password}" }
probe = "/app/me"
user_in_body = true
success = { status = [200], body = "signed in as" }
failure = { status = [200], body = "id=.login-error" }
"#;

const PASSWORD: &str = "correct horse+&%ü";

/// A request, as the application received it.
struct Received {
    /// Method and target.
    line: String,
    cookies: Vec<String>,
    body: String,
    user_agent: String,
}

/// Creates a response from a request and the application's address.
type Answer = fn(&Received, &str) -> Vec<u8>;

/// An application on a port of its own.
struct App {
    address: String,
    received: Arc<Mutex<Vec<String>>>,
}

impl App {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let app = Self { address: address.clone(), received: Arc::default() };
        let received = Arc::clone(&app.received);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.unwrap();
                let request = read(&connection);
                received.lock().unwrap().push(format!("{} {}", request.line, request.body));
                // The program stops reading a page that is too long.
                let _ = (&connection).write_all(&answer(&request, &address));
            }
        });
        app
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// Runs the command with this password.
    fn sign_in(&self, password: &str, options: &[&str]) -> Output {
        let site = Site::new();
        let recipe = site.config().with_file_name("recipe.toml");
        fs::write(&recipe, RECIPE).unwrap();
        let upstream = format!("http://{}", self.address);
        let arguments = ["app", "test-login", recipe.to_str().unwrap(), "--upstream", &upstream, "--username", "anna"];
        let mut program = site.program(&[&arguments, options].concat());
        // The password must not pass a proxy.
        run(program.env("http_proxy", "http://127.0.0.1:9").env("HTTP_PROXY", "http://127.0.0.1:9"), password)
    }

    /// Runs the command, which must fail, and returns its error message.
    fn error(&self) -> String {
        let output = self.sign_in(PASSWORD, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
        assert_no_secrets(&output);
        stderr(&output).strip_prefix("error: ").unwrap().trim_end().to_owned()
    }
}

fn read(connection: &TcpStream) -> Received {
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let header = |name: &str| {
        let mut lines = head.iter().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Received {
        line: head.first().map(|line| line.trim_end_matches(" HTTP/1.1").to_owned()).unwrap_or_default(),
        cookies: header("cookie")
            .into_iter()
            .flat_map(|all| all.split("; ").map(str::to_owned).collect::<Vec<_>>())
            .collect(),
        body: String::from_utf8(body).unwrap(),
        user_agent: header("user-agent").unwrap_or_default(),
    }
}

fn reply(status: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    let status = format!("HTTP/1.1 {status}");
    let head = [&[&status, "Connection: close", &length], headers].concat();
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

const FORM: &str = "<form action='/search'><input name=q></form>\
    <form method='post' action='check'><input type='hidden' name='csrf' value='t&#43;k/=&quot;'>\
    <input name='user'><input type='password' name='pass'><button name='go'>Sign in</button></form>";

const GOOD_BODY: &str = "csrf=t%2Bk%2F%3D%22&user=anna&pass=correct+horse%2B%26%25%C3%BC&go=";

/// Application that rotates its session at the sign-in, and has a cookie for the path of the form only.
fn application(request: &Received, address: &str) -> Vec<u8> {
    let has = |cookie: &str| request.cookies.iter().any(|other| other == cookie);
    match request.line.as_str() {
        "GET /app/login" => reply("302 Found", &["Location: /app/login/form?t=s1"], ""),
        "GET /app/login/form?t=s1" => {
            reply("200 OK", &["Set-Cookie: sid=before; Path=/app", "Set-Cookie: form=f1; HttpOnly"], FORM)
        }
        "POST /app/login/check" if !has("sid=before") || !has("form=f1") => reply("403 Forbidden", &[], "no cookies"),
        "POST /app/login/check" if request.body != GOOD_BODY => reply("200 OK", &[], "<p id='login-error'>"),
        "POST /app/login/check" => {
            let location = format!("Location: http://{address}/app/?ticket=s2");
            reply("303 See Other", &[&location, "Set-Cookie: sid=after; Path=/app"], "")
        }
        "GET /app/?ticket=s2" => reply("200 OK", &[], "home"),
        "GET /app/me" if has("sid=after") && !has("form=f1") => reply("200 OK", &[], "signed in as <b>anna</b>"),
        _ => reply("404 Not Found", &[], ""),
    }
}

fn assert_no_secrets(output: &Output) {
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output);
    for secret in ["correct", "horse", "t+k", "t%2Bk", "before", "after", "f1", "s1", "s2"] {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
}

#[test]
fn a_user_is_signed_in_and_each_request_is_shown() {
    let app = App::start(application);
    let output = app.sign_in(PASSWORD, &[]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let expected = "page: GET /app/login: 302 to /app/login/form\n\
        redirect: GET /app/login/form: 200; cookies sid, form\n\
        form: POST /app/login/check: 303 to /app/; fields csrf, user, pass, go; cookies sid\n\
        redirect: GET /app/: 200\n\
        probe: GET /app/me: 200\n\
        signed in as anna, cookies: form, sid\n";
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), expected);
    assert_no_secrets(&output);
    let output = app.sign_in(PASSWORD, &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((value["result"].as_str(), value["error"].as_str()), (Some("signed_in"), None));
    assert_eq!(value["steps"][2]["fields"], serde_json::json!(["csrf", "user", "pass", "go"]));
    assert_no_secrets(&output);
}

/// Some applications refuse programs, or bind a session to the `User-Agent`.
#[test]
fn the_requests_have_the_user_agent_of_a_browser_or_of_the_option() {
    fn browser(request: &Received, address: &str) -> Vec<u8> {
        assert!(request.user_agent.starts_with("Mozilla/5.0 "), "{}", request.user_agent);
        application(request, address)
    }
    fn other(request: &Received, address: &str) -> Vec<u8> {
        assert_eq!(request.user_agent, "Probe 1");
        application(request, address)
    }
    assert_eq!(App::start(browser).sign_in(PASSWORD, &[]).status.code(), Some(0));
    assert_eq!(App::start(other).sign_in(PASSWORD, &["--user-agent", "Probe 1"]).status.code(), Some(0));
    assert_eq!(App::start(other).sign_in(PASSWORD, &["--user-agent", "a\nb"]).status.code(), Some(1));
}

#[test]
fn a_wrong_password_is_sent_once() {
    let app = App::start(application);
    let output = app.sign_in("wrong", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: the application reports a wrong username or password"));
    assert_eq!(app.received().iter().filter(|line| line.starts_with("POST")).count(), 1);
    let output = app.sign_in("wrong", &["--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((value["result"].as_str(), value["may_retry"].as_bool()), (Some("wrong_password"), Some(false)));
}

#[test]
fn the_public_host_is_an_origin_of_the_application() {
    fn answer(request: &Received, address: &str) -> Vec<u8> {
        match request.line.as_str() {
            "GET /app/login" => reply("302 Found", &["Location: https://wiki.example.test/app/login/form?t=s1"], ""),
            _ => application(request, address),
        }
    }
    let app = App::start(answer);
    let output = app.sign_in(PASSWORD, &["--host", "wiki.example.test"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(
        app.error().ends_with("redirects to https://wiki.example.test/app/login/form, which is not at the upstream")
    );
}

/// Another server, which must not receive a request.
fn other() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener.local_addr().unwrap().to_string(), listener)
}

static OTHER: Mutex<String> = Mutex::new(String::new());

#[test]
fn an_application_cannot_send_the_password_elsewhere() {
    fn in_form(_: &Received, _: &str) -> Vec<u8> {
        let action = format!("http://{}/steal?q=s1", OTHER.lock().unwrap());
        reply("200 OK", &[], &FORM.replace("'check'", &action))
    }
    fn by_base(_: &Received, _: &str) -> Vec<u8> {
        reply("200 OK", &[], &format!("<base href='http://{}/'>{FORM}", OTHER.lock().unwrap()))
    }
    fn by_redirect(_: &Received, _: &str) -> Vec<u8> {
        reply("302 Found", &[&format!("Location: //{}/steal?q=s1", OTHER.lock().unwrap())], "")
    }
    fn again(request: &Received, address: &str) -> Vec<u8> {
        let to = format!("Location: http://{}/steal", OTHER.lock().unwrap());
        if request.line.starts_with("POST") {
            reply("307 Temporary Redirect", &[&to], "")
        } else {
            application(request, address)
        }
    }
    let (address, listener) = other();
    OTHER.lock().unwrap().clone_from(&address);
    for (answer, told) in [
        (in_form as Answer, format!("would send the password to http://{address}/steal, which is not at the upstream")),
        (by_base, format!("would send the password to http://{address}/, which is not at the upstream")),
        (by_redirect, format!("redirects to http://{address}/steal, which is not at the upstream")),
        (again, "requests to send the password again (status 307)".to_owned()),
    ] {
        let error = App::start(answer).error();
        assert!(error.ends_with(&told), "{error}");
    }
    assert!(listener.accept().is_err(), "the other server received a connection");
}

#[test]
fn an_application_cannot_hold_the_sign_in() {
    fn endless(request: &Received, _: &str) -> Vec<u8> {
        reply("302 Found", &[&format!("Location: {}x", request.line.trim_start_matches("GET "))], "")
    }
    fn large(_: &Received, _: &str) -> Vec<u8> {
        reply("200 OK", &[], &"<p>".repeat(10 << 20))
    }
    fn flood(request: &Received, address: &str) -> Vec<u8> {
        if request.line != "GET /app/login/form?t=s1" {
            return application(request, address);
        }
        let cookies: Vec<String> =
            (0..60).map(|number| format!("Set-Cookie: n{number}={}; Path=/", "v".repeat(80))).collect();
        let cookies: Vec<&str> = cookies.iter().map(String::as_str).collect();
        reply("200 OK", &cookies, FORM)
    }
    let app = App::start(endless);
    assert_eq!(app.error(), "the application sent more than 6 redirects");
    assert!(app.received().len() <= 8);
    let started = Instant::now();
    let error = App::start(large).error();
    assert!(error.starts_with("GET /app/login: ") && started.elapsed() < Duration::from_secs(10), "{error}");
    // The session's cookies are missing, and the flood is bounded.
    let app = App::start(flood);
    let error = app.error();
    assert!(error.starts_with("the response to the probe /app/me (status 404)"), "{error}");
}

#[test]
fn a_recipe_or_argument_with_an_error_sends_nothing() {
    let site = Site::new();
    let recipe = site.config().with_file_name("recipe.toml");
    let (address, listener) = other();
    let upstream = format!("http://{address}");
    let errors = |text: &str, upstream: &str| {
        fs::write(&recipe, text).unwrap();
        let arguments = ["app", "test-login", recipe.to_str().unwrap(), "--upstream", upstream, "--username", "anna"];
        site.errors(&arguments, PASSWORD)
    };
    let told = errors(&RECIPE.replace("/app/login", "http://evil.test/"), &upstream);
    assert!(told.len() == 1 && told[0].contains("recipe.toml: page: \"http://evil.test/\" is not a path"), "{told:?}");
    let told = errors(RECIPE, &format!("{upstream}/path"));
    assert!(told.len() == 1 && told[0].contains("is not an upstream; write scheme, host and port"), "{told:?}");
    assert!(listener.accept().is_err());
}

#[test]
fn each_shipped_recipe_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/logins");
    let (address, _listener) = other();
    let site = Site::new();
    let mut number = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        // Nothing is read from standard input after an error in the recipe.
        let upstream = format!("http://{address}");
        let arguments = ["app", "test-login", file.to_str().unwrap(), "--upstream", &upstream, "--username", "anna"];
        assert_eq!(site.errors(&arguments, ""), ["standard input has no password"], "{}", file.display());
        number += 1;
    }
    assert_eq!(number, 16);
}
