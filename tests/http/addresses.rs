//! Tests the account's e-mail address: it is verified, and changed, with a code entered in the
//! browser that requested it.

use sealgate_admin::command::Command;
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::mail::{CodePurpose, Mail, Notice};
use sealgate_domain::user::{Email, PasswordHash, User, UserState};
use serde_json::json;

use crate::mailbox::{self, MAIL};
use crate::meddler::At;
use crate::steps::{assert_login, with_anna};
use crate::support::{Browser, Provider, Reply, Tokens, jwt_claims};

const PAGE: &str = "/account/address";
const NEW: &str = "/account/address/new";

async fn provider() -> Provider {
    Provider::with(MAIL).await
}

/// Signs in Ben, whose e-mail address is unverified.
async fn with_ben(provider: &Provider) -> Browser<'_> {
    let browser = provider.browser();
    let page = browser.open("/account").await;
    assert_eq!(browser.sign_in(&page, "ben@example.test").await.status, 200);
    browser
}

async fn anna(provider: &Provider) -> User {
    provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap()
}

async fn ben(provider: &Provider) -> User {
    provider.sealgate.store.user(provider.ben.sub).await.unwrap().unwrap()
}

async fn ask(browser: &Browser<'_>) -> Reply {
    let page = browser.get(PAGE).await;
    browser.submit(&page, &[("verify", "yes")]).await
}

async fn enter(browser: &Browser<'_>, code: &str) -> Reply {
    let page = browser.get(PAGE).await;
    browser.submit(&page, &[("code", code)]).await
}

async fn move_to(browser: &Browser<'_>, address: &str) -> Reply {
    let page = browser.get(NEW).await;
    browser.submit(&page, &[("address", address)]).await
}

/// Returns a wrong code.
fn other(code: &str) -> String {
    let number: u64 = code.parse().unwrap();
    format!("{:08}", (number + 1) % 100_000_000)
}

fn waits(page: &Reply) -> bool {
    page.text().contains("id=\"code-submit\"")
}

#[tokio::test]
async fn an_address_is_verified_by_the_mailed_code() {
    let provider = provider().await;
    let browser = with_ben(&provider).await;
    let profile = browser.get("/account").await;
    assert!(profile.text().contains("Not verified") && profile.text().contains("href=\"/account/address\""));
    provider.wait(60);
    let page = ask(&browser).await;
    assert!(waits(&page) && page.text().contains("within 15 minutes"), "{page:?}");
    assert!(!ben(&provider).await.email_verified);
    let mails = mailbox::take(&provider.sealgate).await;
    let Mail::VerificationCode { code, purpose: CodePurpose::Address } = &mails[0].mail else { panic!("{mails:?}") };
    assert_eq!((mails.len(), mailbox::address(&mails[0]).as_str()), (1, "ben@example.test"));
    assert!(code.len() == 8 && code.bytes().all(|byte| byte.is_ascii_digit()));

    let grouped = format!(" {} {}-{}", &code[..3], &code[3..5], &code[5..]);
    let verified = enter(&browser, &grouped).await;
    assert!(verified.text().contains("Your address is verified.") && !waits(&verified), "{verified:?}");
    let ben = ben(&provider).await;
    assert!(ben.email_verified && ben.updated_at == provider.sealgate.clock.now());
    let code = provider.c1().code_in(&browser, &[("scope", "openid email")]).await;
    let claims = jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id);
    assert_eq!(claims["email_verified"], true);
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    assert!(browser.get("/account/activity").await.text().contains("Address verified"));
    // The code is used up, and its record is deleted.
    assert!(provider.sealgate.store.account_links(ben.sub).await.unwrap().is_none());
}

#[tokio::test]
async fn a_verification_code_works_only_in_its_browser() {
    let provider = provider().await;
    let (browser, elsewhere) = (with_ben(&provider).await, with_ben(&provider).await);
    ask(&browser).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    assert!(!waits(&elsewhere.get(PAGE).await));
    for _ in 0..6 {
        let page = enter(&elsewhere, &code).await;
        assert!(page.text().contains("This browser is not waiting for a code"), "{page:?}");
        enter(&elsewhere, &other(&code)).await;
    }
    assert!(!ben(&provider).await.email_verified);
    // The attempt did not count against the browser that requested the code.
    assert!(enter(&browser, &code).await.text().contains("is verified"));
}

