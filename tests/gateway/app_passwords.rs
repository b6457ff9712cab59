//! Tests application passwords: HTTP Basic for programs, on routes that allow it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::user::{User, UserState};
use sealgate_domain::username::Username;
use sealgate_store::{AddOutcome, AppPasswordAdded, RenameOutcome};
use sealgate_system::clock::Clock;

use crate::browser::Browser;
use crate::records;
use crate::world::{ANNA, BEN, PASSWORD, Reply, World};

pub(crate) const APPS: &str = r#"
    [[app]]
    name = "git"
    host = "git.test"
    upstreams = ["http://127.0.0.1:8090"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    app_passwords = true
    [[app.route]]
    path = "/staff/"
    access = "signed_in"
    groups = ["staff"]
    app_passwords = true
    [[app.route]]
    path = "/web/"
    access = "signed_in"
    [[app.route]]
    path = "/open/"
    access = "public"

    [[app]]
    name = "files"
    host = "files.test"
    upstreams = ["http://127.0.0.1:8091"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    app_passwords = true

    [[app]]
    name = "photos"
    host = "photos.test"
    upstreams = ["http://127.0.0.1:8092"]
    app_password_header = "X-App-Password"
    [[app.route]]
    path = "/"
    access = "signed_in"
    app_passwords = true
    [[app.route]]
    path = "/open/"
    access = "public"
    [[app.route]]
    path = "/web/"
    access = "signed_in"
"#;

async fn world() -> World {
    World::with(APPS).await
}

/// Creates an application password of this user. Returns its secret and id.
pub(crate) async fn made(world: &World, user: &User, app: &str) -> (String, String) {
    let random = sealgate_system::clock::random(&sealgate_system::clock::OsEntropy);
    let (password, secret) = AppPassword::new(app, "a program", AssuranceLevel::One, &random, world.clock.now());
    assert_eq!(world.sealgate.store.add_app_password(user.sub, &password).await.unwrap(), AppPasswordAdded::Yes);
    (secret.expose().to_owned(), password.id())
}

pub(crate) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// A password is as strong as the sign-in that created it. A level that comes into force later
/// refuses it, and says why.
#[tokio::test]
async fn an_application_password_of_a_weak_sign_in_ends_when_the_level_rises() {
    let world = World::with(&format!("{APPS}\n[factors]\ngroups = {{ strong = \"2\" }}")).await;
    let (weak, _) = made(&world, &world.anna, "git").await;
    let random = sealgate_system::clock::random(&sealgate_system::clock::OsEntropy);
    let (password, strong) = AppPassword::new("git", "two", AssuranceLevel::Two, &random, world.clock.now());
    assert_eq!(world.sealgate.store.add_app_password(world.anna.sub, &password).await.unwrap(), AppPasswordAdded::Yes);
    let with = async |secret: &str| ask(&world, "https://git.test/x", &basic(ANNA, secret)).await;
    with(&weak).await.arrived();
    with(strong.expose()).await.arrived();
    let strengthen = |user: &mut User| user.groups.extend(["strong".to_owned()]);
    world.sealgate.store.change_user(world.anna.sub, strengthen).await.unwrap();
    with(&weak).await.assert_refused(401, "insufficient_user_authentication");
    with(strong.expose()).await.arrived();
}

async fn ask(world: &World, url: &str, authorization: &str) -> Reply {
    world.call("GET", url, &[("authorization", authorization)]).await
}

#[track_caller]
fn assert_challenged(reply: &Reply) {
    reply.assert_refused(401, "login_required");
    assert_eq!(reply.header("www-authenticate"), Some("Basic realm=\"git\", charset=\"UTF-8\""));
    assert_eq!(reply.header("set-cookie"), None);
}

#[tokio::test]
async fn a_program_signs_in_with_address_or_username_and_its_password_is_not_forwarded() {
    let world = world().await;
    let (password, _) = made(&world, &world.anna, "git").await;
    let named = |user: &mut User| user.username = Username::parse("anna");
    assert!(matches!(
        world.sealgate.store.rename_user(world.anna.sub, named).await.unwrap(),
        RenameOutcome::Renamed(_)
    ));
    for name in [ANNA, "anna", "ANNA", "Anna@Example.test", "anna ", " anna@example.test\t"] {
        for (method, path) in
            [("GET", "/repo.git/info/refs?service=git-upload-pack"), ("PROPFIND", "/repo.git/"), ("PUT", "/staff/x")]
        {
            let fields = [("authorization", basic(name, &password)), ("cookie", "a=b".to_owned())];
            let fields = fields.each_ref().map(|(field, value)| (*field, value.as_str()));
            let reply = world.call(method, &format!("https://git.test{path}"), &fields).await;
            assert_eq!(reply.arrived(), ("git", path));
            assert_eq!(reply.header("x-forwarded-user"), Some(world.anna.sub.to_string().as_str()));
            assert_eq!((reply.header("authorization"), reply.header("cookie")), (None, Some("a=b")));
        }
    }
    // The scheme is case-insensitive, and padding is optional.
    let bare = STANDARD.encode(format!("{ANNA}:{password}")).trim_end_matches('=').to_owned();
    for scheme in ["basic", "BASIC"] {
        ask(&world, "https://git.test/", &format!("{scheme} {bare}")).await.arrived();
    }
    // The last use is written with the next heartbeat.
    let used = async || world.sealgate.store.app_passwords(world.anna.sub).await.unwrap().passwords[0].last_used_at;
    assert_eq!(used().await, None);
    world.site.note_uses().await;
    assert_eq!(used().await, Some(world.clock.now()));
}

/// A disk takes as long for one write as for all that are queued, so they are written together.
#[tokio::test]
async fn uses_of_many_application_passwords_are_written_concurrently() {
    const PEOPLE: u8 = 70;
    let world = world().await;
    let store = &world.sealgate.store;
    let mut people = Vec::new();
    for number in 100..100 + PEOPLE {
        let address = format!("p{number}@example.test");
        let user = records::person(number, &address, "Somebody", world.clock.now());
        assert_eq!(store.add_user(&user).await.unwrap(), AddOutcome::Added);
        let (password, _) = made(&world, &user, "git").await;
        ask(&world, "https://git.test/", &basic(&address, &password)).await.arrived();
        people.push(user.sub);
    }
    assert_eq!(world.meddler.most_in_flight(), 1);
    world.site.note_uses().await;
    let most = world.meddler.most_in_flight();
    assert!((32..=64).contains(&most), "{most} at once");
    for sub in people {
        let used = store.app_passwords(sub).await.unwrap().passwords[0].last_used_at;
        assert_eq!(used, Some(world.clock.now()));
    }
}

#[tokio::test]
async fn wrong_application_passwords_are_refused() {
    let world = world().await;
    let (of_git, _) = made(&world, &world.anna, "git").await;
    let (of_files, _) = made(&world, &world.anna, "files").await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://git.test/", ANNA).await;
    for wrong in [
        basic(ANNA, PASSWORD),
        basic(ANNA, &of_files),
        basic(BEN, &of_git),
        basic("nobody@example.test", &of_git),
        basic("", &of_git),
        basic(ANNA, ""),
        basic(ANNA, &of_git.to_uppercase()),
        basic(ANNA, &format!("{of_git} ")),
        basic("admın", &of_git),
        "Basic".to_owned(),
        "Basic ".to_owned(),
        "Basic !".to_owned(),
        format!("Basic {}", STANDARD.encode("no colon")),
        format!("Basic {}", STANDARD.encode([0xff, b':', 0xfe])),
        format!("Basic {}", "A".repeat(4000)),
    ] {
        // A navigation or a cookie in the request does not change the response.
        for fields in
            [vec![], vec![("accept", "text/html"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]]
        {
            let fields: Vec<(&str, &str)> = fields.into_iter().chain([("authorization", wrong.as_str())]).collect();
            assert_challenged(&browser.send("GET", "https://git.test/", &fields, "").await);
        }
    }
    // If the rule does not allow application passwords, the password counts as no credential.
    let right = basic(ANNA, &of_git);
    ask(&world, "https://git.test/web/", &right).await.assert_refused(401, "login_required");
    ask(&world, "https://wiki.test/", &right).await.assert_refused(401, "login_required");
    // The password is never forwarded to the application.
    assert_eq!(ask(&world, "https://git.test/open/x", &right).await.header("authorization"), None);
    let reply = browser.send("GET", "https://git.test/web/", &[("authorization", &right)], "").await;
    assert_eq!((reply.arrived().0, reply.header("authorization")), ("git", None));
    let twice = [("authorization", right.as_str()), ("authorization", right.as_str())];
    world.call("GET", "https://git.test/", &twice).await.assert_refused(401, "invalid_token");
    // Rules apply to application passwords too.
    let (of_ben, _) = made(&world, &world.ben, "git").await;
    let ben = basic(BEN, &of_ben);
    ask(&world, "https://git.test/", &ben).await.arrived();
    ask(&world, "https://git.test/staff/", &ben).await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn revoked_tokens_and_tokens_of_disabled_users_end_at_once() {
    let world = world().await;
    let store = &world.sealgate.store;
    let answer = async |password: &str| ask(&world, "https://git.test/", &basic(ANNA, password)).await;
    let (one, id) = made(&world, &world.anna, "git").await;
    let (other, _) = made(&world, &world.anna, "git").await;
    answer(&one).await.arrived();
    let standing = store.access_counter(world.anna.sub);
    store.revoke_app_password(world.anna.sub, &id).await.unwrap().unwrap();
    assert!(store.access_counter(world.anna.sub) > standing, "open connections are checked again");
    assert_challenged(&answer(&one).await);
    answer(&other).await.arrived();
    store.change_user(world.anna.sub, |user| user.state = UserState::Disabled).await.unwrap();
    assert_challenged(&answer(&other).await);
    store.change_user(world.anna.sub, |user| user.state = UserState::Enabled).await.unwrap();
    answer(&other).await.arrived();
    store
        .revoke_user(world.anna.sub, sealgate_domain::grant::EndReason::Administrator, world.clock.now())
        .await
        .unwrap();
    assert_challenged(&answer(&other).await);
}

#[tokio::test]
async fn only_programs_get_a_basic_challenge() {
    let world = world().await;
    let challenges = async |fields: &[(&str, &str)]| {
        let reply = world.call("GET", "https://git.test/repo.git/", fields).await;
        reply.assert_refused(401, "login_required");
        let values = reply.headers.get_all("www-authenticate").iter();
        values.map(|value| value.to_str().unwrap().split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(challenges(&[("accept", "*/*"), ("user-agent", "git/2.39.5")]).await, ["Basic"]);
    assert_eq!(challenges(&[("user-agent", "skopeo/1.18.0")]).await, ["Basic"]);
    let java = ("accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2");
    assert_eq!(challenges(&[java, ("user-agent", "Java/1.8.0_432")]).await, ["Basic"]);
    assert_eq!(challenges(&[("sec-fetch-mode", "cors"), ("user-agent", "node")]).await, ["Basic"]);
    assert_eq!(challenges(&[("sec-fetch-mode", "cors"), ("sec-fetch-site", "same-origin")]).await, ["Bearer"]);
    assert_eq!(challenges(&[("x-requested-with", "XMLHttpRequest")]).await, ["Bearer"]);
    let page = world.call("GET", "https://git.test/", &[("accept", "text/html")]).await;
    assert_eq!(page.answered_with(), 302, "a person signs in as ever");
}

#[tokio::test]
async fn wrong_application_passwords_are_limited_and_valid_ones_still_work() {
    let world = World::with(&format!("{APPS}\n[login]\nfailures_per_address = 3")).await;
    let (password, _) = made(&world, &world.anna, "git").await;
    let url = "https://git.test/";
    for _ in 0..3 {
        assert_challenged(&ask(&world, url, &basic(ANNA, "wrong")).await);
    }
    let reply = ask(&world, url, &basic(ANNA, "wrong")).await;
    reply.assert_refused(429, "rate_limit_exceeded");
    assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    ask(&world, url, &basic(ANNA, &password)).await.arrived();
    // The sign-in page has a separate limit.
    Browser::new(&world).sign_in_at("https://git.test/", ANNA).await.arrived();
}

#[tokio::test]
async fn a_password_in_a_header_leaves_authorization_to_the_application() {
    let world = world().await;
    let (password, _) = made(&world, &world.anna, "photos").await;
    let (other, _) = made(&world, &world.anna, "git").await;
    let given = format!("{ANNA}:{password}");
    let at = |path: &str| format!("https://photos.test{path}");
    // The application's own token is forwarded, and the password is not.
    for own in ["Bearer a.b.c", "Basic dTpw", "Token abc"] {
        let fields = [("x-app-password", given.as_str()), ("authorization", own)];
        let reply = world.call("GET", &at("/api"), &fields).await;
        assert_eq!(reply.arrived(), ("photos", "/api"), "{own}");
        assert_eq!((reply.header("authorization"), reply.header("x-app-password")), (Some(own), None));
        assert_eq!(reply.header("x-forwarded-user"), Some(world.anna.sub.to_string().as_str()));
    }
    // An access token of this server gives access to other applications, so it is never forwarded.
    let token = format!("Bearer {}", world.access_token("openid").await);
    let fields = [("x-app-password", given.as_str()), ("authorization", token.as_str())];
    assert_eq!(world.call("GET", &at("/api"), &fields).await.header("authorization"), None);
    // The header is removed on every path, in every spelling.
    for (path, name) in [("/open/x", "x-app-password"), ("/open/x", "x_app_password"), ("/api", "x_app-password")] {
        let fields = [("x-app-password", given.as_str()), (name, given.as_str())];
        let fields = if name == "x-app-password" { &fields[..1] } else { &fields[..] };
        let reply = world.call("GET", &at(path), fields).await;
        assert_eq!(reply.arrived().0, "photos");
        assert!(reply.headers.values().all(|value| !value.as_bytes().ends_with(password.as_bytes())), "{reply:?}");
    }
    let wrong = [
        format!("{BEN}:{password}"),
        format!("{ANNA}:{other}"),
        format!("{ANNA}:"),
        password.clone(),
        basic(ANNA, &password),
        String::new(),
    ];
    for value in &wrong {
        let reply = world.call("GET", &at("/api"), &[("x-app-password", value)]).await;
        reply.assert_refused(401, "login_required");
        assert_eq!(reply.header("www-authenticate"), None, "{value}");
    }
    let twice = [("x-app-password", given.as_str()), ("x-app-password", given.as_str())];
    world.call("GET", &at("/api"), &twice).await.assert_refused(401, "login_required");
    // A password does not open a path whose rule does not accept it, nor an application over Basic.
    let fields = [("x-app-password", given.as_str())];
    world.call("GET", &at("/web/x"), &fields).await.assert_refused(401, "login_required");
    let reply = ask(&world, &at("/api"), &basic(ANNA, &password)).await;
    reply.assert_refused(401, "login_required");
    assert!(!reply.header("www-authenticate").unwrap_or_default().contains("Basic"), "{reply:?}");
    world.call("GET", "https://git.test/", &fields).await.assert_refused(401, "login_required");
}
