//! An application on the issuer's host, which shares the origin of the provider's pages.

use http::StatusCode;
use sealgate_edge::origin::Origin;
use sealgate_edge::{AnswerRewrite, Front as _, RouteDecision};

use crate::browser::Browser;
use crate::world::{ANNA, World, request};

const WORKER: (&str, &str) = ("service-worker", "script");

/// Returns the changes to the response to a request of Anna's browser, or the refusal's status.
async fn changes(world: &World, url: &str, fields: &[(&str, &str)]) -> Result<AnswerRewrite, StatusCode> {
    let browser = Browser::new(world);
    browser.sign_in_at(url, ANNA).await;
    let mut all = fields.to_vec();
    let cookies = browser.jar(url.split('/').nth(2).unwrap());
    all.push(("cookie", &cookies));
    let (mut head, _) = request("GET", url, &all, "").into_parts();
    head.extensions.insert(Origin { address: "192.0.2.9".parse().unwrap(), secure: true, ..Origin::unknown() });
    match world.site.decide(&head).await {
        RouteDecision::Forward(forward) => Ok(forward.rewrite.answer),
        RouteDecision::Answer(response) => Err(response.status()),
        RouteDecision::Local { .. } => panic!("{url} is the provider's"),
    }
}

#[tokio::test]
async fn response_fields_for_the_whole_origin_are_removed() {
    let world = World::new().await;
    let names = |answer: AnswerRewrite| answer.remove.iter().map(ToString::to_string).collect::<Vec<_>>();
    let removed = names(changes(&world, "https://id.test/a/page", &[]).await.unwrap());
    for name in ["service-worker-allowed", "clear-site-data", "nel", "report-to", "alt-svc"] {
        assert!(removed.contains(&name.to_owned()), "{name}: {removed:?}");
    }
    assert_eq!(names(changes(&world, "https://wiki.test/a/page", &[]).await.unwrap()), Vec::<String>::new());
}

#[tokio::test]
async fn a_service_worker_does_not_control_the_pages_of_the_provider() {
    let world = World::new().await;
    for path in ["/sw.js", "/sw.js?v=2", "/account/sw.js", "/account/security/sw.js", "/.well-known/sw.js"] {
        let url = format!("https://id.test{path}");
        assert_eq!(changes(&world, &url, &[WORKER]).await, Err(StatusCode::FORBIDDEN), "{path}");
        // The browser may have such a script in its cache, from another request.
        let vary = changes(&world, &url, &[]).await.unwrap().append;
        assert!(vary.iter().any(|(name, value)| name == "vary" && value == "Service-Worker"), "{path}: {vary:?}");
    }
    for url in ["https://id.test/app/sw.js", "https://id.test/accounts/sw.js", "https://wiki.test/sw.js"] {
        let answer = changes(&world, url, &[WORKER]).await.unwrap();
        assert!(answer.append.is_empty(), "{url}");
    }
}

#[tokio::test]
async fn the_issuers_earlier_host_names_the_issuer_as_its_related_origin() {
    let world = World::with("[factors]\nrp_id = \"login.test\"\n").await;
    for host in ["login.test", "id.test"] {
        let reply = world.call("GET", &format!("https://{host}/.well-known/webauthn"), &[]).await;
        assert_eq!((reply.status, reply.json()["origins"][0].as_str()), (200, Some("https://id.test")), "{host}");
    }
    assert_eq!(world.call("GET", "https://login.test/.well-known/webauthn/x", &[]).await.status, 421);
    assert_ne!(world.call("GET", "https://wiki.test/.well-known/webauthn", &[]).await.status, 200, "an application's");
    let world = World::new().await;
    assert_eq!(world.call("GET", "https://login.test/.well-known/webauthn", &[]).await.status, 421);
}
