//! Tests the operator's logo and colours on the pages, and how they are served.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sealgate_config::{Config, PagesConfig};

use crate::support::{Provider, settings};

const LOGO: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><script>alert(1)</script></svg>";

/// Returns the `[pages]` section of a configuration, with the files that it names.
fn pages(section: &str) -> PagesConfig {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("pin"), "123456").unwrap();
    fs::set_permissions(path("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path("module.so"), "a library").unwrap();
    fs::write(path("logo.svg"), LOGO).unwrap();
    let text = settings(&format!("[pages]\noperator = \"Acme\"\n{section}"));
    fs::write(path("sealgate.toml"), text.replace("/usr/lib/softhsm/libsofthsm2.so", "module.so")).unwrap();
    Config::load(&path("sealgate.toml")).unwrap().pages
}

async fn provider(section: &str) -> Provider {
    let pages = pages(section);
    Provider::changed("", |config| config.pages = pages).await
}

#[tokio::test]
async fn a_logo_is_shown_on_every_page_and_runs_no_script() {
    let provider = provider("logo = \"logo.svg\"").await;
    let browser = provider.browser();
    let login = browser.open("/account").await;
    let account = browser.sign_in(&login, "anna@example.test").await;
    for page in [login, account, provider.get("/oauth/signed-out").await] {
        let image = page.text().split('<').find(|tag| tag.starts_with("img ")).unwrap().to_owned();
        assert!(image.contains("class=\"logo\"") && image.contains("alt=\"\""), "{image}");
        assert!(!page.text().contains("class=\"seal\""));
        let address = image.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
        let logo = provider.get(address).await;
        assert_eq!((logo.status, logo.text()), (200, LOGO));
        assert_eq!(logo.header("content-type"), Some("image/svg+xml"));
        let policy = logo.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with("; sandbox"), "{policy}");
        assert_eq!(logo.header("x-content-type-options"), Some("nosniff"));
        assert!(logo.header("cache-control").unwrap().contains("immutable"));
    }
}

#[tokio::test]
async fn without_a_logo_its_url_is_not_found() {
    let provider = Provider::new().await;
    assert_eq!(provider.get("/oauth/logo").await.status, 404);
    assert!(!provider.get("/oauth/signed-out").await.text().contains("<img"));
}

#[tokio::test]
async fn the_operators_colours_override_the_stylesheet_and_change_its_url() {
    let address_of = async |provider: &Provider| {
        let page = provider.get("/oauth/signed-out").await;
        let link = page.text().split("href=\"").find(|part| part.contains("style.css")).unwrap().to_owned();
        link.split('"').next().unwrap().to_owned()
    };
    let (plain, coloured) = (Provider::new().await, provider("accent = \"#8a1c4b\"").await);
    let (ours, theirs) = (address_of(&plain).await, address_of(&coloured).await);
    assert_ne!(ours, theirs);
    let sheet = coloured.get(&theirs).await;
    let plain_sheet = plain.get(&ours).await;
    let own = sheet.text().strip_prefix(plain_sheet.text()).unwrap();
    // The classes are for the preview in the console.
    let (page, preview) = own.split_once(".light").unwrap();
    for (part, dark) in [(page, "prefers-color-scheme: dark"), (preview, ".dark")] {
        let (_, last) = part.split_once("--accent: #8a1c4b;").unwrap();
        assert!(last.contains(dark) && last.matches("--accent: #").count() == 1, "{own}");
    }
}
