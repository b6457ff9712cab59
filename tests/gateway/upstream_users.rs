//! Tests requests of users of OpenID providers after the end of their sign-in there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_system::clock::Clock as _;

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, World};

#[tokio::test]
async fn a_user_of_a_provider_signs_in_again_after_its_time() {
    let files = tempfile::tempdir().unwrap();
    let secret = files.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let world = World::with(&format!(
        "\n[[upstream]]\nname = \"acme\"\nissuer = \"https://acme.test\"\nclient_id = \"sealgate\"\n\
         client_secret_file = \"{}\"\nsession_seconds = 600\n",
        secret.display()
    ))
    .await;
    let browser = Browser::new(&world);
    let end = browser.sign_in_at("https://wiki.test/a", ANNA).await;
    assert_eq!(end.arrived(), ("wiki", "/a"));
    let token = world.access_token_in(&browser, "openid profile").await;
    let link =
        SourceLink { source: SourceName::parse("acme").unwrap(), id: SourceId::from_bytes(b"id-of-anna").unwrap() };
    let now = world.clock.now();
    let source = UserSource {
        link,
        groups: ["staff".to_owned()].into(),
        state: SourceState::Enabled,
        changed_at: now,
        confirmed_at: Some(now),
        linked: None,
    };
    world.sealgate.store.change_user(world.anna.sub, |user| user.source = Some(source.clone())).await.unwrap();
    let bearer = format!("Bearer {token}");
    let call = async || world.call("GET", "https://wiki.test/api/a", &[("authorization", bearer.as_str())]).await;
    world.clock.advance(Duration::from_secs(599));
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    let before = call().await.status;
    world.clock.advance(Duration::from_secs(1));
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    let page = browser.open("https://wiki.test/a").await;
    assert!(is_login(&page), "{page:?}");
    assert_eq!((before, call().await.status), (200, 401));
}
