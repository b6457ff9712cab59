//! Tests characters in paths that one application reads as data and another server as a separator.

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

/// Open site with a closed part, files with semicolons in their names, and an API with slashes in
/// its names.
const SITE: &str = r#"
    [[app]]
    name = "site"
    host = "site.test"
    upstreams = ["http://127.0.0.1:8086"]
    [[app.route]]
    path = "/"
    access = "public"
    [[app.route]]
    path = "/files/"
    access = "public"
    path_characters = [";"]
    [[app.route]]
    path = "/files/private/"
    access = "signed_in"
    path_characters = [";"]
    [[app.route]]
    path = "/files/secret.txt"
    access = "signed_in"
    [[app.route]]
    path = "/api/"
    access = "public"
    path_characters = ["%2F", "%5C"]
    [[app.route]]
    path = "/api/admin/"
    access = "signed_in"
    groups = ["staff"]
    path_characters = ["%2F"]
    [[app.route]]
    path = "/admin/"
    access = "signed_in"
    [[app.route]]
    path = "/job/"
    access = "public"
    path_characters = ["%252F"]
    [[app.route]]
    path = "/job/secret/"
    access = "signed_in"
    path_characters = ["%252F"]
    [[app.route]]
    path = "/both/"
    access = "public"
    path_characters = [";", "%2F", "%5C"]
    [[app.route]]
    path = "/both/inner/"
    access = "signed_in"
"#;

#[tokio::test]
async fn allowed_path_characters_are_forwarded_unchanged() {
    let world = World::with(SITE).await;
    let sound = [
        "/files/a;b.txt",
        "/files/a%3Bb.txt",
        "/files/a%3bb;c/d;e",
        "/files/;",
        "/api/projects/group%2Fproject/files/src%2fmain.rs",
        "/api/C%3A%5Ctemp",
        "/api/https%3A%2F%2Fexample.com",
        "/job/shop/job/feature%252Fcart/",
        "/job/%C5%9F%252fx%20y/1",
        "/both/a;b%2Fc%5Cd",
        "/both/%C5%9F;%C4%B1%2F%20x",
    ];
    let targets = sound.map(|path| format!("{path}?q=;%2F"));
    world.lets_through(&targets.each_ref().map(String::as_str)).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://site.test/files/private/a;b.txt", ANNA).await;
    assert_eq!(browser.fetch("https://site.test/files/private/a;b.txt").await.arrived().1, "/files/private/a;b.txt");
    assert_eq!(browser.fetch("https://site.test/api/admin/x%2Fy").await.arrived().1, "/api/admin/x%2Fy");
}

#[tokio::test]
async fn a_path_whose_readings_are_too_long_is_refused() {
    let world = World::with(SITE).await;
    let sound = [
        format!("/files/a;b/{}", "x".repeat(4_000)),
        format!("/api/a%2Fb/{}", "x".repeat(8_000)),
        format!("/both/a;b%2Fc/{}", "%C5%9F".repeat(60)),
        format!("/{}", "x".repeat(20_000)),
        format!("/{}", "%C5%9F".repeat(1_500)),
        format!("/{}", "%EF%B7%BA".repeat(100)),
    ];
    world.lets_through(&sound.each_ref().map(String::as_str)).await;
    let refused = [
        format!("/both/a;b%2Fc%5Cd/{}", "x".repeat(8_000)),
        format!("/both/a;b%2Fc%5Cd/{}", "%C5%9F".repeat(1_000)),
        format!("/{}", "%EF%B7%BA".repeat(1_000)),
        format!("/x%2F{}", "%EF%B7%BA".repeat(1_000)),
    ];
    world.refuses_to_read("site.test", &refused.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn a_path_with_a_reading_under_another_rule_is_refused() {
    let world = World::with(SITE).await;
    let refused = [
        // Read by a server that strips parameters.
        "/files/private;x/report",
        "/files/private;/report",
        "/files/private%3Bx/report",
        "/files/;x/private/report",
        "/files;/private/report",
        "/files/secret.txt;.png",
        "/files/secret.txt%3B.png",
        "/files/Secret.txt;a/b",
        "/files/PRIVATE;x/y",
        "/files/secret.txt.;x",
        // Read by a server that decodes before it splits the path.
        "/api%2Fadmin/users",
        "/api/admin%2Fusers",
        "/api/%61dmin%2fusers",
        "/api/ADMIN%2Fusers",
        "/api/admin%5Cusers",
        "/api/x%2F..%2Fadmin%2Fusers",
        "/api/..%2Fadmin/",
        "/api/..%5C..%5Cadmin/",
        "/api/%2e%2e%2fadmin/",
        "/api/.%2F./x",
        "/api/admin.%2Fusers",
        "/api/adm%C4%B1n%2Fusers",
        // Several of them at once.
        "/both/inner;x%2Fy",
        "/both/inner%2F;y",
        "/both/;x%2Finner%2Fy",
        "/both/..;/admin/",
        "/both/..;%2Fadmin/",
        "/both/x%2F..;y%2F..%2Fadmin",
        "/both/inner%3B%2Fx",
        "/both%2Finner/x",
        // Read by a server that decodes twice.
        "/job/secret%252Fx",
        "/job/Secret%252fx",
        "/job%252Fsecret/x",
        "/job/x%252F..%252Fsecret%252Fx",
        "/job/..%252Fadmin/",
        "/job/%2e%2e%252Fadmin/",
        "/job/secr%C3%A9t%252Fx",
        "/job/a%252Fb%2Fc",
        "/job/a%252e%252e",
        "/job/a%255Cb",
        "/job/a%25252Fb",
        // No host name, and no escaped escape.
        "/%2Fevil.test/both/",
        "/both/a%252Fb",
        "/both/a%253Bb",
    ];
    world.refuses_to_read("site.test", &refused).await;
}

#[tokio::test]
async fn a_character_that_no_rule_lists_is_refused() {
    let world = World::with(SITE).await;
    let refused =
        ["/a;b", "/a%2Fb", "/files/a%2Fb", "/files/a%5Cb", "/api/a;b", "/api/a%3Bb", "/admin/a;b", "/api/admin/a%5Cb"];
    for host in ["site.test", "wiki.test"] {
        world.refuses_to_read(host, &refused).await;
    }
}

#[tokio::test]
async fn a_rule_with_path_characters_has_its_own_requirements() {
    let world = World::with(SITE).await;
    world.call("GET", "https://site.test/files/private/a;b", &[]).await.assert_refused(401, "login_required");
    world.call("GET", "https://site.test/api/admin/x%2Fy", &[]).await.assert_refused(401, "login_required");
    let ben = Browser::new(&world);
    ben.sign_in_at("https://site.test/files/private/", BEN).await;
    ben.fetch("https://site.test/api/admin/x%2Fy").await.assert_refused(403, "access_denied");
}
