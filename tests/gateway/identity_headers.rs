//! Tests the identity headers that applications configure.

use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;

use crate::browser::Browser;
use crate::world::{ANNA, World};

const APPS: &str = r#"
    [[app]]
    name = "intranet"
    host = "intranet.test"
    upstreams = ["http://127.0.0.1:8087"]
    identity_headers = { Remote-User = "username", X-Staff-Mail = "email", X-Teams = "groups", x-id = "sub" }
    pass_headers = ["X-User-Token"]
    groups_delimiter = "|"
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/open/"
    access = "public"

    [[app]]
    name = "calendar"
    host = "calendar.test"
    upstreams = ["http://127.0.0.1:8088"]
    preset = "radicale"
    [[app.route]]
    path = "/"
    access = "signed_in"

    [[app]]
    name = "billing"
    host = "billing.test"
    upstreams = ["http://127.0.0.1:8086"]
    request_headers = { X-Tenant = "7", Authorization = "Basic Z2F0ZTpnYXRl" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/open/"
    access = "public"

    [[app]]
    name = "boards"
    host = "boards.test"
    upstreams = ["http://127.0.0.1:8089"]
    preset = "grafana"
    groups_delimiter = "|"
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

/// Identity headers of other gateways, servers and frameworks, each in spellings that some server
/// treats as the same.
const FORGED: &[&str] = &[
    "remote-user",
    "Remote_User",
    "remote.user",
    "REMOTE-USER",
    "x-remote-user",
    "X_Remote_User",
    "x-remote_groups",
    "x-auth-request-user",
    "x_auth_request_email",
    "x-auth-request-access-token",
    "x-webauth-user",
    "X_WEBAUTH_ROLE",
    "x-authenticated-user",
    "x-authenticated",
    "x-authenticated-groups",
    "ssl-client-s-dn",
    "SSL_CLIENT_S_DN",
    "x-user",
    "x_user",
    "x-user-id",
    "x-username",
    "x-email",
    "x-forwarded-user",
    "x-forwarded-preferred-username",
    "oidc_claim_sub",
    "x-authentik-username",
    "cf-access-authenticated-user-email",
    "tailscale-user-login",
    "x-ms-client-principal-name",
    "x-goog-authenticated-user-email",
    "shib-identity-provider",
    "eppn",
    "sm_user",
    "iv-user",
    "auth_user",
    "logon-user",
    "http_remote_user",
    "redirect_remote_user",
    "x-proxy-remote-user",
    // Headers of the application itself.
    "x-staff-mail",
    "x_staff_mail",
    "X-Staff_Mail",
    "x-teams",
    "x.teams",
    "x-id",
    // A permitted header in other spellings.
    "x_user_token",
    "x-user_token",
];

#[tokio::test]
async fn an_application_receives_only_its_configured_identity_headers() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://intranet.test/", ANNA).await;
    let reply = browser.fetch("https://intranet.test/").await;
    assert_eq!(reply.arrived().0, "intranet");
    assert_eq!(reply.header("remote-user"), Some(ANNA), "without a username it is the address");
    assert_eq!(reply.header("x-staff-mail"), Some(ANNA));
    assert_eq!(reply.header("x-teams"), Some("a,b|staff"));
    assert_eq!(reply.header("x-id"), Some(world.anna.sub.to_string().as_str()));
    for name in ["x-forwarded-user", "x-forwarded-email", "x-forwarded-name", "x-forwarded-groups"] {
        assert_eq!(reply.header(name), None, "{name}");
    }
    let reply = browser.open("https://boards.test/").await;
    let told = ["user", "email", "name", "groups"].map(|what| reply.header(&format!("x-webauth-{what}")));
    assert_eq!(told, [Some(ANNA), Some(ANNA), Some("Anna Şahin"), Some("a,b|staff")]);
}

#[tokio::test]
async fn a_new_username_is_forwarded_with_the_next_request() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://calendar.test/", ANNA).await;
    assert_eq!(browser.fetch("https://calendar.test/").await.header("x-remote-user"), Some(ANNA));
    let name = Username::parse("anna").unwrap();
    let named = |user: &mut User| user.username = Some(name.clone());
    let outcome = world.sealgate.store.rename_user(world.anna.sub, named).await.unwrap();
    assert!(matches!(outcome, RenameOutcome::Renamed(_)));
    assert_eq!(browser.fetch("https://calendar.test/").await.header("x-remote-user"), Some("anna"));
    assert_eq!(browser.open("https://intranet.test/").await.header("x-staff-mail"), Some(ANNA));
}

