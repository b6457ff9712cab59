//! Tests where a client receives logout tokens: administrators set it, developers see it.

use super::*;

#[tokio::test]
async fn only_administrators_set_the_logout_uri() {
    let provider = provider().await;
    let (ben, anna) = (signed_in(&provider, BEN).await, signed_in(&provider, ANNA).await);
    let id = element(&register(&ben, &[]).await, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let uri = "https://shop.example.test/logout";
    let set = |uri: &'static str| [("action", "logout"), ("backchannel_logout_uri", uri)];
    let logout = async || stored(&provider, &id).await.unwrap().backchannel_logout;

    let page = press(&anna, &path, &[&set(uri)[..], &[("backchannel_logout_session_required", "yes")]].concat()).await;
    assert!(page.text().contains(uri), "{page:?}");
    let own = logout().await.unwrap();
    assert_eq!((own.uri.as_str(), own.session_required), (uri, true));

    // A developer sees the URI and cannot change it: neither by a button that is not shown, nor with
    // the form.
    let page = ben.get(&path).await;
    assert!(page.text().contains(uri), "{page:?}");
    assert_eq!(ben.get(&format!("{path}/rules")).await.status, 403);
    assert_eq!(press(&ben, &path, &set("https://evil.test/")).await.status, 403);
    let other = [("action", "save"), ("backchannel_logout_uri", "https://evil.test/")];
    let fields: Vec<(&str, &str)> = form(&[]).into_iter().chain(other).collect();
    assert!(press(&ben, &path, &fields).await.text().contains("The client was saved."));
    assert_eq!(logout().await.unwrap().uri.as_str(), uri);

    for wrong in ["http://shop.example.test/", "https://shop.example.test/#x", "x", "ftp://shop.example.test/"] {
        let page = press(&anna, &path, &set(wrong)).await;
        assert!(page.text().contains("Enter an https URI without a fragment"), "{wrong}: {page:?}");
    }
    assert_eq!(logout().await.unwrap().uri.as_str(), uri);
    press(&anna, &path, &set("")).await;
    assert_eq!(logout().await, None);
}
