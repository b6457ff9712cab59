//! Tests forms that take effect once: a reload, a second click and a repeated request change
//! nothing, and a new secret is shown once.

use sealgate_domain::audit::AuditKind as Kind;

use super::*;

/// Returns the page's hidden fields together with these.
fn fields<'a>(page: &'a Reply, more: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
    let hidden = |name: &str| {
        let field = format!("name=\"{name}\" value=\"");
        page.text().split(&field).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let own = ["csrf", "once"].map(|name| (name.to_owned(), hidden(name)));
    own.into_iter().chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect()
}

async fn send(browser: &Browser<'_>, path: &str, fields: &[(String, String)]) -> Reply {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.post(path, &fields).await
}

/// Returns the number of events of this kind.
async fn events(provider: &Provider, kind: Kind) -> u64 {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 50).await.unwrap();
    page.records.iter().map(|record| record.event.count).sum()
}

/// Submits the form, and asserts that the page after it shows the secret once. Submitting again
/// leads to the same page and creates nothing.
///
/// Returns the secret.
async fn shown_once(browser: &Browser<'_>, path: &str, form: &[(String, String)], id: &str) -> String {
    let reply = send(browser, path, form).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    let address = reply.header("location").unwrap().to_owned();
    // A second click submits the form before the first answer arrives. The browser shows the page
    // of the second answer.
    let again = send(browser, path, form).await;
    assert_eq!((again.status, again.header("location")), (303, Some(address.as_str())), "{again:?}");
    let page = browser.get(&address).await;
    let secret = element(&page, id).unwrap_or_else(|| panic!("no {id}: {page:?}"));
    let reloaded = browser.get(&address).await;
    assert!(element(&reloaded, id).is_none() && !reloaded.text().contains(&secret), "{reloaded:?}");
    assert!(reloaded.text().contains("This was shown once"), "{reloaded:?}");
    let late = send(browser, path, form).await;
    assert_eq!((late.status, late.header("location")), (303, Some(address.as_str())));
    secret
}

#[tokio::test]
async fn a_resent_form_registers_a_client_once() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = ben.get("/console/clients/new").await;
    let form = fields(&page, &form(&[]));
    let secret = shown_once(&ben, "/console/clients/new", &form, "new-secret").await;
    assert_eq!(events(&provider, Kind::ClientRegistered).await, 1);
    let list = ben.get("/console/clients").await;
    assert_eq!(list.text().matches("href=\"/console/clients/").count() - 1, 1, "{list:?}");
    assert!(secret.len() >= 32);

    // Two concurrent submissions create one client, and a new form creates another.
    let page = ben.get("/console/clients/new").await;
    let form = fields(&page, &super::form(&[("name", "Second")]));
    let (one, other) =
        tokio::join!(send(&ben, "/console/clients/new", &form), send(&ben, "/console/clients/new", &form));
    assert_eq!((one.status, one.header("location")), (303, other.header("location")));
    assert_eq!(events(&provider, Kind::ClientRegistered).await, 2);
}

#[tokio::test]
async fn a_form_that_was_refused_can_be_sent_again() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = ben.get("/console/clients/new").await;
    let wrong = fields(&page, &form(&[("redirect_uris", "http://rp.test/")]));
    assert_eq!(send(&ben, "/console/clients/new", &wrong).await.status, 200);
    let right = fields(&page, &form(&[]));
    assert_eq!(send(&ben, "/console/clients/new", &right).await.status, 303);
    // A form can also be submitted again after a later check has rejected it.
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/users/new").await;
    let person = |email| [("email", email), ("username", ""), ("name", "Ece"), ("groups", "")];
    let reply = send(&anna, "/console/users/new", &fields(&page, &person(BEN))).await;
    assert!(reply.status == 200 && reply.text().contains("email-wrong"), "{reply:?}");
    assert_eq!(send(&anna, "/console/users/new", &fields(&page, &person("ece@example.test"))).await.status, 303);
}

