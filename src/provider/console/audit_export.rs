//! `/console/audit/export`: the selected audit events as a file, of any number.
//!
//! A task reads a part of the log at a time, and waits until the client has received it. It holds no
//! snapshot of the store in between. The export stops at [`EXPORT_TIMEOUT`], when the client reads too
//! slowly, and when the session ends or the user loses the role; the client then receives an incomplete
//! body.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{Method, StatusCode};
use tokio::time::timeout;

use super::audit::AuditInput;
use crate::console::ConsoleUser;
use sealgate_admin::answer::EventAnswer;
use sealgate_admin::audit;
use sealgate_core::exports::ExportPlace;
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::session::SessionId;
use sealgate_domain::user::{Subject, User};
use sealgate_edge::{BodySender, BodyStream, navigation};
use sealgate_pages::Problem;
use sealgate_store::{Store, StoreError};

/// Number of events in a part, about 200 KiB.
const EVENTS_PER_PART: usize = 500;

/// Maximum duration of an export. 200,000 events, the default of `audit.max_records`, are about
/// 80 MiB.
const EXPORT_TIMEOUT: Duration = Duration::from_mins(15);

/// Maximum time until the client has received a part, so that it needs about 7 KiB/s.
pub(super) const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of the filter in the audit event, in bytes.
const MAX_DETAIL_BYTES: usize = 300;

/// Format of an exported file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Csv,
    Ndjson,
}

impl FileFormat {
    /// Parses the name in queries.
    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Csv, Self::Ndjson].into_iter().find(|format| format.extension() == name)
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// Returns the filtered events as a file. Records an audit event first.
pub(super) async fn export(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if navigation::is_preload(ctx.head) {
        return Err(Failure::json(StatusCode::FORBIDDEN, navigation::PRELOAD_REFUSAL));
    }
    let query = ctx.query()?;
    let format = query.one("format")?.and_then(FileFormat::parse);
    let format = format.ok_or(Failure::page(Problem::InvalidRequest))?;
    let typed = AuditInput::read(&query)?;
    let Ok(filter) = typed.filter(ctx).await? else { return Err(Failure::page(Problem::InvalidRequest)) };
    let file = format!("attachment; filename=\"audit.{}\"", format.extension());
    let response =
        Response::empty(StatusCode::OK).with(CONTENT_TYPE, format.media_type()).with(CONTENT_DISPOSITION, &file);
    if ctx.head.method == Method::HEAD {
        return Ok(response);
    }
    let place = ctx.sealgate.exports.begin(console_user.visitor.user.sub).ok_or(Failure::Unavailable)?;
    let mut detail = format!("{} {}", format.extension(), typed.query().finish());
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
    let event = console_user.event(ctx, AuditKind::AuditExported).with_detail(detail);
    ctx.sealgate.audit.record(&ctx.sealgate.store, event).await;
    ctx.sealgate.audit.store_pending(filter.as_ref().and_then(|filter| filter.subject)).await;
    let (sender, stream) = BodyStream::new();
    // The guard of the request's store is for commits, and this task only reads.
    let export = Export {
        sealgate: ctx.sealgate.clone(),
        store: ctx.sealgate.store.for_server(),
        session: console_user.visitor.session.value.id,
        user: console_user.visitor.user.sub,
        format,
        filter,
        _place: place,
    };
    tokio::spawn(export.run(sender));
    Ok(response.stream(stream))
}

/// Sends a part. Returns whether the client takes it in time.
pub(super) async fn deliver(sender: &BodySender, part: Vec<u8>) -> bool {
    timeout(PART_TIMEOUT, sender.send(Bytes::from(part))).await.unwrap_or_else(|_| {
        tracing::warn!("an export is incomplete: the client reads too slowly");
        false
    })
}

struct Export {
    sealgate: Sealgate,
    store: Store,
    session: SessionId,
    user: Subject,
    format: FileFormat,
    /// `None` if no event can match.
    filter: Option<AuditFilter>,
    _place: ExportPlace,
}

impl Export {
    async fn run(self, sender: BodySender) {
        match timeout(EXPORT_TIMEOUT, self.send(&sender)).await {
            // The last part may still be unread.
            Ok(Ok(true)) => {
                let _ = timeout(PART_TIMEOUT, sender.end()).await;
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an export of the audit log is incomplete"),
            Err(_) => tracing::warn!("an export of the audit log took too long and is incomplete"),
        }
    }

    /// Sends all events. Returns whether the file is complete.
    async fn send(&self, sender: &BodySender) -> Result<bool, StoreError> {
        let mut part = Vec::new();
        if self.format == FileFormat::Csv {
            // Writing to memory does not fail.
            let _ = audit::write_header(&mut part);
        }
        let mut after = None;
        while let Some(filter) = &self.filter {
            if !self.is_permitted().await? {
                tracing::warn!("an export of the audit log was stopped: the session or the role has ended");
                return Ok(false);
            }
            let page = self.store.audit_page(filter, after, EVENTS_PER_PART).await?;
            for event in page.records.into_iter().map(EventAnswer::from) {
                let _ = match self.format {
                    FileFormat::Csv => audit::write_row(&mut part, &event),
                    FileFormat::Ndjson => audit::write_line(&mut part, &event),
                };
            }
            if !part.is_empty() && !deliver(sender, std::mem::take(&mut part)).await {
                return Ok(false);
            }
            after = page.next;
            if after.is_none() {
                return Ok(true);
            }
        }
        Ok(part.is_empty() || deliver(sender, part).await)
    }

    /// Returns whether the user may still read the log: the session and the role exist.
    async fn is_permitted(&self) -> Result<bool, StoreError> {
        let user = signed_in_user(&self.sealgate, &self.store, self.session, self.user).await?;
        let config = self.sealgate.in_effect.load();
        Ok(user.is_some_and(|user| config.console.roles_of(&user).has_any(ConsoleRoles::READERS)))
    }
}

/// Returns the user if they are enabled and signed in in this session.
pub(super) async fn signed_in_user(
    sealgate: &Sealgate,
    store: &Store,
    session: SessionId,
    user: Subject,
) -> Result<Option<User>, StoreError> {
    let keep = sealgate.in_effect.load().sessions.keep_signed_in;
    let session = store.session(session).await?.and_then(|session| session.value.in_effect(sealgate.clock.now(), keep));
    if session.is_none_or(|session| session.sign_in_of(user).is_none()) {
        return Ok(None);
    }
    Ok(store.user(user).await?.filter(User::is_enabled))
}
