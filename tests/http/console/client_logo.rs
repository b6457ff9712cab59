//! Tests logos of clients: upload in the console, the pages that show them, and how they are served.

use http::Request;
use http::header::CONTENT_TYPE;
use sealgate_domain::client::{Authority, ClientDecision};
use sealgate_domain::client_logo::{LogoFormat, LogoPicture, MAX_LOGO_BYTES};

use super::roles::send;
use super::*;

const PAGE: &str = "/console/clients/c1/logo";

/// Header of a WebP picture with 48 x 64 pixels. All bytes are ASCII.
const PICTURE: &str = "RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x2f\0\0\x3f\0\0";

/// Returns the body of a form with a file.
fn body(fields: &[(&str, &str)], file: Option<&str>) -> String {
    let part = |name: &str, more: &str, content: &str| {
        format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
    };
    let fields = fields.iter().map(|(name, value)| part(name, "", value));
    let file = file.map(|file| part("logo", "; filename=\"../x.svg\"\r\nContent-Type: image/svg+xml", file));
    fields.chain(file).collect::<String>() + "--limit--\r\n"
}

async fn post(browser: &Browser<'_>, path: &str, body: String) -> Reply {
    let request = Request::post(path).header(CONTENT_TYPE, "multipart/form-data; boundary=limit");
    browser.send(request, body).await
}

async fn upload(browser: &Browser<'_>, file: &str) -> Reply {
    let csrf = csrf_of(&browser.get(PAGE).await);
    let reply = post(browser, PAGE, body(&[("csrf", &csrf), ("action", "set")], Some(file))).await;
    browser.follow(reply).await
}

/// Returns the URL of the first picture of a page with this attribute.
fn picture(page: &Reply, attribute: &str) -> Option<String> {
    let tag = page.text().split("<img ").skip(1).find(|tag| tag.split('>').next().unwrap().contains(attribute))?;
    Some(tag.split("src=\"").nth(1)?.split('"').next()?.to_owned())
}

async fn last_change(provider: &Provider) -> AuditEvent {
    let filter = AuditFilter { kinds: vec![AuditKind::ClientChanged], ..AuditFilter::default() };
    provider.sealgate.store.audit_page(&filter, None, 1).await.unwrap().records.remove(0).event
}

#[tokio::test]
async fn an_uploaded_logo_is_shown_and_served_until_it_is_removed() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(!anna.get(PAGE).await.text().contains("client-logo-remove"));
    let page = upload(&anna, PICTURE).await;
    let address = picture(&page, "logo-shown").unwrap();
    assert!(page.text().contains("client-logo-remove"), "{page:?}");
    let event = last_change(&provider).await;
    assert_eq!(event.detail.as_deref(), Some("set logo"));
    assert_eq!(event.actor, Actor::Administrator(provider.anna.sub));
    // The picture is public, and its URL is its only name.
    let served = provider.browser().get(&address).await;
    assert_eq!((served.status, served.text()), (200, PICTURE));
    assert_eq!(served.header("content-type"), Some("image/webp"));
    assert_eq!(served.header("x-content-type-options"), Some("nosniff"));
    let policy = served.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    assert!(served.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(served.header("set-cookie"), None);
    let (path, version) = address.split_once("?v=").unwrap();
    for other in [path.to_owned(), format!("{path}?v="), format!("{path}?v={}", &version[1..])] {
        assert_eq!(provider.get(&other).await.status, 404, "{other}");
    }
    assert_eq!(provider.get(&format!("/oauth/client-logos/nobody?v={version}")).await.status, 404);
    // The list of clients, the consent page and the account pages show it.
    assert_eq!(picture(&anna.get("/console/clients").await, "client-mark"), Some(address.clone()));
    let ben = provider.browser();
    let login = ben.open(&provider.c1().authorize(&[])).await;
    let consent = ben.sign_in(&login, BEN).await;
    assert!(is_consent(&consent), "{consent:?}");
    assert_eq!(picture(&consent, "consent-logo"), Some(address.clone()));
    ben.allow(&consent).await;
    assert_eq!(picture(&ben.get("/account/applications").await, "client-mark"), Some(address.clone()));
    let csrf = csrf_of(&anna.get(PAGE).await);
    let reply = anna.post(PAGE, &[("csrf", &csrf), ("action", "remove")]).await;
    assert_eq!(reply.status, 303);
    assert!(picture(&anna.follow(reply).await, "logo-shown").is_none());
    assert_eq!(provider.get(&address).await.status, 404);
    assert!(stored(&provider, "c1").await.unwrap().logo.is_none());
}

