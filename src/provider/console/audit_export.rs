//! `/console/audit/export`: the selected audit events as a file, of any number.

use http::Method;

use super::audit::{self, AuditInput};
use crate::console::export::{self, Download, ExportedFile, FileFormat};
use crate::console::{ConsoleUser, confirmation};
use sealgate_admin::answer::EventAnswer;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_pages::Problem;
use sealgate_store::StoreError;

/// Number of events in a part, about 200 KiB.
const EVENTS_PER_PART: usize = 500;

/// Maximum length of the filter in the audit event, in bytes.
const MAX_DETAIL_BYTES: usize = 300;

/// Returns the filtered events as a file. Records an audit event first.
pub(super) async fn export(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let (format, response) = FileFormat::requested(ctx, "audit")?;
    let typed = AuditInput::read(&ctx.query()?)?;
    let Ok(filter) = typed.filter(ctx).await? else { return Err(Failure::page(Problem::InvalidRequest)) };
    // The events have addresses of all users.
    confirmation::require_recent(ctx, audit::PAGE).await?;
    if ctx.head.method == Method::HEAD {
        return Ok(response);
    }
    let place = ctx.sealgate.exports.begin(console_user.visitor.user.sub).ok_or(Failure::Unavailable)?;
    let mut detail = format!("{} {}", format.extension(), typed.query().finish());
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
    let event = console_user.event(ctx, AuditKind::AuditExported).with_detail(detail);
    ctx.sealgate.audit.record(&ctx.sealgate.store, event).await;
    ctx.sealgate.audit.store_pending(filter.as_ref().and_then(|filter| filter.subject)).await;
    Ok(response.stream(export::start(ctx, console_user, place, AuditExport { format, filter })))
}

struct AuditExport {
    format: FileFormat,
    /// `None` if no event can match.
    filter: Option<AuditFilter>,
}

impl ExportedFile for AuditExport {
    const CONTENT: &'static str = "the audit log";

    async fn send(&self, download: &Download) -> Result<bool, StoreError> {
        let mut part = Vec::new();
        if self.format == FileFormat::Csv {
            // Writing to memory does not fail.
            let _ = sealgate_admin::audit::write_header(&mut part);
        }
        let mut after = None;
        while let Some(filter) = &self.filter {
            let config = download.sealgate.in_effect.load_full();
            let reader = download.reader(|user| config.console.roles_of(user).has_any(ConsoleRoles::READERS)).await?;
            if reader.is_none() {
                return Ok(false);
            }
            let page = download.store.audit_page(filter, after, EVENTS_PER_PART).await?;
            for event in page.records.into_iter().map(EventAnswer::from) {
                let _ = match self.format {
                    FileFormat::Csv => sealgate_admin::audit::write_row(&mut part, &event),
                    FileFormat::Ndjson => sealgate_admin::audit::write_line(&mut part, &event),
                };
            }
            if !download.send(std::mem::take(&mut part)).await {
                return Ok(false);
            }
            after = page.next;
            if after.is_none() {
                return Ok(true);
            }
        }
        Ok(download.send(part).await)
    }
}
