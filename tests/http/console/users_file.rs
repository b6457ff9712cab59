//! Tests the export and the import of users in the console.

use super::roles::{KEYS, MERT, add_person};
use super::*;

const EXPORT: &str = "/console/users/export?format=";
const IMPORT: &str = "/console/users/import";
const LIST: &str = "email,name,groups,email_verified,state\nayse@example.test,Ayşe Yılmaz,\"students,math\",true,\n\
    berk@example.test,Berk Öz,,,disabled\n";

async fn events(provider: &Provider, kind: AuditKind) -> Vec<AuditEvent> {
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![kind], ..AuditFilter::default() };
    let page = provider.sealgate.store.audit_page(&filter, None, 100).await.unwrap();
    page.records.into_iter().map(|record| record.event).collect()
}

async fn user(provider: &Provider, email: &str) -> Option<User> {
    provider.sealgate.store.user_by_email(&Email::parse(email).unwrap()).await.unwrap()
}

/// Returns the addresses in an exported file.
fn addresses(file: &Reply, format: &str) -> Vec<String> {
    if format == "csv" {
        let rows = file.text().lines().skip(1);
        return rows.map(|row| row.split(',').nth(1).unwrap().trim_matches('"').to_owned()).collect();
    }
    let rows = file.text().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.map(|row| row["email"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_export_has_the_users_whom_the_reader_sees_and_is_recorded() {
    let provider = provider_with(KEYS).await;
    let mert = add_person(&provider, 30, "mert", &["helpdesk"]).await;
    add_person(&provider, 31, "mia", &["students"]).await;
    let ada = add_person(&provider, 34, "ada", &["students", "audit"]).await;
    for number in 40..=240_u8 {
        add_person(&provider, number, &format!("u{number}"), &["staff"]).await;
    }
    for (email, actor) in [
        (ANNA, Actor::Administrator(provider.anna.sub)),
        ("ada@example.test", Actor::Auditor(ada)),
        (MERT, Actor::UserManager(mert)),
    ] {
        let browser = signed_in(&provider, email).await;
        let list = browser.get("/console/users").await;
        assert!(list.text().contains(&format!("{EXPORT}csv")), "{list:?}");
        for format in ["csv", "ndjson"] {
            let file = browser.get(&format!("{EXPORT}{format}")).await;
            assert_eq!(file.status, 200, "{file:?}");
            assert!(!file.text().contains("argon2"), "{email} {format}");
            let found = addresses(&file, format);
            let sees_all = email != MERT;
            assert_eq!(found.len(), if sees_all { 206 } else { 202 }, "{email} {format}");
            for other in ["ada@example.test", ANNA, BEN, MERT] {
                assert_eq!(found.iter().any(|known| known == other), sees_all, "{email} {other}");
            }
            assert!(found.iter().any(|known| known == "mia@example.test"));
            let event = events(&provider, AuditKind::UsersExported).await.remove(0);
            assert_eq!((event.actor, event.detail.as_deref()), (actor, Some(format)));
        }
        assert_eq!(browser.get(&format!("{EXPORT}xml")).await.status, 400);
        // An export requires a sign-in of the last five minutes.
        provider.wait(301);
        let login = browser.open(&format!("{EXPORT}csv")).await;
        assert_login(&login);
        assert!(browser.sign_in(&login, email).await.text().contains(&format!("{EXPORT}csv")), "the list of users");
    }
    assert_eq!(signed_in(&provider, BEN).await.get(&format!("{EXPORT}csv")).await.status, 403);
    assert_eq!(events(&provider, AuditKind::UsersExported).await.len(), 6);
}

#[tokio::test]
async fn an_export_of_a_filtered_list_has_the_users_of_the_list() {
    let provider = provider_with(KEYS).await;
    add_person(&provider, 30, "mert", &["helpdesk"]).await;
    for number in 40..=250_u8 {
        add_person(&provider, number, &format!("u{number}"), &["staff"]).await;
    }
    add_person(&provider, 31, "mia", &["students"]).await;
    let filter = "&group=staff&sort=address&reversed=yes";
    let mut expected: Vec<String> = (40..=250).map(|number| format!("u{number}@example.test")).collect();
    expected.sort_by(|one, other| other.cmp(one));
    let anna = signed_in(&provider, ANNA).await;
    let list = anna.get(&format!("/console/users?page=2{filter}")).await;
    for format in ["csv", "ndjson"] {
        let address = format!("{EXPORT}{format}{filter}");
        assert!(list.text().contains(&address.replace('&', "&#38;")), "{list:?}");
        assert_eq!(addresses(&anna.get(&address).await, format), expected);
        let event = events(&provider, AuditKind::UsersExported).await.remove(0);
        assert_eq!(event.detail, Some(format!("{format} filtered 211")));
    }
    let found = anna.get(&format!("{EXPORT}csv&find=mia")).await;
    assert_eq!(addresses(&found, "csv"), ["mia@example.test"]);
    assert_eq!(addresses(&anna.get(&format!("{EXPORT}csv&find=nobody")).await, "csv"), Vec::<String>::new());
    // A user manager receives only managed users, with any filter.
    let browser = signed_in(&provider, MERT).await;
    for (filter, count) in [("&group=helpdesk", 0), ("&group=staff", 211), ("&state=enabled", 212), ("&find=anna", 0)] {
        let file = browser.get(&format!("{EXPORT}csv{filter}")).await;
        assert_eq!(addresses(&file, "csv").len(), count, "{filter}");
    }
}

#[tokio::test]
async fn an_export_ends_when_the_user_loses_the_role_or_the_session() {
    for (email, ends_session) in [(ANNA, false), (ANNA, true), (MERT, false)] {
        let provider = provider_with(KEYS).await;
        let mert = add_person(&provider, 30, "mert", &["helpdesk"]).await;
        for number in 0..1_100_u32 {
            let sub = Subject::from_random(*uuid(number).first_chunk().unwrap());
            let email = Email::parse(&format!("u{number}@example.test"));
            let user =
                User { sub, email, groups: ["staff".to_owned()].into(), roles: [].into(), ..provider.ben.clone() };
            assert_eq!(provider.sealgate.store.add_user(&user).await.unwrap(), AddOutcome::Added);
        }
        let reader = if email == ANNA { provider.anna.sub } else { mert };
        let browser = signed_in(&provider, email).await;
        let mut parts = browser.stream(&format!("{EXPORT}ndjson")).await;
        assert!(parts.next().await.unwrap().is_some());
        if ends_session {
            provider.sealgate.store.for_server().end_sessions_of_user(reader).await.unwrap();
        } else {
            provider.change_user(reader, |user| (user.roles, user.groups) = ([].into(), [].into())).await;
        }
        let mut received = 1;
        let end = loop {
            match parts.next().await {
                Ok(Some(_)) => received += 1,
                end => break end,
            }
        };
        assert!(end.is_err() && received < 5, "{email}: {received} parts, {end:?}");
    }
}

fn uuid(number: u32) -> [u8; 16] {
    let mut bytes = [7; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[tokio::test]
async fn a_list_is_imported_after_a_preview_and_once() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get("/console/users").await.text().contains(IMPORT));
    let question = press_only(&anna, IMPORT, &[("csv", LIST)]).await;
    assert!(is_confirmation(&question) && question.text().contains("2 users are imported"), "{question:?}");
    for shown in
        ["Ayşe Yılmaz", "berk@example.test", "<bdi>math</bdi>", "2 users have no password", "Disabled users: 1"]
    {
        assert!(question.text().contains(shown), "{shown}: {question:?}");
    }
    let verified = element(&question, "import-verified").unwrap_or_else(|| panic!("{question:?}"));
    assert_eq!(verified, "Email addresses that count as verified without a message to the user: 1");
    let none = press_only(&anna, IMPORT, &[("csv", "email,name\ncan@example.test,Can\n")]).await;
    assert!(is_confirmation(&none) && element(&none, "import-verified").is_none(), "{none:?}");
    assert!(user(&provider, "ayse@example.test").await.is_none());
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.status == 200 && page.text().contains("The users were imported."), "{page:?}");
    let ayse = user(&provider, "ayse@example.test").await.unwrap();
    assert!(ayse.email_verified && ayse.groups.len() == 2 && ayse.is_enabled(), "{ayse:?}");
    assert!(!user(&provider, "berk@example.test").await.unwrap().is_enabled());
    let log = events(&provider, AuditKind::UserCreated).await;
    assert!(
        log.len() == 2 && log.iter().all(|event| event.actor == Actor::Administrator(provider.anna.sub)),
        "{log:?}"
    );
    // A second click and a retry lead to the same page and change nothing.
    let again = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(again.text().contains("The users were imported."), "{again:?}");
    assert_eq!(events(&provider, AuditKind::UserCreated).await, log);
}

/// Sends the form as a browser does, with a file.
async fn send_file(browser: &Browser<'_>, csrf: &str, csv: &str, file: &[u8]) -> Reply {
    let mut body = Vec::new();
    for (name, more, content) in
        [("csrf", "", csrf.as_bytes()), ("csv", "", csv.as_bytes()), ("file", "; filename=\"l.csv\"", file)]
    {
        let head = format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
        body.extend_from_slice(&[head.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend_from_slice(b"--limit--\r\n");
    let request = http::Request::post(IMPORT).header("content-type", "multipart/form-data; boundary=limit");
    browser.send(request, body).await
}

#[tokio::test]
async fn a_file_is_imported_instead_of_the_text() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let csrf = csrf_of(&anna.get(IMPORT).await);
    let refused = send_file(&anna, "", "", LIST.as_bytes()).await;
    assert!(refused.status == 400 && !is_confirmation(&refused), "{refused:?}");
    for (csv, file) in [("", LIST), (LIST, ""), ("email,name\nother@example.test,Other\n", LIST)] {
        let question = send_file(&anna, &csrf, csv, file.as_bytes()).await;
        assert!(is_confirmation(&question) && question.text().contains("2 users are imported"), "{question:?}");
        assert!(!question.text().contains("other@"), "{question:?}");
    }
    // The file is larger than other fields may be.
    let many = (0..300).fold("email,name\n".to_owned(), |file, number| file + &format!("u{number}@example.test,U\n"));
    let question = send_file(&anna, &csrf, "", many.as_bytes()).await;
    assert!(question.text().contains("300 users are imported"), "{question:?}");
    // Its faults are shown with its content.
    let page = send_file(&anna, &csrf, "", b"email,name\nx,X\n").await;
    assert!(
        page.text().contains("Line 2, <code>email</code>: Enter an address") && page.text().contains("x,X"),
        "{page:?}"
    );
    let page = send_file(&anna, &csrf, "", b"email,name\nx@example.test,\xfc\n").await;
    assert!(page.text().contains("Line 2: This line and those below it are not UTF-8."), "{page:?}");
    let question = send_file(&anna, &csrf, "", LIST.as_bytes()).await;
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("The users were imported."), "{page:?}");
    assert!(user(&provider, "ayse@example.test").await.is_some());
}

#[tokio::test]
async fn a_list_with_a_fault_imports_nobody() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let wrong = "email,name,state\nayse@example.test,Ayşe,\nben@example.test,Ben,\nx,X,\nc@example.test,C,off\n";
    let many = (0..501).fold("email,name\n".to_owned(), |file, number| file + &format!("u{number}@example.test,U\n"));
    for (csv, faults) in [
        (
            wrong,
            &[
                "Line 3, <code>email</code>: This address belongs to another user.",
                "Line 4, <code>email</code>: Enter an address",
                "Line 5, <code>state</code>: Enter <code>enabled</code> or",
            ][..],
        ),
        ("", &["Line 1: The file is empty."]),
        ("email,name,password\n", &["Line 1: Column 3 has an unknown name."]),
        (&many, &["Line 502: At most 500 users"]),
    ] {
        for sure in [&[][..], &[("sure", "yes")]] {
            let page = press_only(&anna, IMPORT, &[&[("csv", csv)], sure].concat()).await;
            assert!(page.status == 200 && !is_confirmation(&page), "{page:?}");
            for fault in faults {
                assert!(page.text().contains(fault), "{fault}: {page:?}");
            }
        }
    }
    // The first 1,000 faults are listed.
    let short = "email,name\n".to_owned() + &"x\n".repeat(1_100);
    let page = press_only(&anna, IMPORT, &[("csv", &short)]).await;
    assert!(page.text().contains("Line 1001:") && !page.text().contains("Line 1002:"), "{page:?}");
    assert!(page.text().contains("100 more errors are not listed."), "{page:?}");
    let turkish = anna.get(&format!("{IMPORT}?lang=tr")).await;
    let page = anna.submit(&turkish, &[("csv", "email,name,password_hash\nx@example.test,X,y\n")]).await;
    assert!(page.text().contains("2. satır, <code>password_hash</code>: Yalnızca argon2"), "{page:?}");
    anna.get(&format!("{IMPORT}?lang=en")).await;
    assert!(user(&provider, "ayse@example.test").await.is_none());
    // Another administrator adds a user of the list before the confirmation.
    let question = press_only(&anna, IMPORT, &[("csv", LIST)]).await;
    add_person(&provider, 9, "berk", &[]).await;
    let page = anna.submit(&question, &[("sure", "yes")]).await;
    assert!(page.text().contains("Line 3, <code>email</code>: This address belongs to another user."), "{page:?}");
    assert!(user(&provider, "ayse@example.test").await.is_none());
    assert_eq!(events(&provider, AuditKind::UserCreated).await, []);
    // A long form is read only from a browser with a session, and a form of more than 256 KiB never.
    let form = |length| format!("csv={}", "a".repeat(length));
    let (stranger, ended) = (provider.browser(), signed_in(&provider, BEN).await);
    provider.sealgate.store.for_server().end_sessions_of_user(provider.ben.sub).await.unwrap();
    for (browser, length, status) in [
        (&stranger, 60_000, 303),
        (&stranger, 70_000, 413),
        (&ended, 70_000, 413),
        (&anna, 70_000, 400),
        (&anna, 260_000, 400),
        (&anna, 270_000, 413),
    ] {
        let request = http::Request::post(IMPORT).header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(browser.send(request, form(length)).await.status, status, "{length}");
    }
}

#[tokio::test]
async fn an_import_names_console_roles_and_a_late_list_is_not_kept() {
    let provider = provider_with("admins = \"math\"").await;
    let anna = signed_in(&provider, ANNA).await;
    let question = press_only(&anna, IMPORT, &[("csv", LIST)]).await;
    assert!(question.text().contains("Members of this group can see and change everything"), "{question:?}");
    provider.wait(301);
    let login = anna.submit(&question, &[("sure", "yes")]).await;
    assert_login(&login);
    let page = anna.sign_in(&login, ANNA).await;
    // The list may have password hashes.
    assert!(page.text().contains("id=\"import-preview\"") && !page.text().contains("ayse@"), "{page:?}");
    assert!(user(&provider, "ayse@example.test").await.is_none());
}
