//! What stands before and behind the program: upstreams that are not there, certificates, plain HTTP.

use crate::support::{Browser, Instance, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_nobody_knows_stops_no_start_and_is_502() {
    let upstream = Some("http://no-such-host.invalid:8081".to_owned());
    let instance = Instance::started(&Settings { upstream, ..Settings::default() });
    let browser = Browser::new(&instance);
    let ask =
        |accept: &'static str| browser.client().get(instance.app_url("/public/x")).header("accept", accept).send();
    let answer = ask("*/*").await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.json::<serde_json::Value>().await.unwrap()["error"], "bad_gateway");
    let page = ask("text/html").await.unwrap();
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (502, &"text/html; charset=utf-8".parse().unwrap())
    );
    assert!(instance.log().contains("the upstream's name cannot be found"), "{}", instance.log());
}
