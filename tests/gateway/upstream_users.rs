//! Tests requests of users of OpenID providers: after the end of their sign-in there, and with an
//! address that the provider has not verified.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sealgate_domain::source::{SourceId, SourceLink, SourceName, SourceState, UserSource};
use sealgate_domain::user::User;
use sealgate_system::clock::Clock as _;
use tempfile::TempDir;

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, World};

/// Starts a server with a provider, and more sections.
async fn start(sections: &str) -> (World, TempDir) {
    let files = tempfile::tempdir().unwrap();
    let secret = files.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let world = World::with(&format!(
        "\n[[upstream]]\nname = \"acme\"\nissuer = \"https://acme.test\"\nclient_id = \"sealgate\"\n\
         client_secret_file = \"{}\"\nsession_seconds = 600\n{sections}",
        secret.display()
    ))
    .await;
    (world, files)
}

/// Makes Anna a user of the provider.
async fn move_to_provider(world: &World, change: impl Fn(&mut User) + Send + Sync) {
    let link =
        SourceLink { source: SourceName::parse("acme").unwrap(), id: SourceId::from_bytes(b"id-of-anna").unwrap() };
    let now = world.clock.now();
    let source = UserSource {
        link,
        groups: ["staff".to_owned()].into(),
        state: SourceState::Enabled,
        changed_at: now,
        confirmed_at: Some(now),
        origin: None,
        linked: None,
    };
    let changed = world.sealgate.store.change_user(world.anna.sub, |user| {
        user.source = Some(source.clone());
        change(user);
    });
    changed.await.unwrap();
}

#[tokio::test]
async fn a_user_of_a_provider_signs_in_again_after_its_time() {
    let (world, _files) = start("").await;
    let browser = Browser::new(&world);
    let end = browser.sign_in_at("https://wiki.test/a", ANNA).await;
    assert_eq!(end.arrived(), ("wiki", "/a"));
    let token = world.access_token_in(&browser, "openid profile").await;
    move_to_provider(&world, |_| ()).await;
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

/// A user of the provider may have entered the address of another user there.
#[tokio::test]
async fn applications_receive_only_addresses_that_the_source_has_verified() {
    let (world, _files) = start(
        "[[app]]\nname = \"intranet\"\nhost = \"intranet.test\"\nupstreams = [\"http://127.0.0.1:8087\"]\n\
         identity_headers = { X-Mail = \"email\", Remote-User = \"username\", X-Id = \"sub\" }\n\
         [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n",
    )
    .await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/a", ANNA).await;
    let sent = async || {
        let reply = browser.open("https://intranet.test/a").await;
        let plain = browser.open("https://wiki.test/a").await;
        assert_eq!(plain.header("x-forwarded-email"), reply.header("x-mail"));
        (reply.header("x-mail").map(str::to_owned), reply.header("remote-user").map(str::to_owned))
    };
    let (address, sub) = (Some(ANNA.to_owned()), Some(world.anna.sub.to_string()));
    move_to_provider(&world, |_| ()).await;
    assert_eq!(sent().await, (address.clone(), address.clone()));
    move_to_provider(&world, |user| user.email_verified = false).await;
    assert_eq!(sent().await, (None, sub));
    // An administrator has entered the address of a local user.
    let local = |user: &mut User| (user.source, user.email_verified) = (None, false);
    world.sealgate.store.change_user(world.anna.sub, local).await.unwrap();
    assert_eq!(sent().await, (address.clone(), address));
}
