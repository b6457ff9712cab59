//! Tests that one revocation ends every access of a user: sessions at ten applications, application
//! passwords and tokens, and a session at an application with its own login form.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::Value;

use crate::gate::access_token;
use crate::lasting::{app_password, closes, streams, websocket_at};
use crate::support::login_app::{LoginApp, RECIPE};
use crate::support::{Browser, Instance, Settings, until};

const ANNA: &str = "anna@example.test";
const SERVICE_PASSWORD: &str = "service-pass-word-1";
const APPS: usize = 10;
/// Deadline of a refusal. The test prints the measured time.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server with ten applications, and one with its own login form at `app.localhost`.
struct World {
    instance: Instance,
    login_app: LoginApp,
    browser: Browser,
    /// Application passwords, one for each of the ten.
    passwords: Vec<String>,
    token: String,
}

impl World {
    async fn start() -> Self {
        let login_app = LoginApp::start(&[("svc", SERVICE_PASSWORD)]);
        let mut sections = format!(
            "[[app]]\nname = \"wiki\"\nhost = \"app.localhost\"\nupstreams = [\"{}\"]\n\
             login = {{ recipe = \"recipe.toml\", username = \"svc\", password_file = \"service.password\" }}\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n",
            login_app.url()
        );
        let upstream = streams();
        for number in 0..APPS {
            write!(
                sections,
                "[[app]]\nname = \"app{number}\"\nhost = \"app{number}.localhost\"\nupstreams = [\"http://{upstream}\"]\n\
                 [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\napp_passwords = true\n"
            )
            .unwrap();
        }
        let mut instance = Instance::bare(&Settings::default());
        let file = instance.directory.path().join("service.password");
        fs::write(&file, format!("{SERVICE_PASSWORD}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(instance.directory.path().join("recipe.toml"), RECIPE).unwrap();
        instance.configure(&Settings { sections, ..Settings::default() });
        instance.run(&["key", "generate"]);
        instance.add_anna();
        let secret = instance.add_confidential_client("web");
        instance.start();
        let browser = Browser::new(&instance);
        assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);
        let mut passwords = Vec::new();
        for number in 0..APPS {
            assert_eq!(browser.go(&format!("{}/", origin(&instance, number))).await.status, 200);
            passwords.push(app_password(&browser, &instance, &format!("app{number}"), "program").await);
        }
        let token = access_token(&instance, &secret, "openid profile").await;
        let world = Self { instance, login_app, browser, passwords, token };
        for request in world.requests() {
            assert_eq!(request.1.send().await.unwrap().status(), 200, "{}", request.0);
        }
        assert_eq!(world.login_app.sessions(), 1);
        world
    }

    /// Returns a request of each way into each application, with a description.
    fn requests(&self) -> Vec<(String, RequestBuilder)> {
        let program = Browser::new(&self.instance);
        let mut requests =
            vec![("session, login form".to_owned(), self.browser.client().get(self.instance.app_url("/")))];
        for (number, password) in self.passwords.iter().enumerate() {
            let url = format!("{}/", origin(&self.instance, number));
            requests.push((format!("session, {number}"), self.browser.client().get(&url)));
            let basic = program.client().get(&url).basic_auth(ANNA, Some(password));
            requests.push((format!("application password, {number}"), basic));
            requests.push((format!("token, {number}"), program.client().get(&url).bearer_auth(&self.token)));
        }
        requests
    }

    fn accesses(&self) -> Vec<Value> {
        let list = self.instance.json(&["user", "list-accesses", ANNA]);
        list["open_accesses"].as_array().unwrap().clone()
    }
}

fn origin(instance: &Instance, number: usize) -> String {
    format!("http://app{number}.localhost:{}", instance.port)
}

/// Returns the time at which the request was refused.
async fn refused_at(what: String, request: RequestBuilder) -> Instant {
    let end = Instant::now() + DEADLINE;
    loop {
        let status = request.try_clone().unwrap().send().await.unwrap().status();
        if status == 401 {
            return Instant::now();
        }
        assert!(status == 200 && Instant::now() < end, "{what}: {status}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disabled_user_is_refused_at_ten_applications_in_every_way() {
    let world = World::start().await;
    let socket = websocket_at(&origin(&world.instance, 0), &world.browser).await;
    // Two browsers, the sessions at eleven applications, a client and the application passwords.
    assert_eq!(world.accesses().len(), 2 + (APPS + 1) + 1 + APPS, "{:?}", world.accesses());
    let mut waiting = tokio::task::JoinSet::new();
    for (what, request) in world.requests() {
        waiting.spawn(refused_at(what, request));
    }
    waiting.spawn(async {
        tokio::time::timeout(DEADLINE, closes(socket)).await.expect("the WebSocket closes");
        Instant::now()
    });
    let begun = Instant::now();
    tokio::task::block_in_place(|| world.instance.run(&["user", "disable", ANNA]));
    let returned = begun.elapsed();
    let last = waiting.join_all().await.into_iter().max().unwrap().duration_since(begun);
    until("signed out at the application", async || world.login_app.sessions() == 0).await;
    let signed_out = begun.elapsed();
    println!(
        "from the start of `sealgate user disable`: it returned after {returned:?}, the last of {} ways and a \
         WebSocket was refused after {last:?}, the application with a login form was signed out of after {signed_out:?}",
        3 * APPS + 1
    );
    assert_eq!(world.login_app.sign_outs(), 1);
    // Only the consent to the client is left.
    let left = world.accesses();
    assert!(left.len() == 1 && left[0]["target"] == "web" && left[0]["tokens"].is_null(), "{left:?}");
}

/// A sign-out ends sessions. Tokens and application passwords stay, as the specification says.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_ends_the_sessions_at_ten_applications() {
    let world = World::start().await;
    let socket = websocket_at(&origin(&world.instance, 0), &world.browser).await;
    let page = world.browser.open(&world.instance.url("/oauth/logout")).await;
    world.browser.submit(&page, &[]).await;
    tokio::time::timeout(DEADLINE, closes(socket)).await.unwrap();
    for (what, request) in world.requests() {
        let expected = if what.starts_with("session") { 401 } else { 200 };
        assert_eq!(request.send().await.unwrap().status(), expected, "{what}");
    }
    until("signed out at the application", async || world.login_app.sessions() == 0).await;
    assert_eq!(world.login_app.sign_outs(), 1);
    // The other browser, the client and the application passwords.
    assert_eq!(world.accesses().len(), 1 + 1 + APPS, "{:?}", world.accesses());
}

/// The session that the gateway holds at an application ends with the session of the row.
#[tokio::test(flavor = "multi_thread")]
async fn one_session_at_an_application_can_be_ended() {
    let world = World::start().await;
    let accesses = world.accesses();
    let row = accesses.iter().find(|access| access["target"] == "wiki").unwrap();
    assert_eq!((&row["kind"], &row["has_app_login"]), (&"app_session".into(), &true.into()), "{row}");
    assert_eq!(row["address"], "127.0.0.1", "{row}");
    world.instance.run(&["session", "revoke", row["id"].as_str().unwrap()]);
    for (what, request) in world.requests() {
        let expected = if what == "session, login form" { 401 } else { 200 };
        assert_eq!(request.send().await.unwrap().status(), expected, "{what}");
    }
    until("signed out at the application", async || world.login_app.sessions() == 0).await;
    assert_eq!(world.login_app.sign_outs(), 1);
    // The browser is still signed in, so it can open the application again.
    assert_eq!(world.browser.open(&world.instance.app_url("/")).await.status, 200);
    assert_eq!((world.login_app.sign_ins(), world.login_app.sessions()), (2, 1));
}
