//! `/console/audit`: the audit trail, by kind, person and client.

use http::StatusCode;

use super::Worker;
use crate::endpoint::call::Call;
use crate::endpoint::events::Written;
use crate::endpoint::failure::Failure;
use crate::endpoint::response::Response;
use crate::page::AuditLog;
use crate::protocol::audit::{AuditFilter, AuditId, AuditKind};
use crate::protocol::client::ClientId;
use crate::protocol::user::{Email, Subject};
use crate::store::AuditPage;

/// Events on a page: it stays below 30 KB.
const MOST: usize = 30;

pub(super) async fn answer(call: &Call<'_>, worker: &Worker) -> Result<Response, Failure> {
    let query = call.query()?;
    let text = |name| -> Result<String, Failure> { Ok(query.one(name)?.unwrap_or_default().trim().to_owned()) };
    let (kind, person, client) = (text("kind")?, text("person")?, text("client")?);
    let after = query.one("after")?.and_then(AuditId::parse);
    let page = match filter(call, &kind, &person, &client).await? {
        Some(filter) => call.sealgate.store.audit_page(&filter, after, MOST).await?,
        // What names nobody fits nothing, and not everything.
        None => AuditPage { records: Vec::new(), next: None },
    };
    let written: Vec<Written> = page
        .records
        .into_iter()
        .map(|record| {
            let event = record.event;
            let party = event.client.as_ref().map(ToString::to_string).or_else(|| event.app.clone());
            Written::new(event, party)
        })
        .collect();
    let lines: Vec<_> = written.iter().map(Written::line).collect();
    let next = page.next.map(|next| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("kind", &kind).append_pair("person", &person).append_pair("client", &client);
        query.append_pair("after", &next.to_string());
        call.path(&format!("/console/audit?{}", query.finish()))
    });
    let kinds = AuditKind::ALL.map(AuditKind::as_str);
    let content = AuditLog {
        events: &lines,
        next: next.as_deref(),
        kinds: &kinds,
        kind: &kind,
        person: &person,
        client: &client,
    };
    let pages = &call.sealgate.pages;
    Ok(worker.page(call, StatusCode::OK, |chrome, shell| pages.console_audit(chrome, shell, &content)))
}

/// What is wanted; nothing when something typed cannot be meant.
async fn filter(call: &Call<'_>, kind: &str, person: &str, client: &str) -> Result<Option<AuditFilter>, Failure> {
    let mut filter = AuditFilter::default();
    if !kind.is_empty() {
        let Some(kind) = AuditKind::parse(kind) else { return Ok(None) };
        filter.kinds = vec![kind];
    }
    if !person.is_empty() {
        let subject = match (Subject::parse(person), Email::parse(person)) {
            (Some(subject), _) => Some(subject),
            (None, Some(email)) => call.sealgate.store.user_by_email(&email).await?.map(|user| user.sub),
            (None, None) => None,
        };
        let Some(subject) = subject else { return Ok(None) };
        filter.subject = Some(subject);
    }
    if !client.is_empty() {
        let Some(client) = ClientId::parse(client) else { return Ok(None) };
        filter.client = Some(client);
    }
    Ok(Some(filter))
}
