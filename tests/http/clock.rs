//! Tests a clock that is set back by minutes or hours: the order of events is kept, and no user is
//! locked out until the clock has caught up.

use sealgate_admin::client_settings::NewClient;
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::client::{ClientId, ClientType, ConsentRule};
use sealgate_domain::time::UnixTime;

use crate::steps::{assert_code, assert_consent, with_anna};
use crate::support::{Browser, Client, Provider, Reply, Tokens};

fn back(provider: &Provider, seconds: u64) {
    provider.clock.set(UnixTime::from_seconds(provider.sealgate.clock.now().seconds() - seconds));
}

/// Adds a client with this id by the command line and returns its secret.
async fn add(provider: &Provider, id: &str) -> String {
    let new = NewClient {
        id: ClientId::parse(id).unwrap(),
        name: "Wiki".into(),
        client_type: ClientType::Confidential,
        auth_method: None,
        jwks: None,
        jwks_uri: None,
        workload: None,
        redirect_uris: vec!["https://rp.test/cb".into()],
        post_logout_redirect_uris: vec![],
        scopes: vec![],
        default_scope: None,
        consent: ConsentRule::Ask,
        refresh_retry_seconds: None,
        token_limit: None,
        id_token_alg: None,
        level: None,
        services: Vec::new(),
        service_groups: Vec::new(),
        visible_groups: Vec::new(),
        introspection: false,
        introspection_apps: Vec::new(),
        backchannel_logout_uri: None,
        backchannel_logout_session_required: false,
        settings: None,
    };
    let command = Command::Client(ClientCommand::Add(Box::new(new)));
    let answer = execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
    answer.members()["client_secret"].as_str().unwrap().to_owned()
}

fn wiki<'p>(provider: &'p Provider, secret: &str) -> Client<'p> {
    let mut client = Client::confidential(provider, "wiki");
    client.secret = Some(secret.to_owned());
    client
}

/// Anna signs in and consents after the clock was set back past the client's registration.
#[tokio::test]
async fn a_new_consent_is_valid_after_the_clock_is_set_back() {
    for seconds in [1, 120, 86_400] {
        let provider = Provider::new().await;
        let secret = add(&provider, "wiki").await;
        back(&provider, seconds);
        let (client, browser) = (wiki(&provider, &secret), provider.browser());
        let code = client.code_in(&browser, &[("scope", "openid offline_access")]).await;
        let tokens = Tokens::of(&client.redeem(&code).await);
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
        // The consent is remembered, shown to Anna, and can be withdrawn.
        assert_code(&browser.open(&client.authorize(&[("prompt", "none")])).await);
        let page = browser.open("/account/applications").await;
        assert!(page.text().contains("Wiki"), "{page:?}");
        back(&provider, seconds);
        Tokens::of(&client.refresh(&tokens.refresh).await);
    }
}

/// A client is deleted and a new one is created with its id, in the same second or an hour earlier.
/// No user has consented to the new client.
#[tokio::test]
async fn a_later_client_with_the_same_id_inherits_no_consent() {
    for seconds in [0, 3600] {
        let provider = Provider::new().await;
        let first = add(&provider, "wiki").await;
        let browser = provider.browser();
        wiki(&provider, &first).code_in(&browser, &[]).await;
        back(&provider, seconds);
        let delete = Command::Client(ClientCommand::Delete(ClientId::parse("wiki").unwrap().into()));
        execute(&CommandContext::new(&provider.sealgate), delete).await.unwrap();
        let second = add(&provider, "wiki").await;
        let page = browser.open(&wiki(&provider, &second).authorize(&[])).await;
        if seconds == 0 {
            assert_consent(&page);
        }
        let silent = browser.open(&wiki(&provider, &second).authorize(&[("prompt", "none")])).await;
        silent.assert_error_redirect("consent_required");
        let shown = browser.open("/account/applications").await;
        assert!(!shown.text().contains("Wiki"), "{shown:?}");
    }
}

/// A code issued to a deleted client is invalid for a later client with the same id.
#[tokio::test]
async fn a_code_of_an_earlier_client_is_refused_for_a_later_one() {
    let provider = Provider::new().await;
    let first = add(&provider, "wiki").await;
    let code = wiki(&provider, &first).code(&[]).await;
    let delete = Command::Client(ClientCommand::Delete(ClientId::parse("wiki").unwrap().into()));
    execute(&CommandContext::new(&provider.sealgate), delete).await.unwrap();
    let second = add(&provider, "wiki").await;
    wiki(&provider, &second).redeem(&code).await.assert_error(400, "invalid_grant");
}

/// When a browser has too many tabs, the tab that was opened first is evicted, not the one with the
/// oldest timestamp.
#[tokio::test]
async fn too_many_tabs_evict_the_first_regardless_of_the_clock() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let open = async |state: &str| browser.open(&provider.c2().authorize(&[("state", state)])).await;
    let mut pages: Vec<Reply> = Vec::new();
    for tab in 0..6 {
        pages.push(open(&format!("before {tab}")).await);
    }
    back(&provider, 60);
    for tab in 0..4 {
        pages.push(open(&format!("after {tab}")).await);
    }
    // The last eight tabs are still open.
    for page in pages.iter().skip(2).rev() {
        let reply = submit_allow(&browser, page).await;
        assert_code(&reply);
    }
    submit_allow(&browser, &pages[0]).await.assert_error_page();
}

async fn submit_allow(browser: &Browser<'_>, page: &Reply) -> Reply {
    assert_consent(page);
    browser.submit(page, &[("consent-allow", "yes")]).await
}
