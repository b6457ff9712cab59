//! Links that users add themselves, with the npm package `oidc-provider`. `tests/http/linking.rs` tests
//! the refusals.

use super::{NodeProvider, PASSWORD, Provider, World, header, is_signed_in, left_for, press};

#[tokio::test]
async fn a_user_links_an_account_of_an_openid_provider() {
    let world = World::prepare();
    let provider = NodeProvider::start(&world.redirect_uri("acme"));
    let lines = "label = \"Acme\"\narrival = \"linked_only\"\ngroups_claim = \"groups\"";
    let world = world.start(&[Provider { name: "acme", issuer: &provider.issuer(), lines }], "");
    let add = ["user", "add", "a.celik@example.org", "--name", "Anna", "--group", "local", "--password-stdin"];
    world.instance.run_with_input(&add, PASSWORD);
    let sub = world.users()[0]["sub"].clone();

    let (anna, page) = world.begin("/json").await;
    let page = anna.submit(&page, &[("email", "a.celik@example.org"), ("password", PASSWORD)]).await;
    assert!(is_signed_in(&page), "{page:?}");
    let form = anna.open(&world.instance.url("/account/security/link?source=acme")).await;
    let url = left_for(&anna.submit(&form, &[]).await);
    let page = anna.open(&provider.sign_in(&anna, &url, "anna").await).await;
    for expected in ["a.celik@example.org", "anna@acme.test", "Account at <bdi>Acme</bdi>"] {
        assert!(page.body.contains(expected), "{expected}: {page:?}");
    }
    assert!(!page.url.contains("code="), "the code stays in the address: {page:?}");
    let done = anna.submit(&page, &[]).await;
    assert!(done.body.contains("Accounts linked"), "{done:?} {}", world.instance.log());

    let (anna, page) = world.begin("/json").await;
    let url = press(&anna, &page, "acme", "").await;
    let page = anna.open(&provider.sign_in(&anna, &url, "anna").await).await;
    assert!(is_signed_in(&page), "{page:?} {}", world.instance.log());
    assert_eq!(header(&page, "x-forwarded-groups").as_deref(), Some("acme:editors,acme:staff,local"));
    let users = world.users();
    assert_eq!((users.len(), &users[0]["sub"]), (1, &sub), "{users:?}");
}
