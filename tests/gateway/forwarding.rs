//! What the application sees of a request.

use crate::browser::Browser;
use crate::world::{ANNA, World};

const FORGED: [(&str, &str); 20] = [
    ("x-forwarded-user", "forged"),
    ("x_forwarded_user", "forged"),
    ("x-forwarded_email", "forged"),
    ("x.forwarded.groups", "forged"),
    ("x-forwarded-name", "forged"),
    ("x-forwarded-preferred-username", "forged"),
    ("x-forwarded-access-token", "forged"),
    ("x-sealgate-assertion", "forged"),
    ("x_sealgate_user", "forged"),
    ("x-forwarded-for", "forged"),
    ("x-forwarded-host", "forged"),
    ("x-forwarded-proto", "forged"),
    ("x-real-ip", "forged"),
    ("forwarded", "for=forged"),
    ("x-original-url", "/forged"),
    ("X_Rewrite_URL", "/forged"),
    ("x-forwarded-uri", "/forged"),
    ("x-forwarded-prefix", "/forged"),
    ("x-script-name", "/forged"),
    ("proxy", "http://forged.test"),
];

#[tokio::test]
async fn forged_headers_reach_no_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let fields = [FORGED.as_slice(), &[("x-forwarded-for", "forged"), ("x-forwarded-user", "forged")]].concat();
    for path in ["/", "/public/"] {
        let reply = browser.send("GET", &format!("https://wiki.test{path}"), &fields, "").await;
        reply.arrived();
        for (name, value) in &reply.headers {
            assert!(!value.to_str().unwrap().contains("forged"), "{path}: {name}");
        }
        assert_eq!(reply.header("x-forwarded-for"), Some("192.0.2.1"));
        assert_eq!(reply.header("x-forwarded-host"), Some("wiki.test"));
        assert_eq!(reply.header("x-forwarded-proto"), Some("https"));
    }
}

#[tokio::test]
async fn on_a_public_path_the_application_learns_nothing_of_who_it_is() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    for fields in [vec![], vec![("authorization", token.as_str())]] {
        let reply = browser.send("GET", "https://wiki.test/public/", &fields, "").await;
        reply.arrived();
        assert_eq!(reply.header("x-forwarded-user"), None);
        // What nobody has judged is passed on as it came.
        assert_eq!(reply.header("authorization"), fields.first().map(|(_, value)| *value));
        assert_eq!(reply.header("cookie"), None);
    }
}

#[tokio::test]
async fn our_cookies_stay_here_and_the_applications_pass() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    assert_eq!(browser.fetch("https://wiki.test/").await.header("cookie"), None);
    browser.set_cookie("wiki.test", "PHPSESSID", "a=b%20c");
    browser.set_cookie("wiki.test", "_theme", "\"dark\"");
    let reply = browser.fetch("https://wiki.test/").await;
    assert_eq!(reply.header("cookie"), Some("PHPSESSID=a=b%20c; _theme=\"dark\""));
}

#[tokio::test]
async fn the_applications_own_authorization_passes_with_a_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let reply = browser.send("GET", "https://wiki.test/", &[("authorization", "Basic dTpw")], "").await;
    assert_eq!(reply.header("authorization"), Some("Basic dTpw"));
    assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
    // It is no credential of ours.
    let reply = world.call("GET", "https://wiki.test/", &[("authorization", "Basic dTpw")]).await;
    reply.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_person_without_groups_has_no_such_header_and_forges_none() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", crate::world::BEN).await;
    let reply = browser.send("GET", "https://wiki.test/", &[("x-forwarded-groups", "staff")], "").await;
    assert_eq!(reply.header("x-forwarded-groups"), None);
    assert_eq!(reply.header("x-forwarded-name"), Some("Ben"));
}

#[tokio::test]
async fn a_person_in_more_groups_than_a_header_holds_is_told_so() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let change = |user: &mut sealgate::protocol::user::User| {
        user.groups = (0..2000).map(|number| format!("group-{number}")).collect();
    };
    world.sealgate.store.change_user(world.anna.sub, change).await.unwrap();
    browser.fetch("https://wiki.test/").await.assert_refused(500, "server_error");
    browser.visit("https://wiki.test/").await.assert_page(500);
}
