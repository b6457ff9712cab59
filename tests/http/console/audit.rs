//! Tests the audit log in the console: it records the console's own actions, and can be filtered
//! and exported.

use super::*;

/// Start of each event on the page.
const ROW: &str = "class=\"event\"";

/// Writes these events to the audit log.
async fn keep(provider: &Provider, events: impl IntoIterator<Item = AuditEvent>) {
    for event in events {
        provider.sealgate.audit.note(event);
    }
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
}

/// Returns kind and actor of all records, the oldest first.
async fn trail(provider: &Provider) -> Vec<(AuditKind, Actor)> {
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let records = store.audit_page(&AuditFilter::default(), None, 1000).await.unwrap().records;
    records.iter().rev().map(|record| (record.event.kind, record.event.actor)).collect()
}

#[tokio::test]
async fn actions_in_the_console_are_audited_with_their_actor() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let id = element(&register(&anna, &[]).await, "client-id").unwrap();
    let (client, test_page) = (format!("/console/clients/{id}"), format!("/console/try/{id}"));
    signed_in(&provider, BEN).await;
    let sessions = provider.sealgate.store.sessions_of_user(provider.ben.sub, None, 9).await.unwrap().sessions;
    let (session, new_user) = (format!("session:{}", sessions[0].id), "/console/users/new".to_owned());
    let user = format!("/console/users/{}", provider.ben.sub);
    let save: Vec<(&str, &str)> = form(&[]).into_iter().chain([("action", "save")]).collect();
    for (path, fields, kind) in [
        (&client, save, AuditKind::ClientChanged),
        (&client, vec![("action", "rotate"), ("overlap_seconds", "0")], AuditKind::ClientChanged),
        (&client, vec![("action", "disable")], AuditKind::ClientChanged),
        (&test_page, vec![("action", "switch-on")], AuditKind::ClientChanged),
        (&client, vec![("action", "delete"), ("sure", "yes")], AuditKind::ClientDeleted),
        (&new_user, vec![("email", "new@example.test"), ("name", "New")], AuditKind::UserCreated),
        (&user, vec![("action", "save"), ("groups", "x")], AuditKind::UserChanged),
        (
            &user,
            vec![("action", "save-profile"), ("name", "Ben"), ("email", BEN), ("phone_number", "+90 555 111 22 33")],
            AuditKind::UserChanged,
        ),
        (&user, vec![("end", session.as_str())], AuditKind::SessionsEnded),
        (&user, vec![("action", "reset-password")], AuditKind::PasswordChanged),
        (&user, vec![("action", "disable")], AuditKind::UserDisabled),
        (&user, vec![("action", "enable")], AuditKind::UserEnabled),
        (&user, vec![("action", "revoke")], AuditKind::UserRevoked),
    ] {
        provider.wait(1);
        press(&anna, path, &fields).await;
        let all = trail(&provider).await;
        assert_eq!(all.last(), Some(&(kind, Actor::Administrator(provider.anna.sub))), "{fields:?}");
    }
    // Users are shown by address, with links to their pages. The client is deleted, so only its id
    // is shown.
    let page = anna.get("/console/audit").await;
    let link = |sub: Subject, email: &str| format!("<a href=\"/console/users/{sub}\"><bdi>{email}</bdi></a>");
    for words in [
        "Client registered",
        "Account disabled",
        "request-1",
        "192.0.2.1",
        &link(provider.anna.sub, ANNA),
        &link(provider.ben.sub, BEN),
        &format!("<td data-label=\"Application\"><bdi>{id}</bdi></td>"),
    ] {
        assert!(page.text().contains(words), "{words}: {page:?}");
    }
}

