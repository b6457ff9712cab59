//! Tests links to further pages of lists.

use super::*;

const APP: &str = "[[app]]\nname = \"wiki\"\nhost = \"wiki.test\"\nupstreams = [\"http://127.0.0.1:1\"]\n\
                   [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";

/// The first page instead would repeat the list, for as long as a script follows the links.
#[tokio::test]
async fn a_position_that_cannot_be_read_is_an_error_in_every_list() {
    let provider = provider_with(APP).await;
    let anna = signed_in(&provider, ANNA).await;
    for list in [
        "/console/audit".to_owned(),
        "/console/clients".to_owned(),
        "/console/clients/c1/grants".to_owned(),
        "/console/apps/wiki/sessions".to_owned(),
        format!("/console/users/{}/sessions", provider.ben.sub),
        format!("/console/users/{}/applications", provider.ben.sub),
        "/account/activity".to_owned(),
        "/account/sessions".to_owned(),
    ] {
        assert_eq!(anna.get(&list).await.status, 200, "{list}");
        for after in ["..%2F..%2Fx", "%20", "a,b"] {
            let reply = anna.get(&format!("{list}?after={after}")).await;
            assert_eq!(reply.status, 400, "{list} {after}");
            reply.assert_error_page();
        }
    }
    assert_eq!(anna.get("/console/audit?back=x").await.status, 400);
}