#[tokio::test]
async fn the_newest_code_is_valid_for_five_tries_and_fifteen_minutes() {
    let provider = provider().await;
    let browser = with_ben(&provider).await;
    ask(&browser).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    // Malformed input does not count as an attempt.
    for nonsense in ["", "1234", "1234567a", "١٢٣٤٥٦٧٨", "123456789"] {
        assert!(waits(&enter(&browser, nonsense).await), "{nonsense}");
    }
    for _ in 0..4 {
        let page = enter(&browser, &other(&code)).await;
        assert!(waits(&page) && page.text().contains("The code is incorrect"), "{page:?}");
    }
    assert!(!waits(&enter(&browser, &other(&code)).await));
    assert!(enter(&browser, &code).await.text().contains("This browser is not waiting for a code"));

    ask(&browser).await;
    let (late, _) = mailbox::code(&provider.sealgate).await;
    provider.wait(15 * 60);
    assert!(enter(&browser, &late).await.text().contains("This browser is not waiting for a code"));

    ask(&browser).await;
    let (older, _) = mailbox::code(&provider.sealgate).await;
    ask(&browser).await;
    let (newer, _) = mailbox::code(&provider.sealgate).await;
    enter(&browser, &older).await;
    assert!(!ben(&provider).await.email_verified);
    assert!(enter(&browser, &newer).await.text().contains("is verified"));
}

#[tokio::test]
async fn codes_are_limited_per_account_in_fifteen_minutes_and_a_day() {
    let provider = provider().await;
    let browser = with_ben(&provider).await;
    let mut sent = 0;
    for _ in 0..100 {
        let browser = with_ben(&provider).await;
        let page = ask(&browser).await;
        let mailed = mailbox::take(&provider.sealgate).await.len();
        assert_eq!(mailed == 0, page.text().contains("Too many codes were sent"), "{page:?}");
        sent += mailed;
        provider.wait(5 * 60);
    }
    assert!((10..=20).contains(&sent), "{sent} in eight hours");
    drop(browser);
}

#[tokio::test]
async fn a_pending_code_ends_with_a_new_password_or_a_sign_out_everywhere() {
    let provider = provider().await;
    let browser = with_ben(&provider).await;
    for end in ["password", "revoke", "cancel"] {
        ask(&browser).await;
        let (code, _) = mailbox::code(&provider.sealgate).await;
        let store = &provider.sealgate.store;
        match end {
            "password" => {
                let other = PasswordHash::new("$argon2id$another".to_owned());
                store.change_user(provider.ben.sub, |user| user.password = Some(other.clone())).await.unwrap();
            }
            "revoke" => {
                store.change_account_links(provider.ben.sub, &[], AccountLinks::take_back).await.unwrap();
            }
            _ => {
                let page = browser.get(PAGE).await;
                browser.submit(&page, &[("cancel", "yes")]).await;
            }
        }
        assert!(enter(&browser, &code).await.text().contains("This browser is not waiting for a code"), "{end}");
    }
    assert!(!ben(&provider).await.email_verified);
}

#[tokio::test]
async fn without_mail_only_administrators_change_addresses() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for page in [PAGE, NEW] {
        assert_eq!(browser.get(page).await.status, 404);
    }
    let profile = browser.get("/account").await;
    assert!(profile.text().contains("Only your administrator can change it."), "{profile:?}");
    assert!(!profile.text().contains(PAGE));
}

