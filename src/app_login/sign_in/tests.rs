use std::sync::Mutex;

use http::StatusCode;
use sealgate_domain::time::UnixTime;

use super::*;

const RECIPE: &str = r#"
page = "/login"
fields = { name = "{user}", pass = "{password}", realm = "local" }
extract = { js = 'token = "([^"]+)"' }
probe = "/me"
user_in_body = true
success = { status = [200], body = "Welcome" }
failure = { status = [200], body = "wrong" }
"#;

const FORM: &str = r#"<script>token = "j+s"</script><form method="post" action="/check;s=1?x=1">
<input type="hidden" name="csrf" value="a&amp;b"><input name="realm"><input name="name">
<input name="pass" type="password"><button name="go" value="1">Sign in</button></form>"#;

type Reply = Response<Vec<u8>>;

/// An application that answers from a function, and records the requests.
struct App<F> {
    answer: F,
    received: Mutex<Vec<String>>,
}

impl<F: Fn(&LoginRequest) -> Result<Reply, String> + Sync> LoginExchange for App<F> {
    async fn exchange(&self, request: LoginRequest) -> Result<Reply, String> {
        assert!(request.timeout <= STEP_TIMEOUT);
        let header = |name| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (host, cookie, body) = (header(HOST), header(COOKIE), String::from_utf8_lossy(&request.body));
        let line = format!("{} {} {host} [{cookie}] {body}", request.method, request.url);
        self.received.lock().unwrap().push(line);
        (self.answer)(&request)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other answers are errors")]
fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Result<Reply, String> {
    let mut reply = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        reply = reply.header(*name, *value);
    }
    Ok(reply.body(body.as_bytes().to_vec()).unwrap())
}

/// An application that fits the recipe.
fn good(request: &LoginRequest) -> Result<Reply, String> {
    match request.url.path() {
        "/login" => reply(200, &[("set-cookie", "sid=early"), ("content-type", "text/html")], FORM),
        "/check;s=1" => reply(302, &[("location", "http://app.test/home?t=secret"), ("set-cookie", "sid=late")], ""),
        "/home" => reply(200, &[], "home"),
        "/me" => reply(200, &[], "Welcome, anna."),
        other => panic!("{other}"),
    }
}

async fn run<F: Fn(&LoginRequest) -> Result<Reply, String> + Sync>(
    recipe: &str,
    user: &str,
    answer: F,
) -> (LoginOutcome, Vec<String>, Vec<LoginStep>) {
    let recipe = LoginRecipe::parse(recipe).unwrap();
    let target = LoginTarget::new("http://127.0.0.1:81").unwrap().with_public("app.test", true).unwrap();
    let password = Secret::new("s3cr&t ü");
    let login = AppLogin { recipe: &recipe, target: &target, user, password: &password };
    let app = App { answer, received: Mutex::default() };
    let now = UnixTime::from_seconds(1_700_000_000);
    let mut steps = Vec::new();
    let outcome = sign_in(login, &app, now, &mut |step| steps.push(step)).await;
    let output = format!("{outcome:?} {steps:?}");
    for secret in ["s3cr", "a&b", "j+s", "early", "late", "t=secret"] {
        assert!(!output.contains(secret), "{secret}: {output}");
    }
    (outcome, app.received.into_inner().unwrap(), steps)
}

/// Runs a sign-in to an application that answers one path differently.
async fn with(path: &str, other: impl Fn() -> Result<Reply, String> + Sync) -> (LoginOutcome, Vec<String>) {
    let (outcome, received, _) =
        run(RECIPE, "anna", |request| if request.url.path() == path { other() } else { good(request) }).await;
    (outcome, received)
}

async fn fault(path: &str, other: impl Fn() -> Result<Reply, String> + Sync) -> (String, bool) {
    match with(path, other).await.0 {
        LoginOutcome::Failed(fault) => (fault.line, fault.may_retry),
        outcome => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn a_user_is_signed_in() {
    let (outcome, received, steps) = run(RECIPE, "anna", good).await;
    let LoginOutcome::SignedIn(jar) = outcome else { panic!("{outcome:?}") };
    assert_eq!(jar.header("/", UnixTime::from_seconds(1_700_000_000)).unwrap().as_str(), "sid=late");
    let expected = [
        "GET http://127.0.0.1:81/login app.test [] ",
        "POST http://127.0.0.1:81/check;s=1?x=1 app.test [sid=early] \
         csrf=a%26b&realm=local&name=anna&pass=s3cr%26t+%C3%BC&go=1&js=j%2Bs",
        "GET http://127.0.0.1:81/home?t=secret app.test [sid=late] ",
        "GET http://127.0.0.1:81/me app.test [sid=late] ",
    ];
    assert_eq!(received, expected);
    let form = &steps[1];
    assert_eq!(
        (form.kind, form.path.as_str(), form.location.as_deref()),
        (LoginStepKind::Form, "/check", Some("/home"))
    );
    assert_eq!(form.fields, ["csrf", "realm", "name", "pass", "go", "js"]);
    assert_eq!(form.cookies, ["sid"]);
}

#[tokio::test]
async fn a_wrong_password_is_not_an_error() {
    let (outcome, received) = with("/check;s=1", || reply(200, &[], "wrong")).await;
    assert!(matches!(outcome, LoginOutcome::WrongPassword) && received.len() == 2, "{received:?}");
    let (outcome, _) = with("/home", || reply(200, &[], "wrong")).await;
    assert!(matches!(outcome, LoginOutcome::WrongPassword), "after a redirect");
}

#[tokio::test]
async fn the_failure_marker_counts_only_after_the_password() {
    let page = format!("{FORM} wrong");
    let (outcome, _) = with("/login", || reply(200, &[], &page)).await;
    assert!(matches!(outcome, LoginOutcome::SignedIn(_)));
}

#[tokio::test]
async fn the_probe_decides() {
    let (line, may_retry) = fault("/me", || reply(302, &[("location", "/login")], "Welcome, anna")).await;
    assert!(line.contains("the probe /me (status 302)") && !may_retry, "{line}");
    for page in ["Welcome, annabel", "Welcome, bob", "Welcome, joanna"] {
        let (line, _) = fault("/me", || reply(200, &[], page)).await;
        assert!(line.contains("does not contain the username"), "{line}");
    }
}

#[tokio::test]
async fn a_later_probe_decides_for_the_user_of_the_session_only() {
    let recipe = LoginRecipe::parse(RECIPE).unwrap();
    let target = LoginTarget::new("http://127.0.0.1:81").unwrap();
    for (user, body, is_open) in
        [("anna", "Welcome, anna.", true), ("anna", "Welcome, bob.", false), ("anna", "anna, sign in", false)]
    {
        let app = App { answer: |_: &LoginRequest| reply(200, &[], body), received: Mutex::default() };
        let now = UnixTime::from_seconds(1_700_000_000);
        let (outcome, _) = probe(&recipe, &target, user, CookieJar::default(), &app, now).await.unwrap();
        assert_eq!(outcome, is_open, "{body}");
    }
}

#[tokio::test]
async fn the_password_reaches_no_other_origin() {
    for action in ["http://evil.test/x?y=z", "//evil.test/x", "https://app.test:444/x", "http://127.0.0.1:82/x"] {
        let (outcome, received) = with("/login", || reply(200, &[], &FORM.replace("/check;s=1", action))).await;
        let LoginOutcome::Failed(fault) = outcome else { panic!("{outcome:?}") };
        assert!(fault.line.contains("would send the password to") && !fault.line.contains("y=z"), "{fault:?}");
        assert!(received.len() == 1 && fault.may_retry);
    }
    let page = format!("<base href='http://evil.test/'>{}", FORM.replace("/check;s=1", "check"));
    let (line, _) = fault("/login", || reply(200, &[], &page)).await;
    assert!(line.contains("would send the password to http://evil.test/"), "{line}");
    let get = FORM.replace("method=\"post\"", "");
    let (line, _) = fault("/login", || reply(200, &[], &get)).await;
    assert!(line.contains("uses GET"), "{line}");
    for status in [307, 308] {
        let (outcome, received) = with("/check;s=1", || reply(status, &[("location", "/again")], "")).await;
        let LoginOutcome::Failed(fault) = outcome else { panic!("{outcome:?}") };
        assert!(fault.line.contains("send the password again") && !fault.may_retry && received.len() == 2, "{fault:?}");
    }
}

#[tokio::test]
async fn redirects_stay_at_the_upstream_and_end() {
    for path in ["/login", "/check;s=1"] {
        let (outcome, received) = with(path, || reply(302, &[("location", "http://10.0.0.1/p?q=secret")], "")).await;
        let LoginOutcome::Failed(fault) = outcome else { panic!("{outcome:?}") };
        assert!(fault.line.ends_with("redirects to http://10.0.0.1/p, which is not at the upstream"), "{fault:?}");
        assert!(received.iter().all(|line| line.contains(" http://127.0.0.1:81/")), "{received:?}");
    }
    let (outcome, received) = with("/login", || reply(302, &[("location", "/login")], "")).await;
    let LoginOutcome::Failed(fault) = outcome else { panic!("{outcome:?}") };
    assert!(fault.line.contains("more than 6 redirects") && received.len() <= 8, "{fault:?} {received:?}");
}

#[tokio::test]
async fn errors_of_the_application_may_be_tried_again() {
    for path in ["/login", "/check;s=1", "/home", "/me"] {
        let (line, may_retry) = fault(path, || reply(503, &[], "wrong")).await;
        assert!(line.ends_with("answered with the status 503") && may_retry, "{line}");
        let (line, may_retry) = fault(path, || Err("timeout".to_owned())).await;
        // The application may have counted a password although its answer did not arrive.
        assert!(line.ends_with(": timeout") && may_retry == (path != "/check;s=1"), "{line}");
    }
    let (line, may_retry) = fault("/login", || reply(200, &[], "Maintenance")).await;
    assert!(line.starts_with("/login (status 200): the login page has no form") && may_retry, "{line}");
    let (line, _) = fault("/login", || reply(200, &[], &FORM.replace("token", "x"))).await;
    assert_eq!(line, "extract.js: no text of the login page matches");
    let (line, _) = fault("/login", || reply(200, &[], &"x".repeat(MAX_PAGE_BYTES + 1))).await;
    assert!(line.contains("more than 1048576 bytes"), "{line}");
}

#[tokio::test]
async fn names_that_cannot_be_sent_are_refused() {
    for user in ["a\r\nb", "a\0"] {
        let (outcome, received, _) = run(RECIPE, user, good).await;
        assert!(matches!(outcome, LoginOutcome::Failed(_)) && received.is_empty());
    }
    let latin = || reply(200, &[("content-type", "text/html; Charset=\"ISO-8859-9\"")], FORM);
    let (line, _) = fault("/login", latin).await;
    assert!(line.contains("the encoding iso-8859-9"), "{line}");
}

#[tokio::test]
async fn a_form_drawn_by_a_script_is_sent_to_its_action() {
    let recipe = format!("form = {{ action = '/check;s=1' }}{RECIPE}");
    let (outcome, received, _) = run(&recipe, "anna", good).await;
    assert!(matches!(outcome, LoginOutcome::SignedIn(_)), "{outcome:?}");
    assert!(received[1].ends_with(" js=j%2Bs&name=anna&pass=s3cr%26t+%C3%BC&realm=local"), "{received:?}");
}

#[tokio::test]
async fn debug_output_has_no_secrets() {
    let answer = |request: &LoginRequest| {
        assert_eq!(format!("{request:?}").split(' ').count(), 2);
        assert!(!format!("{request:?} {:?}", request.headers).contains("sid="));
        good(request)
    };
    run(RECIPE, "anna", answer).await;
}

#[test]
fn names_are_found_as_words() {
    for (page, name) in [("<b>anna</b>", "anna"), ("o&#39;neil", "o'neil"), ("a&amp;b", "a&b"), ("(Şule)", "Şule")] {
        assert!(contains_name(page, name), "{page}");
    }
    for (page, name) in [("hanna", "anna"), ("anna1", "anna"), ("anything", "")] {
        assert!(!contains_name(page, name), "{page}");
    }
}
