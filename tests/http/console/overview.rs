//! Tests the console's first page.

use super::*;

/// Returns the overview when it has this text, after some renewals of its figures.
async fn overview_with(provider: &Provider, browser: &Browser<'_>, text: &str) -> Reply {
    for _ in 0..100 {
        let page = browser.get("/console").await;
        assert_eq!(page.status, 200, "{page:?}");
        if page.text().contains(text) {
            return page;
        }
        provider.wait(61);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the overview never has {text}: {:?}", browser.get("/console").await);
}

#[tokio::test]
async fn the_overview_counts_users_and_sign_ins() {
    let provider = provider_with("sign_in_seconds = 86400").await;
    let anna = signed_in(&provider, ANNA).await;
    signed_in(&provider, BEN).await;
    let wrong = provider.browser();
    let login = wrong.open("/account").await;
    wrong.submit(&login, &[("email", BEN), ("password", "wrong")]).await;
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let page = overview_with(&provider, &anna, "Failed: 1").await;
    assert_eq!(page.text().matches("Successful: 2").count(), 2, "{page:?}");
    let users = element(&page, "overview-users").unwrap();
    assert_eq!(users, "2", "{page:?}");
    // The figures of past hours stay when the current hour is read again.
    provider.wait(2 * 3600);
    let page = overview_with(&provider, &anna, "Successful: 2").await;
    assert!(page.text().contains("Failed: 1"), "{page:?}");
    // A day later, only the chart of days has them.
    provider.wait(82_000);
    let anna = signed_in(&provider, ANNA).await;
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let page = overview_with(&provider, &anna, "Successful: 1").await;
    assert!(page.text().contains("Successful: 3"), "{page:?}");
}

#[tokio::test]
async fn the_overview_names_what_needs_attention() {
    let provider = provider().await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    assert!(!anna.get("/console").await.text().contains("wait for your approval"));
    register(&ben, &[]).await;
    overview_with(&provider, &anna, "Clients that wait for your approval: 1.").await;
    let at = i64::try_from(provider.clock.now().seconds()).unwrap();
    let files = [("old.pem", at - 1), ("soon.pem", at + 3 * 86_400), ("new.pem", at + 90 * 86_400)];
    provider.sealgate.certificates.set(files.map(|(file, ends)| (file.into(), ends)).into());
    let page = anna.get("/console").await;
    assert!(page.text().contains("<code>old.pem</code> has expired"), "{page:?}");
    assert!(page.text().contains("<code>soon.pem</code> expires soon. Days left: 3."), "{page:?}");
    assert!(page.text().contains("<code>new.pem</code>: valid until"), "{page:?}");
    provider.sealgate.rotation.set_fault(Some("the token <refuses>".to_owned()));
    let page = anna.get("/console").await;
    assert!(page.text().contains("the token &#60;refuses&#62;"), "{page:?}");
}

#[tokio::test]
async fn the_overview_names_conditions_that_a_task_reads() {
    let directory = tempfile::tempdir().unwrap();
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = open.local_addr().unwrap().port();
    let mail = format!("[mail]\nhost = \"127.0.0.1\"\nport = {port}\ntls = \"none\"\nfrom = \"id@example.test\"\n");
    let provider = provider_with(&format!("sign_in_seconds = 86400\n{mail}")).await;
    // The file of the configuration, which other users may change.
    let mut config = (*provider.sealgate.config).clone();
    let file = directory.path().join("sealgate.toml");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    config.file = Some(file.clone());
    let sealgate = provider.sealgate.with(config);
    sealgate.in_effect.store(std::sync::Arc::clone(&sealgate.config));
    let provider = Provider { sealgate: std::sync::Arc::new(sealgate), ..provider };
    let anna = signed_in(&provider, ANNA).await;
    // The first page starts the task, and does not wait for it.
    let exposed = format!("Other users of the machine have access to <code>{}</code>", file.display());
    let page = overview_with(&provider, &anna, &exposed).await;
    assert!(!page.text().contains("accepts no connections"), "{page:?}");
    drop(open);
    overview_with(&provider, &anna, &format!("<code>127.0.0.1:{port}</code> accepts no connections")).await;
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut page = anna.get("/console").await;
    for _ in 0..100 {
        if !page.text().contains(&exposed) {
            break;
        }
        provider.wait(61);
        tokio::time::sleep(Duration::from_millis(20)).await;
        page = anna.get("/console").await;
    }
    assert!(!page.text().contains(&exposed), "{page:?}");
}