#[tokio::test]
async fn a_user_without_an_address_is_forwarded_without_address_headers() {
    let world = World::with(APPS).await;
    let remove_address = |user: &mut User| {
        (user.email, user.email_verified, user.username) = (None, false, Username::parse("anna"));
    };
    let outcome = world.sealgate.store.rename_user(world.anna.sub, remove_address).await.unwrap();
    assert!(matches!(outcome, RenameOutcome::Renamed(_)));
    let browser = Browser::new(&world);
    browser.sign_in_at("https://intranet.test/", "anna").await;
    let reply = browser.fetch("https://intranet.test/").await;
    assert_eq!(reply.arrived().0, "intranet");
    assert_eq!((reply.header("remote-user"), reply.header("x-staff-mail")), (Some("anna"), None));
    assert_eq!(reply.header("x-id"), Some(world.anna.sub.to_string().as_str()));
    let reply = browser.open("https://boards.test/").await;
    let told = ["user", "email", "name", "groups"].map(|what| reply.header(&format!("x-webauth-{what}")));
    assert_eq!(told, [Some("anna"), None, Some("Anna Şahin"), Some("a,b|staff")]);
    let reply = browser.open("https://wiki.test/").await;
    assert_eq!((reply.arrived().0, reply.header("x-forwarded-email")), ("wiki", None));
}

#[tokio::test]
async fn forged_identity_headers_are_removed() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    let forged: Vec<(&str, &str)> = FORGED.iter().map(|name| (*name, "forged")).collect();
    browser.sign_in_at("https://intranet.test/", ANNA).await;
    for host in ["intranet.test", "calendar.test", "boards.test", "wiki.test"] {
        browser.open(&format!("https://{host}/")).await.arrived();
        let reply = browser.send("GET", &format!("https://{host}/"), &forged, "").await;
        reply.arrived();
        for (name, value) in &reply.headers {
            // These headers have no meaning for the other applications.
            let own = host != "intranet.test" && ["x-staff-mail", "x-teams", "x-id"].contains(&name.as_str());
            assert!(own || value != "forged", "{host}: {name}");
        }
    }
    // A public path has no identity headers.
    let reply = world.call("GET", "https://intranet.test/open/", &forged).await;
    reply.arrived();
    assert!(reply.headers.values().all(|value| value != "forged"), "{reply:?}");
}

#[tokio::test]
async fn a_forged_user_name_does_not_reach_the_calendar() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://calendar.test/", ANNA).await;
    let fields = [("x-remote-user", "ceo"), ("X_REMOTE_USER", "ceo"), ("authorization", "Basic Y2VvOmNlbw==")];
    let reply = browser.send("GET", "https://calendar.test/ceo/", &fields, "").await;
    reply.arrived();
    assert_eq!(reply.header("x-remote-user"), Some(ANNA));
    assert_eq!((reply.header("x_remote_user"), reply.header("authorization")), (None, None));
}

#[tokio::test]
async fn headers_in_pass_headers_are_forwarded() {
    let world = World::with(APPS).await;
    let fields = [("x-user-token", "t1"), ("x-user-agent", "grpc")];
    let reply = world.call("GET", "https://intranet.test/open/", &fields).await;
    reply.arrived();
    assert_eq!((reply.header("x-user-token"), reply.header("x-user-agent")), (Some("t1"), Some("grpc")));
    let reply = world.call("GET", "https://wiki.test/public/", &fields).await;
    assert_eq!((reply.header("x-user-token"), reply.header("x-user-agent")), (None, Some("grpc")));
}

#[tokio::test]
async fn clients_cannot_send_the_fixed_headers_of_an_application() {
    let world = World::with(APPS).await;
    let forged = [
        ("x-tenant", "forged"),
        ("X_Tenant", "forged"),
        ("x.tenant", "forged"),
        ("X-TENANT_", "forged"),
        ("authorization", "Basic Zm9yZ2VkOmZvcmdlZA=="),
        ("authorization_", "forged"),
    ];
    let browser = Browser::new(&world);
    browser.sign_in_at("https://billing.test/", ANNA).await;
    let url = "https://billing.test/";
    for reply in
        [browser.send("GET", url, &forged, "").await, world.call("GET", "https://billing.test/open/", &forged).await]
    {
        assert_eq!(reply.arrived().0, "billing");
        for (name, value) in &reply.headers {
            assert!(!String::from_utf8_lossy(value.as_bytes()).contains("forged") && name != "authorization", "{name}");
        }
    }
    // Another application still receives its own.
    let reply = world.call("GET", "https://intranet.test/open/", &forged[..1]).await;
    assert_eq!(reply.header("x-tenant"), Some("forged"));
}
