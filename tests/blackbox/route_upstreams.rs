//! Tests routes with upstreams of their own in a running server, and their reload.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::lasting::{closes, streams, websocket};
use crate::reload::{edit, refused};
use crate::support::load::application_saying;
use crate::support::{Browser, Instance, Settings, Upstream};

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_moves_a_route_to_another_upstream_and_ends_its_websockets() {
    let own = application_saying("own");
    let instance = Instance::started(&Settings { upstream: Some(own.clone()), ..Settings::default() });
    let (first, second, wiki) = (format!("http://{}", streams()), format!("http://{}", streams()), Upstream::start());
    let route = |path: &str, access: &str, lines: &str| {
        format!("path = \"{path}\"\naccess = \"{access}\"\n{lines}\n[[app.route]]\n")
    };
    let routes = [
        route("/wiki/", "public", &format!("upstreams = [\"{}\"]\nupstream_path = \"/\"", wiki.url())),
        route("/ws", "signed_in", &format!("upstreams = [\"{first}\"]")),
        // The first upstream stays in the configuration.
        route("/kept/", "signed_in", &format!("upstreams = [\"{first}\"]")),
    ];
    edit(&instance, "path = \"/api/\"", &format!("{}path = \"/api/\"", routes.concat()));
    assert!(instance.run(&["reload"]).contains("app legacy: route"));

    let browser = Browser::new(&instance);
    let get = async |path: &str| browser.client().get(instance.app_url(path)).send().await.unwrap();
    let body: Value = get("/wiki/json?a=%2F%2E/b").await.json().await.unwrap();
    assert_eq!(body["path"], "/json?a=%2F%2E/b");
    let prefix = serde_json::json!(["x-forwarded-prefix", "/wiki"]);
    assert!(body["headers"].as_array().unwrap().contains(&prefix), "{body}");
    let bare = get("/wiki?a").await;
    assert_eq!((bare.status().as_u16(), bare.headers()["location"].to_str().unwrap()), (308, "/wiki/?a"));
    assert_eq!(get("/public/x").await.text().await.unwrap(), "own");
    assert_eq!(browser.go(&instance.app_url("/")).await.status, 200);

    let socket = websocket(&instance, &browser).await;
    let moved = |upstream: &str| format!("path = \"/ws\"\naccess = \"signed_in\"\nupstreams = [\"{upstream}\"]");
    edit(&instance, &moved(&first), &moved(&second));
    assert!(instance.run(&["reload"]).contains("app legacy: route"));
    timeout(Duration::from_secs(2), closes(socket)).await.unwrap();
    drop(websocket(&instance, &browser).await);

    // The public prefix would open the signed-in paths of the application.
    edit(&instance, &wiki.url(), &own);
    let fault = refused(&instance);
    assert!(fault.contains("are the same path \"/\" of one upstream"), "{fault}");
    let body: Value = get("/wiki/json").await.json().await.unwrap();
    assert_eq!(body["path"], "/json");
}
