//! Tests the console's pages about a client of the configuration file.

use sealgate_domain::secret::Secret;
use sealgate_store::{ClientDefinition, DefineOutcome};

use serde_json::json;

use super::*;
use crate::register::{Registered, open};

/// Returns a provider whose configuration file defines the client `shop`.
async fn with_shop() -> Provider {
    let provider = provider().await;
    define(&provider, &Client { from_configuration: true, ..provider.confidential("shop") }, false).await;
    provider
}

async fn define(provider: &Provider, client: &Client, adopt: bool) {
    let definition = ClientDefinition { client, adopt };
    let outcome = provider.sealgate.store.define_clients(&[definition], provider.clock.now(), 7).await.unwrap();
    assert!(matches!(outcome, DefineOutcome::Defined(_)), "{outcome:?}");
}

#[tokio::test]
async fn the_page_of_a_defined_client_names_the_file_and_has_no_forms() {
    let provider = with_shop().await;
    let anna = signed_in(&provider, ANNA).await;
    for (language, badge) in [("en", "In the configuration file"), ("tr", "Yapılandırma dosyasında")] {
        let list = anna.get(&format!("/console/clients?lang={language}")).await;
        assert_eq!(list.text().matches(badge).count(), 1, "{list:?}");
        let page = anna.get(&format!("/console/clients/shop?lang={language}")).await;
        assert!(page.text().contains(badge) && page.text().contains("id=\"client-configured\""), "{page:?}");
        assert!(!page.text().contains("client-save"), "{page:?}");
        for section in ["secrets", "rules", "danger"] {
            assert_eq!(anna.get(&format!("/console/clients/shop/{section}")).await.status, 404, "{section}");
        }
        assert_eq!(anna.get("/console/clients/shop/connect").await.status, 200);
        let test_page = anna.get(&format!("/console/try/shop?lang={language}")).await;
        assert!(
            !test_page.text().contains("client-test-on") && test_page.text().contains("/console/callback"),
            "{test_page:?}"
        );
    }
    let other = anna.get("/console/clients/c1").await;
    assert!(other.text().contains("client-save") && !other.text().contains("client-configured"), "{other:?}");
}

#[tokio::test]
async fn forms_from_before_a_client_was_defined_change_nothing() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let forms = [
        &[("action", "save"), ("name", "Other"), ("redirect_uris", REDIRECT_URI)][..],
        &[("action", "rotate"), ("overlap_seconds", "0")],
        &[("action", "level"), ("level", "3")],
        &[("action", "disable"), ("sure", "yes")],
        &[("action", "enable")],
        &[("action", "approve")],
        &[("action", "revoke-approval")],
        &[("action", "delete"), ("sure", "yes")],
    ];
    let (page, test_page) = (anna.get("/console/clients/c1").await, anna.get("/console/try/c1").await);
    define(&provider, &Client { from_configuration: true, ..provider.confidential("c1") }, true).await;
    let before = stored(&provider, "c1").await.unwrap();
    for form in forms {
        let csrf = csrf_of(&page);
        let fields = [&[("csrf", csrf.as_str())], form].concat();
        let reply = anna.post("/console/clients/c1", &fields).await;
        assert!(reply.text().contains("class=\"notice\" role=\"alert\""), "{form:?}: {reply:?}");
        assert_eq!(stored(&provider, "c1").await.as_ref(), Some(&before), "{form:?}");
    }
    let csrf = csrf_of(&test_page);
    let reply = anna.post("/console/try/c1", &[("csrf", csrf.as_str()), ("action", "switch-on")]).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(stored(&provider, "c1").await, Some(before));
}

#[tokio::test]
async fn an_adopted_client_no_longer_manages_its_registration() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({ "client_name": "Wiki" })).await;
    let (id, update) = (own.text("client_id"), own.update(&json!({ "client_name": "Other" })).to_string());
    assert_eq!(own.manage(&provider, "GET", "").await.status, 200);
    define(&provider, &Client { from_configuration: true, ..provider.confidential(id) }, true).await;
    let before = stored(&provider, id).await.unwrap();
    for (method, body) in [("GET", ""), ("PUT", update.as_str()), ("DELETE", "")] {
        own.manage(&provider, method, body).await.assert_bearer_error(401, "invalid_token");
    }
    assert_eq!(stored(&provider, id).await, Some(before.clone()));
    assert!(before.has_secret(&Secret::new(format!("secret of {id}")), provider.clock.now()));
}