#[tokio::test]
async fn an_address_is_changed_after_verification_and_the_old_one_is_notified() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    provider.wait(60);
    let page = move_to(&browser, " anna@new.test ").await;
    assert!(waits(&page) && page.text().contains("anna@new.test"), "{page:?}");
    assert_eq!(anna(&provider).await, provider.anna);
    let mails = mailbox::take(&provider.sealgate).await;
    let Mail::VerificationCode { code, purpose: CodePurpose::NewAddress } = &mails[0].mail else { panic!("{mails:?}") };
    assert_eq!((mails.len(), mailbox::address(&mails[0]).as_str()), (1, "anna@new.test"));

    let changed = enter(&browser, code).await;
    assert!(changed.text().contains("Your address was changed."), "{changed:?}");
    let anna = anna(&provider).await;
    assert_eq!((anna.sign_in_name(), anna.email_verified), ("anna@new.test", true));
    assert_eq!(anna.updated_at, provider.sealgate.clock.now());
    // The user is found by the new address; the old address is free.
    let store = &provider.sealgate.store;
    assert_eq!(store.user_by_email(anna.email.as_ref().unwrap()).await.unwrap().unwrap().sub, anna.sub);
    assert!(store.user_by_email(provider.anna.email.as_ref().unwrap()).await.unwrap().is_none());
    let mails = mailbox::take(&provider.sealgate).await;
    assert_eq!(mails.iter().map(mailbox::address).collect::<Vec<_>>(), ["anna@example.test", "anna@new.test"]);
    let Mail::AddressChanged { new_address, .. } = &mails[0].mail else { panic!("{mails:?}") };
    assert_eq!(new_address, "a…@new.test");
    assert_eq!(mails[1].mail, Mail::Notice { notice: Notice::AddressChanged, count: 1 });
    // The session continues, and the next sign-in uses the new address.
    provider.sealgate.audit.write(store).await.unwrap();
    assert_eq!(browser.get("/account/activity").await.text().matches("Address changed").count(), 1);
    let fresh = provider.browser();
    let login = fresh.open("/account").await;
    assert_login(&fresh.sign_in(&login, "anna@example.test").await);
    assert_eq!(fresh.sign_in(&login, "anna@new.test").await.status, 200);
}

#[tokio::test]
async fn the_owner_of_a_taken_address_is_notified_and_the_requester_is_not() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    let known = move_to(&browser, "BEN@example.test").await;
    let told = mailbox::take(&provider.sealgate).await;
    assert_eq!((told.len(), &told[0].mail), (1, &Mail::AccountExists { purpose: CodePurpose::NewAddress }));
    assert_eq!(mailbox::address(&told[0]), "ben@example.test", "the address that the account has, not the one typed");
    let unknown = move_to(&browser, "BEM@example.test").await;
    assert_eq!(
        known.text().replace("BEN@", "BEM@").replace(&csrf(&known), ""),
        unknown.text().replace(&csrf(&unknown), "")
    );
    let (code, to) = mailbox::code(&provider.sealgate).await;
    assert_eq!(to, "BEM@example.test");
    // An account with the address is created before the code is typed. The user has verified the
    // address, so the page may report this.
    let store = &provider.sealgate.store;
    let taker = Email::parse("bem@example.test").unwrap();
    let _ = store.rename_user(provider.ben.sub, |user| user.email = Some(taker.clone())).await.unwrap();
    let page = enter(&browser, &code).await;
    assert!(page.text().contains("This address now belongs to another account"), "{page:?}");
    assert_eq!(anna(&provider).await, provider.anna);
    // The page does not reveal a disabled account.
    store.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    provider.wait(3600);
    let browser = with_anna(&provider).await;
    assert!(waits(&move_to(&browser, "bem@example.test").await));
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
}

/// Two wrong codes are sent concurrently. The request whose commit conflicts gets the same answer,
/// regardless of who owns the address.
#[tokio::test]
async fn concurrent_wrong_codes_reveal_nothing_about_the_address() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let browser = with_anna(&provider).await;
    let mut answers = Vec::new();
    for address in ["ben@example.test", "bem@example.test"] {
        move_to(&browser, address).await;
        let page = browser.get(PAGE).await;
        let stop = meddler.stop(At::BeforeCommit, b'A');
        let (met, _) = tokio::join!(
            browser.submit(&page, &[("code", "00000000")]),
            stop.meanwhile(browser.submit(&page, &[("code", "00000001")])),
        );
        answers.push(met.text().replace("ben@", "bem@").replace(&csrf(&met), ""));
    }
    assert!(answers[0].contains("The code is incorrect"), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
}

fn csrf(page: &Reply) -> String {
    crate::steps::csrf_of(page)
}