#[tokio::test]
async fn a_secret_is_rotated_once_and_no_rotation_ends_an_overlap() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, first) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let path = format!("/console/clients/{id}");
    let works = async |secret: &str| {
        let header = support::basic(&id, secret);
        let reply = provider.post("/oauth/token", &[("authorization", &header)], &[("grant_type", "x")]).await;
        reply.json()["error"] == "unsupported_grant_type"
    };
    let page = ben.get(&format!("{path}/secrets")).await;
    let day = fields(&page, &[("action", "rotate"), ("overlap_seconds", "86400"), ("sure", "yes")]);
    let second = shown_once(&ben, &path, &day, "new-secret").await;
    assert_eq!(stored(&provider, &id).await.unwrap().secrets.len(), 2);
    assert!(works(&first).await && works(&second).await);

    // At most two secrets are valid, and none is ended to make room for a third.
    let page = press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "3600")]).await;
    assert!(element(&page, "new-secret").is_none() && page.text().contains("secrets-full"), "{page:?}");
    provider.wait(86_399);
    assert!(works(&first).await && works(&second).await);
    provider.wait(1);
    assert!(!works(&first).await && works(&second).await);

    // A rotation does not change the expiry of a secret that has one.
    let ben = signed_in(&provider, BEN).await;
    let end = provider.clock.now().plus(Duration::from_hours(2));
    provider.change_client(&id, |client| client.secrets.last_mut().unwrap().expires_at = Some(end)).await;
    let page = press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "3600")]).await;
    let third = element(&page, "new-secret").unwrap();
    provider.wait(7199);
    assert!(works(&second).await && works(&third).await);
    provider.wait(1);
    assert!(!works(&second).await && works(&third).await);
    let ben = signed_in(&provider, BEN).await;
    let page = press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "0")]).await;
    assert!(works(&element(&page, "new-secret").unwrap()).await && !works(&third).await);
    assert_eq!(stored(&provider, &id).await.unwrap().secrets.len(), 1);
}

#[tokio::test]
async fn a_generated_password_is_set_once_and_shown_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.ben.sub);
    let page = anna.get(&path).await;
    let reset = fields(&page, &[("action", "reset-password"), ("sure", "yes")]);
    let password = shown_once(&anna, &path, &reset, "new-password").await;
    assert_eq!(events(&provider, Kind::PasswordChanged).await, 1);
    let ben = provider.browser();
    let login = ben.open("/account").await;
    assert_eq!(ben.submit(&login, &[("email", BEN), ("password", &password)]).await.status, 200);

    let page = anna.get("/console/users/new").await;
    let person = [("email", "ece@example.test"), ("username", "ece"), ("name", "Ece"), ("groups", "")];
    let password = shown_once(&anna, "/console/users/new", &fields(&page, &person), "new-password").await;
    assert_eq!(events(&provider, Kind::UserCreated).await, 1);
    let ece = provider.browser();
    let login = ece.open("/account").await;
    assert_eq!(ece.submit(&login, &[("email", "ece@example.test"), ("password", &password)]).await.status, 200);
}

#[tokio::test]
async fn a_reset_link_is_created_once_and_shown_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let path = format!("/console/users/{}", provider.ben.sub);
    let page = anna.get(&path).await;
    let reset = fields(&page, &[("action", "reset-factors"), ("sure", "yes")]);
    let link = shown_once(&anna, &path, &reset, "enrolment-link").await;
    assert_eq!(events(&provider, Kind::FactorsReset).await, 1);
    let opened = provider.browser().get(link.strip_prefix(ISSUER).unwrap()).await;
    assert_eq!(opened.status, 303, "{opened:?}");
}

#[tokio::test]
async fn a_secret_is_shown_once_and_only_to_its_session() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let elsewhere = signed_in(&provider, BEN).await;
    let anna = signed_in(&provider, ANNA).await;
    let page = ben.get("/console/clients/new").await;
    let reply = send(&ben, "/console/clients/new", &fields(&page, &form(&[]))).await;
    let address = reply.header("location").unwrap().to_owned();
    // The URL alone shows nothing, neither to the same user in another browser nor to an
    // administrator.
    for browser in [&elsewhere, &anna] {
        let page = browser.get(&address).await;
        assert!(page.status == 200 && element(&page, "new-secret").is_none(), "{page:?}");
    }
    assert_login(&provider.browser().open(&address).await);
    // Another page does not show the secret. A prefetch or a HEAD request does not use it up.
    let query = address.split('?').nth(1).unwrap();
    assert_eq!(element(&ben.get(&format!("/console/clients/new?{query}")).await, "new-secret"), None);
    for request in [
        http::Request::head(&address),
        http::Request::get(&address).header("sec-purpose", "prefetch;prerender"),
        http::Request::get(&address).header("purpose", "prefetch"),
    ] {
        let reply = ben.send(request, String::new()).await;
        assert!(reply.status == 200 && element(&reply, "new-secret").is_none(), "{reply:?}");
    }
    assert!(element(&ben.get(&address).await, "new-secret").is_some());
}

