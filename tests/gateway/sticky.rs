//! Tests which requests get the same server of an application (`sticky`).

use sealgate_edge::Affinity;

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

const APPS: &str = r#"
    [[app]]
    name = "users"
    host = "users.test"
    upstreams = ["http://127.0.0.1:8091", "http://127.0.0.1:8092"]
    sticky = "user"
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/public/"
    access = "public"
    [[app]]
    name = "cookies"
    host = "cookies.test"
    upstreams = ["http://127.0.0.1:8091", "http://127.0.0.1:8092"]
    sticky = "cookie"
    [[app.route]]
    path = "/"
    access = "public"
    [[app.route]]
    path = "/other/"
    access = "public"
    upstreams = ["http://127.0.0.1:8093"]
    [[app]]
    name = "turns"
    host = "turns.test"
    upstreams = ["http://127.0.0.1:8091", "http://127.0.0.1:8092"]
    [[app.route]]
    path = "/"
    access = "public"
"#;

#[tokio::test]
async fn a_user_has_one_number_at_every_session_and_token() {
    let world = World::with(APPS).await;
    let (first, second, ben) = (Browser::new(&world), Browser::new(&world), Browser::new(&world));
    let url = "https://users.test/";
    let of = async |browser: &Browser<'_>, user| browser.sign_in_at(url, user).await.arrived.unwrap().affinity;
    let anna = of(&first, ANNA).await;
    assert!(matches!(anna, Affinity::User(_)), "{anna:?}");
    assert_eq!(of(&second, ANNA).await, anna);
    assert_ne!(of(&ben, BEN).await, anna);
    let token = format!("Bearer {}", world.access_token("openid").await);
    let by_token = world.call("GET", url, &[("authorization", &token)]).await;
    assert_eq!(by_token.arrived.unwrap().affinity, anna);
    // No user is known on a public route, even with a session.
    assert_eq!(first.visit("https://users.test/public/").await.arrived.unwrap().affinity, Affinity::Client);
    assert_eq!(first.visit("https://turns.test/").await.arrived.unwrap().affinity, Affinity::InTurn);
}

#[tokio::test]
async fn the_cookie_of_a_server_is_read_and_not_forwarded() {
    let world = World::with(APPS).await;
    let cookies = "__Host-sealgate-server=00000000000000ab; own=1; __Host-sealgate-server-1=00000000000000cd";
    for (path, number) in [("/", 0xab), ("/other/", 0xcd)] {
        let reply = world.call("GET", &format!("https://cookies.test{path}"), &[("cookie", cookies)]).await;
        assert_eq!(reply.header("cookie"), Some("own=1"));
        assert_eq!(reply.arrived.unwrap().affinity, Affinity::Cookie(Some(number)));
    }
    for cookie in ["own=1", "__Host-sealgate-server=1", "sealgate-server=00000000000000ab"] {
        let reply = world.call("GET", "https://cookies.test/", &[("cookie", cookie)]).await;
        assert_eq!(reply.arrived.unwrap().affinity, Affinity::Cookie(None), "{cookie}");
    }
}