#[tokio::test]
async fn a_file_that_is_no_small_picture_changes_nothing() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    upload(&anna, PICTURE).await;
    let before = stored(&provider, "c1").await.unwrap();
    let large = format!("{PICTURE}{}", "x".repeat(MAX_LOGO_BYTES));
    let (tiny, animated) = (PICTURE.replace('\x2f', "\x01"), PICTURE.replace("\x0a\0\0\0\0", "\x0a\0\0\0\x02"));
    for (file, words) in [
        ("", "Choose a file."),
        ("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "not a PNG, JPEG or WebP"),
        ("GIF89a", "not a PNG, JPEG or WebP"),
        (large.as_str(), "larger than 32 KiB"),
        (tiny.as_str(), "2 × 64 pixels"),
        (animated.as_str(), "animated"),
    ] {
        let page = upload(&anna, file).await;
        assert!(page.status == 200 && page.text().contains(words), "{words}: {page:?}");
        assert!(page.text().contains("id=\"logo-wrong\""), "{words}");
    }
    let csrf = csrf_of(&anna.get(PAGE).await);
    let none = post(&anna, PAGE, body(&[("csrf", &csrf), ("action", "set")], None)).await;
    assert!(none.text().contains("Choose a file."), "{none:?}");
    // Malformed forms, and one with a wrong token.
    let fields = [("csrf", csrf.as_str()), ("action", "set")];
    let sound = body(&fields, Some(PICTURE));
    let long = "x".repeat(5000);
    for (form, status) in [
        (body(&[("csrf", "wrong"), ("action", "set")], Some(PICTURE)), 400),
        (body(&[("action", "set")], Some(PICTURE)), 400),
        (body(&[fields[0], ("action", "sell")], Some(PICTURE)), 400),
        (body(&[fields[0], fields[1], ("x", &long)], Some(PICTURE)), 400),
        (body(&[fields.as_slice(), &[("x", ""); 7]].concat(), Some(PICTURE)), 400),
        (sound.replace("--limit--", ""), 400),
        (sound.replace("limit", "other"), 400),
        (String::new(), 400),
    ] {
        assert_eq!(post(&anna, PAGE, form.clone()).await.status, status, "{form:?}");
    }
    assert_eq!(stored(&provider, "c1").await.unwrap(), before);
}

#[tokio::test]
async fn a_developer_sets_the_logo_of_an_own_client_and_loses_its_approval() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let other = send(&ben, provider.ben.sub, PAGE, &[("action", "remove")]).await;
    assert_eq!(other.status, 404, "the client of another owner");
    assert_eq!(ben.get(PAGE).await.status, 404);
    let approval = ClientDecision { by: Authority::Operator, at: provider.clock.now() };
    provider
        .change_client("c1", |client| (client.owner, client.approval) = (Some(provider.ben.sub), Some(approval)))
        .await;
    assert!(ben.get(PAGE).await.text().contains("id=\"logo-approval\""));
    let page = upload(&ben, PICTURE).await;
    let address = picture(&page, "logo-shown").unwrap();
    let client = stored(&provider, "c1").await.unwrap();
    assert_eq!(client.logo.as_ref().unwrap().format, LogoFormat::Webp);
    assert_eq!(client.approval, None);
    assert_eq!(last_change(&provider).await.detail.as_deref(), Some("set logo, approval lost"));
    // Users see the picture on the consent page only after an administrator has seen it.
    let anna = signed_in(&provider, ANNA).await;
    let consent = anna.open(&provider.c1().authorize(&[])).await;
    assert!(is_consent(&consent) && picture(&consent, "consent-logo").is_none(), "{consent:?}");
    let rules = anna.get("/console/clients/c1/rules").await;
    assert_eq!(picture(&rules, "approved-logo"), Some(address.clone()));
    // An approval of the page before another upload is refused.
    let changed = upload(&ben, &PICTURE.replace('\x2f', "\x3f")).await;
    assert_ne!(picture(&changed, "logo-shown"), Some(address));
    let hidden = hidden_fields(rules.text());
    let value = |name: &str| hidden.iter().find(|(known, _)| known == name).unwrap().1.as_str();
    let fields = [("csrf", value("csrf")), ("seen", value("seen")), ("action", "approve"), ("sure", "yes")];
    let page = anna.post("/console/clients/c1", &fields).await;
    assert!(page.text().contains("client-changed"), "{page:?}");
    assert_eq!(stored(&provider, "c1").await.unwrap().approval, None);
}

#[tokio::test]
async fn a_deleted_client_leaves_no_picture() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let address = picture(&upload(&anna, PICTURE).await, "logo-shown").unwrap();
    let before = stored(&provider, "c1").await.unwrap();
    let store = &provider.sealgate.store;
    assert!(store.delete_client(&before.id, provider.clock.now()).await.unwrap());
    assert_eq!(provider.get(&address).await.status, 404);
    // The record of the picture is gone too.
    let again = Client { logo: before.logo.clone(), ..provider.confidential("c1") };
    assert_eq!(store.add_client(&again).await.unwrap(), AddOutcome::Added);
    assert_eq!(store.client_logo(&again).await.unwrap(), None::<LogoPicture>);
}

#[tokio::test]
async fn a_client_of_the_configuration_file_has_no_form_for_a_logo() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let csrf = csrf_of(&anna.get(PAGE).await);
    provider.change_client("c1", |client| client.from_configuration = true).await;
    assert_eq!(anna.get(PAGE).await.status, 404);
    let reply = post(&anna, PAGE, body(&[("csrf", &csrf), ("action", "set")], Some(PICTURE))).await;
    assert_eq!(reply.status, 404);
    assert!(stored(&provider, "c1").await.unwrap().logo.is_none());
}