#[tokio::test]
async fn the_audit_log_shows_names_or_ids_of_deleted_objects() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let id = element(&register(&anna, &[("name", "Wiki of Anna")]).await, "client-id").unwrap();
    trail(&provider).await;
    let page = anna.get(&format!("/console/audit?client={id}")).await;
    let named = format!("<a href=\"/console/clients/{id}\"><bdi>Wiki of Anna</bdi></a>");
    assert!(page.text().contains(&named), "{page:?}");

    let (store, now, ben) = (&provider.sealgate.store, provider.sealgate.clock.now(), provider.ben.sub);
    keep(&provider, [AuditEvent::new(now, AuditKind::SignedIn, Actor::User).for_subject(ben)]).await;
    assert!(store.delete_user(ben, now).await.unwrap());
    let page = anna.get(&format!("/console/audit?person={ben}")).await;
    assert!(page.text().contains(&format!("<td data-label=\"User\"><bdi>{ben}</bdi></td>")), "{page:?}");
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_days_of_the_readers_time_zone() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    // Midnight UTC of 5 March 2001. In Istanbul, two hours ahead, that day began at 22:00 UTC on
    // the day before.
    let midnight = 983_750_400;
    let at = |hours: u64, kind| AuditEvent::new(UnixTime::from_seconds(midnight + hours * 3600), kind, Actor::Operator);
    let events = [
        AuditEvent::new(UnixTime::from_seconds(midnight - 2 * 3600 - 1), AuditKind::UserCreated, Actor::Operator),
        AuditEvent::new(UnixTime::from_seconds(midnight - 2 * 3600), AuditKind::UserChanged, Actor::Operator),
        at(0, AuditKind::UserDisabled),
        at(22, AuditKind::UserEnabled),
        at(24, AuditKind::UserDeleted),
    ];
    keep(&provider, events).await;
    let shown = async |query: &str| {
        let page = anna.get(&format!("/console/audit?{query}")).await;
        let titles = page.text().split("<summary>").skip(1).map(|rest| rest.split('<').next().unwrap());
        titles.collect::<Vec<_>>().join(" · ")
    };
    let [added, changed, disabled, enabled, deleted] =
        ["User added", "Account details changed", "Account disabled", "Account enabled", "User deleted"];
    for (query, expected) in [
        ("from=2001-03-05&to=2001-03-05", vec![enabled, disabled]),
        ("from=2001-03-05&to=2001-03-05&zone=-120", vec![disabled, changed]),
        ("to=2001-03-04", vec![changed, added]),
        ("from=2001-03-04&to=2001-03-06&kind=user_deleted", vec![deleted]),
        ("from=2001-03-06&to=2001-03-05", vec![]),
    ] {
        assert_eq!(shown(query).await, expected.join(" · "), "{query}");
    }
    for (query, field) in [("from=5.3.2001", "from"), ("to=2001-02-30", "to"), ("to=0001-01-01", "to")] {
        let page = anna.get(&format!("/console/audit?{query}")).await;
        let told = format!("id=\"{field}-wrong\">Enter a date such as 2026-11-21.");
        assert!(page.text().contains(&told), "{query}: {page:?}");
    }
}