#[tokio::test]
async fn an_unread_secret_expires_after_an_hour() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = ben.get("/console/clients/new").await;
    let reply = send(&ben, "/console/clients/new", &fields(&page, &form(&[]))).await;
    let address = reply.header("location").unwrap().to_owned();
    provider.wait(3600);
    assert!(element(&ben.get(&address).await, "new-secret").is_none());
}

/// Two forms of a page have the same token. The second one is not taken for a repetition of the first.
#[tokio::test]
async fn each_form_of_a_page_takes_effect() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let ben = async || provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap();
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned(), "x".to_owned()].into()).await;
    let path = format!("/console/users/{}", provider.ben.sub);
    let page = anna.get(&path).await;
    let profile = fields(&page, &[("action", "save-profile"), ("name", "Benjamin"), ("email", BEN)]);
    let groups = [("action", "save"), ("shown_groups", "staff,x"), ("groups", "staff"), ("role_developer", "yes")];
    let groups = fields(&page, &[&groups[..], &[("shown_roles", "developer"), ("sure", "yes")]].concat());
    for form in [&profile, &groups] {
        assert_eq!(send(&anna, &path, form).await.status, 303);
    }
    assert_eq!((&*ben().await.name, ben().await.groups), ("Benjamin", ["staff".to_owned()].into()));
    // Neither form is repeated by a second click, also in the other order.
    provider.change_user(provider.ben.sub, |user| user.groups = ["staff".to_owned(), "x".to_owned()].into()).await;
    for form in [&groups, &profile] {
        assert_eq!(send(&anna, &path, form).await.status, 303);
    }
    assert!(ben().await.groups.contains("x"));
    // The same form with another value is another submission.
    let other = fields(&page, &[("action", "save-profile"), ("name", "Ben"), ("email", BEN)]);
    assert_eq!(send(&anna, &path, &other).await.status, 303);
    assert_eq!(ben().await.name, "Ben");

    // A group is renamed and deleted with the forms of one page.
    let members = "/console/groups/members";
    let page = anna.get(&format!("{members}?name=x")).await;
    let rename = page.text().split("<form").find(|form| form.contains("id=\"to\"")).unwrap();
    let token = |name: &str| {
        let rest = rename.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
        (name.to_owned(), rest.split('"').next().unwrap().to_owned())
    };
    let own = |more: &[(&str, &str)]| -> Vec<(String, String)> {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        [token("csrf"), token("once")].into_iter().chain(more).collect()
    };
    let rename = own(&[("action", "rename"), ("name", "x"), ("to", "y"), ("sure", "yes")]);
    let delete = own(&[("action", "delete"), ("name", "y"), ("sure", "yes")]);
    assert_eq!(send(&anna, members, &rename).await.status, 303);
    assert!(ben().await.groups.contains("y"));
    assert_eq!(send(&anna, members, &delete).await.status, 303);
    assert_eq!(ben().await.groups, ["staff".to_owned()].into());
}

/// The confirmation of a form belongs to the same submission as the form.
#[tokio::test]
async fn a_form_and_its_confirmation_are_one_submission() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let page = anna.get("/console/users/new").await;
    let person =
        [("email", "ece@example.test"), ("username", ""), ("name", "Ece"), ("groups", ""), ("role_admin", "yes")];
    let first = fields(&page, &person);
    let question = send(&anna, "/console/users/new", &first).await;
    assert!(is_confirmation(&question), "{question:?}");
    let reply = anna.submit_only(&question, &[("sure", "yes")]).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    for again in
        [anna.submit_only(&question, &[("sure", "yes")]).await, send(&anna, "/console/users/new", &first).await]
    {
        assert_eq!((again.status, again.location()), (303, reply.location()), "{again:?}");
    }
    assert_eq!(events(&provider, Kind::UserCreated).await, 1);
}
