//! Tests the icon of an application: its file, the page of applications, and its URL.

use std::fs;

use reqwest::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::support::{Browser, Instance, Settings};

const SVG: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><script>alert(1)</script><rect width="8" height="8" fill="#a30"/></svg>"##;

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_icon_is_shown_and_served_without_scripts() {
    let upstream = Some("http://127.0.0.1:9".to_owned());
    let mut instance = Instance::prepare(&Settings { upstream, ..Settings::default() });
    let file = instance.directory.path().join("icon.svg");
    fs::write(&file, SVG).unwrap();
    let text = fs::read_to_string(instance.config()).unwrap();
    let with_icon = format!("host = \"app.localhost\"\nicon = \"{}\"", file.display());
    fs::write(instance.config(), text.replace("host = \"app.localhost\"", &with_icon)).unwrap();
    instance.start();
    let browser = Browser::new(&instance);
    let home = browser.go(&instance.url("/")).await;
    let (_, rest) = home.body.split_once("src=\"/oauth/icons/").unwrap_or_else(|| panic!("no icon: {}", home.body));
    let address = instance.url(&format!("/oauth/icons/{}", rest.split('"').next().unwrap()));
    // The icon needs no sign-in.
    let icon = reqwest::Client::builder().no_proxy().build().unwrap().get(&address).send().await.unwrap();
    assert_eq!(icon.status(), 200);
    let field = |name| icon.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(field(CONTENT_TYPE), "image/svg+xml");
    assert_eq!(field(CONTENT_SECURITY_POLICY), "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    assert_eq!(icon.headers()["x-content-type-options"], "nosniff");
    assert!(field(CACHE_CONTROL).contains("immutable"));
    assert_eq!(icon.text().await.unwrap(), SVG);
    // A new icon has a new URL, so that no browser shows the old one.
    fs::write(&file, SVG.replace("#a30", "#03a")).unwrap();
    instance.run(&["reload"]);
    let home = browser.go(&instance.url("/")).await;
    let (path, _) = rest.split_once('"').unwrap();
    assert!(home.body.contains("src=\"/oauth/icons/legacy?v=") && !home.body.contains(path), "{}", home.body);
    let none = browser.get(&instance.url("/oauth/icons/other")).await;
    assert_eq!(none.status, 404);
}