#[tokio::test]
async fn the_audit_log_page_is_filtered_by_kind_user_and_client() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let now = provider.sealgate.clock.now();
    let events: Vec<AuditEvent> = AuditKind::ALL
        .into_iter()
        .map(|kind| AuditEvent::new(now, kind, Actor::Operator).for_subject(provider.ben.sub))
        .chain([
            AuditEvent::new(now, AuditKind::TokensIssued, Actor::Client).with_client(&ClientId::parse("c2").unwrap())
        ])
        .collect();
    keep(&provider, events).await;
    let shown = async |query: &str| {
        let page = anna.get(&format!("/console/audit?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        page.text().matches(ROW).count()
    };
    assert_eq!(shown("kind=keys_changed").await, 1);
    assert_eq!(shown("person=ben@example.test").await, 15, "as many as fit a page");
    assert_eq!(shown(&format!("person={}&kind=signed_in", provider.ben.sub)).await, 1);
    assert_eq!(shown("client=c2").await, 1);
    for nobody in ["kind=x", "person=nobody", "person=nobody@example.test", "client=%00", "client=c2&kind=signed_in"] {
        assert_eq!(shown(nobody).await, 0, "{nobody}");
    }
    let page = anna.get("/console/audit?person=nobody@example.test").await;
    assert!(page.text().contains("id=\"person-wrong\">No user was found."), "{page:?}");
    // Every kind has its own text.
    for kind in AuditKind::ALL {
        let page = anna.get(&format!("/console/audit?person=ben@example.test&kind={}", kind.as_str())).await;
        assert_eq!(page.text().matches(ROW).count(), 1, "{}", kind.as_str());
        assert!(!page.text().contains(&format!("<summary>{}<", kind.as_str())), "{}", kind.as_str());
    }
    // The second page continues where the first one ended.
    let many: Vec<AuditEvent> = (0..40)
        .map(|_| AuditEvent::new(now, AuditKind::SignedIn, Actor::User).for_subject(provider.anna.sub))
        .collect();
    keep(&provider, many).await;
    let first = anna.get("/console/audit?person=anna@example.test&kind=signed_in").await;
    assert_eq!(first.text().matches(ROW).count(), 15);
    let next = first.text().split("href=\"").find(|part| part.contains("after=")).unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    assert!(anna.get(&next).await.text().matches(ROW).count() >= 15);
}

#[tokio::test]
async fn events_within_a_second_keep_their_order() {
    let provider = provider().await;
    let (trail_of, store, now) = (&provider.sealgate.audit, &provider.sealgate.store, provider.sealgate.clock.now());
    let event = |kind| AuditEvent::new(now, kind, Actor::Stranger).for_subject(provider.ben.sub);
    // Some queued events are counted together. An operator's command is written without waiting for
    // the queue.
    trail_of.note(event(AuditKind::SignInFailed));
    trail_of.note(event(AuditKind::SignedIn));
    trail_of.note(event(AuditKind::SignInFailed).with_detail("throttled"));
    trail_of.record(store, event(AuditKind::UserDisabled)).await;
    trail_of.note(event(AuditKind::UserEnabled));
    let all = trail(&provider).await.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    let expected = [
        AuditKind::SignInFailed,
        AuditKind::SignedIn,
        AuditKind::SignInFailed,
        AuditKind::UserDisabled,
        AuditKind::UserEnabled,
    ];
    assert_eq!(all[all.len() - 5..], expected);
}

/// Returns the target of the link with this id, HTML-decoded.
fn link_of(page: &Reply, id: &str) -> Option<String> {
    let tag = page.text().split('<').find(|tag| tag.contains(&format!("id=\"{id}\"")))?;
    Some(tag.split("href=\"").nth(1)?.split('"').next()?.replace("&#38;", "&"))
}

#[tokio::test]
async fn the_audit_log_can_be_paged_both_ways_and_exported() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let now = provider.sealgate.clock.now();
    let events: Vec<AuditEvent> = (0..60)
        .map(|number| {
            AuditEvent::new(now, AuditKind::KeysChanged, Actor::Operator).with_detail(format!("rotate k{number}"))
        })
        .collect();
    keep(&provider, events).await;
    let first = "/console/audit?kind=keys_changed&zone=0";
    let details = |page: &Reply| -> Vec<String> {
        let parts = page.text().split("<code>rotate ").skip(1);
        parts.map(|part| part.split('<').next().unwrap().to_owned()).collect()
    };
    let (mut pages, mut at) = (Vec::new(), first.to_owned());
    loop {
        let page = anna.get(&at).await;
        let next = link_of(&page, "older");
        pages.push((at, page));
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    let all: Vec<String> = pages.iter().flat_map(|(_, page)| details(page)).collect();
    assert_eq!(all, (0..60).rev().map(|number| format!("k{number}")).collect::<Vec<_>>());
    assert!(link_of(&pages[0].1, "newer").is_none());
    for pair in pages.windows(2) {
        let back = anna.get(&link_of(&pair[1].1, "newer").unwrap()).await;
        assert_eq!(details(&back), details(&pair[0].1));
    }
    let file = anna.get("/console/audit/export?kind=keys_changed&zone=0&format=csv").await;
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"audit.csv\""));
    let lines: Vec<&str> = file.text().lines().collect();
    assert!(
        lines.len() == 61
            && lines[0].starts_with("\"id\",\"happened_at\",\"kind\",")
            && lines[1].contains("rotate k59"),
        "{file:?}"
    );
    let file = anna.get("/console/audit/export?kind=keys_changed&zone=0&format=ndjson").await;
    let read: Vec<serde_json::Value> = file.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(read.len() == 60 && read[59]["detail"] == "rotate k0", "{file:?}");
    // Only administrators may export, and only with valid parameters.
    let ben = signed_in(&provider, BEN).await;
    assert_eq!(ben.get("/console/audit/export?format=csv").await.status, 403);
    for wrong in ["format=xml", "", "format=csv&person=nobody"] {
        assert_eq!(anna.get(&format!("/console/audit/export?{wrong}")).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn an_export_requires_a_sign_in_of_the_last_five_minutes() {
    let provider = provider().await;
    let now = provider.sealgate.clock.now();
    keep(&provider, vec![AuditEvent::new(now, AuditKind::KeysChanged, Actor::Operator)]).await;
    let anna = signed_in(&provider, ANNA).await;
    let export = "/console/audit/export?kind=keys_changed&format=";
    for format in ["csv", "ndjson"] {
        provider.wait(300);
        assert_eq!(anna.get(&format!("{export}{format}")).await.status, 200);
        provider.wait(1);
        let login = anna.open(&format!("{export}{format}")).await;
        assert_login(&login);
        // The user returns to the log, and downloads it from there.
        let page = anna.sign_in(&login, ANNA).await;
        let link = format!("/console/audit/export?zone=0&format={format}");
        assert!(page.text().contains(&format!("href=\"{}\"", link.replace('&', "&#38;"))), "{page:?}");
        // With `download`, a browser would save the sign-in page as the file.
        assert!(!page.text().contains(" download>"), "{page:?}");
        assert_eq!(anna.get(&link).await.status, 200);
    }
}

#[tokio::test]
async fn an_export_has_all_events_of_the_selection_and_is_recorded() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let now = provider.sealgate.clock.now();
    let event = AuditEvent::new(now, AuditKind::KeysChanged, Actor::Operator);
    keep(&provider, vec![event; 2_600]).await;
    assert!(anna.get("/console/audit?kind=keys_changed").await.text().contains("Exports all events"));
    for format in ["ndjson", "csv"] {
        let file = anna.get(&format!("/console/audit/export?kind=keys_changed&format={format}")).await;
        assert_eq!(file.text().lines().count(), 2_600 + usize::from(format == "csv"));
        let filter = AuditFilter { kinds: vec![AuditKind::AuditExported], ..AuditFilter::default() };
        let events = provider.sealgate.store.audit_page(&filter, None, 1).await.unwrap().records;
        let event = &events[0].event;
        assert_eq!(event.actor, Actor::Administrator(provider.anna.sub));
        assert_eq!(event.detail.as_deref(), Some(format!("{format} kind=keys_changed&zone=0").as_str()));
    }
}

#[tokio::test]
async fn an_export_ends_when_the_user_loses_the_role_or_the_session() {
    for ends_session in [false, true] {
        let provider = provider().await;
        let anna = signed_in(&provider, ANNA).await;
        let event = AuditEvent::new(provider.clock.now(), AuditKind::KeysChanged, Actor::Operator);
        keep(&provider, vec![event; 5_000]).await;
        let mut parts = anna.stream("/console/audit/export?format=ndjson").await;
        assert!(parts.next().await.unwrap().is_some());
        if ends_session {
            provider.sealgate.store.for_server().end_sessions_of_user(provider.anna.sub).await.unwrap();
        } else {
            give(&provider, provider.anna.sub, None).await;
        }
        let mut received = 1;
        let end = loop {
            match parts.next().await {
                Ok(Some(_)) => received += 1,
                end => break end,
            }
        };
        assert!(end.is_err() && received < 5, "{received} parts, {end:?}");
    }
}

/// Waits until this number of exports run.
async fn running(provider: &Provider, count: usize) {
    let came = tokio::time::timeout(Duration::from_secs(20), async {
        while provider.sealgate.exports.running() != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(came.await.is_ok(), "{} exports run, not {count}", provider.sealgate.exports.running());
}

#[tokio::test]
async fn few_exports_run_at_the_same_time_and_one_for_each_user() {
    let provider = provider().await;
    let event = AuditEvent::new(provider.clock.now(), AuditKind::KeysChanged, Actor::Operator);
    keep(&provider, vec![event; 3_000]).await;
    for number in 0..4_u8 {
        let (sub, email) = (Subject::from_bytes([number; 16]), Email::parse(&format!("reader{number}@example.test")));
        let reader = User { sub, email, username: None, roles: [Role::Auditor].into(), ..provider.anna.clone() };
        assert_eq!(provider.sealgate.store.add_user(&reader).await.unwrap(), AddOutcome::Added);
    }
    give(&provider, provider.ben.sub, Some(Role::Auditor)).await;
    let path = "/console/audit/export?format=csv";
    let ben = signed_in(&provider, BEN).await;
    let mut streams = vec![ben.stream(path).await];
    // The second export of the same user, also in another browser.
    for browser in [&ben, &signed_in(&provider, BEN).await] {
        assert_eq!(browser.get(path).await.status, 503);
    }
    let mut readers = Vec::new();
    for number in 0..4_u8 {
        readers.push(signed_in(&provider, &format!("reader{number}@example.test")).await);
    }
    for reader in &readers[..3] {
        streams.push(reader.stream(path).await);
    }
    assert_eq!((readers[3].get(path).await.status, provider.sealgate.exports.running()), (503, 4));
    // A reader that has gone does not keep its place.
    drop(streams);
    running(&provider, 0).await;
    assert_eq!(ben.get(path).await.status, 200);
}

#[tokio::test]
async fn an_export_whose_reader_is_stuck_ends() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let event = AuditEvent::new(provider.clock.now(), AuditKind::KeysChanged, Actor::Operator);
    keep(&provider, vec![event; 3_000]).await;
    let path = "/console/audit/export?format=csv";
    let mut parts = anna.stream(path).await;
    assert!(parts.next().await.unwrap().is_some());
    tokio::time::pause();
    let mut seconds = 0;
    while provider.sealgate.exports.running() == 1 {
        tokio::time::advance(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds < 60, "the export waits for its reader");
    }
    tokio::time::resume();
    assert!(seconds >= 25, "{seconds}");
    let mut received = 1;
    let end = loop {
        match parts.next().await {
            Ok(Some(_)) => received += 1,
            end => break end,
        }
    };
    assert!(end.is_err() && received < 4, "{received} parts, {end:?}");
}

#[tokio::test]
async fn filters_are_saved_for_their_user_and_deleted() {
    let provider = provider().await;
    give(&provider, provider.ben.sub, Some(Role::Admin)).await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let path = "/console/audit?kind=keys_changed&result=succeeded&zone=0";
    assert!(!anna.get("/console/audit").await.text().contains("filter-name"));
    let page = anna.get(path).await;
    let (csrf, filter) = (csrf_of(&page), "kind=keys_changed&result=succeeded&zone=0&after=x&evil=%22");
    let send = async |browser: &Browser<'_>, csrf: &str, action: &str, name: &str| {
        let fields = [("csrf", csrf), ("action", action), ("filter-name", name), ("filter", filter)];
        browser.post("/console/audit", &fields).await
    };
    assert_eq!(send(&anna, "", "save-filter", "Keys").await.status, 400);
    assert_eq!(send(&anna, &csrf, "sell", "Keys").await.status, 400);
    let done = send(&anna, &csrf, "save-filter", " Keys <b> ").await;
    assert_eq!(done.location(), format!("{path}&done=filter-saved"));
    let page = anna.get("/console/audit").await;
    let link = format!("<a href=\"{}\"><bdi>Keys &#60;b&#62;</bdi></a>", path.replace('&', "&#38;"));
    assert!(page.text().contains(&link), "{page:?}");
    assert!(!ben.get("/console/audit").await.text().contains("Keys &#60;b&#62;"));
    for name in ["", " ", "a\nb", &"x".repeat(61)] {
        let page = send(&anna, &csrf, "save-filter", name).await;
        assert!(page.text().contains("id=\"filter-wrong\""), "{name:?}: {page:?}");
    }
    for number in 0..19 {
        assert_eq!(send(&anna, &csrf, "save-filter", &format!("f{number}")).await.status, 303);
    }
    let page = send(&anna, &csrf, "save-filter", "one more").await;
    assert!(page.text().contains("You have 20 saved filters."), "{page:?}");
    assert_eq!(send(&anna, &csrf, "save-filter", "f1").await.status, 303, "a filter is replaced");
    assert_eq!(send(&anna, &csrf, "delete-filter", "f1").await.location(), "/console/audit?done=filter-deleted");
    let saved = async || provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().audit_filters.len();
    assert_eq!(saved().await, 19);
    give(&provider, provider.anna.sub, Some(Role::Developer)).await;
    assert_eq!(send(&anna, &csrf, "delete-filter", "f2").await.status, 403);
    assert_eq!(saved().await, 19);
}

#[tokio::test]
async fn the_live_view_reloads_a_limited_number_of_times() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    // Otherwise each page waits for the writer of queued events, which does not run here.
    trail(&provider).await;
    let page = anna.get("/console/audit?kind=signed_in").await;
    assert_eq!(page.header("refresh"), None);
    let mut at = link_of(&page, "live-start").unwrap();
    let mut reloads = 0;
    loop {
        let page = anna.get(&at).await;
        let Some(refresh) = page.header("refresh") else {
            assert!(page.text().contains("The live view has ended."), "{page:?}");
            break;
        };
        let next = refresh.strip_prefix("5;url=").unwrap().to_owned();
        assert!(next.contains("kind=signed_in"), "{next}");
        assert!(link_of(&page, "live-stop").is_some_and(|stop| !stop.contains("live=")), "{page:?}");
        (at, reloads) = (next, reloads + 1);
    }
    assert_eq!(reloads, 120);
    assert!(anna.get("/console/audit?live=99999999").await.header("refresh").unwrap().contains("live=119"));
    assert_eq!(anna.get("/console/audit?live=x").await.header("refresh"), None);
    // Without the role, the browser gets an error page, and no further reload.
    give(&provider, provider.anna.sub, None).await;
    let page = anna.get(&at.replace("live=0", "live=5")).await;
    assert!(page.status == 403 && page.header("refresh").is_none(), "{page:?}");
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_result_and_address() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let event = |kind, last: u8| {
        let event = AuditEvent::new(provider.clock.now(), kind, Actor::Stranger);
        event.from_request([203, 0, 113, last].into(), "request")
    };
    let events = [event(AuditKind::SignInFailed, 9), event(AuditKind::SignedIn, 9), event(AuditKind::FactorFailed, 10)];
    keep(&provider, events).await;
    for (query, count) in [
        ("address=203.0.113.9", 2),
        ("address=203.0.113.9&result=failed", 1),
        ("address=203.0.113.9&result=succeeded", 1),
        ("address=203.0.113.9&result=failed&kind=signed_in", 0),
        ("address=203.0.113.10&result=other", 1),
        ("address=203.0.113.11", 0),
    ] {
        let page = anna.get(&format!("/console/audit?{query}")).await;
        assert_eq!(page.text().matches(ROW).count(), count, "{query}: {page:?}");
        let file = anna.get(&format!("/console/audit/export?format=ndjson&{query}")).await;
        assert_eq!(file.text().lines().count(), count, "{query}: {file:?}");
    }
    let page = anna.get("/console/audit?address=203.0.113.9&result=failed").await;
    let link = page.text().split("id=\"audit-reload\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(link.contains("address=203.0.113.9") && link.contains("result=failed"), "{link}");
    assert!(!page.text().contains("id=\"audit-chart\""), "{page:?}");
    let page = anna.get("/console/audit?address=nowhere").await;
    assert!(page.text().contains("id=\"address-wrong\"") && !page.text().contains(ROW), "{page:?}");
}