/// Without this check, a user could register with a permitted domain and move to any other.
#[tokio::test]
async fn a_new_address_must_have_a_permitted_domain() {
    let open = |domains: &str| format!("{MAIL}[registration_of_people]\nmode = \"open\"\ndomains = [{domains}]\n");
    let provider = Provider::with(&open("\"example.test\"")).await;
    let browser = with_anna(&provider).await;
    for typed in ["anna@elsewhere.test", "anna@sub.example.test"] {
        let refused = move_to(&browser, typed).await;
        assert!(refused.text().contains("You cannot change to this address"), "{typed}: {refused:?}");
        assert!(
            refused.text().contains("<bdi>example.test</bdi>") && refused.text().contains("aria-invalid"),
            "{typed}"
        );
    }
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
    assert!(waits(&browser.follow(move_to(&browser, "anna.new@example.test").await).await));
    let provider = Provider::with(&open("")).await;
    let browser = with_anna(&provider).await;
    assert!(waits(&browser.follow(move_to(&browser, "anna@elsewhere.test").await).await));
}

#[tokio::test]
async fn an_undeliverable_address_is_refused_in_the_form() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    for (typed, told) in [
        ("", "Emails cannot be sent"),
        ("anna", "Emails cannot be sent"),
        ("a..b@example.test", "Emails cannot be sent"),
        ("<a@example.test>", "Emails cannot be sent"),
        ("a,b@example.test", "Emails cannot be sent"),
        ("a@b@example.test", "Emails cannot be sent"),
        ("a@127.0.0.1", "Emails cannot be sent"),
        ("şule@example.test", "before the @"),
        ("anna@example.test", "already your address"),
    ] {
        let page = move_to(&browser, typed).await;
        assert!(page.status == 200 && page.text().contains(told), "{typed}: {page:?}");
        assert!(page.text().contains("aria-invalid"), "{typed}");
    }
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
    // The user's own address in another case, and an internationalized domain.
    for typed in ["Anna@Example.test", "anna@çağrı.test"] {
        move_to(&browser, typed).await;
        let (code, to) = mailbox::code(&provider.sealgate).await;
        assert_eq!(to, typed);
        assert!(enter(&browser, &code).await.text().contains("was changed"), "{typed}");
        mailbox::take(&provider.sealgate).await;
    }
}

#[tokio::test]
async fn a_change_of_address_requires_a_recent_sign_in() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    let page = browser.get(NEW).await;
    provider.wait(31 * 60);
    assert_login(&browser.open(NEW).await);
    assert_login(&browser.submit(&page, &[("address", "anna@new.test")]).await);
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
}

#[tokio::test]
async fn links_to_the_old_address_end_except_the_undo_link() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    for number in 1..=2 {
        move_to(&browser, &format!("anna{number}@new.test")).await;
        let (code, _) = mailbox::code(&provider.sealgate).await;
        enter(&browser, &code).await;
        mailbox::take(&provider.sealgate).await;
    }
    let links = provider.sealgate.store.account_links(provider.anna.sub).await.unwrap().unwrap().value;
    let back: Vec<&str> = links.undos.iter().map(|undo| undo.address.as_str()).collect();
    assert_eq!(back, ["anna@example.test", "anna@example.test"]);
    assert!(links.resets.is_empty() && links.verification.is_none());
}

#[tokio::test]
async fn a_mail_dropped_by_a_full_outbox_is_counted() {
    let provider = provider().await;
    let browser = with_anna(&provider).await;
    mailbox::fill(&provider.sealgate).await;
    move_to(&browser, "anna@new.test").await;
    assert_eq!(mailbox::dropped(&provider.sealgate, "address_wanted"), 1);
    let set = json!({ "user": { "set": {
        "user": { "email": "anna@example.test" }, "changes": { "email": "anna@safe.test" },
    } } });
    let command: Command = serde_json::from_value(set).unwrap();
    execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
    // The change is kept although the message to the old address was dropped. The notification of
    // the audit event is dropped as well.
    assert_eq!(mailbox::dropped(&provider.sealgate, "notice"), 1);
    sealgate::app::notices::queue_notices(&provider.sealgate).await;
    assert_eq!(mailbox::dropped(&provider.sealgate, "notice"), 2);
}
